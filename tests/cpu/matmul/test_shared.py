"""Routines that programs share, and the loop over blocks.

They are compiled once, shown with each program that uses them, and part of saved executables.
"""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest

import xlanb
from xlanb.codegen import jit
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.routines import routine
from xlanb.cpu import library, objects
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.emitters.matmul import grid
from xlanb.cpu.emitters.matmul.grid import Span


def dot(m: int, k: int, n: int) -> str:
    return (
        f"HloModule dot\n\nENTRY e {{\n  x = f32[{m},{k}] parameter(0)\n  y = f32[{k},{n}] parameter(1)\n"
        f"  ROOT r = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    )


def arrays(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    """The modules that LLVM compiles from now on, with empty caches."""
    seen: list[Unit] = []
    known = objects.compile_unit

    def recorded(unit, *args, **named):
        seen.append(unit)
        return known(unit, *args, **named)

    monkeypatch.setattr(library, "_ROUTINES", {})
    monkeypatch.setattr(objects, "compile_unit", recorded)
    return seen


def test_a_second_dot_of_another_shape_compiles_nothing(compiled):
    for number, sizes in enumerate([(64, 128, 96), (128, 100, 192)]):
        compiled.clear()
        x, y = arrays(*sizes)
        np.testing.assert_allclose(xlanb.compile(dot(*sizes))(x, y), x @ y, rtol=1e-3, atol=1e-3)
        names = [u.shared for u in compiled]
        assert ("xlanb.walk" in names) == (number == 0)
        assert any(n.startswith("xlanb.tile.f32.") for n in names) == (number == 0)
        assert not any("@run(" in u.text for u in compiled)
        pool = [u for u in compiled if "ModuleID = 'xlanb.pool'" in u.text]  # once in a process
        assert (len(compiled) > len(pool)) is (number == 0)


def test_what_a_program_shares_is_shown_with_it():
    exe = xlanb.compile(dot(64, 128, 96))
    for text, head in ((exe.llvm_ir, "define internal void @xlanb.tile.f32."), (exe.assembly, "xlanb.tile.f32.")):
        assert head in text
        assert "xlanb.walk" in text
    assert list(exe.profile(*arrays(64, 128, 96))["instruction"]) == ["r"]


def test_a_saved_dot_has_its_routines_with_it(tmp_path, compiled):
    exe = xlanb.compile(dot(50, 20, 40))
    exe.save(tmp_path / "dot.xlanb")
    library._ROUTINES.clear()
    x, y = arrays(50, 20, 40)
    np.testing.assert_array_equal(xlanb.load(tmp_path / "dot.xlanb")(x, y), exe(x, y))
    assert any(u.shared for u in compiled)


# -- the walk --------------------------------------------------------------------------------------

WALKS = {
    "one span": [Span(5, 1, (4, 0, 8))],
    "a last block that overlaps the one before": [Span(10, 4, (4, 1, 8))],
    "three": [Span(3, 1, (100, 0, 1000)), Span(7, 3, (1, 2, 3)), Span(9, 2, (0, 50, 10))],
    "groups of rows, all columns, rows": [
        Span(2, 1, (7, 7, 7)),
        Span(101, 40, (400, 0, 280)),
        Span(70, 32, (0, 4, 4)),
        Span(40, 8, (400, 0, 280)),
        Span(2, 1, (9, 0, 5)),
    ],
    "spans of one block": [Span(1, 1, (3, 0, 0)), Span(3, 2, (4, 0, 4)), Span(9, 9, (5, 5, 5))],
    "one block": [Span(2, 4, (1, 1, 1)), Span(1, 1, (0, 0, 4))],
    "backwards": [Span(4, 1, (-8, 0, 8)), Span(2, 1, (0, 0, 4))],
}


def expected(spans):
    spans = [s for s in spans if s.blocks > 1]
    for blocks in product(*(range(s.blocks) for s in spans)):
        starts = [min(b * s.step, s.size - s.step) for b, s in zip(blocks, spans, strict=True)]
        yield tuple(sum(at * s.strides[k] for at, s in zip(starts, spans, strict=True)) for k in range(3))


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_walk_is_at_every_position_once(name, parts):
    spans = WALKS[name]
    module = ModuleBuilder("walk", jit.host())
    walk = routine(module, "walk", "walk", grid._emit_walk, grid.PART)
    text = module.text().replace("define internal", "define")
    code = jit.LoadedCode([objects.compile_unit(Unit(text, ready=True, weight=1), jit.host())], [walk])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(code.address(walk))
    seen = []
    base = 1 << 20
    called = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(
        lambda a, b, c, p: seen.append((a - base, b - base, c - base, p))
    )
    _, *words = grid.walk_table(spans, "called", [4711])
    table = np.array([ctypes.cast(called, ctypes.c_void_p).value, *words], np.int64)
    context = np.array([table.ctypes.data, base, base, base], np.int64)
    total = grid.positions(spans)
    for k in range(parts):
        low, high = total * k // parts, total * (k + 1) // parts
        if low < high:
            function(context.ctypes.data, low, high, 0)
    assert [s[:3] for s in seen] == list(expected(spans))
    assert {ctypes.c_int64.from_address(s[3]).value for s in seen} == {4711}
