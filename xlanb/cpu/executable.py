"""Executable: a compiled module that is called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.codegen import jit, llvm
from xlanb.codegen.deep import deep
from xlanb.codegen.plan import KernelPlan
from xlanb.codegen.signature import Signature
from xlanb.codegen.target import Target
from xlanb.cpu import library
from xlanb.cpu.calls import Calls, is_long
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.run_counter import RunCounter
from xlanb.cpu.runtime.guard import HOST
from xlanb.cpu.shortage import Shortage
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.hlo.calling import CallingConvention
from xlanb.hlo.device_groups import DeviceGrid, device_grid
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.shape import Shape, TupleShape

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.codegen.host_call import HiddenState
    from xlanb.cpu.devices import DeviceCalls
    from xlanb.cpu.interpreted import InterpretedCalls
    from xlanb.cpu.objects import Ahead
    from xlanb.cpu.records import Code, CodeRecord
    from xlanb.evaluator.feeds import Feeds
    from xlanb.spmd.devices.distribution import Distribution

_MADE_AGAIN = ("hlo_module", "buffer_assignment", "program")
"""What only a compilation has, and a file does not."""


class Executable(Displayable):
    """A compiled module: `exe(*arrays)` runs it.

    Arguments are arrays (nested tuples for tuple parameters) with exactly the parameter's dtype and
    shape. The result is a fresh array, or a nested tuple of them. Long calls release the GIL,
    several threads may call at once, and identical arguments give bit-identical results.

    For a JAX function, arguments and result are the function's own (pytrees, without arguments that
    are static for `jax.jit`); `exe.flat(*arrays)` takes and returns the program's arrays.

    A module of several partitions or replicas runs on `device_count` devices. Arguments and results
    are whole arrays, split and joined by the shardings of its entry; `run_shards` takes and returns
    each device's own. The first call with whole arrays compiles the programs of all devices as one
    unless that takes too long (see `xlanb.spmd.devices.merging`).

    A call raises ArgumentError if number, dtype or shape of the arguments do not fit (the message
    says what was expected); KeyboardInterrupt (or whatever a signal handler raises) if a signal
    arrives while the main thread runs it; and CancelledError if another thread calls `cancel`.
    """

    # A member of each object, not a method, so that Python calls the native entry directly.
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
        source: HloModule | Callable[[], HloModule],
        names: Sequence[str],
        assignment: BufferAssignment,
        program: Program,
        distribution: Distribution | None = None,
        merge: Callable[[], Executable | None] | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        """Load a compiled program.

        Args:
            module: the optimized module.
            source: the module it was compiled from, or a function that reads it again on demand.
            names: the author's names of the parameters; partitioning renames them.
            assignment: where its values are.
            program: its code.
            distribution: how its arrays are distributed over devices, if there are several.
            merge: compiles the programs of all devices as one.
            ahead: what was compiled of it while it was emitted.
        """
        calling = self._take_source(source)
        self.hlo_module = module
        self.buffer_assignment = assignment
        self.program = program
        self._host = {}
        self.devices = None
        signature = Signature.of(module, names)
        if not llvm.is_installed():
            if distribution is not None:
                raise llvm.missing("running a program on several devices")
            from xlanb.cpu.interpreted import InterpretedCalls

            self.calls = InterpretedCalls(module, signature, assignment.temp_size, self.feeds)
        else:
            if program.host:
                from xlanb.codegen.host_call import make_host_calls

                self._host = make_host_calls(program.host, self._hidden)
            self.calls = Calls(
                signature,
                self.load(program, ahead=ahead),
                assignment.temp_size,
                is_long=program.loops or is_long(module.entry_computation),
                calls_host=bool(self._host),
                explain=Shortage(assignment),
            )
        if isinstance(self.calls, Calls) and distribution is not None:
            from xlanb.cpu.devices import DeviceCalls

            self.devices = DeviceCalls(
                self.calls, distribution, module, self._fibers(distribution.grid), _calls_of(merge)
            )
        self.flat = self.devices or self.calls.entry()
        self.__call__ = self._called(calling)
        self.counter = None

    @classmethod
    def restored(
        cls, source: HloModule | Callable[[], HloModule], content: bytes, make: Callable[[], Executable]
    ) -> Executable:
        """An executable from its file's content; `make` compiles it again to show its stages.

        `source` is the module it was compiled from, or a function that parses the module's text on
        demand.

        Raises:
            CompilationError: The content is not an executable of this version, or is for another
                machine.
        """
        self = cls.__new__(cls)
        calling = self._take_source(source)
        self._make = make
        self._host = {}
        names = calling.names if calling is not None else None
        from xlanb.cpu.saved import read

        self.calls = read("the executable in the cache", content, names, partial(_shortage, make))
        self.devices = None
        self.flat = self.calls.entry()
        self.__call__ = self._called(calling)
        self.counter = None
        return self

    def _take_source(self, source: HloModule | Callable[[], HloModule]) -> CallingConvention | None:
        """Keep the source module or what reads it; return how its function is called."""
        if not isinstance(source, HloModule):
            self._read = source
            return None
        self.source_module = source
        return source.calling

    def __getattr__(self, name: str) -> Any:
        """Create what a restored executable lacks: module, buffers, program or source module."""
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
        """What a call runs: the program itself, or the source function with its own arguments."""
        if calling is None:
            return self.flat
        is_tuple = isinstance(self.calls.signature.result, TupleShape)

        def call(*args: Any, **named: Any) -> Any:
            found = self.flat(*calling.flatten(args, named))
            return calling.assemble(found if is_tuple else (found,), args, named)

        return self.calls.entry(call) if calling.is_plain and self.devices is None else call

    def _fibers(self, grid: DeviceGrid) -> Callable[..., list[Any]] | None:
        """A runner of short programs on all devices in one thread; None if threads are needed."""
        from xlanb.cpu import fibers

        if self.calls.is_long or not fibers.fits(self.hlo_module, grid):
            return None
        return fibers.FiberRunner(
            self.native_calls, self.load(self.program, fibers.host_address()), list(self._host.values()), grid
        )

    @property
    def device_count(self) -> int:
        """The number of devices of this process that a call uses, with a thread for each."""
        return self.devices.distribution.grid.count if self.devices is not None else 1

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the arrays that a call takes; whole arrays on several devices."""
        if self.devices is not None:
            return self.devices.distribution.parameters
        return tuple(shape for _, shape in self.calls.signature.parameters)

    def run_shards(self, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of each device for its own arguments, without splitting and joining arrays.

        Rows are by replica, then by partition.

        Raises:
            ArgumentError: The number of rows is not the number of devices, or an array does not
                fit.
            DeviceError: A device fails, is late, or waits for others that never arrive.
        """
        if self.devices is not None:
            return self.devices.run_shards(arguments)
        return [self.flat(*row) for row in arguments]

    def timeline(self, *arrays: Any) -> pd.DataFrame:
        """Run with whole arrays; return a table of when each device reached each collective.

        Columns: device, collective, opcode; came, complete and ended in seconds since the start of
        the run: when the device arrived, when the last one of its group did, when it continued.

        Raises:
            ArgumentError: The arrays do not fit.
            DeviceError: As for a call.
        """
        import pandas as pd

        from xlanb.cpu.devices import TIMELINE

        return self.devices.timeline(*arrays) if self.devices is not None else pd.DataFrame(columns=TIMELINE)

    def plot_timeline(self, *arrays: Any) -> Any:
        """Plot `timeline` as a plotly Figure: a lane per device, with its waits and their causes.

        Raises:
            ArgumentError: The arrays do not fit.
            XlanbError: The program ran no collective.
            MissingLibraryError: plotly is not installed.
        """
        from xlanb.cpu.device_timeline import DeviceTimeline

        return DeviceTimeline(self.timeline(*arrays), self.hlo_module, device_grid(self.hlo_module)).plot()

    def cancel(self) -> int:
        """Stop the calls of other threads within milliseconds; return how many there were.

        Each of them raises CancelledError, and the executable is ready for the next call. A call
        that is in a Python function (see `kernels`) stops when that returns.
        """
        running = self.calls.cancel() + (self.devices.cancel() if self.devices is not None else 0)
        if "_hidden" in self.__dict__:
            self.feeds.cancel()
        return running

    def count_runs(self) -> RunCounter:
        """Count executions of this object and its code until the counter's `end`."""
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

    # -- infeed and outfeed ------------------------------------------------------------------------

    @cached_property
    def _hidden(self) -> HiddenState:
        """The state that the program keeps between calls; few programs have any."""
        from xlanb.codegen.host_call import HiddenState

        return HiddenState()

    @property
    def feeds(self) -> Feeds:
        """The values that wait for the program's infeeds, and those of its outfeeds."""
        return self._hidden.feeds

    def infeed(self, *values: Any) -> None:
        """Queue values for the program's infeeds, in order: arrays, or (nested) tuples of them.

        Call it before a call of the program, or from another thread while it runs. A call without
        queued values waits. It can be interrupted, logs after a second what it waits for, and
        raises EvaluationError if no other thread could provide a value.

        Raises:
            FeedError: The program has no infeed, or none for an array of that dtype and shape.
        """
        from xlanb.cpu.feeds import infeed_arrays

        self.feeds.infeed(*infeed_arrays(self.hlo_module, values))

    def outfeed(self, timeout: float | None = 0.0) -> Any:
        """The next value of the program's outfeeds: an array, or a (nested) tuple of them.

        Waits for it up to `timeout` seconds, or forever if None.

        Raises:
            FeedError: There is no value.
        """
        return self.feeds.outfeed(timeout)

    # -- export ------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write machine code and signature to a file for `xlanb.load` on a compatible machine.

        Raises:
            UnimplementedError: The program calls functions of this process (see `kernels`).
            OSError: The file cannot be written.
        """
        from xlanb.cpu.saved import save

        save(self, path)

    def export_c(self, directory: str | Path, name: str = "model") -> list[Path]:
        """Write NAME.o, NAME.h and, with a C compiler, libNAME.so for C programs; return paths.

        The header declares `NAME(arguments, results, temp)` and `NAME_call` with a typed pointer
        for each array. The code is for machines like this one, uses one thread, and needs only the
        C and mathematics libraries.

        Raises:
            CompilationError: The name is not a C identifier, or the C compiler fails.
            UnimplementedError: The program calls functions of this process (see `kernels`).
        """
        from xlanb.cpu.export_c import export_c

        return export_c(self, directory, name)

    # -- contents ----------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """The machine that the code is for."""
        return self.program.target

    @property
    def llvm_ir(self) -> Code:
        """The LLVM IR as emitted; debug locations are the lines of the HLO instructions."""
        return _code(self.llvm_record)

    @property
    def optimized_llvm_ir(self) -> Code:
        """The LLVM IR after LLVM's own passes."""
        return _code(self.optimized_record)

    @property
    def assembly(self) -> Code:
        """The machine code as assembly text."""
        return _code(self.assembly_record)

    @cached_property
    def _lines(self) -> dict[str, int]:
        from xlanb.cpu import lines

        return lines.line_numbers(self.hlo_module.record())

    @property
    def is_native(self) -> bool:
        """Whether calls run machine code.

        Without llvmlite, the evaluator runs the module instead.
        """
        return isinstance(self.calls, Calls)

    @property
    def native_calls(self) -> Calls:
        """The calls that run the machine code.

        Raises:
            MissingLibraryError: llvmlite is not installed, so that there are none.
        """
        if not isinstance(self.calls, Calls):
            raise llvm.missing("running machine code")
        return self.calls

    @cached_property
    def _traced(self) -> Program:
        """The same program with debug locations, to be read; the code that runs has none."""
        return deep(lambda: emit_program(self.buffer_assignment, self.program.target, self._lines))

    @cached_property
    def _traced_code(self) -> jit.MachineCode:
        return jit.MachineCode(self._traced.text)

    def load(self, program: Program, host: int = 0, ahead: Ahead | None = None) -> library.ProgramCode:
        """Load this executable's program or a variant of it.

        `host` is the address of a function to use instead of `xlanb.host`.
        """

        def symbols() -> dict[str, int]:
            own = program.symbols | {symbol: h.address for symbol, h in self._host.items()}
            given = {HOST: host} if host else {}
            return own | library.symbols(program.module.declarations) | given

        return library.load(program, symbols, (program.constants, self._host), ahead)

    @cached_property
    def llvm_record(self) -> CodeRecord:
        """`llvm_ir` with the HLO instruction of each line."""
        from xlanb.cpu import lines

        program = self._traced
        return lines.llvm_record(program.text, program.kernels, self._lines)

    @cached_property
    def optimized_record(self) -> CodeRecord:
        """`optimized_llvm_ir` with the HLO instruction of each line."""
        from xlanb.cpu import lines

        program, code = self._traced, self._traced_code
        return lines.llvm_record(code.optimized_text, program.kernels, self._lines)

    @cached_property
    def assembly_record(self) -> CodeRecord:
        """`assembly` with the HLO instruction of each line."""
        from xlanb.cpu import lines

        program, code = self._traced, self._traced_code
        return lines.assembly_record(code.assembly, program.kernels, self._lines, self.plans)

    @cached_property
    def plans(self) -> dict[str, KernelPlan]:
        """The decisions about each kernel (loops, vectors, threads, costs), by its function."""
        return self._traced.plans

    @property
    def kernels(self) -> dict[str, HloInstruction]:
        """The HLO instruction of each kernel function."""
        by_name = {i.name: i for i in self.hlo_module.instructions()}
        return {f: by_name[name] for f, name in self.program.kernels.items()}

    def profile(self, *arrays: Any, runs: int = 10) -> pd.DataFrame:
        """Time each kernel; return a table with a row per kernel.

        Columns: kernel, instruction, op_name, calls and seconds (of one run, the mean of `runs`),
        share of the sum, bytes, flops, gbytes_per_second, gflops_per_second; of_limit, the least
        possible time on this machine for these bytes and flops divided by the measured time; bound,
        what determines that least
        time: "memory" or "compute". The machine's peaks are measured on first use, in less than a
        second (see xlanb.cpu.machine).

        Raises:
            ArgumentError: As for a call.
        """
        from xlanb.cpu.profile import profile

        return profile(self, arrays, runs)

    def __str__(self) -> str:
        kernels, temp = len(self.program.kernels), self.buffer_assignment.temp_size
        devices = f" on {self.device_count} devices" if self.device_count > 1 else ""
        return (
            f"Executable {self.hlo_module.name}{devices}: {self.calls.signature.text}, {kernels} "
            f"kernel{'s' * (kernels != 1)}, {temp:,} bytes of temporaries"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


def _shortage(make: Callable[[], Executable], number: int | None) -> str:
    """See Shortage.

    A restored executable is compiled again first; "" if memory lacks for that too.
    """
    try:
        return Shortage(make().buffer_assignment)(number)
    except (MemoryError, XlanbError):
        return ""


def _code(record: CodeRecord) -> Code:
    from xlanb.cpu.records import Code

    return Code.of(record)


def _calls_of(merge: Callable[[], Executable | None] | None) -> Callable[[], Calls | None] | None:
    if merge is None:
        return None

    def made() -> Calls | None:
        found = merge()
        return found.native_calls if found is not None else None

    return made
