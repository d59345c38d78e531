"""Merge dots that share an operand (xla/hlo/transforms/simplifiers/dot_merger.cc).

    a = dot(x, y);  b = dot(x, z)
      =>  m = dot(x, concatenate(y, z));  a = slice(m);  b = slice(m)
    a = dot(x, y);  b = dot(z, transpose(x))
      =>  m = dot(x, concatenate(y, transpose(z)));  a = slice(m);  b = transpose(slice(m))

XLA runs it on backends where starting a small dot costs more than copying: XLA:GPU, not XLA:CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.conditions import Condition, decide
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_SIDES: Final = ("lhs", "rhs")
_NUMBERS: Final = tuple(f"{side}_{kind}_dims" for side in _SIDES for kind in ("batch", "contracting"))


@dataclass(frozen=True)
class DotMerger(HloPass):
    """Merges pairs of independent dots that share an operand.

    One of the pair must read and write at most `max_size_to_merge` bytes.
    """

    name = "dot-merger"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 4.0
    max_size_to_merge: int = 1 << 20

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            self._merge_all(c)

    def _merge_all(self, c: HloComputation) -> None:
        by_operand: dict[HloInstruction, dict[HloInstruction, None]] = {}
        for i in c.post_order():
            if i.opcode is O.DOT and len(i.operands) == 2 and not i.control_predecessors and not i.control_successors:
                for o in i.operands:
                    by_operand.setdefault(o, {})[i] = None
                    if o.opcode is O.TRANSPOSE:
                        by_operand.setdefault(o.operands[0], {})[i] = None
        for operand in sorted(by_operand, key=lambda o: o.uid):
            dots: list[HloInstruction | None] = list(_oldest_first(list(by_operand[operand])))
            for n in range(len(dots)):
                for k in range(n + 1, len(dots)):
                    a, b = dots[n], dots[k]
                    if a is not None and b is not None and a in c and b in c:
                        merged = self._merged(a, b)
                        if merged is not None:
                            dots[n], dots[k] = merged, None

    def _merged(self, a: HloInstruction, b: HloInstruction) -> HloInstruction | None:
        """Replace both dots by slices of one dot, and return it; None if they cannot be merged."""
        pair = DotPair(a, b, self.max_size_to_merge)
        if not decide("merge", (a.name, b.name), _CONDITIONS, pair):
            return None
        if pair.shared is not None:
            return _merge_side(a, b, pair.shared)
        return _merge_transposed(a, b) if _shares_transposed(a, b) else _merge_transposed(b, a)


def _oldest_first(dots: list[HloInstruction]) -> list[HloInstruction]:
    """Dots in creation order, taken from the numbers of equal name stems.

    A module that was parsed from text has its instructions in another order.
    """
    stems: dict[str, list[tuple[int, HloInstruction]]] = {}
    for i in sorted(dots, key=lambda i: i.uid):
        stem, _, number = i.name.rpartition(".")
        named = (stem, int(number)) if stem and number.isdigit() else (i.name, 0)
        stems.setdefault(named[0], []).append((named[1], i))
    return [i for rows in stems.values() for _, i in sorted(rows, key=lambda row: row[0])]


@dataclass(frozen=True)
class DotPair:
    """Two dots that may become one."""

    a: HloInstruction
    b: HloInstruction
    limit: int

    @property
    def shared(self) -> int | None:
        """The index of the operand that both dots share, or None."""
        return next((n for n in range(2) if self.a.operands[n] is self.b.operands[n]), None)


def _bytes(dot: HloInstruction) -> int:
    return sum(i.shape.byte_size for i in (dot, *dot.operands))


def _reads(user: HloInstruction, source: HloInstruction) -> bool:
    """Whether `user` depends on `source` by data or control; linear in its dependencies."""
    seen, todo = {user}, [user]
    while todo:
        for o in (i := todo.pop()).operands + i.control_predecessors:
            if o is source:
                return True
            if o not in seen:
                seen.add(o)
                todo.append(o)
    return False


def _layouts(*instructions: HloInstruction) -> set[Layout | None]:
    return {i.array_shape.layout for i in instructions}


def _types(dot: HloInstruction) -> list[object]:
    return [i.shape.element_type for i in (dot, *dot.operands)]


def _has_same_form(p: DotPair) -> bool:
    """Whether the operands that are not shared can be concatenated.

    They need equal types, dimension numbers and layout, and one free dimension each.
    """
    a, b = p.a, p.b
    if p.shared is None:
        return _shares_transposed(a, b) or _shares_transposed(b, a)
    other = 1 - p.shared
    if (
        a.operands[other] is b.operands[other]
        or _types(a) != _types(b)
        or any(a.ints(n) != b.ints(n) for n in _NUMBERS)
    ):
        return False
    return len(_layouts(a.operands[other], b.operands[other])) == 1 and len(free_dimensions(a, _SIDES[other])) == 1


def _shares_transposed(a: HloInstruction, b: HloInstruction) -> bool:
    """Whether the right operand of `b` is the transposed left one of `a`, or the reverse.

    Both dots must be plain matrix products.
    """
    if not all(_is_plain_product(d) for d in (a, b)):
        return False
    common, other = a.operands[0], b.operands[1]
    if a.shape.element_type is not b.shape.element_type or common.shape.element_type is not other.shape.element_type:
        return False
    if a.operands[1].shape.element_type is not b.operands[0].shape.element_type:
        return False
    return any(
        t.opcode is O.TRANSPOSE and t.operands[0] is s and t.dimensions == (1, 0)
        for t, s in ((common, other), (other, common))
    )


def _is_plain_product(dot: HloInstruction) -> bool:
    return (
        all(o.array_shape.rank == 2 for o in dot.operands)
        and (dot.ints("lhs_contracting_dims"), dot.ints("rhs_contracting_dims")) == ((1,), (0,))
        and not dot.ints("lhs_batch_dims")
    )


_CONDITIONS: Final[tuple[Condition[DotPair], ...]] = (
    Condition(
        "one of them is small",
        lambda p: min(_bytes(p.a), _bytes(p.b)) <= p.limit,
        lambda p: f"{_bytes(p.a)} and {_bytes(p.b)} bytes, {p.limit} at most",
    ),
    Condition("neither depends on the other", lambda p: not _reads(p.a, p.b) and not _reads(p.b, p.a)),
    Condition("both results have the same layout", lambda p: len(_layouts(p.a, p.b)) == 1),
    Condition(
        "both have the same precision",
        lambda p: all(p.a.attributes.get(n) == p.b.attributes.get(n) for n in ("operand_precision", "algorithm")),
    ),
    Condition("both are computed on the same queue", lambda p: p.a.backend_config == p.b.backend_config),
    Condition("one operand is shared, and the others can be concatenated", _has_same_form),
)


@reason("dot(A, B), dot(A, C) => slices of dot(A, concatenate(B, C))")
def _merge_side(first: HloInstruction, other: HloInstruction, shared: int) -> HloInstruction:
    b, c = Builder(first), first.parent
    parts = [d.operands[1 - shared] for d in (first, other)]
    (along,) = free_dimensions(first, _SIDES[1 - shared])
    both = b.add(O.CONCATENATE, parts, _sum_along(parts, along), dimensions=(along,))
    operands = (first.operands[0], both) if shared == 0 else (both, first.operands[1])
    rank = first.array_shape.rank
    at = rank - 1 if shared == 0 else rank - 1 - len(free_dimensions(first, _SIDES[shared]))
    made = b.add(O.DOT, operands, _sum_along([first, other], at), **first.attributes)
    split, dims = first.array_shape.dimensions[at], made.array_shape.dimensions
    for old, begin, end in ((first, 0, split), (other, split, dims[at])):
        starts = [begin if d == at else 0 for d in range(rank)]
        limits = [end if d == at else n for d, n in enumerate(dims)]
        c.replace(old, _slice(old, made, starts, limits))
    return made


@reason("dot(A, B), dot(C, transpose(A)) => slices of dot(A, concatenate(B, transpose(C)))")
def _merge_transposed(first: HloInstruction, other: HloInstruction) -> HloInstruction:
    b, c = Builder(first), first.parent
    both = b.add(O.CONCATENATE, (first.operands[1], b.transpose(other.operands[0], (1, 0))), dimensions=(1,))
    made = b.add(O.DOT, (first.operands[0], both), _sum_along([first, _Transposed(other)], 1), **first.attributes)
    rows, split = first.array_shape.dimensions
    c.replace(first, _slice(first, made, (0, 0), (rows, split)))
    columns = made.array_shape.dimensions[1]
    transposed = Builder(other).slice(made, (0, split), (rows, columns))
    c.replace(other, c.add(O.TRANSPOSE, (transposed,), other.shape, like=other, dimensions=(1, 0)))
    return made


@dataclass(frozen=True)
class _Transposed:
    """A transposed matrix, as far as its sizes matter."""

    instruction: HloInstruction

    @property
    def array_shape(self) -> ArrayShape:
        return self.instruction.array_shape.with_dimensions(reversed(self.instruction.array_shape.dimensions))


def _sum_along(parts: Sequence[HloInstruction | _Transposed], along: int) -> ArrayShape:
    """The shape of arrays concatenated along a dimension, in the layout of the first."""
    first = parts[0].array_shape
    size = sum(p.array_shape.dimensions[along] for p in parts)
    dims = tuple(size if d == along else n for d, n in enumerate(first.dimensions))
    return ArrayShape(first.element_type, dims, first.layout)


def _slice(old: HloInstruction, made: HloInstruction, starts: Sequence[int], limits: Sequence[int]) -> HloInstruction:
    """A slice of `made` with the layout of `old`, the dot that it replaces."""
    part = Builder(old).slice(made, starts, limits)
    if part.shape != old.shape:
        old.parent.update(part, shape=old.shape)
    return part
