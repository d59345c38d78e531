// Whether the cell that made the view still says what it said then.
const REST_MS = 300;
/** The views that stood in the cell that made them when they were first seen: elsewhere the cell's text says nothing. @type {Set<string>} */
const AT_HOME = new Set();

/** The text of a cell's editor; null where it is not all there to be read. @param {Element} cell @returns {string | null} */
export function textOfCell(cell) {
  const content = /** @type {any} */ (cell.querySelector(".cm-content"));
  if (!content) return null;
  const state = (content.cmView || content.cmTile)?.view?.state;
  if (state) return state.doc.toString();
  if (content.querySelector(".cm-gap")) return null; // lines out of sight
  return [...content.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n");
}

/** Watch the cell around a live view. @param {any} view the step view @returns {() => void} what stops it */
export function watchCell(view) {
  const text = view.model.get("origin")?.text;
  if (typeof text !== "string") return () => {};
  /** @type {any} */
  let timer = null;
  const look = () => {
    const cell = view.host.closest(".jp-Cell");
    const now = cell && textOfCell(cell);
    const differs = typeof now === "string" && now.trim() !== text.trim();
    if (now && !differs) AT_HOME.add(view.model.get("ident"));
    const edited = differs && AT_HOME.has(view.model.get("ident"));
    if (edited === Boolean(view.edited)) return;
    view.edited = edited;
    view.update();
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(look, REST_MS);
  };
  const watcher = new MutationObserver(later);
  const watch = (/** @type {number} */ tries) => {
    const editor = view.host.closest(".jp-Cell")?.querySelector(".jp-InputArea-editor, .cm-editor");
    if (editor) watcher.observe(editor, { childList: true, characterData: true, subtree: true });
    if (!editor && tries) timer = setTimeout(watch, REST_MS, tries - 1); // a view is drawn before it is put into its cell
    else if (editor) later();
  };
  watch(10);
  return () => {
    clearTimeout(timer);
    watcher.disconnect();
  };
}

/** Why the view shows what no longer is, "" where it does not. @param {any} view @returns {string} */
export function staleness(view) {
  if (view.edited) return "the cell was edited since: run it again to see what it compiles now";
  return view.model.get("stale") || "";
}
