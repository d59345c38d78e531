"""HloModule: computations, one of them the entry, and the module's own attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from xlanb.display import Displayable
from xlanb.errors import ShapeError
from xlanb.hlo.calling import CallingConvention, flat_arguments
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.names import NameUniquer, sanitized
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, ModuleRecord
from xlanb.hooks import Hook
from xlanb.shape import Shape
from xlanb.tracing import unobserved

parse_text: Final[Hook[[str], HloModule]] = Hook("hlo.parse_text")
"""The module of an HLO text; the parser implements it."""

reread: Final[Hook[[ModuleRecord], HloModule]] = Hook("hlo.reread")
"""The module of a snapshot, from its text with full constants; the parser implements it."""

print_form: Final[Hook[[ModuleRecord, str], str]] = Hook("hlo.print_form")
"""The text of a module in one of XLA's forms, by its name; the printer implements it.

See HloModule.to_string.
"""

read_proto: Final[Hook[[bytes], HloModule]] = Hook("hlo.read_proto")
"""The module of a binary HloModuleProto or HloProto; hlo.proto implements it."""

write_proto: Final[Hook[[HloModule], bytes]] = Hook("hlo.write_proto")
"""The binary HloModuleProto of a module; hlo.proto implements it."""

verify: Final[Hook[[HloModule, Mapping[str, bool]], None]] = Hook("hlo.verify")
"""Check a module against all rules of HLO; the verifier implements it.

