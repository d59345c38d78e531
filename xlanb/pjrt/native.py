"""The loaded functions of `native_text`, and their Python interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xlanb.codegen import jit
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import guard
from xlanb.cpu.runtime.bridge import bridge
from xlanb.errors import OutOfMemoryError
from xlanb.pjrt import c_api
from xlanb.pjrt.native_text import NATIVE, UNUSUAL_FUNCTIONS, text
from xlanb.pjrt.words import RANKS, Buffer, Loaded
from xlanb.shape.primitive_type import PrimitiveType

_P, _Q = ctypes.c_void_p, ctypes.c_int64
UNUSUAL = ctypes.CFUNCTYPE(_P, _P)
"""A C API function in C: takes its arguments' address, returns an error's or None."""
DESTROYED = ctypes.CFUNCTYPE(None)
"""Forgets the executables that C has destroyed."""
STOPPED = ctypes.CFUNCTYPE(_P, _P, _Q, _P)
"""Creates the error of a stopped call.

Takes the executable, the status of `xlanb.guard`, and the exception that a Python function raised,
if any.
"""

DONE = 1
"""The result of an `unusual` function on success.

None if a signal handler's exception ended it.
"""
_PYTHON = (
    "PyGILState_Ensure PyGILState_Release PyErr_Fetch PyErr_NormalizeException "
    "PyErr_SetObject PyException_SetTraceback "
    "Py_AddPendingCall Py_DecRef"
).split()

BY_NUMBER: tuple[PrimitiveType | None, ...] = tuple(
    {t.text: t for t in PrimitiveType}.get(name) for name in c_api.ELEMENT_TYPES
)
"""The element type of each PJRT_Buffer_Type; None for the invalid one."""
NUMBERS = {t: n for n, t in enumerate(BY_NUMBER) if t is not None}
ITEM_SIZES = tuple(t.dtype.itemsize if t is not None and t.scalar is not None else 0 for t in BY_NUMBER)


class NativeFunctions:
    """The loaded functions, once per process (`native`).

    `unusual` are the Python functions that C API functions fall back to; `stopped` creates the
    error of a stopped call; `destroyed` forgets the executables of `take_destroyed`.
    """

    def __init__(self, unusual: Mapping[str, Any], stopped: Any, destroyed: Any) -> None:
        target = jit.host()
        head = f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.triple}"\n'
        unit = Unit(head + text(ITEM_SIZES), ready=True, weight=0, everywhere=True)
        runtime = bridge()
        symbols = {f"unusual.{name}": _address(unusual[name]) for name in UNUSUAL_FUNCTIONS}
        symbols |= {
            "unusual.stopped": _address(stopped),
            "unusual.destroyed": _address(destroyed),
            "take": runtime.memory.address("malloc"),
            "give": runtime.memory.address("free"),
            "guard": runtime.code.address(guard.GUARD),
        }
        symbols |= {name: _address(getattr(ctypes.pythonapi, name)) for name in _PYTHON}
        own = (
            "pjrt.make",
            "pjrt.view",
            "pjrt.release",
            "pjrt.signal",
            "pjrt.ready",
            "pjrt.statistics",
            "pjrt.layouts",
            "pjrt.raised",
            "pjrt.nothing",
            "pjrt.take.destroyed",
        )
        self.code = jit.LoadedCode(
            compile_units([unit], target), [*NATIVE, *own], symbols, (runtime, dict(unusual), stopped, destroyed)
        )
        address = self.code.address
        self.functions: Mapping[str, int] = {name: address(name) for name in NATIVE}
        self.nothing = address("pjrt.nothing")
        self._raised = ctypes.c_void_p.from_address(address("pjrt.raised"))
        self.ready = address("pjrt.ready")
        self._make = _function(address("pjrt.make"), _Q, _Q, _Q, _P, _P, _P)
        self._view = _function(address("pjrt.view"), _P, _Q, _Q, _Q, _P, _P, _P, _P, _P, _P)
        self._delete = _function(address("Buffer_Delete"), _P)
        self._destroy = _function(address("Buffer_Destroy"), _P)
        self._take_destroyed = _function(address("pjrt.take.destroyed"))
        self._layouts = (_Q * RANKS).from_address(address("pjrt.layouts"))
        self._statistics = (_Q * 4).from_address(address("pjrt.statistics"))

    def raise_again(self, error: BaseException) -> None:
        """Raise an exception in the main thread after the framework returns.

        An exception that is already pending is raised first.
        """
        if not self._raised.value:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
            self._raised.value = id(error)

    def set_layouts(self, addresses: Sequence[int]) -> None:
        """Set the row-major layout of each rank."""
        self._layouts[:] = list(addresses)

    def make(self, type_number: int, dims: Sequence[int], size: int, device: int, memory: int) -> int:
        """Make a buffer with its own memory.

        Raises:
            OutOfMemoryError: there is not enough memory.
        """
        made = self._make(size, type_number, len(dims), (_Q * len(dims))(*dims), device, memory)
        if not made:
            raise OutOfMemoryError(f"out of memory for a buffer of {size:,} bytes")
        return int(made)

    def view(
        self, data: int, type_number: int, dims: Sequence[int], size: int, device: int, memory: int,
        callback: int = 0, argument: int = 0,
    ) -> int:  # fmt: skip
        """Make a buffer over the caller's memory; `callback` is called when it is no longer needed.

        Raises:
            OutOfMemoryError: there is no memory for the buffer itself.
        """
        shape = (_Q * len(dims))(*dims)
        made = self._view(data, size, type_number, len(dims), shape, device, memory, None, callback, argument)
        if not made:
            raise OutOfMemoryError("out of memory for a buffer")
        return int(made)

    def delete(self, buffer: int) -> None:
        """Release a buffer's elements as soon as nothing else refers to them."""
        self._delete(_handed(buffer))

    def destroy(self, buffer: int) -> None:
        """Delete a buffer that has not been exposed."""
        self._destroy(_handed(buffer))

    def take_destroyed(self) -> Iterator[int]:
        """Yield the loaded executables that C has destroyed since the last call."""
        at = self._take_destroyed()
        while at:
            following = (_Q * len(Loaded)).from_address(at)[Loaded.next_destroyed]
            yield int(at)
            at = following

    def statistics(self) -> tuple[int, int, int, int]:
        """Return buffer statistics.

        They are current bytes, peak bytes, the number of buffers so far, and bytes of the largest.
        """
        live, peak, count, largest = self._statistics
        return live, peak, count, largest


