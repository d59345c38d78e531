"""Control flow of a function: blocks and branches, loops, chosen or carried values.

A loop carries values in phis. The body is emitted before its head, so that loop-invariant code can
still be hoisted before the loop (see `Function.once`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from xlanb.codegen import instructions, polling
from xlanb.codegen.lanes import Mask, NotAVectorError
from xlanb.codegen.types import I1, I64, VOID, Type
from xlanb.codegen.values import Ix, Value, Vector, named
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.function import Function, Line


@dataclass(slots=True)
class Phi:
    """A phi instruction; its blocks may be renamed until the function is finished."""

    value: Value
    incoming: list[tuple[Value, str]]
    mark: str = ""

    def __str__(self) -> str:
        given = ", ".join(f"[ {v.text}, %{block} ]" for v, block in self.incoming)
        return f"  {self.value.text} = phi {self.value.type.text} {given}{self.mark}"


@dataclass(eq=False)
class CodeRegion:
    """A region of a function being emitted: a loop's body, a branch, the function itself.

    `memo` holds values computed here, by key. Nothing is hoisted out of a `barrier`, which may
    execute zero times. In a region of `width` > 0 each instruction may stand for that many
    consecutive elements, those selected by `mask` if there is one.
    """

    lines: list[Line]
    block: str
    """The current basic block; empty while it is the enclosing region's."""
    barrier: bool = False
    width: int = 0
    mask: Mask | None = None
    mark: str = ""
    """The debug location of the code after the region."""
    depth: int = 0
    """The number of enclosing regions."""
    memo: dict[object, object] = field(default_factory=dict)
    work: int = 0
    """Work between two polls beyond executing its lines once (see polling.py)."""
    called: bool = False
    """Whether the last instruction is a call that may have returned early on a stop request."""


@dataclass
class Loop:
    """A counted loop being emitted: its counter, its carried values, and their next values."""

    index: Ix
    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)


@dataclass
class Rounds:
    """A loop with a condition, being emitted.

    Its carried values, their next values, and the condition to continue; the most iterations, and
    its strips (see polling.py).
    """

    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)
    again: Value | None = None
    count: int | None = None
    strip: polling.Strip | None = None


def label(f: Function, name: str) -> None:
    """Begin a basic block; forget values remembered in this region, which may not dominate it."""
    begin(f, name)
    f.regions[-1].memo.clear()


def begin(f: Function, name: str) -> None:
    """Begin a basic block that all values remembered in this region dominate."""
    f.regions[-1].lines.append(f"{name[1:]}:")
    f.block = name[1:]


def branch(f: Function, target: str) -> None:
    """Branch to a block."""
    f.write(f"br label {target}")


def branch_if(f: Function, condition: Value, then: str, otherwise: str) -> None:
    """Branch to one of two blocks."""
    f.write(f"br {condition!r}, label {then}, label {otherwise}")


def give(f: Function, result: Value | None = None) -> None:
    """Return from the function; code after it in this region is unreachable."""
    if (VOID if result is None else result.type) is not f.result:
        raise AssertionError(f"{f.name} gives {f.result}, not {result!r}")
    f.write("ret void" if result is None else f"ret {result!r}")
    begin(f, f.fresh("beyond"))


def phi(f: Function, type_: Type, incoming: Sequence[tuple[Value, str]]) -> Value:
    """A value selected by the predecessor block."""
    value = phi_value(f, type_)
    f.regions[-1].lines.append(Phi(value, list(incoming), f.dbg))
    return value


def phi_value(f: Function, type_: Type) -> Value:
    """The value of a phi that is emitted later."""
    return named(f, type_, f.fresh("c"), len(f.regions))


@contextmanager
def rounds(f: Function, state: Sequence[Value], guard: Value | None = None) -> Iterator[Rounds]:
    """Loop and carry values; the body sets `next` and `again`.

    There is at least one iteration, or none if the i1 `guard` is false. After the loop, `values`
    holds the results.
    """
    head, exit_ = f.fresh("loop"), f.fresh("done")
    mark = f.dbg
    body = f.enter(head[1:], barrier=guard is not None)
    phis = [phi_value(f, v.type) for v in state]
    loop = Rounds(list(phis))
    yield loop
    f.dbg = mark
    if loop.again is None:
        raise AssertionError("the loop has no condition")
    last = [instructions.as_type(f, value.type, v) for value, v in zip(phis, loop.next, strict=True)]
    loop.next = last
    left = polling.end_round(f, body, loop)
    latch = f.block
    behind = f.fresh("strip") if loop.strip is not None else exit_
    branch_if(f, loop.again, head, behind)
    f.leave()
    before, entry = f.block, f.fresh("strips") if loop.strip is not None else head
    if guard is None:
        branch(f, entry)
    else:
        branch_if(f, guard, entry, exit_)
    here = f.regions[-1].lines
    f.regions[-1].work += left - len(body.lines)
    came, strips = [(v, before) for v in state], list[Phi]()
    if loop.strip is not None:
        begin(f, entry)
        strips = [Phi(phi_value(f, v.type), [first], mark) for v, first in zip(state, came, strict=True)]
        here.extend(strips)
        polling.begin_strips(f, loop.strip, strips[0].value)
        branch(f, head)
        came = [(strip.value, entry[1:]) for strip in strips]
    begin(f, head)
    here.extend(Phi(v, [first, (then, latch)], mark) for v, first, then in zip(phis, came, last, strict=True))
    here.extend(body.lines)
    if loop.strip is not None:
        begin(f, behind)
        polling.end_strips(f, loop.strip, last[0], entry, exit_)
        latch = f.block
        for strip, then in zip(strips, last, strict=True):
            strip.incoming.append((then, latch))
    begin(f, exit_)
    loop.values = last
    if guard is not None:
        loop.values = [phi(f, a.type, [(a, before), (b, latch)]) for a, b in zip(state, last, strict=True)]
    for v in loop.values:  # known after the loop
        if v.number is None:
            v.depth = len(f.regions)


