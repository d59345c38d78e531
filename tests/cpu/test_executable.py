"""Calls, arguments, control flow, buffers in use, source mapping, profile, threads."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest

from xlanb.cpu import CompileOptions, compile_module, compile_steps
from xlanb.errors import ArgumentError, UnimplementedError, XlanbError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.stage import Deferred
from xlanb.transforms.pipeline import HloPassPipeline

NO_PASSES = CompileOptions(pipeline=HloPassPipeline("none"))

AFFINE = """HloModule affine

fused {
  w = f32[] parameter(0)
  x = f32[100]{0} parameter(1)
  b = f32[] parameter(2)
  ws = f32[100]{0} broadcast(w), dimensions={}
  m = f32[100]{0} multiply(ws, x)
  bs = f32[100]{0} broadcast(b), dimensions={}
  ROOT y = f32[100]{0} add(m, bs)
}

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  w.1 = f32[] parameter(0)
  x.1 = f32[100]{0} parameter(1)
  b.1 = f32[] parameter(2)
  f = f32[100]{0} fusion(w.1, x.1, b.1), kind=kLoop, calls=fused
  zero = f32[] constant(0)
  total = f32[] reduce(f, zero), dimensions={0}, to_apply=sum
  ROOT out = (f32[100]{0}, f32[]) tuple(f, total)
}
"""

X = np.arange(100, dtype=np.float32)
ARGS = (np.float32(2), X, np.float32(1))


def test_a_tuple_comes_back_as_a_tuple(backend):
    f, total = backend(AFFINE)(np.array(2, np.float32), X, np.array(1, np.float32))
    np.testing.assert_array_equal(f, X * 2 + 1)
    np.testing.assert_allclose(total, (X * 2 + 1).sum())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "takes 3 arguments"),
        ((*ARGS, X), "takes 3 arguments"),
        ((ARGS[0], X[:-1], ARGS[2]), r"argument 1 \(x.1\): expected f32\[100\]"),
        ((ARGS[0], X.astype(np.float64), ARGS[2]), "got dtype float64"),
        ((ARGS[0], X.reshape(10, 10), ARGS[2]), r"got shape \(10, 10\)"),
        ((ARGS[0], None, ARGS[2]), "expected f32"),
        ((ARGS[0], "x", ARGS[2]), "expected f32"),
        ((X, X, X), "argument 0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(backend, args, message):
    exe = backend(AFFINE)
    with pytest.raises(ArgumentError, match=message):
        exe(*args)
    exe(*ARGS)  # and the next call works


def test_strided_misaligned_and_read_only_arrays_are_taken(backend):
    exe = backend(AFFINE)
    wide = np.zeros(200, np.float32)
    wide[::2] = X
    raw = np.zeros(401, np.uint8)
    misaligned = raw[1:].view(np.float32)
    misaligned[:] = X
    locked = X.copy()
    locked.flags.writeable = False
    want = exe(*ARGS)[0].tobytes()
    for x in (wide[::2], misaligned, locked):
        assert exe(2.0, x, 1.0)[0].tobytes() == want


def test_results_are_fresh_and_arguments_untouched(backend):
    exe = backend(AFFINE)
    x = X.copy()
    first = exe(2.0, x, 1.0)[0]
    second = exe(3.0, x, 1.0)[0]
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(first, X * 2 + 1)
    np.testing.assert_array_equal(second, X * 3 + 1)


def test_nested_tuple_parameters(backend):
    text = """HloModule m
ENTRY main {
  p = (f32[3], (s32[], f32[3])) parameter(0)
  a = f32[3] get-tuple-element(p), index=0
  q = (s32[], f32[3]) get-tuple-element(p), index=1
  b = f32[3] get-tuple-element(q), index=1
  c = f32[3] add(a, b)
  ROOT r = (f32[3], (s32[], f32[3])) tuple(c, q)
}
"""
    exe = backend(text)
    a, b, n = np.ones(3, np.float32), np.arange(3, dtype=np.float32), np.array(7, np.int32)
    c, (m, d) = exe((a, (n, b)))
    np.testing.assert_array_equal(c, a + b)
    assert m == 7
    np.testing.assert_array_equal(d, b)
    with pytest.raises(ArgumentError, match="expected a tuple"):
        exe((a, b))


SWAP = """HloModule swap

