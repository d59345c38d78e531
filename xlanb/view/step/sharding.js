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
  const said = h("p", { class: "holds muted", role: "status" }, figures.length ? "Point at a device or a part: who holds what." : "");
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

/** Stripes on the nodes of the graph that was just drawn, where it is coloured by sharding: one in its place for each axis of the mesh that splits the value. @param {any} view the step view */
export function stripeAxes(view) {
  const { element, colour, legend, sheet } = view.graph;
  for (const old of element.querySelectorAll(".stripes, .axis-key")) old.remove();
  const table = colour === "sharding" && sheet ? tableOf(view.store, view.pictureIndex) : undefined;
  if (!table) return;
  const items = new Map(sheet.nodes.map((/** @type {any} */ n) => [n.key, n.item]));
  for (const node of element.querySelectorAll(".node")) {
    const laid = table.of[items.get(node.getAttribute("data-key"))?.sh || ""];
    if (!laid || !laid.a.length) continue;
    const bars = laid.a.map((k) => s("rect", { class: `axis-${k % AXES}`, x: 8 + 16 * k, y: -3, width: 14, height: 5, rx: 1.5 }));
    node.append(s("g", { class: "stripes" }, s("title", {}, `${laid.w}, over ${plural(table.ids.length || 1, "device")}`), bars));
  }
  legend.prepend(...table.axes.map(([name, size], k) => h("span", { class: `axis-key axis axis-${k % AXES}` }, `${name}=${size}`)));
}
