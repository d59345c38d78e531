// What XLA:GPU made: launches as a timeline, kernels as a table, and a card of each with its code.
import { figure } from "./charts.js";
import { bytes, grouped, h, plural, s, time } from "./dom.js";
import { TextPane } from "./textpane.js";

/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {{kernel: string, form: string, sort: number, down: boolean}} Chosen */

const WIDE = 900;
const BAR = 26;
/** The language of each form of code. @type {Record<string, string>} */
const LANGUAGE_OF = { hlo: "hlo", triton: "llvm", llvm: "llvm", llvm_optimized: "llvm", ptx: "ptx", sass: "sass" };
/** Columns of the table: title, place in a kernel's row, how it is written. @type {[string, number, (v: any) => string][]} */
const COLUMNS = [
  ["time", 1, (v) => time(v)],
  ["times", 0, (v) => grouped(v)],
  ["bound by", 2, String],
  ["registers", 3, String],
  ["spills", 4, (v) => (v ? bytes(v) : "0")],
  ["occupancy", 5, (v) => `${Math.round(100 * v)} %`],
  ["limited by", 6, String],
  ["blocks", 7, (v) => grouped(v)],
  ["threads", 8, String],
  ["flops", 9, (v) => grouped(Math.round(v))],
  ["bytes", 10, bytes],
  ["made by", 11, String],
];
const WORDS_COLUMNS = ["bound by", "limited by", "made by"];

/** What was chosen in each record's view: it stays when the pane is drawn again. @type {WeakMap<Artifact, Chosen>} */
const CHOSEN = new WeakMap();

/** Figures, the timeline, the table of kernels, the card of the chosen one. @param {Artifact} record */
export function kernelsView(record) {
  const chosen = CHOSEN.get(record) || { kernel: record.kernels[0]?.n || "", form: "ptx", sort: -1, down: true };
  CHOSEN.set(record, chosen);
  const body = h("div", { class: "kernels", role: "region", "aria-label": "Kernels", tabindex: 0 });
  const card = h("section", { class: "kernelcard", "aria-label": "Kernel" });
  const list = h("div", { class: "kernellist" });
  const choose = (/** @type {string} */ name) => {
    if (!record.kernels.some((/** @type {any} */ k) => k.n === name)) return;
    chosen.kernel = name;
    for (const row of list.querySelectorAll("tr[data-kernel]")) row.setAttribute("aria-selected", String(row.getAttribute("data-kernel") === name));
    showCard(record, chosen, card);
  };
  const launches = record.launches.filter((/** @type {any[]} */ x) => x[4]);
  body.append(h("div", { class: "figures" }, figure(record.device || "a GPU", "compiled for"), figure(String(record.kernels.length), "kernels"), launches.length ? figure(String(launches.length), "launches in order") : null, record.s ? figure(time(record.s), "per run, by a roofline") : null));
  if (record.note) body.append(h("p", { class: "note inline" }, record.note));
  if (launches.length) body.append(h("h4", {}, "Launches", h("small", {}, "across: estimated time · one row per stream; above them the loops and CUDA graphs that contain launches")), launchChart(record, choose));
  const draw = () => list.replaceChildren(kernelTable(record, chosen, choose, draw));
  draw();
  body.append(h("h4", {}, "Kernels", h("small", {}, "click a heading to sort, a row for its code")), list, card);
  showCard(record, chosen, card);
  return body;
}

/** @param {any[]} x a launch */
const launchWords = (x) => [`${x[2] || x[1]}${x[3] && x[3] !== x[2] ? ` (${x[3]})` : ""}: ${x[1]}${x[11] && x[11] !== "control" ? `, ${x[11]}` : ""}`, x[13][0] ? `${x[12].join(" × ")} blocks of ${x[13].join(" × ")} threads` : "", x[6] ? `${time(x[6])}${x[7] > 1 ? ` in ${x[7]} rounds` : ""}${x[8] ? `, bound by ${x[8]}` : ""}` : "", x[9]].filter((t) => t).join("\n");

