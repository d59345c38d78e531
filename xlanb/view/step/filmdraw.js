// One picture of a film: a pure function of the moment.
import { itemAt } from "./filmlineage.js";
import { momentAt } from "./filmtime.js";
import { drawCaption, drawLegend, drawPinned, drawScrubber, familyOf, fitText, FILM_MONO, FILM_SANS, shape } from "./filmwords.js";

/** @typedef {import("./filmlineage.js").Mark} Mark */
/** @typedef {import("./filmlineage.js").Film} Film */
/** @typedef {import("./filmtime.js").Plan} Plan */
/** @typedef {import("./filmtime.js").Shot} Shot */
/** @typedef {{film: Film, plan: Plan, timeline: import("./filmtime.js").Timeline, kernels: import("./filmtime.js").Kernels, trace: import("./store.js").Trace, cache: Map<string, any>}} Reel */
/** @typedef {{w: number, h: number, ink: Record<string, string>, hover?: Mark | null, pin?: Mark | null, cuts?: boolean, flows?: boolean, scrubber?: boolean, legend: {family: string, label: string}[]}} Look `cuts` without gliding, `flows` while time flows */
/** @typedef {{m: Mark, x: number, y: number, r: number, w: number, h: number, alpha: number}} Seen */

export const INKS = ["bg", "panel", "line", "text", "muted", "faint", "accent", "add", "rem", "chg", "edge", "fusion-f", "fusion-s", "scope-f", "scope-s", ..."input constant element data reduce matrix norm control comm variable".split(" ").map((f) => `${f}-s`)];
const MANY_EDGES = 5000;
const FAR_EDGE = 130; // pixels, beyond which an edge is fainter

/** @param {number} u */
const glide = (u) => (u <= 0 ? 0 : u >= 1 ? 1 : u < 0.5 ? 4 * u * u * u : 1 - (-2 * u + 2) ** 3 / 2);
/** @param {number} u */
const swell = (u) => (u <= 0 ? 0 : u >= 1 ? 1 : 1 + 2.2 * (u - 1) ** 3 + 1.2 * (u - 1) ** 2);
/** The part of the way between two moments. @param {number} u @param {number} a @param {number} b */
const part = (u, a, b) => Math.max(0, Math.min(1, (u - a) / (b - a)));

/** Which marks stay, go and come from one frame to another. @param {Reel} reel @param {number} from @param {number} to */
function castOf(reel, from, to) {
  const key = `${from}:${to}`;
  let cast = reel.cache.get(key);
  if (cast) return cast;
  const { film, plan } = reel;
  const [a, b] = [plan.at(from), plan.at(to)];
  const one = film.frames[Math.min(from, film.frames.length - 1)];
  const two = film.frames[Math.min(to, film.frames.length - 1)];
  const marks = [...new Set([...one.order, ...two.order])];
  const has = (/** @type {import("./filmtime.js").Places} */ p, /** @type {Mark} */ m) => p[m.id * 5 + 2] > 0;
  cast = {
    stay: marks.filter((m) => has(a, m) && has(b, m)),
    out: marks.filter((m) => has(a, m) && !has(b, m)),
    in: marks.filter((m) => !has(a, m) && has(b, m)),
    signs: to < film.frames.length && to !== from ? { added: two.added, gone: two.gone, changed: two.changed } : { added: [], gone: [], changed: [] },
  };
  reel.cache.set(key, cast);
  return cast;
}

