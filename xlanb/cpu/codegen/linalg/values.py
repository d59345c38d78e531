"""Numbers, vectors and pointers of an LLVM function as Python values: `a * b + c` writes the instructions. Loops and branches that carry values; columns of matrices in scratch.

A column in scratch begins at a cache line and is padded with zeros to whole vectors, so that code for columns has no remainder: `Code.column_bytes` says how many bytes it takes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.target import Target
from xlanb.shape import PrimitiveType

LINE = 64
"""Bytes of a cache line."""
LARGEST = 4096
"""Bytes of the longest column: the routines here go over a matrix again and again, and what is beyond the second cache is better done in blocks, as LAPACK does it."""
Number = float | int
Branch = Callable[[], "Sequence[Value] | None"]


@dataclass(frozen=True)
class Value:
    """A value of a function: of LLVM's type `kind`, under LLVM's `name`."""

    code: Code
    kind: str
    name: str

    @property
    def is_real(self) -> bool:
        """Whether it is a floating-point number, or a vector of them."""
        return self.kind.endswith(("float", "double", "float>", "double>"))

    def __add__(self, other: Value | Number) -> Value:
        return self.code.binary("fadd" if self.is_real else "add", self, other)

    def __sub__(self, other: Value | Number) -> Value:
        return self.code.binary("fsub" if self.is_real else "sub", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.code.constant(self.kind, other) - self

    def __mul__(self, other: Value | Number) -> Value:
        return self.code.binary("fmul" if self.is_real else "mul", self, other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.code.binary("fdiv", self, other)

    def __and__(self, other: Value | Number) -> Value:
        return self.code.binary("and", self, other)

    def __or__(self, other: Value | Number) -> Value:
        return self.code.binary("or", self, other)

    def __xor__(self, other: Value | Number) -> Value:
        return self.code.binary("xor", self, other)

    def __neg__(self) -> Value:
        if not self.is_real:
            return self.code.constant(self.kind, 0) - self
        return self.code.let(self.kind, f"fneg {self.kind} {self.name}")

    def __lt__(self, other: Value | Number) -> Value:
        return self._compared("olt", "slt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self._compared("ole", "sle", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self._compared("ogt", "sgt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self._compared("oge", "sge", other)

    def same(self, other: Value | Number) -> Value:
        """Whether both are equal."""
        return self._compared("oeq", "eq", other)

    def differs(self, other: Value | Number) -> Value:
        """Whether they are not equal, or not numbers."""
        return self._compared("une", "ne", other)

    def _compared(self, real: str, whole: str, other: Value | Number) -> Value:
        how = f"fcmp {real}" if self.is_real else f"icmp {whole}"
        kind = f"<{self.code.width} x i1>" if self.kind.startswith("<") else "i1"
        return self.code.let(kind, f"{how} {self.kind} {self.name}, {self.code.like(self, other).name}")

    def pick(self, then: Value | Number, otherwise: Value | Number) -> Value:
        """For an i1, or a vector of them: one of two values, lane for lane; plain numbers are of the type of the other one, or the code's."""
        given = next((x for x in (then, otherwise) if isinstance(x, Value)), self.code.real(0))
        a, b = self.code.like(given, then), self.code.like(given, otherwise)
        return self.code.let(a.kind, f"select {self.kind} {self.name}, {a.kind} {a.name}, {b.kind} {b.name}")

    def __abs__(self) -> Value:
        return self.code.intrinsic("fabs", self)

    def sqrt(self) -> Value:
        """The square root."""
        return self.code.intrinsic("sqrt", self)

    def with_sign_of(self, other: Value) -> Value:
        """Its magnitude with the other's sign."""
        return self.code.intrinsic("copysign", self, other)

    def largest(self, other: Value) -> Value:
        """The larger of two numbers; the one that is a number, where the other is none."""
        return self.code.intrinsic("maxnum" if self.is_real else "smax", self, other)

    def smallest(self, other: Value) -> Value:
        """The smaller of two numbers; the one that is a number, where the other is none."""
        return self.code.intrinsic("minnum" if self.is_real else "smin", self, other)

    def everywhere(self) -> Value:
        """A vector with the number in each lane."""
        c = self.code
        kind = f"<{c.width} x {self.kind}>"
        first = c.let(kind, f"insertelement {kind} poison, {self.kind} {self.name}, i64 0")
        return c.let(kind, f"shufflevector {kind} {first.name}, {kind} poison, <{c.width} x i32> zeroinitializer")

    def total(self) -> Value:
        """The sum of a vector's elements."""
        c = self.code
        return c.intrinsic("vector.reduce.fadd", c.real(-0.0), self, result=c.number, over=self.kind)

    def peak(self) -> Value:
        """The largest element of a vector."""
        c = self.code
        return c.intrinsic("vector.reduce.fmax", self, result=c.number, over=self.kind)


