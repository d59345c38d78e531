// A film as a file: an animated WebP, made of the browser's own WebP pictures, or a WebM that the browser records.
import { drawFilm } from "./filmdraw.js";
import { momentAt } from "./filmtime.js";

/** @typedef {import("./filmdraw.js").Reel} Reel */
/** @typedef {{reel: Reel, look: import("./filmdraw.js").Look, seconds: number, rate: number, scale: number, quality: number, progress(share: number): void, stopped(): boolean}} Order what to save: `look` at scale 1, `quality` from 0 to 1 */
/** @typedef {{x: number, y: number, w: number, h: number, ms: number, data: Uint8Array}} Part one frame of an animation: `data` the chunks of its picture */

const FADE = 0.5; // seconds in which the end becomes the beginning again

/** Draw what a saved film shows at a moment: the same pixels for the same moment. @param {CanvasRenderingContext2D} ctx @param {Order} order @param {number} t */
export function drawSaved(ctx, { reel, look, scale }, t) {
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  drawFilm(ctx, reel, t, look);
  const left = reel.timeline.total - t;
  if (left >= FADE) return;
  const first = document.createElement("canvas");
  [first.width, first.height] = [ctx.canvas.width, ctx.canvas.height];
  const other = /** @type {CanvasRenderingContext2D} */ (first.getContext("2d", { alpha: false }));
  other.setTransform(scale, 0, 0, scale, 0, 0);
  drawFilm(other, reel, 0, look);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.globalAlpha = 1 - Math.max(0, left) / FADE;
  ctx.drawImage(first, 0, 0);
  ctx.globalAlpha = 1;
}

/** The moments of a film that are drawn, each with how long it is shown; what stands still is one frame. @param {Order} order @returns {{t: number, ms: number}[]} */
export function framesOf({ reel, seconds, rate }) {
  const count = Math.max(1, Math.round(seconds * rate));
  const { total } = reel.timeline;
  const out = /** @type {{t: number, ms: number, still: string}[]} */ ([]);
  let spent = 0;
  for (let k = 0; k < count; k += 1) {
    const t = (total * k) / count;
    const { to, u, shot } = momentAt(reel.timeline, t);
    const still = u === 0 && (!shot || t > shot.end + 0.3) && total - t >= FADE ? `${to}` : "";
    const ms = Math.round(((k + 1) * 1000 * seconds) / count) - spent;
    spent += ms;
    const last = out.at(-1);
    if (still && last?.still === still) last.ms += ms;
    else out.push({ t, ms, still });
  }
  return out;
}

/** The film as an animated WebP that loops; null where it was stopped. @param {Order} order @returns {Promise<Blob | null>} */
export async function webpOf(order) {
  const [w, h] = [order.look.w, order.look.h].map((x) => Math.round((x * order.scale) / 2) * 2);
  const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false, willReadFrequently: true }));
  const cut = document.createElement("canvas");
  const moments = framesOf(order);
  const parts = /** @type {Part[]} */ ([]);
  let before = /** @type {Uint32Array | null} */ (null);
  for (let k = 0; k < moments.length; k += 1) {
    if (order.stopped()) return null;
    drawSaved(ctx, order, moments[k].t);
    const pixels = new Uint32Array(ctx.getImageData(0, 0, w, h).data.buffer);
    const box = before ? differing(before, pixels, w, h) : { x: 0, y: 0, w, h };
    before = pixels;
    const last = parts.at(-1);
    if (!box && last) last.ms += moments[k].ms;
    else if (box) {
      [cut.width, cut.height] = [box.w, box.h];
      cut.getContext("2d", { alpha: false })?.drawImage(canvas, -box.x, -box.y);
      const blob = await new Promise((/** @type {(b: Blob | null) => void} */ done) => cut.toBlob(done, "image/webp", order.quality));
      if (blob?.type !== "image/webp") throw new Error("This browser writes no WebP pictures: save as WebM.");
      parts.push({ ...box, ms: moments[k].ms, data: pictureChunks(new Uint8Array(await blob.arrayBuffer())) });
    }
    order.progress((k + 1) / moments.length);
  }
  return new Blob([/** @type {any} */ (animation(w, h, parts))], { type: "image/webp" });
}

