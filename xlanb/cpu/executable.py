"""Executable: a compiled module that is called with NumPy arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.cpu import jit, lines, pool
from xlanb.cpu.codegen.ir import PARALLEL
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.host_call import make_host_calls, raise_pending
from xlanb.cpu.objects import compile_units
from xlanb.cpu.records import CodeRecord
from xlanb.cpu.target import Target
from xlanb.display import Displayable
from xlanb.errors import ArgumentError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.shape import ArrayShape, Shape, TupleShape

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array that goes in or comes out: `order` lists the dimensions from slow to fast in memory, None where row-major."""

    label: str
    shape: ArrayShape
    dtype: np.dtype[Any]
    dimensions: tuple[int, ...]
    order: tuple[int, ...] | None

    @staticmethod
    def of(label: str, shape: Shape) -> ArraySpec:
        """The spec of an array shape."""
        array = shape.as_array()
        order = tuple(reversed(array.minor_to_major))
        return ArraySpec(
            label, array, array.dtype, array.dimensions, None if order == tuple(range(array.rank)) else order
        )

    def taken(self, value: Any) -> Array:
        """The argument as the program reads it: contiguous and aligned; copied only where it is not.

        Raises:
            ArgumentError: dtype or shape do not fit.
        """
        array = value if type(value) is np.ndarray else self._coerced(value)
        if array.dtype is not self.dtype and array.dtype != self.dtype:
            raise ArgumentError(
                f"{self.label}: expected {self._expected()}, got dtype {array.dtype} of shape {array.shape}"
            )
        if array.shape != self.dimensions:
            raise ArgumentError(f"{self.label}: expected {self._expected()}, got shape {array.shape}")
        if self.order is not None:
            array = array.transpose(self.order)
        return array if array.flags.carray or _is_readable(array) else np.array(array, self.dtype, order="C", copy=True)

    def _coerced(self, value: Any) -> Array:
        """A Python number takes the expected dtype; everything else has its own."""
        if isinstance(value, (bool, int, float, complex)):
            try:
                return np.asarray(value, self.dtype)
            except (OverflowError, TypeError, ValueError) as error:
                raise ArgumentError(f"{self.label}: expected {self._expected()}, got {value!r}: {error}") from None
        try:
            return np.asarray(value)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"{self.label}: expected {self._expected()}, got {type(value).__name__}: {error}"
            ) from None

    def _expected(self) -> str:
        return f"{self.shape.text(layout=False)} (dtype {self.dtype}, shape {self.dimensions})"

    def fresh(self) -> Array:
        """Memory for a result, in the order of the layout."""
        dims = self.dimensions if self.order is None else tuple(self.dimensions[d] for d in self.order)
        return np.empty(dims, self.dtype)

    def given(self, array: Array) -> Array:
        """The result as the caller sees it: a view of the memory as the module's layout has it, not copied into row-major order."""
        return array if self.order is None else array.transpose(np.argsort(self.order))


def _is_readable(array: Array) -> bool:
    """Contiguous, aligned, of native byte order; it may be read-only."""
    return bool(array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative)


class _Frame(threading.local):
    """What a call needs and a thread keeps: tables of pointers and the arena."""

    def __init__(self, arguments: int, results: int, temp: int) -> None:
        self.arguments = (ctypes.c_void_p * max(arguments, 1))()
        self.results = (ctypes.c_void_p * max(results, 1))()
        self.memory = np.empty(temp + 64, np.uint8)
        base = self.memory.ctypes.data
        self.temp = base + -base % 64


