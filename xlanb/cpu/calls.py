"""Calls of a compiled program with NumPy arrays: a fast native entry, and a general slow path."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from xlanb.analysis.cost import cost
from xlanb.codegen.signature import ArraySpec, Signature
from xlanb.cpu.library import ProgramCode
from xlanb.cpu.runtime import bridge as bridges
from xlanb.cpu.runtime import guard
from xlanb.cpu.runtime.layouts import GIVES_TUPLE, RELEASES_GIL
from xlanb.errors import CancelledError, OutOfMemoryError
from xlanb.hlo.computation import HloComputation
from xlanb.memory import out_of_memory
from xlanb.shape import ArrayShape, TupleShape

Array = NDArray[Any]


class _CallFrame(threading.local):
    """Per-thread state of calls: tables of pointers and, from the first call on, the arena."""

    def __init__(self, arguments: int, results: int, temp: int) -> None:
        self.arguments = (ctypes.c_void_p * max(arguments, 1))()
        self.results = (ctypes.c_void_p * max(results, 1))()
        self.size = temp
        self.is_busy = False
        self._memory: Array | None = None

    @property
    def temp(self) -> int:
        """The address of the arena."""
        if self._memory is None:
            self._memory = np.empty(self.size + 64, np.uint8)
        base = self._memory.ctypes.data
        return base + -base % 64


class Calls:
    """Runs a program (see ProgramCode).

    `entry` is what callers call: native code that checks the arguments and allocates the results if
    all arguments are row-major, otherwise `unusual`. `is_long`: a call takes long enough to release
    the GIL (and to check for signals at its end). `calls_host`: the program calls functions of the
    runtime, whose errors are raised afterwards. `explain` describes, for messages, where a result
    (by its number) or the largest temporary (None) comes from.
    """

    def __init__(
        self,
        signature: Signature,
        code: ProgramCode,
        temp: int,
        *,
        is_long: bool,
        calls_host: bool,
        explain: Callable[[int | None], str] = lambda _: "",
    ) -> None:
        self.signature = signature
        self.code = code
        self.is_long = is_long
        self.calls_host = calls_host
        self._explain = explain
        self.arguments, self.results = signature.arguments(), signature.results()
        self._nested = any(isinstance(s, TupleShape) for _, s in signature.parameters)
        self.temp_size = temp
        self._frame = _CallFrame(len(self.arguments), len(self.results), temp)
        self._bridge = bridges.bridge()
        flags = RELEASES_GIL if is_long else 0
        flags |= GIVES_TUPLE if isinstance(signature.result, TupleShape) else 0
        arrays = [(s.dtype, s.dimensions, s.strides) for s in (*self.arguments, *self.results) if s is not None]
        self._table = bridges.table(code.run, code.table, temp, arrays, len(self.results), flags)
        self._word = self._table.ctypes.data + bridges.CANCELLATION_AT

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # at interpreter shutdown, modules are gone before their objects
        memory = getattr(self, "_table", None)
        if memory is not None and not ends():
            bridges.free_arena(memory)

    def entry(self, unusual: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """The function to call. Arguments that the native code does not accept go to `unusual`."""
        unusual = unusual or self.unusual
        flat = isinstance(self.signature.result, ArrayShape) or all(
            isinstance(s, ArrayShape) for s in getattr(self.signature.result, "shapes", ())
        )
        plain = all(s is not None and s.order is None and not s.shape.is_dynamic for s in self.arguments)
        plain &= all(s is not None and not s.shape.is_dynamic for s in self.results)
        if not self._bridge.reads_arrays or self.calls_host or self._nested or not flat or not plain:
            return unusual
        return self._bridge.entry(unusual, self._table.ctypes.data, self._table, self._cancelled)

    def unusual(self, *arrays: Any) -> Any:
        """Call the program with all checks and copies; see Executable.__call__."""
        return self.run_with(self.code.run, self.signature.flatten(arrays), self.code.table)

    def run_with(self, function: int, flat: Sequence[Any], extra: int) -> Any:
        """Check flat arguments, call a compiled `run` with them and `extra`; return the result."""
        frame = self._frame
        if frame.is_busy:  # reentrant call, from a host function or a signal handler
            frame = _CallFrame(len(self.arguments), len(self.results), frame.size)
        frame.is_busy = True
        try:
            return self._run_in(frame, function, flat, extra)
        finally:
            frame.is_busy = False

    def _run_in(self, frame: _CallFrame, function: int, flat: Sequence[Any], extra: int) -> Any:
        kept, outputs = self.prepare(flat, frame.arguments, frame.results)
        try:
            temp = frame.temp
        except MemoryError as error:
            raise out_of_memory(f"the temporaries of {self.signature.name}{self._explain(None)}", frame.size) from error
        status = self._bridge.call(function, frame.arguments, frame.results, temp, extra, self._word)
        if status != guard.OK:
            self._stopped(status)
        del kept
        return self.given(outputs)

    def prepare(self, flat: Sequence[Any], arguments: Any, results: Any) -> tuple[list[Array], list[Array]]:
        """Check flat arguments, allocate the results, and fill the tables with their addresses.

        Returns the arrays at these addresses, which must outlive the call.
        """
        kept = []
        for k, (spec, value) in enumerate(zip(self.arguments, flat, strict=True)):
            if spec is not None:
                array = self._convert_argument(spec, value)
                kept.append(array)
                arguments[k] = array.__array_interface__["data"][0]
        outputs = []
        for k, spec in enumerate(self.results):
            array = self._fresh(k, spec) if spec is not None else _NOTHING
            outputs.append(array)
            results[k] = array.__array_interface__["data"][0]
        return kept, outputs

    def given(self, outputs: Sequence[Array]) -> Any:
        """The result of a call as the caller sees it."""
        given = [spec.given(a) if spec is not None else None for spec, a in zip(self.results, outputs, strict=True)]
        return self.signature.nested(given)

    @staticmethod
    def _convert_argument(spec: ArraySpec, value: Any) -> Array:
        """Convert an argument to the form that the program reads.

        Raises:
            OutOfMemoryError: It must be copied, and there is not enough memory.
        """
        try:
            return spec.taken(value)
        except MemoryError as error:
            what = f"a copy of {spec.label} in the layout {spec.shape}"
            raise out_of_memory(what, spec.byte_size) from error

    def _fresh(self, number: int, spec: ArraySpec) -> Array:
        """Allocate memory for a result.

        Raises:
            OutOfMemoryError: There is not enough memory.
        """
        try:
            return spec.fresh()
        except MemoryError as error:
            what = f"result {number} of {self.signature.name}, {spec.shape.text(layout=False)}{self._explain(number)}"
            raise out_of_memory(what, spec.byte_size) from error

    def _stopped(self, status: int) -> NoReturn:
        """Raise the reason why an execution was stopped.

        Exceptions of signal handlers and host calls have been raised before.
        """
        if status == guard.NO_MEMORY:
            raise OutOfMemoryError(f"out of memory for the state of a thread that runs {self.signature.name}")
        raise CancelledError(self._cancelled)

    def cancel(self) -> int:
        """See Executable.cancel."""
        return int(self._bridge.cancel(self._word))

    @property
    def running(self) -> int:
        """The number of calls in progress that released the GIL (all but short ones)."""
        return int(self._table[bridges.RUNNING_WORD])

    @property
    def _cancelled(self) -> str:
        return f"{self.signature.name} was cancelled while it ran"


_NOTHING = np.zeros(8, np.uint8)


_LONG_BYTES, _LONG_OPERATIONS = 200_000, 100_000


def is_long(computation: HloComputation) -> bool:
    """Whether one run of a computation without loops takes long enough (about 20 us) to release
    the GIL.
    """
    size, count = 0.0, 0.0
    for i in computation:
        counts = cost(i)
        size += counts.bytes_accessed
        count += counts.flops + counts.transcendentals
        if size > _LONG_BYTES or count > _LONG_OPERATIONS:
            return True
    return False
