// Stubs in use: pointing at one lights the other ends up, several are told in a list, a click or Enter goes there.
import { h, plural } from "./dom.js";
import { drawStub, labelOf, namesOfEnds } from "./stubs.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./scene.js").Stub} Stub */

const CLOSES_MS = 180; // time for the pointer to reach the list

/** @param {Sheet | null} sheet @returns {Map<string, any>} nodes and open groups by key */
function drawnByKey(sheet) {
  return new Map(sheet ? [...sheet.nodes, ...sheet.groups].map((n) => [n.key, n]) : []);
}

export class StubList {
  /** @param {SVGElement} layer where stubs are drawn @param {{sheet(): Sheet | null, node(key: string): SVGElement | undefined, go(key: string): void}} around */
  constructor(layer, around) {
    this.layer = layer;
    this.around = around;
    this.element = h("div", { class: "stub-list", role: "group", "aria-label": "Other ends of the edges", hidden: true });
    /** @type {any} */
    this.timer = null;
    layer.addEventListener("pointerover", (e) => this._show(this._at(e)));
    layer.addEventListener("pointerout", () => this._closeSoon());
    layer.addEventListener("focusin", (e) => this._show(this._at(e)));
    layer.addEventListener("click", (e) => this._chosen(e, this._at(e)));
    layer.addEventListener("keydown", (e) => this._pressed(e));
    this.element.addEventListener("pointerenter", () => clearTimeout(this.timer));
    this.element.addEventListener("pointerleave", () => this._closeSoon());
    this.element.addEventListener("keydown", (e) => this._pressed(e));
    this.element.addEventListener("pointerdown", (e) => e.stopPropagation());
  }

  /** @param {Sheet} sheet */
  draw(sheet) {
    this.close();
    const at = drawnByKey(sheet);
    this.layer.replaceChildren(...(sheet.stubs || []).map((x) => drawStub(x, labelOf(/** @type {any} */ (at.get(x.key))), namesOfEnds(x, at))));
  }

  /** @param {Stub} stub */
  _names(stub) {
    return namesOfEnds(stub, drawnByKey(this.around.sheet()));
  }

  /** @param {Event} e @returns {Stub | null} */
  _at(e) {
    const at = /** @type {Element} */ (e.target).closest?.(".stub");
    return (at && this.around.sheet()?.stubs?.find((x) => x.key === at.getAttribute("data-at") && x.side === at.getAttribute("data-side"))) || null;
  }

  /** @param {Stub | null} stub */
  _show(stub) {
    if (!stub) return;
    this.close();
    for (const key of stub.ends) this.around.node(key)?.classList.add("far-end");
    if (stub.ends.length < 2) return;
    const names = this._names(stub);
    const arrow = stub.side === "out" ? "→" : "←";
    this.element.replaceChildren(
      h("p", { class: "muted" }, `${plural(stub.ends.length, "edge")} ${stub.side === "out" ? "to" : "from"}`),
      ...stub.ends.map((key, k) => h("button", { type: "button", onpointerenter: () => this._light(key), onclick: () => this._go(key) }, `${arrow} ${names[k]}`)),
    );
    this.element.hidden = false;
    const pill = this._pill(stub)?.getBoundingClientRect();
    const stage = this.element.parentElement?.getBoundingClientRect();
    if (!pill || !stage) return;
    const [w, ht] = [this.element.offsetWidth, this.element.offsetHeight];
    const below = pill.bottom - stage.top + ht + 4 <= stage.height;
    this.element.style.left = `${Math.max(4, Math.min(pill.left - stage.left, stage.width - w - 4))}px`;
    this.element.style.top = `${Math.max(4, below ? pill.bottom - stage.top : pill.top - stage.top - ht)}px`;
  }

  /** @param {Stub} stub @returns {SVGElement | null} */
  _pill(stub) {
    return this.layer.querySelector(`[data-at="${CSS.escape(stub.key)}"][data-side="${stub.side}"]`);
  }

  /** @param {string} [key] of the only node to light up */
  _light(key) {
    for (const x of this.layer.ownerSVGElement?.querySelectorAll(".far-end") || []) x.classList.remove("far-end");
    if (key) this.around.node(key)?.classList.add("far-end");
  }

  _closeSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.close(), CLOSES_MS);
  }

  close() {
    clearTimeout(this.timer);
    this._light();
    this.element.hidden = true;
  }

  /** @param {string} key */
  _go(key) {
    this.close();
    this.around.go(key);
  }

  /** @param {Event} e @param {Stub | null} stub */
  _chosen(e, stub) {
    if (!stub) return;
    e.stopPropagation();
    if (stub.ends.length === 1) return void this._go(stub.ends[0]);
    this._show(stub);
    /** @type {HTMLElement | null} */ (this.element.querySelector("button"))?.focus();
  }

  /** @param {KeyboardEvent} e */
  _pressed(e) {
    const stub = this._at(e);
    const buttons = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll("button")]);
    const here = buttons.indexOf(/** @type {HTMLElement} */ (e.target));
    if (stub && (e.key === "Enter" || e.key === " ")) this._chosen(e, stub);
    else if (here >= 0 && (e.key === "ArrowDown" || e.key === "ArrowUp")) buttons[(here + (e.key === "ArrowDown" ? 1 : -1) + buttons.length) % buttons.length].focus();
    else if (here >= 0 && (e.key === "Enter" || e.key === " ")) buttons[here].click();
    else if (e.key === "Escape" && !this.element.hidden) this.close();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