@contextmanager
def carried(
    f: Function,
    count: Ix,
    initial: Sequence[Value] = (),
    start: Ix = 0,
    *,
    guarded: bool = False,
    most: int | None = None,
) -> Iterator[Loop]:
    """Loop over start, ..., count - 1 and carry values; at least one iteration.

    The body sets `loop.next`; after the block `loop.values` holds the results. A loop with an
    unknown
    `count` must be `guarded`: it may then execute zero times; `most` bounds its iterations. A loop
    of one known iteration costs nothing.
    """
    loop = Loop(start, list(initial))
    if isinstance(count, int) and isinstance(start, int) and count - start == 1:
        yield loop
        loop.values = list(loop.next) if initial else []
        return
    if f.width:
        initial = [instructions.as_type(f, v.type.times(f.width), v) if not v.type.lanes else v for v in initial]
    first, end = f.value(start), f.value(count)
    guard = f.let(I1, f"icmp slt {first!r}, {end.text}") if guarded else None
    with rounds(f, (first, *initial), guard) as inner:
        index, *values = inner.values
        loop.index, loop.values = index, list(values)
        yield loop
        inner.count = _rounds_of(f, count, start) if most is None else most
        inner.strip = polling.strip(f, inner.count, end)
        bound = inner.strip.end if inner.strip is not None else end
        after = f.let(I64, f"add nuw nsw {index!r}, 1")
        inner.next, inner.again = [after, *loop.next], f.let(I1, f"icmp slt {after!r}, {bound.text}")
    loop.values = inner.values[1:]


def _rounds_of(f: Function, count: Ix, start: Ix) -> int | None:
    """The most iterations between two indices; None if unknown."""
    if isinstance(count, int) and isinstance(start, int):
        return max(count - start, 0)
    return f.part_rounds if isinstance(count, Value) and count.text == "%hi" else None


@contextmanager
def loop(f: Function, count: Ix, start: Ix = 0, *, guarded: bool = False, most: int | None = None) -> Iterator[Ix]:
    """Loop without carried values; yields the counter."""
    with carried(f, count, (), start, guarded=guarded, most=most) as loop:
        yield loop.index


@contextmanager
def when(f: Function, condition: Value) -> Iterator[None]:
    """Emit the enclosed code so that it runs only if the i1 is true."""
    then, exit_ = f.fresh("then"), f.fresh("endif")
    branch_if(f, condition, then, exit_)
    begin(f, then)
    with f.aside():
        yield
    branch(f, exit_)
    begin(f, exit_)


def choose(
    f: Function, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
) -> list[Value]:
    """The values of one of two branches, only one of which executes."""
    if isinstance(condition, Vector):
        raise NotAVectorError("the condition differs between lanes")
    if condition.number is not None:
        return list(then() if condition.number else otherwise())
    labels, end = (f.fresh("then"), f.fresh("else")), f.fresh("endif")
    branch_if(f, condition, *labels)
    results: list[list[Value]] = []
    blocks: list[str] = []
    for label, write in zip(labels, (then, otherwise), strict=True):
        begin(f, label)
        with f.aside():
            made = list(write())
            if f.width:
                made = [instructions.as_type(f, v.type.times(f.width), v) for v in made]
        results.append(made)
        blocks.append(f.block)
        branch(f, end)
    begin(f, end)
    return [phi(f, a.type, list(zip((a, b), blocks, strict=True))) for a, b in zip(*results, strict=True)]


def rarely(f: Function, condition: Value, value: Value, otherwise: Callable[[], Value]) -> Value:
    """`value`, replaced by `otherwise()` in lanes where the condition, which is rare, is true.

    `otherwise()` is skipped if the condition is false in all lanes.
    """
    (made,) = f.alike(value)
    rare, end = f.fresh("rare"), f.fresh("usual")
    before = f.block
    branch_if(f, f.any_of(condition), rare, end)
    begin(f, rare)
    with f.aside():
        other = f.select(condition, otherwise(), made)
        last = f.block
        branch(f, end)
    begin(f, end)
    return phi(f, made.type, [(made, before), (other, last)])
