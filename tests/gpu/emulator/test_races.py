"""Races between threads of a kernel, found by `emulate(check=True)`."""

import re
from dataclasses import replace

import numpy as np
import pytest

import xlanb
from xlanb.errors import RaceError
from xlanb.gpu.compiler import GpuCompileOptions, compile_module
from xlanb.gpu.emulator.machine import Emulator
from xlanb.gpu.launches import Launches
from xlanb.gpu.program import LaunchProgram
from xlanb.transforms.pipeline import HloPassPipeline

ASSIGN = """HloModule m
replace {{ a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }}
ENTRY e {{
  x = f32[500] parameter(0)  i = s32[{n},1] parameter(1)  u = f32[{n}] parameter(2)
  ROOT s = f32[500] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=replace
}}"""
ADD = ASSIGN.replace("ROOT b = f32[] parameter(1)", "b = f32[] parameter(1)  ROOT s = f32[] add(a, b)")
MULTIPLY = ADD.replace("add(a, b)", "multiply(a, b)")
SUM = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[3,5000] parameter(0)  z = f32[] constant(0)  ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add }"""


def build(text):
    return compile_module(xlanb.hlo.parse(text), GpuCompileOptions(passes=HloPassPipeline("none", [])))


def arguments(index):
    return np.zeros(500, np.float32), np.array(index, np.int32)[:, None], np.ones(len(index), np.float32)


def changed(exe, change):
    """Return the emulator of a program whose first kernel's IR was changed."""
    kernel = exe.kernels[0]
    text = change(kernel.code.ir)
    assert text != kernel.code.ir
    code = type(kernel.code)(kernel.code.function, text, kernel.code.shared, kernel.code.waits)
    other = replace(kernel, code=code)
    launches = Launches([other if launch is kernel else launch for launch in exe.launches])
    program = LaunchProgram(exe.program.name, exe.program.target, exe.program.memories, launches)
    return Emulator(program, check=True)


def test_two_threads_of_a_block_that_write_one_place():
    exe = build(ASSIGN.format(n=4))
    arrays = arguments([7, 3, 7, 1])
    exe.emulate(*arrays)  # runs: the last one wins
    with pytest.raises(RaceError) as error:
        exe.emulate(*arrays, check=True)
    assert re.search(
        r"race in kernel s: thread 2 of block 0 writes p\d\+28 \(line \d+: store float .*\), "
        r"which thread 0 of block 0 wrote \(line \d+: store float .*\) with no barrier between",
        str(error.value),
    )
    exe.emulate(*arguments([7, 3, 8, 1]), check=True)


def test_threads_of_two_blocks_that_write_one_place():
    exe = build(ASSIGN.format(n=200))
    index = list(range(200))
    exe.emulate(*arguments(index), check=True)
    index[150] = 3
    with pytest.raises(RaceError, match=r"thread 22 of block 1 writes .* which thread 3 of block 0 wrote"):
        exe.emulate(*arguments(index), check=True)


@pytest.mark.parametrize("text", [ADD, MULTIPLY])
def test_atomic_updates_do_not_race(text):
    exe = build(text.format(n=200))
    exe.emulate(*arguments([5] * 200), check=True)


def test_a_barrier_that_is_missing_is_found():
    exe = build(SUM)
    x = np.ones((3, 5000), np.float32)
    np.testing.assert_array_equal(exe.emulate(x, check=True), np.full(3, 5000, np.float32))
    emulator = changed(exe, lambda text: re.sub(r"  call void @llvm.nvvm.barrier.*\n", "", text))
    memories = emulator.memories()
    memories[0][:] = x.reshape(-1).view(np.uint8)
    with pytest.raises(RaceError, match=r"shared memory\+\d+ .* with no barrier between"):
        emulator.run(memories)


def test_reads_of_many_threads_race_with_a_write():
    text = """HloModule m
ENTRY e { x = f32[64] parameter(0)  ROOT a = f32[64] add(x, x) }"""
    exe = build(text)

    def change(ir):
        """Make every thread read the first element, and the last one write there."""
        ir = re.sub(r"load float, ptr (%\w+),", "load float, ptr %p1,", ir)
        return re.sub(r"store float (%\w+), ptr %\w+,", r"store float \1, ptr %p1,", ir)

    emulator = changed(exe, change)
    with pytest.raises(RaceError, match=r"other threads read|which thread 0 of block 0"):
        emulator.run(emulator.memories())
