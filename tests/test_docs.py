"""Generated pages are current."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SPEC = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
assert SPEC is not None
assert SPEC.loader is not None
GENERATE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GENERATE)


@pytest.mark.parametrize("name", GENERATE.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == GENERATE.PAGES[name](), (
        "run: python docs/generate.py"
    )
