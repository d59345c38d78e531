// The list of passes: a tree of pipelines, rounds of those that run to a fixed point, and what each pass did.
import { bytes, h, plural, time } from "./dom.js";
import { togglePass } from "./live.js";
import { tally } from "./side.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Trace} Trace */
/**
 * @typedef {{key: string, label: string, title: string, depth: number, from: number, to: number}} Branch
 * @typedef {{branch: Branch} | {stage: number, depth: number, within: string[]}} Entry
 */

const NEXT_ROUNDS = "next rounds";
/** @type {Record<string, string>} */
const GROUPS = {
  tf_graph: "TensorFlow",
  optimize: "TensorFlow",
  mark_for_compilation: "TensorFlow",
  encapsulate_subgraphs: "TensorFlow",
  build_xla_ops: "TensorFlow",
  tf2xla: "HLO",
  hlo: "HLO",
  hlo_pass: "HLO",
  schedule: "Backend",
  buffer_assignment: "Backend",
  memory_usage: "Backend",
  memory_space_assignment: "Backend",
  tpu_schedule: "Backend",
  xtile: "Backend",
  triton_ir: "Backend",
  llvm_ir: "Backend",
  llvm_ir_optimized: "Backend",
  assembly: "Backend",
  thunks: "Backend",
  ptx: "Backend",
  sass: "Backend",
  gpu_program: "Backend",
  execution: "Run",
  compilation_cache: "Run",
};

/** The pipelines around a stage; the one around all passes says nothing. @param {Stage} stage @param {string} around */
function pathOf(stage, around) {
  if (!stage.pl.length) return [GROUPS[stage.kind] || stage.kind];
  return stage.pl[0] === around && stage.pl.length > 1 ? stage.pl.slice(1) : stage.pl;
}

/**
 * Pipelines within pipelines, in order; where one begins anew with the passes it began with, that is a round.
 * @param {Stage[]} stages
 * @returns {Entry[]}
 */
export function tree(stages) {
  const passes = stages.filter((x) => x.pl.length > 1);
  const around = passes.length && passes.every((x) => x.pl[0] === passes[0].pl[0]) ? passes[0].pl[0] : "";
  /** @type {Entry[]} */
  const out = [];
  /** @type {{name: string, branch: Branch, first: string, second: string, rounds: number, round: Branch | null}[]} */
  let open = [];
  let serial = 0;
  const begin = (/** @type {string} */ label, /** @type {string} */ title, /** @type {number} */ depth, /** @type {number} */ k) => {
    const branch = { key: `${title}#${(serial += 1)}`, label, title, depth, from: k, to: k };
    out.push({ branch });
    return branch;
  };
  stages.forEach((stage, k) => {
    const path = pathOf(stage, around);
    let common = 0;
    while (common < open.length && common < path.length && open[common].name === path[common]) common += 1;
    open = open.slice(0, common);
    while (open.length < path.length) {
      const upto = path.slice(0, open.length + 1);
      open.push({ name: path[open.length], branch: begin(path[open.length], upto.join(" › "), open.length, k), first: stage.name, second: "", rounds: 1, round: null });
    }
    const inner = open[open.length - 1];
    const following = stages[k + 1];
    const sameNext = following && pathOf(following, around).join("\n") === path.join("\n") ? following.name : "";
    if (k === inner.branch.from) inner.second = sameNext;
    else if (stage.pl.length && stage.name === inner.first && inner.second && sameNext === inner.second) {
      inner.rounds += 1;
      inner.round = begin(`round ${inner.rounds}`, `${inner.branch.title}, round ${inner.rounds}`, open.length, k);
    }
    const within = [...open.map((o) => o.branch), ...(inner.round ? [inner.round] : [])];
    for (const b of within) b.to = k;
    out.push({ stage: k, depth: open.length + (inner.round ? 1 : 0), within: within.map((b) => b.key) });
  });
  return out;
}

/** The stages that are left to run, as `tree` takes them: what a loop that has begun may run again stands below "next rounds". @param {Trace} trace @returns {Stage[]} */
export function comingStages(trace) {
  const begun = new Set();
  const seen = (/** @type {string[]} */ path) => path.forEach((_, k) => begun.add(path.slice(0, k + 1).join("\n")));
  for (const stage of trace.stages) seen(stage.pl);
  return (trace.coming || []).flatMap(([kind, path, rounds, names]) => {
    const pl = rounds && begun.has(path.join("\n")) ? [...path, NEXT_ROUNDS] : path;
    if (!rounds) seen(path);
    return names.map((/** @type {string} */ name) => /** @type {any} */ ({ kind, name, pl, rounds, d: "" }));
  });
}

