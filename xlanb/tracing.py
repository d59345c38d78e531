"""Events of the compiler: their observers, and the cause of each event.

The compiler emits frozen events to the observers of the current context; with no observer nothing
is built. A context variable carries both the observers and the cause, so nested and concurrent
compilations do not mix.

    with observing(recorder):                       # any object with on_event(event)
        with because(pass_name="algsimp"):          # opened by the pipeline
            with because(rule="A*1 => A", where="multiply.py:41"):   # opened by the rule set
                computation.replace(old, new)       # emits Edit(cause, "replace", ...)
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import field
from functools import lru_cache, partial
from types import FrameType
from typing import Any, NamedTuple, Protocol, Self, TypeVar, final, overload

from xlanb.contexts import bound
from xlanb.lazy_dataclass import dataclass

T = TypeVar("T")

make_tuple = tuple.__new__
"""Makes a named tuple from a tuple, in a third of its constructor's time."""


class Purpose(NamedTuple):
    """The purpose of a pass as a whole: the rule of its edits that name no rule of their own.

    `file` is the source file of the pass, as its code objects name it; `place` is where the pass
    begins.
    """

    rule: str
    file: str
    place: str


class Cause(NamedTuple):
    """Why something happens: the pass, the rule within it, and the rule's place in the source.

    `pattern` is the rule's pattern, if it has one; `parts` pairs its names with the matched
    instructions, ("a", "add.3"). `keeps` says how far the rule preserves values ("exact", "real
    numbers only"). `purpose` describes the pass as a whole; it is the rule of edits that name none
    (`cause_of_edit`).
    """

    pass_name: str = ""
    rule: str = ""
    where: str = ""
    pattern: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    purpose: Purpose | None = None
    keeps: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the rule is the purpose of the pass as a whole, because no rule was named."""
        return self.purpose is not None and self.rule == self.purpose.rule


class Edit(NamedTuple):
    """One change of an HLO computation.

    `kind` is "add" (`old`: the instruction that the new one was derived or copied from, if any),
    "remove", "replace" (all uses of `old` now use `new`), "set_root" or "update" (operands,
    attributes, shape or name of one instruction). `old` and `new` are frozen `InstructionRecord`s,
    taken before and after.
    """

    cause: Cause
    kind: str
    computation: str
    old: Any = None
    new: Any = None


class DeferredEdits:
    """Edits of one step with the same cause, created when they are read."""

    __slots__ = ()  # no ABC: recorders ask for each whether it is one of these
    cause: Cause

    def edits(self) -> tuple[Edit, ...]:
        """Create the edits, in order."""
        raise AssertionError("abstract")


class DeferredDecisions:
    """Decisions about one subject, created when they are read."""

    __slots__ = ()

    def decisions(self) -> tuple[Decision, ...]:
        """Create the decisions, in order."""
        raise AssertionError("abstract")


class LazySequence(Sequence[T], ABC):
    """A sequence whose items are created, all at once, when one is read; equal to their tuple."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: tuple[T, ...] | None = None

    @abstractmethod
    def _create(self) -> tuple[T, ...]:
        """Create the items; called once."""

    def _created(self) -> tuple[T, ...]:
        if self._items is None:
            self._items = self._create()
        return self._items

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._created()[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._created())

    def __len__(self) -> int:
        return len(self._created())

    def __eq__(self, other: object) -> bool:
        return self._created() == (other._created() if isinstance(other, LazySequence) else other)

    def __hash__(self) -> int:
        return hash(self._created())

    def __repr__(self) -> str:
        return repr(self._created())

    def __reduce__(self) -> tuple[type, tuple[tuple[T, ...]]]:
        return tuple, (self._created(),)


class RecordedEvents(LazySequence[T], ABC):
    """Events in order, including deferred ones."""

    __slots__ = ("_notified",)

    def __init__(self, notified: Sequence[Any]) -> None:
        super().__init__()
        self._notified = notified

    @staticmethod
    @abstractmethod
    def made_of(notified: Any) -> Iterable[T]:
        """Return the events of one notification."""

    def _create(self) -> tuple[T, ...]:
        made = tuple([e for one in self._notified for e in self.made_of(one)])
        self._notified = ()
        return made

    def __bool__(self) -> bool:
        return bool(self._notified or self._items)


