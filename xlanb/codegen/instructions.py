"""Instructions with values: arithmetic, conversions, calls, and the lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xlanb.codegen import polling
from xlanb.codegen.lanes import LaneIndex, by_registers, materialize, truncated
from xlanb.codegen.types import I1, VOID, Type, integer
from xlanb.codegen.values import Ix, Number, Value, Vector

if TYPE_CHECKING:
    from xlanb.codegen.function import Function

_PLAIN = (Value, Vector)

# -- arithmetic ------------------------------------------------------------------------------------


def alike(f: Function, *operands: Value | Number) -> list[Value]:
    """Convert operands to one type: numbers to constants, lane indices to vectors.

    Scalars are broadcast if there is a vector.
    """
    given: list[Any] = list(operands)
    kind, known = type(given[0]), getattr(given[0], "type", None)
    if kind in _PLAIN:
        for v in given:
            if type(v) is not kind or v.type is not known:
                break
        else:  # by far the most common case
            return given
    given = [materialize(v) if isinstance(v, LaneIndex) else v for v in given]
    types = [v.type for v in given if isinstance(v, Value)]
    goal = next((t for t in types if t.lanes), types[0])
    return [as_type(f, goal, v) for v in given]


def as_type(f: Function, type_: Type, operand: Value | Number) -> Value:
    """A number as a constant of a type; a scalar broadcast to the type's lanes."""
    if not isinstance(operand, Value):
        return f.const(type_, operand)
    return operand if operand.type.lanes == type_.lanes else splat(f, operand, type_.lanes)


def binary(f: Function, opcode: str, a: Value | Number, b: Value | Number, flags: str = "") -> Value:
    """Emit LLVM's instruction of two operands of one type."""
    x, y = alike(f, a, b)
    flags = flags or (f.fast if opcode[0] == "f" else "")
    return f.pure(x.type, f"{opcode} {flags + ' ' if flags else ''}{x.type.text} {x.text}, {y.text}", x, y)


def unary(f: Function, opcode: str, a: Value) -> Value:
    """Emit LLVM's instruction of one operand: fneg, freeze."""
    (x,) = alike(f, a)
    return f.pure(x.type, f"{opcode} {x.type.text} {x.text}", x)


def compare(f: Function, opcode: str, condition: str, a: Value | Number, b: Value | Number) -> Value:
    """Emit an icmp or fcmp."""
    x, y = alike(f, a, b)
    return f.pure(x.type.of(I1), f"{opcode} {condition} {x.type.text} {x.text}, {y.text}", x, y)


def select(f: Function, condition: Value, then: Value | Number, otherwise: Value | Number) -> Value:
    """Select one of two values, lane by lane if the condition is a vector.

    A constant condition costs nothing.
    """
    if condition.number is not None and isinstance(then, Value) and isinstance(otherwise, Value):
        return then if condition.number else otherwise
    a, b = alike(f, then, otherwise)
    if isinstance(condition, Vector) and not a.type.lanes:
        a, b = (as_type(f, a.type.times(condition.lanes), v) for v in (a, b))
    elif a.type.lanes and not condition.type.lanes and b.number == 0 and a.type.is_integer and a.type.bits > 1:
        # All lanes or none: one mask is cheaper than a select in each iteration.
        return a & condition.sext(a.type.scalar)
    return f.pure(a.type, f"select {condition!r}, {a!r}, {b!r}", condition, a, b)


def cast(f: Function, opcode: str, a: Value, to: Type) -> Value:
    """Convert each lane."""
    if opcode == "trunc" and isinstance(a, LaneIndex):
        return truncated(a, to)
    (x,) = alike(f, a)
    goal = to if opcode == "bitcast" and to.lanes else x.type.of(to)
    if goal is x.type:
        return x
    return f.pure(goal, f"{opcode} {x!r} to {goal.text}", x)


def intrinsic(
    f: Function, name: str, *operands: Value | Number, flags: str = "", immediate: bool | None = None
) -> Value:
    """Emit an LLVM intrinsic over operands of one type; an immediate i1, if any, comes last."""
    given = alike(f, *operands)
    type_ = given[0].type
    if immediate is not None:
        given.append(f.const(I1, immediate))
    flags = flags or (f.fast if type_.is_float else "")
    return call_as(f, type_, f"llvm.{name}.{type_.mangled}", *given, flags=flags)


def call_as(f: Function, result: Type, name: str, *arguments: Value, flags: str = "") -> Value:
    """Emit a call without side effects, verbatim: an intrinsic with operands of several types."""
    _declare(f, result, name, arguments)
    given = ", ".join(map(repr, arguments))
    return f.pure(result, f"call {flags}{' ' if flags else ''}{result.text} @{name}({given})", *arguments)


def _declare(f: Function, result: Type, name: str, arguments: Sequence[Value]) -> None:
    f.symbols.add(name)
    if name not in f.module.declarations:
        f.module.declare(result.text, name, ", ".join(a.type.text for a in arguments))


def both(f: Function, a: Value, b: Value) -> Value:
    """i1: logical and, constant-folded."""
    if a.number is not None:
        return b if a.number else a
    if b.number is not None:
        return a if b.number else b
    return a & b


# -- calls -----------------------------------------------------------------------------------------


def call(f: Function, result: Type, name: str, *arguments: Value, flags: str = "", attributes: str = "") -> Value:
    """Emit a call of a function by name and declare it; the value is unusable if void."""
    _declare(f, result, name, arguments)
    given = ", ".join(map(repr, arguments))
    text = f"call {flags}{' ' if flags else ''}{result.text} @{name}({given}){' ' if attributes else ''}{attributes}"
    if result is VOID:
        f.write(text)
        return f.poison(VOID)
    return f.let(result, text)


