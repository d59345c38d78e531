"""Occupancy against NVIDIA's occupancy calculator, calculated by hand from its rules."""

from __future__ import annotations

import pytest

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.occupancy import occupancy

# Device, threads, registers, shared bytes: blocks, warps, what limits.
CASES = [
    # 2048 threads are 64 warps: 8 blocks of 8 warps
    ("a100", 256, 32, 0, 8, 64, "threads"),
    # 33 registers take 40 (1280 per warp): 16384 // 1280 = 12 warps in each of 4 partitions,
    # 48 // 8 = 6 blocks
    ("a100", 256, 33, 0, 6, 48, "registers"),
    ("a100", 256, 64, 0, 4, 32, "registers"),
    # 255 registers take 8192 a warp: 2 in each partition, 8 warps in all
    ("a100", 256, 255, 0, 1, 8, "registers"),
    # 32 blocks of a warp: a warp each
    ("a100", 32, 16, 0, 32, 32, "blocks"),
    # 48 KiB and 1 KiB of the system are 49 KiB: 164 // 49 = 3
    ("a100", 128, 32, 48 * 1024, 3, 12, "shared memory"),
    # 163 KiB and 1 KiB are all there is
    ("a100", 1024, 32, 163 * 1024, 1, 32, "shared memory"),
    ("h100", 64, 31, 1024, 32, 64, "threads"),
    # 1 warp more than fits: 1024 threads twice are all
    ("h100", 1024, 32, 0, 2, 64, "threads"),
    # 228 // (16 + 1) = 13 blocks of 4 warps
    ("h100", 128, 40, 16 * 1024, 12, 48, "registers"),
    ("h100", 128, 32, 16 * 1024, 13, 52, "shared memory"),
    # 1536 threads and 16 blocks
    ("a6000", 64, 32, 0, 16, 32, "blocks"),
    ("a6000", 1024, 32, 0, 1, 32, "threads"),
    # no memory of the system's, a unit of 256 bytes: 96 KiB // 8.25 KiB
    ("v100", 64, 32, 8 * 1024 + 1, 11, 22, "shared memory"),
    # two partitions: 32768 // 1536 = 21 warps in each, 42 // 3 = 14 blocks
    ("p100", 96, 48, 0, 14, 42, "registers"),
    # 100 // (16 + 1) blocks: of the 128 KiB of cache and shared memory 100 are shared memory
    ("rtx6000pro", 128, 32, 16 * 1024, 5, 20, "shared memory"),
    # registers that nobody knows limit nothing
    ("mi300x", 256, 0, 0, 8, 32, "threads"),
]


@pytest.mark.parametrize(("device", "threads", "registers", "shared", "blocks", "warps", "limit"), CASES)
def test_occupancy_is_that_of_the_calculator(
    device: str, threads: int, registers: int, shared: int, blocks: int, warps: int, limit: str
) -> None:
    found = occupancy(gpu_device(device), threads, registers, shared)
    assert found is not None
    assert (found.blocks, found.warps, found.limited_by) == (blocks, warps, limit)


def test_waves_are_of_the_whole_device() -> None:
    found = occupancy(gpu_device("h100"), 64, 31, 1024, blocks=2048)
    assert found is not None
    assert found.waves == pytest.approx(2048 / (32 * 132))
    assert str(found) == "100% (64 of 64 warps), limited by threads, 0.485 waves"


@pytest.mark.parametrize(
    ("threads", "registers", "shared"), [(0, 32, 0), (1025, 32, 0), (256, 256, 0), (1024, 72, 0), (64, 32, 164 << 10)]
)
def test_a_kernel_that_does_not_fit_has_none(threads: int, registers: int, shared: int) -> None:
    assert occupancy(gpu_device("a100"), threads, registers, shared) is None
