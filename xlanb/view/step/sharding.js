// How arrays lie over the devices: stripes on the nodes, and on an op's card the mesh and each array cut into its parts.
import { h, plural, s } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {{w: string, x: string, a: number[], t?: number[], d?: number[][], e?: Laid[]}} Laid in words, by axes, numbers of the axes; parts a dimension, devices a part; leaves of a tuple */
/** @typedef {{axes: [string, number][], ids: number[], of: Record<string, Laid>}} Table */

const OPERANDS = 3;
const LEAVES = 4;
const AXES = 8;

/** The shardings of an artifact, and its mesh. @param {Store} store @param {number} artifact @returns {Table | undefined} */
function tableOf(store, artifact) {
  const key = store.artifact(artifact)?.mesh;
  return key === undefined ? undefined : store.payload.shardings?.[key];
}

/** A sharding in short: by axes of the mesh where they are known, else as XLA writes it. @param {Store} store @param {number} artifact @param {string} text */
export function shardingName(store, artifact, text) {
  return tableOf(store, artifact)?.of[text]?.x || text;
}

/** Numbers in short: "0-3, 8". @param {number[]} numbers */
export function rangesOf(numbers) {
  /** @type {number[][]} */
  const runs = [];
  for (const n of numbers) {
    const last = runs[runs.length - 1];
    if (last && last[last.length - 1] + 1 === n) last.push(n);
    else runs.push([n]);
  }
  return runs.map((r) => (r.length > 2 ? `${r[0]}-${r[r.length - 1]}` : r.join(", "))).join(", ");
}

/** The slice that a part of an array is, as NumPy writes it. @param {number[]} tiles @param {number[]} dims @param {number} part */
export function sliceOf(tiles, dims, part) {
  let after = tiles.reduce((t, n) => t * n, 1);
  const words = tiles.map((count, d) => {
    after /= count;
    const [index, step] = [Math.floor(part / after) % count, Math.ceil(dims[d] / count)];
    return count > 1 ? `${Math.min(index * step, dims[d])}:${Math.min((index + 1) * step, dims[d])}` : ":";
  });
  return `[${words.join(", ")}]`;
}

/** Rows and columns of the picture of an array: its last dimension that is split goes to the right, those before downwards; one alone goes down but where it is the last. @param {number[]} tiles */
export function gridOf(tiles) {
  const split = tiles.flatMap((n, d) => (n > 1 ? [d] : []));
  const last = split[split.length - 1];
  const columns = split.length > 1 || last === tiles.length - 1 ? tiles[last] || 1 : 1;
  return { rows: tiles.reduce((t, n) => t * n, 1) / columns, columns };
}

/** What a card says of an op's sharding: in words, the mesh, and the arrays that it reads and makes. @param {Store} store @param {number} artifact @param {import("./store.js").Item} item @returns {HTMLElement | null} */
export function shardingSection(store, artifact, item) {
  const table = tableOf(store, artifact);
  const laid = table?.of[item.sh || ""];
  if (!table || !laid) return null;
  const local = Boolean(store.artifact(artifact)?.spmd);
  const figures = figuresOf(item, laid, "", local);
  const names = store.names(artifact);
  for (const name of [...new Set(item.p || [])].slice(0, OPERANDS)) {
    const operand = store.payload.items[names.get(name) ?? -1];
    const own = operand && table.of[operand.sh || ""];
    if (own) figures.push(...figuresOf(operand, own, `operand ${(item.p || []).indexOf(name)} `, local).slice(0, 1));
  }
  const said = h("p", { class: "holds muted", role: "status" }, figures.length ? "Hover over a device or a part to see which device holds what." : "");
  const section = h("section", { class: "sharding", "aria-label": "Sharding" }, h("h4", {}, laid.x ? `Sharding ${laid.x}` : "Sharding"), h("p", {}, `${laid.w}.`), table.ids.length && table.axes.length ? meshFigure(table) : null, figures, said);
  for (const kind of ["pointerover", "focusin"]) section.addEventListener(kind, (e) => lightDevices(section, said, /** @type {Element} */ (e.target).closest("[data-devices]")));
  section.addEventListener("pointerleave", () => lightDevices(section, said, null));
  return section;
}

