"""Every tutorial runs from top to bottom, in silence: no error, no warning, nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # A copy, so that what a tutorial writes beside itself does not land in the sources.
    workplace = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, workplace, ignore=shutil.ignore_patterns(".*", "*.html"))
    monkeypatch.setenv("XLANB_DEMO_HTML", str(tmp_path / "demo.html"))

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": workplace}}).execute()

    assert complaints(notebook) == []


def complaints(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells wrote to stderr. An error has already ended the run."""
    return [
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]
