"""Matrix products from real models: the share of the machine's peak, and the time of others by
ours.

Sixty-four shapes of networks (square, tall, wide, batched, either operand transposed, followed by
bias, GELU or ReLU) in several types. `share` is the rate divided by the machine's peak: of
multiply-adds in registers if they take longer than the memory traffic, else of the memory bandwidth
(`of` says which; see xlanb.cpu.machine). The other columns are the time of XLA (through JAX), of
SciPy's BLAS and of torch, divided by ours: above 1 xlanb is faster. All run in one process,
alternately; figures are medians. 8-bit integers are summed in 32 bits, and have only the bias where
others have GELU.

    python -m benchmarks products [f32|f64|bf16|f16|s8] [1|2: threads] [part of a name] ...
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd

import xlanb
from xlanb.cpu.machine import limits
from xlanb.shape import PrimitiveType

ROUNDS = 5
_REST = 0.15
"""Seconds before a try, in which the waiting threads of the side before go to sleep.

OpenBLAS's take 0.1 s.
"""
_SECONDS = 0.004
"""A try of one side lasts about so long."""
TYPES = {
    "f32": (np.float32, "f32"),
    "f64": (np.float64, "f64"),
    "bf16": (ml_dtypes.bfloat16, "bf16"),
    "f16": (np.float16, "f16"),
    "s8": (np.int8, "s32"),
}
"""Each element type's dtype, and the type of the result."""


