"""HLO modules in outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from xlanb.analysis.record_cost import BALANCE, RecordCosts
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape
from xlanb.view.outline.callers import CallerPaths, Calls, calls_of
from xlanb.view.outline.ops import INLINED, INPUT, PASSED, RESULT, SHOWN, Ops
from xlanb.view.outline.program import Part, ProgramOutline
from xlanb.view.outline.scopes import BACKWARD, UNUSED, Path, scope_path

CALLERS: Final = {O.FUSION: "fusion", O.CALL: "call", O.WHILE: "call", O.CONDITIONAL: "call", O.ASYNC_START: "call"}
"""Opcodes that are drawn as the content of their computations, and the kind of box."""
_HEAVY = frozenset(
    (
        *(O.DOT, O.RAGGED_DOT, O.SCALED_DOT, O.CONVOLUTION, O.FUSION, O.SORT, O.CUSTOM_CALL, O.WHILE, O.CONDITIONAL),
        *(O.CALL, O.FFT, O.CHOLESKY, O.TRIANGULAR_SOLVE, O.SCATTER, O.REDUCE_WINDOW, O.SELECT_AND_SCATTER, O.INFEED),
        *(O.OUTFEED, O.SEND, O.RECV, O.ASYNC_START),
    )
)
_UNITS = frozenset((O.RESHAPE.text, O.BROADCAST.text))
"""What is drawn as an edge if it only adds or removes dimensions of size 1."""
_RENAMES = frozenset((O.RESHAPE, O.CONVERT, O.COPY))


class ModuleOutlines:
    """Outlines of modules; shared parts are made once."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[ComputationRecord, Part]] = {}
        self._costs: dict[int, tuple[InstructionRecord, tuple[float, float]]] = {}
        self._traits: dict[int, _Traits] = {}
        self._callers: dict[str, CallerPaths | None] = {}

    def program(self, module: ModuleRecord) -> ProgramOutline:
        """The entry and all that is drawn in the place of an op."""
        maker = _ModuleOutliner(module, self._costs, self._traits)
        if module.name not in self._callers:  # from stage to stage the same
            self._callers[module.name] = maker.callers_of_step()
        maker.callers = self._callers[module.name]
        parts: dict[str, Part] = {}
        todo = [module.entry] if module.entry in module.by_name else []
        while todo:
            name = todo.pop()
            if name in parts:
                continue
            record = module.by_name[name]
            _, part = self._parts.get(id(record), (None, None))
            if part is None:
                part = maker.part(record)
                self._parts[id(record)] = (record, part)  # the record too: an id is only unique while its object lives
            parts[name] = part
            todo.extend(c for called in part.calls.values() for c in called)
        return ProgramOutline(module.entry, parts)


class _Traits(NamedTuple):  # of which there are as many as instructions: a frozen dataclass takes thrice as long
    """Properties of an instruction in any module; a compilation's snapshots share most
    instructions.

    `role` is that of `Ops`, or one of `_OPEN` if the operands decide; `path` excludes the content
    of fusions, `calls` are known for ops without a scope, `extents` are the dimensions but those
    of size 1.
    """

    record: InstructionRecord  # an id is only unique while its object lives
    word: str
    token: str
    path: Path | None
    calls: Calls
    role: str
    size: int
    is_heavy: bool
    is_caller: bool
    extents: tuple[int, ...] | None
    acts: bool

    @classmethod
    def of(cls, i: InstructionRecord) -> _Traits:
        """Return the traits of an instruction."""
        code = i.opcode
        token = f"{code.text} {i.shape.text(layout=False)}"
        is_heavy = code in _HEAVY or code.kind == "collective"
        extents = tuple(d for d in i.shape.dimensions if d != 1) if isinstance(i.shape, ArrayShape) else None
        path = _own_path(i)
        calls = calls_of(i.metadata) if path == () else ()
        return cls(
            i,
            code.text,
            token,
            path,
            calls,
            _own_role(i),
            i.shape.byte_size,
            is_heavy,
            code in CALLERS,
            extents,
            _acts_itself(i),
        )