body {
  p = (s32[], f32[4], f32[4], f32[2]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  a = f32[4] get-tuple-element(p), index=1
  b = f32[4] get-tuple-element(p), index=2
  c = f32[2] get-tuple-element(p), index=3
  s = f32[4] add(a, b)
  ROOT t = (s32[], f32[4], f32[4], f32[2]) tuple(m, b, s, c)
}

condition {
  p = (s32[], f32[4], f32[4], f32[2]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  k = s32[] constant(10)
  ROOT lt = pred[] compare(n, k), direction=LT
}

ENTRY main {
  z = s32[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[2] parameter(2)
  t = (s32[], f32[4], f32[4], f32[2]) tuple(z, x, x, y)
  w = (s32[], f32[4], f32[4], f32[2]) while(t), condition=condition, body=body
  f = f32[4] get-tuple-element(w), index=1
  g = f32[4] get-tuple-element(w), index=2
  h = f32[2] get-tuple-element(w), index=3
  k = f32[4] add(x, g)
  ROOT r = (f32[4], f32[4], f32[2], f32[4]) tuple(f, g, h, k)
}
"""


@pytest.mark.parametrize("start", [0, 9, 10, 11])
def test_a_loop_whose_state_changes_places(backend, start):
    module = parse(SWAP)
    args = np.array(start, np.int32), np.arange(4, dtype=np.float32), np.ones(2, np.float32)
    for got, want in zip(backend(module)(*args), evaluate(module, *args), strict=True):
        np.testing.assert_array_equal(got, want)


BRANCHES = """HloModule branches

double {
  p = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  b = f32[4] get-tuple-element(p), index=1
  ROOT r = (f32[4], f32[4]) tuple(b, a)
}

negate {
  p = f32[4] parameter(0)
  n = f32[4] negate(p)
  ROOT r = (f32[4], f32[4]) tuple(n, p)
}

ENTRY main {
  k = s32[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] add(x, x)
  t = (f32[4], f32[4]) tuple(x, y)
  ROOT c = (f32[4], f32[4]) conditional(k, t, y, x), branch_computations={double, negate, negate}
}
"""


@pytest.mark.parametrize("chosen", [0, 1, 2, 3, -1])
def test_branches(backend, chosen):
    module = parse(BRANCHES)
    args = np.array(chosen, np.int32), np.arange(4, dtype=np.float32)
    for got, want in zip(backend(module)(*args), evaluate(module, *args), strict=True):
        np.testing.assert_array_equal(got, want)


def test_one_result_twice_and_arguments_as_results(backend):
    text = """HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  n = f32[3] negate(x)
  c = f32[3] constant({1, 2, 3})
  ROOT r = (f32[3], f32[3], f32[3], f32[3]) tuple(n, n, x, c)
}
"""
    x = np.arange(3, dtype=np.float32)
    a, b, same, c = backend(text)(x)
    np.testing.assert_array_equal(a, -x)
    np.testing.assert_array_equal(b, -x)
    assert a is not b
    assert not np.shares_memory(same, x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(c, [1, 2, 3])


def test_large_constants_are_not_written_into_the_ir(backend):
    value = np.arange(5000, dtype=np.float32)
    text = "HloModule m\nENTRY main {\n x = f32[5000] parameter(0)\n c = f32[5000] constant({"
    text += ", ".join(str(v) for v in value) + "})\n ROOT r = f32[5000] add(x, c)\n}\n"
    exe = backend(text)
    assert len(exe.llvm_ir) < 10_000
    np.testing.assert_array_equal(exe(value), value * 2)
    assert "vaddps" in exe.assembly or "add" in exe.assembly


def test_every_line_of_code_leads_back_to_its_instruction(backend):
    exe = backend(AFFINE)
    for record in (exe.llvm_record, exe.optimized_record, exe.assembly_record):
        named = set(record.lines.values())
        assert {"m", "y"} & named, record.language
        assert "total" in set(record.kernels.values())
        text = record.text.splitlines()
        multiplied = [text[k - 1] for k, name in record.lines.items() if name in ("m", "y")]
        assert any("mul" in line or "fma" in line for line in multiplied), record.language
    assert set(exe.kernels) == {"f", "total"}


def test_profile_has_a_row_for_each_kernel(backend):
    exe = backend(AFFINE)
    table = exe.profile(*ARGS)
    assert set(table["kernel"]) == {"f", "total"}
    assert (table["seconds"] > 0).all()
    assert table["share"].sum() == pytest.approx(1)
    assert ((table["of_limit"] > 0) | table["of_limit"].isna()).all()  # NaN where a kernel is below the clock's grain
    assert set(table["bound"]) <= {"memory", "compute"}  # of limits that are measured; test_machine has given ones
    row = table.set_index("kernel").loc["f"]
    assert (row["bytes"], row["flops"], row["calls"]) == (808, 200, 1)


def test_threads_may_run_one_executable_at_once(backend):
    exe = backend(SWAP)
    want = [x.tobytes() for x in exe(np.array(0, np.int32), np.arange(4, dtype=np.float32), np.ones(2, np.float32))]
    wrong: list[int] = []

    def work() -> None:
        for k in range(200):
            got = exe(np.array(0, np.int32), np.arange(4, dtype=np.float32), np.ones(2, np.float32))
            if [x.tobytes() for x in got] != want:
                wrong.append(k)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_steps_end_in_the_same_program_and_leave_the_module_alone():
    module = parse(AFFINE)
    text = str(module)
    steps = compile_steps(module, NO_PASSES)
    kinds = []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            exe = end.value
            break
        kinds.append(step.kind)
        # LLVM's passes are part of the time of the machine code
        assert step.seconds is None if step.kind == "llvm_ir_optimized" else step.seconds >= 0
    assert kinds == ["schedule", "buffer_assignment", "llvm_ir", "llvm_ir_optimized", "assembly"]
    assert str(module) == text
    plain = compile_module(module, NO_PASSES)
    assert [a.tobytes() for a in exe(*ARGS)] == [a.tobytes() for a in plain(*ARGS)]
    assert "is_scheduled=true" in str(exe.hlo_module)


def test_what_the_backend_does_not_know_is_named(backend):
    text = "HloModule m\nENTRY main {\n t = token[] after-all()\n ROOT i = (f32[3], u32[], token[]) recv(t), channel_id=1\n}\n"
    with pytest.raises(UnimplementedError, match="recv"):
        backend(text)


def test_a_gather_from_nothing_reads_nothing(backend):
    text = """HloModule m
ENTRY main {
  x = f32[0,2] parameter(0)
  i = s32[3] parameter(1)
  ROOT g = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,2}
}
"""
    try:
        got = backend(text)(np.zeros((0, 2), np.float32), np.zeros(3, np.int32))
    except XlanbError:
        return
    assert (got == 0).all()


def test_host_functions_are_named_and_their_errors_arrive(backend):
    text = "HloModule m\nENTRY main {\n x = c64[3,5]{0,1} parameter(0)\n ROOT f = c64[3,5]{0,1} fft(x), fft_type=FFT, fft_length={5}\n}\n"
    exe = backend(text)
    x = np.exp(1j * np.arange(15)).astype(np.complex64).reshape(3, 5)
    np.testing.assert_allclose(exe(x), np.fft.fft(x), rtol=1e-5, atol=1e-5)
    assert "@host.fft.f" in exe.llvm_ir


def test_elided_constants_are_zeros_and_told(backend, caplog):
    text = "HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  c = f32[3] constant({...})\n  ROOT y = f32[3] add(x, c)\n}"
    with caplog.at_level("WARNING", "xlanb.cpu"):
        exe = backend(text)
    assert "the values of c were elided" in caplog.text
    np.testing.assert_array_equal(exe(np.ones(3, np.float32)), np.ones(3, np.float32))


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[3]{0} parameter(0)\n  ROOT s = (f32[3]{0}, u32[], token[]) send(x, t), channel_id=1",
        "ROOT r = (f32[3]{0}, u32[], token[]) recv(t), channel_id=1, is_host_transfer=true",
    ],
)
def test_talk_with_a_host_program_is_refused_by_name(backend, body):
    with pytest.raises(UnimplementedError, match="needs another device to talk to, or a host program"):
        backend(f"HloModule m\n\nENTRY e {{\n  t = token[] after-all()\n  {body}\n}}\n")


def test_the_texts_of_code_are_generated_when_they_are_read():
    kept = [s for s in compile_steps(parse(AFFINE), NO_PASSES) if isinstance(s.given_after, Deferred)]
    assert [s.kind for s in kept] == ["llvm_ir", "llvm_ir_optimized", "assembly"]
    assert not any(s.given_after.is_read for s in kept)
    assert [s.after.language for s in kept] == ["llvm", "llvm", "asm"]
    assert all(a.given_after is b.given_before for a, b in pairwise(kept))
