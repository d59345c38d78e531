"""Dots that simplify to other instructions (AlgebraicSimplifierVisitor::HandleDot)."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import PLAIN_ALGORITHMS, sum_of, sum_type
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.operand_upcaster import computed_in
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, REAL

DOT = RuleSet("dot")
rule = DOT.rule

_layouts_do_not_count = guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive)
_plain = guard("no algorithm is requested", lambda root: root.get("algorithm") in PLAIN_ALGORITHMS)


def _dimensions(root: HloInstruction) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Batch and contracting dimensions of the left and of the right operand."""
    return (
        (root.ints("lhs_batch_dims"), root.ints("lhs_contracting_dims")),
        (root.ints("rhs_batch_dims"), root.ints("rhs_contracting_dims")),
    )


def _free(a: HloInstruction, batch: Sequence[int], contracted: Sequence[int]) -> list[int]:
    return [d for d in range(a.array_shape.rank) if d not in batch and d not in contracted]


def _in_order(b: Builder, a: HloInstruction, batch: Sequence[int], contracted: Sequence[int]) -> HloInstruction:
    """An operand transposed to batch dimensions first and contracting dimensions last."""
    order = [*batch, *_free(a, batch, contracted), *contracted]
    return a if order == sorted(order) else b.transpose(a, order)


def _has_no_free_dimension(root: HloInstruction) -> bool:
    return all(not _free(a, *dims) for a, dims in zip(root.operands, _dimensions(root), strict=True))


@rule(
    "dot(empty, empty) => 0",
    m.op(O.DOT, "a", "b2"),
    guard(
        "no element",
        lambda a, b2, root: (
            0 in (a.array_shape.element_count, b2.array_shape.element_count, root.array_shape.element_count)
        ),
    ),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(0, root.array_shape)


@rule(
    "dot(A, B) => broadcast(A) * broadcast(B) without contracting dimensions",
    m.op(O.DOT, "a", "b2"),
    _layouts_do_not_count,
    _plain,
    guard("no contracting dimensions", lambda root: not root.ints("lhs_contracting_dims")),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    (batch, _), (batch2, _) = _dimensions(root)
    kind = computed_in(root)
    shape, n = root.array_shape.with_type(kind), len(batch)
    left = b.as_type(_in_order(b, a, batch, ()), kind)
    right = b.as_type(_in_order(b, b2, batch2, ()), kind)
    if shape.rank != a.array_shape.rank:
        left = b.broadcast(left, range(a.array_shape.rank), shape)
    if shape.rank != b2.array_shape.rank:
        right = b.broadcast(right, (*range(n), *range(a.array_shape.rank, shape.rank)), shape)
    return b.as_type(b.add(O.MULTIPLY, (left, right), shape), root.shape.element_type)


@rule(
    "dot(A, B) => reduce_add(A * B) of vectors",
    m.op(O.DOT, "a", "b2"),
    _layouts_do_not_count,
    _plain,
    guard("all dimensions are contracting or batch dimensions", _has_no_free_dimension, "root"),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    left_dims, right_dims = _dimensions(root)
    shape, n = root.array_shape, len(left_dims[0])
    kind = computed_in(root)
    wide = sum_type(kind)
    left, right = (
        b.as_type(b.as_type(_in_order(b, o, *dims), kind), wide) for o, dims in ((a, left_dims), (b2, right_dims))
    )
    product = b.binary(O.MULTIPLY, left, right)
    summed = sum_of(b, product, range(n, n + len(left_dims[1])))
    return b.as_type(b.as_type(summed, kind), shape.element_type)


def _has_ones(*operands: HloInstruction) -> bool:
    return any(1 in o.array_shape.dimensions for o in operands)


def _without_ones(
    b: Builder, a: HloInstruction, groups: Sequence[Sequence[int]]
) -> tuple[HloInstruction, list[tuple[int, ...]]]:
    """An operand without its dimensions of size 1, and the renumbered dimensions of each group."""
    kept = [d for d, size in enumerate(a.array_shape.dimensions) if size != 1]
    place = {d: n for n, d in enumerate(kept)}
    narrow = b.reshape(a, [a.array_shape.dimensions[d] for d in kept])
    return narrow, [tuple(place[d] for d in group if d in place) for group in groups]


@rule(
    "dot(A, B) => reshape(dot(reshape(A), reshape(B))) without dimensions of size 1",
    m.op(O.DOT, "a", "b2"),
    _layouts_do_not_count,
    guard("a dimension is 1", _has_ones, "a", "b2"),
    guard("static shapes", lambda a, b2: not a.array_shape.is_dynamic and not b2.array_shape.is_dynamic),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    left_dims, right_dims = _dimensions(root)
    left, (batch, contracted) = _without_ones(b, a, left_dims)
    right, (batch2, contracted2) = _without_ones(b, b2, right_dims)
    sizes, sizes2 = left.array_shape.dimensions, right.array_shape.dimensions
    dims = [sizes[d] for d in batch]
    dims += [sizes[d] for d in _free(left, batch, contracted)] + [sizes2[d] for d in _free(right, batch2, contracted2)]
    made = b.add(
        O.DOT,
        (left, right),
        array(root.shape.element_type, dims),
        lhs_batch_dims=batch or None,
        lhs_contracting_dims=contracted or None,
        rhs_batch_dims=batch2 or None,
        rhs_contracting_dims=contracted2 or None,
        operand_precision=root.attributes.get("operand_precision"),
        algorithm=root.attributes.get("algorithm"),
    )
    return made if made.shape.without_layout() == root.shape.without_layout() else b.add(O.RESHAPE, (made,), root.shape)