/** Where everything is at a moment. @param {Reel} reel @param {number} from @param {number} to @param {number} u @returns {Seen[]} */
export function seenAt(reel, from, to, u) {
  const { plan } = reel;
  const [a, b] = [plan.at(from), plan.at(to)];
  const cast = castOf(reel, from, to);
  const out = /** @type {Seen[]} */ ([]);
  const { field } = plan;
  for (const m of cast.stay) {
    const k = m.id * 5;
    if (a[k] === b[k] && a[k + 1] === b[k + 1] && a[k + 2] === b[k + 2] && a[k + 3] === b[k + 3] && a[k + 4] === b[k + 4]) {
      out.push({ m, x: a[k], y: a[k + 1], r: a[k + 2], w: a[k + 3], h: a[k + 4], alpha: 1 });
      continue;
    }
    const lag = 0.22 * ((a[k] - field.x) / field.w);
    const v = glide(part(u, 0.12 + lag, 0.72 + lag));
    const [dx, dy] = [b[k] - a[k], b[k + 1] - a[k + 1]];
    const bow = Math.sin(Math.PI * v) * 0.1 * (m.id % 2 ? 1 : -1);
    out.push({ m, x: a[k] + dx * v - dy * bow, y: a[k + 1] + dy * v + dx * bow, r: a[k + 2] + (b[k + 2] - a[k + 2]) * v, w: a[k + 3] + (b[k + 3] - a[k + 3]) * v, h: a[k + 4] + (b[k + 4] - a[k + 4]) * v, alpha: 1 });
  }
  for (const m of cast.out) {
    const k = m.id * 5;
    const heir = m.into && b[m.into.id * 5 + 2] > 0 ? m.into.id * 5 : -1;
    const v = glide(part(u, 0.05, heir < 0 ? 0.5 : 0.75));
    if (v >= 1) continue;
    const [x, y] = heir < 0 ? [a[k], a[k + 1]] : [b[heir], b[heir + 1]];
    out.push({ m, x: a[k] + (x - a[k]) * v, y: a[k + 1] + (y - a[k + 1]) * v, r: a[k + 2] * (1 - v), w: a[k + 3] * (1 - 0.5 * v), h: a[k + 4] * (1 - 0.5 * v), alpha: 1 - v });
  }
  for (const m of cast.in) {
    const k = m.id * 5;
    const root = m.from && a[m.from.id * 5 + 2] > 0 && !b[k + 3] ? m.from.id * 5 : -1;
    const v = part(u, b[k + 3] ? 0.2 : 0.4, 0.92);
    if (v <= 0) continue;
    const g = glide(v);
    const [x, y] = root < 0 ? [b[k], b[k + 1]] : [a[root], a[root + 1]];
    out.push({ m, x: x + (b[k] - x) * g, y: y + (b[k + 1] - y) * g, r: b[k + 2] * swell(v), w: b[k + 3] * (0.8 + 0.2 * g), h: b[k + 4] * (0.8 + 0.2 * g), alpha: Math.min(1, 1.5 * v) });
  }
  return out;
}

/** What feeds what in a frame, as marks; a fusion is what it holds. @param {Reel} reel @param {number} f @returns {[Mark, Mark][]} */
function edgesOf(reel, f) {
  const key = `edges ${f}`;
  let edges = reel.cache.get(key);
  if (edges) return edges;
  reel.cache.set(key, (edges = /** @type {[Mark, Mark][]} */ ([])));
  const frame = reel.film.frames[f];
  if (!frame || frame.order.length > MANY_EDGES) return edges;
  const places = reel.plan.at(f);
  for (const m of frame.order) {
    for (const p of new Set(itemAt(m, f).p || [])) {
      const o = frame.names.get(p);
      if (o && places[o.id * 5 + 2] && places[m.id * 5 + 2]) edges.push([o, m]);
    }
  }
  return edges;
}

/** Draw the film at a moment. @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {number} t seconds @param {Look} look @returns {Seen[]} what is where */
export function drawFilm(ctx, reel, t, look) {
  const { from, to, u, shot } = momentAt(reel.timeline, t);
  const [a, b, v] = look.cuts && u > 0 ? [to, to, 0] : [from, to, u];
  const seen = seenAt(reel, a, b, v);
  ctx.fillStyle = look.ink.bg;
  ctx.fillRect(0, 0, look.w, look.h);
  drawPens(ctx, reel, look, a, b, v);
  const hulls = seen.filter((s) => s.w > 0);
  for (const s of hulls) drawHull(ctx, s, look);
  drawEdges(ctx, reel, look, seen, a, b, v);
  drawBars(ctx, reel, look, a, b, v);
  drawMarks(ctx, seen, look);
  drawSigns(ctx, reel, look, seen, a, b, shot && !look.cuts ? part(t, shot.start, shot.end + 0.25) : v);
  drawNames(ctx, reel, look, hulls, a, b, v);
  drawPinned(ctx, reel, look, seen, a);
  drawCaption(ctx, reel, look, t);
  drawLegend(ctx, look);
  if (look.scrubber) drawScrubber(ctx, reel, look, t);
  return seen;
}

