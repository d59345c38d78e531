// The step view: one renderer for the live widget and for pages without a kernel.
import { showFoot, showHead, standsAt } from "./around.js";
import { furtherCard } from "./attempt.js";
import { followCells } from "./cell.js";
import { CodePanes } from "./code.js";
import { grouped, h, opOf, refill } from "./dom.js";
import { buildFrame, followTheme, showSaved } from "./frame.js";
import { leaveFullScreen } from "./fullscreen.js";
import { GraphView } from "./graph.js";
import { doubleClicked, goToOp, graphActions, groupCard, showGraph } from "./graphpane.js";
import { pressed } from "./keys.js";
import { greet, receive, takeWhole } from "./live.js";
import { pairCard } from "./pair.js";
import { available, EXTRA, NO_MARKS, OWN_VIEWS, paneContent, TABS } from "./panes.js";
import { inSight, showList } from "./passes.js";
import { PictureState } from "./picture.js";
import { moveTo, pinnedAs } from "./pins.js";
import { HIDDEN_WORDS, toldPart } from "./predict.js";
import { keepClock, startClock } from "./progress.js";
import { momentOf } from "./replay.js";
import { spreadList } from "./sharding.js";
import { opCard, ribbon, stageCard } from "./side.js";
import { Store } from "./store.js";
import { applyLayout, freeTools } from "./splitter.js";
import { drawFirst } from "./start.js";
import { TextPane } from "./textpane.js";
import { followModel, publish } from "./traits.js";
import { askLine, bringToSight, light, showTouched } from "./walk.js";
import { reasonCount, rewriteCard } from "./why.js";

/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Trace} Trace */
/**
 * What anywidget hands to a view; a page without a kernel brings a small stand-in.
 * @typedef {{get(key: string): any, set?(key: string, value: any): void, save_changes?(): void, send?(message: any): void,
 *   on(event: string, callback: (...args: any[]) => void): void, off?(event: string, callback: (...args: any[]) => void): void}} Model
 */

/** Widths that the reader chose: of the list and the card in pixels (0: the first ones), of columns of code by title; the one that is shown alone. @typedef {{list: number, card: number, columns: Record<string, number>, only: string}} Layout */

/**
 * Where the reader stood, by payload: a notebook takes views away that are scrolled out of sight, and makes them anew.
 * @type {WeakMap<Payload, {trace: number, stage: number, tab: string, side: string, pinned: string, hide: boolean, unified: boolean, waiting: string, error: string, layout: Layout}>}
 */
const PLACES = new WeakMap();

class StepView {
  /** @param {Model} model @param {HTMLElement} host @param {string} css */
  constructor(model, host, css) {
    this.model = model;
    this.host = host;
    /** @type {Payload} */
    this.payload = model.get("payload");
    this.store = new Store(this.payload);
    this.trace = this.payload.order[0] ?? 0;
    this.stage = 0;
    this.tab = "";
    this.paneTab = "";
    this.side = "after";
    this.pinned = "";
    this.rewrite = -1;
    this.told = { key: "", moment: /** @type {import("./replay.js").Moment | null} */ (null) };
    this.filter = "";
    this.hide = false;
    this.waiting = "";
    this.queued = false;
    this.error = "";
    this.second = ""; // the other op of a pair
    this.line = ""; // the Python line whose ops are asked for
    this.followed = ""; // pane, stage and op that were brought into sight
    this.other = -1; // the stage that is compared with
    this.unified = false;
    this.asked = /** @type {Set<number>} */ (new Set()); // artifacts that the kernel was asked to read
    this.folded = /** @type {Set<string>} */ (new Set());
    /** @type {{done: number, total: number, name: string} | null} */
    this.progress = null;
    this.away = false; // no kernel answers
    this.behind = false; // the kernel may have more stages
    /** @type {{trace: number, stage: number, text: string, fault: any} | null} */
    this.editing = null;
    this.ordering = /** @type {any} */ (null); // the passes that are left, while they are moved
    /** @type {any} */
    this.timer = null;
    /** @type {(() => void)[]} */
    this.cleanup = [];
    this.layout = /** @type {Layout} */ ({ list: 0, card: 0, columns: {}, only: "" });
    Object.assign(this, PLACES.get(this.payload));
    const frame = buildFrame(this);
    this.root = frame.root;
    this.title = frame.title;
    this.counts = frame.counts;
    this.badge = frame.badge;
    this.traceTabs = frame.traceTabs;
    this.ribbon = frame.ribbon;
    this.filterBox = frame.filterBox;
    this.list = frame.list;
    this.tabs = frame.tabs;
    this.sides = frame.sides;
    this.pane = frame.pane;
    this.card = frame.card;
    this.status = frame.status;
    this.spark = frame.spark;
    this.play = frame.play;
    this.run = frame.run;
    this.full = frame.full;
    this.help = frame.help;
    this.place = frame.place;
    this.stepper = frame.stepper;
    this.bar = frame.bar;
    this.actions = frame.actions;
    this.cancel = frame.cancel;
    this.picture = new PictureState(this);
    this.graph = new GraphView(graphActions(this));
    this.text = new TextPane(this);
    this.code = new CodePanes(this);
    this.shadow = host.shadowRoot || host.attachShadow({ mode: "open" });
    this.root.dataset.step = String(this.stage);
    this.host.dataset.lmSuppressShortcuts = "true";
    this.shadow.replaceChildren(h("style", {}, css), this.root);
    applyLayout(this);
    this.cleanup.push(followTheme(this.root), () => leaveFullScreen(this));
    this._listen();
    this.cleanup.push(followCells(this, (op) => light(this, op)), followModel(this), keepClock(this), greet(this));
    drawFirst(this);
  }

