"""The thread that makes the main thread check for signals while it runs a program.

Invariants
- Ownership: only the main thread writes `main_record` and `begun`; whoever starts or ends the
  watcher writes `watching`. There is at most one watcher.
- The watcher ends when the main thread has run no program for some seconds. Either the main thread
  then finds that there is no watcher, or the watcher finds the execution that it has begun.
- Threads and signals: the watcher receives no signals and never touches Python.
"""

from __future__ import annotations

from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeFunction, NativeModule, NativeVariable, null, stack
from xlanb.codegen.places import Fields, fence
from xlanb.codegen.types import I1, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.runtime import system
from xlanb.cpu.runtime.layouts import Record, TimeSpec
from xlanb.cpu.runtime.system import is_null
from xlanb.lazy_dataclass import dataclass

_TICK = 50_000_000
"""Nanoseconds between two checks of the watcher."""
_IDLE = 60
"""Checks without work after which it ends."""


@dataclass(frozen=True)
class Watcher:
    """The watcher as the guard sees it; `ask(record)` makes a thread check at its next poll."""

    ask: NativeFunction
    main_thread: NativeVariable
    main_record: NativeVariable
    count: NativeVariable
    watching: NativeVariable
    start: NativeFunction

    def begun(self, f: Function, record: Value) -> None:
        """Watch an execution that the main thread begins."""
        self.main_record(f).store(record, "release")
        self.count(f).add(1)
        with f.when(self.watching(f).load("seq_cst").equals(0)):
            self.start(f)

    def reset(self, f: Function, main: Value) -> None:
        """Reset in the child of a fork, which has no watcher."""
        self.main_thread(f).store(main)
        self.watching(f).store(0, "release")
        self.main_record(f).store(null(f))


def write_watcher(m: NativeModule, ask: NativeFunction) -> Watcher:
    """Emit the thread's code, and the function that starts it."""
    main_thread, count = m.variable("guard.main.thread", I64), m.variable("guard.main.begun", I64)
    main_record, watching = m.variable("guard.main.record", PTR), m.variable("guard.watching", I32)
    ends = _write_ends(m, count, watching)

    @m.define("guard.watch", PTR, unused=PTR)
    def watch(f: Function, _unused: Value) -> Value:
        """Each tick: request a check if the main thread is still in the same execution."""
        time = Fields(stack(f, 16), TimeSpec)
        time["seconds"].store(0)
        time["nanoseconds"].store(_TICK)
        zero = f.const(I64, 0)
        with f.rounds([zero, zero]) as loop:
            seen, quiet = loop.values
            f.call(I32, "nanosleep", time.base, null(f))
            now = count(f).load("seq_cst")
            same = now.equals(seen)
            record = main_record(f).load("acquire")

            def looked() -> list[Value]:
                fields = Fields(record, Record)
                runs = ~is_null(fields["frame"].load("seq_cst"))
                with f.when(runs & fields["computes"].load_volatile().differs(0)):
                    ask(f, record)
                return [runs.select(0, quiet + 1)]

            (idle,) = f.choose(same & ~is_null(record), looked, lambda: [zero])
            loop.next = [now, idle]
            over = idle.ugt(_IDLE)
            (ended,) = f.choose(over, lambda: [ends(f, now)], lambda: [system.no(f)])
            loop.again = ~ended
        return null(f)

    @m.define("guard.start.watch", VOID)
    def start(f: Function) -> None:
        """Start the watcher if there is none.

        If no thread can be created, executions are not watched, and the next one tries again.
        """
        with f.when(watching(f).exchange(1).differs(0)):
            f.give()
        with system.no_signals(f):
            made = system.start_thread(f, watch.address(f), null(f))
        with f.when(~made):
            watching(f).store(0, "release")

    return Watcher(ask, main_thread, main_record, count, watching, start)


def _write_ends(m: NativeModule, count: NativeVariable, watching: NativeVariable) -> NativeFunction:
    @m.define("guard.watch.ends", I1, seen=I64)
    def ends(f: Function, seen: Value) -> Value:
        """Whether the watcher may end.

        It may if the main thread has begun nothing since, or has another watcher.
        """
        watching(f).store(0, "seq_cst")
        fence(f)
        with f.when(count(f).load("seq_cst").equals(seen)):
            f.give(system.yes(f))
        return watching(f).exchange(1).differs(0)

    return ends