/** @param {string} engine */
const launchClass = (engine) => (engine === "control" ? "holds" : engine === "NCCL" ? "network" : engine === "memory" ? "moves" : engine ? "library" : "code");

/** @param {Artifact} record @param {(name: string) => void} choose */
function launchChart(record, choose) {
  const holders = record.launches.filter((/** @type {any[]} */ x) => !x[4]);
  const depths = holders.length ? Math.max(...holders.map((/** @type {any[]} */ x) => x[10])) + 1 : 0;
  const rows = [...new Set(record.launches.map((/** @type {any[]} */ x) => x[4]).filter((/** @type {string} */ r) => r))];
  const top = depths * 18;
  const svg = s("svg", { class: "chart launches", viewBox: `0 0 ${WIDE} ${top + rows.length * (BAR + 20) + 6}`, role: "img", "aria-label": `Launches: ${rows.join(", ")}` });
  const whole = record.s || 1;
  const X = (/** @type {number} */ v) => (record.s ? (v / whole) * WIDE : 0);
  rows.forEach((name, k) => svg.append(s("text", { class: "peak", x: 4, y: top + k * (BAR + 20) + 12 }, name)));
  record.launches.forEach((/** @type {any[]} */ x, /** @type {number} */ k) => {
    const held = !x[4];
    if (held && record.s && !x[6]) return; // it only waits
    const left = record.s ? X(x[5]) : (k / record.launches.length) * WIDE;
    const wide = Math.max(1.5, (record.s ? X(x[6]) : WIDE / record.launches.length) - 0.6);
    const y = held ? x[10] * 18 + 2 : top + rows.indexOf(x[4]) * (BAR + 20) + 16;
    const name = held ? `${x[1]}${x[9] ? `, ${x[9]}` : ""}` : x[3] || x[2];
    const box = s("g", { class: `value ${launchClass(x[11])}`, data: x[3] ? { op: x[3] } : {}, onclick: () => choose(x[2]) }, s("rect", { x: left, y, width: wide, height: held ? 14 : BAR, rx: 2 }), s("title", {}, launchWords(x)));
    if (wide > 46) box.append(s("text", { x: left + 4, y: y + (held ? 11 : BAR / 2 + 4) }, name.length * 7 < wide - 8 ? name : `${name.slice(0, Math.floor(wide / 7) - 2)}…`));
    svg.append(box);
  });
  return svg;
}

/** Kernels, sorted by a column. @param {Artifact} record @param {Chosen} chosen @param {(name: string) => void} choose @param {() => void} draw */
function kernelTable(record, chosen, choose, draw) {
  const kernels = [...record.kernels];
  const value = (/** @type {any} */ k) => (chosen.sort < 0 ? 0 : chosen.sort === 0 ? k.n : k.row[COLUMNS[chosen.sort - 1][1]] ?? -1);
  if (chosen.sort >= 0) kernels.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (chosen.down ? -1 : 1));
  const head = (/** @type {string} */ title, /** @type {number} */ k) => {
    const on = chosen.sort === k;
    const sort = () => {
      chosen.down = on ? !chosen.down : k > 0 && !WORDS_COLUMNS.includes(title);
      chosen.sort = k;
      draw();
    };
    return h("th", { scope: "col", class: k && !WORDS_COLUMNS.includes(title) ? "right" : "", "aria-sort": on ? (chosen.down ? "descending" : "ascending") : null }, h("button", { type: "button", class: "sort", onclick: sort }, title, on ? (chosen.down ? " ↓" : " ↑") : ""));
  };
  const rows = kernels.map((k) =>
    h(
      "tr",
      { data: { kernel: k.n, ...(k.op ? { op: k.op } : {}) }, "aria-selected": String(k.n === chosen.kernel), onclick: () => choose(k.n) },
      h("td", { class: "mono" }, h("button", { type: "button", class: "sort" }, k.n)),
      COLUMNS.map(([title, at, write]) => h("td", { class: WORDS_COLUMNS.includes(title) ? "" : "num" }, k.row[at] === null || k.row[at] === undefined ? "" : write(k.row[at]))),
    ),
  );
  return h("table", {}, h("thead", {}, h("tr", {}, head("kernel", 0), COLUMNS.map(([title], k) => head(title, k + 1)))), h("tbody", {}, rows));
}

