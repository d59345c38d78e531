// Shows views on a page without a kernel: unpacks program, style and payload, and stands in for the widget's model.
// One output of a notebook carries this, with program and style; the others find it here.
import { unpack, unpackText } from "./unpack.js";

/** Lets the views of a page start. @param {HTMLScriptElement} script the one that runs, beside program and style @param {string} version */
export function shareCode(script, version) {
  const shared = Symbol.for(`xlanb.saved.${version}`);
  const page = /** @type {any} */ (globalThis);
  if (page[shared]) return;
  const box = /** @type {HTMLElement} */ (script.closest(".xlanb-static"));
  const parts = [.../** @type {NodeListOf<HTMLScriptElement>} */ (box.querySelectorAll("script[data-code]"))];
  const html = parts.map((x) => x.outerHTML).join("\n");
  const text = (/** @type {string} */ name) => unpackText(parts.find((x) => x.dataset.code === name)?.textContent.trim() || "");
  page[shared] = { html, text, show: (/** @type {HTMLElement} */ view) => showSaved(view, version, page[shared]) };
  document.dispatchEvent(new Event(`xlanb-code-${version}`));
}

/**
 * Start a view.
 * @param {HTMLElement} box
 * @param {string} version
 * @param {{html: string, text: (name: string) => Promise<string>}} code
 */
async function showSaved(box, version, code) {
  const given = box.outerHTML.replace(/ data-ident="[^"]*"/, "");
  const source = box.querySelector("script[data-code]") ? given : given.replace(/<script\b/, (first) => `${code.html}\n${first}`);
  const key = Symbol.for(`xlanb.step.${version}`);
  const page = /** @type {any} */ (globalThis);
  // All at once: while one is inflated another is read.
  const [program, css, payload] = await Promise.all([page[key] ? "" : code.text("program"), code.text("style"), unpack(box.querySelector('script[data-part="payload"]')?.textContent?.trim() || "")]);
  if (!page[key]) {
    const script = document.createElement("script");
    script.textContent = program;
    document.head.append(script);
    script.remove();
  }
  const escaped = (/** @type {string} */ t) => t.replace(/[&<>]/g, (c) => /** @type {any} */ ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const whole = () => `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(payload.title || "xlanb")}</title><body style="margin:0">${source}</body></html>`;
  /** @type {Record<string, any>} */
  const values = { css, payload, page: whole, can: { step: false, run: false } };
  const mount = document.createElement("div");
  box.append(mount);
  if (document.title && box.parentElement === document.body && document.body.children.length <= 1) mount.style.setProperty("--xlanb-height", "calc(100vh - 2px)");
  page[key].render({ model: { get: (/** @type {string} */ name) => values[name], on() {} }, el: mount });
  const fallback = /** @type {HTMLElement} */ (box.querySelector(".xlanb-fallback"));
  fallback.hidden = true;
}
