"""Cancellable executions: the record of a running program, polls, and requests to stop.

Compiled code polls (see xlanb.codegen.polling): if `xlanb.attention` is not zero, it calls
`xlanb.check`, which returns whether this thread's execution must stop. The code then returns,
function by function, to `xlanb.guard`, which returns the reason. Nothing is ever aborted in the
middle: each function ends by its own return.

Sources of requests:
- Python's signals, which stay pending until the main thread checks. A thread (`watch`, see
  watcher.py) checks every 50 ms whether the main thread has been in the same execution for that
  long, and requests a check: the next poll takes the GIL and calls PyErr_CheckSignals. An exception
  ends the execution; otherwise it continues.
- `xlanb.cancel(cancellation)` increments a count. An execution records the count at its start, and
  stops if it has changed.
- A Python function called by the program that raises (`xlanb.host`).

Invariants
- Ownership: only the thread itself writes `frame` and `computes` of its record, and the frames.
  Others write `asked`, atomically, and traverse the list of records under its lock.
- Attention is the number of records with requests, plus the number of frames that stop: each adds
  one at its start and subtracts one at its end. It is only a hint: the truth is in the frames and
  the
  `Cancellation`s, so that a poll that sees it too early or too late costs only time.
- No request is lost: `cancel` increments first and then reads who runs; an execution publishes its
  frame first and then reads the count (all of it seq_cst).
- Threads: `guard` and `check` run without the GIL; `check` takes it in the main thread, with
  `computes` at 0, so that a program run by a signal handler is a separate execution.
- Signals: there are no signal handlers of our own. A signal interrupts only the watcher's sleep,
  and no other thread of ours receives any.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeFunction, NativeModule, NativeVariable, null, stack
from xlanb.codegen.places import Fields, displaced
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.codegen.types import I1, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.runtime import system
from xlanb.cpu.runtime.layouts import Cancellation, FrameLayout, Record
from xlanb.cpu.runtime.system import is_null
from xlanb.cpu.runtime.watcher import Watcher, write_watcher
from xlanb.lazy_dataclass import dataclass

OK, CANCELLED, RAISED, NO_MEMORY = range(4)
"""Results of `xlanb.guard`: the program has ended; it was cancelled; a Python exception is set (by
a signal handler or a host call); there was no memory."""

GUARD, HOST, CANCEL, RECORD, BEGIN, FORKED = (
    f"xlanb.{name}" for name in ("guard", "host", "cancel", "record", "begin", "forked")
)
"""The names of the functions."""
SYMBOLS: Final = (GUARD, HOST, CANCEL, RECORD, BEGIN, FORKED, CHECK, ATTENTION)
"""All symbols that other modules may refer to."""


@dataclass(frozen=True)
class Guard:
    """The functions and variables of this file, in the order in which they are emitted."""

    attention: NativeVariable
    key: NativeVariable
    records: NativeVariable
    lock: NativeVariable
    watcher: Watcher
    withdraw: NativeFunction
    cancelled: NativeFunction

    def own(self, f: Function) -> Value:
        """This thread's record; null if it has none."""
        return f.call(PTR, "pthread_getspecific", self.key(f).load())

    def is_main(self, f: Function) -> Value:
        """i1: whether this is the main thread."""
        return system.thread(f).equals(self.watcher.main_thread(f).load())

    def stop(self, f: Function, frame: Value, why: int) -> None:
        """Make an execution of this thread stop."""
        Fields(frame, FrameLayout)["why"].store(why)
        self.attention(f).add(1)


def write(m: NativeModule) -> NativeFunction:
    """Emit the functions; return `xlanb.guard`."""
    attention = m.variable(ATTENTION, I64, exported=True)
    key, records, lock = m.variable("guard.key", I64), m.variable("guard.records", PTR), m.variable("guard.lock", I32)
    withdraw = _write_withdraw(m, attention)
    watcher = write_watcher(m, _write_ask(m, attention, withdraw))
    g = Guard(attention, key, records, lock, watcher, withdraw, _write_cancelled(m))
    record = _write_record(m, g)
    _write_begin(m, g)
    _write_check(m, g)
    _write_cancel(m, g)
    _write_host(m, g)
    return _write_guard(m, g, record)


