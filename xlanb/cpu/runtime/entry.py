"""The function that implements an executable's calls.

It checks the arguments against a table, allocates the results and runs the program. In unusual
cases, including a lack of memory, it calls a Python function that explains or copies.

Invariants
- Ownership: arguments belong to the caller; results are new references until they are returned or
  dropped. The table keeps one free arena: whoever takes it (`exchange`) owns it until it is put
  back; an arena returned to a table that has one is freed.
- Threads: any number of threads may run it. All but the program itself runs with the GIL;
  `RELEASES_GIL` means that the program runs without, under the guard.
- Signals: handlers run in a poll of the program, or when Python continues after the call.
"""

from __future__ import annotations

import ctypes

from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeFunction, NativeModule, null
from xlanb.codegen.places import Fields, Place, displaced
from xlanb.codegen.types import I1, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.runtime import guard, system
from xlanb.cpu.runtime.layouts import (
    ENTRY_BYTES,
    GIVES_TUPLE,
    RELEASES_GIL,
    EntryLayout,
    PyArrayObject,
    TableLayout,
)
from xlanb.cpu.runtime.system import element, is_null
from xlanb.lazy_dataclass import dataclass

CALL, ENTRY = "xlanb.call", "xlanb.entry"
_READABLE = 0x101
"""NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED."""
_ARENA_HUGE = 4 << 20
"""Bytes from which on an arena uses huge pages."""
_LARGE_PAGE, _LINE = 2 << 20, 64
_UNUSUAL, _TABLE, _MESSAGE = 0, 1, 3
"""Indices in the tuple that is an entry's self: the Python function of the slow path, the table's
address, (the table), the message of CancelledError."""


def write(m: NativeModule, guarded: NativeFunction, place: NativeFunction, result: NativeFunction) -> None:
    """Emit `xlanb.call` and `xlanb.entry`."""
    run = _write_call(m, guarded)
    accept = _write_accept(m)
    parts = _Parts(place, result, accept, _write_arena(m), run, _write_drop(m), _write_fail(m))
    _write_entry(m, parts)


@dataclass(frozen=True)
class _Parts:
    place: NativeFunction
    result: NativeFunction
    accept: NativeFunction
    arena: NativeFunction
    call: NativeFunction
    drop: NativeFunction
    fail: NativeFunction


def _write_call(m: NativeModule, guarded: NativeFunction) -> NativeFunction:
    @m.define(CALL, I32, exported=True, run=PTR, args=PTR, results=PTR, temp=PTR, extra=PTR, cancellation=PTR)
    def call(
        f: Function, run: Value, args: Value, results: Value, temp: Value, extra: Value, cancellation: Value
    ) -> Value:
        """Run a program without the GIL; return why it ended (see guard.py)."""
        state = f.call(PTR, "PyEval_SaveThread")
        status = guarded(f, run, args, results, temp, extra, cancellation)
        f.call(VOID, "PyEval_RestoreThread", state)
        return status

    return call


def _write_arena(m: NativeModule) -> NativeFunction:
    @m.define("arena.new", PTR, size=I64)
    def new(f: Function, size: Value) -> Value:
        """Allocate an arena; null if there is no memory."""
        huge = size.uge(_ARENA_HUGE)
        place = Place(f.alloca(PTR), PTR)
        alignment = huge.select(f.const(I64, _LARGE_PAGE), _LINE)
        with f.when(f.call(I32, "posix_memalign", place.address, alignment, size).differs(0)):
            f.give(null(f))
        memory = place.load()
        with f.when(huge):
            system.advise_huge(f, memory, size)
        return memory

    @m.define("arena", PTR, table=PTR)
    def arena(f: Function, at: Value) -> Value:
        """Take the arena that a table keeps, or allocate one; null if there is no memory."""
        table = Fields(at, TableLayout)
        kept = table["free_arena"].exchange(0, "acq_rel")
        with f.when(kept.differs(0)):
            f.give(kept.cast("inttoptr", PTR))
        return new(f, table["arena_bytes"].load())

    return arena


def _write_accept(m: NativeModule) -> NativeFunction:
    ndarray = m.external("ndarray")

    @m.define("accept", I1, object=PTR, at=PTR)
    def accept(f: Function, given: Value, at: Value) -> Value:
        """Whether an object is an array that matches an `EntryLayout` and can be read in place."""
        array, entry = Fields(given, PyArrayObject), Fields(at, EntryLayout)

        def refuse_unless(condition: Value) -> None:
            with f.when(~condition):
                f.give(system.no(f))

        refuse_unless(array["ob_type"].load().equals(ndarray.address(f)))
        rank = entry["rank"].load()
        fits = array["descr"].load().equals(entry["dtype"].load()) & array["nd"].load().sext(I64).equals(rank)
        refuse_unless(fits & (array["flags"].load() & _READABLE).equals(_READABLE))
        wanted, shape = entry["dimensions"].load(), array["dimensions"].load()
        with f.loop(rank, guarded=True) as d:
            refuse_unless(element(wanted, d, I64).load().equals(element(shape, d, I64).load()))
        return system.yes(f)

    return accept


def _write_drop(m: NativeModule) -> NativeFunction:
    @m.define("drop", VOID, objects=PTR, count=I64)
    def drop(f: Function, objects: Value, count: Value) -> None:
        """Release references."""
        with f.loop(count, guarded=True) as k:
            f.call(VOID, "Py_DecRef", element(objects, k, PTR).load())

    return drop


