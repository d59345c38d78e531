"""Elements of elementwise instructions, constants and control flow: XLA's semantics."""

from __future__ import annotations

from xlanb.codegen import arithmetic, complex_math
from xlanb.codegen.complex_math import Complex
from xlanb.codegen.elemental import Elemental, array_of, elemental
from xlanb.codegen.elements import Element, constant, pair, real, rounded
from xlanb.codegen.indexing import Index
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.errors import UnimplementedError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType


def _complex_of(v: Element) -> Complex:
    return Complex(*pair(v))


@elemental(*arithmetic.BINARY, same_index=True)
def _binary(e: Elemental, i: HloInstruction, x: Index) -> Element:
    t = array_of(i.operands[0]).element_type
    a, b = (e.element(o, x) for o in i.operands)
    if t.is_complex:
        made = complex_math.binary(i.opcode, t, _complex_of(a), _complex_of(b))
        return made.re, made.im
    return arithmetic.binary(e.f, i.opcode, t, real(a), real(b), e.flags)


@elemental(*arithmetic.UNARY, same_index=True)
def _unary(e: Elemental, i: HloInstruction, x: Index) -> Element:
    op, t = i.opcode, array_of(i.operands[0]).element_type
    a = e.element(i.operands[0], x)
    if t.is_complex and op is Op.ABS:
        return abs(_complex_of(a))
    if t.is_complex and op is not Op.IS_FINITE:
        made = complex_math.unary(op, t, _complex_of(a))
        return made.re, made.im
    if t.is_integral and op is Op.IS_FINITE:
        return e.f.const(I1, True)
    return arithmetic.unary(e.f, op, t, real(a))


@elemental(Op.COPY)
def _copy(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """A placeholder in the registry: `Elemental` forwards copies leaf by leaf."""
    return e.element(i.operands[0], x)


@elemental(Op.CONSTANT)
def _constant(e: Elemental, i: HloInstruction, x: Index) -> Element:
    values = i.literal.array
    if i.literal.is_elided or _is_splat(values.tobytes(), values.itemsize):
        return constant(e.f, array_of(i).element_type, values.flat[0])
    return e.constants(i).load(x)


def _is_splat(data: bytes, size: int) -> bool:
    """Whether all elements of `size` bytes are the same."""
    return data == data[:size] * (len(data) // size)


@elemental(Op.CONVERT, same_index=True)
def _convert(e: Elemental, i: HloInstruction, x: Index) -> Element:
    value = e.element(i.operands[0], x)
    return arithmetic.convert(e.f, array_of(i.operands[0]).element_type, array_of(i).element_type, value)


@elemental(Op.COMPARE, same_index=True)
def _compare(e: Elemental, i: HloInstruction, x: Index) -> Element:
    a, b = (e.element(o, x) for o in i.operands)
    t = array_of(i.operands[0]).element_type
    return arithmetic.compare(e.f, t, i.get("direction"), a, b, total_order=i.get("type") == "TOTALORDER")


@elemental(Op.SELECT)
def _select(e: Elemental, i: HloInstruction, x: Index) -> Element:
    predicate, a, b = i.operands
    condition = e.scalar(predicate) if not array_of(predicate).dimensions else e.element(predicate, x)
    t = array_of(i).element_type
    return arithmetic.one_where(e.f, t, real(condition), e.element(a, x), e.element(b, x))


@elemental(Op.CLAMP)
def _clamp(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """min(max(x, low), high)."""
    t = array_of(i).element_type
    if t.is_complex:
        raise complex_math.unordered("clamp", t)
    low, value, high = (real(e.element(o, x) if array_of(o).dimensions else e.scalar(o)) for o in i.operands)
    return arithmetic.binary(e.f, Op.MINIMUM, t, arithmetic.binary(e.f, Op.MAXIMUM, t, low, value), high)


@elemental(Op.COMPLEX)
def _complex(e: Elemental, i: HloInstruction, x: Index) -> Element:
    re, im = (real(e.element(o, x)) for o in i.operands)
    return re, im


@elemental(Op.REAL)
def _real(e: Elemental, i: HloInstruction, x: Index) -> Element:
    value = e.element(i.operands[0], x)
    return value if isinstance(value, Value) else value[0]


@elemental(Op.IMAG)
def _imag(e: Elemental, i: HloInstruction, x: Index) -> Element:
    value = e.element(i.operands[0], x)
    return constant(e.f, array_of(i).element_type, 0) if isinstance(value, Value) else value[1]


@elemental(Op.REDUCE_PRECISION)
def _reduce_precision(e: Elemental, i: HloInstruction, x: Index) -> Element:
    value = real(e.element(i.operands[0], x))
    t = array_of(i).element_type
    return arithmetic.reduce_precision(e.f, t, i.get("exponent_bits"), i.get("mantissa_bits"), value)


@elemental(Op.STOCHASTIC_CONVERT)
def _stochastic_convert(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """Round towards zero, or away from it if the random number is below the discarded fraction."""
    source, random = i.operands
    t, r, to = array_of(source).element_type, array_of(random).element_type, array_of(i).element_type
    if not to.is_integral or not r.is_unsigned:
        raise UnimplementedError(f"stochastic-convert from {t} to {to} is not implemented")
    f = e.f
    value = real(e.element(source, x))
    size = abs(value)
    whole = f.intrinsic("trunc", size)
    cut = arithmetic.convert(f, T.F64 if value.type.bits == 64 else T.F32, r, (size - whole) * 2.0**r.bits)
    up = real(e.element(random, x)).ult(real(cut))
    made = up.select(whole + 1.0, whole).with_sign_of(value)
    return arithmetic.convert(f, t, to, rounded(f, t, made))


@elemental(Op.MAP)
def _map(e: Elemental, i: HloInstruction, x: Index) -> Element:
    return e.apply(i.to_apply, [e.element(o, x) for o in i.operands])[0]


@elemental(Op.CONDITIONAL)
def _conditional(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """A branch per computation; only the selected one executes."""
    if i.shape.is_tuple:
        raise UnimplementedError("a conditional with a tuple result inside a kernel is not supported")
    computations = i.called_computations
    t = array_of(i.operands[0]).element_type
    chosen = real(e.scalar(i.operands[0]))
    to = array_of(i).element_type

    def way(k: int) -> Element:
        return e.within(computations[k], [i.operands[1 + k]]).element(computations[k].root, x)

    def pick(k: int) -> Element:
        if k == len(computations) - 1:
            return way(k)
        is_this = chosen if t is T.PRED else chosen.equals(k)
        return e.branch(to, is_this, lambda: way(k), lambda: pick(k + 1))

    return pick(0)