/** The smallest box around what differs, its corner even as the format wants it; null where nothing does. @param {Uint32Array} a @param {Uint32Array} b @param {number} w @param {number} h */
function differing(a, b, w, h) {
  let [left, right, top, bottom] = [w, -1, h, -1];
  for (let y = 0; y < h; y += 1) {
    const row = y * w;
    let x = 0;
    while (x < w && a[row + x] === b[row + x]) x += 1;
    if (x === w) continue;
    let end = w - 1;
    while (a[row + end] === b[row + end]) end -= 1;
    left = Math.min(left, x);
    right = Math.max(right, end);
    top = Math.min(top, y);
    bottom = y;
  }
  if (right < 0) return null;
  [left, top] = [left - (left % 2), top - (top % 2)];
  return { x: left, y: top, w: right - left + 1, h: bottom - top + 1 };
}

/** The chunks of a WebP picture that an animation takes over: alpha and pixels. @param {Uint8Array} file @returns {Uint8Array} */
function pictureChunks(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const kept = [];
  for (let at = 12; at + 8 <= file.length; ) {
    const size = 8 + view.getUint32(at + 4, true);
    const padded = size + (size % 2);
    if (["ALPH", "VP8 ", "VP8L"].includes(String.fromCharCode(...file.subarray(at, at + 4)))) kept.push(file.subarray(at, at + padded));
    at += padded;
  }
  return joined(kept);
}

/** @param {Uint8Array[]} parts */
function joined(parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** A number in so many bytes, the lowest first. @param {number} value @param {number} count */
function bytesOfNumber(value, count) {
  return Uint8Array.from({ length: count }, (_, k) => Math.floor(value / 256 ** k) % 256);
}

/** @param {string} name @param {...Uint8Array} parts */
function chunk(name, ...parts) {
  const body = joined(parts);
  return joined([new TextEncoder().encode(name), bytesOfNumber(body.length, 4), body, new Uint8Array(body.length % 2)]);
}

/** Frames as one WebP file (RIFF with VP8X, ANIM and an ANMF each) that repeats for ever. @param {number} w @param {number} h @param {Part[]} parts */
function animation(w, h, parts) {
  const animated = 0x02;
  const overwrite = 0x02; // what was there before does not shine through
  const head = chunk("VP8X", bytesOfNumber(animated, 4), bytesOfNumber(w - 1, 3), bytesOfNumber(h - 1, 3));
  const loop = chunk("ANIM", bytesOfNumber(0xffffffff, 4), bytesOfNumber(0, 2));
  const frames = parts.map((p) => chunk("ANMF", bytesOfNumber(p.x / 2, 3), bytesOfNumber(p.y / 2, 3), bytesOfNumber(p.w - 1, 3), bytesOfNumber(p.h - 1, 3), bytesOfNumber(p.ms, 3), bytesOfNumber(overwrite, 1), p.data));
  return chunk("RIFF", new TextEncoder().encode("WEBP"), head, loop, ...frames);
}

const WEBM = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"];

/** The kind of WebM that this browser records, "" for none. */
export function webmKind() {
  if (typeof MediaRecorder === "undefined" || !HTMLCanvasElement.prototype.captureStream) return "";
  return WEBM.find((k) => MediaRecorder.isTypeSupported(k)) || "";
}

/** The film as a WebM, recorded while it plays; null where it was stopped. @param {Order} order @returns {Promise<Blob | null>} */
export async function webmOf(order) {
  const [w, h] = [order.look.w, order.look.h].map((x) => Math.round((x * order.scale) / 2) * 2);
  const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  drawSaved(ctx, order, 0);
  const recorder = new MediaRecorder(canvas.captureStream(order.rate), { mimeType: webmKind(), videoBitsPerSecond: 6_000_000 * order.quality });
  const pieces = /** @type {Blob[]} */ ([]);
  recorder.addEventListener("dataavailable", (e) => pieces.push(e.data));
  const ended = new Promise((done) => recorder.addEventListener("stop", done));
  recorder.start();
  const begun = performance.now();
  for (let share = 0; share < 1 && !order.stopped(); ) {
    await new Promise((done) => setTimeout(done, 1000 / order.rate));
    share = Math.min(1, (performance.now() - begun) / 1000 / order.seconds);
    drawSaved(ctx, order, share * order.reel.timeline.total * 0.9999);
    order.progress(share);
  }
  recorder.stop();
  await ended;
  return order.stopped() ? null : new Blob(pieces, { type: "video/webm" });
}
