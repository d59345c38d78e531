"""Where compiled code checks for stop requests: how often loops poll.

A poll reads one word of the process. If it is not zero, some thread is requested to stop or to
check for signals, and the code calls a function of the runtime, which returns whether it is this
thread. If so, the polling function returns at once, as do its callers at their next poll. What it
has written is invalid.

The unit of work is a line of LLVM IR that runs once. Loops count the work between two polls, and
poll themselves if it would become too much: in each iteration if iterations are long, between
strips of many iterations if they are short. Source of the method: safepoint polls of virtual
machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.codegen.types import I1, I64
from xlanb.codegen.values import Value
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.function import CodeRegion, Function, Rounds

ATTENTION = "xlanb.attention"
"""The symbol of the word: how many threads are requested to check."""
CHECK = "xlanb.check"
"""The symbol of the function that a thread calls to check; returns i1, whether to stop."""
DECLARATION = f"declare i1 @{CHECK}() cold nounwind willreturn memory(inaccessiblemem: readwrite)"
"""The declaration promises that it accesses no array of the program."""

BUDGET = 1 << 22
"""Lines between two polls: a millisecond of pure computation, about ten if memory-bound."""
LONG_ROUND = 128
"""The least lines of an iteration for which the cost of a poll is negligible."""
UNKNOWN_ROUNDS = 1 << 13
"""Assumed iterations of a loop whose trip count is unknown at compile time."""
MANY = 1 << 40
"""Given as the most iterations of a loop that may have any number (see Function.carried)."""
CALL = 1 << 16
"""Lines that a routine call counts as: the routine polls, but its caller continues afterwards."""


@dataclass(frozen=True, slots=True)
class Polls:
    """How a loop polls: in each iteration, or once per strip of iterations (`strip`, 0: none).

    `left` is the work of the whole loop without polls.
    """

    each: bool
    strip: int
    left: int


def plan(rounds: int | None, work: int) -> Polls:
    """Choose how a loop polls, given its trip count (None: unknown) and the work between polls."""
    total = (UNKNOWN_ROUNDS if rounds is None else rounds) * work
    if total <= BUDGET:
        return Polls(False, 0, total)
    if work >= LONG_ROUND:
        return Polls(True, 0, work)
    strip = max(BUDGET // max(work, 1), 1)
    return Polls(False, strip, strip * work)


def work_of(region: CodeRegion) -> int:
    """The work of a region between two polls."""
    return max(len(region.lines) + region.work, 0)


def write(f: Function) -> None:
    """Poll here: return if this thread must stop."""
    f.module.declarations[ATTENTION] = f"@{ATTENTION} = external global i64"
    f.module.declarations[CHECK] = DECLARATION
    asked = f.let(I64, f"load volatile i64, {f.symbol(ATTENTION)!r}, align 8").differs(0)
    ask, on = f.fresh("ask"), f.fresh("on")
    f.write(f'br {asked!r}, label {ask}, label {on}, !prof !{{!"branch_weights", i32 1, i32 100000}}')
    f.begin(ask)
    f.write(f"br {f.let(I1, f'call i1 {f.symbol(CHECK).text}()')!r}, label %{STOPPED}, label {on}")
    f.begin(on)
    f.polls = True


STOPPED = "stopped"
"""The block from which a polling function returns early."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Iterations of a counted loop between two polls.

    There are `size` of them, or those left before `last`; the loop over them ends at `end`.
    """

    size: int
    end: Value
    last: Value


def strip(f: Function, rounds: int | None, last: Value) -> Strip | None:
    """The strips of the loop being emitted, whose body is finished; None if it needs none."""
    if not f.target.polls:
        return None
    size = plan(rounds, work_of(f.regions[-1])).strip
    return Strip(size, Value(f, I64, f.fresh("end")), last) if size else None


def begin_strips(f: Function, strip: Strip, counter: Value) -> None:
    """At the beginning of a strip, compute where its loop ends."""
    end = counter + strip.size
    f.module.declare("i64", "llvm.smin.i64", "i64, i64")
    f.write(f"{strip.end.text} = call i64 {f.symbol('llvm.smin.i64').text}({end!r}, {strip.last!r})")


def end_strips(f: Function, strip: Strip, after: Value, head: str, exit_: str) -> None:
    """At the end of a strip: poll, and continue with the next one."""
    write(f)
    f.branch_if(f.let(I1, f"icmp slt {after!r}, {strip.last.text}"), head, exit_)


def end_round(f: Function, body: CodeRegion, loop: Rounds) -> int:
    """At the end of a loop's body: poll if each iteration should.

    Returns the work of the whole loop without a poll.
    """
    if loop.strip is not None:
        return loop.strip.size * work_of(body)
    if not f.target.polls:
        return 0
    made = plan(loop.count, work_of(body))
    if made.each:
        write(f)
    return made.left
