// One rewrite at a time: the program as it stood after so many rewrites of a pass, made again from the edits that were recorded.
import { outlineFrom } from "./outline.js";
import { isWhole } from "./scene.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {Map<string, Map<string, Item>>} State computations by name, in them instructions by name */
/** @typedef {{payload: any, a: Artifact, b: Artifact, names: Set<string>, marks: import("./store.js").Marks, count: number}} Moment `b` before a rewrite, `a` after it */

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
  for (const artifact of [b, a]) outlineFrom(artifact, made, [before, after], payload);
  const names = new Set([...state.values()].flatMap((inside) => [...inside.keys()]));
  return { payload: made, a, b, names, marks: marksOf(old, state), count: rewrites.length };
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
  const artifact = { k: "module", c: /** @type {number[]} */ ([]), n: 0, note: "" };
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
