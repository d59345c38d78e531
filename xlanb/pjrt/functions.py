"""Python functions of the C API.

`@implements("Client_Devices")` registers one; its exceptions become PJRT_Errors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from xlanb.errors import (
    ArgumentError,
    CancelledError,
    DataLossError,
    InternalError,
    OutOfMemoryError,
    UnimplementedError,
    XlanbError,
)
from xlanb.lazy_logging import logger
from xlanb.pjrt import c_api
from xlanb.pjrt.native import DONE, UNUSUAL, make_error
from xlanb.pjrt.native_text import UNUSUAL_FUNCTIONS

_LOG = logger("xlanb.pjrt")

Implementation = Callable[[Any], None]
FUNCTIONS: dict[str, Implementation] = {}
"""The functions implemented in Python, by name without PJRT_.

Each takes its argument struct.
"""


class CallbackError(XlanbError):
    """A Python function called by a program raised; the message is its traceback."""


_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (OutOfMemoryError, c_api.RESOURCE_EXHAUSTED),
    (MemoryError, c_api.RESOURCE_EXHAUSTED),
    (CancelledError, c_api.CANCELLED),
    (KeyboardInterrupt, c_api.CANCELLED),
    (UnimplementedError, c_api.UNIMPLEMENTED),
    (DataLossError, c_api.DATA_LOSS),
    (ArgumentError, c_api.INVALID_ARGUMENT),
    (InternalError, c_api.INTERNAL),
    (CallbackError, c_api.INTERNAL),
    (XlanbError, c_api.INVALID_ARGUMENT),
)


def implements(name: str) -> Callable[[Implementation], Implementation]:
    """Register a function."""

    def put(function: Implementation) -> Implementation:
        FUNCTIONS[name] = function
        return function

    return put


def error_of(error: BaseException) -> int | None:
    """Return the PJRT_Error of an exception."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return make_error(code, str(error) or type(error).__name__)
    _LOG.error("a function of the PJRT C API failed", exc_info=error)
    return make_error(c_api.INTERNAL, f"{type(error).__name__}: {error}")


def as_callback(name: str, function: Implementation) -> Any:
    """Return the function as C calls it."""
    struct, least = c_api.arguments(name), c_api.size(name)
    done = DONE if name in UNUSUAL_FUNCTIONS else None

    def call(address: int) -> int | None:
        try:
            given = struct.from_address(address)
            if given.struct_size < least:
                raise ArgumentError(
                    f"PJRT_{name}_Args has {given.struct_size} bytes, PJRT "
                    f"{'.'.join(map(str, c_api.VERSION))} needs {least}: this jaxlib is "
                    "too old for xlanb"
                )
            function(given)
        except BaseException as error:  # noqa: BLE001 - nothing may be raised through C
            return error_of(error)
        return done

    return UNUSUAL(call)


def missing(name: str) -> Any:
    """Return a function that reports an unimplemented name."""

    def call(address: int) -> int | None:
        return make_error(c_api.UNIMPLEMENTED, f"xlanb's backend has no PJRT_{name}")

    return UNUSUAL(call)


# -- values for C ----------------------------------------------------------------------------------


class Text:
    """Bytes at a fixed address."""

    def __init__(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.size = len(data)
        self._memory = ctypes.create_string_buffer(data, len(data) + 1)
        self.address = ctypes.addressof(self._memory)


def pointers(addresses: Iterable[int]) -> Any:
    """Return an array of pointers, with at least one, because addresses must not be null."""
    found = list(addresses)
    return (ctypes.c_void_p * max(len(found), 1))(*found)


def give_text(args: Any, field: str, text: Text) -> None:
    """Set a text field and its size."""
    setattr(args, field, text.address)
    setattr(args, f"{field}_size", text.size)


class NamedValues:
    """PJRT_NamedValues at a fixed address: strings, ints, floats, bools and lists of ints."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.count = len(values)
        self._kept: list[Any] = []
        self._array = (c_api.NamedValue * max(self.count, 1))()
        self.address = ctypes.addressof(self._array)
        for entry, (name, value) in zip(self._array, values.items(), strict=False):
            self._fill(entry, self._text(name), value)

    def _text(self, text: str) -> Text:
        made = Text(text)
        self._kept.append(made)
        return made

    def _fill(self, entry: Any, name: Text, value: Any) -> None:
        entry.struct_size = ctypes.sizeof(c_api.NamedValue)
        entry.name, entry.name_size, entry.value_size = name.address, name.size, 1
        if isinstance(value, bool):
            entry.type, entry.bool = c_api.BOOL, value
        elif isinstance(value, int):
            entry.type, entry.int64 = c_api.INT64, value
        elif isinstance(value, float):
            entry.type, entry.float = c_api.FLOAT, value
        elif isinstance(value, str):
            text = self._text(value)
            entry.type, entry.string, entry.value_size = c_api.STRING, text.address, text.size
        else:
            numbers = (ctypes.c_int64 * max(len(value), 1))(*value)
            self._kept.append(numbers)
            entry.type, entry.string, entry.value_size = c_api.INT64_LIST, ctypes.addressof(numbers), len(value)


def read_named_values(address: int | None, count: int) -> dict[str, Any]:
    """Return the PJRT_NamedValues at an address."""
    found: dict[str, Any] = {}
    for k in range(count):
        entry = c_api.NamedValue.from_address((address or 0) + k * ctypes.sizeof(c_api.NamedValue))
        name = c_api.text_at(entry.name, entry.name_size).decode()
        if entry.type == c_api.STRING:
            found[name] = c_api.text_at(entry.string, entry.value_size).decode()
        elif entry.type == c_api.INT64_LIST:
            found[name] = list((ctypes.c_int64 * entry.value_size).from_address(entry.string))
        else:
            found[name] = {c_api.INT64: entry.int64, c_api.FLOAT: entry.float, c_api.BOOL: entry.bool}.get(entry.type)
    return found


class Handle:
    """An object that C identifies by the address of its words."""

    _live: dict[int, Handle] = {}  # noqa: RUF012 - one for the process

    def __init__(self, count: int = 2) -> None:
        self.words = (ctypes.c_int64 * count)()
        self.address = ctypes.addressof(self.words)
        Handle._live[self.address] = self

    def forget(self) -> None:
        """Forget the handle, which C no longer uses."""
        Handle._live.pop(self.address, None)

    @staticmethod
    def at(address: int) -> Any:
        """Return the object at an address.

        Raises:
            ArgumentError: there is none.
        """
        try:
            return Handle._live[address]
        except KeyError:
            raise ArgumentError(f"xlanb's backend has no object at {address:#x}: it was destroyed") from None


__all__ = [
    "FUNCTIONS",
    "CallbackError",
    "Handle",
    "NamedValues",
    "Text",
    "as_callback",
    "error_of",
    "give_text",
    "implements",
    "missing",
    "pointers",
    "read_named_values",
]
