// What of an artifact is drawn when the reader folds, unfolds or focuses: nodes, boxes within boxes, edges; and their places.
import { layered } from "./layers.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Artifact} Artifact */
/**
 * @typedef {{key: string, item: Item, x: number, y: number, w: number, h: number, fold: string}} DrawnNode
 * @typedef {{key: string, item: Item | null, label: string, kind: string, x: number, y: number, w: number, h: number, fold: string}} DrawnGroup
 * @typedef {{w: number, h: number, nodes: DrawnNode[], edges: {from: string, to: string, points: number[]}[], groups: DrawnGroup[], note: string}} Sheet
 * @typedef {{open: Set<string>, closed: Set<string>, focus: string, radius: number}} Folds
 * @typedef {{nodes: Map<string, {item: Item, group: string, fold: string}>, groups: Map<string, {label: string, kind: string, parent: string, item: Item | null}>,
 *   edges: [string, string][], note: string}} Scene
 */

export const MAX_NODES = 400;
export const FOLD_GRAPH = 100; // TensorFlow graphs of so many nodes start with their scopes folded
const EXPANDED = new Map([["fusion", "fusion"], ["call", "call"], ["while", "call"], ["conditional", "call"], ["async-start", "call"]]);
const PAD = 14;
const HEAD = 24;

/** @returns {Folds} */
export function noFolds() {
  return { open: new Set(), closed: new Set(), focus: "", radius: 2 };
}