def buffer_words(buffer: int) -> Any:
    """Return the live words of a buffer."""
    return (_Q * len(Buffer)).from_address(buffer)


def buffer_dims(buffer: int) -> tuple[int, ...]:
    """Return the dimensions of a buffer."""
    found = buffer_words(buffer)
    return tuple((_Q * found[Buffer.rank]).from_address(found[Buffer.dims]))


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = _P, [ctypes.c_size_t]


def make_error(code: int, message: str) -> int | None:
    """Return a PJRT_Error, which the framework destroys."""
    data = message.encode("utf-8", "replace")
    place = _libc.malloc(16 + len(data) + 1)
    if place is None:
        return None
    head = (_Q * 2).from_address(place)
    head[0], head[1] = code, len(data)
    ctypes.memmove(place + 16, data + b"\0", len(data) + 1)
    return int(place)


def _handed(buffer: int) -> Any:
    """Return the arguments of a function that takes only a buffer."""
    return ctypes.byref((_Q * 3)(24, 0, buffer))


def _function(address: int, *parameters: Any) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(_P, *parameters)(address)


def _address(function: Any) -> int:
    return ctypes.cast(function, _P).value or 0


__all__ = [
    "BY_NUMBER",
    "DESTROYED",
    "DONE",
    "ITEM_SIZES",
    "NUMBERS",
    "STOPPED",
    "UNUSUAL",
    "NativeFunctions",
    "buffer_dims",
    "buffer_words",
    "make_error",
]