  get can() {
    return (!this.away && this.model.get("can")) || { step: false, run: false };
  }

  /** The trace, without what a reader who guesses is not told yet. @returns {Trace} */
  get current() {
    return toldPart(this.whole, this.picture?.veiled ?? -1);
  }

  /** @returns {Trace} */
  get whole() {
    return this.payload.traces[this.trace] || { name: "", live: false, counts: {}, runs: [], stages: [] };
  }

  /** @returns {Stage | undefined} */
  get now() {
    return this.current.stages[this.stage];
  }

  /** The program around the current rewrite, null where none is looked at. */
  get moment() {
    const key = [this.trace, this.stage, this.rewrite, this.payload.revision].join();
    if (this.told.key !== key) this.told = { key, moment: this.now ? momentOf(this.store, this.now, this.rewrite) : null };
    return this.told.moment;
  }

  _listen() {
    const message = (/** @type {any} */ m) => receive(this, m);
    const replaced = () => takeWhole(this);
    this.model.on("msg:custom", message);
    this.model.on("change:payload", replaced);
    for (const trait of ["can", "stale"]) this.model.on(`change:${trait}`, () => this.update());
    this.cleanup.push(() => this.model.off?.("msg:custom", message), () => this.model.off?.("change:payload", replaced));
    this.root.addEventListener("keydown", (e) => pressed(this, /** @type {KeyboardEvent} */ (e)));
    this.root.addEventListener("pointerover", (e) => light(this, opOf(e)));
    this.root.addEventListener("pointerleave", () => light(this, ""));
    this.root.addEventListener("click", (e) => this._clicked(/** @type {MouseEvent} */ (e)));
    this.root.addEventListener("dblclick", (e) => doubleClicked(this, e));
    this.root.addEventListener("pointerdown", (e) => {
      // Buttons and text take the focus themselves; anywhere else the view does, so that its keys work.
      if (!(/** @type {Element} */ (e.target).closest("input, button, select, textarea, summary, [tabindex]:not(.root, .node, .group)"))) this.root.focus({ preventScroll: true });
    });
  }

  /** @param {MouseEvent} e */
  _clicked(e) {
    const target = /** @type {Element} */ (e.target);
    const fold = target.closest("[data-fold]");
    const op = opOf(e);
    if (target.closest(".spread")) return this.graph.toggle(target.closest(".spread")?.getAttribute("data-spread") || "", true);
    if (fold && target.closest(".handle")) return this.graph.toggle(fold.getAttribute("data-fold") || "");
    if (op && target.closest(".graph") && this.picture.mark(op, e.detail > 1)) return undefined;
    if (op && !target.closest("button, select, .rewrite header")) {
      if (e.shiftKey && this.pinned && op !== this.pinned) return this.pair(op);
      if (e.detail < 2) this.pin(op === this.pinned ? "" : op);
    } else if (target.closest(".canvas") && !op && this.pinned) this.pin("");
    return undefined;
  }

