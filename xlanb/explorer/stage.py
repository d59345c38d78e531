"""Stage: one station of a compilation, with what stood before it, after it, and why it changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.display import Displayable
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import Decision, Edit

Artifact = GraphRecord | ModuleRecord | BufferAssignmentRecord | CodeRecord | ExecutionRecord | CacheRecord


@dataclass(frozen=True)
class Stage(Displayable):
    """One station: `kind` groups stations (see tracing.StageFinished), `name` is the pass or step, `pipeline` the pipelines around it.

    `before` and `after` are records, the same object where nothing changed; None where there was nothing yet. `seconds` is wall time, None where unknown.
    """

    index: int
    kind: str
    name: str
    before: Artifact | None
    after: Artifact | None
    pipeline: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    decisions: tuple[Decision, ...] = ()
    seconds: float | None = None
    summary: str = ""
    error: str | None = None

    @property
    def changed(self) -> bool:
        """Whether it changed anything: computed from the records, never claimed."""
        return self.before is not self.after

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
        counts = ((len(self.removed), "removed"), (len(self.added), "added"), (len(self.modified), "changed"))
        return f"{self.name}: " + (", ".join(f"{n} {what}" for n, what in counts if n) or "changed")

    def __str__(self) -> str:
        return self.describe()


def _items(artifact: Artifact | None) -> dict[str, object]:
    if isinstance(artifact, ModuleRecord):
        return {i.name: i for c in artifact.computations for i in c.instructions}
    if isinstance(artifact, GraphRecord):
        return {n.name: n for n in artifact.nodes}
    return {}


def _names(artifact: Artifact | None) -> frozenset[str]:
    return frozenset(_items(artifact))
