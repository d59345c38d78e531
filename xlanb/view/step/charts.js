// Memory over program order, and times.
import { bytes, grouped, h, plural, s, time } from "./dom.js";

/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {import("./store.js").Trace} Trace */

const FEW = 12; // bars that are shown before the rest is asked for
const CHART_LETTER = 6.7; // the width of a letter in charts
const LABEL_HEIGHT = 13;
const LABEL_GAP = 13; // between a point and its name
const FEW_VALUES = 60; // values of an allocation, likewise
/** Kinds of stages that are passes over a program, and those that are runs of it. */
const PASSES = new Set(["optimize", "mark_for_compilation", "encapsulate_subgraphs", "build_xla_ops", "hlo_pass"]);
const RUNS = new Set(["execution", "compilation_cache"]);

/**
 * A picture that is drawn for the width it has, and again where that changes: its letters keep their size.
 * @param {(width: number) => SVGElement} draw @returns {HTMLElement}
 */
export function fitted(draw) {
  const box = h("div", { class: "chartbox" });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.round(box.clientWidth);
    if (width < 40 || width === drawn) return;
    drawn = width;
    box.replaceChildren(draw(width));
  }).observe(box);
  return box;
}

/** A name cut to a width in pixels. @param {string} name @param {number} room */
const cut = (name, room) => (name.length * CHART_LETTER < room ? name : `${name.slice(0, Math.max(2, Math.floor(room / CHART_LETTER) - 1))}…`);

/** @param {Artifact | null} record @param {(name: string) => string} called what the user calls an op */
export function memoryView(record, called) {
  const body = h("div", { class: "memory", role: "region", "aria-label": "Memory", tabindex: 0 });
  if (!record) {
    body.append(h("p", { class: "empty" }, "Buffers are assigned later: step on to buffer assignment."));
    return body;
  }
  body.append(
    h("div", { class: "figures" }, figure(bytes(record.total), "in all"), figure(bytes(record.temp), "temp"), figure(bytes(record.peak), "peak of live temps"), ...Object.entries(record.kinds).map(([name, size]) => figure(bytes(/** @type {number} */ (size)), name)), figure(String(record.allocations.length), "allocations")),
  );
  const temps = record.allocations.filter((/** @type {any} */ a) => a.kind === "temp" && a.size > 0 && a.values.length);
  if (temps.length) body.append(h("h4", {}, "Temporary memory", h("small", {}, "down: bytes · across: program order")), tempChart(record, temps));
  if (record.live.some((/** @type {number} */ b) => b > 0)) body.append(h("h4", {}, "Bytes alive"), liveChart(record));
  body.append(h("h4", {}, "Allocations"), table(record, called));
  if (record.hidden) body.append(h("p", { class: "note inline" }, `${plural(record.hidden, "more value")} not shown.`));
  return body;
}

/** @param {string} value @param {string} label */
export function figure(value, label) {
  return h("div", { class: "figure" }, h("b", {}, value), h("span", {}, label));
}

/** @param {Artifact} record @param {any[]} temps */
export function tempChart(record, temps) {
  return fitted((width) => drawTemps(record, temps, width));
}