/** Computations of an artifact by name, the entry under "". @param {Artifact} artifact @param {Payload} payload @returns {Map<string, Item[]>} */
export function computations(artifact, payload) {
  const out = new Map();
  for (const c of artifact.c || []) {
    const chunk = payload.chunks[c];
    const head = chunk.h.match(/^(ENTRY )?(?:graph |function )?%?(\S+) [({]/);
    if (!head || !chunk.i.length) continue;
    const items = chunk.i.map((i) => payload.items[i]);
    out.set(head[2], items);
    if (head[1] || (artifact.k === "graph" && !out.has(""))) out.set("", items);
  }
  return out;
}

/** Whether all of an artifact's instructions are in the payload, so that it can be drawn here. @param {Artifact} artifact @param {Payload} payload */
export function isWhole(artifact, payload) {
  if (!artifact.c) return false;
  const count = artifact.c.reduce((t, c) => t + payload.chunks[c].i.length, 0);
  return count > 0 && count >= (artifact.n || 0);
}

/**
 * The scene of an artifact under the reader's folds.
 * @param {Artifact} artifact @param {Payload} payload @param {Folds} folds @param {Set<string>} [only] nothing but these, where there are any
 * @returns {Scene}
 */
export function sceneOf(artifact, payload, folds, only) {
  const all = computations(artifact, payload);
  const entry = all.get("") || [...all.values()].at(-1) || [];
  /** @type {Scene} */
  const scene = { nodes: new Map(), groups: new Map(), edges: [], note: "" };
  if (folds.focus) addFocus(scene, all, entry, folds);
  else if (artifact.k === "graph") addScopes(scene, entry, folds);
  else addComputation(scene, all, entry, "", "", folds, 8);
  if (only?.size) for (const [k, n] of [...scene.nodes]) if (!only.has(n.item.n)) scene.nodes.delete(k);
  if (scene.nodes.size > MAX_NODES) {
    const shown = new Set([...scene.nodes.keys()].slice(-MAX_NODES));
    scene.note = `Showing ${MAX_NODES} of ${scene.nodes.size.toLocaleString("en")} nodes: fold more, or focus on one.`;
    for (const k of [...scene.nodes.keys()]) if (!shown.has(k)) scene.nodes.delete(k);
  }
  return scene;
}

/**
 * @param {Scene} scene @param {Map<string, Item[]>} all @param {Item[]} items @param {string} group @param {string} prefix @param {Folds} folds @param {number} depth
 * @returns {{parameters: string[], root: string}}
 */
function addComputation(scene, all, items, group, prefix, folds, depth) {
  /** @type {Map<string, string>} */
  const ends = new Map();
  /** @type {string[]} */
  const parameters = [];
  let root = "";
  for (const item of items) {
    const key = prefix + item.n;
    const kind = EXPANDED.get(item.o);
    const callees = kind && depth ? (item.c || []).filter((c) => all.has(c)) : [];
    if (callees.length && !folds.closed.has(item.n)) {
      scene.groups.set(key, { label: `${item.n}  ${item.o === "fusion" ? item.v || "" : item.o}`.trim(), kind: kind || "call", parent: group, item });
      let end = "";
      for (const c of callees) {
        let box = key;
        if (callees.length > 1) {
          box = `${key}/${c}`;
          scene.groups.set(box, { label: c, kind: "computation", parent: key, item: null });
        }
        const inner = addComputation(scene, all, /** @type {Item[]} */ (all.get(c)), box, `${box}/`, folds, depth - 1);
        (item.p || []).forEach((p, k) => {
          const to = inner.parameters[Math.min(k, inner.parameters.length - 1)];
          if (ends.has(p) && to) scene.edges.push([/** @type {string} */ (ends.get(p)), to]);
        });
        end = inner.root;
      }
      ends.set(item.n, end);
    } else {
      scene.nodes.set(key, { item, group, fold: callees.length ? item.n : "" });
      ends.set(item.n, key);
      for (const p of new Set(item.p || [])) if (ends.has(p)) scene.edges.push([/** @type {string} */ (ends.get(p)), key]);
      if (item.o === "parameter") parameters[Number(item.v || 0)] = key;
    }
    if (item.r || !root) root = ends.get(item.n) || "";
  }
  return { parameters: parameters.filter((p) => p), root };
}

/** A graph by name scopes, each folded until it is opened. @param {Scene} scene @param {Item[]} items @param {Folds} folds */
function addScopes(scene, items, folds) {
  const paths = scopePaths(items);
  const sizes = scopeSizes(paths.values());
  const shownAs = new Map();
  /** @type {Map<string, Item[]>} */
  const folded = new Map();
  for (const item of items) {
    const parts = (paths.get(item.n) || item.n).split("/");
    let group = "";
    let fold = "";
    for (let d = 1; d < parts.length && !fold; d += 1) {
      const scope = parts.slice(0, d).join("/");
      if ((sizes.get(scope) || 0) < 2) continue;
      if (!folds.open.has(scope)) fold = scope;
      else {
        if (!scene.groups.has(scope)) scene.groups.set(scope, { label: `${scope.slice(group ? group.length + 1 : 0)}/`, kind: "scope", parent: group, item: null });
        group = scope;
      }
    }
    shownAs.set(item.n, fold ? `${fold}/` : item.n);
    if (!fold) scene.nodes.set(item.n, { item, group, fold: "" });
    else if (folded.has(fold)) /** @type {Item[]} */ (folded.get(fold)).push(item);
    else {
      folded.set(fold, [item]);
      scene.nodes.set(`${fold}/`, { item, group, fold });
    }
  }
  for (const [scope, inside] of folded) /** @type {{item: Item}} */ (scene.nodes.get(`${scope}/`)).item = scopeItem(scope, inside);
  const seen = new Set();
  for (const item of items) {
    for (const p of [...(item.p || []), ...(item.cp || [])]) {
      const [a, b] = [shownAs.get(p), shownAs.get(item.n)];
      if (a === undefined || a === b || seen.has(`${a}\n${b}`)) continue;
      seen.add(`${a}\n${b}`);
      scene.edges.push([a, b]);
    }
  }
}

/** Where each node lies, as "scope/name": by its name; a weight, whose scope holds nothing that computes, lies with the layer that alone reads it. @param {Item[]} items */
function scopePaths(items) {
  /** @type {Map<string, string[]>} */
  const readers = new Map();
  const computing = new Set();
  for (const item of items) {
    if (item.p?.length) computing.add(item.n.split("/")[0]);
    for (const p of item.p || []) readers.set(p, [...(readers.get(p) || []), item.n]);
  }
  const paths = new Map();
  for (const { n } of items) {
    const names = readers.get(n) || [];
    const isWeight = n.includes("/") && !computing.has(n.split("/")[0]) && names.length;
    const scope = isWeight ? commonScope(names) : "";
    paths.set(n, scope ? `${scope}/${n.split("/").at(-1)}` : n);
  }
  return paths;
}

/** The deepest scope that holds all of these nodes, "" for the whole graph. @param {string[]} names */
function commonScope(names) {
  let parts = names[0].split("/").slice(0, -1);
  for (const name of names) {
    const other = name.split("/").slice(0, -1);
    const at = parts.findIndex((part, i) => part !== other[i]);
    if (at >= 0) parts = parts.slice(0, at);
  }
  return parts.join("/");
}

/** How many nodes lie in each scope. @param {Iterable<string>} paths */
function scopeSizes(paths) {
  const sizes = new Map();
  for (const path of paths) {
    for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) {
      const scope = path.slice(0, at);
      sizes.set(scope, (sizes.get(scope) || 0) + 1);
    }
  }
  return sizes;
}

/** Whether folding scopes would make a graph smaller. @param {Artifact} artifact @param {Payload} payload */
export function hasScopes(artifact, payload) {
  const items = computations(artifact, payload).get("") || [];
  return items.length >= FOLD_GRAPH && [...scopeSizes(scopePaths(items).values()).values()].some((n) => n > 1);
}

/** One item that stands for a folded scope. @param {string} scope @param {Item[]} inside @returns {Item} */
export function scopeItem(scope, inside) {
  const families = new Map();
  for (const i of inside) families.set(i.o, (families.get(i.o) || 0) + 1);
  const most = [...families].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([o, n]) => (n > 1 ? `${n} ${o}` : o));
  const title = `${scope.split("/").at(-1)}/`;
  const clusters = [...new Set(inside.map((i) => i.g || ""))];
  return { n: `${scope}/`, o: title, s: "", f: "tf-scope", fold: inside.length, t: `  ${scope}/  (${inside.length} nodes: ${most.join(", ")})`, h: [title, "", `${inside.length} nodes`], ...(clusters.length === 1 && clusters[0] ? { g: clusters[0] } : {}) };
}

