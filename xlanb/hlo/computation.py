"""HloComputation: a graph of instructions with parameters and a root; all mutators of HLO."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xlanb.display import Displayable
from xlanb.errors import ShapeError
from xlanb.hlo import shape_inference
from xlanb.hlo.attributes import OpMetadata
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.parameter_edits import CopyState, ParameterExpansion, ParameterState
from xlanb.hlo.records import ComputationRecord, InstructionRecord, record_of
from xlanb.shape import Literal, Shape
from xlanb.shape.shape import same, same_layouts
from xlanb.tracing import audience, cause_of_edit, emit_deferred_edits, emit_edit, is_observed

if TYPE_CHECKING:
    from xlanb.hlo.module import HloModule

T = TypeVar("T")

_UPDATED = frozenset(
    "shape opcode metadata sharding frontend_attributes backend_config statistics origin control_predecessors".split()
)
"""The slots that `update` may set."""


class InstructionChanges:
    """What changed in a computation since its reader's last call, at a `version` of the module.

    `changed` are instructions that are new or removed, or that have other operands, attributes,
    shapes or names. `recounted` are those that gained or lost a user or a use. Both are in the
    order of the changes (see HloComputation.changes).
    """

    __slots__ = ("audience", "changed", "reader", "recounted", "version")

    def __init__(self, reader: object, audience: object, version: int) -> None:
        self.reader = reader
        self.audience = audience
        self.version = version
        self.changed: dict[HloInstruction, None] = {}
        self.recounted: dict[HloInstruction, None] = {}


class HloComputation(Displayable):
    """A named graph of instructions.

    Iteration yields the instructions in the order in which they were added. It iterates over a
    copy, so a loop may change the computation. Every method that changes anything emits an `Edit`
    when observed, keeps users and names consistent, and marks the snapshot as stale.
    """

    __slots__ = (
        "_changes",
        "_derived",
        "_instructions",
        "_order",
        "_parameters",
        "_parameters_in_order",
        "_record",
        "_root",
        "_settled",
        "execution_thread",
        "module",
        "name",
        "version",
    )

    def __init__(self, name: str, module: HloModule, execution_thread: str = "") -> None:
        self.name = name
        self.module = module
        self.execution_thread = execution_thread
        self._instructions: dict[HloInstruction, None] = {}
        self._parameters: list[HloInstruction] = []
        self._parameters_in_order = True
        self._root: HloInstruction | None = None
        self._record: ComputationRecord | None = None
        self._order: tuple[HloInstruction, ...] | None = None
        self._changes: InstructionChanges | None = None
        self._derived: dict[Hashable, tuple[int, int, Any]] = {}
        self._settled: dict[Hashable, int] = {}
        self.version = 0
        """The module's version at the last change of this computation."""

    # -- reading -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[HloInstruction]:
        return iter(tuple(self._instructions))

    def __len__(self) -> int:
        return len(self._instructions)

    def __contains__(self, instruction: HloInstruction) -> bool:
        return instruction in self._instructions

    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """All instructions in the order in which they were added."""
        return tuple(self._instructions)

    @property
    def parameters(self) -> list[HloInstruction]:
        """The parameters by number."""
        return list(self._ordered_parameters())

    def parameter(self, number: int) -> HloInstruction:
        """The parameter with a number."""
        return self._ordered_parameters()[number]

    def _ordered_parameters(self) -> list[HloInstruction]:
        if not self._parameters_in_order:
            self._parameters.sort(key=_number)
            self._parameters_in_order = True
        return self._parameters

    @property
    def root(self) -> HloInstruction:
        """The instruction whose value is the result.

        Raises:
            ShapeError: none is set yet.
        """
        if self._root is None:
            raise ShapeError(f"computation {self.name} has no root")
        return self._root

    @property
    def is_entry(self) -> bool:
        """Whether it is the module's entry."""
        return self.module.entry is self

    def find(self, name: str) -> HloInstruction | None:
        """The instruction of that name, or None."""
        return next((i for i in self._instructions if i.name == name), None)

    def post_order(self) -> list[HloInstruction]:
        """All instructions in XLA's order (MakeInstructionPostOrder).

        Operands and control predecessors come before users. The walk starts at the instructions
        without users, in the order in which they were added; control predecessors come before
        operands, the last of them first.
        """
        return list(self._in_post_order())

    def _in_post_order(self) -> tuple[HloInstruction, ...]:
        if self._order is None:
            self._order = tuple(self._walk())
        return self._order

    def _walk(self) -> list[HloInstruction]:
        order: list[HloInstruction] = []
        seen: set[HloInstruction] = set()
        for start in self._instructions:
            if start._users or start in seen:
                continue
            seen.add(start)
            stack = [(start, _before(start))]
            while stack:
                top, waiting = stack[-1]
                for i in waiting:
                    if i not in seen:
                        seen.add(i)
                        if i.operands or i.control_predecessors:
                            stack.append((i, _before(i)))
                            break
                        order.append(i)
                else:
                    stack.pop()
                    order.append(top)
        return order

    def changes(self, reader: object) -> InstructionChanges | None:
        """What changed since the last call for `reader`; starts a new record of changes for it.

        None if that is unknown and anything may have changed: `reader` did not call before, another
        reader called since, most of the computation changed, or the observers are others now.
        """
        found, told = self._changes, audience()
        self._changes = InstructionChanges(reader, told, self.module._version)
        return found if found is not None and found.reader == reader and found.audience is told else None

    def derived(self, what: Hashable, of: Callable[[HloComputation], T]) -> T:
        """The value of a function of this computation's instructions, cached until they change.

        `what` is the key of the cache.
        """
        # while parsed, it grows without changing its version
        state = self.version, len(self._instructions)
        found = self._derived.get(what)
        if found is None or found[:2] != state:
            found = self._derived[what] = (*state, of(self))
        value: T = found[2]
        return value

    @property
    def calls(self) -> list[tuple[HloComputation, ...]]:
        """The called computations of each instruction that has any, in XLA's order.

        The body of a while comes before its condition, select before scatter.
        """
        return self.derived("calls", _calls)

    def settle(self, reader: Hashable) -> None:
        """Record that `reader` found nothing to do in this version of the computation.

        Its answer must depend only on the instructions of this computation.
        """
        self._settled[reader] = self.version

    def is_settled(self, reader: Hashable) -> bool:
        """Whether nothing changed since `reader` found nothing to do."""
        return self._settled.get(reader) == self.version

    def _note(self, changed: HloInstruction, recounted: Iterable[HloInstruction] = ()) -> None:
        """Record a change for the reader of changes."""
        changes = self._changes
        if changes is None:
            return
        changes.changed[changed] = None
        for i in recounted:
            changes.recounted[i] = None
        if len(changes.changed) > len(self._instructions):
            self._changes = None  # too many changes: the reader visits everything

    # -- building ----------------------------------------------------------------------------------

    def add(
        self,
        opcode: HloOpcode,
        operands: Iterable[HloInstruction] = (),
        shape: Shape | None = None,
        *,
        name: str | None = None,
        metadata: OpMetadata | None = None,
        like: HloInstruction | None = None,
        **attributes: Any,
    ) -> HloInstruction:
        """Add an instruction, with a name that is unique in the module.

        Args:
            opcode: its opcode.
            operands: instructions of this computation.
            shape: by default inferred, with row-major layout.
            name: preferred name; by default the opcode.
            metadata: overrides the metadata from `like`.
            like: an instruction that this one is derived from. It provides metadata, frontend
                attributes and, if the dimensions are equal, sharding, as XLA's
                SetupDerivedInstruction does.
            attributes: those whose value is None are left out.

        Raises:
            ShapeError: the operands, shape or attributes do not match the opcode.
        """
        operands = tuple(operands)
        given = {k: v for k, v in attributes.items() if v is not None}
        self._check_mine(operands, "a new {}", opcode)
        if shape is None:
            shape = shape_inference.infer(opcode, [o.shape for o in operands], given)
        new = HloInstruction(self.module.unique_name(name or opcode.text), opcode, shape, operands, given, self)
        if like is not None:
            _derive(new, like)
        if metadata is not None:
            new.metadata = metadata
        self._insert(new, like)
        return new

    def constant(self, value: Any, *, like: HloInstruction | None = None) -> HloInstruction:
        """Add a constant of a Literal, or of a NumPy value whose dtype gives the element type."""
        literal = value if isinstance(value, Literal) else Literal.of(value)
        return self.add(HloOpcode.CONSTANT, (), literal.shape, like=like, literal=literal)

    def clone_instruction(
        self, source: HloInstruction, operands: Iterable[HloInstruction] | None = None, shape: Shape | None = None
    ) -> HloInstruction:
        """Add a copy of an instruction of any computation; called computations are shared.

        `operands` and `shape` replace those of the source.

        Raises:
            ShapeError: an operand is not in this computation.
        """
        given = source.operands if operands is None else tuple(operands)
        self._check_mine(given, "a copy of {}", source)
        new = self._copy(source, given, shape)
        if is_observed():
            emit_edit("add", self.name, source.record(), new.record())
        return new

    def _copy(
        self, source: HloInstruction, given: tuple[HloInstruction, ...], shape: Shape | None = None
    ) -> HloInstruction:
        """Copy an instruction without notifying observers."""
        new = HloInstruction(
            self.module.unique_name(source.name),
            source.opcode,
            shape or source.shape,
            given,
            source.attributes,  # mutators give another dictionary
            self,
        )
        new.metadata = source.metadata
        if shape is None or _dimensions(shape) == _dimensions(source.shape):
            new.sharding = source.sharding
        new.frontend_attributes = source.frontend_attributes
        new.backend_config = source.backend_config
        new.statistics = source.statistics
        new.origin = source.origin
        self._link(new)
        return new

    def add_parameter(self, number: int, shape: Shape) -> HloInstruction:
        """Add a parameter with the next number to a fused computation: `param_3`."""
        new = self._new_parameter(number, shape)
        if is_observed():
            emit_edit("add", self.name, None, new.record())
        return new

    def _new_parameter(self, number: int, shape: Shape) -> HloInstruction:
        name = self.module._names.unique(f"param_{number}")
        new = HloInstruction(name, HloOpcode.PARAMETER, shape, (), {"parameter_number": number}, self)
        self._link(new)
        return new

    def expand_parameter(
        self, number: int, source: HloInstruction, operands: Iterable[int], added: Iterable[Shape]
    ) -> HloInstruction:
        """Replace a parameter of a fused computation by a copy of its operand `source`.

        Parameters with the shapes `added` are appended first; `operands` are the numbers of the
        parameters for the operands of `source`. Later parameters are renumbered, without edits of
        their own. Returns the copy.

        Raises:
            ShapeError: the shape of the parameter is not that of `source`.
        """
        parameters = self._ordered_parameters()
        parameter, count = parameters[number], len(parameters)
        if not same(parameter.shape, source.shape):
            raise ShapeError(
                f"{source.name} of shape {source.shape} is not {parameter.name} of shape {parameter.shape}"
            )
        before = ParameterState.of(parameter) if is_observed() else None
        for n, shape in enumerate(added, count):
            self._new_parameter(n, shape)
        copy = self._copy(source, tuple([parameters[n] for n in operands]))
        if not same_layouts(parameter.shape, copy.shape):
            self._keep_bytes(parameter, copy)
        for user in tuple(parameter._users):
            if user is not copy:
                self._exchange(user, parameter, copy)
        if before is not None:
            new = [ParameterState.of(p) for p in parameters[count:]]
            emit_deferred_edits(
                ParameterExpansion(cause_of_edit(), self.name, new, source.record(), CopyState.of(copy), before)
            )
        if self._root is parameter:
            self.set_root(copy)
        self._drop_parameter(number)
        return copy

    def _drop_parameter(self, number: int) -> None:
        """Remove an unused parameter and renumber the later ones."""
        parameters = self._parameters
        gone = parameters.pop(number)
        del self._instructions[gone]
        self._note(gone)
        for n in range(number, len(parameters)):
            p = parameters[n]
            p.attributes = {**p.attributes, "parameter_number": n} if len(p.attributes) > 1 else {"parameter_number": n}
            p._record = None
            if self._changes is not None:
                self._note(p)
        self._touch()

    def _check_mine(self, operands: Iterable[HloInstruction], user: str, of: HloInstruction | HloOpcode) -> None:
        """Raise if an operand is not in this computation.

        `user` describes the user in the message; `of` replaces its braces.
        """
        for o in operands:
            if o.parent is self and o in self._instructions:
                continue
            who = user.format(of.name if isinstance(of, HloInstruction) else of)
            if o.parent is not self:
                raise ShapeError(f"operand {o.name} of {who} belongs to computation {o.parent.name}, not {self.name}")
            raise ShapeError(f"operand {o.name} of {who} was removed from computation {self.name}")

    def _insert(self, new: HloInstruction, source: HloInstruction | None = None) -> None:
        self._link(new)
        if is_observed():
            emit_edit("add", self.name, None if source is None else source.record(), new.record())

    def _link(self, new: HloInstruction) -> None:
        """Append an instruction."""
        self._instructions[new] = None
        if new.opcode is HloOpcode.PARAMETER:
            is_last = not self._parameters or _number(self._parameters[-1]) < _number(new)
            self._parameters_in_order = self._parameters_in_order and is_last
            self._parameters.append(new)
        for o in new.operands:
            o._users[new] = o._users.get(new, 0) + 1
        if self._changes is not None:
            self._note(new, new.operands)
        self._touch()

    # -- changing ----------------------------------------------------------------------------------

    def set_root(self, root: HloInstruction) -> None:
        """Make an instruction of this computation its result."""
        if root.parent is not self or root not in self._instructions:
            raise ShapeError(f"{root.name} is not in computation {self.name}")
        if self._root is root:
            return
        old = self._root
        self._root = root
        before = old.record() if old is not None and old in self._instructions and is_observed() else None
        for i in (old, root):
            if i is not None:
                i._record = None
                self._note(i, (i,))
        self._touch()
        if is_observed():
            emit_edit("set_root", self.name, before, root.record())

    def replace(self, old: HloInstruction, new: HloInstruction) -> None:
        """Replace every use of `old`, also as root, by `new`; then remove `old` and dead operands.

        As in XLA's ReplaceInstruction, `new` takes over metadata (if it has no op name), frontend
        attributes and sharding (if it has none). The layout may differ: bitcasts of `old` then read
        a copy of `new`. Dimensions and element type must be equal. An `old` with a side effect
        stays.

        Raises:
            ShapeError: the shapes are not compatible.
        """
        self.replace_uses(old, new)
        taken: dict[str, Any] = {}
        if old.metadata.op_name and not new.metadata.op_name:
            taken["metadata"] = old.metadata
        if old.frontend_attributes and not new.frontend_attributes:
            taken["frontend_attributes"] = old.frontend_attributes
        if old.sharding and not new.sharding:
            taken["sharding"] = old.sharding
        if taken and new is not old:
            self.update(new, **taken)
        self.remove_dead(old)

    def replace_with(
        self,
        old: HloInstruction,
        opcode: HloOpcode,
        operands: Iterable[HloInstruction] = (),
        shape: Shape | None = None,
        **attributes: Any,
    ) -> HloInstruction:
        """Replace `old` by a new instruction derived from it."""
        new = self.add(opcode, operands, shape or old.shape, like=old, **attributes)
        self.replace(old, new)
        return new

    def replace_uses(
        self, old: HloInstruction, new: HloInstruction, *, users: Iterable[HloInstruction] | None = None
    ) -> None:
        """Replace uses of `old` by `new`: all and the root, or only those by `users`; `old` stays.

        Raises:
            ShapeError: the shapes are not compatible.
        """
        if old is new:
            return
        if not same(old.shape, new.shape):
            raise ShapeError(f"cannot replace {old.name} of shape {old.shape} by {new.name} of shape {new.shape}")
        self._check_mine((new,), "the users of {}", old)
        if users is None and not same_layouts(old.shape, new.shape):
            self._keep_bytes(old, new)
        for user in tuple(old._users) if users is None else tuple(users):
            if user is not new:
                self._exchange(user, old, new)
        if users is None and self._root is old:
            self.set_root(new)
        if is_observed():
            emit_edit("replace", self.name, old._record or old.record(), new._record or new.record())

    def _keep_bytes(self, old: HloInstruction, new: HloInstruction) -> None:
        """Make bitcasts of `old`, which depend on its layout, use a copy of `new` in it."""
        bitcasts = [u for u in old._users if u.opcode is HloOpcode.BITCAST and u is not new]
        if bitcasts:
            copy = self.add(HloOpcode.COPY, (new,), old.shape, metadata=new.metadata)
            for b in bitcasts:
                self._exchange(b, old, copy)

    def replace_operand(self, user: HloInstruction, index: int, new: HloInstruction) -> None:
        """Replace one operand of `user` by `new`."""
        if user.operands[index] is new:
            return
        self._check_mine((new,), "{}", user)
        before = (user._record or user.record()) if is_observed() else None
        self._set_operands(user, (*user.operands[:index], new, *user.operands[index + 1 :]))
        if before is not None:
            emit_edit("update", self.name, before, user.record())

    def set_operands(self, user: HloInstruction, operands: Sequence[HloInstruction]) -> None:
        """Replace all operands of `user`."""
        before = (user._record or user.record()) if is_observed() else None
        self._check_mine(operands, "{}", user)
        self._set_operands(user, tuple(operands))
        if before is not None:
            emit_edit("update", self.name, before, user.record())

    def exchange_operand(self, user: HloInstruction, index: int, new: Sequence[HloInstruction]) -> None:
        """Remove one operand of `user` and append new ones, which it must not have yet.

        Like `set_operands`, but does little work for the operands that stay.
        """
        before = (user._record or user.record()) if is_observed() else None
        self._check_mine(new, "{}", user)
        old, kept = user.operands[index], (*user.operands[:index], *user.operands[index + 1 :])
        old._users[user] -= 1
        if not old._users[user]:
            del old._users[user]
        for users in [o._users for o in kept if len(o._users) > 1]:
            users[user] = users.pop(user)  # `user` becomes the last user
        for o in new:
            o._users[user] = o._users.get(user, 0) + 1
        user.operands = (*kept, *new)
        user._record = None
        self._note(user, (old, *new))
        self._touch()
        if before is not None:
            names = (*before.operands[:index], *before.operands[index + 1 :], *[o.name for o in new])
            b = before
            user._record = record_of(b, names, b.attributes, b.control_predecessors, b.is_root)
            emit_edit("update", self.name, before, user._record)

    def _exchange(self, user: HloInstruction, old: HloInstruction, new: HloInstruction) -> None:
        """Replace `old` by `new` in the operands of `user`, without visiting the others.

        It may have thousands of operands.
        """
        operands, uses = user.operands, old._users.pop(user, 0)
        if uses == 1:
            at = operands.index(old)
            user.operands = (*operands[:at], new, *operands[at + 1 :])
        else:
            user.operands = tuple([new if o is old else o for o in operands])
        new._users[user] = new._users.get(user, 0) + uses
        user._record = None
        self._note(user, (old, new))
        self._touch()

    def _set_operands(self, user: HloInstruction, operands: tuple[HloInstruction, ...]) -> None:
        for o in user.operands:
            left = o._users.get(user, 0) - 1
            if left > 0:
                o._users[user] = left
            else:
                o._users.pop(user, None)
        self._note(user, (*user.operands, *operands))
        user.operands = operands
        for o in operands:
            o._users[user] = o._users.get(user, 0) + 1
        user._record = None
        self._touch()

    def update(self, instruction: HloInstruction, *, attributes: dict[str, Any] | None = None, **slots: Any) -> None:
        """Set attributes and slots of an instruction (shape, opcode, metadata, sharding, ...).

        An attribute given as None is removed. Operands and names have their own methods.

        Raises:
            ShapeError: a slot that cannot be set this way.
        """
        if not slots.keys() <= _UPDATED:
            refused = ", ".join(sorted(slots.keys() - _UPDATED))
            raise ShapeError(f"{instruction.name}: {refused} cannot be set by update")
        before = (instruction._record or instruction.record()) if is_observed() else None
        for slot, value in slots.items():
            setattr(instruction, slot, value)
        if attributes:  # a new dictionary: snapshots keep the old one
            given = {**instruction.attributes, **attributes}
            instruction.attributes = {k: v for k, v in given.items() if v is not None}
            if instruction.opcode is HloOpcode.PARAMETER:
                self._parameters_in_order = False
        instruction._record = None
        self._note(instruction)
        self._touch()
        if before is not None:
            emit_edit("update", self.name, before, instruction.record())

    def renumber_parameters(self, first: int) -> None:
        """Number the parameters after the first `first` consecutively, in their order."""
        is_recording = is_observed()
        for number, p in enumerate(self._ordered_parameters()[first:], first):
            if _number(p) != number:
                before = (p._record or p.record()) if is_recording else None
                p.attributes = {**p.attributes, "parameter_number": number}
                p._record = None
                self._note(p)
                if before is not None:
                    emit_edit("update", self.name, before, p.record())
        self._touch()

    def rename(self, instruction: HloInstruction, name: str) -> None:
        """Give an instruction another name, made unique in the module."""
        if name == instruction.name:
            return
        before = (instruction._record or instruction.record()) if is_observed() else None
        instruction.name = self.module.unique_name(name)
        instruction._record = None
        self._note(instruction)
        self._touch()
        if before is not None:
            emit_edit("update", self.name, before, instruction.record())
        for i in (*instruction._users, *instruction.control_successors):
            i._record = None
            self._note(i)

    def add_control_dependency(self, before: HloInstruction, after: HloInstruction) -> None:
        """Make `after` run only when `before` is done."""
        if before not in after.control_predecessors:
            self.update(after, control_predecessors=(*after.control_predecessors, before))
            before.control_successors = (*before.control_successors, after)
            self._note(before)

    def drop_control_dependencies(self, instruction: HloInstruction) -> None:
        """Remove every control dependency from and to an instruction."""
        for p in instruction.control_predecessors:
            p.control_successors = tuple(s for s in p.control_successors if s is not instruction)
            self._note(p)
        for s in instruction.control_successors:
            self.update(s, control_predecessors=tuple(p for p in s.control_predecessors if p is not instruction))
        if instruction.control_predecessors:
            self.update(instruction, control_predecessors=())
        if instruction.control_successors:
            instruction.control_successors = ()
            self._note(instruction)

    # -- removing ----------------------------------------------------------------------------------

    def remove(self, instruction: HloInstruction) -> None:
        """Remove an unused instruction.

        The caller must renumber the parameters after a removed one.

        Raises:
            ShapeError: it is the root, or it has users, or it is not in this computation.
        """
        if instruction not in self._instructions:
            raise ShapeError(f"cannot remove {instruction.name}: it is not in computation {self.name}")
        if instruction._users or instruction is self._root:
            raise ShapeError(f"cannot remove {instruction.name}: it is used")
        before = (instruction._record or instruction.record()) if is_observed() else None
        if instruction.control_predecessors or instruction.control_successors:
            self.drop_control_dependencies(instruction)
        if instruction.operands:
            self._set_operands(instruction, ())
        else:
            instruction._record = None
            self._note(instruction)
        del self._instructions[instruction]
        if instruction.opcode is HloOpcode.PARAMETER:
            self._parameters.remove(instruction)
        self._touch()
        if before is not None:
            emit_edit("remove", self.name, before, None)

    def remove_dead(self, instruction: HloInstruction) -> bool:
        """Remove an instruction if it is dead, then operands that became dead.

        Parameters and instructions with side effects stay.
        """
        removed = False
        stack = [instruction]
        while stack:
            i = stack.pop()
            if i not in self._instructions or not is_removable(i):
                continue
            operands = i.operands
            self.remove(i)
            removed = True
            stack.extend(reversed(operands))
        return removed

    # -- snapshots ---------------------------------------------------------------------------------

    def _touch(self) -> None:
        self._record = None
        self._order = None
        self.module._version += 1
        self.version = self.module._version

    def invalidate(self) -> None:
        """Drop the cached snapshots of this computation and its instructions.

        Needed after a computation that they name was renamed.
        """
        for i in self._instructions:
            i._record = None
        self._changes = None
        self._touch()

    def _schedule(self) -> tuple[HloInstruction, ...]:
        """The order that the module's schedule gives; empty if instructions changed since."""
        order = self.module.schedule.get(self, ())
        return order if len(order) == len(self._instructions) and all(i in self._instructions for i in order) else ()

    def record(self, previous: ComputationRecord | None = None) -> ComputationRecord:
        """The frozen snapshot; `previous` itself if it is equal."""
        if self._record is None:
            order: Iterable[HloInstruction] = self._schedule() or self._in_post_order()
            instructions: tuple[InstructionRecord, ...] = tuple([i._record or i.record() for i in order])
            self._record = ComputationRecord(self.name, instructions, self.root.name, self.execution_thread)
        if previous is not None and (previous is self._record or previous == self._record):
            self._record = previous
        return self._record

    def __repr__(self) -> str:
        return f"<HloComputation {self.name}: {len(self)} instructions>"


