"""Executables on disk, and C programs that call them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.cpu import saved
from xlanb.errors import ArgumentError, CompilationError, UnimplementedError, XlanbError

MODEL = """HloModule dense

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}

ENTRY main {
  x = f32[8,16]{1,0} parameter(0)
  w = f32[16,4]{1,0} parameter(1)
  n = s32[] parameter(2)
  table = f32[1200]{0} constant({TABLE})
  slice = f32[4]{0} slice(table), slice={[3:7]}
  bias = f32[8,4]{1,0} broadcast(slice), dimensions={1}
  product = f32[8,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum = f32[8,4]{1,0} add(product, bias)
  t = f32[8,4]{1,0} tanh(sum)
  low = f32[] constant(-inf)
  best = f32[8]{0} reduce(t, low), dimensions={1}, to_apply=max
  doubled = s32[] add(n, n)
  ROOT out = (f32[8,4]{1,0}, f32[8]{0}, s32[]) tuple(t, best, doubled)
}
""".replace("TABLE", ", ".join(str(k / 1000) for k in range(1200)))

LOOP = """HloModule loop

condition {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  end = s32[] constant(1000)
  ROOT more = pred[] compare(i, end), direction=LT
}

body {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  w = f32[4] add(v, v)
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={}
  u = f32[4] multiply(w, halves)
  ROOT t = (s32[], f32[4]) tuple(next, u)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, x)
  ROOT loop = (s32[], f32[4]) while(start), condition=condition, body=body
}
"""


def _inputs() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((8, 16), np.float32), rng.standard_normal((16, 4), np.float32), np.array(21, np.int32)


def test_what_is_saved_gives_the_same_when_it_is_loaded(backend, tmp_path):
    exe = backend(MODEL)
    exe.save(tmp_path / "model")
    again = xlanb.load(tmp_path / "model")
    inputs = _inputs()
    for got, want in zip(again(*inputs), exe(*inputs), strict=True):
        np.testing.assert_array_equal(got, want)
    assert "dense: (f32[8,16], f32[16,4], s32[]) -> " in str(again)
    with pytest.raises(ArgumentError, match="dense takes 3 arguments"):
        again(1)


def test_another_process_loads_it(backend, tmp_path):
    backend(LOOP).save(tmp_path / "loop")
    code = (
        f"import numpy as np, xlanb; n, x = xlanb.load({str(tmp_path / 'loop')!r})(np.ones(4, np.float32)); print(n, x)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1000 [1. 1. 1. 1.]\n"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d[:-1], "checksum"),
        (lambda d: d[:200] + bytes([d[200] ^ 1]) + d[201:], "checksum"),
        (lambda d: b"x" + d, "not an executable saved by"),
        (lambda _: b"", "not an executable saved by"),
    ],
)
def test_a_file_that_is_damaged_is_refused(backend, tmp_path, damage, message):
    path = tmp_path / "model"
    backend(MODEL).save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CompilationError, match=message):
        xlanb.load(path)


def test_a_file_for_another_machine_is_refused(backend, tmp_path, monkeypatch):
    path = tmp_path / "model"
    backend(MODEL).save(path)

    class Lesser:
        enabled = frozenset({"sse2"})
        triple = saved.jit.host().triple
        cpu = "lesser"

    monkeypatch.setattr(saved.jit, "host", Lesser)
    with pytest.raises(CompilationError, match="another machine"):
        xlanb.load(path)


def test_functions_of_this_process_cannot_be_saved(backend, tmp_path):
    exe = backend(
        "HloModule m\n\nENTRY main {\n  x = c64[3,5]{0,1} parameter(0)\n  ROOT y = c64[3,5]{0,1} fft(x), fft_type=FFT, fft_length={5}\n}\n"
    )
    with pytest.raises(UnimplementedError, match="fft"):
        exe.save(tmp_path / "m")
    with pytest.raises(UnimplementedError, match="fft"):
        exe.export_c(tmp_path)


MAIN = """#include <stdio.h>
#include "dense.h"