/** What is within some steps of one op, in the computation that it stands in. @param {Scene} scene @param {Map<string, Item[]>} all @param {Item[]} entry @param {Folds} folds */
function addFocus(scene, all, entry, folds) {
  const items = entry.some((i) => i.n === folds.focus) ? entry : [...all.values()].find((list) => list.some((i) => i.n === folds.focus)) || entry;
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
  for (const i of items) if (kept.has(i.n)) scene.nodes.set(i.n, { item: i, group: "", fold: "" });
  for (const i of items) if (kept.has(i.n)) for (const p of new Set([...(i.p || []), ...(i.cp || [])])) if (kept.has(p)) scene.edges.push([p, i.n]);
  scene.note = `${kept.size.toLocaleString("en")} of ${items.length.toLocaleString("en")} ops: those within ${folds.radius} ${folds.radius === 1 ? "step" : "steps"} of ${folds.focus}.`;
}

/** Width and height of a node's box. @param {Item} item @returns {[number, number]} */
export function nodeSize(item) {
  const [title, rest, below] = item.h;
  return [Math.max(64, Math.min(260, Math.max(7.3 * title.length + 6.6 * rest.length, 6.3 * below.length) + 26)), 42];
}

/**
 * Place a scene: each box by itself, the innermost first.
 * @param {Scene} scene
 * @param {Map<string, number>} [hints] the x that a key had before
 * @returns {Sheet}
 */
export function place(scene, hints) {
  /** @type {Map<string, string>} */
  const parent = new Map();
  /** @type {Map<string, string[]>} */
  const children = new Map([["", []]]);
  for (const [key, g] of scene.groups) {
    parent.set(`g${key}`, g.parent ? `g${g.parent}` : "");
    children.set(`g${key}`, []);
  }
  for (const [key, n] of scene.nodes) parent.set(`n${key}`, n.group ? `g${n.group}` : "");
  for (const [key, up] of parent) children.get(up)?.push(key);
  const chain = (/** @type {string} */ key) => {
    const out = [key];
    while (out[out.length - 1]) out.push(parent.get(out[out.length - 1]) || "");
    return out;
  };
  const edges = scene.edges.filter(([a, b]) => scene.nodes.has(a) && scene.nodes.has(b));
  /** @type {Map<string, [string, string][]>} */
  const lifted = new Map();
  const lifts = edges.map(([a, b]) => {
    const [up, down] = [chain(`n${a}`), chain(`n${b}`)];
    const above = new Set(up.slice(1));
    const meet = down.findIndex((g, i) => i > 0 && above.has(g));
    const [box, from, to] = [down[meet], up[up.indexOf(down[meet], 1) - 1], down[meet - 1]];
    if (!lifted.has(box)) lifted.set(box, []);
    /** @type {[string, string][]} */ (lifted.get(box)).push([from, to]);
    return { box, from, to };
  });
  /** @type {Map<string, import("./layers.js").Placed>} */
  const placed = new Map();
  const size = (/** @type {string} */ key) => {
    if (key[0] === "n") return nodeSize(/** @type {{item: Item}} */ (scene.nodes.get(key.slice(1))).item);
    /** @type {Map<string, [number, number]>} */
    const sizes = new Map((children.get(key) || []).map((c) => [c, size(c)]));
    const inner = new Map((hints ? [...hints] : []).map(([k, x]) => [`n${k}`, x]));
    const p = layered(sizes, lifted.get(key) || [], inner);
    placed.set(key, p);
    const label = key ? 7 * (scene.groups.get(key.slice(1))?.label.length || 0) + 30 : 0;
    return /** @type {[number, number]} */ ([Math.max(p.w, Math.min(label, 260)) + 2 * PAD, p.h + PAD + HEAD + 4]);
  };
  size("");
  return collect(scene, placed, edges, lifts);
}

