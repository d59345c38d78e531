"""Who may import whom: the contracts of [tool.importlinter] in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parent.parent


def test_imports_keep_the_contracts(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT)  # lint_imports adds to sys.path too: this restores it
    status = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)
    assert status == EXIT_STATUS_SUCCESS, capfd.readouterr().out
