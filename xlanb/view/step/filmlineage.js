// Who is who from stage to stage: every node of a graph and every instruction of a program of a trace as one mark, with what it grew from, what it went into, and where it lay.
import { outlines } from "./outline.js";
import { isWhole } from "./scene.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {import("./outline.js").Outline} Outline */
/**
 * One instruction over time. `died` is the first frame without it (Infinity: it is there in the end); `from` the mark that it grew out of, `into` the one that took its place (null: none).
 * `item`, `name` and `work` (seconds by the cost model) are the latest, `cost` is the most that it ever was.
 * @typedef {{id: number, name: string, item: Item, born: number, died: number, from: Mark | null, into: Mark | null, items: [number, Item][], holders: [number, Mark | null][], cost: number, work: number}} Mark
 * The program after a stage that changed it. `names` the marks by the name that they have here, `order` as they are written, `changed` those that a pass altered in place, `moved` those that went into a computation or out of one, `whole` whether all of the program is on the page.
 * @typedef {{stage: number, artifact: number, count: number, names: Map<string, Mark>, order: Mark[], added: Mark[], gone: Mark[], changed: Mark[], moved: Mark[], lines: Map<string, Line>, whole: boolean, isGraph: boolean}} Frame
 * An instruction where it is written; `holder` the name of the op whose computation it is in.
 * @typedef {{item: Item, holder: string, outline: Outline, k: number}} Line
 * `lost` are marks by name that the page does not show at the moment, as texts are cut.
 * @typedef {{marks: Mark[], frames: Frame[], lost: Map<string, Mark>}} Film
 */

const FREE = new Set(["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota", "partition-id", "replica-id", ..."Const HostConst Placeholder PlaceholderWithDefault VarHandleOp VariableV2 NoOp _Arg _Retval".split(" ")]);
/** Nodes of TensorFlow graphs that call functions. @type {WeakSet<Item>} */
const CALLING = new WeakSet();

/** Whether an instruction is none that a kernel would be made for. @param {Item} item */
export function isQuiet(item) {
  return FREE.has(item.o);
}

/** Whether a node calls a function: a cluster that was encapsulated, a loop. @param {Item} item */
export function callsFunction(item) {
  return CALLING.has(item);
}

/** The holder of a mark in a frame: the fusion, loop or reduction in whose computation it stands. @param {Mark} mark @param {number} frame @returns {Mark | null} */
export function holderOf(mark, frame) {
  let found = null;
  for (const [since, holder] of mark.holders) if (since <= frame) found = holder;
  return found;
}

/** An instruction as it is in a frame. @param {Mark} mark @param {number} frame @returns {Item} */
export function itemAt(mark, frame) {
  let found = mark.items[0][1];
  for (const [since, item] of mark.items) if (since <= frame) found = item;
  return found;
}

/** The programs of a trace that differ, as frames, and the marks that live in them. @param {Store} store @param {import("./store.js").Trace} trace @returns {Film} */
export function filmOf(store, trace) {
  const film = /** @type {Film} */ ({ marks: [], frames: [], lost: new Map() });
  let last = -1;
  let isGraph = true;
  trace.stages.forEach((stage, k) => {
    const artifact = store.artifact(stage.a);
    if (!artifact?.c || stage.a === last || (artifact.k !== "module" && !(isGraph && artifact.k === "graph"))) return;
    isGraph = artifact.k === "graph";
    film.frames.push(frameOf(store, film, trace.stages[k], k, artifact));
    last = stage.a;
  });
  return film;
}