/**
 * Positions on the sheet, and the edges' points.
 * @param {Scene} scene @param {Map<string, import("./layers.js").Placed>} placed @param {[string, string][]} edges @param {{box: string, from: string, to: string}[]} lifts
 * @returns {Sheet}
 */
function collect(scene, placed, edges, lifts) {
  /** @type {Map<string, import("./layers.js").Box>} */
  const at = new Map();
  const origin = new Map([["", [0, 0]]]);
  const visit = (/** @type {string} */ box) => {
    const [dx, dy] = /** @type {number[]} */ (origin.get(box));
    for (const [key, b] of /** @type {import("./layers.js").Placed} */ (placed.get(box)).boxes) {
      at.set(key, { x: b.x + dx, y: b.y + dy, w: b.w, h: b.h });
      if (key[0] === "g") {
        origin.set(key, [b.x + dx + PAD, b.y + dy + HEAD + 2]);
        visit(key);
      }
    }
  };
  visit("");
  const box = (/** @type {string} */ key) => /** @type {import("./layers.js").Box} */ (at.get(key));
  const nodes = [...scene.nodes].map(([key, n]) => ({ key, item: n.item, ...box(`n${key}`), fold: n.fold }));
  const groups = [...scene.groups].filter(([key]) => at.has(`g${key}`)).map(([key, g]) => ({ key, item: g.item, label: g.label, kind: g.kind, ...box(`g${key}`), fold: g.kind === "computation" ? "" : g.kind === "scope" ? key : g.item?.n || "" }));
  const drawn = edges.map(([from, to], k) => {
    const [a, b] = [box(`n${from}`), box(`n${to}`)];
    const [dx, dy] = /** @type {number[]} */ (origin.get(lifts[k].box));
    const points = [a.x + a.w / 2, a.y + a.h];
    for (const [x, y] of placed.get(lifts[k].box)?.bends.get(lifts[k].from) || []) if (y + dy > a.y + a.h && y + dy < box(lifts[k].to).y) points.push(x + dx, y + dy);
    points.push(b.x + b.w / 2, b.y);
    return { from, to, points };
  });
  const whole = /** @type {import("./layers.js").Placed} */ (placed.get(""));
  return { w: whole.w, h: whole.h, nodes, edges: drawn, groups, note: scene.note };
}

/** The points of an edge, of which only the bends are told, each from the one before. @param {DrawnNode} a @param {DrawnNode} b @param {number[]} bends */
function routed(a, b, bends) {
  const points = [a.x + a.w / 2, a.y + a.h];
  let [x, y] = [0, 0];
  for (let k = 0; k < bends.length; k += 2) {
    x += bends[k];
    y += bends[k + 1];
    points.push(x, y);
  }
  points.push(b.x + b.w / 2, b.y);
  return points;
}

/** A picture that Python laid out, in the same form. @param {import("./store.js").Picture} picture @param {Item[]} items @returns {Sheet} */
export function sheetOf(picture, items) {
  const seen = new Map();
  const nodes = picture.nodes.map(([index, x, y, w, h]) => {
    const item = items[index];
    const times = seen.get(item.n) || 0;
    seen.set(item.n, times + 1);
    return { key: times ? `${item.n}#${times}` : item.n, item, x, y, w, h, fold: EXPANDED.has(item.o) && item.c ? item.n : "" };
  });
  const edges = picture.edges.map(([a, b, ...bends]) => ({ from: nodes[a].key, to: nodes[b].key, points: routed(nodes[a], nodes[b], bends) }));
  const groups = picture.groups.map(([index, label, kind, x, y, w, h]) => ({ key: index >= 0 ? items[index].n : label, item: index >= 0 ? items[index] : null, label, kind, x, y, w, h, fold: index >= 0 && EXPANDED.has(items[index].o) ? items[index].n : "" }));
  return { w: picture.w, h: picture.h, nodes, edges, groups, note: picture.note || "" };
}
