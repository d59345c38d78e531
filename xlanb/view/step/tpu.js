// What XLA:TPU leaves: VLIW bundles with the use of each unit, memory spaces over the schedule, the schedule with what runs beside it.
import { bars, figure, liveChart, tempChart } from "./charts.js";
import { bytes, grouped, h, plural, s, time } from "./dom.js";

/** @typedef {import("./store.js").Artifact} Artifact */

const CHART = 900;
const LANE = 18;
const BLOCK_ROWS = 60; // bundles that are built at once, when they come into view
const ROW_PX = 20;

const NARROW = ["VPOP", "OTHER", "BRANCH"];

/** An instruction with its machine registers alone, and VMEM's addresses without what all have: "v3 = vadd.f32 v1, v2" of "%v1003_v3 = vadd.f32 %v1001_v1, %v1002_v2". @param {string} text */
export const inRegisters = (text) => text.replace(/%[a-z]+\d+_([a-z]+\d+)/g, "$1").replace(/^%\d+ = /, "").replace(/\[vmem:\[([^\]]*)\][^\]]*\]/, "[$1]");

/** Seconds of so many bundles, "" where the chip is not known. @param {Artifact} record @param {number} count */
const spent = (record, count) => (record.chip ? time(count / record.chip[1]) : "");

/** @param {number} share */
const percent = (share) => `${Math.round(100 * share)} %`;

/** A program: figures, the use of units over it, its LLO stages, its bundles. @param {Artifact} record */
export function bundlesView(record) {
  const body = h("div", { class: "bundles", role: "region", "aria-label": "Bundles", tabindex: 0 });
  const listing = bundleRows(record, body);
  body.append(
    h("p", { class: "headline", data: record.op ? { op: record.op } : {} }, h("b", {}, record.name), `: ${record.head}`, record.chip ? h("span", { class: "muted" }, ` on ${record.chip[0]}, ${record.chip[1] / 1e9} GHz`) : null),
  );
  if (record.serves.length > 1) body.append(h("p", { class: "note inline" }, `One program for ${record.serves.join(", ")}.`));
  if (record.profile) body.append(profile(record, listing.go));
  body.append(stageList(record));
  if (record.note) body.append(h("p", { class: "note inline" }, record.note));
  body.append(finder(record, listing.go), listing.element);
  return body;
}

