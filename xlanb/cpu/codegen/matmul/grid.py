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

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.ir import PARALLEL, Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.shared import field, moved, routine, table, word
from xlanb.cpu.codegen.parallel import chunks, is_parallel

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
    walk = walk_routine(f.module)
    context = f.alloca("ptr", _CONTEXT)
    walked = table(f.module, walk_table(spans, digits, work.name, work.parameters))
    for k, value in enumerate((walked, *work.arrays)):
        f.do(f"store ptr {value}, ptr {field(f, k, context)}")
    if not is_parallel(e, total, work.nanoseconds):
        f.do(f"call void @{walk}(ptr {context}, i64 0, i64 {total}, i64 0)")
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    parts = chunks(e, total, work.nanoseconds)
    f.do(f"call void @{PARALLEL}(ptr @{walk}, ptr {context}, i64 {total}, i64 {parts}, i64 {f.target.threads})")


def walk_routine(module: ModuleBuilder) -> str:
    """The name of the routine that walks: (ptr context: a walk's table and three arrays, i64 low, i64 high: positions, i64 slot)."""
    return routine(module, "walk", "walk", _emit_walk, _PART)


def walk_table(
    spans: Sequence[Span], digits: Sequence[Digit], name: str, parameters: Sequence[int | str]
) -> list[int | str]:
    """The table of a walk over some digits, none of which has one value alone, that calls the routine `name` with the table `parameters`."""
    return [f"@{name}", *_words(spans, digits), *parameters]


_PART = ("ptr noalias readonly %context", "i64 %lo", "i64 %hi", "i64 %slot")


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
    walk, *arrays = (f.let(f"load ptr, ptr {field(f, k, '%context')}") for k in range(_CONTEXT))
    call = f.let(f"load ptr, ptr {walk}")
    others = f.let(f"sub i64 {word(f, 1, walk)}, 1")
    first = field(f, _HEAD, walk)
    fast = moved(f, first, f.let(f"mul i64 {others}, {8 * _DIGIT}"))
    parameters = field(f, _DIGIT, fast)
    count, step, last, *strides = (word(f, k, fast) for k in range(6))
    takes = word(f, 7, fast)
    here, head, next_, exit_ = f.block, f.fresh("run"), f.fresh("next"), f.fresh("end")
    f.branch(head)
    f.begin(head)
    at, further = f.fresh("at"), f.fresh("at")
    f.do(f"{at} = phi i64 [ %lo, %{here} ], [ {further}, {next_} ]")
    rest, given, *pointers = _outer(f, at, first, others, arrays)
    left, most = f.let(f"sub i64 {count}, {rest}"), f.let(f"sub i64 %hi, {at}")
    run = f.call("i64", "llvm.umin.i64", ("i64", left), ("i64", most))
    begin = f.let(f"add i64 {rest}, {f.let(f'mul i64 {given}, {takes}')}")
    with f.loop(run) as k:
        start = _start(f, f.let(f"add i64 {begin}, {k}"), step, last)
        given_to = ", ".join(f"ptr {x}" for x in (*_along(f, pointers, start, strides), parameters))
        f.do(f"call void {call}({given_to})")
    f.do(f"{further} = add i64 {at}, {run}")
    f.branch(next_)
    f.begin(next_)
    f.branch_if(f.let(f"icmp ult i64 {further}, %hi"), head, exit_)
    f.begin(exit_)


def _outer(f: Function, at: str, first: str, others: str, arrays: Sequence[str]) -> list[str]:
    """All digits but the fastest: (what is left for that, blocks that are given to it, addresses of the arrays)."""
    carried = [("ptr", first), ("i64", at), ("i64", "0"), *(("ptr", p) for p in arrays)]
    with f.carried(others, carried, guarded=True) as loop:
        digit, rest, given, *now = loop.values
        each, step, last, *strides = (word(f, k, digit) for k in range(6))
        gives, takes = word(f, 6, digit), word(f, 7, digit)
        value = f.let(f"udiv i64 {rest}, {each}")
        start = _start(f, f.let(f"add i64 {value}, {f.let(f'mul i64 {given}, {takes}')}"), step, last)
        after = f.let(f"sub i64 {rest}, {f.let(f'mul i64 {value}, {each}')}")
        more = f.let(f"add i64 {given}, {f.let(f'mul i64 {value}, {gives}')}")
        loop.next = [moved(f, digit, str(8 * _DIGIT)), after, more, *_along(f, now, start, strides)]
    return loop.values[1:]


def _along(f: Function, pointers: Sequence[str], start: str, strides: Sequence[str]) -> list[str]:
    return [moved(f, p, f.let(f"mul i64 {start}, {s}")) for p, s in zip(pointers, strides, strict=True)]


def _start(f: Function, block: str, step: str, last: str) -> str:
    return f.call("i64", "llvm.smin.i64", ("i64", f.let(f"mul i64 {block}, {step}")), ("i64", last))
