"""Slices, pads, concatenations, dynamic slices and updates, gathers of nothing."""

from __future__ import annotations

from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import is_integral
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard

SLICE_PAD_CONCAT = RuleSet("slice_pad_concat")
rule = SLICE_PAD_CONCAT.rule


def _boxes(i: HloInstruction) -> tuple[SliceDimension, ...]:
    found: tuple[SliceDimension, ...] = i.attributes["slice"]
    return found


def _padding(i: HloInstruction) -> tuple[PaddingDimension, ...]:
    found: tuple[PaddingDimension, ...] = i.attributes["padding"]
    return found


def _piece(root: HloInstruction, c: HloInstruction) -> tuple[HloInstruction, int] | None:
    """The operand of a concatenation that a slice lies in wholly, and where it begins."""
    d = c.dimensions[0]
    box = _boxes(root)[d]
    offset = 0
    for o in c.operands:
        size = o.array_shape.dimensions[d]
        if offset <= box.start and box.limit <= offset + size and box.start < box.limit:
            return o, offset
        offset += size
    return None


def _inside(root: HloInstruction, p: HloInstruction, a: HloInstruction) -> bool:
    rows = zip(_boxes(root), _padding(p), a.array_shape.dimensions, strict=True)
    return all(q.interior == 0 and x.start >= q.low and x.limit - q.low <= n and x.start < x.limit for x, q, n in rows)


def _first_neighbours(root: HloInstruction) -> int | None:
    d = root.dimensions[0]
    for n, (x, y) in enumerate(zip(root.operands, root.operands[1:], strict=False)):
        if x.opcode is O.SLICE and y.opcode is O.SLICE and x.operands[0] is y.operands[0]:
            p, q = _boxes(x), _boxes(y)
            same = all(s == t for k, (s, t) in enumerate(zip(p, q, strict=True)) if k != d)
            if same and all(s.stride == 1 for s in (*p, *q)) and p[d].limit == q[d].start:
                return n
    return None


def _is_index(o: HloInstruction) -> bool:
    return o.opcode is O.CONSTANT and is_integral(o) and not o.literal.is_elided and o.array_shape.is_scalar


# -- slice ------------------------------------------------------------------------------------------------------------


@rule(
    "slice(A) => A of everything",
    m.op(O.SLICE, "a"),
    guard("the same shape", lambda root, a: root.array_shape.dimensions == a.array_shape.dimensions),
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "slice(slice(A)) => slice(A)",
    m.op(O.SLICE, m.op(O.SLICE, "a", name="inner")),
    guard("no strides", lambda root, inner: all(x.stride == 1 for x in (*_boxes(root), *_boxes(inner)))),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, inner: HloInstruction) -> HloInstruction:
    boxes = tuple(
        SliceDimension(p.start + q.start, p.start + q.limit, 1)
        for p, q in zip(_boxes(inner), _boxes(root), strict=True)
    )
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


@rule(
    "slice(broadcast(scalar)) => broadcast(scalar)",
    m.op(O.SLICE, m.op(O.BROADCAST, "a")),
    guard("of a scalar", lambda a: a.array_shape.is_scalar),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=()) if root.array_shape.dimensions else a


@rule(
    "slice(concatenate(.., A, ..)) => slice(A)",
    m.op(O.SLICE, m.op(O.CONCATENATE, name="c")),
    guard("within one operand", lambda root, c: _piece(root, c) is not None),
)
def _(b: Builder, root: HloInstruction, c: HloInstruction) -> HloInstruction | None:
    piece = _piece(root, c)
    if piece is None:
        return None
    operand, offset = piece
    d = c.dimensions[0]
    boxes = tuple(
        SliceDimension(x.start - offset, x.limit - offset, x.stride) if n == d else x
        for n, x in enumerate(_boxes(root))
    )
    if operand.array_shape.dimensions == root.array_shape.dimensions:
        return operand
    return b.add(O.SLICE, (operand,), root.shape, slice=boxes)


