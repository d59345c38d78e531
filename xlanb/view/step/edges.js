// Which edges are drawn, and where: each at the level where its ends part, from box to box, through the lanes that the placement kept for it.
import { guided, route, wayPath } from "./route.js";

/** @typedef {import("./layers.js").Box} Box */
/** @typedef {import("./layers.js").Placed} Placed */
/** @typedef {import("./scene.js").SceneEdge} SceneEdge */
/** @typedef {{from: string, to: string, box: string, bytes: number, ops: number, ends: [string, string][]}} Lifted edges between two boxes within a third, as one: `ends` of those that it stands for */
/** @typedef {{x: number, y: number}} Origin */

const BUSY = 40;
const FAN = 6; // of a box with more edges only the near ones are drawn

/** Edges of nodes that lie in different groups as edges of those groups. @param {import("./place.js").Nest} nest @returns {Lifted[]} */
export function lifted({ edges, lifts }) {
  /** @type {Map<string, Lifted>} */
  const out = new Map();
  edges.forEach((e, k) => {
    const { box, from, to } = lifts[k];
    const id = `${from}\n${to}`;
    const known = out.get(id);
    if (!known) out.set(id, { from, to, box, bytes: e.bytes, ops: e.ops, ends: [[e.from, e.to]] });
    else {
      known.bytes += e.bytes;
      known.ops += e.ops;
      known.ends.push([e.from, e.to]);
    }
  });
  return [...out.values()];
}

/**
 * Ways of the edges, and stubs for those that are too long or have no way.
 * @param {Lifted[]} edges @param {Map<string, any>} boxes nodes and open groups by key @param {import("./route.js").Obstacle[]} obstacles @param {boolean} across @param {{w: number, h: number}} room
 * @param {(box: string) => {placed: Placed, at: Origin} | null} within how and where the inside of a box is placed
 */
export function drawnEdges(edges, boxes, obstacles, across, room, within) {
  const busy = edges.length > BUSY || edges.length > 1.6 * boxes.size + 4;
  const taken = new Set();
  const guides = edges.map((e) => guideOf(e, across, within(e.box)));
  const ins = spreadEnds(edges, guides, boxes, across, "to");
  /** @type {Map<string, {key: string, side: string, ends: string[]}>} */
  const stubs = new Map();
  const stub = (/** @type {string} */ key, /** @type {string} */ side, /** @type {string} */ end) => {
    const id = `${key}\n${side}`;
    if (!stubs.has(id)) stubs.set(id, { key, side, ends: [] });
    stubs.get(id)?.ends.push(end);
  };
  const count = new Map();
  for (const e of edges) for (const end of [`${e.from} out`, `${e.to} in`]) count.set(end, (count.get(end) || 0) + 1);
  const drawn = [];
  for (const [k, e] of edges.entries()) {
    const [a, b] = [boxes.get(e.from), boxes.get(e.to)];
    const far = Math.max(0, Math.max(a.x - b.x - b.w, b.x - a.x - a.w)) / room.w + Math.max(0, Math.max(a.y - b.y - b.h, b.y - a.y - a.h)) / room.h;
    const alone = count.get(`${e.from} out`) === 1 && count.get(`${e.to} in`) <= 2; // the flow goes on here
    const many = (count.get(`${e.from} out`) || 0) > FAN || (count.get(`${e.to} in`) || 0) > FAN;
    const way = { from: e.from, to: e.to, a, b, across, at: 0, into: ins[k] };
    const smooth = far > (alone ? 3 : many ? 0.7 : busy ? 0.8 : 1.6) ? null : guided(way, guides[k], obstacles);
    const points = smooth ? null : far > (alone ? 3 : many ? 0.25 : busy ? 0.4 : 0.75) ? null : route(way, obstacles, taken);
    if (smooth) drawn.push({ ...e, points: smooth.points, d: smooth.d });
    else if (points) drawn.push({ ...e, points, d: wayPath(points, across) });
    else {
      stub(e.from, "out", e.to);
      stub(e.to, "in", e.from);
    }
  }
  for (const [key, side, end] of hiddenEnds(edges, boxes)) {
    const known = stubs.get(`${key}\n${side}`);
    if (!known?.ends.includes(end)) stub(key, side, end);
  }
  return { edges: drawn, stubs: [...stubs.values()] };
}

/**
 * Ends in open groups of edges that are drawn from group to group: where an op has others in its group too, or the group has several, nothing else tells of them.
 * @param {Lifted[]} edges @param {Map<string, any>} boxes @returns {[string, "in" | "out", string][]}
 */
function hiddenEnds(edges, boxes) {
  /** @type {Map<string, number>} */
  const count = new Map();
  for (const e of edges) for (const end of [`${e.from} out`, `${e.to} in`]) count.set(end, (count.get(end) || 0) + 1);
  const isTold = (/** @type {string} */ key, /** @type {string} */ top, /** @type {"in" | "out"} */ side) => {
    for (let at = key; at && at !== top; at = boxes.get(at)?.group ?? boxes.get(at)?.parent ?? "") if (count.get(`${at} ${side}`)) return false;
    return count.get(`${top} ${side}`) === 1;
  };
  return edges.flatMap((e) =>
    e.ends.flatMap(([from, to]) => /** @type {[string, "in" | "out", string][]} */ ([...(to === e.to || isTold(to, e.to, "in") ? [] : [[to, "in", from]]), ...(from === e.from || isTold(from, e.from, "out") ? [] : [[from, "out", to]])])),
  );
}

/** The lanes that the placement kept for an edge, from its first rank to its last; null where it kept none. @param {Lifted} e @param {boolean} across @param {{placed: Placed, at: Origin} | null} inside @returns {import("./layers.js").Lane[] | null} */
function guideOf(e, across, inside) {
  const [first, last] = [inside?.placed.rank.get(e.from), inside?.placed.rank.get(e.to)];
  if (!inside || first === undefined || last === undefined || last <= first) return null;
  const [dx, dy] = across ? [inside.at.y, inside.at.x] : [inside.at.x, inside.at.y];
  const out = [];
  for (let r = first; r <= last; r += 1) {
    const lane = inside.placed.lanes.get(r === first ? e.from : r === last ? e.to : `${e.from}\n${r}`);
    if (!lane || (out.length && lane.from + dy < out[out.length - 1].to)) return null; // in another column
    out.push({ x: lane.x + dx, from: lane.from + dy, to: lane.to + dy });
  }
  return out;
}

/** Where each edge meets the side of its box, so that those of one box lie beside one another in the order of where they lead. @param {Lifted[]} edges @param {(import("./layers.js").Lane[] | null)[]} guides @param {Map<string, any>} boxes @param {boolean} across @param {"to"} end @returns {number[]} */
function spreadEnds(edges, guides, boxes, across, end) {
  const middle = (/** @type {any} */ n) => (across ? n.y + n.h / 2 : n.x + n.w / 2);
  /** @type {Map<string, number[]>} */
  const at = new Map();
  edges.forEach((e, k) => at.set(e[end], [...(at.get(e[end]) || []), k]));
  const from = edges.map((e, k) => guides[k]?.at(-2)?.x ?? middle(boxes.get(e.from)));
  const out = edges.map(() => 0);
  for (const [key, list] of at) {
    const n = boxes.get(key);
    const side = across ? n.h : n.w;
    list.sort((p, q) => from[p] - from[q]);
    const apart = Math.min(16, (0.7 * side) / list.length);
    list.forEach((k, i) => {
      out[k] = (i - (list.length - 1) / 2) * apart;
    });
  }
  return out;
}
