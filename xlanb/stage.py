"""Stage: the record of one step of a compilation, made by the compiler and shown by a trace."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, singledispatch
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from xlanb.display import Displayable
from xlanb.frames import framed
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import Decision, Edit

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

HEAVY_BYTES = 1 << 18
"""Artifacts of this size take some hundredths of a second to read: too long for a summary line."""


@singledispatch
def named_parts(_artifact: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the parts of an artifact by section and name.

    Instructions are grouped by computation, nodes by graph or function. A name is unique in the
    whole artifact. Each kind of artifact that has parts registers itself.
    """
    return {}


@singledispatch
def size_text(_artifact: Any) -> str:
    """Describe an artifact's size, as "12 nodes"; each kind registers itself."""
    return ""


@dataclass(frozen=True)
class Changes:
    """Differences between two artifacts, by names of their parts: every view shows these counts.

    Two parts are the same if they have the same name, or the same `uid` under different names
    (`renamed`: before to after). `modified` are the names, after, of parts whose text, name or
    computation changed.
    """

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    modified: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of added, removed and modified parts."""
        return len(self.added), len(self.removed), len(self.modified)

    def __str__(self) -> str:
        added, removed, modified = self.counts
        counts = ((removed, "removed"), (added, "added"), (modified, "changed"))
        return ", ".join(f"{n:,} {what}" for n, what in counts if n)


def changes_between(before: Any, after: Any) -> Changes:
    """Compare two artifacts.

    If their kinds differ, all of `before` is removed and all of `after` added.
    """
    if before is after:
        return Changes()
    left, right = named_parts(before), named_parts(after)
    old = _differing_parts(left, right)
    new = _differing_parts(right, left)
    only_old, only_new = old.keys() - new.keys(), new.keys() - old.keys()
    uids = {uid: name for name in only_old if (uid := getattr(old[name][1], "uid", 0))}
    same = ((uids.get(getattr(new[name][1], "uid", 0)), name) for name in only_new)
    renamed = {was: name for was, name in same if was is not None}
    kept = {name for name in new.keys() & old.keys() if _differs(old[name], new[name])}
    return Changes(
        added=frozenset(only_new.difference(renamed.values())),
        removed=frozenset(only_old - renamed.keys()),
        modified=frozenset(kept.union(renamed.values())),
        renamed=renamed,
    )


def _differing_parts(
    sections: Mapping[str, Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[str, Any]]:
    """Return (section, part) by name, without the parts that are one object in one section on both
    sides.
    """
    found: dict[str, tuple[str, Any]] = {}
    for key, parts in sections.items():
        same = others.get(key, {})
        if same is not parts:
            found.update({name: (key, part) for name, part in parts.items() if same.get(name) is not part})
    return found


def _differs(before: tuple[str, Any], after: tuple[str, Any]) -> bool:
    return before[0] != after[0] or is_other(before[1], after[1])


def is_other(before: Any, after: Any) -> bool:
    """Whether a part of an artifact changed; if it has an `essence`, only that is compared."""
    if before is after or before == after:
        return False
    return bool(getattr(before, "essence", before) != getattr(after, "essence", after))


@dataclass(eq=False)
class Deferred:
    """An artifact that is read on first use, so that a dump of thousands of files opens at once.

    Two stages with the same `Deferred` have the same artifact: nothing changed between them. `size`
    is the number of bytes to read.
    """

    load: Callable[[], Any]
    size: int = 0
    _artifact: Any = field(default=None, repr=False)
    _lock: Any = field(default_factory=RLock, repr=False)

    @property
    def is_read(self) -> bool:
        """Whether it was looked at."""
        return self._artifact is not None

    @property
    def is_heavy(self) -> bool:
        """Whether reading it would be felt: it is large and was not read yet."""
        return self._artifact is None and self.size > HEAVY_BYTES

    def get(self) -> Any:
        """The artifact; it is kept from then on. Threads that ask at the same time get the same."""
        if self._artifact is None:
            with self._lock:
                if self._artifact is None:
                    self._artifact = self.load()
        return self._artifact


@dataclass(frozen=True, repr=False)
class Stage(Displayable):
    """One stage of a compilation.

    `kind` groups stages ("tf_graph", "optimize", "mark_for_compilation", "encapsulate_subgraphs",
    "build_xla_ops", "tf2xla", "hlo", "hlo_pass", "schedule", "buffer_assignment", "llvm_ir",
    "llvm_ir_optimized", "assembly", "execution", "compilation_cache"); `name` is the pass or step,
    `pipeline` the enclosing pipelines, outermost first. `before` and `after` are records, or
    `Deferred` ones: the same object if nothing changed, None if there was nothing yet. `seconds` is
    wall time, None if unknown.

    The compiler makes it; a trace adds its `index` and the edits and decisions that led to it. An
    unobserved run of a pass makes no stage: see transforms.PassResult.
    """

    kind: str
    name: str
    given_before: Any
    given_after: Any
    pipeline: tuple[str, ...] = ()
    edits: Sequence[Edit] = ()
    decisions: Sequence[Decision] = ()
    seconds: float | None = None
    summary: str = ""
    error: str | None = None
    index: int = 0

    @property
    def before(self) -> Any:
        """The artifact before the stage; it is read on first use."""
        given = self.given_before
        return given.get() if isinstance(given, Deferred) else given

    @property
    def after(self) -> Any:
        """The artifact after the stage; it is read on first use."""
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
    def changes(self) -> Changes:
        """Which instructions or nodes it added, removed and modified."""
        return changes_between(self.before, self.after)

    @property
    def added(self) -> frozenset[str]:
        """Names of instructions or nodes that are there after and were not before."""
        return self.changes.added

    @property
    def removed(self) -> frozenset[str]:
        """Names of instructions or nodes that were there before and are not after."""
        return self.changes.removed

    @property
    def modified(self) -> frozenset[str]:
        """Return the names of instructions or nodes on both sides whose text or computation
        differs.
        """
        return self.changes.modified

    def describe(self) -> str:
        """Summarize the stage in one line: "algsimp: 14 removed, 3 added"."""
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
        return f"{self.name}: {str(self.changes) or 'changed'}"

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per recorded edit, in order; none for a dump, which records no edits.

        Columns: kind ("add", "remove", "replace", "set_root", "update"), rule, where ("file:line"
        of the rule), computation, before and after: the instruction as text, "" if there is none.
        """
        rows = [
            (e.kind, e.cause.rule, e.cause.where, e.computation, *("" if i is None else i.text for i in (e.old, e.new)))
            for e in self.edits
        ]
        return framed(rows, ["kind", "rule", "where", "computation", "before", "after"])

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<Stage {self.index} {self.describe()}>"


Stages = Generator[Stage, None, T]
"""A generator that compiles one stage with each `next()` and returns the result."""


def exhaust(stages: Stages[T]) -> T:
    """Run all stages that are left; what came out."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            result: T = end.value
            return result
