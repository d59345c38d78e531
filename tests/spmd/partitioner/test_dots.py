"""Dots, convolutions and windows on eight devices.

They have the whole program's values, and XLA's collectives.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import UnimplementedError
from xlanb.hlo.module import HloModule
from xlanb.spmd.partitioner.driver import partition
from xlanb.spmd.partitioner.offsets import CombinedOffset, MultiplyAddDivide
from xlanb.spmd.partitioner.state import PartitionerOptions

DEVICES = 8
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
ADD = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n"
GE = "ge {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT p = pred[] compare(x, y), direction=GE\n}\n"
ROWS = "{devices=[8,1]<=[8]}"
COLUMNS = "{devices=[1,8]<=[8]}"
ROWS_OF_4 = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"
COLUMNS_OF_2 = "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
ROWS_OF_2 = "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
TILES = "{devices=[4,2]<=[8]}"
WHOLE = "{replicated}"


def program(*lines: str) -> str:
    return f"HloModule m, num_partitions={DEVICES}\n{ADD}{GE}ENTRY main {{\n  " + "\n  ".join(lines) + "\n}"


def collectives(module: HloModule) -> Counter[str]:
    return Counter(i.opcode.text for i in module.instructions() if i.opcode.text in COLLECTIVES)


def check(text: str, seed: int = 0) -> HloModule:
    """Partition, and compare the devices' results with the whole program's."""
    whole, module = xlanb.hlo.parse(text.replace(f", num_partitions={DEVICES}", "")), xlanb.hlo.parse(text)
    rng = np.random.default_rng(seed)
    shapes = [p.array_shape for p in whole.entry_computation.parameters]
    arguments = [rng.integers(-3, 4, s.dimensions).astype(s.dtype) for s in shapes]
    causes = partition(module, DEVICES)
    module.verify()
    want = np.asarray(xlanb.evaluate(whole, *arguments))
    got = np.asarray(xlanb.evaluate(module, *arguments))
    # Tiles of one size may reach over the end of the whole.
    np.testing.assert_array_equal(got[tuple(slice(n) for n in want.shape)], want)
    made = [i.attributes["channel_id"] for i in module.instructions() if i.opcode.text in COLLECTIVES]
    assert all(causes.by_channel[channel].reason for channel in made)
    return module


def matmul(lhs: str, rhs: str, output: str) -> str:
    return program(
        f"a = f32[16,32] parameter(0), sharding={lhs}",
        f"b = f32[32,64] parameter(1), sharding={rhs}",
        f"ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={output}",
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "output", "wanted"),
    [
        pytest.param(ROWS, WHOLE, ROWS, {}, id="rows stay"),
        pytest.param(ROWS, ROWS, ROWS, {"all-gather": 1}, id="rows need the whole rhs"),
        pytest.param(COLUMNS, ROWS, WHOLE, {"all-reduce": 1}, id="partial sums"),
        pytest.param(COLUMNS, ROWS, ROWS, {"all-reduce": 1}, id="partial sums, each device a part"),
        pytest.param(ROWS_OF_4, COLUMNS_OF_2, TILES, {}, id="tiles"),
        pytest.param(TILES, ROWS_OF_2, ROWS_OF_4, {"all-reduce": 1}, id="partial sums in groups"),
        pytest.param(WHOLE, WHOLE, TILES, {}, id="cut from the whole"),
    ],
)
def test_ways_of_a_matrix_product(lhs: str, rhs: str, output: str, wanted: dict[str, int]) -> None:
    assert collectives(check(matmul(lhs, rhs, output))) == Counter(wanted)


def test_an_operand_that_is_both_sides() -> None:
    sharding = "{devices=[8,1]<=[8]}"
    check(
        program(
            f"a = f32[16,32] parameter(0), sharding={sharding}",
            f"ROOT d = f32[16,16] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, sharding={ROWS}",
        )
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "output", "costs"),
    [
        pytest.param(TILES, TILES, TILES, {"gather the rhs", "gather the lhs"}, id="which operand to gather"),
        pytest.param(WHOLE, ROWS, WHOLE, {"reduce the output", "gather the rhs"}, id="add up or gather"),
    ],
)
def test_causes_tell_the_costs_that_chose(lhs: str, rhs: str, output: str, costs: set[str]) -> None:
    module = xlanb.hlo.parse(matmul(lhs, rhs, output))
    causes = partition(module, DEVICES)
    assert any(set(dict(cause.estimates)) == costs for cause in causes.by_channel.values())


def test_a_windowed_einsum_is_refused() -> None:
    module = xlanb.hlo.parse(matmul(ROWS, ROWS, ROWS))
    with pytest.raises(UnimplementedError, match="windowed einsum"):
        partition(module, DEVICES, options=PartitionerOptions(threshold_for_windowed_einsum_mib=0))


def test_a_convolution_split_along_its_window_counts_each_part_once() -> None:
    """In a kernel's gradient, both operands are images, and two devices hold the same part.

    XLA doubles the sum.
    """
    split = "{devices=[1,4,1,2]<=[8] last_tile_dim_replicate}"
    window = "window={size=32 pad=1_1}, dim_labels=f0b_i0o->0bf"
    module = check(
        program(
            f"x = f32[8,32,4] parameter(0), sharding={split}",
            f"g = f32[8,32,6] parameter(1), sharding={split}",
            f"ROOT k = f32[3,4,6] convolution(x, g), {window}, sharding={{replicated}}",
        )
    )
    assert collectives(module) == Counter({"collective-permute": 2, "all-reduce": 1})


# -- programs at random ----------------------------------------------------------------------------


def any_sharding(rng: random.Random, rank: int) -> str:
    """Return eight devices over the dimensions and replication, in random order."""
    tiles = [1] * (rank + 1)
    for factor in (2, 2, 2):
        tiles[rng.randrange(rank + 1)] *= factor
    if tiles[-1] == DEVICES or rng.random() < 0.15:
        return WHOLE
    order = ",".join(map(str, rng.sample(range(3), 3)))
    devices = "<=[8]" if rng.random() < 0.5 else f"<=[2,2,2]T({order})"
    if rng.random() < 0.1:
        devices = ",".join(map(str, rng.sample(range(DEVICES), DEVICES)))
    if tiles.pop() == 1:
        return f"{{devices=[{','.join(map(str, tiles))}]{devices}}}"
    copies = DEVICES // int(np.prod(tiles))
    return f"{{devices=[{','.join(map(str, tiles))},{copies}]{devices} last_tile_dim_replicate}}"


def any_dot(rng: random.Random) -> str:
    sizes = {
        f"{kind}{i}": rng.choice([2, 4, 8, 8, 16, 6, 3]) for kind in "bclr" for i in range(rng.choice([0, 1, 1, 2]))
    }
    lhs = [n for n in sizes if n[0] in "bcl"] or ["l0"]
    rhs = [n for n in sizes if n[0] in "bcr"] or ["r0"]
    sizes |= {n: 8 for n in (*lhs, *rhs) if n not in sizes}
    rng.shuffle(lhs)
    rng.shuffle(rhs)
    batch = sorted(n for n in lhs if n[0] == "b")
    summed = sorted(n for n in lhs if n[0] == "c")
    output = batch + [n for n in lhs if n[0] == "l"] + [n for n in rhs if n[0] == "r"]

    def shape(names: list[str]) -> str:
        return f"f32[{','.join(str(sizes[n]) for n in names)}]"

    def places(names: list[str], of: list[str]) -> str:
        return "{" + ",".join(str(of.index(n)) for n in names) + "}"

    dims = (
        f"lhs_batch_dims={places(batch, lhs)}, rhs_batch_dims={places(batch, rhs)}, "
        f"lhs_contracting_dims={places(summed, lhs)}, rhs_contracting_dims={places(summed, rhs)}"
    )
    return program(
        f"a = {shape(lhs)} parameter(0), sharding={any_sharding(rng, len(lhs))}",
        f"b = {shape(rhs)} parameter(1), sharding={any_sharding(rng, len(rhs))}",
        f"ROOT d = {shape(output)} dot(a, b), {dims}, sharding={any_sharding(rng, len(output))}",
    )


def windows_of(rng: random.Random, sizes: list[int], kernels: list[int], *, dilated: bool) -> tuple[list[int], str]:
    """Return the output's sizes and the window's text."""
    output, parts = [], []
    for size, kernel in zip(sizes, kernels, strict=True):
        stride, low, high = rng.choice([1, 1, 2, 3]), rng.choice([0, 1, 2]), rng.choice([1, 2])
        base, spread = (rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 1, 2])) if dilated else (1, 1)
        reach = 1 + (kernel - 1) * spread
        output.append(((size - 1) * base + 1 + low + high - reach) // stride + 1)
        parts.append((kernel, stride, f"{low}_{high}", base, spread))
    names = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate")
    return output, " ".join(f"{n}={'x'.join(str(p[i]) for p in parts)}" for i, n in enumerate(names))


def any_convolution(rng: random.Random) -> str:
    batch, features, made = rng.choice([2, 4, 8]), rng.choice([2, 4, 8]), rng.choice([4, 8])
    feature_groups, batch_groups = rng.choice([(1, 1), (1, 1), (features, 1), (1, batch)])
    made *= max(feature_groups, batch_groups)
    sizes, kernels = [rng.choice([8, 16, 12, 7]), 8], [rng.choice([1, 2, 3, 4]), rng.choice([1, 3])]
    spatial, window = windows_of(rng, sizes, kernels, dilated=True)
    labels, order = rng.choice([("b01f_01io->b01f", (0, 2, 3, 1)), ("b01f_01io->bf01", (0, 1, 2, 3))])
    output = [batch // batch_groups, made, *spatial]
    shape = ",".join(str(output[i]) for i in order)
    groups = f"feature_group_count={feature_groups}, batch_group_count={batch_groups}"
    return program(
        f"a = f32[{batch},{sizes[0]},{sizes[1]},{features}] parameter(0), sharding={any_sharding(rng, 4)}",
        f"b = f32[{kernels[0]},{kernels[1]},{features // feature_groups},{made}] parameter(1), sharding={any_sharding(rng, 4)}",
        f"ROOT d = f32[{shape}] convolution(a, b), window={{{window}}}, dim_labels={labels}, {groups}, "
        f"sharding={any_sharding(rng, 4)}",
    )


def any_reduce_window(rng: random.Random) -> str:
    sizes = [rng.choice([8, 16, 12, 32]), rng.choice([8, 40])]
    output, window = windows_of(rng, sizes, [rng.choice([1, 2, 3, 4]), rng.choice([1, 3])], dilated=True)
    sharding = any_sharding(rng, 2)
    given = rng.choice([sharding, any_sharding(rng, 2)])
    return program(
        f"a = f32[{sizes[0]},{sizes[1]}] parameter(0), sharding={given}",
        "z = f32[] constant(0), sharding={replicated}",
        f"ROOT d = f32[{output[0]},{output[1]}] reduce-window(a, z), window={{{window}}}, to_apply=add, sharding={sharding}",
    )


def any_select_and_scatter(rng: random.Random) -> str:
    sizes = [rng.choice([8, 16, 12, 32]), rng.choice([8, 24])]
    output, window = windows_of(rng, sizes, [rng.choice([2, 3, 4]), rng.choice([2, 3])], dilated=False)
    window = window.partition(" lhs_dilate")[0]
    sharding = any_sharding(rng, 2)
    return program(
        f"a = f32[{sizes[0]},{sizes[1]}] parameter(0), sharding={sharding}",
        f"c = f32[{output[0]},{output[1]}] parameter(1), sharding={any_sharding(rng, 2)}",
        "z = f32[] constant(0), sharding={replicated}",
        f"ROOT d = f32[{sizes[0]},{sizes[1]}] select-and-scatter(a, c, z), window={{{window}}}, select=ge, scatter=add, "
        f"sharding={sharding}",
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", [any_dot, any_convolution, any_reduce_window, any_select_and_scatter])
def test_any_program_computes_what_the_whole_does(make: Callable[[random.Random], str], seed: int) -> None:
    check(make(random.Random(seed)), seed)


# -- Fourier transforms, offsets -------------------------------------------------------------------


def test_a_fourier_transform_along_its_own_dimension() -> None:
    sharding = "{devices=[1,1,8]<=[8]}"
    text = program(
        f"a = c64[2,2,64] parameter(0), sharding={sharding}",
        f"ROOT d = c64[2,2,64] fft(a), fft_type=FFT, fft_length={{64}}, sharding={sharding}",
    )
    module = xlanb.hlo.parse(text)
    value = np.random.default_rng(0).normal(size=(2, 2, 64)).astype(np.complex64)
    partition(module, DEVICES)
    module.verify()
    assert collectives(module) == Counter({"all-to-all": 1, "collective-permute": 2})
    np.testing.assert_allclose(xlanb.evaluate(module, value), np.fft.fft(value), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("ordinal", range(4))
def test_offsets_round_toward_zero(ordinal: int) -> None:
    offset = MultiplyAddDivide(3, -4, 3)
    assert offset.at(ordinal) == int((3 * ordinal - 4) / 3)
    assert MultiplyAddDivide(6, 4, 2) == MultiplyAddDivide(3, 2)
    combined: Any = offset - MultiplyAddDivide(1, 1, 2)
    assert isinstance(combined, CombinedOffset)
    assert combined.at(ordinal) == offset.at(ordinal) - (ordinal + 1) // 2
    assert (offset - offset).is_constant


# -- batched library calls -------------------------------------------------------------------------


def test_a_batched_library_call_works_on_its_part_of_the_batch() -> None:
    rows, flat = "{devices=[4,1,1,2]<=[8] last_tile_dim_replicate}", "{devices=[4,2]<=[8] last_tile_dim_replicate}"
    text = program(
        f"a = f32[16,8,8] parameter(0), sharding={rows}",
        'c = (f32[16,8,8]{1,2,0}, s32[16]{0}) custom-call(a), custom_call_target="lapack_spotrf_ffi", '
        "operand_layout_constraints={f32[16,8,8]{1,2,0}}, api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}, "
        f'frontend_attributes={{num_batch_dims="1"}}, sharding={{{rows}, {flat}}}',
        f"ROOT l = f32[16,8,8]{{1,2,0}} get-tuple-element(c), index=0, sharding={rows}",
    )
    module = xlanb.hlo.parse(text)
    partition(module, DEVICES)
    module.verify()
    (call,) = (i for i in module.instructions() if i.opcode.text == "custom-call")
    assert str(call.shape) == "(f32[4,8,8]{1,2,0}, s32[4]{0})"
    assert collectives(module) == Counter()
