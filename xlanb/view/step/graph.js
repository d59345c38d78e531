// The graph pane: an SVG with pan, zoom and a map. Nodes are kept by name, so that what survives a pass glides or stands still.
import { COLOURS, paint } from "./colours.js";
import { h, s } from "./dom.js";
import { Minimap } from "./minimap.js";
import { dotText, saveBlob, savePng, svgText } from "./save.js";
import { dressNode, drawGroups, markOf, smooth } from "./shapes.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./store.js").Marks} Marks */

const MIN_READABLE = 0.62;
const HALF = 0.5; // its whole width is shown down to here
const SMALL = 0.7; // all of it is shown down to here
const READABLE = 0.9; // else a tall graph is scrolled through rather than made so small that its width is empty
const MARGIN = 28;
const LEGEND = 26;

export class GraphView {
  /** @param {{name(): string, tools: Node[], recolour(): void}} around what the graph is called, further buttons, and what draws it anew */
  constructor(around) {
    this.around = around;
    this.arrow = `arrow-${Math.random().toString(36).slice(2)}`;
    this.groups = s("g", { class: "groups" });
    this.edges = s("g", { class: "edges" });
    this.nodes = s("g", { class: "nodes" });
    this.view = s("g", { class: "view" }, this.groups, this.edges, this.nodes);
    this.svg = s(
      "svg",
      { class: "canvas", role: "img", "aria-label": "Graph" },
      s("defs", {}, s("marker", { id: this.arrow, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { class: "head", d: "M1,1 L7,4 L1,7 Z" }))),
      this.view,
    );
    this.note = h("div", { class: "note", hidden: true });
    this.legend = h("div", { class: "legend", "aria-hidden": "true" });
    this.map = new Minimap((x, y) => this._look(x, y));
    this.colour = COLOURS[0];
    this.element = h("div", { class: "graph" }, this._tools(), this.svg, this.note, this.legend, this.map.element);
    /** @type {Map<string, SVGElement>} */
    this.kept = new Map();
    /** @type {Map<string, {path: SVGElement, d: string, cls: string}>} */
    this.paths = new Map();
    /** @type {WeakMap<Element, {item: any, fold: string, mark: string, colour: string, place: string}>} */
    this.dressed = new WeakMap();
    /** @type {Marks | undefined} */
    this.marks = undefined;
    /** @type {Sheet | null} */
    this.sheet = null;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.touched = false;
    this.wide = 0; // the width of the sheet that was fitted
    this.isWhole = true; // all of the sheet is in sight
    this.all = false; // all was asked for
    this._listen();
    // Its size is kept: to ask for it in the midst of drawing would have everything laid out at once.
    this.size = { width: 0, height: 0 };
    this.observer = new ResizeObserver((entries) => {
      const { width, height } = entries[entries.length - 1].contentRect;
      const first = !this.size.width;
      this.size = { width, height };
      if (this.touched) this._apply();
      else this.fit(first ? this.marks : undefined);
    });
    this.observer.observe(this.svg);
  }

  dispose() {
    this.observer.disconnect();
  }

  _tools() {
    const choose = /** @type {HTMLSelectElement} */ (h("select", { class: "tool", "aria-label": "Colour by" }, COLOURS.map((c) => h("option", { value: c }, `colour: ${c}`))));
    choose.addEventListener("change", () => {
      this.colour = choose.value;
      this.around.recolour();
    });
    const save = /** @type {HTMLSelectElement} */ (h("select", { class: "tool", "aria-label": "Save the graph as" }, h("option", { value: "" }, "save as"), ["SVG", "PNG", "DOT"].map((f) => h("option", { value: f }, f))));
    save.addEventListener("change", () => {
      this.save(save.value);
      save.value = "";
    });
    const by = (/** @type {string} */ face, /** @type {string} */ name, /** @type {number} */ factor) => h("button", { type: "button", class: "tool zoom", "aria-label": name, title: `${name} (or Ctrl and the wheel)`, onclick: () => this.zoom(factor, this.size.width / 2, this.size.height / 2) }, face);
    const fit = h("button", { type: "button", class: "tool", title: "All of it; again: as large as its width allows (space)", onclick: () => this.fitWhole() }, "fit");
    return h("div", { class: "tools", role: "group", "aria-label": "Graph tools" }, this.around.tools, h("span", { class: "gap" }), choose, by("−", "Zoom out", 0.8), by("+", "Zoom in", 1.25), fit, save);
  }

  /** @param {string} format */
  save(format) {
    if (!this.sheet) return;
    const name = `${this.around.name()}.${format.toLowerCase()}`;
    if (format === "DOT") saveBlob(new Blob([dotText(this.sheet, this.around.name())], { type: "text/vnd.graphviz" }), name);
    else {
      const text = svgText(this.svg, this.sheet, getComputedStyle(this.svg).getPropertyValue("--bg") || "#fff");
      if (format === "SVG") saveBlob(new Blob([text], { type: "image/svg+xml" }), name);
      else if (format === "PNG") savePng(text, this.sheet, name);
    }
  }

