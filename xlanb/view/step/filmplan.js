// Where the marks of a film lie: each in a slot of its group or of the fusion that holds it, so that what a pass leaves alone stands still; anew only where fusion moves many.
import { callsFunction, groupIn, groupsIn, holderOf, isQuiet, itemAt, usersIn } from "./filmlineage.js";

/** @typedef {import("./filmlineage.js").Mark} Mark */
/** @typedef {import("./filmlineage.js").Film} Film */
/** @typedef {import("./filmlineage.js").Frame} Frame */
/** @typedef {{taken: Mark | null, pen: Pen, x: number, y: number}} Slot a cell, by its centre */
/** A group, or what holds its computation's ops: `mark` that op (null: a group). @typedef {{key: string, label: string, depth: number, mark: Mark | null, list: (Slot | Pen)[], up: Pen | null, x: number, y: number, w: number, h: number, head: number}} Pen */
/** @typedef {{from: number, root: Pen, groups: Map<string, Pen>, held: Map<Mark, Pen>, slots: Map<Mark, Slot>, was: Map<Mark, Slot>, beside: Map<Mark, number>, last: number}} Scene `beside` how many specks an op has, `last` the first frame after it */
/** Where a mark is from a frame on: in a slot, as a pen around others, or beside the op that it belongs to. @typedef {{frame: number, scene: Scene, slot: Slot | null, pen: Pen | null, beside: Mark | null, nth: number}} Spot */
/** @typedef {{scenes: Scene[], spots: Map<Mark, Spot[]>}} Slots */

const HOLDERS = new Set(["fusion", "while", "call", "conditional", "async-start"]);
const MOVED = 0.12; // of the marks, beyond which all are placed anew
const FREED = 0.45; // of the slots
const DEPTH = 2; // of groups that are told apart
const INNER = [0.5, 0.75, 1, 1.4, 2]; // shapes of groups that are tried, width by height
const NEAR = 4; // free slots so far along may be taken

/** Whether the ops of its computation are drawn within an op, not as specks beside it. @param {import("./store.js").Item} item */
export function isHull(item) {
  return HOLDERS.has(item.o) || callsFunction(item);
}

/** A slot for every mark, whatever the size of the picture. @param {Film} film @returns {Slots} */
export function slotsOf(film) {
  const slots = /** @type {Slots} */ ({ scenes: [], spots: new Map() });
  film.frames.forEach((frame, f) => {
    const scene = slots.scenes.at(-1);
    const free = scene ? [...scene.slots.values()].filter((s) => !s.taken).length : 0;
    const many = frame.moved.length > Math.max(3, MOVED * frame.order.length);
    if (!scene || many || free > Math.max(12, FREED * scene.slots.size)) begin(slots, frame, f);
    else goOn(slots, scene, frame, f);
  });
  return slots;
}

/** @param {Slots} slots @param {Frame} frame @param {number} f */
function begin(slots, frame, f) {
  const previous = slots.scenes.at(-1);
  if (previous) previous.last = f;
  const root = makePen("", "", 0, null, null);
  const scene = { from: f, root, groups: new Map([["", root]]), held: new Map(), slots: new Map(), was: new Map(), beside: new Map(), last: Infinity };
  slots.scenes.push(scene);
  const waiting = new Map(frame.order.filter((m) => isQuiet(m.item) && !holderOf(m, f)).map((m) => [itemAt(m, f).n, m]));
  const put = (/** @type {Mark} */ m) => {
    for (const p of itemAt(m, f).p || []) {
      const operand = waiting.get(p);
      if (!operand || operand === m) continue;
      waiting.delete(p);
      put(operand);
    }
    settle(slots, scene, frame, m, f, null);
  };
  for (const m of frame.order) if (!waiting.has(itemAt(m, f).n)) put(m);
  for (const m of [...waiting.values()]) if (waiting.delete(itemAt(m, f).n)) put(m);
  const nth = new Map(frame.order.map((m, n) => [m, n]));
  for (const group of new Set(scene.groups.values())) sortGroups(group, nth);
}