/** The instructions of an artifact in order, each with the op that calls its computation; parameters of fused computations stand for operands and are left out. @param {Artifact} artifact @param {Store} store @returns {Map<string, Line>} */
function linesIn(artifact, store) {
  const all = outlines(artifact, store.payload);
  const entry = /** @type {Outline | undefined} */ (all.get(""));
  /** @type {Map<string, Line>} */
  const out = new Map();
  const seen = new Set();
  const walk = (/** @type {Outline} */ outline, /** @type {string} */ holder, /** @type {boolean} */ fused) => {
    if (seen.has(outline.name)) return;
    seen.add(outline.name);
    outline.items.forEach((item, k) => {
      if (fused && item.o === "parameter") return;
      if (artifact.k === "graph" && out.has(item.n)) return; // an argument is called as what it stands for
      out.set(item.n, { item, holder, outline, k });
      for (const name of outline.calls.get(k) || []) {
        const called = all.get(name);
        if (!called || called === entry) continue;
        if (artifact.k === "graph") CALLING.add(item);
        walk(called, item.n, item.o === "fusion");
      }
    });
  };
  if (entry) walk(entry, "", false);
  return out;
}

/** @param {Store} store @param {Film} film @param {Stage} stage @param {number} k @param {Artifact} artifact @returns {Frame} */
function frameOf(store, film, stage, k, artifact) {
  const f = film.frames.length;
  const last = film.frames[f - 1];
  const lines = linesIn(artifact, store);
  const frame = /** @type {Frame} */ ({ stage: k, artifact: stage.a, count: (artifact.k === "module" && artifact.n) || lines.size, names: new Map(), order: [], added: [], gone: [], changed: [], moved: [], lines, whole: isWhole(artifact, store.payload), isGraph: artifact.k === "graph" });
  const make = (/** @type {Item} */ item) => {
    const mark = /** @type {Mark} */ ({ id: film.marks.length, name: item.n, item, born: f, died: Infinity, from: null, into: null, items: [[f, item]], holders: [], cost: 0, work: 0 });
    film.marks.push(mark);
    return mark;
  };
  const lowers = Boolean(last) && artifact.k === "module" && store.artifact(last.artifact)?.k === "graph";
  const paired = lowers ? loweredMarks(last, lines) : last ? pairUpMarks(store, stage, last, lines) : new Map();
  for (const [name, line] of lines) {
    let mark = last && ((!lowers && last.names.get(name)) || paired.get(name) || film.lost.get(name));
    if (mark && frame.names.get(mark.name) === mark) mark = undefined;
    if (!mark) frame.added.push((mark = make(line.item)));
    else if (mark.item !== line.item) {
      mark.items.push([f, line.item]);
      frame.changed.push(mark);
    }
    mark.item = line.item;
    mark.name = name;
    film.lost.delete(name);
    frame.names.set(name, mark);
    frame.order.push(mark);
    const cost = line.outline.costs[line.k];
    mark.work = cost ? Math.max(cost[0] / 1e12, cost[1] / 1e11) : 0;
    mark.cost = Math.max(mark.cost, mark.work);
  }
  settleHolders(frame, f);
  if (last) closeFrame(film, stage, frame, last, f);
  return frame;
}

/** Note in whose computation each mark stands. @param {Frame} frame @param {number} f */
function settleHolders(frame, f) {
  for (const mark of frame.order) {
    const line = /** @type {Line} */ (frame.lines.get(mark.name));
    const holder = line.holder ? frame.names.get(line.holder) || null : null;
    if (mark.holders.length && mark.holders[mark.holders.length - 1][1] === holder) continue;
    if (mark.holders.length) frame.moved.push(mark);
    mark.holders.push([f, holder]);
  }
}

/** What is gone goes into what took its place; what is new grows from what it replaced, else from what it was copied from, reads or feeds. @param {Film} film @param {Stage} stage @param {Frame} frame @param {Frame} last @param {number} f */
function closeFrame(film, stage, frame, last, f) {
  const here = new Set(frame.order);
  const { replaced, origin } = editsOf(stage);
  const twins = frame.order.length === last.order.length && !frame.added.length ? new Map() : new Map(frame.order.map((m) => [likeness(m.item), m]));
  for (const [name, mark] of last.names) {
    if (here.has(mark)) continue;
    frame.gone.push(mark);
    if (!frame.whole) film.lost.set(name, mark); // it is not on the page: nobody knows that it is gone
    else {
      mark.died = f;
      const heir = frame.names.get(follow(replaced, name)) || twins.get(likeness(mark.item));
      mark.into = heir && heir !== mark ? heir : null;
    }
  }
  if (!frame.added.length) return;
  const old = new Map(last.order.map((m) => [likeness(itemAt(m, f - 1)), m]));
  const users = usersIn(frame);
  for (const mark of frame.added) {
    const near = (mark.item.p || []).map((p) => frame.names.get(p)).find((m) => m && m.born < f);
    const user = users.get(mark.name);
    const held = mark.holders[0][1];
    mark.from = last.names.get(origin.get(mark.name) || "") || (mark.item.y && last.names.get(mark.item.m || "")) || (mark.item.o === "parameter" ? null : old.get(likeness(mark.item))) || near || (user && user.born < f ? user : null) || (held && held !== mark ? held : null) || null;
  }
}