int main(void) {
  float x[128], w[64], t[32], best[8];
  int32_t n = 21, doubled;
  if (fread(x, 4, 128, stdin) != 128 || fread(w, 4, 64, stdin) != 64) return 1;
  if (dense_call(x, w, &n, t, best, &doubled)) return 2;
  fwrite(t, 4, 32, stdout);
  fwrite(best, 4, 8, stdout);
  fwrite(&doubled, 4, 1, stdout);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize("shared", [False, True])
def test_a_c_program_calls_it(backend, tmp_path, shared):
    exe = backend(MODEL)
    made = {p.name for p in exe.export_c(tmp_path, name="dense")}
    assert made == {"dense.o", "dense.h", "libdense.so"}
    (tmp_path / "main.c").write_text(MAIN)
    linked = ["-L.", "-ldense", "-Wl,-rpath,$ORIGIN"] if shared else ["dense.o"]
    build = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c", *linked, "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=60)
    x, w, n = _inputs()
    done = subprocess.run(
        [tmp_path / "main"], input=x.tobytes() + w.tobytes(), capture_output=True, check=True, timeout=60
    )
    t, best, doubled = exe(x, w, n)
    np.testing.assert_allclose(np.frombuffer(done.stdout[:128], np.float32).reshape(8, 4), t, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.frombuffer(done.stdout[128:160], np.float32), best, rtol=1e-5, atol=1e-6)
    assert np.frombuffer(done.stdout[160:], np.int32)[0] == doubled == 42


EIGENVALUES = """ENTRY e {
  a = f64[5,5]{0,1} parameter(0)
  ROOT r = (f64[5]{0}, f64[5]{0}, c128[5,5]{0,1}, c128[5,5]{0,1}, s32[]) custom-call(a), custom_call_target="lapack_dgeev_ffi",
    operand_layout_constraints={f64[5,5]{0,1}}, backend_config={compute_left = 78 : ui8, compute_right = 86 : ui8}, api_version=API_VERSION_TYPED_FFI
}
"""


def test_the_header_names_the_routines_of_lapack_that_the_code_calls(backend, tmp_path):
    backend(EIGENVALUES).export_c(tmp_path, name="eigenvalues")
    header = (tmp_path / "eigenvalues.h").read_text()
    assert " *   dgeev_\n" in header
    assert "-llapack" in header
    code = (tmp_path / "eigenvalues.o").read_bytes()
    assert b"\0dgeev_\0" in code
    assert b"lapack." not in code
    backend(MODEL).export_c(tmp_path, name="dense")
    assert "LAPACK" not in (tmp_path / "dense.h").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [("a b", "identifier"), ("", "identifier"), ("int", "C or C.. keyword"), ("main", "word"), ("free", "C library")],
)
def test_a_name_that_c_cannot_call_is_refused(backend, tmp_path, name, message):
    with pytest.raises(CompilationError, match=message):
        backend(MODEL).export_c(tmp_path, name=name)
    assert not list(tmp_path.iterdir())


MANY = """HloModule many
ENTRY main {
  predict = f32[3] parameter(0)
  nothing = f32[0,4] parameter(1)
  half = f16[2] parameter(2)
RESULTS
  copied = f32[0,4] negate(nothing)
  widened = f32[2] convert(half)
  ROOT out = (TYPES, f32[0,4], f32[2]) tuple(NAMES, copied, widened)
}
"""