/** Let groups follow one another as their ops do on the whole, not as their first ones do. @param {Pen} p @param {Map<Mark, number>} nth */
function sortGroups(p, nth) {
  const sums = (/** @type {Slot | Pen} */ x) => {
    if ("pen" in x) return [nth.get(/** @type {Mark} */ (x.taken)) || 0, 1];
    const all = x.list.map((y) => sums(y));
    return [all.reduce((t, [a]) => t + a, x.mark ? nth.get(x.mark) || 0 : 0), all.reduce((t, [, n]) => t + n, x.mark ? 1 : 0) || 1];
  };
  /** @type {Map<Slot | Pen, number>} */
  const place = new Map();
  let last = 0;
  for (const x of p.list) {
    const [sum, n] = sums(x);
    // a single op stays with what stands before it, which it may have been put before
    if (!("pen" in x) || !isQuiet(/** @type {Mark} */ (x.taken).item)) last = sum / n;
    place.set(x, last);
  }
  p.list.sort((a, b) => (place.get(a) || 0) - (place.get(b) || 0));
}

/** @param {Slots} slots @param {Scene} scene @param {Frame} frame @param {number} f */
function goOn(slots, scene, frame, f) {
  const leave = (/** @type {Mark} */ m) => {
    const slot = scene.slots.get(m);
    if (!slot) return;
    slot.taken = null;
    scene.was.set(m, slot);
  };
  for (const m of [...frame.gone, ...frame.moved]) leave(m);
  for (const m of [...frame.moved, ...frame.added]) if (isHull(m.item)) settle(slots, scene, frame, m, f, anchorOf(scene, frame, m, f));
  for (const m of [...frame.moved, ...frame.added]) if (!isHull(m.item)) settle(slots, scene, frame, m, f, anchorOf(scene, frame, m, f));
}

/** The slot that a new mark would be nearest to. @param {Scene} scene @param {Frame} frame @param {Mark} m @param {number} f */
function anchorOf(scene, frame, m, f) {
  const near = [m, m.from, ...(isHull(m.item) ? heldIn(frame, m, f) : []), ...(itemAt(m, f).p || []).map((p) => frame.names.get(p))];
  for (const o of near) {
    const slot = o && (scene.slots.get(o) || scene.was.get(o));
    if (slot) return slot;
  }
  return null;
}

/** @type {WeakMap<Frame, Map<Mark, Mark[]>>} */
const HELD_IN = new WeakMap();

/** What stands in the computation of an op. @param {Frame} frame @param {Mark} m @param {number} f @returns {Mark[]} */
function heldIn(frame, m, f) {
  let held = HELD_IN.get(frame);
  if (!held) {
    HELD_IN.set(frame, (held = new Map()));
    for (const o of frame.order) {
      const holder = holderOf(o, f);
      if (holder && held.has(holder)) held.get(holder)?.push(o);
      else if (holder) held.set(holder, [o]);
    }
  }
  return held.get(m) || [];
}

/** @param {string} key @param {string} label @param {number} depth @param {Mark | null} mark @param {Pen | null} up @returns {Pen} */
function makePen(key, label, depth, mark, up) {
  return { key, label, depth, mark, list: [], up, x: 0, y: 0, w: 0, h: 0, head: 0 };
}

/** The pen of a group; deep ones are one with what is around them. @param {Scene} scene @param {Frame} frame @param {string} key @param {Slot | null} anchor @returns {Pen} */
function groupPen(scene, frame, key, anchor) {
  const known = scene.groups.get(key);
  if (known) return known;
  const group = groupsIn(frame).get(key);
  if (!group) return scene.root;
  const around = groupPen(scene, frame, group.parent, anchor);
  const own = around.depth >= DEPTH ? around : makePen(key, group.label, around.depth + 1, null, around);
  if (own !== around) insert(around, own, anchor);
  scene.groups.set(key, own);
  return own;
}

/** @param {Pen} into @param {Slot | Pen} what @param {Slot | null} anchor */
function insert(into, what, anchor) {
  /** @type {Slot | Pen | null} */
  let at = anchor;
  while (at && ("pen" in at ? at.pen : at.up) !== into) at = "pen" in at ? at.pen : at.up;
  const k = at ? into.list.indexOf(at) : -1;
  if (k < 0) into.list.push(what);
  else into.list.splice(k + 1, 0, what);
}

