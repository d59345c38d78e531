// What the graph pane shows: which groups are open, what is in focus, what the reader guesses.
import { boxCount, bundlesAgain, bundlesOf } from "./bundles.js";
import { h } from "./dom.js";
import { countRemoved, ghostsOf, goneFrom } from "./ghosts.js";
import { around, outlines } from "./outline.js";
import { CALLERS } from "./part.js";
import { openingThatFits } from "./opening.js";
import { isWholeInSight, newMemory, place } from "./place.js";
import { nextChange, score } from "./predict.js";
import { isGroup } from "./store.js";
import { isWhole, MAX_NODES, noFolds, sceneOf, TALLIED } from "./scene.js";

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./scene.js").Folds} Folds */
/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {{own: Map<string, boolean>, spread: Set<string>, all: boolean, focus: string, radius: number, at: string}} Opened what the reader opened (true) and closed (false), by key; `at` the group last opened */

const BUNDLES = [14, 11, 9, 7, 5, 3]; // boxes that a program is made of, where all would not fit

const NO_NAMES = /** @type {Set<string>} */ (new Set());

/** @returns {Opened} */
function nothingOpened() {
  return { own: new Map(), spread: new Set(), all: false, focus: "", radius: 2, at: "" };
}

export class PictureState {
  /** @param {any} view the step view: `store`, `payload`, `current`, `stage`, `pinned`, `graph`, `update()`, `say(text)`, `go(k)` */
  constructor(view) {
    this.view = view;
    /** @type {Record<string, Opened>} by kind of artifact: names mostly stay from pass to pass */
    this.opened = { module: nothingOpened(), graph: nothingOpened() };
    /** @type {Record<string, import("./place.js").Memory>} where things stood, by kind of artifact */
    this.memory = { module: newMemory(), graph: newMemory() };
    /** @type {Map<string, Sheet>} */
    this.sheets = new Map();
    /** @type {Map<string, Scene>} */
    this.scenes = new Map();
    /** @type {WeakMap<Artifact, Set<string>>} */
    this.given = new WeakMap();
    /** @type {Record<string, Map<string, boolean>>} which groups are open at first, by kind of artifact: from stage to stage the same */
    this.decided = { module: new Map(), graph: new Map() };
    /** @type {WeakMap<Artifact, import("./bundles.js").Bundles>} neighbours that are one box, as the pane is small */
    this.bundles = new WeakMap();
    /** @type {WeakMap<Artifact, number>} how few they were to be */
    this.asked = new WeakMap();
    /** @type {Record<string, import("./bundles.js").Bundles | null>} those of the stage before, by kind of artifact */
    this.bundled = { module: null, graph: null };
    /** @type {Set<string>} pictures in which what is inlined stays so, whatever a pass did to it */
    this.plain = new Set();
    this.version = 0;
    this.store = view.store;
    /** @type {{guesses: Set<string>, target: number, opened: boolean, result: ReturnType<typeof score> | null} | null} opened: whether the last click opened a group */
    this.guess = null;
    const tool = (/** @type {string} */ face, /** @type {string} */ title, /** @type {() => void} */ onclick) => h("button", { type: "button", class: "tool", title, onclick }, face);
    this.foldAll = tool("fold", "close every group", () => this.all(true));
    this.unfoldAll = tool("unfold", "open every group", () => this.all(false));
    this.quiet = tool("all ops", "constants, broadcasts, tuples and every parameter as nodes of their own", () => this.toggleQuiet());
    this.focusButton = tool("focus", "only what is near the pinned op", () => this.focus(this.view.pinned));
    this.focusButton.classList.add("focusing");
    this.less = tool("−", "a smaller radius", () => this.radius(-1));
    this.more = tool("+", "a larger radius", () => this.radius(1));
    this.less.setAttribute("aria-label", "Smaller radius");
    this.more.setAttribute("aria-label", "Larger radius");
    this.steps = h("span", { class: "muted" });
    this.crumbs = h("span", { class: "crumbs", role: "group", "aria-label": "Groups around" });
    this.predictButton = tool("predict", "guess what the next pass removes or changes", () => this.predict());
    this.revealButton = tool("Reveal", "show what the pass did", () => this.reveal());
    this.revealButton.classList.add("primary");
    for (const x of [this.focusButton, this.less, this.more, this.steps, this.revealButton]) x.hidden = true; // the first drawing measures the pane below the tools
    this.tools = [this.foldAll, this.unfoldAll, this.quiet, this.focusButton, this.less, this.steps, this.more, this.predictButton, this.revealButton, this.crumbs];
  }

