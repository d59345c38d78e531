// The graph pane: an SVG with pan and zoom. Nodes are kept by name, so that what survives a pass glides or stands still.
import { h, s } from "./dom.js";

/** @typedef {import("./store.js").Picture} Picture */
/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Marks} Marks */

const MIN_READABLE = 0.3;
const MARGIN = 28;
const LEGEND = 26;

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

export class GraphView {
  constructor() {
    const id = `arrow-${Math.random().toString(36).slice(2)}`;
    this.arrow = id;
    this.groups = s("g", { class: "groups" });
    this.edges = s("g", { class: "edges" });
    this.nodes = s("g", { class: "nodes" });
    this.view = s("g", { class: "view" }, this.groups, this.edges, this.nodes);
    this.svg = s(
      "svg",
      { class: "canvas", role: "img", "aria-label": "Graph" },
      s("defs", {}, s("marker", { id, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { class: "head", d: "M1,1 L7,4 L1,7 Z" }))),
      this.view,
    );
    this.note = h("div", { class: "note", hidden: true });
    this.legend = h("div", { class: "legend", "aria-hidden": "true" });
    this.element = h("div", { class: "graph" }, this.svg, this.note, this.legend);
    /** @type {Map<string, SVGElement>} */
    this.kept = new Map();
    /** @type {Picture | null} */
    this.picture = null;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.touched = false;
    this._listen();
    this.observer = new ResizeObserver(() => {
      if (!this.touched) this.fit();
    });
    this.observer.observe(this.element);
  }

  dispose() {
    this.observer.disconnect();
  }

  /**
   * @param {Picture | null} picture
   * @param {Item[]} items
   * @param {Marks} marks
   * @param {string} side "after" or "before"
   */
  show(picture, items, marks, side) {
    const first = !this.picture;
    const other = this.picture !== picture;
    this.picture = picture;
    this.note.hidden = !(picture && picture.note);
    this.note.textContent = picture?.note || "";
    if (!picture) {
      this.kept.clear();
      for (const part of [this.groups, this.edges, this.nodes]) part.replaceChildren();
      return;
    }
    this._drawGroups(picture, items);
    this._drawEdges(picture, items, marks);
    this._drawNodes(picture, items, marks, side);
    this._drawLegend(picture, items);
    if (first || (other && !this.touched)) this.fit(marks);
  }

  /** @param {Picture} picture @param {Item[]} items */
  _drawGroups(picture, items) {
    const hues = new Map();
    const boxes = picture.groups.map(([item, label, kind, x, y, w, ht]) => {
      if (kind === "cluster" && !hues.has(label)) hues.set(label, hues.size % 4);
      const box = s(
        "g",
        { class: `group ${kind}${kind === "cluster" ? ` hue${hues.get(label)}` : ""}` },
        s("rect", { x, y, width: w, height: ht, rx: 12 }),
        s("text", { x: x + 12, y: y + 17 }, clipped(label, (w - 20) / 6.6)),
      );
      if (item >= 0) box.setAttribute("data-op", items[item].n);
      box.append(s("title", {}, label));
      return box;
    });
    this.groups.replaceChildren(...boxes);
  }

  /** @param {Picture} picture @param {Item[]} items @param {Marks} marks */
  _drawEdges(picture, items, marks) {
    const name = (/** @type {number} */ k) => items[picture.nodes[k][0]].n;
    const paths = picture.edges.map((e) => {
      const [a, b] = [name(e[0]), name(e[1])];
      const fresh = marks.added.has(a) || marks.added.has(b) ? " fresh" : "";
      return s("path", { class: `edge${fresh}`, d: smooth(e.slice(2)), "marker-end": `url(#${this.arrow})`, data: { from: a, to: b } });
    });
    this.edges.replaceChildren(...paths);
  }

  /** @param {Picture} picture @param {Item[]} items @param {Marks} marks @param {string} side */
  _drawNodes(picture, items, marks, side) {
    const seen = new Map();
    const left = new Map(this.kept);
    this.kept = new Map();
    for (const [index, x, y, w, ht] of picture.nodes) {
      const item = items[index];
      const times = seen.get(item.n) || 0;
      seen.set(item.n, times + 1);
      const key = times ? `${item.n}#${times}` : item.n;
      const mark = side === "before" ? (marks.removed.has(item.n) ? "−" : marks.changed.has(item.n) ? "~" : "") : marks.added.has(item.n) ? "+" : marks.changed.has(item.n) ? "~" : "";
      const node = left.get(key) || s("g", { class: "node" });
      left.delete(key);
      dressNode(node, item, w, ht, mark);
      node.style.transform = `translate(${x}px, ${y}px)`;
      if (!node.parentNode) this.nodes.append(node);
      this.kept.set(key, node);
    }
    for (const node of left.values()) node.remove();
  }

  /** @param {Picture} picture @param {Item[]} items */
  _drawLegend(picture, items) {
    const families = [...new Set(picture.nodes.map((n) => items[n[0]].f.replace(/^tf-/, "")))];
    this.legend.replaceChildren(...families.slice(0, 10).map((f) => h("span", { class: `key fam-${f}` }, FAMILY[f] || f)));
  }

