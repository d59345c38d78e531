// Where each box of a scene stands: the innermost groups first, in the direction and the columns that fill the pane best.
import { laidOut, layered, ranked } from "./layers.js";
import { textWidth } from "./measure.js";
import { wayPath, route } from "./route.js";
import { density, extentOf, stay } from "./stay.js";
import { labelOf, placedStubs } from "./stubs.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./layers.js").Box} Box */
/** @typedef {import("./layers.js").Placed} Placed */
/** @typedef {import("./layers.js").Flow} Flow */
/** @typedef {{w: number, h: number, hold?: boolean}} Room the pane's size; `hold`: a group is being opened or closed, the rest stays as it is */
/** @typedef {{across: boolean, bands: number, lanes: number, roomy: number}} Style `lanes`: a rank is at most so large a part of the pane; `roomy`: how large the boxes are, 0 to 4 */
/** @typedef {{boxes: Map<string, Box>, groups: Set<string>, dense: number, made: Map<string, Placed>, flow: Flow | null}} Kept what a container looked like, and which of its children were open groups */
/** @typedef {{style: Style | null, worth: number, good: boolean, room: Room | null, kept: Map<string, Kept>, small: Set<string>}} Memory `worth`: how well the pane was used, `good`: whether all fitted and covered enough of it, `small`: groups that the reader opened */
/** @typedef {{children: Map<string, string[]>, lifted: Map<string, [string, string][]>, lifts: {box: string, from: string, to: string}[], edges: import("./scene.js").SceneEdge[]}} Nest */

/** Below this scale titles of 12.5 px would be less than 11 px on the screen, and what stands below them less than 11 px. */
export const LEGIBLE = 0.96;
export const LARGEST = 1.7;
export const MARGIN = 18;
const PAD = 18;
const HEAD = 25;
const HEIGHTS = [40, 52, 68, 86, 106];
const QUIET = 0.9; // how much smaller what only maps or moves elements is
const WIDEST = 210;
const STACKED = 7;
const PORT = 27;
const HEAVY = 0.08; // of all that is drawn: from here on a box is larger
const COVERED = 0.52;
const LEAST = 0.47;
export const AROUND = 58; // the tools above and the legend below belong to the pane too
const BUSY = 40;
const FAN = 5; // of a box with more edges only the near ones are drawn
const MADE = 24;
const TOLERATED = 0.4; // how much worse the pane may be used before all is placed anew

/** @returns {Memory} what a drawing remembers from one picture to the next, so that things stay where they are */
export function newMemory() {
  return { style: null, worth: 0, good: false, room: null, kept: new Map(), small: new Set() };
}

/** The weight of a node as one number: seconds, or work where nothing was measured. @param {any} n */
export function workOf(n) {
  const w = n.weight;
  return w ? w.seconds ?? Math.max(w.flops / 1e12, w.bytes / 1e11) : 0;
}

/** Width of "+3 −1 ~2". @param {import("./scene.js").Tally} marks */
export function tallyWidth({ added, removed, changed }) {
  return [added, removed, changed].reduce((t, n) => t + (n ? 7.4 * (String(n).length + 1) + 5 : 0), 0);
}

/** Whether a picture stands before a node's title. @param {any} n */
function iconic(n) {
  return /matrix|fusion|comm|control|launch|reduce/.test(n.item.f);
}

/** Width and height of a node's box. @param {any} n a node of a scene @param {number} roomy @param {number} share its part of all work drawn @returns {[number, number]} */
export function nodeSize(n, roomy = 0, share = 0) {
  if (n.port) return [Math.max(52, Math.min(150, textWidth(labelOf(n), "title") + 24 + (n.fold ? 20 : 0))), PORT];
  const [title, rest, below] = n.item.h;
  const operands = (n.operands || []).map((/** @type {any} */ o) => ` ·${o.text}`).join("");
  const said = n.count > 1 ? "" : `${rest}${operands}`;
  const text = Math.max(textWidth(title, "title") + textWidth(`${said}${n.stack > 1 ? ` ×${n.stack}` : ""}`, "rest") + (n.fold ? 20 : 0) + (iconic(n) ? 20 : 0), textWidth(below || "", "below") + (share >= 0.05 ? 58 : 0)) + 22;
  const least = Math.max([72, 112, 148, 168, 180][roomy], n.count > 1 ? 118 : 0); // what a pass did must have place in a group
  const more = n.stack > 1 ? STACKED : 0;
  return [Math.round(Math.max(least, Math.min(WIDEST, text))) + more, Math.round(HEIGHTS[roomy] * (share >= HEAVY ? 1.3 : n.count > 1 || iconic(n) || roomy > 1 ? 1 : QUIET)) + more];
}

