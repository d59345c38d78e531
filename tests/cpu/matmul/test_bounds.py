"""No byte outside an array is read or written.

Every array ends at a guard page. Runs in a process of its own, which dies on such an access.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, mmap
import numpy as np
from xlanb.codegen import costs
from xlanb.cpu import CompileOptions, compile_module
from xlanb.cpu.emitters.matmul import plan as plans
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

kept = []
libc = ctypes.CDLL(None)

def fenced(size):
    pages = -(-max(size, 1) // 4096)
    memory = mmap.mmap(-1, (pages + 2) * 4096)
    kept.append(memory)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        assert libc.mprotect(ctypes.c_void_p(base + page * 4096), ctypes.c_size_t(4096), 0) == 0
    return base + (pages + 1) * 4096 - size

def run(text, sizes, result):
    exe = compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))
    arguments = (ctypes.c_void_p * len(sizes))(*[fenced(n) for n in sizes])
    results = (ctypes.c_void_p * 1)(fenced(result))
    temp = exe.buffer_assignment.temp_size
    exe.calls.code(arguments, results, fenced(-(-temp // 64) * 64))

for t, w in (("f32", 4), ("bf16", 2), ("s8", 1), ("c64", 8)):
    for m, k, n in [(1, 1, 1), (3, 5, 7), (17, 33, 19), (1, 37, 50), (50, 37, 1), (35, 20, 33), (67, 41, 97)]:
        for lc in (0, 1):
            for rc in (0, 1):
                a, b = ((m, k) if lc else (k, m)), ((n, k) if rc else (k, n))
                run(f"ENTRY e {{ x = {t}[{a[0]},{a[1]}] parameter(0) y = {t}[{b[0]},{b[1]}] parameter(1) "
                    f"ROOT r = {t}[{m},{n}] dot(x, y), lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}} }}",
                    [m * k * w, k * n * w], m * n * w)
    for c, o in [] if t == "c64" else [(3, 5), (5, 33), (16, 17)]:
        for window, labels in [("size=3x3 pad=1_1x1_1", "b01f_01io->b01f"), ("size=3x3 stride=2x2", "b01f_01io->b01f")]:
            s = 7 if "pad" in window else 3
            run(f"ENTRY e {{ x = {t}[2,7,7,{c}] parameter(0) y = {t}[3,3,{c},{o}] parameter(1) "
                f"ROOT r = {t}[2,{s},{s},{o}] convolution(x, y), window={{{window}}}, dim_labels={labels} }}",
                [2 * 49 * c * w, 9 * c * o * w], 2 * s * s * o * w)
costs.COMMON = costs.COMMON.replace(strip_bytes=0)
plans._LONG = plans._LONG_ENOUGH = 0
plans.plan.cache_clear()
for t, w in (("f32", 4), ("f64", 8)):
    for m, k, n in [(1, 1, 128), (1, 70, 301), (3, 33, 150), (17, 65, 97), (64, 40, 99)]:
        run(f"ENTRY e {{ x = {t}[{m},{k}] parameter(0) y = {t}[{k},{n}] parameter(1) "
            f"ROOT r = {t}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}",
            [m * k * w, k * n * w], m * n * w)
plans._wants_strips = lambda _: False
plans._wants_blocks = lambda _: True
plans.plan.cache_clear()
for t, s, w, z in (("f32", "f32", 4, 4), ("f64", "f64", 8, 8), ("bf16", "bf16", 2, 2), ("f16", "f32", 2, 4), ("s8", "s32", 1, 4)):
    for m, k, n in [(1, 1, 1), (3, 5, 7), (17, 33, 19), (35, 70, 64), (67, 41, 97)]:
        for lc in (0, 1):
            for rc in (0, 1):
                a, b = ((m, k) if lc else (k, m)), ((n, k) if rc else (k, n))
                run(f"ENTRY e {{ x = {t}[{a[0]},{a[1]}] parameter(0) y = {t}[{b[0]},{b[1]}] parameter(1) "
                    f"ROOT r = {s}[{m},{n}] dot(x, y), lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}} }}",
                    [m * k * w, k * n * w], m * n * z)
print("whole")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect")
def test_no_byte_beyond():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout == "whole\n", (done.returncode, done.stderr)
