// What needs a kernel: editing, switching passes off, forking, measuring; and what it answers.
import { hearOffer } from "./attempt.js";
import { download, h } from "./dom.js";
import { merge, Store } from "./store.js";
import { orderOf } from "./order.js";
import { stopClock } from "./progress.js";
import { isWhole } from "./scene.js";
import { linesOf, textOf } from "./text.js";
import { adopt } from "./traits.js";
import { togglePlay } from "./walk.js";

const NOTHING = { added: new Set(), removed: new Set(), changed: new Set() };
const PATIENCE_MS = 4000;

/** Ask whether a kernel is there: a notebook may bring the widget back without one. @param {any} view @returns {() => void} what stops it */
export function greet(view) {
  if (!view.model.send) return () => {};
  view.behind = true;
  view.waitingForHello = setTimeout(() => {
    if (view.waiting) return;
    view.away = true;
    view.behind = view.queued = false;
    view.update();
  }, PATIENCE_MS);
  view.model.send({ type: "hello" });
  return () => clearTimeout(view.waitingForHello);
}

/**
 * Take in a message from the kernel.
 * @param {any} view the step view
 * @param {any} message
 */
export function receive(view, message) {
  clearTimeout(view.waitingForHello);
  view.away = false; // whatever it says, it is there
  if (message.type === "here") {
    view.behind = message.revision > view.payload.revision; // stages came before there was a view
    if (view.behind) view.model.send({ type: "sync" });
  } else if (message.type === "delta") takeDelta(view, message);
  else if (message.type === "error") {
    view.error = message.message;
    view.queued = false;
    if (view.timer) togglePlay(view);
  } else if (message.type === "edit-error") {
    if (view.editing) view.editing.fault = { line: message.line || 1, column: message.column || 1, message: message.message };
  } else if (message.type === "passes") view.ordering = { trace: view.trace, stage: message.stage, tree: message.tree, first: JSON.stringify(orderOf(message.tree)), focus: message.tree[0]?.id ?? -1 };
  else if (message.type === "weighed" || message.type === "attempted") hearOffer(view, message);
  else if (message.type === "progress") view.progress = message;
  else if (message.type === "page") download(message.html, message.name || "xlanb.html");
  if (["done", "error", "page", "edit-error"].includes(message.type)) {
    if (message.type === "done" && view.waiting === "edit") view.editing = null;
    view.waiting = "";
    view.progress = null;
    stopClock(view);
  }
  view.update();
  goAsked(view);
}

/** Take in the whole payload, sent again. @param {any} view */
export function takeWhole(view) {
  view.payload = view.model.get("payload");
  view.store = new Store(view.payload);
  view.behind = false;
  adopt(view, true);
  view.update();
  goAsked(view);
}

/** Go where a key asked to that was quicker than the kernel. @param {any} view */
function goAsked(view) {
  if (!view.queued || view.waiting || view.behind) return;
  view.queued = false;
  view.next();
}

/** @param {any} view @param {any} message */
function takeDelta(view, message) {
  const follow = (view.waiting && !["load", "numerics", "worth"].includes(view.waiting) && view.stage >= view.current.stages.length - 1) || view.waiting === "to" || (view.waiting === "run" && view.wasLast);
  const before = view.current.stages.length;
  const known = view.payload.order.length;
  if (!merge(view.payload, message.delta)) {
    view.behind = true;
    view.model.send?.({ type: "sync" });
  }
  if (message.delta.fills?.length) view.store = new Store(view.payload); // else what was looked up stays so: a delta only adds
  const branched = view.payload.order.length > known && ["edit", "fork", "toggle", "reorder", "attempt"].includes(view.waiting);
  const to = message.trace ?? (branched ? view.payload.order.at(-1) : undefined);
  if (to !== undefined && to !== view.trace && view.payload.traces[to]) {
    view.trace = to;
    const failed = view.current.stages.findIndex((/** @type {any} */ s) => s.e);
    const made = view.waiting === "attempt" ? (view.madeAt ?? view.stage) : view.stage + 1;
    view.stage = failed >= 0 ? failed : Math.max(0, Math.min(made, view.current.stages.length - 1)); // where it broke, or the first that is new
    view.ordering = null;
    view.rewrite = -1;
    view.graph.touched = false;
  }
  if (!view.payload.order.includes(view.trace)) view.trace = view.payload.order.at(-1) ?? 0;
  if (view.wanted) adopt(view, true);
  if (message.jump === "none") return;
  if (follow && message.jump === "last") view.stage = view.current.stages.length - 1;
  else if (follow && view.current.stages.length > before) view.stage = before;
}

