"""All tests of this folder need peers: JAX, TensorFlow and other packages that xlanb never needs.

TensorFlow leaves version 2 once in a process, and never comes back: what needs version 1's
behaviour runs last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder `peer`; those that ask for `tf1` run after all others."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.peer)
    items.sort(key=lambda item: "tf1" in getattr(item, "fixturenames", ()))