@dataclass(frozen=True)
class Case:
    """`batch` products of m by k with k by n, a or b transposed in memory, and the following
    ops.
    """

    name: str
    m: int
    k: int
    n: int
    batch: int = 1
    a: bool = False
    b: bool = False
    then: str = ""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of a, b, and the bias."""
        lead = (self.batch,) if self.batch > 1 else ()
        a = (self.k, self.m) if self.a else (self.m, self.k)
        b = (self.n, self.k) if self.b else (self.k, self.n)
        return [(*lead, *a), (*lead, *b), *([(self.n,)] if self.then else [])]

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.k * self.n

    def bytes(self, item: int, result: int) -> int:
        """The bytes of the arrays, each once."""
        m, k, n = self.m, self.k, self.n
        return self.batch * (item * (m * k + k * n) + result * m * n)

    def __str__(self) -> str:
        lead = f"{self.batch} x " if self.batch > 1 else ""
        a, b = (" T" if t else "" for t in (self.a, self.b))
        return f"{lead}{self.m} x {self.k}{a} by {self.k} x {self.n}{b}"

    def text(self, kind: str, result: str) -> str:
        """The module."""
        lead = (self.batch,) if self.batch > 1 else ()
        out = f"{result}[{','.join(map(str, (*lead, self.m, self.n)))}]"
        given = [f"{kind}[{','.join(map(str, s))}]" for s in self.shapes[:2]]
        at = len(lead)
        batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if lead else ""
        dims = f"{batch}lhs_contracting_dims={{{at + (not self.a)}}}, rhs_contracting_dims={{{at + self.b}}}"
        lines = [f"a = {given[0]} parameter(0)", f"b = {given[1]} parameter(1)", f"d = {out} dot(a, b), {dims}"]
        if self.then:
            lines += [
                f"v = {result}[{self.n}] parameter(2)",
                f"w = {out} broadcast(v), dimensions={{{at + 1}}}",
                f"s = {out} add(d, w)",
            ]
            after = {"relu": _RELU, "gelu": _GELU if result != "s32" else ""}.get(self.then, "")
            lines += after.format(t=result, out=out).split(";")[:-1]
        lines[-1] = f"ROOT {lines[-1]}"
        return "HloModule product\nENTRY e {\n" + "".join(f"  {line.strip()}\n" for line in lines) + "}\n"


_RELU = "zero = {t}[] constant(0); zeros = {out} broadcast(zero), dimensions={{}}; r = {out} maximum(s, zeros);"
_GELU = (
    "ca = {t}[] constant(0.044715); cb = {out} broadcast(ca), dimensions={{}};"
    "square = {out} multiply(s, s); cube = {out} multiply(square, s);"
    "ga = {out} multiply(cb, cube); gb = {out} add(s, ga);"
    "qa = {t}[] constant(0.797884583); qb = {out} broadcast(qa), dimensions={{}};"
    "gc = {out} multiply(qb, gb); gd = {out} tanh(gc);"
    "ia = {t}[] constant(1); ib = {out} broadcast(ia), dimensions={{}}; ge = {out} add(gd, ib);"
    "ha = {t}[] constant(0.5); hb = {out} broadcast(ha), dimensions={{}};"
    "gf = {out} multiply(s, hb); r = {out} multiply(gf, ge);"
)

CASES = (
    Case("square 64", 64, 64, 64),
    Case("square 128", 128, 128, 128),
    Case("square 256", 256, 256, 256),
    Case("square 512", 512, 512, 512),
    Case("square 1024", 1024, 1024, 1024),
    Case("square 2048", 2048, 2048, 2048),
    Case("square 1024, a transposed", 1024, 1024, 1024, a=True),
    Case("square 1024, b transposed", 1024, 1024, 1024, b=True),
    Case("square 1024, both transposed", 1024, 1024, 1024, a=True, b=True),
    Case("tall", 8192, 64, 64),
    Case("tall, thin", 65536, 32, 16),
    Case("wide", 64, 64, 8192),
    Case("deep", 64, 8192, 64),
    Case("ResNet-50 stem", 12544, 147, 64),
    Case("ResNet-50 stage 1 up", 3136, 64, 256),
    Case("ResNet-50 stage 1 down", 3136, 256, 64),
    Case("ResNet-50 stage 2 up", 784, 128, 512),
    Case("ResNet-50 stage 2 down", 784, 512, 128),
    Case("ResNet-50 stage 3 up", 196, 256, 1024),
    Case("ResNet-50 stage 3 down", 196, 1024, 256),
    Case("ResNet-50 stage 4 up", 49, 512, 2048),
    Case("ResNet-50 stage 4 down", 49, 2048, 512),
    Case("ResNet-50 head, b1", 1, 2048, 1000, then="bias"),
    Case("ResNet-50 head, b8", 8, 2048, 1000, then="bias"),
    Case("ResNet-50 head, b32", 32, 2048, 1000, then="bias"),
    Case("ViT-B/16 q k v", 197, 768, 2304, then="bias"),
    Case("ViT-B/16 projection", 197, 768, 768, then="bias"),
    Case("ViT-B/16 mlp up", 197, 768, 3072, then="gelu"),
    Case("ViT-B/16 mlp down", 197, 3072, 768, then="bias"),
    Case("ViT-B/16 q by k", 197, 64, 197, 12, b=True),
    Case("ViT-B/16 weights by v", 197, 197, 64, 12),
    Case("BERT projection", 128, 768, 768, then="bias"),
    Case("BERT mlp up", 128, 768, 3072, then="gelu"),
    Case("BERT mlp down", 128, 3072, 768, then="bias"),
    Case("BERT q by k", 128, 64, 128, 12, b=True),
    Case("BERT weights by v", 128, 128, 64, 12),
    Case("BERT mlp up, b8", 1024, 768, 3072, then="gelu"),
    Case("GPT-2 q k v", 1024, 768, 2304, then="bias"),
    Case("GPT-2 logits", 128, 768, 50257, b=True),
    Case("GPT-2 decode logits", 1, 768, 50257),
    Case("GPT-2 decode logits, tied", 1, 768, 50257, b=True),
    Case("GPT-2 decode q k v", 1, 768, 2304, then="bias"),
    Case("GPT-2 decode mlp up", 1, 768, 3072, then="gelu"),
    Case("GPT-2 decode mlp down", 1, 3072, 768, then="bias"),
    Case("GPT-2 gradient of weights", 768, 1024, 3072, a=True),
    Case("GPT-2 gradient of x", 1024, 3072, 768, b=True),
    Case("GPT-2 gradient from logits", 128, 50257, 768),
    Case("GPT-2 gradient of embedding", 50257, 128, 768, a=True),
    Case("LLaMA-7B decode q", 1, 4096, 4096),
    Case("LLaMA-7B decode q, b transposed", 1, 4096, 4096, b=True),
    Case("LLaMA-7B decode mlp, b transposed", 1, 4096, 11008, b=True),
    Case("LLaMA-7B q, 8 tokens", 8, 4096, 4096),
    *(Case(f"LLaMA-7B q, {n} tokens", n, 4096, 4096) for n in (16, 32, 64, 128)),
    Case("LLaMA-7B q, 8 tokens, b transposed", 8, 4096, 4096, b=True),
    Case("LLaMA-7B q, 128 tokens, b transposed", 128, 4096, 4096, b=True),
    Case("LLaMA-7B mlp, 128 tokens, b transposed", 128, 4096, 11008, b=True),
    Case("MLP layer", 256, 1024, 1024, then="relu"),
    Case("MLP gradient of weights", 1024, 256, 1024, a=True),
    Case("MLP gradient of x", 256, 1024, 1024, b=True),
    Case("LSTM step, b1", 1, 512, 1024, then="bias"),
    Case("LSTM step, b32", 32, 512, 1024, then="bias"),
)


def table(*words: str) -> pd.DataFrame:
    """A row per case and type; words name types, a number of threads, or are parts of names."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    counts = [int(w) for w in words if w.isdigit()] or ([len(cpus), 1] if len(cpus) > 1 else [1])
    kinds = [w for w in words if w in TYPES] or list(TYPES)
    parts = [w for w in words if not w.isdigit() and w not in TYPES]
    rows = []
    for count in counts:
        # Libraries choose their threads once: each number of them takes a process of its own.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _hold, (cpus[:count],)) as process:
            for kind in kinds:
                rows += process.submit(_rows, kind, parts).result()
    found = pd.DataFrame(rows)
    others = [c for c in ("XLA", "BLAS", "torch") if c in found]
    means = found.groupby(["threads", "type"], sort=False)[others].agg(lambda x: np.exp(np.log(x.dropna()).mean()))
    shares = found.groupby(["threads", "type"], sort=False)["share"].mean()
    means = means.assign(product="geometric mean; mean share", share=shares).reset_index()
    return pd.concat([found, means], ignore_index=True).round(2)