  /**
   * @param {Sheet | null} sheet
   * @param {Marks} marks
   * @param {string} side "after" or "before"
   * @param {Map<string, number>} seconds time by op, where it was measured
   */
  show(sheet, marks, side, seconds) {
    const first = !this.sheet;
    const other = this.sheet !== sheet;
    this.sheet = sheet;
    this.marks = marks;
    this.note.hidden = !(sheet && sheet.note);
    this.note.textContent = sheet?.note || "";
    if (!sheet) {
      this.kept.clear();
      this.paths.clear();
      for (const part of [this.groups, this.edges, this.nodes]) part.replaceChildren();
      return;
    }
    if (other) {
      this.groups.replaceChildren(...drawGroups(sheet.groups));
      this.map.show(sheet);
    }
    this.svg.classList.toggle("many", sheet.nodes.length > 150); // gliding would cost more than it tells
    this._drawEdges(sheet, marks);
    const colours = paint(this.colour, sheet.nodes.map((n) => n.item), seconds);
    this._drawNodes(sheet, marks, side, colours);
    this.legend.replaceChildren(...colours.legend.map((k) => h("span", { class: `key ${k.cls}` }, k.label)));
    if (first || (other && !this.touched)) this.fit(marks);
    else this._apply();
  }

  /** @param {Sheet} sheet @param {Marks} marks */
  _drawEdges(sheet, marks) {
    const name = new Map(sheet.nodes.map((n) => [n.key, n.item.n]));
    const left = this.paths;
    this.paths = new Map();
    for (const e of sheet.edges) {
      const [a, b] = [name.get(e.from) || "", name.get(e.to) || ""];
      const cls = marks.added.has(a) || marks.added.has(b) ? "edge fresh" : "edge";
      const d = smooth(e.points);
      let key = `${a}\n${b}`;
      while (this.paths.has(key)) key += "\n";
      const old = left.get(key);
      left.delete(key);
      const path = old?.path || s("path", { class: cls, d, "marker-end": `url(#${this.arrow})`, data: { from: a, to: b } });
      if (!old) this.edges.append(path);
      if (old && old.d !== d) path.setAttribute("d", d);
      if (old && old.cls !== cls) path.setAttribute("class", cls);
      this.paths.set(key, { path, d, cls });
    }
    for (const { path } of left.values()) path.remove();
  }

  /** @param {Sheet} sheet @param {Marks} marks @param {string} side @param {import("./colours.js").Paint} colours */
  _drawNodes(sheet, marks, side, colours) {
    const seen = new Map();
    const left = new Map(this.kept);
    this.kept = new Map();
    for (const drawn of sheet.nodes) {
      const name = drawn.item.n;
      const times = seen.get(name) || 0;
      seen.set(name, times + 1);
      const key = times ? `${name}#${times}` : name;
      const node = left.get(key) || s("g", { class: "node" });
      left.delete(key);
      this._dress(node, drawn, markOf(name, marks, side), colours.of(drawn.item));
      if (!node.parentNode) this.nodes.append(node);
      this.kept.set(key, node);
    }
    for (const node of left.values()) node.remove();
  }

  /** Only what is not as it was is drawn anew. @param {SVGElement} node @param {import("./scene.js").DrawnNode} drawn @param {string} mark @param {string} colour */
  _dress(node, drawn, mark, colour) {
    const place = `translate(${Math.round(drawn.x)}px, ${Math.round(drawn.y)}px)`;
    const was = this.dressed.get(node);
    if (was?.place !== place) node.style.transform = place;
    if (!was || was.item !== drawn.item || was.fold !== drawn.fold || was.mark !== mark || was.colour !== colour) dressNode(node, drawn, mark, colour);
    this.dressed.set(node, { item: drawn.item, fold: drawn.fold, mark, colour, place });
  }

  /** Show everything where it can be read so, else its width, from its beginning or where something changed. @param {Marks} [marks] */
  fit(marks) {
    const box = this.size;
    const sheet = this.sheet;
    if (!sheet || !box.width || !box.height || !sheet.nodes.length) return;
    const room = { w: box.width - MARGIN * 2, h: box.height - MARGIN * 2 - LEGEND };
    const whole = Math.min(room.w / sheet.w, room.h / sheet.h, 1.3);
    const wide = room.w / sheet.w;
    const scale = whole >= SMALL ? whole : Math.max(whole, wide < HALF ? MIN_READABLE : Math.min(READABLE, wide));
    const changed = marks ? [...marks.added, ...marks.changed] : [];
    const stays = Math.abs(scale - this.scale) < 1e-6 && Math.abs(this.wide - sheet.w) < 1 && changed.every((n) => this._isInSight(n));
    this.touched = false;
    this.isWhole = scale <= whole;
    if (stays && marks && !this.isWhole && this.y <= MARGIN) return this._apply();
    [this.scale, this.wide] = [scale, sheet.w];
    this.x = (box.width - sheet.w * this.scale) / 2;
    this.y = MARGIN + Math.max(0, (room.h - sheet.h * this.scale) / 2);
    if (!this.isWhole && marks) this._centreOn(changed, box);
    return this._apply();
  }