/** @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {number} a @param {number} b @param {number} u */
function drawPens(ctx, reel, look, a, b, u) {
  ctx.font = `600 11px ${FILM_SANS}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const g of reel.plan.labels) {
    const there = (/** @type {number} */ f) => (f >= g.from && f < g.to && reel.plan.pens(f).has(g.pen) ? 1 : 0);
    const alpha = there(a) * (1 - (there(b) ? 0 : glide(part(u, 0, 0.45)))) || there(b) * glide(part(u, 0.55, 1));
    if (alpha <= 0) continue;
    ctx.globalAlpha = alpha * (g.depth === 1 ? 0.75 : 0.9);
    ctx.fillStyle = g.depth === 1 ? look.ink.panel : look.ink["scope-f"];
    ctx.strokeStyle = look.ink.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.roundRect(g.box.x, g.box.y, g.box.w, g.box.h, 8);
    ctx.fill();
    ctx.stroke();
    if (g.head < 9) continue;
    ctx.globalAlpha = alpha;
    ctx.fillStyle = look.ink.muted;
    const text = fitText(ctx, g.label, g.box.w - 12);
    if (text) ctx.fillText(text, g.box.x + 7, g.box.y + g.head / 2 + 3);
  }
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {Seen} s @param {Look} look */
function drawHull(ctx, s, look) {
  const isFusion = s.m.item.o === "fusion";
  ctx.beginPath();
  ctx.roundRect(s.x - s.w / 2, s.y - s.h / 2, s.w, s.h, Math.min(9, s.h / 3, s.w / 2));
  ctx.fillStyle = isFusion ? look.ink["fusion-f"] : look.ink["scope-f"];
  ctx.globalAlpha = s.alpha * (isFusion ? 0.95 : 0.6);
  ctx.fill();
  ctx.globalAlpha = s.alpha * 0.85;
  ctx.strokeStyle = isFusion ? look.ink["fusion-s"] : look.ink["scope-s"];
  ctx.lineWidth = 1.2;
  ctx.stroke();
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {Seen[]} hulls @param {number} a @param {number} b @param {number} u */
function drawNames(ctx, reel, look, hulls, a, b, u) {
  const end = reel.film.frames.length;
  const alpha = b === end ? 1 - part(u, 0, 0.3) : 1;
  if (a === end || alpha <= 0) return;
  ctx.font = `10.5px ${FILM_MONO}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = look.ink["fusion-s"];
  for (const s of hulls) {
    const head = reel.plan.heads[Math.min(b, end - 1)].get(s.m) || 0;
    if (!head) continue;
    ctx.globalAlpha = alpha * s.alpha * part(s.alpha, 0.5, 1);
    const text = fitText(ctx, itemAt(s.m, Math.min(b, end - 1)).n, s.w - 8);
    if (text) ctx.fillText(text, s.x - s.w / 2 + 5, s.y - s.h / 2 + head / 2 + 2);
  }
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {Seen[]} seen @param {number} a @param {number} b @param {number} u */
function drawEdges(ctx, reel, look, seen, a, b, u) {
  const end = reel.film.frames.length;
  const at = new Map(seen.map((s) => [s.m, s]));
  const draw = (/** @type {[Mark, Mark][]} */ edges, /** @type {number} */ strength) => {
    if (strength <= 0.01 || !edges.length) return;
    ctx.globalAlpha = strength * Math.max(0.1, Math.min(0.75, 9 / Math.sqrt(edges.length)));
    const far = /** @type {[Seen, Seen][]} */ ([]);
    ctx.beginPath();
    for (const [p, q] of edges) {
      const [s, e] = [at.get(p), at.get(q)];
      if (s && e && Math.abs(e.x - s.x) + Math.abs(e.y - s.y) > FAR_EDGE) far.push([s, e]);
      else if (s && e) curve(ctx, s, e);
    }
    ctx.stroke();
    ctx.globalAlpha *= 0.5;
    ctx.beginPath();
    for (const [s, e] of far) curve(ctx, s, e);
    ctx.stroke();
  };
  ctx.strokeStyle = look.ink.edge;
  ctx.lineWidth = 1;
  if (a === b) draw(a < end ? edgesOf(reel, a) : [], 1);
  else {
    draw(edgesOf(reel, a), 1 - part(u, 0, b === end ? 0.35 : 0.6));
    if (b < end) draw(edgesOf(reel, b), part(u, 0.4, 1));
  }
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {Seen} s @param {Seen} e */
function curve(ctx, s, e) {
  const [dx, dy] = [e.x - s.x, e.y - s.y];
  ctx.moveTo(s.x, s.y);
  if (Math.abs(dx) < 3 && dy > 0) ctx.lineTo(e.x, e.y);
  else if (dy > 0) ctx.bezierCurveTo(s.x, s.y + dy * 0.5, e.x, e.y - dy * 0.5, e.x, e.y);
  else {
    const reach = Math.min(46, 12 + Math.abs(dy) * 0.25);
    ctx.bezierCurveTo(s.x + dx * 0.25, s.y + reach, e.x - dx * 0.25, e.y - reach, e.x, e.y);
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {Seen[]} seen @param {Look} look */
function drawMarks(ctx, seen, look) {
  /** @type {Map<string, Seen[]>} */
  const whole = new Map();
  for (const s of seen) {
    if (s.w > 0 && s.r <= 1.01) continue;
    const colour = look.ink[`${familyOf(s.m.item)}-s`] || look.ink["scope-s"];
    if (s.alpha < 1) {
      ctx.globalAlpha = s.alpha;
      ctx.fillStyle = colour;
      ctx.beginPath();
      shape(ctx, s);
      ctx.fill();
      continue;
    }
    const same = whole.get(colour);
    if (same) same.push(s);
    else whole.set(colour, [s]);
  }
  ctx.globalAlpha = 1;
  for (const [colour, marks] of whole) {
    ctx.fillStyle = colour;
    ctx.beginPath();
    for (const s of marks) shape(ctx, s);
    ctx.fill();
  }
}

/** Plus, minus and tilde beside what a pass does, and a ring that glows. @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {Seen[]} seen @param {number} a @param {number} b @param {number} u */
function drawSigns(ctx, reel, look, seen, a, b, u) {
  if (b >= reel.film.frames.length || u <= 0 || u >= 1) return;
  const cast = castOf(reel, a === b ? Math.max(0, b - 1) : a, b);
  const { added, gone, changed } = cast.signs;
  const at = new Map(seen.map((s) => [s.m, s]));
  const few = added.length + gone.length + changed.length <= 90;
  ctx.font = `700 12px ${FILM_MONO}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const glow = (/** @type {Mark[]} */ marks, /** @type {string} */ ink, /** @type {string} */ sign, /** @type {number} */ strength) => {
    if (strength <= 0.01) return;
    ctx.strokeStyle = ctx.fillStyle = look.ink[ink];
    ctx.lineWidth = 1.6;
    for (const m of marks) {
      const s = at.get(m);
      if (!s || (m.item.f === "constant" && !few)) continue;
      ctx.globalAlpha = strength * (few ? 1 : 0.6);
      ctx.beginPath();
      if (s.w > 0) ctx.roundRect(s.x - s.w / 2 - 1.5, s.y - s.h / 2 - 1.5, s.w + 3, s.h + 3, 9);
      else ctx.arc(s.x, s.y, s.r * (familyOf(m.item) === "matrix" ? 1.3 : 1) + 1.5 + 2.5 * (1 - strength), 0, 2 * Math.PI);
      ctx.stroke();
      if (few && !s.w) ctx.fillText(sign, s.x + s.r + 6, s.y - s.r - 2);
    }
  };
  glow(gone, "rem", "−", Math.sin(Math.PI * part(u, 0, 0.55)));
  glow(changed, "chg", "~", Math.sin(Math.PI * part(u, 0.1, 1)));
  glow(added.filter((/** @type {Mark} */ m) => !at.get(m)?.w), "add", "+", Math.sin(Math.PI * part(u, 0.45, 1)));
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {number} a @param {number} b @param {number} u */
function drawBars(ctx, reel, look, a, b, u) {
  const end = reel.film.frames.length;
  const alpha = a === end ? 1 : b === end ? glide(part(u, 0.6, 1)) : 0;
  if (!alpha) return;
  const { plan } = reel;
  ctx.textBaseline = "middle";
  for (const bar of plan.bars) {
    const { x, y, w, h } = bar.box;
    const isHeld = bar.kernel && b === end && reel.plan.at(end)[bar.kernel.mark.id * 5 + 3] > 0;
    if (!isHeld) {
      const family = bar.kernel ? familyOf(bar.kernel.mark.item) : "";
      ctx.fillStyle = ctx.strokeStyle = look.ink[`${family}-s`] || look.ink["scope-s"];
      ctx.lineWidth = 1.2;
      ctx.beginPath();
      ctx.roundRect(x, y, w, h, Math.min(9, h / 3, w / 2));
      ctx.globalAlpha = alpha * 0.16;
      ctx.fill();
      ctx.globalAlpha = alpha * 0.8;
      ctx.setLineDash(bar.kernel ? [] : [4, 3]);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    ctx.globalAlpha = alpha;
    ctx.fillStyle = look.ink.text;
    ctx.textAlign = "right";
    ctx.font = `12px ${FILM_MONO}`;
    ctx.fillText(fitText(ctx, bar.name, plan.name), x - 9, y + h / 2);
    ctx.textAlign = "left";
    ctx.fillStyle = look.ink.muted;
    ctx.font = `12px ${FILM_SANS}`;
    ctx.fillText(bar.text, x + w + 8, y + h / 2);
  }
  ctx.globalAlpha = 1;
}
