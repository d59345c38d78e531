"""Loops over blocks as one loop that threads share.

One routine serves all of them: it splits its counter into a position along each axis. The table
(words of i64) describes the loops:

    routine         the called function
    spans           the number of spans; then for each, the fastest last:
      each            positions per step: the product of the counts after it (the fastest: its
      count)
      step, last      a block starts at min(block * step, last)
      a, b, c         byte strides in each array
    ...             the table of the routine
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlanb.codegen.function import PARALLEL, Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.parallel import chunks, is_shared, note
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, table, word
from xlanb.codegen.types import I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis
from xlanb.lazy_dataclass import dataclass

_SPAN, _HEAD = 6, 2
_CONTEXT = 4


@dataclass(frozen=True, slots=True)
class Span:
    """An axis divided into blocks of `step` elements; the last may overlap the one before.

    `strides` are in bytes, for the arrays a, b and c.
    """

    size: int
    step: int
    strides: tuple[int, int, int]

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.step)


def span_of(x: Contraction, axis: ContractionAxis, step: int = 1) -> Span:
    """An axis of a contraction in blocks of `step` elements."""
    strides = (axis.a * x.a_type.byte_size, axis.b * x.b_type.byte_size, axis.c * x.c_type.byte_size)
    return Span(axis.size, step, strides)


@dataclass(frozen=True, slots=True)
class Work:
    """The work at each position: call the routine `name` with its table.

    `arrays` are the addresses of a, b and c at the first position; a call takes about
    `nanoseconds`.
    """

    name: str
    parameters: Sequence[int | str]
    arrays: tuple[Value, Value, Value]
    nanoseconds: float


def positions(spans: Sequence[Span]) -> int:
    """The number of positions."""
    return prod(s.blocks for s in spans)


def even(size: int, most: int) -> int:
    """The step of blocks with a limited number of elements: as few blocks as possible, all of about
    equal size.
    """
    return -(-size // -(-size // most))


def emit_grid(f: Function, spans: Sequence[Span], work: Work) -> None:
    """Call a routine for all blocks of the spans (the last the fastest); threads share the calls.

    They are shared only if that pays.
    """
    total = positions(spans)
    if total <= 1:
        if total:
            f.call_own(work.name, *work.arrays, table(f.module, work.parameters)(f))
        return
    call_part(
        f, walk_routine(f.module), walk_table(spans, work.name, work.parameters), work.arrays, total, work.nanoseconds
    )


def call_part(
    f: Function, name: str, words: Sequence[int | str], places: Sequence[Value], count: int, nanoseconds: float
) -> None:
    """Call the routine `name`, which has the pool's signature (PART), for 0..count.

    Its context is a table of `words`, then the addresses `places`. Threads share the calls if that
    pays.
    """
    share(f, name, context_of(table(f.module, words)(f), *places), count, nanoseconds)


def share(f: Function, name: str, context: Value, count: int, nanoseconds: float) -> None:
    """The same with a context of any form."""
    shared, zero = is_shared(f, count, nanoseconds), f.zero(I64)
    note(f, count, nanoseconds, shared=shared)
    if not shared:
        f.call_own(name, context, zero, f.value(count), zero)
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    parts = f.value(chunks(f, count, nanoseconds))
    f.call_own(PARALLEL, f.symbol(name), context, f.value(count), parts, f.value(f.target.threads))


def context_of(table: Value, *places: Value) -> Value:
    """A context for such a routine, on the stack: its table and the addresses of its arrays."""
    context = Pointer(table.function.alloca(PTR, 1 + len(places)), PTR)
    for k, value in enumerate((table, *places)):
        context[k] = value
    return context.base


def walk_routine(module: ModuleBuilder) -> str:
    """The name of the routine that loops over blocks.

    Its parameters: ptr context (the table and three arrays), i64 low, i64 high (positions), i64
    slot.
    """
    return routine(module, "walk", "walk", _emit_walk, PART)


def walk_table(spans: Sequence[Span], name: str, parameters: Sequence[int | str]) -> list[int | str]:
    """The table of a loop over spans that calls the routine `name` with the table `parameters`."""
    spans = [s for s in spans if s.blocks != 1] or [Span(1, 1, (0, 0, 0))]
    words: list[int | str] = [f"@{name}", len(spans)]
    for n, s in enumerate(spans):
        words += [positions(spans[n + 1 :] or [s]), s.step, s.size - s.step, *s.strides]
    return [*words, *parameters]


PART = (
    Parameter(PTR, "context", "noalias readonly"),
    Parameter(I64, "lo"),
    Parameter(I64, "hi"),
    Parameter(I64, "slot"),
)


def _emit_walk(f: Function) -> None:
    """Loop: locate the fastest span's position by divisions, then run through it by strides."""
    context, low, high, _ = map(f.argument, PART)
    walk, *arrays = (Pointer(context, PTR)[k] for k in range(_CONTEXT))
    call = Pointer(walk, PTR)[0]
    others = word(walk, 1) - 1
    first = Pointer(walk, I64).address(_HEAD)
    fast = displaced(first, others * (8 * _SPAN))
    parameters = Pointer(fast, I64).address(_SPAN)
    count, step, last, *strides = (word(fast, k) for k in range(_SPAN))
    with f.rounds([low]) as loop:
        (at,) = loop.values
        begin, *pointers = _outer(f, at, first, others, arrays)
        run = (count - begin).umin(high - at)
        with f.loop(run) as k:
            f.call_pointer(call, *_offset(pointers, begin + k, step, last, strides), parameters)
        following = at + run
        loop.next, loop.again = [following], following.ult(high)


def _outer(f: Function, at: Value, first: Value, others: Value, arrays: Sequence[Value]) -> Sequence[Value]:
    """Positions in all spans but the fastest: (remaining counter, addresses of the arrays)."""
    with f.carried(others, [first, at, *arrays], guarded=True) as loop:
        span, rest, *now = loop.values
        each, step, last, *strides = (word(span, k) for k in range(_SPAN))
        block = rest.udiv(each)
        loop.next = [displaced(span, 8 * _SPAN), rest - block * each, *_offset(now, block, step, last, strides)]
    return loop.values[1:]


def _offset(pointers: Sequence[Value], block: Value, step: Value, last: Value, strides: Sequence[Value]) -> list[Value]:
    start = (block * step).smin(last)
    return [displaced(p, start * s) for p, s in zip(pointers, strides, strict=True)]