  /** Show everything; where that would be too small to read, what changed. @param {Marks} [marks] */
  fit(marks) {
    const box = this.element.getBoundingClientRect();
    const picture = this.picture;
    if (!picture || !box.width || !box.height || !picture.nodes.length) return;
    const room = { w: box.width - MARGIN * 2, h: box.height - MARGIN * 2 - LEGEND };
    const whole = Math.min(room.w / picture.w, room.h / picture.h, 1.3);
    this.scale = Math.max(whole, Math.min(MIN_READABLE, whole * 3));
    this.x = (box.width - picture.w * this.scale) / 2;
    this.y = MARGIN + Math.max(0, (room.h - picture.h * this.scale) / 2);
    if (whole < MIN_READABLE && marks) this._centreOn([...marks.added, ...marks.changed], box);
    this.touched = false;
    this._apply();
  }

  /** @param {string[]} names @param {DOMRect} box */
  _centreOn(names, box) {
    const spots = names.map((n) => this.kept.get(n)).filter((n) => n);
    if (!spots.length || spots.length * 2 > this.kept.size || !this.picture) return;
    const wanted = new Set(spots);
    const at = [...this.kept.values()].map((n, k) => (wanted.has(n) ? /** @type {Picture} */ (this.picture).nodes[k] : null)).filter((n) => n);
    const x = at.reduce((t, n) => t + /** @type {number[]} */ (n)[1] + /** @type {number[]} */ (n)[3] / 2, 0) / at.length;
    const y = at.reduce((t, n) => t + /** @type {number[]} */ (n)[2], 0) / at.length;
    this.x = box.width / 2 - x * this.scale;
    this.y = box.height / 2 - y * this.scale;
  }

  /** Bring an op into view. @param {string} name */
  reveal(name) {
    const at = [...this.kept.keys()].indexOf(name);
    const box = this.element.getBoundingClientRect();
    if (at < 0 || !this.picture || !box.width) return;
    const [, x, y, w, ht] = this.picture.nodes[at];
    const [px, py] = [x * this.scale + this.x, y * this.scale + this.y];
    if (px > 0 && py > 0 && px + w * this.scale < box.width && py + ht * this.scale < box.height) return;
    this.x = box.width / 2 - (x + w / 2) * this.scale;
    this.y = box.height / 2 - (y + ht / 2) * this.scale;
    this._apply();
  }

  _apply() {
    this.view.setAttribute("transform", `translate(${this.x.toFixed(2)},${this.y.toFixed(2)}) scale(${this.scale.toFixed(4)})`);
  }

  /** @param {number} factor @param {number} cx @param {number} cy */
  zoom(factor, cx, cy) {
    const next = Math.min(4, Math.max(0.03, this.scale * factor));
    this.x = cx - ((cx - this.x) * next) / this.scale;
    this.y = cy - ((cy - this.y) * next) / this.scale;
    this.scale = next;
    this.touched = true;
    this._apply();
  }

  _listen() {
    // The page must still scroll where the reader only passes by: the wheel zooms once the view has the focus, or with Ctrl.
    this.svg.addEventListener(
      "wheel",
      (e) => {
        const root = /** @type {ShadowRoot} */ (this.element.getRootNode());
        if (!e.ctrlKey && !e.metaKey && !root.activeElement) return;
        e.preventDefault();
        const box = this.svg.getBoundingClientRect();
        this.zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - box.left, e.clientY - box.top);
      },
      { passive: false },
    );
    this.svg.addEventListener("pointerdown", (down) => {
      if (down.button !== 0) return;
      const from = { x: down.clientX - this.x, y: down.clientY - this.y };
      let moved = false;
      const move = (/** @type {PointerEvent} */ e) => {
        if (!moved && Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) < 4) return;
        if (!moved) this.svg.setPointerCapture(down.pointerId);
        moved = true;
        this.touched = true;
        this.x = e.clientX - from.x;
        this.y = e.clientY - from.y;
        this.svg.classList.add("dragging");
        this._apply();
      };
      const up = () => {
        this.svg.removeEventListener("pointermove", move);
        this.svg.classList.remove("dragging");
      };
      this.svg.addEventListener("pointermove", move);
      this.svg.addEventListener("pointerup", up, { once: true });
      this.svg.addEventListener("pointercancel", up, { once: true });
    });
  }
}

/** @type {Record<string, string>} */
const FAMILY = {
  input: "input",
  constant: "constant",
  element: "elementwise",
  data: "data movement",
  reduce: "reduction",
  matrix: "matrix",
  control: "control",
  fusion: "fusion",
  comm: "transfer",
  variable: "variable",
  launch: "launch",
  scope: "scope",
};

/** @param {SVGElement} node @param {Item} item @param {number} w @param {number} ht @param {string} mark */
function dressNode(node, item, w, ht, mark) {
  const state = mark === "+" ? " added" : mark === "−" ? " removed" : mark === "~" ? " changed" : "";
  node.setAttribute("class", `node fam-${item.f.replace(/^tf-/, "")}${state}${item.r ? " is-root" : ""}`);
  node.setAttribute("data-op", item.n);
  const [title, rest, below] = item.h;
  const parts = [
    s("title", {}, `${item.n}\n${item.t.trim()}`),
    s("rect", { class: "body", width: w, height: ht, rx: 9 }),
    s("text", { class: "title", x: w / 2, y: below ? 18 : 26 }, title, s("tspan", { class: "rest" }, rest)),
    s("text", { class: "below", x: w / 2, y: 33 }, below),
  ];
  if (mark) parts.push(s("circle", { class: "badge", cx: w - 3, cy: 3, r: 8.5 }), s("text", { class: "mark", x: w - 3, y: 7.2 }, mark));
  node.replaceChildren(...parts);
}

/** @param {string} text @param {number} limit */
function clipped(text, limit) {
  return text.length > limit ? `${text.slice(0, Math.max(3, limit - 1))}…` : text;
}