/** Give a mark its place from a frame on. @param {Slots} slots @param {Scene} scene @param {Frame} frame @param {Mark} m @param {number} f @param {Slot | null} anchor */
function settle(slots, scene, frame, m, f, anchor) {
  const holder = holderOf(m, f);
  const { beside } = scene;
  const spot = /** @type {Spot} */ ({ frame: f, scene, slot: null, pen: null, beside: null, nth: 0 });
  const spots = slots.spots.get(m);
  if (spots) spots.push(spot);
  else slots.spots.set(m, [spot]);
  if (holder && !isHull(holder.item)) {
    spot.beside = holder;
    spot.nth = beside.get(holder) || 0;
    beside.set(holder, spot.nth + 1);
    return;
  }
  const around = (holder && scene.held.get(holder)) || groupPen(scene, frame, groupOf(frame, m, f), anchor);
  if (isHull(itemAt(m, f))) {
    spot.pen = scene.held.get(m) || makePen(m.name, itemAt(m, f).n, around.depth + 1, m, around);
    if (!scene.held.has(m)) insert(around, spot.pen, anchor);
    scene.held.set(m, spot.pen);
    return;
  }
  const slot = anchor ? freeSlot(around, anchor) : null;
  spot.slot = slot || { taken: m, pen: around, x: 0, y: 0 };
  if (!slot) insert(around, spot.slot, anchor);
  spot.slot.taken = m;
  scene.slots.set(m, spot.slot);
}

/** The group of a mark; what has none lies with what it feeds, or reads. @param {Frame} frame @param {Mark} m @param {number} f */
function groupOf(frame, m, f) {
  const { n, p } = itemAt(m, f);
  const own = groupIn(frame, n);
  if (own) return own;
  const user = isQuiet(m.item) ? usersIn(frame).get(n) : null;
  if (user) return groupIn(frame, itemAt(user, f).n);
  for (const name of p || []) if (groupIn(frame, name)) return groupIn(frame, name);
  return "";
}

/** A free slot of a pen at an anchor, or near. @param {Pen} around @param {Slot} anchor */
function freeSlot(around, anchor) {
  if (anchor.pen !== around) return null;
  if (!anchor.taken) return anchor;
  const k = around.list.indexOf(anchor);
  for (let d = 1; d <= NEAR; d += 1) {
    for (const s of [around.list[k + d], around.list[k - d]]) if (s && "pen" in s && !s.taken) return s;
  }
  return null;
}

// -- how large all that is

/** @typedef {{w: number, h: number, columns: {x: number, w: number, h: number, parts: {x: number, y: number, w: number, h: number, put(x: number, y: number): void}[]}[]}} Packed */

/** Give every slot and pen of a scene its place in a picture of this size; what a cell measures. @param {Scene} scene @param {number} width @param {number} height @param {number} most of a cell */
export function measure(scene, width, height, most) {
  const aspect = width / height;
  let cell = Math.min(most, Math.sqrt((width * height) / Math.max(1, countOf(scene.root))) * 0.8);
  let best = { worth: 0, inner: 1 };
  for (let round = 0; round < 2; round += 1) {
    const tried = (round ? [best.inner] : INNER).map((inner) => {
      const packed = pack(scene.root, 13 / cell, aspect, inner);
      return { worth: Math.min(width / packed.w, height / packed.h), inner };
    });
    best = tried.reduce((a, b) => (b.worth > a.worth ? b : a));
    cell = Math.min(most, best.worth);
  }
  const packed = pack(scene.root, 13 / cell, aspect, best.inner);
  cell = Math.min(cell, width / packed.w, height / packed.h);
  spreadOut(packed, height / cell);
  const [dx, dy] = [(width / cell - packed.w) / 2, Math.max(0, (height / cell - packed.h) / 2)];
  write(scene.root, packed, dx, dy);
  return cell;
}

/** @type {WeakMap<Pen, Packed>} */
const PACKED = new WeakMap();

/** @param {Pen} p @returns {number} */
function countOf(p) {
  return p.list.reduce((n, x) => n + ("pen" in x ? 1 : countOf(x)), 1);
}

