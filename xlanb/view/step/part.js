// One computation on its way into a scene: which of its ops are nodes, which stand in a closed group, and what flows between them.
import { plural } from "./dom.js";
import { around, bytesOf, twinsOf } from "./outline.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./outline.js").Outline} Outline */
/** @typedef {import("./scene.js").SceneMaker} SceneMaker */
/** @typedef {import("./scene.js").SceneNode} SceneNode */
/** @typedef {import("./scene.js").GroupKind} GroupKind */

export const CALLERS = new Map([["fusion", "fusion"], ["call", "call"], ["while", "call"], ["conditional", "call"], ["async-start", "call"]]);
const SOUGHT = /matrix|comm|control|call|launch|reduce/; // families of what a reader looks for
const MAX_DEPTH = 12;
const MARKED = 24; // so many inlined ops at most are drawn because a pass was about them

/** @returns {import("./scene.js").Tally} */
export function noTally() {
  return { added: 0, removed: 0, changed: 0 };
}

/** @returns {import("./scene.js").Weight} */
export function noWeight() {
  return { seconds: null, flops: 0, bytes: 0 };
}

/** @typedef {string[] | {t: Ends[]}} Ends the nodes that a value comes from; of a tuple those of each element */

/** @param {Ends | undefined} ends @returns {string[]} */
function flat(ends) {
  return !ends ? [] : Array.isArray(ends) ? ends : [...new Set(ends.t.flatMap(flat))];
}

/** One computation on its way into a scene. */
export class PartMaker {
  /** @param {SceneMaker} maker @param {Outline} outline @param {string} box @param {string} prefix @param {number} depth @param {number} times how often it executes */
  constructor(maker, outline, box, prefix, depth, times) {
    this.times = times;
    this.maker = maker;
    this.outline = outline;
    this.box = box;
    this.prefix = prefix;
    this.depth = depth;
    /** @type {({box: string, fold: string} | null)[]} */
    this.states = outline.groups.map(() => null);
    /** @type {string[]} the key of what stands for each op, "" where nothing does */
    this.keys = [];
    /** @type {string[]} the box in which each is counted */
    this.boxes = [];
    /** @type {number[]} the op of a first instance that each stands for */
    this.twins = [];
    /** @type {Map<number, string[]>} ops that are drawn as boxes with computations in them */
    this.opened = new Map();
    /** @type {Map<string, import("./scene.js").SceneGroup[]>} the open groups around each box */
    this.around = new Map();
    /** @type {Map<number, number>} ops that are drawn with what is not on the page, by the group */
    this.rest = new Map();
    this.lost = ""; // the box in which an op without a like would lie
    const marks = maker.marks;
    // of a computation that is new as a whole, as a fusion, what is inlined says nothing by itself
    const isNew = maker.plain || (Boolean(marks) && outline.items.every((i) => i.o === "parameter" || marks?.added.has(i.n)));
    const quiet = marks && !isNew ? outline.items.filter((_, k) => this.isTold(k)).length : 0;
    this.few = quiet > 0 && quiet <= MARKED;
    /** @type {Map<string, number>} */
    this.at = new Map(outline.items.map((i, k) => [i.n, k]));
  }

  /** @param {number} k */
  role(k) {
    const role = this.outline.roles[k];
    if (role !== "q" && role !== "p") return role;
    return this.maker.folds.all || (this.few && this.isTold(k)) ? "." : role;
  }

  /** Whether a pass was about an op that is not drawn elsewhere; an edge with other ends says so itself. @param {number} k */
  isTold(k) {
    const { marks } = this.maker;
    const role = this.outline.roles[k];
    const name = this.outline.items[k].n;
    return Boolean(marks) && (role === "q" || role === "p") && (marks?.added.has(name) || marks?.removed.has(name) || (role === "q" && marks?.changed.has(name)));
  }

