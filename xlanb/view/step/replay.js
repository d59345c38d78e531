// One rewrite at a time: the program as it stood after so many rewrites of a pass, made again from the edits that were recorded.
import { isWhole, noFolds, sceneOf, sheetOf } from "./scene.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {Map<string, Map<string, Item>>} State computations by name, in them instructions by name */
/** @typedef {{payload: any, a: Artifact, b: Artifact, names: Set<string>, marks: import("./store.js").Marks, sheet: Sheet | null, count: number}} Moment `b` before a rewrite, `a` after it */

const GAP = 18;
const ROOM = 14;
const HEADING = 24;

/** How many rewrites of a stage can be made again, one by one: as far as all of their edits are on the page. @param {Store} store @param {Stage | undefined} stage */
export function replayable(store, stage) {
  const before = stage ? store.artifact(stage.b) : null;
  if (!stage?.why || before?.k !== "module" || !isWhole(before, store.payload)) return 0;
  const cut = stage.why.rewrites.findIndex((/** @type {any} */ r) => r.more || r.edits.some((/** @type {any} */ e) => e.old !== undefined || e.new !== undefined));
  return cut < 0 ? stage.why.rewrites.length : cut;
}

/**
 * The program before and after one rewrite of a stage, null where it cannot be told.
 * @param {Store} store @param {Stage} stage @param {number} k
 * @returns {Moment | null}
 */
export function momentOf(store, stage, k) {
  if (k < 0 || k >= replayable(store, stage)) return null;
  const { payload } = store;
  const [before, after] = [store.artifact(stage.b), store.artifact(stage.a)];
  const state = stateOf(payload, /** @type {Artifact} */ (before));
  const last = stateOf(payload, after?.k === "module" ? after : { k: "module", c: [] });
  const rewrites = stage.why.rewrites;
  for (let n = 0; n < k; n += 1) for (const e of rewrites[n].edits) apply(state, e, payload.items, last);
  const heads = headings(payload, [after, before]);
  const made = { ...payload, items: /** @type {Item[]} */ ([]), chunks: /** @type {any[]} */ ([]), at: new Map() };
  const b = written(state, last, heads, made);
  const old = new Map([...state].map(([name, inside]) => [name, new Map(inside)]));
  for (const e of rewrites[k].edits) apply(state, e, payload.items, last);
  const a = written(state, last, heads, made);
  const touched = new Set(rewrites[k].edits.flatMap((/** @type {any} */ e) => [e.a, e.b]).filter((/** @type {string} */ n) => n));
  const sheets = [before, after].map((x) => (x?.g ? sheetOf(x.g, payload.items) : null));
  const names = new Set([...state.values()].flatMap((inside) => [...inside.keys()]));
  return { payload: made, a, b, names, marks: marksOf(old, state), sheet: sheets[0] || sheets[1] ? composed(a, made, sheets, touched) : null, count: rewrites.length };
}

/** @param {any} payload @param {Artifact} artifact @returns {State} */
function stateOf(payload, artifact) {
  const state = new Map();
  for (const c of artifact.c || []) {
    const chunk = payload.chunks[c];
    if (chunk.i.length) state.set(nameOf(chunk.h), new Map(chunk.i.map((/** @type {number} */ i) => [payload.items[i].n, payload.items[i]])));
  }
  return state;
}

/** @param {string} heading */
function nameOf(heading) {
  return heading.match(/^(?:ENTRY )?%?(\S+)/)?.[1] || heading;
}

/** Headings by computation; that of a module, which holds no instruction, under "". @param {any} payload @param {(Artifact | null)[]} artifacts @returns {Map<string, string>} */
function headings(payload, artifacts) {
  const out = new Map();
  for (const artifact of artifacts) for (const c of artifact?.c || []) out.set(payload.chunks[c].i.length ? nameOf(payload.chunks[c].h) : "", payload.chunks[c].h);
  return out;
}

/**
 * Make one edit.
 * @param {State} state changed in place @param {any} e @param {Item[]} items @param {State} last what it all came to: it tells which uses a replacement left alone
 */
function apply(state, e, items, last) {
  if (!state.has(e.in)) state.set(e.in, new Map());
  const inside = /** @type {Map<string, Item>} */ (state.get(e.in));
  const named = e.j === undefined ? null : items[e.j];
  if (e.kind === "remove") inside.delete(e.a);
  else if (e.kind === "add" && named) inside.set(e.b, named);
  else if (e.kind === "replace") {
    const stays = inside.has(e.a) && last.get(e.in)?.has(e.a);
    for (const [name, item] of inside) {
      const kept = stays && last.get(e.in)?.get(name)?.p?.includes(e.a);
      if (name !== e.b && !kept && item.p?.includes(e.a)) inside.set(name, using(item, e.a, e.b, last.get(e.in)?.get(name)));
    }
  } else if (e.kind === "set_root") {
    for (const [name, item] of inside) if (Boolean(item.r) !== (name === e.b)) inside.set(name, asRoot(item, name === e.b));
  } else if (named) {
    const there = [...inside].map(([name, item]) => (name === e.a ? [e.b, named] : [name, e.a !== e.b && item.p?.includes(e.a) ? using(item, e.a, e.b, last.get(e.in)?.get(name)) : item]));
    inside.clear();
    for (const [name, item] of there) inside.set(/** @type {string} */ (name), /** @type {Item} */ (item));
  }
}

