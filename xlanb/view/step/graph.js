// The graph pane: an SVG with pan, zoom and a map. Boxes are kept by key, so that what survives a pass glides or stands still.
import { COLOURS, paint, shares, WEIGHTS } from "./colours.js";
import { h, refill, s } from "./dom.js";
import { firstSight, fly, freeCorner, wholeSight } from "./fly.js";
import { GraphFocus } from "./focus.js";
import { drawGhost } from "./ghosts.js";
import { MAP_H, MAP_W, Minimap } from "./minimap.js";
import { LEGIBLE, MARGIN } from "./place.js";
import { listen } from "./pointer.js";
import { wayPath } from "./route.js";
import { dotText, saveBlob, savePng, svgText } from "./save.js";
import { dressNode, drawGroups, edgeWidth, grow, markOf } from "./shapes.js";
import { StubList } from "./stublist.js";
import { linkedTo, trailsOf } from "./trails.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./store.js").Marks} Marks */
/** @typedef {import("./fly.js").Sight} Sight */
/**
 * @typedef {{name(): string, tools: Node[], lead?: Node[], over?: Node, foot?: Node, where?(name: string): string | undefined, recolour(): void, laid?(text: string): string, resized(): void, pin(name: string): void, pair(name: string): void, toggle(key: string): void, spread(key: string): void, leave(): void,
 *   moved?(sight: Sight): void, label?: string, plain?: boolean}} Around `plain`: only its own tools; what the graph is called, further buttons, and what it asks of the view
 */

const USUAL = { w: 880, h: 460 };
const RESIZED = 0.1; // from here on a new size of the pane is worth placing anew

