"""The package as others meet it: light to import, complete when installed, a command to call."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAVY = [
    "IPython",
    "anywidget",
    "graphviz",
    "ipywidgets",
    "jax",
    "jinja2",
    "llvmlite",
    "ml_dtypes",
    "numpy",
    "pandas",
    "plotly",
    "tensorflow",
]


def python(*args: str) -> str:
    """Return the output of a new interpreter with warnings as errors."""
    done = subprocess.run([sys.executable, "-W", "error", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    loaded = python("-c", "import sys, xlanb; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_version_is_that_of_the_distribution():
    version = python("-c", "import xlanb; print(xlanb.__version__)").strip()
    assert version == importlib.metadata.version("xlanb")


def test_every_name_of_the_face_is_there():
    xlanb = importlib.import_module("xlanb")
    missing = [name for name in xlanb.__all__ if not hasattr(xlanb, name)]
    assert missing == []


def test_no_room_is_hidden_by_a_function():
    """`import xlanb.x` and `xlanb.x` must be the same thing."""
    xlanb = importlib.import_module("xlanb")
    rooms = {path.stem for path in (ROOT / "xlanb").iterdir() if path.suffix in {"", ".py"}}
    hidden = [name for name in rooms & set(xlanb.__all__) if callable(getattr(xlanb, name))]
    assert hidden == []


def test_command_line_has_help():
    assert "usage: xlanb" in python("-m", "xlanb", "--help")


def test_types_are_shipped():
    assert (ROOT / "xlanb" / "py.typed").exists()


def test_completion_lists_the_face_and_nothing_else():
    shown = python(
        "-c",
        "import xlanb, xlanb.runtime.session\n"
        "print([n for n in dir(xlanb) if not n.startswith('__') and n not in xlanb.__all__])\n"
        "print([n for n in dir(xlanb.teach) if n not in xlanb.teach.__all__])",
    )
    assert shown.split("\n")[:2] == ["[]", "[]"]
