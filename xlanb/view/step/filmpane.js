// The Film pane: the whole compilation as one picture that is scrubbed, played and saved.
import { paint } from "./colours.js";
import { grouped, h, icon } from "./dom.js";
import { FilmBar } from "./filmbar.js";
import { drawFilm, INKS } from "./filmdraw.js";
import { filmOf, itemAt } from "./filmlineage.js";
import { isHull, slotsOf } from "./filmplan.js";
import { webmKind, webmOf, webpOf } from "./filmsave.js";
import { kernelsOf, momentAt, planOf, tickAt, timelineOf } from "./filmtime.js";
import { captionAt } from "./filmwords.js";
import { saveBlob } from "./save.js";

/** @typedef {import("./filmlineage.js").Mark} Mark */

const SAVED = { w: 800, h: 450 }; // what a saved film shows, whatever its pixels
const GLIDE = 0.9; // seconds for one step by key, at most

/** Whether a trace has a program to film. @param {any} view the step view */
export function hasFilm(view) {
  return (!view.payload.single || Boolean(view.payload.film)) && view.picture.veiled < 0 && view.whole.stages.some((/** @type {any} */ s) => view.store.artifact(s.a)?.k === "module");
}

class FilmPane {
  /** @param {any} view the step view */
  constructor(view) {
    this.view = view;
    this.key = "";
    this.t = 0;
    this.sent = -1; // the stage that the view was last told, or told of
    this.playing = 0;
    /** @type {Mark | null} */
    this.hover = null;
    /** @type {import("./filmdraw.js").Seen[]} */
    this.seen = [];
    /** @type {any} */
    this.reel = null;
    this.stop = false;
    this.saving = false;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "filmpicture", role: "img", "aria-label": "The compilation" }));
    this.screen = h("div", { class: "filmscreen" }, this.canvas);
    this.play = h("button", { type: "button", class: "ctl", "aria-label": "Play the film", title: "Play (space)", onclick: () => this.toggle() }, icon("play"));
    this.bar = new FilmBar({ seek: (t, done) => this.seek(t, done), step: (by, every) => this.step(by, every), end: (last) => this.end(last), toggle: () => this.toggle() });
    this.form = saveForm(this);
    this.save = h("button", { type: "button", class: "ctl text", "aria-expanded": "false", onclick: () => this.openForm() }, "Save the film");
    this.element = h("div", { class: "film", role: "region", "aria-label": "Film" }, this.screen, this.form.element, h("div", { class: "filmfoot" }, this.play, this.bar.element, this.save));
    this.canvas.addEventListener("pointermove", (e) => this.point(e));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", (e) => this.clicked(e));
    this.sized = new ResizeObserver(() => this.resize());
    this.sized.observe(this.screen);
    const themed = new MutationObserver(() => this.draw());
    themed.observe(view.root, { attributes: true, attributeFilter: ["data-theme"] });
    view.cleanup.push(() => (this.sized.disconnect(), themed.disconnect(), this.pause()));
  }

  get still() {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  /** Show what the view has by now; where the reader chose a stage elsewhere, that one. */
  show() {
    const { view } = this;
    const key = [view.trace, view.payload.revision, view.whole.live, view.whole.stages.length].join();
    const isNew = key !== this.key;
    if (isNew) this.build(key);
    if (view.stage !== this.sent) {
      const tick = this.reel.timeline.ticks.find((/** @type {any} */ k) => k.stage === view.stage);
      this.pause();
      this.t = tick ? tick.at : 0;
      const isFirst = this.sent < 0 && !this.still && this.t === 0;
      this.sent = view.stage;
      if (isFirst) requestAnimationFrame(() => this.element.isConnected && !this.playing && this.t === 0 && this.toggle());
    }
    if (!isNew) this.draw();
  }

  /** @param {string} key */
  build(key) {
    const { view } = this;
    this.key = key;
    const film = filmOf(view.store, view.whole);
    const slots = slotsOf(film);
    const kernels = kernelsOf(film, view.store, view.whole);
    const timeline = timelineOf(film, view.whole, new Set(slots.scenes.map((s) => s.from)), kernels.kernels.length > 0);
    this.reel = { film, slots, kernels, timeline, trace: view.whole, plan: null, cache: new Map() };
    const items = film.marks.filter((m) => !isHull(m.item)).map((m) => m.item);
    this.legend = paint("opcode", items, new Map()).legend.map(({ cls, label }) => ({ family: cls.replace("fam-", ""), label }));
    if (film.marks.some((m) => m.item.o === "fusion")) this.legend.push({ family: "fusion", label: "fusion" });
    this.t = Math.min(this.t, timeline.total);
    this.size = "";
    this.resize();
  }

  resize() {
    const [w, ht] = [Math.round(this.screen.clientWidth), Math.round(this.screen.clientHeight)];
    const ratio = window.devicePixelRatio || 1;
    const size = `${w} ${ht} ${ratio}`;
    if (!this.reel || w < 60 || ht < 60 || size === this.size) return;
    this.size = size;
    [this.canvas.width, this.canvas.height] = [Math.round(w * ratio), Math.round(ht * ratio)];
    this.canvas.style.width = `${w}px`;
    this.canvas.style.height = `${ht}px`;
    this.reel = reelFor(this.reel, w, ht, false);
    this.bar.draw(this.reel.timeline, this.reel.trace, Math.max(200, Math.round(this.bar.element.clientWidth)));
    this.draw();
  }

  /** Colours and size of a picture. @param {number} w @param {number} ht @returns {import("./filmdraw.js").Look} */
  look(w, ht) {
    const style = getComputedStyle(this.view.root);
    const ink = Object.fromEntries(INKS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    return { w, h: ht, ink, legend: this.legend || [] };
  }

  get pinned() {
    const name = this.view.pinned;
    if (!name || !this.reel) return null;
    const { film } = this.reel;
    const f = Math.min(momentAt(this.reel.timeline, this.t).to, film.frames.length - 1);
    return film.frames[f].names.get(name) || film.marks.find((/** @type {Mark} */ m) => m.items.some(([, i]) => i.n === name)) || null;
  }

  draw() {
    if (!this.reel?.plan || !this.canvas.width || !this.element.isConnected) return;
    const ctx = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
    const ratio = window.devicePixelRatio || 1;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const look = { ...this.look(this.canvas.width / ratio, this.canvas.height / ratio), hover: this.hover, pin: this.pinned, cuts: this.still, flows: this.playing > 0 };
    this.seen = drawFilm(ctx, this.reel, this.t, look);
    const { name, tally, size, note } = captionAt(this.reel, this.t);
    const did = ["added", "removed", "changed"].map((word, k) => (tally[k] ? `${tally[k]} ${word}` : "")).filter(Boolean).join(", ");
    const words = [name, did, size.replace(/\s+·\s+/g, ", "), note].filter(Boolean).join("; ");
    this.bar.show(this.t, words);
    this.canvas.setAttribute("aria-label", `Film: ${words}`);
    Object.assign(this.element.dataset, { marks: String(this.seen.length), time: this.t.toFixed(3), pass: name });
  }

  /** @param {number} t @param {boolean} done */
  seek(t, done) {
    this.pause();
    this.t = Math.max(0, Math.min(t, this.reel.timeline.total));
    this.draw();
    if (done) this.tell();
  }

  /** To the next pass that changed something, or the next at all. @param {number} by @param {boolean} every */
  step(by, every) {
    const { ticks, total } = this.reel.timeline;
    const stops = [...ticks.filter((/** @type {any} */ k, /** @type {number} */ n) => every || k.size || !n).map((/** @type {any} */ k) => k.at), total];
    const from = this.goal ?? this.t;
    const to = by > 0 ? stops.find((x) => x > from + 1e-3) : stops.findLast((x) => x < from - 1e-3);
    this.glide(to ?? (by > 0 ? total : 0));
  }

  /** @param {boolean} last */
  end(last) {
    this.seek(last ? this.reel.timeline.total : 0, true);
  }

  toggle() {
    if (this.playing) return this.halt();
    if (this.t >= this.reel.timeline.total - 0.01) this.t = 0;
    return this.run(() => this.reel.timeline.total, 1);
  }

  /** @param {number} to */
  glide(to) {
    this.pause();
    if (this.still || to < this.t) return this.seek(to, true);
    this.goal = to;
    return this.run(() => to, Math.max(1, (to - this.t) / GLIDE));
  }

  /** @param {() => number} until @param {number} speed */
  run(until, speed) {
    let last = 0;
    const on = (/** @type {number} */ now) => {
      if (!this.element.isConnected) return this.pause();
      if (last) this.t = Math.min(until(), this.t + (Math.min(100, now - last) / 1000) * speed);
      last = now;
      this.draw();
      if (this.t < until()) {
        this.playing = requestAnimationFrame(on);
        return undefined;
      }
      if (!this.view.payload.film || this.goal !== undefined) return this.halt();
      this.t = 0; // a film by itself is a loop
      this.playing = requestAnimationFrame(on);
      return undefined;
    };
    this.playing = requestAnimationFrame(on);
    this.face();
  }

  /** Stop, and let the view know where. */
  halt() {
    this.pause();
    this.tell();
  }

  pause() {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.goal = undefined;
    this.face();
  }

  face() {
    const word = this.playing ? "Pause the film" : "Play the film";
    if (this.play.getAttribute("aria-label") === word) return;
    this.play.setAttribute("aria-label", word);
    this.play.replaceChildren(icon(this.playing ? "pause" : "play"));
  }

  /** The view goes to the stage of this moment. */
  tell() {
    const tick = tickAt(this.reel.timeline, this.t);
    if (!tick || tick.stage === this.view.stage) return;
    this.sent = tick.stage;
    this.view.go(tick.stage);
  }

  /** @param {PointerEvent | MouseEvent | null} e @returns {Mark | null} */
  markAt(e) {
    if (!e) return null;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    let [best, least] = [/** @type {Mark | null} */ (null), 5];
    for (const s of this.seen) {
      const d = Math.hypot(s.x - x, s.y - y) - s.r;
      if (!s.w && d < least) [best, least] = [s.m, d];
    }
    const around = this.seen.filter((s) => s.w && Math.abs(s.x - x) <= s.w / 2 && Math.abs(s.y - y) <= s.h / 2).sort((a, b) => a.w * a.h - b.w * b.h)[0];
    return best || around?.m || null;
  }

  /** @param {PointerEvent | null} e */
  point(e) {
    const m = this.markAt(e);
    if (m === this.hover) return;
    this.hover = m;
    this.canvas.classList.toggle("over", Boolean(m));
    if (!this.playing) this.draw();
  }

  /** @param {MouseEvent} e */
  clicked(e) {
    const m = this.markAt(e);
    this.halt();
    const f = momentAt(this.reel.timeline, this.t).to;
    const name = m ? itemAt(m, Math.min(f, this.reel.film.frames.length - 1)).n : "";
    this.view.pin(!m || m === this.pinned ? "" : name);
  }

  openForm() {
    const open = this.form.element.hidden;
    this.form.element.hidden = !open;
    this.save.setAttribute("aria-expanded", String(open));
    if (open) this.form.begin(this.reel.timeline.total);
  }

  /** Make the file and hand it out. @param {{kind: string, seconds: number, width: number, rate: number, quality: number}} how @param {(share: number) => void} progress @returns {Promise<Blob | null>} */
  async film(how, progress) {
    this.pause();
    this.stop = false;
    const reel = reelFor({ ...this.reel, cache: new Map() }, SAVED.w, SAVED.h, true);
    const look = { ...this.look(SAVED.w, SAVED.h), scrubber: true, flows: true };
    const order = { reel, look, seconds: how.seconds, rate: how.rate, quality: how.quality, scale: how.width / SAVED.w, progress, stopped: () => this.stop };
    const blob = await (how.kind === "webm" ? webmOf(order) : webpOf(order));
    this.size = ""; // slots were measured for the file: measure them for the pane again
    this.resize();
    return blob;
  }
}

/** A reel laid out for a size. @param {any} reel @param {number} w @param {number} ht @param {boolean} scrubber */
function reelFor(reel, w, ht, scrubber) {
  const field = { x: 16, y: 60, w: w - 32, h: ht - 60 - (scrubber ? 58 : 28) };
  return { ...reel, plan: planOf(reel.film, reel.slots, reel.kernels, field), cache: new Map() };
}

/** The form that saves: what, how long, how large. @param {FilmPane} pane */
function saveForm(pane) {
  const kinds = [["webp", "WebP"], ...(webmKind() ? [["webm", "WebM"]] : [])];
  const kind = /** @type {HTMLSelectElement} */ (h("select", {}, kinds.map(([value, label]) => h("option", { value }, label))));
  const seconds = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 1, max: 120, step: 1 }));
  const width = /** @type {HTMLSelectElement} */ (h("select", {}, [480, 640, 800, 1200, 1600].map((w) => h("option", { value: w, selected: w === 800 }, `${w} px`))));
  const rate = /** @type {HTMLSelectElement} */ (h("select", {}, [10, 15, 24, 30].map((n) => h("option", { value: n, selected: n === 15 }, String(n)))));
  const quality = /** @type {HTMLSelectElement} */ (h("select", {}, [["0.32", "small"], ["0.72", "good"], ["0.92", "best"]].map(([value, label]) => h("option", { value, selected: label === "good" }, label))));
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Saving the film", hidden: true });
  const said = h("span", { class: "muted", role: "status" });
  const cancel = h("button", { type: "button", class: "ctl text", hidden: true, onclick: () => (pane.stop = true) }, "Cancel");
  const begin = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "ctl text primary" }, "Save"));
  begin.addEventListener("click", async () => {
    begin.disabled = true;
    bar.hidden = cancel.hidden = false;
    said.replaceChildren("");
    try {
      const how = { kind: kind.value, seconds: Math.max(1, Math.min(120, Number(seconds.value) || 1)), width: Number(width.value), rate: Number(rate.value), quality: Number(quality.value) };
      const blob = await pane.film(how, (share) => bar.setAttribute("value", String(share)));
      if (blob) saveBlob(blob, `${pane.view.whole.name}.${how.kind}`);
      said.replaceChildren(blob ? `${grouped(Math.round(blob.size / 1024))} kB saved` : "Cancelled.");
    } catch (error) {
      said.replaceChildren(`The film could not be saved: ${/** @type {Error} */ (error).message}`);
    } finally {
      begin.disabled = false;
      bar.hidden = cancel.hidden = true;
    }
  });
  const field = (/** @type {string} */ label, /** @type {Node} */ x) => h("label", {}, h("span", {}, label), x);
  const element = h("div", { class: "filmsave", role: "group", "aria-label": "Save the film", hidden: true }, field("As", kind), field("Seconds", seconds), field("Width", width), field("Frames per second", rate), field("Quality", quality), begin, bar, cancel, said);
  return { element, begin: (/** @type {number} */ total) => (seconds.value = String(Math.max(1, Math.round(total)))) };
}

/** @type {WeakMap<object, FilmPane>} */
const PANES = new WeakMap();

/** The Film pane of a view, as it is shown. @param {any} view @returns {HTMLElement} */
export function filmPane(view) {
  let pane = PANES.get(view);
  if (!pane) PANES.set(view, (pane = new FilmPane(view)));
  view.root.classList.toggle("film-only", Boolean(view.payload.film));
  pane.show();
  return pane.element;
}

/** What is pinned, or lit, has changed. @param {any} view */
export function refreshFilm(view) {
  const pane = PANES.get(view);
  if (pane && view.shownTab === "Film" && !pane.playing) pane.draw();
}

/** A key while the film is shown; false where it means nothing to it. @param {any} view @param {KeyboardEvent} e */
export function filmPressed(view, e) {
  const pane = view.shownTab === "Film" && PANES.get(view);
  if (!pane || !pane.reel || !pane.bar.pressed(e)) return false;
  e.preventDefault();
  e.stopPropagation();
  return true;
}