  /** Show the tools that fit. @param {Artifact | null} artifact */
  refreshTools(artifact) {
    const opened = this._openedOf(artifact);
    const can = Boolean(artifact && opened && artifact.c?.length);
    for (const b of [this.foldAll, this.unfoldAll, this.quiet]) b.hidden = !can || Boolean(opened?.focus);
    this.quiet.setAttribute("aria-pressed", String(Boolean(opened?.all)));
    this.focusButton.hidden = !can || (!opened?.focus && !this.view.pinned) || !isWhole(/** @type {Artifact} */ (artifact), this.view.payload);
    this.focusButton.textContent = opened?.focus ? "whole graph" : "focus";
    for (const b of [this.less, this.more, this.steps]) b.hidden = !opened?.focus;
    if (opened?.focus) this.steps.textContent = `${opened.radius}`;
    this.predictButton.setAttribute("aria-pressed", String(Boolean(this.guess)));
    this.predictButton.hidden = !this.guess && nextChange(this.view.store, this.view.current, this.view.stage) < 0;
    this.revealButton.hidden = !this.guess;
    this.revealButton.textContent = this.guess?.result ? "Go there" : "Reveal";
    this._showCrumbs(artifact, opened);
  }

  /** @param {Artifact | null} artifact @param {Opened | null} opened */
  _showCrumbs(artifact, opened) {
    const path = artifact && opened?.at && !opened.focus ? this.scene(this.view.pictureIndex)?.path || [] : [];
    this.crumbs.hidden = path.length < 2;
    this.crumbs.replaceChildren(...path.map(({ key, label }, k) => h("button", { type: "button", class: "crumb", title: k === path.length - 1 ? "the group last opened" : "close what is open in it", onclick: () => this.backTo(key) }, label)));
  }

  /** @param {Artifact | null} artifact @returns {Opened | null} */
  _openedOf(artifact) {
    return artifact && artifact.k in this.opened ? this.opened[artifact.k] : null;
  }

  /** What is open in an artifact. @param {Artifact} artifact @returns {Folds} */
  _folds(artifact) {
    const opened = this.opened[artifact.k];
    let given = this.given.get(artifact);
    if (!given) {
      // without what one pass changed: that is another in the next stage, and boxes stand still
      const sceneWith = (/** @type {Set<string>} */ open) => sceneOf(artifact, this.view.payload, { ...noFolds(), open: (key) => open.has(key), bundles: this.bundles.get(artifact) });
      this._bundleAsBefore(artifact);
      given = openingThatFits(new Set(artifact.o || []), sceneWith, this.view.graph.room, this.decided[artifact.k], () => this._bundle(artifact));
      this.given.set(artifact, given);
      this.bundled[artifact.k] = this.bundles.get(artifact) || null;
    }
    const { own, spread, all, focus, radius } = opened;
    const isOpen = (/** @type {string} */ key) => own.get(key) ?? (own.has("*") ? Boolean(own.get("*")) : /** @type {Set<string>} */ (given).has(key));
    return { open: isOpen, spread: (key) => spread.has(key), all, focus, radius, bundles: this.bundles.get(artifact) };
  }

  /** Put the same neighbours into one box as in the stage before, where there was no room for all. @param {Artifact} artifact */
  _bundleAsBefore(artifact) {
    const known = this.bundled[artifact.k];
    const entry = outlines(artifact, this.view.payload).get("");
    const again = known && entry ? bundlesAgain(entry, known) : null;
    if (again) this.bundles.set(artifact, again);
  }

