"""Threads that wait for each other: barriers, shuffles and shared memory, emulated on the CPU."""

import ctypes

import numpy as np
import pytest

from xlanb.codegen import jit, llvm
from xlanb.codegen.translation import Passes, translate
from xlanb.errors import CompilationError
from xlanb.gpu import ptx
from xlanb.gpu.devices import gpu_device
from xlanb.gpu.emulator.rewriting import rewritten
from xlanb.gpu.emulator.scheduler import DIVERGED, OK, EmulatorModule
from xlanb.gpu.launches import LaunchedCode
from xlanb.gpu.target import GpuTarget

TARGET = GpuTarget(gpu_device("a100"))
HEAD = f'target datalayout = "{TARGET.data_layout}"\ntarget triple = "{TARGET.triple}"\n'
DECLARATIONS = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
"""
BEGIN = """define ptx_kernel void @k(ptr %p0, ptr %p1) nounwind {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %ctaid, THREADS
  %index = add i32 %first, %tid
  %at = zext i32 %index to i64
  %source = getelementptr i32, ptr %p0, i64 %at
  %target = getelementptr i32, ptr %p1, i64 %at
  %v = load i32, ptr %source, align 4
"""


def run(body, source, threads, *, shared=0, head=""):
    """Run a kernel of two arrays; return its output and status. Also generate its PTX."""
    text = HEAD + head + BEGIN.replace("THREADS", str(threads)) + body + "}\n" + DECLARATIONS
    assert ".entry k(" in ptx.compile_ptx(text, TARGET)
    code = LaunchedCode("k", text, shared, waits=True)
    module = EmulatorModule(jit.host())
    made = module.add(code, threads)
    data = translate(module.text(), llvm.TargetModel(jit.host(), 1), Passes(1))
    malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    loaded = jit.LoadedCode([data], [made.symbol], {"malloc": malloc})
    target = np.zeros_like(source)
    table = (ctypes.c_void_p * 2)(source.ctypes.data, target.ctypes.data)
    memory = [np.zeros(n, np.int64) for n in (shared // 8 + 8, threads, 16 * threads, threads)]
    addresses = [m.ctypes.data for m in memory]
    record = (ctypes.c_uint64 * 6)(0, *addresses[:3], threads, addresses[3])
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    status = function(loaded.address(made.symbol))(table, 0, len(source) // threads, ctypes.addressof(record))
    ctypes.CDLL(None).free(ctypes.c_void_p(record[0]))
    return target, status


def test_threads_read_what_others_wrote_before_a_barrier():
    body = """
  %shared0 = addrspacecast ptr addrspace(3) @shared0 to ptr
  %t = zext i32 %tid to i64
  %mine = getelementptr i32, ptr %shared0, i64 %t
  store i32 %v, ptr %mine, align 4
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %turned = sub i64 63, %t
  %theirs = getelementptr i32, ptr %shared0, i64 %turned
  %w = load i32, ptr %theirs, align 4
  store i32 %w, ptr %target, align 4
  ret void
"""
    head = "@shared0 = internal addrspace(3) global [64 x i32] poison, align 16\n"
    source = np.arange(192, dtype=np.int32)
    got, status = run(body, source, 64, shared=256, head=head)
    assert status == OK
    np.testing.assert_array_equal(got, source.reshape(3, 64)[:, ::-1].ravel())


@pytest.mark.parametrize(
    ("how", "amount", "lane"),
    [
        ("bfly", 5, lambda k: k ^ 5),
        ("down", 3, lambda k: k + 3 if k + 3 < 32 else k),
        ("up", 7, lambda k: k - 7 if k >= 7 else k),
        ("idx", 9, lambda _: 9),
    ],
)
def test_shuffles_take_the_value_of_a_lane(how, amount, lane):
    body = f"""
  %w = call i32 @llvm.nvvm.shfl.sync.{how}.i32(i32 -1, i32 %v, i32 {amount}, i32 {0 if how == "up" else 31})
  store i32 %w, ptr %target, align 4
  ret void
"""
    source = np.arange(128, dtype=np.int32) * 3
    got, status = run(body, source, 64)
    assert status == OK
    np.testing.assert_array_equal(got, [source[k // 32 * 32 + lane(k % 32)] for k in range(128)])


def test_waiting_in_a_loop_keeps_what_a_thread_carries():
    body = """
  br label %loop
loop:
  %sum = phi i32 [ %v, %entry ], [ %more, %loop ]
  %step = phi i32 [ 16, %entry ], [ %half, %loop ]
  %w = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %sum, i32 %step, i32 31)
  %more = add i32 %sum, %w
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %half = lshr i32 %step, 1
  %again = icmp ne i32 %half, 0
  br i1 %again, label %loop, label %done
done:
  store i32 %more, ptr %target, align 4
  ret void
"""
    source = np.random.default_rng(0).integers(0, 1000, 96).astype(np.int32)
    got, status = run(body, source, 96)
    assert status == OK
    np.testing.assert_array_equal(got, np.repeat(source.reshape(3, 32).sum(1), 32))


def test_a_shuffle_that_some_lanes_do_not_reach_is_found():
    body = """
  %some = icmp ult i32 %tid, 7
  br i1 %some, label %left, label %rest
rest:
  %w = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v, i32 1, i32 31)
  store i32 %w, ptr %target, align 4
  br label %left
left:
  ret void
"""
    assert run(body, np.arange(32, dtype=np.int32), 32)[1] == DIVERGED


def test_threads_that_have_ended_hold_up_no_barrier():
    body = """
  %some = icmp ult i32 %tid, 32
  br i1 %some, label %left, label %rest
rest:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  store i32 %v, ptr %target, align 4
  br label %left
left:
  ret void
"""
    got, status = run(body, np.arange(64, dtype=np.int32) + 1, 64)
    assert status == OK
    np.testing.assert_array_equal(got, [0] * 32 + list(range(33, 65)))


def test_intrinsic_without_a_meaning_is_refused():
    text = HEAD + "define ptx_kernel void @k() nounwind {\nentry:\n  call void @llvm.nvvm.exit()\n  ret void\n}\n"
    with pytest.raises(CompilationError, match=r"does not implement llvm\.nvvm\.exit, used in kernel k"):
        rewritten(LaunchedCode("k", text, 0, waits=False), "a.")
