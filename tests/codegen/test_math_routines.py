"""Vector functions used many times in a kernel are emitted once and called, bit-identically."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.codegen.math import routines


def chain(opcode: str, count: int, dtype: str, size: int) -> str:
    """A module that applies a function again and again, with arithmetic between."""
    shape = f"{dtype}[{size}]"
    lines = [f"  x = {shape} parameter(0)", f"  y = {shape} parameter(1)"]
    value = "x"
    for k in range(count):
        operands = value if opcode not in ("power", "atan2") else f"{value}, y"
        lines += [f"  made{k} = {shape} {opcode}({operands})", f"  sum{k} = {shape} add(made{k}, y)"]
        value = f"sum{k}"
    lines[-1] = "  ROOT" + lines[-1][1:]
    return f"HloModule {opcode.replace('-', '_')}\n\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def both_ways(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[xlanb.Executable, xlanb.Executable]:
    called = xlanb.compile(text)
    for limit in ("MANY", "_MANY_SCALARS"):
        monkeypatch.setattr(routines, limit, 1 << 30)
    return called, xlanb.compile(text)


CASES = [
    ("sine", "f32", 1003),
    ("tan", "f32", 64),
    ("tanh", "f32", 37),
    ("logistic", "bf16", 200),
    ("exponential-minus-one", "f16", 130),
    ("cosine", "f64", 100),
    ("power", "f32", 300),
    ("atan2", "f32", 65),
]


@pytest.mark.parametrize(("opcode", "dtype", "size"), CASES)
def test_called_and_in_place_give_the_same_bits(monkeypatch, opcode, dtype, size):
    called, in_place = both_ways(monkeypatch, chain(opcode, 8, dtype, size))
    rng = np.random.default_rng(1)
    shapes = [p.shape.dtype for p in called.hlo_module.entry_computation.parameters]
    x, y = (rng.uniform(0.1, 1.5, size).astype(d) for d in shapes)
    with np.errstate(all="ignore"):
        assert called(x, y).tobytes() == in_place(x, y).tobytes()


def test_a_function_that_comes_often_is_defined_once(monkeypatch):
    called, in_place = both_ways(monkeypatch, chain("sine", 40, "f32", 1 << 12))
    texts = [u.text for u in called.program.units()]
    assert sum(t.count("define internal <") for t in texts) == 1
    assert sum(t.count("@xlanb.sin.v") for t in texts) == 41
    assert 4 * sum(len(t) for t in texts) < sum(len(u.text) for u in in_place.program.units())


@pytest.mark.parametrize("opcode", ["tanh", "exponential", "log-plus-one", "erf", "logistic"])
@pytest.mark.parametrize("size", [1, 2])
def test_single_elements_called_and_in_place_give_the_same_bits(monkeypatch, opcode, size):
    called, in_place = both_ways(monkeypatch, chain(opcode, 64, "f32", size))
    x, y = np.full(size, 0.3, np.float32), np.full(size, -0.1, np.float32)
    assert called(x, y).tobytes() == in_place(x, y).tobytes()
    texts = ["".join(u.text for u in exe.program.units()) for exe in (called, in_place)]
    assert "define internal float @xlanb." in texts[0]
    assert 4 * len(texts[0]) < len(texts[1])


@pytest.mark.parametrize(
    ("opcode", "count", "dtype", "size"),
    [("sine", 3, "f32", 256), ("tanh", 63, "f32", 1), ("sine", 64, "f32", 1), ("tanh", 64, "f64", 1)],
)
def test_few_and_those_of_the_c_library_are_written_in_place(opcode, count, dtype, size):
    exe = xlanb.compile(chain(opcode, count, dtype, size))
    assert not any(f"@xlanb.{opcode}" in u.text for u in exe.program.units())


@pytest.mark.parametrize(("count", "is_long"), [(60, False), (400, True)])
def test_selects_of_long_functions_stay_selects(monkeypatch, count, is_long):
    """LLVM restarts its walk of a function after each select that it turns into a branch."""
    monkeypatch.setattr(routines, "_MANY_SCALARS", 1 << 30)
    text = "".join(u.text for u in xlanb.compile(chain("tanh", count, "f32", 1)).program.units())
    assert text.count(" = select i1 ") == 4 * count
    assert text.count("!unpredictable") == is_long * 4 * count


def test_large_angles_are_the_c_librarys_there_too():
    exe = xlanb.compile(chain("sine", 8, "f32", 64))
    x = np.full(64, 3e7, np.float32)
    y = np.zeros(64, np.float32)
    want = x.astype(np.float64)
    for _ in range(8):
        want = np.sin(want)
    assert np.allclose(exe(x, y), want, rtol=1e-5)
    assert any("@sinf(" in u.text for u in exe.program.units())


def test_what_is_read_is_written_in_place():
    """There each line belongs to an HLO instruction."""
    exe = xlanb.compile(chain("sine", 8, "f32", 256))
    assert "@xlanb.sine" not in exe.llvm_ir


def test_chains_of_any_length_need_no_deeper_stack(monkeypatch):
    """Their code has their length, so that the fusion need not be split either."""
    monkeypatch.setattr("xlanb.cpu.compiler.deep", lambda work: work())
    monkeypatch.setattr("xlanb.codegen.elemental.SIZE_LIMIT", 1000)
    exe = xlanb.compile(chain("negate", 1500, "f32", 8))
    assert len(exe.kernels) == 1
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    np.testing.assert_array_equal(exe(x, y), x)


def test_chains_are_emitted_in_the_order_of_recursion(monkeypatch):
    text = chain("power", 150, "f32", 8)
    emitted = xlanb.compile(text).program.text
    monkeypatch.setattr("xlanb.codegen.elemental._DEEP", 1 << 30)
    assert xlanb.compile(text).program.text == emitted
