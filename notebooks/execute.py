"""Run the tutorials from top to bottom, and save what they show.

    python notebooks/execute.py                 every tutorial, with the solution of each exercise after it; nothing is written
    python notebooks/execute.py 03 04           some of them
    python notebooks/execute.py --jobs 2        two at a time
    python notebooks/execute.py --save 03       run as a reader does, and write the outputs into the notebook

Saved outputs are for who reads without running: GitHub and nbviewer draw no plotly figure and no widget. So each figure of plotly's own is saved as a picture too (needs playwright and
Chromium); those of xlanb have one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = Path(__file__).parent
SOLUTION = re.compile(r"<summary>Solution</summary>\s*```python\n(.*?)\n```", re.DOTALL)
PLOTLY = "application/vnd.plotly.v1+json"
NATIVE = re.compile(r"(?:WARNING: All log messages before absl::InitializeLog|[IW]\d{4} .* cudart_stub\.cc:).*\n?")
"""What JAX's GPU plugin writes when it is loaded where there is no driver, whatever the level of its log."""
USER_FRAMES = {"JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS": "0"}
"""What is saved names the reader's own lines, not those of the libraries of the machine where it was run."""
WIDGET = "application/vnd.jupyter.widget-view+json"
LIVE_TWIN = re.compile(r'(<div class="xlanb-static") data-ident="[^"]*"')
"""The name of the widget whose saved page this is: with a name, the page waits for its widget."""


def tutorials(*numbers: str) -> list[Path]:
    """The notebooks whose names begin with one of these numbers; all where none is given."""
    return [p for p in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) if not numbers or p.stem.split("-")[0] in numbers]


def with_solutions(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with each folded solution as a cell of its own, tagged `solution`, after the exercise."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown" and (found := SOLUTION.search(cell.source)):
            cells.append(nbformat.v4.new_code_cell(found[1], metadata={"tags": ["solution"]}))
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


def execute(path: Path, *, solutions: bool = False, timeout: int = 300) -> nbformat.NotebookNode:
    """Run a tutorial in a copy of its folder, so that nothing it writes lands in the sources.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    if solutions:
        notebook = with_solutions(notebook)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "notebooks"
        shutil.copytree(path.parent, place, ignore=shutil.ignore_patterns(".*", "*.html", "*.py"))
        client = NotebookClient(
            notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(place)}}
        )
        client.on_cell_execute = lambda cell, **_: name_cell(client, cell)
        client.execute()
    drop_native_logs(notebook)
    return notebook


def name_cell(client: NotebookClient, cell: nbformat.NotebookNode) -> None:
    """Say which cell a request comes from, as JupyterLab does: the outputs of one notebook then share the view's code."""
    client.kc.session.metadata = {"cellId": cell.id}


def drop_native_logs(notebook: nbformat.NotebookNode) -> None:
    """Take out the lines that native libraries write to stderr when they are loaded."""
    for cell in notebook.cells:
        for output in [o for o in cell.get("outputs", []) if o.get("name") == "stderr"]:
            output.text = NATIVE.sub("", output.text)
            if not output.text.strip():
                cell.outputs.remove(output)


def unsolved(notebook: nbformat.NotebookNode) -> list[str]:
    """The sources of the solutions that were not judged right."""
    return [
        cell.source
        for cell in notebook.cells
        if "solution" in cell.metadata.get("tags", ())
        and not any(o.get("data", {}).get("text/plain", "").startswith("✓") for o in cell.outputs)
    ]


def complaints(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells wrote to stderr. An error has already ended the run."""
    return [
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]


# ---------------------------------------------------------------------------------------------------- saved outputs


def save(path: Path) -> None:
    """Run a tutorial as a reader does and write its outputs into it."""
    notebook = execute(path)
    for k, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{k:02d}"
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = without_widgets(cell.outputs)
    add_pictures([o for c in notebook.cells for o in c.get("outputs", []) if "data" in o])
    notebook.metadata.pop("widgets", None)
    text = nbformat.writes(notebook)
    for private in {os.getcwd(), str(Path.home()), sys.prefix} - {"/"}:
        if private in text:
            raise SystemExit(f"{path.name}: an output names {private}")
    path.write_text(text + "\n", encoding="utf-8")


def without_widgets(outputs: list[Any]) -> list[Any]:
    """Return the outputs of a cell without widgets, which are dead without their kernel, and without empty outputs.

    A step widget gives way to its saved page, which takes over its text; any other to its text.
    """
    kept: list[Any] = []
    caption = ""
    for output in outputs:
        data = output.get("data", {})
        if WIDGET in data and "text/plain" in data:
            del data[WIDGET]
            caption = data["text/plain"]
        page, named = LIVE_TWIN.subn(r"\1", data.get("text/html", ""))
        if named:
            data |= {"text/html": page} | ({"text/plain": caption} if caption else {})
            kept = [o for o in kept if o.get("data", {}).get("text/plain") != caption]
        if "data" not in output or any(data.values()):
            kept.append(output)
    return kept


def add_pictures(outputs: list[Any]) -> None:
    """Add a picture to each plotly figure."""
    figures = [o for o in outputs if PLOTLY in o.data and "<img " not in o.data.get("text/html", "")]
    if not figures:
        return
    from playwright.sync_api import sync_playwright
    from plotly.offline import get_plotlyjs

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 900, "height": 600})
        page.set_content("<div id=figure></div>")
        page.add_script_tag(content=get_plotlyjs())
        for output in figures:
            url = page.evaluate(
                "async f => { const p = await Plotly.newPlot('figure', f.data, {...f.layout, width: 860});"
                " return await Plotly.toImage(p, {format: 'png', width: 860, height: f.layout.height || 420, scale: 1}) }",
                json.loads(json.dumps(output.data[PLOTLY])),
            )
            output.data["image/png"] = url.split(",", 1)[1] + "\n"
        browser.close()


def main() -> None:
    os.environ.update(USER_FRAMES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", help="the tutorials' numbers, such as 03")
    parser.add_argument("--save", action="store_true", help="write outputs into the notebooks")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at a time")
    options = parser.parse_args()
    work = partial(outcome, saved=options.save)
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:  # each runs in a kernel, a process of its own
        for good, told in pool.map(work, tutorials(*options.numbers)):
            failed |= not good
            print(told, flush=True)
    raise SystemExit(failed)


def outcome(path: Path, *, saved: bool) -> tuple[bool, str]:
    """Run a tutorial; whether it is well, and what there is to say."""
    begin = time.perf_counter()
    try:
        if saved:
            save(path)
            faults = []
        else:
            notebook = execute(path, solutions=True)
            faults = [f"not judged right: {source}" for source in unsolved(notebook)]
            faults += [f"written to stderr: {text}" for text in complaints(notebook)]
    except CellExecutionError as error:
        stopped = error.ename == "LessonStopped"
        return stopped, f"{path.stem}: {error.evalue if stopped else error}"
    return not faults, "\n  ".join([f"{path.stem}: {time.perf_counter() - begin:.1f} s", *faults])


if __name__ == "__main__":
    main()
