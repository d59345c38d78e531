"""Linear algebra kernels compared with calls of SciPy's LAPACK and BLAS, in pairs.

Each program is one custom-call, compiled twice: with xlanb's own kernels, and with LAPACK routines
only. A kernel of xlanb is worth its code if `wall` or `processor`, the time of LAPACK divided by
its own, is 1.3 or more. XLANB_ROUTINES selects the routines and XLANB_SIZES the matrices, by
regular expressions ("potrf|getrf", "f32 16 x").
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from xlanb.cpu import CompileOptions, compile_module
from xlanb.cpu.emitters.linalg.routine import WAYS, way
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

SIZES, BATCHES = (4, 16, 64, 128, 256, 512, 1024), (1, 64, 1024)
_TYPES = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
_LONGEST = 2e9
"""Operations of the largest program, not to wait for minutes."""
_LARGEST = 2**23
"""Numbers of the largest batch."""
_ROUNDS = 7
_SECONDS = 0.004

Dims = Sequence[int | str]


def _shape(kind: str, batch: Sequence[int], dims: Dims) -> str:
    """An array, matrices by columns; dimensions behind an "s" are those of integers."""
    if dims[:1] == ("s",):
        kind, dims = "s32", dims[1:]
    rank = len(batch) + len(dims)
    slowest = [*range(len(batch)), *reversed(range(len(batch), rank))]
    layout = f"{{{','.join(map(str, slowest[::-1]))}}}" if slowest else ""
    return f"{kind}[{','.join(map(str, (*batch, *dims)))}]{layout}"


def _text(name: str, kind: str, batch: Sequence[int], dims: tuple[list[Dims], list[Dims]], options: str) -> str:
    """A module that is one custom-call; `dims` are those of operands and of results."""
    given, made = ([_shape(kind, batch, d) for d in each] for each in dims)
    lines = "".join(f"  p{k} = {s} parameter({k})\n" for k, s in enumerate(given))
    names = ", ".join(f"p{k}" for k in range(len(given)))
    result = made[0] if len(made) == 1 else f"({', '.join(made)})"
    return (
        f"ENTRY e {{\n{lines}  ROOT r = {result} custom-call({names}), "
        f'custom_call_target="lapack_{_TYPES[kind]}{name}_ffi", '
        f"operand_layout_constraints={{{', '.join(given)}}}, "
        f"api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}\n}}\n"
    )


def _letters(**options: str) -> str:
    return ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in options.items())


def _programs(kind: str, n: int, batch: int) -> Iterator[tuple[str, float, str, list[Any]]]:
    """(Routine, operations of a matrix, the module's text, arguments.)"""
    lead = () if batch == 1 else (batch,)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((*lead, n, n)).astype({"f32": np.float32, "c64": np.complex64}.get(kind))
    if kind == "c128":
        a = a.astype(np.complex128)
    adjoint = a.swapaxes(-1, -2).conj()
    matrix: Dims = (n, n)
    vector: Dims = (n,)
    info: Dims = ("s",)

    def program(
        name: str, operands: list[Dims], results: list[Dims], options: str, *given: Any
    ) -> tuple[str, str, list[Any]]:
        return name, _text(name, kind, lead, (operands, results), options), list(given)

    eye = np.eye(n, dtype=a.dtype)
    triangle = _letters(side="L", uplo="L", trans_x="N", diag="N")
    tau = np.ones((*lead, n), a.dtype)
    rows = [
        (1 / 3, program("potrf", [matrix], [matrix, info], _letters(uplo="L"), a @ adjoint + n * eye)),
        (2 / 3, program("getrf", [matrix], [matrix, ("s", n), info], "", a)),
        (1, program("trsm", [matrix, matrix], [matrix], triangle, a / n + eye, a)),
        (1 / n, program("trsm", [matrix, (n, 1)], [(n, 1)], triangle, a / n + eye, a[..., :1])),
    ]
    if a.dtype.kind == "f":
        symmetric = a + adjoint
        pair = [matrix, vector, info]
        rows += [
            (4 / 3, program("geqrf", [matrix], [matrix, vector], "", a)),
            (4 / 3, program("orgqr", [matrix, vector], [matrix], "", a / n, tau)),
            (9, program("syevd", [matrix], pair, _letters(mode="V", uplo="L"), symmetric)),
            (4 / 3, program("syevd", [matrix], pair, _letters(mode="N", uplo="L"), symmetric)),
        ]
    for factor, (name, text, given) in rows:
        part = "" if given[-1].shape[-1] == n or name != "trsm" else ", one right-hand side"
        mode = {"mode = 86": " V", "mode = 78": " N"}.get(text[text.find("mode =") :][:9], "")
        yield f"{name}{mode} {kind} {n} x {batch}{part}", factor * n**3, text, [x.astype(a.dtype) for x in given]


@contextmanager
def _lapack_alone() -> Iterator[None]:
    """Have all routines computed by LAPACK, the last way of each."""
    kept = {name: list(ways) for name, ways in WAYS.items()}
    for ways in WAYS.values():
        del ways[:-1]
    try:
        yield
    finally:
        for name, ways in kept.items():
            WAYS[name][:] = ways


def _compiled(text: str) -> Any:
    return compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))


def _measured(calls: Mapping[str, Callable[[], Any]]) -> dict[str, tuple[float, float]]:
    """Seconds of wall and of processor time of a call of each, measured in turns."""
    repeats = {}
    for name, call in calls.items():
        call()
        begin = time.perf_counter()
        call()
        repeats[name] = max(1, min(500, int(_SECONDS / (time.perf_counter() - begin))))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            begin, used = time.perf_counter(), time.process_time()
            for _ in range(repeats[name]):
                call()
            wall, spent = time.perf_counter() - begin, time.process_time() - used
            found[name].append((wall / repeats[name], spent / repeats[name]))
    return {
        name: (statistics.median(w for w, _ in each), statistics.median(s for _, s in each))
        for name, each in found.items()
    }


def table() -> pd.DataFrame:
    """A row per program that has a kernel of xlanb's own."""
    routines, wanted = (re.compile(os.environ.get(name, "")) for name in ("XLANB_ROUTINES", "XLANB_SIZES"))
    rows = []
    for kind in _TYPES:
        for n in SIZES:
            for batch in BATCHES:
                if n * n * batch > _LARGEST or not wanted.search(f"{kind} {n} x {batch}"):
                    continue
                for name, operations, text, given in _programs(kind, n, batch):
                    if operations * batch > _LONGEST or not routines.search(name):
                        continue
                    module = parse(text)
                    found = way(module.entry_computation.root)
                    if found is None or found[0] in [ways[-1] for ways in WAYS.values()]:
                        continue
                    calls = {"own": partial(_compiled(text), *given)}
                    with _lapack_alone():
                        calls["lapack"] = partial(_compiled(text), *given)
                    times = _measured(calls)
                    (wall, spent), (other, others) = times["own"], times["lapack"]
                    rows.append(
                        {
                            "program": name,
                            "own ms": wall * 1e3,
                            "lapack ms": other * 1e3,
                            "wall": other / wall,
                            "processor": others / spent,
                        }
                    )
    return pd.DataFrame(rows).round(3)
