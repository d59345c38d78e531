// Which groups the first picture has open: as many as fit the pane at a legible size, the heaviest first.
import { wholeSight } from "./fly.js";
import { AROUND, covered, LEGIBLE, outlook, workOf } from "./place.js";

/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./place.js").Room} Room */

const MOST_BOXES = 40;
const FEWEST = 4;
const FEW_BOXES = 7;
const TRIED = 14;
const ENOUGH = 0.47;
const TOLD = [2, 3]; // boxes in a group that is worth opening for what they say: groups and products, or of any kind
const OF_PLAIN = 0.1; // how much less a group is worth opening of which all moves or maps elements
const DEEPER = 0.4; // and one in an open group, for each around it
const LOOSE = 1; // edges from column to column that opening a group may add
const MOST_TANGLED = 3; // of a picture that was decided for another stage
const SLIGHT = 0.01; // of all work: what does less is opened only where the pane is empty otherwise
/** The boxes that were drawn when it was decided. @type {WeakMap<Map<string, boolean>, string>} */
const SEEN = new WeakMap();

/** How a scene would look: whether all of it is legible at once, and how much of the pane its boxes cover. @param {Scene} scene @param {Room} room */
function prospect(scene, room) {
  const sheet = outlook(scene, room);
  const sight = wholeSight(sheet, { width: room.w, height: room.h });
  const part = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s) => covered(sheet.nodes.map((n) => [n[p], n[p] + n[s]]), Infinity) * sight.scale;
  return { fits: sight.scale >= LEGIBLE, tangled: sheet.tangled, cover: Math.min(part("x", "w") / room.w, part("y", "h") / (room.h + AROUND)) };
}

/** Whether a group that was opened says more than it did closed. @param {Scene} scene @param {import("./scene.js").SceneNode} was */
function tells(scene, was) {
  if (was.plain) return false;
  const inside = [...scene.nodes.values()].filter((n) => n.group === was.fold);
  const groups = [...scene.groups.values()].filter((g) => g.parent === was.fold).length;
  return inside.filter((n) => (n.fold && !n.plain) || /matrix/.test(n.item.f)).length + groups >= TOLD[0] || inside.length + groups >= TOLD[1];
}

/** A group opened, and where it holds but one group that says something, that one too. @param {import("./scene.js").SceneNode} group @param {Set<string>} open @param {Set<string>} given @param {(open: Set<string>) => Scene} sceneWith */
function openedWithOnly(group, open, given, sceneWith) {
  const more = new Set([...open, group.fold]);
  let opened = sceneWith(more);
  let inmost = group;
  for (let n = 0; n < 3 && !tells(opened, inmost); n += 1) {
    const inner = [...opened.nodes.values()].filter((x) => x.group === inmost.fold && x.fold && !x.plain);
    if (inner.length !== 1 || !given.has(inner[0].fold)) break;
    [inmost] = inner;
    more.add(inmost.fold);
    opened = sceneWith(more);
  }
  return { more, opened, inmost };
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
  const isWorse = now.tangled > MOST_TANGLED && prospect(sceneWith(new Set()), room).tangled < now.tangled - LOOSE;
  if (open.size && (!now.fits || isWorse)) {
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
    const groups = scene.groups;
    const depth = (/** @type {string} */ key) => (groups.has(key) ? 1 + depth(groups.get(key)?.parent || "") : 0);
    const worth = (/** @type {import("./scene.js").SceneNode} */ n) => workOf(n) * DEEPER ** depth(n.group) * (n.plain ? OF_PLAIN : 1);
    const [heaviest] = closed.sort((a, b) => worth(b) - worth(a) || b.count - a.count);
    const { more, opened, inmost } = openedWithOnly(heaviest, open, given, sceneWith);
    const then = prospect(opened, room);
    const boxes = [...scene.nodes.values()].filter((x) => !x.port).length;
    const isClear = then.tangled <= now.tangled + LOOSE;
    const better = (tells(opened, inmost) || now.cover < ENOUGH) && opened.nodes.size <= MOST_BOXES && then.fits && isClear && (then.cover >= ENOUGH || then.cover >= now.cover);
    // Fewer than seven boxes say too little of a program: if all fits they may cover less of the pane.
    const taken = better || (then.fits ? boxes < (isClear ? FEW_BOXES : FEWEST) : scene.nodes.size < FEWEST);
    decided.set(heaviest.fold, taken);
    if (!taken) continue;
    for (const key of more) decided.set(key, true);
    for (const key of more) open.add(key);
    [scene, now] = [opened, then];
  }
  SEEN.set(decided, [...scene.nodes.keys()].join("\n"));
  return open;
}
