"""Measure programs on a quiet machine and next to busy processes: xlanb and the real XLA:CPU.

Both run the same HLO in this process, alternately for some tenths of a second. The busy processes
are children that run Python loops; they are stopped while the quiet figures are taken, so that
quiet and loaded turns alternate. A figure is the time of all turns divided by the number of calls
(not a median: a call that waits for a preempted thread counts in full).

`quiet` is XLA's time divided by xlanb's on the quiet machine: above 1 xlanb is faster. `busy N` is
the same ratio with N busy processes, `kept N` is `busy N` divided by `quiet`: 1 if load slows both
equally. `ours N` and `XLA N` are how many times longer a call takes than on the quiet machine.

`python -m benchmarks load FILE.py [NAME ...]` measures the programs of a file instead: all, or the
named ones, of its dictionary `P` from names to (JAX function, arguments).
"""

from __future__ import annotations

import importlib.util
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._beside import hlo_text

LOADS = (0, 1, 2)
"""Busy processes."""
TURNS = 6
"""Turns of each side under each load."""
SECONDS = 0.15
"""The least time of a turn."""
_SETTLE = 0.02
"""Seconds without measurements after a change of load."""

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _array(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(np.float32)


def elementwise() -> Program:
    """Eight operations on each of 2**20 elements: gelu by tanh."""
    import jax

    return lambda x: jax.nn.gelu(x, approximate=True), (_array(1 << 20),)


def mlp_step() -> Program:
    """A step of stochastic gradient descent: 784 x 512 x 512 x 10, batch 128."""
    import jax

    def loss(weights: Any, x: Any, labels: Any) -> Any:
        for w in weights[:-1]:
            x = jax.nn.relu(x @ w)
        return -(labels * jax.nn.log_softmax(x @ weights[-1])).sum(-1).mean()

    def step(weights: Any, x: Any, labels: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, x, labels)
        return [w - 0.1 * s for w, s in zip(weights, slopes, strict=True)], value

    sizes = (784, 512, 512, 10)
    weights = [_array(m, n, scale=0.04) for m, n in pairwise(sizes)]
    labels = np.eye(10, dtype=np.float32)[np.arange(128) % 10]
    return step, (weights, _array(128, 784), labels)


def gpt_forward() -> Program:
    """Four layers of a decoder as GPT-2 small has twelve: width 768, 12 heads, 128 positions."""
    import jax
    import jax.numpy as jnp

    width, heads, length = 768, 12, 128

    def normalized(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def forward(x: Any, layers: Any) -> Any:
        mask = np.tril(np.ones((length, length), bool))
        for qkv, out, up, down in layers:
            split = jnp.split(normalized(x) @ qkv, 3, -1)
            q, k, v = (p.reshape(length, heads, width // heads).transpose(1, 0, 2) for p in split)
            scores = q @ k.swapaxes(-1, -2) / np.float32(math.sqrt(width // heads))
            mixed = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
            x = x + mixed.transpose(1, 0, 2).reshape(length, width) @ out
            x = x + jax.nn.gelu(normalized(x) @ up) @ down
        return normalized(x)

    shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    layers = [tuple(_array(*s, scale=0.02) for s in shapes) for _ in range(4)]
    return forward, (_array(length, width), layers)


def conv_net() -> Program:
    """Four convolutions of 3 x 3 with ReLU and a mean over positions, on 4 images of 56 x 56."""
    import jax
    from jax import lax

    def forward(x: Any, kernels: Any) -> Any:
        for k, kernel in enumerate(kernels):
            stride = (1 + k % 2,) * 2
            x = lax.conv_general_dilated(x, kernel, stride, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x)
        return x.mean((1, 2))

    kernels = [_array(3, 3, m, n, scale=0.1) for m, n in ((3, 32), (32, 64), (64, 64), (64, 128))]
    return forward, (_array(4, 56, 56, 3), kernels)


def add_vectors() -> Program:
    """One addition of 16 elements: too little for a second thread."""
    return lambda x, y: x + y, (_array(16), _array(16))


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    "elementwise 1M": elementwise,
    "MLP step": mlp_step,
    "GPT-2-like forward, 4 layers": gpt_forward,
    "convolutional net": conv_net,
    "16 elements": add_vectors,
}


def table(file: str = "", *names: str) -> pd.DataFrame:
    """A row for each program, and the geometric means of the ratios."""
    programs = PROGRAMS if not file else _programs_of(file, names)
    with _busy(max(LOADS)) as children:
        found = pd.DataFrame([{"program": name, **_measured(make, children)} for name, make in programs.items()])
    ratios = [c for c in found if str(c).split()[0] in ("quiet", "busy", "kept", "ours", "XLA") and "us" not in c]
    means = {c: math.exp(found[c].map(math.log).mean()) for c in ratios}
    whole = pd.DataFrame([{"program": f"geometric mean, {_threads()} threads", **means}])
    return pd.concat([found, whole], ignore_index=True).round(2)


def _programs_of(file: str, names: tuple[str, ...]) -> dict[str, Callable[[], Program]]:
    sys.path.insert(0, str(Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location("programs", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: (lambda p=p: p) for name, p in module.P.items() if not names or name in names}


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- load ------------------------------------------------------------------------------------------


@contextmanager
def _busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start processes that compute endlessly at normal priority; they are stopped initially."""
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        _set_load(children, 0)
        yield children
    finally:
        for c in children:
            c.kill()
            c.wait()


def _set_load(children: list[subprocess.Popen[bytes]], count: int) -> None:
    """Let so many of them run."""
    for k, c in enumerate(children):
        c.send_signal(signal.SIGCONT if k < count else signal.SIGSTOP)
    time.sleep(_SETTLE)


# -- measuring -------------------------------------------------------------------------------------


def _measured(make: Callable[[], Program], children: list[subprocess.Popen[bytes]]) -> dict[str, float]:
    """The figures of one program."""
    ours, real = _calls(make())
    sides = {"ours": ours, "XLA": real}
    seconds = {(side, load): [0.0, 0] for side in sides for load in LOADS}
    for call in sides.values():
        _turn(call, [0.0, 0])
    for _ in range(TURNS):
        for load in LOADS:
            _set_load(children, load)
            for side, call in sides.items():
                _turn(call, seconds[side, load])
    mean = {key: spent / calls for key, (spent, calls) in seconds.items()}
    row = {"XLA us": mean["XLA", 0] * 1e6, "ours us": mean["ours", 0] * 1e6, "quiet": mean["XLA", 0] / mean["ours", 0]}
    for load in LOADS[1:]:
        row[f"busy {load}"] = mean["XLA", load] / mean["ours", load]
        row[f"kept {load}"] = row[f"busy {load}"] / row["quiet"]
        row |= {f"{side} {load}": mean[side, load] / mean[side, 0] for side in sides}
    return row


def _calls(program: Program) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A call by xlanb and one by XLA, of the same HLO."""
    import jax

    import xlanb

    function, given = program
    lowered = jax.jit(function).lower(*given)
    kept = lowered._lowering.compile_args.get("kept_var_idx")  # noqa: SLF001 - JAX drops arguments that nothing reads
    flat = [np.asarray(x) for k, x in enumerate(jax.tree.leaves(given)) if kept is None or k in kept]
    real, placed = lowered.compile(), jax.device_put(given)
    exe = xlanb.compile(hlo_text(lowered, real))
    return lambda: exe(*flat), lambda: jax.block_until_ready(real(*placed))


def _turn(call: Callable[[], Any], total: list[float]) -> None:
    """Call for a while; adds the seconds and the number of calls."""
    call()
    begin, now, calls = time.perf_counter(), 0.0, 0
    while now < SECONDS:
        for _ in range(1 + calls // 8):
            call()
            calls += 1
        now = time.perf_counter() - begin
    total[0] += now
    total[1] += calls