/**
 * The list of stages: those that ran, and behind them those that are left to run.
 * @param {Trace} trace
 * @param {Store} store
 * @param {{current: number, other: number, filter: string, hide: boolean, folded: Set<string>, veiled: number, off: Set<string> | null,
 *   go(k: number, e: Event): void, to(k: number): void, fold(key: string): void, toggle(name: string, off: boolean): void}} state `veiled`: from there on it is not told what passes did
 * @param {PassRows} made the rows of the last list
 */
export function passList(trace, store, state, made) {
  const wanted = state.filter.trim().toLowerCase();
  const visible = (/** @type {Stage} */ stage, /** @type {number} */ k) =>
    (!wanted || `${stage.name} ${stage.pl.join(" ")} ${stage.kind}`.toLowerCase().includes(wanted)) && (!state.hide || stage.ch || stage.e || k === state.current || k >= trace.stages.length || hides(state, k));
  /** @type {HTMLElement[]} */
  const rows = [];
  let shown = 0;
  /** @type {Branch[]} */
  let pending = [];
  const done = trace.stages.length;
  const all = [...trace.stages, ...comingStages(trace)];
  for (const entry of tree(all)) {
    if ("branch" in entry) {
      pending = pending.filter((b) => b.depth < entry.branch.depth && b.to >= entry.branch.from);
      pending.push(entry.branch);
      continue;
    }
    const stage = all[entry.stage];
    if (!visible(stage, entry.stage)) continue;
    shown += 1;
    for (const b of pending) if (entry.within.includes(b.key) && !entry.within.slice(0, entry.within.indexOf(b.key)).some((key) => state.folded.has(key))) rows.push(branchRow(b, all, done, state, made));
    pending = [];
    if (entry.within.some((key) => state.folded.has(key))) continue;
    rows.push(entry.stage < done ? passRow(stage, entry, store, state, made) : comingRow(stage, entry, done, state, made));
  }
  made.finish();
  if (!shown) rows.push(h("div", { class: "empty", role: "treeitem", "aria-disabled": "true" }, trace.stages.length ? "No pass matches." : "Nothing was compiled yet."));
  return rows;
}

/** Whether it is not told what a stage did, as the reader guesses. @param {{veiled: number}} state @param {number} k */
const hides = (state, k) => state.veiled >= 0 && k >= state.veiled;

/** @param {Branch} b @param {Stage[]} all @param {number} done how many of them ran @param {any} state @param {PassRows} made */
function branchRow(b, all, done, state, made) {
  const folded = state.folded.has(b.key);
  const inside = all.slice(b.from, b.to + 1);
  const changed = inside.filter((x) => x.ch || x.e).length;
  const left = Math.max(0, b.to + 1 - Math.max(done, b.from));
  const rounds = b.from >= done ? /** @type {any} */ (all[b.from]).rounds : 0;
  const title = rounds ? `${b.title}: until nothing changes, at most ${plural(rounds, b.label === NEXT_ROUNDS ? "more round" : "round")}` : b.title;
  const cls = `pipeline${b.label.startsWith("round ") ? " round" : ""}${b.from >= done ? " coming" : ""}`;
  const name = rounds ? `${b.label} ⟳` : b.label;
  const small = folded ? `${plural(inside.length, "pass", "passes")}, ${left ? `${left} to come` : hides(state, b.to) ? "hidden" : `${changed} changed`}` : "";
  return made.take([b.key, b.depth, cls, title, name, small, folded], () =>
    h(
      "div",
      { class: cls, role: "treeitem", "aria-expanded": String(!folded), "aria-level": String(b.depth + 1), title, style: { "--depth": b.depth }, onclick: () => state.fold(b.key) },
      h("span", { class: "twist", "aria-hidden": "true" }, folded ? "▸" : "▾"),
      h("span", { class: "name" }, name),
      small ? h("small", {}, small) : null,
    ),
  );
}

