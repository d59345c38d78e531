// What of an artifact is drawn: its ops in groups, open or closed, with what is inlined, what flows and what it costs. Where it is drawn: place().
import { bundled } from "./bundles.js";
import { grouped } from "./dom.js";
import { bytesOf, outlines } from "./outline.js";
import { CALLERS, noTally, noWeight, PartMaker } from "./part.js";
import { drawRim } from "./rim.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./outline.js").Outline} Outline */
/** @typedef {import("./part.js").Ends} Ends */
/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Artifact} Artifact */
/**
 * @typedef {SceneNode & {key: string, x: number, y: number, w: number, h: number, share: number, most?: number}} DrawnNode `share` of the weight of all that is drawn, `most` the largest share
 * @typedef {SceneGroup & {key: string, x: number, y: number, w: number, h: number, fold: string}} DrawnGroup
 * @typedef {{from: string, to: string, points: number[], d?: string, bytes?: number, ops?: number, ends?: [string, string][]}} DrawnEdge between nodes or open groups; `ends` of the edges that it stands for
 * @typedef {{key: string, side: "in" | "out", ends: string[], text: string, x: number, y: number, w: number, h: number}} Stub edges of one node that are not drawn: the keys of their other ends
 * @typedef {{w: number, h: number, nodes: DrawnNode[], edges: DrawnEdge[], groups: DrawnGroup[], note: string, stubs?: Stub[], links?: {from: string, to: string, bytes: number}[], across?: boolean, ghosts?: import("./ghosts.js").Ghost[]}} Sheet `links`: the edges between nodes, however they are drawn; `ghosts`: what a pass removed; `across`: edges lead from left to right
 * @typedef {{open(key: string): boolean, spread(key: string): boolean, all: boolean, focus: string, radius: number, bundles?: import("./bundles.js").Bundles | null}} Folds `all` draws what is inlined or an edge too
 * @typedef {{added: number, removed: number, changed: number}} Tally how many ops a pass added, removed and changed
 * @typedef {{seconds: number | null, flops: number, bytes: number}} Weight `seconds` null where nothing was measured
 * @typedef {{ops: number, flops: number, bytes: number, marks: Tally}} HiddenRow what of a group, or of the ops that one op stands for, is not on the page
 * @typedef {{text: string, name: string}} Operand what is inlined in its user, as "0.1" or "iota", and the name of that op
 * @typedef {{item: Item, group: string, fold: string, operands: Operand[], stack: number, count: number, marks: Tally, weight: Weight, port: "" | "in" | "out", plain?: boolean, heir?: boolean}} SceneNode
 *   a node to draw: `group` the key of the open group it lies in ("" for none), `fold` its own key where it is a closed group (else ""), `stack` how many repeats it stands for (1: itself),
 *   `count` how many ops it holds (1: itself), `port` on the rim of its group, `plain` a closed group of which all moves or maps elements, `heir` what survived of a group: it counts what was removed of that
 * @typedef {"scope" | "repeat" | "fusion" | "call" | "computation" | "cluster" | "flow"} GroupKind
 * @typedef {{label: string, kind: GroupKind, parent: string, item: Item | null, count: number, stack: number, marks: Tally, weight: Weight}} SceneGroup an open group, drawn as a box
 * @typedef {{from: string, to: string, bytes: number, ops: number}} SceneEdge between nodes, by key: the bytes that flow, and how many edges of the program it stands for
 * @typedef {{nodes: Map<string, SceneNode>, groups: Map<string, SceneGroup>, edges: SceneEdge[], path: {key: string, label: string}[], note: string,
 *   where: Map<string, string>, inlined: Set<string>, gone?: string[], told?: boolean}} Scene
 *   what is drawn: keys are stable from pass to pass; `groups` has parents before children; `path` leads from the program (key "") to the group looked at;
 *   `where` gives the key of what is drawn for an op, by the op's name; `gone` are the keys of what a pass removed and was drawn before it; `told`: whether something inlined is drawn as a pass is about it
 */