  /** All of it, however small; asked for a second time, what can be read. */
  fitWhole() {
    if (!this.sheet || this.isWhole || this.touched === false && this.all) {
      this.all = false;
      return this.fit();
    }
    const { width, height } = this.size;
    this.scale = Math.min((width - MARGIN * 2) / this.sheet.w, (height - MARGIN * 2 - LEGEND) / this.sheet.h, 1.3);
    this.x = (width - this.sheet.w * this.scale) / 2;
    this.y = MARGIN;
    this.all = true;
    this.touched = false;
    return this._apply();
  }

  /** @param {string} name */
  _isInSight(name) {
    const at = this.sheet?.nodes.find((n) => n.item.n === name);
    if (!at) return true;
    const y = at.y * this.scale + this.y;
    return y >= 0 && y + at.h * this.scale <= this.size.height;
  }

  /** @param {string[]} names @param {{width: number, height: number}} box */
  _centreOn(names, box) {
    const wanted = new Set(names);
    const at = (this.sheet?.nodes || []).filter((n) => wanted.has(n.item.n));
    if (!at.length || at.length * 2 > this.kept.size) return;
    const x = at.reduce((t, n) => t + n.x + n.w / 2, 0) / at.length;
    const y = at.reduce((t, n) => t + n.y, 0) / at.length;
    this.x = box.width / 2 - x * this.scale;
    this.y = Math.min(MARGIN, box.height / 2 - y * this.scale);
    if (this.sheet && this.sheet.w * this.scale <= box.width) this.x = (box.width - this.sheet.w * this.scale) / 2;
  }

  /** Look at a point of the sheet. @param {number} x @param {number} y */
  _look(x, y) {
    const box = this.size;
    this.x = box.width / 2 - x * this.scale;
    this.y = box.height / 2 - y * this.scale;
    this.touched = true;
    this._apply();
  }

  /** Bring an op into view. @param {string} name */
  reveal(name) {
    const box = this.size;
    const at = this.sheet?.nodes.find((n) => n.item.n === name);
    if (!at || !box.width) return;
    const [px, py] = [at.x * this.scale + this.x, at.y * this.scale + this.y];
    if (px > 0 && py > 0 && px + at.w * this.scale < box.width && py + at.h * this.scale < box.height) return;
    this.x = box.width / 2 - (at.x + at.w / 2) * this.scale;
    this.y = box.height / 2 - (at.y + at.h / 2) * this.scale;
    this._apply();
  }

  _apply() {
    this.view.setAttribute("transform", `translate(${this.x.toFixed(2)},${this.y.toFixed(2)}) scale(${this.scale.toFixed(4)})`);
    const { width: w, height: ht } = this.size;
    if (this.sheet && w) this.map.look(-this.x / this.scale, -this.y / this.scale, w / this.scale, ht / this.scale, this.sheet);
  }

  /** Move over the sheet, no further than its ends. @param {number} dx @param {number} dy @returns {boolean} whether it moved */
  _scroll(dx, dy) {
    const [w, ht] = [(this.sheet?.w || 0) * this.scale, (this.sheet?.h || 0) * this.scale];
    const within = (/** @type {number} */ at, /** @type {number} */ by, /** @type {number} */ size, /** @type {number} */ room) => (size + MARGIN * 2 <= room ? at : Math.max(Math.min(at, room - size - MARGIN - LEGEND), Math.min(at - by, Math.max(at, MARGIN))));
    const [x, y] = [within(this.x, dx, w, this.size.width), within(this.y, dy, ht, this.size.height)];
    if (x === this.x && y === this.y) return false;
    [this.x, this.y, this.touched] = [x, y, true];
    this._apply();
    return true;
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
    // The page must still scroll where the reader only passes by: once the view has the focus the wheel moves a graph that is larger than the pane; with Ctrl it zooms.
    this.svg.addEventListener(
      "wheel",
      (e) => {
        const root = /** @type {ShadowRoot} */ (this.element.getRootNode());
        const zooms = e.ctrlKey || e.metaKey;
        if (!zooms && !root.activeElement) return;
        const box = this.svg.getBoundingClientRect();
        if (zooms) this.zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - box.left, e.clientY - box.top);
        else if (!this._scroll(e.shiftKey ? e.deltaY : e.deltaX, e.shiftKey ? 0 : e.deltaY)) return;
        e.preventDefault();
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