/** @param {Artifact} record @param {any[]} temps @param {number} width */
function drawTemps(record, temps, width) {
  const steps = Math.max(record.steps, 1);
  const total = temps.reduce((t, a) => t + a.size, 0);
  const height = Math.max(70, Math.min(260, 44 * temps.reduce((t, a) => t + a.values.length, 0)));
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height + 16}`, role: "img", "aria-label": `Memory over the program: ${bytes(total)} over ${plural(record.steps, "step")}` });
  let base = 0;
  for (const a of temps) {
    for (const [name, , shape, offset, size, start, end] of /** @type {any[][]} */ (a.values)) {
      const x = (start / steps) * width;
      const until = nextOver(a.values, offset, size, start, end); // what shares its bytes is drawn over it
      const w = Math.max(3, ((until - start) / steps) * width - 2);
      const y = ((base + offset) / total) * height;
      const ht = Math.max(3, (size / total) * height - 2);
      const box = s("g", { class: "value", data: { op: name } }, s("rect", { x, y, width: w, height: ht, rx: 4 }), s("title", {}, `${name} ${shape}\n${bytes(size)} at byte ${offset}, alive from step ${start} to ${end}`));
      if (ht > 14 && w > 40) box.append(s("text", { x: x + 7, y: y + ht / 2 + 4 }, cut(name, w - 10)));
      svg.append(box);
    }
    base += a.size;
  }
  svg.append(...axis(width, height + 12, "step 0", `step ${record.steps}`));
  return svg;
}

/** The step from which on another value has bytes of one that is alive from `start` to `end`. @param {any[][]} values @param {number} offset @param {number} size @param {number} start @param {number} end */
export function nextOver(values, offset, size, start, end) {
  const later = values.filter((v) => v[5] > start && v[5] <= end && v[3] < offset + size && offset < v[3] + v[4]);
  return Math.min(end + 1, ...later.map((v) => v[5]));
}

/** @param {Artifact} record */
export function liveChart(record) {
  return fitted((width) => drawLive(record, width));
}

/** Words at both ends of a picture's lower rim. @param {number} width @param {number} y @param {string} left @param {string} right */
function axis(width, y, left, right) {
  return [s("text", { class: "peak", x: 3, y }, left), s("text", { class: "peak", x: width - 3, y, "text-anchor": "end" }, right)];
}

/** @param {any} record @param {number} width */
function drawLive(record, width) {
  const most = record.live.reduce((/** @type {number} */ m, /** @type {number} */ b) => Math.max(m, b), 1);
  const step = width / record.live.length;
  let d = "M0,84";
  record.live.forEach((/** @type {number} */ b, /** @type {number} */ k) => {
    const y = 84 - (b / most) * 72;
    d += `L${(k * step).toFixed(1)},${y.toFixed(1)}L${((k + 1) * step).toFixed(1)},${y.toFixed(1)}`;
  });
  const at = record.live.indexOf(most);
  const words = `${bytes(most)} at ${record.sequence[at] ?? `step ${at}`}`;
  const late = (at + 0.5) * step > width / 2;
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} 100`, role: "img", "aria-label": `Bytes alive, ${words} at most` },
    s("path", { class: "area", d: `${d}L${width},84Z` }),
    s("text", { class: "peak", x: (at + 0.5) * step, y: 10, "text-anchor": late ? "end" : "start" }, cut(words, late ? (at + 0.5) * step : width - (at + 0.5) * step)),
    ...axis(width, 96, "step 0", `step ${record.live.length}`),
  );
}

/** @param {Artifact} record @param {(name: string) => string} called */
function table(record, called) {
  const rows = record.allocations.flatMap((/** @type {any} */ a) => [
    h("tr", { class: "allocation" }, h("td", {}, `#${a.i}`), h("td", {}, a.kind, a.parameter !== null && a.parameter !== undefined ? ` ${a.parameter}` : ""), h("td", { class: "num" }, bytes(a.size)), h("td", {}, plural(a.values.length, "value")), h("td", {}), h("td", {})),
    ...rowsOfValues(a.values, called),
  ]);
  return h("table", {}, h("thead", {}, h("tr", {}, ["#", "what", "size", "shape", "offset", "steps alive"].map((t) => h("th", { scope: "col", class: ["size", "offset", "steps alive"].includes(t) ? "right" : "" }, t)))), h("tbody", {}, rows));
}

/** The values of an allocation, the largest first; many are shown on demand. @param {any[][]} values @param {(name: string) => string} called @returns {HTMLElement[]} */
function rowsOfValues(values, called) {
  const row = (/** @type {any[]} */ [name, index, shape, offset, size, start, end]) =>
    h("tr", { data: { op: name } }, h("td", {}), h("td", { class: "mono" }, called(name), index.length ? `{${index.join(",")}}` : ""), h("td", { class: "num" }, bytes(size)), h("td", { class: "mono" }, shape), h("td", { class: "num" }, `${grouped(offset)} B`), h("td", { class: "num" }, `${start}–${end}`));
  const rest = values.slice(FEW_VALUES);
  if (rest.length < FEW) return values.map(row);
  const show = h("tr", {}, h("td", {}), h("td", { colspan: 5 }, h("button", { type: "button", class: "link", onclick: () => show.replaceWith(...rest.map(row)) }, `Show ${plural(rest.length, "more value")}`)));
  return [...values.slice(0, FEW_VALUES).map(row), show];
}

