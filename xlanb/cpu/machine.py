"""What this machine can do at best: multiply-adds per second, and bytes per second by how much memory is gone through. Measured once, in less than a second.

`limits(threads)` measures with kernels of its own: independent fused multiply-adds in registers, and whole vectors read, or read and written, again and again from memory of several sizes,
each with as many threads as a program uses. Each figure is the best of several tries, as others may use the machine meanwhile. Where XLANB_CACHE_DIR names a folder, the figures
are kept there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from xlanb.codegen.function import PARALLEL
from xlanb.cpu import jit
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.object_cache import environment_folder
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import pool
from xlanb.cpu.target import Target

_VERSION = 1
_SIZES = tuple(1 << k for k in (15, 17, 19, 21, 23, 25, 27))
"""Bytes that are gone through, by all threads together."""
_LONG = 0.002
"""Seconds of a try."""
_TRIES = 5
_CHAINS = 12
"""Multiply-adds that do not wait for one another: more than a processor has under way, and no more than the smallest set of registers holds."""
_STEP = 8
"""Vectors of a round through memory."""


@dataclass(frozen=True)
class Roof:
    """The least seconds that work takes on a machine, and what decides it: "memory" or "compute"."""

    seconds: float
    bound: str


@dataclass(frozen=True)
class MachineLimits:
    """Peak rates of a machine with a number of threads.

    `flops` are FLOP/s by the bytes of an element (4: f32, 8: f64), a multiply-add counted as two; `bandwidth` are pairs of bytes gone through and bytes per second, by size.
    """

    threads: int
    flops: dict[int, float]
    bandwidth: tuple[tuple[int, float], ...]

    def bandwidth_at(self, size: int) -> float:
        """Bytes per second where `size` bytes are gone through: between the sizes that were measured on a straight line over the size's logarithm."""
        sizes = [s for s, _ in self.bandwidth]
        k = bisect_left(sizes, size)
        if k == 0 or k == len(sizes):
            return self.bandwidth[min(k, len(sizes) - 1)][1]
        (s0, r0), (s1, r1) = self.bandwidth[k - 1], self.bandwidth[k]
        return r0 + (r1 - r0) * math.log(size / s0) / math.log(s1 / s0)

    def roof(self, size: int, flops: int, item_bytes: int = 4) -> Roof:
        """The roofline at `flops` operations on elements of `item_bytes` bytes that go through `size` bytes of memory."""
        memory = size / self.bandwidth_at(size) if size else 0.0
        compute = flops / self.flops[8 if item_bytes >= 8 else 4]
        return Roof(max(memory, compute), "compute" if compute > memory else "memory")


@cache
def limits(threads: int | None = None) -> MachineLimits:
    """The limits of this machine for programs of so many threads (by default as many as they use): measured, or read from the folder of the caches."""
    target = jit.host()
    count = threads or target.threads
    path = _path(target, count)
    known = _read(path, count)
    if known is None:
        known = _measured(target, count)
        _write(path, known)
    return known


# -- measuring ----------------------------------------------------------------------------------------------------


