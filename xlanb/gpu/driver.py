"""A real GPU through NVIDIA's driver (libcuda): load PTX modules, manage memory, launch kernels.

The driver compiles PTX when a module is loaded. Without a driver, the error points to the emulator,
which runs the same kernels.

Source: CUDA Driver API reference.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.codegen.host_call import HiddenState, HostCall
from xlanb.errors import DeviceError
from xlanb.gpu.launches import KernelLaunch, LibraryCall, MemoryRange
from xlanb.gpu.program import LaunchProgram
from xlanb.gpu.running import run

Array = NDArray[Any]
_LIBRARIES = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
_P, _N, _U, _I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int
Handle = ctypes.c_void_p
"""A module or function handle of the driver."""
_PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    "cuInit": (_U,),
    "cuDeviceGet": (_P, _I),
    "cuDeviceGetName": (_P, _I, _I),
    "cuDevicePrimaryCtxRetain": (_P, _I),
    "cuCtxSetCurrent": (_P,),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (_P, ctypes.c_char_p),
    "cuModuleUnload": (_P,),
    "cuModuleGetFunction": (_P, _P, ctypes.c_char_p),
    "cuMemAlloc_v2": (_P, _N),
    "cuMemFree_v2": (ctypes.c_uint64,),
    "cuMemcpyHtoD_v2": (ctypes.c_uint64, _P, _N),
    "cuMemcpyDtoH_v2": (_P, ctypes.c_uint64, _N),
    "cuMemcpyDtoD_v2": (ctypes.c_uint64, ctypes.c_uint64, _N),
    "cuMemsetD8_v2": (ctypes.c_uint64, ctypes.c_ubyte, _N),
    "cuLaunchKernel": (_P, *[_U] * 7, _P, _P, _P),
    "cuGetErrorString": (_I, _P),
}
"""The argument types of the driver's functions; each returns a CUresult."""


