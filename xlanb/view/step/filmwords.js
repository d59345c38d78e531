// The words of a film's picture: what a moment is, what a mark is and becomes, what the colours mean.
import { grouped } from "./dom.js";
import { fateOf, itemAt } from "./filmlineage.js";
import { momentAt, tickAt } from "./filmtime.js";

/** @typedef {import("./filmlineage.js").Mark} Mark */
/** @typedef {import("./filmdraw.js").Reel} Reel */
/** @typedef {import("./filmdraw.js").Look} Look */
/** @typedef {import("./filmdraw.js").Seen} Seen */

export const FILM_SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
export const FILM_MONO = 'ui-monospace, "SF Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** @param {CanvasRenderingContext2D} ctx @param {string} text @param {number} room */
export function fitText(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  let n = Math.max(1, Math.floor((text.length * room) / Math.max(1, ctx.measureText(text).width)));
  while (n > 1 && ctx.measureText(`${text.slice(0, n)}…`).width > room) n -= 1;
  return n > 2 ? `${text.slice(0, n)}…` : "";
}

/** @param {import("./store.js").Item} item */
export function familyOf(item) {
  return item.f.replace(/^tf-/, "");
}

/** A dot; what multiplies matrices is a square, a parameter a triangle. @param {CanvasRenderingContext2D} ctx @param {Seen} s */
export function shape(ctx, { m, x, y, r }) {
  const family = familyOf(m.item);
  if (r > 3 && (family === "matrix" || family === "fusion")) ctx.roundRect(x - r, y - r, 2 * r, 2 * r, r * 0.35);
  else if (r > 2.5 && family === "input") {
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x + r, y - r);
    ctx.lineTo(x, y + r);
    ctx.closePath();
  } else {
    ctx.moveTo(x + r, y);
    ctx.arc(x, y, r, 0, 2 * Math.PI);
  }
}

/** The path of a mark through time: its places, one after another. @param {Reel} reel @param {Mark} m @returns {number[][]} */
export function trackOf(reel, m) {
  const points = /** @type {number[][]} */ ([]);
  const k = m.id * 5;
  for (let f = m.born; f < Math.min(m.died, reel.plan.count); f += 1) {
    const p = reel.plan.at(f);
    const last = points.at(-1);
    if (p[k + 2] > 0 && (!last || Math.hypot(last[0] - p[k], last[1] - p[k + 1]) > 2)) points.push([p[k], p[k + 1], f]);
  }
  const heir = m.into && m.died < Infinity ? reel.plan.at(m.died) : null;
  if (heir && m.into && heir[m.into.id * 5 + 2] > 0) points.push([heir[m.into.id * 5], heir[m.into.id * 5 + 1], m.died]);
  return points;
}