@final
class RecordedEdits(RecordedEvents["Edit"]):
    """The edits of a stage."""

    __slots__ = ()

    @staticmethod
    def made_of(notified: Edit | DeferredEdits) -> Iterable[Edit]:
        return notified.edits() if isinstance(notified, DeferredEdits) else (notified,)


@final
class RecordedDecisions(RecordedEvents["Decision"]):
    """The decisions of a stage."""

    __slots__ = ()

    @staticmethod
    def made_of(notified: Decision | DeferredDecisions) -> Iterable[Decision]:
        return notified.decisions() if isinstance(notified, DeferredDecisions) else (notified,)


def is_same_rewrite(last: Edit, edit: Edit) -> bool:
    """Whether two successive edits belong to one rewrite: they share one cause object.

    If the pass names no rules, a rewrite ends at the first addition after a removal or replacement.
    """
    if not (last.cause.is_whole and edit.cause.is_whole):
        return last.cause is edit.cause and bool(edit.cause.rule)
    return last.cause.purpose == edit.cause.purpose and (edit.kind != "add" or last.kind in ("add", "update"))


class Predicate(NamedTuple):
    """One condition of a decision: its name, whether it held, and the value it had.

    `remedy` says what would have to change for a failed one to hold, with names of instructions and
    nodes in backquotes; "" if unknown.
    """

    name: str
    holds: bool
    value: str = ""
    remedy: str = ""


class Decision(NamedTuple):
    """A pass's decision about some instructions or nodes, with every condition that it evaluated.

    `action` names the question ("fuse", "cluster", "cse", a rule's label), `subject` the names it
    is about (producer first), `taken` the answer. `predicates` end with the first that failed.
    """

    cause: Cause
    action: str
    subject: tuple[str, ...]
    taken: bool
    predicates: Sequence[Predicate] = ()


@dataclass(frozen=True, slots=True)
class CompilationStarted:
    """A compilation begins; later stages in this context belong to it until the next one begins.

    `key` is unique in the process; `parent` is the key of the compilation that it continues (a
    cluster of a graph that was marked before). The parent's stages precede its own.
    """

    key: int
    name: str
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class StageFinished:
    """A stage of a compilation is done.

    `stage` is a `xlanb.stage.Stage`; its edits and decisions are the events before this one.
    """

    compilation: int
    stage: Any


