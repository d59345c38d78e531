"""Reductions."""

from __future__ import annotations

import numpy as np

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.regions import reducer
from xlanb.shape.shape import array
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import (
    is_inexact,
    is_integral,
    is_neutral,
    only_user,
    unmodified_pairs,
    wrapped,
)
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import MOVES, REAL, Loss, exact_except

REDUCE = RuleSet("reduce")
rule = REDUCE.rule
_EXACT = 256
"""The largest count for which a product is as accurate as a repeated addition of equal floats."""


def _kept_in_order(root: HloInstruction, t: HloInstruction) -> bool:
    left = [s for d, s in enumerate(t.dimensions) if d not in root.dimensions]
    return left == sorted(left) and reducer(root.to_apply) is not None


def _count(root: HloInstruction, p: HloInstruction) -> int:
    n = 1
    for d in root.dimensions:
        n *= p.array_shape.dimensions[d]
    return n


def _factor(root: HloInstruction, p: HloInstruction) -> int | None:
    """The element count as a value of the element type; integers wrap around.

    None if no float equals it or it is too large for an accurate product.
    """
    count, t = _count(root, p), root.shape.element_type
    if t.is_integral:
        return wrapped(count, t)
    is_exact = complex(np.asarray(count).astype(t.dtype)) == count
    return count if count <= _EXACT and is_exact else None


def _folds_as_one(root: HloInstruction) -> bool:
    return len(root.operands) == 2 and reducer(root.to_apply) is not None


def _is_trivial_window(root: HloInstruction) -> bool:
    plain = all(
        d.size == 1 and d.stride == 1 and d.padding_low == 0 and d.padding_high == 0 and d.base_dilation == 1
        for d in root.window.dimensions
    )
    return (
        plain
        and _folds_as_one(root)
        and is_neutral(root, root.operands[1])
        and root.shape.without_layout() == root.operands[0].shape.without_layout()
    )


_one_operand = guard("with one operand", lambda root: len(root.operands) == 2)