class Executable(Displayable):
    """A compiled module: `exe(*arrays)` runs it.

    Arguments are arrays (a tuple parameter takes a nested tuple) of exactly the dtype and shape of the parameter; the result is a fresh array, or a nested tuple of them.
    Calls release the GIL, may come from several threads at once, and give bit-identical results for identical arguments.
    """

    def __init__(self, module: HloModule, source: HloModule, assignment: BufferAssignment, program: Program) -> None:
        self.hlo_module = module
        self.source_module = source
        self.buffer_assignment = assignment
        self._program = program
        self._host = make_host_calls(program.host)
        self.code = self.load(program)
        self._parameters = [p.shape for p in module.entry_computation.parameters]
        self._result_shape = module.entry_computation.root.shape
        self._nested = any(isinstance(s, TupleShape) for s in self._parameters)
        names = [p.name for p in module.entry_computation.parameters]
        self._specs = [
            _spec(f"argument {n} ({names[n]}){''.join(f'[{k}]' for k in leaf)}", shape)
            for n, parameter in enumerate(self._parameters)
            for leaf, shape in parameter.leaves()
        ]
        self._results = [_spec("result", shape) for _, shape in self._result_shape.leaves()]
        self._function: Callable[[Any, Any, int], None] = self.code.function("run", 3)
        self._frame = _Frame(len(self._specs), len(self._results), assignment.temp_size)

    # -- running ------------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Any) -> Any:
        """Run the program.

        Raises:
            ArgumentError: number, dtype or shape of the arguments do not fit; the message says what was expected.
        """
        if len(arrays) != len(self._parameters):
            expected = ", ".join(s.text(layout=False) for s in self._parameters)
            raise ArgumentError(
                f"{self.hlo_module.name} takes {len(self._parameters)} arguments ({expected}), not {len(arrays)}"
            )
        return self.run_with(self._function, self.flatten(arrays) if self._nested else arrays)

    def run_with(self, function: Callable[..., None], flat: Any, *more: Any) -> Any:
        """Check flat arguments, call a compiled `run` with them (and more arguments behind), and give the result."""
        frame = self._frame
        kept = []
        for k, (spec, value) in enumerate(zip(self._specs, flat, strict=True)):
            if spec is not None:
                array = spec.taken(value)
                kept.append(array)
                frame.arguments[k] = array.__array_interface__["data"][0]
        outputs = []
        for k, spec in enumerate(self._results):
            array = spec.fresh() if spec is not None else _NOTHING
            outputs.append(array)
            frame.results[k] = array.__array_interface__["data"][0]
        function(frame.arguments, frame.results, frame.temp, *more)
        if self._host:
            raise_pending()
        given = [spec.given(a) if spec is not None else None for spec, a in zip(self._results, outputs, strict=True)]
        return given[0] if not isinstance(self._result_shape, TupleShape) else _nest(self._result_shape, iter(given))

    def flatten(self, arrays: tuple[Any, ...]) -> list[Any]:
        """Arguments leaf by leaf."""
        flat: list[Any] = []
        for n, (shape, value) in enumerate(zip(self._parameters, arrays, strict=True)):
            _leaves(f"argument {n}", shape, value, flat)
        return flat

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """The machine that the code is made for."""
        return self._program.target

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR as it was emitted, each instruction with the line of its HLO instruction as debug location."""
        return self.llvm_record.text

    @property
    def optimized_llvm_ir(self) -> str:
        """The LLVM IR after LLVM's own passes."""
        return self.optimized_record.text

    @property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        return self.assembly_record.text

    @cached_property
    def _lines(self) -> dict[str, int]:
        return lines.line_numbers(self.hlo_module.record())

    @cached_property
    def _traced(self) -> tuple[Program, jit.MachineCode]:
        """The same program with debug locations, for those who read it; the code that runs carries none."""
        program = emit_program(self.buffer_assignment, self._program.target, self._lines)
        return program, self.machine_code(program)

    def machine_code(self, program: Program) -> jit.MachineCode:
        """The program or a variant of it for those who read it: as one module, through all of LLVM's passes."""
        return jit.MachineCode(program.text, program.constants, self._functions(program))

    def load(self, program: Program) -> jit.LoadedCode:
        """This executable's program or a variant of it, ready to run."""
        objects = compile_units(program.units(), program.target)
        return jit.LoadedCode(objects, ["run"], program.symbols | self._functions(program), program.constants)

    def _functions(self, program: Program) -> dict[str, int]:
        """The addresses of the functions that a program calls outside of itself."""
        functions = {symbol: h.address for symbol, h in self._host.items()}
        if program.is_parallel:
            functions[PARALLEL] = pool.address()
        return functions

    @cached_property
    def llvm_record(self) -> CodeRecord:
        """`llvm_ir` with the HLO instruction of each line."""
        program = self._traced[0]
        return lines.llvm_record(program.text, program.kernels, self._lines)

    @cached_property
    def optimized_record(self) -> CodeRecord:
        """`optimized_llvm_ir` with the HLO instruction of each line."""
        program, code = self._traced
        return lines.llvm_record(code.optimized_text, program.kernels, self._lines)

    @cached_property
    def assembly_record(self) -> CodeRecord:
        """`assembly` with the HLO instruction of each line."""
        program, code = self._traced
        return lines.assembly_record(code.assembly(), program.kernels, self._lines)

    @property
    def kernels(self) -> dict[str, HloInstruction]:
        """The HLO instruction of each kernel function."""
        by_name = {i.name: i for i in self.hlo_module.instructions()}
        return {f: by_name[name] for f, name in self._program.kernels.items()}

    def profile(self, *arrays: Any, runs: int = 10) -> pd.DataFrame:
        """Time of each kernel: a table with a row per kernel.

        Columns: kernel, instruction, op_name, calls and seconds (of one run, the mean of `runs`), share of the sum, bytes, flops, gbytes_per_second, gflops_per_second.

        Raises:
            ArgumentError: as for a call.
        """
        from xlanb.cpu.profile import profile

        return profile(self, arrays, runs)

    def __str__(self) -> str:
        kernels, temp = len(self._program.kernels), self.buffer_assignment.temp_size
        parameters = ", ".join(s.text(layout=False) for s in self._parameters)
        result = self._result_shape.text(layout=False)
        return f"Executable {self.hlo_module.name}: ({parameters}) -> {result}, {kernels} kernels, {temp} bytes of temporaries"

    def __repr__(self) -> str:
        return f"<{self}>"


_NOTHING = np.zeros(8, np.uint8)


def _spec(label: str, shape: Shape) -> ArraySpec | None:
    """The spec of a leaf; None of a token."""
    return None if shape.is_token else ArraySpec.of(label, shape)


def _leaves(label: str, shape: Shape, value: Any, flat: list[Any]) -> None:
    if not isinstance(shape, TupleShape):
        flat.append(value)
        return
    if not isinstance(value, (tuple, list)) or len(value) != len(shape.shapes):
        got = f"{len(value)} elements" if isinstance(value, (tuple, list)) else type(value).__name__
        raise ArgumentError(f"{label}: expected a tuple {shape.text(layout=False)}, got {got}")
    for k, (s, v) in enumerate(zip(shape.shapes, value, strict=True)):
        _leaves(f"{label}[{k}]", s, v, flat)


def _nest(shape: Shape, flat: Any) -> Any:
    return tuple(_nest(s, flat) for s in shape.shapes) if isinstance(shape, TupleShape) else next(flat)
