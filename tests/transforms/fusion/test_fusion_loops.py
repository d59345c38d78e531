"""What fusion keeps apart because one loop nest cannot vectorize it together."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.fusion.cpu_instruction_fusion import CpuInstructionFusion

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"


def _reductions(shape: tuple[int, ...], first: str, second: str) -> str:
    """The sum of two reductions, of x and y over different dimensions."""
    kept = [d for n, d in enumerate(shape) if str(n) not in first.split(",")]
    dims, result = ",".join(map(str, shape)), ",".join(map(str, kept))
    return f"""HloModule m
{ADD}
ENTRY e {{
  x = f32[{dims}] parameter(0)
  y = f32[{dims}] parameter(1)
  z = f32[] constant(0)
  r = f32[{result}] reduce(x, z), dimensions={{{first}}}, to_apply=add
  s = f32[{result}] reduce(y, z), dimensions={{{second}}}, to_apply=add
  ROOT t = f32[{result}] add(r, s)
}}"""


def _repeated(rows: int, width: int, operations: int) -> str:
    """x times a function of w that is repeated along rows of x."""
    lines = [f"w0 = f32[{rows}] parameter(0)", f"x = f32[{rows},{width}] parameter(1)"]
    lines += [f"w{n + 1} = f32[{rows}] {('add', 'multiply')[n % 2]}(w{n}, w{n})" for n in range(operations)]
    lines += [f"b = f32[{rows},{width}] broadcast(w{operations}), dimensions={{0}}"]
    lines += [f"ROOT t = f32[{rows},{width}] multiply(x, b)"]
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])


def _fused(text: str, *, separate_loops: bool = True) -> xlanb.hlo.HloModule:
    """The module after fusion; its results must be unchanged."""
    module, before = xlanb.hlo.parse(text), xlanb.hlo.parse(text)
    CpuInstructionFusion(separate_loops=separate_loops).run(module)
    module.verify()
    rng = np.random.default_rng(0)
    given = [rng.random(p.array_shape.dimensions, np.float32) for p in before.entry_computation.parameters]
    np.testing.assert_allclose(xlanb.evaluate(module, *given), xlanb.evaluate(before, *given), rtol=1e-4)
    return module


def _kernels(module: xlanb.hlo.HloModule) -> int:
    return sum(i.opcode not in (O.PARAMETER, O.CONSTANT) for i in module.entry_computation)


@pytest.mark.parametrize(
    ("shape", "first", "second", "kernels"),
    [
        ((64, 64), "0", "1", 2),
        ((64, 64), "1", "1", 1),
        ((16, 16, 16), "0", "1", 2),
        ((16, 16, 16), "1", "1", 1),
        ((8, 8), "0", "1", 1),
    ],
)
def test_large_reductions_over_different_dimensions_are_not_fused(shape, first, second, kernels):
    assert _kernels(_fused(_reductions(shape, first, second))) == kernels


def test_xlas_fusion_joins_reductions_over_any_dimensions():
    assert _kernels(_fused(_reductions((64, 64), "0", "1"), separate_loops=False)) == 1


def test_a_reduction_of_what_another_gives_stays_in_one_fusion():
    text = f"""HloModule m
{ADD}
ENTRY e {{
  x = f32[64,64,2] parameter(0)
  z = f32[] constant(0)
  r = f32[64,64] reduce(x, z), dimensions={{2}}, to_apply=add
  s = f32[64] reduce(r, z), dimensions={{0}}, to_apply=add
  ROOT t = f32[64] negate(s)
}}"""
    apart, joined = _fused(text), _fused(text, separate_loops=False)
    assert _kernels(apart) == _kernels(joined)


@pytest.mark.parametrize(
    ("rows", "width", "operations", "kernels"),
    [(2048, 2, 4, 2), (2048, 2, 2, 1), (2048, 32, 4, 1), (2048, 1, 4, 1), (64, 2, 4, 1)],
)
def test_a_long_computation_of_narrow_rows_is_a_kernel_of_its_own(rows, width, operations, kernels):
    assert _kernels(_fused(_repeated(rows, width, operations))) == kernels


def test_the_default_pipeline_keeps_such_loops_apart():
    executable = xlanb.compile(xlanb.hlo.parse(_repeated(2048, 2, 6)))
    fusions = [i for i in executable.hlo_module.entry_computation if i.opcode is O.FUSION]
    assert len(fusions) == 2


def _turned(rows: int, columns: int, dims: str) -> str:
    """Sums of an array of three dimensions, copied to another order."""
    sizes, kept = (rows, columns, 40), "0,1,2".replace(dims, "").replace(",,", ",").strip(",").split(",")
    left = [sizes[int(d)] for d in kept]
    return f"""HloModule m
{ADD}
ENTRY e {{
  x = f32[{rows},{columns},40] parameter(0)
  n = f32[{rows},{columns},40] negate(x)
  z = f32[] constant(0)
  r = f32[{left[0]},{left[1]}] reduce(n, z), dimensions={{{dims}}}, to_apply=add
  ROOT t = f32[{left[0]},{left[1]}]{{0,1}} copy(r)
}}"""


@pytest.mark.parametrize(("dims", "kernels"), [("0", 2), ("1", 2), ("2", 1)])
def test_columns_are_reduced_in_the_order_of_memory(dims, kernels):
    assert _kernels(_fused(_turned(30, 50, dims))) == kernels
    assert _kernels(_fused(_turned(30, 50, dims), separate_loops=False)) == 1
