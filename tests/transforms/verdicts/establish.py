"""Check that the rules of algsimp preserve what their verdicts say.

Random modules before and after a rule are run by the reference interpreter. Elementwise modules are
widened so that one evaluation has all inputs: every value, or pair of values, if they have at most
16 bits, and every constant of at most 8 bits; for wider types 65,536 inputs including the special
values. Rules that move elements are checked by bytes, over arrays of distinct elements, in many
shapes. Rules that hold only over the real numbers are checked in f64 and c128, with numbers near
one, to 1e-9.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.numeric_values import NUMERIC, same, some_of, values_of
from tests.transforms.verdicts.drawing import Drawing, RedrawError, moderate_values
from tests.transforms.verdicts.prove import algebra_of, are_equal
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloInstruction, HloModule, parse
from xlanb.hlo import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import AlgebraicSimplifier
from xlanb.transforms.rules import Rule, RuleSet
from xlanb.transforms.verdict import Loss

T = PrimitiveType
EXHAUSTIBLE = 16
"""The most bits of all inputs together for which every input is tried."""
_LANES = 97
"""A size that no other dimension has; it is replaced by the number of inputs."""
_NEAR = 1e-9
_MANY, _FEW = 200, 4
"""A counterexample of more elements is an elementwise one, of which so few lanes are shown."""
Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Counterexample:
    """Inputs whose result a rule changes.

    A small module and its arrays, the operands of one element, its values before and after, and the
    loss.
    """

    module: str
    arrays: tuple[Any, ...]
    inputs: tuple[Any, ...]
    before: Any
    after: Any
    lost: Loss

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}): {self.before} => {self.after}"


@dataclass
class Established:
    """What was found about a rule.

    Types whose inputs were all tried, and those sampled; evaluated elements, shapes, observed
    losses, contradictions.
    """

    rule: Rule
    exhausted: set[str] = field(default_factory=set)
    sampled: set[str] = field(default_factory=set)
    proved: dict[str, int] = field(default_factory=dict)
    """In how many modules both sides were proved equal for all inputs.

    By algebra of `prove.py` ("free", "reals"), or integer type of Z3.
    """
    folds: bool = False
    """Whether it fired on a reduction of several elements; trying each is not enough then."""
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    fired: int = 0
    cases: int = 0
    seen: dict[tuple[bool, Loss], Counterexample] = field(default_factory=dict)
    contradictions: list[Counterexample] = field(default_factory=list)
    has_inputs: bool = False
    """Whether some module had inputs; iotas and constants need only one evaluation."""
    seconds: float = 0.0

    @property
    def how(self) -> str:
        """ "proved", "exhausted" or "sampled".

        "exhausted": every input of some type was tried, or every position of some shapes.
        """
        if not self.fired:
            return "never fired"
        if self.rule.keeps.moves or (not self.has_inputs and not self.exhausted):
            return f"exhausted over {len(self.shapes)} shapes"
        if "reals" in self.proved:
            return f"proved over the real numbers ({self.proved['reals']} modules)"
        if "free" in self.proved:
            return f"proved, the same operations ({self.proved['free']} modules)"
        if self.proved and not self.rule.keeps.has_floats:
            return "proved by Z3, and exhausted" if self.exhausted else "proved by Z3"
        if self.exhausted and not self.folds and Loss.ROUNDING not in self.rule.keeps.floats:
            return "exhausted"
        return "sampled"

    @property
    def is_sure(self) -> bool:
        """Whether it is more than sampled."""
        return self.how.startswith(("proved", "exhausted"))

    @property
    def over(self) -> str:
        """The types that were exhausted or proved by Z3, then in parentheses the sampled ones."""
        if "shapes" in self.how:
            return f"{len(self.sampled | self.exhausted)} types"
        sure = self.exhausted | (set(self.proved) & set(NUMERIC))
        only_sampled = sorted(self.sampled - sure, key=_width)
        parts = [" ".join(sorted(sure, key=_width)), f"({' '.join(only_sampled)})" if only_sampled else ""]
        return " ".join(filter(None, parts))


def _width(name: str) -> tuple[int, str]:
    return BY_TEXT[name].bits, name


def drawn(
    rule: Rule, kind: PrimitiveType, rng: np.random.Generator, tries: int, **how: Any
) -> Iterator[tuple[HloModule, HloModule]]:
    """Modules in which a rule fires, before and after it."""
    for _ in range(tries):
        drawing = Drawing(kind, rng, plain=how.get("plain", False), moderate=how.get("moderate", False))
        dims = (_LANES,) if how.get("plain") else drawing._some_dims()
        if pair := _fires(rule, drawing, dims, rng):
            yield pair


def _fires(
    rule: Rule, drawing: Drawing, dims: tuple[int, ...], rng: np.random.Generator
) -> tuple[HloModule, HloModule] | None:
    try:
        before = drawing.of(rule.pattern, dims)
    except (RedrawError, XlanbError):  # most drawings don't match any opcode's types
        return None
    return applied(rule, before, is_layout_sensitive=bool(rng.integers(2)))


def applied(rule: Rule, before: HloModule, *, is_layout_sensitive: bool) -> tuple[HloModule, HloModule] | None:
    """A module before and after one rule; None where it does not fire."""
    after = before.clone()
    version = after.version
    RuleSet("alone", [rule]).run(after.entry_computation, AlgebraicSimplifier(is_layout_sensitive=is_layout_sensitive))
    if after.version == version or str(after) == str(before):
        return None
    if _is_valid(before):  # abs of unsigned numbers is invalid, but has a rule
        after.verify()
    return before, after


def _is_valid(module: HloModule) -> bool:
    try:
        module.verify()
    except XlanbError:
        return False
    return True


def is_lanewise(module: HloModule) -> bool:
    """Whether every element of the result depends only on elements at the same position."""
    for i in module.entry_computation:
        if not i.shape.is_array or i.array_shape.dimensions not in ((), (_LANES,), (_LANES, 1), (1, _LANES)):
            return False
        if i.array_shape.is_scalar:  # made of constants
            if i.opcode is O.PARAMETER:
                return False
        elif not (i.opcode.is_elementwise or i.opcode is O.PARAMETER or _is_spread_scalar(i) or _is_lane_of_one(i)):
            return False
    return True


def _is_lane_of_one(i: HloInstruction) -> bool:
    """Whether it reduces, reshapes or reinterprets single elements: operand rows of one element."""
    if i.opcode not in (O.BITCAST_CONVERT, O.REDUCE, O.REDUCE_WINDOW, O.RESHAPE):
        return False
    a = i.operands[0].array_shape
    return a.element_count == i.array_shape.element_count and a.element_type.bits == i.shape.element_type.bits


def _is_spread_scalar(i: HloInstruction) -> bool:
    return i.opcode is O.BROADCAST and i.operands[0].array_shape.is_scalar


def bits(kind: PrimitiveType) -> int:
    """The number of bits that identify a value of a type."""
    return 1 if kind is T.PRED else kind.bits


def lanes(kinds: list[PrimitiveType], rng: np.random.Generator, count: int) -> tuple[list[Any], bool]:
    """Arrays of inputs for parameters of some types, and whether they are exhaustive."""
    if sum(map(bits, kinds)) <= EXHAUSTIBLE:
        grids = np.meshgrid(*[values_of(k.text, rng) for k in kinds], indexing="ij") if kinds else []
        return [g.ravel() for g in grids], True
    return [some_of(k.text, rng, count) for k in kinds], False


def stretched(module: HloModule, count: int) -> HloModule:
    """An elementwise module widened to `count` elements."""
    return parse(re.sub(rf"(?<=[\[,]){_LANES}(?=[,\]])", str(count), str(module)))


def kinds_of(module: HloModule) -> list[PrimitiveType]:
    """The element types of the parameters."""
    return [p.shape.element_type for p in module.entry_computation.parameters]


def out_of_range(before: HloModule, after: HloModule, arrays: list[Any]) -> Any:
    """The lanes in which a step on either side overflows or underflows.

    None if the modules are not elementwise.
    """
    if not arrays:
        return None
    mask: Any = False
    for module in (before.clone(), after.clone()):
        entry = module.entry_computation
        steps = [i for i in entry if i.opcode is not O.PARAMETER and i.shape.is_array]
        if any(i.array_shape.dimensions not in ((), np.shape(arrays[0])) for i in steps):
            return None
        steps = [i for i in steps if i.array_shape.dimensions == np.shape(arrays[0])]
        if not steps:
            continue
        entry.set_root(entry.add(O.TUPLE, steps))
        for value in _leaves(evaluate(module, *arrays)):
            if "float" in value.dtype.name:
                size = abs(value.astype(np.float64))
                facts = ml_dtypes.finfo(value.dtype)
                # A value equal to a limit of the type may have been rounded to it.
                mask |= ~((size > float(facts.tiny)) & (size < float(facts.max)))
    return mask


def losses(x: Any, y: Any) -> list[tuple[int, Loss]]:
    """Positions at which two arrays differ, and the loss at each; at most one per kind.

    The loss is NAN, INFINITY, ZERO_SIGN, or else ROUNDING.
    """
    x, y = np.ravel(np.asarray(x)), np.ravel(np.asarray(y))
    wrong = np.flatnonzero(~same(x, y))
    if not wrong.size:
        return []
    a, b = x[wrong], y[wrong]
    if a.dtype.kind in "biu" or "int" in a.dtype.name:
        return [(int(wrong[0]), Loss.ROUNDING)]
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    of = [
        (Loss.NAN, np.isnan(a) | np.isnan(b)),
        (Loss.INFINITY, np.isinf(a) | np.isinf(b)),
        (Loss.ZERO_SIGN, _zeros_where_other(a, b)),
        (Loss.ROUNDING, np.ones(a.shape, bool)),
    ]
    found, left = [], np.ones(a.shape, bool)
    for loss, mask in of:
        here = np.flatnonzero(mask & left)
        if here.size:
            found.append((int(wrong[here[0]]), loss))
        left &= ~mask
    return found


def _zeros_where_other(a: Any, b: Any) -> Any:
    if np.iscomplexobj(a):
        return _part_fine(a.real, b.real) & _part_fine(a.imag, b.imag)
    return (a == 0) & (b == 0)


def _part_fine(a: Any, b: Any) -> Any:
    return ((a == 0) & (b == 0)) | same(a, b)


class Checker:
    """Establishes the verdict of one rule.

    Args:
        rule: the rule.
        seed: of all random choices.
        effort: how much to try. 1 takes seconds per rule; from 1 on, every constant of 8 bits is
            tried.
    """

    def __init__(self, rule: Rule, seed: int = 0, effort: float = 1.0) -> None:
        self.rule, self.effort = rule, effort
        self.rng = np.random.default_rng(seed)
        self.found = Established(rule)

    def run(self, kinds: tuple[str, ...] = NUMERIC) -> Established:
        """Establish everything about the rule."""
        begin = time.perf_counter()
        with np.errstate(all="ignore"):
            for name in kinds:
                kind = BY_TEXT[name]
                self._lanes(kind)
                self._shapes(kind)
            if Loss.ROUNDING in self.rule.keeps.floats or Loss.RANGE in self.rule.keeps.floats:
                for kind in (T.F64, T.C128):
                    self._near(kind)
            self._prove()
        self.found.seconds = time.perf_counter() - begin
        return self.found

    # -- elementwise: all inputs -------------------------------------------------------------------

    def _lanes(self, kind: PrimitiveType) -> None:
        wanted, tries = max(1, int(4 * self.effort)), int(150 * self.effort) + 10
        made: set[str] = set()
        for _ in range(tries):
            seed = int(self.rng.integers(1 << 30))
            drawing = Drawing(kind, np.random.default_rng(seed), plain=True)
            pair = _fires(self.rule, drawing, (_LANES,), self.rng)
            if pair is None or str(pair[0]) in made or not all(map(is_lanewise, pair)):
                continue
            made.add(str(pair[0]))
            self._lane_pair(*pair)
            if drawing.open_constants == 1 and kind.bits <= 8 and self.effort >= 1 and len(made) == 1:
                self._all_constants(kind, seed)
            if len(made) >= wanted:
                return

    def _all_constants(self, kind: PrimitiveType, seed: int) -> None:
        for value in values_of(kind.text, self.rng):
            drawing = Drawing(kind, np.random.default_rng(seed), plain=True, constants=(value,))
            pair = _fires(self.rule, drawing, (_LANES,), self.rng)
            if pair is not None and all(map(is_lanewise, pair)):
                self._lane_pair(*pair)

    def _lane_pair(self, before: HloModule, after: HloModule) -> None:
        kinds = kinds_of(before)
        arrays, is_all = lanes(kinds, self.rng, int(65536 * min(1.0, self.effort)))
        if not arrays:
            return
        count = arrays[0].size
        before, after = stretched(before, count), stretched(after, count)
        shapes = [p.array_shape.dimensions for p in before.entry_computation.parameters]
        arrays = [a.reshape(s) for a, s in zip(arrays, shapes, strict=True)]
        if self._compare(before, after, arrays):
            (self.found.exhausted if is_all else self.found.sampled).update(k.text for k in kinds if k is not T.PRED)
            if is_all and all(k is T.PRED for k in kinds):
                self.found.exhausted.add("pred")

    # -- shapes ------------------------------------------------------------------------------------

    def _shapes(self, kind: PrimitiveType) -> None:
        wanted, tries = max(1, int(8 * self.effort)), int(160 * self.effort) + 20
        for before, after in itertools.islice(drawn(self.rule, kind, self.rng, tries), wanted):
            done = False
            for fill in (self._distinct, self._special):
                arrays = [fill(p.name, p.array_shape) for p in before.entry_computation.parameters]
                done |= self._compare(before, after, arrays)
            if done:
                self.found.has_inputs |= bool(arrays)
                self.found.folds |= any(
                    i.opcode is O.REDUCE and not _is_lane_of_one(i) for i in before.entry_computation
                )
                self.found.sampled.add(kind.text)
                self.found.shapes.add(
                    tuple(i.array_shape.dimensions for i in before.entry_computation if i.shape.is_array)
                )

    def _distinct(self, name: str, shape: Any) -> Any:
        count = shape.element_count
        if name.startswith("start"):
            return self.rng.integers(0, 5, shape.dimensions).astype(shape.dtype)
        t = shape.element_type
        if t is T.PRED:
            return self.rng.integers(0, 2, shape.dimensions).astype(bool)
        if t.is_integral:
            return (np.arange(count) + 1).astype(np.int64).astype(shape.dtype).reshape(shape.dimensions)
        return (np.arange(count) + 1).reshape(shape.dimensions).astype(shape.dtype)

    def _special(self, name: str, shape: Any) -> Any:
        if name.startswith("start"):
            low = -3 if shape.element_type.is_signed else 0
            return self.rng.integers(low, 9, shape.dimensions).astype(shape.dtype)
        return some_of(shape.element_type.text, self.rng, shape.element_count).reshape(shape.dimensions)

    # -- real numbers ------------------------------------------------------------------------------

    def _near(self, kind: PrimitiveType) -> None:
        """Check that both sides are equal for numbers near one.

        Bitwise if only the range is lost, else nearly.
        """
        is_exact = Loss.ROUNDING not in self.rule.keeps.loss(is_complex=kind.is_complex)
        for plain in (True, False):
            tries = int(100 * self.effort) + 30
            pairs = drawn(self.rule, kind, self.rng, tries, plain=plain, moderate=True)
            for before, after in itertools.islice(pairs, max(2, int(10 * self.effort))):
                if plain and all(map(is_lanewise, (before, after))):
                    before, after = stretched(before, 5000), stretched(after, 5000)
                arrays = [self._moderate(p.array_shape) for p in before.entry_computation.parameters]
                self._compare(before, after, arrays, exactly=is_exact)

    def _moderate(self, shape: Any) -> Any:
        t = shape.element_type
        if t.is_integral or t is T.PRED:
            return self._distinct("", shape)
        return moderate_values(t, self.rng, shape.element_count).reshape(shape.dimensions)

    # -- proofs ------------------------------------------------------------------------------------

    def _prove(self) -> None:
        kept = self.rule.keeps
        if kept.moves:
            return
        if Loss.ROUNDING in kept.floats:
            self._prove_in("reals", T.F64, "reals")
        elif kept.has_floats and kept.is_exact:
            self._prove_in("free", T.F32, "free")
        for kind in (T.S32, T.U32, T.S64, T.U64):
            if kind.text in self.found.sampled:
                self._prove_in("bits", kind, kind.text)

    def _prove_in(self, name: str, kind: PrimitiveType, mark: str) -> None:
        """Prove random modules, the elementwise ones for one element of each operand."""
        algebra = algebra_of(name)
        if algebra is None:
            return
        proofs: list[bool | None] = []
        for plain in (True, False):
            tries = 60 if proofs else int(1500 * self.effort) + 30
            pairs = drawn(self.rule, kind, self.rng, tries, plain=plain, moderate=True)
            for before, after in itertools.islice(pairs, max(2, int(5 * self.effort))):
                if plain and all(map(is_lanewise, (before, after))):
                    before, after = stretched(before, 1), stretched(after, 1)
                proofs.append(are_equal(before, after, algebra))
                if proofs[-1] is False:
                    return
        if proofs.count(True) > 1:
            self.found.proved[mark] = proofs.count(True)

    # -- the comparison ----------------------------------------------------------------------------

    def _compare(self, before: HloModule, after: HloModule, arrays: list[Any], *, exactly: bool | None = None) -> bool:
        """Compare the results for some inputs; False if the interpreter rejects them."""
        try:
            x = evaluate(before, *arrays)
        except XlanbError:
            return False
        y = evaluate(after, *arrays)
        self.found.fired += 1
        for a, b in zip(_leaves(x), _leaves(y), strict=True):
            self.found.cases += a.size
            if exactly is not None:
                self._compare_moderate(before, arrays, a, b, exactly=exactly)
                continue
            if self.rule.keeps.moves and a.tobytes() != b.tobytes():
                self._contradict(before, arrays, a, b, 0, Loss.ROUNDING)
            for place, lost in losses(a, b):
                self._note(before, arrays, a, b, place, lost)
            if Loss.RANGE in self.rule.keeps.floats and (beyond := out_of_range(before, after, arrays)) is not None:
                beyond &= ~((a == 0) & (b == 0))  # the sign of a zero does not depend on the range
                for place, lost in losses(np.where(beyond, 0, a), np.where(beyond, 0, b)):
                    if lost not in self.rule.keeps.floats:
                        self._contradict(before, arrays, a, b, place, lost)
        return True

    def _note(self, before: HloModule, arrays: list[Any], a: Any, b: Any, place: int, lost: Loss) -> None:
        kept = self.rule.keeps
        is_float = np.iscomplexobj(a) or "float" in a.dtype.name
        is_complex = any(k.is_complex for k in kinds_of(before)) or np.iscomplexobj(a)
        allowed = kept.loss(is_complex=is_complex)
        example = self._example(before, arrays, a, b, place, lost)
        self.found.seen.setdefault((is_complex, lost), example)
        fine = is_float and kept.has_floats and (lost in allowed or Loss.ROUNDING in allowed or Loss.RANGE in allowed)
        if not fine:
            self.found.contradictions.append(example)

    def _compare_moderate(self, before: HloModule, arrays: list[Any], a: Any, b: Any, *, exactly: bool) -> None:
        if exactly:
            for place, lost in losses(a, b):
                self._contradict(before, arrays, a, b, place, lost)
            return
        if not np.iscomplexobj(a) and "float" not in a.dtype.name:
            return
        scale = np.maximum(1, np.maximum(abs(a), np.nanmax(np.abs(a), initial=0)))
        wrong = np.flatnonzero(~((abs(a - b) <= _NEAR * scale) | ~(np.isfinite(a) & np.isfinite(b))))
        if wrong.size:
            self._contradict(before, arrays, a, b, int(wrong[0]), Loss.ROUNDING)

    def _contradict(self, before: HloModule, arrays: list[Any], a: Any, b: Any, place: int, lost: Loss) -> None:
        self.found.contradictions.append(self._example(before, arrays, a, b, place, lost))

    @staticmethod
    def _example(before: HloModule, arrays: list[Any], a: Any, b: Any, place: int, lost: Loss) -> Counterexample:
        at = [np.ravel(x)[place] if np.size(x) == a.size else np.asarray(x).tolist() for x in arrays]
        text, shown = str(before), tuple(np.array(x) for x in arrays)
        if a.size > _MANY:  # elementwise: some lanes are enough
            text = re.sub(rf"(?<=[\[,]){a.size}(?=[,\]])", str(_FEW), text)
            few = [tuple(_FEW if n == a.size else n for n in x.shape) for x in arrays]
            shown = tuple(np.full(s, np.ravel(x)[place]) for s, x in zip(few, arrays, strict=True))
        return Counterexample(text, shown, tuple(at), np.ravel(a)[place], np.ravel(b)[place], lost)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in _leaves(v)]
    return [np.asarray(value)]