def _write_fail(m: NativeModule) -> NativeFunction:
    cancelled_error = m.external("cancelled_error")

    @m.define("fail", I1, own=PTR, status=I32)
    def fail(f: Function, self: Value, status: Value) -> Value:
        """Set the exception of a cancelled program; return false if memory ran out.

        Python code reports the latter.
        """
        with f.when(status.equals(guard.CANCELLED)):
            message = f.call(PTR, "PyTuple_GetItem", self, f.const(I64, _MESSAGE))
            f.call(VOID, "PyErr_SetObject", cancelled_error.address(f), message)
        return status.differs(guard.NO_MEMORY)

    return fail


@dataclass(frozen=True)
class _EntryCall:
    """One call being emitted: the table, and the arrays of pointers on the stack."""

    f: Function
    self: Value
    table: Fields
    given: Value
    count: Value

    def unusual(self) -> Value:
        """Pass the call to Python."""
        f = self.f
        function = f.call(PTR, "PyTuple_GetItem", self.self, f.const(I64, _UNUSUAL))
        return f.call(PTR, "PyObject_Vectorcall", function, self.given, self.count, null(f))

    def words(self, count: Value) -> Value:
        """Stack memory for a number of pointers."""
        return self.f.stack_bytes((count << 3) + 8)

    def entry(self, number: Value) -> Value:
        """The `EntryLayout` of an array by its number, arguments first."""
        return displaced(self.table.base, number * ENTRY_BYTES + ctypes.sizeof(TableLayout))


def _write_entry(m: NativeModule, parts: _Parts) -> None:
    @m.define(ENTRY, PTR, exported=True, own=PTR, given=PTR, count=I64)
    def entry(f: Function, self: Value, given: Value, count: Value) -> Value:
        number = f.call(PTR, "PyTuple_GetItem", self, f.const(I64, _TABLE))
        table = Fields(f.call(PTR, "PyLong_AsVoidPtr", number), TableLayout)
        call = _EntryCall(f, self, table, given, count)
        arguments, results = table["arguments"].load(), table["results"].load()
        with f.when(arguments.differs(count)):
            f.give(call.unusual())
        args, places, objects = call.words(arguments), call.words(results), call.words(results)
        _check_arguments(call, parts, args)
        made = _make_results(call, parts, arguments, args, places, objects)
        with f.when(made.differs(results)):
            parts.drop(f, objects, made)
            f.call(VOID, "PyErr_Clear")
            f.give(call.unusual())
        _run(call, parts, args, places, objects, results)
        return _give_results(call, objects, results, parts)


def _check_arguments(call: _EntryCall, parts: _Parts, args: Value) -> None:
    """Store the arguments' addresses; if one does not fit, pass the call to Python."""
    f = call.f
    with f.loop(call.count, guarded=True) as index:
        k = f.value(index)
        given = element(call.given, k, PTR).load()
        with f.when(~parts.accept(f, given, call.entry(k))):
            f.give(call.unusual())
        element(args, k, PTR).store(Fields(given, PyArrayObject)["data"].load())


def _make_results(
    call: _EntryCall, parts: _Parts, arguments: Value, args: Value, places: Value, objects: Value
) -> Value:
    """Allocate the results, up to the first for which there is no memory; return their count."""
    f = call.f
    place = parts.place(f, call.entry(f.const(I64, 0)), args, arguments)
    results = call.table["results"].load()
    with f.rounds([f.const(I64, 0)], guard=results.differs(0)) as loop:
        j = loop.values[0]
        made = parts.result(f, call.entry(arguments + j), place)
        failed = is_null(made)
        with f.when(~failed):
            element(objects, j, PTR).store(made)
            element(places, j, PTR).store(Fields(made, PyArrayObject)["data"].load())
        following = failed.select(j, j + 1)
        loop.next, loop.again = [following], ~failed & following.ult(results)
    return loop.values[0]


def _run(call: _EntryCall, parts: _Parts, args: Value, places: Value, objects: Value, results: Value) -> None:
    """Run the program with an arena; if it does not end normally, end the call here."""
    f, table = call.f, call.table

    def give_up(explain: bool) -> None:
        parts.drop(f, objects, results)
        if explain:
            f.call(VOID, "PyErr_Clear")
        f.give(call.unusual() if explain else null(f))

    needed = table["arena_bytes"].load().differs(0)
    (temp,) = f.choose(needed, lambda: [parts.arena(f, table.base)], lambda: [null(f)])
    with f.when(needed & is_null(temp)):
        give_up(explain=True)
    run, steps = table["run"].load(), table["steps"].load()
    released = (table["flags"].load() & RELEASES_GIL).differs(0)

    def under_guard() -> list[Value]:
        cancellation = displaced(table.base, TableLayout.cancelled.offset)
        return [parts.call(f, run, args, places, temp, steps, cancellation)]

    def directly() -> list[Value]:
        f.call_pointer(run, args, places, temp, steps)
        return [f.const(I32, guard.OK)]

    (status,) = f.choose(released, under_guard, directly)
    with f.when(needed):
        before = table["free_arena"].exchange(temp.cast("ptrtoint", I64), "acq_rel")
        f.call(VOID, "free", before.cast("inttoptr", PTR))
    with f.when(status.differs(guard.OK)):
        with f.when(parts.fail(f, call.self, status)):
            give_up(explain=False)
        give_up(explain=True)


def _give_results(call: _EntryCall, objects: Value, results: Value, parts: _Parts) -> Value:
    """Return the only result, or the tuple of all."""
    f = call.f
    with f.when((call.table["flags"].load() & GIVES_TUPLE).equals(0)):
        f.give(element(objects, 0, PTR).load())
    packed = f.call(PTR, "PyTuple_New", results)
    with f.when(is_null(packed)):
        parts.drop(f, objects, results)
        f.give(null(f))
    with f.loop(results, guarded=True) as k:
        f.call(I32, "PyTuple_SetItem", packed, f.value(k), element(objects, k, PTR).load())
    return packed
