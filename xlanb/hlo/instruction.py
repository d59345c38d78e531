"""HloInstruction: one node of the HLO graph. Read it freely; only HloComputation changes it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable
from xlanb.hlo.async_chain import wrapped_computation
from xlanb.hlo.attributes import NO_METADATA, OpMetadata, Window
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.hlo.records import ComputationName, InstructionRecord, record_of
from xlanb.shape import ArrayShape, Literal, Shape
from xlanb.tracing import audience

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation


_UIDS = count(1)
_CONSTRAINED = frozenset((HloOpcode.ALL_REDUCE, HloOpcode.ALL_GATHER, HloOpcode.ALL_TO_ALL))
"""Collectives that must not be removed if their layout is constrained: other modules rely on it."""


class HloInstruction(Displayable):
    """One instruction: opcode, shape, operands, attributes.

    Attributes are by XLA's text names, with values as in hlo/attributes.py. `users` lists each user
    once, in the order in which they were added. Slots for facts of any opcode: metadata, sharding
    (XLA's text), frontend_attributes, backend_config (text, "" if none), statistics, origin,
    control predecessors.
    """

    is_program_site = True  # an internal error at one shows it

    __slots__ = (
        "_record",
        "_reported",
        "_users",
        "attributes",
        "backend_config",
        "control_predecessors",
        "control_successors",
        "frontend_attributes",
        "metadata",
        "name",
        "opcode",
        "operands",
        "origin",
        "parent",
        "shape",
        "sharding",
        "statistics",
        "uid",
    )

    def __init__(
        self,
        name: str,
        opcode: HloOpcode,
        shape: Shape,
        operands: tuple[HloInstruction, ...],
        attributes: dict[str, Any],
        parent: HloComputation,
    ) -> None:
        self.name = name
        self.opcode = opcode
        self.shape = shape
        self.operands = operands
        self.attributes = attributes
        self.parent = parent
        self.uid = next(_UIDS)
        self.metadata: OpMetadata = NO_METADATA
        self.sharding = ""
        self.frontend_attributes: tuple[tuple[str, str], ...] = ()
        self.backend_config = ""
        self.statistics = ""
        self.origin = ""
        self.control_predecessors: tuple[HloInstruction, ...] = ()
        self.control_successors: tuple[HloInstruction, ...] = ()
        self._users: dict[HloInstruction, int] = {}
        self._record: InstructionRecord | None = None
        self._reported: tuple[InstructionRecord, object, tuple[object, ...]] | None = None

    # -- the graph around it -----------------------------------------------------------------------

    @property
    def users(self) -> tuple[HloInstruction, ...]:
        """The instructions that have it as an operand, each once."""
        return tuple(self._users)

    @property
    def user_count(self) -> int:
        """Number of users."""
        return len(self._users)

    def uses_by(self, user: HloInstruction) -> int:
        """How many operands of `user` are this instruction."""
        return self._users.get(user, 0)

    @property
    def is_root(self) -> bool:
        """Whether it is its computation's root."""
        return self.parent._root is self  # not `.root`: a computation under construction has none

    @property
    def is_dead(self) -> bool:
        """Whether it has no users and is not the root (it may still have a side effect)."""
        return not self._users and not self.is_root

    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        """The computations that its attributes name, in order."""
        return tuple(self._called()) if self.opcode.may_call else ()

    def _called(self) -> Iterator[HloComputation]:
        for value in self.attributes.values():
            if _is_computation(value):
                yield value
            elif isinstance(value, tuple) and value and _is_computation(value[0]):
                yield from value

    @property
    def has_side_effect(self) -> bool:
        """Whether it, or a computation that it calls, has a side effect.

        If so, it must not be removed or duplicated.
        """
        if self._has_own_side_effect():
            return True
        if not self.opcode.may_call:
            return False
        # Visit each computation once: a call graph may have exponentially many paths.
        pending = list(self.called_computations)
        seen = set(pending)
        while pending:
            acts, called = pending.pop().derived("side effects", _effects)
            if acts:
                return True
            new = [c for c in called if c not in seen]
            seen.update(new)
            pending.extend(new)
        return False

    def _has_own_side_effect(self) -> bool:
        if self.opcode.has_side_effect:
            return True
        if not self.attributes:
            return False
        if self.attributes.get("custom_call_has_side_effect"):
            return True
        return self.opcode in _CONSTRAINED and bool(self.attributes.get("constrain_layout"))

    # -- attributes that many readers want ---------------------------------------------------------

    def get(self, name: str) -> Any:
        """An attribute, or its default in the opcode table if absent."""
        value = self.attributes.get(name)
        if value is None:
            row = self.opcode.attribute.get(name)
            return row.default if row else None
        return value

    def ints(self, name: str) -> tuple[int, ...]:
        """A list-of-integers attribute; empty where absent."""
        value: tuple[int, ...] | None = self.attributes.get(name)
        return value or ()

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The `dimensions` attribute; empty where absent."""
        return self.ints("dimensions")

    @property
    def literal(self) -> Literal:
        """The value of a constant."""
        value: Literal = self.attributes["literal"]
        return value

    @property
    def parameter_number(self) -> int:
        """The number of a parameter."""
        value: int = self.attributes["parameter_number"]
        return value

    @property
    def tuple_index(self) -> int:
        """The index of a get-tuple-element."""
        value: int = self.attributes["index"]
        return value

    @property
    def window(self) -> Window:
        """The window; empty where absent."""
        return self.attributes.get("window") or Window()

    @property
    def to_apply(self) -> HloComputation:
        """The computation of a reduce, map, sort, scatter, call, ..."""
        value: HloComputation = self.attributes["to_apply"]
        return value

    @property
    def fused_computation(self) -> HloComputation:
        """The computation of a fusion."""
        value: HloComputation = self.attributes["calls"]
        return value

    @property
    def array_shape(self) -> ArrayShape:
        """The shape, which must be an array's.

        Raises:
            ShapeError: it is not.
        """
        shape = self.shape
        if shape.__class__ is ArrayShape and shape.element_type.is_array:  # the most frequent query
            return shape
        return shape.as_array()

    # -- what it shows -----------------------------------------------------------------------------

    def record(self) -> InstructionRecord:
        """The frozen snapshot; the same object until the instruction changes.

        An asynchronous instruction has a new one each time: it shows another computation.
        """
        if self._record is not None:
            return self._record
        attributes = self.attributes or _NO_ATTRIBUTES  # mutators give another dictionary
        is_async = False
        if self.opcode.may_call:
            attributes = {k: _frozen(v) for k, v in self.attributes.items()}
            is_async = self.opcode in _ASYNC
            if is_async:
                attributes["async_wrapped"] = _wrapped(self)
        operands, before = self.operands, self.control_predecessors
        made = record_of(
            self,
            (operands[0].name,) if len(operands) == 1 else tuple([o.name for o in operands]),
            attributes,
            tuple([p.name for p in before]) if before else (),
            self.parent._root is self,
        )
        if not is_async:
            self._record = made
        return made

    def reported(self) -> tuple[object, ...]:
        """What was reported to the current observers since the last change."""
        last = self._reported
        return last[2] if last is not None and last[0] is self._record and last[1] is audience() else ()

    def report(self, reports: tuple[object, ...]) -> None:
        """Mark as reported to the current observers, and nothing else."""
        self._reported = self._record or self.record(), audience(), reports

    def __str__(self) -> str:
        return self.record().text

    def __repr__(self) -> str:
        return f"<{self}>"


def _effects(computation: HloComputation) -> tuple[bool, tuple[HloComputation, ...]]:
    """Whether an instruction has a side effect of its own; and all called computations."""
    acts = any(i._has_own_side_effect() for i in computation._instructions)
    return acts, tuple(dict.fromkeys(c for called in computation.calls for c in called))


_NO_ATTRIBUTES: dict[str, Any] = {}
"""Shared by all records without attributes: fewer objects for the garbage collector to traverse."""
_ASYNC = frozenset((HloOpcode.ASYNC_START, HloOpcode.ASYNC_UPDATE, HloOpcode.ASYNC_DONE))


def _wrapped(instruction: HloInstruction) -> InstructionRecord | None:
    """The instruction that an async instruction runs, which XLA's text shows instead.

    None if it runs several instructions, or one whose asynchronous form is an opcode of its own
    (copy-start). For several, the text would not show which operands each takes (XLA prints what it
    cannot read).
    """
    computation = wrapped_computation(instruction)
    if computation is None or any(i is not computation.root and i.opcode.text != "parameter" for i in computation):
        return None
    if f"{computation.root.opcode.text}-start" in BY_TEXT:
        return None
    if computation.root.opcode.text == "parameter" or list(computation.root.operands) != list(computation.parameters):
        return None
    record: InstructionRecord = computation.root.record()
    return record


_PLAIN = frozenset((str, int, bool, float, Window, Literal))
"""Types of attribute values that a snapshot shares with the instruction."""


def _frozen(value: Any) -> Any:
    if value.__class__ in _PLAIN:
        return value
    if _is_computation(value):
        return ComputationName(value.name)
    if isinstance(value, tuple) and value and _is_computation(value[0]):
        return tuple(ComputationName(v.name) for v in value)
    return value


def _is_computation(value: Any) -> bool:
    # Check the type: a computation under construction has no root yet, and its class imports this
    # file.
    return hasattr(type(value), "execution_thread")
