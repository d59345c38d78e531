// What a pass removed, in place: where an op stood before, as far as nothing stands there now.
import { plural, s } from "./dom.js";
import { shortened } from "./measure.js";
import { isGroup } from "./store.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./layers.js").Box} Box */
/** @typedef {Box & {key: string, item: import("./store.js").Item, count: number, group: string, removed: number}} Ghost `count`: how many ops it is, `removed` how many parts of the program are gone with it */

const MOST_GHOSTS = 40;
const CLEAR_OF_GHOST = 6;
const STILL = 12;

/** The removed ops that were drawn by themselves, and the closed groups of which all was removed. @param {Scene} before @param {Set<string>} removed @returns {string[]} their keys */
export function goneFrom(before, removed) {
  return [...before.nodes].filter(([, n]) => !n.port && (n.fold ? n.marks.removed > 0 && n.marks.removed >= n.count : removed.has(n.item.n))).map(([key]) => key);
}

/**
 * Count the ops that a pass removed where they stood before it, in all groups around; those of a box that is there no more where most of what survived of it is.
 * @param {Scene} scene changed in place @param {Scene} before
 */
export function countRemoved(scene, before) {
  const old = new Map([...before.groups, ...before.nodes]);
  const upper = (/** @type {string} */ key) => before.nodes.get(key)?.group ?? before.groups.get(key)?.parent ?? "";
  const isHere = (/** @type {string} */ key) => scene.groups.has(key) || scene.nodes.has(key);
  // of a group what is counted in none of its boxes
  const own = new Map([...old].map(([key, x]) => [key, x.marks.removed]));
  for (const [key, x] of old) if (upper(key)) own.set(upper(key), (own.get(upper(key)) || 0) - x.marks.removed);
  /** @type {Map<string, Map<string, number>> | null} */
  let survivors = null;
  const above = (/** @type {string} */ key) => scene.nodes.get(key)?.group ?? scene.groups.get(key)?.parent ?? "";
  for (const [key, removed] of own) {
    if (!(removed > 0)) continue;
    let at = key;
    while (at && !isHere(at)) at = upper(at);
    if (at !== key && (before.groups.has(key) || old.get(key)?.fold)) {
      survivors ||= survivorsIn(scene, before, upper, above);
      const heir = heirOf(survivors.get(key), above, at);
      const node = scene.nodes.get(heir);
      if (node) node.heir = true;
      at = heir || at;
    }
    for (; isHere(at); at = above(at)) /** @type {{marks: import("./scene.js").Tally}} */ (scene.nodes.get(at) || scene.groups.get(at)).marks.removed += removed;
  }
}

/** The innermost box within another ("" for all) in which most of what survived is; where it is all over, the one with the most of it. @param {Map<string, number> | undefined} votes @param {(key: string) => string} above @param {string} around @returns {string} */
function heirOf(votes, above, around) {
  const total = votes?.get(around) || 0;
  const within = (/** @type {string} */ box) => [...(votes || [])].filter(([key]) => key && above(key) === box).sort((a, b) => b[1] - a[1])[0] || ["", 0];
  let [heir] = within(around);
  for (let [inner, n] = within(heir); heir && n * 2 > total; [inner, n] = within(heir)) heir = inner;
  return heir;
}

/**
 * By box before a pass, how many ops of it are in which box after it, "" for all of them.
 * @param {Scene} scene @param {Scene} before @param {(key: string) => string} upper @param {(key: string) => string} above @returns {Map<string, Map<string, number>>}
 */
function survivorsIn(scene, before, upper, above) {
  /** @type {Map<string, Map<string, number>>} */
  const out = new Map();
  for (const [name, at] of before.where) {
    if (before.inlined.has(name) || scene.inlined.has(name)) continue; // in closed groups alone they have a place
    const now = scene.where.get(name);
    for (let key = at; now && key; key = upper(key)) {
      if (!out.has(key)) out.set(key, new Map());
      const votes = /** @type {Map<string, number>} */ (out.get(key));
      for (let box = now; box; box = above(box)) votes.set(box, (votes.get(box) || 0) + 1);
      votes.set("", (votes.get("") || 0) + 1);
    }
  }
  return out;
}

