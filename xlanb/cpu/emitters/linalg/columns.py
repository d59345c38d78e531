"""Columns of matrices in scratch memory, and the loops and masks of routines that work on them a vector of rows at a time.

A column in scratch begins at a cache line and is padded with zeros to whole vectors, so that loops over rows have no
remainder. Routines know no sizes: a process compiles them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xlanb.codegen.function import Function, Ix, Parameter, Rounds
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I64, PTR, Type, integer
from xlanb.codegen.values import Number, Value
from xlanb.cpu.emitters.linalg.routine import LINE, Call, number
from xlanb.shape import PrimitiveType


def parameters(pointers: str, numbers: str, *, attributes: str = "noalias") -> tuple[Parameter, ...]:
    """Parameters of a routine: pointers that do not alias, then i64s; names separated by spaces."""
    return (
        *(Parameter(PTR, name, attributes) for name in pointers.split()),
        *(Parameter(I64, name) for name in numbers.split()),
    )


def stride(rows: int, t: PrimitiveType) -> int:
    """Elements from one column in scratch to the next: an odd number of cache lines, so that columns do not compete for the same cache sets."""
    lines = -(-max(rows, 1) * t.byte_size // LINE)
    return (lines | 1) * LINE // t.byte_size


@dataclass
class Steps:
    """A loop that is being written: its counter, what it carries, and what that becomes."""

    index: Value
    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)


@dataclass(frozen=True)
class Numbers:
    """Elements of one type from an address on: `p[i]` loads one, `p[i] = x` sets it; vectors are as wide as a register."""

    pointer: Pointer
    width: int

    def __getitem__(self, index: Ix) -> Value:
        return self.pointer[index]

    def __setitem__(self, index: Ix, value: Value | Number) -> None:
        f, kind = self.pointer.base.function, self.pointer.element
        self.pointer[index] = value if isinstance(value, Value) else f.const(kind, value)

    def by(self, offset: Ix) -> Numbers:
        """So many elements further."""
        return Numbers(self.pointer.by(offset), self.width)

    def vector(self, index: Ix, mask: Value | None = None) -> Value:
        """A vector from an element on; lanes that the mask leaves out are zero, and are not read."""
        return self.pointer.load(index, self.width, Mask(self.width, None, mask) if mask is not None else None)

    def write(self, index: Ix, value: Value, mask: Value | None = None) -> None:
        """Set a vector from an element on; lanes that the mask leaves out stay as they are."""
        self.pointer.store(index, value, Mask(self.width, None, mask) if mask is not None else None)


class Columns:
    """Writes a routine on columns of numbers of a type; products may go into sums unrounded."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        f.fast = "contract"
        self.f = f
        self.kind = number(t)
        self.bytes = self.kind.bytes
        self.width = f.target.vector_bits // self.kind.bits
        self.zeros = f.zero(self.kind.times(self.width))
        self.epsilon = 2.0**-24 if self.bytes == 4 else 2.0**-53
        self.tiny = 2.0**-126 if self.bytes == 4 else 2.0**-1022

    # -- values -----------------------------------------------------------------------------------------------------

    def given(self, name: str) -> Value:
        """A parameter of type i64."""
        return Value(self.f, I64, f"%{name}")

    def place(self, name: str, kind: Type | None = None) -> Numbers:
        """Numbers, or elements of another type, at a parameter that is a pointer."""
        return self.at(Value(self.f, PTR, f"%{name}"), kind)

    def at(self, pointer: Value, kind: Type | None = None) -> Numbers:
        """Numbers, or elements of another type, at an address."""
        return Numbers(Pointer(pointer, kind or self.kind), self.width)

    def real(self, value: float) -> Value:
        """A constant number."""
        return self.f.const(self.kind, value)

    def whole(self, value: int) -> Value:
        """A constant i64."""
        return self.f.const(I64, value)

    def every(self, value: float) -> Value:
        """A constant vector with a number in each lane."""
        return self.f.const(self.kind.times(self.width), value)

    def total(self, vector: Value) -> Value:
        """The sum of a vector's elements, in any order."""
        return self.f.reduce("fadd", vector, "reassoc")

    def peak(self, vector: Value) -> Value:
        """The largest element of a vector."""
        return self.f.reduce("fmax", vector)

    def larger(self, a: Value, b: Value) -> Value:
        """The larger of two numbers; the one that is a number, where the other is NaN."""
        return self.f.intrinsic("maxnum", a, b)

    def smaller(self, a: Value, b: Value) -> Value:
        """The smaller of two numbers; the one that is a number, where the other is NaN."""
        return self.f.intrinsic("minnum", a, b)

    def lanes_from(self, first: Value, low: Value) -> Value:
        """The mask of the lanes, of a vector that begins at element `first`, that are element `low` or later."""
        return self._lanes() >= self._lane(low - first)

    def lanes_to(self, first: Value, high: Value) -> Value:
        """The mask of the lanes, of a vector that begins at element `first`, that are before element `high`."""
        return self._lanes() < self._lane(high - first)

    def _lanes(self) -> Value:
        return self.f.constants(integer(self.kind.bits), range(self.width))

    def _lane(self, x: Value) -> Value:
        kind = integer(self.kind.bits)
        return (x if kind is I64 else x.trunc(kind)).repeated(self.width)

    def down(self, x: Value) -> Value:
        """The last multiple of a vector's elements that is not above x."""
        return x & -self.width

    def up(self, x: Value) -> Value:
        """The first multiple of a vector's elements that is not below x."""
        return (x + (self.width - 1)) & -self.width

    # -- control flow -----------------------------------------------------------------------------------------------

    @contextmanager
    def count(self, low: Ix, high: Ix, state: Sequence[Value] = (), *, step: int = 1) -> Iterator[Steps]:
        """A loop over low, low + step, ... below high that carries values; it may execute zero times. After it `values` are the results."""
        first, last = self.f.value(low), self.f.value(high)
        with self.f.rounds((first, *state), first < last) as loop:
            inner = Steps(loop.values[0], loop.values[1:])
            yield inner
            after = loop.values[0] + step
            loop.next, loop.again = [after, *inner.next], after < last
        inner.values = loop.values[1:]

    @contextmanager
    def repeat(self, *state: Value) -> Iterator[Rounds]:
        """A loop that carries values: the body sets `next` and `again`; it executes once at least."""
        with self.f.rounds(state) as loop:
            yield loop

    def choose(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | None],
        otherwise: Callable[[], Sequence[Value] | None],
    ) -> list[Value]:
        """The values of one of two branches, if they have any."""
        return self.f.choose(condition, lambda: then() or (), lambda: otherwise() or ())


Write = Callable[[Columns], None]


def step(call: Call, name: str, write: Write, given: Sequence[Parameter], *arguments: Ix) -> None:
    """Call a routine on columns, which all programs share; `write` writes its body."""
    call.routine(name, lambda f: write(Columns(f, call.type)), given, *arguments)


@dataclass(frozen=True)
class Room:
    """Scratch memory for matrices of so many rows and columns, one after the other, each from a cache line on."""

    type: PrimitiveType
    sizes: tuple[tuple[int, int], ...]

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(self._each())

    def addresses(self, call: Call) -> list[Value]:
        """Where each of them lies."""
        made, at = [], 0
        for size in self._each():
            made.append(call.room(at))
            at += size
        return made

    def _each(self) -> list[int]:
        size = self.type.byte_size
        return [-(-stride(rows, self.type) * columns * size // LINE) * LINE for rows, columns in self.sizes]