@dataclass(frozen=True)
class Place:
    """Numbers in memory from an address on: `p[i]` loads one, `p[i] = x` sets it."""

    code: Code
    name: str
    kind: str

    def __getitem__(self, index: Value | int) -> Value:
        return self.code.let(self.kind, f"load {self.kind}, ptr {self._at(index)}")

    def __setitem__(self, index: Value | int, value: Value | Number) -> None:
        made = value if isinstance(value, Value) else self.code.constant(self.kind, value)
        self.code.f.do(f"store {self.kind} {made.name}, ptr {self._at(index)}")

    def by(self, offset: Value | int) -> Place:
        """So many elements further."""
        return Place(self.code, self._at(offset), self.kind)

    def vector(self, index: Value | int, mask: Value | None = None) -> Value:
        """A vector from an element on, at any address; lanes that the mask leaves out are zero, and are not read."""
        c = self.code
        if mask is None:
            return c.let(c.vector, f"load {c.vector}, ptr {self._at(index)}, align {c.bytes}")
        c.f.module.declare(c.vector, f"llvm.masked.load.{c.overload}.p0", f"ptr, i32, {mask.kind}, {c.vector}")
        given = f"ptr {self._at(index)}, i32 {c.bytes}, {mask.kind} {mask.name}, {c.vector} zeroinitializer"
        return c.let(c.vector, f"call {c.vector} @llvm.masked.load.{c.overload}.p0({given})")

    def write(self, index: Value | int, value: Value, mask: Value | None = None) -> None:
        """Set a vector from an element on; lanes that the mask leaves out stay as they are."""
        c = self.code
        if mask is None:
            c.f.do(f"store {c.vector} {value.name}, ptr {self._at(index)}, align {c.bytes}")
            return
        c.f.module.declare("void", f"llvm.masked.store.{c.overload}.p0", f"{c.vector}, ptr, i32, {mask.kind}")
        given = f"{c.vector} {value.name}, ptr {self._at(index)}, i32 {c.bytes}, {mask.kind} {mask.name}"
        c.f.do(f"call void @llvm.masked.store.{c.overload}.p0({given})")

    def _at(self, index: Value | int) -> str:
        if isinstance(index, int) and index == 0:
            return self.name
        name = index.name if isinstance(index, Value) else str(index)
        return self.code.f.plain(f"getelementptr {self.kind}, ptr {self.name}, i64 {name}")


@dataclass
class Rounds:
    """A loop that is being written: its counter, what it carries, what that becomes, and whether there is another round."""

    index: Value
    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)
    again: Value = field(init=False)


