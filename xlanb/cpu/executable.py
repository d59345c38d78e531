"""Executable: a compiled module that is called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.codegen import jit, llvm
from xlanb.codegen.deep import deep
from xlanb.codegen.host_call import HiddenState, make_host_calls
from xlanb.codegen.plan import KernelPlan
from xlanb.codegen.signature import Signature
from xlanb.codegen.target import Target
from xlanb.cpu import fibers, library, lines
from xlanb.cpu.calls import Calls
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.device_timeline import DeviceTimeline
from xlanb.cpu.devices import TIMELINE, DeviceCalls
from xlanb.cpu.feeds import infeed_arrays
from xlanb.cpu.interpreted import InterpretedCalls
from xlanb.cpu.profile import is_long
from xlanb.cpu.records import Code, CodeRecord
from xlanb.cpu.run_counter import RunCounter
from xlanb.cpu.runtime.guard import HOST
from xlanb.cpu.saved import read
from xlanb.cpu.shortage import Shortage
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.hlo.calling import CallingConvention
from xlanb.hlo.device_groups import DeviceGrid, device_grid
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.shape import Shape, TupleShape
from xlanb.spmd.devices.distribution import Distribution

if TYPE_CHECKING:
    import pandas as pd

_MADE_AGAIN = ("hlo_module", "buffer_assignment", "program")
"""What only a compilation has, and a file does not."""


class Executable(Displayable):
    """A compiled module: `exe(*arrays)` runs it.

    Arguments are arrays (a tuple parameter takes a nested tuple) of exactly the dtype and shape of the parameter; the result is a fresh array, or a nested tuple of them.
    Calls that take long release the GIL, calls may come from several threads at once, and they give bit-identical results for identical arguments.

    Of a JAX function the arguments are the function's own (pytrees, without those that are static for `jax.jit`), and so is the result; `exe.flat(*arrays)` takes and gives the
    program's arrays.

    A module of several partitions or replicas runs on `device_count` devices: arguments and results are whole arrays, cut and put together by the shardings of its entry, and
    `run_shards` takes and gives each device's own. The first call with whole arrays compiles the programs of all devices as one, where that is not too long (see `xlanb.spmd.devices.merging`).

    A call raises ArgumentError where number, dtype or shape of the arguments do not fit (the message says what was expected), KeyboardInterrupt (or what else a
    signal's handler raises) where a signal comes while the main thread runs it, wherever it is, and CancelledError where another thread has called `cancel`.
    """

    # A member of each object, and not a method: Python then calls the entry in machine code with nothing of its own between.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]
    hlo_module: HloModule
    buffer_assignment: BufferAssignment
    program: Program
    calls: Calls | InterpretedCalls
    devices: DeviceCalls | None
    flat: Callable[..., Any]
    counter: RunCounter | None
    _make: Callable[[], Executable]
    _read: Callable[[], HloModule]

    def __init__(
        self,
        module: HloModule,
        source: HloModule,
        assignment: BufferAssignment,
        program: Program,
        distribution: Distribution | None = None,
        merge: Callable[[], Executable | None] | None = None,
    ) -> None:
        self.hlo_module = module
        self.source_module = source
        self.buffer_assignment = assignment
        self.program = program
        hidden = HiddenState()
        self.feeds = hidden.feeds
        self._host = {}
        self.devices = None
        signature = Signature.of(
            module, source.calling.names if source.calling is not None else _parameter_names(source)
        )
        if not llvm.is_installed():
            if distribution is not None:
                raise llvm.missing("running a program on several devices")
            self.calls = InterpretedCalls(module, signature, assignment.temp_size, self.feeds)
        else:
            self._host = make_host_calls(program.host, hidden)
            self.calls = Calls(
                signature,
                self.load(program),
                assignment.temp_size,
                is_long=program.loops or is_long(module.entry_computation),
                calls_host=bool(self._host),
                explain=Shortage(assignment),
            )
        if isinstance(self.calls, Calls) and distribution is not None:
            self.devices = DeviceCalls(
                self.calls, distribution, module, self._fibers(distribution.grid), _calls_of(merge)
            )
        self.flat = self.devices or self.calls.entry()
        self.__call__ = self._called(source.calling)
        self.counter = None

    @classmethod
    def restored(
        cls, source: HloModule | Callable[[], HloModule], content: bytes, make: Callable[[], Executable]
    ) -> Executable:
        """An executable from the content of its file; `make` compiles it again for who looks at more than its results.

        `source` is the module that it was made of, or what reads the module of a text when somebody asks.

        Raises:
            CompilationError: the content is no executable of this version, or was made for another machine.
        """
        self = cls.__new__(cls)
        calling = None
        if isinstance(source, HloModule):
            self.source_module = source
            calling = source.calling
        else:
            self._read = source
        self._make = make
        hidden = HiddenState()
        self.feeds, self._host = hidden.feeds, {}
        names = calling.names if calling is not None else None
        self.calls = read("the executable in the cache", content, names, partial(_shortage, make))
        self.devices = None
        self.flat = self.calls.entry()
        self.__call__ = self._called(calling)
        self.counter = None
        return self

    def __getattr__(self, name: str) -> Any:
        """What an executable that was restored has not yet: its module, buffers and program, which are made again, and the module that it was made of."""
        if name == "source_module" and "_read" in self.__dict__:
            self.source_module = self._read()
            return self.source_module
        if name not in _MADE_AGAIN or "_make" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        made = self._make()
        for again in _MADE_AGAIN:
            setattr(self, again, getattr(made, again))
        return getattr(self, name)

    def _called(self, calling: CallingConvention | None) -> Callable[..., Any]:
        """What a call runs: the program itself, or the function that it was made of, with its own arguments and results."""
        if calling is None:
            return self.flat
        is_tuple = isinstance(self.calls.signature.result, TupleShape)

        def call(*args: Any, **named: Any) -> Any:
            found = self.flat(*calling.flatten(args, named))
            return calling.assemble(found if is_tuple else (found,), args, named)

        return self.calls.entry(call) if calling.is_plain and self.devices is None else call

    def _fibers(self, grid: DeviceGrid) -> Callable[..., list[Any]] | None:
        """What runs a short program on all devices in one thread; None where only threads can."""
        if self.calls.is_long or not fibers.fits(self.hlo_module, grid):
            return None
        return fibers.FiberRunner(
            self.native_calls, self.load(self.program, fibers.host_address()), list(self._host.values()), grid
        )

    @property
    def device_count(self) -> int:
        """On how many devices of this process a call runs the program: one thread for each."""
        return self.devices.distribution.grid.count if self.devices is not None else 1

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the arrays that a call takes: on several devices those of whole arrays."""
        if self.devices is not None:
            return self.devices.distribution.parameters
        return tuple(shape for _, shape in self.calls.signature.parameters)

    def run_shards(self, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of each device for its own arguments, replica after replica and in each partition after partition: what a call does without cutting and putting together.

        Raises:
            ArgumentError: there are not as many rows of arguments as devices, or an array does not fit.
            DeviceError: a device fails, is late, or waits for others that do not come.
        """
        if self.devices is not None:
            return self.devices.run_shards(arguments)
        return [self.flat(*row) for row in arguments]

    def timeline(self, *arrays: Any) -> pd.DataFrame:
        """When each device came to each collective in one run with whole arrays: a table with a row for each of them.

        Columns: device, collective, opcode; came, complete and ended in seconds since the run began: when the device came, when the last of its group did, when it went on.

        Raises:
            ArgumentError: the arrays do not fit.
            DeviceError: as for a call.
        """
        import pandas as pd

        return self.devices.timeline(*arrays) if self.devices is not None else pd.DataFrame(columns=TIMELINE)

    def plot_timeline(self, *arrays: Any) -> Any:
        """`timeline` as a plotly Figure: a lane for each device, with what it waited for and for whom.

        Raises:
            ArgumentError: the arrays do not fit.
            XlanbError: the program ran no collective.
            MissingLibraryError: plotly is not installed.
        """
        return DeviceTimeline(self.timeline(*arrays), self.hlo_module, device_grid(self.hlo_module)).plot()

    def cancel(self) -> int:
        """Stop the calls that other threads are in, within some milliseconds; gives how many there were.

        Each of them raises CancelledError, and the executable is ready for the next call. What a call is in a function of Python's meanwhile (see `kernels`) it stops when that returns.
        """
        running = self.calls.cancel() + (self.devices.cancel() if self.devices is not None else 0)
        self.feeds.cancel()
        return running

    def count_runs(self) -> RunCounter:
        """Count executions from now on, until the counter's `end`: calls of this object, and of what else runs its code."""
        if self.counter is None or not self.counter.is_on:
            counter, call = RunCounter(), self.__call__
            timed = counter.timed(call)

            def restore() -> None:
                self.counter = None
                if self.__call__ is timed:
                    self.__call__ = call

            counter.on_end.append(restore)
            self.counter, self.__call__ = counter, timed
        self.counter.begin()
        return self.counter

    # -- infeed and outfeed -------------------------------------------------------------------------------------

    def infeed(self, *values: Any) -> None:
        """Give what infeeds of the program take, in this order: arrays, or (nested) tuples of them; before a call, or from another thread while it runs.

        A call that finds nothing there waits. It stays interruptible, says after a second what it waits for, and raises EvaluationError where no other thread could give anything.

        Raises:
            FeedError: the program has no infeed, or none that takes an array of that dtype and shape.
        """
        self.feeds.infeed(*infeed_arrays(self.hlo_module, values))

    def outfeed(self, timeout: float | None = 0.0) -> Any:
        """The next that an outfeed of the program has given: an array, or a (nested) tuple of them. Waits for it up to `timeout` seconds, with None for ever.

        Raises:
            FeedError: there is nothing.
        """
        return self.feeds.outfeed(timeout)

    # -- for elsewhere ------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write machine code and signature into one file, for `xlanb.load` on this machine or one that can do what it can.

        Raises:
            UnimplementedError: the program calls functions of this process (see `kernels`).
            OSError: the file cannot be written.
        """
        from xlanb.cpu.saved import save

        save(self, path)

    def export_c(self, directory: str | Path, name: str = "model") -> list[Path]:
        """Write NAME.o, NAME.h and, where there is a C compiler, libNAME.so, for C programs on machines like this; gives their paths.

        The header declares `NAME(arguments, results, temp)` and `NAME_call` with a typed pointer for each array. The code uses one thread and needs
        nothing but the C and mathematics libraries.

        Raises:
            CompilationError: the name is no C identifier, or the C compiler fails.
            UnimplementedError: the program calls functions of this process (see `kernels`).
        """
        from xlanb.cpu.export_c import export_c

        return export_c(self, directory, name)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """The machine that the code is made for."""
        return self.program.target

    @property
    def llvm_ir(self) -> Code:
        """The LLVM IR as it was emitted, each instruction with the line of its HLO instruction as debug location."""
        return Code.of(self.llvm_record)

    @property
    def optimized_llvm_ir(self) -> Code:
        """The LLVM IR after LLVM's own passes."""
        return Code.of(self.optimized_record)

    @property
    def assembly(self) -> Code:
        """The machine code as assembly text."""
        return Code.of(self.assembly_record)

    @cached_property
    def _lines(self) -> dict[str, int]:
        return lines.line_numbers(self.hlo_module.record())

    @property
    def is_native(self) -> bool:
        """Whether calls run machine code: False where llvmlite is not installed, and the evaluator runs the module instead."""
        return isinstance(self.calls, Calls)

    @property
    def native_calls(self) -> Calls:
        """What runs the machine code.

        Raises:
            MissingLibraryError: there is none: llvmlite is not installed.
        """
        if not isinstance(self.calls, Calls):
            raise llvm.missing("running machine code")
        return self.calls

    @cached_property
    def _traced(self) -> Program:
        """The same program with debug locations, for those who read it; the code that runs carries none."""
        return deep(lambda: emit_program(self.buffer_assignment, self.program.target, self._lines))

    @cached_property
    def _traced_code(self) -> jit.MachineCode:
        return jit.MachineCode(self._traced.text)

    def load(self, program: Program, host: int = 0) -> library.ProgramCode:
        """This executable's program or a variant of it, ready to run; `host` is the address of another function in the place of `xlanb.host`."""
        own = program.symbols | {symbol: h.address for symbol, h in self._host.items()}
        symbols = own | library.symbols(program.module.declarations)
        if host:
            symbols[HOST] = host
        return library.load(program, symbols, (program.constants, self._host))

    @cached_property
    def llvm_record(self) -> CodeRecord:
        """`llvm_ir` with the HLO instruction of each line."""
        program = self._traced
        return lines.llvm_record(program.text, program.kernels, self._lines)

    @cached_property
    def optimized_record(self) -> CodeRecord:
        """`optimized_llvm_ir` with the HLO instruction of each line."""
        program, code = self._traced, self._traced_code
        return lines.llvm_record(code.optimized_text, program.kernels, self._lines)

    @cached_property
    def assembly_record(self) -> CodeRecord:
        """`assembly` with the HLO instruction of each line."""
        program, code = self._traced, self._traced_code
        return lines.assembly_record(code.assembly, program.kernels, self._lines, self.plans)

    @cached_property
    def plans(self) -> dict[str, KernelPlan]:
        """What was decided about each kernel before its code was written: loops, vectors, threads, with the costs that were compared; by the name of its function."""
        return self._traced.plans

    @property
    def kernels(self) -> dict[str, HloInstruction]:
        """The HLO instruction of each kernel function."""
        by_name = {i.name: i for i in self.hlo_module.instructions()}
        return {f: by_name[name] for f, name in self.program.kernels.items()}

    def profile(self, *arrays: Any, runs: int = 10) -> pd.DataFrame:
        """Time of each kernel: a table with a row per kernel.

        Columns: kernel, instruction, op_name, calls and seconds (of one run, the mean of `runs`), share of the sum, bytes, flops, gbytes_per_second, gflops_per_second; of_limit is
        the least time that this machine could take for these bytes and flops over the time that it took, bound what decides that least time, "memory" or "compute". The machine's
        peaks are measured when they are first asked for, in less than a second (see xlanb.cpu.machine).

        Raises:
            ArgumentError: as for a call.
        """
        from xlanb.cpu.profile import profile

        return profile(self, arrays, runs)

    def __str__(self) -> str:
        kernels, temp = len(self.program.kernels), self.buffer_assignment.temp_size
        devices = f" on {self.device_count} devices" if self.device_count > 1 else ""
        return f"Executable {self.hlo_module.name}{devices}: {self.calls.signature.text}, {kernels} kernel{'s' * (kernels != 1)}, {temp:,} bytes of temporaries"

    def __repr__(self) -> str:
        return f"<{self}>"


def _shortage(make: Callable[[], Executable], number: int | None) -> str:
    """See Shortage; of an executable that was restored, which first has to be made again: not known where memory lacks for that too."""
    try:
        return Shortage(make().buffer_assignment)(number)
    except (MemoryError, XlanbError):
        return ""


def _calls_of(merge: Callable[[], Executable | None] | None) -> Callable[[], Calls | None] | None:
    if merge is None:
        return None

    def made() -> Calls | None:
        found = merge()
        return found.native_calls if found is not None else None

    return made


def _parameter_names(source: HloModule) -> list[str]:
    """What the program's author calls the parameters: partitioning gives them other names."""
    return [p.name for p in source.entry_computation.parameters]