/**
 * @param {Trace} trace
 * @param {number} current
 * @param {Artifact | null} execution
 * @param {(k: number) => void} go
 */
export function timingView(trace, current, execution, go) {
  const body = h("div", { class: "timing", role: "region", "aria-label": "Timing", tabindex: 0 });
  const total = trace.counts?.seconds ?? null; // without runs, and without what a cache saved
  body.append(h("div", { class: "figures" }, figure(total === null ? "unknown" : time(total), trace.live ? "compile time so far" : "compile time"), execution ? figure(time(execution.s), execution.runs > 1 ? `per run, of ${execution.runs}` : "last timed run") : null, !execution && trace.runs?.length ? figure(time(trace.runs.at(-1)), "last run") : null, trace.runs?.length ? figure(grouped(trace.runs.length), trace.runs.length === 1 ? "run so far" : "runs so far") : null));
  if (execution && execution.kernels.length) {
    body.append(h("h4", {}, "Kernels of the run"), fewBars(execution.kernels.map((/** @type {any[]} */ k) => ({ label: k[0], op: k[1], value: k[2], detail: [k[5], k[6], k[3] ? bytes(k[3]) : "", k[4] ? `${grouped(k[4])} flops` : "", limit(k)].filter((x) => x).join(" · ") })), "kernel"));
  }
  const roof = execution && roofline(execution.kernels, execution.roof);
  const meaning = execution?.roof?.flops ? "the roof was measured on this machine with benchmark kernels" : "no roof: the machine was not measured";
  if (roof) body.append(h("h4", {}, "Roofline", h("small", {}, `across: flops per byte · up: flops per second · both logarithmic; ${meaning}`)), roof);
  if (execution && execution.results.length) {
    body.append(h("h4", {}, "Results"), h("table", {}, h("tbody", {}, execution.results.map((/** @type {string[]} */ r) => h("tr", {}, h("td", { class: "mono" }, r[0]), h("td", { class: "mono wrap" }, r[1]))))));
  }
  const rows = trace.stages.map((x, k) => ({ label: x.name, op: "", value: x.s, detail: x.s === null || x.s === undefined ? "unknown" : "", k, current: k === current })).filter((r) => !RUNS.has(trace.stages[r.k].kind));
  if (!rows.some((r) => r.value)) {
    body.append(h("p", { class: "empty" }, "The times of the stages are unknown: a dump does not contain them. Compile the program here to measure them."));
    return body;
  }
  const slowest = rows.filter((r) => PASSES.has(trace.stages[r.k].kind) && r.value).sort((a, b) => (b.value || 0) - (a.value || 0)).slice(0, 8);
  if (rows.length > 16 && slowest.length) body.append(h("h4", {}, "The slowest passes"), bars(slowest, go));
  body.append(h("h4", {}, "All stages of the compilation", h("small", {}, "wall time, from left to right; click one")), fitted((width) => drawStrip(rows, width, go)));
  body.append(h("details", { class: "section every", open: rows.length <= FEW }, h("summary", {}, h("b", {}, "One by one"), h("small", {}, plural(rows.length, "stage"))), bars(rows, go)));
  return body;
}

/** @typedef {{label: string, op: string, value: number | null, detail: string, k?: number, current?: boolean}} Bar */

/** Stages one after the other, as wide as they took. @param {Bar[]} rows @param {number} width @param {(k: number) => void} go */
function drawStrip(rows, width, go) {
  const total = rows.reduce((t, r) => t + (r.value || 0), 0) || 1;
  const svg = s("svg", { class: "chart strip", viewBox: `0 0 ${width} 62`, role: "img", "aria-label": `${plural(rows.length, "stage")} in ${time(total)}` });
  let x = 0;
  rows.forEach((r, n) => {
    const wide = ((r.value || 0) / total) * width;
    const part = s("g", { class: `part${r.current ? " current" : ""}${n % 2 ? " odd" : ""}`, onclick: () => go(r.k ?? 0) }, s("rect", { x, y: 2, width: Math.max(0.6, wide - 0.5), height: 42 }), s("title", {}, `${r.label}: ${time(r.value)}, ${Math.round((100 * (r.value || 0)) / total)} %`));
    if (wide > 60) part.append(s("text", { x: x + 5, y: 19 }, cut(r.label, wide - 8)), s("text", { class: "peak", x: x + 5, y: 35 }, time(r.value)));
    svg.append(part);
    x += wide;
  });
  svg.append(...axis(width, 58, "0", time(total)));
  return svg;
}

