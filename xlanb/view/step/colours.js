// What a node's colour tells: its family of ops, its scope, its sharding, its time or its memory. The legend says it in words too.
import { bytes, time } from "./dom.js";
import { workOf } from "./place.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {{of(item: Item): string, legend: {cls: string, label: string}[]}} Paint */

/** The ways to colour, by the word that the reader sees. */
export const COLOURS = ["opcode", "name scope", "cluster", "sharding", "time", "memory"];
/** What boxes are weighed by. */
export const WEIGHTS = ["cost", "time", "flops", "bytes", "ops"];
const HUES = 8;
const HEAT = 5;

/** @type {Record<string, string>} */
const FAMILY = {
  input: "input",
  constant: "constant",
  element: "elementwise",
  data: "data movement",
  reduce: "reduction",
  matrix: "dot, convolution",
  norm: "normalization",
  control: "control",
  fusion: "fusion",
  comm: "transfer",
  variable: "variable",
  launch: "launch",
  scope: "scope",
};

/** @type {Record<string, number>} */
const BITS = { pred: 8, s4: 4, u4: 4, s2: 2, u2: 2, c64: 64, c128: 128, bf16: 16, token: 0, opaque: 0 };

/** Bytes of a shape's text, tuples summed: "(f32[2,3], pred[])". @param {string} shape */
export function shapeBytes(shape) {
  let total = 0;
  for (const [, type, dims] of shape.matchAll(/\b([a-z]+\d*[a-z0-9]*)\[([^\]]*)\]/g)) {
    const bits = BITS[type] ?? Number(type.match(/\d+/)?.[0] || 0);
    const count = dims.split(",").filter((d) => d.trim()).reduce((t, d) => t * (Number(d.replace(/[^\d]/g, "")) || 0), 1);
    total += Math.ceil((count * bits) / 8);
  }
  return total;
}

/**
 * How to paint the items of a picture.
 * @param {string} mode one of COLOURS
 * @param {Item[]} items
 * @param {Map<string, number>} seconds time by op, where a run was timed
 * @param {(text: string) => string} [laid] a sharding in short
 * @returns {Paint}
 */
export function paint(mode, items, seconds, laid = (text) => text) {
  if (mode === "name scope") return byName(items, scopeOf(items));
  if (mode === "cluster") return byName(items, (i) => i.g || "");
  if (mode === "sharding") return byName(items, (i) => (i.sh ? laid(i.sh) : ""));
  if (mode === "time") return byHeat(items, (i) => seconds.get(i.n), (v) => time(v));
  if (mode === "memory") return byHeat(items, (i) => shapeBytes(i.s) || undefined, (v) => bytes(v));
  const family = (/** @type {Item} */ i) => i.f.replace(/^tf-/, "");
  const shown = [...new Set(items.map(family))].slice(0, 10);
  return { of: (i) => `fam-${family(i)}`, legend: shown.map((f) => ({ cls: `fam-${f}`, label: FAMILY[f] || f })) };
}

/** What weighs how much, by the word that the reader sees. @type {Record<string, (n: any, seconds: Map<string, number>) => number>} */
const WEIGHING = {
  cost: workOf,
  time: (n, seconds) => n.weight?.seconds ?? seconds.get(n.item.n) ?? 0,
  flops: (n) => n.weight?.flops ?? 0,
  bytes: (n) => n.weight?.bytes ?? shapeBytes(n.item.s),
  ops: (n) => n.count || 1,
};

/** Each node's share of the weight of all that is drawn, and the largest share. @param {any[]} nodes @param {string} mode one of WEIGHTS @param {Map<string, number>} seconds */
export function shares(nodes, mode, seconds) {
  const timed = mode === "cost" && nodes.some((n) => seconds.has(n.item.n)) && !nodes.some((n) => n.weight?.seconds);
  const weights = nodes.map((n) => WEIGHING[timed ? "time" : mode](n, seconds));
  const total = weights.reduce((t, w) => t + w, 0) || 1;
  const most = Math.max(...weights, 0) / total || 1;
  nodes.forEach((n, k) => Object.assign(n, { share: weights[k] / total, most }));
}

/** The parts of an op's name; a slash within brackets, as in `transpose(jvp(a/b))/mul`, parts nothing. @param {string} name @returns {string[]} */
export function segments(name) {
  const out = [""];
  let depth = 0;
  for (const c of name) {
    if (c === "(") depth += 1;
    else if (c === ")") depth = Math.max(0, depth - 1);
    if (c === "/" && !depth) out.push("");
    else out[out.length - 1] += c;
  }
  return out;
}

/** The name scope of an item, as deep as it takes to tell some apart. @param {Item[]} items @returns {(item: Item) => string} */
function scopeOf(items) {
  const path = (/** @type {Item} */ i) => segments(i.f.startsWith("tf-") ? i.n : i.m || "").slice(0, -1);
  for (let depth = 1; depth < 6; depth += 1) {
    const at = (/** @type {Item} */ i) => path(i).slice(0, depth).join("/");
    const names = new Set(items.map(at).filter((n) => n));
    if (names.size > 1 || !items.some((i) => path(i).length > depth)) return at;
  }
  return (i) => path(i).join("/");
}

/** @param {Item[]} items @param {(item: Item) => string} name @returns {Paint} */
function byName(items, name) {
  const count = new Map();
  for (const i of items) if (name(i)) count.set(name(i), (count.get(name(i)) || 0) + 1);
  const named = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([n]) => n);
  const hue = new Map(named.map((n, k) => [n, `hue-${Math.min(k, HUES - 1)}`]));
  const legend = named.slice(0, HUES - (named.length > HUES ? 1 : 0)).map((n) => ({ cls: /** @type {string} */ (hue.get(n)), label: n.length > 44 ? `${n.slice(0, 43)}…` : n }));
  if (named.length > HUES) legend.push({ cls: `hue-${HUES - 1}`, label: `${named.length - HUES + 1} more` });
  if (items.some((i) => !name(i))) legend.push({ cls: "hue-none", label: "none" });
  return { of: (i) => hue.get(name(i)) || "hue-none", legend };
}

/** @param {Item[]} items @param {(item: Item) => number | undefined} value @param {(v: number) => string} text @returns {Paint} */
function byHeat(items, value, text) {
  const known = items.map(value).filter((v) => v !== undefined && v > 0);
  if (!known.length) return { of: () => "hue-none", legend: [{ cls: "hue-none", label: "unknown: not yet measured" }] };
  const most = Math.max(.../** @type {number[]} */ (known));
  const level = (/** @type {number} */ v) => Math.max(0, Math.min(HEAT - 1, HEAT - 1 - Math.floor(Math.log2(most / v) / 2)));
  const legend = Array.from({ length: HEAT }, (_, k) => ({ cls: `heat-${k}`, label: k ? `≤ ${text(most / 4 ** (HEAT - 1 - k))}` : `≤ ${text(most / 4 ** (HEAT - 1))}` }));
  legend.push({ cls: "hue-none", label: "unknown" });
  return {
    of: (i) => {
      const v = value(i);
      return v !== undefined && v > 0 ? `heat-${level(v)}` : "hue-none";
    },
    legend,
  };
}