class _ModuleOutliner:
    """Makes the parts of one module."""

    def __init__(
        self,
        module: ModuleRecord,
        costs: dict[int, tuple[InstructionRecord, tuple[float, float]]],
        traits: dict[int, _Traits],
    ) -> None:
        self.module = module
        self.costs = RecordCosts(module, costs)
        self._known = traits
        self.callers: CallerPaths | None = None
        self._known_acting: dict[str, bool] = {}

    def callers_of_step(self) -> CallerPaths | None:
        """Return how ops without a scope are distinguished in a training step; None for other
        programs.
        """
        traits = [t for c in self.module.computations for t in self._traits(c)]
        if not any(t.path and t.path[0] == BACKWARD for t in traits):
            return None
        return CallerPaths(t.calls for t in traits)

    def _scopes(self, t: _Traits) -> Path | None:
        """The scopes of an instruction, else the Python functions that it was written in."""
        return self.callers.of(t.calls) if t.calls and self.callers is not None else t.path

    def part(self, computation: ComputationRecord) -> Part:
        """One computation."""
        traits = self._traits(computation)
        calls = {k: called for k, t in enumerate(traits) if t.is_caller and (called := self._called(t.record))}
        costs = self.costs.of(computation.name)
        trips = self.costs.trips(computation.name)
        return Part(computation.name, self._ops(traits, costs), calls, costs, [t.size for t in traits], trips)

    def _traits(self, computation: ComputationRecord) -> list[_Traits]:
        known = self._known
        found = []
        for i in computation.instructions:
            traits = known.get(id(i))
            if traits is None:
                traits = known[id(i)] = _Traits.of(i)
            found.append(traits)
        return found

    def _called(self, i: InstructionRecord) -> tuple[str, ...]:
        """The computations that it calls, of a loop its body first."""
        called = [c for c in i.called_computations if c in self.module.by_name]
        body = i.attributes.get("body")
        return tuple(sorted(called, key=lambda c: c != body.name) if body is not None else called)

    def _ops(self, traits: Sequence[_Traits], costs: Sequence[tuple[float, float]]) -> Ops:
        names = [t.record.name for t in traits]
        at = {name: k for k, name in enumerate(names)}
        operands = [[at[o] for o in t.record.operands if o in at] for t in traits]
        roles = _roles(traits, operands)
        for k, t in enumerate(traits):  # an element of a tuple that is made here is what it was made of
            if t.word == _ELEMENT and operands[k]:
                source = operands[k][0]
                index = int(t.record.attributes.get("index", 0))
                if traits[source].word == _TUPLE and index < len(operands[source]):
                    operands[k] = [operands[source][index]]
        paths = [self._path(t) if t.word == _FUSION else self._scopes(t) for t in traits]
        for k in self._unused(traits, operands):
            paths[k] = (*(paths[k] or ()), UNUSED)
        return Ops(
            names=names,
            words=[t.word for t in traits],
            tokens=[t.token for t in traits],
            operands=operands,
            paths=paths,
            weights=[flops / BALANCE + size for flops, size in costs],
            roles=roles,
            heavy=[t.is_heavy for t in traits],
        )

    def _unused(self, traits: Sequence[_Traits], operands: Sequence[Sequence[int]]) -> list[int]:
        """Return the instructions that no result or side effect depends on, which dce removes."""
        used = {
            k
            for k, t in enumerate(traits)
            if t.acts or t.record.is_root or (t.record.opcode.may_call and self._acts(t.record))
        }
        if not used:  # a part of a program alone
            return []
        at = {t.record.name: k for k, t in enumerate(traits)}
        todo = list(used)
        while todo:
            k = todo.pop()
            before = (at[name] for name in traits[k].record.control_predecessors if name in at)
            near = {*operands[k], *before} - used
            used |= near
            todo.extend(near)
        return [k for k, t in enumerate(traits) if k not in used and t.role != INPUT]

    def _acts(self, i: InstructionRecord) -> bool:
        """Whether an instruction has, or may have, side effects."""
        if _acts_itself(i):
            return True
        if not i.opcode.may_call:
            return False
        inside = self._acting
        return any(inside(c) for c in i.called_computations if c in self.module.by_name)

    def _acting(self, computation: str) -> bool:
        known = self._known_acting.get(computation)
        if known is None:
            self._known_acting[computation] = False  # a function may call itself
            known = any(map(self._acts, self.module.by_name[computation].instructions))
            self._known_acting[computation] = known
        return known

    def _path(self, fusion: _Traits) -> Path | None:
        """Return the scopes of a fusion's result: those of the nearest op that computes it.

        The scopes of most of its ops are less meaningful: a fusion may recompute the previous
        layer's result. A layout change at its end belongs to the next layer, and a constant to the
        first of the layers that share it.
        """
        paths = list(self._paths_from_root(fusion))
        computing = [path for path, word in paths if word not in _MOVES]
        return next(iter([*computing, *(path for path, _ in paths)]), self._scopes(fusion))

    def _paths_from_root(self, fusion: _Traits) -> Iterator[tuple[Path, str]]:
        """The known scopes of a fusion's ops, and their opcodes; the nearest to the root first."""
        for name in self._called(fusion.record):
            by_name = {t.record.name: t for t in self._traits(self.module.by_name[name])}
            near = [t for t in by_name.values() if t.record.is_root]
            seen = {t.record.name for t in near}
            for t in near:  # grows by the operands
                path = self._scopes(t)
                if path is not None and t.word not in _GIVEN:
                    yield path, t.word
                for o in t.record.operands:
                    if o in by_name and o not in seen:
                        seen.add(o)
                        near.append(by_name[o])


