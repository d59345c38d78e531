// What the graph pane shows: the picture that Python laid out, or the reader's own folds, focus or guess.
import { h } from "./dom.js";
import { nextChange, score } from "./predict.js";
import { hasScopes, isWhole, noFolds, place, sceneOf, sheetOf } from "./scene.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./scene.js").Folds} Folds */
/** @typedef {import("./store.js").Artifact} Artifact */

export class PictureState {
  /** @param {any} view the step view: `store`, `payload`, `current`, `stage`, `pinned`, `update()`, `say(text)`, `go(k)` */
  constructor(view) {
    this.view = view;
    /** @type {Record<string, Folds>} by kind of artifact: names mostly stay from pass to pass */
    this.folds = { module: noFolds(), graph: noFolds() };
    /** @type {Record<string, boolean>} whether the reader folded anything */
    this.touched = { module: false, graph: false };
    /** @type {Map<string, Sheet>} */
    this.cache = new Map();
    /** @type {WeakMap<object, Sheet>} */
    this.given = new WeakMap();
    /** @type {Map<string, number>} */
    this.hints = new Map();
    this.version = 0;
    /** @type {{guesses: Set<string>, target: number, result: ReturnType<typeof score> | null} | null} */
    this.guess = null;
    const tool = (/** @type {string} */ face, /** @type {string} */ title, /** @type {() => void} */ onclick) => h("button", { type: "button", class: "tool", title, onclick }, face);
    this.foldAll = tool("fold", "fold every fusion, call and scope", () => this.all(true));
    this.unfoldAll = tool("unfold", "unfold everything", () => this.all(false));
    this.focusButton = tool("focus", "only what is near the pinned op", () => this.focus(this.view.pinned));
    this.less = tool("−", "a smaller radius", () => this.radius(-1));
    this.more = tool("+", "a larger radius", () => this.radius(1));
    this.less.setAttribute("aria-label", "Smaller radius");
    this.more.setAttribute("aria-label", "Larger radius");
    this.steps = h("span", { class: "muted" });
    this.predictButton = tool("predict", "guess what the next pass takes away or changes", () => this.predict());
    this.revealButton = tool("Reveal", "show what the pass did", () => this.reveal());
    this.revealButton.classList.add("primary");
    this.tools = [this.foldAll, this.unfoldAll, this.focusButton, this.less, this.steps, this.more, this.predictButton, this.revealButton];
  }

  /** Show the tools that fit. @param {Artifact | null} artifact */
  refreshTools(artifact) {
    const folds = this._foldsOf(artifact);
    const can = Boolean(artifact && folds && isWhole(artifact, this.view.payload));
    for (const b of [this.foldAll, this.unfoldAll]) b.hidden = !can || Boolean(folds?.focus);
    this.focusButton.hidden = !can || (!folds?.focus && !this.view.pinned);
    this.focusButton.textContent = folds?.focus ? "whole graph" : "focus";
    for (const b of [this.less, this.more, this.steps]) b.hidden = !folds?.focus;
    if (folds?.focus) this.steps.textContent = `${folds.radius}`;
    this.predictButton.setAttribute("aria-pressed", String(Boolean(this.guess)));
    this.predictButton.hidden = !this.guess && nextChange(this.view.store, this.view.current, this.view.stage) < 0;
    this.revealButton.hidden = !this.guess;
    this.revealButton.textContent = this.guess?.result ? "Go there" : "Reveal";
  }

  /** @param {Artifact | null} artifact @returns {Folds | null} */
  _foldsOf(artifact) {
    return artifact && artifact.k in this.folds ? this.folds[artifact.k] : null;
  }

  /** The drawing of an artifact as the reader wants it. @param {number} index @returns {Sheet | null} */
  sheet(index) {
    const { store, payload } = this.view;
    const artifact = store.artifact(index);
    if (!artifact) return null;
    const folds = this._foldsOf(artifact);
    const own = folds && (folds.focus || this.touched[artifact.k] || (artifact.k === "graph" && hasScopes(artifact, payload)));
    if (folds && own && isWhole(artifact, payload)) {
      const key = `${index}:${this.version}`;
      let made = this.cache.get(key);
      if (!made) {
        made = place(sceneOf(artifact, payload, folds), this.hints);
        this.cache.set(key, made);
      }
      this.hints = new Map(made.nodes.map((n) => [n.key, n.x + n.w / 2]));
      return made;
    }
    if (!artifact.g) return null;
    let sheet = this.given.get(artifact.g);
    if (!sheet) {
      sheet = sheetOf(artifact.g, payload.items);
      this.given.set(artifact.g, sheet);
    }
    this.hints = new Map(sheet.nodes.map((n) => [n.item.n, n.x + n.w / 2]));
    return sheet;
  }

