"""Every Python block of the documentation and of the README runs, page by page, in order."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

import xlanb
from xlanb.tf import reset_default_graph

ROOT = Path(__file__).parents[1]
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md") if "```python" in p.read_text())


FENCED = re.compile(r"^( *)```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
NEEDS_JAX = re.compile(r"^(import jax|from jax)", re.MULTILINE)
MAGIC = re.compile(r"^%.*$", re.MULTILINE)  # what only a notebook knows


PRINTED = re.compile(r"\s*^ *```text\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d[\d.,]*(?:e[-+]\d+)?")  # times, positions of stages, errors: they differ from run to run


def said(text: str) -> set[str]:
    """The lines of an output, without its numbers."""
    return {NUMBER.sub("#", " ".join(line.split())) for line in text.splitlines()} - {"...", ""}


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_the_code_of_a_page_runs_and_prints_what_stands_below_it(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reset_default_graph()
    text = (ROOT / page).read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "docs"}
    has_jax, over_jax = find_spec("jax") is not None, set[str]()
    for block in FENCED.finditer(text):
        section = text[: block.start()].rpartition("\n## ")[0]
        if NEEDS_JAX.search(dedent(block[2])) and not has_jax:
            over_jax.add(section)
        if section in over_jax:
            continue  # run where JAX is installed, with the tests against the real XLA; what follows in its section goes on with its names
        line = text[: block.start(2)].count("\n")
        code = "\n" * line + MAGIC.sub("", dedent(block[2]))
        capsys.readouterr()
        exec(compile(code, page, "exec", dont_inherit=True), names)  # noqa: S102 - our own pages
        printed = PRINTED.match(text, block.end())
        if printed is not None:
            assert said(dedent(printed[1])) <= said(capsys.readouterr().out), f"{page}:{line}"


@pytest.mark.parametrize(
    "page", ["README.md", *(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]
)
def test_links_and_pictures_of_a_page_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    places = [m[1] for m in re.finditer(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) if "://" not in m[1]]
    assert [p for p in places if not ((ROOT / page).parent / p).exists()] == []


def test_there_is_code_to_run() -> None:
    assert len(PAGES) >= 8


@pytest.mark.parametrize("name", sorted(set(xlanb.__all__) - {"load_ipython_extension"}))
def test_a_name_of_the_face_is_in_the_reference(name: str) -> None:
    made = getattr(xlanb, name)
    if isinstance(made, ModuleType):
        return
    text = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    assert made.__doc__
    assert f"::: {made.__module__}.{name}\n" in text
