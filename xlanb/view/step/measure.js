// How wide text is, and how to make it fit a box: the middle gives way, as names differ at their ends.

const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const MONO = 'ui-monospace, "SF Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
/** The fonts of a node, as graph.css has them. */
export const FONTS = { title: `600 12.5px ${SANS}`, rest: `400 12.5px ${SANS}`, below: `11.5px ${MONO}` };
/** Width of a character, where nothing can be measured. @type {Record<string, number>} */
const ABOUT = { title: 7.9, rest: 7.2, below: 7 };

/** @type {OffscreenCanvasRenderingContext2D | null | undefined} */
let pen;
/** @type {Map<string, number>} */
const widths = new Map();

/** Width of a text in px. @param {string} text @param {"title" | "rest" | "below"} font */
export function textWidth(text, font) {
  if (pen === undefined) pen = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");
  if (!pen) return ABOUT[font] * text.length;
  const key = `${font} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    pen.font = FONTS[font];
    width = pen.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** A text that is no wider than may be, without its middle where it must. @param {string} text @param {number} room in px @param {"title" | "rest" | "below"} font */
export function shortened(text, room, font) {
  if (textWidth(text, font) <= room) return text;
  let [low, high] = [2, text.length - 1];
  const cut = (/** @type {number} */ n) => `${text.slice(0, Math.ceil(n * 0.6))}…${text.slice(text.length - Math.floor(n * 0.4))}`;
  while (low < high) {
    const n = Math.ceil((low + high) / 2);
    if (textWidth(cut(n), font) <= room) low = n;
    else high = n - 1;
  }
  return cut(low);
}
