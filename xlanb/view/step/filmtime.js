// What stands where at each moment of a film: the stages in time, the places of all marks before and after each, and the kernels at the end as bars.
import { grouped, time } from "./dom.js";
import { holderOf, isQuiet } from "./filmlineage.js";
import { isHull, measure } from "./filmplan.js";

/** @typedef {import("./filmlineage.js").Mark} Mark */
/** @typedef {import("./filmlineage.js").Film} Film */
/** @typedef {import("./filmlineage.js").Frame} Frame */
/** @typedef {import("./filmplan.js").Spot} Spot */
/** @typedef {{stage: number, from: number, to: number, start: number, end: number}} Shot from one frame to the next, in seconds */
/** A stage on the scrubber: when it begins, when it is over, how much it changed. @typedef {{stage: number, start: number, at: number, size: number}} Tick */
/** @typedef {{shots: Shot[], ticks: Tick[], total: number, ending: number}} Timeline `ending` when the kernels stand */
/** @typedef {{mark: Mark, name: string, value: number, text: string, parts: Mark[]}} Kernel */
/** @typedef {{kernels: Kernel[], measured: boolean, note: string}} Kernels */
/** Where all marks are in one frame: five numbers each: x, y, radius (0: it is not there), width and height of a hull. @typedef {Float32Array} Places */
/** @typedef {{x: number, y: number, w: number, h: number}} Box */
/** @typedef {{field: Box, count: number, at(f: number): Places, labels: {pen: import("./filmplan.js").Pen, from: number, to: number, depth: number, label: string, box: Box, head: number}[], pens(f: number): Set<object>, bars: {kernel: Kernel | null, name: string, text: string, box: Box}[], heads: Map<Mark, number>[], name: number}} Plan `at` the places in a frame, of `count`; `heads` by frame how high the line of a hull's name is */

const OPENING = 0.9;
const ENDING = 2.6;
const WINK = 0.012;
const FILM_SECONDS = 26; // seconds that a film takes by itself
const CELL = 46; // pixels of a mark's cell, at most
const ROW = 25; // the least height of a kernel's bar with its name

/** What a stage counts as changed: what the list of passes says. @param {import("./store.js").Stage} stage */
export function changesOf(stage) {
  const [added, removed, changed] = stage.n || [0, 0, 0];
  return added + removed + changed;
}

/** @param {Film} film @param {import("./store.js").Trace} trace @param {Set<number>} anew frames in which all is placed anew @param {boolean} hasEnd whether the kernels are shown @returns {Timeline} */
export function timelineOf(film, trace, anew, hasEnd) {
  const shots = /** @type {Shot[]} */ ([]);
  const ticks = /** @type {Tick[]} */ ([]);
  const byStage = new Map(film.frames.map((f, k) => [f.stage, k]));
  const first = film.frames[0]?.stage ?? 0;
  const lengths = film.frames.map((f, k) => (k && f.added.length + f.gone.length + f.changed.length + f.moved.length ? Math.min(2, Math.max(anew.has(k) ? 1.7 : 0, 0.65 + 0.2 * Math.log2(1 + changesOf(trace.stages[f.stage])))) : 0));
  const pause = 0.3;
  const natural = lengths.reduce((t, x) => t + (x ? x + pause : 0), 0);
  const pace = Math.min(1, Math.max(4, FILM_SECONDS - OPENING - ENDING - 2) / Math.max(1e-9, natural));
  let now = OPENING;
  trace.stages.forEach((stage, k) => {
    if (k < first) return;
    const f = byStage.get(k) ?? -1;
    const start = now;
    if (f > 0 && lengths[f]) {
      shots.push({ stage: k, from: f - 1, to: f, start, end: start + lengths[f] * pace });
      now += (lengths[f] + pause) * pace;
    } else if (f > 0) shots.push({ stage: k, from: f - 1, to: f, start, end: (now += WINK) });
    else if (k > first) now += WINK;
    ticks.push({ stage: k, start: k === first ? 0 : start, at: k === first ? 0 : shots.at(-1)?.stage === k ? /** @type {Shot} */ (shots.at(-1)).end : start, size: k === first ? 0 : changesOf(stage) || (stage.ch ? 1 : 0) });
  });
  let ending = now;
  if (hasEnd) {
    ending = now + 2.1;
    shots.push({ stage: trace.stages.length - 1, from: film.frames.length - 1, to: film.frames.length, start: now, end: ending });
    const last = ticks.at(-1);
    if (last && last.stage > (film.frames.at(-1)?.stage ?? 0)) Object.assign(last, { start: now, at: ending });
  }
  return { shots, ticks, total: ending + (hasEnd ? ENDING : 1.2), ending };
}