/**
 * Place a scene.
 * @param {Scene} scene @param {Memory} [memory] @param {Room} [room] the pane's size on the screen
 * @returns {Sheet}
 */
export function place(scene, memory = newMemory(), room = { w: 880, h: 460 }) {
  const nest = nested(scene);
  for (const key of scene.groups.keys()) if (room.hold && !memory.kept.has(key)) memory.small.add(key);
  const total = [...scene.nodes.values()].reduce((t, n) => t + workOf(n), 0) || Infinity;
  const sizeOf = (/** @type {string} */ key, /** @type {number} */ roomy) => {
    const n = scene.nodes.get(key);
    return nodeSize(n, n?.group ? (memory.small.has(n.group) ? 0 : Math.max(0, roomy - 1)) : roomy, workOf(n) / total);
  };
  const arrange = () => {
    const style = styleOf(scene, nest, memory, room, sizeOf);
    const placed = arranged(scene, nest, style, room, (key) => sizeOf(key, style.roomy), memory);
    const outer = /** @type {Placed} */ (placed.get(""));
    const boxes = allBoxes(scene, placed);
    return { style, placed, value: worth(outer, [], boxes, room), good: isGood(outer, boxes, room) };
  };
  const known = memory.style;
  let { style, placed, value, good } = arrange();
  if (known && style === known && !room.hold && (value < memory.worth - TOLERATED || (memory.good && !good))) {
    memory.style = null; // the program has become another: what was best for it no longer is
    ({ style, placed, value, good } = arrange());
  }
  [memory.worth, memory.good] = [value, good];
  return sheetOfPlaced(scene, nest, placed, style, room);
}

/** Which box lies in which, and the edges between the children of each box. @param {Scene} scene @returns {Nest} */
function nested(scene) {
  /** @type {Map<string, string>} */
  const parent = new Map();
  /** @type {Map<string, string[]>} */
  const children = new Map([["", []]]);
  for (const [key, g] of scene.groups) {
    parent.set(key, g.parent);
    children.set(key, []);
  }
  for (const [key, n] of scene.nodes) parent.set(key, n.group);
  for (const [key, up] of parent) children.get(up)?.push(key);
  const chain = (/** @type {string} */ key) => {
    const out = [key];
    while (out[out.length - 1]) out.push(parent.get(out[out.length - 1]) || "");
    return out;
  };
  const edges = scene.edges.map((e) => (Array.isArray(e) ? { from: e[0], to: e[1], bytes: 0, ops: 1 } : e)).filter((e) => e.from !== e.to && scene.nodes.has(e.from) && scene.nodes.has(e.to));
  /** @type {Map<string, [string, string][]>} */
  const lifted = new Map();
  const lifts = edges.map((e) => {
    const [up, down] = [chain(e.from), chain(e.to)];
    const above = new Set(up.slice(1));
    const meet = down.findIndex((g, i) => i > 0 && above.has(g));
    const [box, from, to] = [down[meet], up[up.indexOf(down[meet], 1) - 1], down[meet - 1]];
    if (!lifted.has(box)) lifted.set(box, []);
    /** @type {[string, string][]} */ (lifted.get(box)).push([from, to]);
    return { box, from, to };
  });
  for (const [box, inside] of children) anchorPorts(scene, inside, lifted, box);
  return { children, lifted, lifts, edges };
}

