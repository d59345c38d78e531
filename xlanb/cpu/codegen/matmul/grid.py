"""Loops over the blocks of something, as one loop that threads share: one routine for all, which takes its counter apart into a position along each axis.

What it walks over stands in a table (words of i64):

    routine                  the function that is called
    digits, spans
    count, weight, span      of each digit, the fastest last: `count` values, each worth `weight` blocks of a span
    step, last, a, b, c      of each span: a block starts at min(block * step, last), so many bytes further in each array; the fastest digit's span is the last
    ...                      the table of the routine
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.ir import PARALLEL, Function
from xlanb.cpu.codegen.matmul.shared import field, moved, routine, table, word
from xlanb.cpu.codegen.parallel import chunks, is_parallel

_DIGIT, _SPAN, _HEAD = 3, 5, 3
_MOST = 64
"""Spans of a walk at most: each has two blocks or more, and an i64 counts them all."""
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
    """A digit of the counter: `count` values, each worth `weight` blocks of a span."""

    span: int
    count: int
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """What is done at each position: the routine `name` with its table, at `arrays` (the addresses of a, b and c at the first position), some `nanoseconds` long."""

    name: str
    parameters: Sequence[int]
    arrays: tuple[str, str, str]
    nanoseconds: float


def digits_of(spans: Sequence[Span]) -> tuple[Digit, ...]:
    """A digit for each span, the last one the fastest."""
    return tuple(Digit(k, s.blocks) for k, s in enumerate(spans))


def emit_grid(e: Elemental, spans: Sequence[Span], digits: Sequence[Digit], work: Work) -> None:
    """Call a routine at all values of the digits (the last the fastest); threads share the calls where it pays."""
    f = e.f
    digits = [d for d in digits if d.count != 1]
    total = prod(d.count for d in digits)
    if total <= 1:
        if total:
            given = (*work.arrays, table(f.module, work.parameters))
            f.do(f"call void @{work.name}({', '.join(f'ptr {x}' for x in given)})")
        return
    walk = routine(f.module, "walk", "walk", _emit_walk, _PART)
    context = f.alloca("ptr", _CONTEXT)
    walked = table(f.module, [*_words(spans, digits), *work.parameters], work.name)
    for k, value in enumerate((walked, *work.arrays)):
        f.do(f"store ptr {value}, ptr {field(f, k, context)}")
    if not is_parallel(e, total, work.nanoseconds):
        f.do(f"call void @{walk}(ptr {context}, i64 0, i64 {total}, i64 0)")
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    parts = chunks(e, total, work.nanoseconds)
    f.do(f"call void @{PARALLEL}(ptr @{walk}, ptr {context}, i64 {total}, i64 {parts}, i64 {f.target.threads})")


_PART = ("ptr noalias readonly %context", "i64 %lo", "i64 %hi", "i64 %slot")


def _words(spans: Sequence[Span], digits: Sequence[Digit]) -> list[int]:
    used = [*sorted({d.span for d in digits} - {digits[-1].span}), digits[-1].span]
    numbers = {n: k for k, n in enumerate(used)}
    words = [len(digits), len(used)]
    for d in digits:
        words += [d.count, d.weight, numbers[d.span]]
    for n in used:
        words += [spans[n].step, spans[n].size - spans[n].step, *spans[n].strides]
    return words


def _emit_walk(f: Function) -> None:
    """As long as there is work: where the fastest digit's run begins, by divisions; then all of the run, by multiples."""
    walk, a, b, c = (f.let(f"load ptr, ptr {field(f, k, '%context')}") for k in range(_CONTEXT))
    call = f.let(f"load ptr, ptr {walk}")
    digits, spans = word(f, 1, walk), word(f, 2, walk)
    first_digit = field(f, _HEAD, walk)
    first_span = moved(f, first_digit, f.let(f"mul i64 {digits}, {8 * _DIGIT}"))
    fast_digit = moved(f, first_span, str(-8 * _DIGIT))
    others = f.let(f"sub i64 {spans}, 1")
    fast_span = moved(f, first_span, f.let(f"mul i64 {others}, {8 * _SPAN}"))
    parameters = moved(f, fast_span, str(8 * _SPAN))
    count, weight = word(f, 0, fast_digit), word(f, 1, fast_digit)
    step, last, *strides = (word(f, k, fast_span) for k in range(_SPAN))
    blocks = f.alloca("i64", _MOST)
    here, head, exit_ = f.block, f.fresh("run"), f.fresh("end")
    f.branch(head)
    f.begin(head)
    at, further = f.fresh("at"), f.fresh("at")
    f.do(f"{at} = phi i64 [ %lo, %{here} ], [ {further}, {further}.block ]")
    with f.loop(spans) as k:
        f.do(f"store i64 0, ptr {f.let(f'getelementptr inbounds i64, ptr {blocks}, i64 {k}')}")
    value = f.let(f"urem i64 {at}, {count}")
    _take_apart(f, f.let(f"udiv i64 {at}, {count}"), fast_digit, f.let(f"sub i64 {digits}, 1"), blocks)
    pointers = _moved_along(f, first_span, others, blocks, (a, b, c))
    left, most = f.let(f"sub i64 {count}, {value}"), f.let(f"sub i64 %hi, {at}")
    run = f.call("i64", "llvm.umin.i64", ("i64", left), ("i64", most))
    base = f.let(f"load i64, ptr {f.let(f'getelementptr inbounds i64, ptr {blocks}, i64 {others}')}")
    with f.loop(run) as k:
        digit = f.let(f"add i64 {value}, {k}")
        block = f.let(f"add i64 {base}, {f.let(f'mul i64 {digit}, {weight}')}")
        start = _start(f, block, step, last)
        arrays = [moved(f, p, f.let(f"mul i64 {start}, {s}")) for p, s in zip(pointers, strides, strict=True)]
        f.do(f"call void {call}({', '.join(f'ptr {x}' for x in (*arrays, parameters))})")
    f.do(f"{further} = add i64 {at}, {run}")
    f.branch(f"{further}.block")
    f.begin(f"{further}.block")
    f.branch_if(f.let(f"icmp ult i64 {further}, %hi"), head, exit_)
    f.begin(exit_)