/** @param {Table} table */
function meshFigure({ axes, ids }) {
  const columns = axes[axes.length - 1][1];
  const cells = ids.map((id) => h("button", { type: "button", class: "part", data: { devices: ` ${id} ` }, "aria-label": `Device ${id}` }, String(id)));
  const name = (/** @type {[string, number]} */ [n, size], /** @type {number} */ k) => h("span", { class: `axis axis-${k % AXES}` }, `${n}=${size}`);
  return h("figure", {}, h("figcaption", {}, "mesh: ", axes.map((axis, k) => [k ? " × " : "", name(axis, k)]).flat()), h("div", { class: "cut", style: { "--columns": columns } }, cells));
}

/** The array of an op cut into its parts; of a tuple its first leaves. @param {import("./store.js").Item} item @param {Laid} laid @param {string} lead @param {boolean} local whether shapes are those of one device @returns {HTMLElement[]} */
function figuresOf(item, laid, lead, local) {
  const shapes = [...item.s.matchAll(/\b[a-z]+\d*[a-z0-9]*\[([\d,<=?]*)\]/g)];
  return (laid.e || [laid]).slice(0, LEAVES).flatMap((leaf, k) => {
    if (!leaf.d || !shapes[k]) return [];
    const tiles = leaf.t || [];
    const held = shapes[k][1].split(",").filter(Boolean).map((n) => Number(n.replace(/\D/g, "")));
    const dims = local && tiles.length === held.length ? held.map((n, d) => n * tiles[d]) : held;
    const { rows, columns } = gridOf(tiles);
    const cells = leaf.d.map((devices, n) => h("div", { class: "part", data: { devices: ` ${devices.join(" ")} `, part: tiles.length ? sliceOf(tiles, dims, n) : "all" } }, rangesOf(devices)));
    const name = `${lead}${item.n}${laid.e ? `{${k}}` : ""}`;
    const what = `${shapes[k][0]}${local ? " on each device" : ""}`;
    const label = `${name}, ${what}, ${leaf.w}`;
    return [h("figure", { data: { array: name } }, h("figcaption", {}, h("b", {}, name), ` ${what}${leaf.x ? ` ${leaf.x}` : ""}`), h("div", { class: `cut${rows * columns > 64 ? " many" : ""}`, role: "img", "aria-label": label, style: { "--columns": columns, "--rows": rows } }, cells))];
  });
}

/** Light up what some devices hold, everywhere on the card, and say it. @param {HTMLElement} section @param {HTMLElement} said @param {Element | null} from a device of the mesh, or a part of an array */
function lightDevices(section, said, from) {
  const devices = (from?.getAttribute("data-devices") || "").split(" ").filter(Boolean);
  const told = [];
  for (const part of section.querySelectorAll("[data-devices]")) {
    const own = part.getAttribute("data-devices") || "";
    const lit = devices.some((d) => own.includes(` ${d} `));
    part.classList.toggle("held", lit);
    if (lit && part.hasAttribute("data-part") && devices.length === 1) told.push(`${part.closest("[data-array]")?.getAttribute("data-array")} ${part.getAttribute("data-part")}`);
  }
  const part = from?.getAttribute("data-part");
  if (!devices.length) return;
  const who = `${devices.length === 1 ? "Device" : "Devices"} ${rangesOf(devices.map(Number))}`;
  said.textContent = told.length ? `${who}: ${told.join("; ")}` : `${who}${part ? `: ${part} of ${from?.closest("[data-array]")?.getAttribute("data-array")}` : ""}`;
}

/** What a propagation did, step by step: the pass told it as decisions. @param {any} stage @returns {any[]} */
function spreadSteps(stage) {
  return (stage?.why?.decisions || []).filter((/** @type {any} */ d) => /^split( alike)?$/.test(d.action));
}

/** The step of the propagation that is shown, -1 for none. @param {any} view */
function spreadAt(view) {
  return view.spread?.stage === view.stage && view.side === "before" ? view.spread.step : -1;
}