class Driver:
    """The driver's functions; each raises if it fails: `driver.cuMemFree_v2(pointer)`.

    Raises:
        DeviceError: a function returns an error.
    """

    def __init__(self, library: Any) -> None:
        self._functions = {name: getattr(library, name) for name in _PROTOTYPES}
        for name, arguments in _PROTOTYPES.items():
            self._functions[name].argtypes, self._functions[name].restype = arguments, _I

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function."""
        code = self._functions[name](*arguments)
        if code:
            raise DeviceError(f"{name} failed with error {code} of the CUDA driver{self._text(code)}")

    def _text(self, code: int) -> str:
        message = ctypes.c_char_p()
        self._functions["cuGetErrorString"](code, ctypes.byref(message))
        return f": {message.value.decode()}" if message.value else ""


@cache
def driver() -> Driver:
    """Return this machine's driver, with its first device.

    Raises:
        DeviceError: there is no driver, or no device.
    """
    name = _LIBRARIES.get(sys.platform, "libcuda.so.1")
    try:
        found = Driver(ctypes.CDLL(name))
    except OSError as error:
        raise DeviceError(
            f"no NVIDIA driver found ({name}): exe.emulate(*arrays) runs the same kernels on the CPU"
        ) from error
    begin(found)
    return found


def begin(d: Driver) -> None:
    """Make the first device's context current.

    Raises:
        DeviceError: there is no device.
    """
    d("cuInit", 0)
    device, context = _I(), _P()
    d("cuDeviceGet", ctypes.byref(device), 0)
    d("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    d("cuCtxSetCurrent", context)


class DeviceProgram:
    """A program's kernels loaded on a device, and its device memory.

    Raises:
        DeviceError: the driver rejects a kernel, or there is not enough memory.
    """

    def __init__(self, program: LaunchProgram, ptx: Mapping[str, str], d: Driver) -> None:
        self.program, self._driver = program, d
        self.hidden = HiddenState()
        self._modules: list[Handle] = []
        self._functions: dict[str, Handle] = {}
        for kernel in program.kernels:
            self._functions[kernel.name] = self._load(kernel, ptx[kernel.name])
        self._bases = [self._allocate(m.size) for m in program.memories]
        for m, base in zip(program.memories, self._bases, strict=True):
            if m.data:
                d("cuMemcpyHtoD_v2", base, m.data, len(m.data))

    def _load(self, kernel: KernelLaunch, text: str) -> Handle:
        module, function = _P(), _P()
        self._driver("cuModuleLoadData", ctypes.byref(module), text.encode())
        self._modules.append(module)
        self._driver("cuModuleGetFunction", ctypes.byref(function), module, kernel.code.function.encode())
        return function

    def _allocate(self, size: int) -> int:
        pointer = ctypes.c_uint64()
        self._driver("cuMemAlloc_v2", ctypes.byref(pointer), max(size, 1))
        return pointer.value

    def free(self) -> None:
        """Free the device's memory and modules."""
        while self._bases:
            self._driver("cuMemFree_v2", self._bases.pop())
        while self._modules:
            self._driver("cuModuleUnload", self._modules.pop())

    def run(self, arguments: Sequence[Any]) -> list[Array]:
        """Run the program and return the bytes of each result leaf.

        Arguments are arrays of the host or of the device (with `__cuda_array_interface__`), one per
        leaf; None for a token.

        Raises:
            DeviceError: a kernel fails.
        """
        d = self._driver
        for m, base in zip(self.program.memories, self._bases, strict=True):
            if m.kind == "parameter" and m.number is not None and m.size:
                self._put(base, arguments[m.number], m.size)
        run(self.program.launches, self)
        d("cuCtxSynchronize")
        results = [np.empty(self.program.memories[n].size, np.uint8) for n in self.program.outputs]
        for n, memory in zip(self.program.outputs, results, strict=True):
            if memory.size:
                d("cuMemcpyDtoH_v2", memory.ctypes.data, self._bases[n], memory.size)
        return results

    def _put(self, base: int, value: Any, size: int) -> None:
        """Copy an argument to the device."""
        if isinstance(value, np.ndarray):
            self._driver("cuMemcpyHtoD_v2", base, value.ctypes.data, size)
        else:
            self._driver("cuMemcpyDtoD_v2", base, value.__cuda_array_interface__["data"][0], size)

    # -- launches (see running.Machine) ------------------------------------------------------------

    def _address(self, place: MemoryRange) -> int:
        return self._bases[place.memory] + place.offset

    def launch(self, kernel: KernelLaunch) -> None:
        pointers = [ctypes.c_uint64(self._address(a.place)) for a in kernel.arguments]
        table = (_P * max(1, len(pointers)))(*(ctypes.addressof(p) for p in pointers))
        function = self._functions[kernel.name]
        self._driver("cuLaunchKernel", function, *kernel.grid, *kernel.block, 0, None, table, None)

    def copy(self, target: MemoryRange, source: MemoryRange) -> None:
        self._driver("cuMemcpyDtoD_v2", self._address(target), self._address(source), source.size)

    def fill(self, target: MemoryRange, byte: int) -> None:
        self._driver("cuMemsetD8_v2", self._address(target), byte, target.size)

    def read(self, place: MemoryRange) -> bytes:
        memory = ctypes.create_string_buffer(place.size)
        self._driver("cuMemcpyDtoH_v2", ctypes.addressof(memory), self._address(place), place.size)
        return memory.raw

    def call(self, call: LibraryCall) -> None:
        """Compute a library call on the host; copy its operands there and its results back."""
        places = (*call.operands, *call.results)
        memory = [np.zeros(0 if p is None else p.size + 64, np.uint8) for p in places]
        for p, m in zip(call.operands, memory, strict=False):
            if p is not None and p.size:
                self._driver("cuMemcpyDtoH_v2", m.ctypes.data, self._address(p), p.size)
        table = (ctypes.c_uint64 * max(1, len(places)))(*(m.ctypes.data for m in memory))
        HostCall(call.instruction, self.hidden)(ctypes.addressof(table))
        for p, m in zip(call.results, memory[len(call.operands) :], strict=True):
            if p is not None and p.size:
                self._driver("cuMemcpyHtoD_v2", self._address(p), m.ctypes.data, p.size)
