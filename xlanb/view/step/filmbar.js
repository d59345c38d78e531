// The scrubber of a film: a tick for each pass, taller where much changed, with the pipelines as sections.
import { h, s } from "./dom.js";
import { tickAt } from "./filmtime.js";

/** @typedef {import("./filmtime.js").Timeline} Timeline */

const BAR_PAD = 10;
const BASE = 39; // where the ticks stand
const TICK_TALL = 24;
const LETTER = 6.2;

/** What is asked of the film: go to a moment (`done`: the hand is off), by so many passes, to an end, start or stop. @typedef {{seek(t: number, done: boolean): void, step(by: number, every: boolean): void, end(last: boolean): void, toggle(): void}} Reel */

export class FilmBar {
  /** @param {Reel} act */
  constructor(act) {
    this.act = act;
    /** @type {Timeline | null} */
    this.timeline = null;
    this.svg = s("svg", { class: "filmticks", "aria-hidden": "true" });
    this.element = h("div", { class: "filmbar", role: "slider", tabindex: 0, "aria-label": "Time of the compilation", "aria-valuemin": 0, onkeydown: (/** @type {KeyboardEvent} */ e) => this.pressed(e) && (e.preventDefault(), e.stopPropagation()) }, this.svg);
    this.hand = s("g", { class: "hand" });
    this.width = 0;
    let from = -1;
    this.element.addEventListener("pointerdown", (e) => {
      this.element.setPointerCapture(e.pointerId);
      this.element.focus({ preventScroll: true });
      from = e.clientX;
      act.seek(this.timeAt(e, true), false);
      e.preventDefault();
    });
    this.element.addEventListener("pointermove", (e) => {
      if (from >= 0 && Math.abs(e.clientX - from) > 3) act.seek(this.timeAt(e, false), false);
    });
    const up = (/** @type {PointerEvent} */ e) => {
      if (from >= 0) act.seek(this.timeAt(e, Math.abs(e.clientX - from) <= 3), true);
      from = -1;
    };
    this.element.addEventListener("pointerup", up);
    this.element.addEventListener("pointercancel", () => (from = -1));
  }

  /** @param {PointerEvent} e @param {boolean} snap to a pass nearby */
  timeAt(e, snap) {
    const timeline = /** @type {Timeline} */ (this.timeline);
    const x = e.clientX - this.element.getBoundingClientRect().left;
    const t = Math.max(0, Math.min(timeline.total, ((x - BAR_PAD) / Math.max(1, this.width - 2 * BAR_PAD)) * timeline.total));
    const near = snap ? timeline.ticks.filter((k) => k.size && Math.abs(this.place(k.start) - x) < 7).sort((a, b) => Math.abs(this.place(a.start) - x) - Math.abs(this.place(b.start) - x))[0] : null;
    return near ? near.at : t;
  }

  /** @param {number} t */
  place(t) {
    return BAR_PAD + ((this.width - 2 * BAR_PAD) * t) / (this.timeline?.total || 1);
  }

  /** A key of the scrubber; false where it is none. @param {KeyboardEvent} e */
  pressed(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return false;
    if (e.key === "ArrowRight" || e.key === "ArrowLeft") this.act.step(e.key === "ArrowRight" ? 1 : -1, e.shiftKey);
    else if (e.key === "Home" || e.key === "End") this.act.end(e.key === "End");
    else if (e.key === " ") this.act.toggle();
    else return false;
    return true;
  }

  /** @param {Timeline} timeline @param {import("./store.js").Trace} trace @param {number} width */
  draw(timeline, trace, width) {
    this.timeline = timeline;
    this.width = width;
    const { ticks } = timeline;
    for (const [k, v] of Object.entries({ viewBox: `0 0 ${width} 66`, width, height: 66 })) this.svg.setAttribute(k, String(v));
    const most = Math.log2(2 + Math.max(...ticks.map((k) => k.size)));
    const marks = ticks.map((k) => {
      const tall = k.size ? 5 + ((TICK_TALL - 5) * Math.log2(1 + k.size)) / most : 3;
      return s("rect", { class: k.size ? "tick" : "tick quiet", x: (this.place(k.start) - (k.size ? 1.5 : 0.5)).toFixed(1), y: BASE - tall, width: k.size ? 3 : 1, height: tall, rx: 1 }, s("title", {}, trace.stages[k.stage].name));
    });
    this.svg.replaceChildren(...this._sections(timeline, trace), ...marks, ...this._names(timeline, trace), s("line", { class: "track", x1: BAR_PAD, x2: width - BAR_PAD, y1: BASE + 1, y2: BASE + 1 }), this.hand);
    this.hand.replaceChildren(s("line", { x1: 0, x2: 0, y1: 14, y2: BASE + 6 }), s("circle", { cx: 0, cy: BASE + 1, r: 5.5 }));
    this.element.setAttribute("aria-valuemax", String(ticks.length - 1));
  }

  /** Names of passes where there is room, of those that changed most first. @param {Timeline} timeline @param {import("./store.js").Trace} trace */
  _names(timeline, trace) {
    const taken = /** @type {[number, number][]} */ ([]);
    const out = [];
    for (const k of timeline.ticks.filter((x) => x.size).sort((a, b) => b.size - a.size)) {
      const name = trace.stages[k.stage].name;
      const half = (name.length * LETTER) / 2;
      const x = Math.max(half + 2, Math.min(this.width - half - 2, this.place(k.start)));
      if (taken.some(([a, b]) => x - half < b + 6 && x + half > a - 6)) continue;
      taken.push([x - half, x + half]);
      out.push(s("text", { class: "passname", x: x.toFixed(1), y: 11, "text-anchor": "middle" }, name));
    }
    return out;
  }

  /** The pipelines, as stretches with their names where these fit. @param {Timeline} timeline @param {import("./store.js").Trace} trace */
  _sections(timeline, trace) {
    const nameOf = (/** @type {number} */ k) => trace.stages[k].pl.slice(0, 2).at(-1) || "";
    const out = [];
    const { ticks } = timeline;
    for (let k = 0, n = 0; k < ticks.length; k += 1) {
      const next = ticks[k + 1];
      if (next && nameOf(next.stage) === nameOf(ticks[k].stage)) continue;
      const [left, right] = [this.place(ticks[ticks.findIndex((t) => t === ticks[n])].start), this.place(next ? next.start : timeline.total)];
      const name = nameOf(ticks[k].stage).replace(/_/g, " ");
      n = k + 1;
      if (!name || right - left < 3) continue;
      out.push(s("rect", { class: "section", x: left + 1, y: BASE + 9, width: Math.max(1, right - left - 2), height: 3, rx: 1.5 }));
      if (name.length * 5.8 < right - left) out.push(s("text", { class: "sectionname", x: left + 2, y: BASE + 23 }, name));
    }
    return out;
  }

  /** @param {number} t @param {string} words */
  show(t, words) {
    if (!this.timeline) return;
    this.hand.setAttribute("transform", `translate(${this.place(t).toFixed(1)},0)`);
    const tick = tickAt(this.timeline, t);
    this.element.setAttribute("aria-valuenow", String(tick ? this.timeline.ticks.indexOf(tick) : 0));
    if (this.element.getAttribute("aria-valuetext") !== words) this.element.setAttribute("aria-valuetext", words);
  }
}
