"""Sharded programs as JAX writes them: partitioned, compiled and run, on one and eight devices."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo import HloModule


def program(devices: int, rows: int = 16) -> str:
    """Return two layers: x and the result are sharded by rows, the weights by columns and rows."""
    return f"""HloModule jit_f, entry_computation_layout={{(f32[{rows},8]{{1,0}}, f32[8,16]{{1,0}}, f32[16,8]{{1,0}})->(f32[{rows},8]{{1,0}}, f32[])}}, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["d"={devices}]>}}}}

add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}

ENTRY main.1 {{
  x = f32[{rows},8]{{1,0}} parameter(0), sharding={{devices=[{devices},1]<=[{devices}]}}, frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{{\\"d\\"}}, {{}}]>"}}
  w = f32[8,16]{{1,0}} parameter(1), sharding={{devices=[1,{devices}]<=[{devices}]}}, frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{{}}, {{\\"d\\"}}]>"}}
  v = f32[16,8]{{1,0}} parameter(2), sharding={{devices=[{devices},1]<=[{devices}]}}, frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{{\\"d\\"}}, {{}}]>"}}
  h = f32[{rows},16]{{1,0}} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[{rows},16]{{1,0}} abs(h)
  o = f32[{rows},8]{{1,0}} dot(t, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = f32[] constant(0)
  r = f32[] reduce(o, z), dimensions={{0,1}}, to_apply=add
  ROOT out = (f32[{rows},8]{{1,0}}, f32[]) tuple(o, r)
}}"""


def arrays(rows: int = 16) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.integers(-3, 4, shape).astype(np.float32) for shape in ((rows, 8), (8, 16), (16, 8))]


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_results_agree_on_any_number_of_devices(devices: int) -> None:
    x, w, v = arrays()
    executable = xlanb.compile(program(devices))
    assert executable.device_count == devices
    product, total = executable(x, w, v)
    np.testing.assert_array_equal(product, abs(x @ w) @ v)
    assert total == (abs(x @ w) @ v).sum()


def test_results_have_the_size_of_the_whole_where_tiles_reach_over_its_end():
    x, w, v = arrays(10)
    product, total = xlanb.compile(program(4, 10))(x, w, v)
    np.testing.assert_array_equal(product, abs(x @ w) @ v)
    assert total == (abs(x @ w) @ v).sum()


def test_every_stage_gives_the_same_numbers():
    trace = xlanb.trace(program(4))
    assert {"shardy-xla", "spmd-partitioning"} <= {stage.name for stage in trace.changed}
    found = trace.bisect(*arrays(), exhaustive=True)
    assert found.stage is None, found
    assert "spmd-partitioning" in {checked.stage.name for checked in found.checked}


def test_a_module_keeps_its_shardings_through_a_snapshot():
    module = xlanb.hlo.parse(program(4))
    module.header["num_partitions"] = "4"
    for name in ("shardy-xla", "spmd-partitioning"):
        xlanb.transforms.PASSES[name]().run(module)
    again = HloModule.from_record(module.record())
    assert again.spmd_output_sharding == module.spmd_output_sharding != ""
    assert again.spmd_parameters_shardings == module.spmd_parameters_shardings
    for result, expected in zip(xlanb.evaluate(again, *arrays()), xlanb.evaluate(module, *arrays()), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_the_pipeline_of_several_devices_begins_with_the_partitioner():
    names = xlanb.cpu.pipeline(partitions=8).names
    assert [names.index(n) for n in ("shardy-xla", "spmd-partitioning", "cpu-all-reduce-combiner")] == sorted(
        names.index(n) for n in ("shardy-xla", "spmd-partitioning", "cpu-all-reduce-combiner")
    )
    assert "spmd-partitioning" not in xlanb.cpu.pipeline().names
    assert "sharding-remover" not in names
    assert "spmd-partitioning" not in xlanb.cpu.pipeline(partitions=8).without("spmd-partitioning").names
