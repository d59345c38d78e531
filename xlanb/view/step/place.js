// Where each box of a scene stands: the innermost groups first, in the direction and the columns that fill the pane best.
import { plural } from "./dom.js";
import { drawnEdges, lifted } from "./edges.js";
import { laidOut, layered, ranked } from "./layers.js";
import { textWidth } from "./measure.js";
import { density, extentOf, stay } from "./stay.js";
import { labelOf, placedStubs } from "./stubs.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./layers.js").Box} Box */
/** @typedef {import("./layers.js").Link} Link */
/** @typedef {import("./layers.js").Placed} Placed */
/** @typedef {import("./layers.js").Flow} Flow */
/** @typedef {{w: number, h: number, hold?: boolean}} Room the pane's size; `hold`: a group is being opened or closed, the rest stays as it is */
/** @typedef {{across: boolean, bands: number, lanes: number, roomy: number, tight?: boolean, straight?: boolean}} Style `straight`: what is in a group stands in one column, or row; `lanes`: a rank is at most so large a part of the pane; `roomy`: how large the boxes are, an index of HEIGHTS; `tight`: with little between them */
/** @typedef {{boxes: Map<string, Box>, groups: Set<string>, dense: number, made: Map<string, Placed>, rank: Placed["rank"], lanes: Placed["lanes"], flow: Flow | null}} Kept what a container looked like, and which of its children were open groups */
/** @typedef {{style: Style | null, worth: number, good: boolean, room: Room | null, kept: Map<string, Kept>, small: Set<string>}} Memory `worth`: how well the pane was used, `good`: whether all fitted and covered enough of it, `small`: groups that the reader opened */
/** @typedef {{children: Map<string, string[]>, lifted: Map<string, Link[]>, lifts: {box: string, from: string, to: string}[], edges: import("./scene.js").SceneEdge[], ranks: Map<string, import("./layers.js").Ranked>}} Nest `ranks`: those of containers, which no size changes */

/** Below this scale titles of 12.5 px would be less than 11 px on the screen, and what stands below them less than 11 px. */
export const LEGIBLE = 0.96;
export const LARGEST = 1.7;
export const MARGIN = 18;
const PAD = 18;
const HEAD = 25;
/** How large boxes are at least, by how much room there is; the last three are wide and low, for what is deep and narrow. */
const HEIGHTS = [40, 52, 68, 86, 106, 46, 54, 76];
const WIDTHS = [72, 112, 148, 168, 180, 190, 240, 300];
const GROWING = [[1, 2, 3, 4], [5, 6, 7]]; // where one is too large, so are those after it
const WITHIN = [0, 0, 1, 2, 3, 1, 1, 2]; // the same of boxes in open groups
const QUIET = 0.9; // how much smaller what only maps or moves elements is
const WIDEST = 210;
const WIDEST_ROOMY = 300;
const STACKED = 7;
const PORT = 27;
const TOLD_SHARE = 0.05; // of all that is drawn: from here on a box says it
const HEAVY = 0.08; // of all that is drawn: from here on a box is larger
const TANGLED_EDGE = 0.16; // what an edge from column to column costs beyond the first
const WRAPPED_BACK = 0.25; // what another row costs where the flow is from left to right: it leads back over the whole pane
const COVERED = 0.52;
const LEAST = 0.47;
export const AROUND = 58; // the tools above and the legend below belong to the pane too
const MADE = 24;
const NO_WORSE = 0.05;
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

/** A count in a few digits: 312, 4.2k, 18k. @param {number} n */
export function shortCount(n) {
  return n < 1000 ? `${n}` : `${(n / 1000).toFixed(n < 9950 ? 1 : 0)}k`;
}

/** Width of "+3 −1 ~2". @param {import("./scene.js").Tally} marks */
export function tallyWidth({ added, removed, changed }) {
  return [added, removed, changed].reduce((t, n) => t + (n ? 7.4 * (shortCount(n).length + 1) + 5 : 0), 0);
}

/** Whether a picture stands before a node's title. @param {any} n */
function iconic(n) {
  return /matrix|fusion|comm|control|launch|reduce/.test(n.item.f) || n.item.o === "fusion"; // a stack of fusions too
}

