"""Check that a rewrite preserves the semantics.

Inputs that reveal differences, and how much each verdict allows to differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.numeric_values import is_float, same, some_of
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.numbers import leaves_of
from xlanb.hlo import HloModule, parse
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.tracing import Edit, Event, observing
from xlanb.transforms import PASSES
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES
from xlanb.transforms.verdict import EXACT, NOTHING, Loss, Verdict

Array = NDArray[Any]
Draw = Callable[[ArrayShape, np.random.Generator], Array]

TYPES = ("bf16", "f16", "f64", "f8e4m3fn", "s32", "s8", "c64")
"""Types that replace f32 in the programs of the goldens; integers become f32."""
_TOLERANCE, _TOLERANCE_F64 = "1e-6", "1e-15"
"""What iterations that end at a tolerance are asked for."""
_RULE_ULPS = 16.0
"""The error allowed for a rule that holds only in real numbers, as in bisection.

In units in the last place of the largest magnitude.
"""
_OF_RULES = {r.label: r.keeps for r in RULES.rules}


# -- inputs ----------------------------------------------------------------------------------------


def quarters(s: ArrayShape, rng: np.random.Generator) -> Array:
    """Small numbers of any sign with exact sums and products, including zeros and equal values."""
    t = s.element_type
    if t.is_complex:
        return ((rng.integers(-8, 9, s.dimensions) + 1j * rng.integers(-8, 9, s.dimensions)) / 4).astype(s.dtype)
    if t.is_floating:
        return (rng.integers(-8, 9, s.dimensions) / 4).astype(s.dtype)
    if t.text == "pred":
        return rng.integers(0, 2, s.dimensions).astype(bool)
    return rng.integers(-5 if t.is_signed else 0, 6, s.dimensions).astype(s.dtype)


def mantissas(s: ArrayShape, rng: np.random.Generator) -> Array:
    """Floats with random mantissas around one, so that each step rounds; integers as `quarters`."""
    if s.element_type.is_complex:
        return (rng.standard_normal(s.dimensions) + 1j * rng.standard_normal(s.dimensions)).astype(s.dtype)
    return rng.standard_normal(s.dimensions).astype(s.dtype) if s.element_type.is_floating else quarters(s, rng)


def _edges(dtype: Any) -> Array:
    facts = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        plain = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float64).astype(dtype)
    return np.array([*plain, facts.smallest_subnormal, facts.max], dtype)


def extremes(s: ArrayShape, rng: np.random.Generator) -> Array:
    """The limits of the type, denormals, both zeros, infinities, NaN and random bits.

    Also numbers halfway between those of narrower types.
    """
    count = int(np.prod(s.dimensions))
    made = some_of(s.element_type.text, rng, count)
    if s.element_type.is_floating:  # each of the edges, if there is room
        room, edges = count // 2, _edges(s.dtype)
        made[rng.permutation(count)[:room]] = np.resize(rng.permutation(edges), room)
    return made.reshape(s.dimensions)


def some_extremes(s: ArrayShape, rng: np.random.Generator) -> Array:
    """A few extremes: with more of them every sum would be NaN."""
    return np.where(rng.random(s.dimensions) < 0.06, extremes(s, rng), mantissas(s, rng)).astype(s.dtype)


def drawn(shape: Shape, rng: np.random.Generator, draw: Draw) -> Any:
    """A value of a shape."""
    if isinstance(shape, TupleShape):
        return tuple(drawn(s, rng, draw) for s in shape.shapes)
    return draw(shape.as_array(), rng)


_IN_RANGE = (quarters, mantissas)


# -- what is allowed -------------------------------------------------------------------------------


@dataclass
class Allowed:
    """What the rewrites of a run may lose together, by the verdicts of their rules and passes.

    It observes the run. A rewrite without a rule or pass may lose nothing.
    """

    floats: Loss = NOTHING
    complexes: Loss = NOTHING
    ulps: float = 0.0

    def __post_init__(self) -> None:
        self._seen: set[str] = set()

    def on_event(self, event: Event) -> None:
        if not isinstance(event, Edit):
            return
        cause = event.cause
        by_rule = cause.rule in _OF_RULES
        name = cause.rule if by_rule else cause.pass_name
        if name in self._seen:
            return
        self._seen.add(name)
        made = PASSES.get(cause.pass_name)
        verdict: Verdict = _OF_RULES[name] if by_rule else made.keeps if made is not None else EXACT
        self.floats |= verdict.loss()
        self.complexes |= verdict.loss(is_complex=True)
        if Loss.ROUNDING in verdict.loss() | verdict.loss(is_complex=True):
            self.ulps += made.ulps if made is not None and not by_rule else _RULE_ULPS

    @property
    def anything(self) -> bool:
        """Whether the numbers differ on purpose."""
        return Loss.NUMBERS in self.floats

    def of(self, a: Array) -> Loss:
        """What elements of this array may lose."""
        if np.iscomplexobj(a):
            return self.complexes
        return self.floats if is_float(a) else NOTHING


def error_in_ulps(a: Array, b: Array) -> float:
    """The largest error of any element, in ulps of the largest magnitude of `b`.

    Infinite if NaN or infinities are at different positions.
    """
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(x) & np.isfinite(y)
    if not np.all(finite | (x == y) | (np.isnan(x) & np.isnan(y))):
        return float("inf")
    error = float(np.max(np.abs(x - y), where=finite, initial=0.0))
    scale = float(np.max(np.abs(y), where=finite, initial=0.0))
    facts = ml_dtypes.finfo(a.real.dtype)  # type: ignore[no-untyped-call]
    return error / (max(scale, float(facts.smallest_normal)) * float(facts.eps))


def lost(a: Array, b: Array) -> Loss:
    """What was lost where elements of a and b differ in their bits: ROUNDING for other numbers."""
    differ = ~np.atleast_1d(same(a, b))
    if not differ.any():
        return NOTHING
    if np.iscomplexobj(a):
        return lost(np.real(a), np.real(b)) | lost(np.imag(a), np.imag(b))
    if not is_float(a):
        return Loss.ROUNDING
    x, y = (np.atleast_1d(v)[differ].astype(np.float64) for v in (a, b))
    kinds = {
        Loss.NAN: np.isnan(x) | np.isnan(y),
        Loss.INFINITY: np.isinf(x) | np.isinf(y),
        Loss.ZERO_SIGN: (x == 0) & (y == 0),
    }
    found = NOTHING
    rest = np.ones(x.shape, bool)
    for kind, where in kinds.items():
        if (rest & where).any():
            found |= kind
        rest &= ~where
    return found | Loss.ROUNDING if rest.any() else found


def assert_kept(before: Any, after: Any, allowed: Allowed, *, in_range: bool, integers_count: bool) -> None:
    """Fail unless results are the same, up to what is allowed.

    `in_range`: no step comes near a limit of its type. `integers_count`: integers are computed from
    integers, not from comparisons of floats, which rounding may change.
    """
    given, got = leaves_of(before), leaves_of(after)
    assert len(given) == len(got)
    for a, b in zip(given, got, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        may = allowed.of(a)
        if allowed.anything:
            continue
        if not is_float(a) and not np.iscomplexobj(a):
            if integers_count or Loss.ROUNDING not in allowed.floats:
                np.testing.assert_array_equal(a, b)
        elif Loss.ROUNDING not in may:
            gone = lost(a, b) & ~may if in_range or Loss.RANGE not in may else NOTHING
            assert not gone, f"lost {gone.name}:\n{a}\n{b}"
        elif in_range:
            error = error_in_ulps(b, a)
            assert error <= allowed.ulps, f"{error:g} ulp, {allowed.ulps:g} are allowed:\n{a}\n{b}"


def _types(module: HloModule) -> Iterator[PrimitiveType]:
    return (i.array_shape.element_type for i in module.instructions() if i.shape.is_array)


@dataclass
class Compared:
    """What the checks compared: element types, number of elements, and the error of floats.

    The error is that on inputs without extremes, in units in the last place of the largest
    magnitude.
    """

    types: set[str] = field(default_factory=set)
    elements: int = 0
    ulps: float = 0.0

    def add(self, before: Any, after: Any, *, in_range: bool) -> None:
        """Add the results of one pair of runs."""
        for a, b in zip(leaves_of(before), leaves_of(after), strict=True):
            self.elements += a.size
            if in_range and (is_float(a) or np.iscomplexobj(a)):
                self.ulps = max(self.ulps, error_in_ulps(b, a))


def check_meaning(
    text: str, rewrite: Callable[[HloModule], object], seeds: int = 2, compared: Compared | None = None
) -> HloModule:
    """The verified module after rewrite(module); its results on all kinds of inputs are equal."""
    before, after = parse(text), parse(text)
    allowed = Allowed()
    with observing(allowed):
        rewrite(after)
    after.verify()
    is_whole = not any(t.is_floating or t.is_complex for t in _types(before))
    for draw in (quarters, mantissas, some_extremes, extremes):
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            arguments = [drawn(p.shape, rng, draw) for p in before.entry_computation.parameters]
            with np.errstate(all="ignore"):
                try:
                    wanted = evaluate(before, *arguments)
                except XlanbError:
                    if draw in _IN_RANGE:
                        raise
                    continue  # eigenvalues of NaN
                got = evaluate(after, *arguments)
                assert_kept(wanted, got, allowed, in_range=draw in _IN_RANGE, integers_count=is_whole)
                if compared is not None and not allowed.anything:
                    compared.add(wanted, got, in_range=draw in _IN_RANGE)
    if compared is not None:
        compared.types.update(t.text for t in _types(before))
    return after


# -- programs --------------------------------------------------------------------------------------


def retyped(text: str) -> Iterator[str]:
    """A program's text with other element types, where that is still a valid program."""
    for old, new in (*(("f32", t) for t in TYPES), ("s32", "f32")):
        changed = re.sub(rf"\b{old}\[", f"{new}[", text)
        if new == "f64":
            changed = changed.replace(_TOLERANCE, _TOLERANCE_F64)
        if changed == text:
            continue
        try:
            module = parse(changed)
            module.verify()
            arguments = [
                drawn(p.shape, np.random.default_rng(0), quarters) for p in module.entry_computation.parameters
            ]
            with np.errstate(all="ignore"):
                evaluate(module, *arguments)
        except XlanbError:
            continue
        yield changed