  /** Put neighbours into one box, more of them than before. @param {Artifact} artifact @returns {boolean} whether there was something to do */
  _bundle(artifact) {
    const entry = outlines(artifact, this.view.payload).get("");
    const last = this.asked.get(artifact) ?? (entry ? boxCount(entry) : 0);
    const count = BUNDLES.find((n) => n < last);
    if (!entry || !count) return false;
    this.asked.set(artifact, count);
    this.bundles.set(artifact, bundlesOf(entry, count));
    return true;
  }

  /** What an artifact shows as it is open now. @param {number} index @returns {Scene | null} */
  scene(index) {
    const { store, payload, now } = this.view;
    const artifact = store.artifact(index);
    if (!artifact?.c || !this._openedOf(artifact)) return null;
    const key = this._told(index);
    let scene = this.scenes.get(key);
    if (!scene) {
      const all = now && now.b >= 0 && (index === now.a || index === now.b) ? store.marks(now.b, now.a) : undefined;
      const marks = all && (index === now.a ? { ...all, removed: NO_NAMES } : { ...all, added: NO_NAMES });
      const folds = this._folds(artifact);
      scene = sceneOf(artifact, payload, folds, { marks, seconds: store.seconds(this.view.current), plain: this.plain.has(key) });
      const before = index === now?.a && now.b !== now.a && (all?.removed.size || all?.hidden) ? store.artifact(now.b) : null;
      if (before && all) {
        const old = sceneOf(before, payload, folds, { marks: { ...all, added: NO_NAMES }, plain: true });
        countRemoved(scene, old);
        scene.gone = goneFrom(old, all.removed);
      }
      scene.path = pathTo(scene, this.opened[artifact.k].at);
      if (this.scenes.size > 60) this.scenes.clear();
      this.scenes.set(key, scene);
    }
    return scene;
  }

  /** What a picture of an artifact shows, in short: the same from stage to stage where nothing changed. @param {number} index */
  _told(index) {
    const { store, current, now } = this.view;
    if (store !== this.store) {
      // an artifact was read that was put off
      this.store = store;
      this.scenes.clear();
      this.sheets.clear();
    }
    const change = now && now.b >= 0 && now.b !== now.a && (index === now.a || index === now.b) ? `${now.b}>${now.a}` : "";
    return `${index}:${this.version}:${change}:${store.timed(current)}`;
  }

  /** The drawing of an artifact as the reader wants it. @param {number} index @returns {Sheet | null} */
  sheet(index) {
    const scene = this.scene(index);
    if (!scene) return null;
    const { room } = this.view.graph;
    const key = `${this._told(index)}:${room.w}x${room.h}`;
    let made = this.sheets.get(key);
    if (!made) {
      const before = scene.gone?.length ? this.sheet(/** @type {any} */ (this.view.now).b) : null; // placed first: what survives stays where it stood
      const memory = this.memory[/** @type {Artifact} */ (this.view.store.artifact(index)).k];
      made = place(scene, memory, room);
      if (scene.told && !isWholeInSight(made, room)) {
        // what is inlined is not worth that less of the rest is seen
        this.plain.add(this._told(index));
        this.scenes.delete(this._told(index));
        made = place(this.scene(index) || scene, memory, room);
      }
      if (before) made.ghosts = ghostsOf(made, before, scene.gone || []);
      if (this.sheets.size > 60) this.sheets.clear();
      this.sheets.set(key, made);
    }
    return made;
  }

