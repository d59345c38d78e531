"""The enclosing blocks of a node: control inputs, device, colocation, attributes, and the Python
line that created it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from xlanb.graph.device import merge_devices
from xlanb.graph.operation import Frame, Operation

DeviceFunction = Callable[[Operation], str]


class ControlDependencies:
    """One `control_dependencies` block: its control inputs, and the operations made inside it."""

    def __init__(self, waits: Sequence[Operation], *, forget_outer: bool = False) -> None:
        self.waits = list(dict.fromkeys(waits))
        self.forget_outer = forget_outer
        self.seen: set[Operation] = set()


class Scopes:
    """The blocks that are open while a graph is built."""

    def __init__(self) -> None:
        self._control: list[ControlDependencies] = []
        self._devices: list[str | DeviceFunction | None] = []
        self._colocation: list[Operation] = []
        self._attrs: dict[str, Any] = {}
        # The TF1 branch or loop under construction, and the contexts of operations.
        self.context: Any = None
        self.contexts: dict[Operation, Any] = {}

    def control_inputs_for(self, inputs: set[Operation]) -> list[Operation]:
        """Return the control inputs of a node with these inputs.

        A block adds none if an input was made inside it: that input waits already.
        """
        found: dict[Operation, None] = {}
        for block in self._control:
            if inputs.isdisjoint(block.seen):
                found.update(dict.fromkeys(op for op in block.waits if op not in inputs))
        return list(found)

    def device(self) -> str:
        """Return the device of the open blocks; device functions are called later, with the
        node.
        """
        device = ""
        for block in self._devices:
            device = "" if block is None else device if callable(block) else merge_devices(device, block)
        return device

    def apply(self, op: Operation) -> None:
        """Set a new node's attributes, colocation and device function; register it in control
        blocks.
        """
        for name, value in self._attrs.items():
            if name not in op.attrs:
                found = value(op) if callable(value) else value
                if found is not None:
                    op.attrs[name] = found
        for block in self._devices:
            if callable(block):
                op.device = merge_devices(op.device, block(op) or "")
        if self._colocation:
            groups = {g for other in self._colocation for g in other.colocation_groups}
            op.attrs["_class"] = tuple(sorted(groups))
            op.device = next((o.device for o in reversed(self._colocation) if o.device), op.device)
        if self.context is not None:
            self.contexts[op] = self.context
            self.context.add_op(op)
        self.note_made(op)

    def note_made(self, op: Operation) -> None:
        """Note in the open control blocks that an operation was made inside them."""
        for control in self._control:
            control.seen.add(op)

    @contextmanager
    def controlled(self, block: ControlDependencies) -> Iterator[None]:
        """Open a `control_dependencies` block."""
        old = self._control
        self._control = [block] if block.forget_outer else [*old, block]
        try:
            yield
        finally:
            self._control = old

    @contextmanager
    def without_control_dependencies(self) -> Iterator[None]:
        """Lift all control dependencies, and leave the branch or loop that is being built."""
        old, self._control = self._control, []
        context, self.context = self.context, None
        try:
            yield
        finally:
            self._control, self.context = old, context

    @contextmanager
    def on_device(self, device: str | DeviceFunction | None) -> Iterator[None]:
        """Open a `device` block."""
        if isinstance(device, str):
            device = merge_devices("", device)
        self._devices.append(device)
        try:
            yield
        finally:
            self._devices.pop()

    @contextmanager
    def colocated(self, op: Operation | None, ignore_existing: bool) -> Iterator[None]:
        """Open a `colocate_with` block, in which outer device requests have no effect."""
        old, old_devices = self._colocation, self._devices
        if op is None or ignore_existing:
            self._colocation = []
        if op is not None:
            self._colocation = [*self._colocation, op]
            self._devices = []
        try:
            yield
        finally:
            self._colocation, self._devices = old, old_devices

    @contextmanager
    def with_attrs(self, attrs: Mapping[str, Any]) -> Iterator[None]:
        """Open an attribute block; None as a value lifts the outer block's."""
        old = self._attrs
        self._attrs = {k: v for k, v in {**old, **attrs}.items() if v is not None}
        try:
            yield
        finally:
            self._attrs = old


_OWN = str(Path(__file__).resolve().parent.parent)
_SKIPPED = (_OWN, str(Path(sys.modules["contextlib"].__file__ or "")))


MOST_FRAMES: Final = 32
"""The most frames that are kept for an operation."""

_FRAMES: dict[Frame, Frame] = {}
"""Each frame once: operations share those of their callers."""

_NAMERS: list[Callable[[str], str | None]] = []


def name_sources(namer: Callable[[str], str | None]) -> None:
    """Show code files under the name that `namer` gives: notebook cells are stored in temporary
    files.
    """
    if namer not in _NAMERS:
        _NAMERS.append(namer)


def source_name(file: str) -> str:
    """Return the display name of a source file."""
    return next((name for namer in reversed(_NAMERS) if (name := namer(file)) is not None), file)


def python_stack() -> tuple[Frame, ...]:
    """The frames that are not xlanb's own, innermost first, `MOST_FRAMES` at most."""
    found: list[Frame] = []
    at: FrameType | None = sys._getframe(1)
    while at is not None and len(found) < MOST_FRAMES:
        code = at.f_code
        if not code.co_filename.startswith(_SKIPPED):
            frame = code.co_filename, at.f_lineno, code.co_name
            found.append(_FRAMES.setdefault(frame, frame))
        at = at.f_back
    return tuple(found)
