// Ways of edges between boxes that stand: straight where nothing is between, else by lanes beside the boxes; none where every way is blocked.

/** @typedef {import("./layers.js").Box} Box */
/** @typedef {{key: string, box: Box, inside: (key: string) => boolean}} Obstacle `inside`: whether an end lies within it, so that it may be entered */
/** @typedef {{from: string, to: string, a: Box, b: Box, across: boolean, at: number, into: number}} Way `at` and `into`: where on the sides of a and b the edge begins and ends, 0 the middle */

const CLEAR = 3; // between an edge and a box that it passes
const LEAVE = 11; // how far an edge leads straight out of a box
const LANES = [7, 12, 17];
const TIP = 2;

/** @param {Box} b @param {boolean} across @returns {Box} with x and y exchanged for edges from left to right */
function turned(b, across) {
  return across ? { x: b.y, y: b.x, w: b.h, h: b.w } : b;
}

/**
 * The way of an edge as x, y, x, y, ...; null where no short one is free.
 * @param {Way} way @param {Obstacle[]} obstacles @param {Set<number>} taken lanes that others use
 * @returns {number[] | null}
 */
export function route(way, obstacles, taken) {
  const { across } = way;
  const [a, b] = [turned(way.a, across), turned(way.b, across)];
  const [sx, sy, tx, ty] = [a.x + a.w / 2 + way.at, a.y + a.h, b.x + b.w / 2 + way.into, b.y - TIP];
  const [low, high] = [Math.min(sy, ty) - 60, Math.max(sy, ty) + 60];
  const near = obstacles.filter((o) => !o.inside(way.from) && !o.inside(way.to)).map((o) => turned(o.box, across)).filter((o) => o.y < high && o.y + o.h > low);
  const points = direct(sx, sy, tx, ty, near) || detour(sx, sy, tx, ty, [...near, a, b], taken);
  if (!points || !across) return points;
  return points.map((_, k) => points[k ^ 1]);
}

/**
 * The smooth way through lanes that were kept free for an edge; null where none were, or where a box stands in one of them by now.
 * @param {Way} way @param {import("./layers.js").Lane[] | null} lanes @param {Obstacle[]} obstacles
 * @returns {{points: number[], d: string} | null}
 */
export function guided(way, lanes, obstacles) {
  if (!lanes) return null;
  const { across } = way;
  const [a, b] = [turned(way.a, across), turned(way.b, across)];
  const [first, last] = [lanes[0], lanes[lanes.length - 1]];
  const begin = { x: a.x + a.w / 2 + way.at, from: a.y + a.h, to: Math.max(a.y + a.h, first.to) };
  const end = { x: b.x + b.w / 2 + way.into, from: Math.min(last.from, b.y - TIP), to: b.y - TIP };
  const stops = [begin, ...lanes.slice(1, -1), end];
  if (stops.some((s, k) => k > 0 && s.from < stops[k - 1].to)) return null;
  const near = obstacles.filter((o) => !o.inside(way.from) && !o.inside(way.to)).map((o) => turned(o.box, across)).filter((o) => o.y < end.to && o.y + o.h > begin.from);
  const n = (/** @type {number} */ x, /** @type {number} */ y) => (across ? [y, x] : [x, y]).map((v) => Math.round(v * 10) / 10).join(",");
  const points = [begin.x, begin.from];
  let d = `M${n(begin.x, begin.from)}`;
  for (let k = 0; k < stops.length; k += 1) {
    const [here, next] = [stops[k], stops[k + 1]];
    if (!isFree(here.x, here.from, here.x, here.to, near)) return null;
    // without a last piece of no length, which would turn the arrowhead
    if (here.to - here.from >= 0.1) d += `L${n(here.x, here.to)}`;
    points.push(here.x, here.to);
    if (!next) break;
    if (!curveIsFree(here.x, here.to, next.x, next.from, near)) return null;
    const middle = (here.to + next.from) / 2;
    d += Math.abs(here.x - next.x) < 1 ? `L${n(next.x, next.from)}` : `C${n(here.x, middle)} ${n(next.x, middle)} ${n(next.x, next.from)}`;
    points.push(next.x, next.from);
  }
  return { points: across ? points.map((_, k) => points[k ^ 1]) : points, d };
}

/** Straight down, or in one curve. @param {number} sx @param {number} sy @param {number} tx @param {number} ty @param {Box[]} near */
function direct(sx, sy, tx, ty, near) {
  if (ty - sy < 12) return null;
  return curveIsFree(sx, sy, tx, ty, near) ? [sx, sy, tx, ty] : null;
}