/** What a pass was measured to be worth: a bar right of the middle where the program is slower without it, left where it is faster. @param {string} name @param {Record<string, any> | undefined} worth */
function worthBar(name, worth) {
  const found = worth?.[name];
  if (!found) return null;
  if (found.failure) return h("span", { class: "worth needed", title: `without ${name} the program does not compile: ${found.failure}` }, "!");
  const doublings = Math.max(-1, Math.min(1, Math.log2(found.run)));
  const memory = found.temp ? `, ${found.temp > 0 ? "+" : "−"}${bytes(Math.abs(found.temp))} of temporaries` : "";
  const words = `without ${name} a run takes ${found.run.toFixed(2)} times as long${memory}`;
  const half = 50 * Math.abs(doublings);
  const side = doublings < 0 ? { right: "50%" } : { left: "50%" };
  return h("span", { class: `worth ${doublings > 0.04 ? "gain" : doublings < -0.04 ? "loss" : "even"}`, role: "img", "aria-label": words, title: words }, h("i", { style: { ...side, width: `${Math.max(half, 3)}%` } }), found.temp > 0 ? h("b", {}, "▪") : null);
}

/** A pass that has not run: a click runs up to it. @param {Stage} stage @param {{stage: number, depth: number}} entry @param {number} done @param {any} state @param {PassRows} made */
function comingRow(stage, entry, done, state, made) {
  const off = Boolean(state.off?.has(stage.name));
  const row = made.take(["coming", entry.stage, entry.depth, stage.name, off], () => newComingRow(stage, entry, off, state));
  const id = `coming-${entry.stage - done}`; // the nearer the more passes have run
  if (row.id !== id) row.id = id;
  return row;
}

/** @param {Stage} stage @param {{stage: number, depth: number}} entry @param {boolean} off @param {any} state */
function newComingRow(stage, entry, off, state) {
  return h(
    "div",
    {
      class: `pass coming${off ? " off" : ""}`,
      role: "treeitem",
      data: { glyph: "○" },
      "aria-label": `${stage.name}, not run yet`,
      "aria-level": String(entry.depth + 1),
      title: `${stage.name} has not run yet: click to run the compilation up to here`,
      style: { "--depth": Math.max(0, entry.depth - 1) },
      onclick: () => state.to(entry.stage),
    },
    h("span", { class: "glyph", "aria-hidden": "true" }, "○"),
    h("span", { class: "name" }, stage.name),
  );
}

/** @param {Stage} stage @param {{stage: number, depth: number}} entry @param {Store} store @param {any} state @param {PassRows} made */
function passRow(stage, entry, store, state, made) {
  const k = entry.stage;
  const veiled = hides(state, k);
  const off = Boolean(state.off?.has(stage.name));
  const told = [stage.name, stage.ch, stage.e, stage.d, stage.s, stage.n, stage.b, stage.a, stage.kind];
  const print = [state.trace, k, entry.depth, k === state.other, veiled, off, Boolean(state.off), state.worth?.[stage.name], told];
  const row = made.take(print, () => newPassRow(stage, entry, store, state, veiled, off));
  mark(row, k === state.current);
  return row;
}

/** A row that is not the current one. @param {Stage} stage @param {{stage: number, depth: number}} entry @param {Store} store @param {any} state @param {boolean} veiled @param {boolean} off */
function newPassRow(stage, entry, store, state, veiled, off) {
  const k = entry.stage;
  const still = off ? "○" : veiled ? "?" : stage.e ? "✕" : stage.ch ? "✓" : "·";
  const box = state.off && stage.kind === "hlo_pass" ? h("input", { type: "checkbox", class: "onoff", checked: !off, "aria-label": `${stage.name} is on`, title: off ? "switched off: check to run it again" : "uncheck to switch this pass off", tabindex: -1, onclick: (/** @type {Event} */ e) => e.stopPropagation(), onchange: (/** @type {Event} */ e) => state.toggle(stage.name, !(/** @type {HTMLInputElement} */ (e.target).checked)) }) : null;
  return h(
    "div",
    {
      class: `pass${k === state.other ? " other" : ""}${stage.ch || stage.e || veiled ? "" : " same"}${stage.e && !veiled ? " failed" : ""}${off ? " off" : ""}`,
      role: "treeitem",
      id: `pass-${k}`,
      data: { glyph: still },
      "aria-selected": "false",
      "aria-level": String(entry.depth + 1),
      title: veiled ? stage.name : stage.d,
      style: { "--depth": Math.max(0, entry.depth - 1) },
      onclick: (/** @type {Event} */ e) => state.go(k, e),
    },
    h("span", { class: "glyph", "aria-hidden": "true" }, still),
    h("span", { class: "name" }, stage.name),
    h("span", { class: "tally" }, veiled ? [] : tally(stage, store), veiled || !stage.ch ? null : worthBar(stage.name, state.worth)),
    h("span", { class: "ms" }, veiled || stage.s === null || stage.s === undefined ? "" : time(stage.s)),
    box,
  );
}

