// Several compilations side by side: what each came to, as a table, and what it looks like.
import { bytes, grouped, h, s, time } from "./dom.js";
import { number } from "./numerics.js";
import { place } from "./place.js";
import { givenFolds, sceneOf } from "./scene.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Trace} Trace */

/** Seconds of the compilation, without runs and without what a cache saved; null where unknown. @param {Trace} trace @returns {number | null} */
export function compileSeconds(trace) {
  if (trace.counts?.seconds !== undefined) return trace.counts.seconds;
  const known = trace.stages.filter((x) => x.kind !== "execution" && x.kind !== "compilation_cache" && typeof x.s === "number");
  return known.length ? known.reduce((t, x) => t + /** @type {number} */ (x.s), 0) : null;
}

/** What there is to say about a branch. @param {Store} store @param {Trace} trace */
export function summary(store, trace) {
  const end = trace.stages.length - 1;
  const module = store.latest(trace, end, "module") || store.latest(trace, end, "graph");
  const buffers = store.latest(trace, end, "buffers");
  const execution = store.latest(trace, end, "execution");
  const errors = trace.stages.map((x) => x.err).filter((x) => x !== null && x !== undefined);
  const opcodes = new Set(["fusion", "dot", "convolution", "copy", "reduce"]);
  const count = new Map();
  for (const c of module?.c || []) for (const i of store.payload.chunks[c].i) if (opcodes.has(store.payload.items[i].o)) count.set(store.payload.items[i].o, (count.get(store.payload.items[i].o) || 0) + 1);
  return {
    name: trace.name,
    stages: trace.stages.length,
    changed: trace.counts?.changed ?? trace.stages.filter((x) => x.ch).length,
    ops: module?.n ?? null,
    mix: [...count].map(([o, n]) => `${n} ${o}`).join(", "),
    kernels: trace.counts?.kernels ?? null,
    temp: buffers ? buffers.temp : null,
    peak: buffers ? buffers.peak : null,
    compile: compileSeconds(trace),
    run: trace.runs?.length ? trace.runs[trace.runs.length - 1] : execution ? execution.s : null,
    error: errors.length ? Math.max(.../** @type {number[]} */ (errors)) : null,
    result: execution?.results?.[0]?.[1] ?? "",
    failed: trace.stages.find((x) => x.e)?.name ?? "",
    module: module?.c ? module : null,
  };
}

/** @type {[string, (x: ReturnType<typeof summary>) => string, boolean][]} label, text, and whether less is better */
const ROWS = [
  ["stages", (x) => String(x.stages), false],
  ["stages that changed something", (x) => String(x.changed), false],
  ["ops at the end", (x) => (x.ops === null ? "unknown" : grouped(x.ops)), true],
  ["by kind", (x) => x.mix, false],
  ["kernels", (x) => (x.kernels === null ? "unknown" : grouped(x.kernels)), false],
  ["temporary memory", (x) => (x.temp === null ? "unknown" : bytes(x.temp)), true],
  ["peak of live temporaries", (x) => (x.peak === null ? "unknown" : bytes(x.peak)), true],
  ["compile time", (x) => time(x.compile), true],
  ["run time", (x) => time(x.run), true],
  ["largest error", (x) => number(x.error), true],
  ["result", (x) => (x.result.length > 120 ? `${x.result.slice(0, 120)}…` : x.result), false],
  ["failed at", (x) => x.failed, false],
];

/**
 * @param {Store} store @param {number} current @param {(n: number) => void} choose
 */
export function branchesView(store, current, choose) {
  const payload = store.payload;
  const all = payload.order.map((n) => ({ n, sum: summary(store, payload.traces[n]) }));
  const head = all.map(({ n, sum }) => h("th", { scope: "col" }, h("button", { type: "button", class: `stagelink${n === current ? " here" : ""}`, onclick: () => choose(n) }, sum.name || `branch ${n}`), n === current ? h("small", {}, " shown") : null));
  const rows = ROWS.map(([label, text]) => {
    const texts = all.map(({ sum }) => text(sum));
    if (texts.every((t) => !t || t === "unknown")) return null;
    const differs = new Set(texts.filter((t) => t && t !== "unknown")).size > 1; // what is not known differs from nothing
    return h("tr", { class: differs ? "differs-row" : "" }, h("th", { scope: "row" }, label, differs ? h("span", { class: "t-chg", title: "they differ" }, " ~") : null), texts.map((t) => h("td", { class: "mono" }, t || "–")));
  });
  const pictures = all.map(({ sum }) => h("td", {}, sum.module ? thumbnail(place(sceneOf(sum.module, payload, givenFolds(sum.module)))) : "–"));
  return h("div", { class: "branches", role: "region", "aria-label": "Compare", tabindex: 0 }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), head)), h("tbody", {}, rows, h("tr", {}, h("th", { scope: "row" }, "graph at the end"), pictures))));
}

/** @param {import("./scene.js").Sheet} sheet */
function thumbnail(sheet) {
  const boxes = [...sheet.nodes, ...sheet.groups];
  const [x, y] = [Math.min(0, ...boxes.map((b) => b.x)), Math.min(0, ...boxes.map((b) => b.y))];
  const [w, ht] = [Math.max(1, sheet.w, ...boxes.map((b) => b.x + b.w)) - x, Math.max(1, sheet.h, ...boxes.map((b) => b.y + b.h)) - y];
  const box = (/** @type {any} */ b, /** @type {string} */ cls, /** @type {Record<string, string>} */ data) => s("rect", { class: cls, x: b.x, y: b.y, width: b.w, height: b.h, rx: 9, data });
  return s(
    "svg",
    { class: "thumb", viewBox: `${x} ${y} ${w} ${ht}`, "aria-hidden": "true" },
    sheet.groups.map((g) => box(g, "box", {})),
    sheet.edges.map((e) => s("path", { class: "edge", d: `M${e.points.slice(0, 2)}L${e.points.slice(2).join(" ")}` })),
    sheet.nodes.map((n) => box(n, `dot fam-${n.item.f.replace(/^tf-/, "")}`, { op: n.item.n })),
  );
}
