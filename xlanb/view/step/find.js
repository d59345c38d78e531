// "Find op": ops of the shown program by name, opcode, shape or op_name, found as the reader types; the chosen one is brought into sight.
import { h } from "./dom.js";
import { argumentOf } from "./store.js";

/** @typedef {import("./store.js").Item} Item */

const FOUND_OPS = 30;

/**
 * The items that have all the words somewhere, the best first: the name as it is, then its beginning, then any of it.
 * @param {Item[]} items @param {string} text @param {number} [limit]
 * @returns {Item[]}
 */
export function matchingOps(items, text, limit = FOUND_OPS) {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/).filter((w) => w);
  if (!words.length) return [];
  /** @type {[number, Item][]} */
  const found = [];
  for (const item of items) {
    const name = item.n.toLowerCase();
    const called = argumentOf(item).toLowerCase();
    const all = `${name} ${called} ${item.o} ${item.s} ${item.m || ""}`.toLowerCase();
    if (!words.every((w) => all.includes(w))) continue;
    const rank = name === wanted || called === wanted ? 0 : name.startsWith(wanted) ? 1 : item.o.toLowerCase() === wanted ? 2 : name.includes(words[0]) ? 3 : 4;
    found.push([rank, item]);
  }
  return found.sort((a, b) => a[0] - b[0]).slice(0, limit).map(([, item]) => item);
}

export class FindOp {
  /** @param {{items(): Item[], choose(name: string): void, leave(): void}} around */
  constructor(around) {
    this.around = around;
    /** @type {Item[]} */
    this.results = [];
    this.at = 0;
    const id = `found-${Math.random().toString(36).slice(2)}`;
    this.box = /** @type {HTMLInputElement} */ (
      h("input", { class: "find", type: "search", role: "combobox", "aria-label": "Find op", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list", placeholder: "find op", title: "find an op by its name, opcode, shape or op_name (key o)", autocomplete: "off", spellcheck: "false", oninput: () => this._typed(), onblur: () => this._close() })
    );
    this.list = h("ul", { class: "found-ops", id, role: "listbox", "aria-label": "Ops found", hidden: true });
    this.element = h("div", { class: "findop" }, this.box);
    this.box.addEventListener("keydown", (e) => this._pressed(e));
    this.list.addEventListener("pointerdown", (e) => {
      const row = /** @type {Element} */ (e.target).closest("li[data-row]");
      e.preventDefault(); // the box keeps the focus
      if (row) this._choose(Number(row.getAttribute("data-row")));
    });
  }

  open() {
    this.box.focus();
    this.box.select();
    if (this.box.value) this._typed();
  }

  _typed() {
    this.results = matchingOps(this.around.items(), this.box.value);
    this.at = 0;
    this._draw();
  }

  _draw() {
    const text = this.box.value.trim();
    const row = (/** @type {Item} */ item, /** @type {number} */ k) =>
      h("li", { role: "option", id: `${this.list.id}-${k}`, "aria-selected": String(k === this.at), data: { row: k } }, h("b", {}, argumentOf(item) || item.n), h("span", { class: "muted" }, item.o), h("small", {}, [item.s, item.m && item.m !== argumentOf(item) ? item.m : ""].filter((t) => t).join("  ")));
    this.list.replaceChildren(...(this.results.length ? this.results.map(row) : [h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, h("span", { class: "muted" }, `No op has “${text}” in its name, opcode, shape or op_name.`))]));
    this.list.hidden = !text;
    this.box.setAttribute("aria-expanded", String(Boolean(text)));
    if (this.results.length && text) this.box.setAttribute("aria-activedescendant", `${this.list.id}-${this.at}`);
    else this.box.removeAttribute("aria-activedescendant");
    this.list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  _close() {
    this.list.hidden = true;
    this.box.setAttribute("aria-expanded", "false");
    this.box.removeAttribute("aria-activedescendant");
  }

  /** @param {number} k */
  _choose(k) {
    const item = this.results[k];
    if (!item) return;
    this._close();
    this.around.choose(item.n);
  }

  /** @param {KeyboardEvent} e */
  _pressed(e) {
    const last = this.results.length - 1;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      this.at = e.key === "ArrowDown" ? (this.at >= last ? 0 : this.at + 1) : this.at <= 0 ? Math.max(0, last) : this.at - 1;
      this._draw();
    } else if (e.key === "Enter") this._choose(this.at);
    else if (e.key === "Escape") {
      this._close();
      this.around.leave();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