/** Where removed ops stood, moved along with the group that they stood in. @param {Sheet} sheet @param {Sheet} before @param {string[]} gone keys @returns {Ghost[]} */
export function ghostsOf(sheet, before, gone) {
  const frames = new Map(sheet.groups.map((g) => [g.key, g]));
  const old = new Map(before.groups.map((g) => [g.key, g]));
  const stood = new Map(before.nodes.map((n) => [n.key, n]));
  const drawn = new Set(sheet.nodes.map((n) => n.key));
  const still = stillGroups(sheet, before);
  /** @type {Ghost[]} */
  const out = [];
  for (const key of gone) {
    const n = stood.get(key);
    if (!n || drawn.has(key) || out.length >= MOST_GHOSTS || !still.has(n.group)) continue;
    const [from, to] = [old.get(n.group), frames.get(n.group)];
    if (n.group && !(from && to)) continue; // its group is closed: that counts it
    const ghost = { key, item: n.item, count: n.count, group: n.group, removed: n.marks?.removed || 1, x: n.x + (from && to ? to.x - from.x : 0), y: n.y + (from && to ? to.y - from.y : 0), w: n.w, h: n.h };
    if (ghost.x + ghost.w <= sheet.w && ghost.y + ghost.h <= sheet.h && isFreeFor(ghost, n.group, sheet, out)) out.push(ghost);
  }
  return out;
}

/** The groups ("" for the program) in which what survived stands where it stood: elsewhere a place of old tells nothing. @param {Sheet} sheet @param {Sheet} before */
function stillGroups(sheet, before) {
  const boxesOfGroup = (/** @type {Sheet} */ x) => {
    const frames = new Map(x.groups.map((g) => [g.key, g]));
    return new Map([...x.nodes, ...x.groups].map((n) => {
      const group = "parent" in n ? n.parent : n.group;
      const frame = frames.get(group);
      return [n.key, { group, x: n.x - (frame?.x || 0), y: n.y - (frame?.y || 0) }];
    }));
  };
  const old = boxesOfGroup(before);
  /** @type {Map<string, number[]>} */
  const stays = new Map();
  for (const [key, now] of boxesOfGroup(sheet)) {
    const was = old.get(key);
    if (was?.group !== now.group) continue;
    if (!stays.has(now.group)) stays.set(now.group, [0, 0]);
    /** @type {number[]} */ (stays.get(now.group))[Math.hypot(was.x - now.x, was.y - now.y) < STILL ? 0 : 1] += 1;
  }
  return new Set([...stays].filter(([, [same, moved]]) => same > moved).map(([group]) => group));
}

/** @param {Ghost} ghost @param {string} group @param {Sheet} sheet @param {Ghost[]} others */
function isFreeFor(ghost, group, sheet, others) {
  const around = new Set();
  const parents = new Map(sheet.groups.map((g) => [g.key, g]));
  for (let g = parents.get(group); g; g = parents.get(g.parent)) around.add(g.key);
  const meets = (/** @type {Box} */ b) => ghost.x < b.x + b.w + CLEAR_OF_GHOST && b.x < ghost.x + ghost.w + CLEAR_OF_GHOST && ghost.y < b.y + b.h + CLEAR_OF_GHOST && b.y < ghost.y + ghost.h + CLEAR_OF_GHOST;
  const frame = parents.get(group);
  if (frame && (ghost.x < frame.x || ghost.x + ghost.w > frame.x + frame.w || ghost.y + ghost.h > frame.y + frame.h)) return false;
  return ![...sheet.nodes, ...others].some(meets) && !sheet.groups.some((g) => !around.has(g.key) && meets(g));
}

/** @param {Ghost} ghost @returns {SVGElement} */
export function drawGhost({ item, count, x, y, w, h: ht }) {
  const name = isGroup(item) ? `${item.h[0]}, ${plural(count, "op")}` : item.n;
  return s(
    "g",
    { class: "ghost", role: "treeitem", "aria-label": `${isGroup(item) ? "" : `${item.o} `}${name}, removed`, transform: `translate(${x},${y})`, data: { op: item.n } },
    s("title", {}, `${name}: removed by this pass\n${item.t.trim()}`),
    s("rect", { width: w, height: ht, rx: 7 }),
    s("text", { x: w / 2, y: ht / 2 + 4.3 }, shortened(item.h[0], w - 30, "title")),
    s("text", { class: "mark", x: w - 9, y: 12 }, "−"),
  );
}