# -- requests --------------------------------------------------------------------------------------


def _write_withdraw(m: NativeModule, attention: NativeVariable) -> NativeFunction:
    @m.define("guard.withdraw", I1, record=PTR)
    def withdraw(f: Function, record: Value) -> Value:
        """Clear the request in a record; return whether there was one."""
        asked = Fields(record, Record)["asked"]
        with f.when(asked.load("monotonic").equals(0)):
            f.give(system.no(f))
        was = asked.exchange(0).differs(0)
        with f.when(was):
            attention(f).sub(1)
        return was

    return withdraw


def _write_ask(m: NativeModule, attention: NativeVariable, withdraw: NativeFunction) -> NativeFunction:
    @m.define("guard.ask", VOID, record=PTR)
    def ask(f: Function, record: Value) -> None:
        """Request that a record's thread checks at its next poll.

        The request is withdrawn if its execution has ended in the meantime.
        """
        fields = Fields(record, Record)
        with f.when(fields["asked"].exchange(1).equals(0)):
            attention(f).add(1)
        with f.when(is_null(fields["frame"].load("seq_cst"))):
            withdraw(f, record)

    return ask


def _write_cancelled(m: NativeModule) -> NativeFunction:
    @m.define("guard.cancelled", I1, record=PTR)
    def cancelled(f: Function, record: Value) -> Value:
        """Whether an execution of this thread was cancelled: the innermost or an outer one."""
        first = Fields(record, Record)["frame"].load()
        with f.rounds([first], guard=~is_null(first)) as loop:
            frame = Fields(loop.values[0], FrameLayout)
            now = Fields(frame["cancellation"].load(), Cancellation)["cancelled"].load("seq_cst")
            with f.when(now.differs(frame["cancelled"].load())):
                f.give(system.yes(f))
            outer = frame["outer"].load()
            loop.next, loop.again = [outer], ~is_null(outer)
        return system.no(f)

    return cancelled


def _write_cancel(m: NativeModule, g: Guard) -> None:
    @m.define(CANCEL, I64, exported=True, cancellation=PTR)
    def cancel(f: Function, cancellation: Value) -> Value:
        """Stop all executions of the program with this `Cancellation`; return their number."""
        fields = Fields(cancellation, Cancellation)
        fields["cancelled"].add(1)
        running = fields["running"].load("seq_cst")
        with f.when(running.equals(0)):
            f.give(running)
        with locked(f, g.lock):
            first = g.records(f).load()
            with f.rounds([first], guard=~is_null(first)) as loop:
                record = Fields(loop.values[0], Record)
                with f.when(record["used"].load().differs(0) & ~is_null(record["frame"].load("seq_cst"))):
                    g.watcher.ask(f, loop.values[0])
                following = record["next"].load()
                loop.next, loop.again = [following], ~is_null(following)
        return running


# -- records ---------------------------------------------------------------------------------------


@contextmanager
def locked(f: Function, lock: NativeVariable) -> Iterator[None]:
    """Run the enclosed code under a lock."""
    with f.rounds([]) as wait:
        taken = lock(f).exchange(1, "acquire").equals(0)
        with f.when(~taken):
            system.yield_thread(f)
        wait.again = ~taken
    yield
    lock(f).store(0, "release")


