"""Programs that are a table of steps for one routine, instead of a function that calls kernels."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.codegen import jit
from xlanb.codegen.function import PARALLEL, Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.types import I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu import compiler
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.codegen.static_calls import DIRECT, StaticCall, Word, static_calls
from xlanb.cpu.codegen.steps import ARGS, CONSTANTS, STEPS, TABLE, TEMP, Address
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.executable import Executable

_SHARED = """HloModule m
ENTRY e {
  a = f32[1024,1024] parameter(0)
  ROOT s = f32[1024,1024] tanh(a)
}"""
_MIXED = """HloModule m
less { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=LT }
ENTRY e {
  a = f32[1024,1000] parameter(0)
  b = f32[40] parameter(1)
  s = f32[1024,1000] exponential(a)
  t = f32[1000,1024] transpose(s), dimensions={1,0}
  k = f32[40] constant({0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9})
  r = f32[40] reverse(k), dimensions={0}
  u = f32[40] sort(b), dimensions={0}, to_apply=less
  v = f32[40] multiply(u, r)
  ROOT out = (f32[1000,1024], f32[40]) tuple(t, v)
}"""
_SMALL = """HloModule m
ENTRY e {
  a = f32[16] parameter(0)
  b = f32[16] sine(a)
  c = f32[4,4] reshape(b)
  ROOT d = f32[4,4] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def _compiled(text: str) -> Executable:
    exe = xlanb.compile(text)
    if exe.target.threads < 2 or not exe.target.explicit_vectors:
        pytest.skip("one thread has no parts")
    return exe


def _modules(exe: Executable) -> tuple[list[Unit], list[Unit]]:
    """The modules of a program that are its own, and the shared ones."""
    units = exe.program.units()
    own = [u for u in units if not u.shared and not u.everywhere]
    return own, [u for u in units if u not in own]


def test_a_kernel_that_threads_share_is_all_there_is() -> None:
    exe = _compiled(_SHARED)
    own, others = _modules(exe)
    assert len(own) == 1
    assert own[0].text.count("define ") == 1
    assert f"@{TABLE} = constant" in own[0].text
    assert {u.shared for u in others} == {"", STEPS}
    x = np.linspace(-4, 4, 1 << 20, dtype=np.float32).reshape(1024, 1024)
    np.testing.assert_allclose(exe(x), np.tanh(x), rtol=1e-5)


def test_kernels_of_one_thread_and_constants_are_steps_too() -> None:
    exe = _compiled(_MIXED)
    own, _ = _modules(exe)
    assert not any("@run(" in u.text for u in own)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1024, 1000)).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    first, second = exe(a, b)
    want = np.array([*range(10)] * 4, np.float32)[::-1]
    np.testing.assert_allclose(first, np.exp(a).T, rtol=1e-5)
    np.testing.assert_array_equal(second, np.sort(b) * want)


def test_what_threads_do_not_share_is_called_directly() -> None:
    own, others = _modules(_compiled(_SMALL))
    assert any("define void @run(" in u.text for u in own)
    assert not others or all(u.shared != STEPS for u in others)


def test_saved_code_has_its_table_and_the_routine(tmp_path: Path) -> None:
    exe = _compiled(_SHARED)
    exe.save(tmp_path / "m.xlanb")
    x = np.linspace(-4, 4, 1 << 20, dtype=np.float32).reshape(1024, 1024)
    np.testing.assert_array_equal(xlanb.load(tmp_path / "m.xlanb")(x), exe(x))


