"""Runs on a device: against a fake driver, and on a real one if there is one.

The fake allocates memory in this process, and runs kernels by the emulator.
"""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, DeviceError
from xlanb.gpu import driver, executable
from xlanb.gpu.compiler import GpuCompileOptions, compile_module
from xlanb.gpu.emulator.machine import EmulatedBlock, Emulator
from xlanb.transforms.pipeline import HloPassPipeline


class Function:
    """A library function, as in ctypes."""

    def __init__(self, run):
        self.run = run

    def __call__(self, *arguments):
        return self.run(*arguments) or 0


class FakeCuda:
    """The driver's functions on memory of this process."""

    def __init__(self, exe):
        self.emulator, self.kernels = Emulator(exe.program), {k.code.function: k for k in exe.kernels}
        self.memory, self.names, self.calls = {}, {}, []
        names = (n for n in dir(type(self)) if n.startswith("cu"))
        for name in names:
            setattr(self, name, Function(getattr(self, name)))

    def cuInit(self, _):  # noqa: N802
        self.calls.append("cuInit")

    def cuDeviceGet(self, device, number):  # noqa: N802
        device._obj.value = number

    def cuDeviceGetName(self, *_):  # noqa: N802
        pass

    def cuDevicePrimaryCtxRetain(self, context, _):  # noqa: N802
        context._obj.value = 1

    def cuCtxSetCurrent(self, context):  # noqa: N802
        assert context.value == 1

    def cuCtxSynchronize(self):  # noqa: N802
        self.calls.append("cuCtxSynchronize")

    def cuModuleLoadData(self, module, text):  # noqa: N802
        assert b".entry" in text
        module._obj.value = 7

    def cuModuleUnload(self, _):  # noqa: N802
        self.calls.append("cuModuleUnload")

    def cuModuleGetFunction(self, function, module, name):  # noqa: N802
        assert module.value == 7
        function._obj.value = len(self.names) + 1
        self.names[function._obj.value] = name.decode()

    def cuMemAlloc_v2(self, pointer, size):  # noqa: N802
        memory = np.full(size, 0xAB, np.uint8)
        pointer._obj.value = memory.ctypes.data
        self.memory[memory.ctypes.data] = memory

    def cuMemFree_v2(self, pointer):  # noqa: N802
        del self.memory[pointer]

    def cuMemcpyHtoD_v2(self, target, source, size):  # noqa: N802
        ctypes.memmove(target, source, size)

    cuMemcpyDtoH_v2 = cuMemcpyDtoD_v2 = cuMemcpyHtoD_v2  # noqa: N815

    def cuMemsetD8_v2(self, target, byte, size):  # noqa: N802
        ctypes.memset(target, byte, size)

    def cuLaunchKernel(self, function, *rest):  # noqa: N802
        kernel = self.kernels[self.names[function.value]]
        assert rest[:6] == (*kernel.grid, *kernel.block)
        self.calls.append(kernel.name)
        table = rest[8]
        places = [ctypes.c_uint64.from_address(table[k]).value for k in range(len(kernel.arguments))]
        block = EmulatedBlock(kernel)
        self.emulator.function(kernel)(
            (ctypes.c_uint64 * max(1, len(places)))(*places), 0, kernel.blocks, block.address
        )
        block.free()

    def cuGetErrorString(self, code, text):  # noqa: N802
        text._obj.value = f"error number {code}".encode()


@pytest.fixture
def on_fake(monkeypatch):
    """Compile a program for a device with a fake driver; return the executable and the fake."""

    def build(text):
        exe = compile_module(xlanb.hlo.parse(text), GpuCompileOptions(passes=HloPassPipeline("none", [])))
        fake = FakeCuda(exe)
        d = driver.Driver(fake)
        driver.begin(d)
        monkeypatch.setattr(executable, "driver", lambda: d)
        return exe, fake

    return build