/** @type {WeakMap<Frame, Map<string, Mark>>} */
const USERS_IN = new WeakMap();

/** The first user of each name of a frame: one that lies in a group, where there is one. @param {Frame} frame @returns {Map<string, Mark>} */
export function usersIn(frame) {
  let users = USERS_IN.get(frame);
  if (users) return users;
  USERS_IN.set(frame, (users = new Map()));
  for (const [name, line] of frame.lines) {
    const mark = /** @type {Mark} */ (frame.names.get(name));
    const grouped = line.outline.member[line.k] >= 0;
    for (const p of line.item.p || []) if (!users.has(p) || (grouped && !groupIn(frame, /** @type {Mark} */ (users.get(p)).name))) users.set(p, mark);
  }
  return users;
}

/** The group that an op lies in, "" for none. @param {Frame} frame @param {string} name @returns {string} */
export function groupIn(frame, name) {
  const line = frame.lines.get(name);
  const g = line ? line.outline.member[line.k] : -1;
  return line && g >= 0 ? line.outline.groups[g].key : "";
}

/** @type {WeakMap<Frame, Map<string, {label: string, parent: string}>>} */
const GROUPS_IN = new WeakMap();

/** All groups of a frame by key. @param {Frame} frame */
export function groupsIn(frame) {
  let groups = GROUPS_IN.get(frame);
  if (groups) return groups;
  GROUPS_IN.set(frame, (groups = new Map()));
  for (const outline of new Set([...frame.lines.values()].map((l) => l.outline))) {
    for (const g of outline.groups) if (!groups.has(g.key)) groups.set(g.key, { label: g.label, parent: g.parent < 0 ? "" : outline.groups[g.parent].key });
  }
  return groups;
}

/** What a pass says itself: what replaced what, and what was made from what. @param {Stage} stage */
function editsOf(stage) {
  const [replaced, origin] = [new Map(), new Map()];
  for (const r of stage.why?.rewrites || []) {
    let first = "";
    for (const e of r.edits) {
      if (e.kind === "replace" && e.a && e.b) replaced.set(e.a, e.b);
      if (!first && (e.kind === "replace" || e.kind === "remove") && e.a) first = e.a;
      if (e.a && e.b && e.a !== e.b && !origin.has(e.b)) origin.set(e.b, e.a);
    }
    for (const e of r.edits) if (e.kind === "add" && first && !origin.has(e.b)) origin.set(e.b, first);
  }
  return { replaced, origin };
}

/** @param {Map<string, string>} replaced @param {string} name */
function follow(replaced, name) {
  let at = name;
  for (let n = 0; n < 20 && replaced.has(at); n += 1) at = /** @type {string} */ (replaced.get(at));
  return at;
}

/** @type {WeakMap<Item, string>} */
const LIKENESS = new WeakMap();

/** What two instructions that are one another's counterparts have in common. @param {Item} i */
function likeness(i) {
  let text = LIKENESS.get(i);
  if (text === undefined) LIKENESS.set(i, (text = `${i.o} ${i.s} ${i.m || ""} ${i.v || ""}`));
  return text;
}

/**
 * Marks of the program before by the names that they have now: what was renamed, cloned into a fused computation, or made anew alike.
 * @param {Store} store @param {Stage} stage @param {Frame} last @param {Map<string, Line>} lines @returns {Map<string, Mark>}
 */
