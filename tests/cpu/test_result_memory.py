"""Memory of large results: its address, and that the arrays behave like any other."""

from __future__ import annotations

import ctypes
import gc
import tracemalloc

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name  # type: ignore[import-not-found]

from xlanb.cpu.runtime import result_memory
from xlanb.cpu.runtime.bridge import bridge

N = result_memory.LARGE // 4


def _twice(backend, n):
    return backend(f"HloModule m\nENTRY e {{\n  p = f32[{n}] parameter(0)\n  ROOT s = f32[{n}] add(p, p)\n}}\n")


def _at(n: int, place: int) -> np.ndarray:
    """An array of n f32 that begins at offset `place` in a page."""
    raw = np.zeros(4 * n + 8192, np.uint8)
    begin = (place - raw.ctypes.data) % 4096
    x = raw[begin : begin + 4 * n].view(np.float32)
    x[:] = np.arange(n) % 1000
    return x


@pytest.mark.parametrize("n", [1, N - 1, N, 3 * N + 1, 1 << 20, (1 << 20) + 3])
def test_large_results_lie_at_a_cache_line_and_own_their_memory(backend, n):
    x = _at(n, 16)
    got = _twice(backend, n)(x)
    np.testing.assert_array_equal(got, x + x)
    assert got.flags.num == np.empty(n, np.float32).flags.num
    assert got.base is None
    assert get_handler_name(got) == ("xlanb" if n >= N else "default_allocator")
    assert n < N or got.ctypes.data % 64 == 0


@pytest.mark.parametrize("place", range(0, 4096, 336))
def test_they_do_not_begin_a_little_behind_an_argument(backend, place):
    x = _at(N, place)
    ahead = (_twice(backend, N)(x).ctypes.data - x.ctypes.data) % 4096
    assert not 0 < ahead < 512


def test_any_arguments_leave_a_place(backend):
    count = 12
    parameters = "\n".join(f"  p{k} = f32[{N}] parameter({k})" for k in range(count))
    sums = "\n".join(f"  sum{k} = f32[{N}] add({f'sum{k - 1}' if k > 1 else 'p0'}, p{k})" for k in range(1, count))
    exe = backend(f"HloModule m\nENTRY e {{\n{parameters}\n{sums}\n  ROOT r = f32[{N}] copy(sum{count - 1})\n}}\n")
    arrays = [_at(N, 344 * k % 4096) for k in range(count)]
    np.testing.assert_array_equal(exe(*arrays), count * arrays[0])


def test_they_grow_and_shrink(backend):
    exe, x = _twice(backend, N), _at(N, 0)
    for size in (5 * N, N // 2, 0, N):
        got = exe(x)
        got.resize(size, refcheck=False)
        kept = min(size, N)
        np.testing.assert_array_equal(got[:kept], 2 * x[:kept])
        assert not got[kept:].any()


def test_they_are_traced_and_given_back(backend):
    exe, x = _twice(backend, N), _at(N, 0)
    exe(x)
    gc.collect()
    tracemalloc.start()
    try:
        kept = [exe(x) for _ in range(20)]
        during = tracemalloc.get_traced_memory()[0]
        del kept
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert during - after >= 20 * 4 * N


def test_the_allocator_clears_and_refuses():
    memory = bridge().memory
    c = ctypes
    allocate = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t, c.c_size_t)(memory.address("calloc"))
    free = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t)(memory.address("free"))
    place = allocate(None, 1000, 4)
    assert not any(c.string_at(place, 4000))
    free(None, place, 4000)
    free(None, None, 0)
    assert allocate(None, 1 << 62, 1 << 62) is None
    assert allocate(None, 1 << 62, 1) is None


def test_a_pointer_that_is_no_allocator_is_told():
    assert not result_memory.is_handler(0)
    assert not result_memory.is_handler(id(object()))