  /** Draw anew, with a fresh fit only where little stays. */
  _changed() {
    this.version += 1;
    this.cache.clear();
    this.view.update();
  }

  /** Fold or unfold a box. @param {string} name */
  fold(name) {
    const index = this.view.pictureIndex;
    const artifact = this.view.store.artifact(index);
    const folds = this._foldsOf(artifact);
    if (!artifact || !folds) return;
    if (!isWhole(artifact, this.view.payload)) return this.view.say("This program is too large to be folded here: its text is not all on this page.");
    if (artifact.k === "graph") {
      if (!folds.open.delete(name)) folds.open.add(name);
      else for (const n of [...folds.open]) if (n.startsWith(`${name}/`)) folds.open.delete(n);
    } else {
      if (!this.touched.module) for (const n of this.sheet(index)?.nodes || []) if (n.fold) folds.closed.add(n.fold);
      if (!folds.closed.delete(name)) folds.closed.add(name);
    }
    this.touched[artifact.k] = true;
    return this._changed();
  }

  /** @param {boolean} fold */
  all(fold) {
    const artifact = this.view.store.artifact(this.view.pictureIndex);
    const folds = this._foldsOf(artifact);
    if (!artifact || !folds) return;
    const { payload } = this.view;
    const items = (artifact.c || []).flatMap((/** @type {number} */ c) => payload.chunks[c].i.map((/** @type {number} */ i) => payload.items[i]));
    folds.open.clear();
    folds.closed.clear();
    if (artifact.k === "module" && fold) for (const i of items) if (i.c) folds.closed.add(i.n);
    if (artifact.k === "graph" && !fold) for (const i of items) for (let at = i.n.indexOf("/"); at > 0; at = i.n.indexOf("/", at + 1)) folds.open.add(i.n.slice(0, at));
    this.touched[artifact.k] = true;
    this._changed();
  }

  /** @param {string} name the centre, or nothing to see the whole again */
  focus(name) {
    const folds = this._foldsOf(this.view.store.artifact(this.view.pictureIndex));
    if (!folds) return;
    folds.focus = folds.focus ? "" : name;
    this.view.graph.touched = false;
    this._changed();
  }

  /** @param {number} step */
  radius(step) {
    const folds = this._foldsOf(this.view.store.artifact(this.view.pictureIndex));
    if (!folds) return;
    folds.radius = Math.max(1, Math.min(12, folds.radius + step));
    this.view.graph.touched = false;
    this._changed();
  }

  // -- predict, then reveal -------------------------------------------------------------------------------------

  predict() {
    const target = nextChange(this.view.store, this.view.current, this.view.stage);
    this.guess = this.guess || target < 0 ? null : { guesses: new Set(), target, result: null };
    if (this.guess && target > this.view.stage + 1) this.view.go(target - 1);
    else this.view.update();
  }

  /** Mark an op as one that will go or change. @param {string} name @returns {boolean} whether the reader is guessing */
  mark(name) {
    if (!this.guess || this.guess.result) return false;
    if (!this.guess.guesses.delete(name)) this.guess.guesses.add(name);
    this.view.update();
    return true;
  }

  reveal() {
    const g = this.guess;
    if (!g) return;
    if (g.result) {
      this.guess = null;
      this.view.go(g.target);
      return;
    }
    const stage = this.view.whole.stages[g.target];
    const there = new Set(this.view.graph.sheet.nodes.map((/** @type {any} */ n) => n.item.n));
    g.result = score(g.guesses, this.view.store.marks(stage.b, stage.a), there);
    this.view.update();
    this.view.say(`${stage.name}: ${g.result.words}`);
  }

  /** From which stage on nothing is told, -1 where all is. */
  get veiled() {
    return this.guess && !this.guess.result ? this.guess.target : -1;
  }

  /** The line above the graph while the reader guesses. */
  question() {
    const g = this.guess;
    if (!g) return "";
    const name = this.view.whole.stages[g.target]?.name || "the next pass";
    if (g.result) return `${name}: ${g.result.words}`;
    return `${name} comes next. Click the ops that it will take away (or fuse) or change; ${g.guesses.size} marked.`;
  }

  /** Marks of the guess on the nodes drawn. @param {Element} root */
  paint(root) {
    const g = this.guess;
    for (const x of root.querySelectorAll(".guessed, .right, .wrong, .missed")) x.classList.remove("guessed", "right", "wrong", "missed");
    if (!g) return;
    const set = (/** @type {Iterable<string>} */ names, /** @type {string} */ cls) => {
      const wanted = new Set(names);
      for (const x of root.querySelectorAll(".node")) if (wanted.has(x.getAttribute("data-op") || "")) x.classList.add(cls);
    };
    set(g.guesses, "guessed");
    if (g.result) {
      set(g.result.right, "right");
      set(g.result.wrong, "wrong");
      set(g.result.missed, "missed");
    }
  }
}
