// The graph as a file: SVG as it is seen, PNG at twice the size, DOT for Graphviz.
import { h, s } from "./dom.js";

/** @typedef {import("./scene.js").Sheet} Sheet */

/** Hand a file to the reader. @param {Blob} blob @param {string} name */
export function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name.replace(/[^\w.-]+/g, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor"];

/**
 * A drawing by itself, every style written out: it looks the same in any viewer.
 * @param {SVGElement} svg @param {Sheet} sheet @param {string} background
 * @returns {string}
 */
export function svgText(svg, sheet, background) {
  const [w, ht] = [Math.ceil(sheet.w + 40), Math.ceil(sheet.h + 40)];
  const copy = /** @type {SVGElement} */ (svg.cloneNode(true));
  const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((x, k) => {
    const seen = getComputedStyle(x);
    const place = /** @type {SVGElement} */ (x).style?.transform;
    to[k].removeAttribute("style");
    for (const name of STYLED) to[k].setAttribute(name, seen.getPropertyValue(name));
    if (place) to[k].setAttribute("transform", place.replace(/px/g, ""));
  });
  copy.querySelector(".view")?.setAttribute("transform", "translate(20,20)");
  for (const [k, v] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width: w, height: ht, viewBox: `0 0 ${w} ${ht}` })) copy.setAttribute(k, String(v));
  copy.prepend(s("rect", { width: w, height: ht, fill: background }));
  return new XMLSerializer().serializeToString(copy);
}

/** @param {string} svg @param {Sheet} sheet @param {string} name */
export function savePng(svg, sheet, name) {
  const [w, ht] = [sheet.w + 40, sheet.h + 40];
  const scale = Math.min(2, 8000 / w, 8000 / ht);
  const image = new Image();
  image.onload = () => {
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: Math.ceil(w * scale), height: Math.ceil(ht * scale) }));
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob && saveBlob(blob, name));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
}

/** The drawing in Graphviz' language. @param {Sheet} sheet @param {string} title */
export function dotText(sheet, title) {
  const quoted = (/** @type {string} */ t) => `"${t.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
  const inside = (/** @type {any} */ n, /** @type {any} */ g) => n.x >= g.x && n.y >= g.y && n.x + n.w <= g.x + g.w && n.y + n.h <= g.y + g.h;
  const lines = [`digraph ${quoted(title)} {`, "  node [shape=box, style=rounded, fontname=sans];"];
  const left = new Set(sheet.nodes);
  const write = (/** @type {any} */ box, /** @type {string} */ pad) => {
    const within = sheet.groups.filter((g) => g !== box && (!box || inside(g, box)));
    for (const g of within.filter((a) => !within.some((b) => b !== a && inside(a, b)))) {
      lines.push(`${pad}subgraph ${quoted(`cluster_${g.key}`)} {`, `${pad}  label=${quoted(g.label)};`);
      write(g, `${pad}  `);
      lines.push(`${pad}}`);
    }
    for (const n of [...left].filter((x) => !box || inside(x, box))) {
      left.delete(n);
      lines.push(`${pad}${quoted(n.key)} [label=${quoted(`${n.item.h[0]}${n.item.h[1]}\n${n.item.h[2]}`)}];`);
    }
  };
  write(null, "  ");
  for (const e of sheet.links || sheet.edges) lines.push(`  ${quoted(e.from)} -> ${quoted(e.to)};`);
  return `${[...lines, "}"].join("\n")}\n`;
}