/** A port that nothing drawn is joined to stands by the first or the last box nevertheless. @param {Scene} scene @param {string[]} inside @param {Map<string, [string, string][]>} lifted @param {string} box */
function anchorPorts(scene, inside, lifted, box) {
  const links = lifted.get(box) || [];
  const linked = new Set(links.flat());
  const boxes = inside.filter((k) => linked.has(k) && !scene.nodes.get(k)?.port);
  for (const key of inside) {
    const port = scene.nodes.get(key)?.port;
    if (!port || linked.has(key) || !boxes.length) continue;
    links.push(port === "in" ? [key, boxes[0]] : [boxes[boxes.length - 1], key]);
  }
}

/** Direction, columns and size of the boxes: those that were, where much of it is still there; else the best for the pane. @param {Scene} scene @param {Nest} nest @param {Memory} memory @param {Room} room @param {(key: string, roomy: number) => [number, number]} sizeOf @returns {Style} */
function styleOf(scene, nest, memory, room, sizeOf) {
  const top = nest.children.get("") || [];
  const known = memory.kept.get("")?.boxes;
  const still = known ? top.filter((k) => known.has(k)).length : 0;
  const sameRoom = memory.room && Math.abs(Math.log((memory.room.w / memory.room.h) * (room.h / room.w))) < 0.25;
  if (memory.style && sameRoom && still >= 0.6 * Math.max(top.length, known?.size || 0)) return memory.style;
  memory.kept = new Map();
  memory.small.clear();
  memory.room = room;
  memory.style = null;
  const links = nest.lifted.get("") || [];
  const rows = ranked(top, links);
  /** @type {{value: number, style: Style}[]} */
  const tried = [];
  const attempt = (/** @type {Style} */ style) => {
    const { sizes, inner } = insides(style.across, style.roomy);
    const outer = laidOut(rows, sizes, flowOf(style.across, style.bands, style.lanes, room));
    const value = worth(outer, links, allBoxes(scene, new Map([...inner, ["", outer]])), room) + (style.across ? 0 : 0.04) - 0.02 * style.bands;
    tried.push({ value, style });
  };
  /** @type {Map<string, {sizes: Map<string, [number, number]>, inner: Map<string, Placed>}>} */
  const made = new Map();
  const insides = (/** @type {boolean} */ across, /** @type {number} */ roomy) => {
    const id = `${across} ${roomy}`;
    let found = made.get(id);
    if (!found) {
      const inner = new Map();
      const size = (/** @type {string} */ key) => sizeOf(key, roomy);
      found = { sizes: new Map(top.map((k) => [k, boxSize(scene, nest, k, across, room, size, null, inner)])), inner };
      made.set(id, found);
    }
    return found;
  };
  const most = Math.min(7, top.length);
  for (const across of [false, true]) for (let bands = 1; bands <= most; bands += 1) for (const lanes of bands > 1 ? [1, bands] : [1]) attempt({ across, bands, lanes, roomy: 0 });
  tried.sort((a, b) => b.value - a.value);
  for (const { style } of tried.slice(0, 4)) for (const roomy of [1, 2, 3, 4]) attempt({ ...style, roomy });
  tried.sort((a, b) => b.value - a.value);
  memory.style = tried[0]?.style || null;
  return memory.style || { across: false, bands: 1, lanes: 1, roomy: 0 };
}

/** @param {boolean} across @param {number} bands @param {number} lanes by how many a rank shares the side of the pane @param {Room} room @returns {Flow} */
function flowOf(across, bands, lanes, room) {
  const side = (across ? room.h : room.w) / LEGIBLE - 2 * MARGIN;
  return { across, bands, wide: Math.max(260, side / lanes - 30) };
}

/** How much of the pane boxes cover, across and down, at the scale at which they are first seen. @param {Placed} outer @param {Map<string, Box>} boxes @param {Room} room */
function usage(outer, boxes, room) {
  const whole = Math.min((room.w - 2 * MARGIN) / outer.w, (room.h - 2 * MARGIN) / outer.h, LARGEST);
  const scale = Math.max(LEGIBLE, whole);
  const cover = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s, /** @type {number} */ pane) => covered([...boxes.values()].map((b) => [b[p], b[p] + b[s]]), pane / scale) * (scale / pane);
  return { whole, scale, cx: cover("x", "w", room.w), cy: cover("y", "h", room.h) * (room.h / (room.h + AROUND)) };
}