  /** How many of the ops that the pass added, removed and changed are in no box of the picture. @returns {number[]} */
  elsewhere() {
    const { now, pictureIndex } = this.view;
    const scene = now?.n && pictureIndex === now.a && !this.guess ? this.scene(pictureIndex) : null;
    if (!scene || this.opened[this.view.store.artifact(pictureIndex).k].focus) return [];
    const outermost = [...[...scene.nodes.values()].filter((n) => !n.port && !n.group), ...[...scene.groups.values()].filter((g) => !g.parent)];
    const ghosts = (this.sheet(pictureIndex)?.ghosts || []).filter((g) => !g.group); // in a group it is counted there
    return TALLIED.map((m, k) => Math.max(0, now.n[k] - outermost.reduce((t, x) => t + x.marks[m], 0) - (m === "removed" ? ghosts.reduce((t, g) => t + g.removed, 0) : 0)));
  }

  /** The drawing of a program between two rewrites. @param {import("./replay.js").Moment} moment @returns {Sheet} */
  momentSheet(moment) {
    const folds = this._folds(moment.a);
    return place(sceneOf(moment.a, moment.payload, folds, { marks: moment.marks }), this.memory.module, this.view.graph.room);
  }

  /** The pane has another size: what was placed for the old one is placed anew. */
  resized() {
    this.sheets.clear();
    this.scenes.clear();
    this.given = new WeakMap();
    this.bundles = new WeakMap();
    this.asked = new WeakMap();
    this.bundled = { module: null, graph: null };
    for (const decided of Object.values(this.decided)) decided.clear();
    this.view.update();
  }

  _changed() {
    this.version += 1;
    this.sheets.clear();
    this.scenes.clear();
    this.view.update();
  }

  /** Open or close a group. @param {string} key */
  toggle(key) {
    const index = this.view.pictureIndex;
    const artifact = this.view.store.artifact(index);
    const opened = this._openedOf(artifact);
    const scene = this.scene(index);
    if (!artifact || !opened || !scene) return;
    const isOpen = scene.groups.has(key);
    opened.own.set(key, !isOpen);
    opened.at = isOpen ? scene.groups.get(key)?.parent || "" : key;
    this._changed();
  }

  /** Show all repeats of a group, or one of them for all again. @param {string} key */
  spread(key) {
    const opened = this._openedOf(this.view.store.artifact(this.view.pictureIndex));
    if (!opened) return;
    if (!opened.spread.delete(key)) opened.spread.add(key);
    opened.own.set(key, true);
    this._changed();
  }

  /** Close what is open in a group, which stays open. @param {string} key "" for the program */
  backTo(key) {
    const opened = this._openedOf(this.view.store.artifact(this.view.pictureIndex));
    const scene = this.scene(this.view.pictureIndex);
    if (!opened || !scene) return;
    for (const [other, g] of scene.groups) if (g.parent === key) opened.own.set(other, false);
    opened.at = key;
    this._changed();
  }

  /** The groups around a group of the program, the outermost first; none where there is no such group. @param {string} key @returns {{key: string, label: string}[]} */
  groupsAround(key) {
    const artifact = this.view.store.artifact(this.view.pictureIndex);
    const groups = (artifact?.c && outlines(artifact, this.view.payload).get("")?.groups) || [];
    const out = [];
    let at = groups.find((g) => `@${g.key}` === key);
    for (at = at && groups[at.parent]; at; at = groups[at.parent]) out.unshift({ key: `@${at.key}`, label: at.label });
    return out;
  }

  /** Open groups, the outermost first. @param {string[]} keys */
  openAll(keys) {
    const opened = this._openedOf(this.view.store.artifact(this.view.pictureIndex));
    for (const key of keys) opened?.own.set(key, true);
    this._changed();
  }

  toggleQuiet() {
    const opened = this._openedOf(this.view.store.artifact(this.view.pictureIndex));
    if (!opened) return;
    opened.all = !opened.all;
    this._changed();
  }