export const MAX_NODES = 400;
const NOTHING_HIDDEN = [0, 0, 0];
const NO_CALLS = /** @type {string[]} */ ([]);
export const TALLIED = /** @type {(keyof Tally)[]} */ (["added", "removed", "changed"]);

/** @returns {Folds} */
export function noFolds() {
  return { open: () => true, spread: () => false, all: false, focus: "", radius: 2 };
}

/** What is open in the first picture of an artifact. @param {Artifact} artifact @returns {Folds} */
export function givenFolds(artifact) {
  const given = new Set(artifact.o || []);
  return { ...noFolds(), open: (key) => given.has(key) };
}

/** Whether all of an artifact's instructions are in the payload. @param {Artifact} artifact @param {Payload} payload */
export function isWhole(artifact, payload) {
  if (!artifact.c) return false;
  const count = artifact.c.reduce((t, c) => t + payload.chunks[c].i.length, 0);
  return count > 0 && count >= (artifact.n || 0);
}

/**
 * The scene of an artifact.
 * @param {Artifact} artifact @param {Payload} payload @param {Folds} folds what is open, or what is in focus
 * @param {{marks?: import("./store.js").Marks, seconds?: Map<string, number>, plain?: boolean}} [told] what a pass did to which op, and how long each took; `plain`: what is inlined stays so, whatever was done to it
 * @returns {Scene}
 */
export function sceneOf(artifact, payload, folds, told = {}) {
  const all = outlines(artifact, payload);
  const whole = all.get("");
  const entry = whole && folds.bundles ? bundled(whole, folds.bundles) : whole;
  const maker = new SceneMaker(all, folds, told, told.marks?.hidden?.get(artifact), artifact.keys);
  if (!entry) return maker.scene;
  if (folds.focus) addFocus(maker.scene, all, entry, folds, maker);
  else {
    maker.addPart(entry, "", "", null, 0);
    if (!folds.all) drawRim(maker.scene, entry.parameters);
    maker.finish();
  }
  return maker.scene;
}

export class SceneMaker {
  /** @param {Map<string, Outline>} all @param {Folds} folds @param {{marks?: import("./store.js").Marks, seconds?: Map<string, number>, plain?: boolean}} told @param {Map<string, number[][]>} [hidden] marks of what is not on the page @param {Record<string, string>} [given] keys of callers by name, where they are not their names */
  constructor(all, folds, told, hidden, given = {}) {
    this.all = all;
    this.given = given;
    this.folds = folds;
    this.marks = told.marks;
    this.hidden = hidden;
    this.seconds = told.seconds;
    this.plain = Boolean(told.plain);
    /** @type {Map<string, SceneEdge>} */
    this.edges = new Map();
    /** @type {Set<string>} computations that an open call shows, or one in it */
    this.claimed = new Set();
    /** @type {Map<string, Item> | null} who applies each computation that is not drawn */
    this.appliers = null;
    /** @type {Map<string, {ops: number, marks: Tally}>} of each computation */
    this.sizes = new Map();
    /** @type {Scene} */
    this.scene = { nodes: new Map(), groups: new Map(), edges: [], path: [], note: "", where: new Map(), inlined: new Set() };
  }

  /**
   * Draw a computation into a box.
   * @param {Outline} outline @param {string} box @param {string} prefix of the keys in it @param {Ends[] | null} given what its parameters are, null of the entry @param {number} depth @param {number} [times] how often it executes
   * @returns {Ends} what its root is
   */
  addPart(outline, box, prefix, given, depth, times = 1) {
    const part = new PartMaker(this, outline, box, prefix, depth, times);
    part.addNodes(given === null);
    return part.connect(given);
  }

  /** @param {string} key @param {Item} item @param {string} group @param {Partial<SceneNode>} [more] @returns {SceneNode} */
  addNode(key, item, group, more = {}) {
    const node = { item, group, fold: "", operands: [], stack: 1, count: 1, marks: noTally(), weight: noWeight(), port: /** @type {""} */ (""), ...more };
    this.scene.nodes.set(key, node);
    return node;
  }