/** The frames before and after a moment, and how far it is from one to the other. @param {Timeline} timeline @param {number} t @returns {{from: number, to: number, u: number, shot: Shot | null}} */
export function momentAt(timeline, t) {
  let shot = null;
  for (const x of timeline.shots) if (x.start <= t) shot = x;
  if (!shot) return { from: 0, to: 0, u: 0, shot: null };
  if (t >= shot.end) return { from: shot.to, to: shot.to, u: 0, shot };
  return { from: shot.from, to: shot.to, u: (t - shot.start) / (shot.end - shot.start), shot };
}

/** The stage that a moment belongs to. @param {Timeline} timeline @param {number} t @returns {Tick | undefined} */
export function tickAt(timeline, t) {
  let found = timeline.ticks[0];
  for (const x of timeline.ticks) if (x.start <= t + 1e-6) found = x;
  return found;
}

// -- the kernels at the end

/** The kernels of the program as it is in the end, the slowest first: as they were measured, else as the cost model estimates. @param {Film} film @param {import("./store.js").Store} store @param {import("./store.js").Trace} trace @returns {Kernels} */
export function kernelsOf(film, store, trace) {
  const frame = film.frames.at(-1);
  const none = { kernels: [], measured: false, note: "" };
  if (!frame || trace.live) return none;
  const f = film.frames.length - 1;
  const parts = partsOfHolders(frame, f);
  const last = trace.stages.length - 1;
  const run = store.latest(trace, last, "execution");
  const gpu = store.latest(trace, last, "gpu");
  /** @type {Map<Mark, number>} */
  const values = new Map();
  const take = (/** @type {string} */ name, /** @type {number | null} */ seconds) => {
    const mark = frame.names.get(name);
    if (mark && seconds) values.set(mark, (values.get(mark) || 0) + seconds);
  };
  for (const [, op, seconds] of run?.kernels || []) take(op, seconds);
  if (!values.size) for (const k of gpu?.kernels || []) take(k.op, (k.row[1] || 0) * (k.row[0] || 1));
  const timed = values.size > 0;
  if (!timed) {
    const coded = new Set(trace.stages.flatMap((s) => (store.artifact(s.a)?.k === "code" ? store.artifact(s.a)?.ops || [] : [])).map((/** @type {any[]} */ o) => o[1]).filter((/** @type {string} */ n) => frame.names.has(n)));
    for (const m of frame.order) {
      const isKernel = !isQuiet(m.item) && !["while", "call", "conditional"].includes(m.item.o) && !within(m, f) && (!coded.size || coded.has(m.name));
      if (isKernel && m.work > 0) values.set(m, m.work);
    }
  }
  const total = [...values.values()].reduce((t, v) => t + v, 0) || 1;
  const kernels = [...values].sort((a, b) => b[1] - a[1]).map(([mark, value]) => ({ mark, name: mark.name, value, text: timed ? time(value) : share(value / total), parts: isHull(mark.item) ? parts.get(mark) || [] : [mark] }));
  return { kernels, measured: Boolean(run && timed), note: run && timed ? `${time(total)} measured` : gpu && timed ? `${time(total)} estimated` : "shares by the cost model" };
}

/** @param {number} x */
function share(x) {
  return x < 0.001 ? "<0.1 %" : `${Number((x * 100).toPrecision(2))} %`;
}

/** Whether a mark stands in a fusion, or beside an op. @param {Mark} m @param {number} f */
function within(m, f) {
  for (let h = holderOf(m, f); h; h = holderOf(h, f)) if (!["while", "call", "conditional"].includes(h.item.o)) return true;
  return false;
}