def _before(i: HloInstruction) -> Iterator[HloInstruction]:
    """The instructions that come before another in post-order, in the order of their visits."""
    return iter((*reversed(i.control_predecessors), *i.operands) if i.control_predecessors else i.operands)


def _calls(computation: HloComputation) -> list[tuple[HloComputation, ...]]:
    found = []
    for i in computation._instructions:
        if i.opcode.may_call and (called := i.called_computations):
            for first, second in (("body", "condition"), ("select", "scatter")):
                if len(called) == 2 and first in i.attributes:
                    called = i.attributes[first], i.attributes[second]
            found.append(called)
    return found


def _number(parameter: HloInstruction) -> int:
    number: int = parameter.attributes["parameter_number"]
    return number


def is_removable(instruction: HloInstruction) -> bool:
    """Whether it is dead and can be removed.

    Parameters, and instructions with side effects or control dependencies, cannot.
    """
    return (
        instruction.is_dead
        and instruction.opcode is not HloOpcode.PARAMETER
        and not instruction.has_side_effect
        and not instruction.control_predecessors
        and not instruction.control_successors
    )


def _dimensions(shape: Shape) -> object:
    """The dimensions that a sharding tiles, for an array; other shapes unchanged."""
    return shape.as_array().dimensions if shape.is_array else shape


def _derive(new: HloInstruction, source: HloInstruction) -> None:
    new.metadata = source.metadata
    new.frontend_attributes = source.frontend_attributes
    if source.sharding and same(new.shape, source.shape):
        new.sharding = source.sharding