/** Write the view as a page: a page without a kernel holds itself, else the kernel writes it. @param {any} view */
export function exportPage(view) {
  const page = view.model.get("page");
  if (typeof page === "function") download(page(), `${view.current.name || "xlanb"}.html`);
  else if (view.away) view.say("No kernel is running to write the page.");
  else view.ask("export");
}

/** What can be done at a stage where a kernel is behind. @param {any} view @returns {{label: string, title: string, act(): void}[]} */
export function actionsAt(view) {
  const stage = view.now;
  const kind = stage && view.store.artifact(stage.a)?.k;
  const out = [];
  if (view.can.fork && stage && (kind === "module" || kind === "graph")) out.push({ label: "Fork", title: "start a second branch of the compilation after this stage", act: () => view.ask("fork") });
  if (view.can.edit && kind === "module") out.push({ label: "Edit", title: "edit the program at this stage, and continue", act: () => startEdit(view) });
  if (view.can.reorder && kind === "module") out.push({ label: "Reorder", title: "reorder the remaining passes, and compile again from here", act: () => view.ask("passes") });
  if (view.can.worth && stage && view.current.counts?.passes) out.push({ label: "Worth", title: "measure each pass: compile and run the program without each in turn", act: () => view.ask("worth") });
  return out;
}

/** Switch a pass off or on again, from the next branch on. @param {any} view @param {string} name @param {boolean} off */
export function togglePass(view, name, off) {
  view.ask("toggle", { name, off });
  view.say(`${name} is ${off ? "off" : "on"} from now on: step on, or fork at a stage before it, to see what that does.`);
}

/** Let the text of a stage be edited. @param {any} view */
export function startEdit(view) {
  const artifact = view.store.artifact(view.now?.a ?? -1);
  if (!artifact || artifact.k !== "module") return view.say("Only HLO can be edited: go to a stage of HLO.");
  const source = linesOf(artifact, view.payload, NOTHING, "after");
  if (!isWhole(artifact, view.payload) || source.lines.some((/** @type {any} */ l) => /\.\.\. \([\d,]+ more characters\)$/.test(l.text))) return view.say("This text is too large to be edited here: this page does not contain all of it.");
  view.editing = { trace: view.trace, stage: view.stage, text: textOf(source), fault: null };
  return view.show("Text");
}

/** The text as one can change it, with what the compiler says about it in its place. @param {any} view */
export function editor(view) {
  const state = view.editing;
  const area = /** @type {HTMLTextAreaElement} */ (h("textarea", { class: "editor", "aria-label": "Program text, editable", spellcheck: "false", wrap: "off", oninput: () => { state.text = area.value; } }));
  area.value = state.text;
  area.addEventListener("keydown", (e) => e.stopPropagation());
  const send = () => {
    state.fault = null;
    view.ask("edit", { trace: state.trace, stage: state.stage, text: state.text });
  };
  const stop = () => {
    view.editing = null;
    view.update();
  };
  const busy = view.waiting === "edit";
  const name = view.payload.traces[state.trace].stages[state.stage].name;
  const tools = h("div", { class: "tools", role: "group", "aria-label": "Editing" }, h("span", { class: "muted" }, `The program after ${name}, as edited`), h("span", { class: "gap" }), h("button", { type: "button", class: "tool", onclick: stop }, "Cancel"), h("button", { type: "button", class: "tool primary", disabled: busy, onclick: send }, busy ? "Compiling…" : "Continue from here"));
  const fault = state.fault;
  const parts = [tools, fault ? faultOf(fault, state.text) : null, area];
  if (fault) {
    const lines = state.text.split("\n");
    const from = lines.slice(0, fault.line - 1).reduce((/** @type {number} */ t, /** @type {string} */ l) => t + l.length + 1, 0);
    queueMicrotask(() => {
      area.focus({ preventScroll: true });
      area.setSelectionRange(from, from + (lines[fault.line - 1] || "").length);
      area.scrollTop = Math.max(0, (fault.line - 4) * 19);
    });
  }
  return h("div", { class: "textpane" }, parts);
}

/** @param {{line: number, column: number, message: string}} fault @param {string} text */
function faultOf(fault, text) {
  const line = text.split("\n")[fault.line - 1] || "";
  return h("div", { class: "banner", role: "alert" }, h("b", {}, `Line ${fault.line}, column ${fault.column}`), h("pre", {}, fault.message.includes(line.trim()) ? fault.message : `${line}\n${" ".repeat(Math.max(0, fault.column - 1))}^\n${fault.message}`));
}