const CUT = /\.\.\. \([\d,]+ more characters\)$/;

/**
 * An instruction that uses another operand; what stands in quotes is no name.
 * @param {Item} item @param {string} from @param {string} to
 * @param {Item | undefined} settled what it is in the end: of a line that is cut the rest is not known here, there it is
 * @returns {Item}
 */
function using(item, from, to, settled) {
  const p = (item.p || []).map((n) => (n === from ? to : n));
  if (CUT.test(item.t) && settled && settled.o === item.o && settled.p?.join("\n") === p.join("\n")) return asRoot(settled, Boolean(item.r));
  const escaped = from.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const at = item.t.indexOf(" = ") + 3;
  const text = item.t.slice(0, at) + item.t.slice(at).replace(new RegExp(`"(?:[^"\\\\]|\\\\.)*"|%${escaped}(?![\\w.-])`, "g"), (found) => (found.startsWith('"') ? found : `%${to}`));
  return { ...item, t: text, p };
}

/** @param {Item} item @param {boolean} root @returns {Item} */
function asRoot(item, root) {
  const line = item.t.trimStart().replace(/^ROOT /, "");
  return { ...item, t: `  ${root ? "ROOT " : ""}${line}`, r: root ? 1 : 0 };
}

/** Write a state as an artifact: called computations first, operands before users. @param {State} state @param {State} last @param {Map<string, string>} heads @param {any} made @returns {Artifact} */
function written(state, last, heads, made) {
  const entry = [...state.keys()].find((n) => heads.get(n)?.startsWith("ENTRY "));
  const called = new Set(entry === undefined ? state.keys() : [entry]);
  for (const n of called) for (const i of state.get(n)?.values() || []) for (const c of i.c || []) called.add(c);
  const names = [...state.keys()].filter((n) => state.get(n)?.size && (called.has(n) || last.has(n)));
  const artifact = { k: "module", c: /** @type {number[]} */ ([]), n: 0, g: null, note: "" };
  const add = (/** @type {string} */ h, /** @type {Item[]} */ items, /** @type {string} */ z) => {
    artifact.c.push(made.chunks.length);
    for (const i of items) if (!made.at.has(i)) made.at.set(i, made.items.push(i) - 1); // what stays is the same: so a difference knows it
    made.chunks.push({ h, i: items.map((i) => made.at.get(i)), z });
    artifact.n += items.length;
  };
  if (heads.has("")) add(/** @type {string} */ (heads.get("")), [], "");
  for (const n of [...names.filter((x) => x !== entry), ...(entry ? [entry] : [])]) add(heads.get(n) || `%${n} (…) {`, ordered(/** @type {Map<string, Item>} */ (state.get(n))), "}");
  return artifact;
}

/** Operands first, else in the order that is there. @param {Map<string, Item>} inside @returns {Item[]} */
function ordered(inside) {
  const done = new Set();
  const out = /** @type {Item[]} */ ([]);
  for (const start of inside.keys()) {
    const stack = [start];
    while (stack.length) {
      const name = stack[stack.length - 1];
      const item = inside.get(name);
      const open = done.has(name) || !item ? [] : [...(item.p || []), ...(item.cp || [])].filter((p) => inside.has(p) && !done.has(p) && !stack.includes(p));
      if (open.length) stack.push(...open.reverse());
      else {
        stack.pop();
        if (item && !done.has(name)) out.push(item);
        done.add(name);
      }
    }
  }
  return out;
}

/** @param {State} before @param {State} after @returns {import("./store.js").Marks} */
function marksOf(before, after) {
  const flat = (/** @type {State} */ s) => new Map([...s.values()].flatMap((inside) => [...inside]));
  const [old, now] = [flat(before), flat(after)];
  const added = new Set([...now.keys()].filter((n) => !old.has(n)));
  const removed = new Set([...old.keys()].filter((n) => !now.has(n)));
  const changed = new Set([...now].filter(([n, i]) => old.has(n) && old.get(n)?.t !== i.t).map(([n]) => n));
  return { added, removed, changed };
}

/**
 * A drawing in which everything stands where it stood before the pass or will stand after it; what is there for a moment only stands beside what it uses.
 * @param {Artifact} artifact @param {any} payload @param {(Sheet | null)[]} sheets before and after @param {Set<string>} touched
 * @returns {Sheet}
 */