  /** The computations of which an op is drawn as a box. @param {Outline} outline @param {number} k */
  callees(outline, k) {
    const called = outline.calls.get(k);
    if (!called || !(CALLERS.has(outline.items[k].o) || outline.items[k].f.startsWith("tf"))) return NO_CALLS;
    const found = called.filter((c) => this.all.has(c) && this.all.get(c) !== outline);
    if (outline.items[k].o === "while" && found.length === 2 && !this.givesBack(outline.items[k], found[0])) found.reverse(); // the body before the condition
    return found;
  }

  /** An open call shows a computation, and those that are called in it. @param {string} name */
  claim(name) {
    if (this.claimed.has(name)) return;
    this.claimed.add(name);
    const outline = /** @type {Outline} */ (this.all.get(name));
    for (const k of outline.calls.keys()) for (const c of this.callees(outline, k)) this.claim(c);
  }

  /** Whether a computation gives back what an op does, as the body of a loop. @param {Item} item @param {string} name */
  givesBack(item, name) {
    return Boolean(this.all.get(name)?.items.some((i) => i.r && i.s === item.s));
  }

  /** The key of an op in its computation: its name, or what a loop, call or fusion was called before a pass renamed it. @param {Item} item */
  keyOf(item) {
    return this.given[item.n] ?? item.n;
  }

  /** How many ops one is: of a call those in what it calls, none of what is inlined or an edge. The same whatever is open, in every repeat. @param {Outline} outline @param {number} k */
  opsOf(outline, k) {
    const role = outline.roles[k];
    if (role !== "." && (!this.folds.all || role === "i" || role === "o")) return 0;
    const callees = this.callees(outline, k);
    return callees.length ? Math.max(1, callees.reduce((t, c) => t + this.sizeOf(c).ops, 0)) : 1;
  }

  /** How many ops are in a computation and in what it calls, and what a pass did to them. @param {string} name @returns {{ops: number, marks: Tally}} */
  sizeOf(name) {
    let size = this.sizes.get(name);
    if (size) return size;
    size = { ops: 0, marks: noTally() };
    this.sizes.set(name, size); // a function may call itself
    const outline = /** @type {Outline} */ (this.all.get(name));
    for (const row of this.hiddenOf(outline).values()) {
      size.ops += row.ops;
      for (const m of TALLIED) size.marks[m] += row.marks[m];
    }
    for (let k = 0; k < outline.items.length; k += 1) {
      size.ops += this.opsOf(outline, k);
      if (outline.roles[k] !== "i" && outline.roles[k] !== "o") this.addMarks(size.marks, outline, k);
    }
    return size;
  }

  /** What of a computation is not on the page, by the group, or -2 - op, that stands for it. @param {Outline} outline @returns {Map<number, HiddenRow>} */
  hiddenOf(outline) {
    const rows = /** @type {Map<number, HiddenRow>} */ (new Map());
    const add = (/** @type {number} */ end, /** @type {number[]} */ [ops, flops, bytes], /** @type {number[]} */ [added, removed, changed]) => {
      const { ops: o, flops: f, bytes: b, marks: m } = rows.get(end) || { ...noWeight(), ops: 0, marks: noTally() };
      rows.set(end, { ops: o + ops, flops: f + flops, bytes: b + bytes, marks: { added: m.added + added, removed: m.removed + removed, changed: m.changed + changed } });
    };
    outline.groups.forEach((g, k) => g.hidden && add(k, /** @type {any} */ (g.hidden), NOTHING_HIDDEN));
    for (const [k, ...row] of outline.others) add(-2 - k, row, NOTHING_HIDDEN);
    for (const [end, ...marks] of this.hidden?.get(outline.name) || []) add(end, NOTHING_HIDDEN, marks);
    return rows;
  }