export class GraphView {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.arrow = `arrow-${Math.random().toString(36).slice(2)}`;
    this.groups = s("g", { class: "groups", role: "none" });
    this.edges = s("g", { class: "edges", role: "none" });
    this.nodes = s("g", { class: "nodes", role: "none" });
    this.stubs = s("g", { class: "stubs", role: "none" });
    this.trails = s("g", { class: "trails", role: "none" });
    this.ghosts = s("g", { class: "ghosts", role: "none" });
    this.view = s("g", { class: "view", role: "none" }, this.groups, this.ghosts, this.edges, this.nodes, this.trails, this.stubs);
    this.svg = s(
      "svg",
      { class: "canvas still", role: "tree", "aria-label": around.label || "Graph" },
      s("defs", {}, s("marker", { id: this.arrow, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { class: "head", d: "M1,1 L7,4 L1,7 Z" }))),
      this.view,
    );
    this.note = h("div", { class: "note", hidden: true });
    this.legend = h("div", { class: "legend", "aria-hidden": "true" });
    this.map = new Minimap((x, y) => this._look(x, y));
    this.colour = COLOURS[0];
    this.weigh = WEIGHTS[0];
    this.stage = h("div", { class: "stage" }, this.svg, this.note, this.map.element, around.over);
    this.stages = h("div", { class: "stages" }, this.stage);
    this.element = h("div", { class: "graph" }, around.plain ? h("div", { class: "tools" }, around.tools) : this._tools(), this.stages, h("div", { class: "foot" }, this.legend, around.foot));
    /** @type {Map<string, SVGElement>} */
    this.kept = new Map();
    /** @type {Map<string, {path: SVGElement, d: string, cls: string, width: string}>} */
    this.paths = new Map();
    /** @type {Map<string, {element: SVGElement, x: number, y: number, w: number, h: number}>} */
    this.frames = new Map();
    /** @type {WeakMap<Element, {told: string, item: any, place: string}>} */
    this.dressed = new WeakMap();
    /** @type {Marks | undefined} */
    this.marks = undefined;
    /** @type {Sheet | null} */
    this.sheet = null;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.touched = false;
    this.fitted = ""; // for which drawing and pane the sight was chosen
    this.mate = /** @type {GraphView | null} */ (null); // the second graph, which the sight is chosen for too
    this.anchor = ""; // the group that is being opened or closed
    this.all = false; // all was asked for
    this.stop = () => {};
    this.focus = new GraphFocus(this.svg, () => this.sheet, { ...around, toggle: (key) => this.toggle(key), reveal: (key) => this.reveal(key) });
    listen(this);
    this.stubList = new StubList(this.stubs, { sheet: () => this.sheet, node: (key) => this.kept.get(key) || this.frames.get(key)?.element, go: (key) => this.focus.go(key) });
    this.stage.append(this.stubList.element);
    // Its size is kept: to ask for it in the midst of drawing would have everything laid out at once.
    this.size = { width: 0, height: 0 };
    /** @type {{w: number, h: number} | null} */
    this.placedFor = null; // a little more or less room is no reason to place all anew
    this.observer = new ResizeObserver((entries) => this._resized(entries[entries.length - 1].contentRect));
    this.observer.observe(this.svg);
  }

  dispose() {
    this.stop();
    this.observer.disconnect();
  }

  /** The size that drawings are placed for. */
  get room() {
    return { ...(this.placedFor || USUAL), hold: Boolean(this.anchor) };
  }

  /** Whether the pane has a size by now. What is placed before it has one is placed in vain: the observer asks for it once there is one. */
  isMeasured() {
    if (this.placedFor) return true;
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return false;
    this.size = { width, height };
    this.placedFor = { w: width, h: height };
    return true;
  }

  /** @param {{width: number, height: number}} rect */
  _resized({ width, height }) {
    if (!width || !height) return;
    const before = this.placedFor;
    this.size = { width, height };
    // The first picture stands at once; what comes later glides.
    if (this._isStill) requestAnimationFrame(() => requestAnimationFrame(() => this.svg.classList.remove("still")));
    if (before && Math.abs(width / before.w - 1) <= RESIZED && Math.abs(height / before.h - 1) <= RESIZED) return this.fitted ? this._apply() : this.fit(this.marks);
    this.placedFor = { w: width, h: height };
    this.fitted = "";
    this.around.resized();
    return undefined;
  }

  _tools() {
    const select = (/** @type {string} */ label, /** @type {string[]} */ words, /** @type {string} */ lead, /** @type {(word: string) => void} */ act) => {
      const element = /** @type {HTMLSelectElement} */ (h("select", { class: "tool", "aria-label": label, title: label }, words.map((c) => h("option", { value: c }, c))));
      element.addEventListener("change", () => act(element.value));
      return [h("span", { class: "lead muted", "aria-hidden": "true" }, lead), element];
    };
    const colour = select("Colour by", COLOURS, "colour", (word) => {
      this.colour = word;
      this.around.recolour();
    });
    const weigh = select("Weigh by", WEIGHTS, "weight", (word) => {
      this.weigh = word;
      this.around.recolour();
    });
    const save = /** @type {HTMLSelectElement} */ (h("select", { class: "tool", "aria-label": "Save the graph as" }, h("option", { value: "" }, "save as"), ["SVG", "PNG", "DOT"].map((f) => h("option", { value: f }, f))));
    save.addEventListener("change", () => {
      this.save(save.value);
      save.value = "";
    });
    const by = (/** @type {string} */ face, /** @type {string} */ name, /** @type {number} */ factor) => h("button", { type: "button", class: "tool zoom", "aria-label": name, title: `${name} (or Ctrl and the wheel)`, onclick: () => this.zoom(factor, this.size.width / 2, this.size.height / 2) }, face);
    const fit = h("button", { type: "button", class: "tool", title: "Fit the whole graph; again: zoom to a readable size (space)", onclick: () => this.fitWhole() }, "fit");
    return h("div", { class: "tools", role: "group", "aria-label": "Graph tools" }, this.around.lead, this.around.tools, h("span", { class: "gap" }), colour, weigh, by("−", "Zoom out", 0.8), by("+", "Zoom in", 1.25), fit, save);
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

  /** Open or close a group: it grows or shrinks where it stands. @param {string} key @param {boolean} [spread] show every repeat in it, or one for all */
  toggle(key, spread = false) {
    const focused = this.focus.element(key) === /** @type {ShadowRoot} */ (this.element.getRootNode()).activeElement;
    this.anchor = key;
    if (spread) this.around.spread(key);
    else this.around.toggle(key);
    this.anchor = "";
    if (focused) this.focus.go(key);
  }

  /**
   * @param {Sheet | null} sheet
   * @param {Marks} marks
   * @param {string} side "after" or "before"
   * @param {Map<string, number>} seconds time by op, where it was measured
   */
  show(sheet, marks, side, seconds) {
    const last = this.sheet;
    const other = last !== sheet;
    this.sheet = sheet;
    this.marks = marks;
    this.note.hidden = !(sheet && sheet.note);
    if (this.note.textContent !== (sheet?.note || "")) this.note.textContent = sheet?.note || "";
    if (!sheet) {
      for (const kept of [this.kept, this.paths, this.frames]) kept.clear();
      for (const part of [this.groups, this.ghosts, this.edges, this.nodes, this.trails, this.stubs]) part.replaceChildren();
      return;
    }
    if (other) {
      this._drawFrames(sheet);
      this.map.show(sheet);
      this.svg.classList.toggle("many", sheet.nodes.length > 150); // gliding would cost more than it tells
      if (last && !this._isStill) this._fadeEdges();
    }
    shares(sheet.nodes, this.weigh, seconds);
    this._drawEdges(sheet, marks);
    const colours = paint(this.colour, sheet.nodes.map((n) => n.item), seconds, this.around.laid);
    this._drawNodes(sheet, marks, side, colours);
    if (other) this.stubList.draw(sheet);
    this.ghosts.replaceChildren(...(sheet.ghosts || []).map(drawGhost));
    this.focus.refresh();
    refill(this.legend, colours.legend, () => colours.legend.map((k) => h("span", { class: `key ${k.cls}` }, k.label)));
    if (other && this.anchor && last) this._holdAnchor(last, sheet);
    else if (!last || (other && !this.touched)) this.fit(marks, Boolean(last) && !this._isStill);
    else this._apply();
  }

  /** Boxes around open groups; one that was there grows or moves to its new place. @param {Sheet} sheet */
  _drawFrames(sheet) {
    const drawn = drawGroups(sheet.groups);
    const before = this.frames;
    this.frames = new Map();
    for (const g of sheet.groups) {
      const element = /** @type {SVGElement} */ (drawn.get(g.key));
      this.frames.set(g.key, { element, x: g.x, y: g.y, w: g.w, h: g.h });
      const node = this.anchor === g.key ? this.kept.get(g.key) : null;
      const was = before.get(g.key) || (node ? this._placeOf(g.key) : null);
      if (was && (was.x !== g.x || was.y !== g.y || was.w !== g.w || was.h !== g.h)) grow(element, was, g);
    }
    this.groups.replaceChildren(...drawn.values());
  }

  /** Where a node was drawn before this drawing. @param {string} key */
  _placeOf(key) {
    const [x, y] = (this.kept.get(key)?.style.transform.match(/-?[\d.]+/g) || []).map(Number);
    const body = this.kept.get(key)?.querySelector(".body");
    return x === undefined || !body ? null : { x, y, w: Number(body.getAttribute("width")) || 100, h: Number(body.getAttribute("height")) || 40 };
  }

  /** Whether the first picture is still being made: then nothing is animated. */
  get _isStill() {
    return this.svg.classList.contains("still");
  }

  _fadeEdges() {
    for (const part of [this.edges, this.stubs]) part.animate?.([{ opacity: 0 }, { opacity: 0, offset: 0.45 }, { opacity: 1 }], { duration: 420 });
  }

  /** @param {Sheet} sheet @param {Marks} marks */
  _drawEdges(sheet, marks) {
    const name = new Map([...sheet.nodes, ...sheet.groups].map((n) => [n.key, n.item?.n || n.key]));
    const left = this.paths;
    this.paths = new Map();
    for (const e of sheet.edges) {
      const [a, b] = [name.get(e.from) || "", name.get(e.to) || ""];
      const cls = marks.added.has(a) || marks.added.has(b) ? "edge fresh" : "edge";
      const key = `${e.from}\n${e.to}`;
      const d = e.d || wayPath(e.points);
      if (this.paths.has(key)) continue;
      const old = left.get(key);
      left.delete(key);
      const path = old?.path || s("path", { class: cls, d, "marker-end": `url(#${this.arrow})`, data: { from: a, to: b } });
      if (!old) this.edges.append(path);
      if (old && old.d !== d) path.setAttribute("d", d);
      if (old && old.cls !== cls) path.setAttribute("class", cls);
      const width = edgeWidth(e.bytes || 0).toFixed(2);
      if (old?.width !== width) path.setAttribute("stroke-width", width);
      this.paths.set(key, { path, d, cls, width });
    }
    for (const { path } of left.values()) path.remove();
  }

  /** Show what flows into and out of a box where its edges are drawn from group to group, or as stubs. @param {string} name of an op, or the key of a box; "" for none */
  trace(name) {
    const key = name && this.sheet ? this.keyOf(name) : "";
    this.trails.replaceChildren(...(key && this.sheet ? trailsOf(this.sheet, key, this.arrow) : []));
    const ends = new Set(key ? linkedTo(/** @type {Sheet} */ (this.sheet), key) : []);
    for (const [at, node] of this.kept) node.classList.toggle("linked", ends.has(at));
  }

  /** @param {Sheet} sheet @param {Marks} marks @param {string} side @param {import("./colours.js").Paint} colours */
  _drawNodes(sheet, marks, side, colours) {
    const left = new Map(this.kept);
    this.kept = new Map();
    /** @type {SVGElement[]} */
    const fresh = [];
    for (const drawn of sheet.nodes) {
      const node = left.get(drawn.key) || s("g", { class: "node", tabindex: -1 });
      left.delete(drawn.key);
      this._dress(node, drawn, markOf(drawn.item.n, marks, side), colours.of(drawn.item));
      if (!node.parentNode) {
        this.nodes.append(node);
        fresh.push(node);
      }
      this.kept.set(drawn.key, node);
    }
    if (!this._isStill && (left.size || fresh.length < sheet.nodes.length)) for (const node of fresh) node.animate?.([{ opacity: 0 }, { opacity: 0, offset: 0.4 }, { opacity: 1 }], { duration: 360 });
    for (const node of left.values()) node.remove();
  }

  /** Only what is not as it was is drawn anew. @param {SVGElement} node @param {import("./scene.js").DrawnNode} drawn @param {string} mark @param {string} colour */
  _dress(node, drawn, mark, colour) {
    const place = `translate(${Math.round(drawn.x)}px, ${Math.round(drawn.y)}px)`;
    const was = this.dressed.get(node);
    if (was?.place !== place) node.style.transform = place;
    const told = [drawn.fold, mark, colour, drawn.w, drawn.h, drawn.share, drawn.most, drawn.stack, drawn.port, JSON.stringify([drawn.marks, drawn.operands])].join();
    if (!was || was.item !== drawn.item || was.told !== told) dressNode(node, drawn, mark, colour);
    this.dressed.set(node, { told, item: drawn.item, place });
  }

  // -- what part is in sight

  /** Keys of what a pass changed, groups that hold some of it too. @param {Marks | undefined} marks */
  _changed(marks) {
    const out = new Set();
    if (!marks) return out;
    for (const n of this.sheet?.nodes || []) {
      const { added = 0, removed = 0, changed = 0 } = n.fold ? n.marks || {} : {};
      if (added + removed + changed || marks.added.has(n.item.n) || marks.changed.has(n.item.n) || marks.removed.has(n.item.n)) out.add(n.key);
    }
    return out;
  }

  /** Show everything where it can be read so, else a part of it, where something changed. @param {Marks} [marks] @param {boolean} [glide] */
  fit(marks, glide = false) {
    const [sheet, pane] = this._both();
    if (!sheet || !this.size.width || !sheet.nodes.length) return;
    const changed = this._changed(marks);
    const drawing = [sheet.w, sheet.h, pane.width, pane.height].map(Math.round).join();
    const stays = !this.touched && !this.all && this.fitted && (this.fitted === drawing ? [...changed].some((k) => this._isInSight(k)) || !changed.size : this._fitsAsIs(sheet));
    this.touched = false;
    this.all = false;
    this.fitted = drawing;
    if (stays) return this.settle();
    return this._goTo(firstSight(sheet, pane, changed), glide);
  }

  /** The drawing and the pane that a sight is chosen for: of two graphs that move together, room for the larger in the smaller. @returns {[Sheet | null, {width: number, height: number}]} */
  _both() {
    const other = this.mate;
    if (!this.sheet || !other?.sheet || !other.size.width) return [this.sheet, this.size];
    const { width, height } = this.size;
    return [
      { ...this.sheet, w: Math.max(this.sheet.w, other.sheet.w), h: Math.max(this.sheet.h, other.sheet.h) },
      { width: Math.min(width, other.size.width), height: Math.min(height, other.size.height) },
    ];
  }

  /** Whether the present sight holds all of a drawing, and not from too far away. @param {Sheet} sheet */
  _fitsAsIs(sheet) {
    const { width, height } = this._both()[1];
    const whole = wholeSight(sheet, { width, height }).scale;
    const rim = (MARGIN - 1) * this.scale;
    const within = this.x >= rim && this.y >= rim && this.x + sheet.w * this.scale <= width - rim && this.y + sheet.h * this.scale <= height - rim;
    return this.scale >= LEGIBLE && within && whole < 1.15 * this.scale;
  }

  /** All of it, however small; asked for a second time, what can be read. */
  fitWhole() {
    if (!this.sheet) return;
    if (this.all && !this.touched) {
      this.fitted = "";
      return this.fit(undefined, true);
    }
    this.all = true;
    this.touched = false;
    const [sheet, pane] = this._both();
    return this._goTo(wholeSight(sheet || this.sheet, pane), true);
  }

  /** @param {Sight} sight @param {boolean} glide */
  _goTo(sight, glide) {
    this.stop();
    const show = (/** @type {Sight} */ at) => {
      ({ x: this.x, y: this.y, scale: this.scale } = at);
      this._apply();
    };
    if (glide) this.stop = fly({ x: this.x, y: this.y, scale: this.scale }, sight, show);
    else show(sight);
    this.map.putInto(this.sheet ? freeCorner(this.sheet, this.size, sight, MAP_W + 16, MAP_H + 16) : null);
  }

  /** After the reader's own move. */
  settle() {
    this._apply();
    if (this.sheet) this.map.putInto(freeCorner(this.sheet, this.size, { x: this.x, y: this.y, scale: this.scale }, MAP_W + 16, MAP_H + 16) || (this.touched ? ["right", "bottom"] : null));
  }

  /** A group that was opened stays where it was; then as much of it as may be comes into sight. @param {Sheet} last @param {Sheet} sheet */
  _holdAnchor(last, sheet) {
    const find = (/** @type {Sheet} */ x) => [...x.groups, ...x.nodes].find((n) => n.key === this.anchor);
    const [old, now] = [find(last), find(sheet)];
    if (!old || !now) return this.fit(this.marks, true);
    const before = { x: this.x, y: this.y, scale: this.scale };
    const { width, height } = this.size;
    if (!this.touched && wholeSight(sheet, this.size).scale >= LEGIBLE) {
      this.fitted = "";
      return this.fit(undefined, true);
    }
    const scale = Math.max(before.scale > 1.2 ? LEGIBLE : before.scale, 0.03);
    const pull = (/** @type {number} */ at, /** @type {number} */ size, /** @type {number} */ room) => (size + 2 * MARGIN > room ? MARGIN : Math.max(MARGIN, Math.min(at, room - size - MARGIN)));
    const x = pull(old.x * before.scale + before.x, now.w * scale, width) - now.x * scale;
    const y = pull(old.y * before.scale + before.y, now.h * scale, height) - now.y * scale;
    return this._goTo({ x, y, scale }, true);
  }

  /** @param {string} key */
  _isInSight(key) {
    const at = this.sheet?.nodes.find((n) => n.key === key);
    if (!at) return true;
    const [x, y] = [at.x * this.scale + this.x, at.y * this.scale + this.y];
    return x >= 0 && y >= 0 && x + at.w * this.scale <= this.size.width && y + at.h * this.scale <= this.size.height;
  }

  /** Drag the sheet: its corner comes to stand here. @param {number} x @param {number} y */
  drag(x, y) {
    this.stop();
    [this.x, this.y, this.touched] = [x, y, true];
    this._apply();
  }

  /** Look at a point of the sheet. @param {number} x @param {number} y */
  _look(x, y) {
    this.stop();
    this.x = this.size.width / 2 - x * this.scale;
    this.y = this.size.height / 2 - y * this.scale;
    this.touched = true;
    this._apply();
  }

  /** Bring a box into sight, by the name of its op or by its key. @param {string} name */
  reveal(name) {
    const key = this.keyOf(name);
    const at = [...(this.sheet?.nodes || []), ...(this.sheet?.groups || [])].find((n) => n.key === key);
    if (!at || !this.size.width) return;
    const scale = Math.max(this.scale, LEGIBLE);
    const into = (/** @type {number} */ from, /** @type {number} */ size, /** @type {number} */ room) => (from >= 4 && from + size <= room - 4 ? from : (room - size) / 2);
    const x = into(at.x * scale + this.x, at.w * scale, this.size.width) - at.x * scale;
    const y = into(at.y * scale + this.y, at.h * scale, this.size.height) - at.y * scale;
    if (x === this.x && y === this.y && scale === this.scale) return;
    this._goTo({ x, y, scale }, true);
  }

  /** The key of a box, by its key or by the name of its op; of an op within a closed group that of the group. @param {string} name @returns {string} */
  keyOf(name) {
    const all = this.sheet ? [...this.sheet.nodes, ...this.sheet.groups] : [];
    return (all.find((n) => n.key === name) || all.find((n) => n.item?.n === name))?.key || this.around.where?.(name) || "";
  }

  /** Take over the sight of another pane. @param {Sight} sight @param {boolean} [touched] whether the reader chose it */
  follow({ x, y, scale }, touched = true) {
    this.stop();
    [this.x, this.y, this.scale, this.touched] = [x, y, scale, touched];
    this._apply(false);
  }

  /** @param {boolean} [tell] */
  _apply(tell = true) {
    const sight = `translate(${this.x.toFixed(2)},${this.y.toFixed(2)}) scale(${this.scale.toFixed(4)})`;
    if (this.view.getAttribute("transform") !== sight) this.view.setAttribute("transform", sight);
    const { width: w, height: ht } = this.size;
    if (this.sheet && w) this.map.look(-this.x / this.scale, -this.y / this.scale, w / this.scale, ht / this.scale, this.sheet);
    if (tell) this.around.moved?.({ x: this.x, y: this.y, scale: this.scale }, this.touched);
  }

  /** Move over the sheet, no further than its ends. @param {number} dx @param {number} dy @returns {boolean} whether it moved */
  scroll(dx, dy) {
    const [w, ht] = [(this.sheet?.w || 0) * this.scale, (this.sheet?.h || 0) * this.scale];
    const within = (/** @type {number} */ at, /** @type {number} */ by, /** @type {number} */ size, /** @type {number} */ room) => (size + MARGIN * 2 <= room ? at : Math.max(Math.min(at, room - size - MARGIN), Math.min(at - by, Math.max(at, MARGIN))));
    const [x, y] = [within(this.x, dx, w, this.size.width), within(this.y, dy, ht, this.size.height)];
    if (x === this.x && y === this.y) return false;
    [this.x, this.y, this.touched] = [x, y, true];
    this.settle();
    return true;
  }

  /** @param {number} factor @param {number} cx @param {number} cy */
  zoom(factor, cx, cy) {
    this.stop();
    const next = Math.min(4, Math.max(0.03, this.scale * factor));
    this.x = cx - ((cx - this.x) * next) / this.scale;
    this.y = cy - ((cy - this.y) * next) / this.scale;
    this.scale = next;
    this.touched = true;
    this.settle();
  }
}
