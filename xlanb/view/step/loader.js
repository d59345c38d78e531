// In every saved view: starts it when program and style are on the page, its own or those of another output.

/** @param {HTMLScriptElement} script the one that runs, in the view's box @returns {{box: any, start: () => void}} */
export function waitingView(script) {
  const box = script.closest(".xlanb-static");
  const { version } = script.dataset;
  const code = () => /** @type {any} */ (globalThis)[Symbol.for(`xlanb.saved.${version}`)];
  const start = () => {
    if (code()) return void code().show(box);
    const note = document.createElement("p");
    note.textContent = "This view needs code that another output of xlanb contains: scroll to the first one, or run this cell again if it was removed.";
    const patience = setTimeout(() => box?.prepend(note), 2000);
    document.addEventListener(`xlanb-code-${version}`, () => {
      clearTimeout(patience);
      note.remove();
      code().show(box);
    }, { once: true });
  };
  return { box, start };
}