  /** Go to where an op lives on, in the next form of the program. @param {string} name */
  _follow(name) {
    const found = name && this.store.counterpart(this.current, this.stage, name);
    if (!found) return name ? this.say(`${name}: no later op on this page is recorded as derived from it.`) : undefined;
    this.tab = "";
    this.go(found.stage);
    return this.pin(found.name);
  }

  /** Why, of the pinned op and another one. @param {string} name */
  pair(name) {
    this.second = name;
    this.root.classList.add("has-pin");
    this._showCard();
    light(this, "");
  }

  dispose() {
    clearTimeout(this.timer);
    this.graph.dispose();
    for (const f of this.cleanup) f();
  }

  /** @param {number} k */
  go(k) {
    const last = this.current.stages.length - 1;
    moveTo(this, Math.max(0, Math.min(k, last)));
    this.ordering = null;
    this.update();
  }

  /** A row of the list was clicked; with shift, the two stages are compared. @param {number} k @param {Event} e */
  choosePass(k, e) {
    if (k >= this.current.stages.length) return this.say(HIDDEN_WORDS);
    if (!(/** @type {MouseEvent} */ (e).shiftKey) || k === this.stage) return this.go(k);
    this.other = k;
    this.tab = "Diff";
    return this.update();
  }

  /** @param {string} key */
  foldPipeline(key) {
    if (!this.folded.delete(key)) this.folded.add(key);
    showList(this);
  }

  toggleHide() {
    this.hide = !this.hide;
    this.update();
    this.say(this.hide ? "Passes that changed nothing are hidden." : "All passes are shown.");
  }

  /** Find in the text that is shown, else in the Text pane. */
  findInText() {
    if (this.shownTab !== "Code") this.show("Text");
    const pane = this.shownTab === "Code" ? this.code.current : this.text;
    pane?.box.select();
  }

  /** New rows are in the page: what is lit is lit there too. */
  built() {
    if (this.pinned || this.cellLine) light(this, "");
  }

  next() {
    if (this.stage < this.current.stages.length - 1) this.go(this.stage + 1);
    else if (this.waiting === "step" || this.behind) this.queued = true; // a key that was quicker than the kernel is not lost
    else if (this.canStep) this.ask("step");
    else this.say(this.picture.veiled >= 0 ? HIDDEN_WORDS : this.current.live ? "" : "This was the last pass.");
  }

  get canStep() {
    return Boolean(this.current.live && this.can.step);
  }

  previous() {
    this.go(this.stage - 1);
  }

  /** @param {number} number */
  choose(number) {
    this.picture.guess = null;
    this.trace = number;
    this.stage = Math.min(this.stage, Math.max(0, this.current.stages.length - 1));
    Object.assign(this, { pinned: "", second: "", other: -1, rewrite: -1 });
    this.graph.touched = false;
    this.update();
  }

  /** @param {string} name */
  pin(name) {
    this.pinned = name;
    this.second = "";
    const focused = this.shadow.activeElement;
    this.root.classList.toggle("has-pin", Boolean(name));
    this.root.classList.toggle("wide-pane", this.shownTab === "Code" && !name);
    this._showCard();
    if (this.shownTab === "Why") this._showPane();
    this.text.tellUsers();
    this.code.carriers = [];
    this.picture.refreshTools(this.store.artifact(this.pictureIndex));
    light(this, "");
    this._keepFocus(focused);
    this.remember();
    requestAnimationFrame(() => freeTools(this));
    if (!name) return;
    if (this.shownTab === "Graph") this.graph.reveal(name);
    else this._followPin();
  }

  // -- the kernel

  /** Ask the kernel for something. @param {string} type @param {Record<string, any>} [more] */
  ask(type, more = {}) {
    if (!this.model.send || this.waiting) return;
    this.waiting = type;
    this.error = "";
    startClock(this);
    this.model.send({ type, trace: this.trace, stage: this.stage, ...more });
    this.update();
  }

  _filtered() {
    this.filter = this.filterBox.value;
    showList(this);
  }

  /** @param {string} text */
  say(text) {
    if (text) this.status.replaceChildren(text);
  }

