// Which groups the first picture has open: as many as fit the pane at a legible size, the heaviest first.
import { wholeSight } from "./fly.js";
import { AROUND, covered, LEGIBLE, outlook, workOf } from "./place.js";

/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./place.js").Room} Room */

const MOST_BOXES = 40;
const FEWEST = 4;
const TRIED = 14;
const ENOUGH = 0.47;
const SLIGHT = 0.01; // of all work: what does less is opened only where the pane is empty otherwise
/** The boxes that were drawn when it was decided. @type {WeakMap<Map<string, boolean>, string>} */
const SEEN = new WeakMap();

/** How a scene would look: whether all of it is legible at once, and how much of the pane its boxes cover. @param {Scene} scene @param {Room} room */
function prospect(scene, room) {
  const sheet = outlook(scene, room);
  const sight = wholeSight(sheet, { width: room.w, height: room.h });
  const part = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s) => covered(sheet.nodes.map((n) => [n[p], n[p] + n[s]]), Infinity) * sight.scale;
  return { fits: sight.scale >= LEGIBLE, cover: Math.min(part("x", "w") / room.w, part("y", "h") / (room.h + AROUND)) };
}

/**
 * The groups to open.
 * @param {Set<string>} given those that may be open
 * @param {(open: Set<string>) => Scene} sceneWith the scene where these are open
 * @param {Room} room
 * @param {Map<string, boolean>} decided what was found of groups in the stages before: it stays so
 * @param {() => boolean} [fewer] have fewer boxes, where even the closed ones are too many; whether there are
 * @returns {Set<string>}
 */
export function openingThatFits(given, sceneWith, room, decided, fewer = () => false) {
  const open = new Set([...given].filter((k) => decided.get(k)));
  let scene = sceneWith(open);
  const told = [...scene.nodes.keys()].join("\n");
  if (decided.size && SEEN.get(decided) === told) return open; // the stage before had the same boxes
  let now = prospect(scene, room);
  if (open.size && !now.fits) {
    decided.clear();
    open.clear();
    scene = sceneWith(open);
    now = prospect(scene, room);
  }
  while (!now.fits && !open.size && fewer()) {
    scene = sceneWith(open);
    now = prospect(scene, room);
  }
  for (let n = 0; n < TRIED; n += 1) {
    const total = [...scene.nodes.values()].reduce((t, x) => t + workOf(x), 0); // what does no work is not worth opening
    const closed = [...scene.nodes.values()].filter((x) => x.fold && !decided.has(x.fold) && (workOf(x) || !total) && ((given.has(x.fold) && workOf(x) >= SLIGHT * total) || scene.nodes.size < FEWEST || now.cover < ENOUGH));
    if (!closed.length) break;
    const [heaviest] = closed.sort((a, b) => workOf(b) - workOf(a) || b.count - a.count);
    const more = new Set([...open, heaviest.fold]);
    const opened = sceneWith(more);
    const then = prospect(opened, room);
    const better = opened.nodes.size <= MOST_BOXES && then.fits && (then.cover >= ENOUGH || then.cover >= now.cover);
    // Fewer than seven boxes say too little of a program: if all fits they may cover less of the pane.
    const taken = better || scene.nodes.size < (then.fits ? 7 : FEWEST);
    decided.set(heaviest.fold, taken);
    if (!taken) continue;
    open.add(heaviest.fold);
    [scene, now] = [opened, then];
  }
  SEEN.set(decided, [...scene.nodes.keys()].join("\n"));
  return open;
}
