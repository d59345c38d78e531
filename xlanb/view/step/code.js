// HLO, LLVM IR, plans and assembly side by side: the same op is lit in all, and what calls leads to what is called.
import { h } from "./dom.js";
import { columnSplitter } from "./splitter.js";
import { linesOf, withoutDirectives } from "./text.js";
import { TextPane } from "./textpane.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./text.js").Source} Source */
/** @typedef {{title: string, source: Source, names: {has(name: string): boolean}, note?: string}} Column */

const UNCHANGED = { added: new Set(), removed: new Set(), changed: new Set() };
const MOST_CALLERS = 8;

/**
 * What an op runs in, nearest first: itself, then what calls the computation that it stands in.
 * An op that is not in this module any more is the one of its op_name and opcode, where there is exactly one.
 * @param {Store} store @param {number} index of the module's artifact @param {string} name @param {import("./store.js").Item | null} [item] the op as it was
 * @returns {string[]}
 */
export function carriersOf(store, index, name, item = null) {
  const { items, chunks } = store.payload;
  const names = store.names(index);
  let at = name;
  if (!names.has(at) && item?.m) {
    const alike = [...names].filter(([, i]) => items[i].m === item.m && items[i].o === item.o);
    if (alike.length === 1) at = alike[0][0];
  }
  const out = [name, ...(at === name ? [] : [at])];
  const all = (store.artifact(index)?.c || []).flatMap((c) => chunks[c].i.map((i) => items[i]));
  while (out.length < MOST_CALLERS) {
    const home = store.home(index, at);
    const caller = home && all.find((i) => i.c?.includes(home));
    if (!caller || out.includes(caller.n)) break;
    at = caller.n;
    out.push(at);
  }
  return out;
}

/** The forms of the code, as far as the compilation has come. @param {any} view the step view @returns {{columns: Column[], module: number}} */
function columnsOf(view) {
  const { store, payload, current } = view;
  const at = current.stages.findLastIndex((/** @type {Stage} */ x) => store.artifact(x.a)?.k === "module");
  const module = at < 0 ? -1 : current.stages[at].a;
  const names = store.names(module < 0 ? view.pictureIndex : module);
  /** @type {Column[]} */
  const columns = [];
  if (module >= 0) columns.push({ title: "HLO", source: linesOf(store.artifact(module), payload, UNCHANGED, "after"), names, note: store.artifact(module).note });
  for (const [kind, title] of [["llvm_ir_optimized", "LLVM IR"], ["assembly", "Assembly"], ["ptx", "PTX"], ["sass", "SASS"]]) {
    const stage = current.stages.findLast((/** @type {Stage} */ x) => x.kind === kind) || (kind === "llvm_ir_optimized" ? current.stages.findLast((/** @type {Stage} */ x) => x.kind === "llvm_ir") : undefined);
    const artifact = stage && store.artifact(stage.a);
    if (artifact?.plan) columns.push({ title: "Plan", source: linesOf(artifact.plan, payload, UNCHANGED, "after"), names });
    if (artifact?.k === "code") columns.push({ title, source: withoutDirectives(linesOf(artifact, payload, UNCHANGED, "after")), names, note: artifact.note });
  }
  return { columns, module };
}

/** The Code pane. @param {any} view the step view @returns {HTMLElement} */
export function codePane(view) {
  const { columns, module } = columnsOf(view);
  view.code.module = module;
  view.code.show(columns, view.layout);
  return view.code.element;
}

/** Columns that can be resized, hidden but for one, wrapped and searched. */
export class CodePanes {
  /** @param {any} view the step view */
  constructor(view) {
    this.view = view;
    /** @type {Map<string, TextPane>} by title */
    this.panes = new Map();
    this.module = -1;
    /** @type {string[]} what the pinned op runs in */
    this.carriers = [];
    this.order = "";
    this.element = h("div", { class: "columns" });
  }

  /** @param {Column[]} columns @param {{columns: Record<string, number>, only: string}} layout */
  show(columns, layout) {
    for (const c of columns) {
      let pane = this.panes.get(c.title);
      if (!pane) this.panes.set(c.title, (pane = new TextPane(this.view, { compact: true, label: c.title })));
      pane.show(c.source, c.names, c.note);
    }
    const order = columns.map((c) => c.title).join();
    if (order === this.order) return;
    this.order = order;
    this.element.replaceChildren(...columns.flatMap((c, k) => [k ? columnSplitter(this.element, layout.columns) : null, this._column(c.title, layout)]).filter((x) => x !== null));
    this._choose(columns.some((c) => c.title === layout.only) ? layout.only : "");
  }

  /** @param {string} title @param {{columns: Record<string, number>, only: string}} layout */
  _column(title, layout) {
    const pane = /** @type {TextPane} */ (this.panes.get(title));
    const full = h("button", { type: "button", class: "tool only", "aria-pressed": "false", "aria-label": `${title} in full width`, title: "this column alone", onclick: () => {
      layout.only = layout.only === title ? "" : title;
      this._choose(layout.only);
      this.view.remember();
    } }, "full");
    pane.extra.replaceChildren(full);
    return h("section", { class: "column", "aria-label": title, data: { column: title }, style: { "flex-grow": layout.columns[title] ?? 1 } }, h("h4", {}, title), pane.element);
  }

  /** Show one column alone, or all. @param {string} only */
  _choose(only) {
    for (const x of /** @type {NodeListOf<HTMLElement>} */ (this.element.querySelectorAll(":scope > *"))) x.hidden = Boolean(only) && x.getAttribute("data-column") !== only;
    for (const x of this.element.querySelectorAll(".only")) x.setAttribute("aria-pressed", String(Boolean(only)));
  }

  /** The pane that has the focus, else the first one that is shown. @returns {TextPane | undefined} */
  get current() {
    const panes = [...this.panes.values()].filter((p) => p.element.offsetParent);
    const focused = /** @type {ShadowRoot} */ (this.element.getRootNode()).activeElement;
    return panes.find((p) => p.element.contains(focused)) || panes[0];
  }

  /** Bring an op into sight in every column: its own lines, else those of what it runs in. @param {string} name @param {import("./store.js").Item | null} [item] */
  reveal(name, item = null) {
    this.carriers = carriersOf(this.view.store, this.module, name, item);
    const seen = [...this.panes.values()].map((p) => p.reveal(...this.carriers));
    if (!seen.some(Boolean)) this.view.say(name.startsWith("@") ? "A group has no lines of its own in the code: pin one of its ops." : `${name} has no lines of its own in the code.`);
    else if (this.carriers.length > 1) this.view.say(`${name} runs in ${this.carriers.slice(1).join(", in ")}`);
  }
}