  update() {
    const later = [this.now?.a ?? -1, this.now?.b ?? -1].filter((k) => this.store.artifact(k)?.k === "later" && !this.asked.has(k));
    if (this.can.load && !this.waiting && later.length) {
      for (const k of later) this.asked.add(k); // once: what cannot be read is not asked for again
      return this.ask("load");
    }
    const focused = this.shadow.activeElement;
    const trace = this.current;
    this.root.dataset.step = String(this.stage);
    this.root.dataset.stages = String(trace.stages.length);
    this.root.classList.toggle("waiting", Boolean(this.waiting));
    this.root.classList.toggle("has-pin", Boolean(this.pinned));
    this.root.classList.toggle("wide-pane", this.shownTab === "Code" && !this.pinned);
    this.root.classList.toggle("single", Boolean(this.payload.single));
    this.root.classList.toggle("small", ["cache", "execution"].includes(this.store.artifact(this.now?.a ?? -1)?.k || ""));
    showHead(this, trace);
    refill(this.ribbon, [standsAt(this), this.canStep], () => ribbon(trace, this.store, this.stage, (k) => this.go(k), this.canStep));
    showList(this);
    this.bar.hidden = !this.waiting || !this.progress;
    if (this.progress) {
      this.bar.setAttribute("max", String(this.progress.total || 1));
      this.bar.setAttribute("value", String(this.progress.done || 0));
    }
    this._showTabs();
    this._showPane();
    this._showCard();
    showFoot(this, trace);
    light(this, "");
    this._followPin();
    requestAnimationFrame(() => { // in a task of its own: it has the page laid out
      inSight(this.list);
      freeTools(this);
    });
    this._keepFocus(focused);
    this.remember();
    return undefined;
  }

  /** Bring the pinned op into sight where another pane or stage is shown; who has scrolled on stays there. */
  _followPin() {
    const key = [this.shownTab, this.trace, this.stage, this.pinned].join();
    if (key !== this.followed && this.pinned && this.shownTab !== "Graph") bringToSight(this, this.pinned);
    this.followed = key;
  }

  remember() {
    const { trace, stage, tab, side, pinned, hide, unified, waiting, error, layout } = this;
    PLACES.set(this.payload, { trace, stage, tab, side, pinned, hide, unified, waiting, error, layout });
    publish(this);
  }

  /** What had the focus may have been drawn anew: the keys must go on working. @param {Element | null} before */
  _keepFocus(before) {
    if (before && !this.shadow.activeElement) this.root.focus({ preventScroll: true });
  }

  /** The pane shown: the one asked for where it has something to say, else the one that fits the stage. */
  get shownTab() {
    const can = available(this);
    if (this.tab && can[this.tab]) return this.tab;
    const kind = this.store.artifact(this.now?.a ?? -1)?.k;
    const natural = this.now?.e ? "Why" : OWN_VIEWS[kind || ""] ? OWN_VIEWS[kind || ""].tab : kind === "code" ? "Text" : kind === "buffers" ? "Memory" : kind === "execution" || kind === "cache" ? "Timing" : "Graph";
    return can[natural] ? natural : TABS.find((t) => can[t]) || "Graph";
  }

  _showTabs() {
    const can = available(this);
    const shown = this.shownTab;
    const focused = this.shadow.activeElement?.closest?.(".tabs");
    const reasons = reasonCount(this.now?.why);
    refill(this.tabs, [can, shown, reasons], () =>
      TABS.filter((t) => can[t] || !EXTRA.includes(t)).map((t) =>
        h("button", { type: "button", role: "tab", "aria-selected": String(t === shown), disabled: !can[t], onclick: () => this.show(t) }, t, t === "Why" && reasons !== null ? h("small", {}, grouped(reasons)) : null),
      ),
    );
    if (focused) /** @type {HTMLElement | null} */ (this.tabs.querySelector("[aria-selected=true]"))?.focus();
    const both = this.now && this.now.ch && this.now.b >= 0 && (shown === "Graph" || shown === "Text") && this.store.artifact(this.now.b)?.k === this.store.artifact(this.now.a)?.k;
    this.sides.hidden = !both || Boolean(this.moment);
    this.sides.replaceChildren(...["before", "after"].map((x) => h("button", { type: "button", "aria-pressed": String(this.side === x), onclick: () => this.turn(x) }, x)));
  }

  /** @param {string} tab */
  show(tab) {
    this.tab = tab;
    this.ordering = null;
    this.update();
  }

  /** @param {string} side */
  turn(side) {
    this.side = side;
    this.update();
  }

  shownArtifact() {
    const stage = this.now;
    if (!stage) return -1;
    return this.side === "before" && stage.b >= 0 ? stage.b : stage.a;
  }

