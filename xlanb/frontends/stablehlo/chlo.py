"""CHLO operations, which JAX and TensorFlow use: with broadcasting, or composed of StableHLO's.

Those that HLO has an opcode for are in elementwise.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlanb.errors import ShapeError
from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.linalg import precisions
from xlanb.frontends.stablehlo.scope import RULES, Instructions, RegionScope, rule
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of

_O = HloOpcode

_BINARY = (
    "add and atan2 complex divide maximum minimum multiply or power remainder shift_left shift_right_arithmetic "
    "shift_right_logical subtract xor"
).split()
BROADCASTING = {f"chlo.broadcast_{name}": BY_TEXT[name.replace("_", "-")] for name in _BINARY}


def broadcast(s: RegionScope, op: StablehloOperation, operands: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Broadcast operands to one shape as NumPy does.

    `broadcast_dimensions` give the positions of the dimensions of a lower rank.
    """
    if not operands:
        s.fail(op, "expected operands")
    shapes = [x.array_shape.dimensions for x in operands]
    rank = max(map(len, shapes))
    given = op.attributes.get("broadcast_dimensions")
    places = []
    for dims in shapes:
        trailing = tuple(range(rank - len(dims), rank))
        is_given = given is not None and len(dims) != rank and len(s.ints(op, "broadcast_dimensions")) == len(dims)
        places.append(s.ints(op, "broadcast_dimensions") if is_given else trailing)
    sizes = [1] * rank
    for dims, place in zip(shapes, places, strict=True):
        for size, d in zip(dims, place, strict=True):
            if not 0 <= d < rank or (size not in (1, sizes[d]) and sizes[d] != 1):
                s.fail(op, f"cannot broadcast {', '.join(x.shape.text(layout=False) for x in operands)} to one shape")
            sizes[d] = size if sizes[d] == 1 else sizes[d]
    return [s.b.broadcast_in_dim(x, sizes, place) for x, place in zip(operands, places, strict=True)]


