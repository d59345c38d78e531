"""xlanb without llvmlite, ml_dtypes and threads, as in a browser."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import xlanb
from xlanb.codegen import jit, llvm
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.errors import ArgumentError, MissingLibraryError

TEXT = """
HloModule m, entry_computation_layout={(f32[8,16]{0,1}, f32[16])->(f32[8,16], f32[8])}
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[8,16] parameter(0)
  b = f32[16] parameter(1)
  bs = f32[8,16] broadcast(b), dimensions={1}
  y = f32[8,16] add(x, bs)
  t = f32[8,16] tanh(y)
  z = f32[] constant(0)
  r = f32[8] reduce(t, z), dimensions={1}, to_apply=sum
  ROOT out = (f32[8,16], f32[8]) tuple(t, r) }
"""
LOOP = """
HloModule loop
cond { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] multiply(x, x)
  ROOT t = (s32[], f32[4]) tuple(j, y) }
ENTRY e { x = f32[4] parameter(0)
  i = s32[] constant(0)
  s = (s32[], f32[4]) tuple(i, x)
  w = (s32[], f32[4]) while(s), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1 }
"""


@pytest.fixture
def _no_llvm(monkeypatch):
    """As where llvmlite is not installed; what was made with it before is not used."""
    monkeypatch.setattr(llvm, "is_installed", lambda: False)
    monkeypatch.setattr(jit, "host", jit.host.__wrapped__)
    monkeypatch.setattr(llvm, "library", llvm.library.__wrapped__)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 16)).astype(np.float32), rng.standard_normal(16).astype(np.float32)


@pytest.mark.usefixtures("_no_llvm")
def test_a_compiled_program_gives_what_the_evaluator_gives(arrays):
    exe = xlanb.compile(TEXT)
    assert not exe.is_native
    expected = xlanb.evaluate(TEXT, *arrays)
    for found, wanted in zip(exe(*arrays), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.usefixtures("_no_llvm")
def test_results_are_fresh_and_arguments_are_checked(arrays):
    exe = xlanb.compile("HloModule i\nENTRY e { ROOT x = f32[8,16] parameter(0) }")
    found = exe(arrays[0])
    found[0, 0] = 7  # not the argument itself
    assert arrays[0][0, 0] != 7
    with pytest.raises(ArgumentError, match=r"expected f32\[8,16\]"):
        exe(arrays[1])
    with pytest.raises(ArgumentError, match="takes 1 argument "):
        exe()


@pytest.mark.usefixtures("_no_llvm")
def test_the_trace_ends_with_the_llvm_ir_that_is_written():
    trace = xlanb.trace(TEXT)
    kinds = [s.kind for s in trace]
    assert kinds[-1] == "llvm_ir"
    assert "buffer_assignment" in kinds
    assert "define" in trace[-1].after.text
    with pytest.raises(MissingLibraryError, match="pip install llvmlite"):
        _ = xlanb.compile(TEXT).assembly


@pytest.mark.usefixtures("_no_llvm")
def test_a_profile_has_bytes_and_operations_but_no_times(arrays):
    exe = xlanb.compile(TEXT)
    table = exe.profile(*arrays)
    assert set(table.kernel) == set(exe.kernels)
    assert table.bytes.gt(0).all()
    assert table.flops.sum() == 2 * 8 * 16 + 8 * 15
    assert table.seconds.isna().all()
    with pytest.raises(MissingLibraryError, match="kernels in loops"):
        xlanb.compile(LOOP).profile(np.ones(4, np.float32))


def test_a_profile_reads_the_same_bytes_as_a_measured_one(monkeypatch, arrays):
    measured = xlanb.compile(TEXT).profile(*arrays).set_index("instruction")
    monkeypatch.setattr(llvm, "is_installed", lambda: False)
    options = CompileOptions(multi_thread=False)
    counted = compile_module(xlanb.hlo.parse(TEXT), options).profile(*arrays).set_index("instruction")
    assert counted.bytes.to_dict() == measured.bytes.to_dict()
    assert counted.flops.to_dict() == measured.flops.to_dict()


@pytest.mark.usefixtures("_no_llvm")
def test_loops_run():
    exe = xlanb.compile(LOOP)
    np.testing.assert_array_equal(exe(np.full(4, 1.5, np.float32)), np.full(4, np.float32(1.5) ** 32, np.float32))


@pytest.mark.usefixtures("_no_llvm")
def test_several_devices_need_machine_code():
    text = """
    HloModule two, num_partitions=2
    ENTRY e { x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
      ROOT y = f32[8] add(x, x), sharding={devices=[2]<=[2]} }"""
    with pytest.raises(MissingLibraryError, match="on several devices needs llvmlite"):
        xlanb.compile(text)


BROWSER = """
import importlib.abc, sys, _thread

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"llvmlite", "ml_dtypes", "_multiprocessing", "fcntl", "resource"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "llvmlite" else found(name, *a)

def no_thread(*args, **kwargs):
    raise RuntimeError("can't start new thread")
"""


def run_as_in_a_browser(program: str) -> str:
    """Return a program's output in an interpreter without these modules and without threads."""
    source = BROWSER + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_compiles_and_runs_where_nothing_else_is_there():
    told = run_as_in_a_browser("""
    import numpy as np
    import xlanb, xlanb.threads
    xlanb.threads.HAS_THREADS = False
    _thread.start_new_thread = no_thread
    import xlanb.tf as tf

    TEXT = '''
    HloModule m
    ENTRY e { x = f32[300,300] parameter(0)
      d = f32[300,300] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT y = f32[300,300] exponential(d) }'''
    x = np.full((300, 300), 1e-3, np.float32)  # large enough for a thread of its own elsewhere
    compilation = xlanb.Compilation(TEXT)
    print(float(compilation.finish()(x)[0, 0]).__round__(6))
    print(compilation.trace[-1].kind)

    a = tf.placeholder(tf.float32, [3], name="a")
    print(tf.Session().run(tf.reduce_sum(a * a), {a: [1, 2, 3]}))
    try:
        xlanb.evaluate("HloModule b\\nENTRY e { x = bf16[2] parameter(0)\\n ROOT y = bf16[2] add(x, x) }", x)
    except xlanb.errors.MissingLibraryError as error:
        print(error)
    """)
    lines = told.splitlines()
    assert lines[:3] == [f"{np.exp(3e-4):.6f}".rstrip("0"), "llvm_ir", "14.0"]
    assert lines[3] == "an array of bf16 needs ml_dtypes, which is not installed: pip install ml_dtypes"
