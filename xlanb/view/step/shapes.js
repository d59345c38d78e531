// Nodes, boxes, edges and stubs of a drawing as SVG.
import { grouped, plural, s } from "./dom.js";
import { shortened, textWidth } from "./measure.js";
import { secondLine, shortCount, tallyWidth } from "./place.js";
import { argumentOf, isGroup } from "./store.js";
import { labelOf } from "./stubs.js";

/** @typedef {import("./scene.js").DrawnNode} DrawnNode */
/** @typedef {import("./scene.js").DrawnGroup} DrawnGroup */

/** Small pictures of what an op is, in a square of 14. @type {Record<string, string>} */
const ICONS_OF = {
  dot: "M2,2h10v10h-10zM5.3,2v10M8.7,2v10M2,5.3h10M2,8.7h10",
  convolution: "M2,2h10v10h-10zM2,7h5v-5M9,9h1.5v1.5h-1.5z",
  fusion: "M5,4.5a3.6,3.6 0 1,0 0,5a3.6,3.6 0 0,0 0,-5M9,4.5a3.6,3.6 0 1,1 0,5",
  while: "M11.5,7a4.5,4.5 0 1,1 -1.6,-3.4M10.2,1.4v2.4h-2.4",
  control: "M7,1.8l5.2,5.2l-5.2,5.2l-5.2,-5.2z",
  reduce: "M11,3.4v-1.2h-8l4,4.8l-4,4.8h8v-1.2",
  comm: "M2,4.6h9.4M9,2.2l2.6,2.4l-2.6,2.4M12,9.4h-9.4M5,7l-2.6,2.4l2.6,2.4",
  launch: "M4,2.2l7.4,4.8l-7.4,4.8z",
  custom: "M9.6,2.4c-3,-0.8 -2.6,2 -3,4.6s0,5.6 -3,4.8M4.2,6.2h5",
};

/** What a node looks like: of which kind it is, and its picture. @param {DrawnNode} n @returns {{look: string, icon: string}} */
export function lookOf(n) {
  const family = n.item.f.replace(/^tf-/, "");
  const op = n.item.o;
  if (n.port) return { look: "port", icon: "" };
  if (family === "matrix") return { look: "matrix", icon: /conv/i.test(op) ? "convolution" : "dot" };
  if (family === "fusion" || op === "fusion") return { look: "fusion", icon: "fusion" };
  if (family === "comm") return { look: "comm", icon: "comm" };
  if (op === "while") return { look: "control", icon: "while" };
  if (op === "custom-call" || op === "sort") return { look: "call", icon: "custom" };
  if (family === "control" && op !== "NoOp") return { look: "control", icon: "control" };
  if (family === "launch") return { look: "fusion", icon: "launch" };
  if (n.fold || n.count > 1) return { look: "holds", icon: "" };
  if (family === "reduce") return { look: "reduce", icon: "reduce" };
  return { look: "quiet", icon: "" };
}

/** The outline of a node. @param {string} look @param {number} w @param {number} h */
function outline(look, w, h) {
  if (look === "comm") return s("path", { class: "body", d: `M9,0H${w - 9}L${w},${h / 2}L${w - 9},${h}H9L0,${h / 2}Z` });
  const round = { matrix: 3, control: Math.min(18, h / 2), port: h / 2, fusion: 9, holds: 8, call: 3 }[look] ?? 7;
  return s("rect", { class: "body", width: w, height: h, rx: round });
}

/** The mark of an op on one side of a pass. @param {string} name @param {import("./store.js").Marks} marks @param {string} side */
export function markOf(name, marks, side) {
  if (side === "before") return marks.removed.has(name) ? "−" : marks.changed.has(name) ? "~" : "";
  return marks.added.has(name) ? "+" : marks.changed.has(name) ? "~" : "";
}