/** All that stands within each hull. @param {Frame} frame @param {number} f @returns {Map<Mark, Mark[]>} */
function partsOfHolders(frame, f) {
  const parts = new Map();
  for (const m of frame.order) {
    if (isHull(m.item)) continue;
    for (let h = holderOf(m, f); h; h = holderOf(h, f)) {
      if (!parts.has(h)) parts.set(h, []);
      parts.get(h).push(m);
    }
  }
  return parts;
}

// -- places

/** How large a mark is drawn, in cells: by what it costs, next to the costliest. @param {Mark} m @param {number} most */
function radiusOf(m, most) {
  if (m.item.o === "constant" || m.item.o === "tuple" || m.item.o === "get-tuple-element" || m.item.o === "bitcast") return 0.14;
  if (m.item.o === "parameter") return 0.2;
  return 0.25 + 0.21 * Math.sqrt(Math.min(1, m.cost / (most || 1)));
}

/**
 * The places of all marks in every frame, for a picture of this size.
 * @param {Film} film @param {import("./filmplan.js").Slots} slots @param {Kernels} kernels @param {Box} field @returns {Plan}
 */
export function planOf(film, slots, kernels, field) {
  const plan = /** @type {any} */ ({ field, count: 0, labels: [], bars: [], heads: [], name: 0 });
  const most = Math.max(...film.marks.map((m) => (isHull(m.item) ? 0 : m.cost)), 0);
  const makers = /** @type {(() => Places)[]} */ ([]);
  for (const scene of slots.scenes) {
    const cell = measure(scene, field.w, field.h, CELL);
    const until = Math.min(scene.last, film.frames.length);
    const spots = frozenSpots(scene);
    for (const group of new Set(scene.groups.values())) {
      if (group.up && group.list.length) plan.labels.push({ pen: group, from: scene.from, to: until, depth: group.depth, label: group.label, box: { x: field.x + group.x * cell, y: field.y + group.y * cell, w: group.w * cell, h: group.h * cell }, head: group.head * cell });
    }
    const heads = new Map([...scene.held].filter(([, p]) => p.head * cell >= 9).map(([m, p]) => [m, p.head * cell]));
    for (let f = scene.from; f < until; f += 1) {
      plan.heads.push(heads);
      makers.push(() => placesIn(film, slots, spots, f, cell, field, most));
    }
  }
  if (kernels.kernels.length) {
    const bars = barPlaces(film, kernels, plan);
    makers.push(() => bars);
  }
  const made = /** @type {Places[]} */ ([]);
  plan.count = makers.length;
  const lived = /** @type {Set<object>[]} */ ([]);
  plan.pens = (f) => (lived[f] = lived[f] || pensIn(film, slots, f));
  plan.at = (f) => (made[f] = made[f] || makers[f]());
  return plan;
}

/** The groups that hold something in a frame. @param {Film} film @param {import("./filmplan.js").Slots} slots @param {number} f @returns {Set<object>} */
function pensIn(film, slots, f) {
  const out = new Set();
  for (const m of film.frames[f]?.order || []) {
    const spot = spotIn(slots, m, f);
    for (let pen = spot?.slot?.pen || spot?.pen?.up || null; pen && !out.has(pen); pen = pen.up) out.add(pen);
  }
  return out;
}

/** @param {import("./filmplan.js").Slots} slots @param {Mark} m @param {number} f @returns {Spot | null} */
function spotIn(slots, m, f) {
  const spots = slots.spots.get(m) || [];
  let n = spots.length - 1;
  while (n >= 0 && spots[n].frame > f) n -= 1;
  return n < 0 ? null : spots[n];
}

/** @typedef {{x: number, y: number, w: number, h: number}} Frozen */

/** Where slots and pens lie now: another picture of the same film measures them anew. @param {import("./filmplan.js").Scene} scene @returns {Map<object, Frozen>} */
function frozenSpots(scene) {
  const out = new Map();
  const walk = (/** @type {import("./filmplan.js").Pen} */ pen) => {
    out.set(pen, { x: pen.x + pen.w / 2, y: pen.y + pen.h / 2, w: pen.w, h: pen.h });
    for (const x of pen.list) {
      if ("pen" in x) out.set(x, { x: x.x, y: x.y, w: 0, h: 0 });
      else walk(x);
    }
  };
  walk(scene.root);
  return out;
}

