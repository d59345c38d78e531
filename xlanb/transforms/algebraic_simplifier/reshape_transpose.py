"""Reshapes, transposes, bitcasts, reverses."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import (
    inserted_ones,
    only_user,
    unmodified_dimensions,
    unmodified_pairs,
    wrapped,
)
from xlanb.transforms.bitcasts import is_bitcast
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES, REAL

RESHAPE_TRANSPOSE = RuleSet("reshape_transpose")
rule = RESHAPE_TRANSPOSE.rule


def _kept(root: HloInstruction, p: HloInstruction) -> list[int] | None:
    return unmodified_dimensions(p.array_shape, root.array_shape, p.dimensions)


def _iota_dimension(root: HloInstruction, i: HloInstruction) -> int | None:
    return dict(unmodified_pairs(i.array_shape.dimensions, root.array_shape.dimensions)).get(i.get("iota_dimension"))


def _swaps_sides(root: HloInstruction, d: HloInstruction) -> bool:
    batch = len(d.ints("lhs_batch_dims"))
    left = d.operands[0].array_shape.rank - batch - len(d.ints("lhs_contracting_dims"))
    right = d.operands[1].array_shape.rank - batch - len(d.ints("rhs_contracting_dims"))
    if left > 1 or right > 1:
        return False
    wanted = (*range(batch), *range(batch + left, batch + left + right), *range(batch, batch + left))
    return bool(left and right) and root.dimensions == wanted


def _only_ones_move(root: HloInstruction, source: ArrayShape) -> bool:
    moving = [d for d in root.dimensions if source.dimensions[d] != 1]
    return moving == sorted(moving) and not source.is_dynamic


def _is_relabelling(root: HloInstruction, source: ArrayShape) -> bool:
    """Whether the layout of the result undoes the permutation, so that no bytes move."""
    shape = root.array_shape
    order = tuple(root.dimensions[d] for d in shape.minor_to_major)
    return order == source.minor_to_major and shape.element_type is source.element_type


def _reading(root: HloInstruction, a: HloInstruction) -> HloInstruction:
    """Replace the operand by `a`, and return the instruction."""
    old = root.operands[0]
    root.parent.replace_operand(root, 0, a)
    root.parent.remove_dead(old)
    return root


_static = guard("static shapes", lambda root, a: not root.array_shape.is_dynamic and not a.array_shape.is_dynamic)


@rule(
    "reshape(A) => A to its own shape",
    m.op(O.RESHAPE, "a"),
    guard("the same shape", lambda root, a: root.shape.without_layout() == a.shape.without_layout()),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("reshape(reshape(A)) => reshape(A)", m.op(O.RESHAPE, m.op(O.RESHAPE, "a")), _static, keeps=MOVES)
def _(root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return _reading(root, a)


@rule(
    "reshape(broadcast(A)) => broadcast(A)",
    m.op(O.RESHAPE, m.op(O.BROADCAST, "a", name="p")),
    _static,
    guard("A's dimensions are not split or merged", lambda root, p: _kept(root, p) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction | None:
    kept = _kept(root, p)
    if kept is None:
        return None
    return (
        b.add(O.BROADCAST, (a,), root.shape, dimensions=tuple(kept))
        if root.array_shape.dimensions
        else b.reshape(a, ())
    )


@rule(
    "reshape(iota) => iota",
    m.op(O.RESHAPE, m.op(O.IOTA, name="i")),
    guard("the dimension is not split or merged", lambda root, i: _iota_dimension(root, i) is not None),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, i: HloInstruction) -> HloInstruction:
    return b.add(O.IOTA, (), root.shape, iota_dimension=_iota_dimension(root, i))


@rule(
    "reshape(iota) => sum of iotas by their strides",
    m.op(O.RESHAPE, m.op(O.IOTA, name="i")),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("has one dimension", lambda root, i: i.array_shape.rank == 1 and root.array_shape.rank > 1),
    guard("integers or floats", lambda root: not root.shape.element_type.is_complex),
    guard("no dimension has size 0", lambda root: root.array_shape.element_count > 0),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    shape, stride, total = root.array_shape, 1, None
    for d in reversed(range(shape.rank)):
        if shape.dimensions[d] == 1:
            continue
        part = b.add(O.IOTA, (), shape, iota_dimension=d)
        if stride > 1:
            t = shape.element_type
            factor = wrapped(stride, t) if t.is_integral else stride  # the sum wraps as the iota did
            part = b.binary(O.MULTIPLY, part, b.full(factor, shape))
        total = part if total is None else b.binary(O.ADD, total, part)
        stride *= shape.dimensions[d]
    return b.full(0, shape) if total is None else total


@rule(
    "reshape(A) => bitcast(A)",
    m.op(O.RESHAPE, "a"),
    guard("layouts count", lambda options: options.is_layout_sensitive),
    guard("the bytes are unchanged", lambda root, a: is_bitcast(a.array_shape, root.array_shape)),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.bitcast(a, root.shape)


@rule("bitcast(bitcast(A)) => bitcast(A)", m.op(O.BITCAST, m.op(O.BITCAST, "a")), keeps=MOVES)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return a if a.shape == root.shape else b.bitcast(a, root.shape)


@rule(
    "bitcast(A) => A to its own shape",
    m.op(O.BITCAST, "a"),
    guard("the same shape and layout", lambda root, a: root.shape == a.shape),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "copy(A) => bitcast(A)",
    m.op(O.COPY, "a"),
    guard("layouts count", lambda options: options.is_layout_sensitive),
    guard(
        "another layout of the same bytes",
        lambda root, a: root.shape.is_array and root.shape != a.shape and is_bitcast(a.array_shape, root.array_shape),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.bitcast(a, root.shape)


# -- transposes ------------------------------------------------------------------------------------


@rule(
    "transpose(A) => A in its own order",
    m.op(O.TRANSPOSE, "a"),
    guard("the identity", lambda root: root.dimensions == tuple(range(len(root.dimensions)))),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("transpose(transpose(A)) => transpose(A)", m.op(O.TRANSPOSE, m.op(O.TRANSPOSE, "a", name="inner")), keeps=MOVES)
def _(root: HloInstruction, a: HloInstruction, inner: HloInstruction) -> HloInstruction:
    permutation = tuple(inner.dimensions[d] for d in root.dimensions)
    root.parent.update(root, attributes={"dimensions": permutation})
    return _reading(root, a)


def _comes_back(root: HloInstruction, t: HloInstruction, r: HloInstruction) -> bool:
    """Whether a transpose undoes another one through a reshape that inserts size-1 dimensions."""
    a = r.operands[0].array_shape
    added = inserted_ones(a, r.array_shape)
    if added is None:
        return False
    place = {d: n for n, d in enumerate(d for d in range(r.array_shape.rank) if d not in added)}
    order = [place[d] for d in t.dimensions if d in place]
    if tuple(a.dimensions[d] for d in order) != root.operands[0].array_shape.dimensions:
        return False
    return [order[d] for d in root.dimensions] == list(range(a.rank))


@rule(
    "transpose(reshape(transpose(reshape(A)))) => A where dimensions of size 1 are added and removed",
    m.op(O.TRANSPOSE, m.op(O.RESHAPE, m.op(O.TRANSPOSE, m.op(O.RESHAPE, "a", name="r"), name="t"))),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("the shape is A's again", _comes_back),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


def _transposed_by(root: HloInstruction, p: HloInstruction) -> tuple[int, ...] | None:
    """The dimensions of the transpose that equals the bitcast `root` of P, or None."""
    to, of = root.array_shape, p.array_shape
    if to.rank != of.rank or to.element_type is not of.element_type:
        return None
    pairs = dict(zip(to.minor_to_major, of.minor_to_major, strict=True))
    if any(to.dimensions[d] != of.dimensions[n] for d, n in pairs.items()):
        return None
    return tuple(pairs[d] for d in range(to.rank))


@rule(
    "bitcast(broadcast(A)) => broadcast(A)",
    m.op(O.BITCAST, m.op(O.BROADCAST, "a", name="p")),
    guard("layouts count", lambda options: options.is_layout_sensitive),
    guard("the bitcast transposes", lambda root, p: _transposed_by(root, p) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    places = {d: n for n, d in enumerate(_transposed_by(root, p) or ())}
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=tuple(places[d] for d in p.dimensions))


@rule("transpose(broadcast(A)) => broadcast(A)", m.op(O.TRANSPOSE, m.op(O.BROADCAST, "a", name="p")), keeps=MOVES)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    places = {d: n for n, d in enumerate(root.dimensions)}
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=tuple(places[d] for d in p.dimensions))


@rule("transpose(iota) => iota", m.op(O.TRANSPOSE, m.op(O.IOTA, name="i")), keeps=EXACT)
def _(b: Builder, root: HloInstruction, i: HloInstruction) -> HloInstruction:
    return b.add(O.IOTA, (), root.shape, iota_dimension=root.dimensions.index(i.get("iota_dimension")))


@rule(
    "transpose(dot(A, B)) => dot(B, A)",
    m.op(O.TRANSPOSE, m.op(O.DOT, "a", "b2", name="d")),
    guard("the dot has one use", only_user, "d"),
    guard("it swaps the two non-contracting sides", _swaps_sides, "root", "d"),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, b2: HloInstruction, d: HloInstruction) -> HloInstruction:
    swapped = {k.replace("lhs", "tmp").replace("rhs", "lhs").replace("tmp", "rhs"): v for k, v in d.attributes.items()}
    if swapped.get("operand_precision"):
        swapped["operand_precision"] = tuple(reversed(swapped["operand_precision"]))
    return b.add(O.DOT, (b2, a), root.shape, **swapped)


@rule(
    "transpose(A) => reshape(A) where only dimensions of size 1 move",
    m.op(O.TRANSPOSE, "a"),
    guard("only dimensions of size 1 move", lambda root, a: _only_ones_move(root, a.array_shape)),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.add(O.RESHAPE, (a,), root.shape)


@rule(
    "transpose(A) => bitcast(A)",
    m.op(O.TRANSPOSE, "a"),
    guard("layouts count", lambda options: options.is_layout_sensitive),
    guard("the bytes are unchanged", lambda root, a: _is_relabelling(root, a.array_shape)),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.bitcast(a, root.shape)


# -- reverses --------------------------------------------------------------------------------------


@rule(
    "reverse(A) => A along dimensions of size 1",
    m.op(O.REVERSE, "a"),
    guard("nothing to reverse", lambda root: all(root.array_shape.dimensions[d] == 1 for d in root.dimensions)),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "reverse(reverse(A)) => reverse(A) along dimensions that only one of them reverses",
    m.op(O.REVERSE, m.op(O.REVERSE, "a", name="inner")),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, inner: HloInstruction) -> HloInstruction:
    left = tuple(sorted(set(root.dimensions) ^ set(inner.dimensions)))
    return b.add(O.REVERSE, (a,), root.shape, dimensions=left) if left else a
