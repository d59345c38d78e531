"""Dynamic slices and updates."""

from __future__ import annotations

from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType as T
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import is_integral
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES

DYNAMIC_SLICE = RuleSet("dynamic_slice")
rule = DYNAMIC_SLICE.rule


def _is_index(o: HloInstruction) -> bool:
    return o.opcode is O.CONSTANT and is_integral(o) and not o.literal.is_elided and o.array_shape.is_scalar


@rule(
    "dynamic-slice(A) => A when it covers all of A",
    m.op(O.DYNAMIC_SLICE),
    guard("the same shape", lambda root: root.array_shape.dimensions == root.operands[0].array_shape.dimensions),
    keeps=MOVES,
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
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.broadcast(root.operands[0].operands[0], (), root.array_shape)


@rule(
    "dynamic-slice(A, constants) => slice(A)",
    m.op(O.DYNAMIC_SLICE),
    guard("constant starts", lambda root: len(root.operands) > 1 and all(_is_index(o) for o in root.operands[1:])),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    source, sizes = root.operands[0], root.array_shape.dimensions
    starts = [
        min(max(0, int(o.literal.array)), n - s)
        for o, n, s in zip(root.operands[1:], source.array_shape.dimensions, sizes, strict=True)
    ]
    boxes = tuple(SliceDimension(s, s + n) for s, n in zip(starts, sizes, strict=True))
    return b.add(O.SLICE, (source,), root.shape, slice=boxes)


def _is_one_of_line(root: HloInstruction, i: HloInstruction) -> bool:
    return root.array_shape.dimensions == (1,) and {root.shape.element_type, i.shape.element_type} <= {T.S32, T.U32}


def _clamped(b: Builder, root: HloInstruction, i: HloInstruction) -> HloInstruction:
    """The clamped start index of a dynamic slice of one element."""
    index, last = i.shape.element_type, root.operands[0].array_shape.dimensions[0] - 1
    clamped = b.add(O.CLAMP, (b.scalar(0, index), i, b.scalar(last, index)), i.shape)
    return clamped if index is root.shape.element_type else b.convert(clamped, root.array_shape.element_type)


_one_of_line = guard("one element of 32-bit integers", _is_one_of_line, "root", "i")


@rule(
    "dynamic-slice(iota, i) => reshape(clamp(0, i, last))",
    m.op(O.DYNAMIC_SLICE, m.op(O.IOTA), "i"),
    _one_of_line,
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, i: HloInstruction) -> HloInstruction:
    return b.reshape(_clamped(b, root, i), (1,))


@rule(
    "dynamic-slice(iota * C, i) => reshape(clamp(0, i, last) * C)",
    m.op(O.DYNAMIC_SLICE, m.op(O.MULTIPLY, m.op(O.IOTA), m.op(O.BROADCAST, "c")), "i"),
    _one_of_line,
    guard("times a scalar", lambda c: c.array_shape.is_scalar, "c"),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, i: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.reshape(b.binary(O.MULTIPLY, _clamped(b, root, i), c), (1,))


def _whole_dimensions(root: HloInstruction) -> list[int]:
    """Dimensions that a dynamic slice or update covers whole but whose start is not a constant 0.

    The effective start is 0 there, since starts are clamped.
    """
    update = root.opcode is O.DYNAMIC_UPDATE_SLICE
    sizes = (root.operands[1] if update else root).array_shape.dimensions
    starts = root.operands[1 + update :]
    if len(starts) != len(sizes):
        return []
    whole = root.operands[0].array_shape.dimensions
    return [d for d, s in enumerate(starts) if sizes[d] == whole[d] and not m.is_all(s, 0)]


@rule(
    "dynamic-slice(A, I) => dynamic-slice(A, 0) along fully covered dimensions, dynamic-update-slice likewise",
    m.op((O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE)),
    guard("a dimension is fully covered", lambda root: bool(_whole_dimensions(root))),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    operands, first = list(root.operands), 1 + (root.opcode is O.DYNAMIC_UPDATE_SLICE)
    for d in _whole_dimensions(root):
        operands[first + d] = b.scalar(0, operands[first + d].shape.element_type)
    return b.add(root.opcode, operands, root.shape, **root.attributes)


@rule(
    "dynamic-update-slice(broadcast(C), A, constants) => pad(A, C)",
    m.op(O.DYNAMIC_UPDATE_SLICE),
    guard("constant starts", lambda root: all(_is_index(o) for o in root.operands[2:])),
    guard(
        "into a broadcast constant scalar",
        lambda root: (
            root.operands[0].opcode is O.BROADCAST
            and root.operands[0].operands[0].opcode is O.CONSTANT
            and root.operands[0].operands[0].array_shape.is_scalar
        ),
    ),
    guard(
        "its result gives the number of start indices", lambda root: len(root.operands) == 2 + root.array_shape.rank > 2
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    whole, update = root.array_shape.dimensions, root.operands[1]
    edges: list[PaddingDimension] = []
    for o, n, size in zip(root.operands[2:], whole, update.array_shape.dimensions, strict=True):
        low = min(max(0, int(o.literal.array)), n - size)
        edges.append(PaddingDimension(low, n - size - low, 0))
    return b.add(O.PAD, (update, root.operands[0].operands[0]), root.shape, padding=tuple(edges))


@rule(
    "dynamic-update-slice(A, B) => B when it covers all of A",
    m.op(O.DYNAMIC_UPDATE_SLICE),
    guard("the same shape", lambda root: root.operands[1].array_shape.dimensions == root.array_shape.dimensions),
    keeps=MOVES,
)
def _(root: HloInstruction) -> HloInstruction:
    return root.operands[1]


@rule(
    "dynamic-update-slice(A, nothing) => A",
    m.op(O.DYNAMIC_UPDATE_SLICE),
    guard("no element", lambda root: root.operands[1].array_shape.element_count == 0),
    keeps=MOVES,
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
    keeps=MOVES,
)
def _(root: HloInstruction) -> HloInstruction:
    return root.operands[0]