function composed(artifact, payload, sheets, touched) {
  const [first, second] = sheets;
  const at = new Map([...(first?.nodes || []), ...(second?.nodes || [])].map((n) => [n.item.n, n]));
  const folds = noFolds();
  for (const n of at.values()) if (n.fold) folds.closed.add(n.fold);
  const scene = sceneOf(artifact, payload, folds, at.size > 100 ? new Set([...at.keys(), ...touched]) : new Set());
  const old = new Map((first?.nodes || []).map((n) => [n.item.n, n]));
  const boxes = placed(scene, at, old);
  const nodes = [...scene.nodes].map(([key, n]) => ({ key, item: n.item, fold: n.fold, .../** @type {any} */ (boxes.get(key)) }));
  const groups = framed(scene, boxes);
  const routes = new Map([first, second].flatMap((sheet) => (sheet?.edges || []).map((e) => [`${e.from}\n${e.to}`, e.points])));
  const edges = scene.edges.filter(([a, b]) => boxes.has(a) && boxes.has(b)).map(([from, to]) => {
    const [a, b] = [boxes.get(from), boxes.get(to)];
    const straight = [a.x + a.w / 2, a.y + a.h, b.x + b.w / 2, b.y];
    const known = routes.get(`${scene.nodes.get(from)?.item.n}\n${scene.nodes.get(to)?.item.n}`) || [];
    const fits = known.length > 3 && [0, 1].every((k) => Math.abs(known[k] - straight[k]) < 2 && Math.abs(known[known.length - 2 + k] - straight[2 + k]) < 2);
    return { from, to, points: fits ? known : straight };
  });
  const far = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s) => Math.max(0, ...[...nodes, ...groups].map((n) => n[p] + n[s]));
  const note = scene.note || first?.note || second?.note || "";
  return { w: Math.max(first?.w || 0, second?.w || 0, far("x", "w")), h: Math.max(first?.h || 0, second?.h || 0, far("y", "h")), nodes, edges, groups, note };
}

/** Where each node of a scene stands. @param {any} scene @param {Map<string, any>} at where it will stand, or stood @param {Map<string, any>} old where it stood before the pass @returns {Map<string, {x: number, y: number, w: number, h: number}>} */
function placed(scene, at, old) {
  const boxes = new Map();
  const meets = (/** @type {any} */ b) => [...boxes.values()].some((o) => b.x < o.x + o.w + 4 && o.x < b.x + b.w + 4 && b.y < o.y + o.h + 4 && o.y < b.y + b.h + 4);
  const put = (/** @type {string} */ key, /** @type {any} */ box) => {
    for (let k = 0; k < 60 && meets(box); k += 1) box.x += GAP;
    boxes.set(key, box);
  };
  const all = [...scene.nodes];
  const nameAt = (/** @type {any} */ n) => at.get(n.item.n);
  const was = (/** @type {any} */ n) => old.get(n.item.n);
  // What stays where it is stands first, then what is about to go, then what comes or moves: this gives way.
  for (const [key, n] of all) if (was(n) && was(n).x === nameAt(n).x && was(n).y === nameAt(n).y) boxes.set(key, boxOf(was(n)));
  for (const [key, n] of all) {
    if (boxes.has(key) || !nameAt(n)) continue;
    const there = [nameAt(n), was(n)].filter((b) => b).map(boxOf);
    put(key, there.find((b) => !meets(b)) || there[0]);
  }
  for (const [key] of all) {
    if (boxes.has(key)) continue;
    const above = scene.edges.filter(([, b]) => b === key).map(([a]) => boxes.get(a)).filter((/** @type {any} */ b) => b);
    const below = scene.edges.filter(([a]) => a === key).map(([, b]) => boxes.get(b)).filter((/** @type {any} */ b) => b);
    const near = [...above, ...below];
    const x = near.length ? near.reduce((t, b) => t + b.x, 0) / near.length : 0;
    const y = above.length ? Math.max(...above.map((/** @type {any} */ b) => b.y + b.h)) + GAP : below.length ? Math.max(0, Math.min(...below.map((/** @type {any} */ b) => b.y)) - 44 - GAP) : 0;
    put(key, { x, y, w: 132, h: 44 });
  }
  return boxes;
}

/** @param {{x: number, y: number, w: number, h: number}} n */
function boxOf({ x, y, w, h }) {
  return { x, y, w, h };
}

/** The frames of fusions and calls, around what is in them. @param {any} scene @param {Map<string, any>} boxes */
function framed(scene, boxes) {
  const inside = new Map([...scene.groups.keys()].map((key) => [key, /** @type {any[]} */ ([])]));
  for (const [key, n] of scene.nodes) if (n.group) inside.get(n.group)?.push(boxes.get(key));
  const out = [];
  for (const [key, g] of [...scene.groups].reverse()) {
    const all = inside.get(key) || [];
    if (!all.length) continue;
    const [x, y] = [Math.min(...all.map((b) => b.x)) - ROOM, Math.min(...all.map((b) => b.y)) - HEADING];
    const frame = { x, y, w: Math.max(...all.map((b) => b.x + b.w)) + ROOM - x, h: Math.max(...all.map((b) => b.y + b.h)) + ROOM - y };
    if (g.parent) inside.get(g.parent)?.push(frame);
    out.push({ key, item: g.item, label: g.label, kind: g.kind, fold: "", ...frame });
  }
  return out.reverse();
}
