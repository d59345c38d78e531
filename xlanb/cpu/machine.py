"""Measure this machine's peaks: multiply-adds per second, and bandwidth by working set size.

`limits(threads)` runs kernels of its own, once, in less than a second: independent fused
multiply-adds in registers; and whole vectors read, or read and written, repeatedly from memory of
several sizes. They use as many threads as programs do. Each figure is the best of several runs, as
other processes may use the machine. If XLANB_CACHE_DIR names a folder, the figures are stored
there.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from functools import cache, partial
from pathlib import Path

import numpy as np

from xlanb.codegen import jit
from xlanb.codegen.control import Loop
from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.groups import NARROW, Group, group_of, tile_product
from xlanb.codegen.memory import Pointer
from xlanb.codegen.native import NativeModule
from xlanb.codegen.places import displaced
from xlanb.codegen.target import Target
from xlanb.codegen.types import DOUBLE, FLOAT, I32, I64, PTR, VOID, Type
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.emitters.matmul import amx_tile
from xlanb.cpu.object_cache import environment_folder
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import pool
from xlanb.digests import blake2b
from xlanb.files import replace_file
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_VERSION = 4
_SIZES = tuple(1 << k for k in (15, 17, 19, 21, 23, 25, 27))
"""Working set sizes in bytes, of all threads together."""
_LONG = 0.002
"""Seconds per run."""
_TRIES = 5
_CHAINS = 12
"""Independent multiply-adds: enough to fill any pipeline, and to fit the fewest registers."""
_STEP = 8
"""Vectors per iteration over memory."""


@dataclass(frozen=True)
class Roof:
    """The least seconds of some work on a machine, and its bound: "memory" or "compute"."""

    seconds: float
    bound: str


@dataclass(frozen=True)
class MachineLimits:
    """Peak rates of a machine with a number of threads.

    `flops` are FLOP/s by element bytes (4: f32, 8: f64), a multiply-add counting as two.
    `bandwidth` are pairs of a working set in bytes and bytes per second, by size. `narrow` are
    FLOP/s of matrix products by narrow type, on machines with instructions that multiply and add
    groups (see codegen.groups).
    """

    threads: int
    flops: dict[int, float]
    bandwidth: tuple[tuple[int, float], ...]
    narrow: dict[str, float] = field(default_factory=dict)

    def bandwidth_at(self, size: int) -> float:
        """Bytes per second for a working set; interpolated over the logarithm of its size."""
        sizes = [s for s, _ in self.bandwidth]
        k = bisect_left(sizes, size)
        if k == 0 or k == len(sizes):
            return self.bandwidth[min(k, len(sizes) - 1)][1]
        (s0, r0), (s1, r1) = self.bandwidth[k - 1], self.bandwidth[k]
        return r0 + (r1 - r0) * math.log(size / s0) / math.log(s1 / s0)

    def roof(self, size: int, flops: int, item_bytes: int = 4) -> Roof:
        """The roofline at `flops` operations on `item_bytes`-byte elements, `size` bytes moved."""
        return self._roof(size, flops / self.flops[8 if item_bytes >= 8 else 4])

    def product_roof(self, size: int, flops: int, t: PrimitiveType) -> Roof:
        """The same for a matrix product of type t with sums of at least 32 bits."""
        rate = self.narrow.get(str(t).lower(), self.flops[8 if t is PrimitiveType.F64 else 4])
        return self._roof(size, flops / rate)

    def _roof(self, size: int, compute: float) -> Roof:
        memory = size / self.bandwidth_at(size) if size else 0.0
        return Roof(max(memory, compute), "compute" if compute > memory else "memory")


@cache
def limits(threads: int | None = None) -> MachineLimits:
    """The limits of this machine for programs with this many threads (default: what they use).

    Measured, or read from the cache directory.
    """
    target = jit.host()
    count = threads or target.threads
    path = _path(target, count)
    known = _read(path, count)
    if known is None:
        known = _measured(target, count)
        _write(path, known)
    return known


# -- measuring -------------------------------------------------------------------------------------


def _measured(target: Target, threads: int) -> MachineLimits:
    groups = {str(g.type).lower(): g for g in map(partial(group_of, target), NARROW) if g is not None}
    names = ("fma4", "fma8", "read", "copy", *(f"group.{t}" for t in groups))
    functions = [f"probe.{name}" for name in names]
    shared = threads > 1
    objects = compile_units([Unit(_text(target, threads), ready=True, weight=0)], target)
    code = jit.LoadedCode(objects, functions, {PARALLEL: pool.address()} if shared else {})
    fma4, fma8, read, copy, *probes = (code.function(name, 1) for name in functions)
    memory = _aligned(_SIZES[-1])
    context = np.zeros(8 + 8 * threads, np.int64)
    context[1] = memory.ctypes.data
    flops = {}
    for item, function in ((4, fma4), (8, fma8)):
        lanes = target.vector_bits // 8 // item
        flops[item] = 2 * lanes * _CHAINS * threads * _best(function, context)
    narrow = {
        t: 2 * _products(target, group) * threads * _best(function, context)
        for (t, group), function in zip(groups.items(), probes, strict=True)
    }
    rates = []
    for size in _SIZES:
        each = 2 * _STEP * target.vector_bits // 8  # an iteration over both halves
        context[2] = max(size // threads // each, 1) * each
        went = int(context[2]) * threads
        rates.append((size, went * max(_best(f, context) for f in (read, copy))))
    return MachineLimits(threads, flops, tuple(rates), narrow)


def _products(target: Target, group: Group) -> int:
    """Products of a round of `_multiply_groups` or of `_multiply_tiles`."""
    if tile_product(target, group.type, group.type) is None:
        return group.products * _CHAINS
    return amx_tile.SUMS * amx_tile.SIDE**3 * group.size


def _best(function: Callable[[int], None], context: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Iterations per second: the best of several measurements, to exclude interruptions.

    Each is long enough to be accurate.
    """
    rounds = 1
    while True:
        context[0] = rounds
        best = _seconds(function, context)
        if best >= _LONG:
            best = min(best, *(_seconds(function, context) for _ in range(_TRIES - 1)))
            if best >= _LONG / 2:
                return rounds / best
        rounds = max(2 * rounds, min(int(rounds * 1.2 * _LONG / max(best, 1e-7)), 64 * rounds))