/** What a pass did in a group, as text in colours. @param {import("./scene.js").Tally | undefined} marks */
export function tallyText(marks) {
  if (!marks) return [];
  const parts = [["add", "+", marks.added], ["rem", "−", marks.removed], ["chg", "~", marks.changed]].filter((p) => p[2]);
  return parts.map(([cls, sign, n]) => s("tspan", { class: `t-${cls}`, dx: 5 }, `${sign}${shortCount(n)}`));
}

/** A button that opens or closes a group. @param {string} key @param {boolean} closed @param {number} x @param {number} y */
function handle(key, closed, x, y) {
  return s(
    "g",
    { class: "handle", data: { fold: key }, transform: `translate(${x},${y})` },
    s("title", {}, closed ? "open (Enter on it, or +)" : "close (−)"),
    s("rect", { class: "hit", x: -4, y: -4, width: 21, height: 21 }),
    s("rect", { width: 13, height: 13, rx: 3 }),
    s("path", { d: closed ? "M3,6.5H10M6.5,3V10" : "M3,6.5H10" }),
  );
}

/** The button that shows all repeats, or one for all. @param {DrawnGroup} g */
function spreader(g) {
  const face = g.stack > 1 ? `×${g.stack}` : "⋯×";
  const w = 10 + 8 * face.length;
  return s(
    "g",
    { class: "spread", data: { spread: g.key }, transform: `translate(${g.x + g.w - w - 8},${g.y + 6})` },
    s("title", {}, g.stack > 1 ? "show every repeat" : "show one for all repeats"),
    s("rect", { width: w, height: 16, rx: 8 }),
    s("text", { x: w / 2, y: 12 }, face),
  );
}

/** What is said of a node when it has the focus: opcode, name, shape; of a group how many ops. @param {DrawnNode} n @param {string} mark */
export function spoken(n, mark) {
  const said = { "+": ", added", "−": ", removed", "~": ", changed" }[mark] || "";
  const { added = 0, removed = 0, changed = 0 } = n.marks || {};
  if (n.count > 1 || isGroup(n.item)) return `${n.item.h[0]}${n.stack > 1 ? ` times ${n.stack}` : ""}, group of ${plural(n.count, "op")}${added + removed + changed ? `, ${grouped(added)} added, ${grouped(removed)} removed, ${grouped(changed)} changed` : ""}`;
  const what = n.port === "in" ? "parameter" : n.port === "out" ? "result" : n.item.o;
  return [what, argumentOf(n.item) || n.item.n, n.item.s].filter((t) => t).join(" ") + said + (n.heir ? `, ${grouped(removed)} removed around it` : "");
}

/** @param {SVGElement} node @param {DrawnNode} drawn @param {string} mark @param {string} colour */
export function dressNode(node, drawn, mark, colour) {
  const { item, fold } = drawn;
  const { look, icon } = lookOf(drawn);
  const back = drawn.stack > 1 ? 7 : 0;
  const [w, ht] = [drawn.w - back, drawn.h - back];
  const state = mark === "+" ? " added" : mark === "−" ? " removed" : mark === "~" ? " changed" : "";
  node.setAttribute("class", `node ${look} ${colour}${state}${item.r ? " is-root" : ""}${fold ? " closed" : ""}${(drawn.share || 0) >= 0.08 ? " heavy" : ""}`);
  node.style.setProperty("--w", ((drawn.share || 0) / (drawn.most || 1)).toFixed(2));
  node.setAttribute("data-op", item.n);
  node.setAttribute("data-key", drawn.key);
  if (fold) node.setAttribute("data-fold", fold);
  else node.removeAttribute("data-fold");
  node.setAttribute("role", "treeitem");
  if (fold) node.setAttribute("aria-expanded", "false");
  else node.removeAttribute("aria-expanded");
  node.setAttribute("aria-label", spoken(drawn, mark));
  const parts = [
    s("title", {}, `${isGroup(item) ? item.h[0] : argumentOf(item) || item.n}\n${item.t.trim()}`),
    ...(back ? [s("rect", { class: "behind", x: back, y: back, width: w, height: ht, rx: 8 }), s("rect", { class: "behind", x: back / 2, y: back / 2, width: w, height: ht, rx: 8 })] : []),
    outline(look, w, ht),
    look === "fusion" ? s("rect", { class: "inner", x: 3, y: 3, width: w - 6, height: ht - 6, rx: 6 }) : null,
    look === "matrix" ? s("rect", { class: "edge-bar", width: 5, height: ht, rx: 2 }) : null,
    ...words(drawn, look, icon, w, ht),
    fold ? handle(fold, true, w - 18, look === "port" ? 7 : 5) : null,
    ...(mark && !fold ? [s("circle", { class: "badge", cx: w - 4, cy: 4, r: 8.5 }), s("text", { class: "mark", x: w - 4, y: 8.2 }, mark)] : []),
  ];
  node.replaceChildren(.../** @type {Node[]} */ (parts.filter((p) => p)));
}

