// The tree of groups of a computation as Python made it: which op lies where, what is inlined, what it costs.

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Chunk} Chunk */
/** @typedef {import("./store.js").Artifact} Artifact */
/**
 * @typedef {{key: string, label: string, kind: string, parent: number, children: number[], ops: number[], hidden: [number, number, number, string] | null, stack: number}} OutlineGroup `ops` lie
 *   in it directly, by their place among the items; `hidden` [ops, flops, bytes, label] that are not on the page; `stack` how many it stands for
 * @typedef {{name: string, items: Item[], groups: OutlineGroup[], member: number[], roles: string, costs: number[][], calls: Map<number, string[]>, across: number[][],
 *   twins: Map<number, Map<number, number>>, parameters: number, alike: Map<number, number>, others: number[][], trips: Map<number, number>}} Outline `calls` the computations that an op calls, `trips` how often the body of a loop executes, `across` the edges of what is hidden,
 *   `parameters` how many are; `alike` by op of an instance that is not told what stands for it, a group or -2 - op, and `others` [op, ops, flops, bytes] of the ops in such instances that are not on the page
 */

const NO_COST = [0, 0];
/** @type {WeakMap<Chunk, Outline>} */
const OUTLINES = new WeakMap();

/** Outlines of an artifact's computations by name, the entry under "". @param {Artifact} artifact @param {Payload} payload @returns {Map<string, Outline>} */
export function outlines(artifact, payload) {
  const out = new Map();
  for (const c of artifact.c || []) {
    const chunk = payload.chunks[c];
    const head = chunk.h.match(/^(ENTRY )?(?:graph |function )?%?(\S+) [({]/);
    if (!head || !(chunk.i.length || chunk.t?.x)) continue;
    const outline = outlineOf(chunk, payload, head[2]);
    const first = Boolean(head[1]) || (artifact.k === "graph" && chunk.h.startsWith("graph ") && !out.has(""));
    if (first) out.set("", outline);
    if (!first || artifact.k === "module") out.set(head[2], outline);
  }
  if (!out.has("") && out.size) out.set("", [...out.values()].at(-1));
  return out;
}

/** @param {Chunk} chunk @param {Payload} payload @param {string} name @returns {Outline} */
function outlineOf(chunk, payload, name) {
  let outline = OUTLINES.get(chunk);
  if (outline) return outline;
  const items = chunk.i.map((i) => payload.items[i]);
  const t = chunk.t || { g: [], m: [], r: items.map((i) => (i.o === "parameter" ? "i" : ".")).join(""), u: [], w: [] };
  /** @type {OutlineGroup[]} */
  const groups = [];
  for (const [parent, kind, label, given, times] of t.g) {
    const above = parent >= 0 ? `${groups[parent].key}/` : "";
    groups.push({ key: given || `${above}${label}`, label, kind, parent, children: [], ops: [], hidden: null, stack: times || 1 });
    if (parent >= 0) groups[parent].children.push(groups.length - 1);
  }
  for (const g of groups) if (g.kind === "repeat") g.stack = Math.max(g.stack, g.children.length);
  /** @type {number[]} */
  const member = [];
  for (let k = 0; k < t.m.length; k += 2) for (let n = 0; n < t.m[k + 1]; n += 1) member.push(t.m[k]);
  while (member.length < items.length) member.push(-1);
  member.forEach((g, k) => g >= 0 && groups[g].ops.push(k));
  let next = 0;
  const costs = items.map((_, k) => (t.r[k] === "." ? t.u[t.w[next++]] || NO_COST : NO_COST));
  for (const [g, ...rest] of t.x?.n || []) if (g >= 0) groups[g].hidden = rest;
  const calls = new Map((t.c || []).map((/** @type {any[]} */ [k, ...called]) => [k, called]));
  items.forEach((i, k) => i.c && calls.set(k, i.c));
  outline = { name, items, groups, member, roles: t.r, costs, calls, across: t.x?.e || [], twins: new Map(), parameters: t.x?.p || 0, alike: fromPairs(t.x?.t || []), others: t.x?.o || [], trips: fromPairs(t.l || []) };
  OUTLINES.set(chunk, outline);
  return outline;
}

/** @param {number[]} flat key, value, ... @returns {Map<number, number>} */
function fromPairs(flat) {
  return new Map(flat.flatMap((x, k) => (k % 2 ? [] : [[x, flat[k + 1]]])));
}

/** The groups around an op, the innermost first. @param {Outline} outline @param {number} k @returns {number[]} */
export function around(outline, k) {
  const out = [];
  for (let g = outline.member[k]; g >= 0; g = outline.groups[g].parent) out.push(g);
  return out;
}

/**
 * What of the first instance of a repeat the ops and groups of the others stand for: ops by their place, groups as -1 - place; -Infinity where one has no twin.
 * @param {Outline} outline @param {number} repeat @returns {Map<number, number>}
 */
export function twinsOf(outline, repeat) {
  let twins = outline.twins.get(repeat);
  if (!twins) {
    outline.twins.set(repeat, (twins = new Map()));
    const [first, ...others] = outline.groups[repeat].children;
    for (const other of others) pairUp(outline, first, other, twins);
  }
  return twins;
}

/** @param {Outline} outline @param {number} first @param {number} other @param {Map<number, number>} twins */
function pairUp(outline, first, other, twins) {
  const { groups, items } = outline;
  twins.set(-1 - other, -1 - first);
  const match = (/** @type {number[]} */ from, /** @type {number[]} */ to, /** @type {(k: number) => string} */ word, /** @type {(a: number, b: number) => void} */ found) => {
    const waiting = new Map();
    for (const k of from) waiting.set(word(k), [...(waiting.get(word(k)) || []), k]);
    for (const k of to) {
      const twin = waiting.get(word(k))?.shift();
      found(k, twin === undefined ? -Infinity : twin);
    }
  };
  match(groups[first].ops, groups[other].ops, (k) => `${items[k].o} ${items[k].s}`, (k, twin) => twins.set(k, twin));
  match(groups[first].children, groups[other].children, (g) => `${groups[g].kind} ${groups[g].label.replace(/\d+/g, "")}`, (g, twin) => {
    if (twin >= 0) pairUp(outline, twin, g, twins);
    else loneGroup(outline, g, twins);
  });
}

/** @param {Outline} outline @param {number} group @param {Map<number, number>} twins */
function loneGroup(outline, group, twins) {
  twins.set(-1 - group, -Infinity);
  for (const k of outline.groups[group].ops) twins.set(k, -Infinity);
  for (const g of outline.groups[group].children) loneGroup(outline, g, twins);
}

/**
 * Give an artifact that was made here the groups of those that it was made from: an op lies where its namesake does, a new one with what it reads.
 * @param {Artifact} artifact changed in place @param {Payload} made that it is in @param {(Artifact | null)[]} sources @param {Payload} payload that they are in
 */
export function outlineFrom(artifact, made, sources, payload) {
  artifact.o = [...new Set(sources.flatMap((s) => s?.o || []))];
  const known = sources.map((s) => (s ? outlines(s, payload) : new Map()));
  for (const c of artifact.c || []) {
    const chunk = made.chunks[c];
    const name = chunk.h.match(/^(?:ENTRY )?%?(\S+) [({]/)?.[1] || "";
    const given = known.map((all) => all.get(name)).filter((o) => o);
    if (chunk.i.length && given.length) OUTLINES.set(chunk, merged(chunk.i.map((i) => made.items[i]), given, name));
  }
}

/** @param {Item[]} items @param {Outline[]} given @param {string} name @returns {Outline} */
function merged(items, given, name) {
  /** @type {Map<string, number>} */
  const at = new Map();
  /** @type {OutlineGroup[]} */
  const groups = [];
  const placeOf = given.map((outline) => {
    const places = /** @type {number[]} */ ([]);
    for (const g of outline.groups) {
      const there = at.get(g.key);
      places.push(there ?? groups.length);
      if (there !== undefined) continue;
      at.set(g.key, groups.length);
      groups.push({ ...g, parent: g.parent < 0 ? -1 : places[g.parent], children: [], ops: [], hidden: null });
    }
    return places;
  });
  /** @type {Map<string, [number, string, number[]]>} */
  const known = new Map();
  [...given.keys()].reverse().forEach((n) => given[n].items.forEach((i, k) => known.set(i.n, [given[n].member[k] < 0 ? -1 : placeOf[n][given[n].member[k]], given[n].roles[k], given[n].costs[k]])));
  /** @type {Map<string, number>} */
  const home = new Map();
  const found = items.map((i) => {
    const own = known.get(i.n) || [home.get((i.p || []).find((p) => (home.get(p) ?? -1) >= 0) || "") ?? -1, i.o === "constant" || i.o === "iota" ? "q" : i.o === "parameter" ? "i" : ".", NO_COST];
    home.set(i.n, own[0]);
    return own;
  });
  groups.forEach((g, k) => g.parent >= 0 && groups[g.parent].children.push(k));
  found.forEach(([g], k) => g >= 0 && groups[g].ops.push(k));
  const calls = new Map(items.flatMap((i, k) => (i.c ? [[k, i.c]] : [])));
  return { name, items, groups, member: found.map(([g]) => g), roles: found.map(([, r]) => r).join(""), costs: found.map(([, , c]) => c), calls, across: [], twins: new Map(), parameters: 0, alike: new Map(), others: [], trips: new Map() };
}

const BYTES = /** @type {Record<string, number>} */ ({ pred: 1, token: 0, c64: 8, c128: 16, bf16: 2, f8: 1 });
/** @type {Map<string, number>} */
const SIZES = new Map();

/** Bytes of a shape as HLO writes it; of a tuple all that is in it. @param {string} shape */
export function bytesOf(shape) {
  let size = SIZES.get(shape);
  if (size === undefined) {
    size = 0;
    for (const [, type, dims] of shape.matchAll(/([a-z]\w*)\[([\d,?<=]*)\]/g)) size += (BYTES[type] ?? Number(type.match(/\d+/)?.[0] || 32) / 8) * dims.split(",").reduce((n, d) => n * (d ? Number(d.match(/\d+/)?.[0] || 1) : 1), 1);
    SIZES.set(shape, size);
  }
  return size;
}
