// The frame of the step view: what stands where, and which theme it wears.
import { h, icon } from "./dom.js";
import { toggleFullScreen } from "./fullscreen.js";
import { HELP } from "./keys.js";
import { exportPage } from "./live.js";
import { cancelButton } from "./progress.js";
import { frameSplitter } from "./splitter.js";
import { goLast, stepRewrite, togglePlay } from "./walk.js";

/**
 * The elements of the view, by name; what is pressed is asked of the view.
 * @param {any} view
 */
export function buildFrame(view) {
  const button = (/** @type {string} */ name, /** @type {string | Node} */ face, /** @type {() => void} */ act, cls = "") => h("button", { type: "button", class: `ctl ${cls}`, "aria-label": name, title: name, onclick: act }, face);
  const title = h("div", { class: "title" });
  const counts = h("div", { class: "counts" });
  const badge = h("span", { class: "badge" });
  const traceTabs = h("div", { class: "traces", role: "tablist", "aria-label": "Compilations" });
  const ribbon = h("nav", { class: "ribbon", "aria-label": "Pipeline" });
  const filterBox = /** @type {HTMLInputElement} */ (h("input", { class: "filter", type: "search", "aria-label": "Filter", placeholder: "/ filter", autocomplete: "off", spellcheck: "false", oninput: () => view._filtered() }));
  const list = h("div", { class: "list", role: "tree", "aria-label": "Passes", tabindex: 0 });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Panes" });
  const sides = h("div", { class: "sides", role: "group", "aria-label": "Which side" });
  const pane = h("div", { class: "pane", role: "tabpanel" });
  const card = h("aside", { class: "card", "aria-label": "Op" });
  const status = h("div", { class: "status", role: "status", "aria-live": "polite" });
  const spark = h("div", { class: "sparkbox" });
  const play = button("Play", icon("play"), () => togglePlay(view));
  const run = button("Run", "Run", () => view.ask("run"), "text primary");
  const full = button("Full screen", icon("full"), () => toggleFullScreen(view), "full");
  const place = h("span", { class: "muted rewrites" });
  const stepper = h("div", { class: "buttons stepper", hidden: true }, button("Previous rewrite", "‹", () => stepRewrite(view, -1), "thin"), place, button("Next rewrite", "›", () => stepRewrite(view, 1), "thin"));
  const cancel = cancelButton(view);
  const actions = h("div", { class: "buttons actions" });
  const bar = h("progress", { class: "progress", "aria-label": "Compiling", hidden: true });
  const help = h("div", { class: "help", hidden: true, role: "dialog", "aria-label": "Keys", tabindex: 0 }, h("h3", {}, "Keys"), h("dl", {}, HELP.flatMap(([k, v]) => [h("dt", {}, k.split(" ").map((x) => h("kbd", {}, x))), h("dd", {}, v)])));
  const foot = h(
    "footer",
    { role: "group", "aria-label": "Stepping" },
    h("div", { class: "buttons" }, button("First pass", icon("first"), () => view.go(0)), button("Previous pass", icon("previous"), () => view.previous(), "wide"), button("Next pass", icon("next"), () => view.next(), "wide next"), button("Last pass", icon("last"), () => goLast(view)), play),
    stepper,
    status,
    cancel,
    spark,
    actions,
    h("div", { class: "buttons" }, run, button("Export", "Export", () => exportPage(view), "text"), full, button("Keys", "?", () => view.toggleHelp())),
  );
  const root = h(
    "div",
    { class: "root", tabindex: 0, role: "application", "aria-label": "Compilation, pass by pass", data: { "lm-suppress-shortcuts": "true" } },
    h("header", { role: "group", "aria-label": "Compilation" }, title, counts, badge),
    traceTabs,
    h("div", { class: "bar" }, ribbon, filterBox, bar),
    h("div", { class: "main" }, list, frameSplitter(view, "list", "Width of the passes"), h("section", { class: "middle" }, h("div", { class: "tabrow" }, tabs, sides), pane), frameSplitter(view, "card", "Width of the pane"), card),
    foot,
    help,
  );
  return { title, counts, badge, traceTabs, ribbon, filterBox, list, tabs, sides, pane, card, status, spark, play, run, full, help, place, stepper, bar, actions, cancel, root };
}

/**
 * The host's theme: JupyterLab's and VS Code's own word where they give it, else the system's.
 * @param {HTMLElement} root
 * @returns {() => void} what stops it
 */
export function followTheme(root) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
    const page = document.documentElement.dataset.theme;
    let dark = media.matches;
    if (jpThemeLight) dark = jpThemeLight === "false";
    else if (vscodeThemeKind) dark = !/light/.test(vscodeThemeKind);
    else if (page) dark = page === "dark";
    root.dataset.theme = dark ? "dark" : "light";
  };
  const watcher = new MutationObserver(apply);
  media.addEventListener("change", apply);
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  apply();
  return () => {
    media.removeEventListener("change", apply);
    watcher.disconnect();
  };
}

/** Show or hide what the notebook keeps for when no kernel is there. @param {string} ident @param {boolean} on */
export function showSaved(ident, on) {
  if (ident) for (const box of document.querySelectorAll(`.xlanb-static[data-ident="${ident}"]`)) /** @type {any} */ (box).showSaved?.(on);
}
