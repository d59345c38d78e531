"""Check every instruction's shape against inference (ShapeVerifier in hlo_verifier.cc)."""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.errors import ShapeError
from xlanb.hlo import shape_inference  # noqa: F401 - registers the rules
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.control import body_result, fused_result
from xlanb.hlo.shape_inference.registry import CHECKS, RULES, Site, compatible
from xlanb.hlo.verifier.fault import VerifierOptions, fail
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape

_O = HloOpcode
_NOTHING = TupleShape(())

_RULES = {**RULES, _O.WHILE: body_result, _O.FUSION: fused_result}
"""The rules for checking shapes; less strict than inference for loops and fusions."""

EXACT = frozenset(
    (
        _O.CALL, _O.CONDITIONAL, _O.CONSTANT, _O.COPY_DONE, _O.COPY_START, _O.CUSTOM_CALL,
        _O.DYNAMIC_UPDATE_SLICE, _O.FUSION, _O.GET_TUPLE_ELEMENT, _O.INFEED, _O.OUTFEED,
        _O.OPT_BARRIER, _O.PARAMETER, _O.RECV, _O.RECV_DONE, _O.SEND, _O.SEND_DONE, _O.TUPLE, _O.WHILE,
    )
)  # fmt: skip
"""Opcodes that only forward values: no change of precision or layout."""

CHOOSES_TYPE = frozenset((_O.DOT, _O.CONVOLUTION, _O.RAGGED_DOT, _O.SCALED_DOT))
"""Sums of products, whose element type may be given (XLA's preferred_element_type)."""

MAY_MIX = EXACT | CHOOSES_TYPE | frozenset(
    (
        _O.ALL_REDUCE, _O.ALL_REDUCE_START, _O.ALL_REDUCE_DONE, _O.ALL_GATHER, _O.ALL_GATHER_START,
        _O.ALL_GATHER_DONE, _O.ASYNC_DONE,
        _O.ASYNC_UPDATE, _O.ASYNC_START, _O.DOMAIN, _O.REDUCE_PRECISION, _O.REDUCE_WINDOW, _O.SORT,
    )
)  # fmt: skip
"""Opcodes whose operands may have different floating types, whatever the options."""


KEEPS_TYPE = frozenset((_O.BROADCAST, _O.RESHAPE, _O.DYNAMIC_RESHAPE))
"""Opcodes with a given shape that keep the operand's type, unless precisions may mix."""

KEEPS_LAYOUT = frozenset(o for o in HloOpcode if o.is_elementwise) | frozenset(
    (_O.CONCATENATE, _O.DYNAMIC_SLICE, _O.DYNAMIC_UPDATE_SLICE, _O.MAP, _O.PAD, _O.REVERSE, _O.SLICE, _O.SORT)
)
"""Opcodes whose result has its operands' layout in layout-sensitive modules.

Source: LayoutAssignment::InstructionCanChangeLayout.
"""


def verify_shape(i: HloInstruction, options: VerifierOptions) -> None:
    """Check that the shape is the inferred one, except for layouts and dynamic dimensions."""
    opcode, shape = i.opcode, i.shape
    if not options.allow_unbounded_dynamism and _is_unbounded(shape):
        fail(i, f"expected dimensions that are bounded, not {shape}")
    site = Site(opcode, [o.shape for o in i.operands], i.attributes)
    rule = _RULES.get(opcode)
    try:
        if rule is None:
            check = CHECKS.get(opcode)
            if check is not None:
                check(site, shape)
        else:
            expected = rule(site)
            if expected is not shape:
                _verify_result(i, expected, options)
    except ShapeError as error:
        fail(i, str(error))
    if not options.allow_mixed_precision and opcode not in MAY_MIX:
        _verify_one_precision(i)
    if options.layout_sensitive and opcode in KEEPS_LAYOUT and isinstance(shape, ArrayShape):
        _verify_same_layout(i, shape)


def _is_unbounded(shape: Shape) -> bool:
    if isinstance(shape, ArrayShape):
        return min(shape.dimensions, default=0) < 0
    return isinstance(shape, TupleShape) and any(map(_is_unbounded, shape.shapes))


def _verify_same_layout(i: HloInstruction, shape: ArrayShape) -> None:
    for o in i.operands:
        x = o.shape
        if isinstance(x, ArrayShape) and x.rank == shape.rank and not _same_layouts(x, shape):
            fail(i, f"expected the layout of its operand {o.name}, {x}")


def _verify_result(i: HloInstruction, expected: Shape, options: VerifierOptions) -> None:
    opcode, shape = i.opcode, i.shape
    if opcode is _O.SCAN and isinstance(shape, TupleShape) and len(shape.shapes) == 1:
        expected = TupleShape((expected,))  # a value may be in a tuple or alone
    if opcode in CHOOSES_TYPE:
        if (
            not isinstance(shape, ArrayShape)
            or not isinstance(expected, ArrayShape)
            or shape.dimensions != expected.dimensions
        ):
            fail(i, f"expected the dimensions of {expected.text(layout=False)}")
    elif not compatible(shape, expected, mixed_precision=options.allow_mixed_precision and opcode not in EXACT):
        fail(i, f"expected the shape {expected.text(layout=False)}, not {shape.text(layout=False)}")
    elif options.layout_sensitive and opcode in EXACT and not _same_layouts(shape, expected):
        fail(i, f"expected the layouts of {expected}")


def _same_layouts(a: Shape, b: Shape) -> bool:
    """Whether the layouts of arrays, if both have one, have the same order of dimensions."""
    pairs = zip(a.leaves(), b.leaves(), strict=True)
    return all(
        x.layout is None or y.layout is None or x.layout.minor_to_major == y.layout.minor_to_major
        for (_, x), (_, y) in pairs
        if isinstance(x, ArrayShape) and isinstance(y, ArrayShape)
    )


def _verify_one_precision(i: HloInstruction) -> None:
    kinds = {k for o in i.operands for k in _floating_types(o.shape)}
    if i.opcode in KEEPS_TYPE:
        kinds.update(_floating_types(i.shape))
    if len(kinds) > 1:
        fail(i, f"expected values of one floating type, not of {' and '.join(sorted(map(str, kinds)))}")


def _floating_types(shape: Shape) -> Iterator[PrimitiveType]:
    if isinstance(shape, ArrayShape):
        if shape.element_type.is_floating:
            yield shape.element_type
        return
    for _, s in shape.leaves():
        if s.element_type.is_floating:
            yield s.element_type