def _seconds(function: Callable[[int], None], context: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    start = time.perf_counter()
    function(context.ctypes.data)
    return time.perf_counter() - start


def _aligned(size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    memory = np.zeros(size + 4096, np.uint8)
    return memory[-memory.ctypes.data % 4096 :][:size]


def _text(target: Target, threads: int) -> str:
    """The kernels, as (ptr context).

    The context: iterations, the memory's address, bytes per thread, then a result word per thread.
    """
    m = NativeModule("xlanb.probes", target)
    width = target.vector_bits // 8
    for element in (FLOAT, DOUBLE):
        _define(m, f"fma{element.bytes}", threads, partial(_multiply_add, element.times(width // element.bytes)))
    for t in NARROW:
        if (group := group_of(target, t)) is not None:
            tiles = tile_product(target, t, t)
            body = partial(_multiply_groups, group) if tiles is None else partial(_multiply_tiles, tiles)
            _define(m, f"group.{str(t).lower()}", threads, body)
    whole = I64.times(width // 8)
    _define(m, "read", threads, partial(_read_memory, whole))
    _define(m, "copy", threads, partial(_copy_memory, whole))
    return m.text()


@dataclass(frozen=True)
class _Part:
    """A thread's part of a probe: its number, its memory."""

    f: Function
    number: Value
    rounds: Value
    memory: Value
    bytes: Value


def _define(m: NativeModule, name: str, threads: int, body: Callable[[_Part], Value]) -> None:
    """Define a probe; `body` emits the part of a thread and returns its result word."""

    @m.define(f"{name}.part", VOID, context=PTR, lo=I64, hi=I64, slot=I64)
    def part(f: Function, context: Value, lo: Value, _hi: Value, _slot: Value) -> None:
        words = Pointer(context, I64)
        size = words[2]
        memory = displaced(Pointer(context, PTR)[1], lo * size)
        words[lo + 8] = body(_Part(f, lo, words[0], memory, size))

    @m.define(f"probe.{name}", VOID, exported=True, context=PTR)
    def probe(f: Function, context: Value) -> None:
        zero, all_ = f.const(I64, 0), f.const(I64, threads)
        if threads > 1:
            f.call(VOID, PARALLEL, part.address(f), context, all_, all_, all_)
        else:
            part(f, context, zero, all_, zero)


def _multiply_add(kind: Type, part: _Part) -> Value:
    """Emit a = a * x + x in many registers, `rounds` times; x is unknown at compile time."""
    f = part.f
    x = f.splat(part.number.cast("sitofp", kind.scalar), kind.lanes)
    with f.carried(part.rounds, [x] * _CHAINS, guarded=True) as loop:
        loop.next = [f.intrinsic("fma", a, x, x) for a in loop.values]
    return f.extract(_all(loop.values), 0).cast("fptosi", I64)


def _multiply_groups(group: Group, part: _Part) -> Value:
    """The same for groups of narrow neighbours."""
    f = part.f
    x = f.splat(part.number.trunc(I32), group.sum.lanes)
    start = x if group.sum.scalar == I32 else f.zero(group.sum)
    with f.carried(part.rounds, [start] * _CHAINS, guarded=True) as loop:
        loop.next = [group.add(a, x, x) for a in loop.values]
    found = f.extract(_all(loop.values), 0)
    return found.cast("fptosi", I64) if found.type.is_float else found.cast("sext", I64)


def _multiply_tiles(product: str, part: _Part) -> Value:
    """The same for tiles in AMX's registers."""
    f = part.f
    amx_tile.configure(f)
    amx_tile.clear(f)
    with f.loop(part.rounds, guarded=True):
        amx_tile.multiply(f, product)
    amx_tile.release(f)
    return part.number


def _read_memory(kind: Type, part: _Part) -> Value:
    """Read a thread's bytes, `rounds` times."""
    with _sweeps(part, part.bytes, kind, [part.f.zero(kind)] * _STEP) as (loop, places):
        loop.next = [found | _load(kind, p) for found, p in zip(loop.values, places, strict=True)]
    return part.f.extract(_all(loop.values), 0)


def _copy_memory(kind: Type, part: _Part) -> Value:
    """Copy the first half of a thread's bytes to the second, `rounds` times."""
    half = part.bytes.lshr(1)
    with _sweeps(part, half, kind, []) as (_, places):
        for p in places:
            part.f.store(_load(kind, p), displaced(p, half), kind.lanes * kind.bytes)
    return part.number


@contextmanager
def _sweeps(part: _Part, size: Value, kind: Type, state: Sequence[Value]) -> Iterator[tuple[Loop, list[Value]]]:
    """Loop over a buffer of the given size, `rounds` times.

    Yields the inner loop and the addresses of each iteration's vectors.
    """
    f, width = part.f, kind.lanes * kind.bytes
    with f.carried(part.rounds, state, guarded=True) as outer:
        with f.carried(size.udiv(_STEP * width), outer.values, guarded=True) as inner:
            first = displaced(part.memory, f.value(inner.index) * (_STEP * width))
            yield inner, [displaced(first, k * width) for k in range(_STEP)]
        outer.next = inner.values
    inner.values = outer.values


def _load(kind: Type, address: Value) -> Value:
    return address.function.load(kind, address, kind.lanes * kind.bytes)


def _all(values: Sequence[Value]) -> Value:
    """A value that depends on all of them, so that no work is dead code."""
    first, *others = values
    for v in others:
        first = first + v if v.type.is_float else first | v
    return first


# -- on disk ---------------------------------------------------------------------------------------


def _path(target: Target, threads: int) -> Path | None:
    folder = environment_folder()
    if folder is None:
        return None
    about = repr((_VERSION, target.triple, target.cpu, target.features, threads, _SIZES))
    return folder / f"machine-{blake2b(about.encode(), digest_size=8).hexdigest()}.json"


def _read(path: Path | None, threads: int) -> MachineLimits | None:
    """The stored measurement; None if there is none or it is invalid."""
    if path is None:
        return None
    try:
        kept = json.loads(path.read_text())
        flops = {int(k): float(v) for k, v in kept["flops"].items()}
        rates = tuple((int(s), float(r)) for s, r in kept["bandwidth"])
        narrow = {str(k): float(v) for k, v in kept["narrow"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    figures: Sequence[float] = [*flops.values(), *narrow.values(), *(r for _, r in rates)]
    right = set(flops) == {4, 8} and tuple(s for s, _ in rates) == _SIZES
    if not right or not all(math.isfinite(v) and v > 0 for v in figures):
        return None
    return MachineLimits(threads, flops, rates, narrow)


def _write(path: Path | None, measured: MachineLimits) -> None:
    """Store the measurement; ignore disk errors."""
    if path is None:
        return
    with suppress(OSError):
        replace_file(path, json.dumps(asdict(measured)).encode())
