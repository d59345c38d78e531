// The graph by keyboard: one node has the focus, arrows follow the edges, Home and End lead to the ends.

/** @typedef {import("./scene.js").Sheet} Sheet */
/** @typedef {{pin(name: string): void, pair(name: string): void, toggle(key: string): void, reveal(key: string): void, leave(): void}} FocusActions */

/** The next box in a direction: along an edge where one leads there, else the nearest. @param {Sheet} sheet @param {string} key @param {string} arrow @returns {string} */
export function neighbour(sheet, key, arrow) {
  const boxes = [...sheet.nodes, ...sheet.groups];
  const here = boxes.find((n) => n.key === key);
  if (!here) return boxes[0]?.key || "";
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[arrow] || [0, 0];
  const along = (sheet.across ? dx : dy) > 0;
  const against = (sheet.across ? dx : dy) < 0;
  const ends = sheet.edges.concat(/** @type {any} */ (sheet.links || []));
  const linked = new Set(along ? ends.filter((e) => e.from === key).map((e) => e.to) : against ? ends.filter((e) => e.to === key).map((e) => e.from) : []);
  const [hx, hy] = [here.x + here.w / 2, here.y + here.h / 2];
  const far = (/** @type {typeof here} */ n) => {
    const [ox, oy] = [n.x + n.w / 2 - hx, n.y + n.h / 2 - hy];
    const ahead = ox * dx + oy * dy;
    const aside = Math.abs(ox * dy) + Math.abs(oy * dx);
    return linked.has(n.key) ? Math.hypot(ox, oy) / 1e3 : ahead > 4 ? ahead + 2.5 * aside : Infinity;
  };
  let [best, least] = [key, Infinity];
  for (const n of boxes) {
    const d = n.key === key ? Infinity : far(n);
    if (d < least) [best, least] = [n.key, d];
  }
  return best;
}

/** The nodes as one reads them: the beginning of the flow first. @param {Sheet} sheet */
function inOrder(sheet) {
  return [...sheet.nodes].sort((a, b) => (sheet.across ? a.x - b.x || a.y - b.y : a.y - b.y || a.x - b.x));
}

export class GraphFocus {
  /** @param {SVGElement} root @param {() => Sheet | null} sheet @param {FocusActions} actions */
  constructor(root, sheet, actions) {
    this.root = root;
    this.sheet = sheet;
    this.actions = actions;
    this.key = "";
    root.addEventListener("keydown", (e) => this._pressed(e));
    root.addEventListener("focusin", (e) => {
      const key = /** @type {Element} */ (e.target).getAttribute("data-key");
      if (key !== null && key !== this.key) this._stop(key);
    });
    // A click works on the whole view, so that its keys go on to step through passes.
    root.addEventListener("mousedown", (e) => {
      if (/** @type {Element} */ (e.target).closest(".node, .group")) e.preventDefault();
    });
  }

  /** @param {string} key @returns {SVGElement | null} */
  element(key) {
    return this.root.querySelector(`[data-key="${CSS.escape(key)}"]`);
  }

  /** Which node the Tab key leads to. @param {string} key */
  _stop(key) {
    const next = this.element(key);
    if (key !== this.key) this.element(this.key)?.setAttribute("tabindex", "-1");
    if (next?.getAttribute("tabindex") !== "0") next?.setAttribute("tabindex", "0");
    this.key = key;
  }

  /** After a drawing: one of the nodes is the way in. */
  refresh() {
    for (const x of this.root.querySelectorAll('.node[tabindex="0"]')) if (x.getAttribute("data-key") !== this.key) x.setAttribute("tabindex", "-1");
    const there = this.element(this.key) ? this.key : inOrder(this.sheet() || /** @type {any} */ ({ nodes: [] }))[0]?.key;
    if (there !== undefined) this._stop(there);
  }

  /** @param {string} key */
  go(key) {
    this._stop(key);
    this.actions.reveal(key);
    this.element(key)?.focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} e */
  _pressed(e) {
    const at = /** @type {Element} */ (e.target).closest("[data-key]");
    const sheet = this.sheet();
    if (!at || !sheet || e.ctrlKey || e.metaKey || e.altKey) return;
    const key = at.getAttribute("data-key") || "";
    const name = at.getAttribute("data-op") || "";
    const group = at.hasAttribute("data-fold") || at.classList.contains("group");
    if (e.key.startsWith("Arrow")) this.go(neighbour(sheet, key, e.key));
    else if (e.key === "Home") this.go(inOrder(sheet)[0].key);
    else if (e.key === "End") this.go(inOrder(sheet)[sheet.nodes.length - 1].key);
    else if (e.key === "Enter" && e.shiftKey) this.actions.pair(name);
    else if (group && (e.key === "Enter" || e.key === (at.hasAttribute("data-fold") ? "+" : "-"))) this.actions.toggle(key);
    else if (e.key === "Enter") this.actions.pin(name);
    else if (e.key === "Escape") this.actions.leave();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