def _write_record(m: NativeModule, g: Guard) -> NativeFunction:
    @m.define("guard.unused", PTR)
    def unused(f: Function) -> Value:
        """A record without a thread, or a new one; null if there is no memory. Needs the lock."""
        first = g.records(f).load()
        with f.rounds([first], guard=~is_null(first)) as loop:
            record = Fields(loop.values[0], Record)
            with f.when(record["used"].load().equals(0)):
                f.give(loop.values[0])
            following = record["next"].load()
            loop.next, loop.again = [following], ~is_null(following)
        made = f.call(PTR, "calloc", f.const(I64, 1), f.const(I64, ctypes.sizeof(Record)))
        with f.when(~is_null(made)):
            Fields(made, Record)["next"].store(first)
            g.records(f).store(made)
        return made

    @m.define(RECORD, PTR, exported=True)
    def record(f: Function) -> Value:
        """The record of this thread; null if there is no memory for one."""
        known = g.own(f)
        with f.when(~is_null(known)):
            f.give(known)
        with locked(f, g.lock):
            made = unused(f)
            with f.when(~is_null(made)):
                Fields(made, Record)["used"].store(1)
        with f.when(~is_null(made)):
            f.call(I32, "pthread_setspecific", g.key(f).load(), made)
        return made

    return record


def _write_begin(m: NativeModule, g: Guard) -> None:
    @m.define("guard.thread.ends", VOID, record=PTR)
    def thread_ends(f: Function, record: Value) -> None:
        """Release the record of a thread that ends."""
        with locked(f, g.lock):
            g.withdraw(f, record)
            Fields(record, Record)["used"].store(0)

    @m.define(BEGIN, VOID, exported=True, main=I64)
    def begin(f: Function, main: Value) -> None:
        """Initialize; called once, when the module is loaded."""
        g.watcher.main_thread(f).store(main)
        f.call(I32, "pthread_key_create", g.key.address(f), thread_ends.address(f))

    @m.define(FORKED, VOID, exported=True, main=I64)
    def forked(f: Function, main: Value) -> None:
        """Reset in the child of a fork: it has one thread, now the main one."""
        g.watcher.reset(f, main)
        g.lock(f).store(0, "release")
        own, first = g.own(f), g.records(f).load()
        with f.rounds([first], guard=~is_null(first)) as loop:
            at = loop.values[0]
            following = Fields(at, Record)["next"].load()
            with f.when(at.differs(own)):
                size = ctypes.sizeof(Record) - Record.used.offset
                f.fill_zero(displaced(at, Record.used.offset), size, align=8)
            loop.next, loop.again = [following], ~is_null(following)
        g.attention(f).store(0, "seq_cst")


# -- running ---------------------------------------------------------------------------------------


def _write_check(m: NativeModule, g: Guard) -> None:
    @m.define("guard.look", I1, frame=PTR)
    def look(f: Function, frame: Value) -> Value:
        """In the main thread: let Python check for signals; return whether a handler raised."""
        gil = f.call(I32, "PyGILState_Ensure")
        raised = f.call(I32, "PyErr_CheckSignals").differs(0)
        f.call(VOID, "PyGILState_Release", gil)
        with f.when(raised):
            g.stop(f, frame, RAISED)
        return raised

    @m.define(CHECK, I1, exported=True)
    def check(f: Function) -> Value:
        """The function called by polls: whether this thread must stop its computation."""
        own = g.own(f)
        with f.when(is_null(own)):
            f.give(system.no(f))
        record = Fields(own, Record)
        abandoned = record["abandoned"].load()
        with f.when(~is_null(abandoned)):
            f.give(system.element(abandoned, 0, I64).load("seq_cst").differs(0))
        frame = record["frame"].load()
        with f.when(record["computes"].load().equals(0) | is_null(frame)):
            f.give(system.no(f))
        with f.when(Fields(frame, FrameLayout)["why"].load().differs(OK)):
            f.give(system.yes(f))
        asked = g.withdraw(f, own)
        with f.when(asked & g.is_main(f)):
            record["computes"].store(0)
            raised = look(f, frame)
            record["computes"].store(1)
            with f.when(raised):
                f.give(system.yes(f))
        is_cancelled = g.cancelled(f, own)
        with f.when(is_cancelled):
            g.stop(f, frame, CANCELLED)
        return is_cancelled