/** The second line of a node: its shape, of a tuple how many parts it has, of what holds ops and gives a tuple how many those are. @param {any} n a node of a scene @returns {string} */
export function secondLine(n) {
  const below = n.item.h[2] || "";
  if (!below.startsWith("(")) return below;
  if (n.fold) return plural(n.count, "op");
  const parts = below.match(/[a-z]\w*(?=\[)|token/g)?.length || 0;
  return parts > 2 ? `tuple of ${parts}` : below;
}

/** Widths of a node's two lines: every arrangement asks for them. @type {WeakMap<any, [number, number]>} */
const LINES = new WeakMap();

/** @param {any} n a node of a scene @returns {[number, number]} */
function lineWidths(n) {
  let lines = LINES.get(n);
  if (!lines) {
    const [title, rest] = n.item.h;
    const operands = (n.operands || []).map((/** @type {any} */ o) => ` ·${o.text}`).join("");
    const said = n.count > 1 ? "" : `${rest}${operands}`;
    lines = [textWidth(title, "title") + textWidth(`${said}${n.stack > 1 ? ` ×${n.stack}` : ""}`, "rest") + (n.fold ? 20 : 0) + (iconic(n) ? 20 : 0), textWidth(secondLine(n), "below")];
    LINES.set(n, lines);
  }
  return lines;
}

/** Width and height of a node's box. @param {any} n a node of a scene @param {number} roomy @param {number} share its part of all work drawn @returns {[number, number]} */
export function nodeSize(n, roomy = 0, share = 0) {
  if (n.port) return [Math.max(52, Math.min(150, textWidth(labelOf(n), "title") + 24 + (n.fold ? 20 : 0))), PORT];
  const [first, second] = lineWidths(n);
  const text = Math.max(first, second + (share >= TOLD_SHARE ? 58 : 0)) + 22;
  const least = Math.max(WIDTHS[roomy], n.count > 1 || n.heir ? Math.max(118, tallyWidth(n.marks) + 14) : 0); // what a pass did must have place in a group
  const more = n.stack > 1 ? STACKED : 0;
  return [Math.round(Math.max(least, Math.min(roomy > 1 ? WIDEST_ROOMY : WIDEST, text))) + more, Math.round(HEIGHTS[roomy] * (share >= HEAVY ? 1.3 : share >= TOLD_SHARE || n.count > 1 || iconic(n) || roomy > 1 && roomy < 5 ? 1 : QUIET)) + more];
}

/**
 * Place a scene.
 * @param {Scene} scene @param {Memory} [memory] @param {Room} [room] the pane's size on the screen
 * @returns {Sheet}
 */
export function place(scene, memory = newMemory(), room = { w: 880, h: 460 }) {
  const { nest, placed, style } = settled(scene, memory, room);
  return sheetOfPlaced(scene, nest, placed, style, room);
}

/** Where the boxes of a scene would stand in an empty pane: its extent and its boxes, without edges, and how many of those lead from column to column. @param {Scene} scene @param {Room} room @returns {{w: number, h: number, nodes: Box[], tangled: number}} */
export function outlook(scene, room) {
  const { nest, placed } = settled(scene, newMemory(), room);
  const tangled = tangle(/** @type {Placed} */ (placed.get("")), nest.lifted.get("") || []);
  const [w, h] = extentOf(allBoxes(scene, placed, true).values());
  return { w, h, nodes: [...allBoxes(scene, placed).values()], tangled };
}

/** The places of all boxes, container by container. @param {Scene} scene @param {Memory} memory @param {Room} room */
function settled(scene, memory, room) {
  const nest = nested(scene);
  for (const key of scene.groups.keys()) if (room.hold && !memory.kept.has(key)) memory.small.add(key);
  const total = [...scene.nodes.values()].reduce((t, n) => t + workOf(n), 0) || Infinity;
  const sizeOf = (/** @type {string} */ key, /** @type {number} */ roomy) => {
    const n = scene.nodes.get(key);
    return nodeSize(n, n?.group ? (memory.small.has(n.group) ? 0 : WITHIN[roomy]) : roomy, workOf(n) / total);
  };
  const arrange = () => {
    const style = styleOf(scene, nest, memory, room, sizeOf);
    const placed = arranged(scene, nest, style, room, (key) => sizeOf(key, style.roomy), memory);
    const outer = /** @type {Placed} */ (placed.get(""));
    const boxes = allBoxes(scene, placed);
    return { style, placed, value: worth(outer, [], boxes, room), good: isGood(outer, boxes, room), fits: isWholeInSight(outer, room) };
  };
  const known = memory.style;
  const last = memory.kept.get("")?.boxes;
  let { style, placed, value, good, fits } = arrange();
  const isOther = placed.get("")?.boxes !== last;
  const isNoWorse = fits && !memory.good && value >= memory.worth - NO_WORSE; // as good as it was: all stays where it is
  if (known && style === known && !room.hold && (value < memory.worth - TOLERATED || (isOther && !good && !isNoWorse))) {
    const [stood, kept] = [{ style, placed, value, good, fits }, memory.kept];
    memory.style = null; // the program has become another: what was best for it no longer is
    ({ style, placed, value, good, fits } = arrange());
    if (!good && (stood.fits || !fits) && stood.value >= memory.worth - TOLERATED && value < stood.value + TOLERATED) {
      ({ style, placed, value, good, fits } = stood); // nothing better is found: all stays where it is
      [memory.style, memory.kept] = [style, kept];
    }
  }
  [memory.worth, memory.good] = [value, good];
  return { nest, placed, style };
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
  /** @type {Map<string, Link[]>} */
  const lifted = new Map();
  const lifts = edges.map((e) => {
    const [up, down] = [chain(e.from), chain(e.to)];
    const above = new Set(up.slice(1));
    const meet = down.findIndex((g, i) => i > 0 && above.has(g));
    const [box, from, to] = [down[meet], up[up.indexOf(down[meet], 1) - 1], down[meet - 1]];
    if (!lifted.has(box)) lifted.set(box, []);
    lifted.get(box)?.push([from, to, e.ops]);
    return { box, from, to };
  });
  for (const [box, inside] of children) anchorPorts(scene, inside, lifted, box);
  return { children, lifted, lifts, edges, ranks: new Map() };
}

/** A port that nothing drawn is joined to stands beside the others nevertheless: by the box that they are joined to, else by the first or the last. @param {Scene} scene @param {string[]} inside @param {Map<string, Link[]>} lifted @param {string} box */
function anchorPorts(scene, inside, lifted, box) {
  const links = lifted.get(box) || [];
  const linked = new Set(links.flat());
  const boxes = inside.filter((k) => linked.has(k) && !scene.nodes.get(k)?.port);
  const [first] = [...links.filter(([from]) => scene.nodes.get(from)?.port === "in").map(([, to]) => to), ...boxes.filter((k) => !links.some(([, to]) => to === k)), ...boxes];
  for (const key of inside) {
    const port = scene.nodes.get(key)?.port;
    if (!port || linked.has(key) || !boxes.length) continue;
    links.push(port === "in" ? [key, first] : [boxes[boxes.length - 1], key]);
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
  let legible = false;
  const attempt = (/** @type {Style} */ style) => {
    const { sizes, inner } = insides(style);
    const outer = laidOut(rows, sizes, flowOf(style.across, style.bands, style.lanes, room, style.tight));
    const boxes = allBoxes(scene, new Map([...inner, ["", outer]]));
    const value = worth(outer, links, boxes, room) + (style.across ? 0 : 0.04) - (style.across ? WRAPPED_BACK : 0.05) * (style.bands - 1);
    if (!style.tight || isGood(outer, boxes, room)) tried.push({ value, style });
    const isSeen = isWholeInSight(outer, room);
    legible ||= isSeen;
    return isSeen;
  };
  /** @type {Map<string, {sizes: Map<string, [number, number]>, inner: Map<string, Placed>}>} */
  const made = new Map();
  const insides = (/** @type {Style} */ style) => {
    const { across, straight, roomy } = style;
    const id = `${across} ${straight} ${roomy}`;
    let found = made.get(id);
    if (!found) {
      const inner = new Map();
      const size = (/** @type {string} */ key) => sizeOf(key, roomy);
      found = { sizes: new Map(top.map((k) => [k, boxSize(scene, nest, k, style, room, size, null, inner)])), inner };
      made.set(id, found);
    }
    return found;
  };
  const most = Math.min(7, top.length);
  for (const straight of scene.groups.size ? [false, true] : [false]) for (const across of [false, true]) for (let bands = 1; bands <= most; bands += 1) for (const lanes of bands > 1 ? [1, bands] : [1, 1.5]) attempt({ across, bands, lanes, roomy: 0, straight });
  tried.sort((a, b) => b.value - a.value);
  const best = new Set([...tried.slice(0, 3), ...tried.filter((t) => t.style.bands === 1)].map((t) => t.style));
  for (const style of best) for (const sizes of GROWING) for (const roomy of sizes) if (!attempt({ ...style, roomy })) break;
  // Where even closed groups are too many they stand closer together.
  const isTooMuch = !scene.groups.size && top.length > 1 && !legible;
  if (isTooMuch) for (const { style } of tried.slice(0, 12)) attempt({ ...style, roomy: 0, tight: true });
  tried.sort((a, b) => b.value - a.value);
  memory.style = tried[0]?.style || null;
  return memory.style || { across: false, bands: 1, lanes: 1, roomy: 0 };
}

/** @param {boolean} across @param {number} bands @param {number} lanes by how many a rank shares the side of the pane @param {Room} room @param {boolean} [tight] @returns {Flow} */
function flowOf(across, bands, lanes, room, tight = false) {
  const side = (across ? room.h : room.w) / LEGIBLE - 2 * MARGIN;
  return { across, bands, wide: Math.max(260, side / lanes - 30), tight };
}

/** How much of the pane boxes cover, across and down, at the scale at which they are first seen. @param {Placed} outer @param {Map<string, Box>} boxes @param {Room} room */
function usage(outer, boxes, room) {
  const whole = Math.min((room.w - 2 * MARGIN) / outer.w, (room.h - 2 * MARGIN) / outer.h, LARGEST);
  const scale = Math.max(LEGIBLE, whole);
  const inSight = [...boxes.values()].filter((b) => b.x < room.w / scale && b.y < room.h / scale);
  const cover = (/** @type {"x" | "y"} */ p, /** @type {"w" | "h"} */ s, /** @type {number} */ pane) => covered(inSight.map((b) => [b[p], b[p] + b[s]]), pane / scale) * (scale / pane);
  return { whole, scale, cx: cover("x", "w", room.w), cy: cover("y", "h", room.h) * (room.h / (room.h + AROUND)) };
}

/** Whether all of it can be read at once. @param {{w: number, h: number}} outer @param {Room} room */
export function isWholeInSight(outer, room) {
  return Math.min((room.w - 2 * MARGIN) / outer.w, (room.h - 2 * MARGIN) / outer.h) >= LEGIBLE;
}

/** Whether all is legible at once, and covers enough of the pane. @param {Placed} outer @param {Map<string, Box>} boxes @param {Room} room */
function isGood(outer, boxes, room) {
  const { whole, cx, cy } = usage(outer, boxes, room);
  return whole >= LEGIBLE && Math.min(cx, cy) >= LEAST;
}

/** How good a placement is for the pane: whether it fits, how much of it is used, and how many edges change the column. @param {Placed} outer @param {Link[]} edges @param {Map<string, Box>} boxes @param {Room} room */
function worth(outer, edges, boxes, room) {
  const { whole, scale, cx, cy } = usage(outer, boxes, room);
  const short = Math.max(0, COVERED - cx) + Math.max(0, COVERED - cy);
  const [over, under] = [Math.max(1, (outer.w * scale) / (room.w - 2 * MARGIN)), Math.max(1, (outer.h * scale) / (room.h - 2 * MARGIN))];
  const crossing = edges.filter(([a, b]) => outer.band.get(a) !== outer.band.get(b)).length / Math.max(1, edges.length);
  const tangled = tangle(outer, edges);
  const beyond = Math.log(over * under) + 3 * Math.min(over - 1, under - 1, 1);
  return Math.min(cx, 0.7) + Math.min(cy, 0.7) - (whole < LEGIBLE ? 0.5 : 0) - 4 * short + 0.2 * Math.min(scale, 1.3) - 2 * beyond - 0.8 * crossing - TANGLED_EDGE * Math.min(tangled, 8) - 0.12 * outer.wraps;
}

/** How many edges lead from column to column beyond those that take the flow from each one to the next. @param {Placed} placed @param {Link[]} edges */
export function tangle(placed, edges) {
  const pairs = new Set(edges.map(([a, b]) => `${placed.band.get(a) === placed.band.get(b) ? "" : `${a}\n${b}`}`));
  pairs.delete("");
  return Math.max(0, pairs.size - (new Set(placed.band.values()).size - 1));
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
 * @param {Scene} scene @param {Nest} nest @param {string} key @param {Style} style @param {Room} room @param {(key: string) => [number, number]} sizeOf @param {Memory | null} memory @param {Map<string, Placed>} placed
 * @returns {[number, number]}
 */
function boxSize(scene, nest, key, style, room, sizeOf, memory, placed) {
  const group = scene.groups.get(key);
  if (!group) return sizeOf(key);
  const sizes = new Map((nest.children.get(key) || []).map((k) => [k, boxSize(scene, nest, k, style, room, sizeOf, memory, placed)]));
  const p = innerPlaces(key, sizes, nest, style, room, memory, scene.groups);
  placed.set(key, p);
  const label = Math.min(230, 7.2 * group.label.length + 60);
  return [Math.max(p.w, label) + 2 * PAD, p.h + PAD + HEAD + 2];
}

/** The children of a group, in the columns that give it about the shape of the pane. @param {string} key @param {Map<string, [number, number]>} sizes @param {Nest} nest @param {Style} style @param {Room} room @param {Memory | null} memory @param {{has(key: string): boolean}} groups those that are open @returns {Placed} */
function innerPlaces(key, sizes, nest, style, room, memory, groups) {
  const edges = nest.lifted.get(key) || [];
  const known = memory?.kept.get(key);
  if (memory && known?.flow && known.flow.across === style.across) return remembered(key, sizes, edges, known.flow, memory, groups);
  const { flow, made } = bestColumns(key, sizes, edges, nest, style, room);
  return memory || !made ? remembered(key, sizes, edges, flow, memory || newMemory(), groups) : made;
}

/** The best columns by what they depend on: while it is decided which groups to open most of them are asked for again. @type {Map<string, {flow: Flow, made: Placed | null}>} */
const BEST = new Map();
const MOST_BEST = 600;

/** @param {string} key @param {Map<string, [number, number]>} sizes @param {Link[]} edges @param {Nest} nest @param {Style} style @param {Room} room @returns {{flow: Flow, made: Placed | null}} */
function bestColumns(key, sizes, edges, nest, style, room) {
  const { across, straight } = style;
  const told = `${across} ${straight} ${room.w} ${room.h}\n\n${[...sizes].join("\n")}\n\n${edges.join("\n")}`;
  let found = BEST.get(told);
  if (found) return found;
  const wish = Math.min(2.2, Math.max(0.8, room.w / room.h));
  const half = { w: room.w * 0.8, h: room.h * 0.9 };
  const rows = nest.ranks.get(key) || ranked([...sizes.keys()], edges);
  nest.ranks.set(key, rows);
  found = { flow: flowOf(across, 1, 1, half), made: null };
  let least = Infinity;
  for (let bands = 1; bands <= (straight ? 1 : Math.min(5, sizes.size)); bands += 1) {
    const flow = flowOf(across, bands, 1, half);
    const made = laidOut(rows, sizes, flow);
    const cost = Math.abs(Math.log(made.w / Math.max(1, made.h) / wish)) + (across ? 0.55 : 0.25) * (bands - 1) + 0.2 * tangle(made, edges) + (made.h < room.h * 0.55 && made.w < room.w * 0.6 && bands > 1 ? 0.6 : 0);
    if (cost < least) [least, found] = [cost, { flow, made }];
  }
  if (BEST.size >= MOST_BEST) BEST.clear();
  BEST.set(told, found);
  return found;
}

/** A container as it was when it held the same; else with what survives where it stood; else anew, in the order that was. @param {string} key @param {Map<string, [number, number]>} sizes @param {Link[]} edges @param {Flow} flow @param {Memory} memory @param {{has(key: string): boolean}} groups those that are open @returns {Placed} */
function remembered(key, sizes, edges, flow, memory, groups) {
  const kept = memory.kept.get(key) || { boxes: new Map(), groups: new Set(), dense: 1, made: new Map(), rank: new Map(), lanes: new Map(), flow };
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
      placed = { boxes: same, band: new Map(), w, h, wraps: 0, rank: kept.rank, lanes: kept.lanes };
    } else {
      const order = new Map([...kept.boxes].map(([k, b]) => [k, flow.across ? b.y + b.h / 2 : b.x + b.w / 2]));
      placed = layered(sizes, edges, flow, order);
      kept.dense = density(placed.boxes);
    }
    if (kept.made.size >= MADE) kept.made.clear();
    kept.made.set(known, placed);
  }
  memory.kept.set(key, { ...kept, boxes: placed.boxes, rank: placed.rank, lanes: placed.lanes, groups: new Set([...sizes.keys()].filter((k) => groups.has(k))), flow });
  return placed;
}

/** @param {Scene} scene @param {Nest} nest @param {Style} style @param {Room} room @param {(key: string) => [number, number]} sizeOf @param {Memory} memory @returns {Map<string, Placed>} */
function arranged(scene, nest, style, room, sizeOf, memory) {
  /** @type {Map<string, Placed>} */
  const placed = new Map();
  const sizes = new Map((nest.children.get("") || []).map((k) => [k, boxSize(scene, nest, k, style, room, sizeOf, memory, placed)]));
  placed.set("", remembered("", sizes, nest.lifted.get("") || [], flowOf(style.across, style.bands, style.lanes, room, style.tight), memory, scene.groups));
  return placed;
}

/** Where the inside of each box begins on the sheet. @param {Scene} scene @param {Map<string, Placed>} placed @returns {Map<string, {x: number, y: number}>} */
function origins(scene, placed) {
  /** @type {Map<string, {x: number, y: number}>} */
  const at = new Map([["", { x: 0, y: 0 }]]);
  for (const [box, { x, y }] of at) for (const [key, b] of placed.get(box)?.boxes || []) if (scene.groups.has(key)) at.set(key, { x: x + b.x + PAD, y: y + b.y + HEAD });
  return at;
}

/** Every box on the sheet. @param {Scene} scene @param {Map<string, Placed>} placed @param {boolean} [groups] those of groups too @returns {Map<string, Box>} */
function allBoxes(scene, placed, groups = false) {
  /** @type {Map<string, Box>} */
  const at = new Map();
  for (const [box, { x, y }] of origins(scene, placed)) {
    for (const [key, b] of placed.get(box)?.boxes || []) if (groups || !scene.groups.has(key)) at.set(key, { x: b.x + x, y: b.y + y, w: b.w, h: b.h });
  }
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
    for (let up = key; up; up = (scene.nodes.get(up) ? scene.nodes.get(up)?.group : scene.groups.get(up)?.parent) || "") if (up === group) return true;
    return false;
  };
  const buttons = groups.filter((g) => g.kind === "repeat").map((g) => ({ key: g.key, box: { x: g.x + g.w - 58, y: g.y + 2, w: 54, h: HEAD - 4 }, inside: (/** @type {string} */ key) => key === g.key }));
  const headings = groups.map((g) => ({ key: g.key, box: { x: g.x, y: g.y + 2, w: Math.min(g.w, 92 + textWidth(g.label, "title") + tallyWidth(g.marks)), h: HEAD - 6 }, inside: (/** @type {string} */ key) => key === g.key }));
  const obstacles = [...[...nodes, ...groups].map((n) => ({ key: n.key, box: n, inside: inside(n.key) })), ...headings, ...buttons];
  const [w, h] = extentOf(at.values());
  const byKey = new Map([...nodes, ...groups].map((n) => [n.key, n]));
  const start = origins(scene, placed);
  const within = (/** @type {string} */ key) => {
    const [inner, origin] = [placed.get(key), start.get(key)];
    return inner && origin ? { placed: inner, at: origin } : null;
  };
  const { edges, stubs } = drawnEdges(lifted(nest), byKey, obstacles, style.across, { w: room.w / LEGIBLE, h: room.h / LEGIBLE }, within);
  const links = nest.edges.map(({ from, to, bytes }) => ({ from, to, bytes }));
  return { w, h, nodes, edges, links, stubs: placedStubs(stubs, byKey, obstacles.map((o) => o.box).filter((b) => !groups.includes(/** @type {any} */ (b)))), groups, note: scene.note, across: style.across };
}
