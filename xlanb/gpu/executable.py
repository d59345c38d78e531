"""GpuExecutable: a module compiled for a GPU: its kernels as PTX, the launch sequence, and runs: on the CPU by emulation, on a device where there is one."""

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

    `exe.emulate(*arrays)` runs its kernels on the CPU, `exe(*arrays)` on a device. Arguments are arrays (a tuple parameter takes a nested tuple) of exactly the dtype and shape of the parameter; the
    result is a fresh array, or a nested tuple of them. Of a JAX function the arguments are the function's own, and so is the result.
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

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def device(self) -> GpuDevice:
        """The device that the code is made for."""
        return self.program.target.device

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the arrays that a call takes."""
        return tuple(shape for _, shape in self.signature.parameters)

    @property
    def launches(self) -> Launches:
        """The launch sequence as data: `print(exe.launches)`."""
        return self.program.launches

    @cached_property
    def kernels(self) -> list[KernelLaunch]:
        """The kernels in program order, each with its launch dimensions, shared memory, arguments and HLO instruction."""
        return self.program.kernels

    @cached_property
    def ptx(self) -> Mapping[str, str]:
        """The PTX of each kernel by its name.

        Raises:
            CompilationError: LLVM refuses a kernel's IR.
        """
        return {k.name: k.ptx for k in self.kernels}

    @cached_property
    def llvm_ir(self) -> Mapping[str, str]:
        """The LLVM IR of each kernel by its name."""
        return {k.name: k.code.ir for k in self.kernels}

    # -- runs -----------------------------------------------------------------------------------------------------

    @cached_property
    def _emulator(self) -> Emulator:
        return Emulator(self.program)

    @cached_property
    def _checking_emulator(self) -> Emulator:
        return Emulator(self.program, check=True)

    def emulate(self, *args: Any, check: bool = False, **named: Any) -> Any:
        """Run the kernels on the CPU: the same code, every thread of it.

        Args:
            *args: the program's arguments.
            check: find races: two threads that access one place, one of them writing, with no barrier between. It takes several times as long, and 32 bytes for each byte of memory.
            **named: named arguments of the function that the program was made of.

        Raises:
            ArgumentError: number, dtype or shape of the arguments do not fit.
            RaceError: two threads race; the message says which, and by which instructions.
            EvaluationError: lanes of a warp wait for each other in vain.
        """
        emulator = self._checking_emulator if check else self._emulator
        return self._called(partial(self._emulate_flat, emulator), args, named)

    def step_warp(self, *args: Any, kernel: str = "", block: int = 0, warp: int = 0, **named: Any) -> WarpTrace:
        """Run one warp of a kernel on the CPU, instruction by instruction: what each of its 32 lanes computes.

        Args:
            *args: the program's arguments; what runs before the kernel runs as in `emulate`.
            kernel: its name, or its HLO instruction's; may be left out where there is one kernel.
            block: the number of the block in the grid.
            warp: the number of the warp in the block.
            **named: named arguments of the function that the program was made of.

        Raises:
            ArgumentError: the arguments do not fit, or there is no such kernel, block or warp.
            EvaluationError: lanes of a warp wait for each other in vain.
        """
        calling = self.source_module.calling
        arrays = args if calling is None else calling.flatten(args, named)
        return run_warp(self._emulator, self._given(arrays), kernel, block, warp)

    def _called(self, run: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call with the arguments of the function that the program was made of."""
        calling: CallingConvention | None = self.source_module.calling
        if calling is None:
            return run(*args, **named)
        found = run(*calling.flatten(tuple(args), dict(named)))
        is_tuple = isinstance(self.signature.result, TupleShape)
        return calling.assemble(found if is_tuple else (found,), tuple(args), dict(named))

    def _given(self, arrays: Sequence[Any]) -> list[Array]:
        """Device memory with the arguments in it."""
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
        memories = self._given(arrays)
        emulator.run(memories)
        return self._result([memories[n] for n in self.program.outputs])

    def _result(self, memories: Sequence[Array]) -> Any:
        """The result of a call, of the bytes of each of its leaves."""
        wanted = self.signature.results()
        return self.signature.nested(
            [None if s is None else _made(s, m) for s, m in zip(wanted, memories, strict=True)]
        )

    @cached_property
    def _loaded(self) -> DeviceProgram:
        return DeviceProgram(self.program, self.ptx, driver())

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the kernels on the first GPU of this machine. Arguments are arrays of NumPy, or what has `__cuda_array_interface__` (CuPy, PyTorch, JAX); results are arrays of NumPy.

        Raises:
            ArgumentError: number, dtype or shape of the arguments do not fit.
            DeviceError: there is no driver or no device, or a kernel fails; the message says so.
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
        return f"GpuExecutable {self.hlo_module.name} for {self.device.name}: {self.signature.text}, {count}, {temp:,} bytes of temporaries"

    def __repr__(self) -> str:
        return f"<{self}>"


def is_on_device(value: Any) -> bool:
    """Whether a value is an array of a GPU."""
    return not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__")


def _fits(spec: ArraySpec, value: Any) -> bool:
    """Whether an array of a device is what a program takes, row after row.

    Raises:
        ArgumentError: its dtype or shape is another, or it does not lie as the program has it.
    """
    about = value.__cuda_array_interface__
    wanted = (spec.dtype.str, spec.dimensions)
    if (about["typestr"], tuple(about["shape"])) != wanted or about.get("strides") is not None or spec.order:
        raise ArgumentError(f"{spec.label}: expected a contiguous array of {wanted}, got {about}")
    return True


def _bytes(array: Array) -> Array:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _made(spec: ArraySpec, memory: Array) -> Array:
    """A result out of device memory."""
    fresh = spec.fresh()
    if memory.size:
        fresh.reshape(-1).view(np.uint8)[...] = memory[: fresh.nbytes]
    return spec.given(fresh)
