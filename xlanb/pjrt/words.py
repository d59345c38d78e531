"""The words of memory blocks that C identifies by address, shared by machine code and Python."""

from __future__ import annotations

from enum import IntEnum, auto


class Buffer(IntEnum):
    """The words of a PJRT_Buffer.

    `base` is memory that the buffer owns. `callback(data, argument)` and `event` are notified when
    the elements are released. `mark` counts how often the current call got it for donation. `block`
    is malloc's block for the words, which begin at a multiple of 64 bytes in it.
    """

    data = 0
    size = auto()
    type = auto()
    rank = auto()
    dims = auto()
    device = auto()
    memory = auto()
    deleted = auto()
    references = auto()
    base = auto()
    event = auto()
    callback = auto()
    argument = auto()
    mark = auto()
    block = auto()


class Loaded(IntEnum):
    """The words of a PJRT_LoadedExecutable.

    `steps` is the table that `run` takes. `arguments` are sizes in bytes, `results` 4 words each
    (size, type, rank, dims), and `donated` argument indices. `counter` is the address of a
    RunCounter or 0. `next_destroyed` is the next in the list of those that C has destroyed, or 0.
    """

    run = 0
    steps = auto()
    argument_count = auto()
    result_count = auto()
    temp = auto()
    flags = auto()
    arena = auto()
    cancelled = auto()
    running = auto()
    executable = auto()
    arguments = auto()
    results = auto()
    donated_count = auto()
    donated = auto()
    device = auto()
    counter = auto()
    next_destroyed = auto()


class MemoryWords(IntEnum):
    """The words of a PJRT_Memory."""

    device = 0
    kind = auto()
    kind_size = auto()


class LayoutWords(IntEnum):
    """The words of a PJRT_Layouts_MemoryLayout."""

    text = 0
    size = auto()
    deleter = auto()


RESULT_COUNT = 0
"""The word of a PJRT_Executable with its number of results."""
RANKS = 65
"""The number of ranks with a layout in the table."""
GUARDED, UNUSUAL, CALLS_HOST = 1, 2, 4
"""Flags of a loaded executable.

It runs under the guard, because it takes long or calls Python; each call goes to Python; it calls
Python functions, so that a Python exception may be theirs.
"""

__all__ = [
    "CALLS_HOST",
    "GUARDED",
    "RANKS",
    "RESULT_COUNT",
    "UNUSUAL",
    "Buffer",
    "LayoutWords",
    "Loaded",
    "MemoryWords",
]