LOOP = (
    """HloModule m
body {
  s = (s32[], f32[50]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  v = f32[50] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)  w = f32[50] add(v, v)
  ROOT t = (s32[], f32[50]) tuple(m, w)
}
condition {
  s = (s32[], f32[50]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  most = s32[] constant(3)
  ROOT c = pred[] compare(n, most), direction=LT
}
left { a = f32[50] parameter(0)  ROOT n = f32[50] negate(a) }
right { a = f32[50] parameter(0)  ROOT n = f32[50] cosine(a) }
ENTRY e {
  x = f32[50] parameter(0)  p = pred[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[50]) tuple(zero, x)
  w = (s32[], f32[50]) while(t), condition=condition, body=body
  r = f32[50] get-tuple-element(w), index=1
  c = f32[50] conditional(p, r, x), true_computation=left, false_computation=right
  k = f32[50] constant({"""
    + ",".join(map(str, range(50)))
    + """})
  ROOT z = (f32[50], f32[50]) tuple(c, k)
}"""
)


@pytest.mark.parametrize("predicate", [True, False])
def test_loops_and_branches(on_fake, predicate):
    exe, fake = on_fake(LOOP)
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    for _ in range(2):  # the second run finds the memory of the first
        got = exe(x, np.bool_(predicate))
        want = xlanb.evaluate(xlanb.hlo.parse(LOOP), x, np.bool_(predicate))
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        np.testing.assert_array_equal(got[1], want[1])
    assert fake.calls.count("cuCtxSynchronize") == 2
    exe._loaded.free()
    assert not fake.memory


def test_library_calls_run_on_the_host(on_fake):
    text = """HloModule m
ENTRY e {
  x = f32[8,8] parameter(0)
  n = f32[8,8] add(x, x)
  c = f32[8,8] cholesky(n), lower=true
  ROOT r = f32[8,8] negate(c)
}"""
    exe, fake = on_fake(text)
    x = np.eye(8, dtype=np.float32) * 2
    np.testing.assert_allclose(exe(x), -2 * np.eye(8))
    assert [c for c in fake.calls if not c.startswith("cu")] == [k.name for k in exe.kernels]


def test_arrays_of_a_device_are_taken_as_they_are(on_fake):
    exe, _ = on_fake("HloModule m\nENTRY e { x = f32[4] parameter(0)\n  ROOT a = f32[4] add(x, x) }")
    x = np.arange(4, dtype=np.float32)
    about = {"typestr": "<f4", "shape": (4,), "data": (x.ctypes.data, False), "strides": None, "version": 3}
    np.testing.assert_array_equal(exe(SimpleNamespace(__cuda_array_interface__=about)), x + x)
    with pytest.raises(ArgumentError, match="expected a contiguous array"):
        exe(SimpleNamespace(__cuda_array_interface__={**about, "shape": (2, 2)}))


def test_error_of_the_driver_names_the_function(on_fake):
    exe, fake = on_fake("HloModule m\nENTRY e { x = f32[4] parameter(0)\n  ROOT a = f32[4] add(x, x) }")
    fake.cuLaunchKernel.run = lambda *_: 719
    with pytest.raises(DeviceError, match="cuLaunchKernel failed with error 719 of the CUDA driver: error number 719"):
        exe(np.zeros(4, np.float32))


def test_without_a_driver_the_error_names_the_emulator(monkeypatch):
    def missing(name):
        raise OSError(name)

    driver.driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(DeviceError, match=r"no NVIDIA driver found .*emulate"):
        driver.driver()


@pytest.mark.gpu
def test_real_device():
    try:
        driver.driver.cache_clear()
        driver.driver()
    except DeviceError as error:
        pytest.skip(str(error))
    exe = compile_module(xlanb.hlo.parse(LOOP))
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    np.testing.assert_allclose(exe(x, np.True_)[0], exe.emulate(x, np.True_)[0], rtol=1e-6)
