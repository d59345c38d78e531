// Keep a placement while its boxes come and go: what survives a pass stands still, what is new takes a free place beside what it uses.

/** @typedef {import("./layers.js").Box} Box */

const APART = 14;
const STEP = 26;
const FAR = 520; // a new box further from where it belongs would tell nothing
const SURVIVE = 0.6; // of the old and of the new ones, below that all is placed anew
const SPARSE = 0.6; // how much of its density a placement may lose

/** The corner that is furthest. @param {Iterable<Box>} boxes @returns {[number, number]} */
export function extentOf(boxes) {
  let [w, h] = [0, 0];
  for (const b of boxes) [w, h] = [Math.max(w, b.x + b.w), Math.max(h, b.y + b.h)];
  return [w, h];
}

/** @param {Box} a @param {Box} b @param {number} apart */
function meet(a, b, apart) {
  return a.x < b.x + b.w + apart && b.x < a.x + a.w + apart && a.y < b.y + b.h + apart && b.y < a.y + a.h + apart;
}

/** How much of its extent a placement fills. @param {Map<string, Box>} boxes */
export function density(boxes) {
  const [w, h] = extentOf(boxes.values());
  return [...boxes.values()].reduce((t, b) => t + b.w * b.h, 0) / Math.max(1, w * h);
}

/**
 * The places of what is there now, survivors where they were.
 * @param {{boxes: Map<string, Box>, dense: number}} last how dense it was when all was placed
 * @param {Map<string, [number, number]>} sizes @param {[string, string][]} edges @param {boolean} across
 * @returns {Map<string, Box> | null} null where it is better to place all anew
 */
export function stay(last, sizes, edges, across) {
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  for (const [k, [w, h]] of sizes) {
    const old = last.boxes.get(k);
    if (old) boxes.set(k, { x: old.x, y: old.y, w, h });
  }
  if (boxes.size < SURVIVE * Math.max(sizes.size, last.boxes.size)) return null;
  const stood = [...boxes.values()];
  if (stood.some((a, i) => a.x < 0 || a.y < 0 || stood.slice(i + 1).some((b) => meet(a, b, 4)))) return null;
  for (const [k, size] of sizes) {
    if (boxes.has(k)) continue;
    const box = freePlace(k, size, edges, boxes, across);
    if (!box) return null;
    boxes.set(k, box);
  }
  const isBack = (/** @type {[string, string]} */ [a, b], /** @type {Map<string, Box>} */ at) => {
    const [from, to] = [at.get(a), at.get(b)];
    if (!from || !to) return false;
    const [beside, behind] = across ? [to.y < from.y + from.h && from.y < to.y + to.h, to.x < from.x + from.w] : [to.x < from.x + from.w && from.x < to.x + to.w, to.y < from.y + from.h];
    return beside && behind; // those that lead to another column may lead up
  };
  if (edges.some((e) => isBack(e, boxes))) return null;
  return density(boxes) < SPARSE * last.dense ? null : boxes;
}

/** The free place that is nearest to where a box belongs: behind what it uses, before what uses it. @param {string} key @param {[number, number]} size @param {[string, string][]} edges @param {Map<string, Box>} boxes @param {boolean} across @returns {Box | null} */
function freePlace(key, [w, h], edges, boxes, across) {
  const above = edges.filter((e) => e[1] === key).flatMap((e) => boxes.get(e[0]) || []);
  const below = edges.filter((e) => e[0] === key).flatMap((e) => boxes.get(e[1]) || []);
  const near = [...above, ...below];
  if (!near.length) return null;
  const [along, size] = across ? [/** @type {const} */ ("x"), w] : [/** @type {const} */ ("y"), h];
  const from = above.length ? Math.max(...above.map((b) => b[along] + (across ? b.w : b.h))) + STEP : 0;
  const to = below.length ? Math.min(...below.map((b) => b[along])) - size - STEP : Infinity;
  const middle = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s) => near.reduce((t, b) => t + b[p] + b[s] / 2, 0) / near.length;
  const wish = { x: middle("x", "w") - w / 2, y: middle("y", "h") - h / 2, [along]: above.length ? from : Math.max(0, to) };
  const [right, bottom] = extentOf(boxes.values());
  const all = [...boxes.values()];
  /** @type {Box | null} */
  let best = null;
  let least = FAR;
  for (let x = Math.max(0, wish.x % STEP); x <= right + STEP; x += STEP) {
    for (let y = Math.max(0, wish.y % STEP); y <= bottom + STEP; y += STEP) {
      const place = across ? x : y;
      const d = Math.hypot(x - wish.x, y - wish.y);
      if (d >= least || place < from || place > Math.max(to, 0)) continue;
      const box = { x: Math.round(x), y: Math.round(y), w, h };
      if (all.every((b) => !meet(box, b, APART))) [best, least] = [box, d];
    }
  }
  return best;
}
