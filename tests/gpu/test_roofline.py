"""The time of a launch by a roofline, calculated by hand."""

from __future__ import annotations

import pytest

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.kernel_cost import KernelCost
from xlanb.gpu.occupancy import occupancy
from xlanb.gpu.roofline import LAUNCH_SECONDS, duration, estimate

H100 = gpu_device("h100")
FULL = occupancy(H100, 256, 32)


def test_a_large_copy_takes_its_bytes_at_the_memorys_speed() -> None:
    found = estimate(H100, KernelCost(0, 1e9, 1e9), 100_000, 256, FULL)
    assert (found.bound, found.seconds) == ("memory", pytest.approx(LAUNCH_SECONDS + 2e9 / 3352.32e9))


def test_a_product_takes_its_operations_at_the_speed_of_its_units() -> None:
    work = KernelCost(2 * 4096**3, 1e6, 1e6, "f32")
    tensor, plain = (estimate(H100, work, 4096, 256, FULL, unit) for unit in ("tf32", ""))
    assert (tensor.bound, plain.bound) == ("compute", "compute")
    # 1024 tf32 multiply-adds per clock of 1.83 GHz in each of 132 multiprocessors, 128 of f32 at
    # 1.98 GHz
    assert tensor.compute == pytest.approx(4096**3 / (132 * 1024 * 1.83e9))
    assert plain.compute == pytest.approx(4096**3 / (132 * 128 * 1.98e9))


def test_multiprocessors_without_a_block_do_nothing() -> None:
    work = KernelCost(1e12, 0, 0)
    assert estimate(H100, work, 33, 256, FULL).compute == pytest.approx(
        4 * estimate(H100, work, 132, 256, FULL).compute
    )


def test_few_threads_do_not_keep_the_memory_busy() -> None:
    found = estimate(H100, KernelCost(0, 1e8, 1e8), 132, 64, occupancy(H100, 64, 32))
    assert found.bound == "occupancy"
    assert found.memory == pytest.approx(2e8 / (132 * 64 * 16 / 6e-7))


def test_a_small_kernel_costs_its_launch() -> None:
    found = estimate(H100, KernelCost(1000, 4096, 4096), 8, 128, FULL)
    assert found.bound == "launch"
    assert LAUNCH_SECONDS < found.seconds < 2 * LAUNCH_SECONDS
    assert str(found).endswith("us, bound by launch")


@pytest.mark.parametrize(("seconds", "text"), [(2e-6, "2 us"), (9.994e-4, "999 us"), (1.5449e-3, "1.54 ms")])
def test_times_are_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_librarys_call_is_taken_to_fill_the_device() -> None:
    assert estimate(H100, KernelCost(1e12, 0, 0, "bf16")).compute == pytest.approx(1e12 / H100.flops("bf16"))


def test_a_collective_takes_the_links() -> None:
    work = KernelCost(0, 1e9, 1e9, "f32", 1e9, 8)
    found = estimate(H100, work)
    assert (found.bound, found.seconds) == ("network", pytest.approx(LAUNCH_SECONDS + 1e9 / (18 * 25e9)))


def test_small_tiles_read_their_operands_again_from_the_cache() -> None:
    work = KernelCost(2 * 4096**3, 1e6, 1e6, "bf16")
    found = estimate(H100, work, 4096, 256, FULL, "bf16", cache_bytes=1e11)
    assert found.bound == "cache"
    assert found.seconds == pytest.approx(LAUNCH_SECONDS + 1e11 / (132 * 64 * 1.98e9))