  /** Whether an open group shows its first instance for all. @param {number} g */
  stacks(g) {
    return this.outline.groups[g].kind === "repeat" && !this.maker.folds.spread(`${this.prefix}@${this.outline.groups[g].key}`);
  }

  /** The box in which what lies in a group is drawn, or the closed group that stands for it; drawn where they were not. @param {number} g @returns {{box: string, fold: string}} */
  state(g) {
    if (g < 0) return { box: this.box, fold: "" };
    const known = this.states[g];
    if (known) return known;
    const group = this.outline.groups[g];
    const above = this.state(group.parent);
    if (above.fold) return (this.states[g] = above);
    if (group.parent >= 0 && this.stacks(group.parent)) return (this.states[g] = above); // a first instance has no frame of its own
    const key = `${this.prefix}@${group.key}`;
    const canOpen = !group.hidden || group.children.length > 0;
    const state = canOpen && this.maker.folds.open(key) ? { box: key, fold: "" } : { box: above.box, fold: key };
    const { scene } = this.maker;
    if (!state.fold) scene.groups.set(key, { label: group.label, kind: /** @type {GroupKind} */ (group.kind), parent: above.box, item: null, count: 0, stack: group.stack, marks: noTally(), weight: noWeight() });
    else this.maker.addNode(key, groupItem(key, group.label, this.pathOf(g), group.stack), above.box, { fold: canOpen ? key : "", stack: group.stack, count: 0, plain: true });
    return (this.states[g] = state);
  }

  /** The names of a group and of those around it. @param {number} g */
  pathOf(g) {
    const names = [];
    for (; g >= 0; g = this.outline.groups[g].parent) names.unshift(this.outline.groups[g].label);
    return names.join(" / ");
  }

  /** The op that is drawn for an op: itself, or its like in the first instance of a repeat; or else the key of the closed group that stands for it ("" for none). @param {number} k @returns {number | string} */
  drawnFor(k) {
    const { groups } = this.outline;
    let at = k;
    for (let again = true; again; ) {
      again = false;
      const alike = this.outline.alike.get(at);
      if (alike !== undefined && alike >= 0) return this.restOf(alike, k);
      if (alike !== undefined) at = -2 - alike;
      const chain = around(this.outline, at);
      // an instance that is not told of: the first stands for it
      if (chain.length && groups[chain[0]].kind === "repeat" && !this.state(chain[0]).fold && this.stacks(chain[0])) {
        this.lost = this.state(chain[0]).box;
        return "";
      }
      for (let n = chain.length - 1; n > 0 && !again; n -= 1) {
        const [g, instance] = [chain[n], chain[n - 1]];
        if (groups[g].kind !== "repeat" || instance === groups[g].children[0] || this.state(g).fold || !this.stacks(g)) continue;
        const twins = twinsOf(this.outline, g);
        const twin = twins.get(at) ?? -Infinity;
        if (twin < 0) return this.foldFor(chain.slice(0, n), twins, this.state(g).box);
        at = twin;
        again = true;
      }
    }
    return at;
  }

  /** What stands for an op that is in a group with others that are not on the page: the closed group, else the box of all of these. @param {number} g @param {number} k @returns {string} */
  restOf(g, k) {
    const state = this.state(g);
    this.lost = state.box;
    if (state.fold || !this.outline.groups[g].hidden) return state.fold;
    this.rest.set(k, g);
    return "";
  }

  /** The closed group that stands for an op that has no like, "" where none does. @param {number[]} chain of its groups @param {Map<number, number>} twins @param {string} box of the repeat */
  foldFor(chain, twins, box) {
    this.lost = box;
    for (const g of chain) {
      const twin = twins.get(-1 - g) ?? -Infinity;
      if (twin === -Infinity) continue;
      const state = this.state(-1 - twin);
      this.lost = state.box;
      return state.fold;
    }
    return "";
  }

