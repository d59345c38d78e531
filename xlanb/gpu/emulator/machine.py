"""An emulated GPU: device memory in this process, and a program's launches run on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.codegen import jit, llvm
from xlanb.codegen.half import conversions
from xlanb.codegen.host_call import HiddenState, HostCall
from xlanb.codegen.translation import Passes, translate
from xlanb.errors import EvaluationError, RaceError
from xlanb.gpu.emulator.races import Watch
from xlanb.gpu.emulator.rewriting import EXCHANGED
from xlanb.gpu.emulator.scheduler import OK, EmulatorModule
from xlanb.gpu.launches import KernelLaunch, LibraryCall, MemoryRange
from xlanb.gpu.program import LaunchProgram
from xlanb.gpu.running import run
from xlanb.memory import out_of_memory

Array = NDArray[Any]
_LEVEL = 1
_PASSES = Passes(_LEVEL, vectorize_loops=True, vectorize_slp=False, unroll=False)
_ALIGNMENT = 256
_WORDS = 7
"""Words of a block's record (see rewriting.RECORD)."""


class EmulatedBlock:
    """The state that the threads of one block share: its record and the memory it refers to."""

    def __init__(self, kernel: KernelLaunch) -> None:
        threads = kernel.threads
        self._memory: list[Array] = [
            np.zeros(kernel.shared_bytes + 64, np.uint8),
            np.zeros(threads, np.int32),
            np.zeros(2 * EXCHANGED * threads, np.int64),
            np.zeros(threads, np.int64),
        ]
        shared, states, exchange, handles = (m.ctypes.data for m in self._memory)
        self.shared = shared + -shared % 64
        words = [0, self.shared, states, exchange, threads, handles, 0]
        self.record = (ctypes.c_uint64 * _WORDS)(*words)
        self.address = ctypes.addressof(self.record)

    def free(self) -> None:
        """Free the threads' frames."""
        if self.record[0]:
            _libc().free(ctypes.c_void_p(self.record[0]))
            self.record[0] = 0


def _libc() -> Any:
    return ctypes.CDLL(None)


class Emulator:
    """A program's kernels compiled for this machine; `run(memories)` runs its launches.

    With `check`, it detects races.

    Raises:
        CompilationError: a kernel has an unknown intrinsic, or LLVM rejects the IR.
    """

    def __init__(self, program: LaunchProgram, *, check: bool = False) -> None:
        self.program, self.check = program, check
        self._hidden = HiddenState()
        target = jit.host()
        module = EmulatorModule(target, check=check)
        kernels = program.kernels
        made = {k.name: module.add(k.code, k.threads) for k in kernels}
        self.text = module.text()
        self._functions: dict[str, Any] = {}
        if kernels:
            text = self.text + conversions(self.text, target)
            data = translate(text, llvm.TargetModel(target, _LEVEL), _PASSES)
            self._code = jit.LoadedCode([data], [m.symbol for m in made.values()], {"malloc": address_of("malloc")})
            signature = ctypes.CFUNCTYPE(
                ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
            )
            self._functions = {name: signature(self._code.address(m.symbol)) for name, m in made.items()}
        self._constants = {n: _aligned(m.size, m.data) for n, m in enumerate(program.memories) if m.data is not None}

    @property
    def hidden(self) -> HiddenState:
        """State that library calls share from run to run."""
        return self._hidden

    def memories(self) -> list[Array]:
        """Allocate device memory for one run, by number, with constants filled in.

        Raises:
            OutOfMemoryError: there is not enough memory.
        """
        made = []
        for n, m in enumerate(self.program.memories):
            try:
                made.append(self._constants[n] if n in self._constants else _aligned(m.size))
            except MemoryError as error:
                raise out_of_memory(f"the {m.kind} memory {n} of {self.program.name}", m.size) from error
        return made

    def run(self, memories: Sequence[Array]) -> None:
        """Run the launch sequence.

        Raises:
            RaceError: two threads race, if races are checked.
            EvaluationError: lanes of a warp wait for lanes that never arrive, or a library call
                raises.
        """
        run(self.program.launches, _Machine(self, memories))

    def function(self, kernel: KernelLaunch) -> Any:
        """Return the function that runs blocks: (arguments, first, last, record) -> status."""
        return self._functions[kernel.name]

    def run_until(self, memories: Sequence[Array], kernel: KernelLaunch) -> list[int] | None:
        """Run the launches up to a kernel's first launch, and return its arguments' addresses.

        The kernel itself does not run. Returns None if no launch reaches it.

        Raises:
            EvaluationError: as `run`.
        """
        machine = _Machine(self, memories, until=kernel)
        try:
            run(self.program.launches, machine)
        except _ReachedError:
            return [machine.address(a.place) for a in kernel.arguments]
        return None


class _ReachedError(Exception):
    """The run has reached the requested launch."""


class _Machine:
    """One run's memory, and how launches use it (see running.Machine).

    The run ends before it launches the kernel `until`.
    """

    def __init__(self, emulator: Emulator, memories: Sequence[Array], until: KernelLaunch | None = None) -> None:
        self.emulator, self.memories, self._until = emulator, memories, until
        self._bases = [m.ctypes.data for m in memories]
        self._calls: dict[int, Any] = {}

    def address(self, place: MemoryRange) -> int:
        """Return the address of a memory range."""
        return self._bases[place.memory] + place.offset

    def _bytes(self, place: MemoryRange) -> Array:
        return self.memories[place.memory][place.offset : place.offset + place.size]

    def read(self, place: MemoryRange) -> bytes:
        return self._bytes(place).tobytes()

    def copy(self, target: MemoryRange, source: MemoryRange) -> None:
        self._bytes(target)[...] = self._bytes(source).copy()

    def fill(self, target: MemoryRange, byte: int) -> None:
        self._bytes(target)[...] = byte

    def launch(self, kernel: KernelLaunch) -> None:
        if kernel is self._until:
            raise _ReachedError
        call = self._calls.get(id(kernel))
        if call is None:
            addresses = [self.address(a.place) for a in kernel.arguments]
            table = (ctypes.c_uint64 * max(1, len(addresses)))(*addresses)
            call = self._calls[id(kernel)] = (self.emulator.function(kernel), table, kernel.blocks)
        function, table, blocks = call
        check = self.emulator.check
        if not kernel.code.waits and not kernel.shared_bytes and not check:
            function(table, 0, blocks, None)
            return
        block = EmulatedBlock(kernel)
        watch = Watch(kernel, list(table), block.shared) if check else None
        block.record[6] = watch.address if watch is not None else 0
        try:
            status = function(table, 0, blocks, block.address)
        finally:
            block.free()
        if watch is not None and watch.race:
            raise RaceError(watch.race)
        if status != OK:
            raise EvaluationError(
                f"kernel {kernel.name}: some lanes of a warp wait for a shuffle or barrier that others do not reach"
            )

    def call(self, call: LibraryCall) -> None:
        given = [0 if p is None else self.address(p) for p in (*call.operands, *call.results)]
        table = (ctypes.c_uint64 * max(1, len(given)))(*given)
        HostCall(call.instruction, self.emulator.hidden)(ctypes.addressof(table))


def address_of(name: str) -> int:
    """Return the address of a C library function."""
    return _address(getattr(_libc(), name))


def _aligned(size: int, data: bytes | None = None) -> Array:
    """Return bytes aligned as a device's allocator aligns them."""
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    made = memory[-memory.ctypes.data % _ALIGNMENT :][:size]
    if data:
        made[:] = np.frombuffer(data, np.uint8)
    return made


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
