"""Generated files are current."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("docs_generate", Path(__file__).parents[1] / "docs/generate.py")
assert SPEC is not None
assert SPEC.loader is not None
GENERATE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GENERATE)


@pytest.mark.parametrize("path", GENERATE.GENERATED, ids=lambda path: path.name)
def test_a_generated_file_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == GENERATE.GENERATED[path](), "run: python docs/generate.py"