  /** The open groups around a box, up to the computation: they hold the same whatever is open in them. @param {string} box @returns {import("./scene.js").SceneGroup[]} */
  groupsAround(box) {
    let out = this.around.get(box);
    if (out) return out;
    const { groups } = this.maker.scene;
    this.around.set(box, (out = []));
    for (let g = groups.get(box); g && box !== this.box; [box, g] = [g.parent, groups.get(g.parent)]) out.push(g);
    return out;
  }

  /** Draw nodes and groups. @param {boolean} isEntry */
  addNodes(isEntry) {
    const { maker, outline, prefix } = this;
    const later = [];
    for (let k = 0; k < outline.items.length; k += 1) {
      const item = outline.items[k];
      const role = this.role(k);
      const drawn = role === "i" || role === "o" ? k : this.drawnFor(k);
      const state = typeof drawn === "string" ? { box: "", fold: drawn } : this.state(outline.member[drawn]);
      this.twins[k] = typeof drawn === "string" ? -1 : drawn;
      this.boxes[k] = state.fold ? maker.scene.nodes.get(state.fold)?.group || "" : typeof drawn === "string" ? this.lost : state.box;
      if (role !== "i" && role !== "o") this.countAround(k, this.boxes[k]);
      if (outline.roles[k] !== ".") maker.scene.inlined.add(item.n);
      let key = state.fold || (typeof drawn === "string" ? "" : prefix + maker.keyOf(outline.items[drawn]));
      if (role === "i" || role === "o") {
        key = isEntry || maker.folds.all ? prefix + item.n : "";
        if (key) maker.addNode(key, item, this.box, { port: isEntry ? (role === "i" ? "in" : "out") : "" });
      } else if (this.rest.has(k)) key = `${prefix}@${outline.groups[this.rest.get(k) || 0].key}…`;
      else if (state.fold) this.countInto(state.fold, k);
      else if (drawn !== k) {
        if (role === ".") later.push(k);
      } else if (role === ".") {
        this.addOp(k, key, state.box);
        if (outline.roles[k] !== "." && !maker.folds.all) maker.scene.told = true;
      }
      else key = "";
      this.keys[k] = key;
      for (const name of [item.n, maker.keyOf(item)]) if (key && !maker.scene.where.has(name)) maker.scene.where.set(name, key);
    }
    for (const k of later) {
      const first = maker.scene.nodes.get(this.keys[k]) || maker.scene.groups.get(this.keys[k]);
      if (!first) continue;
      if (maker.callees(outline, k).length) first.count += maker.opsOf(outline, k);
      maker.count(first, outline, k, this.times);
    }
    this.addHidden();
  }

  /** @param {number} k @param {string} box */
  countAround(k, box) {
    for (const group of this.groupsAround(box)) {
      group.count += this.maker.opsOf(this.outline, k);
      this.maker.count(group, this.outline, k, this.times);
    }
  }

  /** @param {number} k @param {string} key @param {string} group */
  addOp(k, key, group) {
    const { maker, outline } = this;
    const item = outline.items[k];
    const kind = CALLERS.get(item.o) || (item.f.startsWith("tf") ? "call" : "");
    const callees = kind && this.depth < MAX_DEPTH ? maker.callees(outline, k) : [];
    if (callees.length && maker.folds.open(key)) {
      this.opened.set(k, callees);
      for (const c of callees) maker.claim(c);
      const box = { label: item.o === "fusion" ? `${item.n}  ${item.v || ""}`.trim() : `${item.h[0]}${item.h[1]}`, kind: /** @type {GroupKind} */ (kind), parent: group, item, count: maker.opsOf(outline, k), stack: 1, marks: noTally(), weight: noWeight() };
      maker.scene.groups.set(key, box);
      maker.count(box, outline, k, this.times);
      return;
    }
    const node = maker.addNode(key, item, group, { fold: callees.length ? key : "" });
    if (callees.length) node.count = maker.opsOf(outline, k);
    if (maker.marks) for (const c of callees) this.placeInside(c, key);
    maker.count(node, outline, k, this.times);
  }