  /** Open what hides an op. @param {string} name @returns {string} the key of what is drawn for it, "" where there is nothing */
  open(name) {
    const index = this.view.pictureIndex;
    const artifact = this.view.store.artifact(index);
    const opened = this._openedOf(artifact);
    if (!artifact || !opened) return "";
    const { payload } = this.view;
    if (opened.focus) opened.focus = "";
    let key = "";
    let changed = false;
    const show = () => sceneOf(artifact, payload, this._folds(artifact));
    for (const op of wayTo(artifact, payload, name)) {
      for (const repeat of repeatsAround(artifact, payload, op)) {
        if (opened.spread.has(repeat)) continue;
        opened.spread.add(repeat);
        changed = true;
      }
      let scene = show();
      key = scene.where.get(op) || "";
      for (let n = 0; n < 40 && key && scene.nodes.get(key)?.fold && (scene.nodes.get(key)?.item.n !== op || op !== name); n += 1) {
        opened.own.set(key, true);
        changed = true;
        scene = show();
        const next = scene.where.get(op) || (scene.groups.has(key) ? key : "");
        if (next === key) break;
        key = next;
      }
    }
    if (changed) this._changed();
    return key;
  }

  /** Open all groups down to a depth. @param {number} levels 1: only the outermost groups, closed */
  depth(levels) {
    const index = this.view.pictureIndex;
    const artifact = this.view.store.artifact(index);
    const opened = this._openedOf(artifact);
    if (!artifact || !opened) return;
    opened.own.clear();
    opened.spread.clear();
    opened.own.set("*", false);
    opened.at = "";
    const show = () => sceneOf(artifact, this.view.payload, this._folds(artifact));
    for (let n = 1; n < levels; n += 1) {
      const scene = show();
      const folded = [...scene.nodes.values()].filter((x) => x.fold);
      for (const x of folded) opened.own.set(x.fold, true);
      if (!folded.length) break;
      if (n === 1 || show().nodes.size <= MAX_NODES) continue;
      let room = MAX_NODES - scene.nodes.size; // too many at once: those that surely have room
      for (const x of folded) {
        room -= x.count;
        if (room < 0 && x.count > 1) opened.own.set(x.fold, false);
      }
    }
    this._changed();
  }

  /** @param {boolean} fold */
  all(fold) {
    this.depth(fold ? 1 : 40);
  }

  /** @param {string} name the centre, or nothing to see the whole again */
  focus(name) {
    const opened = this._openedOf(this.view.store.artifact(this.view.pictureIndex));
    if (!opened) return;
    opened.focus = opened.focus ? "" : name;
    this.view.graph.touched = false;
    this._changed();
  }

  /** @param {number} step */
  radius(step) {
    const opened = this._openedOf(this.view.store.artifact(this.view.pictureIndex));
    if (!opened) return;
    opened.radius = Math.max(1, Math.min(12, opened.radius + step));
    this.view.graph.touched = false;
    this._changed();
  }

  // -- predict, then reveal -------------------------------------------------------------------------------------

  predict() {
    const target = nextChange(this.view.store, this.view.current, this.view.stage);
    this.guess = this.guess || target < 0 ? null : { guesses: new Set(), target, opened: false, result: null };
    if (this.guess && target > this.view.stage + 1) this.view.go(target - 1);
    else this.view.update();
  }

  /** Mark an op as one that will go or change; a closed group opens for its ops. @param {string} name @param {boolean} again by the second click of two: what the first one opened is not meant @returns {boolean} whether the reader is guessing */
  mark(name, again = false) {
    if (!this.guess || this.guess.result) return false;
    if (again && this.guess.opened) return true;
    const group = this.view.graph.sheet.nodes.find((/** @type {any} */ n) => n.item.n === name && isGroup(n.item));
    this.guess.opened = Boolean(group);
    if (group) {
      if (group.fold) this.view.graph.toggle(group.fold);
      return true;
    }
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
    g.result = score(g.guesses, this.view.store.marks(stage.b, stage.a), this._guessable());
    this.view.update();
    this.view.say(`${stage.name}: ${g.result.words}`);
  }

