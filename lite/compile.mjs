// Compile the .py files of packages, each a folder of FOLDER, with the Python of a Pyodide:
//   node compile.mjs PYODIDE FOLDER
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [pyodideFolder, folder] = process.argv.slice(2).map((p) => resolve(p));
const { loadPyodide } = await import(pathToFileURL(`${pyodideFolder}/pyodide.mjs`));
const pyodide = await loadPyodide({ indexURL: pyodideFolder });
pyodide.FS.mkdirTree("/host");
pyodide.mountNodeFS("/host", folder);
pyodide.globals.set("stdlib", "python_stdlib.zip");
const failed = pyodide.runPython(`
import compileall, io, os, py_compile
from contextlib import redirect_stdout

failed = []
for name in sorted(os.listdir("/host")):
    place = "/lib/python312.zip" if name == stdlib else "/lib/python3.12/site-packages"
    with redirect_stdout(io.StringIO()) as told:
        good = compileall.compile_dir(
            f"/host/{name}", quiet=1, stripdir=f"/host/{name}", prependdir=place, legacy=name == stdlib,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, workers=1, maxlevels=30,
        )
    if not good:
        failed.append(f"{name}: {told.getvalue()}")
"\\n".join(failed)
`);
if (failed) {
  console.error(failed);
  process.exitCode = 1;
}
