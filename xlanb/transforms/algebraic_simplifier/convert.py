"""Conversions between element types."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms import match as m
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES

CONVERT = RuleSet("convert")
rule = CONVERT.rule


def is_lossless(source: PrimitiveType, target: PrimitiveType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source is target:
        return True
    if source is PrimitiveType.PRED:
        return target.is_integral or target in _MANTISSA or target.is_complex
    if source in _MANTISSA and target in _MANTISSA:
        return all(a <= b for a, b in zip(_MANTISSA[source], _MANTISSA[target], strict=True))
    if source.is_integral and target.is_integral:
        if source.is_signed == target.is_signed:
            return source.bits <= target.bits
        return target.is_signed and source.bits < target.bits
    if source.is_integral and target in _MANTISSA:
        return source.bits - source.is_signed <= _MANTISSA[target][1] + 1
    return source is PrimitiveType.C64 and target is PrimitiveType.C128


def _same_width(root: HloInstruction, a: HloInstruction) -> bool:
    x, y = root.array_shape, a.array_shape
    return (
        x.element_type.bits == y.element_type.bits
        and x.dimensions == y.dimensions
        and x.minor_to_major == y.minor_to_major
    )


_MANTISSA = {
    PrimitiveType.F64: (11, 52),
    PrimitiveType.F32: (8, 23),
    PrimitiveType.F16: (5, 10),
    PrimitiveType.BF16: (8, 7),
}


@rule(
    "convert(A) => A to its own type",
    m.op((O.CONVERT, O.BITCAST_CONVERT), "a"),
    guard(
        "the same type",
        lambda root, a: (
            root.shape.element_type is a.shape.element_type and root.shape.without_layout() == a.shape.without_layout()
        ),
    ),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "convert(convert(A, wider), type of A) => A",
    m.op(O.CONVERT, m.op(O.CONVERT, "a", name="inner")),
    guard("converts back to the original type", lambda root, a: root.shape.element_type is a.shape.element_type),
    guard(
        "the intermediate type is lossless",
        lambda a, inner: is_lossless(a.shape.element_type, inner.shape.element_type),
    ),
    keeps=EXACT,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "convert(convert(A, wider), widest) => convert(A, widest)",
    m.op(O.CONVERT, m.op(O.CONVERT, "a", name="inner")),
    guard(
        "the intermediate type is lossless",
        lambda a, inner: is_lossless(a.shape.element_type, inner.shape.element_type),
    ),
    guard("nor after", lambda root, inner: is_lossless(inner.shape.element_type, root.shape.element_type)),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.add(O.CONVERT, (a,), root.shape)


@rule(
    "bitcast-convert(bitcast-convert(A)) => bitcast-convert(A)",
    m.op(O.BITCAST_CONVERT, m.op(O.BITCAST_CONVERT, "a")),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction | None:
    if (
        a.array_shape.dimensions != root.array_shape.dimensions
        or a.shape.element_type.bits != root.shape.element_type.bits
    ):
        return None
    if a.shape.element_type is root.shape.element_type:
        return a
    return b.add(O.BITCAST_CONVERT, (a,), root.shape)


@rule(
    "bitcast-convert(A) => bitcast(A)",
    m.op(O.BITCAST_CONVERT, "a"),
    guard("layouts count", lambda options: options.is_layout_sensitive),
    guard("the same bytes", _same_width),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.bitcast(a, root.shape)


@rule(
    "reduce-precision(reduce-precision(A)) => reduce-precision(A)",
    m.op(O.REDUCE_PRECISION, m.op(O.REDUCE_PRECISION, name="inner")),
    guard("the same precision", lambda root, inner: root.attributes == inner.attributes),
    keeps=EXACT,
)
def _(inner: HloInstruction) -> HloInstruction:
    return inner