  /** The artifact whose picture is shown. */
  get pictureIndex() {
    const index = this.shownArtifact();
    return this.store.artifact(index)?.c ? index : this.now?.ctx ?? -1;
  }

  _showPane() {
    const stage = this.now;
    const tab = this.shownTab;
    this.pane.dataset.tab = tab;
    this.pane.setAttribute("aria-label", tab);
    if (!stage) {
      this.pane.replaceChildren(h("p", { class: "empty" }, "Nothing was compiled yet."));
      return;
    }
    const own = Boolean(this.store.artifact(this.shownArtifact())?.c);
    const marks = this.moment ? this.moment.marks : own && stage.b >= 0 ? this.store.marks(stage.b, stage.a) : NO_MARKS;
    const parts = [];
    if (this.error) parts.push(h("div", { class: "banner", role: "alert" }, h("b", {}, "The kernel raised an error"), h("pre", {}, this.error)));
    else if (stage.e && tab !== "Why") parts.push(h("div", { class: "banner", role: "alert" }, h("b", {}, `${stage.name} failed`), h("pre", {}, stage.e)));
    const guess = tab === "Graph" ? this.picture.question() : "";
    if (guess) parts.push(h("p", { class: "question" }, guess));
    const after = this.store.artifact(stage.a);
    if (after?.k === "later") parts.push(h("p", { class: "note inline" }, this.waiting === "load" ? "Reading…" : `${stage.name}: ${after.note}`));
    if (this.payload.note && this.stage === 0) parts.push(h("p", { class: "note inline" }, this.payload.note));
    parts.push(paneContent(this, tab, stage, marks));
    const kept = parts.length === this.pane.childElementCount && parts.every((p, k) => p === this.pane.children[k]);
    const from = this.pane.lastElementChild;
    const place = from && tab !== "Graph" && this.paneTab === tab ? [from.scrollLeft, from.scrollTop] : [0, 0];
    if (!kept) this.pane.replaceChildren(...parts);
    if (!kept && tab !== "Graph" && this.pane.lastElementChild) [this.pane.lastElementChild.scrollLeft, this.pane.lastElementChild.scrollTop] = place;
    this.paneTab = tab;
    if (tab === "Graph") {
      showGraph(this, marks);
      this.picture.refreshTools(this.store.artifact(this.pictureIndex));
      this.picture.paint(this.graph.element);
      showTouched(this);
    }
    this.pane.querySelector(".rewrite.current")?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} k */
  _chooseRewrite(k) {
    this.rewrite = k;
    for (const x of this.pane.querySelectorAll(".rewrite")) x.classList.toggle("current", Number(x.getAttribute("data-rewrite")) === k);
    showFoot(this, this.current);
    this._showCard();
  }

  _showCard() {
    const act = { pin: (/** @type {string} */ n) => this.pin(n), go: (/** @type {number} */ k) => this.go(k), line: (/** @type {string} */ place) => askLine(this, place), enter: (/** @type {string} */ n) => (this.shownTab === "Graph" ? goToOp(this, n) : this.pin(n)) };
    const card = this.second && this.pinned ? pairCard(this.store, this.current, this.stage, this.pinned, this.second, act) : this.pinned ? groupCard(this) || opCard(this.store, this.current, this.stage, this.pinned, act, this.line) : this.rewrite >= 0 && this.now?.why?.rewrites[this.rewrite] ? rewriteCard(this.store, this.now, this.rewrite) : stageCard(this.store, this.now, this.shownTab === "Graph" ? this.picture.elsewhere() : []);
    this.card.replaceChildren(card);
    this.card.append(pinnedAs(this), (this.pinned ? furtherCard(this) : spreadList(this)) || "");
  }

  toggleHelp() {
    this.help.hidden = !this.help.hidden;
  }
}

/**
 * anywidget's entry.
 * @param {{model: Model, el: HTMLElement}} context
 */
export function render({ model, el }) {
  const ident = model.get("ident") || "";
  const host = h("div", { class: "xlanb-step", data: ident ? { ident } : {} });
  el.append(host);
  const view = new StepView(model, host, model.get("css") || "");
  showSaved(ident, false);
  return () => {
    view.dispose();
    host.remove();
    showSaved(ident, !document.querySelector(`.xlanb-step[data-ident="${ident}"]`));
  };
}