@pytest.mark.parametrize("name", ["exponential_transpose_fusion", "v"])
def test_a_kernel_that_needs_passes_is_a_step_of_another_module(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def emitted(*args: Any, **options: Any) -> Program:
        made = emit_program(*args, **options)
        f = next(f for f in made.module.functions if f.name == name)
        f.ready, f.written = False, None
        return made

    monkeypatch.setattr(compiler, "emit_program", emitted)
    exe = _compiled(_MIXED)
    own, _ = _modules(exe)
    assert any(f"@{TABLE} = constant" in u.text for u in own)
    called = f"{name}.part" if name.startswith("exponential") else f"{name}.body"
    assert [f"define void @{called}(" in u.text for u in own if not u.ready] == [True]
    assert not any(f"define void @{name}" in u.text for u in own if u.ready)
    a, b = np.ones((1024, 1000), np.float32), np.arange(40, 0, -1, dtype=np.float32)
    expected = [np.exp(a).T, np.sort(b) * (np.arange(40)[::-1] % 10)]
    exe.save(tmp_path / "m.xlanb")
    for run in (exe, xlanb.load(tmp_path / "m.xlanb")):
        for found, value in zip(run(a, b), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5)


def test_the_names_of_the_table_and_the_routine_may_be_those_of_instructions() -> None:
    text = _MIXED.replace("u = f32", f"{TABLE} = f32").replace("(u,", f"({TABLE},")
    text = text.replace("v = f32", f"{STEPS} = f32").replace(" v)", f" {STEPS})")
    a, b = np.ones((1024, 1000), np.float32), np.ones(40, np.float32)
    np.testing.assert_array_equal(_compiled(text)(a, b)[1], np.array([*range(10)] * 4, np.float32)[::-1])


def test_a_program_of_one_kernel_is_one_function(backend) -> None:
    """Its pointers come from tables, from a constant the program keeps, and from scratch."""
    values = np.arange(2000, dtype=np.float32)
    text = f"HloModule m\nENTRY e {{\n  x = f32[2000] parameter(0)\n  c = f32[2000] constant({{{','.join(map(str, values.astype(int)))}}})\n  ROOT r = f32[2000] add(x, c)\n}}"
    exe = backend(text)
    (unit,) = exe.program.units()
    assert unit.text.count("define ") == 1
    assert "call void" not in unit.text
    np.testing.assert_array_equal(exe(values), 2 * values)


def test_scratch_of_the_only_kernel_lies_at_a_cache_line(backend) -> None:
    sort = "HloModule m\nless {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT c = pred[] compare(p, q), direction=LT\n}\n"
    exe = backend(
        sort
        + "ENTRY e {\n  x = f32[3000] parameter(0)\n  ROOT r = f32[3000] sort(x), dimensions={0}, is_stable=true, to_apply=less\n}"
    )
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    np.testing.assert_array_equal(exe(x), np.sort(x))


def test_addresses_are_the_same_pointers_in_another_function() -> None:
    value = Value(None, PTR, "%v1")
    assert Address(value, ARGS, 2, 64).lines("p0") == [
        "  %p0.at = getelementptr ptr, ptr %args, i64 2",
        "  %p0.base = load ptr, ptr %p0.at",
        "  %p0 = getelementptr i8, ptr %p0.base, i64 64",
    ]
    assert Address(value, TEMP, 0, 128).lines("p1") == ["  %p1 = getelementptr i8, ptr %temp, i64 128"]
    assert Address(value, CONSTANTS, "c").by(value, 63, -64).lines("p2") == [
        "  %p2.beyond = getelementptr i8, ptr @c, i64 63",
        "  %p2 = call ptr @llvm.ptrmask.p0.i64(ptr %p2.beyond, i64 -64)",
    ]


def _kernel() -> Function:
    module = ModuleBuilder("m", jit.host())
    f = module.function("k", [Parameter(PTR, "p0"), Parameter(PTR, "p1")], "nounwind", "k")
    f.ready = f.calls_only = f.goes_on = True
    return f


def _context(f: Function, *words: Value) -> Value:
    stack = f.alloca(PTR, len(words))
    for k, word in enumerate(words):
        f.store(word, Pointer(stack, I64).address(k))
    return stack


def test_a_kernel_of_calls_is_read_as_data() -> None:
    f = _kernel()
    a, b = (f.argument(p) for p in f.parameters)
    further = Pointer(a, I32).address(5)
    f.call_own("xlanb.lines", further, b, b, f.symbol("table"))
    stack = _context(f, f.symbol("table"), displaced(further, -8), f.const(I64, -3))
    f.call_own("xlanb.walk", stack, f.zero(I64), f.value(7), f.zero(I64))
    f.store(b, displaced(stack, 8))  # earlier calls keep their words
    f.call_own(PARALLEL, f.symbol("xlanb.walk"), stack, f.value(9), f.value(4), f.value(2))
    assert static_calls(f) == (
        StaticCall("xlanb.lines", (Word(0, 20), Word(1, 0), Word(1, 0), Word("table", 0)), 0, 0, DIRECT),
        StaticCall("xlanb.walk", (Word("table", 0), Word(0, 12), Word(None, -3)), 7, 0, 0),
        StaticCall("xlanb.walk", (Word("table", 0), Word(1, 0), Word(None, -3)), 9, 4, 2),
    )


@pytest.mark.parametrize("what", ["load", "loop", "number", "hole", "nothing", "heavy"])
def test_other_kernels_have_code(what: str) -> None:
    f = _kernel()
    a, b = (f.argument(p) for p in f.parameters)
    if what != "nothing":
        f.call_own("xlanb.lines", a, b, b, f.symbol("table"))
    if what == "load":  # an address loaded from memory
        f.call_own("xlanb.lines", Pointer(a, PTR)[0], b, b, b)
    elif what == "loop":
        with f.loop(f.value(3)):
            f.call_own("xlanb.lines", a, b, b, b)
    elif what == "number":  # not a form of these calls
        f.call_own("xlanb.rows", a, f.value(3), b)
    elif what == "hole":  # an uninitialized word
        stack = f.alloca(PTR, 2)
        f.store(a, displaced(stack, 8))
        f.call_own("xlanb.walk", stack, f.zero(I64), f.value(7), f.zero(I64))
    f.calls_only = what != "heavy"
    assert static_calls(f) is None


def _dots(rows: int, columns: int) -> str:
    return f"""HloModule m
ENTRY e {{
  a = f32[{rows},40] parameter(0)
  b = f32[40,{columns}] parameter(1)
  k = f32[{columns},5] constant({{{", ".join("{" + ",".join(str(r + c) for c in range(5)) + "}" for r in range(columns))}}})
  c = f32[{rows},{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT d = f32[{rows},5] dot(c, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""


@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (40, 30), (700, 900)])
def test_products_are_data_alone(rows: int, columns: int, tmp_path: Path) -> None:
    """Of one thread and of two, with constants in the table and in separate memory, and saved.

    In a saved one the table is an LLVM global.
    """
    exe = xlanb.compile(_dots(rows, columns))
    own, _ = _modules(exe)
    if exe.calls.code.table:
        assert not any("define void @d" in u.text or "define void @c" in u.text for u in own)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, 40)).astype(np.float32), rng.standard_normal((40, columns)).astype(np.float32)
    k = np.add.outer(np.arange(columns), np.arange(5))
    np.testing.assert_allclose(exe(a, b), a.astype(np.float64) @ b @ k, rtol=1e-3, atol=1e-1)
    exe.save(tmp_path / "m.xlanb")
    np.testing.assert_array_equal(xlanb.load(tmp_path / "m.xlanb")(a, b), exe(a, b))


def test_a_table_lives_as_long_as_its_executable() -> None:
    a, b = np.ones((300, 40), np.float32), np.ones((40, 60), np.float32)
    many = [xlanb.compile(_dots(300, 60)) for _ in range(20)]
    want = many[0](a, b)
    for exe in many[10:]:
        del many[0]
        gc.collect()
        np.testing.assert_array_equal(exe(a, b), want)