  /** The ops that a guess can be about: those drawn, and those that a closed group stands for. @returns {Set<string>} */
  _guessable() {
    const index = this.view.pictureIndex;
    const drawn = this.view.graph.sheet.nodes.map((/** @type {any} */ n) => n.item.n);
    const { nodes, where } = /** @type {Scene} */ (this.scene(index));
    const closed = [...outlines(this.view.store.artifact(index), this.view.payload).values()].flatMap((o) => o.items.filter((i, k) => o.roles[k] === "." && nodes.get(where.get(i.n) || "")?.fold).map((i) => i.n));
    return new Set([...drawn, ...closed]);
  }

  /** The keys of the boxes in which ops are drawn: their own, or of the closed groups that hold them. @param {Iterable<string>} names @returns {Set<string>} */
  keysOf(names) {
    const where = this.scene(this.view.pictureIndex)?.where;
    return new Set([...names].map((n) => where?.get(n) || n));
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
    return `${name} comes next. Click the ops that it will remove, fuse or change; ${g.guesses.size} marked.`;
  }

  /** Marks of the guess on the nodes drawn. @param {Element} root */
  paint(root) {
    const g = this.guess;
    for (const x of root.querySelectorAll(".guessed, .right, .wrong, .missed")) x.classList.remove("guessed", "right", "wrong", "missed");
    if (!g) return;
    const set = (/** @type {Iterable<string>} */ names, /** @type {string} */ cls) => {
      const wanted = this.keysOf(names);
      for (const x of root.querySelectorAll(".node")) if (wanted.has(x.getAttribute("data-key") || "")) x.classList.add(cls);
    };
    set(g.guesses, "guessed");
    if (g.result) {
      set(g.result.right, "right");
      set(g.result.wrong, "wrong");
      set(g.result.missed, "missed");
    }
  }
}

/** The groups around a group, the program first. @param {Scene} scene @param {string} key */
function pathTo(scene, key) {
  const path = [];
  for (let g = scene.groups.get(key); g; [key, g] = [g.parent, scene.groups.get(g.parent)]) path.unshift({ key, label: g.label });
  return [{ key: "", label: "program" }, ...path];
}

/** The ops that call the computation that an op stands in, the outermost first, then the op itself or, where it is inlined, who uses it; an op of a computation that is not drawn, as a reducer, ends at who applies it. @param {Artifact} artifact @param {any} payload @param {string} name */
function wayTo(artifact, payload, name) {
  const all = outlines(artifact, payload);
  const entry = all.get("");
  let home = [...all.values()].find((o) => o.items.some((i) => i.n === name));
  if (!home) return [];
  let k = home.items.findIndex((i) => i.n === name);
  for (let n = 0; n < 20 && "qp".includes(home.roles[k]); n += 1) {
    const inner = home.items[k].n;
    const user = home.items.findIndex((i) => i.p?.includes(inner));
    if (user < 0) break;
    k = user;
  }
  let way = [home.items[k].n];
  for (let n = 0; n < 20 && home && home !== entry; n += 1) {
    const inner = home.name;
    const sites = [...all.values()].flatMap((o) => [...o.calls].filter(([at, called]) => called.includes(inner) && o.roles[at] === ".").map(([at]) => ({ o, op: o.items[at] })));
    const drawn = sites.find(({ op }) => CALLERS.has(op.o) || op.f.startsWith("tf"));
    const site = drawn || sites[0];
    home = site?.o;
    if (site) way = drawn ? [site.op.n, ...way] : [site.op.n];
  }
  return way;
}

/** Keys of the repeats of which an op lies in another instance than the first. @param {Artifact} artifact @param {any} payload @param {string} name */
function repeatsAround(artifact, payload, name) {
  const entry = outlines(artifact, payload).get("");
  const k = entry ? entry.items.findIndex((i) => i.n === name) : -1;
  if (!entry || k < 0) return [];
  const chain = around(entry, k);
  return chain.flatMap((g, n) => (n && entry.groups[g].kind === "repeat" && entry.groups[g].children[0] !== chain[n - 1] ? [`@${entry.groups[g].key}`] : []));
}