/** Pack a pen: what it holds in columns, in order, so that makers stand above users. @param {Pen} p @param {number} line the height of a line of words, in cells @param {number} aspect width by height that is best @param {number} inner the same of the groups within @returns {Packed} */
function pack(p, line, aspect, inner) {
  const parts = partsOf(p, line, inner);
  const area = parts.reduce((t, q) => t + q.w * q.h, 0);
  const tallest = Math.max(1, ...parts.map((q) => q.h));
  let best = /** @type {Packed | null} */ (null);
  let least = Infinity;
  for (const ratio of p.up ? [0.7, 1, 1.4] : [0.55, 0.7, 0.85, 1, 1.15, 1.3, 1.5, 1.8]) {
    const packed = columns(p, parts, Math.max(tallest, Math.sqrt(area / aspect) * ratio), line);
    const worth = p.up ? packed.w * packed.h * (1 + 0.25 * Math.abs(Math.log(packed.w / packed.h / aspect))) : Math.max(packed.w / aspect, packed.h);
    if (worth < least) [best, least] = [packed, worth];
  }
  PACKED.set(p, /** @type {Packed} */ (best));
  return /** @type {Packed} */ (best);
}

/** Runs of slots as blocks, and pens. @param {Pen} p @param {number} line @param {number} inner */
function partsOf(p, line, inner) {
  const parts = [];
  const gap = p.mark ? 0 : 0.3;
  for (let k = 0; k < p.list.length; k += 1) {
    const x = p.list[k];
    if (!("pen" in x)) {
      const { w, h } = pack(x, line, x.mark ? 1.3 : inner, inner);
      parts.push({ w: w + gap, h: h + gap, put: (/** @type {number} */ left, /** @type {number} */ top) => write(x, /** @type {Packed} */ (PACKED.get(x)), left, top) });
      continue;
    }
    const run = [x];
    while (k + 1 < p.list.length && "pen" in p.list[k + 1]) run.push(/** @type {Slot} */ (p.list[(k += 1)]));
    const rows = Math.max(1, Math.ceil(Math.sqrt(run.length * (p.mark ? 0.8 : 1.3 / inner))));
    const put = (/** @type {number} */ left, /** @type {number} */ top) => run.forEach((s, n) => Object.assign(s, { x: left + Math.floor(n / rows) + 0.5, y: top + (n % rows) + 0.5 }));
    parts.push({ w: Math.ceil(run.length / rows), h: Math.min(rows, run.length), put });
  }
  return parts;
}

/** @param {Pen} p @param {{w: number, h: number, put(x: number, y: number): void}[]} parts @param {number} tall how high a column may be @param {number} line @returns {Packed} */
function columns(p, parts, tall, line) {
  const pad = !p.up ? 0 : p.mark ? 0.18 : 0.3;
  const count = countOf(p);
  p.head = p.up && p.label && ((p.mark && line < 1 && count > 3) || (!p.mark && count > 5)) ? line : 0;
  const out = /** @type {Packed["columns"]} */ ([]);
  let column = /** @type {Packed["columns"][number] | null} */ (null);
  let x = pad;
  for (const q of parts) {
    if (!column || (column.h > 0 && column.h + q.h > tall + 0.01)) {
      if (column) x += column.w + 0.15;
      out.push((column = { x, w: 0, h: 0, parts: [] }));
    }
    column.parts.push({ ...q, x, y: column.h });
    column.h += q.h;
    column.w = Math.max(column.w, q.w);
  }
  const h = Math.max(0.6, ...out.map((c) => c.h));
  for (const c of out) for (const q of c.parts) q.y += pad + p.head;
  return { w: x + (column?.w || 0.6) + pad, h: h + 2 * pad + p.head, columns: out };
}

/** Let the columns of the whole fill its height. @param {Packed} packed @param {number} height */
function spreadOut(packed, height) {
  const most = Math.min(height, packed.h * 1.12);
  for (const c of packed.columns) {
    const gap = Math.max(0, most - c.h) / (c.parts.length + 1);
    c.parts.forEach((q, k) => (q.y += Math.min(gap, 0.8) * k + (most - c.h - Math.min(gap, 0.8) * (c.parts.length - 1)) / 2));
    for (const q of c.parts) q.x += (c.w - q.w) / 2;
  }
  packed.h = most;
}

/** @param {Pen} p @param {Packed} packed @param {number} x @param {number} y */
function write(p, packed, x, y) {
  Object.assign(p, { x, y, w: packed.w, h: packed.h });
  for (const c of packed.columns) for (const q of c.parts) q.put(x + q.x, y + q.y);
}