@rule(
    "slice(pad(A)) => slice(A) within A",
    m.op(O.SLICE, m.op(O.PAD, "a", "value", name="p")),
    guard("no padding is seen", _inside, "root", "p", "a"),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    boxes = tuple(
        SliceDimension(x.start - q.low, x.limit - q.low, x.stride)
        for x, q in zip(_boxes(root), _padding(p), strict=True)
    )
    if a.array_shape.dimensions == root.array_shape.dimensions:
        return a
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


# -- pad --------------------------------------------------------------------------------------------------------------


@rule(
    "pad(A) => A by nothing",
    m.op(O.PAD, "a", "value"),
    guard("no padding", lambda root: all(q == PaddingDimension() for q in _padding(root))),
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "pad of nothing => broadcast(value)",
    m.op(O.PAD, "a", "value"),
    guard("no element", lambda a: a.array_shape.element_count == 0),
)
def _(b: Builder, root: HloInstruction, value: HloInstruction) -> HloInstruction:
    return b.broadcast(value, (), root.array_shape)


@rule(
    "pad(broadcast(C), C) => broadcast(C)",
    m.op(O.PAD, m.op(O.BROADCAST, "c"), "c"),
    guard("of a scalar", lambda c: c.array_shape.is_scalar),
)
def _(b: Builder, root: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.broadcast(c, (), root.array_shape)


@rule(
    "pad(A) with negative padding => slice(A)",
    m.op(O.PAD, "a", "value"),
    guard("it only cuts", lambda root: all(q.low <= 0 and q.high <= 0 and q.interior == 0 for q in _padding(root))),
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    boxes = tuple(
        SliceDimension(-q.low, n + q.high) for q, n in zip(_padding(root), a.array_shape.dimensions, strict=True)
    )
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


# -- concatenate ------------------------------------------------------------------------------------------------------


@rule("concatenate(A) => A", m.op(O.CONCATENATE, "a"))
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "concatenate(A, empty) => A",
    m.op(O.CONCATENATE),
    guard(
        "some operand is empty",
        lambda root: (
            any(o.array_shape.element_count == 0 for o in root.operands) and root.array_shape.element_count > 0
        ),
    ),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    full = [o for o in root.operands if o.array_shape.element_count]
    return full[0] if len(full) == 1 else b.add(O.CONCATENATE, full, root.shape, dimensions=root.dimensions)


@rule(
    "concatenate(slice(A, i, j), slice(A, j, k)) => slice(A, i, k)",
    m.op(O.CONCATENATE),
    guard("neighbouring slices", lambda root: _first_neighbours(root) is not None),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction | None:
    n = _first_neighbours(root)
    if n is None:
        return None
    first, second, d = root.operands[n], root.operands[n + 1], root.dimensions[0]
    p, q = _boxes(first), _boxes(second)
    limits = [q[k].limit if k == d else x.limit for k, x in enumerate(p)]
    joined = b.slice(first.operands[0], [x.start for x in p], limits)
    operands = (*root.operands[:n], joined, *root.operands[n + 2 :])
    return joined if len(operands) == 1 else b.add(O.CONCATENATE, operands, root.shape, dimensions=root.dimensions)


@rule(
    "concatenate(broadcast(C), broadcast(C)) => broadcast(C)",
    m.op(O.CONCATENATE),
    guard(
        "one scalar everywhere",
        lambda root: (
            len(
                {
                    o.operands[0] if o.opcode is O.BROADCAST and o.operands[0].array_shape.is_scalar else o
                    for o in root.operands
                }
            )
            == 1
            and root.operands[0].opcode is O.BROADCAST
            and not root.operands[0].dimensions
        ),
    ),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.broadcast(root.operands[0].operands[0], (), root.array_shape)


# -- dynamic slices -----------------------------------------------------------------------------------------------------


@rule(
    "dynamic-slice(A) => A of everything",
    m.op(O.DYNAMIC_SLICE),
    guard("the same shape", lambda root: root.array_shape.dimensions == root.operands[0].array_shape.dimensions),
)
def _(root: HloInstruction) -> HloInstruction:
    return root.operands[0]


@rule(
    "dynamic-slice(broadcast(scalar)) => broadcast(scalar)",
    m.op(O.DYNAMIC_SLICE),
    guard(
        "of a scalar",
        lambda root: root.operands[0].opcode is O.BROADCAST and root.operands[0].operands[0].array_shape.is_scalar,
    ),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.broadcast(root.operands[0].operands[0], (), root.array_shape)


@rule(
    "dynamic-slice(A, constants) => slice(A)",
    m.op(O.DYNAMIC_SLICE),
    guard("constant starts", lambda root: len(root.operands) > 1 and all(_is_index(o) for o in root.operands[1:])),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    source, sizes = root.operands[0], root.array_shape.dimensions
    starts = [
        min(max(0, int(o.literal.array)), n - s)
        for o, n, s in zip(root.operands[1:], source.array_shape.dimensions, sizes, strict=True)
    ]
    boxes = tuple(SliceDimension(s, s + n) for s, n in zip(starts, sizes, strict=True))
    return b.add(O.SLICE, (source,), root.shape, slice=boxes)


@rule(
    "dynamic-update-slice(A, B) => B of everything",
    m.op(O.DYNAMIC_UPDATE_SLICE),
    guard("the same shape", lambda root: root.operands[1].array_shape.dimensions == root.array_shape.dimensions),
)
def _(root: HloInstruction) -> HloInstruction:
    return root.operands[1]


@rule(
    "dynamic-update-slice(A, nothing) => A",
    m.op(O.DYNAMIC_UPDATE_SLICE),
    guard("no element", lambda root: root.operands[1].array_shape.element_count == 0),
)
def _(root: HloInstruction) -> HloInstruction:
    return root.operands[0]


@rule(
    "dynamic-update-slice(A, dynamic-slice(A, i), i) => A",
    m.op(O.DYNAMIC_UPDATE_SLICE),
    guard(
        "it writes back what it read",
        lambda root: (
            root.operands[1].opcode is O.DYNAMIC_SLICE
            and root.operands[1].operands[0] is root.operands[0]
            and root.operands[1].operands[1:] == root.operands[2:]
        ),
    ),
)
def _(root: HloInstruction) -> HloInstruction:
    return root.operands[0]
