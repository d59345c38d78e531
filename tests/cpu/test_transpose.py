"""Transposes, layout-changing copies, and loops that read a transposed operand."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from xlanb.cpu import Executable
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = {
    "f32": "f4",
    "f64": "f8",
    "u8": "u1",
    "s16": "i2",
    "bf16": ml_dtypes.bfloat16,
    "c64": "c8",
    "c128": "c16",
    "pred": "?",
}
Dims = tuple[int, ...]


def text_of(dims: Dims) -> str:
    return ",".join(map(str, dims))


def numbers(dims: Dims, t: str = "f32") -> np.ndarray:
    return np.random.default_rng(sum(dims)).integers(0, 2 if t == "pred" else 100, dims).astype(TYPES[t])


def check(backend: Callable[[str], Executable], text: str, *arrays: np.ndarray) -> None:
    np.testing.assert_array_equal(backend(text)(*arrays), evaluate(parse(text), *arrays))


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("dims", [(40, 33), (64, 64), (3, 200), (100, 2), (300, 1)])
def test_matrices(backend: Callable[[str], Executable], t: str, dims: Dims) -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = {t}[{text_of(dims)}] parameter(0)
      ROOT r = {t}[{text_of(dims[::-1])}] transpose(x), dimensions={{1,0}}
    }}"""
    check(backend, text, numbers(dims, t))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_orders_of_dimensions(backend: Callable[[str], Executable], order: Dims) -> None:
    dims = (3, 18, 5, 20)
    turned = tuple(dims[d] for d in order)
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{text_of(dims)}]{{1,3,0,2}} parameter(0)
      ROOT r = f32[{text_of(turned)}] transpose(x), dimensions={{{text_of(order)}}}
    }}"""
    check(backend, text, numbers(dims))
    copied = f"""HloModule m
    ENTRY e {{
      x = f32[{text_of(dims)}] parameter(0)
      ROOT r = f32[{text_of(dims)}]{{{text_of(order)}}} copy(x)
    }}"""
    check(backend, copied, numbers(dims))


LOOP = """HloModule m
    inner {{
      x = {t}[{source}] parameter(0)
      y = {t}[{goal}] parameter(1)
      b = {t}[{last}] parameter(2)
      s = {t}[] parameter(3)
      turned = {t}[{goal}] transpose(x), dimensions={{{order}}}
      rows = {t}[{goal}] broadcast(b), dimensions={{{axis}}}
      all = {t}[{goal}] broadcast(s), dimensions={{}}
      a = {t}[{goal}] subtract(turned, y)
      c = {t}[{goal}] multiply(a, rows)
      ROOT r = {t}[{goal}] add(c, all)
    }}
    ENTRY e {{
      x = {t}[{source}] parameter(0)
      y = {t}[{goal}] parameter(1)
      b = {t}[{last}] parameter(2)
      s = {t}[] parameter(3)
      ROOT r = {t}[{goal}] fusion(x, y, b, s), kind=kLoop, calls=inner
    }}"""


@pytest.mark.parametrize("t", ["f32", "bf16", "u8", "f64", "c64"])
@pytest.mark.parametrize(
    ("dims", "order"), [((70, 129), (1, 0)), ((9, 130, 65), (0, 2, 1)), ((66, 9, 67), (2, 1, 0)), ((8, 200), (1, 0))]
)
def test_loops_that_read_an_operand_turned(
    backend: Callable[[str], Executable], t: str, dims: Dims, order: Dims
) -> None:
    goal = tuple(dims[d] for d in order)
    given = {
        "t": t,
        "source": text_of(dims),
        "goal": text_of(goal),
        "last": goal[-1],
        "order": text_of(order),
        "axis": len(dims) - 1,
    }
    check(backend, LOOP.format(**given), numbers(dims, t), numbers(goal, t), numbers(goal[-1:], t), numbers((), t))


def test_a_matrix_and_its_own_transpose(backend: Callable[[str], Executable]) -> None:
    text = """HloModule m
    inner {
      x = f32[150,150] parameter(0)
      t = f32[150,150] transpose(x), dimensions={1,0}
      ROOT r = f32[150,150] add(x, t)
    }
    ENTRY e {
      p = f32[150,150] parameter(0)
      x = f32[150,150] negate(p)
      ROOT r = f32[150,150] fusion(x), kind=kLoop, calls=inner
    }"""
    check(backend, text, numbers((150, 150)))


def test_a_matrix_and_its_own_transpose_into_the_other_layout(backend: Callable[[str], Executable]) -> None:
    text = """HloModule m
    inner {
      x = f32[150,150]{1,0} parameter(0)
      t = f32[150,150]{0,1} transpose(x), dimensions={1,0}
      c = f32[150,150]{1,0} copy(t)
      s = f32[150,150]{1,0} subtract(x, c)
      ROOT r = f32[150,150]{0,1} copy(s)
    }
    ENTRY e {
      p = f32[150,150]{1,0} parameter(0)
      x = f32[150,150]{1,0} negate(p)
      f = f32[150,150]{0,1} fusion(x), kind=kLoop, calls=inner
      ROOT r = f32[150,150]{1,0} copy(f)
    }"""
    check(backend, text, numbers((150, 150)))


@pytest.mark.parametrize("shape", ["[]", "[1]"])
def test_a_matrix_times_the_sum_of_all_its_elements_into_the_other_layout(
    backend: Callable[[str], Executable], shape: str
) -> None:
    """The sum reads the whole matrix, not the tile that the loop has."""
    rank = shape == "[1]"
    dims, layouts = ("1,97,63", ("{1,2,0}", "{2,1,0}")) if rank else ("97,63", ("{0,1}", "{1,0}"))
    total = "bitcast(s)" if rank else "negate(s)"
    text = f"""HloModule m
    sum {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b)
    }}
    inner {{
      x = f32[{dims}]{layouts[0]} parameter(0)
      z = f32[] constant(0)
      c = f32[{dims}]{layouts[1]} copy(x)
      s = f32{shape} reduce(c, z), dimensions={"{1,2}" if rank else "{0,1}"}, to_apply=sum
      t = f32[] {total}
      w = f32[{dims}]{layouts[1]} broadcast(t), dimensions={{}}
      ROOT r = f32[{dims}]{layouts[1]} multiply(c, w)
    }}
    ENTRY e {{
      p = f32[{dims}]{layouts[0]} parameter(0)
      x = f32[{dims}]{layouts[0]} negate(p)
      ROOT f = f32[{dims}]{layouts[1]} fusion(x), kind=kLoop, calls=inner
    }}"""
    check(backend, text, numbers(tuple(int(d) for d in dims.split(","))))


def _turned(t: str, rows: int, columns: int) -> str:
    return f"""HloModule m
    ENTRY e {{
      x = {t}[2,{rows},{columns}] parameter(0)
      ROOT r = {t}[2,{columns},{rows}] transpose(x), dimensions={{0,2,1}}
    }}"""


@pytest.mark.parametrize("t", ["f32", "bf16", "u8", "f64", "c64", "pred"])
@pytest.mark.parametrize("colours", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("pixels", [9, 40, 1000, 2051])
def test_lines_of_few_elements_are_taken_apart_and_interleaved(
    backend: Callable[[str], Executable], width: int, t: str, colours: int, pixels: int
) -> None:
    for rows, columns in ((pixels, colours), (colours, pixels)):
        check(backend, _turned(t, rows, columns), numbers((2, rows, columns), t))


def test_their_kernel_is_a_comb(backend: Callable[[str], Executable]) -> None:
    for rows, columns in ((1000, 3), (3, 1000)):
        assert "xlanb.comb" in backend(_turned("f32", rows, columns)).llvm_ir
    assert "xlanb.comb" not in backend(_turned("f32", 1000, 8)).llvm_ir