/** The card of the chosen kernel: what is known, then its code in the chosen form. @param {Artifact} record @param {Chosen} chosen @param {HTMLElement} card */
function showCard(record, chosen, card) {
  const kernel = record.kernels.find((/** @type {any} */ k) => k.n === chosen.kernel);
  if (!kernel) return card.replaceChildren();
  const there = record.forms.filter((/** @type {string[]} */ f) => kernel.code[f[0]] || kernel.cut[f[0]]);
  const form = there.find((/** @type {string[]} */ f) => f[0] === chosen.form) || there[there.length - 1];
  const tab = (/** @type {string[]} */ f) =>
    h("button", { type: "button", role: "tab", "aria-selected": String(f === form), onclick: () => {
      chosen.form = f[0];
      showCard(record, chosen, card);
    } }, f[1]);
  const facts = kernel.facts.map((/** @type {string[]} */ f) => [h("dt", {}, f[0]), h("dd", f[0] === "HLO" && kernel.op ? { data: { op: kernel.op } } : {}, f[1])]);
  return card.replaceChildren(h("h4", {}, kernel.n), h("dl", {}, facts.flat()), h("div", { class: "tabs", role: "tablist", "aria-label": "Forms of the code" }, there.map(tab)), form ? codeOf(kernel, form[0]) : h("p", { class: "empty" }, "The dump contains no code of this kernel."));
}

/** @param {any} kernel @param {string} form */
function sourceOf(kernel, form) {
  const lines = (kernel.code[form] || []).map((/** @type {string} */ text, /** @type {number} */ k) => ({ text, op: "", mark: "", number: k + 1, heading: "", section: "", loop: "" }));
  return { lines, language: LANGUAGE_OF[form] };
}

/** @param {any} kernel @param {string} form */
function noteOf(kernel, form) {
  const cut = kernel.cut[form];
  const shown = kernel.code[form]?.length || 0;
  return cut ? `Shown: ${grouped(shown)} of ${plural(cut, "line")}; the kernel's .code.${form} has them all.` : "";
}

/** The code in one form; SASS beside its PTX, the lines of which light up. @param {any} kernel @param {string} form */
function codeOf(kernel, form) {
  const pane = (/** @type {string} */ f) => {
    const made = new TextPane({ say: () => undefined }, { plain: true });
    made.show(sourceOf(kernel, f), { has: () => false }, noteOf(kernel, f));
    made.body.setAttribute("aria-label", f);
    return made;
  };
  if (form !== "sass" || !kernel.code.ptx || !kernel.at) return h("div", { class: "kernelcode" }, pane(form).element);
  const [ptx, sass] = [pane("ptx"), pane("sass")];
  const lineAt = (/** @type {Event} */ e) => Number(/** @type {Element} */ (e.target).closest(".line")?.getAttribute("data-line") ?? -1);
  sass.body.addEventListener("mouseover", (e) => {
    const line = lineAt(e);
    if (line >= 0 && kernel.at[line]) ptx.goTo(kernel.at[line] - 1);
  });
  ptx.body.addEventListener("mouseover", (e) => {
    const line = lineAt(e);
    const first = line < 0 ? -1 : kernel.at.indexOf(line + 1);
    if (first >= 0) sass.goTo(first);
  });
  const column = (/** @type {string} */ title, /** @type {TextPane} */ p) => h("section", { class: "column" }, h("h4", {}, title), p.element);
  return h("div", { class: "kernelcode columns" }, column("PTX", ptx), column("SASS", sass));
}

/** What has a view of its own. @type {Record<string, {tab: string, view: (record: Artifact) => HTMLElement}>} */
export const GPU_VIEWS = { gpu: { tab: "Timing", view: kernelsView } };
