// The user's own data on the nodes: a colour and a word each, by op name; one overlay at a time, chosen among the graph's tools.
import { h, s } from "./dom.js";

const SHADES = 5;
const KINDS = 8;
const PLAIN = "none";

/**
 * How an overlay paints: the class and the words of a value, and the legend.
 * @param {Record<string, number | string>} values
 * @returns {{of(value: number | string): string, legend: {cls: string, label: string}[]}}
 */
export function overlayPaint(values) {
  const numbers = /** @type {number[]} */ (Object.values(values).filter((v) => typeof v === "number"));
  const words = [...new Set(Object.values(values).filter((v) => typeof v !== "number"))];
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const shade = (/** @type {number} */ v) => (most > least ? Math.min(SHADES - 1, Math.floor(((v - least) / (most - least)) * SHADES)) : SHADES - 1);
  const kind = (/** @type {string} */ w) => Math.min(words.indexOf(w), KINDS - 1);
  const bound = (/** @type {number} */ k) => least + ((most - least) * (k + 1)) / SHADES;
  const scale = numbers.length ? (most > least ? Array.from({ length: SHADES }, (_, k) => ({ cls: `heat-${k}`, label: `≤ ${wordOf(bound(k))}` })) : [{ cls: `heat-${SHADES - 1}`, label: wordOf(most) }]) : [];
  const names = words.slice(0, KINDS - (words.length > KINDS ? 1 : 0)).map((w, k) => ({ cls: `hue-${k}`, label: String(w) }));
  if (words.length > KINDS) names.push({ cls: `hue-${KINDS - 1}`, label: `${words.length - KINDS + 1} more` });
  return { of: (v) => (typeof v === "number" ? `heat-${shade(v)}` : `hue-${kind(v)}`), legend: [...scale, ...names, { cls: "hue-none", label: "no value" }] };
}

/** @param {number | string} value */
function wordOf(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : value.length > 18 ? `${value.slice(0, 17)}…` : value;
}

/** @param {any} view @returns {Record<string, Record<string, number | string>>} */
function overlaysOf(view) {
  return view.model.get("overlays") || view.payload.overlays || {};
}

/** Paint the chosen overlay over the graph that was just drawn. @param {any} view the step view */
export function layOver(view) {
  const all = overlaysOf(view);
  const names = Object.keys(all);
  if (view.overlay !== PLAIN && !all[view.overlay]) view.overlay = names.length ? names[names.length - 1] : undefined;
  showChoice(view, names);
  const values = all[view.overlay];
  const paint = values && overlayPaint(values);
  const inside = values ? valuesOfGroups(view, values) : new Map();
  for (const node of view.graph.element.querySelectorAll(".node")) dressOver(node, values?.[node.getAttribute("data-op") || ""] ?? inside.get(node.getAttribute("data-key")), paint);
  if (paint) view.graph.legend.replaceChildren(...paint.legend.map((k) => h("span", { class: `key ${k.cls}` }, k.label)));
}

/**
 * What closed groups show: the largest number of the ops in them, or the word of most.
 * @param {any} view @param {Record<string, number | string>} values @returns {Map<string, number | string>} by key
 */
function valuesOfGroups(view, values) {
  const scene = view.picture.scene(view.pictureIndex);
  /** @type {Map<string, (number | string)[]>} */
  const inside = new Map();
  for (const [op, value] of Object.entries(values)) {
    const key = scene?.where.get(op);
    if (!key || !scene.nodes.get(key)?.fold) continue;
    if (!inside.has(key)) inside.set(key, []);
    /** @type {(number | string)[]} */ (inside.get(key)).push(value);
  }
  return new Map([...inside].map(([key, list]) => {
    const numbers = /** @type {number[]} */ (list.filter((v) => typeof v === "number"));
    const count = (/** @type {number | string} */ w) => list.filter((v) => v === w).length;
    return [key, numbers.length ? Math.max(...numbers) : list.reduce((a, b) => (count(b) > count(a) ? b : a))];
  }));
}

/** @param {SVGElement} node @param {number | string | undefined} value @param {ReturnType<typeof overlayPaint> | undefined} paint */
function dressOver(node, value, paint) {
  const colours = () => [...node.classList].filter((c) => /^(fam|hue|heat)-/.test(c) || c === "heavy");
  if (node.classList.contains("overlaid")) {
    node.classList.remove("overlaid", ...colours());
    node.classList.add(...(node.dataset.own || "").split(" ").filter((c) => c));
  }
  node.querySelector(".overvalue")?.remove();
  if (!paint) return;
  const own = colours();
  node.dataset.own = own.join(" ");
  node.classList.remove(...own); // all others stay: what is pinned, guessed, lit
  node.classList.add("overlaid", value === undefined ? "hue-none" : paint.of(value));
  if (value === undefined) return;
  node.append(s("text", { class: "overvalue", x: -2, y: 3 }, wordOf(value))); // at the right stand handle and mark
}

/** The choice of the overlay, where there is any. @param {any} view @param {string[]} names */
function showChoice(view, names) {
  const tools = view.graph.element.querySelector(".tools");
  tools?.querySelector(".overlays")?.remove();
  if (!tools || !names.length) return;
  const select = /** @type {HTMLSelectElement} */ (h("select", { class: "tool overlays", "aria-label": "Overlay" }, [...names, PLAIN].map((n) => h("option", { value: n }, `overlay: ${n}`))));
  select.value = view.overlay;
  select.addEventListener("change", () => {
    view.overlay = select.value;
    view.update(); // the legend of the graph's own colours comes back with it
  });
  tools.append(select);
}

/** What the overlays say of an op. @param {any} view @param {string} op @returns {HTMLElement | null} */
export function overlayRows(view, op) {
  const found = Object.entries(overlaysOf(view)).filter(([, values]) => values[op] !== undefined);
  return found.length ? h("dl", { class: "card-body overlay-values" }, found.flatMap(([name, values]) => [h("dt", {}, name), h("dd", {}, String(values[op]))])) : null;
}
