"""Object files for other machines: cross-linked, run by qemu, compared with the interpreter."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.codegen.cross import target_named
from xlanb.cpu.compiler import object_for
from xlanb.errors import CompilationError
from xlanb.explorer.numbers import leaves_of
from xlanb.hlo import parse
from xlanb.runtime.opt import random_value

MACHINES = {
    "aarch64-linux-gnu": ("aarch64-linux-gnu-gcc", "qemu-aarch64-static"),
    "riscv64-linux-gnu": ("riscv64-linux-gnu-gcc", "qemu-riscv64-static"),
}
REDUCERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
next { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] cosine(x)
  ROOT t = (s32[], f32[8]) tuple(j, y) }
goes { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT }
"""
PROGRAMS = {
    "softmax": """
  x = f32[33,70] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[33] reduce(x, low), dimensions={1}, to_apply=max
  ms = f32[33,70] broadcast(m), dimensions={0}
  d = f32[33,70] subtract(x, ms)
  e = f32[33,70] exponential(d)
  s = f32[33] reduce(e, zero), dimensions={1}, to_apply=add
  ss = f32[33,70] broadcast(s), dimensions={0}
  ROOT r = f32[33,70] divide(e, ss)""",
    "products": """
  a = f32[65,130] parameter(0)
  b = f32[130,67] parameter(1)
  c = bf16[67,31] parameter(2)
  d = f32[65,67] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = bf16[65,67] convert(d)
  ROOT f = bf16[65,31] dot(e, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "integers": """
  a = s8[40,64] parameter(0)
  b = s8[64,24] parameter(1)
  ROOT d = s32[40,24] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "convolution": """
  x = f32[2,17,19,5] parameter(0)
  k = f32[3,3,5,8] parameter(1)
  y = f32[2,17,19,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  zero = f32[] constant(0)
  zeros = f32[2,17,19,8] broadcast(zero), dimensions={}
  r = f32[2,17,19,8] maximum(y, zeros)
  ROOT w = f32[2,8,9,8] reduce-window(r, zero), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add""",
    "sort": """
  x = f32[300] parameter(0)
  ROOT s = f32[300] sort(x), dimensions={0}, to_apply=less, is_stable=true""",
    "loop": """
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(s), condition=goes, body=next
  ROOT y = f32[8] get-tuple-element(w), index=1""",
    "places": """
  x = f32[50,6] parameter(0)
  i = s32[9,1] parameter(1)
  u = f32[9,6] parameter(2)
  g = f32[9,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
  v = f32[9,6] add(g, u)
  s = f32[50,6] scatter(x, i, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  t = f32[6,50] transpose(s), dimensions={1,0}
  ROOT r = (f32[6,50], f32[9,6]) tuple(t, v)""",
    "functions": """
  x = f64[77] parameter(0)
  y = f16[77] convert(x)
  a = f64[77] tanh(x)
  b = f64[77] sine(x)
  c = f16[77] exponential(y)
  d = f64[77] erf(x)
  q = pred[77] compare(a, b), direction=GT
  e = f64[77] select(q, b, d)
  ROOT r = (f64[77], f64[77], f16[77]) tuple(a, e, c)""",
}  # fmt: skip

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void entry(const void *const *, void *const *, void *);
static unsigned long long number(void) {
  unsigned long long n;
  if (fread(&n, 8, 1, stdin) != 1) exit(2);
  return n;
}
static void *memory(unsigned long long n) {
  void *p = aligned_alloc(64, (n + 127) / 64 * 64);
  if (!p) exit(3);
  memset(p, 0xab, (n + 127) / 64 * 64);
  return p;
}
int main(void) {
  unsigned long long a = number(), r = number(), t = number();
  void **args = memory(8 * a), **results = memory(8 * r), *temp = memory(t);
  unsigned long long *sizes = memory(8 * r);
  for (unsigned long long k = 0; k < a; ++k) {
    unsigned long long n = number();
    args[k] = memory(n);
    if (n && fread(args[k], n, 1, stdin) != 1) exit(2);
  }
  for (unsigned long long k = 0; k < r; ++k) results[k] = memory(sizes[k] = number());
  entry((const void *const *)args, results, temp);
  for (unsigned long long k = 0; k < r; ++k) fwrite(results[k], sizes[k], 1, stdout);
  return 0;
}
"""


def text_of(name: str) -> str:
    return f"HloModule {name}\n{REDUCERS}\nENTRY e {{{PROGRAMS[name]}\n}}\n"


def inputs_of(text: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    made = []
    for p in parse(text).entry_computation.parameters:
        shape = p.array_shape
        if shape.element_type.is_integral:
            made.append(rng.integers(-5, 50, shape.dimensions).clip(0).astype(shape.dtype))
        else:
            made.append(np.asarray(random_value(shape)))
    return made


def run(text: str, triple: str, arrays: Sequence[np.ndarray[Any, Any]], folder: Path) -> list[np.ndarray[Any, Any]]:
    """Run a program on an emulated machine."""
    code = object_for(parse(text), target_named(triple), "entry")
    (folder / "code.o").write_bytes(code.data)
    (folder / "main.c").write_text(MAIN)
    compiler, emulator = MACHINES[triple]
    link = [compiler, "-O1", "-static", "main.c", "code.o", "-lm", "-o", "program"]
    subprocess.run(link, cwd=folder, check=True)
    given = [np.array([len(arrays), len(code.results), code.temp_bytes], np.uint64).tobytes()]
    for array in arrays:
        given += [np.uint64(array.nbytes).tobytes(), array.tobytes()]
    given += [np.uint64(s.byte_size).tobytes() for s in code.results]
    command = [emulator, str(folder / "program")]
    out = subprocess.run(command, input=b"".join(given), stdout=subprocess.PIPE, check=True).stdout
    results, at = [], 0
    for spec in code.results:
        results.append(np.frombuffer(out, spec.dtype, spec.shape.element_count, at).reshape(spec.dimensions))
        at += spec.byte_size
    assert at == len(out)
    return results


@pytest.fixture(params=MACHINES)
def triple(request: pytest.FixtureRequest) -> str:
    missing = [c for c in MACHINES[request.param] if shutil.which(c) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")
    found: str = request.param
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_machine_computes_what_the_interpreter_does(name: str, triple: str, tmp_path: Path) -> None:
    text = text_of(name)
    arrays = inputs_of(text)
    expected = leaves_of(xlanb.evaluate(parse(text), *arrays))
    for got, wanted in zip(run(text, triple, arrays, tmp_path), expected, strict=True):
        wide = np.asarray(wanted)
        precision = {2: 2e-2, 4: 2e-5, 8: 1e-12}.get(wide.dtype.itemsize, 0)
        np.testing.assert_allclose(got.astype(np.float64), wide.astype(np.float64), rtol=precision, atol=precision)


def test_wasm_of_32_bits_is_made() -> None:
    for name in PROGRAMS:
        code = object_for(parse(text_of(name)), target_named("wasm32-unknown-unknown"), "entry")
        assert code.data.startswith(b"\0asm")


@pytest.mark.parametrize(
    ("triple", "said"),
    [("armv7-linux-gnueabihf", "32-bit pointers"), ("none-such", "LLVM has no target")],
)
def test_a_machine_that_cannot_be_is_refused(triple: str, said: str) -> None:
    with pytest.raises(CompilationError, match=said):
        target_named(triple)
