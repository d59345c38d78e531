// Nodes, boxes and edges of a drawing as SVG.
import { s } from "./dom.js";
import { argumentOf } from "./store.js";

/** @typedef {import("./scene.js").DrawnNode} DrawnNode */
/** @typedef {import("./scene.js").DrawnGroup} DrawnGroup */

/** @param {number[]} p x, y, x, y, ... @returns {string} a smooth path with vertical tangents */
export function smooth(p) {
  let d = `M${p[0]},${p[1]}`;
  for (let k = 2; k < p.length; k += 2) {
    const [x0, y0, x1, y1] = [p[k - 2], p[k - 1], p[k], k + 2 >= p.length ? p[k + 1] - 3 : p[k + 1]];
    if (x0 === x1 && y1 >= y0) {
      d += `V${y1}`;
      continue;
    }
    const bend = y1 > y0 ? (y1 - y0) / 2 : Math.max(30, (y0 - y1) / 3);
    d += `C${x0},${y0 + bend} ${x1},${y1 - bend} ${x1},${y1}`;
  }
  return d;
}

/** The mark of an op on one side of a pass. @param {string} name @param {import("./store.js").Marks} marks @param {string} side */
export function markOf(name, marks, side) {
  if (side === "before") return marks.removed.has(name) ? "−" : marks.changed.has(name) ? "~" : "";
  return marks.added.has(name) ? "+" : marks.changed.has(name) ? "~" : "";
}

/** @param {string} text @param {number} limit */
function clipped(text, limit) {
  return text.length > limit ? `${text.slice(0, Math.max(3, limit - 1))}…` : text;
}

/** A button that folds or unfolds. @param {string} name @param {boolean} folded @param {number} x @param {number} y */
function handle(name, folded, x, y) {
  return s(
    "g",
    { class: "handle", data: { fold: name }, transform: `translate(${x},${y})` },
    s("title", {}, folded ? "unfold" : "fold"),
    s("rect", { class: "hit", x: -3, y: -3, width: 19, height: 19 }),
    s("rect", { width: 13, height: 13, rx: 3 }),
    s("path", { d: folded ? "M3,6.5H10M6.5,3V10" : "M3,6.5H10" }),
  );
}

/** @param {SVGElement} node @param {DrawnNode} drawn @param {string} mark @param {string} colour */
export function dressNode(node, drawn, mark, colour) {
  const { item, w, h: ht } = drawn;
  const state = mark === "+" ? " added" : mark === "−" ? " removed" : mark === "~" ? " changed" : "";
  node.setAttribute("class", `node ${colour}${state}${item.r ? " is-root" : ""}${item.fold ? " scope" : ""}`);
  node.setAttribute("data-op", item.n);
  if (item.fold) node.setAttribute("data-fold", drawn.fold);
  const [title, rest, below] = item.h;
  const parts = [
    s("title", {}, `${argumentOf(item) || item.n}\n${item.t.trim()}`),
    s("rect", { class: "body", width: w, height: ht, rx: 9 }),
    s("text", { class: "title", x: w / 2 + (drawn.fold ? 8 : 0), y: below ? 18 : 26 }, title, s("tspan", { class: "rest" }, rest)),
    s("text", { class: "below", x: w / 2, y: 33 }, below),
    drawn.fold ? handle(drawn.fold, true, 4, 4) : null,
    mark ? s("circle", { class: "badge", cx: w - 3, cy: 3, r: 8.5 }) : null,
    mark ? s("text", { class: "mark", x: w - 3, y: 7.2 }, mark) : null,
  ];
  node.replaceChildren(.../** @type {Node[]} */ (parts.filter((p) => p)));
}

/** @param {DrawnGroup[]} groups @returns {SVGElement[]} the outer ones first, so that inner ones lie on top */
export function drawGroups(groups) {
  const hues = new Map();
  return groups.map((g) => {
    if (g.kind === "cluster" && !hues.has(g.label)) hues.set(g.label, hues.size % 4);
    const indent = g.fold ? 28 : 12;
    const box = s(
      "g",
      { class: `group ${g.kind}${g.kind === "cluster" ? ` hue${hues.get(g.label)}` : ""}` },
      s("rect", { class: "frame", x: g.x, y: g.y, width: g.w, height: g.h, rx: 12 }),
      s("text", { x: g.x + indent, y: g.y + 17 }, clipped(g.label, (g.w - indent - 8) / 6.6)),
      s("title", {}, g.label),
      g.fold ? handle(g.fold, false, g.x + 9, g.y + 6.5) : null,
    );
    if (g.item) box.setAttribute("data-op", g.item.n);
    return box;
  });
}