def _acts_itself(i: InstructionRecord) -> bool:
    return i.opcode.has_side_effect or i.opcode.kind == "collective" or i.opcode is O.CUSTOM_CALL


def _own_path(i: InstructionRecord) -> Path | None:
    meta = i.metadata
    return (
        scope_path(meta.op_name, is_node=bool(meta.op_type)) if meta.op_name and i.opcode is not O.PARAMETER else None
    )


_GIVEN = frozenset((O.TUPLE.text, O.CONSTANT.text, O.IOTA.text, O.PARAMETER.text))
_MOVES = frozenset(
    o.text for o in (O.BITCAST, O.RESHAPE, O.TRANSPOSE, O.COPY, O.CONVERT, O.BROADCAST, O.SLICE, O.GET_TUPLE_ELEMENT)
)
_ELEMENT, _TUPLE, _FUSION = O.GET_TUPLE_ELEMENT.text, O.TUPLE.text, O.FUSION.text
_BY_ALL, _RENAMED, _SPREAD = "tuple", "rename", "broadcast"
_OPEN = frozenset((_BY_ALL, _RENAMED, _SPREAD))
"""Instructions that are inlined if all operands are; else edges, nodes, or either."""


def _own_role(i: InstructionRecord) -> str:
    """The role of an instruction, one of `_OPEN` where its operands decide."""
    code = i.opcode
    if code is O.PARAMETER:
        return INPUT
    if i.is_root:
        return RESULT if code is O.TUPLE else SHOWN
    if code in (O.CONSTANT, O.IOTA):
        return INLINED
    if code in (O.TUPLE, O.GET_TUPLE_ELEMENT, O.AFTER_ALL, O.BITCAST):
        return _BY_ALL
    if code is O.BROADCAST:
        return _SPREAD
    return _RENAMED if code in _RENAMES else SHOWN


def _roles(traits: Sequence[_Traits], operands: Sequence[Sequence[int]]) -> str:
    roles: list[str] = []
    for t, given in zip(traits, operands, strict=True):
        roles.append(t.role if t.role not in _OPEN else _role(t, given, traits, roles))
    return "".join(roles)


def _role(t: _Traits, operands: Sequence[int], traits: Sequence[_Traits], roles: Sequence[str]) -> str:
    if operands and all(roles[o] == INLINED for o in operands):
        return INLINED
    if t.role == _BY_ALL:
        return PASSED
    given = traits[operands[0]].extents if operands else None
    if t.role == _SPREAD and given == ():
        return PASSED
    return PASSED if given is not None and given == t.extents and t.word in _UNITS else SHOWN