/** Whether the curve from one point to another, downwards at both, passes no box. @param {number} sx @param {number} sy @param {number} tx @param {number} ty @param {Box[]} near */
function curveIsFree(sx, sy, tx, ty, near) {
  const steps = Math.abs(sx - tx) < 1 ? 1 : 10;
  let [x0, y0] = [sx, sy];
  for (let k = 1; k <= steps; k += 1) {
    const t = k / steps;
    const [x1, y1] = [sx + (tx - sx) * t * t * (3 - 2 * t), sy + (ty - sy) * (1.5 * t * (1 - t) + t * t * t)];
    if (!isFree(x0, y0, x1, y1, near)) return false;
    [x0, y0] = [x1, y1];
  }
  return true;
}

/** By a lane: out, aside, along, aside, in. @param {number} sx @param {number} sy @param {number} tx @param {number} ty @param {Box[]} near @param {Set<number>} taken */
function detour(sx, sy, tx, ty, near, taken) {
  /** @type {number[] | null} */
  let best = null;
  let least = Math.abs(sx - tx) * 1.2 + Math.abs(sy - ty) * 1.6 + 300;
  const lanes = new Set([sx, tx]);
  for (const o of near) for (const d of LANES) lanes.add(o.x - d).add(o.x + o.w + d);
  for (const y1 of [sy + LEAVE, sy + LEAVE + 5]) {
    for (const y2 of [ty - LEAVE, ty - LEAVE - 5]) {
      for (const x of lanes) {
        const length = Math.abs(sx - x) + Math.abs(x - tx) + Math.abs(y2 - y1) + (taken.has(Math.round(x)) && x !== sx && x !== tx ? 25 : 0) + Math.abs(y1 - sy) + Math.abs(ty - y2);
        if (length >= least) continue;
        const bent = [[sx, sy], [sx, y1], [x, y1], [x, y2], [tx, y2], [tx, ty]];
        if (bent.every(([px, py], k) => !k || isFree(bent[k - 1][0], bent[k - 1][1], px, py, near))) [best, least] = [bent.flat(), length];
      }
    }
  }
  if (best) taken.add(Math.round(best[4]));
  return best;
}

/** Whether a piece of an edge passes no box. @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {Box[]} boxes */
function isFree(x0, y0, x1, y1, boxes) {
  const [left, right, top, bottom] = [Math.min(x0, x1), Math.max(x0, x1), Math.min(y0, y1), Math.max(y0, y1)];
  return boxes.every((b) => right <= b.x - CLEAR || left >= b.x + b.w + CLEAR || bottom <= b.y || top >= b.y + b.h);
}

/** A way as an SVG path: two points in one curve, more with round corners. @param {number[]} p @param {boolean} [across] */
export function wayPath(p, across = false) {
  const [x0, y0] = p;
  const [x1, y1] = p.slice(-2);
  const n = (/** @type {number} */ v) => Math.round(v * 10) / 10;
  if (p.length === 4) {
    if (Math.abs(x0 - x1) < 1 || Math.abs(y0 - y1) < 1) return `M${n(x0)},${n(y0)}L${n(x1)},${n(y1)}`;
    const [bx, by] = across ? [(x1 - x0) / 2, 0] : [0, Math.max((y1 - y0) / 2, y1 > y0 ? 0 : 30)];
    return `M${n(x0)},${n(y0)}C${n(x0 + bx)},${n(y0 + by)} ${n(x1 - bx)},${n(y1 - by)} ${n(x1)},${n(y1)}`;
  }
  let d = `M${n(x0)},${n(y0)}`;
  for (let k = 2; k + 3 < p.length; k += 2) {
    const [ax, ay, bx, by, cx, cy] = p.slice(k - 2, k + 4);
    const [first, second] = [Math.hypot(bx - ax, by - ay), Math.hypot(cx - bx, cy - by)];
    const r = Math.min(7, first / 2, second / 2);
    if (r < 0.5) continue;
    d += `L${n(bx + ((ax - bx) * r) / first)},${n(by + ((ay - by) * r) / first)}Q${n(bx)},${n(by)} ${n(bx + ((cx - bx) * r) / second)},${n(by + ((cy - by) * r) / second)}`;
  }
  return `${d}L${n(x1)},${n(y1)}`;
}