  /** Say of the ops in a closed call what stands for them. @param {string} name of the computation @param {string} key */
  placeInside(name, key, depth = 0) {
    if (this.maker.claimed.has(name)) return; // an open call before this one shows it
    const outline = /** @type {Outline} */ (this.maker.all.get(name));
    outline.items.forEach((item, k) => {
      if (!this.maker.scene.where.has(item.n)) this.maker.scene.where.set(item.n, key);
      if (outline.roles[k] !== ".") this.maker.scene.inlined.add(item.n);
      if (depth < MAX_DEPTH) for (const c of this.maker.callees(outline, k)) this.placeInside(c, key, depth + 1);
    });
  }

  /** @param {string} fold @param {number} k */
  countInto(fold, k) {
    const node = this.maker.scene.nodes.get(fold);
    if (!node) return;
    node.count += this.maker.opsOf(this.outline, k);
    this.maker.count(node, this.outline, k, this.times);
    if (this.maker.marks) for (const c of this.maker.callees(this.outline, k)) this.placeInside(c, fold);
    if (node.item.fold !== undefined) node.item.fold = node.count;
    if (node.plain && (SOUGHT.test(this.outline.items[k].f) || CALLERS.has(this.outline.items[k].o))) node.plain = false;
  }

  /** What is not on the page, as nodes by group or counted into the op that stands for it. */
  addHidden() {
    const { maker, outline } = this;
    const { nodes, groups } = maker.scene;
    for (const [end, row] of maker.hiddenOf(outline)) {
      const [group, state] = end < 0 ? [null, null] : [outline.groups[end], this.state(end)];
      const key = group ? state?.fold || `${this.prefix}@${group.key}…` : this.keys[-2 - end];
      for (const around of this.groupsAround(!group ? this.boxes[-2 - end] : state?.fold ? nodes.get(state.fold)?.group || "" : state?.box || "")) addRow(around, row, true);
      if (group && !state?.fold && (!group.hidden || (group.kind === "repeat" && this.stacks(end)))) continue;
      if (group && !nodes.has(key)) maker.addNode(key, groupItem(key, group.hidden?.[3] || group.label, `in ${this.pathOf(end)}, not on this page`), state?.box || "", { count: 0 });
      const box = nodes.get(key) || groups.get(key);
      if (box) addRow(box, row, Boolean(group) || ("fold" in box && box.fold !== "") || groups.has(key));
    }
    for (const k of this.rest.keys()) {
      const node = nodes.get(this.keys[k]);
      if (!node) continue;
      node.count += maker.opsOf(outline, k);
      maker.count(node, outline, k, this.times);
    }
    for (const g of outline.groups) {
      const node = g.hidden ? nodes.get(`${this.prefix}@${g.key}…`) || nodes.get(`${this.prefix}@${g.key}`) : null;
      if (node) [node.item.fold, node.item.h[2]] = [node.count, plural(node.count, "op")];
    }
  }

  /** Draw the edges, and what is in open computations. @param {Ends[] | null} given @returns {Ends} */
  connect(given) {
    const { maker, outline } = this;
    /** @type {Ends[]} */
    const ends = [];
    let root = /** @type {Ends} */ ([]);
    let parameters = 0;
    /** @type {Ends[]} */
    const results = [];
    for (let k = 0; k < outline.items.length; k += 1) {
      const item = outline.items[k];
      const role = this.role(k);
      const sources = (item.p || []).map((p) => this.at.get(p) ?? -1);
      if (role === "i") ends[k] = given === null ? [this.keys[k]] : this.parameter(k, given, (parameters += 1) - 1);
      else if (role === "q") ends[k] = [];
      else if (role === "p") ends[k] = this.passed(item, sources, ends);
      else if (role === "o" && given !== null && !maker.folds.all) ends[k] = item.o === "tuple" ? { t: sources.map((s) => ends[s] || []) } : ends[sources[0]] || [];
      else if (this.opened.has(k)) ends[k] = this.open(k, sources, ends);
      else ends[k] = this.edgesInto(k, item, sources, ends);
      if (role === "o") results.push(ends[k]);
      if (item.r || k === outline.items.length - 1) root = ends[k];
    }
    this.edgesAcross();
    return results.length > 1 || (results.length && outline.items[0].f.startsWith("tf")) ? { t: results } : root;
  }