/** @param {Film} film @param {import("./filmplan.js").Slots} slots @param {Map<object, Frozen>} frozen @param {number} f @param {number} cell @param {Box} field @param {number} most @returns {Places} */
function placesIn(film, slots, frozen, f, cell, field, most) {
  const out = new Float32Array(film.marks.length * 5);
  for (const m of film.frames[f].order) {
    const spot = spotIn(slots, m, f);
    const own = frozen.get(spot?.pen || spot?.slot || spot || m);
    const at = m.id * 5;
    if (own) {
      out[at] = field.x + own.x * cell;
      out[at + 1] = field.y + own.y * cell;
      out[at + 2] = own.w ? 1 : Math.max(1.3, radiusOf(m, most) * cell);
      out[at + 3] = own.w * cell;
      out[at + 4] = own.h * cell;
    } else if (spot?.beside) {
      const base = frozen.get(spotIn(slots, spot.beside, f)?.slot || m);
      if (!base) continue;
      const turn = spot.nth * 0.9;
      out.set([field.x + (base.x + 0.36 * Math.cos(turn)) * cell, field.y + (base.y + 0.36 * Math.sin(turn)) * cell, Math.max(0.8, 0.07 * cell), 0, 0], at);
    }
  }
  return out;
}

/** @param {Film} film @param {Kernels} told @param {Plan} plan @returns {Places} */
function barPlaces(film, told, plan) {
  const out = new Float32Array(film.marks.length * 5);
  const { field } = plan;
  const rows = Math.max(1, Math.min(told.kernels.length, Math.floor(field.h / ROW)));
  const shown = told.kernels.slice(0, told.kernels.length > rows ? rows - 1 : rows);
  const rest = told.kernels.slice(shown.length);
  const pitch = Math.min(36, field.h / rows);
  const top = field.y + (field.h - pitch * rows) / 2;
  plan.name = Math.min(210, field.w * 0.27);
  const room = field.w - plan.name - 86;
  const sum = rest.reduce((t, k) => t + k.value, 0);
  const longest = Math.max(shown[0]?.value || 0, 1e-30);
  const bar = (/** @type {Kernel | null} */ kernel, /** @type {string} */ name, /** @type {string} */ text, /** @type {number} */ value, /** @type {Mark[]} */ parts, /** @type {number} */ row) => {
    const box = { x: field.x + plan.name + 10, y: top + row * pitch + pitch * 0.14, w: Math.max(4, Math.min(room, (room * value) / longest)), h: pitch * 0.72 };
    plan.bars.push({ kernel, name, text, box });
    if (kernel && isHull(kernel.mark.item)) out.set([box.x + box.w / 2, box.y + box.h / 2, 1, box.w, box.h], kernel.mark.id * 5);
    fillBar(out, parts, box);
  };
  shown.forEach((k, n) => bar(k, k.name, k.text, k.value, k.parts, n));
  if (rest.length) bar(null, `${grouped(rest.length)} more`, told.note.includes("model") ? share(sum / told.kernels.reduce((t, k) => t + k.value, 0)) : time(sum), sum, rest.flatMap((k) => k.parts), shown.length);
  return out;
}

/** Marks in rows within a bar, as large as they fit. @param {Places} out @param {Mark[]} parts @param {Box} box */
function fillBar(out, parts, box) {
  let lines = 1;
  while (lines < 7 && Math.ceil(parts.length / lines) * (box.h / lines) > box.w) lines += 1;
  const across = Math.ceil(parts.length / lines);
  const step = Math.min(box.h / lines, box.w / Math.max(1, across));
  parts.forEach((m, n) => {
    const r = Math.max(1, Math.min(box.h / lines, Math.max(step, 3)) * (isQuiet(m.item) ? 0.16 : 0.34));
    out.set([box.x + (Math.floor(n / lines) + 0.5) * step, box.y + ((n % lines) + 0.5) * (box.h / lines), r, 0, 0], m.id * 5);
  });
}