/** Whether all is legible at once, and covers enough of the pane. @param {Placed} outer @param {Map<string, Box>} boxes @param {Room} room */
function isGood(outer, boxes, room) {
  const { whole, cx, cy } = usage(outer, boxes, room);
  return whole >= LEGIBLE && Math.min(cx, cy) >= LEAST;
}

/** How good a placement is for the pane: whether it fits, how much of it is used, and how many edges change the column. @param {Placed} outer @param {[string, string][]} edges @param {Map<string, Box>} boxes @param {Room} room */
function worth(outer, edges, boxes, room) {
  const { whole, scale, cx, cy } = usage(outer, boxes, room);
  const short = Math.max(0, COVERED - cx) + Math.max(0, COVERED - cy);
  const [over, under] = [Math.max(1, (outer.w * scale) / (room.w - 2 * MARGIN)), Math.max(1, (outer.h * scale) / (room.h - 2 * MARGIN))];
  const crossing = edges.filter(([a, b]) => outer.band.get(a) !== outer.band.get(b)).length / Math.max(1, edges.length);
  const beyond = Math.log(over * under) + 3 * Math.min(over - 1, under - 1, 1);
  return Math.min(cx, 0.7) + Math.min(cy, 0.7) - (whole < LEGIBLE ? 0.5 : 0) - 4 * short + 0.2 * Math.min(scale, 1.3) - 0.9 * beyond - 0.5 * crossing - 0.12 * outer.wraps;
}

/** The length of the union of some intervals, up to an end. @param {number[][]} intervals @param {number} end */
export function covered(intervals, end) {
  let [total, at] = [0, 0];
  for (const [from, to] of intervals.sort((a, b) => a[0] - b[0])) {
    const [lo, hi] = [Math.max(from, at), Math.min(to, end)];
    if (hi > lo) [total, at] = [total + hi - lo, hi];
  }
  return total;
}

/**
 * Width and height of a child: a node, or a group around what is in it.
 * @param {Scene} scene @param {Nest} nest @param {string} key @param {boolean} across @param {Room} room @param {(key: string) => [number, number]} sizeOf @param {Memory | null} memory @param {Map<string, Placed>} placed
 * @returns {[number, number]}
 */
function boxSize(scene, nest, key, across, room, sizeOf, memory, placed) {
  const group = scene.groups.get(key);
  if (!group) return sizeOf(key);
  const sizes = new Map((nest.children.get(key) || []).map((k) => [k, boxSize(scene, nest, k, across, room, sizeOf, memory, placed)]));
  const p = innerPlaces(key, sizes, nest.lifted.get(key) || [], across, room, memory, scene.groups);
  placed.set(key, p);
  const label = Math.min(230, 7.2 * group.label.length + 60);
  return [Math.max(p.w, label) + 2 * PAD, p.h + PAD + HEAD + 2];
}

/** The children of a group, in the columns that give it about the shape of the pane. @param {string} key @param {Map<string, [number, number]>} sizes @param {[string, string][]} edges @param {boolean} across @param {Room} room @param {Memory | null} memory @param {{has(key: string): boolean}} groups those that are open @returns {Placed} */
function innerPlaces(key, sizes, edges, across, room, memory, groups) {
  const known = memory?.kept.get(key);
  if (memory && known?.flow && known.flow.across === across) return remembered(key, sizes, edges, known.flow, memory, groups);
  const wish = Math.min(2.2, Math.max(0.8, room.w / room.h));
  const half = { w: room.w * 0.8, h: room.h * 0.9 };
  const rows = ranked([...sizes.keys()], edges);
  let best = flowOf(across, 1, 1, half);
  let least = Infinity;
  for (let bands = 1; bands <= Math.min(5, sizes.size); bands += 1) {
    const flow = flowOf(across, bands, 1, half);
    const p = laidOut(rows, sizes, flow);
    const cost = Math.abs(Math.log(p.w / Math.max(1, p.h) / wish)) + 0.25 * (bands - 1) + (p.h < room.h * 0.55 && p.w < room.w * 0.6 && bands > 1 ? 0.6 : 0);
    if (cost < least) [least, best] = [cost, flow];
  }
  return memory ? remembered(key, sizes, edges, best, memory, groups) : layered(sizes, edges, best);
}