@rule(
    "reduce(A) => A over no dimension",
    m.op(O.REDUCE, "a", "init"),
    guard(
        "no dimensions, and init is the identity element",
        lambda root, init: not root.dimensions and is_neutral(root, init),
    ),
    keeps=exact_except(Loss.ZERO_SIGN, of_complex=Loss.NAN | Loss.INFINITY | Loss.ZERO_SIGN),
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "reduce(A) => reshape(A) over dimensions of size 1",
    m.op(O.REDUCE, "a", "init"),
    guard(
        "only dimensions of size 1 are reduced",
        lambda root, a: bool(root.dimensions) and all(a.array_shape.dimensions[d] == 1 for d in root.dimensions),
    ),
    guard("init is the identity element", is_neutral, "root", "init"),
    keeps=exact_except(Loss.ZERO_SIGN, of_complex=Loss.NAN | Loss.INFINITY | Loss.ZERO_SIGN),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.add(O.RESHAPE, (a,), root.shape)


@rule(
    "reduce of an empty array => broadcast(init)",
    m.op(O.REDUCE, "a", "init"),
    guard("no element", lambda a: a.array_shape.element_count == 0),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, init: HloInstruction) -> HloInstruction:
    return b.broadcast(init, (), root.array_shape)


@rule(
    "reduce_add(-A) => -reduce_add(A)",
    m.op(O.REDUCE, m.op(O.NEGATE, "a", name="n"), m.all_equal(0)),
    guard("a sum", lambda root: reducer(root.to_apply) is O.ADD),
    guard("the negation has one use", only_user, "n"),
    keeps=exact_except(Loss.ZERO_SIGN),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    root.parent.replace_operand(root, 0, a)
    return b.unary(O.NEGATE, root)


@rule(
    "reduce(transpose(A)) => reduce(A)",
    m.op(O.REDUCE, m.op(O.TRANSPOSE, "a", name="t"), "init"),
    guard("the remaining dimensions keep their order", _kept_in_order, "root", "t"),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, t: HloInstruction, init: HloInstruction) -> HloInstruction:
    dims = tuple(sorted(t.dimensions[d] for d in root.dimensions))
    return b.add(O.REDUCE, (a, init), root.shape, dimensions=dims, to_apply=root.to_apply)


@rule(
    "reduce(reduce(A)) => reduce(A)",
    m.op(O.REDUCE, m.op(O.REDUCE, "a", "init", name="inner"), "init2"),
    guard(
        "the same reduction",
        lambda root, inner: reducer(root.to_apply) is not None and reducer(root.to_apply) is reducer(inner.to_apply),
    ),
    guard(
        "both start from the identity element",
        lambda root, inner, init, init2: is_neutral(root, init2) and is_neutral(inner, init),
    ),
    guard("the inner one has one use", only_user, "inner"),
    keeps=REAL,
)
def _(
    b: Builder, root: HloInstruction, a: HloInstruction, init: HloInstruction, inner: HloInstruction
) -> HloInstruction:
    left = [d for d in range(a.array_shape.rank) if d not in inner.dimensions]
    dims = tuple(sorted((*inner.dimensions, *(left[d] for d in root.dimensions))))
    return b.add(O.REDUCE, (a, init), root.shape, dimensions=dims, to_apply=root.to_apply)


def _dimensions_before(root: HloInstruction, r: HloInstruction, a: HloInstruction) -> tuple[int, ...] | None:
    """The dimensions of A to reduce in place of those of its reshape R.

    None if R splits or merges one of the dimensions that are not reduced.
    """
    kept = {j: i for i, j in unmodified_pairs(a.array_shape.dimensions, r.array_shape.dimensions)}
    left = [d for d in range(r.array_shape.rank) if d not in root.dimensions]
    if any(d not in kept for d in left):
        return None
    stay = {kept[d] for d in left}
    return tuple(d for d in range(a.array_shape.rank) if d not in stay)


@rule(
    "reduce(reshape(A)) => reduce(A) where only reduced dimensions are reshaped",
    m.op(O.REDUCE, m.op(O.RESHAPE, "a", name="r"), "init"),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("the order of reduction is free", lambda root: reducer(root.to_apply) is not None),
    guard("the other dimensions are unchanged", lambda root, r, a: _dimensions_before(root, r, a) is not None),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, init: HloInstruction, r: HloInstruction) -> HloInstruction:
    dims = _dimensions_before(root, r, a) or ()
    return b.add(O.REDUCE, (a, init), root.shape, dimensions=dims, to_apply=root.to_apply)


def _folded_before(root: HloInstruction, r: HloInstruction, a: HloInstruction) -> tuple[int, ...] | None:
    """The dimensions of A that R keeps whole and `root` reduces.

    None if R splits or merges one of the reduced dimensions.
    """
    before = {j: i for i, j in unmodified_pairs(a.array_shape.dimensions, r.array_shape.dimensions)}
    if any(d not in before for d in root.dimensions):
        return None
    return tuple(sorted(before[d] for d in root.dimensions))


@rule(
    "reduce(reshape(A)) => reshape(reduce(A)) where only kept dimensions are reshaped",
    m.op(O.REDUCE, m.op(O.RESHAPE, "a", name="r"), "init"),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("the reduced dimensions are unchanged", lambda root, r, a: _folded_before(root, r, a) is not None),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, init: HloInstruction, r: HloInstruction) -> HloInstruction:
    dims = _folded_before(root, r, a) or ()
    kept = tuple(n for d, n in enumerate(a.array_shape.dimensions) if d not in dims)
    folded = b.add(
        O.REDUCE, (a, init), array(root.array_shape.element_type, kept), dimensions=dims, to_apply=root.to_apply
    )
    return b.add(O.RESHAPE, (folded,), root.shape)


@rule(
    "reduce_add(broadcast(A)) => A * count over broadcast dimensions",
    m.op(O.REDUCE, m.op(O.BROADCAST, "a", name="p"), m.all_equal(0)),
    _one_operand,
    guard(
        "a sum of equal integers or floats",
        lambda root: reducer(root.to_apply) is O.ADD and (is_integral(root) or is_inexact(root)),
    ),
    guard(
        "A is a scalar, or has exactly the remaining dimensions",
        lambda root, a, p: (
            a.array_shape.is_scalar
            or (
                not set(root.dimensions) & set(p.dimensions)
                and p.dimensions == tuple(sorted(p.dimensions))
                and a.array_shape.dimensions == root.array_shape.dimensions
            )
        ),
    ),
    guard("the count is exact", lambda root, p: _factor(root, p) is not None),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    if not a.array_shape.is_scalar:
        return b.add(O.MULTIPLY, (a, b.full(_factor(root, p) or 0, a.array_shape)), root.shape)
    return b.broadcast(
        b.binary(O.MULTIPLY, a, b.scalar(_factor(root, p) or 0, a.shape.element_type)), (), root.array_shape
    )


@rule(
    "reduce-window(A) => A for windows of size 1",
    m.op(O.REDUCE_WINDOW, "a", "init"),
    guard(
        "each window has one element, without padding or stride",
        lambda root, init: _is_trivial_window(root) and is_neutral(root, init),
    ),
    keeps=exact_except(Loss.ZERO_SIGN, of_complex=Loss.NAN | Loss.INFINITY | Loss.ZERO_SIGN),
)
def _(a: HloInstruction) -> HloInstruction:
    return a
