"""From IR to object code: separate modules, kernels shared by instructions, the disk cache."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import xlanb
from tests.cpu.test_attention import Program
from xlanb.codegen import jit, translation
from xlanb.codegen.cpus import thread_count
from xlanb.codegen.deep import deep
from xlanb.cpu import library, objects
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.machine import limits
from xlanb.cpu.object_cache import ObjectCache
from xlanb.cpu.runtime.bridge import bridge
from xlanb.errors import CompilationError, FlagError
from xlanb.threads import active

CHAIN = """HloModule chain

ENTRY main {
  x = f32[64]{0} parameter(0)
  y = f32[64]{0} parameter(1)
  a = f32[64]{0} add(x, y)
  t = f32[64]{0} tanh(a)
  b = f32[64]{0} add(t, y)
  u = f32[64]{0} tanh(b)
  ROOT c = f32[64]{0} add(u, x)
}
"""


def test_kernels_that_differ_in_their_names_alone_are_compiled_once(backend):
    exe = backend(CHAIN)
    x, y = np.linspace(-1, 1, 64, dtype=np.float32), np.linspace(0, 2, 64, dtype=np.float32)
    np.testing.assert_allclose(exe(x, y), np.tanh(np.tanh(x + y) + y) + x, rtol=1e-5)
    compiled = "".join(u.text for u in exe.program.units())
    assert compiled.count("define internal void @") < 5
    assert {i.name for i in exe.kernels.values()} == {"a", "t", "b", "u", "c"}
    assert exe.llvm_ir.count("define internal void @") == 5
    assert sorted(exe.profile(x, y)["instruction"]) == ["a", "b", "c", "t", "u"]


def _module(name: str, body: str) -> str:
    target = jit.host()
    head = f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.triple}"\n'
    return f"{head}define void @{name}(ptr %a) {{\n{body}\n  ret void\n}}\n"


def test_programs_have_the_same_text_of_a_routine(backend):
    """A routine's declarations have its own order, not the program's: it is compiled once."""
    product = "ENTRY e { a = f32[96,96] parameter(0) ROOT r = f32[96,96] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    window = """ENTRY e {
  x = f32[1,56,56,64] parameter(0)
  k = f32[3,3,64,64] parameter(1)
  ROOT r = f32[1,56,56,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}"""
    made = [backend(f"HloModule m\n{text}").program.units() for text in (product, window)]
    first, second = ({u.shared: u.text for u in units if u.shared} for units in made)
    assert "xlanb.walk" in first.keys() & second.keys()
    assert all(first[name] == second[name] for name in first.keys() & second.keys())


def test_modules_call_one_another_and_reach_what_is_given():
    number = np.array([41], np.int64)
    add = "  %v = load i64, ptr @given\n  store i64 %v, ptr %a"
    call = "  call void @get(ptr %a)"
    units = [
        Unit(_module("get", add) + "@given = external constant i64\n", ready=False, weight=1000),
        Unit(_module("run", call) + "declare void @get(ptr)\n", ready=True, weight=1000),
    ]
    made = objects.compile_units(units, jit.host())
    code = jit.LoadedCode(made, ["run"], {"given": number.ctypes.data}, number)
    out = np.zeros(1, np.int64)
    code.function("run", 1)(out.ctypes.data)
    assert out[0] == 41


def test_code_that_llvm_refuses_and_symbols_that_are_missing_are_errors():
    broken = Unit(_module("run", "  %v = add i64 %undefined, 1"), ready=True, weight=1)
    with pytest.raises(CompilationError, match="undefined"):
        objects.compile_units([broken], jit.host())
    many = [Unit(_module(f"f{k}", "  %v = add i64 %undefined, 1"), ready=True, weight=1000) for k in range(3)]
    with pytest.raises(CompilationError, match="undefined"):
        objects.compile_units(many, jit.host())
    calls = Unit(_module("run", "  call void @xlanb_nowhere()") + "declare void @xlanb_nowhere()\n", True, 1)
    with pytest.raises(CompilationError, match="cannot be loaded"):
        jit.LoadedCode(objects.compile_units([calls], jit.host()), ["run"])


# -- the cache -------------------------------------------------------------------------------------


def test_what_is_in_the_cache_is_not_compiled_again(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    x = np.ones(64, np.float32)
    want = backend(CHAIN)(x, x)
    assert list(tmp_path.glob("*.o"))

    def never(*_: object, **__: object) -> bytes:
        raise CompilationError("compiled again")

    monkeypatch.setattr(objects, "compile_unit", never)
    np.testing.assert_array_equal(backend(CHAIN)(x, x), want)
    monkeypatch.setenv("XLANB_CACHE_DIR", "")
    with pytest.raises(CompilationError, match="compiled again"):
        backend(CHAIN)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda _: b"", lambda d: d[:-1] + bytes([d[-1] ^ 1])])
def test_a_damaged_entry_is_a_miss(tmp_path, damage):
    cache = ObjectCache(tmp_path, jit.host())
    cache.put("text", b"object", ready=True)
    assert cache.get("text", ready=True) == b"object"
    assert cache.get("text", ready=False) is None
    (entry,) = tmp_path.glob("*.o")
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.get("text", ready=True) is None


_DOT = """HloModule m
ENTRY e {
  a = f32[64,128] parameter(0)
  b = f32[128,96] parameter(1)
  c = f32[64,96] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[64,96] tanh(c)
}"""


def test_routines_are_kept_in_the_users_folder_and_programs_are_not(backend, tmp_path, monkeypatch):
    bridge()  # once per process; its object would be stored too if this test were the first to need it
    monkeypatch.delenv("XLANB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "_ROUTINES", {})
    x, y = np.ones((64, 128), np.float32), np.ones((128, 96), np.float32)
    exe = backend(_DOT)
    want = exe(x, y)
    folder = tmp_path / "xlanb" / "routines"
    shared = [u for u in exe.program.parts()[0] if u.shared]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == len(shared) > 0
    compiled = []
    known = objects.compile_unit
    monkeypatch.setattr(objects, "compile_unit", lambda u, *a, **k: (compiled.append(u), known(u, *a, **k))[1])
    library._ROUTINES.clear()
    np.testing.assert_array_equal(backend(_DOT)(x, y), want)
    assert not [u for u in compiled if u.shared or u.everywhere]
    assert compiled


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_may_write_to_is_left_alone(tmp_path, monkeypatch, mode):
    monkeypatch.delenv("XLANB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ObjectCache.of_routines(jit.host()) is not None
    (tmp_path / "xlanb" / "routines").chmod(mode)
    assert ObjectCache.of_routines(jit.host()) is None


def test_no_folder_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", "relative", tmp_path / "file" / "below"):
        monkeypatch.delenv("XLANB_CACHE_DIR", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        assert ObjectCache.of_routines(jit.host()) is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XLANB_CACHE_DIR", "")
    assert ObjectCache.of_routines(jit.host()) is None


def test_the_cache_keeps_within_its_limit_and_drops_the_oldest(tmp_path):
    cache = ObjectCache(tmp_path, jit.host(), limit=3000)
    for k in range(4):
        cache.put(f"text {k}", bytes(900), ready=True)
        for path in tmp_path.glob("*.o"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10))
    kept = [k for k in range(4) if cache.get(f"text {k}", ready=True) is not None]
    assert kept == [1, 2, 3]
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    cache = ObjectCache(Path(file), jit.host())
    cache.put("text", b"object", ready=True)
    assert cache.get("text", ready=True) is None


def test_ir_that_llvm_refuses_is_told_with_its_message():
    target = jit.host()
    for text, told in (("define void @f( {", "expected type"), ("define i32 @f() {\n  ret void\n}", "i32")):
        with pytest.raises(CompilationError, match=f"(?s)LLVM rejects the IR.*{told}"):
            objects.compile_unit(Unit(text, ready=True, weight=0), target)


def test_ir_that_parses_but_breaks_a_rule_is_refused():
    text = "define void @f() {\nentry:\n  br label %b\na:\n  %x = add i32 1, 2\n  br label %b\nb:\n  %y = add i32 %x, 1\n  ret void\n}"
    with pytest.raises(CompilationError, match="does not dominate"):
        objects.compile_unit(Unit(text, ready=True, weight=0), jit.host())


# -- failures --------------------------------------------------------------------------------------


def _heavy(count: int) -> list[Unit]:
    body = "  %v = load i64, ptr %a\n  %w = add i64 %v, 1\n  store i64 %w, ptr %a"
    return [Unit(_module(f"f{k}", body), ready=True, weight=1000) for k in range(count)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, CompilationError])
@pytest.mark.parametrize("threads", [1, 2])
def test_after_a_unit_has_failed_the_next_compile_is_right(monkeypatch, error, threads):
    target = replace(jit.host(), threads=threads)

    def failing(machine: int, module: int, **_: bool) -> bytes:
        raise error("in one unit")

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(translation, "_emit", failing)
            with pytest.raises(error, match="in one unit"):
                objects.compile_units(_heavy(4), target)
        gc.collect()
    code = jit.LoadedCode(objects.compile_units(_heavy(4), target), ["f3"])
    number = np.array([41], np.int64)
    code.function("f3", 1)(number.ctypes.data)
    assert number[0] == 42


def test_a_failed_unit_lets_no_thread_begin_another(monkeypatch):
    begun = []

    def failing(unit: Unit, target: object) -> bytes:
        begun.append(unit)
        raise CompilationError("no")

    monkeypatch.setattr(objects, "compile_unit", failing)
    with pytest.raises(CompilationError, match="no"):
        objects.compile_units(_heavy(20), replace(jit.host(), threads=2))
    assert 1 <= len(begun) <= 2


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_to_be_done_meanwhile_is_done_once(threads):
    target, done = replace(jit.host(), threads=threads), []
    for units in (_heavy(2), _heavy(1), []):
        assert len(objects.compile_units(units, target, partial(done.append, len(units)))) == len(units)
    assert done == [2, 1, 0]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_meanwhile_leaves_no_thread_behind(threads):
    target = replace(jit.host(), threads=threads)
    with pytest.raises(ZeroDivisionError):
        objects.compile_units(_heavy(8), target, lambda: 1 // 0)
    assert active() == []


def test_without_threads_one_compiles_everything(monkeypatch):
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(_thread, "start_new_thread", start)
    target = replace(jit.host(), threads=2)
    assert len(objects.compile_units(_heavy(3), target)) == 3
    with pytest.raises(CompilationError, match=r"nests too deep.*ulimit"):
        deep(lambda: int("no") if sys.getrecursionlimit() > 100_000 else _raise_recursion())


def _raise_recursion() -> None:
    raise RecursionError


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library does not count its memory")
def test_memory_of_libraries_that_are_gone_is_given_back():
    class Counts(ctypes.Structure):
        _fields_ = tuple((f"n{k}", ctypes.c_size_t) for k in range(10))

    counts = ctypes.CDLL(None).mallinfo2
    counts.restype = Counts

    def in_use() -> int:
        return int(counts().n7)

    (made,) = objects.compile_units(_heavy(1), jit.host())
    for _ in range(100):
        jit.LoadedCode([made], ["f0"])
    before, rounds = in_use(), 640
    for _ in range(rounds):
        jit.LoadedCode([made], ["f0"])
    assert (in_use() - before) / rounds < 2000


def test_code_outlives_the_linkers_that_come_after_its_own():
    (made,) = objects.compile_units(_heavy(1), jit.host())
    first = jit.LoadedCode([made], ["f0"]).function("f0", 1)
    for _ in range(100):
        jit.LoadedCode([made], ["f0"])
    gc.collect()
    number = np.array([1], np.int64)
    first(number.ctypes.data)
    assert number[0] == 2


# -- other users' folders --------------------------------------------------------------------------

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")


@posix
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o1777])
def test_a_named_folder_that_others_may_write_to_is_not_used_and_told_once(tmp_path, monkeypatch, caplog, mode):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("XLANB_CACHE_DIR", str(folder))
    for _ in range(3):
        assert ObjectCache.of_environment(jit.host()) is None
    (record,) = caplog.records
    assert f"chmod 700 {folder}" in record.getMessage()
    limits(1)
    assert not list(folder.iterdir())
    folder.chmod(0o700)
    assert ObjectCache.of_environment(jit.host()) is not None


@posix
def test_the_folder_of_another_user_is_not_used(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert ObjectCache.of_environment(jit.host()) is None
    assert "writable by other users" in caplog.text


@posix
def test_an_entry_of_others_is_a_miss(tmp_path, monkeypatch):
    cache = ObjectCache(tmp_path, jit.host())
    cache.put("text", b"object", ready=True)
    (entry,) = tmp_path.glob("*.o")
    for mode in (0o602, 0o620):
        entry.chmod(mode)
        assert cache.get("text", ready=True) is None
    entry.chmod(0o600)
    assert cache.get("text", ready=True) == b"object"
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: entry.stat().st_uid + 1)
        assert cache.get("text", ready=True) is None
    elsewhere = tmp_path / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)
    assert cache.get("text", ready=True) is None
    entry.unlink()
    os.mkfifo(entry)  # no reader blocks on a pipe
    assert cache.get("text", ready=True) is None


def test_an_entry_under_another_name_is_a_miss(tmp_path):
    cache = ObjectCache(tmp_path, jit.host())
    cache.put("text", b"object", ready=True)
    (entry,) = tmp_path.glob("*.o")
    content = entry.read_bytes()
    cache.put("another", b"another object", ready=True)
    (other,) = set(tmp_path.glob("*.o")) - {entry}
    other.write_bytes(content)
    assert cache.get("another", ready=True) is None


@pytest.mark.parametrize("text", ["1G", "-1", "1.5", "²"])
def test_a_size_that_is_no_number_is_a_flag_error(tmp_path, monkeypatch, text):
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XLANB_CACHE_BYTES", text)
    with pytest.raises(FlagError, match=r"XLANB_CACHE_BYTES: expected a whole number"):
        ObjectCache.of_environment(jit.host())
    monkeypatch.setenv("XLANB_NUM_THREADS", text)
    with pytest.raises(FlagError, match=r"XLANB_NUM_THREADS: expected a whole number"):
        thread_count()


@pytest.mark.parametrize(("count", "level"), [(100, objects.LEVEL), (5000, 0)])
def test_long_blocks_are_compiled_at_level_0(monkeypatch, count, level):
    used = []
    translate = objects.translate

    def noting(text, model, *rest):
        used.append(model.level)
        return translate(text, model, *rest)

    monkeypatch.setattr(objects, "translate", noting)
    lines = "".join(f"  %v{k} = xor i32 %v{k - 1}, {k}\n" for k in range(1, count))
    text = f"define i32 @f(i32 %v0) {{\n{lines}  ret i32 %v{count - 1}\n}}\n"
    objects.compile_unit(Unit(text, ready=True, weight=count), jit.host())
    assert used == [level]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("define void @f() {\n" + "  call void @g()\n" * 5000 + "  ret void\n}\n", True),
        (("define void @f() {\n" + "  call void @g()\n" * 50 + "  ret void\n}\n") * 100, False),
        ("define void @f() {\n" + ("  br label %a\na:\n" + "  call void @g()\n" * 50) * 100 + "}\n", False),
    ],
)
def test_blocks_end_at_labels_and_functions(text, expected):
    assert objects._has_long_block(text) is expected


@pytest.mark.skipif(thread_count() < 2, reason="nothing is compiled ahead on one processor")
def test_a_heavy_kernel_is_compiled_once_while_others_are_emitted(monkeypatch):
    compiled: list[tuple[str, int]] = []
    started: list[Unit] = []
    real, start = objects.compile_unit, objects.Ahead.start

    def counted(unit: Unit, *args, **named) -> bytes:
        compiled.append((unit.text, threading.get_ident()))
        return real(unit, *args, **named)

    def noted(self: objects.Ahead, unit: Unit) -> None:
        started.append(unit)
        start(self, unit)

    monkeypatch.setattr(objects, "compile_unit", counted)
    monkeypatch.setattr(objects.Ahead, "start", noted)
    program = Program(heads=4, queries=128, keys=128, depth=32, width=32)
    exe = xlanb.compile(program.text)
    (unit,) = started
    (thread,) = [ident for text, ident in compiled if text == unit.text]
    assert thread != threading.get_ident()
    assert unit.text in [u.text for u in exe.program.parts()[0]]
    arrays = program.arrays()
    np.testing.assert_allclose(exe(*arrays), xlanb.evaluate(program.text, *arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(thread_count() < 2, reason="nothing is compiled ahead on one processor")
def test_what_llvm_rejects_ahead_is_said_where_it_is_wanted():
    ahead = objects.Ahead(replace(jit.host(), threads=2))
    wrong = Unit(_module("wrong", "  %x = add i32 1, %nowhere"), ready=True, weight=1)
    ahead.start(wrong)
    with pytest.raises(CompilationError, match="nowhere"):
        objects.compile_units([wrong], jit.host(), None, ahead)


def test_one_thread_compiles_nothing_ahead():
    ahead = objects.Ahead(replace(jit.host(), threads=1))
    unit = Unit(_module("plain", ""), ready=True, weight=1)
    ahead.start(unit)
    assert not ahead.has(unit)
    assert len(objects.compile_units([unit], jit.host(), None, ahead)) == 1
