"""Calls of a compiled program with NumPy arrays: a fast entry in machine code, and the way for everything unusual."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from xlanb.boundary import array_of
from xlanb.buffers.live_ranges import sizes_bytes
from xlanb.codegen.indexing import strides
from xlanb.cpu.dynamic import packed, sizes_at, unpacked
from xlanb.cpu.jit import LoadedCode
from xlanb.cpu.runtime import bridge as bridges
from xlanb.cpu.runtime import guard
from xlanb.cpu.runtime.layouts import GIVES_TUPLE, RELEASES_GIL
from xlanb.errors import ArgumentError, CancelledError, OutOfMemoryError
from xlanb.memory import out_of_memory
from xlanb.shape import ArrayShape, Shape, TupleShape

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
        if self.shape.is_dynamic:
            return self._taken_dynamic(array)
        if array.shape != self.dimensions:
            raise ArgumentError(f"{self.label}: expected {self._expected()}, got shape {array.shape}")
        if self.order is not None:
            array = array.transpose(self.order)
        return array if array.flags.carray or _is_readable(array) else np.array(array, self.dtype, order="C", copy=True)

    def _taken_dynamic(self, array: Array) -> Array:
        """The argument with its sizes behind it."""
        fits = len(array.shape) == self.shape.rank and all(
            n <= d if self.shape.is_dynamic_dimension(k) else n == d
            for k, (n, d) in enumerate(zip(array.shape, self.dimensions, strict=True))
        )
        if not fits:
            raise ArgumentError(f"{self.label}: expected {self._expected()}, got shape {array.shape}")
        memory = self.fresh()
        packed(self.shape, array, memory.ctypes.data)
        return memory

    def _coerced(self, value: Any) -> Array:
        """A Python number takes the expected dtype; everything else has its own."""
        if isinstance(value, (bool, int, float, complex)):
            try:
                return np.asarray(value, self.dtype)
            except (OverflowError, TypeError, ValueError) as error:
                raise ArgumentError(f"{self.label}: expected {self._expected()}, got {value!r}: {error}") from None
        return array_of(
            value,
            lambda error: ArgumentError(
                f"{self.label}: expected {self._expected()}, got {type(value).__name__}: {error}"
            ),
        )

    def _expected(self) -> str:
        return f"{self.shape.text(layout=False)} (dtype {self.dtype}, shape {self.dimensions})"

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Bytes from one index to the next in each dimension; None where row-major."""
        return None if self.order is None else tuple(n * self.dtype.itemsize for n in strides(self.shape))

    @property
    def byte_size(self) -> int:
        """Bytes in memory."""
        return self.shape.element_count * self.dtype.itemsize + sizes_bytes(self.shape)

    def fresh(self) -> Array:
        """Memory for a result, in the order of the layout; of a dynamic array bytes, with its bound as its sizes."""
        if self.shape.is_dynamic:
            memory = np.empty(self.byte_size, np.uint8)
            sizes_at(self.shape, memory.ctypes.data)[:] = self.dimensions
            return memory
        dims = self.dimensions if self.order is None else tuple(self.dimensions[d] for d in self.order)
        return np.empty(dims, self.dtype)

    def given(self, array: Array) -> Array:
        """The result as the caller sees it: a view of the memory as the module's layout has it, not copied into row-major order; a dynamic array in its own size."""
        if self.shape.is_dynamic:
            return np.array(unpacked(self.shape, array.ctypes.data))
        return array if self.order is None else array.transpose(np.argsort(self.order))


def _is_readable(array: Array) -> bool:
    """Contiguous, aligned, of native byte order; it may be read-only."""
    return bool(array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative)


class _Frame(threading.local):
    """What a call needs and a thread keeps: tables of pointers and, from the first call on, the arena."""

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


@dataclass(frozen=True)
class Signature:
    """What a program takes and gives: the name of the module, its parameters by name, its result."""

    name: str
    parameters: tuple[tuple[str, Shape], ...]
    result: Shape

    def arguments(self) -> list[ArraySpec | None]:
        """The specs of all arguments, leaf after leaf; None of a token."""
        return [
            _spec(f"argument {n} ({name}){''.join(f'[{k}]' for k in leaf)}", shape)
            for n, (name, parameter) in enumerate(self.parameters)
            for leaf, shape in parameter.leaves()
        ]

    def results(self) -> list[ArraySpec | None]:
        """The specs of all results, leaf after leaf; None of a token."""
        return [_spec("result", shape) for _, shape in self.result.leaves()]

    @property
    def text(self) -> str:
        """The shapes, as in `(f32[2], f32[]) -> f32[2]`."""
        parameters = ", ".join(s.text(layout=False) for _, s in self.parameters)
        return f"({parameters}) -> {self.result.text(layout=False)}"


