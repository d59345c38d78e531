"""No byte outside an array is read or written.

Every array ends, or begins, at a guard page. Runs in a process of its own, which dies on such an
access.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, mmap
import numpy as np
from xlanb.cpu import CompileOptions, compile_module
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

libc = ctypes.CDLL(None)

def fenced(kept, size, at_end, data=None):
    pages = -(-max(size, 1) // 4096)
    memory = mmap.mmap(-1, (pages + 2) * 4096)
    kept.append(memory)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        assert libc.mprotect(ctypes.c_void_p(base + page * 4096), ctypes.c_size_t(4096), 0) == 0
    at = base + 4096 + (pages * 4096 - size if at_end else 0)
    if data is not None:
        ctypes.memmove(at, data.ctypes.data, size)
    return at

def run(text, inputs, results):
    exe = compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))
    assert not exe.program.host
    temp = exe.buffer_assignment.temp_size
    for at_end in (True, False):
        kept = []
        arguments = (ctypes.c_void_p * len(inputs))(*[fenced(kept, x.nbytes, at_end, x) for x in inputs])
        made = (ctypes.c_void_p * len(results))(*[fenced(kept, n, at_end) for n in results])
        exe.calls.code(arguments, made, fenced(kept, -(-temp // 64) * 64, at_end))

def call(routine, t, given, made, options, inputs, results):
    names = ", ".join(f"p{k}" for k in range(len(given)))
    lines = "".join(f"p{k} = {s} parameter({k})\\n" for k, s in enumerate(given))
    result = made[0] if len(made) == 1 else f"({', '.join(made)})"
    run(f"ENTRY e {{ {lines} ROOT r = {result} custom-call({names}), custom_call_target=\\"lapack_{t}{routine}_ffi\\", "
        f"operand_layout_constraints={{{', '.join(given)}}}, api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}} }}", inputs, results)

rng = np.random.default_rng(0)
for t, name, dtype, w in (("s", "f32", np.float32, 4), ("d", "f64", np.float64, 8)):
    for b, n, m in [(1, 1, 1), (1, 3, 2), (5, 3, 1), (19, 5, 3), (1, 17, 9), (2, 33, 5), (1, 99, 3)]:
        a, x = (rng.standard_normal((b, *s)).astype(dtype) for s in ((n, n), (n, m)))
        a += (3 * n * np.eye(n)).astype(dtype)
        square = f"{name}[{b},{n},{n}]{{1,2,0}}"
        for uplo in "LU":
            call("potrf", t, [square], [square, f"s32[{b}]{{0}}"], f"uplo = {ord(uplo)} : ui8", [a], [a.nbytes, 4 * b])
            for side in "LR":
                sides = f"{name}[{b},{n},{m}]{{1,2,0}}" if side == "L" else f"{name}[{b},{m},{n}]{{1,2,0}}"
                for trans in "NT":
                    options = f"side = {ord(side)} : ui8, uplo = {ord(uplo)} : ui8, trans_x = {ord(trans)} : ui8, diag = 78 : ui8"
                    call("trsm", t, [square, sides], [sides], options, [a, x], [x.nbytes])
            if t == "s":
                run(f"ENTRY e {{ a = {name}[{b},{n},{n}] parameter(0) ROOT c = {name}[{b},{n},{n}] cholesky(a), lower={str(uplo == 'L').lower()} }}", [a], [a.nbytes])
        for rows, columns in ((n, n), (n, m), (m, n)):
            given = rng.standard_normal((b, rows, columns)).astype(dtype)
            shape, k = f"{name}[{b},{rows},{columns}]{{1,2,0}}", min(rows, columns)
            call("getrf", t, [shape], [shape, f"s32[{b},{k}]{{1,0}}", f"s32[{b}]{{0}}"], "", [given], [given.nbytes, 4 * b * k, 4 * b])

# OpenBLAS reads behind a vector of complex numbers that it multiplies by NaN
for t, name, dtype, w in (("c", "c64", np.complex64, 8), ("z", "c128", np.complex128, 16)):
    for rows, columns in ((2, 1), (16, 1), (17, 1), (19, 3), (40, 5)):
        for far in (0.0, np.nan, np.inf, np.finfo(dtype).max):
            given = (rng.standard_normal((1, columns, rows)) + 1j * rng.standard_normal((1, columns, rows))).astype(dtype)
            given[..., -1] += far
            shape, k = f"{name}[1,{rows},{columns}]{{1,2,0}}", min(rows, columns)
            call("geqrf", t, [shape], [shape, f"{name}[1,{k}]{{1,0}}"], "", [given], [given.nbytes, w * k])
print("whole")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are fenced by mprotect")
def test_nothing_beyond_the_arrays_is_touched():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "whole" in done.stdout
