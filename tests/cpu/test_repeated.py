"""Elements that are repeated, tiled or spread out: whole vectors whose lanes are shuffled."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.cpu.guard_pages import run_guarded
from xlanb.codegen.lanes import Lane
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = ("f32", "bf16", "s8", "f64", "c64")
ROWS = 5


def _given(text):
    rng = np.random.default_rng(3)
    shapes = [p.array_shape for p in parse(text).entry_computation.parameters]
    return [rng.integers(-9, 9, s.dimensions).astype(s.element_type.dtype) for s in shapes]


def _module(body, computations=""):
    return f"HloModule m\n{computations}\nENTRY e {{\n{body}\n}}\n"


def _in(body):
    """A module that computes in one loop what `body` names, added to itself."""
    inner, shape = body
    given = [line for line in inner.splitlines() if "parameter" in line]
    names = ", ".join(line.split("=")[0].strip() for line in given)
    return _module(
        "\n".join([*given, f" ROOT r = {shape} fusion({names}), kind=kLoop, calls=inner"]),
        f"inner {{\n{inner}\n ROOT twice = {shape} add(made, made)\n}}",
    )


def _repeated(t, times, columns):
    """Each element of a row several times, then another row."""
    n = columns * times
    return (
        f"""x = {t}[{ROWS},{columns}] parameter(0)
        y = {t}[{ROWS},77] parameter(1)
        b = {t}[{ROWS},{columns},{times}] broadcast(x), dimensions={{0,1}}
        f = {t}[{ROWS},{n}] reshape(b)
        made = {t}[{ROWS},{n + 77}] concatenate(f, y), dimensions={{1}}""",
        f"{t}[{ROWS},{n + 77}]",
    )


def _tiled(t, times, columns):
    """A row several times, after another one."""
    n = columns * times
    return (
        f"""x = {t}[{ROWS},{columns}] parameter(0)
        y = {t}[{ROWS},9] parameter(1)
        b = {t}[{ROWS},{times},{columns}] broadcast(x), dimensions={{0,2}}
        f = {t}[{ROWS},{n}] reshape(b)
        made = {t}[{ROWS},{n + 9}] concatenate(y, f), dimensions={{1}}""",
        f"{t}[{ROWS},{n + 9}]",
    )


def _spread(t, step, columns):
    """Two rows in turns, between other elements."""
    n = columns * step + 3
    return (
        f"""x = {t}[{ROWS},{columns}] parameter(0)
        y = {t}[{ROWS},{columns}] parameter(1)
        v = {t}[] parameter(2)
        a = {t}[{ROWS},{n}] pad(x, v), padding=0_0x1_{step + 1}_{step - 1}
        b = {t}[{ROWS},{n}] pad(y, v), padding=0_0x{step}_2_{step - 1}
        made = {t}[{ROWS},{n}] subtract(a, b)""",
        f"{t}[{ROWS},{n}]",
    )


def _vectors(exe):
    return all("vectors of" in str(p) for p in exe.plans.values())


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("form", [_repeated, _tiled, _spread])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 6, 7, 8, 12, 16])
def test_a_row_agrees_with_the_evaluator(backend, form, t, step):
    text = _in(form(t, step, 45))
    exe, given = backend(text), _given(text)
    np.testing.assert_array_equal(exe(*given), evaluate(parse(text), *given))
    if t in ("f32", "f64") and step <= 8:
        assert _vectors(exe)


@pytest.mark.parametrize("columns", [2, 3, 5, 8, 12, 24])
def test_short_rows_are_tiled_by_vectors(backend, columns):
    text = _in(_tiled("f32", 20, columns))
    exe, given = backend(text), _given(text)
    np.testing.assert_array_equal(exe(*given), evaluate(parse(text), *given))
    assert _vectors(exe)


@pytest.mark.parametrize("step", [2, 8])
def test_a_long_row_of_a_period_is_a_loop(step):
    n = 5440 * step + 3
    text = _module(f"""x = s64[17,5,32] parameter(0)
    y = s64[2] parameter(1)
    v = s64[] parameter(2)
    a = s64[17,2,5,32] broadcast(x), dimensions={{0,2,3}}
    b = s64[17,2,5,32] broadcast(y), dimensions={{1}}
    c = s64[17,2,5,32] add(a, b)
    f = s64[5440] reshape(c)
    ROOT p = s64[{n}] pad(f, v), padding=1_{n - 5440 * step + step - 2}_{step - 1}""")
    given = _given(text)
    exe = xlanb.compile(text)
    np.testing.assert_array_equal(exe(*given), evaluate(parse(text), *given))
    assert len(str(exe.llvm_ir)) < 100_000


@pytest.mark.parametrize("columns", [100, 500])
@pytest.mark.parametrize("times", [5, 16])
def test_loops_are_split_where_long_rows_begin_again(backend, columns, times):
    n = columns * times
    text = _module(f"""x = f32[3,{columns}] parameter(0)
    b = f32[3,{times},{columns}] broadcast(x), dimensions={{0,2}}
    tiled = f32[3,{n}] reshape(b)
    c = f32[3,{columns},{times}] broadcast(x), dimensions={{0,1}}
    repeated = f32[3,{n}] reshape(c)
    ROOT r = f32[3,{n}] subtract(tiled, repeated)""")
    exe, given = backend(text), _given(text)
    np.testing.assert_array_equal(exe(*given), evaluate(parse(text), *given))


@pytest.mark.parametrize("t", ["s8", "u8"])
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("times", [2, 4])
def test_llvm_ends_where_repeated_bytes_are_doubled(t, opcode, times):
    text = _module(f"""x = {t}[7,96] parameter(0)
    b = {t}[7,96,{times}] broadcast(x), dimensions={{0,1}}
    f = {t}[7,{96 * times}] reshape(b)
    c = {t}[7,{2 * 96 * times}] concatenate(f, f), dimensions={{1}}
    r = {t}[7,{2 * 96 * times}] {opcode}(c, c)
    alone = {t}[7,{96 * times}] {opcode}(f, f)
    ROOT both = ({t}[7,{2 * 96 * times}], {t}[7,{96 * times}]) tuple(r, alone)""")
    x = np.arange(7 * 96).reshape(7, 96).astype(t.replace("s", "i").replace("8", "1"))
    for got, want in zip(xlanb.compile(text)(x), evaluate(parse(text), x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("form", [_repeated, _tiled, _spread])
@pytest.mark.parametrize("step", [2, 3, 4, 7, 12])
@pytest.mark.parametrize("t", ["f32", "bf16"])
def test_nothing_beyond_the_arrays_is_read(backend, form, step, t, width):
    for columns in (1, 2, 16, 33):
        text = _in(form(t, step, columns))
        exe, given = backend(text), _given(text)
        want = np.asarray(evaluate(parse(text), *given)).tobytes()
        for at_end in (True, False):
            assert run_guarded(exe, given, at_end=at_end) == [want]


@pytest.mark.parametrize("columns", [1, 15, 16, 47, 200, 333])
@pytest.mark.parametrize(("opcode", "start"), [("add", "0"), ("maximum", "-inf")])
@pytest.mark.parametrize("form", [_repeated, _tiled, _spread])
@pytest.mark.parametrize("step", [2, 3, 5])
def test_a_row_is_reduced(backend, form, step, opcode, start, columns):
    inner, _ = form("f32", step, columns)
    text = _module(
        f"{inner}\n z = f32[] constant({start})\n ROOT r = f32[{ROWS}] reduce(made, z), dimensions={{1}}, to_apply=step",
        f"step {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] {opcode}(a, b) }}",
    )
    exe, given = backend(text), _given(text)
    np.testing.assert_array_equal(exe(*given), evaluate(parse(text), *given))


@pytest.mark.parametrize("low", range(5))
@pytest.mark.parametrize("high", [-7, -1, 0, 3])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_padding_begins_and_ends_anywhere(backend, low, high, step):
    n = 40 * step + 1 + low - 2 * step + high
    body = f"""x = f32[{ROWS},41] parameter(0)
    v = f32[] parameter(1)
    p = f32[{ROWS},{n}] pad(x, v), padding=0_0x{low - 2 * step}_{high}_{step - 1}
    ROOT r = f32[{ROWS},{n}] negate(p)"""
    text = _module(body)
    given = _given(text)
    np.testing.assert_array_equal(backend(text)(*given), evaluate(parse(text), *given))


@pytest.mark.parametrize("period", [1, 2, 3, 4, 6, 8, 12, 16, 24, 48])
@pytest.mark.parametrize("phase", [0, 1, 5, 16])
def test_steps_are_those_of_each_vector(period, phase):
    width = 4
    lane = Lane(None, 0, 1000, width, 0, period, phase % period)
    for a in (1, 2, 3, 4, 12):
        for modulus in (0, 2, 3, 4):
            for shift in (0, 1, 7):
                firsts = range(phase, 1000, period)
                values = [[(q + k + shift) // a % (modulus or 1 << 40) for k in range(width)] for q in firsts]
                steps = {tuple(v - row[0] for v in row) for row in values}
                found = lane.steps((a, modulus, shift))
                assert found is None or {tuple(found)} == steps
                first = lane.first((a, modulus, shift))
                assert first is None or {first} == {row[0] for row in values}
                if period % (a * (modulus or 1)) == 0:
                    assert found is not None
                    assert first is not None or modulus == 0