/** The first bars; the rest is asked for. @param {Bar[]} rows @param {string} what */
function fewBars(rows, what) {
  const most = Math.max(...rows.map((r) => r.value || 0), 1e-12);
  if (rows.length <= FEW + 2) return bars(rows);
  return h("div", {}, bars(rows.slice(0, FEW), undefined, most), h("details", { class: "section every" }, h("summary", {}, `${plural(rows.length - FEW, `more ${what}`)}, ${time(rows.slice(FEW).reduce((t, r) => t + (r.value || 0), 0))} together`), bars(rows.slice(FEW), undefined, most)));
}

/**
 * @param {Bar[]} rows
 * @param {(k: number) => void} [go]
 * @param {number} [longest] the value of a whole bar
 */
export function bars(rows, go, longest = 1e-12) {
  const most = Math.max(...rows.map((r) => r.value || 0), longest);
  return h(
    "div",
    { class: "bars" },
    rows.map((r) =>
      h(
        "div",
        { class: `hbar${r.current ? " current" : ""}`, data: r.op ? { op: r.op } : {}, onclick: go && r.k !== undefined ? () => go(/** @type {number} */ (r.k)) : null },
        h("span", { class: "label", title: r.label }, r.label),
        h("span", { class: "track" }, r.value ? h("span", { class: "fill", style: { width: `${Math.max(0.4, (100 * r.value) / most)}%` } }) : null),
        h("span", { class: "num" }, time(r.value)),
        r.detail && r.detail !== "unknown" ? h("span", { class: "detail" }, r.detail) : null,
      ),
    ),
  );
}

/** @param {Artifact} cache */
export function cacheView(cache) {
  return h(
    "div",
    { class: "cache" },
    h("div", { class: "figures" }, figure(cache.hit ? "hit" : "miss", "compilation cache"), figure(String(cache.hits), "hits"), figure(String(cache.misses), "misses"), figure(String(cache.entries), "entries"), figure(time(cache.s), cache.hit ? "of compilation saved" : "to compile")),
    h("h4", {}, "Signature"),
    h("pre", { class: "plain" }, cache.signature),
  );
}

/** How near a kernel is to which limit of the machine, empty where that is not known. @param {any[]} k */
const limit = (k) => (k[7] ? `${k[7] < 0.005 ? "under 1" : Math.round(100 * k[7])} % of the ${k[8]} limit` : "");

/**
 * Kernels by arithmetic intensity and speed, null where flops, bytes or times are not known.
 * @param {any[][]} kernels @param {{flops: number, memory: [number, number][]} | undefined} machine its limits: flops per second, and bytes per second by bytes gone through
 */
function roofline(kernels, machine) {
  const points = kernels.filter((k) => k[2] > 0 && k[3] > 0 && k[4] > 0).map((k) => ({ name: k[0], op: k[1], x: k[4] / k[3], y: k[4] / k[2], limit: limit(k), bandwidth: k[3] / k[2], share: k[2] }));
  return points.length ? fitted((width) => drawRoof(points, machine, width)) : null;
}