The options are those of VerifierOptions, by name.
"""


class HloModule(Displayable):
    """A program in HLO.

    Attributes:
        header: the module's attributes by XLA's text name, values as text (is_scheduled,
            input_output_alias, num_partitions, ...), without entry_computation_layout, which
            `parameter_layouts` and `result_layout` give.
        schedule: the order of instructions in each computation, if the module is scheduled.
        tables: the text of the FileNames / FunctionNames / FileLocations / StackFrames tables.
        host_callbacks: functions of this process that custom calls refer to by number, as JAX does.
            Each takes arrays (None for a token) and returns a sequence of arrays.
        calling: how the arguments of the module's source function map to its arrays; None if they
            are the arrays themselves.
        spmd_parameters_shardings: how the whole program's parameters are sharded; set by
            partitioning.
        spmd_output_sharding: the same of the result.
        notes: facts that a pass leaves for later users, by name.

    Text does not contain host_callbacks, calling, notes and the shardings.
    """

    def __init__(self, name: str) -> None:
        self.name = sanitized(name)
        self.header: dict[str, str] = {}
        self.tables = ""
        self.host_callbacks: tuple[Callable[..., Any], ...] = ()
        self.calling: CallingConvention | None = None
        self.spmd_parameters_shardings: tuple[str, ...] = ()
        self.spmd_output_sharding = ""
        self.notes: dict[str, Any] = {}
        self.schedule: dict[HloComputation, tuple[HloInstruction, ...]] = {}
        self.entry_layout: tuple[tuple[Shape, ...], Shape] | None = None
        self._computations: list[HloComputation] = []
        self._entry: HloComputation | None = None
        self._names = NameUniquer()
        self._computation_names = NameUniquer()
        self._version = 0
        self._record: ModuleRecord | None = None
        self._recorded_state: tuple[object, ...] = ()
        self._written_layout: tuple[tuple[Shape, ...], Shape | None, str] = ((), None, "")
        self._ordered: tuple[int, tuple[HloComputation, ...]] = (-1, ())
        self._opcodes: tuple[int, frozenset[HloOpcode]] = (-1, frozenset())

    # -- reading -----------------------------------------------------------------------------------

    @property
    def entry(self) -> HloComputation | None:
        """The entry computation; None while it is being built."""
        return self._entry

    @property
    def entry_computation(self) -> HloComputation:
        """The entry computation.

        Raises:
            ShapeError: none is set yet.
        """
        if self._entry is None:
            raise ShapeError(f"module {self.name} has no entry computation")
        return self._entry

    @property
    def computations(self) -> tuple[HloComputation, ...]:
        """All computations in the order in which they were added."""
        return tuple(self._computations)

    @property
    def instruction_count(self) -> int:
        """The number of instructions in all computations."""
        return sum(len(c) for c in self._computations)

    @property
    def version(self) -> int:
        """A number that increases with every change."""
        return self._version

    def instructions(self) -> Iterator[HloInstruction]:
        """All instructions of all computations."""
        for c in self._computations:
            yield from c

    def post_order(self) -> list[HloComputation]:
        """All computations, callees before callers, including those without callers.

        In the order of XLA's MakeComputationPostOrder.
        """
        if self._ordered[0] == self._version:
            return list(self._ordered[1])
        calls = {c: c.calls for c in self._computations}
        called = {d for lists in calls.values() for some in lists for d in some}
        order: dict[HloComputation, None] = {}
        for start in self._computations:
            if start not in called:
                _visit(start, calls, order)
        self._ordered = self._version, tuple(order)
        return list(order)

    @property
    def opcodes(self) -> frozenset[HloOpcode]:
        """The opcodes of all instructions; passes check them before they visit any."""
        if self._opcodes[0] != self._version:
            found = [c.derived("opcodes", _opcodes) for c in self._computations]
            self._opcodes = self._version, frozenset().union(*found)
        return self._opcodes[1]

    def callers(self, computation: HloComputation) -> list[HloInstruction]:
        """Instructions that call a computation; linear in the module."""
        return [i for i in self.instructions() if computation in i.called_computations]

    def find(self, name: str) -> HloInstruction | None:
        """The instruction with a name (unique in the module), or None."""
        name = name.removeprefix("%")
        return next((i for i in self.instructions() if i.name == name), None)

    # -- changing ----------------------------------------------------------------------------------

    def unique_name(self, wanted: str) -> str:
        """Reserve a name for an instruction.

        It is `wanted`, or its root with `.N` for the first free N. Instructions and computations
        have separate namespaces, as in XLA.
        """
        return self._names.unique(sanitized(wanted))

    def add_computation(self, name: str, *, entry: bool = False, execution_thread: str = "") -> HloComputation:
        """A new, empty computation, its name made unique."""
        computation = HloComputation(self._computation_names.unique(sanitized(name)), self, execution_thread)
        self._computations.append(computation)
        self._version += 1
        if entry:
            self._entry = computation
        return computation

    def adopt_computation(self, computation: HloComputation) -> None:
        """Add a computation that was built outside (by the parser), with its names made unique."""
        computation.name = self._computation_names.unique(computation.name)
        for i in computation._instructions:
            i.name = self._names.unique(i.name)
        self._computations.append(computation)
        self._version += 1

    def rename_computation(self, caller: HloInstruction, attribute: str, name: str) -> None:
        """Rename the computation that only `caller` refers to, by an attribute ("calls").

        The name is made unique.
        """
        computation: HloComputation = caller.attributes[attribute]
        if name == computation.name:
            return
        caller.record()  # so that the edit shows the old name
        computation.name = self._computation_names.unique(sanitized(name))
        computation._touch()
        caller.parent.update(caller, attributes={attribute: computation})

    def set_entry(self, computation: HloComputation) -> None:
        """Make a computation the entry."""
        self._entry = computation
        self._version += 1

    def remove_computation(self, computation: HloComputation) -> None:
        """Remove a computation without callers.

        Raises:
            ShapeError: it is the entry.
        """
        if computation is self._entry:
            raise ShapeError(f"cannot remove {computation.name}: it is the entry computation")
        self._computations.remove(computation)
        self.schedule.pop(computation, None)
        self._version += 1

    def remove_unused_computations(self) -> bool:
        """Remove computations not reachable from the entry; return whether there were any."""
        reached = {self.entry_computation}
        stack = [self.entry_computation]
        while stack:
            for called in stack.pop().calls:
                for c in called:
                    if c not in reached:
                        reached.add(c)
                        stack.append(c)
        dead = [c for c in self._computations if c not in reached]
        for c in dead:
            self.remove_computation(c)
        return bool(dead)

    def set_schedule(self, computation: HloComputation, order: Sequence[HloInstruction]) -> None:
        """Fix the order in which a computation's instructions run; printing follows it."""
        self.schedule[computation] = tuple(order)
        computation._touch()

    def clear_schedule(self) -> None:
        """Remove all schedules."""
        for c in list(self.schedule):
            del self.schedule[c]
            c._touch()

    def clone_computation(self, source: HloComputation, name: str | None = None) -> HloComputation:
        """Copy a computation of this or another module.

        Computations that it calls are cloned only if they are another module's.
        """
        return _clone(self, source, name or source.name, {})

    def clone(self, name: str | None = None) -> HloModule:
        """A deep copy with the same names; observers see no edits."""
        with unobserved():
            return self._copy(name or self.name)

    def _copy(self, name: str) -> HloModule:
        copy = HloModule(name)
        copy.header = dict(self.header)
        copy.tables = self.tables
        copy.host_callbacks = self.host_callbacks
        copy.calling = self.calling
        copy.spmd_parameters_shardings = self.spmd_parameters_shardings
        copy.spmd_output_sharding = self.spmd_output_sharding
        copy.notes = dict(self.notes)
        copy.entry_layout = self.entry_layout
        memo: dict[HloComputation, HloComputation] = {}
        for c in self.post_order():
            if c not in memo:  # a caller copied before may have copied its callees
                _clone(copy, c, c.name, memo)
        copy._computations = [memo[c] for c in self._computations]
        copy._entry = memo[self.entry_computation]
        for c, order in self.schedule.items():
            by_name = {i.name: i for i in memo[c]}
            copy.schedule[memo[c]] = tuple(by_name[i.name] for i in order)
        copy._record = self._record  # equal snapshots are shared
        copy._names = self._names.copy()
        copy._computation_names = self._computation_names.copy()
        return copy

    def flat_arguments(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """The module's arrays, from the arguments of its source function (see `calling`).

        Arrays that match the parameters are returned unchanged.

        Raises:
            ArgumentError: the structure differs from that of the function's arguments.
        """
        shapes = [p.shape for p in self.entry_computation.parameters]
        return flat_arguments(self.calling, shapes, given)

    # -- what it says ------------------------------------------------------------------------------

    @staticmethod
    def from_record(record: ModuleRecord) -> HloModule:
        """The module of a snapshot, with full constants.

        Raises:
            XlanbError: the snapshot was read from a text that does not make a module.
        """
        module = reread(record)
        module._record = record  # equal snapshots are shared
        module.host_callbacks = record.host_callbacks
        module.calling = record.calling
        module.spmd_parameters_shardings, module.spmd_output_sharding = record.spmd_shardings
        return module

    @staticmethod
    def from_proto(data: bytes) -> HloModule:
        """The module of a binary HloModuleProto, HloProto or HloSnapshot (a `.pb` file of a dump).

        Raises:
            HloParseError, ShapeError, LiteralError: the bytes are not a well-formed module.
        """
        return read_proto(data)

    def to_proto(self) -> bytes:
        """The binary HloModuleProto, which the real XLA reads; elided constants become zeros.

        Raises:
            UnimplementedError: the module does not fit into a binary message.
        """
        return write_proto(self)

    def verify(self, **options: bool) -> None:
        """Check every rule of HLO.

        Args:
            options: those of verifier.VerifierOptions (layout_sensitive, allow_mixed_precision,
                executable).

        Raises:
            HloVerifierError: a rule is broken; the message shows the instruction among its
                neighbours.
        """
        verify(self, options)

    def record(self) -> ModuleRecord:
        """The frozen snapshot; the same object as the last call if nothing changed."""
        last = self._record
        # Name, header and tables are plain fields, set without a mutator.
        state = (
            self._version,
            self.name,
            self.tables,
            tuple(self.header.items()),
            self.entry_layout,
            self.host_callbacks,
            self.calling,
            self.spmd_parameters_shardings,
            self.spmd_output_sharding,
        )
        if last is not None and self._recorded_state == state:
            return last
        old: Mapping[str, ComputationRecord] = last.by_name if last else {}
        computations = tuple([c.record(old.get(c.name)) for c in _callees_first(self.post_order())])
        header = tuple(_header(self).items())
        entry = self.entry_computation.name
        shardings = (self.spmd_parameters_shardings, self.spmd_output_sharding)
        same = last is not None and (
            last.name,
            last.entry,
            last.header,
            last.tables,
            last.host_callbacks,
            last.calling,
            last.spmd_shardings,
        ) == (self.name, entry, header, self.tables, self.host_callbacks, self.calling, shardings)
        if (
            same
            and last is not None
            and len(last.computations) == len(computations)
            and all(a is b for a, b in zip(last.computations, computations, strict=True))
        ):
            new = last
        else:
            new = ModuleRecord(
                self.name, computations, entry, header, self.tables, self.host_callbacks, self.calling, shardings
            )
        self._record, self._recorded_state = new, state
        return new

    def to_string(self, form: str = "canonical") -> str:
        """The text in one of XLA's forms.

        - "canonical".
        - "compact": tuple elements inline where they are used, `p#0`.
        - "short": ShortParsable, without % and metadata, constants in full.
        - "human": without details that readers rarely need.
        - "0.12": the canonical text of the XLA in JAX 0.12.

        Raises:
            ShapeError: there is no such form.
        """
        return print_form(self.record(), form)

    def __str__(self) -> str:
        return self.record().text

    def __repr__(self) -> str:
        return f"<HloModule {self.name}: {len(self._computations)} computations, {self.instruction_count} instructions>"


def _opcodes(computation: HloComputation) -> frozenset[HloOpcode]:
    return frozenset([i.opcode for i in computation._instructions])


def _visit(
    start: HloComputation,
    calls: dict[HloComputation, list[tuple[HloComputation, ...]]],
    order: dict[HloComputation, None],
) -> None:
    """Add all computations called from `start` to `order`, callees first, then `start`.

    As in XLA's walk, all callees of an instruction are marked as seen before any is visited.
    """
    seen = {start}
    stack: list[tuple[HloComputation, Iterator[tuple[HloComputation, ...]]]] = [(start, iter(calls[start]))]
    while stack:
        computation, rest = stack[-1]
        called = next(rest, None)
        if called is None:
            stack.pop()
            order.setdefault(computation)
            continue
        new = [c for c in called if c not in seen]
        seen.update(new)
        stack.extend((c, iter(calls.get(c, ()))) for c in reversed(new))


def _callees_first(order: list[HloComputation]) -> list[HloComputation]:
    """The order itself if callees come before callers; otherwise a corrected one.

    A parser cannot read a reference to a later computation. XLA's order has `twice` before `leaf`
    if twice calls leaf and one instruction calls both, as in conditional(..),
    true_computation=twice, false_computation=leaf.
    """
    calls = {c: [d for called in c.calls for d in called] for c in order}
    at = {c: n for n, c in enumerate(order)}
    if all(at[d] < at[c] for c, called in calls.items() for d in called if d in at):
        return order
    found: dict[HloComputation, None] = {}
    for start in order:
        stack, entered = [(start, iter(calls[start]))], {start}
        while stack:
            c, rest = stack[-1]
            d = next((d for d in rest if d in calls and d not in found and d not in entered), None)
            if d is None:
                found.setdefault(c)
                stack.pop()
            else:
                entered.add(d)
                stack.append((d, iter(calls[d])))
    return list(found)


OPERAND_INDEX_INTERVAL = 5
"""Operands are numbered by a comment at this interval."""

HEADER_ORDER = (
    "is_scheduled",
    "input_output_alias",
    "buffer_donor",
    "alias_passthrough_params",
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
    "frontend_attributes",
    "origin_recovery_table",
    "debug_attributes",
)


def _entry_layout(module: HloModule) -> str:
    """The text of the shapes of the entry's parameters and result, cached: weights are hundreds."""
    entry = module.entry_computation
    if module.entry_layout is not None:
        parameters, result = module.entry_layout
    else:
        parameters, result = tuple([p.shape for p in entry.parameters]), entry.root.shape
    written = module._written_layout
    if written[0] != parameters or written[1] != result:
        listed = ", ".join(
            f"/*index={i}*/{p}" if i and i % OPERAND_INDEX_INTERVAL == 0 else str(p) for i, p in enumerate(parameters)
        )
        written = module._written_layout = (parameters, result, f"{{({listed})->{result}}}")
    return written[2]


def _header(module: HloModule) -> dict[str, str]:
    """The attributes of the `HloModule` line in XLA's order, as text.

    The entry computation layout is computed.
    """
    fields = dict(module.header)
    if module.schedule:
        fields["is_scheduled"] = "true"
    else:
        fields.pop("is_scheduled", None)
    fields["entry_computation_layout"] = _entry_layout(module)
    known = {name: fields[name] for name in HEADER_ORDER if name in fields}
    return known | {name: text for name, text in fields.items() if name not in known}


def _clone(
    module: HloModule, source: HloComputation, name: str, memo: dict[HloComputation, HloComputation]
) -> HloComputation:
    target = module.add_computation(name, execution_thread=source.execution_thread)
    memo[source] = target
    foreign = source.module is not module

    def mapped(value: Any) -> Any:
        if isinstance(value, HloComputation):
            if value in memo:
                return memo[value]
            return _clone(module, value, value.name, memo) if foreign else value
        if isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            return tuple(mapped(v) for v in value)
        return value

    new: dict[HloInstruction, HloInstruction] = {}
    for i in source.post_order():
        attributes = {k: mapped(v) for k, v in i.attributes.items()}
        copy = target.clone_instruction(i, tuple(new[o] for o in i.operands))
        copy.attributes = attributes
        copy._record = None
        new[i] = copy
    for i, copy in new.items():
        for p in i.control_predecessors:
            target.add_control_dependency(new[p], copy)
    # The insertion order affects printing and traversal: keep the source's.
    target._instructions = {new[i]: None for i in source}
    target.set_root(new[source.root])
    return target
