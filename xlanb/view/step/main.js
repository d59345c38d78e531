// The step view: one renderer for the live widget and for pages without a kernel.
import { branchesView } from "./branches.js";
import { cacheView, memoryView, spark, sparkline, timingView } from "./charts.js";
import { differences, diffView } from "./compare.js";
import { download, h, icon, opOf, plural, selector } from "./dom.js";
import { buildFrame, followTheme } from "./frame.js";
import { GraphView } from "./graph.js";
import { actionOf } from "./keys.js";
import { actionsAt, editor, receive, startEdit } from "./live.js";
import { errorsOf, levels, numericsView } from "./numerics.js";
import { pairCard } from "./pair.js";
import { passList } from "./passes.js";
import { PictureState } from "./picture.js";
import { opCard, ribbon, stageCard, tally } from "./side.js";
import { stationOf, Store } from "./store.js";
import { CodePanes, linesOf, TextPane, withoutDirectives } from "./text.js";
import { whyView } from "./why.js";

/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Trace} Trace */
/**
 * What anywidget hands to a view; a page without a kernel brings a small stand-in.
 * @typedef {{get(key: string): any, set?(key: string, value: any): void, save_changes?(): void, send?(message: any): void,
 *   on(event: string, callback: (...args: any[]) => void): void, off?(event: string, callback: (...args: any[]) => void): void}} Model
 */

