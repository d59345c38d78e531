"""Stage: one station of a compilation, with what stood before it, after it, and why it changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.display import Displayable
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import Decision, Edit


@dataclass(frozen=True)
class TextRecord:
    """What can only be shown as it lies there: `language` is "dot", "mlir", "text"...; `note` says why nothing more was made of it."""

    name: str
    text: str
    language: str = "text"
    note: str = ""


Artifact = GraphRecord | ModuleRecord | BufferAssignmentRecord | CodeRecord | ExecutionRecord | CacheRecord | TextRecord


HEAVY_BYTES = 1 << 18
"""What takes some hundredth of a second to read: a line of a summary is not worth more."""


@dataclass(eq=False)
class Deferred:
    """An artifact that is read when it is first looked at: a dump of thousands of files opens at once.

    Two stages that hold the same `Deferred` hold the same artifact: nothing changed between them. `size` is what has to be read, in bytes.
    """

    load: Callable[[], Artifact]
    size: int = 0
    _artifact: Artifact | None = field(default=None, repr=False)

    @property
    def is_read(self) -> bool:
        """Whether it was looked at."""
        return self._artifact is not None

    @property
    def is_heavy(self) -> bool:
        """Whether reading it would be felt: it is large and was not read yet."""
        return self._artifact is None and self.size > HEAVY_BYTES

    def get(self) -> Artifact:
        """The artifact; it is kept from then on."""
        if self._artifact is None:
            self._artifact = self.load()
        return self._artifact


@dataclass(frozen=True, repr=False)
class Stage(Displayable):
    """One station: `kind` groups stations (see tracing.StageFinished), `name` is the pass or step, `pipeline` the pipelines around it.

    `before` and `after` are records, the same object where nothing changed; None where there was nothing yet. They are given as such or as `Deferred`.
    `seconds` is wall time, None where unknown.
    """

    index: int
    kind: str
    name: str
    given_before: Artifact | Deferred | None
    given_after: Artifact | Deferred | None
    pipeline: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    decisions: tuple[Decision, ...] = ()
    seconds: float | None = None
    summary: str = ""
    error: str | None = None

    @property
    def before(self) -> Artifact | None:
        """What stood before it; read now if it was not yet."""
        given = self.given_before
        return given.get() if isinstance(given, Deferred) else given

    @property
    def after(self) -> Artifact | None:
        """What stood after it; read now if it was not yet."""
        given = self.given_after
        return given.get() if isinstance(given, Deferred) else given

    @property
    def changed(self) -> bool:
        """Whether it changed anything: computed from the records, never claimed."""
        return self.given_before is not self.given_after

    @property
    def failed(self) -> bool:
        """Whether it ended in an error."""
        return self.error is not None

    @cached_property
    def added(self) -> frozenset[str]:
        """Names of instructions or nodes that are there after and were not before."""
        return _names(self.after) - _names(self.before)

    @cached_property
    def removed(self) -> frozenset[str]:
        """Names of instructions or nodes that were there before and are not after."""
        return _names(self.before) - _names(self.after)

    @cached_property
    def modified(self) -> frozenset[str]:
        """Names that stand on both sides with another text."""
        before, after = _items(self.before), _items(self.after)
        return frozenset(n for n, item in after.items() if n in before and before[n] is not item and before[n] != item)

    def describe(self) -> str:
        """One line on what it did: "algsimp: 14 removed, 3 added"."""
        if self.error is not None:
            return f"{self.name}: failed: {self.error.splitlines()[0]}"
        if self.summary:
            return f"{self.name}: {self.summary}"
        if not self.changed:
            return f"{self.name}: no change"
        if any(isinstance(g, Deferred) and g.is_heavy for g in (self.given_before, self.given_after)):
            return f"{self.name}: changed"
        if type(self.before) is not type(self.after):
            return f"{self.name}: {_in_words(self.after)}".removesuffix(": ")
        counts = ((len(self.removed), "removed"), (len(self.added), "added"), (len(self.modified), "changed"))
        return f"{self.name}: " + (", ".join(f"{n} {what}" for n, what in counts if n) or "changed")

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<Stage {self.index} {self.describe()}>"


def _in_words(artifact: Artifact | None) -> str:
    """The size of an artifact that is of another kind than the one before it."""
    if isinstance(artifact, BufferAssignmentRecord):
        return f"{len(artifact.allocations)} allocations, {artifact.temp_bytes:,} bytes of temporaries"
    if isinstance(artifact, ModuleRecord):
        return f"{artifact.instruction_count} HLO instructions"
    if isinstance(artifact, GraphRecord):
        return f"{len(artifact.nodes)} nodes"
    return ""


def _items(artifact: Artifact | None) -> dict[str, object]:
    if isinstance(artifact, ModuleRecord):
        return {i.name: i for c in artifact.computations for i in c.instructions}
    if isinstance(artifact, GraphRecord):
        return {n.name: n for n in artifact.nodes}
    return {}


def _names(artifact: Artifact | None) -> frozenset[str]:
    return frozenset(_items(artifact))