/** @param {any[]} points @param {{flops: number, memory: [number, number][]} | undefined} machine @param {number} W */
function drawRoof(points, machine, W) {
  const [H, pad] = [230, 34];
  const log = Math.log10;
  const xs = points.map((p) => log(p.x));
  const ys = points.map((p) => log(p.y));
  const [x0, x1] = [Math.floor(Math.min(...xs) - 0.3), Math.ceil(Math.max(...xs) + 0.3)];
  const measured = Boolean(machine?.flops && machine.memory.length);
  const top = Math.max(...ys, ...(measured ? [log(machine?.flops || 1)] : []));
  const [y0, y1] = [Math.floor(Math.min(...ys) - 0.3), Math.ceil(top + 0.1)];
  const X = (/** @type {number} */ v) => pad + ((v - x0) / (x1 - x0)) * (W - pad * 2);
  const Y = (/** @type {number} */ v) => H - 22 - ((v - y0) / (y1 - y0)) * (H - 40);
  const fastest = log(Math.max(1, ...(machine?.memory || []).map((m) => m[1])));
  const knee = Math.min(Math.max(top - fastest, x0), x1);
  const svg = s("svg", { class: "chart roofline", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Roofline of the kernels" });
  for (let v = x0; v <= x1; v += 1) svg.append(s("path", { class: "gridline", d: `M${X(v)},12V${H - 22}` }), s("text", { class: "peak", x: X(v) + 3, y: H - 8 }, `${v >= 0 ? 10 ** v : `1/${10 ** -v}`}${v === x1 ? "" : " flop/B"}`));
  for (let v = y0; v <= y1; v += 1) svg.append(s("path", { class: "gridline", d: `M${pad},${Y(v)}H${W - pad}` }), s("text", { class: "peak", x: 2, y: Y(v) + 4 }, `${10 ** (v % 3 + (v % 3 < 0 ? 3 : 0))}${["", "k", "M", "G", "T", "P"][Math.floor(v / 3)] ?? ""}${v === y1 ? " flop/s" : ""}`));
  if (measured) svg.append(s("path", { class: "roof", d: `M${X(x0)},${Y(Math.max(y0, x0 + fastest))}L${X(knee)},${Y(Math.min(top, knee + fastest))}H${X(x1)}` }));
  const most = Math.max(...points.map((p) => p.share));
  const radius = (/** @type {any} */ p) => 4 + 6 * Math.sqrt(p.share / most);
  const labels = new ChartLabels(W, H - 20, points.map((p) => [X(log(p.x)), Y(log(p.y)), radius(p)]));
  for (const p of [...points].sort((a, b) => b.share - a.share)) {
    const dot = s("g", { class: "value", data: { op: p.op } }, s("circle", { cx: X(log(p.x)), cy: Y(log(p.y)), r: radius(p) }), s("title", {}, `${p.name}\n${p.x.toPrecision(3)} flops per byte, ${(p.y / 1e9).toPrecision(3)} Gflop/s, ${(p.bandwidth / 1e9).toPrecision(3)} GB/s${p.limit ? `\n${p.limit}` : ""}`));
    if (p.share * 6 > most) {
      const label = labels.place(X(log(p.x)), Y(log(p.y)), p.op || p.name);
      if (label) dot.append(label);
    }
    svg.append(dot);
  }
  return svg;
}

/** Names beside points of a chart, none over another one or over a point: a name moves up, down or to the other side, or is left to the tooltip. */
export class ChartLabels {
  /** @param {number} width of the chart @param {number} height @param {number[][]} points [x, y, radius], which no name covers */
  constructor(width, height, points) {
    this.width = width;
    this.height = height;
    this.taken = points.map(([x, y, r]) => [x - r, y - r, x + r, y + r]);
  }

  /** @param {number} x @param {number} y of the point @param {string} name @returns {SVGElement | null} */
  place(x, y, name) {
    const wide = name.length * CHART_LETTER;
    for (const dy of [0, -LABEL_HEIGHT, LABEL_HEIGHT]) {
      for (const left of [x + LABEL_GAP, x - LABEL_GAP - wide]) {
        const box = [left, y + dy - LABEL_HEIGHT / 2, left + wide, y + dy + LABEL_HEIGHT / 2];
        if (box[0] < 0 || box[2] > this.width || box[1] < 0 || box[3] > this.height) continue;
        if (this.taken.some((b) => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3])) continue;
        this.taken.push(box);
        return s("text", { x: left, y: y + dy + 4 }, name);
      }
    }
    return null;
  }
}

/** A sparkline of the passes' times. @param {Trace} trace @param {number} current */
export function sparkline(trace, current) {
  const values = trace.stages.map((x) => x.s || 0);
  const most = Math.max(...values, 1e-12);
  return spark(values.map((v) => 1 + 18 * Math.sqrt(v / most)), current);
}

/** Small bars, the current one set off. @param {number[]} heights of 20 @param {number} current */
export function spark(heights, current) {
  const step = 120 / Math.max(heights.length, 1);
  return s(
    "svg",
    { class: "spark", viewBox: "0 0 120 20", "aria-hidden": "true" },
    heights.map((v, k) => s("rect", { class: k === current ? "now" : "", x: k * step, width: Math.max(step - 0.8, 0.6), y: 20 - v, height: v })),
  );
}
