"""The tables that stack_frame_id refers to: files, functions, locations, and frames.

A frame names a location and its caller's frame. A module keeps only the frames that its
instructions need, each once, numbered in the order in which the instructions name them.
Source: HloModule::CanonicalizeStackFrameIds in xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import TypeVar

from xlanb.hlo.attributes import StackFrame
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.names import escape
from xlanb.lazy_dataclass import dataclass

_Key = TypeVar("_Key")

LOCATION = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
FRAME = ("file_location_id", "parent_frame_id")
"""Fields of a frame, in XLA's order.

All ids count from 1. In a frame, parent 1 means none, n + 1 is frame n.
"""


@dataclass(slots=True)
class StackFrames:
    """The four tables; row n has the id n + 1."""

    files: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    locations: dict[tuple[int, ...], int] = field(default_factory=dict)
    frames: dict[tuple[int, ...], int] = field(default_factory=dict)

    def text(self) -> str:
        """XLA's text; "" if there are no frames."""
        if not self.frames:
            return ""
        lines = ["FileNames", *_names(self.files), "", "FunctionNames", *_names(self.functions)]
        lines += [
            "",
            "FileLocations",
            *_rows(self.locations, LOCATION),
            "",
            "StackFrames",
            *_rows(self.frames, FRAME),
            "",
        ]
        return "\n".join(lines)


def _names(table: dict[str, int]) -> list[str]:
    return [f'{n} "{escape(name)}"' for name, n in table.items()]


def _rows(table: dict[tuple[int, ...], int], names: tuple[str, ...]) -> list[str]:
    return [
        f"{n} {{{' '.join(f'{name}={value}' for name, value in zip(names, row, strict=True))}}}"
        for row, n in table.items()
    ]


def _id(table: dict[_Key, int], key: _Key) -> int:
    return table.setdefault(key, len(table) + 1)


@dataclass(slots=True)
class GivenFrames:
    """The tables as parsed: lists that may have duplicate or unused rows."""

    files: list[str]
    functions: list[str]
    locations: list[tuple[int, ...]]
    frames: list[tuple[int, ...]]

    def intern(self, instructions: Iterable[HloInstruction]) -> StackFrames:
        """The frames that the instructions need, renumbered.

        Their metadata is updated to the new numbers, 0 if a frame is not valid.
        """
        out = StackFrames()
        known: dict[int, int] = {0: 0}
        read: dict[int, StackFrame] = {}
        for i in instructions:
            old = i.metadata.stack_frame_id
            if old:
                new = self._add(out, old, known)
                i.metadata = replace(i.metadata, stack_frame_id=new, frame=self._read(old, read) if new else None)
        return out

    def resolve(self, instructions: Iterable[HloInstruction]) -> None:
        """Add the frames that instructions name to their metadata; the numbers stay.

        A frame that is not valid is left out.
        """
        known: dict[int, int] = {0: 0}
        out = StackFrames()
        read: dict[int, StackFrame] = {}
        for i in instructions:
            number = i.metadata.stack_frame_id
            if number and self._add(out, number, known):
                i.metadata = replace(i.metadata, frame=self._read(number, read))

    def _read(self, number: int, read: dict[int, StackFrame]) -> StackFrame | None:
        """A frame that `_add` accepted, with its callers."""
        path = []
        while number and number not in read:
            path.append(number)
            number = self.frames[number - 1][1] - 1
        caller = read.get(number)
        for frame in reversed(path):
            file, function, line, _, column, _ = self.locations[self.frames[frame - 1][0] - 1]
            caller = read[frame] = StackFrame(self.files[file - 1], self.functions[function - 1], line, column, caller)
        return caller

    def _add(self, out: StackFrames, old: int, known: dict[int, int]) -> int:
        path: dict[int, None] = {}
        at = old
        while at not in known:
            if not 0 < at <= len(self.frames) or at in path or not self._is_place(self.frames[at - 1][0]):
                return 0
            path[at] = None
            at = self.frames[at - 1][1] - 1
        parent = known[at]
        for frame in reversed(path):
            place = self._location_id(out, self.frames[frame - 1][0])
            parent = known[frame] = _id(out.frames, (place, parent + 1))
        return parent

    def _is_place(self, number: int) -> bool:
        """Whether a location, its file and its function are known."""
        if not 0 < number <= len(self.locations):
            return False
        file, function, *_ = self.locations[number - 1]
        return 0 < file <= len(self.files) and 0 < function <= len(self.functions)

    def _location_id(self, out: StackFrames, number: int) -> int:
        """The new id of a known location."""
        file, function, *rest = self.locations[number - 1]
        ids = _id(out.files, self.files[file - 1]), _id(out.functions, self.functions[function - 1])
        return _id(out.locations, (*ids, *rest))