def _hold(cpus: list[int]) -> None:
    """Bind this process to some CPUs, if the system can."""
    if cpus:
        os.sched_setaffinity(0, cpus)


def _rows(kind: str, parts: Sequence[str]) -> list[dict[str, Any]]:
    return [_row(case, kind) for case in CASES if not parts or any(p in case.name for p in parts)]


def _row(case: Case, kind: str) -> dict[str, Any]:
    dtype, result = TYPES[kind]
    rng = np.random.default_rng(0)
    arguments = [_numbers(rng, s, dtype) for s in case.shapes[:2]]
    out = np.dtype(np.int32) if result == "s32" else np.dtype(dtype)
    arguments += [_numbers(rng, s, out) for s in case.shapes[2:]]
    text = case.text(kind, result)
    executable = xlanb.compile(text)
    machine = limits(executable.target.threads)
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: executable(*arguments)}
    calls |= _xla(text, arguments) | _blas(case, kind, arguments) | _torch(case, kind, arguments)
    seconds = _medians(calls)
    ours = seconds["ours"]
    memory = case.bytes(np.dtype(dtype).itemsize, out.itemsize)
    roof = machine.product_roof(memory, case.flops, PrimitiveType[kind.upper()])
    return {
        "threads": executable.target.threads,
        "type": kind,
        "product": case.name,
        "sizes": str(case),
        "then": case.then,
        "us": ours * 1e6,
        "share": roof.seconds / ours,
        "of": "peak" if roof.bound == "compute" else "bandwidth",
        **{name: s / ours for name, s in seconds.items() if name != "ours"},
    }


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    if np.dtype(dtype).kind == "i":
        return rng.integers(-127, 128, shape, np.int8).astype(dtype)
    return (rng.random(shape, np.float32) - 0.5).astype(dtype)


# -- the others ---------------------------------------------------------------------------------


def _xla(text: str, arguments: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    if find_spec("jax") is None:
        return {}
    from xlanb.peers.xla import RealExecutable

    real = RealExecutable(text)
    buffers = real.put(arguments)
    return {"XLA": lambda: real.run(buffers)}


def _blas(case: Case, kind: str, arguments: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """The product by SciPy's BLAS, which knows columns alone: that of the transposes."""
    if kind not in ("f32", "f64") or case.batch > 1 or case.then:
        return {}
    from scipy.linalg import blas

    gemm = blas.sgemm if kind == "f32" else blas.dgemm
    a, b = arguments[:2]
    c = np.zeros((case.n, case.m), a.dtype, order="F")
    return {"BLAS": lambda: gemm(1.0, b.T, a.T, 0.0, c, case.b, case.a, 1)}


def _torch(case: Case, kind: str, arguments: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    if find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    if kind == "bf16":
        given = [torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for x in arguments]
    else:
        given = [torch.from_numpy(x) for x in arguments]
    a = given[0].mT if case.a else given[0]
    b = given[1].mT if case.b else given[1]
    product = torch._int_mm if kind == "s8" else torch.matmul  # noqa: SLF001 - it has no public name
    if kind == "s8" and case.batch > 1:
        return {}
    if not case.then:
        return {"torch": lambda: product(a, b)}
    bias = given[2]
    if kind == "s8":
        plain = torch.relu_ if case.then == "relu" else lambda x: x
        return {"torch": lambda: plain(product(a, b).add_(bias))}
    after = {
        "bias": lambda x: x,
        "relu": torch.relu_,
        "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }[case.then]
    return {"torch": lambda: after(torch.addmm(bias, a, b))}


def _medians(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of a call of each."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            time.sleep(_REST)
            call()
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - begin) / repeats[name])
    return {name: statistics.median(found) for name, found in times.items()}


def _repeats(call: Callable[[], Any]) -> int:
    call()
    begin = time.perf_counter()
    call()
    return max(1, min(1000, int(_SECONDS / (time.perf_counter() - begin))))