/** A container as it was when it held the same; else with what survives where it stood; else anew, in the order that was. @param {string} key @param {Map<string, [number, number]>} sizes @param {[string, string][]} edges @param {Flow} flow @param {Memory} memory @param {{has(key: string): boolean}} groups those that are open @returns {Placed} */
function remembered(key, sizes, edges, flow, memory, groups) {
  const kept = memory.kept.get(key) || { boxes: new Map(), groups: new Set(), dense: 1, made: new Map(), flow };
  for (const [k, [w, h]] of sizes) {
    // A box keeps its size while its text about fits: else a mark would move all the others.
    const old = kept.boxes.get(k);
    if (old && !groups.has(k) && !kept.groups.has(k) && w <= old.w * 1.12 && h <= old.h * 1.35) sizes.set(k, [old.w, old.h]);
  }
  const known = [...sizes].map(([k, [w, h]]) => `${k} ${w} ${h}`).sort().join("\n");
  let placed = kept.made.get(known);
  if (!placed) {
    const same = kept.boxes.size ? stay(kept, sizes, edges, flow.across) : null;
    if (same) {
      const [w, h] = extentOf(same.values());
      placed = { boxes: same, band: new Map(), w, h, wraps: 0 };
    } else {
      const order = new Map([...kept.boxes].map(([k, b]) => [k, flow.across ? b.y + b.h / 2 : b.x + b.w / 2]));
      placed = layered(sizes, edges, flow, order);
      kept.dense = density(placed.boxes);
    }
    if (kept.made.size >= MADE) kept.made.clear();
    kept.made.set(known, placed);
  }
  memory.kept.set(key, { ...kept, boxes: placed.boxes, groups: new Set([...sizes.keys()].filter((k) => groups.has(k))), flow });
  return placed;
}

/** @param {Scene} scene @param {Nest} nest @param {Style} style @param {Room} room @param {(key: string) => [number, number]} sizeOf @param {Memory} memory @returns {Map<string, Placed>} */
function arranged(scene, nest, style, room, sizeOf, memory) {
  /** @type {Map<string, Placed>} */
  const placed = new Map();
  const sizes = new Map((nest.children.get("") || []).map((k) => [k, boxSize(scene, nest, k, style.across, room, sizeOf, memory, placed)]));
  placed.set("", remembered("", sizes, nest.lifted.get("") || [], flowOf(style.across, style.bands, style.lanes, room), memory, scene.groups));
  return placed;
}

/** Every box on the sheet. @param {Scene} scene @param {Map<string, Placed>} placed @param {boolean} [groups] those of groups too @returns {Map<string, Box>} */
function allBoxes(scene, placed, groups = false) {
  /** @type {Map<string, Box>} */
  const at = new Map();
  const visit = (/** @type {string} */ box, /** @type {number} */ dx, /** @type {number} */ dy) => {
    for (const [key, b] of placed.get(box)?.boxes || []) {
      const isGroup = scene.groups.has(key);
      if (groups || !isGroup) at.set(key, { x: b.x + dx, y: b.y + dy, w: b.w, h: b.h });
      if (isGroup) visit(key, b.x + dx + PAD, b.y + dy + HEAD);
    }
  };
  visit("", 0, 0);
  return at;
}

