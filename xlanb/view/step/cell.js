// The notebook's own cells: pointing at a line of code lights what it became, pointing at an op marks its lines. Where no notebook is around, nothing happens.
import { carriersOf } from "./code.js";
import { h, plural, time } from "./dom.js";
import { opsOfLine, stackOf } from "./source.js";

const PLACE = /^In \[(\d+)\]:(\d+)$/;

/**
 * Light the ops of the line that the pointer is over, in any code cell of this notebook.
 * @param {any} view the step view @param {(op: string) => void} lit called when the lines' ops are others, with the op of the view that the pointer is over
 * @returns {() => void} what stops it
 */
export function followCells(view, lit) {
  const over = (/** @type {Event} */ e) => {
    const place = placeUnder(view, e);
    if (place === view.cellLine) return;
    view.cellLine = place;
    view.cellOps = place ? opsOfPlace(view, place) : new Set();
    const target = e.composedPath()[0];
    lit((target instanceof Element && target.closest("[data-op]")?.getAttribute("data-op")) || "");
    if (place) view.say(wordsOf(view, place));
  };
  document.addEventListener("pointerover", over);
  return () => {
    document.removeEventListener("pointerover", over);
    markLines(view, "");
  };
}

/** The line of a cell under the pointer as frames name it, "" where there is none that the trace knows. @param {any} view @param {Event} e */
function placeUnder(view, e) {
  const line = /** @type {Element | null} */ (e.target instanceof Element ? e.target.closest(".jp-CodeCell .cm-line") : null);
  const book = line && view.host.closest(".jp-Notebook");
  const number = book?.contains(line) ? promptOf(/** @type {Element} */ (line.closest(".jp-CodeCell"))) : "";
  if (!line || !number) return "";
  const place = `In [${number}]:${lineNumber(line)}`;
  return view.payload.lines?.[place] === (line.textContent || "").trim() ? place : ""; // another text: the cell was edited
}

/** The number of a cell, "" before it has run. @param {Element} cell */
function promptOf(cell) {
  return cell.querySelector(".jp-InputPrompt")?.textContent?.match(/\[(\d+)\]/)?.[1] || "";
}

/** The number of a line as Python counts them, from the first that is not empty; the editor has only those in sight in the page. @param {Element} line */
function lineNumber(line) {
  const editor = editorOf(line);
  const shown = [...(line.parentElement?.querySelectorAll(":scope > .cm-line") || [])];
  const texts = editor ? editor.state.doc.toString().split("\n") : shown.map((l) => l.textContent || "");
  const number = editor ? editor.state.doc.lineAt(editor.posAtDOM(line)).number : shown.indexOf(line) + 1;
  const empty = texts.findIndex((/** @type {string} */ text) => text.trim());
  return number - Math.max(0, empty);
}

/** CodeMirror's own view of a line's editor, null where it cannot be asked. @param {Element} inside @returns {any} */
function editorOf(inside) {
  const content = /** @type {any} */ (inside.closest(".cm-content"));
  return content?.cmTile?.view || content?.cmView?.view || content?.cmView?.rootView?.view || null;
}

/** The ops that a line made, as the program stands here and in the end, and the fusions that they run in. @param {any} view @param {string} place @returns {Set<string>} */
function opsOfPlace(view, place) {
  const out = new Set();
  const end = view.current.stages.findLast((/** @type {any} */ x) => view.store.artifact(x.a)?.k === "module")?.a ?? -1;
  for (const index of new Set([view.pictureIndex, end])) {
    if (index < 0) continue;
    for (const item of opsOfLine(view.store, index, place)) for (const name of carriersOf(view.store, index, item.n)) out.add(name);
  }
  return out;
}

/** What a line became, in a sentence: ops, kernels, time. @param {any} view @param {string} place */
function wordsOf(view, place) {
  const ops = opsOfLine(view.store, view.pictureIndex, place);
  const run = view.store.latest(view.current, view.current.stages.length - 1, "execution");
  const kernels = (run?.kernels || []).filter((/** @type {any[]} */ k) => view.cellOps.has(k[1]) || view.cellOps.has(k[0]));
  const spent = kernels.reduce((/** @type {number} */ t, /** @type {any[]} */ k) => t + (k[2] || 0), 0);
  const parts = [`${place}: ${plural(ops.length, "op")} here`, kernels.length ? `${plural(kernels.length, "kernel")} with code of this line, ${time(spent)} of ${time(run.s)}` : ""];
  return parts.filter((t) => t).join(" · ");
}

/** Mark the lines of the cells that an op comes from, and no others. @param {any} view @param {string} name "" for none */
export function markLines(view, name) {
  if (view.cellMarked === name) return;
  view.cellMarked = name;
  for (const x of view.cellMarks || []) x.remove();
  const book = name && view.host.closest(".jp-Notebook");
  const found = book && view.now ? view.store.find(view.now, name) : null;
  view.cellMarks = found ? placesOfItem(view, found.item).flatMap((place) => markPlace(view, book, place)) : [];
}

/** @param {any} view @param {import("./store.js").Item} item @returns {string[]} */
function placesOfItem(view, item) {
  const stack = stackOf(view.payload, item).map(([place]) => place);
  return [...new Set(stack.length ? stack : [item.w || ""])].filter((place) => PLACE.test(place));
}

/** A band over a line of a cell: the editor's own elements are left alone, it would draw them anew. @param {any} view @param {Element} book @param {string} place @returns {HTMLElement[]} */
function markPlace(view, book, place) {
  const [, cellNumber, number] = /** @type {RegExpMatchArray} */ (place.match(PLACE));
  const cell = [...book.querySelectorAll(".jp-CodeCell")].find((c) => promptOf(c) === cellNumber);
  const line = [...(cell?.querySelectorAll(".cm-line") || [])].find((l) => lineNumber(l) === Number(number));
  const frame = /** @type {HTMLElement | null} */ (line?.closest(".cm-scroller") || null);
  if (!line || !frame || view.payload.lines?.[place] !== (line.textContent || "").trim()) return [];
  const [box, around] = [line.getBoundingClientRect(), frame.getBoundingClientRect()];
  const accent = getComputedStyle(view.root).getPropertyValue("--accent");
  const mark = h("div", { class: "xlanb-cell-line", "aria-hidden": "true", style: { position: "absolute", left: 0, right: 0, top: `${box.top - around.top + frame.scrollTop}px`, height: `${box.height}px`, background: accent, opacity: 0.16, "box-shadow": `inset 3px 0 0 ${accent}`, "pointer-events": "none" } });
  frame.append(mark);
  return [mark];
}
