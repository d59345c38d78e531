// What flows into and out of one box, drawn while it is pointed at or pinned: the edges that the picture shows from group to group, or as stubs.
import { s } from "./dom.js";
import { wayPath } from "./route.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./layers.js").Box} Box */

const MOST_TRAILS = 60;

/** The keys of the nodes that a node is joined to. @param {Sheet} sheet @param {string} key @returns {string[]} */
export function linkedTo(sheet, key) {
  return (sheet.links || []).flatMap(({ from, to }) => (from === key ? [to] : to === key ? [from] : []));
}

/** The way of a trail: along the flow where the other end lies ahead, else from side to side. @param {Box} a @param {Box} b @param {boolean} across */
function trailWay(a, b, across) {
  const ahead = across ? b.x >= a.x + a.w : b.y >= a.y + a.h;
  const [ax, ay, bx, by] = [a.x + a.w / 2, a.y + a.h / 2, b.x + b.w / 2, b.y + b.h / 2];
  if (ahead) return wayPath(across ? [a.x + a.w, ay, b.x - 2, by] : [ax, a.y + a.h, bx, b.y - 2], across);
  const right = bx >= ax;
  const [x0, x1] = [right ? a.x + a.w : a.x, right ? b.x - 2 : b.x + b.w + 2];
  const bow = Math.max(40, Math.abs(x1 - x0) / 2) * (right ? 1 : -1);
  return `M${x0},${ay}C${x0 + bow},${ay} ${x1 - bow},${by} ${x1},${by}`;
}

/** Edges of a node that are not drawn by themselves. @param {Sheet} sheet @param {string} key @param {string} arrow the id of the arrow's head @returns {SVGElement[]} */
export function trailsOf(sheet, key, arrow) {
  const boxes = new Map(sheet.nodes.map((n) => [n.key, n]));
  const drawn = new Set(sheet.edges.map((e) => `${e.from}\n${e.to}`));
  const hidden = (sheet.links || []).filter((e) => (e.from === key || e.to === key) && !drawn.has(`${e.from}\n${e.to}`)).slice(0, MOST_TRAILS);
  return hidden.flatMap(({ from, to }) => {
    const [a, b] = [boxes.get(from), boxes.get(to)];
    return a && b ? [s("path", { class: "trail", d: trailWay(a, b, Boolean(sheet.across)), "marker-end": `url(#${arrow})` })] : [];
  });
}