def _measured(target: Target, threads: int) -> MachineLimits:
    functions = [f"probe.{name}" for name in ("fma4", "fma8", "read", "copy")]
    shared = threads > 1
    objects = compile_units([Unit(_text(target, threads), ready=True, weight=0)], target)
    code = jit.LoadedCode(objects, functions, {PARALLEL: pool.address()} if shared else {})
    fma4, fma8, read, copy = (code.function(name, 1) for name in functions)
    memory = _aligned(_SIZES[-1])
    context = np.zeros(8 + 8 * threads, np.int64)
    context[1] = memory.ctypes.data
    flops = {}
    for item, function in ((4, fma4), (8, fma8)):
        lanes = target.vector_bits // 8 // item
        flops[item] = 2 * lanes * _CHAINS * threads * _best(function, context)
    rates = []
    for size in _SIZES:
        each = 2 * _STEP * target.vector_bits // 8  # a round of both halves
        context[2] = max(size // threads // each, 1) * each
        went = int(context[2]) * threads
        rates.append((size, went * max(_best(f, context) for f in (read, copy))))
    return MachineLimits(threads, flops, tuple(rates))


def _best(function: Callable[[int], None], context: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Rounds per second: so many that they take a while, the best of several tries; one that others have held up decides nothing."""
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
    """The kernels, as (ptr context): rounds, the address of the memory, bytes of each thread, then a word of each thread for what it found."""
    width = target.vector_bits // 8
    parts = [
        f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.triple}"\n',
        "declare void @xlanb.parallel(ptr, ptr, i64, i64, i64)" if threads > 1 else "",
        _fma(f"<{width // 4} x float>", "fma4"),
        _fma(f"<{width // 8} x double>", "fma8"),
        _read_memory(width),
        _copy_memory(width),
        *(_entry(name, threads) for name in ("fma4", "fma8", "read", "copy")),
    ]
    kinds = {f"llvm.fma.{_suffix(k)}": k for k in (f"<{width // 4} x float>", f"<{width // 8} x double>")}
    parts += [f"declare {k} @{name}({k}, {k}, {k})" for name, k in kinds.items()]
    return "\n".join(parts)


def _entry(name: str, threads: int) -> str:
    if threads > 1:
        call = f"call void @{PARALLEL}(ptr @{name}.part, ptr %context, i64 {threads}, i64 {threads}, i64 {threads})"
    else:
        call = f"call void @{name}.part(ptr %context, i64 0, i64 1, i64 0)"
    return f"define void @probe.{name}(ptr %context) {{\n  {call}\n  ret void\n}}"


def _suffix(kind: str) -> str:
    lanes, element = kind.strip("<>").split(" x ")
    return f"v{lanes}{'f32' if element == 'float' else 'f64'}"


_HEAD = """define internal void @{name}.part(ptr %context, i64 %lo, i64 %hi, i64 %slot) {{
entry:
  %rounds = load i64, ptr %context
  %memory.at = getelementptr i64, ptr %context, i64 1
  %all = load ptr, ptr %memory.at
  %bytes.at = getelementptr i64, ptr %context, i64 2
  %bytes = load i64, ptr %bytes.at
  %skip = mul i64 %lo, %bytes
  %memory = getelementptr i8, ptr %all, i64 %skip
  %word = add i64 %lo, 8
  %found.at = getelementptr i64, ptr %context, i64 %word
"""


def _fma(kind: str, name: str) -> str:
    """acc[k] = acc[k] * x + x, `rounds` times, with an x that nobody knows."""
    element = kind.strip("<>").split(" x ")[1]
    wide = f"llvm.fma.{_suffix(kind)}"
    lines = [_HEAD.format(name=name), f"  %one = sitofp i64 %lo to {element}"]
    lines.append(f"  %x0 = insertelement {kind} zeroinitializer, {element} %one, i32 0\n  br label %loop\nloop:")
    lines.append("  %n = phi i64 [ 0, %entry ], [ %next, %loop ]")
    lines += [f"  %a{k} = phi {kind} [ %x0, %entry ], [ %b{k}, %loop ]" for k in range(_CHAINS)]
    lines += [f"  %b{k} = call {kind} @{wide}({kind} %a{k}, {kind} %x0, {kind} %x0)" for k in range(_CHAINS)]
    lines.append(
        "  %next = add i64 %n, 1\n  %more = icmp ult i64 %next, %rounds\n  br i1 %more, label %loop, label %end\nend:"
    )
    last = "%b0"
    for k in range(1, _CHAINS):
        lines.append(f"  %s{k} = fadd {kind} {last}, %b{k}")
        last = f"%s{k}"
    lines.append(f"  %first = extractelement {kind} {last}, i32 0")
    lines.append(f"  %out = fptosi {element} %first to i64\n  store i64 %out, ptr %found.at\n  ret void\n}}")
    return "\n".join(lines)


_SWEEP = """  br label %round
round:
  %n = phi i64 [ 0, %entry ], [ %n.next, %round.end ]
{first}
  br label %loop
loop:
  %at = phi i64 [ 0, %round ], [ %at.next, %loop ]
{body}
  %at.next = add i64 %at, {step}
  %more = icmp ult i64 %at.next, {end}
  br i1 %more, label %loop, label %round.end
round.end:
  %n.next = add i64 %n, 1
  %again = icmp ult i64 %n.next, %rounds
  br i1 %again, label %round, label %end
end:
{last}
  ret void
}}
"""


def _read_memory(width: int) -> str:
    kind = f"<{width // 8} x i64>"
    body = [f"  %a{k} = phi {kind} [ zeroinitializer, %round ], [ %b{k}, %loop ]" for k in range(_STEP)]
    body += [
        f"  %o{k} = add i64 %at, {k * width}\n  %p{k} = getelementptr i8, ptr %memory, i64 %o{k}\n"
        f"  %v{k} = load {kind}, ptr %p{k}, align {width}\n  %b{k} = or {kind} %a{k}, %v{k}"
        for k in range(_STEP)
    ]
    last = [f"  %s0 = extractelement {kind} %b0, i32 0"]
    last += [
        f"  %e{k} = extractelement {kind} %b{k}, i32 0\n  %s{k} = or i64 %s{k - 1}, %e{k}" for k in range(1, _STEP)
    ]
    last.append(f"  store i64 %s{_STEP - 1}, ptr %found.at")
    sweep = _SWEEP.format(first="", body="\n".join(body), step=_STEP * width, end="%bytes", last="\n".join(last))
    return _HEAD.format(name="read") + sweep


def _copy_memory(width: int) -> str:
    """The first half of a thread's bytes into the second."""
    kind = f"<{width // 8} x i64>"
    body = [
        f"  %o{k} = add i64 %at, {k * width}\n  %p{k} = getelementptr i8, ptr %memory, i64 %o{k}\n"
        f"  %q{k} = getelementptr i8, ptr %target, i64 %o{k}\n"
        f"  %v{k} = load {kind}, ptr %p{k}, align {width}\n  store {kind} %v{k}, ptr %q{k}, align {width}"
        for k in range(_STEP)
    ]
    half = "  %half = lshr i64 %bytes, 1\n  %target = getelementptr i8, ptr %memory, i64 %half\n"
    sweep = _SWEEP.format(first="", body="\n".join(body), step=_STEP * width, end="%half", last="")
    return _HEAD.format(name="copy") + half + sweep


# -- on disk ------------------------------------------------------------------------------------------------------


def _path(target: Target, threads: int) -> Path | None:
    folder = environment_folder()
    if folder is None:
        return None
    about = repr((_VERSION, target.triple, target.cpu, target.features, threads, _SIZES))
    return folder / f"machine-{hashlib.sha256(about.encode()).hexdigest()[:16]}.json"


def _read(path: Path | None, threads: int) -> MachineLimits | None:
    """What was measured before; None where there is nothing, or nothing that makes sense."""
    if path is None:
        return None
    try:
        kept = json.loads(path.read_text())
        flops = {int(k): float(v) for k, v in kept["flops"].items()}
        rates = tuple((int(s), float(r)) for s, r in kept["bandwidth"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    figures: Sequence[float] = [*flops.values(), *(r for _, r in rates)]
    right = set(flops) == {4, 8} and tuple(s for s, _ in rates) == _SIZES
    if not right or not all(math.isfinite(v) and v > 0 for v in figures):
        return None
    return MachineLimits(threads, flops, rates)


def _write(path: Path | None, measured: MachineLimits) -> None:
    """Keep what was measured; where the disk does not take it, it is not kept."""
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(measured), file)
        Path(name).replace(path)