/** What stands beside a title: the rest of the name, which gives way first, and as many operands as there is room for. @param {string} rest @param {import("./scene.js").Operand[]} operands @param {number} space */
function besideTitle(rest, operands, space) {
  for (let n = operands.length; n > 0; n -= 1) {
    const told = ` ${operands.slice(0, n).map((o) => `·${o.text}`).join(" ")}${n < operands.length ? " ·…" : ""}`;
    const left = space - textWidth(told, "rest");
    if (textWidth(rest, "rest") <= left) return rest + told;
    if (left > 36) return shortened(rest, left, "rest") + told;
    if (left >= 0) return told;
  }
  return space > 24 ? shortened(rest, space, "rest") : "";
}

/** Icon, title, what stands below, and the bar of the weight. @param {DrawnNode} n @param {string} look @param {string} icon @param {number} w @param {number} ht */
function words(n, look, icon, w, ht) {
  const [title, rest] = n.item.h;
  if (look === "port") {
    return [s("text", { class: "title", x: w / 2 - (n.fold ? 8 : 0), y: ht / 2 + 4.3 }, shortened(labelOf(n), w - 18 - (n.fold ? 18 : 0), "title"))];
  }
  const tally = n.count > 1 || isGroup(n.item) ? tallyText(n.marks) : n.heir ? tallyText({ ...n.marks, added: 0, changed: 0 }) : [];
  const marks = tally.length ? tallyWidth(n.marks) : 0;
  const [left, right] = [icon ? 27 : 8, n.fold ? 24 : 8];
  const times = n.stack > 1 && !/×/.test(title) ? ` ×${n.stack}` : "";
  const room = w - left - right;
  const head = shortened(title, room - textWidth(times, "rest"), "title");
  const space = room - textWidth(head, "title") - textWidth(times, "rest");
  const named = n.item.o === "fusion" && textWidth(rest, "rest") > space ? "" : rest || ""; // half of "_fusion.3" says nothing
  const more = `${times}${n.count > 1 ? "" : besideTitle(named, n.operands || [], space)}`;
  const wide = textWidth(head, "title") + textWidth(more, "rest");
  const share = (n.share || 0) >= 0.05 && n.share < 0.995 ? `${Math.round(100 * n.share)} %` : "";
  const percent = marks + textWidth(share, "below") + 20 <= w ? share : ""; // the bar tells it too
  const free = w - 12 - marks - (percent ? textWidth(percent, "below") + 8 : 0);
  const under = secondLine(n) || (n.count > 1 ? plural(n.count, "op") : "");
  const lower = marks && textWidth(under, "below") > free ? "" : shortened(under, free, "below");
  const two = Boolean(lower || percent || marks);
  const y = two ? ht / 2 - (ht < 38 ? 2.8 : 3.5) - (percent ? 2 : 0) : ht / 2 + 4.5;
  return [
    icon ? s("path", { class: "icon-of", d: ICONS_OF[icon], transform: `translate(9,${y - 11})` }) : null,
    s("text", { class: "title", x: wide / 2 + Math.max(left, right) < w / 2 ? w / 2 : (left + w - right) / 2, y }, head, s("tspan", { class: "rest" }, more)),
    two ? s("text", { class: "below", x: w / 2, y: y + (ht < 38 ? 14.3 : 16.5) }, lower, tally, percent ? s("tspan", { class: "share", dx: lower || marks ? 8 : 0 }, percent) : "") : null,
    percent ? s("rect", { class: "weight", x: 6, y: ht - 4.5, width: Math.max(2, (w - 12) * Math.min(1, n.share / (n.most || 1))), height: 3, rx: 1.5 }) : null,
  ];
}