const TABS = ["Graph", "Diff", "Text", "Code", "Why", "Memory", "Numerics", "Timing", "Compare"];
const NO_MARKS = { added: new Set(), removed: new Set(), changed: new Set() };
const IN_TEXT = ["module", "graph", "code", "text"];
const PLAY_MS = 900;
/**
 * Where the reader stood, by payload: a notebook takes views away that are scrolled out of sight, and makes them anew.
 * @type {WeakMap<Payload, {trace: number, stage: number, tab: string, side: string, pinned: string, hide: boolean, unified: boolean, waiting: string, error: string}>}
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
    this.stage = this.payload.start ?? 0;
    this.tab = "";
    this.paneTab = "";
    this.side = "after";
    this.pinned = "";
    this.rewrite = -1;
    this.filter = "";
    this.hide = false;
    this.waiting = "";
    this.error = "";
    this.second = ""; // the other op of a pair
    this.other = -1; // the stage that is compared with
    this.unified = false;
    /** @type {Set<number>} artifacts that the kernel was asked to read */
    this.asked = new Set();
    /** @type {Set<string>} */
    this.folded = new Set();
    /** @type {{done: number, total: number, name: string} | null} */
    this.progress = null;
    /** @type {{trace: number, stage: number, text: string, fault: any} | null} */
    this.editing = null;
    /** @type {any} */
    this.timer = null;
    /** @type {(() => void)[]} */
    this.cleanup = [];
    Object.assign(this, PLACES.get(this.payload));
    this.picture = new PictureState(this);
    this.graph = new GraphView({ name: () => `${this.current.name || "graph"}-${this.now?.name || ""}`, tools: this.picture.tools, recolour: () => this.update() });
    this.text = new TextPane(this);
    this.code = new CodePanes(this);
    this.shadow = host.shadowRoot || host.attachShadow({ mode: "open" });
    this._build(css);
    this.cleanup.push(followTheme(this.root));
    this._listen();
    this.update();
  }

  get can() {
    return this.model.get("can") || { step: false, run: false };
  }

  /** @returns {Trace} */
  get current() {
    return this.payload.traces[this.trace] || { name: "", live: false, counts: {}, runs: [], stages: [] };
  }

  /** @returns {Stage | undefined} */
  get now() {
    return this.current.stages[this.stage];
  }

  // -- building -------------------------------------------------------------------------------------------------

  /** @param {string} css */
  _build(css) {
    Object.assign(this, buildFrame(this));
    this.root.dataset.step = String(this.stage);
    this.host.dataset.lmSuppressShortcuts = "true";
    this.shadow.replaceChildren(h("style", {}, css), this.root);
  }

  _listen() {
    const message = (/** @type {any} */ m) => receive(this, m);
    const replaced = () => {
      this.payload = this.model.get("payload");
      this.store = new Store(this.payload);
      this.update();
    };
    this.model.on("msg:custom", message);
    this.model.on("change:payload", replaced);
    this.model.on("change:can", () => this.update());
    this.cleanup.push(() => this.model.off?.("msg:custom", message), () => this.model.off?.("change:payload", replaced));
    this.root.addEventListener("keydown", (e) => this.key(/** @type {KeyboardEvent} */ (e)));
    this.root.addEventListener("pointerover", (e) => this.light(opOf(e)));
    this.root.addEventListener("pointerleave", () => this.light(""));
    this.root.addEventListener("click", (e) => this._clicked(/** @type {MouseEvent} */ (e)));
    this.root.addEventListener("dblclick", (e) => this._follow(opOf(e)));
    this.root.addEventListener("pointerdown", (e) => {
      // Buttons and text take the focus themselves; anywhere else the view does, so that its keys work.
      if (!(/** @type {Element} */ (e.target).closest("input, button, select, textarea, summary, [tabindex]:not(.root)"))) this.root.focus({ preventScroll: true });
    });
  }

  /** @param {MouseEvent} e */
  _clicked(e) {
    const target = /** @type {Element} */ (e.target);
    const fold = target.closest("[data-fold]");
    const op = opOf(e);
    if (fold && !this.picture.guess && (target.closest(".handle") || fold.classList.contains("scope"))) return this.picture.fold(fold.getAttribute("data-fold") || "");
    if (op && target.closest(".graph") && this.picture.mark(op)) return undefined;
    if (op && !target.closest("button, select, .rewrite header")) {
      if (e.shiftKey && this.pinned && op !== this.pinned) return this.pair(op);
      if (e.detail < 2) this.pin(op === this.pinned ? "" : op);
    } else if (target.closest(".canvas") && !op && this.pinned) this.pin("");
    return undefined;
  }

  /** Go to where an op lives on, in the next form of the program. @param {string} name */
  _follow(name) {
    const found = name && this.store.counterpart(this.current, this.stage, name);
    if (!found) return name ? this.say(`${name}: nothing later on this page says that it came from it.`) : undefined;
    this.tab = "";
    this.go(found.stage);
    return this.pin(found.name);
  }

  /** Why, of the pinned op and another one. @param {string} name */
  pair(name) {
    this.second = name;
    this.root.classList.add("has-pin");
    this._showCard();
    this.light("");
  }

  dispose() {
    clearInterval(this.timer);
    this.graph.dispose();
    for (const f of this.cleanup) f();
  }

  // -- moving ---------------------------------------------------------------------------------------------------

  /** @param {number} k */
  go(k) {
    const last = this.current.stages.length - 1;
    const to = Math.max(0, Math.min(k, last));
    if (to !== this.stage) {
      this.rewrite = -1;
      this.other = -1;
      this.side = "after";
    }
    this.stage = to;
    this.update();
  }

  /** A row of the list was clicked; with shift, the two stages are compared. @param {number} k @param {Event} e */
  choosePass(k, e) {
    if (!(/** @type {MouseEvent} */ (e).shiftKey) || k === this.stage) return this.go(k);
    this.other = k;
    this.tab = "Diff";
    return this.update();
  }

  /** @param {string} key */
  foldPipeline(key) {
    if (!this.folded.delete(key)) this.folded.add(key);
    this._showList();
  }

  /** Switch a pass off or on again, from the next branch on. @param {string} name @param {boolean} off */
  togglePass(name, off) {
    this.ask("toggle", { name, off });
    this.say(`${name} is ${off ? "off" : "on"} from now on: step on, or fork at a stage before it, to see what that does.`);
  }

  toggleHide() {
    this.hide = !this.hide;
    this.update();
    this.say(this.hide ? "Passes that changed nothing are hidden." : "All passes are shown.");
  }

  findInText() {
    this.show("Text");
    this.text.box.focus();
  }

  escape() {
    if (!this.help.hidden) this.toggleHelp();
    else if (this.second) this.pin(this.pinned);
    else if (this.other >= 0) {
      this.other = -1;
      this.update();
    } else this.pin("");
  }

  next() {
    if (this.stage < this.current.stages.length - 1) this.go(this.stage + 1);
    else if (this.canStep) this.ask("step");
    else this.say(this.current.live ? "" : "This was the last pass.");
  }

  get canStep() {
    return Boolean(this.current.live && this.can.step);
  }

  previous() {
    this.go(this.stage - 1);
  }

  /** @param {number} direction @param {(s: Stage) => boolean} wanted */
  seek(direction, wanted) {
    for (let k = this.stage + direction; k >= 0 && k < this.current.stages.length; k += direction) {
      if (wanted(this.current.stages[k])) return this.go(k);
    }
    return this.say(direction > 0 ? "No later one." : "No earlier one.");
  }

  /** @param {number} direction */
  seekKind(direction) {
    const here = this.now ? stationOf(this.now) : "";
    let k = this.stage;
    const stages = this.current.stages;
    while (stages[k] && stationOf(stages[k]) === here) k += direction;
    if (!stages[k]) return this.say(direction > 0 ? "This is the last kind of stage." : "This is the first kind of stage.");
    const there = stationOf(stages[k]);
    if (direction < 0) while (k > 0 && stationOf(stages[k - 1]) === there) k -= 1;
    return this.go(k);
  }

  /** @param {number} direction */
  stepRewrite(direction) {
    const count = this.now?.why?.rewrites.length || 0;
    if (!count) return this.say("This pass recorded no single rewrites.");
    this.rewrite = Math.max(0, Math.min(count - 1, this.rewrite + direction));
    if (!["Graph", "Diff"].includes(this.tab)) this.tab = "Why";
    this.update();
    const first = this.now?.why.rewrites[this.rewrite].edits.flatMap((/** @type {any} */ e) => [e.b, e.a]).find((/** @type {string} */ n) => n);
    return first && this.shownTab === "Graph" ? this.graph.reveal(first) : undefined;
  }

  togglePlay() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = null;
    } else {
      if (this.stage >= this.current.stages.length - 1 && !this.canStep) this.go(0);
      this.timer = setInterval(() => {
        if (this.waiting) return;
        if (this.stage >= this.current.stages.length - 1 && !this.canStep) this.togglePlay();
        else this.next();
      }, PLAY_MS);
    }
    this.play.replaceChildren(icon(this.timer ? "pause" : "play"));
    this.play.setAttribute("aria-pressed", String(Boolean(this.timer)));
  }

  /** @param {number} number */
  choose(number) {
    this.trace = number;
    this.stage = Math.min(this.stage, Math.max(0, this.current.stages.length - 1));
    this.pinned = "";
    this.second = "";
    this.other = -1;
    this.rewrite = -1;
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
    this.picture.refreshTools(this.store.artifact(this.pictureIndex));
    this.light("");
    this._keepFocus(focused);
    this._remember();
    if (!name) return;
    if (this.shownTab === "Graph") this.graph.reveal(name);
    else if (this.shownTab === "Code") this.code.reveal(name);
    else this._scrollTo(name);
  }

  /** Bring the first line about an op into view, where none is. @param {string} name */
  _scrollTo(name) {
    if (this.shownTab === "Text" && !this.pane.querySelector(selector(name))) this.text.reveal(name);
    const frame = this.pane.getBoundingClientRect();
    const all = [...this.pane.querySelectorAll(`${selector(name)}`)];
    const seen = all.some((x) => {
      const box = x.getBoundingClientRect();
      return box.height > 0 && box.top >= frame.top && box.top <= frame.bottom - 10;
    });
    if (!seen) all[0]?.scrollIntoView({ block: "nearest" });
  }

  // -- the kernel -----------------------------------------------------------------------------------------------

  /** Ask the kernel for something. @param {string} type @param {Record<string, any>} [more] */
  ask(type, more = {}) {
    if (!this.model.send || this.waiting) return;
    this.waiting = type;
    this.error = "";
    this.model.send({ type, trace: this.trace, stage: this.stage, ...more });
    this.update();
  }

  exportPage() {
    const page = this.model.get("page");
    if (typeof page === "function") download(page(), `${this.current.name || "xlanb"}.html`);
    else this.ask("export");
  }

  // -- showing --------------------------------------------------------------------------------------------------

  _filtered() {
    this.filter = this.filterBox.value;
    this._showList();
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
    this._showHead(trace);
    this.ribbon.replaceChildren(...ribbon(trace, this.stage, (k) => this.go(k)));
    this._showList();
    this.bar.hidden = !this.waiting || !this.progress;
    if (this.progress) {
      this.bar.setAttribute("max", String(this.progress.total || 1));
      this.bar.setAttribute("value", String(this.progress.done || 0));
    }
    this._showTabs();
    this._showPane();
    this._showCard();
    this._showFoot(trace);
    this.light("");
    this._keepFocus(focused);
    this._remember();
    return undefined;
  }

  _remember() {
    const { trace, stage, tab, side, pinned, hide, unified, waiting, error } = this;
    PLACES.set(this.payload, { trace, stage, tab, side, pinned, hide, unified, waiting, error });
  }

  /** What had the focus may have been drawn anew: the keys must go on working. @param {Element | null} before */
  _keepFocus(before) {
    if (before && !this.shadow.activeElement) this.root.focus({ preventScroll: true });
  }

  /** @param {Trace} trace */
  _showHead(trace) {
    const c = trace.counts || {};
    this.title.replaceChildren(trace.name || this.payload.title || "xlanb");
    this.counts.replaceChildren(
      ...[plural(c.stages || 0, "stage"), plural(c.passes || 0, "pass", "passes"), `${c.changed || 0} changed`, plural(c.kernels || 0, "kernel")].map((t) => h("span", {}, t)),
    );
    const state = this.waiting ? "running" : trace.live && this.can.step ? "live" : "static";
    this.badge.className = `badge ${state}`;
    this.badge.textContent = state;
    const several = this.payload.order.length > 1;
    this.traceTabs.hidden = !several;
    if (several) {
      this.traceTabs.replaceChildren(
        ...this.payload.order.map((n) => h("button", { type: "button", role: "tab", "aria-selected": String(n === this.trace), onclick: () => this.choose(n) }, this.payload.traces[n].name)),
      );
    }
  }

  _showList() {
    const from = this.list.scrollTop;
    this.list.replaceChildren(...passList(this.current, this.store, {
        current: this.stage,
        other: this.other,
        filter: this.filter,
        hide: this.hide,
        folded: this.folded,
        veiled: this.picture.veiled,
        off: this.can.toggle ? new Set(this.can.off || []) : null,
        go: (k, e) => this.choosePass(k, e),
        fold: (key) => this.foldPipeline(key),
        toggle: (name, off) => this.togglePass(name, off),
      }),
    );
    this.list.scrollTop = from;
    if (this.list.querySelector(".pass.current")) this.list.setAttribute("aria-activedescendant", `pass-${this.stage}`);
    else this.list.removeAttribute("aria-activedescendant");
    const row = /** @type {HTMLElement | null} */ (this.list.querySelector(".pass.current"));
    if (row) {
      const top = row.offsetTop - this.list.offsetTop;
      if (top < this.list.scrollTop + 24) this.list.scrollTop = top - 24;
      else if (top + row.offsetHeight > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + row.offsetHeight - this.list.clientHeight + 8;
    }
  }

  /** Which panes have something to show, for the current stage. @returns {Record<string, boolean>} */
  available() {
    const stage = this.now;
    if (!stage) return { Graph: true };
    const after = this.store.artifact(stage.a);
    return {
      Graph: Boolean(this.store.artifact(this.pictureIndex)?.g) || Boolean(this.store.artifact(this.pictureIndex)?.c),
      Diff: Boolean(stage.diff) || this.other >= 0,
      Text: Boolean(after && IN_TEXT.includes(after.k)) || (stage.ctx ?? -1) >= 0,
      Code: !this.payload.single && Boolean(this.store.latest(this.current, this.current.stages.length - 1, "code")),
      Why: Boolean(stage.why || stage.e),
      Memory: Boolean(this.store.latest(this.current, this.stage, "buffers")),
      Numerics: !this.payload.single && Boolean(this.can.numerics || this.current.stages.some((x) => x.numerics || (x.err ?? null) !== null)),
      Compare: this.payload.order.length > 1,
      Timing: !this.payload.single || !["module", "graph", "code", "buffers"].includes(after?.k || ""),
    };
  }

  /** The pane shown: the one asked for where it has something to say, else the one that fits the stage. */
  get shownTab() {
    const can = this.available();
    if (this.tab && can[this.tab]) return this.tab;
    const kind = this.store.artifact(this.now?.a ?? -1)?.k;
    const natural = this.now?.e ? "Why" : kind === "code" ? "Text" : kind === "buffers" ? "Memory" : kind === "execution" || kind === "cache" ? "Timing" : "Graph";
    return can[natural] ? natural : TABS.find((t) => can[t]) || "Graph";
  }

  _showTabs() {
    const can = this.available();
    const shown = this.shownTab;
    const focused = this.shadow.activeElement?.closest?.(".tabs");
    this.tabs.replaceChildren(
      ...TABS.filter((t) => can[t] || !["Code", "Numerics", "Compare"].includes(t)).map((t) =>
        h("button", { type: "button", role: "tab", "aria-selected": String(t === shown), disabled: !can[t], onclick: () => this.show(t) }, t, t === "Why" && this.now?.why ? h("small", {}, String(this.now.why.rewrites.length + this.now.why.decisions.length)) : null),
      ),
    );
    if (focused) /** @type {HTMLElement | null} */ (this.tabs.querySelector("[aria-selected=true]"))?.focus();
    const both = this.now && this.now.ch && this.now.b >= 0 && (shown === "Graph" || shown === "Text") && this.store.artifact(this.now.b)?.k === this.store.artifact(this.now.a)?.k;
    this.sides.hidden = !both;
    this.sides.replaceChildren(...["before", "after"].map((x) => h("button", { type: "button", "aria-pressed": String(this.side === x), onclick: () => this.turn(x) }, x)));
  }

  /** @param {string} tab */
  show(tab) {
    this.tab = tab;
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
    const marks = own && stage.b >= 0 ? this.store.marks(stage.b, stage.a) : NO_MARKS;
    const parts = [];
    if (this.error) parts.push(h("div", { class: "banner", role: "alert" }, h("b", {}, "The kernel raised an error"), h("pre", {}, this.error)));
    else if (stage.e && tab !== "Why") parts.push(h("div", { class: "banner", role: "alert" }, h("b", {}, `${stage.name} failed`), h("pre", {}, stage.e)));
    const guess = tab === "Graph" ? this.picture.question() : "";
    if (guess) parts.push(h("p", { class: "question" }, guess));
    const after = this.store.artifact(stage.a);
    if (after?.k === "later") parts.push(h("p", { class: "note inline" }, this.waiting === "load" ? "Reading…" : `${stage.name}: ${after.note}`));
    if (this.payload.note && this.stage === 0) parts.push(h("p", { class: "note inline" }, this.payload.note));
    parts.push(this._content(tab, stage, marks));
    const kept = this.pane.firstElementChild === this.graph.element && parts.length === 1 && parts[0] === this.graph.element;
    const from = this.pane.lastElementChild;
    const place = from && this.paneTab === tab ? [from.scrollLeft, from.scrollTop] : [0, 0];
    if (!kept) this.pane.replaceChildren(...parts);
    if (!kept && tab !== "Graph" && this.pane.lastElementChild) [this.pane.lastElementChild.scrollLeft, this.pane.lastElementChild.scrollTop] = place;
    this.paneTab = tab;
    if (tab === "Graph") {
      this.graph.show(this.picture.sheet(this.pictureIndex), marks, this.side, this.store.seconds(this.current));
      this.picture.refreshTools(this.store.artifact(this.pictureIndex));
      this.picture.paint(this.graph.element);
      this._showRewrite();
    }
    this.pane.querySelector(".rewrite.current")?.scrollIntoView({ block: "nearest" });
    if (this.pinned && tab !== "Graph") this._scrollTo(this.pinned);
  }

  /** @param {string} tab @param {Stage} stage @param {import("./store.js").Marks} marks @returns {HTMLElement} */
  _content(tab, stage, marks) {
    const store = this.store;
    if (tab === "Graph") return this.graph.element;
    if (tab === "Diff") return this._diff(stage);
    if (tab === "Why") return whyView(stage, { rewrite: this.rewrite, pinned: this.pinned, choose: (k) => this._chooseRewrite(k) });
    if (tab === "Memory") return memoryView(store.latest(this.current, this.stage, "buffers"));
    if (tab === "Compare") return branchesView(store, this.trace, (n) => this.choose(n));
    if (tab === "Numerics") return numericsView(this.current, this.stage, { measure: this.can.numerics ? () => this.ask("numerics") : null, waiting: this.waiting === "numerics", go: (k) => this.go(k) });
    if (tab === "Timing") {
      const artifact = store.artifact(stage.a);
      if (artifact?.k === "cache") return cacheView(artifact);
      return timingView(this.current, this.stage, store.latest(this.current, this.current.stages.length - 1, "execution"), (k) => this.go(k));
    }
    if (tab === "Code") return this._codes();
    if (this.editing) return editor(this);
    let index = this.shownArtifact();
    if (!IN_TEXT.includes(store.artifact(index)?.k || "")) index = stage.ctx ?? -1;
    const artifact = store.artifact(index);
    if (!artifact) return h("p", { class: "empty" }, "There is no text at this stage.");
    this.text.show(linesOf(artifact, this.payload, marks, this.side), artifact.c ? store.names(index) : store.names(stage.ctx ?? -1), artifact.note);
    this.text.extra.replaceChildren(...(this.can.edit && artifact.k === "module" ? [h("button", { type: "button", class: "tool primary", onclick: () => startEdit(this) }, "Edit")] : []));
    return this.text.element;
  }

  /** The lines of an artifact. @param {number} index */
  linesAt(index) {
    return linesOf(/** @type {any} */ (this.store.artifact(index)), this.payload, NO_MARKS, "after");
  }

  /** Before and after of this pass, or of this stage and another. @param {Stage} stage */
  _diff(stage) {
    const choose = (/** @type {boolean} */ unified) => {
      this.unified = unified;
      this.update();
    };
    const names = this.pictureIndex >= 0 ? this.store.names(this.pictureIndex) : { has: () => false };
    const state = { unified: this.unified, choose, names };
    if (this.other < 0) return diffView(stage.diff || [], this.payload, { ...state, after: this.store.artifact(stage.a), title: `${stage.name}: before and after`, empty: stage.ch ? "Before and after are of different kinds; see Text." : "This pass changed nothing. Shift-click another pass in the list to compare with it." });
    const [first, last] = [Math.min(this.other, this.stage), Math.max(this.other, this.stage)].map((k) => this.current.stages[k]);
    const [a, b] = [this.store.artifact(first.a), this.store.artifact(last.a)];
    const alike = a && b && a.k === b.k && a.c;
    return diffView(alike ? differences(this.payload, a, b) : [], this.payload, { ...state, after: b, title: `after ${first.name} → after ${last.name}`, empty: alike ? "The program is the same after both." : "These two are of different kinds." });
  }

  /** HLO, LLVM IR and assembly, as far as the compilation has come. */
  _codes() {
    const end = this.current.stages.length - 1;
    const names = this.store.names(this.pictureIndex);
    const columns = [];
    const module = this.store.latest(this.current, end, "module");
    if (module) columns.push({ title: "HLO", source: linesOf(module, this.payload, NO_MARKS, "after"), names, note: module.note });
    for (const [kind, title] of [["llvm_ir_optimized", "LLVM IR"], ["assembly", "Assembly"]]) {
      const stage = this.current.stages.findLast((x) => x.kind === kind) || (kind === "llvm_ir_optimized" ? this.current.stages.findLast((x) => x.kind === "llvm_ir") : undefined);
      const artifact = stage && this.store.artifact(stage.a);
      if (artifact?.k === "code") columns.push({ title, source: withoutDirectives(linesOf(artifact, this.payload, NO_MARKS, "after")), names, note: artifact.note });
    }
    this.code.show(columns);
    return this.code.element;
  }

  /** Set off what the current rewrite touched, in the graph. */
  _showRewrite() {
    for (const x of this.graph.element.querySelectorAll(".touched")) x.classList.remove("touched");
    const rewrite = this.rewrite >= 0 ? this.now?.why?.rewrites[this.rewrite] : null;
    if (!rewrite) return;
    const names = new Set(rewrite.edits.flatMap((/** @type {any} */ e) => [e.a, e.b]));
    for (const x of this.graph.nodes.querySelectorAll(".node")) if (names.has(x.getAttribute("data-op"))) x.classList.add("touched");
  }

  /** @param {number} k */
  _chooseRewrite(k) {
    this.rewrite = k;
    for (const x of this.pane.querySelectorAll(".rewrite")) x.classList.toggle("current", Number(x.getAttribute("data-rewrite")) === k);
    this._showFoot(this.current);
  }

  _showCard() {
    const act = { pin: (/** @type {string} */ n) => this.pin(n), go: (/** @type {number} */ k) => this.go(k) };
    const card = this.second && this.pinned ? pairCard(this.store, this.current, this.stage, this.pinned, this.second, act) : this.pinned ? opCard(this.store, this.current, this.stage, this.pinned, act) : stageCard(this.store, this.now, actionsAt(this));
    this.card.replaceChildren(card);
  }

  /** @param {Trace} trace */
  _showFoot(trace) {
    const stage = this.now;
    const total = stage?.why?.rewrites.length || 0;
    const where = stage ? `${this.stage + 1}/${trace.stages.length}` : "";
    const rewrite = this.rewrite >= 0 && total ? ` · rewrite ${this.rewrite + 1}/${total}` : "";
    const doing = { step: "compiling…", run: "running…", export: "writing the page…", edit: "compiling the edited program…", fork: "forking…", toggle: "compiling anew…", numerics: "measuring…", load: "reading…" }[this.waiting];
    const said = this.progress ? `${doing} ${this.progress.name || ""} ${this.progress.done}/${this.progress.total}` : doing;
    const veiled = this.picture.veiled >= 0 && this.stage >= this.picture.veiled;
    this.status.replaceChildren(h("span", { class: "where" }, where), stage ? h("b", {}, stage.name) : "", doing ? ` ${said}` : stage && !veiled ? ` ${stage.d}${rewrite}` : stage ? "" : "Nothing was compiled yet.", stage && !veiled ? h("span", { class: "tally" }, tally(stage, this.store)) : "");
    this.spark.replaceChildren(h("span", { class: "label" }, "pass ms"), sparkline(trace, this.stage));
    const errors = errorsOf(trace);
    if (errors.some((e) => e !== null)) this.spark.append(h("span", { class: "label" }, "error"), spark(levels(errors, 19), this.stage));
    this.stepper.hidden = !total;
    this.place.textContent = total ? `rewrite ${this.rewrite >= 0 ? this.rewrite + 1 : "–"}/${total}` : "";
    this.run.hidden = !this.can.run;
    for (const b of this.shadow.querySelectorAll(".ctl")) {
      const name = b.getAttribute("aria-label");
      const off = (name === "First pass" || name === "Previous pass") && this.stage <= 0 ? true : (name === "Last pass" && this.stage >= trace.stages.length - 1) || (name === "Next pass" && this.stage >= trace.stages.length - 1 && !this.canStep);
      b.toggleAttribute("disabled", Boolean(off || (this.waiting && ["Next pass", "Run"].includes(name || "")) || (name === "Previous rewrite" && this.rewrite <= 0) || (name === "Next rewrite" && this.rewrite >= total - 1)));
    }
    // A button that has the focus and goes out of use would swallow the next key.
    if (this.shadow.activeElement?.hasAttribute("disabled")) this.root.focus({ preventScroll: true });
  }

  /** Light an op up wherever it shows. @param {string} name */
  light(name) {
    const wanted = name || this.pinned;
    for (const x of this.root.querySelectorAll(".lit, .near")) x.classList.remove("lit", "near");
    for (const x of this.root.querySelectorAll(".pinned")) x.classList.remove("pinned");
    for (const n of [this.pinned, this.second]) if (n) for (const x of this.root.querySelectorAll(selector(n))) x.classList.add("pinned");
    if (!wanted) return;
    for (const x of this.root.querySelectorAll(selector(wanted))) x.classList.add("lit");
    const quoted = CSS.escape(wanted);
    for (const x of this.root.querySelectorAll(`.edge[data-from="${quoted}"], .edge[data-to="${quoted}"]`)) x.classList.add("near");
  }

  toggleHelp() {
    this.help.hidden = !this.help.hidden;
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const target = /** @type {Element} */ (e.composedPath()[0]);
    if (target.matches("select, textarea, .find")) return;
    if (target === this.filterBox) {
      if (e.key === "Escape" || e.key === "Enter") {
        this.root.focus({ preventScroll: true });
        e.preventDefault();
      }
      e.stopPropagation();
      return;
    }
    const onButton = target instanceof HTMLButtonElement && (e.key === " " || e.key === "Enter");
    const action = onButton ? null : actionOf(this, e.key);
    if (!action) return;
    e.preventDefault();
    e.stopPropagation();
    action();
  }
}

/**
 * anywidget's entry.
 * @param {{model: Model, el: HTMLElement}} context
 */
export function render({ model, el }) {
  const host = h("div", { class: "xlanb-step" });
  el.append(host);
  const view = new StepView(model, host, model.get("css") || "");
  return () => view.dispose();
}