@dataclass(frozen=True)
class Code:
    """What writes values into a function: numbers are of `type`, vectors of as many as a register holds."""

    f: Function
    type: PrimitiveType

    @property
    def number(self) -> str:
        """LLVM's type of a number."""
        return "float" if self.bytes == 4 else "double"

    @property
    def bytes(self) -> int:
        """Bytes of a number."""
        return self.type.byte_size

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return width(self.f.target, self.type)

    @property
    def vector(self) -> str:
        """LLVM's type of a vector of numbers."""
        return f"<{self.width} x {self.number}>"

    @property
    def overload(self) -> str:
        """The vector's type in an intrinsic's name."""
        return f"v{self.width}f{8 * self.bytes}"

    @property
    def epsilon(self) -> float:
        """Half of the distance from 1 to the next number (LAPACK's `eps`)."""
        return 2.0**-24 if self.bytes == 4 else 2.0**-53

    @property
    def tiny(self) -> float:
        """The smallest number that is not denormal."""
        return 2.0**-126 if self.bytes == 4 else 2.0**-1022

    # -- values -------------------------------------------------------------------------------------------------

    def let(self, kind: str, text: str) -> Value:
        """The value of an instruction."""
        return Value(self, kind, self.f.plain(text))

    def real(self, value: float) -> Value:
        """A number."""
        return self.constant(self.number, value)

    def whole(self, value: int) -> Value:
        """An i64."""
        return Value(self, "i64", str(value))

    def given(self, name: str, kind: str = "i64") -> Value:
        """A parameter of the function."""
        return Value(self, kind, f"%{name}")

    def place(self, name: str, kind: str = "") -> Place:
        """Numbers, or elements of another type, at a parameter of the function."""
        return Place(self, f"%{name}", kind or self.number)

    def constant(self, kind: str, value: Number) -> Value:
        """A constant; of a vector's type it stands in each lane."""
        if kind.startswith("<"):
            element = kind.split(" x ")[1][:-1]
            return Value(self, kind, f"splat ({element} {self._text(element, value)})")
        return Value(self, kind, self._text(kind, value))

    def _text(self, kind: str, value: Number) -> str:
        if kind == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        if kind in ("float", "double"):
            return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        return str(value)

    def like(self, a: Value, b: Value | Number) -> Value:
        """b as a value of a's type."""
        return b if isinstance(b, Value) else self.constant(a.kind, b)

    def binary(self, op: str, a: Value, b: Value | Number) -> Value:
        """An instruction of two operands; products may go into sums unrounded."""
        flags = " contract" if op in ("fadd", "fsub", "fmul") else ""
        return self.let(a.kind, f"{op}{flags} {a.kind} {a.name}, {self.like(a, b).name}")

    def intrinsic(self, name: str, *operands: Value, result: str = "", over: str = "") -> Value:
        """The value of one of LLVM's intrinsics, whose name ends in the type of its operands."""
        kind = over or operands[0].kind
        lanes = f"v{self.width}" if kind.startswith("<") else ""
        element = kind.split(" x ")[1][:-1] if lanes else kind
        suffix = {"float": "f32", "double": "f64"}.get(element, element)
        arguments = [(o.kind, o.name) for o in operands]
        flags = "reassoc" if name == "vector.reduce.fadd" else ""
        full = f"llvm.{name}.{lanes}{suffix}"
        return Value(self, result or kind, self.f.plain_call(result or kind, full, arguments, flags))

    def lanes(self) -> Value:
        """The numbers of the lanes, as a vector of integers as wide as a number."""
        i = f"i{8 * self.bytes}"
        return Value(self, f"<{self.width} x {i}>", "<" + ", ".join(f"{i} {k}" for k in range(self.width)) + ">")

    def lanes_from(self, first: Value, low: Value) -> Value:
        """The mask of the lanes of a vector that begins at element `first` that are element `low` or beyond."""
        return self.lanes() >= self._lane(low - first)

    def lanes_to(self, first: Value, high: Value) -> Value:
        """The mask of the lanes of a vector that begins at element `first` that stand before element `high`."""
        return self.lanes() < self._lane(high - first)

    def _lane(self, x: Value) -> Value:
        if self.bytes == 8:
            return x.everywhere()
        return self.let("i32", f"trunc i64 {x.name} to i32").everywhere()

    def down(self, x: Value) -> Value:
        """The last multiple of a vector's elements that is not above x."""
        return x & -self.width

    def up(self, x: Value) -> Value:
        """The first multiple of a vector's elements that is not below x."""
        return (x + (self.width - 1)) & -self.width

    # -- control flow -------------------------------------------------------------------------------------------

    @contextmanager
    def count(
        self, low: Value | int, high: Value | int, state: Sequence[Value] = (), *, step: int = 1
    ) -> Iterator[Rounds]:
        """A loop over low, low + step, ... below high that carries values: the body sets `next`; after it `values` are the results. It may run no round."""
        low, high = (x if isinstance(x, Value) else self.whole(x) for x in (low, high))
        with self._rounds((low, *state), low < high) as loop:
            inner = Rounds(loop.values[0], loop.values[1:])
            yield inner
            after = loop.values[0] + step
            loop.next, loop.again = [after, *inner.next], after < high
        inner.values = loop.values[1:]

    @contextmanager
    def repeat(self, *state: Value) -> Iterator[Rounds]:
        """A loop that carries values: the body sets `next` and `again`; one round at least. After it `values` are the results."""
        with self._rounds(state, None) as loop:
            yield loop

    @contextmanager
    def _rounds(self, state: Sequence[Value], guard: Value | None) -> Iterator[Rounds]:
        f = self.f
        head, exit_ = f.fresh("loop"), f.fresh("done")
        with f.region(head[1:], barrier=True) as body:
            loop = Rounds(self.whole(0), [Value(self, v.kind, f.fresh("c")) for v in state])
            carried = list(loop.values)
            yield loop
            latch = f.block
            f.branch_if(loop.again.name, head, exit_)
        before = f.block
        if guard is None:
            f.branch(head)
        else:
            f.branch_if(guard.name, head, exit_)
        f.begin(head)
        for phi, first, last in zip(carried, state, loop.next, strict=True):
            f.do(f"{phi.name} = phi {phi.kind} [ {first.name}, %{before} ], [ {last.name}, %{latch} ]")
        f.regions[-1].lines.extend(body.lines)
        f.begin(exit_)
        loop.values = list(loop.next)
        if guard is not None:
            loop.values = [
                self.let(a.kind, f"phi {a.kind} [ {a.name}, %{before} ], [ {b.name}, %{latch} ]")
                for a, b in zip(state, loop.next, strict=True)
            ]

    def choose(self, condition: Value, then: Branch, otherwise: Branch) -> list[Value]:
        """The values of one of two branches."""
        f = self.f
        labels, end = [f.fresh("then"), f.fresh("else")], f.fresh("endif")
        f.branch_if(condition.name, *labels)
        results, blocks = [], []
        for label, write in zip(labels, (then, otherwise), strict=True):
            f.begin(label)
            with f.aside():
                results.append(write() or [])
            blocks.append(f.block)
            f.branch(end)
        f.begin(end)
        return [
            self.let(a.kind, f"phi {a.kind} [ {a.name}, %{blocks[0]} ], [ {b.name}, %{blocks[1]} ]")
            for a, b in zip(*results, strict=True)
        ]

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What stands in the block happens only where the i1 holds."""
        with self.f.when(condition.name):
            yield


def width(target: Target, t: PrimitiveType) -> int:
    """Numbers of a type in a vector register."""
    return target.vector_bits // t.bits


def stride(rows: int, t: PrimitiveType) -> int:
    """Elements from one column of scratch to the next: whole cache lines, an odd number of them, so that columns do not meet in the same places of the first cache."""
    lines = -(-max(rows, 1) * t.byte_size // LINE)
    return (lines | 1) * LINE // t.byte_size
