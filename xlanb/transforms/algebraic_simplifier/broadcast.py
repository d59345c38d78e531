"""Broadcasts and iotas."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import (
    degenerate_only,
    only_user,
    unmodified_dimensions,
)
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard

BROADCAST = RuleSet("broadcast")
rule = BROADCAST.rule


def _sources(a: HloInstruction, r: HloInstruction) -> list[int] | None:
    return unmodified_dimensions(a.array_shape, r.array_shape, tuple(range(a.array_shape.rank)))


@rule(
    "broadcast(A) => A to its own shape",
    m.op(O.BROADCAST, "a"),
    guard(
        "the same shape",
        lambda root, a: (
            root.array_shape.dimensions == a.array_shape.dimensions
            and root.dimensions == tuple(range(a.array_shape.rank))
        ),
    ),
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "broadcast(A) => transpose(A) of the same elements",
    m.op(O.BROADCAST, "a"),
    guard(
        "no element is repeated",
        lambda root, a: (
            root.array_shape.element_count == a.array_shape.element_count
            and root.array_shape.rank == a.array_shape.rank
            and root.array_shape.element_count > 0
        ),
    ),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    permutation = sorted(range(len(root.dimensions)), key=lambda d: root.dimensions[d])
    return b.add(O.TRANSPOSE, (a,), root.shape, dimensions=tuple(permutation))


@rule(
    "broadcast(A) => reshape(A) of the same elements",
    m.op(O.BROADCAST, "a"),
    guard(
        "no element is repeated",
        lambda root, a: (
            root.array_shape.element_count == a.array_shape.element_count and root.array_shape.element_count > 0
        ),
    ),
    guard("in order", lambda root: list(root.dimensions) == sorted(root.dimensions)),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.add(O.RESHAPE, (a,), root.shape)


@rule("broadcast(broadcast(A)) => broadcast(A)", m.op(O.BROADCAST, m.op(O.BROADCAST, "a", name="inner")))
def _(b: Builder, root: HloInstruction, a: HloInstruction, inner: HloInstruction) -> HloInstruction:
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=tuple(root.dimensions[d] for d in inner.dimensions))


@rule(
    "broadcast(reshape(A)) => broadcast(A) where the reshape drops or adds ones",
    m.op(O.BROADCAST, m.op(O.RESHAPE, "a", name="r")),
    guard("only ones come or go", lambda a, r: degenerate_only(a.array_shape, r.array_shape)),
    guard("every other dimension is kept", lambda a, r: _sources(a, r) is not None),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, r: HloInstruction) -> HloInstruction | None:
    kept = _sources(a, r)
    if kept is None:
        return None
    if len(kept) != a.array_shape.rank:
        return None
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=tuple(root.dimensions[j] for j in kept))


@rule("broadcast(iota) => iota", m.op(O.BROADCAST, m.op(O.IOTA, name="i")))
def _(b: Builder, root: HloInstruction, i: HloInstruction) -> HloInstruction:
    return b.add(O.IOTA, (), root.shape, iota_dimension=root.dimensions[i.get("iota_dimension")])


@rule(
    "iota of a dimension of size 1 => 0",
    m.op(O.IOTA),
    guard(
        "one step",
        lambda root: (
            root.array_shape.dimensions[root.get("iota_dimension")] <= 1 and root.array_shape.element_count > 0
        ),
    ),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(0, root.array_shape)


@rule(
    "op(broadcast(A), broadcast(B)) => broadcast(op(A, B))",
    m.op(
        [o for o in O if o.is_elementwise and o.arity == 2],
        m.op(O.BROADCAST, "a", name="p"),
        m.op(O.BROADCAST, "b2", name="q"),
    ),
    guard(
        "both spread alike",
        lambda p, q, a, b2: p.dimensions == q.dimensions and a.array_shape.dimensions == b2.array_shape.dimensions,
    ),
    guard("not two constants", lambda a, b2: not (a.opcode is O.CONSTANT and b2.opcode is O.CONSTANT)),
    guard("the operands are smaller", lambda a, root: a.array_shape.element_count < root.array_shape.element_count),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, b2: HloInstruction, p: HloInstruction) -> HloInstruction:
    narrow = b.add(root.opcode, (a, b2), a.array_shape.with_type(root.shape.element_type), **root.attributes)
    return b.broadcast(narrow, p.dimensions, root.array_shape)


@rule(
    "op(broadcast(A)) => broadcast(op(A))",
    m.op([o for o in O if o.is_elementwise and o.arity == 1], m.op(O.BROADCAST, "a", name="p")),
    guard("the operand is smaller", lambda a, root: a.array_shape.element_count < root.array_shape.element_count),
    guard("the broadcast is used here only, or A is a scalar", lambda p, a: only_user(p) or a.array_shape.is_scalar),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    narrow = b.add(root.opcode, (a,), a.array_shape.with_type(root.shape.element_type), **root.attributes)
    return b.broadcast(narrow, p.dimensions, root.array_shape)