/** @param {DrawnGroup[]} groups @returns {Map<string, SVGElement>} the outer ones first, so that inner ones lie on top */
export function drawGroups(groups) {
  const hues = new Map();
  return new Map(groups.map((g) => {
    if (g.kind === "cluster" && !hues.has(g.label)) hues.set(g.label, hues.size % 4);
    const indent = g.fold ? 28 : 12;
    const space = g.w - indent - (g.kind === "repeat" ? 52 : 14);
    const named = textWidth(g.label, "title");
    const tally = named + tallyWidth(g.marks) <= space ? tallyText(g.marks) : [];
    const said = g.count > 1 ? `${grouped(g.count)} ops` : "";
    const count = named + (tally.length ? tallyWidth(g.marks) : 0) + textWidth(said, "rest") + 8 <= space ? said : "";
    const label = shortened(g.label, space, "title");
    const box = s(
      "g",
      { class: `group ${g.kind}${g.kind === "cluster" ? ` hue${hues.get(g.label)}` : ""}`, role: "treeitem", "aria-expanded": "true", "aria-label": `${g.label}, open group${g.count ? ` of ${plural(g.count, "op")}` : ""}`, tabindex: -1, data: { key: g.key } },
      g.stack > 1 ? s("rect", { class: "behind", x: g.x + 5, y: g.y + 5, width: g.w, height: g.h, rx: 12 }) : null,
      s("rect", { class: "frame", x: g.x, y: g.y, width: g.w, height: g.h, rx: 12 }),
      g.kind === "fusion" ? s("rect", { class: "inner", x: g.x + 3.5, y: g.y + 3.5, width: g.w - 7, height: g.h - 7, rx: 9 }) : null,
      s("text", { x: g.x + indent, y: g.y + 18 }, label, count ? s("tspan", { class: "rest", dx: 8 }, count) : "", tally),
      s("title", {}, g.label),
      g.fold ? handle(g.fold, false, g.x + 9, g.y + 7) : null,
      g.kind === "repeat" ? spreader(g) : null,
    );
    if (g.item) box.setAttribute("data-op", g.item.n);
    return /** @type {[string, SVGElement]} */ ([g.key, box]);
  }));
}

/** How wide an edge is: by the logarithm of its bytes, quiet. @param {number} bytes */
export function edgeWidth(bytes) {
  return bytes > 0 ? Math.max(1.1, Math.min(4.2, 1.1 + 0.55 * (Math.log10(bytes) - 3))) : 1.3;
}

/** Let a frame grow or move from where it was. @param {SVGElement} element @param {{x: number, y: number, w: number, h: number}} from @param {{x: number, y: number, w: number, h: number}} to */
export function grow(element, from, to) {
  const keys = [from, to].map((b) => ({ x: `${b.x}px`, y: `${b.y}px`, width: `${b.w}px`, height: `${b.h}px` }));
  element.querySelector(".frame")?.animate?.(keys, { duration: 320, easing: "cubic-bezier(0.3, 0.7, 0.2, 1)" });
  for (const x of element.querySelectorAll("text, .handle")) x.animate?.([{ opacity: 0 }, { opacity: 1 }], { duration: 320 });
}
