"""Registries that are filled when something is first missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xlanb.late_registry import LateRegistry

LOOKS: list[Callable[[LateRegistry[str, int]], object]] = [lambda r: r["b"], lambda r: r.get("b"), lambda r: "b" in r]


@pytest.mark.parametrize("look", LOOKS, ids=["subscript", "get", "in"])
def test_a_missing_entry_is_loaded_however_it_is_looked_up(look: Callable[[LateRegistry[str, int]], object]) -> None:
    loaded: list[str] = []

    def load(key: str) -> None:
        loaded.append(key)
        registry["b"] = 2

    registry: LateRegistry[str, int] = LateRegistry(load)
    registry["a"] = 1
    assert registry["a"] == registry.get("a") == 1
    assert loaded == []
    assert look(registry) in {2, True}
    assert loaded == ["b"]


def test_what_nothing_adds_is_missing() -> None:
    registry: LateRegistry[str, int] = LateRegistry(lambda _: None)
    assert registry.get("a") is None
    assert registry.get("a", 3) == 3
    assert "a" not in registry
    with pytest.raises(KeyError, match="a"):
        registry["a"]