def _take_apart(f: Function, rest: str, fast_digit: str, others: str, blocks: str) -> None:
    """Add to the blocks of each span what the digits before the fastest say."""
    with f.carried(others, [("i64", rest), ("ptr", fast_digit)], guarded=True) as loop:
        now, digit = loop.values
        digit = moved(f, digit, str(-8 * _DIGIT))
        count, weight, span = (word(f, k, digit) for k in range(_DIGIT))
        place = f.let(f"getelementptr inbounds i64, ptr {blocks}, i64 {span}")
        more = f.let(f"mul i64 {f.let(f'urem i64 {now}, {count}')}, {weight}")
        before = f.let(f"load i64, ptr {place}")
        f.do(f"store i64 {f.let(f'add i64 {before}, {more}')}, ptr {place}")
        loop.next = [f.let(f"udiv i64 {now}, {count}"), digit]


def _moved_along(f: Function, first_span: str, others: str, blocks: str, pointers: Sequence[str]) -> list[str]:
    """The addresses of the arrays after all spans but the last."""
    with f.carried(others, [("ptr", first_span), *(("ptr", p) for p in pointers)], guarded=True) as loop:
        span, *now = loop.values
        block = f.let(f"load i64, ptr {f.let(f'getelementptr inbounds i64, ptr {blocks}, i64 {loop.index}')}")
        step, last, *strides = (word(f, k, span) for k in range(_SPAN))
        start = _start(f, block, step, last)
        after = [moved(f, p, f.let(f"mul i64 {start}, {s}")) for p, s in zip(now, strides, strict=True)]
        loop.next = [moved(f, span, str(8 * _SPAN)), *after]
    return loop.values[1:]


def _start(f: Function, block: str, step: str, last: str) -> str:
    return f.call("i64", "llvm.smin.i64", ("i64", f.let(f"mul i64 {block}, {step}")), ("i64", last))
