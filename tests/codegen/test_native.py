"""Functions that are not kernels: results, early returns, calls, variables, fields, atomics."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from xlanb.codegen import jit
from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeModule, null, stack
from xlanb.codegen.places import Fields, displaced, fence, word_at
from xlanb.codegen.types import I1, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units


class Point(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("x", ctypes.c_int64), ("next", ctypes.c_void_p))


def _module() -> NativeModule:
    return NativeModule("test", jit.host())


def _loaded(m: NativeModule, name: str, *parameters: type, result: type = ctypes.c_int64) -> Callable[..., int]:
    objects = compile_units([Unit(m.text(), ready=True, weight=0)], jit.host())
    code = jit.LoadedCode(objects, [name])
    function = ctypes.CFUNCTYPE(result, *parameters)(code.address(name))
    function.code = code  # type: ignore[attr-defined]
    return function


def test_early_returns_of_loops_and_branches() -> None:
    m = _module()

    @m.define("first.above", I64, exported=True, words=PTR, count=I64, limit=I64)
    def first_above(f: Function, words: Value, count: Value, limit: Value) -> Value:
        with f.loop(count, guarded=True) as k, f.when(word_at(words, k).load() > limit):
            f.give(f.value(k))
        return f.const(I64, -1)

    found = _loaded(m, "first.above", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    words = (ctypes.c_int64 * 5)(1, 5, 2, 9, 9)
    assert [found(words, 5, limit) for limit in (0, 3, 5, 9)] == [0, 1, 3, -1]
    assert found(words, 0, 0) == -1


def test_functions_call_one_another() -> None:
    m = _module()

    @m.define("is.odd", I1, n=I64)
    def is_odd(f: Function, n: Value) -> Value:
        return (n & 1).differs(0)

    @m.define("note", VOID, at=PTR, n=I64)
    def note(f: Function, at: Value, n: Value) -> None:
        word_at(at, 0).store(n)

    @m.define("odd", I64, exported=True, n=I64)
    def odd(f: Function, n: Value) -> Value:
        memory = stack(f, 8)
        note(f, memory, f.const(I64, 0))
        with f.when(is_odd(f, n)):
            note(f, memory, n * 10)
        return word_at(memory, 0).load()

    function = _loaded(m, "odd", ctypes.c_int64)
    assert [function(n) for n in (2, 3)] == [0, 30]


def test_fields_are_those_of_the_structure() -> None:
    m = _module()

    @m.define("swap", I64, exported=True, at=PTR)
    def swap(f: Function, at: Value) -> Value:
        point = Fields(at, Point)
        other = Fields(point["next"].load(), Point)
        point["kind"].store(other["kind"].load() + 1)
        other["next"].store(null(f))
        return displaced(at, Point.x.offset).cast("ptrtoint", I64) + point["x"].exchange(7)

    second = Point(41, 0, 5)
    first = Point(0, 100, ctypes.addressof(second))
    at = ctypes.addressof(first)
    assert _loaded(m, "swap", ctypes.c_void_p)(at) == at + Point.x.offset + 100
    assert (first.kind, first.x, second.next) == (42, 7, None)


def test_variables_and_atomic_access() -> None:
    m = _module()
    count, table = m.variable("count", I64, first=3), m.variable("table", I32, 4)

    @m.define("step", I64, exported=True, wanted=I64)
    def step(f: Function, wanted: Value) -> Value:
        place = count(f)
        before, was_set = place.compare_exchange(wanted, 10)
        with f.when(was_set):
            place.add(5)
            place.sub(1)
        fence(f)
        table(f).store(1)
        place.store(place.load("acquire"), "release")
        return before * 100 + place.load_volatile() + table(f).load().sext(I64)

    function = _loaded(m, "step", ctypes.c_int64)
    assert function(2) == 304  # 3 is not 2
    assert function(3) == 315
    assert function(3) == 1415


def test_a_result_of_another_type_is_refused() -> None:
    def wrong(f: Function) -> Value:
        return f.const(I32, 1)

    with pytest.raises(AssertionError, match="wrong gives i64, not i32 1"):
        _module().define("wrong", I64)(wrong)
