"""The performance model against XLA:GPU's times (jaxlib 0.10.2, A100) for the same programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.model.alike import Alike, PairKey
from xlanb.gpu.model.launch import launch_of
from xlanb.gpu.model.performance_model import PerformanceModel
from xlanb.gpu.model.run_time import LAUNCH_OVERHEAD, combined, microseconds
from xlanb.hlo import parse
from xlanb.transforms.fusion_editing import create_fusion, fuse_into

GOLDENS = Path(__file__).parent.parent / "transforms" / "goldens" / "priority-fusion"

# program: producer: (microseconds fused into all users, unfused), from priority_fusion_dump.txt
REAL = {
    "two_consumers": {
        "broadcast.1.0": (1.61875, 3.22125),
        "mul.2.0": (2.20725, 3.81),
        "add.2.0": (6.649, 8.21175),
    },
    "transpose_and_concatenate": {
        "transpose.5.0": (2.20675, 4.01025),
        "broadcast.2.0": (1.825, 3.6285),
        "add.1": (2.61025, 4.4135),
        "concatenate.1.0": (2.036, 4.0805),
    },
    "column_reductions": {"mul.1.0": (19.5017509, 25.1587505), "log.1.0": (299.591492, 31.378)},
    "scatter_updates": {
        "lt.3.0": (1.02725, 2.03825),
        "add.5.0": (1.02075, 2.03875),
        "add.4.0": (1.01825, 2.02775),
    },
    "update_in_place": {
        "cos.1.0": (1.015, 2.03),
        "lt.1.0": (1.003, 2.003),
        "select_n.1.0": (1.015, 2.0165),
    },
}


@pytest.fixture
def model() -> PerformanceModel:
    return PerformanceModel(gpu_device("a100"))


@pytest.mark.parametrize("program", REAL)
def test_times_of_xla(program: str, model: PerformanceModel) -> None:
    module = parse((GOLDENS / f"{program}.hlo").read_text(encoding="utf-8"))
    for name, (fused, unfused) in REAL[program].items():
        producer = module.entry_computation.find(name)
        times = model.times(producer, producer.users)
        got = microseconds(times.fused), microseconds(times.unfused)
        assert got == (pytest.approx(fused, abs=3e-4), pytest.approx(unfused, abs=3e-4)), name


def test_triton_fusions(model: PerformanceModel) -> None:
    module = parse((GOLDENS / "softmax.hlo").read_text(encoding="utf-8"))
    top, middle = (module.entry_computation.find(n) for n in ("triton_softmax.3", "exp.1.0"))
    tiling = model.tiling(top, middle)
    times = model.times(top, [middle])
    assert (microseconds(times.fused), microseconds(times.unfused)) == (1.64825, 3.2905)
    assert (tiling.sizes, tiling.warps) == ((1, 640), 2)


def test_tiles_of_a_whole_softmax(model: PerformanceModel) -> None:
    module = parse((GOLDENS / "softmax.expected.hlo").read_text(encoding="utf-8"))
    fusion = module.entry_computation.root
    assert microseconds(LAUNCH_OVERHEAD + model.instruction(fusion).exec_time) == 1.6515


CENTERED = """\
HloModule centered

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT a_b = f32[] add(a, b)
}

triton_softmax_computation {
  parameter_0 = f32[2,16,64]{2,1,0} parameter(0)
  constant.1 = f32[] constant(0)
  reduce_sum.1 = f32[2,16]{1,0} reduce(parameter_0, constant.1), dimensions={2}, to_apply=sum
  constant.2 = f32[] constant(0.015625)
  broadcast.1 = f32[2,16]{1,0} broadcast(constant.2), dimensions={}
  mean = f32[2,16]{1,0} multiply(reduce_sum.1, broadcast.1)
  broadcast.2 = f32[2,16,64]{2,1,0} broadcast(mean), dimensions={0,1}
  ROOT difference = f32[2,16,64]{2,1,0} subtract(parameter_0, broadcast.2)
}