  /** Add what a pass did to an op, and in what it calls. @param {Tally} marks @param {Outline} outline @param {number} k */
  addMarks(marks, outline, k) {
    if (!this.marks) return;
    const name = outline.items[k].n;
    for (const m of TALLIED) {
      if (this.marks[m].has(name)) marks[m] += 1;
      for (const c of [...this.callees(outline, k), ...this.applied(outline, k)]) marks[m] += this.sizeOf(c).marks[m];
    }
  }

  /** The computations that an op applies to elements, as a reduction does: they are not drawn. One that several apply counts for the first. @param {Outline} outline @param {number} k */
  applied(outline, k) {
    if (!this.appliers) {
      this.appliers = new Map();
      for (const o of new Set(this.all.values())) {
        for (const [at, called] of o.calls) {
          const drawn = this.callees(o, at);
          for (const c of called) if (this.all.has(c) && this.all.get(c) !== o && !drawn.includes(c) && !this.appliers.has(c)) this.appliers.set(c, o.items[at]);
        }
      }
    }
    const called = outline.calls.get(k);
    return called ? called.filter((c) => this.appliers?.get(c) === outline.items[k]) : NO_CALLS;
  }

  /** Count an op into what stands for it. @param {SceneNode | SceneGroup} node @param {Outline} outline @param {number} k @param {number} [times] how often it executes */
  count(node, outline, k, times = 1) {
    const { weight } = node;
    this.addMarks(node.marks, outline, k);
    weight.flops += outline.costs[k][0] * times;
    weight.bytes += outline.costs[k][1] * times;
    const seconds = this.seconds?.get(outline.items[k].n);
    if (seconds !== undefined) weight.seconds = (weight.seconds || 0) + seconds;
  }

  /** @param {string} from @param {string} to @param {number} bytes @param {number} [ops] */
  addEdge(from, to, bytes, ops = 1) {
    if (from === to) return;
    const key = `${from}\n${to}`;
    const edge = this.edges.get(key);
    if (edge) {
      edge.bytes += bytes;
      edge.ops += ops;
    } else {
      const fresh = { from, to, bytes, ops };
      this.edges.set(key, fresh);
      this.scene.edges.push(fresh);
    }
  }

  /** Leave out edges of which an end is not drawn. */
  finish() {
    this.scene.edges = this.scene.edges.filter((e) => this.scene.nodes.has(e.from) && this.scene.nodes.has(e.to));
  }
}

/** What is within some steps of one op, in the computation that it stands in. @param {Scene} scene @param {Map<string, Outline>} all @param {Outline} entry @param {Folds} folds @param {SceneMaker} maker */
function addFocus(scene, all, entry, folds, maker) {
  const outline = [...all.values()].find((o) => o.items.some((i) => i.n === folds.focus)) || entry;
  const { items } = outline;
  const byName = new Map(items.map((i) => [i.n, i]));
  /** @type {Map<string, string[]>} */
  const near = new Map(items.map((i) => [i.n, []]));
  for (const i of items) {
    for (const p of [...(i.p || []), ...(i.cp || [])]) {
      if (!byName.has(p)) continue;
      /** @type {string[]} */ (near.get(i.n)).push(p);
      /** @type {string[]} */ (near.get(p)).push(i.n);
    }
  }
  const kept = new Map([[folds.focus, 0]]);
  for (const [name, far] of kept) {
    if (far >= folds.radius) continue;
    for (const n of near.get(name) || []) if (!kept.has(n) && kept.size < MAX_NODES) kept.set(n, far + 1);
  }
  items.forEach((i, k) => {
    if (!kept.has(i.n)) return;
    maker.count(maker.addNode(i.n, i, ""), outline, k);
    scene.where.set(i.n, i.n);
    for (const p of new Set([...(i.p || []), ...(i.cp || [])])) if (kept.has(p)) maker.addEdge(p, i.n, bytesOf(/** @type {Item} */ (byName.get(p)).s));
  });
  scene.note = `${grouped(kept.size)} of ${grouped(items.length)} ops: those within ${folds.radius} ${folds.radius === 1 ? "step" : "steps"} of ${folds.focus}.`;
}