/** A box that finds bundles by the text of their instructions. @param {Artifact} record @param {(k: number) => void} go */
function finder(record, go) {
  const box = /** @type {HTMLInputElement} */ (h("input", { class: "find", type: "search", "aria-label": "Find in bundles", placeholder: "find an instruction", autocomplete: "off", spellcheck: "false" }));
  const count = h("span", { class: "muted count" });
  let at = -1;
  const find = (/** @type {number} */ direction) => {
    const hits = bundlesWith(record, box.value);
    if (hits.length) {
      const later = direction > 0 ? hits.find((k) => k > at) : hits.findLast((k) => k < at);
      at = later ?? (direction > 0 ? hits[0] : hits[hits.length - 1]);
      go(at);
    }
    count.textContent = box.value.trim() ? (hits.length ? `${hits.indexOf(at) + 1} of ${hits.length}` : "not found") : "";
  };
  box.addEventListener("input", () => {
    at = -1;
    find(1);
  });
  box.addEventListener("keydown", (e) => {
    e.stopPropagation();
    if (e.key === "Enter") find(e.shiftKey ? -1 : 1);
  });
  const button = (/** @type {string} */ label, /** @type {string} */ face, /** @type {number} */ direction) => h("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick: () => find(direction) }, face);
  return h("div", { class: "tools", role: "group", "aria-label": "Bundle tools" }, box, count, button("Previous bundle found", "↑", -1), button("Next bundle found", "↓", 1));
}

/** Positions of the bundles that are shown and have an instruction with a text in it, by any case. @param {Artifact} record @param {string} text */
export function bundlesWith(record, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const holds = (/** @type {any} */ x) => typeof x === "string" && (x.toLowerCase().includes(wanted) || inRegisters(x).toLowerCase().includes(wanted));
  return record.rows.flatMap((/** @type {any[]} */ row, /** @type {number} */ k) => (row.slice(3).some(holds) ? [k] : []));
}

/** How much of each unit is used along the program, with its loops; a click goes to the bundle. @param {Artifact} record @param {(k: number) => void} go */
function profile(record, go) {
  const shown = record.capacity.map((/** @type {any[]} */ c, /** @type {number} */ k) => ({ unit: c[0], words: c[1], capacity: c[2], share: c[3], line: record.profile[k] })).filter((/** @type {any} */ u) => u.share > 0);
  const depth = Math.max(0, ...record.loops.map((/** @type {number[]} */ l) => l[2]));
  const height = shown.length * LANE + depth * 9 + 4;
  const svg = s("svg", { class: "units", height, viewBox: `0 0 ${CHART} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Use of units over ${plural(record.total, "bundle")}: ${shown.map((/** @type {any} */ u) => `${u.unit} ${percent(u.share)}`).join(", ")}` });
  shown.forEach((/** @type {any} */ u, /** @type {number} */ k) => {
    const base = (k + 1) * LANE;
    const step = CHART / Math.max(u.line.length, 1);
    const path = u.line.map((/** @type {number} */ v, /** @type {number} */ b) => `L${(b * step).toFixed(1)},${(base - (v / 100) * (LANE - 4)).toFixed(1)}H${((b + 1) * step).toFixed(1)}`).join("");
    svg.append(s("path", { class: "gridline", d: `M0,${base}H${CHART}` }), s("path", { class: "area", d: `M0,${base}${path}V${base}Z` }, s("title", {}, `${u.unit}: ${u.words}, ${percent(u.share)} of ${u.capacity}`)));
  });
  for (const [start, end, level] of record.loops) {
    const [x, w] = [(start / record.total) * CHART, Math.max(2, ((end - start + 1) / record.total) * CHART)];
    svg.append(s("rect", { class: "loop", x, width: w, y: shown.length * LANE + 3 + (level - 1) * 9, height: 6 }, s("title", {}, `loop of ${plural(end - start + 1, "bundle")}, depth ${level}: bundles ${start} to ${end}`)));
  }
  svg.addEventListener("click", (e) => {
    const box = svg.getBoundingClientRect();
    go(Math.floor(((/** @type {MouseEvent} */ (e).clientX - box.left) / Math.max(box.width, 1)) * record.total));
  });
  const names = h("div", { class: "names" }, shown.map((/** @type {any} */ u) => h("span", { title: u.words }, u.unit, h("small", {}, percent(u.share)))), depth ? h("span", { class: "loops" }, "loops") : null);
  return h("section", {}, h("h4", {}, "Use of units", h("small", {}, "across: bundles in order · up: share of the unit's capacity · click: go there")), h("div", { class: "profile" }, names, svg));
}

/** The LLO stages as a table, folded. @param {Artifact} record */
function stageList(record) {
  if (!record.stages.length) return null;
  const changed = record.stages.filter((/** @type {any[]} */ x) => x[3]).length;
  const rows = record.stages.map(([label, form, count, differs]) => h("tr", { class: differs ? "" : "same" }, h("td", {}, differs ? "~" : "="), h("td", { class: "mono" }, label), h("td", {}, form), h("td", { class: "num" }, count === null ? "" : grouped(count))));
  return h(
    "details",
    { class: "section" },
    h("summary", {}, h("b", {}, "LLO stages"), ` ${record.stages.length}, ${changed} changed something`, h("small", { class: "muted" }, "  the record's .trace shows their text and what each changed")),
    h("table", {}, h("thead", {}, h("tr", {}, ["", "stage", "form", "instructions"].map((t) => h("th", { scope: "col", class: t === "instructions" ? "right" : "" }, t)))), h("tbody", {}, rows)),
  );
}

/** The bundles, a column for each unit; built block by block as they scroll into view. @param {Artifact} record @param {HTMLElement} root */
function bundleRows(record, root) {
  const columns = record.units.map((/** @type {any[]} */ u) => `${NARROW.includes(u[0]) ? 130 : 190}px`);
  const heat = record.capacity || [];
  const grid = h("div", { class: "grid", role: "table", "aria-label": "Bundles by unit", style: { "--columns": `64px ${Math.max(30, heat.length * 8)}px ${columns.join(" ")}` } });
  grid.append(h("div", { class: "row head", role: "row" }, h("span", { role: "columnheader" }, "bundle"), h("span", { role: "columnheader", title: heat.map((/** @type {any[]} */ c) => c[0]).join(", ") }, heat.length ? "use" : ""), record.units.map((/** @type {any[]} */ u) => h("span", { role: "columnheader", title: u[1] }, u[0], h("small", {}, grouped(u[2]))))));
  const build = (/** @type {HTMLElement} */ block) => {
    if (block.childElementCount) return;
    const at = Number(block.getAttribute("data-at"));
    block.style.removeProperty("min-height");
    block.replaceChildren(...record.rows.slice(at, at + BLOCK_ROWS).map((/** @type {any[]} */ row, /** @type {number} */ k) => bundleRow(record, row, at + k)));
    watcher.unobserve(block);
  };
  const watcher = new IntersectionObserver((entries) => entries.forEach((e) => e.isIntersecting && build(/** @type {HTMLElement} */ (e.target))), { root, rootMargin: "600px 0px" });
  for (let at = 0; at < record.rows.length; at += BLOCK_ROWS) {
    const block = h("div", { class: "block", role: "rowgroup", data: { at }, style: { "min-height": `${Math.min(BLOCK_ROWS, record.rows.length - at) * ROW_PX}px` } });
    if (at < 2 * BLOCK_ROWS) build(block);
    else watcher.observe(block);
    grid.append(block);
  }
  const go = (/** @type {number} */ k) => {
    const index = Math.max(0, Math.min(k, record.rows.length - 1));
    const block = /** @type {HTMLElement | null} */ (grid.querySelector(`.block[data-at="${Math.floor(index / BLOCK_ROWS) * BLOCK_ROWS}"]`));
    if (!block) return;
    build(block);
    for (const x of grid.querySelectorAll(".found")) x.classList.remove("found");
    const row = block.children[index % BLOCK_ROWS];
    row?.classList.add("found");
    row?.scrollIntoView({ block: "center" });
  };
  return { element: grid, go };
}

/** @param {Artifact} record @param {any[]} row @param {number} index */
function bundleRow(record, row, index) {
  const [address, label, loops, calls, ...operations] = row;
  /** @type {Node[][]} */
  const cells = record.units.map(() => []);
  for (let k = 0; k < operations.length; k += 2) cells[operations[k]].push(h("i", { title: operations[k + 1] }, calls && operations[k + 1].includes("inlined_call") ? `call ${calls}` : inRegisters(operations[k + 1])));
  const none = record.units.findIndex((/** @type {any[]} */ u) => u[0] === "OTHER");
  if (none >= 0 && cells[none].length > 1) cells[none] = [h("i", { title: cells[none].map((x) => /** @type {HTMLElement} */ (x).title).join("\n") }, `${cells[none].length} scheduler operations`)];
  const marks = `${label}${loops ? ` ${">".repeat(Math.min(loops, 6))}` : ""}`;
  return h(
    "div",
    { class: `row${loops ? " looped" : ""}${operations.length ? "" : " idle"}`, role: "row", data: calls ? { op: calls } : {} },
    h("span", { class: "address", role: "cell", title: marks ? `${marks} loop body` : "" }, `0x${address.toString(16)}`, marks ? h("small", {}, ` ${marks}`) : null),
    heatCell(record, index),
    cells.map((cell) => h("span", { role: "cell" }, cell)),
  );
}

/** One cell for each unit, the darker the fuller. @param {Artifact} record @param {number} index */
function heatCell(record, index) {
  const digits = record.use?.[index];
  if (!digits) return h("span", { role: "cell" });
  const used = record.capacity.map((/** @type {any[]} */ c, /** @type {number} */ k) => [c[0], parseInt(digits[k], 36), c[2]]);
  const words = used.filter((u) => u[1]).map((u) => `${u[0]} ${u[1]} of ${u[2]}`);
  return h("span", { class: "heat", role: "cell", title: words.join(", ") || "nothing is used", "aria-label": words.join(", ") }, used.map((u) => h("u", { style: { opacity: u[1] ? String(0.25 + 0.75 * Math.min(1, u[1] / Math.max(u[2], 1))) : "0.06" } })));
}

/** Memory space assignment: what lies in the fast memory when, and what only in HBM. @param {Artifact} record */
export function spacesView(record) {
  const body = h("div", { class: "memory", role: "region", "aria-label": "Memory spaces", tabindex: 0 });
  const peak = Math.max(0, ...record.fast);
  const of = record.capacity ? `most in ${record.space}, ${percent(peak / record.capacity)} of ${bytes(record.capacity)}` : `most in ${record.space}`;
  body.append(h("div", { class: "figures" }, figure(bytes(peak), of), figure(bytes(Math.max(0, ...record.slow)), "most of the others in HBM"), figure(`${record.placed} of ${record.count}`, `buffers in ${record.space} for a time`), figure(String(record.steps), "instructions in the schedule")));
  const fast = record.buffers.flatMap(([name, place, , , , , stretches]) => stretches.map(([offset, size, start, end]) => [name, [], place, offset, size, start, end]));
  if (fast.length) body.append(h("h4", {}, `${record.space} over the schedule`, h("small", {}, "down: bytes · across: program order")), tempChart(record, [{ size: record.extent, values: fast }]));
  if (peak) body.append(h("h4", {}, `Bytes in ${record.space}`), liveChart({ live: record.fast, sequence: record.sequence }));
  if (record.slow.some((/** @type {number} */ b) => b > 0)) body.append(h("h4", {}, "Bytes of buffers that are only in HBM"), liveChart({ live: record.slow, sequence: record.sequence }));
  const at = (/** @type {number} */ k) => `${k} ${record.sequence[k] ?? ""}`;
  const rows = record.buffers.map(([name, place, size, benefit, defined, last, stretches, , uses]) =>
    h("tr", { data: { op: name } }, h("td", { class: "mono" }, place), h("td", { class: "num" }, bytes(size)), h("td", {}, stretches.length ? stretches.map(([, , a, b]) => `${record.space} ${a}–${b}`).join(", ") : "HBM"), h("td", { class: "mono" }, at(defined)), h("td", { class: "mono" }, at(last)), h("td", { class: "num" }, String(uses)), h("td", { class: "num" }, benefit ? benefit.toExponential(1) : "0")),
  );
  const heads = ["buffer", "size", "where", "defined at", "last used at", "uses", "benefit"];
  body.append(h("h4", {}, "Buffers", h("small", {}, "benefit: XLA's estimate of the time saved by fast memory")), h("table", {}, h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col", class: ["size", "uses", "benefit"].includes(t) ? "right" : "" }, t)))), h("tbody", {}, rows)));
  if (record.hidden) body.append(h("p", { class: "note inline" }, `${plural(record.hidden, "more buffer")} not shown.`));
  return body;
}

/** The schedule as a time line: the programs in a row, copies and collectives beside them. @param {Artifact} record */
export function scheduleView(record) {
  const body = h("div", { class: "timing", role: "region", "aria-label": "Schedule", tabindex: 0 });
  const whole = spent(record, record.total);
  const collectives = record.spans.filter((/** @type {any[]} */ x) => x[8]).length;
  body.append(h("div", { class: "figures" }, figure(grouped(Math.round(record.total)), "bundles, loops once"), whole ? figure(whole, `of ${record.chip[0]} at ${record.chip[1] / 1e9} GHz, if no unit waits`) : null, ...(record.roof ? [figure(time(record.roof[0]), "minimum for its arithmetic"), figure(time(record.roof[1]), "minimum for its HBM traffic"), record.roof[3] ? figure(time(record.roof[3]), "by XLA's cost analysis") : null, figure(percent(record.roof[2]), "of the matrix units' capacity")] : []), figure(String(record.rows.filter((/** @type {any[]} */ r) => r[3]).length), "instructions with code"), figure(String(record.spans.length), `asynchronous copies and collectives${collectives ? `, ${collectives} of them collectives` : ""}`)));
  body.append(h("h4", {}, "Schedule", h("small", {}, "across: bundles in order; copies and collectives overlap other instructions, from their start until an instruction waits for them")), scheduleChart(record));
  body.append(h("h4", {}, "Bundles by HLO instruction"), bars([...record.rows].sort((a, b) => b[3] + b[4] - a[3] - a[4]).map((r) => ({ label: r[0], op: r[0], value: record.chip ? (r[3] + r[4]) / record.chip[1] : r[3] + r[4], detail: [r[1], r[3] ? plural(r[3], "bundle") : `${r[4]} bundles of the top level`, r[6] && r[7] ? `busiest ${r[6]} ${percent(r[7])}` : "", r[8] ? `MXU ${percent(r[8])}` : "", r[11] ? `${grouped(r[11])} flops` : "", r[12] ? `HBM ${bytes(r[12])}` : "", r[13] ? `${bytes(r[13])} of scoped VMEM` : "", r[9]].filter((x) => x).join(" · ") }))));
  if (record.spans.length) {
    const rows = record.spans.map((/** @type {any[]} */ x) => h("tr", { data: { op: x[0] } }, h("td", { class: "mono" }, x[0]), h("td", {}, x[1]), h("td", { class: "num" }, bytes(x[4])), h("td", {}, `${x[5]} → ${x[6]}`), h("td", { class: "num" }, grouped(x[7])), h("td", { class: "num" }, spent(record, x[7]))));
    body.append(h("h4", {}, "Copies and collectives"), h("table", {}, h("thead", {}, h("tr", {}, ["instruction", "what", "bytes", "from, to", "bundles overlapped", "time overlapped"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, rows)));
  }
  if (record.hidden) body.append(h("p", { class: "note inline" }, `${plural(record.hidden, "more row")} not shown.`));
  return body;
}

/** @param {Artifact} record */
function scheduleChart(record) {
  const lanes = lanesOf(record.spans);
  const count = Math.max(0, ...lanes.map((l) => l + 1));
  const height = 34 + count * LANE;
  const X = (/** @type {number} */ v) => (v / Math.max(record.total, 1)) * CHART;
  const svg = s("svg", { class: "chart schedule", viewBox: `0 0 ${CHART} ${height}`, role: "img", "aria-label": "The schedule" });
  const box = (/** @type {string} */ cls, /** @type {string} */ name, /** @type {number} */ x, /** @type {number} */ w, /** @type {number} */ y, /** @type {number} */ ht, /** @type {string} */ words) => {
    const g = s("g", { class: `value ${cls}`, data: { op: name } }, s("rect", { x, y, width: Math.max(1.5, w - 0.6), height: ht, rx: 2 }), s("title", {}, words));
    if (w > 46) g.append(s("text", { x: x + 4, y: y + ht / 2 + 4 }, name.length * 7.5 < w - 8 ? name : `${name.slice(0, Math.floor(w / 7.5) - 2)}…`));
    svg.append(g);
  };
  for (const [name, opcode, start, own, call, , unit, share, , , collective] of record.rows) box(collective ? "collective" : "code", name, X(start), X(own + call), 4, 22, `${name} (${opcode})\n${plural(own, "bundle")}, ${call} of the top level${unit ? `\nbusiest ${unit} ${percent(share)}` : ""}`);
  record.spans.forEach((/** @type {any[]} */ x, /** @type {number} */ k) => box(x[8] ? "collective" : "copy", x[0], X(x[2]), X(x[3] - x[2]), 32 + lanes[k] * LANE, LANE - 4, `${x[0]}: ${x[1]}, ${bytes(x[4])}, ${x[5]} → ${x[6]}\noverlaps ${plural(x[7], "bundle")}`));
  return svg;
}

/** A lane for each span, so that none covers another. @param {any[][]} spans @returns {number[]} */
export function lanesOf(spans) {
  /** @type {number[]} */
  const free = [];
  const lanes = new Array(spans.length).fill(0);
  const order = spans.map((_, k) => k).sort((a, b) => spans[a][2] - spans[b][2]);
  for (const k of order) {
    const found = free.findIndex((end) => end <= spans[k][2]);
    const lane = found < 0 ? free.length : found;
    free[lane] = Math.max(spans[k][3], spans[k][2] + 1);
    lanes[k] = lane;
  }
  return lanes;
}

const SPACES = ["HBM", "VMEM", "SFLAG", "CMEM", "SMEM", "host memory"];

/** A tiled layout of a TPU in words, "" for others: "{1,0:T(8,128)S(1)}". @param {string} [layout] */
export function layoutWords(layout = "") {
  const tiles = layout.match(/T((?:\([\d,*]+\))+)/);
  if (!tiles) return "";
  const said = [...tiles[1].matchAll(/\(([\d,*]+)\)/g)].map(([, t], k) => {
    const sizes = t.split(",");
    if (k && sizes.length === 2 && sizes[1] === "1") return `${sizes[0]} rows share a 32-bit word`;
    return `${k ? "cut again into tiles" : "tiles"} of ${sizes.join(" x ")}${!k && sizes.length === 2 && sizes[1] === "128" ? ` (${sizes[0]} sublanes by 128 lanes)` : ""}`;
  });
  const space = Number(layout.match(/S\((\d+)\)/)?.[1] ?? 0);
  return `${said.join(", ")}, in ${SPACES[space] || `memory space ${space}`}`;
}

/** What has a view of its own: the pane it is shown in, and how. @type {Record<string, {tab: string, view: (record: Artifact) => HTMLElement}>} */
export const TPU_VIEWS = {
  bundles: { tab: "Text", view: bundlesView },
  spaces: { tab: "Memory", view: spacesView },
  tpu_schedule: { tab: "Timing", view: scheduleView },
};