@dataclass(frozen=True, slots=True)
class PassesChosen:
    """The HLO passes of a compilation are about to run.

    `pipeline` is the HloPassPipeline, which knows the passes left to run after any of its stages.
    """

    compilation: int
    pipeline: Any


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compilation ended in a program: `program` is called with arrays."""

    compilation: int
    program: Any


@dataclass(frozen=True, slots=True)
class Executed:
    """A compiled program ran: its compilation, wall seconds, whether it was cached, and its
    arguments.
    """

    compilation: int
    seconds: float
    cache_hit: bool = False
    detail: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Any, ...] = ()


Event = Edit | Decision | CompilationStarted | StageFinished | PassesChosen | Compiled | Executed


class Observer(Protocol):
    """A receiver of the compiler's events.

    If it has functions `take_edit` and `take_decision`, they receive edits and decisions instead of
    `on_event`, deferred ones as they are.
    """

    def on_event(self, event: Event) -> None:
        """Take one event; it must not raise and must not call back into the compiler."""


class _Observers(tuple["Observer", ...]):  # noqa: SLOT001 - a tuple's subclass cannot have any
    """Observers, what receives their events, and an object that stands for them in a program.

    A program that held the observers themselves would keep their traces alive.
    """

    audience: object
    take_edit: tuple[Callable[[Edit], object], ...]
    take_edits: tuple[Callable[[DeferredEdits], object], ...]
    take_decision: tuple[Callable[[Decision], object], ...]
    take_decisions: tuple[Callable[[DeferredDecisions], object], ...]

    def __new__(cls, observers: Iterable[Observer] = ()) -> Self:
        made = super().__new__(cls, observers)
        made.audience = object()
        made.take_edit = tuple(getattr(o, "take_edit", o.on_event) for o in made)
        made.take_edits = tuple(getattr(o, "take_edit", None) or partial(_create_edits, o) for o in made)
        made.take_decision = tuple(getattr(o, "take_decision", o.on_event) for o in made)
        made.take_decisions = tuple(getattr(o, "take_decision", None) or partial(_create_decisions, o) for o in made)
        return made


def _create_edits(observer: Observer, deferred: DeferredEdits) -> None:
    for edit in deferred.edits():
        observer.on_event(edit)


def _create_decisions(observer: Observer, deferred: DeferredDecisions) -> None:
    for decision in deferred.decisions():
        observer.on_event(decision)


_OBSERVERS: ContextVar[_Observers] = ContextVar("xlanb_observers", default=_Observers())  # noqa: B039 - never changed
_NOBODY = _Observers()
"""The observers of an `unobserved` block: none, and those of the process stay away too."""
_EVERYWHERE: dict[int, Observer] = {}
"""The observers of the process by their identity."""
_CAUSE: ContextVar[Cause] = ContextVar("xlanb_cause", default=Cause())  # noqa: B039 - Cause is frozen


@contextmanager
def observing(observer: Observer) -> Iterator[Observer]:
    """Send every event of this context to `observer` too, until the block ends."""
    with bound(_OBSERVERS, _Observers((*_OBSERVERS.get(), observer))):
        yield observer


@contextmanager
def unobserved() -> Iterator[None]:
    """Send the events of this block to no observer, for auxiliary compilations."""
    with bound(_OBSERVERS, _NOBODY):
        yield


@contextmanager
def observing_everywhere(observer: Observer) -> Iterator[Observer]:
    """Send this context's events to `observer`, and those of each compilation that begins in any
    thread.

    See `with_everywhere`.
    """
    try:
        _EVERYWHERE[id(observer)] = observer
        with observing(observer):
            yield observer
    finally:
        _EVERYWHERE.pop(id(observer), None)


def with_everywhere() -> AbstractContextManager[object]:
    """Add the process's observers for a block, unless there are none or it is `unobserved`."""
    if not _EVERYWHERE:
        return nullcontext()
    here = _OBSERVERS.get()
    missing = [o for o in list(_EVERYWHERE.values()) if o not in here]
    if not missing or here is _NOBODY:
        return nullcontext()
    return bound(_OBSERVERS, _Observers((*here, *missing)))


class because:  # noqa: N801 - read as a word: with because(rule=...)
    """Name the cause of all edits made in this block; inner blocks add to the outer one's fields.

    Does nothing if there is no observer.
    """

    __slots__ = ("_keeps", "_outer", "_parts", "_pass_name", "_pattern", "_purpose", "_rule", "_where")

    def __init__(
        self,
        pass_name: str = "",
        rule: str = "",
        where: str = "",
        pattern: str = "",
        parts: tuple[tuple[str, str], ...] = (),
        purpose: Callable[[], Purpose] | None = None,
        keeps: str = "",
    ) -> None:
        self._pass_name, self._rule, self._where = pass_name, rule, where
        self._pattern, self._parts, self._purpose = pattern, parts, purpose
        self._keeps = keeps
        self._outer: Cause | None = None

    def __enter__(self) -> Cause:
        outer = _CAUSE.get()
        if not _OBSERVERS.get():
            return outer
        cause = make_tuple(
            Cause,
            (
                self._pass_name or outer.pass_name,
                self._rule or outer.rule,
                self._where or outer.where,
                self._pattern or outer.pattern,
                self._parts or outer.parts,
                self._purpose() if self._purpose is not None else outer.purpose,
                self._keeps or outer.keeps,
            ),
        )
        self._outer = outer
        try:
            _CAUSE.set(cause)
        except BaseException:  # an interrupt after it was set
            _CAUSE.set(outer)
            raise
        return cause

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            _CAUSE.set(self._outer)
            self._outer = None


