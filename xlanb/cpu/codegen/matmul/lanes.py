"""Vectors of elements: what a micro-kernel loads, converts, multiplies and stores.

Everything is computed in the type that is summed in; narrower operands are widened when they are loaded. A vector may be only partly there (`lanes` below the width, or
a mask that `first` made of a number): masked loads and stores touch no byte beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.types import memory, register
from xlanb.cpu.target import Target
from xlanb.shape import PrimitiveType

T = PrimitiveType
_FLOATS = (T.F32, T.F64)
_INTEGERS = (T.S8, T.U8, T.S16, T.U16, T.S32, T.U32, T.S64, T.U64)
_WIDENED = {T.BF16: T.F32, T.F16: T.F32, T.F32: T.F64}


def can_sum(t: PrimitiveType) -> bool:
    """Whether vectors of the type can be multiplied and added here."""
    return t in _FLOATS or t in _INTEGERS


def can_load(t: PrimitiveType, to: PrimitiveType) -> bool:
    """Whether elements of type t can be loaded as vectors of a type that is summed in."""
    if t is to:
        return can_sum(t)
    if to.is_integral:
        return t in _INTEGERS and to in _INTEGERS and t.bits <= to.bits
    return t in (T.BF16, T.F16, T.F32) and to.is_floating and t.bits < to.bits


def can_store(t: PrimitiveType, to: PrimitiveType) -> bool:
    """Whether vectors of a type that is summed in can be stored as type `to`."""
    return to is t or (t is T.F32 and to in (T.BF16, T.F16))


class Lanes:
    """Emits vectors of type `t`, `width` elements each, into a function."""

    def __init__(self, f: Function, t: PrimitiveType, width: int) -> None:
        self.f = f
        self.t = t
        self.width = width
        self.kind = f"<{width} x {register(t)}>"

    def zero(self) -> str:
        """A vector of zeros."""
        return "zeroinitializer"

    def first(self, lanes: str) -> str:
        """The mask of the first `lanes` (an i64) lanes."""
        f, kind = self.f, f"<{self.width} x i64>"
        one = f.let(f"insertelement {kind} poison, i64 {lanes}, i64 0")
        many = f.let(f"shufflevector {kind} {one}, {kind} poison, <{self.width} x i32> zeroinitializer")
        return f.let(f"icmp ult {kind} <{', '.join(f'i64 {k}' for k in range(self.width))}>, {many}")

    def load(self, t: PrimitiveType, pointer: str, offset: Ix, lanes: int | str) -> str:
        """`lanes` elements of type t from `offset` on, widened; what is not there is zero."""
        f, kind = self.f, f"<{self.width} x {memory(t)}>"
        at = address(f, t, pointer, offset)
        size = t.byte_size
        if lanes == self.width:
            raw = f.let(f"load {kind}, ptr {at}, align {size}")
        elif isinstance(lanes, str):
            raw = self._masked_load(t, kind, at, lanes)
        else:
            name = f"llvm.masked.load.v{self.width}{_mangled(t)}.p0"
            f.module.declare(kind, name, f"ptr, i32, <{self.width} x i1>, {kind}")
            raw = f.let(
                f"call {kind} @{name}(ptr {at}, i32 {size}, {self._mask(lanes)}, {kind} zeroinitializer)",
            )
        return self._widened(t, raw, kind)

    def _masked_load(self, t: PrimitiveType, kind: str, at: str, mask: str) -> str:
        """The elements that a mask names: those of 16 bits as integers, which machines have masks for."""
        f, bits = self.f, f"<{self.width} x i{t.bits}>"
        name = f"llvm.masked.load.v{self.width}i{t.bits}.p0"
        f.module.declare(bits, name, f"ptr, i32, <{self.width} x i1>, {bits}")
        given = f"ptr {at}, i32 {t.byte_size}, <{self.width} x i1> {mask}, {bits} zeroinitializer"
        raw = f.let(f"call {bits} @{name}({given})")
        return raw if bits == kind else f.let(f"bitcast {bits} {raw} to {kind}")

    def _masked_store(self, to: PrimitiveType, kind: str, raw: str, at: str, mask: str) -> None:
        f, bits = self.f, f"<{self.width} x i{to.bits}>"
        if bits != kind:
            raw = f.let(f"bitcast {kind} {raw} to {bits}")
        name = f"llvm.masked.store.v{self.width}i{to.bits}.p0"
        f.module.declare("void", name, f"{bits}, ptr, i32, <{self.width} x i1>")
        f.do(f"call void @{name}({bits} {raw}, ptr {at}, i32 {to.byte_size}, <{self.width} x i1> {mask})")

    def _mask(self, lanes: int) -> str:
        bits = ", ".join(f"i1 {'true' if k < lanes else 'false'}" for k in range(self.width))
        return f"<{self.width} x i1> <{bits}>"

    def _widened(self, t: PrimitiveType, raw: str, kind: str) -> str:
        f = self.f
        if t is self.t or (t.is_integral and t.bits == self.t.bits):
            return raw
        if t is T.BF16:
            wide = f.let(f"zext {kind} {raw} to <{self.width} x i32>")
            shift = ", ".join(["i32 16"] * self.width)
            high = f.let(f"shl <{self.width} x i32> {wide}, <{shift}>")
            single = f"<{self.width} x float>"
            raw, kind = f.let(f"bitcast <{self.width} x i32> {high} to {single}"), single
            return raw if self.t is T.F32 else f.let(f"fpext {kind} {raw} to {self.kind}")
        if t.is_floating:
            return f.let(f"fpext {kind} {raw} to {self.kind}")
        return f.let(f"{'sext' if t.is_signed else 'zext'} {kind} {raw} to {self.kind}")

    def broadcast(self, t: PrimitiveType, pointer: str, offset: Ix) -> str:
        """One element of type t, widened, in all lanes."""
        f, kind = self.f, memory(t)
        raw = f.let(f"load {kind}, ptr {address(f, t, pointer, offset)}, align {t.byte_size}")
        one = Lanes(f, self.t, 1)
        return self.splat(one._single(t, raw))

    def _single(self, t: PrimitiveType, raw: str) -> str:
        """A loaded element as a value of `self.t`."""
        f, to = self.f, register(self.t)
        if t is self.t or (t.is_integral and t.bits == self.t.bits):
            return raw
        if t is T.BF16:
            high = f.let(f"shl i32 {f.let(f'zext i16 {raw} to i32')}, 16")
            single = f.let(f"bitcast i32 {high} to float")
            return single if self.t is T.F32 else f.let(f"fpext float {single} to {to}")
        if t.is_floating:
            return f.let(f"fpext {memory(t)} {raw} to {to}")
        return f.let(f"{'sext' if t.is_signed else 'zext'} {memory(t)} {raw} to {to}")

    def splat(self, value: str) -> str:
        """A scalar in all lanes."""
        f = self.f
        first = f.let(f"insertelement {self.kind} poison, {register(self.t)} {value}, i64 0")
        return f.let(f"shufflevector {self.kind} {first}, {self.kind} poison, <{self.width} x i32> zeroinitializer")

    def multiply_add(self, total: str, a: str, b: str) -> str:
        """total + a * b, fused where the machine can."""
        f = self.f
        if self.t.is_floating:
            name = f"llvm.fmuladd.v{self.width}{_mangled(self.t)}"
            return f.call(self.kind, name, (self.kind, a), (self.kind, b), (self.kind, total))
        return f.let(f"add {self.kind} {total}, {f.let(f'mul {self.kind} {a}, {b}')}")

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self.f.let(f"{'fadd' if self.t.is_floating else 'add'} {self.kind} {a}, {b}")

    def exchanged(self, value: str) -> str:
        """Neighbours of a vector in one another's places."""
        picks = ", ".join(f"i32 {k ^ 1}" for k in range(self.width))
        return self.f.let(f"shufflevector {self.kind} {value}, {self.kind} poison, <{self.width} x i32> <{picks}>")

    def times(self, value: str, pair: tuple[float, float]) -> str:
        """A vector of floats by two constants in turn."""
        kind = register(self.t)
        factors = ", ".join(f"{kind} {pair[k % 2]}" for k in range(self.width))
        return self.f.let(f"fmul {self.kind} {value}, <{factors}>")

    def store(self, to: PrimitiveType, pointer: str, offset: Ix, value: str, lanes: int | str) -> None:
        """`lanes` elements as type `to` from `offset` on."""
        f, kind = self.f, f"<{self.width} x {memory(to)}>"
        raw = self._narrowed(to, value, kind)
        at = address(f, to, pointer, offset)
        if lanes == self.width:
            f.do(f"store {kind} {raw}, ptr {at}, align {to.byte_size}")
            return
        if isinstance(lanes, str):
            self._masked_store(to, kind, raw, at, lanes)
            return
        if lanes == 1:  # LLVM 22 writes twice the bytes for a narrowed vector of which one lane is stored
            f.do(f"store {memory(to)} {f.let(f'extractelement {kind} {raw}, i64 0')}, ptr {at}, align {to.byte_size}")
            return
        name = f"llvm.masked.store.v{self.width}{_mangled(to)}.p0"
        f.module.declare("void", name, f"{kind}, ptr, i32, <{self.width} x i1>")
        f.do(f"call void @{name}({kind} {raw}, ptr {at}, i32 {to.byte_size}, {self._mask(lanes)})")

    def _narrowed(self, to: PrimitiveType, value: str, kind: str) -> str:
        f = self.f
        if to is T.F16 and self.t is not T.F16:
            return f.let(f"fptrunc {self.kind} {value} to {kind}")
        if to is T.BF16:
            return self._bf16(value, kind)
        return value

    def _bf16(self, value: str, kind: str) -> str:
        """Rounded to nearest, ties to even; a NaN stays one."""
        f, wide = self.f, f"<{self.width} x i32>"

        def all_lanes(n: int) -> str:
            return f"<{', '.join([f'i32 {n}'] * self.width)}>"

        bits = f.let(f"bitcast {self.kind} {value} to {wide}")
        high = f.let(f"lshr {wide} {bits}, {all_lanes(16)}")
        odd = f.let(f"and {wide} {high}, {all_lanes(1)}")
        biased = f.let(f"add {wide} {f.let(f'add {wide} {bits}, {all_lanes(32767)}')}, {odd}")
        near = f.let(f"lshr {wide} {biased}, {all_lanes(16)}")
        quiet = f.let(f"or {wide} {high}, {all_lanes(64)}")
        is_nan = f.let(f"fcmp uno {self.kind} {value}, zeroinitializer")
        chosen = f.let(f"select <{self.width} x i1> {is_nan}, {wide} {quiet}, {wide} {near}")
        return f.let(f"trunc {wide} {chosen} to {kind}")


def lanes_of(target: Target, bits: int) -> int:
    """Elements of the vectors that kernels work with."""
    return min(max(target.vector_bits // bits, 1), 16)


def has_masks(target: Target) -> bool:
    """Whether loads and stores of some lanes are instructions, for elements of any size and lanes that only the run tells; other machines take lanes apart."""
    return target.vector_bits == 512


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array begins: a pointer that every function of the kernel knows, and elements from it on."""

    pointer: str
    first: int = 0

    def at(self, f: Function, t: PrimitiveType, offset: Ix) -> str:
        """The address of element `offset`."""
        return address(f, t, self.pointer, f.add(self.first, offset))


def address(f: Function, t: PrimitiveType, pointer: str, offset: Ix) -> str:
    """The address of element `offset`."""
    return pointer if offset == 0 else f.let(f"getelementptr inbounds {memory(t)}, ptr {pointer}, i64 {offset}")


def _mangled(t: PrimitiveType) -> str:
    """The suffix by which intrinsics name the element type."""
    return {"float": "f32", "double": "f64", "half": "f16"}.get(memory(t), memory(t))
