"""From HLO to an executable: passes alone, recorded and not, the whole compilation, and a call.

If JAX is installed, the real XLA:CPU compiles and runs the same text in the same process,
interleaved. Ratios (XLA's time by ours) above 1 mean that xlanb is faster. Figures are medians, in
one process per number of threads; both compilers are bound to that many CPUs.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

import xlanb
from benchmarks.text import network
from xlanb.cpu import pipeline
from xlanb.explorer.recorder import Recorder
from xlanb.hlo import HloModule, parse
from xlanb.tracing import observing

ROUNDS = 5
CALLS = 31

ELEMENTWISE = """HloModule elementwise
ENTRY e {
  x = f32[1000000] parameter(0)
  y = f32[1000000] parameter(1)
  p = f32[1000000] multiply(x, y)
  t = f32[1000000] tanh(p)
  ROOT s = f32[1000000] add(t, x)
}
"""
SOFTMAX = """HloModule softmax
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] add(a, b) }
ENTRY e {
  x = f32[512,2048] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[512] reduce(x, low), dimensions={1}, to_apply=max
  tops = f32[512,2048] broadcast(top), dimensions={0}
  shifted = f32[512,2048] subtract(x, tops)
  e = f32[512,2048] exponential(shifted)
  total = f32[512] reduce(e, zero), dimensions={1}, to_apply=sum
  totals = f32[512,2048] broadcast(total), dimensions={0}
  ROOT p = f32[512,2048] divide(e, totals)
}
"""
DENSE = """HloModule dense
ENTRY e {
  x = f32[256,512] parameter(0)
  w = f32[512,512] parameter(1)
  b = f32[512] parameter(2)
  d = f32[256,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bs = f32[256,512] broadcast(b), dimensions={1}
  s = f32[256,512] add(d, bs)
  z = f32[] constant(0)
  zs = f32[256,512] broadcast(z), dimensions={}
  ROOT r = f32[256,512] maximum(s, zs)
}
"""
CONVOLUTION = """HloModule convolution
ENTRY e {
  x = f32[1,56,56,64] parameter(0)
  w = f32[3,3,64,64] parameter(1)
  ROOT r = f32[1,56,56,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}
"""
SUM = """HloModule sum
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] add(a, b) }
ENTRY e {
  x = f32[1024,1024] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[1024] reduce(x, zero), dimensions={1}, to_apply=sum
}
"""
SORT = """HloModule sort
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e {
  x = f32[131072] parameter(0)
  ROOT r = f32[131072] sort(x), dimensions={0}, to_apply=less
}
"""
PROGRAMS = {
    "elementwise 1M": ELEMENTWISE,
    "softmax 512x2048": SOFTMAX,
    "dense+bias+relu": DENSE,
    "convolution 3x3": CONVOLUTION,
    "sum of rows": SUM,
    "sort 131072": SORT,
    "chain of 500": network(500),
}


def seconds(action: Callable[[], Any]) -> float:
    """Wall seconds of one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def passes(module: HloModule, *, recorded: bool) -> float:
    """Seconds that the CPU pipeline takes on a copy of a module."""
    copy = module.clone()
    if not recorded:
        return seconds(lambda: pipeline().run(copy))
    with observing(Recorder()):
        return seconds(lambda: list(pipeline().steps(copy)))


def table() -> pd.DataFrame:
    """Return a row per number of threads and program.

    It has milliseconds of passes and compilation, microseconds of a call, and the ratios to XLA if
    installed.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    kinds = [cpus[:1], cpus] if len(cpus) > 1 else [cpus]
    rows = []
    for chosen in kinds:
        # Both choose their threads at the first compilation: each number needs its own process.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _hold, (chosen,)) as process:
            rows += process.submit(_rows).result()
    return pd.DataFrame(rows).round(2)


def _hold(cpus: list[int]) -> None:
    """Bind this process to some CPUs, if the system can."""
    if cpus:
        os.sched_setaffinity(0, cpus)


def _rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for name, text in PROGRAMS.items():
        module = parse(text)
        arguments = [
            rng.standard_normal(p.array_shape.dimensions).astype(np.float32)
            for p in module.entry_computation.parameters
        ]
        executable = xlanb.compile(module)
        plain = statistics.median(passes(module, recorded=False) for _ in range(ROUNDS))
        row: dict[str, Any] = {
            "threads": executable.target.threads,
            "program": name,
            "instructions": module.instruction_count,
            "passes ms": plain * 1e3,
            "recording adds": statistics.median(passes(module, recorded=True) for _ in range(ROUNDS)) / plain - 1,
            "compile ms": statistics.median(seconds(lambda m=module: xlanb.compile(m)) for _ in range(ROUNDS)) * 1e3,
        }
        rows.append(row | _calls(text, executable, arguments))
    return rows


def _calls(text: str, executable: Any, arguments: list[Any]) -> dict[str, float]:
    if find_spec("jax") is None:
        return {"call us": statistics.median(seconds(lambda: executable(*arguments)) for _ in range(CALLS)) * 1e6}
    import jax

    from xlanb.peers.xla import RealExecutable

    compiling = statistics.median(seconds(lambda: RealExecutable(text)) for _ in range(ROUNDS))
    ours = statistics.median(seconds(lambda: xlanb.compile(text)) for _ in range(ROUNDS))
    real = RealExecutable(text)
    buffers = [jax.device_put(a) for a in arguments]
    times: dict[str, list[float]] = {"xla": [], "xlanb": []}
    for _ in range(CALLS):
        times["xla"].append(seconds(lambda: real.run(buffers)))
        times["xlanb"].append(seconds(lambda: executable(*arguments)))
    medians = {k: statistics.median(v) for k, v in times.items()}
    return {
        "call us": medians["xlanb"] * 1e6,
        "run ratio": medians["xla"] / medians["xlanb"],
        "compile ratio": compiling / ours,
    }