  /** @param {number} k @param {Ends[]} given @param {number} count of parameters before @returns {Ends} */
  parameter(k, given, count) {
    const item = this.outline.items[k];
    const source = given[item.o === "parameter" ? Number(item.v || 0) : count] || [];
    if (!this.keys[k]) return source;
    for (const from of flat(source)) this.maker.addEdge(from, this.keys[k], bytesOf(item.s));
    return [this.keys[k]];
  }

  /** What an op that is drawn as an edge hands on. @param {Item} item @param {number[]} sources @param {Ends[]} ends @returns {Ends} */
  passed(item, sources, ends) {
    if (item.o === "tuple") return { t: sources.map((s) => ends[s] || []) };
    if (item.o === "NoOp") sources = (item.cp || []).map((p) => this.at.get(p) ?? -1);
    const source = ends[sources[0]] || [];
    if (item.o === "get-tuple-element" && !Array.isArray(source)) return source.t[Number(item.v || 0)] || [];
    return sources.length > 1 ? [...new Set(sources.flatMap((s) => flat(ends[s])))] : source;
  }

  /** @param {number} k @param {Item} item @param {number[]} sources @param {Ends[]} ends @returns {Ends} */
  edgesInto(k, item, sources, ends) {
    const { maker, outline } = this;
    const key = this.keys[k];
    const twin = this.twins[k];
    if (!key) return [];
    if (twin !== k && twin >= 0 && this.opened.has(twin)) return ends[twin] || [];
    const node = maker.scene.nodes.get(key);
    const control = (item.cp || []).map((p) => this.at.get(p) ?? -1);
    for (const s of new Set([...sources, ...control])) {
      if (s < 0) continue;
      const other = outline.items[s];
      if (outline.roles[s] === "q" && this.role(s) === "q") {
        if (node && !node.item.fold && twin === k) node.operands.push({ text: inlined(s, outline, this.at), name: other.n });
      } else if (!this.crosses(s, k)) for (const from of flat(ends[s])) maker.addEdge(from, key, bytesOf(other.s));
    }
    return [key];
  }

  /** Whether two ops lie in two instances of a repeat that is drawn once. @param {number} a @param {number} b */
  crosses(a, b) {
    if (this.outline.member[a] === this.outline.member[b] || (this.twins[a] === a && this.twins[b] === b)) return false;
    const { groups } = this.outline;
    const [up, down] = [around(this.outline, a), around(this.outline, b)];
    const inside = new Set(down);
    const meet = up.findIndex((g) => inside.has(g));
    if (meet < 0 || groups[up[meet]].kind !== "repeat") return false;
    // what is drawn for it lies as deep as itself; where neither has a like, the two instances differ
    const [own, at] = this.twins[a] >= 0 ? [a, meet] : [b, down.indexOf(up[meet])];
    const drawn = this.twins[own] < 0 ? [] : around(this.outline, this.twins[own]);
    const outermost = /** @type {number} */ (up.findLast((g) => groups[g].kind === "repeat"));
    const repeat = drawn[drawn.length - around(this.outline, own).length + at] ?? outermost;
    return !this.state(repeat).fold && this.stacks(repeat);
  }

