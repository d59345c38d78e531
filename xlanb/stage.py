"""Stage: the one record of a step of a compilation, from the compiler that makes it to the trace that shows it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any, TypeVar

from xlanb.display import Displayable
from xlanb.tracing import Decision, Edit

T = TypeVar("T")

HEAVY_BYTES = 1 << 18
"""What takes some hundredth of a second to read: a line of a summary is not worth more."""


@singledispatch
def named_parts(_artifact: Any) -> Mapping[str, Any]:
    """The parts of an artifact (instructions, nodes) by name; each kind that has such registers itself."""
    return {}


@singledispatch
def size_text(_artifact: Any) -> str:
    """How large an artifact is, as "12 nodes"; each kind that says so registers itself."""
    return ""


@dataclass(eq=False)
class Deferred:
    """An artifact that is read when it is first looked at: a dump of thousands of files opens at once.

    Two stages that hold the same `Deferred` hold the same artifact: nothing changed between them. `size` is what has to be read, in bytes.
    """

    load: Callable[[], Any]
    size: int = 0
    _artifact: Any = field(default=None, repr=False)

    @property
    def is_read(self) -> bool:
        """Whether it was looked at."""
        return self._artifact is not None

    @property
    def is_heavy(self) -> bool:
        """Whether reading it would be felt: it is large and was not read yet."""
        return self._artifact is None and self.size > HEAVY_BYTES

    def get(self) -> Any:
        """The artifact; it is kept from then on."""
        if self._artifact is None:
            self._artifact = self.load()
        return self._artifact


@dataclass(frozen=True, repr=False)
class Stage(Displayable):
    """One stage of a compilation.

    `kind` groups stages ("tf_graph", "optimize", "mark_for_compilation", "encapsulate_subgraphs", "build_xla_ops", "tf2xla", "hlo", "hlo_pass", "schedule",
    "buffer_assignment", "llvm_ir", "llvm_ir_optimized", "assembly", "execution", "compilation_cache"); `name` is the pass or step, `pipeline` the pipelines around it, outermost first.
    `before` and `after` are records, the same object where nothing changed; None where there was nothing yet. They are given as such or as `Deferred`.
    `seconds` is wall time, None where unknown.

    The compiler makes it; a trace adds its `index` there, and the edits and decisions that led to it. A run of a pass that nobody watches has no records and is no stage: see
    transforms.PassResult.
    """

    kind: str
    name: str
    given_before: Any
    given_after: Any
    pipeline: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    decisions: Sequence[Decision] = ()
    seconds: float | None = None
    summary: str = ""
    error: str | None = None
    index: int = 0

    @property
    def before(self) -> Any:
        """What stood before it; read now if it was not yet."""
        given = self.given_before
        return given.get() if isinstance(given, Deferred) else given

    @property
    def after(self) -> Any:
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
        return frozenset(named_parts(self.after).keys() - named_parts(self.before).keys())

    @cached_property
    def removed(self) -> frozenset[str]:
        """Names of instructions or nodes that were there before and are not after."""
        return frozenset(named_parts(self.before).keys() - named_parts(self.after).keys())

    @cached_property
    def modified(self) -> frozenset[str]:
        """Names that stand on both sides with another text."""
        before, after = named_parts(self.before), named_parts(self.after)
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
            return f"{self.name}: changed" if self.given_before is not None else f"{self.name}: not read yet"
        if type(self.before) is not type(self.after):
            return f"{self.name}: {size_text(self.after)}".removesuffix(": ")
        counts = ((len(self.removed), "removed"), (len(self.added), "added"), (len(self.modified), "changed"))
        return f"{self.name}: " + (", ".join(f"{n} {what}" for n, what in counts if n) or "changed")

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<Stage {self.index} {self.describe()}>"


Stages = Generator[Stage, None, T]
"""What compiles one stage with each `next()`; it returns what came out."""


def exhaust(stages: Stages[T]) -> T:
    """Run all stages that are left; what came out."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            result: T = end.value
            return result