/** The rows of a list by what they say, so that those that still say it stay in the page: to lay out a hundred rows at each step takes longer than the step. */
class PassRows {
  constructor() {
    /** @type {Map<string, HTMLElement>} */
    this.known = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.taken = new Map();
  }

  /** @param {any[]} print @param {() => HTMLElement} make @returns {HTMLElement} */
  take(print, make) {
    const key = JSON.stringify(print);
    const row = this.known.get(key) || make();
    this.taken.set(key, row);
    return row;
  }

  /** The list is made: what it does not show is forgotten. */
  finish() {
    [this.known, this.taken] = [this.taken, new Map()];
  }
}

/** @type {WeakMap<HTMLElement, PassRows>} */
const LIST_ROWS = new WeakMap();

/** Let a list hold these rows in this order; those that stay are not touched. @param {HTMLElement} list @param {HTMLElement[]} rows */
function arrangeRows(list, rows) {
  const wanted = new Set(rows);
  for (const child of [...list.children]) if (!wanted.has(/** @type {HTMLElement} */ (child))) child.remove();
  rows.forEach((row, k) => list.children[k] !== row && list.insertBefore(row, list.children[k] || null));
}

/** Draw the list anew, the current pass in sight. @param {any} view the step view */
export function showList(view) {
  const state = {
    trace: view.trace,
    current: view.stage,
    other: view.other,
    filter: view.filter,
    hide: view.hide,
    folded: view.folded,
    veiled: view.picture.veiled,
    worth: view.current.worth,
    off: view.can.toggle ? new Set(view.can.off || []) : null,
    go: (/** @type {number} */ k, /** @type {Event} */ e) => view.choosePass(k, e),
    to: (/** @type {number} */ k) => view.canStep && view.ask("to", { position: k - view.whole.stages.length }),
    fold: (/** @type {string} */ key) => view.foldPipeline(key),
    toggle: (/** @type {string} */ name, /** @type {boolean} */ off) => togglePass(view, name, off),
  };
  // Most steps only move the mark; where anything else is other than it was, only the rows that say so are built anew.
  const { current, ...rest } = state;
  const print = JSON.stringify([rest, [...state.folded], state.off && [...state.off], view.trace, view.payload.revision, state.hide && current]);
  const rows = view.list.querySelectorAll(".pass");
  if (view.list.dataset.print === print && rows.length) {
    for (const row of rows) mark(row, row.id === `pass-${current}`);
  } else {
    let made = LIST_ROWS.get(view.list);
    if (!made) LIST_ROWS.set(view.list, (made = new PassRows()));
    arrangeRows(view.list, passList(view.whole, view.store, state, made));
    view.list.dataset.print = print;
  }
  if (view.list.querySelector(".pass.current")) view.list.setAttribute("aria-activedescendant", `pass-${current}`);
  else view.list.removeAttribute("aria-activedescendant");
}

/** Make a row the current one, or not. @param {HTMLElement} row @param {boolean} current */
function mark(row, current) {
  if (row.classList.contains("current") === current) return;
  row.classList.toggle("current", current);
  row.setAttribute("aria-selected", String(current));
  const glyph = row.querySelector(".glyph");
  const still = row.dataset.glyph || "";
  if (glyph) glyph.textContent = current && "✓·".includes(still) ? "▸" : still;
}

/** Bring the current pass into sight, last of all: it has the page laid out. @param {HTMLElement} list */
export function inSight(list) {
  const row = /** @type {HTMLElement | null} */ (list.querySelector(".pass.current"));
  if (!row) return;
  const top = row.offsetTop;
  if (top < list.scrollTop + 24) list.scrollTop = top - 24;
  else if (top + row.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + row.offsetHeight - list.clientHeight + 8;
}
