// Building DOM from data. Every string in the IR is untrusted: text goes in as text nodes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {string | Node | null | undefined | false} Child
 */

/**
 * An HTML element. Properties that start with "on" are listeners, "data" and "style" are objects, the rest are attributes.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), props, children));
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(tag, props = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), props, children));
}

/**
 * @param {Element} element
 * @param {Record<string, any>} props
 * @param {(Child | Child[])[]} children
 */
function fill(element, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") for (const [k, v] of Object.entries(value)) element.setAttribute(`data-${k}`, String(v));
    else if (key === "style") for (const [k, v] of Object.entries(value)) /** @type {any} */ (element).style.setProperty(k, String(v));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
  return element;
}

/** What an element was last filled for. @type {WeakMap<Element, string>} */
const FILLED_FOR = new WeakMap();

/** Fill an element anew where what it tells, `print` in short, is other than it was: what stays need not be laid out again. @param {Element} element @param {any} print @param {() => Node[]} make */
export function refill(element, print, make) {
  const key = JSON.stringify(print);
  if (FILLED_FOR.get(element) === key) return;
  FILLED_FOR.set(element, key);
  element.replaceChildren(...make());
}

/** @param {number | null | undefined} seconds */
export function time(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds === 0) return "–"; // it was skipped: nothing was there to measure
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds >= 1e-6) return `${(seconds * 1e6).toPrecision(3)} µs`;
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

/** @param {number} size */
export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (size >= 1024 && k < units.length - 1) {
    size /= 1024;
    k += 1;
  }
  return `${k ? Number(size.toPrecision(3)) : size} ${units[k]}`;
}

/** A number with commas between its thousands. Intl would take some 20 ms before the first one. @param {number} n */
export function grouped(n) {
  const [whole, part] = String(Math.round(n * 1000) / 1000).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
}

/** @param {number} n @param {string} one @param {string} [many] */
export function plural(n, one, many = `${one}s`) {
  return `${grouped(n)} ${n === 1 ? one : many}`;
}

/** @type {Record<string, string>} */
const ICONS = {
  first: "M4 3V13M13 3L7 8L13 13Z",
  previous: "M11 3L5 8L11 13Z",
  next: "M5 3L11 8L5 13Z",
  last: "M12 3V13M3 3L9 8L3 13Z",
  play: "M4.5 2.5L13 8L4.5 13.5Z",
  full: "M2.5 6V2.5H6M10 2.5H13.5V6M13.5 10V13.5H10M6 13.5H2.5V10",
  pause: "M5.5 3V13M10.5 3V13",
};

/** A drawn icon: not every font has the characters. @param {string} name */
export function icon(name) {
  return s("svg", { class: `icon ${name}`, viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
}

/** What shows an op. @param {string} name */
export function selector(name) {
  return `[data-op="${CSS.escape(name)}"]`;
}

/** The op under a pointer. @param {Event} e */
export function opOf(e) {
  return /** @type {Element} */ (e.target).closest?.("[data-op]")?.getAttribute("data-op") || "";
}

/** Hand a page to the reader as a file. @param {string} html @param {string} name */
export function download(html, name) {
  const url = URL.createObjectURL(new Blob([html], { type: "text/html" }));
  h("a", { href: url, download: name.replace(/[^\w.-]+/g, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
