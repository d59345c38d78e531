// What each key does, while the view has the focus.
import { filmPressed } from "./filmpane.js";
import { toggleFullScreen } from "./fullscreen.js";
import { findOp, findsByKey } from "./graphpane.js";
import { goLast, letGo, seek, seekKind, stepRewrite, togglePlay } from "./walk.js";

/** The table of the help: keys, and what they do. */
export const HELP = [
  ["↑ ↓", "previous, next pass"],
  ["n p", "next, previous pass that changed something"],
  ["← →", "individual rewrites within the pass: graph, diff, text after each"],
  ["[ ]", "previous, next kind of stage"],
  ["Home End", "first, last pass"],
  ["g d t", "graph, diff, text"],
  ["c w", "code side by side, why"],
  ["m i e", "memory, timing, numerics (errors)"],
  ["v", "film: space plays, ← → one pass that changed something, with shift any pass"],
  ["b", "before or after, in graph and text"],
  ["h", "hide passes that changed nothing"],
  ["/ f", "filter passes, find in text (also Ctrl-F)"],
  ["o", "find an op in the graph (or Ctrl+F there)"],
  ["1 9", "how deep the graph's groups are opened"],
  ["Tab", "into the graph: arrows follow its edges, Enter pins or opens, Shift+Enter asks why"],
  ["space", "fit the whole graph; again: zoom to a readable size"],
  ["Enter", "play or pause"],
  ["z", "full screen, and back"],
  ["shift+click", "a second op: why; a second pass: diff"],
  ["double-click", "go to the stage where the op continues"],
  ["Esc", "unpin, close this"],
];

/**
 * The action of a key, null for none.
 * @param {any} view the step view
 * @param {string} key
 * @returns {(() => void) | null}
 */
export function actionOf(view, key) {
  const changed = (/** @type {any} */ x) => Boolean(x.ch || x.e);
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => view.next(),
    ArrowUp: () => view.previous(),
    ArrowRight: () => stepRewrite(view, 1),
    ArrowLeft: () => stepRewrite(view, -1),
    Home: () => view.go(0),
    End: () => goLast(view),
    n: () => seek(view, 1, changed),
    p: () => seek(view, -1, changed),
    "]": () => seekKind(view, 1),
    "[": () => seekKind(view, -1),
    g: () => view.show("Graph"),
    d: () => view.show("Diff"),
    t: () => view.show("Text"),
    c: () => view.show("Code"),
    w: () => view.show("Why"),
    m: () => view.show("Memory"),
    e: () => view.show("Numerics"),
    i: () => view.show("Timing"),
    v: () => view.show("Film"),
    b: () => view.turn(view.side === "after" ? "before" : "after"),
    h: () => view.toggleHide(),
    "/": () => view.filterBox.focus(),
    f: () => view.findInText(),
    o: () => findOp(view),
    " ": () => view.graph.fitWhole(),
    Enter: () => togglePlay(view),
    z: () => toggleFullScreen(view),
    "?": () => view.toggleHelp(),
    Escape: () => letGo(view),
  };
  if (/^[1-9]$/.test(key)) return () => view.picture.depth?.(Number(key));
  return Object.hasOwn(keys, key) ? keys[key] : null;
}

/** A key was pressed in the view. @param {any} view the step view @param {KeyboardEvent} e */
export function pressed(view, e) {
  if ((e.ctrlKey || e.metaKey) && e.key === "f" && ["Text", "Code"].includes(view.shownTab)) {
    e.preventDefault();
    return view.findInText();
  }
  if (findsByKey(view, e)) return undefined;
  if (e.ctrlKey || e.metaKey || e.altKey) return undefined;
  const target = /** @type {Element} */ (e.composedPath()[0]);
  if (target.matches("select, textarea, .find, .filmsave input")) return undefined;
  if (target === view.filterBox) {
    if (e.key === "Escape" || e.key === "Enter") {
      view.root.focus({ preventScroll: true });
      e.preventDefault();
    }
    e.stopPropagation();
    return undefined;
  }
  const onButton = target instanceof HTMLButtonElement && (e.key === " " || e.key === "Enter");
  if (!onButton && filmPressed(view, e)) return undefined;
  const action = onButton ? null : actionOf(view, e.key);
  if (!action) return undefined;
  e.preventDefault();
  e.stopPropagation();
  return action();
}
