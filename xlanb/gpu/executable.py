"""GpuExecutable: a module compiled for a GPU, with kernels as PTX and the launch sequence.

It runs on the CPU by emulation, and on a device if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.codegen.signature import ArraySpec, Signature
from xlanb.display import Displayable
from xlanb.errors import ArgumentError
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.driver import DeviceProgram, driver
from xlanb.gpu.emulator.lanes import run_warp
from xlanb.gpu.emulator.machine import Emulator
from xlanb.gpu.emulator.warp_trace import WarpTrace
from xlanb.gpu.launches import KernelLaunch, Launches
from xlanb.gpu.program import LaunchProgram
from xlanb.hlo.calling import CallingConvention
from xlanb.hlo.module import HloModule
from xlanb.shape import Shape, TupleShape

Array = NDArray[Any]


class GpuExecutable(Displayable):
    """A module compiled for an NVIDIA GPU.

    `exe.emulate(*arrays)` runs its kernels on the CPU, `exe(*arrays)` on a device. Arguments are
    arrays with exactly the parameters' dtypes and shapes; a tuple parameter takes a nested tuple.
    The result is a new array or a nested tuple of them. For a JAX function, arguments and result
    are the function's own.
    """

    def __init__(
        self, module: HloModule, source: HloModule, assignment: BufferAssignment, program: LaunchProgram
    ) -> None:
        self.hlo_module = module
        self.source_module = source
        self.buffer_assignment = assignment
        self.program = program
        names = (
            source.calling.names
            if source.calling is not None
            else [p.name for p in module.entry_computation.parameters]
        )
        self.signature = Signature.of(module, names)

    # -- properties --------------------------------------------------------------------------------

    @property
    def device(self) -> GpuDevice:
        """The device that the code was compiled for."""
        return self.program.target.device

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the arrays that a call takes."""
        return tuple(shape for _, shape in self.signature.parameters)

    @property
    def launches(self) -> Launches:
        """The launch sequence: `print(exe.launches)`."""
        return self.program.launches

    @cached_property
    def kernels(self) -> list[KernelLaunch]:
        """The kernels in program order.

        Each has launch dimensions, shared memory, arguments and its HLO instruction.
        """
        return self.program.kernels

    @cached_property
    def ptx(self) -> Mapping[str, str]:
        """The PTX of each kernel by name.

        Raises:
            CompilationError: LLVM rejects a kernel's IR.
        """
        return {k.name: k.ptx for k in self.kernels}

    @cached_property
    def llvm_ir(self) -> Mapping[str, str]:
        """The LLVM IR of each kernel by name."""
        return {k.name: k.code.ir for k in self.kernels}

    # -- runs --------------------------------------------------------------------------------------

    @cached_property
    def _emulator(self) -> Emulator:
        return Emulator(self.program)

    @cached_property
    def _checking_emulator(self) -> Emulator:
        return Emulator(self.program, check=True)

    def emulate(self, *args: Any, check: bool = False, **named: Any) -> Any:
        """Run all threads of the kernels on the CPU.

        Args:
            *args: the program's arguments.
            check: detect races: two threads that access one byte, one of them writing, with no
                barrier between. This takes several times as long, and 32 bytes for each byte of
                memory.
            **named: named arguments of the function that the program was made from.

        Raises:
            ArgumentError: number, dtype or shape of the arguments do not match.
            RaceError: two threads race; the message names them and the instructions.
            EvaluationError: lanes of a warp wait for each other forever.
        """
        emulator = self._checking_emulator if check else self._emulator
        return self._called(partial(self._emulate_flat, emulator), args, named)

    def step_warp(self, *args: Any, kernel: str = "", block: int = 0, warp: int = 0, **named: Any) -> WarpTrace:
        """Run one warp of a kernel on the CPU and record what each of its 32 lanes computes.

        Args:
            *args: the program's arguments; earlier kernels run as in `emulate`.
            kernel: its name, or its HLO instruction's; optional if there is one kernel.
            block: the number of the block in the grid.
            warp: the number of the warp in the block.
            **named: named arguments of the function that the program was made from.

        Raises:
            ArgumentError: the arguments do not match, or there is no such kernel, block or warp.
            EvaluationError: lanes of a warp wait for each other forever.
        """
        calling = self.source_module.calling
        arrays = args if calling is None else calling.flatten(args, named)
        return run_warp(self._emulator, self._device_arguments(arrays), kernel, block, warp)

    def _called(self, run: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call with the arguments of the function that the program was made from."""
        calling: CallingConvention | None = self.source_module.calling
        if calling is None:
            return run(*args, **named)
        found = run(*calling.flatten(tuple(args), dict(named)))
        is_tuple = isinstance(self.signature.result, TupleShape)
        return calling.assemble(found if is_tuple else (found,), tuple(args), dict(named))

    def _device_arguments(self, arrays: Sequence[Any]) -> list[Array]:
        """Return device memory with the arguments in it."""
        memories = self._emulator.memories()
        given = self.signature.flatten(arrays)
        specs = self.signature.arguments()
        for m, memory in zip(self.program.memories, memories, strict=True):
            if m.kind == "parameter" and m.number is not None:
                spec = specs[m.number]
                if spec is not None and m.size:
                    memory[...] = _bytes(spec.taken(given[m.number]))
                elif spec is not None:
                    spec.taken(given[m.number])
        return memories

    def _emulate_flat(self, emulator: Emulator, *arrays: Any) -> Any:
        memories = self._device_arguments(arrays)
        emulator.run(memories)
        return self._result([memories[n] for n in self.program.outputs])

    def _result(self, memories: Sequence[Array]) -> Any:
        """Return a call's result from the bytes of its leaves."""
        wanted = self.signature.results()
        return self.signature.nested(
            [None if s is None else _made(s, m) for s, m in zip(wanted, memories, strict=True)]
        )

    @cached_property
    def _loaded(self) -> DeviceProgram:
        return DeviceProgram(self.program, self.ptx, driver())

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the kernels on the first GPU of this machine.

        Arguments are NumPy arrays or objects with `__cuda_array_interface__` (CuPy, PyTorch, JAX);
        results are NumPy arrays.

        Raises:
            ArgumentError: number, dtype or shape of the arguments do not match.
            DeviceError: there is no driver or no device, or a kernel fails; the message says which.
        """
        return self._called(self._run_flat, args, named)

    def _run_flat(self, *arrays: Any) -> Any:
        specs = self.signature.arguments()
        flat = [
            a if s is not None and is_on_device(a) and _fits(s, a) else None if s is None else s.taken(a)
            for s, a in zip(specs, self.signature.flatten(arrays), strict=True)
        ]
        return self._result(self._loaded.run(flat))

    def __str__(self) -> str:
        kernels, temp = len(self.kernels), self.buffer_assignment.temp_size
        count = f"{kernels} kernel{'s' * (kernels != 1)}"
        return (
            f"GpuExecutable {self.hlo_module.name} for {self.device.name}: "
            f"{self.signature.text}, {count}, {temp:,} bytes of temporaries"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


def is_on_device(value: Any) -> bool:
    """Whether a value is an array of a GPU."""
    return not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__")


def _fits(spec: ArraySpec, value: Any) -> bool:
    """Whether a device array matches a parameter, row-major.

    Raises:
        ArgumentError: its dtype, shape or layout differs.
    """
    about = value.__cuda_array_interface__
    wanted = (spec.dtype.str, spec.dimensions)
    if (about["typestr"], tuple(about["shape"])) != wanted or about.get("strides") is not None or spec.order:
        raise ArgumentError(f"{spec.label}: expected a contiguous array of {wanted}, got {about}")
    return True


def _bytes(array: Array) -> Array:
    """Return the bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _made(spec: ArraySpec, memory: Array) -> Array:
    """Return a result from device memory."""
    fresh = spec.fresh()
    if memory.size:
        fresh.reshape(-1).view(np.uint8)[...] = memory[: fresh.nbytes]
    return spec.given(fresh)