MANY_MAIN = """#include <stdio.h>
#include "predict.h"

int main(void) {
  float x[3] = {1, 2, 3}, none[1] = {0}, y[40][3], w[2];
  uint16_t h[2] = {0x3C00, 0xC000};
  if (predict_call(x, none, h, RESULTS, none, w)) return 2;
  for (int k = 0; k < 40; ++k) printf("%g ", y[k][k % 3]);
  printf("%g %g\\n", w[0], w[1]);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_many_results_of_a_program_whose_kernels_bear_its_name(backend, tmp_path):
    count = range(40)
    lines = [
        f"  n{k} = f32[] constant({k})\n  b{k} = f32[3] broadcast(n{k}), dimensions={{}}\n"
        f"  {'predict.' if k else 'predict_'}{k} = f32[3] add(predict, b{k})"
        for k in count
    ]
    names = ", ".join(f"{'predict.' if k else 'predict_'}{k}" for k in count)
    text = (
        MANY.replace("RESULTS", "\n".join(lines)).replace("NAMES", names).replace("TYPES", ", ".join(["f32[3]"] * 40))
    )
    exe = backend(text)
    exe.export_c(tmp_path, name="predict")
    backend(text).export_c(tmp_path, name="copied")  # the name of a kernel
    (tmp_path / "main.c").write_text(MANY_MAIN.replace("RESULTS", ", ".join(f"y[{k}]" for k in count)))
    build = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c", "predict.o", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=60)
    done = subprocess.run([tmp_path / "main"], capture_output=True, check=True, timeout=60, text=True)
    want = [k + 1 + k % 3 for k in count]
    assert [float(v) for v in done.stdout.split()] == [*want, 1, -2]
    exe.save(tmp_path / "saved under an odd näme")
    arguments = np.array([1, 2, 3], np.float32), np.zeros((0, 4), np.float32), np.array([1, -2], np.float16)
    for got, wanted in zip(xlanb.load(tmp_path / "saved under an odd näme")(*arguments), exe(*arguments), strict=True):
        np.testing.assert_array_equal(got, wanted)


NEGATED = """HloModule negated
ENTRY main {
  x = f32[100] parameter(0)
  y = f32[100] negate(x)
  ROOT KERNEL = f32[100] reverse(y), dimensions={0}
}
"""


@pytest.mark.parametrize("name", ["y", "run", "KERNEL", "xlanb"])
def test_any_other_name_is_taken(backend, tmp_path, name):
    assert (tmp_path / f"{name}.h") in backend(NEGATED).export_c(tmp_path, name=name)


def _forged(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a saved executable, and fix its digest."""
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    body = content[start + 32 :]
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    made = change(header)
    text = made if isinstance(made, bytes) else json.dumps(header if made is None else made).encode()
    body = len(text).to_bytes(8, "little") + text + body[8 + length :]
    path.write_bytes(content[:start] + hashlib.sha256(body).digest() + body)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.clear(),
        lambda h: h.pop("temp"),
        lambda h: h.update(temp=-1),
        lambda h: h.update(temp="many"),
        lambda h: h.update(temp=1 << 70),
        lambda h: h.update(long=3),
        lambda h: h.update(objects=[1 << 40]),
        lambda h: h.update(objects=[-8]),
        lambda h: h.update(objects=5),
        lambda h: h.update(objects=[]),
        lambda h: h.update(constants=[1]),
        lambda h: h.update(constants={"": 0}),
        lambda h: h.update(constants={"\0a": 0}),
        lambda h: h.update(symbols=["system"]),
        lambda h: h.update(features=None),
        lambda h: h.update(parameters=[["x"]]),
        lambda h: h.update(parameters=[["x", "f32[,"]]),
        lambda h: h.update(result=7),
        lambda h: h.update(result="f32[99999999999999999999]"),
        lambda _: [],
        lambda _: b"[" * 100_000,
        lambda _: b"\xff{",
    ],
)
def test_a_forged_header_is_refused(backend, tmp_path, change):
    path = tmp_path / "model.xlanb"
    backend("HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n ROOT y = f32[8] tanh(x)\n}").save(path)
    _forged(path, change)
    with pytest.raises(XlanbError):
        xlanb.load(path)


@pytest.mark.parametrize("cut", [20, 51, 55, 59])
def test_a_file_that_ends_in_its_head_is_refused(backend, tmp_path, cut):
    path = tmp_path / "model.xlanb"
    backend("HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n ROOT y = f32[8] tanh(x)\n}").save(path)
    content = path.read_bytes()[:cut]
    start = content.index(b"\n") + 1
    path.write_bytes(content[:start] + hashlib.sha256(content[start + 32 :]).digest() + content[start + 32 :])
    with pytest.raises(CompilationError, match="is damaged"):
        xlanb.load(path)


def test_a_pipe_is_refused_at_once(tmp_path):
    pipe = tmp_path / "model.xlanb"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="is not a regular file"):
        xlanb.load(pipe)
