"""What tests of passes share: random inputs for a module, and the check that a rewrite keeps the meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, parse
from xlanb.shape import Shape, TupleShape


def random_value(shape: Shape, rng: np.random.Generator) -> Any:
    """Small numbers of any sign; zeros and equal values among them."""
    if isinstance(shape, TupleShape):
        return tuple(random_value(s, rng) for s in shape.shapes)
    s = shape.as_array()
    if s.element_type.is_complex:
        return (rng.standard_normal(s.dimensions) + 1j * rng.standard_normal(s.dimensions)).astype(s.dtype)
    if s.element_type.is_floating:
        return (rng.integers(-8, 9, s.dimensions) / 4).astype(s.dtype)
    if s.element_type.text == "pred":
        return rng.integers(0, 2, s.dimensions).astype(bool)
    low = -5 if s.element_type.is_signed else 0
    return rng.integers(low, 6, s.dimensions).astype(s.dtype)


def same_value(a: Any, b: Any) -> None:
    if isinstance(a, tuple):
        assert isinstance(b, tuple)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same_value(x, y)
        return
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
    else:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        # relative to the largest: sums in another order differ by that much
        tolerance = 0.02 if a.dtype.itemsize < 4 else 2e-5
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance)


@pytest.fixture
def keeps_meaning() -> Callable[..., HloModule]:
    """keeps_meaning(text, rewrite): the module after rewrite(module), verified, with the same results on random inputs."""

    def check(text: str, rewrite: Callable[[HloModule], object], seeds: int = 3) -> HloModule:
        before, after = parse(text), parse(text)
        rewrite(after)
        after.verify()
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            arguments = [random_value(p.shape, rng) for p in before.entry_computation.parameters]
            same_value(evaluate(before, *arguments), evaluate(after, *arguments))
        return after

    return check
