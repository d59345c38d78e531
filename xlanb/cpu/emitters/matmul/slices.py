"""The slices of depth of a large product, and routines over panels that threads share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlanb.codegen.function import PARALLEL, Function, Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import chunks, is_shared, note
from xlanb.codegen.places import displaced
from xlanb.codegen.types import I8, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.blocks import Blocks
from xlanb.shape import PrimitiveType


class Slices:
    """The slices of depth of a product: where they begin, and where their sums are stored."""

    def __init__(self, f: Function, blocks: Blocks, places: tuple[Value, Value, Value], scratch: Value) -> None:
        self.f, self.blocks, self.scratch = f, blocks, scratch
        x = blocks.x
        self.a, self.b, self.c = places
        keeps = blocks.keeps_sums
        self.sums = Pointer(scratch, I8).address(sum(blocks.bytes[:2])) if keeps else self.c
        self.sum_type, self.sum_row = (x.type, x.column_count) if keeps else (x.c_type, x.rows[0].c)

    def each(self, emit: Callable[[Ix, int], None]) -> None:
        """Emit all slices: `emit` gets the number of one and its depth."""
        blocks, depth = self.blocks, self.blocks.x.depth[0].size
        emit(0, min(blocks.depth, depth))
        if blocks.count > 2:
            with self.f.loop(blocks.count - 1, 1) as n:
                emit(n, blocks.depth)
        if blocks.count > 1:
            emit(blocks.count - 1, depth - (blocks.count - 1) * blocks.depth)

    def operands(self, n: Ix) -> tuple[Value, Value]:
        """The addresses of slice n in a and b."""
        f, x, depth = self.f, self.blocks.x, self.blocks.x.depth[0]
        a, b = (
            displaced(source, f.value(f.mul(n, self.blocks.depth * step * t.byte_size)))
            for source, step, t in ((self.a, depth.a, x.a_type), (self.b, depth.b, x.b_type))
        )
        return a, b

    def result(self, n: Ix) -> tuple[PrimitiveType, Value, int]:
        """What slice n stores: the type, the address, and elements between rows."""
        x = self.blocks.x
        is_last = isinstance(n, int) and n == self.blocks.count - 1
        return (x.c_type, self.c, x.rows[0].c) if is_last else (self.sum_type, self.sums, self.sum_row)


def filled(f: Function, context: Value, names: Sequence[str], words: Mapping[str, Value | int]) -> Value:
    """A context filled with these words."""
    for k, name in enumerate(names):
        set_word(f, context, k, words[name])
    return context


def share(f: Function, name: str, context: Value, count: int, nanoseconds: float) -> None:
    """Run a routine over 0..count; threads share it if that pays."""
    shared, zero = is_shared(f, count, nanoseconds), f.zero(I64)
    note(f, count, nanoseconds, shared=shared)
    if not shared:
        f.call_own(name, context, zero, f.value(count), zero)
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    parts = f.value(chunks(f, count, nanoseconds))
    f.call_own(PARALLEL, f.symbol(name), context, f.value(count), parts, f.value(f.target.threads))


def set_word(f: Function, context: Value, k: int, word: Value | int) -> None:
    """Set word `k` of a context."""
    f.store(f.value(word), displaced(context, 8 * k), 8)