ENTRY main {
  x = f32[2,16,64]{2,1,0} parameter(0)
  y = f32[2,16,64]{2,1,0} parameter(1)
  centered = f32[2,16,64]{2,1,0} fusion(x), kind=kCustom, calls=triton_softmax_computation, backend_config={"fusion_backend_config":{"kind":"__triton","block_level_fusion_config":{"num_warps":"1","output_tiles":[{"sizes":["1","1","64"]}]}}}
  square = f32[2,16,64]{2,1,0} multiply(centered, centered)
  scaled = f32[2,16,64]{2,1,0} multiply(centered, y)
  other = f32[2,16,64]{2,1,0} multiply(y, centered)
  flat = f32[32,64]{1,0} bitcast(centered)
  ROOT results = (f32[2,16,64]{2,1,0}, f32[2,16,64]{2,1,0}, f32[2,16,64]{2,1,0}, f32[32,64]{1,0}) tuple(square, scaled, other, flat)
}
"""


def test_a_pair_that_looks_like_another_gets_its_tiles(model: PerformanceModel) -> None:
    """As in XLA: the result for x * x also holds for x * y, which reads more."""
    main = parse(CENTERED).entry_computation
    centered = main.find("centered")
    times = {}
    for name in ("square", "scaled", "other"):
        model.tiling(centered, main.find(name))
        times[name] = microseconds(model.times(centered, [main.find(name)]).fused)
    assert times == {"square": 1.01, "scaled": 1.01, "other": 1.01575}


def test_a_triton_fusion_and_a_bitcast_have_the_blocks_of_its_tiles(model: PerformanceModel) -> None:
    """The result's rank differs from the tiles', as XLA counts it.

    There is a block for each element of the first two dimensions.
    """
    main = parse(CENTERED).entry_computation
    pair = main.find("centered"), main.find("flat")
    assert launch_of(model.analyses.of(*pair)) == (32 * 64, 32)
    assert microseconds(model.times(pair[0], [pair[1]]).fused) < 1.05


def test_a_reduced_dimension_cannot_be_cut(model: PerformanceModel) -> None:
    """As in XLA, whose tile analysis fails for s0 / 16, s0 mod 16 of a symbol s0."""
    text = (
        CENTERED[: CENTERED.index("  scaled =")]
        + """\
  flat = f32[32,64]{1,0} bitcast(centered)
  zero = f32[] constant(0)
  columns = f32[64]{0} reduce(flat, zero), dimensions={0}, to_apply=sum
  rows = f32[32]{0} reduce(flat, zero), dimensions={1}, to_apply=sum
  ROOT results = (f32[64]{0}, f32[32]{0}) tuple(columns, rows)
}
"""
    )
    main = parse(text).entry_computation
    centered, flat, columns, rows = (main.find(n) for n in ("centered", "flat", "columns", "rows"))
    fuse_into(create_fusion(columns, "kLoop"), flat)
    fuse_into(create_fusion(rows, "kLoop"), flat)
    by_columns, by_rows = centered.users[-2:] if len(centered.users) > 2 else centered.users
    assert model.tiling(centered, by_columns) == "a dimension of a reduction or a slice is split into 2"
    assert model.tiling(centered, by_rows).sizes == (1,)


def test_fusions_of_alike_pairs_are_alike() -> None:
    main = parse(CENTERED).entry_computation
    centered, square, scaled, other, flat = (main.find(n) for n in ("centered", "square", "scaled", "other", "flat"))
    alike = Alike()
    assert alike.pair(centered, square) == alike.pair(centered, scaled) != alike.pair(centered, other)
    alike.fused(square, alike.pair(centered, square))
    assert alike.pair(centered, square) != alike.pair(centered, scaled)
    alike.fused(scaled, PairKey(*alike.pair(centered, other)))
    assert alike.pair(centered, square) != alike.pair(centered, scaled)
    assert alike.pair(centered, flat) != alike.pair(centered, other)


def test_faster_memory_costs_less() -> None:
    module = parse((GOLDENS / "two_consumers.hlo").read_text(encoding="utf-8"))
    i = module.entry_computation.find("add.2.0")
    a100, h100 = (PerformanceModel(gpu_device(n)).instruction(i).exec_time for n in ("a100", "h100"))
    assert h100 < a100


def test_a_changed_instruction_is_estimated_anew(model: PerformanceModel) -> None:
    module = parse((GOLDENS / "two_consumers.hlo").read_text(encoding="utf-8"))
    entry = module.entry_computation
    producer, consumer = entry.find("mul.2.0"), entry.find("add.2.0")
    model.times(producer, [consumer])
    assert model.known_consumers(producer) is not None
    model.invalidate(consumer)
    assert consumer not in model.known_consumers(producer)
    model.invalidate(producer)
    assert model.known_consumers(producer) is None


def test_computing_hides_behind_memory_mostly() -> None:
    assert combined(1000, 4000) == 1000 + 4000 - 950
    assert combined(0, 4000) == 4000


def test_multi_output_fusion_writes_both_results(model: PerformanceModel) -> None:
    module = parse((GOLDENS / "two_consumers.hlo").read_text(encoding="utf-8"))
    entry = module.entry_computation
    producer, consumer = entry.find("add.2.0"), entry.find("tanh.1.0")
    both = PerformanceModel(gpu_device("a100")).multi_output_times(producer, consumer)
    assert both.fused > model.times(producer, [consumer]).fused
