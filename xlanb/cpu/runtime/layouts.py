"""Structures in memory that native code and Python share.

Ownership: a `Record` belongs to its thread and lives as long as the process; a later thread reuses
the record of one that has ended. A `FrameLayout` is on the stack of `xlanb.guard`. A `TableLayout`
and its arrays' `EntryLayout`s belong to the Python object that runs the program, which keeps them
at their addresses. NumPy owns a `PyArrayObject`.
"""

from __future__ import annotations

import ctypes
from typing import Final


class Record(ctypes.Structure):
    """State of a thread that runs programs.

    `next` is set once, under the lock of the list. `used`: a thread has it. `computes`: 1 in a
    program's own code, 0 in Python and in the runtime; only the thread itself writes it. `frame`:
    the innermost execution, or null; only the thread itself writes it, others read it. `asked`: 1
    if the thread is requested to check (counted in xlanb.attention). `abandoned`: for a worker, the
    word that says whether its job is abandoned; null for others.
    """

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("used", ctypes.c_int64),
        ("computes", ctypes.c_int64),
        ("frame", ctypes.c_void_p),
        ("asked", ctypes.c_int64),
        ("abandoned", ctypes.c_void_p),
    )


class FrameLayout(ctypes.Structure):
    """An execution.

    The execution around it on the same thread, the program's `Cancellation`, the value of
    `cancelled` at its start, and why it stops (0: it does not).
    """

    _fields_ = (
        ("outer", ctypes.c_void_p),
        ("cancellation", ctypes.c_void_p),
        ("cancelled", ctypes.c_int64),
        ("why", ctypes.c_int64),
    )


class Cancellation(ctypes.Structure):
    """How often a program was cancelled, and how many executions of it are running."""

    _fields_ = (("cancelled", ctypes.c_int64), ("running", ctypes.c_int64))


class TableLayout(ctypes.Structure):
    """A program.

    Its code, the table of its steps (or null), the number of argument and result arrays, bytes of
    its arena,
    `flags`, a free arena (or null), its `Cancellation`; then an `EntryLayout` for each array.
    """

    _fields_ = (
        ("run", ctypes.c_void_p),
        ("steps", ctypes.c_void_p),
        ("arguments", ctypes.c_int64),
        ("results", ctypes.c_int64),
        ("arena_bytes", ctypes.c_int64),
        ("flags", ctypes.c_int64),
        ("free_arena", ctypes.c_int64),
        ("cancelled", ctypes.c_int64),
        ("running", ctypes.c_int64),
    )


RELEASES_GIL, GIVES_TUPLE = 1, 2
"""Flags of a table."""


class EntryLayout(ctypes.Structure):
    """An array of a program.

    dtype, rank, the addresses of its dimensions and strides (null: row-major; for results only),
    and its bytes if it is large (0: small).
    """

    _fields_ = (
        ("dtype", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dimensions", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("large", ctypes.c_int64),
    )


ENTRY_BYTES: Final = ctypes.sizeof(EntryLayout)


class PyArrayObject(ctypes.Structure):
    """An ndarray, as in NumPy's C API since 1.7 (`PyArrayObject_fields`).

    The allocator exists since 1.22.
    """

    _fields_ = (
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("nd", ctypes.c_int32),
        ("dimensions", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int32),
        ("weakreflist", ctypes.c_void_p),
        ("buffer_info", ctypes.c_void_p),
        ("mem_handler", ctypes.c_void_p),
    )


class TimeSpec(ctypes.Structure):
    """C's `struct timespec`."""

    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64))