function pairUpMarks(store, stage, last, lines) {
  const gone = new Set([...last.names].filter(([name]) => !lines.has(name)).map(([, m]) => m));
  const fresh = new Set([...lines.keys()].filter((name) => !last.names.has(name)));
  /** @type {Map<string, Mark>} */
  const out = new Map();
  const pair = (/** @type {string} */ was, /** @type {string} */ now) => {
    const mark = last.names.get(was);
    if (!mark || !gone.has(mark) || !fresh.has(now)) return;
    gone.delete(mark);
    fresh.delete(now);
    out.set(now, mark);
  };
  const { items } = store.payload;
  for (const section of stage.diff || []) for (const row of section.rows) if (Array.isArray(row) && row[0] >= 0 && row[1] >= 0) pair(items[row[0]].n, items[row[1]].n);
  for (const [now, was] of editsOf(stage).origin) if (last.names.get(was)?.item.o === lines.get(now)?.item.o) pair(was, now);
  pairAlike(gone, fresh, lines, likeness, () => true, pair);
  pairAlike(gone, fresh, lines, (i) => `${i.o} ${i.s} ${i.v || ""}`, (i) => isQuiet(i) || !i.m, pair);
  return out;
}

/** Marks of a graph's nodes by the names of the instructions that they become: of several the one that costs most; the others grow out of it. @param {Frame} last @param {Map<string, Line>} lines @returns {Map<string, Mark>} */
function loweredMarks(last, lines) {
  /** @type {Map<string, [string, number]>} */
  const most = new Map();
  for (const [name, { item, outline, k }] of lines) {
    if (!item.m || !last.names.has(item.m)) continue;
    const cost = outline.costs[k] ? outline.costs[k][0] + outline.costs[k][1] : 0;
    const known = most.get(item.m);
    if (!known || cost > known[1]) most.set(item.m, [name, cost]);
  }
  return new Map([...most].map(([node, [name]]) => [name, /** @type {Mark} */ (last.names.get(node))]));
}

/** @param {Set<Mark>} gone @param {Set<string>} fresh @param {Map<string, Line>} lines @param {(i: Item) => string} word what those alike have in common @param {(i: Item) => boolean} wanted @param {(was: string, now: string) => void} pair */
function pairAlike(gone, fresh, lines, word, wanted, pair) {
  /** @type {Map<string, Mark[]>} */
  const waiting = new Map();
  for (const m of gone) {
    if (!wanted(m.item)) continue;
    const same = waiting.get(word(m.item));
    if (same) same.push(m);
    else waiting.set(word(m.item), [m]);
  }
  for (const same of waiting.values()) same.reverse();
  if (waiting.size) {
    for (const now of [...fresh]) {
      const was = waiting.get(word(/** @type {Line} */ (lines.get(now)).item))?.pop();
      if (was) pair(was.name, now);
    }
  }
}

/**
 * What becomes of a mark, by stage: where it is made, fused, altered, and where it ends.
 * @param {Film} film @param {Mark} mark @param {import("./store.js").Trace} trace @returns {{stage: number, text: string}[]}
 */
export function fateOf(film, mark, trace) {
  const out = [];
  const at = (/** @type {number} */ f) => trace.stages[film.frames[f].stage].name;
  const nameAt = (/** @type {Mark} */ m, /** @type {number} */ f) => itemAt(m, f).n;
  if (mark.born > 0) out.push({ stage: film.frames[mark.born].stage, text: `${mark.from ? `made from ${nameAt(mark.from, mark.born - 1)}` : "added"} at ${at(mark.born)}` });
  for (const [f, holder] of mark.holders) {
    if (f === mark.born && f > 0 ? !holder : f === 0) continue;
    const said = holder?.item.o === "fusion" ? "fused into" : "moved into";
    out.push({ stage: film.frames[f].stage, text: `${holder ? `${said} ${nameAt(holder, f)}` : "moved out"} at ${at(f)}` });
  }
  if (mark.died < Infinity) out.push({ stage: film.frames[mark.died].stage, text: `${mark.into ? `replaced by ${nameAt(mark.into, mark.died)}` : "removed"} at ${at(mark.died)}` });
  return out;
}
