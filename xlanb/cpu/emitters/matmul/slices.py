"""The slices of depth of a large product, and how they are packed and divided into blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.places import displaced
from xlanb.codegen.types import I8, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.blocks import Blocks
from xlanb.cpu.emitters.matmul.grid import share
from xlanb.cpu.emitters.matmul.packing import WORDS, Packing, packing_routine
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


def pack(
    f: Function, p: Packing, places: tuple[Value, Value], axis: tuple[int, int, int], depth: int, element_ns: float
) -> None:
    """Pack a slice of an operand, from one place to another; threads share its panels.

    `axis` has the number of units, and the elements between units and between steps of depth; an
    element takes `element_ns`.
    """
    (source, target), (units, unit_step, step), item = places, axis, p.source_type.byte_size
    words: dict[str, Value | int] = {
        "source": source,
        "target": target,
        "unit_step": unit_step * item,
        "step": step * item,
        "units": units,
        "depth": depth,
        "panel": p.panel_bytes(depth),
    }
    context = filled(f, f.alloca(I64, len(WORDS)), WORDS, words)
    share(f, packing_routine(f.module, p), context, -(-units // p.units), p.units * depth * element_ns)


def divided(down: int, across: int, most: int, threads: int) -> tuple[int, int]:
    """The size of blocks of `down` by `across`: at most `most` high, enough of them for threads."""
    tall = min(down, most)
    tall = -(-down // -(-down // tall))
    groups = -(-down // tall)
    parts = threads * 16 if threads > 1 else 1
    return tall, -(-across // max(1, min(across, -(-parts // groups))))


def filled(f: Function, context: Value, names: Sequence[str], words: Mapping[str, Value | int]) -> Value:
    """A context filled with these words."""
    for k, name in enumerate(names):
        set_word(f, context, k, words[name])
    return context


def set_word(f: Function, context: Value, k: int, word: Value | int) -> None:
    """Set word `k` of a context."""
    f.store(f.value(word), displaced(context, 8 * k), 8)
