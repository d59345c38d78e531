"""Elements of data-movement instructions: map an index of the result to one of the operand."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np

from xlanb.codegen import arithmetic, indexing
from xlanb.codegen.elemental import Elemental, array_of, elemental
from xlanb.codegen.elements import Element, constant, from_bits, pair, part, real, register, to_bits, zero
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, same_order
from xlanb.codegen.lanes import MAX_CUTS, LaneIndex, NotAVectorError, SplitError
from xlanb.codegen.types import I1, integer
from xlanb.codegen.values import Value
from xlanb.errors import UnimplementedError
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType


@elemental(Op.BROADCAST)
def _broadcast(e: Elemental, i: HloInstruction, x: Index) -> Element:
    source = array_of(i.operands[0])
    if not source.dimensions:
        return e.scalar(i.operands[0])
    if source.dimensions == array_of(i).dimensions and i.dimensions == tuple(range(source.rank)):
        return e.element(i.operands[0], x)
    multi = x.multi(e.f)
    where: list[Ix] = [0 if source.dimensions[k] == 1 else multi[d] for k, d in enumerate(i.dimensions)]
    return e.element(i.operands[0], Index(source, where))


@elemental(Op.IOTA)
def _iota(e: Elemental, i: HloInstruction, x: Index) -> Element:
    t = array_of(i).element_type
    at = x.multi(e.f)[i.get("iota_dimension")]
    if isinstance(at, int):
        return constant(e.f, t, np.asarray(at).astype(t.dtype)[()])  # an index too large for the type wraps around
    return arithmetic.convert(e.f, T.S64, t, at)


@elemental(Op.RESHAPE, Op.DYNAMIC_RESHAPE)
def _reshape(e: Elemental, i: HloInstruction, x: Index) -> Element:
    return e.element(i.operands[0], indexing.reshape(e.f, x, array_of(i.operands[0])))


@elemental(Op.BITCAST)
def _bitcast(e: Elemental, i: HloInstruction, x: Index) -> Element:
    shape, source = array_of(i), array_of(i.operands[0])
    here = x if same_order(x.shape, shape) else Index(shape, x.multi(e.f))
    value = e.element(i.operands[0], indexing.bitcast(e.f, here, source))
    if shape.element_type is source.element_type:
        return value
    if shape.element_type.bits != source.element_type.bits:
        raise UnimplementedError(
            f"bitcast between element types of {source.element_type.bits} and {shape.element_type.bits} bits"
        )
    return from_bits(e.f, shape.element_type, to_bits(e.f, source.element_type, real(value)))


@elemental(Op.TRANSPOSE)
def _transpose(e: Elemental, i: HloInstruction, x: Index) -> Element:
    source = array_of(i.operands[0])
    multi = x.multi(e.f)
    where: list[Ix] = [0] * source.rank
    for k, d in enumerate(i.dimensions):
        where[d] = multi[k]
    return e.element(i.operands[0], Index(source, where))


@elemental(Op.REVERSE)
def _reverse(e: Elemental, i: HloInstruction, x: Index) -> Element:
    source = array_of(i.operands[0])
    where = [e.f.sub(source.dimensions[d] - 1, v) if d in i.dimensions else v for d, v in enumerate(x.multi(e.f))]
    return e.element(i.operands[0], Index(source, where))


@elemental(Op.SLICE)
def _slice(e: Elemental, i: HloInstruction, x: Index) -> Element:
    where = [e.f.add(e.f.mul(v, s.stride), s.start) for v, s in zip(x.multi(e.f), i.get("slice"), strict=True)]
    return e.element(i.operands[0], Index(array_of(i.operands[0]), where))


@elemental(Op.PAD)
def _pad(e: Elemental, i: HloInstruction, x: Index) -> Element:
    operand, value = i.operands
    source = array_of(operand)
    if source.element_count == 0:
        return e.scalar(value)
    f = e.f
    t = source.element_type
    inside = e.f.const(I1, True)
    where: list[Ix] = []
    lanes: list[bool] = []
    """Which lanes have an element of the operand; the others lie between two of them."""
    for v, p, n in zip(x.multi(f), i.get("padding"), source.dimensions, strict=True):
        at = f.sub(v, p.low)
        step = p.interior + 1
        if p.low or p.high or p.interior:
            inside = f.both(inside, f.within(at, 0, (n - 1) * step + 1))
        if p.interior:
            # For negative positions quotient and remainder do not matter: they are outside.
            left, at = f.rem(at, step), f.div(at, step)
            if isinstance(left, LaneIndex):
                lanes = [k == 0 and is_one for k, is_one in zip(left.numbers, lanes or [True] * f.width, strict=True)]
            else:
                inside = f.both(inside, _is_zero(e, left))
        where.append(at)

    def element() -> Element:
        found = e.element(operand, Index(source, where))
        if not lanes:
            return found
        # the others have computed the element before them, which is there too
        return arithmetic.one_where(f, t, f.constants(I1, lanes), found, e.scalar(value))

    return e.branch(t, inside, element, lambda: e.scalar(value))


def _is_zero(e: Elemental, at: Ix) -> Value:
    return e.f.const(I1, at == 0) if isinstance(at, int) else at.equals(0)


@elemental(Op.CONCATENATE)
def _concatenate(e: Elemental, i: HloInstruction, x: Index) -> Element:
    (d,) = i.dimensions
    multi = x.multi(e.f)
    operands = [o for o in i.operands if array_of(o).element_count]
    begins = [0]
    for o in operands:
        begins.append(begins[-1] + array_of(o).dimensions[d])

    def at(k: int) -> Element:
        where = list(multi)
        where[d] = e.f.sub(multi[d], begins[k])
        return e.element(operands[k], Index(array_of(operands[k]), where))

    def pick(low: int, high: int) -> Element:
        if high - low == 1:
            return at(low)
        middle = (low + high) // 2
        try:
            before = e.f.within(multi[d], 0, begins[middle])
        except SplitError as error:
            if len(operands) >= MAX_CUTS:
                raise NotAVectorError("too many pieces to split a loop into") from error
            raise
        return e.branch(array_of(i).element_type, before, lambda: pick(low, middle), lambda: pick(middle, high))

    return pick(0, len(operands))


def starts(e: Elemental, operands: Sequence[HloInstruction], room: Sequence[int]) -> list[Ix]:
    """Start indices clamped to 0..room, one per dimension.

    They are scalars, or one vector in old HLO.
    """
    if len(operands) == 1 and array_of(operands[0]).rank == 1:
        vector = array_of(operands[0])
        t = vector.element_type
        return [e.clamped(t, real(e.element(operands[0], Index(vector, [k]))), 0, r) for k, r in enumerate(room)]
    return [e.clamped(array_of(o).element_type, real(e.scalar(o)), 0, r) for o, r in zip(operands, room, strict=True)]


@elemental(Op.DYNAMIC_SLICE)
def _dynamic_slice(e: Elemental, i: HloInstruction, x: Index) -> Element:
    source, result = array_of(i.operands[0]), array_of(i)
    room = [n - m for n, m in zip(source.dimensions, result.dimensions, strict=True)]
    begin = starts(e, i.operands[1:], room)
    where = [e.f.add(a, b) for a, b in zip(begin, x.multi(e.f), strict=True)]
    return e.element(i.operands[0], Index(source, where))


@elemental(Op.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(e: Elemental, i: HloInstruction, x: Index) -> Element:
    operand, update = i.operands[:2]
    source, piece = array_of(operand), array_of(update)
    if piece.element_count == 0:
        return e.element(operand, x)
    room = [n - m for n, m in zip(source.dimensions, piece.dimensions, strict=True)]
    begin = starts(e, i.operands[2:], room)
    inside = e.f.const(I1, True)
    where: list[Ix] = []
    for v, b, m, n in zip(x.multi(e.f), begin, piece.dimensions, source.dimensions, strict=True):
        at = e.f.sub(v, b)
        where.append(at)
        if m != n:
            inside = e.f.both(inside, e.f.within(at, 0, m))
    return e.branch(
        source.element_type, inside, lambda: e.element(update, Index(piece, where)), lambda: e.element(operand, x)
    )


@elemental(Op.GATHER)
def _gather(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """Gather: the start indices, clamped, by the result's batch dimensions, plus offsets."""
    operand, indices = i.operands
    source, table = array_of(operand), array_of(indices)
    sizes = i.ints("slice_sizes")
    offset_dims, collapsed = i.ints("offset_dims"), i.ints("collapsed_slice_dims")
    batching, start_batching = i.ints("operand_batching_dims"), i.ints("start_indices_batching_dims")
    vector_dim = i.get("index_vector_dim")
    multi = x.multi(e.f)
    batch = [v for d, v in enumerate(multi) if d not in offset_dims]
    offsets = iter(multi[d] for d in offset_dims)
    where: list[Ix] = [0 if d in collapsed or d in batching else next(offsets) for d in range(source.rank)]
    for k, d in enumerate(i.ints("start_index_map")):
        at: list[Ix] = list(batch)
        if vector_dim < table.rank:
            at.insert(vector_dim, k)
        value = e.element(indices, Index(table, at))
        first = e.clamped(table.element_type, real(value), 0, source.dimensions[d] - sizes[d])
        where[d] = e.f.add(where[d], first)
    for d, t in zip(batching, start_batching, strict=True):
        where[d] = batch[t - (1 if t > vector_dim else 0)]
    return e.element(operand, Index(source, where))


