// The whole graph in the corner, with the part that is in sight; dragging moves it.
import { s } from "./dom.js";

/** @typedef {import("./scene.js").Sheet} Sheet */

export const MAP_W = 150;
export const MAP_H = 104;

export class Minimap {
  /** @param {(x: number, y: number) => void} centre called with the point of the sheet to look at */
  constructor(centre) {
    this.frame = s("rect", { class: "sight" });
    this.dots = s("g", {});
    this.element = s("svg", { class: "minimap", width: MAP_W, height: MAP_H, "aria-hidden": "true" }, this.dots, this.frame);
    this.scale = 1;
    this.isAll = true;
    /** @type {string[] | null} */
    this.corner = null;
    const to = (/** @type {PointerEvent} */ e) => {
      const box = this.element.getBoundingClientRect();
      centre((e.clientX - box.left - this.left) / this.scale, (e.clientY - box.top - this.top) / this.scale);
    };
    this.left = 0;
    this.top = 0;
    this.element.addEventListener("pointerdown", (e) => {
      this.element.setPointerCapture(e.pointerId);
      to(e);
      e.stopPropagation();
    });
    this.element.addEventListener("pointermove", (e) => {
      if (e.buttons & 1) to(e);
    });
  }

  /** @param {Sheet} sheet */
  show(sheet) {
    this.scale = Math.min((MAP_W - 12) / Math.max(sheet.w, 1), (MAP_H - 12) / Math.max(sheet.h, 1));
    this.left = (MAP_W - sheet.w * this.scale) / 2;
    this.top = (MAP_H - sheet.h * this.scale) / 2;
    const at = (/** @type {{x: number, y: number, w: number, h: number}} */ b, /** @type {string} */ cls) =>
      s("rect", { class: cls, x: this.left + b.x * this.scale, y: this.top + b.y * this.scale, width: Math.max(1.5, b.w * this.scale), height: Math.max(1.2, b.h * this.scale) });
    this.dots.replaceChildren(...sheet.groups.map((g) => at(g, "box")), ...sheet.nodes.map((n) => at(n, "dot")));
  }

  /** The part in sight, in the sheet's measure; where that is all, the map hides. @param {number} x @param {number} y @param {number} w @param {number} h @param {Sheet} sheet */
  look(x, y, w, h, sheet) {
    this.isAll = x <= 4 && y <= 4 && x + w >= sheet.w - 4 && y + h >= sheet.h - 4;
    this._toggle();
    const set = (/** @type {string} */ k, /** @type {number} */ v) => this.frame.setAttribute(k, v.toFixed(1));
    const [x0, y0] = [Math.max(1, this.left + x * this.scale), Math.max(1, this.top + y * this.scale)];
    set("x", x0);
    set("y", y0);
    set("width", Math.max(4, Math.min(MAP_W - 1, this.left + (x + w) * this.scale) - x0));
    set("height", Math.max(4, Math.min(MAP_H - 1, this.top + (y + h) * this.scale) - y0));
  }

  /** Where the map is to be: a corner of the pane, null for nowhere. @param {string[] | null} corner "left" or "right", "top" or "bottom" */
  putInto(corner) {
    this.corner = corner;
    for (const side of ["left", "right", "top", "bottom"]) this.element.style.setProperty(side, corner?.includes(side) ? "8px" : "auto");
    this._toggle();
  }

  _toggle() {
    const hidden = this.isAll || !this.corner;
    this.element.toggleAttribute("hidden", hidden);
    this.element.style.display = hidden ? "none" : "";
  }
}
