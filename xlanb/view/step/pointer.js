// What the pointer does on the graph: drag it, scroll it, zoom it.

const DRAG_FROM = 4; // pixels: a shorter way is a click

/** @param {import("./graph.js").GraphView} graph */
export function listen(graph) {
  graph.svg.addEventListener("wheel", (e) => turnWheel(graph, e), { passive: false });
  graph.svg.addEventListener("pointerdown", (down) => {
    if (down.button === 0) startDrag(graph, down);
  });
}

/** Once the view has the focus the wheel moves a graph that is larger than the pane, and with Ctrl it zooms; before, the page scrolls. @param {import("./graph.js").GraphView} graph @param {WheelEvent} e */
function turnWheel(graph, e) {
  const root = /** @type {ShadowRoot} */ (graph.element.getRootNode());
  const zooms = e.ctrlKey || e.metaKey;
  if (!zooms && !root.activeElement) return;
  const box = graph.svg.getBoundingClientRect();
  graph.stop();
  if (zooms) graph.zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - box.left, e.clientY - box.top);
  else if (!graph.scroll(e.shiftKey ? e.deltaY : e.deltaX, e.shiftKey ? 0 : e.deltaY)) return;
  e.preventDefault();
}

/** @param {import("./graph.js").GraphView} graph @param {PointerEvent} down */
function startDrag(graph, down) {
  const { svg } = graph;
  const from = { x: down.clientX - graph.x, y: down.clientY - graph.y };
  let moved = false;
  const move = (/** @type {PointerEvent} */ e) => {
    if (!moved && Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) < DRAG_FROM) return;
    if (!moved) svg.setPointerCapture(down.pointerId);
    moved = true;
    svg.classList.add("dragging");
    graph.drag(e.clientX - from.x, e.clientY - from.y);
  };
  const up = () => {
    svg.removeEventListener("pointermove", move);
    svg.classList.remove("dragging");
    if (moved) graph.settle();
  };
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerup", up, { once: true });
  svg.addEventListener("pointercancel", up, { once: true });
}