class Calls:
    """Runs the function `run(args, results, temp)` of loaded code.

    `entry` is what a caller calls: machine code that checks the arguments and makes the results, where all arguments are row-major; otherwise `unusual`. `is_long`: a call takes so
    long that other threads should go on meanwhile (and a signal is looked for when it ends). `calls_host`: the program calls functions of the runtime, whose errors are raised afterwards.
    `explain` says for a message where a result (by its number), or the largest temporary (None), comes from.
    """

    def __init__(
        self,
        signature: Signature,
        code: LoadedCode,
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
        self._frame = _Frame(len(self.arguments), len(self.results), temp)
        self._bridge = bridges.bridge()
        self.address = code.address("run")
        flags = RELEASES_GIL if is_long else 0
        flags |= GIVES_TUPLE if isinstance(signature.result, TupleShape) else 0
        arrays = [(s.dtype, s.dimensions, s.strides) for s in (*self.arguments, *self.results) if s is not None]
        self._table = bridges.table(self.address, temp, arrays, len(self.results), flags)
        self._word = self._table.ctypes.data + bridges.CANCELLATION_AT

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end the modules are gone before their objects
        memory = getattr(self, "_table", None)
        if memory is not None and not ends():
            bridges.free_arena(memory)

    def entry(self, unusual: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """The function to call. Arguments that are not at once what the program takes go to `unusual`."""
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
        """A call with all checks and copies; see Executable.__call__."""
        if len(arrays) != len(self.signature.parameters):
            expected = ", ".join(s.text(layout=False) for _, s in self.signature.parameters)
            raise ArgumentError(
                f"{self.signature.name} takes {len(self.signature.parameters)} arguments ({expected}), not {len(arrays)}"
            )
        return self.run_with(self.address, self.flatten(arrays))

    def run_with(self, function: int, flat: Sequence[Any], extra: int = 0) -> Any:
        """Check flat arguments, call a compiled `run` with them (and `extra` behind), and give the result."""
        frame = self._frame
        if frame.is_busy:  # by a call that this one is made from: a function that the program calls, a signal's handler
            frame = _Frame(len(self.arguments), len(self.results), frame.size)
        frame.is_busy = True
        try:
            return self._run_in(frame, function, flat, extra)
        finally:
            frame.is_busy = False

    def _run_in(self, frame: _Frame, function: int, flat: Sequence[Any], extra: int) -> Any:
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
        """Check flat arguments, make the results, and set the tables of their addresses; gives the arrays behind them, which must live as long as the call."""
        kept = []
        for k, (spec, value) in enumerate(zip(self.arguments, flat, strict=True)):
            if spec is not None:
                array = self._taken(spec, value)
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
        result = self.signature.result
        return given[0] if not isinstance(result, TupleShape) else _nest(result, iter(given))

    @staticmethod
    def _taken(spec: ArraySpec, value: Any) -> Array:
        """An argument as the program reads it.

        Raises:
            OutOfMemoryError: it has to be copied, and there is no memory.
        """
        try:
            return spec.taken(value)
        except MemoryError as error:
            what = f"a copy of {spec.label} in the layout {spec.shape}"
            raise out_of_memory(what, spec.byte_size) from error

    def _fresh(self, number: int, spec: ArraySpec) -> Array:
        """Memory for a result.

        Raises:
            OutOfMemoryError: there is none.
        """
        try:
            return spec.fresh()
        except MemoryError as error:
            what = f"result {number} of {self.signature.name}, {spec.shape.text(layout=False)}{self._explain(number)}"
            raise out_of_memory(what, spec.byte_size) from error

    def _stopped(self, status: int) -> NoReturn:
        """Raise why an execution did not end by itself; what a signal's handler or a host call raised has been raised before."""
        if status == guard.NO_MEMORY:
            raise OutOfMemoryError(f"no memory for the record of a thread that runs {self.signature.name}")
        raise CancelledError(self._cancelled)

    def cancel(self) -> int:
        """See Executable.cancel."""
        return int(self._bridge.cancel(self._word))

    @property
    def running(self) -> int:
        """How many calls there are at this moment that other threads go on beside (all but short ones)."""
        return int(self._table[bridges.RUNNING_WORD])

    @property
    def _cancelled(self) -> str:
        return f"{self.signature.name} was cancelled while it ran"

    def flatten(self, arrays: Sequence[Any]) -> list[Any]:
        """Arguments leaf by leaf."""
        if not self._nested:
            return list(arrays)
        flat: list[Any] = []
        for n, ((_, shape), value) in enumerate(zip(self.signature.parameters, arrays, strict=True)):
            _leaves(f"argument {n}", shape, value, flat)
        return flat


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


def _nest(shape: Shape, flat: Iterator[Any]) -> Any:
    return tuple(_nest(s, flat) for s in shape.shapes) if isinstance(shape, TupleShape) else next(flat)
