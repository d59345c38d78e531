"""Every Python block of the documentation and of the README runs, page by page, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md") if "```python" in p.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "docs"}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], page, "exec", dont_inherit=True), names)  # noqa: S102 - our own pages


def test_there_is_code_to_run() -> None:
    assert len(PAGES) >= 8