class caused_by:  # noqa: N801 - read as a word: with caused_by(cause)
    """Set the cause of all edits made in this block, which has an observer."""

    __slots__ = ("_cause", "_outer")

    def __init__(self, cause: Cause) -> None:
        self._cause = self._outer = cause

    def __enter__(self) -> None:
        self._outer = _CAUSE.get()
        try:
            _CAUSE.set(self._cause)
        except BaseException:  # an interrupt after it was set
            _CAUSE.set(self._outer)
            raise

    def __exit__(self, *_: object) -> None:
        _CAUSE.set(self._outer)


def is_observed() -> bool:
    """Whether there is an observer; build no event if there is none."""
    return bool(_OBSERVERS.get())


def audience() -> object:
    """Return what stands for this context's observers; the same object until they change."""
    return _OBSERVERS.get().audience


def current_cause() -> Cause:
    """The cause in force, empty outside every `because` block."""
    return _CAUSE.get()


def emit_edit(kind: str, computation: str, old: Any, new: Any) -> None:
    """Notify the observers of an Edit. Its place is the mutator's caller."""
    cause = _CAUSE.get()
    if cause.purpose is not None and not cause.where:
        cause = cause_of_edit(3)
    edit = make_tuple(Edit, (cause, kind, computation, old, new))
    for take in _OBSERVERS.get().take_edit:
        take(edit)


def emit_decision(
    cause: Cause, action: str, subject: tuple[str, ...], taken: bool, predicates: Sequence[Predicate]
) -> None:
    """Notify the observers of a Decision."""
    decision = make_tuple(Decision, (cause, action, subject, taken, predicates))
    for take in _OBSERVERS.get().take_decision:
        take(decision)


def emit_deferred_edits(deferred: DeferredEdits) -> None:
    """Notify the observers of edits that are created when they are read."""
    for take in _OBSERVERS.get().take_edits:
        take(deferred)


def emit_deferred_decisions(deferred: DeferredDecisions) -> None:
    """Notify the observers of decisions that are created when they are read."""
    for take in _OBSERVERS.get().take_decisions:
        take(deferred)


def cause_of_edit(depth: int = 2) -> Cause:
    """Return the cause of an edit made now by the caller `depth` - 1 frames above.

    If the pass named no rule, the rule is the pass's purpose. If it named no place, the place is
    the current line in its source.
    """
    global _PLACES  # noqa: PLW0603 - one tuple in the place of another: threads that read either are right
    cause = _CAUSE.get()
    purpose = cause.purpose
    if cause.where or purpose is None:
        return cause
    owner, known = _PLACES
    if owner is not cause:
        _, known = _PLACES = cause, {}
    file = purpose.file
    frame: FrameType | None = sys._getframe(depth)  # noqa: SLF001 - the stack is read as a debugger reads it
    while frame is not None:
        code = frame.f_code
        if code.co_filename == file:
            here = id(code), frame.f_lasti  # a line takes longer to find out
            found = known.get(here)
            if found is None:
                found = known[here] = _placed(cause, frame.f_lineno)
            return found
        frame = frame.f_back
    return _placed(cause, 0)


_PLACES: tuple[Cause, dict[tuple[int, int], Cause]] = (Cause(), {})
"""The last edit's cause, and the cause with its place by code object and instruction of its pass.
"""


@lru_cache(maxsize=1024)
def _placed(cause: Cause, line: int) -> Cause:
    """Return the cause with a line of its pass's file, or the beginning of the pass for line 0.

    A cause without a rule gets the purpose of the pass.
    """
    purpose = cause.purpose or Purpose("", "", "")
    where = f"{purpose.place.rpartition(':')[0]}:{line}" if line else purpose.place
    return cause._replace(rule=cause.rule or purpose.rule, where=where)


def emit(event: Event) -> None:
    """Send `event` to the observers of this context, outermost first."""
    for observer in _OBSERVERS.get():
        observer.on_event(event)
