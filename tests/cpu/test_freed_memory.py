"""Memory of freed results: reused for the same size, bounded, safe among threads."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from xlanb.cpu.runtime import freed_memory
from xlanb.cpu.runtime.bridge import bridge

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="results are kept on Linux alone")

SIZE = 4 * freed_memory.LEAST + 12288
"""Bytes; no other test has results of this size, which could be freed meanwhile."""
_VOID = ctypes.c_void_p


def allocate(size: int) -> int:
    address = bridge().memory.address("malloc")
    return int(ctypes.CFUNCTYPE(_VOID, _VOID, ctypes.c_size_t)(address)(None, size))


def free(place: int, size: int) -> None:
    ctypes.CFUNCTYPE(None, _VOID, _VOID, ctypes.c_size_t)(bridge().memory.address("free"))(None, place, size)


@pytest.fixture
def keep() -> Iterator[Any]:
    """Sets the limit; nothing is kept at first."""
    set_limit = bridge().code.function(freed_memory.LIMIT, 1)
    set_limit(0)
    yield set_limit
    set_limit(0)
    set_limit(freed_memory.limit())


def test_a_result_takes_the_place_of_one_that_was_freed(backend: Any, keep: Any) -> None:
    keep(4 * SIZE)
    n = SIZE // 4
    double = backend(f"HloModule m\nENTRY e {{\n  p = f32[{n}] parameter(0)\n  ROOT s = f32[{n}] add(p, p)\n}}\n")
    x = np.arange(n, dtype=np.float32)
    places = set()
    for _ in range(5):
        result = double(x)
        np.testing.assert_array_equal(result, 2 * x)
        places.add(result.ctypes.data)
        del result
    assert len(places) == 1


def test_blocks_in_use_are_never_given_twice(keep: Any) -> None:
    keep(64 * SIZE)
    first = [allocate(SIZE) for _ in range(8)]
    assert len(set(first)) == 8
    for place in first:
        free(place, SIZE)
    again = [allocate(SIZE) for _ in range(8)]
    assert set(again) == set(first)
    for place in again:
        free(place, SIZE)


def test_only_the_same_size_is_reused(keep: Any) -> None:
    keep(64 * SIZE)
    place = allocate(SIZE)
    free(place, SIZE)
    others = [allocate(size) for size in (SIZE - 8, SIZE + 8, 2 * SIZE)]
    assert allocate(SIZE) == place
    for other, size in zip([*others, place], (SIZE - 8, SIZE + 8, 2 * SIZE, SIZE), strict=True):
        free(other, size)


@pytest.mark.parametrize("size", [freed_memory.LEAST // 2, 8 * SIZE])
def test_a_block_that_is_not_kept_leaves_the_others(keep: Any, size: int) -> None:
    keep(4 * SIZE)
    free(allocate(size), size)
    place = allocate(SIZE)
    free(place, SIZE)
    other = allocate(SIZE - 8)
    assert allocate(SIZE) == place
    free(other, SIZE - 8)
    free(place, SIZE)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        return int(file.read().split()[1]) * 4096


def test_no_more_than_the_limit_is_kept(keep: Any) -> None:
    large = 48 << 20
    keep(large + (16 << 20))
    before = resident()
    for size in range(large, large + 8 * 4096, 4096):  # sizes of other lists, which no later result has
        place = allocate(size)
        ctypes.memset(place, 1, size)
        free(place, size)
    assert resident() - before < 2 * large
    keep(0)
    assert resident() - before < large // 2


def test_the_oldest_are_freed_first(keep: Any) -> None:
    keep(3 * SIZE + SIZE // 2)
    sizes = [SIZE - 16, SIZE - 8, SIZE, SIZE + 8]
    places = {size: allocate(size) for size in sizes}
    for size in sizes[:3]:
        free(places[size], size)
    assert allocate(sizes[0]) == places[sizes[0]]  # now it is the newest
    free(places[sizes[0]], sizes[0])
    free(places[sizes[3]], sizes[3])
    for size in (sizes[0], sizes[2], sizes[3]):
        assert allocate(size) == places[size]
    keep(0)
    for size in (sizes[0], sizes[2], sizes[3]):
        free(places[size], size)


def reclaimable() -> int:
    """Bytes that the system may reclaim (see proc(5))."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("LazyFree:"))


def test_only_pages_that_nobody_took_for_long_may_be_reclaimed(keep: Any) -> None:
    keep(1 << 30)
    set_idle = bridge().code.function(freed_memory.IDLE, 1)
    large, small = 64 << 20, 1 << 20
    held = [(allocate(size), size) for size in (large, large + 4096, small)]
    for place, size in held:
        ctypes.memset(place, 1, size)
    before = reclaimable()
    try:
        for place, size in held:  # all at once: none is idle
            free(place, size)
        assert reclaimable() - before < small
        time.sleep(0.05)
        set_idle(20_000_000)
        assert allocate(small) == held[2][0]
        free(held[2][0], small)
        # the system counts large pages with a delay
        assert large < reclaimable() - before < 2 * large + small // 2
        place = allocate(large)
        assert place == held[0][0]
        ctypes.memset(place, 2, large)
        assert ctypes.string_at(place + large - 8, 8) == b"\2" * 8
        free(place, large)
    finally:
        set_idle(freed_memory.IDLE_NS)


def test_reused_memory_is_cleared_for_calloc(keep: Any) -> None:
    keep(4 * SIZE)
    place = allocate(SIZE)
    ctypes.memset(place, 255, SIZE)
    free(place, SIZE)
    calloc = ctypes.CFUNCTYPE(_VOID, _VOID, ctypes.c_size_t, ctypes.c_size_t)(bridge().memory.address("calloc"))
    cleared = calloc(None, SIZE // 8, 8)
    assert cleared == place
    assert not any(ctypes.string_at(cleared, SIZE))
    free(cleared, SIZE)


@pytest.mark.parametrize("most", [0, 3 * SIZE, 1000 * SIZE])
def test_threads_allocate_and_free_at_once(keep: Any, most: int) -> None:
    keep(most)
    sizes = [SIZE, SIZE + 4096, 2 * SIZE]

    def work(seed: int) -> bool:
        random, held, right = np.random.default_rng(seed), list[tuple[int, int, int]](), True
        for step in range(300):
            if held and random.random() < 0.5:
                place, size, mark = held.pop(int(random.integers(len(held))))
                right &= {ctypes.string_at(place + k, 1)[0] for k in (0, size // 2, size - 1)} == {mark}
                free(place, size)
            else:
                size, mark = sizes[step % 3], (seed * 31 + step) % 251
                place = allocate(size)
                for k in (0, size // 2, size - 1):
                    ctypes.memset(place + k, mark, 1)
                held.append((place, size, mark))
        for place, size, _ in held:
            free(place, size)
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