def _write_guard(m: NativeModule, g: Guard, record_of: NativeFunction) -> NativeFunction:
    @m.define("guard.enter", VOID, record=PTR, frame=PTR, cancellation=PTR)
    def enter(f: Function, at: Value, frame: Value, cancellation: Value) -> None:
        """Publish an execution."""
        record, fields, counts = Fields(at, Record), Fields(frame, FrameLayout), Fields(cancellation, Cancellation)
        fields["outer"].store(record["frame"].load())
        fields["cancellation"].store(cancellation)
        fields["cancelled"].store(counts["cancelled"].load("seq_cst"))
        fields["why"].store(OK)
        record["frame"].store(frame, "seq_cst")
        counts["running"].add(1)
        with f.when(g.is_main(f)):
            g.watcher.begun(f, at)

    @m.define("guard.leave", I32, record=PTR, frame=PTR)
    def leave(f: Function, at: Value, frame: Value) -> Value:
        """Remove an execution; return why it has stopped."""
        fields = Fields(frame, FrameLayout)
        outer, why = fields["outer"].load(), fields["why"].load()
        Fields(at, Record)["frame"].store(outer, "seq_cst")
        with f.when(is_null(outer)):
            g.withdraw(f, at)
        with f.when(why.differs(OK)):
            g.attention(f).sub(1)
        Fields(fields["cancellation"].load(), Cancellation)["running"].sub(1)
        return why.trunc(I32)

    @m.define(GUARD, I32, exported=True, run=PTR, args=PTR, results=PTR, temp=PTR, extra=PTR, cancellation=PTR)
    def guard(
        f: Function, run: Value, args: Value, results: Value, temp: Value, extra: Value, cancellation: Value
    ) -> Value:
        """Run a program, without the GIL; return why it has ended."""
        own = record_of(f)
        with f.when(is_null(own)):
            f.give(f.const(I32, NO_MEMORY))
        computes, frame = Fields(own, Record)["computes"], stack(f, ctypes.sizeof(FrameLayout))
        enter(f, own, frame, cancellation)
        early = g.cancelled(f, own)
        with f.when(early):
            g.stop(f, frame, CANCELLED)
        with f.when(~early):
            computes.store(1)
            f.call_pointer(run, args, results, temp, extra)
            computes.store(0)
        return leave(f, own, frame)

    return guard


def _write_host(m: NativeModule, g: Guard) -> None:
    @m.define("guard.python", I1, function=PTR, table=PTR)
    def python(f: Function, function: Value, table: Value) -> Value:
        """Call a Python object with the address of a table; return whether it raised.

        The exception stays set in this thread.
        """
        gil, arguments = f.call(I32, "PyGILState_Ensure"), system.element(f.alloca(PTR), 0, PTR)
        address = f.call(PTR, "PyLong_FromVoidPtr", table)

        def call() -> list[Value]:
            arguments.store(address)
            given = f.call(PTR, "PyObject_Vectorcall", function, arguments.address, f.const(I64, 1), null(f))
            f.call(VOID, "Py_DecRef", address)
            with f.when(~is_null(given)):
                f.call(VOID, "Py_DecRef", given)
            return [is_null(given)]

        (raised,) = f.choose(is_null(address), lambda: [system.yes(f)], call)
        f.call(VOID, "PyGILState_Release", gil)
        return raised

    @m.define(HOST, VOID, exported=True, function=PTR, table=PTR)
    def host(f: Function, function: Value, table: Value) -> None:
        """Called by a program: call a Python object.

        If it raises, the program ends. A program that is ending makes no more calls.
        """
        own = g.own(f)
        record = Fields(own, Record)
        frame = record["frame"].load()
        with f.when(Fields(frame, FrameLayout)["why"].load().differs(OK)):
            f.give()
        record["computes"].store(0)
        raised = python(f, function, table)
        record["computes"].store(1)
        with f.when(raised):
            g.stop(f, frame, RAISED)
            f.give()
        with f.when(g.cancelled(f, own)):
            g.stop(f, frame, CANCELLED)
