// Where ops come from in Python: the line, the calls that led there, and all ops of one line; what is in a fusion, and from which lines.
import { h, plural } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./store.js").Payload} Payload */

const OF_LIBRARIES = /[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3[.\d]*[/\\]/;
const SHOWN = 40;
const DEEP = 40;

/** The calls that led to an item, the innermost first, each [place, function]. @param {Payload} payload @param {Item} item @returns {[string, string][]} */
export function stackOf(payload, item) {
  const out = /** @type {[string, string][]} */ ([]);
  for (let k = item.k ?? -1; k >= 0 && out.length < DEEP; k = payload.frames?.[k]?.[2] ?? -1) {
    const frame = payload.frames?.[k];
    if (frame) out.push([frame[0], frame[1]]);
  }
  return out;
}

/** The ops of an artifact that a Python line made, itself or through what it called. @param {Store} store @param {number} artifact @param {string} place @returns {Item[]} */
export function opsOfLine(store, artifact, place) {
  const within = new Map(); // by frame, whether the place is on its way
  const frames = store.payload.frames || [];
  const leads = (/** @type {number} */ k) => {
    const way = [];
    let found = false;
    for (let at = k; at >= 0 && frames[at] && way.length < 1000; at = frames[at][2]) {
      if (within.has(at)) {
        found = within.get(at);
        break;
      }
      way.push(at);
      if (frames[at][0] === place) {
        found = true;
        break;
      }
    }
    for (const at of way) within.set(at, found);
    return found;
  };
  return [...store.names(artifact).values()].map((i) => store.payload.items[i]).filter((i) => i.w === place || (i.k !== undefined && leads(i.k)));
}

/** The end of a path is what tells files apart. @param {string} place */
function short(place) {
  return place.split("/").pop() || place;
}

/** A line that can be asked for its ops. @param {string} place @param {string} more @param {string} chosen @param {(place: string) => void} choose */
function lineButton(place, more, chosen, choose) {
  return h("button", { type: "button", class: "link line-of", title: `${place}: show all ops of this line`, "aria-pressed": String(place === chosen), onclick: () => choose(place === chosen ? "" : place) }, short(place), more ? h("span", { class: "muted" }, ` ${more}`) : null);
}

/**
 * The Python line of an op with the calls around it, and, of the line that was chosen, all its ops.
 * @param {Store} store @param {number} artifact @param {Item} item @param {string} chosen @param {{line(place: string): void, pin(name: string): void}} act
 * @returns {HTMLElement[]}
 */
export function sourceParts(store, artifact, item, chosen, act) {
  const inside = insideOf(store, artifact, item);
  const stack = stackOf(store.payload, item);
  const places = stack.length ? stack : item.w ? [[item.w, ""]] : [];
  const out = [];
  if (places.length) out.push(...stackParts(store.payload, places, chosen, act.line));
  if (inside.length) out.push(...insideParts(inside, chosen, act.line, act.pin));
  if (chosen && (places.some(([p]) => p === chosen) || inside.some((i) => i.w === chosen))) out.push(opsPart(opsOfLine(store, artifact, chosen), chosen, act.pin));
  return out;
}

/** The user's own lines with their text, the innermost call first; those of libraries folded behind them. @param {Payload} payload @param {string[][]} places @param {string} chosen @param {(place: string) => void} choose */
function stackParts(payload, places, chosen, choose) {
  const row = (/** @type {string[]} */ [place, name]) => h("li", {}, lineButton(place, name ? `in ${name}` : "", chosen, choose), payload.lines?.[place] ? h("code", { class: "srcline", title: payload.lines[place] }, payload.lines[place]) : null);
  const own = places.filter(([place]) => !OF_LIBRARIES.test(place));
  const others = places.filter(([place]) => OF_LIBRARIES.test(place));
  const parts = [h("h4", { title: places.length > 1 ? "the innermost call first" : "" }, "Python")];
  if (own.length) parts.push(h("ol", { class: "stack" }, own.map(row)));
  if (others.length) parts.push(h("details", { class: "libraries", open: !own.length }, h("summary", {}, `${plural(others.length, "line")} of libraries`), h("ol", { class: "stack" }, others.map(row))));
  return parts;
}

/** @param {Item[]} ops @param {string} place @param {(name: string) => void} pin */
function opsPart(ops, place, pin) {
  return h("div", { class: "links of-line" }, h("h4", {}, `All of ${short(place)}: ${plural(ops.length, "op")}`), h("div", {}, opButtons(ops, pin)));
}

/** @param {Item[]} ops @param {(name: string) => void} pin */
function opButtons(ops, pin) {
  const rest = ops.length - SHOWN;
  return [...ops.slice(0, SHOWN).map((i) => h("button", { type: "button", class: "link", data: { op: i.n }, title: `${i.o} ${i.s}`, onclick: () => pin(i.n) }, i.n)), rest > 0 ? h("span", { class: "muted" }, ` and ${rest} more`) : null];
}

/** What is fused into a fusion, without its parameters. @param {Store} store @param {number} artifact @param {Item} item @returns {Item[]} */
export function insideOf(store, artifact, item) {
  if (item.o !== "fusion") return [];
  const called = new Set(item.c || []);
  const { chunks, items } = store.payload;
  const own = (store.artifact(artifact)?.c || []).map((c) => chunks[c]).filter((c) => called.has(c.h.match(/^%?([^\s(]+)/)?.[1] || ""));
  return own.flatMap((c) => c.i.map((i) => items[i])).filter((i) => i.o !== "parameter");
}

/** @param {Item[]} inside @param {string} chosen @param {(place: string) => void} line @param {(name: string) => void} pin */
function insideParts(inside, chosen, line, pin) {
  const lines = new Map();
  for (const i of inside) if (i.w) lines.set(i.w, (lines.get(i.w) || 0) + 1);
  const names = [...new Set(inside.map((i) => i.m).filter((m) => m))];
  return [
    h("div", { class: "links inside" }, h("h4", {}, `In it: ${plural(inside.length, "op")}`), h("div", {}, opButtons(inside, pin))),
    lines.size ? h("div", { class: "links" }, h("h4", {}, "From the lines"), h("div", {}, [...lines].sort((a, b) => b[1] - a[1]).slice(0, SHOWN).map(([place, n]) => lineButton(place, `× ${n}`, chosen, line)))) : null,
    names.length ? h("details", { class: "from-names" }, h("summary", {}, `From ${plural(names.length, "named op")}`), h("ul", {}, names.slice(0, SHOWN).map((n) => h("li", {}, /** @type {string} */ (n))))) : null,
  ].filter((p) => p !== null);
}
