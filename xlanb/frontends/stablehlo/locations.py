"""Locations of MLIR text, `loc("name"("file":1:2))`, and the HLO metadata made from them.

As in XLA's converter, a name becomes the op_name and a file position the source. A fused location
is its first part with either. For a call site the callee is used, and its callers become the
further frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.frontends.stablehlo.lexer import MlirCursor
from xlanb.hlo.attributes import NO_METADATA, OpMetadata
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A name, a file position (line and column from 1, 0 is unknown), and its component
    locations.
    """

    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class DeferredLocation:
    """`#loc7`, which the text may define later."""

    alias: str


_MAX_STEPS = 1000


class LocationParser:
    """Reads locations; those that have an alias are found once the whole text is read."""

    def __init__(self, cursor: MlirCursor, attribute: Callable[[], Any]) -> None:
        self.cursor = cursor
        self.aliases: dict[str, Any] = {}
        self._attribute = attribute
        self._known: dict[str, OpMetadata] = {}

    def deferred(self, alias: str) -> DeferredLocation:
        """Return a reference to `#loc7`."""
        return DeferredLocation(alias)

    def optional(self) -> Any:
        """Parse an optional `loc(...)`; None if there is none."""
        return self.specifier() if self.cursor.peek_bare() == "loc" else None

    def specifier(self) -> Any:
        """`loc(...)`."""
        c = self.cursor
        c.expect_bare("loc")
        c.expect("(", "behind 'loc'")
        found = self._location()
        c.expect(")", "at the end of a location")
        return found

    def _location(self) -> Any:
        c = self.cursor
        c.enter()
        try:
            if c.at("#"):
                return DeferredLocation(c.suffix("#"))
            if c.at('"'):
                return self._named()
            word = c.bare("a location")
            if word == "callsite":
                return self._callsite()
            if word == "fused":
                return self._fused()
            if word != "unknown":
                c.fail(f"expects a location, not '{word}'")
            return Location()
        finally:
            c.depth -= 1

    def _named(self) -> Location:
        c = self.cursor
        text = c.quoted()
        if c.accept(":"):
            return self._place(text)
        parts: tuple[Any, ...] = ()
        if c.accept("("):
            parts = (self._location(),)
            c.expect(")", "at the end of a named location")
        return Location(name=text, parts=parts)

    def _place(self, file: str) -> Location:
        c = self.cursor
        line = self._coordinate()
        column = self._coordinate() if c.accept(":") else 0
        end_line = end_column = 0
        if c.accept_bare("to"):
            end_line = line if c.at(":") else self._coordinate()
            c.expect(":")
            end_column = self._coordinate()
        return Location("", file, line, column, end_line, end_column)

    def _coordinate(self) -> int:
        """A line or a column: a whole number of 31 bits."""
        start = self.cursor.pos
        found = self.cursor.whole_number()
        if not 0 <= found < 2**31:
            self.cursor.fail("line or column out of range", start)
        return found

    def _callsite(self) -> Location:
        c = self.cursor
        c.expect("(")
        callee = self._location()
        c.expect_bare("at")
        caller = self._location()
        c.expect(")", "at the end of a call site")
        return Location(parts=(callee, caller))

    def _fused(self) -> Location:
        c = self.cursor
        if c.accept("<"):
            self._attribute()
            c.expect(">")
        c.expect("[", "behind 'fused'")
        parts = []
        if not c.at("]"):
            parts.append(self._location())
            while c.accept(","):
                parts.append(self._location())
        c.expect("]", "at the end of a fused location")
        return Location(parts=tuple(parts))

    # -- content -----------------------------------------------------------------------------------

    def metadata(self, location: Any) -> OpMetadata:
        """The metadata of an instruction at a location."""
        if isinstance(location, DeferredLocation):
            known = self._known.get(location.alias)
            if known is None:
                known = self._known[location.alias] = self._metadata(location)
            return known
        return NO_METADATA if location is None else self._metadata(location)

    def _metadata(self, location: Any) -> OpMetadata:
        name = ""
        stack, steps = [location], 0
        while stack and steps < _MAX_STEPS:
            steps += 1
            at = stack.pop()
            if isinstance(at, DeferredLocation):
                stack.append(self.aliases.get(at.alias))
            elif isinstance(at, Location):
                name = name or at.name
                if at.file:
                    return OpMetadata(op_name=name, source_file=at.file, source_line=at.line)
                stack.extend(reversed(at.parts))
        return OpMetadata(op_name=name) if name else NO_METADATA
