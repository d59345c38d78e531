"""HLO modules in outline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from xlanb.analysis.record_cost import RecordCosts
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape
from xlanb.view.outline.ops import INLINED, INPUT, PASSED, RESULT, SHOWN, Ops
from xlanb.view.outline.program import Part, Program
from xlanb.view.outline.scopes import Path, scope_path

BALANCE: Final = 16.0
"""Floating-point operations that take about as long as moving one byte."""
CALLERS: Final = {O.FUSION: "fusion", O.CALL: "call", O.WHILE: "call", O.CONDITIONAL: "call", O.ASYNC_START: "call"}
"""Opcodes whose computations are drawn in their place, and what the box is."""
_HEAVY = frozenset(
    (
        *(O.DOT, O.RAGGED_DOT, O.SCALED_DOT, O.CONVOLUTION, O.FUSION, O.SORT, O.CUSTOM_CALL, O.WHILE, O.CONDITIONAL),
        *(O.CALL, O.FFT, O.CHOLESKY, O.TRIANGULAR_SOLVE, O.SCATTER, O.REDUCE_WINDOW, O.SELECT_AND_SCATTER, O.INFEED),
        *(O.OUTFEED, O.SEND, O.RECV, O.ASYNC_START),
    )
)
_RENAMES = frozenset((O.BROADCAST, O.RESHAPE, O.BITCAST, O.CONVERT, O.COPY))


class ModuleOutlines:
    """Outlines of modules; what two of them share is made once."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[ComputationRecord, Part]] = {}
        self._costs: dict[int, tuple[InstructionRecord, tuple[float, float]]] = {}
        self._tokens: dict[int, tuple[InstructionRecord, str]] = {}

    def program(self, module: ModuleRecord) -> Program:
        """The entry and all that is drawn in the place of an op."""
        maker = _Maker(module, self._costs, self._tokens)
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
        return Program(module.entry, parts)


class _Maker:
    """Makes the parts of one module."""

    def __init__(
        self,
        module: ModuleRecord,
        costs: dict[int, tuple[InstructionRecord, tuple[float, float]]],
        tokens: dict[int, tuple[InstructionRecord, str]],
    ) -> None:
        self.module = module
        self.costs = RecordCosts(module, costs)
        self._tokens = tokens

    def part(self, computation: ComputationRecord) -> Part:
        """One computation."""
        calls = {
            k: called
            for k, i in enumerate(computation.instructions)
            if i.opcode in CALLERS and (called := self._called(i))
        }
        costs = self.costs.of(computation.name)
        sizes = [i.shape.byte_size for i in computation.instructions]
        return Part(computation.name, self._ops(computation, costs), calls, costs, sizes)

    def _called(self, i: InstructionRecord) -> tuple[str, ...]:
        if i.opcode not in CALLERS:
            return ()
        return tuple(c for c in i.called_computations if c in self.module.by_name)

    def _ops(self, computation: ComputationRecord, costs: Sequence[tuple[float, float]]) -> Ops:
        instructions = computation.instructions
        at = {i.name: k for k, i in enumerate(instructions)}
        operands = [[at[o] for o in i.operands if o in at] for i in instructions]
        roles = _roles(instructions, operands)
        for k, i in enumerate(instructions):  # an element of a tuple that is made here is what it was made of
            if i.opcode is O.GET_TUPLE_ELEMENT and operands[k]:
                source = operands[k][0]
                index = int(i.attributes.get("index", 0))
                if instructions[source].opcode is O.TUPLE and index < len(operands[source]):
                    operands[k] = [operands[source][index]]
        return Ops(
            names=[i.name for i in instructions],
            words=[i.opcode.text for i in instructions],
            tokens=[self._token(i) for i in instructions],
            operands=operands,
            paths=[self._path(i) for i in instructions],
            weights=[flops / BALANCE + size for flops, size in costs],
            roles=roles,
            heavy=[i.opcode in _HEAVY or i.opcode.kind == "collective" for i in instructions],
        )

    def _token(self, i: InstructionRecord) -> str:
        known = self._tokens.get(id(i))
        if known is None:
            known = self._tokens[id(i)] = i, f"{i.opcode.text} {i.shape.text(layout=False)}"
        return known[1]

    def _path(self, i: InstructionRecord) -> Path | None:
        if i.opcode is not O.FUSION:
            return _own_path(i)
        shares: dict[Path | None, float] = defaultdict(float)
        for name in self._called(i):
            inside = self.module.by_name[name].instructions
            for inner, (flops, size) in zip(inside, self.costs.of(name), strict=True):
                shares[_own_path(inner)] += flops / BALANCE + size
        known = {path: share for path, share in shares.items() if path is not None}
        return max(known, key=known.__getitem__) if known else _own_path(i)


def _own_path(i: InstructionRecord) -> Path | None:
    meta = i.metadata
    return (
        scope_path(meta.op_name, is_node=bool(meta.op_type)) if meta.op_name and i.opcode is not O.PARAMETER else None
    )


def _roles(instructions: Sequence[InstructionRecord], operands: Sequence[Sequence[int]]) -> str:
    roles: list[str] = []
    for i, given in zip(instructions, operands, strict=True):
        roles.append(_role(i, given, instructions, roles))
    return "".join(roles)


def _role(
    i: InstructionRecord, operands: Sequence[int], instructions: Sequence[InstructionRecord], roles: Sequence[str]
) -> str:
    code = i.opcode
    if code is O.PARAMETER:
        return INPUT
    if i.is_root:
        return RESULT if code is O.TUPLE else SHOWN
    if code in (O.CONSTANT, O.IOTA):
        return INLINED
    if code in (O.TUPLE, O.GET_TUPLE_ELEMENT, O.AFTER_ALL, O.BITCAST):
        return PASSED if not operands or not all(roles[o] == INLINED for o in operands) else INLINED
    if code in _RENAMES and operands and all(roles[o] == INLINED for o in operands):
        return INLINED
    if code is O.BROADCAST and operands and _is_scalar(instructions[operands[0]]):
        return PASSED
    return SHOWN


def _is_scalar(i: InstructionRecord) -> bool:
    return isinstance(i.shape, ArrayShape) and not i.shape.dimensions