@elemental(Op.BITCAST_CONVERT)
def _bitcast_convert(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """Reinterpret bits. With unequal widths, the last dimension holds a wide element's pieces.

    The lowest bits come first.
    """
    shape, source = array_of(i), array_of(i.operands[0])
    to, t = shape.element_type, source.element_type
    f = e.f
    if to is t:
        return e.element(i.operands[0], x)
    if to.is_complex or t.is_complex:
        return _complex_bits(e, i, x)
    if to.bits == t.bits:
        return from_bits(f, to, to_bits(f, t, real(e.element(i.operands[0], x))))
    multi = x.multi(f)
    if to.bits < t.bits:
        wide = to_bits(f, t, real(e.element(i.operands[0], Index(source, multi[:-1]))))
        shift = f.mul(multi[-1], to.bits)
        amount = shift.trunc(integer(t.bits)) if isinstance(shift, Value) else shift
        return from_bits(f, to, wide.lshr(amount).trunc(integer(to.bits)))
    pieces = [
        to_bits(f, t, real(e.element(i.operands[0], Index(source, (*multi, k))))).zext(integer(to.bits)) << k * t.bits
        for k in range(to.bits // t.bits)
    ]
    return from_bits(f, to, functools.reduce(operator.or_, pieces))


def _complex_bits(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """A c64 is two consecutive f32, a c128 two consecutive f64."""
    shape, source = array_of(i), array_of(i.operands[0])
    if shape.element_type.is_complex and source.element_type is part(shape.element_type):
        multi = x.multi(e.f)
        re, im = (real(e.element(i.operands[0], Index(source, (*multi, k)))) for k in (0, 1))
        return re, im
    if source.element_type.is_complex and shape.element_type is part(source.element_type):
        multi = x.multi(e.f)
        re, im = pair(e.element(i.operands[0], Index(source, multi[:-1])))
        if isinstance(multi[-1], int):
            return (re, im)[multi[-1]]
        return arithmetic.select(_is_zero(e, multi[-1]), re, im)
    raise UnimplementedError(f"bitcast-convert of {source.element_type} to {shape.element_type}")


@elemental(Op.GET_DIMENSION_SIZE)
def _get_dimension_size(e: Elemental, i: HloInstruction, x: Index) -> Element:
    source = array_of(i.operands[0])
    (d,) = i.dimensions
    if source.is_dynamic_dimension(d):
        raise UnimplementedError(f"sizes are only known at run time:\n  {with_origin(i)}")
    return e.f.const(register(T.S32), source.dimensions[d])


@elemental(Op.REPLICA_ID, Op.PARTITION_ID)
def _only_one(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """Zero: there is one replica and one partition."""
    return zero(e.f, T.U32)
