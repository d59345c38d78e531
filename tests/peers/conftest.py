"""TensorFlow leaves version 2 once in a process, and never comes back: what needs version 1's behaviour runs last."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that ask for `tf1` after all others, each in its own order."""
    items.sort(key=lambda item: "tf1" in getattr(item, "fixturenames", ()))