/** @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {Seen[]} seen @param {number} f */
export function drawPinned(ctx, reel, look, seen, f) {
  if (look.pin) {
    const points = trackOf(reel, look.pin);
    ctx.strokeStyle = ctx.fillStyle = look.ink.accent;
    ctx.lineWidth = 1.6;
    ctx.setLineDash([2, 4]);
    ctx.beginPath();
    points.forEach(([x, y], k) => {
      const [px, py] = points[Math.max(0, k - 1)];
      if (k) ctx.quadraticCurveTo((px + x) / 2 - (y - py) * 0.12, (py + y) / 2 + (x - px) * 0.12, x, y);
      else ctx.moveTo(x, y);
    });
    ctx.stroke();
    ctx.setLineDash([]);
    for (const [x, y] of points) {
      ctx.beginPath();
      ctx.arc(x, y, 2.5, 0, 2 * Math.PI);
      ctx.fill();
    }
  }
  for (const [m, isPin] of /** @type {[Mark | null | undefined, boolean][]} */ ([[look.pin, true], [look.hover === look.pin ? null : look.hover, false]])) {
    const s = m && seen.find((x) => x.m === m);
    if (!m || (!s && !isPin)) continue;
    const name = itemAt(m, Math.min(f, reel.film.frames.length - 1)).n;
    const fate = fateOf(reel.film, m, reel.trace).map((x) => x.text);
    if (s) ring(ctx, s, look);
    if (s) bubble(ctx, look, s, [name, m.item.o === name ? "" : m.item.o].filter(Boolean).join("  "), [m.item.s, ...fate.slice(-3).map((x) => `→ ${x}`)]);
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {Seen} s @param {Look} look */
function ring(ctx, s, look) {
  ctx.strokeStyle = look.ink.accent;
  ctx.lineWidth = 2.2;
  ctx.beginPath();
  if (s.w > 0) ctx.roundRect(s.x - s.w / 2 - 2, s.y - s.h / 2 - 2, s.w + 4, s.h + 4, 10);
  else ctx.arc(s.x, s.y, s.r + 3, 0, 2 * Math.PI);
  ctx.stroke();
}

/** @param {CanvasRenderingContext2D} ctx @param {Look} look @param {Seen} s @param {string} head @param {string[]} lines */
function bubble(ctx, look, s, head, lines) {
  ctx.font = `600 12px ${FILM_MONO}`;
  const first = fitText(ctx, head, 330);
  let wide = ctx.measureText(first).width;
  ctx.font = `12px ${FILM_SANS}`;
  const rest = lines.filter(Boolean).map((l) => fitText(ctx, l, 330));
  for (const l of rest) wide = Math.max(wide, ctx.measureText(l).width);
  const [w, h] = [wide + 20, 14 + 17 * (rest.length + 1)];
  const off = (s.w ? s.w / 2 : s.r) + 8;
  const x = s.x + off + w < look.w - 6 ? s.x + off : Math.max(6, s.x - off - w);
  const y = Math.max(6, Math.min(look.h - h - 6, s.y - h / 2));
  ctx.fillStyle = look.ink.panel;
  ctx.strokeStyle = look.ink.accent;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, 8);
  ctx.fill();
  ctx.stroke();
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = look.ink.text;
  ctx.font = `600 12px ${FILM_MONO}`;
  ctx.fillText(first, x + 10, y + 16);
  ctx.font = `12px ${FILM_SANS}`;
  ctx.fillStyle = look.ink.muted;
  rest.forEach((l, k) => ctx.fillText(l, x + 10, y + 33 + 17 * k));
}

/** What a moment is, in words: the pass, what it did, and how large the program is. @param {Reel} reel @param {number} t @param {boolean} [flows] time flows: passes that changed nothing go by unnamed */
export function captionAt(reel, t, flows = false) {
  const { trace, film, timeline, kernels } = reel;
  const here = tickAt(timeline, t);
  const tick = flows ? timeline.ticks.findLast((k) => k.start <= (here?.start ?? 0) && (k.size > 0 || k === timeline.ticks[0] || k === timeline.ticks.at(-1))) : here;
  const stage = trace.stages[tick?.stage ?? 0];
  const { to } = momentAt(timeline, t);
  const isEnd = to === film.frames.length;
  const frame = film.frames[Math.min(to, film.frames.length - 1)];
  const fusions = frame.order.filter((m) => itemAt(m, to).o === "fusion").length;
  const count = trace.counts.kernels || kernels.kernels.length;
  const size = [`${grouped(frame.count)} ${frame.isGraph ? "nodes" : "instructions"}`, fusions && !isEnd ? `${grouped(fusions)} fusion${fusions === 1 ? "" : "s"}` : "", isEnd ? `${grouped(count)} kernel${count === 1 ? "" : "s"}` : ""].filter(Boolean);
  return { name: stage.name, path: stage.pl.join(" › "), tally: isEnd && !stage.n ? [0, 0, 0] : tick === timeline.ticks[0] ? [0, 0, 0] : stage.n || [0, 0, 0], size: size.join("  ·  "), note: isEnd ? kernels.note : frame.whole ? "" : `${grouped(frame.order.length)} of them are on this page` };
}

/** @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {number} t */
export function drawCaption(ctx, reel, look, t) {
  const { name, path, tally, size, note } = captionAt(reel, t, look.flows);
  ctx.textBaseline = "alphabetic";
  ctx.textAlign = "right";
  ctx.font = `12.5px ${FILM_SANS}`;
  ctx.fillStyle = look.ink.muted;
  ctx.fillText(size, look.w - 18, 28);
  const taken = ctx.measureText(size).width + 40;
  if (note) ctx.fillText(note, look.w - 18, 46);
  ctx.textAlign = "left";
  ctx.font = `650 19px ${FILM_SANS}`;
  ctx.fillStyle = look.ink.text;
  const title = fitText(ctx, name, look.w - taken - 150);
  ctx.fillText(title, 18, 29);
  let x = 18 + ctx.measureText(title).width + 14;
  ctx.font = `600 14px ${FILM_SANS}`;
  for (const [n, sign, ink] of /** @type {[number, string, string][]} */ ([[tally[0], "+", "add"], [tally[1], "−", "rem"], [tally[2], "~", "chg"]])) {
    if (!n) continue;
    const text = `${sign}${grouped(n)}`;
    ctx.fillStyle = look.ink[ink];
    ctx.fillText(text, x, 29);
    x += ctx.measureText(text).width + 9;
  }
  ctx.font = `12px ${FILM_SANS}`;
  ctx.fillStyle = look.ink.muted;
  ctx.fillText(fitText(ctx, path || reel.trace.name, look.w - taken), 18, 47);
}

/** @param {CanvasRenderingContext2D} ctx @param {Look} look */
export function drawLegend(ctx, look) {
  ctx.font = `11px ${FILM_SANS}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const y = look.h - (look.scrubber ? 44 : 14);
  let x = 20;
  for (const { family, label } of look.legend) {
    const wide = ctx.measureText(label).width + 30;
    if (x + wide > look.w - 10) break;
    ctx.fillStyle = look.ink[`${family}-s`] || look.ink["scope-s"];
    ctx.beginPath();
    shape(ctx, /** @type {any} */ ({ m: { item: { f: family } }, x: x + 4, y, r: 4 }));
    ctx.fill();
    ctx.fillStyle = look.ink.muted;
    ctx.fillText(label, x + 13, y + 0.5);
    x += wide;
  }
}

/** A thin scrubber, for what is saved. @param {CanvasRenderingContext2D} ctx @param {Reel} reel @param {Look} look @param {number} t */
export function drawScrubber(ctx, reel, look, t) {
  const { ticks, total } = reel.timeline;
  const [left, wide, base] = [18, look.w - 36, look.h - 10];
  const most = Math.log2(2 + Math.max(...ticks.map((k) => k.size)));
  for (const k of ticks) {
    const tall = k.size ? 4 + (14 * Math.log2(1 + k.size)) / most : 2;
    ctx.fillStyle = k.start <= t ? look.ink.accent : look.ink.edge;
    ctx.globalAlpha = k.size ? 0.85 : 0.4;
    ctx.fillRect(left + (wide * k.start) / total, base - tall, k.size ? 2.2 : 1, tall);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = look.ink.edge;
  ctx.fillRect(left, base, wide, 2);
  ctx.fillStyle = look.ink.accent;
  ctx.fillRect(left, base, (wide * Math.min(t, total)) / total, 2);
}