  /** Draw the computations that an op calls in its place. @param {number} k @param {number[]} sources @param {Ends[]} ends @returns {Ends} */
  open(k, sources, ends) {
    const { maker } = this;
    const item = this.outline.items[k];
    const key = this.keys[k];
    const callees = this.opened.get(k) || [];
    const given = sources.map((s) => ends[s] || []);
    /** @type {Ends[]} */
    const roots = [];
    callees.forEach((c, n) => {
      let box = key;
      if (callees.length > 1) {
        const role = item.o === "while" ? ["body", "condition"][n] : `${n}`;
        box = `${key}/${role}`;
        maker.scene.groups.set(box, { label: item.o === "while" ? role : `branch ${role}`, kind: "computation", parent: key, item: null, count: maker.sizeOf(c).ops, stack: 1, marks: { ...maker.sizeOf(c).marks }, weight: noWeight() });
      }
      roots.push(maker.addPart(/** @type {Outline} */ (maker.all.get(c)), box, `${box}/`, item.o === "conditional" ? given.slice(n + 1, n + 2) : given, this.depth + 1, this.times * (this.outline.trips.get(k) || 1)));
    });
    if (item.o === "conditional") return [...new Set(roots.flatMap(flat))];
    const body = callees.findIndex((c) => maker.givesBack(item, c)); // of a while the body, not the condition
    return roots[body] ?? roots[roots.length - 1];
  }

  /** Edges of what is not on the page. */
  edgesAcross() {
    const { scene } = this.maker;
    const keyOf = (/** @type {number} */ end, /** @type {boolean} */ isSource) => {
      if (end < -1) return this.keys[-2 - end] || "";
      const state = this.state(end);
      if (state.fold) return state.fold;
      const key = `${this.prefix}@${this.outline.groups[end].key}`;
      if (this.outline.groups[end].kind !== "repeat" || !this.stacks(end)) return `${key}…`;
      const inside = [...scene.nodes].filter(([, n]) => n.group === key).map(([k]) => k); // of the first instance
      return (isSource ? inside.at(-1) : inside[0]) || "";
    };
    for (const [a, b, bytes, ops] of this.outline.across) {
      const [from, to] = [keyOf(a, true), keyOf(b, false)];
      if (from && to) this.maker.addEdge(from, to, bytes, ops);
    }
  }
}

/** @param {import("./scene.js").SceneNode | import("./scene.js").SceneGroup} box @param {import("./scene.js").HiddenRow} row @param {boolean} counts its ops too */
function addRow(box, { ops, flops, bytes, marks }, counts) {
  if (counts) box.count += ops;
  box.weight.flops += flops;
  box.weight.bytes += bytes;
  box.marks.added += marks.added;
  box.marks.removed += marks.removed;
  box.marks.changed += marks.changed;
}

/** What an inlined op reads as: "0.1", "iota". @param {number} k @param {Outline} outline @param {Map<string, number>} at @returns {string} */
function inlined(k, outline, at) {
  for (let n = 0; n < 40; n += 1) {
    const item = outline.items[k];
    if (!item.p?.length) return shortNumber(item.v || item.o);
    const next = at.get(item.p[0]);
    if (next === undefined) return item.o;
    k = next;
  }
  return outline.items[k].o;
}

/** A number with four digits, as an operand reads: 0.7979, 7.451e-9. @param {string} text @returns {string} */
function shortNumber(text) {
  const short = (/** @type {number} */ x) => (x && Math.abs(x) < 1e-3 ? `${x.toExponential(3)}`.replace(/\.?0+e/, "e") : `${Number(x.toPrecision(4))}`);
  return /^-?\d+\.\d{4,}(e[-+]?\d+)?$|^-?\d+(\.\d+)?e[-+]?\d+$/.test(text) ? short(Number(text)) : text;
}

/** One item that stands for a closed group. @param {string} key @param {string} label @param {string} path of it and of the groups around it @param {number} [stack] @returns {Item} */
function groupItem(key, label, path, stack = 1) {
  return { n: key, o: label, s: "", f: "tf-scope", fold: 0, t: `  ${path}${stack > 1 ? ` × ${stack}` : ""}`, h: [label, "", ""] };
}
