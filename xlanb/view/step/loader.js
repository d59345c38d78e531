// Starts the step view on a page without a kernel: unpacks program, style and payload, and stands in for the widget's model.
(async (script) => {
  const box = script.closest(".xlanb-static");
  const unpack = async (text) => {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  const part = (name) => unpack(box.querySelector(`script[data-part="${name}"]`).textContent.trim());
  const key = Symbol.for(`xlanb.step.${script.dataset.version}`);
  if (!globalThis[key]) {
    const program = document.createElement("script");
    program.textContent = await part("program");
    document.head.append(program);
    program.remove();
  }
  const [css, payload] = [await part("style"), JSON.parse(await part("payload"))];
  const escaped = (t) => t.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const source = box.outerHTML;
  const page = () => `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(payload.title || "xlanb")}</title><body style="margin:0">${source}</body></html>`;
  const values = { css, payload, page, can: { step: false, run: false } };
  const model = { get: (name) => values[name], on() {} };
  const mount = document.createElement("div");
  box.append(mount);
  if (document.title && box.parentElement === document.body && document.body.children.length <= 1) mount.style.setProperty("--xlanb-height", "calc(100vh - 2px)");
  globalThis[key].render({ model, el: mount });
  box.querySelector(".xlanb-fallback").hidden = true;
})(document.currentScript);