@rule(*BROADCASTING)
def _broadcast_binary(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, y = broadcast(s, op, s.operands(op, 2))
    return s.instruction(BROADCASTING[op.name], (x, y))


@rule("chlo.broadcast_compare")
def _broadcast_compare(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, y = broadcast(s, op, s.operands(op, 2))
    total = op.attributes.get("compare_type") == "TOTALORDER" and x.array_shape.element_type.is_floating
    return s.b.compare(x, y, s.word(op, "comparison_direction"), "TOTALORDER" if total else None)


@rule("chlo.broadcast_select")
def _broadcast_select(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.b.select(*broadcast(s, op, s.operands(op, 3)))


@rule("chlo.broadcast_next_after", "chlo.broadcast_zeta", "chlo.broadcast_polygamma")
def _broadcast_special(s: RegionScope, op: StablehloOperation) -> HloInstruction | Instructions:
    operands = broadcast(s, op, s.operands(op, 2))
    plain = StablehloOperation(op.name.replace("broadcast_", ""), op.operands, {}, [], op.results, op.offset)
    inner = RegionScope(s.program, s.b, s)
    for value, x in zip(op.operands, operands, strict=True):
        inner.bind(value, x)
    return RULES[plain.name](inner, plain)


@rule("chlo.constant_like")
def _constant_like(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    value = op.attributes.get("value")
    if not isinstance(value, int | float):
        s.fail(op, "expected a number as 'value'")
    scalar = s.b.constant(np.asarray(value, s.result_element(op).dtype))
    return s.b.broadcast_in_dim(scalar, x.array_shape.dimensions, ())


@rule("chlo.square")
def _square(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.multiply(x, x)


@rule("chlo.atan")
def _atan(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    if x.array_shape.element_type.is_complex:
        return s.b.atan(x)
    return s.b.atan2(x, s.full(1, x))


@rule("chlo.conj")
def _conj(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    if not x.array_shape.element_type.is_complex:
        return x
    return s.b.complex(s.b.real(x), s.b.negate(s.b.imag(x)))


_INFINITE = {"chlo.is_inf": None, "chlo.is_pos_inf": math.inf, "chlo.is_neg_inf": -math.inf}


@rule(*_INFINITE)
def _is_infinite(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    wanted = _INFINITE[op.name]
    if wanted is None:
        return s.b.compare(s.b.abs(x), s.full(math.inf, x), "EQ")
    return s.b.compare(x, s.full(wanted, x), "EQ")


@rule("chlo.next_after")
def _next_after(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    """The number next to x towards y: its bits, counted as integers, less or more by one."""
    x, y = s.operands(op, 2)
    b, element = s.b, x.array_shape.element_type
    bits = PrimitiveType["S" + str(element.bits)]
    low = -(2 ** (element.bits - 1))
    raw_x, raw_y = b.bitcast_convert(x, bits), b.bitcast_convert(y, bits)
    sign = s.full(low, raw_x)
    is_nan = b.or_(b.compare(x, x, "NE"), b.compare(y, y, "NE"))
    size_x, size_y = (b.and_(raw, s.full(-low - 1, raw)) for raw in (raw_x, raw_y))
    sign_x, sign_y = b.and_(raw_x, sign), b.and_(raw_y, sign)
    one, zero = s.full(1, raw_x), s.full(0, raw_x)
    from_zero = b.select(b.compare(size_y, zero, "EQ"), raw_y, b.or_(sign_y, one))
    away = b.and_(b.compare(sign_x, sign_y, "EQ"), b.compare(size_x, size_y, "LE"))
    step = b.add(raw_x, b.select(away, one, s.full(-1, raw_x)))
    moved = b.select(b.compare(size_x, zero, "EQ"), from_zero, step)
    same = b.compare(x, y, "EQ")
    found = b.select(same, raw_y, moved)
    nan = b.bitcast_convert(s.full(math.nan, x), bits)
    return b.bitcast_convert(b.select(is_nan, nan, found), element)


@rule("chlo.top_k")
def _top_k(s: RegionScope, op: StablehloOperation) -> Instructions:
    (x,) = s.operands(op, 1)
    return s.unpacked(_topk(s, x, s.integer(op, "k")), op)


def _topk(s: RegionScope, x: HloInstruction, k: int) -> HloInstruction:
    shape = x.array_shape
    if not shape.rank or not 0 <= k <= shape.dimensions[-1]:
        raise ShapeError(f"k is {k}, expected at most the size of the last dimension of {shape.text(layout=False)}")
    dims = (*shape.dimensions[:-1], k)
    parts = tuple_of([array(shape.element_type, dims), array(PrimitiveType.S32, dims)])
    return s.instruction(_O.TOPK, (x,), parts, k=k, largest=True)


@rule("chlo.ragged_dot")
def _ragged_dot(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    fields = s.fields(op, "ragged_dot_dimension_numbers")
    named = {
        "lhs_batch_dims": "lhs_batching_dimensions",
        "lhs_contracting_dims": "lhs_contracting_dimensions",
        "rhs_batch_dims": "rhs_batching_dimensions",
        "rhs_contracting_dims": "rhs_contracting_dimensions",
        "lhs_ragged_dims": "lhs_ragged_dimensions",
        "rhs_group_dims": "rhs_group_dimensions",
    }
    lists = {name: s.dims(op, fields, field) or None for name, field in named.items()}
    return s.instruction(
        _O.RAGGED_DOT, s.operands(op), s.result_shape(op), **lists, operand_precision=precisions(s, op)
    )


@rule("chlo.scan")
def _scan(s: RegionScope, op: StablehloOperation) -> Instructions:
    operands = s.operands(op, at_least=1)
    segments = s.ints(op, "operandSegmentSizes") if "operandSegmentSizes" in op.attributes else ()
    carries = segments[1] if len(segments) == 2 else len(operands) // 2
    shapes = [s.result_shape(op, n) for n in range(len(op.results))]
    made = s.instruction(
        _O.SCAN,
        operands,
        shapes[0] if len(shapes) == 1 else tuple_of(shapes),
        dimensions=(s.integer(op, "dimension"),),
        num_carries=carries,
        is_reverse=s.flag(op, "is_reverse") or None,
        is_associative=op.attributes.get("is_associative"),
        to_apply=s.region(op, 0),
    )
    return s.unpacked(made, op)