def call_own(f: Function, name: str, *arguments: Value) -> None:
    """Emit a call of a function of this module (see routines.py)."""
    f.write(f"call void {f.symbol(name).text}({', '.join(repr(a) for a in arguments)})")
    has_called(f)


def call_pointer(f: Function, callee: Value, *arguments: Value) -> None:
    """Emit a call of the function at an address."""
    f.write(f"call void {callee.text}({', '.join(repr(a) for a in arguments)})")
    has_called(f)


def has_called(f: Function) -> None:
    """Mark that the last instruction calls code that polls.

    On a stop request it returns early, and its result must not be used: a poll must follow.
    """
    f.regions[-1].work += polling.CALL
    f.regions[-1].called = f.target.polls and not f.goes_on


def poll_after_call(f: Function) -> None:
    """Poll after a call that may have returned early."""
    f.regions[-1].called = False
    polling.write(f)


# -- lanes -----------------------------------------------------------------------------------------


def splat(f: Function, value: Value, count: int) -> Value:
    """A vector with a scalar in each lane; hoisted to where the scalar is defined.

    An index that differs between lanes is such a vector already, not written yet.
    """
    if isinstance(value, LaneIndex):
        return materialize(value)
    if value.number is not None:
        return f.const(value.type.times(count), value.number)
    type_ = value.type.times(count)

    def repeat() -> Value:
        one = f.let(type_, f"insertelement {type_.text} poison, {value!r}, i64 0")
        return f.let(type_, f"shufflevector {one!r}, {type_.text} poison, <{count} x i32> zeroinitializer")

    return f.once(("splat", value.text, count), (value,), repeat)


def shuffle(f: Function, a: Value, b: Value | None, which: Sequence[int]) -> Value:
    """Shuffle the lanes of one or two vectors of one type; negative indices are poison.

    LLVM 22 does not end for shuffles that repeat bytes which are doubled before or after: it takes
    the sum out of the shuffle, and back. What it does not know the origin of, it does not take.
    """
    if b is a:
        which, b = [k % a.type.lanes if k >= 0 else k for k in which], None
    if a.type.bits == 8 and len(which) >= _BYTES and f.target.vector_bits == 8 * _BYTES and _repeats(tuple(which)):
        a, b = _opaque(f, a), b if b is None else _opaque(f, b)
        return _opaque(f, _shuffled(f, a, b, which))
    return _shuffled(f, a, b, which)


def _shuffled(f: Function, a: Value, b: Value | None, which: Sequence[int]) -> Value:
    other = f"{b!r}" if b is not None else f"{a.type.text} poison"
    return f.let(a.type.times(len(which)), f"shufflevector {a!r}, {other}, {_order_text(tuple(which))}")


_BYTES = 64
"""Bytes of a register of AVX-512."""


def _opaque(f: Function, a: Value) -> Value:
    """A vector of bytes whose origin LLVM does not know, register by register."""
    if a.type.lanes < _BYTES // 4:  # no register: too short for bytes to be doubled in it
        return a
    (made,) = by_registers(
        f, lambda given: [f.let(v.type, f'call {v.type.text} asm "", "=v,0"({v!r})') for v in given], a
    )
    return made


@lru_cache(maxsize=1024)
def _repeats(which: tuple[int, ...]) -> bool:
    """Whether a shuffle has an element several times, though not one alone."""
    used = [k for k in which if k >= 0]
    return 1 < len(set(used)) < len(used)


@lru_cache(maxsize=1024)
def _order_text(which: tuple[int, ...]) -> str:
    """A shuffle's third operand."""
    order = ", ".join(["i32 poison" if k < 0 else f"i32 {k}" for k in which])
    return f"<{len(which)} x i32> <{order}>"


def extract(f: Function, a: Value, lane: Ix) -> Value:
    """Extract one element of a vector."""
    return f.let(a.type.scalar, f"extractelement {a!r}, {f.value(lane)!r}")


def insert(f: Function, a: Value, element: Value, lane: Ix) -> Value:
    """Insert an element into a vector."""
    return f.let(a.type, f"insertelement {a!r}, {element!r}, {f.value(lane)!r}")


def apart(f: Function, a: Value) -> tuple[Value, Value]:
    """The even and the odd elements of a vector; scalars if it has two."""
    if a.type.lanes == 2:
        return extract(f, a, 0), extract(f, a, 1)
    n = a.type.lanes
    return shuffle(f, a, None, range(0, n, 2)), shuffle(f, a, None, range(1, n, 2))


def joined(f: Function, a: Value, b: Value) -> Value:
    """A vector of two scalars."""
    return insert(f, insert(f, f.poison(a.type.times(2)), a, 0), b, 1)


def any_of(f: Function, bits: Value) -> Value:
    """i1: whether any element of a vector of i1 is true; an i1 itself."""
    if not bits.type.lanes:
        return bits
    whole = integer(bits.type.lanes)
    return f.let(whole, f"bitcast {bits!r} to {whole.text}").differs(0)


def reduce(f: Function, how: str, a: Value, flags: str = "") -> Value:
    """`llvm.vector.reduce.<how>` of a vector."""
    start = {"fadd": -0.0, "fmul": 1.0}.get(how)
    first = [] if start is None else [f.const(a.type.scalar, start)]
    return call_as(f, a.type.scalar, f"llvm.vector.reduce.{how}.{a.type.mangled}", *first, a, flags=flags)
