// Which part of a drawing the pane shows: all of it where that is legible, else a part that cuts few boxes; and moving there.
import { LARGEST, LEGIBLE, MARGIN } from "./place.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {{x: number, y: number, scale: number}} Sight where the sheet's corner is in the pane, and how large */
/** @typedef {{width: number, height: number}} Pane */

const FLIGHT_MS = 260;
const SCALES = [1, 1.04, 1.08, 1.13, 1.2];
const NEARBY = 120;
const FOOT = 26; // below the pane stands the legend: a box that begins there would look cut off

/** All of a drawing, centred, with room around it for the edges that pass its boxes. @param {{w: number, h: number}} sheet @param {Pane} pane @returns {Sight} */
export function wholeSight(sheet, pane) {
  const small = Math.min((pane.width - 2 * MARGIN) / sheet.w, (pane.height - 2 * MARGIN) / sheet.h);
  const large = Math.min(pane.width / (sheet.w + 2 * MARGIN), pane.height / (sheet.h + 2 * MARGIN)); // edges are as much larger as boxes
  const scale = Math.min(small, large, LARGEST);
  return { scale, x: (pane.width - sheet.w * scale) / 2, y: (pane.height - sheet.h * scale) / 2 };
}

/**
 * The sight that a drawing begins with.
 * @param {Sheet} sheet @param {Pane} pane @param {Set<string>} changed keys of what a pass changed: the sight holds them where it may
 * @returns {Sight}
 */
export function firstSight(sheet, pane, changed) {
  const whole = wholeSight(sheet, pane);
  if (whole.scale >= LEGIBLE) return whole;
  const there = sheet.nodes.filter((n) => changed.has(n.key));
  const focus = there.length && there.length * 2 <= sheet.nodes.length ? there : null;
  const middle = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s) => (focus || []).reduce((t, n) => t + n[p] + n[s] / 2, 0) / (focus?.length || 1);
  /** @type {Sight | null} */
  let best = null;
  let least = Infinity;
  for (const factor of SCALES) {
    const scale = LEGIBLE * factor;
    const starts = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s, /** @type {number} */ room) => {
      const size = sheet[s] * scale;
      if (size <= room - 2 * MARGIN) return [(room - size) / 2];
      const aim = focus ? room / 2 - middle(p, s) * scale : MARGIN;
      const within = (/** @type {number} */ v) => Math.min(MARGIN, Math.max(room - MARGIN - size, v));
      const beside = betweenBoxes(sheet.nodes.map((n) => [n[p] * scale, (n[p] + n[s]) * scale]), room, within(aim), p === "y" ? FOOT : 0);
      return [...new Set([...(focus ? [0, -18, 18, -36, 36, -54, 54, -80, 80] : [0, -18, -36, -60]).map((d) => within(aim + d)), ...beside])];
    };
    for (const x of starts("x", "w", pane.width)) {
      for (const y of starts("y", "h", pane.height)) {
        const cost = badness(sheet, pane, { x, y, scale }) + (factor - 1) * 2;
        if (cost < least) [least, best] = [cost, { x, y, scale }];
      }
    }
  }
  return /** @type {Sight} */ (best);
}

/** Where a drawing may begin so that an end of the pane lies beside a box and does not cut it: those nearest to the wish. @param {number[][]} boxes from and to @param {number} room @param {number} wish @param {number} foot */
function betweenBoxes(boxes, room, wish, foot) {
  const all = boxes.flatMap(([from, to]) => [room + foot - from, room - 4 - to, 4 - from, -to]);
  return [...new Set(all)].filter((v) => Math.abs(v - wish) <= NEARBY).sort((a, b) => Math.abs(a - wish) - Math.abs(b - wish)).slice(0, 16);
}

/** How many boxes an edge of the pane cuts, and how few are to be seen. @param {Sheet} sheet @param {Pane} pane @param {Sight} sight */
function badness(sheet, pane, { x, y, scale }) {
  let [cut, seen] = [0, 0];
  for (const n of sheet.nodes) {
    const [left, top, right, bottom] = [n.x * scale + x, n.y * scale + y, (n.x + n.w) * scale + x, (n.y + n.h) * scale + y];
    if (right <= 0 || bottom <= 0 || left >= pane.width || top >= pane.height + FOOT) continue;
    if (left < 0 || top < 0 || right > pane.width || bottom > pane.height) cut += top < pane.height ? 1 : 0.5;
    else seen += 1;
  }
  return (10 * cut) / Math.max(1, cut + seen) + 3 * (1 - seen / sheet.nodes.length);
}

/** What the map may cover: the first corner where no box is, null where each has one. @param {Sheet} sheet @param {Pane} pane @param {Sight} sight @param {number} w @param {number} h */
export function freeCorner(sheet, pane, { x, y, scale }, w, h) {
  const corners = [["right", "bottom"], ["left", "bottom"], ["right", "top"], ["left", "top"]];
  return (
    corners.find(([across, down]) => {
      const [left, top] = [across === "left" ? 0 : pane.width - w, down === "top" ? 0 : pane.height - h];
      return sheet.nodes.every((n) => n.x * scale + x > left + w || (n.x + n.w) * scale + x < left || n.y * scale + y > top + h || (n.y + n.h) * scale + y < top);
    }) || null
  );
}

/**
 * Move from one sight to another.
 * @param {Sight} from @param {Sight} to @param {(sight: Sight) => void} show
 * @returns {() => void} what stops it where it is
 */
export function fly(from, to, show) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    show(to);
    return () => undefined;
  }
  const began = performance.now();
  let frame = 0;
  const step = () => {
    const t = Math.min(1, (performance.now() - began) / FLIGHT_MS);
    const eased = 1 - (1 - t) ** 3;
    const mix = (/** @type {number} */ a, /** @type {number} */ b) => a + (b - a) * eased;
    show({ x: mix(from.x, to.x), y: mix(from.y, to.y), scale: mix(from.scale, to.scale) });
    if (t < 1) frame = requestAnimationFrame(step);
  };
  frame = requestAnimationFrame(step);
  return () => cancelAnimationFrame(frame);
}
