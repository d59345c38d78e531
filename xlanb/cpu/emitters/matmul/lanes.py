"""Vectors of elements: what a micro-kernel loads, converts, multiplies and stores.

All arithmetic is in the accumulation type; narrower operands are widened when loaded. A vector may
be partial: masked loads and stores touch no byte outside.
"""

from __future__ import annotations

from xlanb.codegen.elements import array, from_memory, memory, register, to_memory
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import CodegenTarget
from xlanb.codegen.types import DOUBLE, I32, Type, integer
from xlanb.codegen.values import Value
from xlanb.shape import PrimitiveType

T = PrimitiveType
_FLOATS = (T.F32, T.F64)
_INTEGERS = (T.S8, T.U8, T.S16, T.U16, T.S32, T.U32, T.S64, T.U64)


def can_sum(t: PrimitiveType) -> bool:
    """Whether vectors of the type can be multiplied and added here."""
    return t in _FLOATS or t in _INTEGERS


def can_load(t: PrimitiveType, to: PrimitiveType) -> bool:
    """Whether elements of type t can be loaded as vectors of accumulation type `to`."""
    if t is to:
        return can_sum(t)
    if to.is_integral:
        return t in _INTEGERS and to in _INTEGERS and t.bits <= to.bits
    return t in (T.BF16, T.F16, T.F32) and to.is_floating and t.bits < to.bits


def can_store(t: PrimitiveType, to: PrimitiveType) -> bool:
    """Whether vectors of an accumulation type can be stored as type `to`."""
    return to is t or (t is T.F32 and to in (T.BF16, T.F16))


class Lanes:
    """Emits operations on vectors of type `t`, `width` elements each."""

    def __init__(self, f: Function, t: PrimitiveType, width: int) -> None:
        if not can_sum(t):
            raise AssertionError(f"vectors of {t} are held in a wider type")
        self.f = f
        self.t = t
        self.width = width
        self.kind = register(t).times(width)

    def some(self, lanes: int) -> Mask | None:
        """A mask of the first lanes of a vector; None for all."""
        return None if lanes == self.width else Mask(self.width, lanes)

    def load(self, t: PrimitiveType, pointer: Value, offset: Ix, mask: Mask | None = None) -> Value:
        """Load elements of type t from `offset` on, widened; masked lanes are zero."""
        kind = memory(t)
        held = self._held(t, mask)
        raw = Pointer(pointer, held).load(offset, self.width, mask)
        return self._converted(t, raw if held is kind else raw.bits_as(kind.times(self.width)))

    def _held(self, t: PrimitiveType, mask: Mask | None) -> Type:
        """The elements' type in memory.

        16-bit elements under a run-time mask are integers, for which machines have masked
        instructions.
        """
        return integer(t.bits) if mask is not None and mask.count is None else memory(t)

    def _converted(self, t: PrimitiveType, raw: Value) -> Value:
        """Convert loaded elements to `self.t`."""
        if t is self.t or (t.is_integral and t.bits == self.t.bits):
            return raw
        if t.is_floating:
            value = from_memory(self.f, t, raw)
            return value.cast("fpext", DOUBLE) if self.t is T.F64 else value
        return raw.cast("sext" if t.is_signed else "zext", register(self.t))

    def broadcast(self, t: PrimitiveType, pointer: Value, offset: Ix) -> Value:
        """Load one element of type t, widened and broadcast to all lanes."""
        return self.f.splat(self._converted(t, array(t, pointer)[offset]), self.width)

    def together(self, even: Value, odd: Value) -> Value:
        """Combine widened elements of at most 16 bits as halves of a lane; floats become bf16."""
        if not self.t.is_floating:
            return (even & 65535) | (odd << 16)
        wide = I32.times(self.width)  # a bf16 is the high half of its f32
        return (even.bits_as(wide).lshr(16) | odd.bits_as(wide)).bits_as(self.kind)

    def exchanged(self, value: Value) -> Value:
        """Swap neighbouring lanes."""
        return self.f.shuffle(value, None, [k ^ 1 for k in range(self.width)])

    def times(self, value: Value, pair: tuple[float, float]) -> Value:
        """Multiply a vector of floats by two alternating constants."""
        return value * self.f.constants(self.kind.scalar, [pair[k % 2] for k in range(self.width)])

    def sum(self, value: Value) -> Value:
        """The sum of a vector's lanes, in any order."""
        if self.width == 1:
            return self.f.extract(value, 0)
        return self.f.reduce("fadd", value, "reassoc") if self.t.is_floating else self.f.reduce("add", value)

    def store(self, to: PrimitiveType, pointer: Value, offset: Ix, value: Value, mask: Mask | None = None) -> None:
        """Store elements as type `to` from `offset` on."""
        raw = value if to is self.t else to_memory(self.f, to, value)
        held = self._held(to, mask)
        if held is not memory(to):
            raw = raw.bits_as(held.times(self.width))
        Pointer(pointer, held).store(offset, raw, mask)


def lanes_of(target: CodegenTarget, bits: int) -> int:
    """Elements per vector in kernels."""
    return min(max(target.vector_bits // bits, 1), 16)


def has_masks(target: CodegenTarget) -> bool:
    """Whether masked loads and stores are instructions, for any element size and run-time masks.

    Other machines handle masked lanes one at a time.
    """
    return target.vector_bits == 512
