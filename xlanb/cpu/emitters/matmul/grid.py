"""Loops over the blocks of something, as one loop that threads share: one routine for all, which takes its counter apart into a position along each axis.

What it walks over stands in a table (words of i64):

    routine         the function that is called
    digits          how many there are; then of each, the fastest last:
      each            how many positions one step of the digit is: the product of the counts after it; of the fastest its count
      step, last      a block starts at min(block * step, last)
      a, b, c         so many times as many bytes further in each array
      gives, takes    where two digits make a block: the first gives so many blocks for each of its steps (and moves nothing), the second takes them (1)
    ...             the table of the routine
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xlanb.codegen.function import PARALLEL, Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.parallel import chunks, is_shared, note
from xlanb.codegen.routines import moved, routine, table, word
from xlanb.codegen.types import I64, PTR
from xlanb.codegen.values import Value

_DIGIT, _HEAD = 8, 2
_CONTEXT = 4


@dataclass(frozen=True, slots=True)
class Span:
    """An axis cut into blocks of `step` elements, the last of which lies over the one before where they do not fit; `strides` in bytes of the arrays a, b and c."""

    size: int
    step: int
    strides: tuple[int, int, int]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.size // self.step)


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of the counter: `count` values, each worth `weight` blocks of a span. A span has one digit, or two: one of weight 1 after one that counts in those."""

    span: int
    count: int
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """What is done at each position: the routine `name` with its table, at `arrays` (the addresses of a, b and c at the first position), some `nanoseconds` long."""

    name: str
    parameters: Sequence[int | str]
    arrays: tuple[Value, Value, Value]
    nanoseconds: float


def digits_of(spans: Sequence[Span]) -> tuple[Digit, ...]:
    """A digit for each span, the last one the fastest."""
    return tuple(Digit(k, s.blocks) for k, s in enumerate(spans))


def emit_grid(f: Function, spans: Sequence[Span], digits: Sequence[Digit], work: Work) -> None:
    """Call a routine at all values of the digits (the last the fastest); threads share the calls where it pays."""
    digits = [d for d in digits if d.count != 1]
    total = prod(d.count for d in digits)
    if total <= 1:
        if total:
            f.call_own(work.name, *work.arrays, table(f.module, work.parameters)(f))
        return
    walk = walk_routine(f.module)
    context = f.alloca(PTR, _CONTEXT)
    walked = table(f.module, walk_table(spans, digits, work.name, work.parameters))(f)
    put(context, walked, *work.arrays)
    count, zero = f.value(total), f.zero(I64)
    shared = is_shared(f, total, work.nanoseconds)
    note(f, total, work.nanoseconds, shared=shared)
    if not shared:
        f.call_own(walk, context, zero, count, zero)
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    parts = f.value(chunks(f, total, work.nanoseconds))
    f.call_own(PARALLEL, Value(f, PTR, f"@{walk}"), context, count, parts, f.value(f.target.threads))


def put(context: Value, *values: Value) -> None:
    """Set the pointers of a context."""
    for k, value in enumerate(values):
        Pointer(context, PTR)[k] = value


def walk_routine(module: ModuleBuilder) -> str:
    """The name of the routine that walks: (ptr context: a walk's table and three arrays, i64 low, i64 high: positions, i64 slot)."""
    return routine(module, "walk", "walk", _emit_walk, _PART)


def walk_table(
    spans: Sequence[Span], digits: Sequence[Digit], name: str, parameters: Sequence[int | str]
) -> list[int | str]:
    """The table of a walk over some digits, none of which has one value alone, that calls the routine `name` with the table `parameters`."""
    return [f"@{name}", *_words(spans, digits), *parameters]


_PART = (
    Parameter(PTR, "context", "noalias readonly"),
    Parameter(I64, "lo"),
    Parameter(I64, "hi"),
    Parameter(I64, "slot"),
)


def _words(spans: Sequence[Span], digits: Sequence[Digit]) -> list[int]:
    words = [len(digits)]
    for n, d in enumerate(digits):
        span, each = spans[d.span], prod(x.count for x in digits[n + 1 :])
        gives = d.weight if any(x.span == d.span for x in digits[n + 1 :]) else 0
        takes = int(any(x.span == d.span for x in digits[:n]))
        step = span.step if gives or takes else span.step * d.weight
        strides = (0, 0, 0) if gives else span.strides
        words += [d.count if n == len(digits) - 1 else each, step, span.size - span.step, *strides, gives, takes]
    return words


def _emit_walk(f: Function) -> None:
    """As long as there is work: where the fastest digit's run begins, by divisions; then all of the run, by multiples."""
    context, low, high, _ = map(f.argument, _PART)
    walk, *arrays = (Pointer(context, PTR)[k] for k in range(_CONTEXT))
    call = Pointer(walk, PTR)[0]
    others = word(walk, 1) - 1
    first = Pointer(walk, I64).address(_HEAD)
    fast = moved(first, others * (8 * _DIGIT))
    parameters = Pointer(fast, I64).address(_DIGIT)
    count, step, last, *strides = (word(fast, k) for k in range(6))
    takes = word(fast, 7)
    with f.rounds([low]) as loop:
        (at,) = loop.values
        rest, given, *pointers = _outer(f, at, first, others, arrays)
        run = (count - rest).umin(high - at)
        begin = rest + given * takes
        with f.loop(run) as k:
            start = _start(begin + k, step, last)
            f.call_pointer(call, *_along(pointers, start, strides), parameters)
        further = at + run
        loop.next, loop.again = [further], further.ult(high)


def _outer(f: Function, at: Value, first: Value, others: Value, arrays: Sequence[Value]) -> Sequence[Value]:
    """All digits but the fastest: (what is left for that, blocks that are given to it, addresses of the arrays)."""
    with f.carried(others, [first, at, f.zero(I64), *arrays], guarded=True) as loop:
        digit, rest, given, *now = loop.values
        each, step, last, *strides = (word(digit, k) for k in range(6))
        gives, takes = word(digit, 6), word(digit, 7)
        value = rest.udiv(each)
        start = _start(value + given * takes, step, last)
        loop.next = [
            moved(digit, 8 * _DIGIT),
            rest - value * each,
            given + value * gives,
            *_along(now, start, strides),
        ]
    return loop.values[1:]


def _along(pointers: Sequence[Value], start: Value, strides: Sequence[Value]) -> list[Value]:
    return [moved(p, start * s) for p, s in zip(pointers, strides, strict=True)]


def _start(block: Value, step: Value, last: Value) -> Value:
    return (block * step).smin(last)
