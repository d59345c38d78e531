// What the numbers are after each pass: ranges, NaN and infinities, and the error against the reference.
import { h, s } from "./dom.js";

/** @typedef {import("./store.js").Trace} Trace */
/** @typedef {{name: string, min: number | null, max: number | null, nan: number, inf: number, err: number | null}} Measured */

/** A number for people. @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "0";
  if (Math.abs(value) > 1.79e308) return value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(1);
}

/** The largest error after each pass, null where it was not measured. @param {Trace} trace @returns {(number | null)[]} */
export function errorsOf(trace) {
  return trace.stages.map((x) => x.err ?? null);
}

/**
 * @param {Trace} trace @param {number} current
 * @param {{measure: (() => void) | null, waiting: boolean, go(k: number): void}} act `measure` where a kernel can
 */
export function numericsView(trace, current, act) {
  const body = h("div", { class: "numerics", role: "region", "aria-label": "Numerics", tabindex: 0 });
  const known = trace.stages.map((x, k) => ({ x, k })).filter(({ x }) => x.numerics || (x.err ?? null) !== null);
  const button = act.measure && h("button", { type: "button", class: "ctl text primary", disabled: act.waiting, onclick: act.measure }, act.waiting ? "Measuring…" : "Measure");
  if (!known.length) {
    body.append(h("p", { class: "empty" }, act.measure ? "Not measured: press Measure to run the program after every pass and compare it with the reference." : "Not measured. A live compilation can run the program after every pass."), h("p", { class: "empty tight" }, button));
    return body;
  }
  const worst = Math.max(...known.map(({ x }) => x.err ?? 0));
  const first = known.find(({ x }) => (x.err ?? 0) > 0);
  body.append(
    h("div", { class: "figures" }, h("div", { class: "figure" }, h("b", {}, number(worst)), h("span", {}, "largest error of any pass")), first ? h("div", { class: "figure" }, h("b", {}, first.x.name), h("span", {}, "first changed the result")) : null, button ? h("div", { class: "figure" }, button) : null),
    errorChart(trace, current, act.go),
  );
  const nearest = [...known].reverse().find(({ k, x }) => k <= current && x.numerics) || known.find(({ x }) => x.numerics);
  if (nearest) {
    body.append(h("h4", {}, `Values after ${nearest.x.name}`), valueTable(/** @type {Measured[]} */ (nearest.x.numerics)));
  }
  body.append(h("h4", {}, "Every pass that was measured"), passTable(known, current, act.go));
  return body;
}

/** @param {Measured[]} rows */
function valueTable(rows) {
  const cells = (/** @type {Measured} */ m) => [number(m.min), number(m.max), m.nan ? `${m.nan}` : "–", m.inf ? `${m.inf}` : "–", number(m.err)];
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ["value", "least", "most", "NaN", "inf", "error"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, rows.map((m) => h("tr", { data: { op: m.name }, class: m.nan || m.inf ? "odd" : "" }, h("td", { class: "mono" }, m.name), cells(m).map((t) => h("td", { class: "num" }, t))))),
  );
}

/** @param {{x: any, k: number}[]} known @param {number} current @param {(k: number) => void} go */
function passTable(known, current, go) {
  const total = (/** @type {any} */ x, /** @type {string} */ key) => (x.numerics || []).reduce((/** @type {number} */ t, /** @type {any} */ m) => t + (m[key] || 0), 0);
  let last = 0;
  const rows = known.map(({ x, k }) => {
    const moved = (x.err ?? 0) > last * 1.5 && (x.err ?? 0) > 0;
    last = Math.max(last, x.err ?? 0);
    return h(
      "tr",
      { class: `${k === current ? "lit" : ""}${moved ? " moved" : ""}` },
      h("td", {}, h("button", { type: "button", class: "stagelink", onclick: () => go(k) }, x.name), moved ? h("span", { class: "t-chg" }, " ~ changed the result") : null),
      h("td", { class: "num" }, number(x.err)),
      h("td", { class: "num" }, String(total(x, "nan"))),
      h("td", { class: "num" }, String(total(x, "inf"))),
    );
  });
  return h("table", {}, h("thead", {}, h("tr", {}, ["pass", "error", "NaN", "inf"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, rows));
}

/** Error over passes, by orders of magnitude. @param {Trace} trace @param {number} current @param {(k: number) => void} go */
function errorChart(trace, current, go) {
  const errors = errorsOf(trace);
  const [W, H] = [900, 90];
  const step = W / Math.max(errors.length, 1);
  const height = levels(errors, H - 14);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Error after each pass" });
  errors.forEach((e, k) => {
    if (e === null) return;
    const bar = s("rect", { class: `bar${k === current ? " now" : ""}`, x: k * step, y: H - 4 - height[k], width: Math.max(step - 1, 1), height: height[k] }, s("title", {}, `${trace.stages[k].name}: ${number(e)}`));
    bar.addEventListener("click", () => go(k));
    svg.append(bar);
  });
  return svg;
}

/** Heights of errors on a logarithmic scale; zero is a line. @param {(number | null)[]} errors @param {number} most @returns {number[]} */
export function levels(errors, most) {
  const logs = errors.map((e) => (e === null ? null : !(e > 0) ? -Infinity : e === Infinity ? 308 : Math.log10(e)));
  const finite = /** @type {number[]} */ (logs.filter((l) => l !== null && Number.isFinite(l)));
  const [low, high] = [Math.min(...finite, 0) - 1, Math.max(...finite, -30)];
  return logs.map((l) => (l === null ? 0 : l === -Infinity ? 1.5 : 3 + ((most - 3) * (l - low)) / Math.max(high - low, 1)));
}