/** @param {Scene} scene @param {Nest} nest @param {Map<string, Placed>} placed @param {Style} style @param {Room} room @returns {Sheet} */
function sheetOfPlaced(scene, nest, placed, style, room) {
  const at = allBoxes(scene, placed, true);
  const box = (/** @type {string} */ key) => /** @type {Box} */ (at.get(key));
  const nodes = [...scene.nodes].map(([key, n]) => ({ ...n, key, ...box(key), share: 0 }));
  const total = nodes.reduce((t, n) => t + workOf(n), 0);
  if (total) for (const n of nodes) n.share = workOf(n) / total;
  const groups = [...scene.groups].filter(([key]) => at.has(key)).map(([key, g]) => ({ ...g, key, ...box(key), fold: key }));
  const inside = (/** @type {string} */ group) => (/** @type {string} */ key) => {
    let up = scene.nodes.get(key)?.group || "";
    while (up && up !== group) up = scene.groups.get(up)?.parent || "";
    return key === group || (up === group && group !== "");
  };
  const headings = groups.map((g) => ({ key: g.key, box: { x: g.x, y: g.y + 2, w: Math.min(g.w, 92 + textWidth(g.label, "title") + tallyWidth(g.marks)), h: HEAD - 6 }, inside: () => false }));
  const obstacles = [...[...nodes, ...groups].map((n) => ({ key: n.key, box: n, inside: inside(n.key) })), ...headings];
  const [w, h] = extentOf(at.values());
  const byKey = new Map(nodes.map((n) => [n.key, n]));
  const { edges, stubs } = drawnEdges(nest, byKey, obstacles, style, { w: room.w / LEGIBLE, h: room.h / LEGIBLE });
  return { w, h, nodes, edges, stubs: placedStubs(stubs, byKey, obstacles.map((o) => o.box).filter((b) => !groups.includes(/** @type {any} */ (b)))), groups, note: scene.note, across: style.across };
}

/**
 * Ways of the edges, and stubs for those that are too long or have no way.
 * @param {Nest} nest @param {Map<string, any>} nodes @param {import("./route.js").Obstacle[]} obstacles @param {Style} style @param {Room} room
 */
function drawnEdges(nest, nodes, obstacles, style, room) {
  const busy = nest.edges.length > BUSY || nest.edges.length > 1.6 * nodes.size + 4;
  const taken = new Set();
  const ins = spreadEnds(nest.edges, nodes, style.across);
  /** @type {Map<string, {key: string, side: string, ends: string[]}>} */
  const stubs = new Map();
  const stub = (/** @type {string} */ key, /** @type {string} */ side, /** @type {string} */ end) => {
    const id = `${key}\n${side}`;
    if (!stubs.has(id)) stubs.set(id, { key, side, ends: [] });
    stubs.get(id)?.ends.push(end);
  };
  const count = new Map();
  for (const e of nest.edges) for (const end of [`${e.from} out`, `${e.to} in`]) count.set(end, (count.get(end) || 0) + 1);
  const edges = [];
  for (const [k, e] of nest.edges.entries()) {
    const [a, b] = [nodes.get(e.from), nodes.get(e.to)];
    const far = Math.max(0, Math.max(a.x - b.x - b.w, b.x - a.x - a.w)) / room.w + Math.max(0, Math.max(a.y - b.y - b.h, b.y - a.y - a.h)) / room.h;
    const alone = count.get(`${e.from} out`) === 1 && count.get(`${e.to} in`) <= 2; // the flow goes on here
    const many = (count.get(`${e.from} out`) || 0) > FAN || (count.get(`${e.to} in`) || 0) > FAN;
    const points = far > (alone ? 3 : many ? 0.2 : busy ? 0.4 : 0.75) ? null : route({ from: e.from, to: e.to, a, b, across: style.across, at: 0, into: ins[k] }, obstacles, taken);
    if (points) edges.push({ ...e, points, d: wayPath(points, style.across) });
    else {
      stub(e.from, "out", e.to);
      stub(e.to, "in", e.from);
    }
  }
  return { edges, stubs: [...stubs.values()] };
}

/** Where each edge ends on the side of its target, so that those of one target lie beside one another in the order of their sources. @param {Nest["edges"]} edges @param {Map<string, any>} nodes @param {boolean} across @returns {number[]} */
function spreadEnds(edges, nodes, across) {
  const middle = (/** @type {any} */ n) => (across ? n.y + n.h / 2 : n.x + n.w / 2);
  /** @type {Map<string, number[]>} */
  const into = new Map();
  edges.forEach((e, k) => into.set(e.to, [...(into.get(e.to) || []), k]));
  const out = edges.map(() => 0);
  for (const [to, list] of into) {
    const n = nodes.get(to);
    const side = across ? n.h : n.w;
    list.sort((p, q) => middle(nodes.get(edges[p].from)) - middle(nodes.get(edges[q].from)));
    const apart = Math.min(16, (0.7 * side) / list.length);
    list.forEach((k, i) => {
      out[k] = (i - (list.length - 1) / 2) * apart;
    });
  }
  return out;
}