/** The steps of a propagation, to be walked: what was split along which axes, after which array; in red what had to yield. @param {any} view the step view @returns {HTMLElement | null} */
export function spreadList(view) {
  const steps = spreadSteps(view.now);
  if (!steps.length) return null;
  const at = spreadAt(view);
  const go = (/** @type {number} */ k, /** @type {string} */ from) => {
    Object.assign(view, { spread: { stage: view.stage, step: Math.max(-1, Math.min(k, steps.length - 1)) }, side: "before", tab: "Graph" });
    view.update();
    requestAnimationFrame(() => view.card.querySelector(`.spread [aria-label="${from}"]:enabled, .spread .current button`)?.focus({ preventScroll: true })); // the card is made anew
  };
  const walk = (/** @type {string} */ face, /** @type {string} */ name, /** @type {number} */ by) => h("button", { type: "button", class: "tool", "aria-label": name, title: name, disabled: at + by < -1 || at + by >= steps.length, onclick: () => go(at + by, name) }, face);
  const row = (/** @type {any} */ d, /** @type {number} */ k) => {
    const [factor] = d.predicates.filter((/** @type {any} */ p) => p[0].startsWith("factor"));
    const of = d.subject[d.subject.length - 1];
    const words = d.taken ? `${of} by ${factor[2]} along ${factor[0].slice(7)}, as ${d.subject[0]}` : d.subject.length && d.action === "split" ? `${of}: ${factor[0]} ${factor[2]}` : `${of} must be resharded, ${factor[0]}: ${factor[2]}`;
    return h("li", { class: `${d.taken ? "yes" : "no"}${k === at ? " current" : ""}${k > at && at >= 0 ? " muted" : ""}` }, h("button", { type: "button", class: "link", "aria-current": k === at ? "step" : null, title: d.predicates.map((/** @type {any} */ p) => `${p[0]}: ${p[2]}`).join("\n"), onclick: () => go(k, "") }, d.taken ? "" : "✗ ", words));
  };
  const list = h("ol", {}, steps.map(row));
  if (at >= 0) requestAnimationFrame(() => list.scrollTo({ top: /** @type {HTMLElement} */ (list.children[at]).offsetTop - 60 }));
  return h("section", { class: "card-body spread", "aria-label": "Propagation" }, h("h4", {}, `Propagation, ${plural(steps.length, "step")} `, walk("‹", "Previous step of the propagation", -1), walk("›", "Next step of the propagation", 1)), list);
}

/** The axes that split each value after a step of the propagation, by op. @param {Table} table @param {any[]} steps @param {Map<string, any>} items @returns {Map<string, number[]>} */
export function axesAfter(table, steps, items) {
  const out = new Map([...items].map(([name, item]) => [name, table.of[item?.sh || ""]?.a || []]));
  for (const d of steps) {
    if (!d.taken) continue;
    const names = [...String(d.predicates[0][2]).matchAll(/"([^"]*)"/g)].map((m) => m[1]);
    const found = table.axes.flatMap(([name], k) => (names.includes(name) ? [k] : []));
    out.set(d.subject[1], [...new Set([...(out.get(d.subject[1]) || []), ...found])].sort());
  }
  return out;
}

/** Stripes on the nodes of the graph that was just drawn, where it is coloured by sharding or a propagation is walked: one in its place for each axis of the mesh that splits the value. @param {any} view the step view */
export function stripeAxes(view) {
  const { element, colour, legend, sheet } = view.graph;
  for (const old of element.querySelectorAll(".stripes, .axis-key")) old.remove();
  for (const old of element.querySelectorAll(".spread-from, .spread-to")) old.classList.remove("spread-from", "spread-to");
  const at = spreadAt(view);
  const table = (colour === "sharding" || at >= 0) && sheet ? tableOf(view.store, view.pictureIndex) : undefined;
  if (!table) return;
  const items = new Map(sheet.nodes.map((/** @type {any} */ n) => [n.item.n, n.item]));
  const steps = at >= 0 ? spreadSteps(view.now).slice(0, at + 1) : [];
  const axes = axesAfter(table, steps, items);
  const now = steps[at]?.subject || [];
  for (const node of element.querySelectorAll(".node")) {
    const name = node.getAttribute("data-op");
    if (now.includes(name)) node.classList.add(name === now[now.length - 1] ? "spread-to" : "spread-from");
    const own = axes.get(name) || [];
    const bars = own.map((k) => s("rect", { class: `axis-${k % AXES}`, x: 8 + 16 * k, y: -3, width: 14, height: 5, rx: 1.5 }));
    if (own.length) node.append(s("g", { class: "stripes" }, s("title", {}, `split along ${own.map((k) => table.axes[k][0]).join(" and ")}`), bars));
  }
  legend.prepend(...table.axes.map(([name, size], k) => h("span", { class: `axis-key axis axis-${k % AXES}` }, `${name}=${size}`)));
}
