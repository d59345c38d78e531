"""Binder's environment is pinned by hand: it has all that the package needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", r)[0].lower().replace("_", "-") for r in requirements}


def test_every_dependency_is_pinned_for_binder():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in pinned)
    assert names(project["dependencies"]) <= names(pinned)
