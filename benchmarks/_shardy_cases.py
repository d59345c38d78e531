"""Shardy's own tests as Programs: each function of an MLIR file, with the shardings in its
comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlanb.errors import UnimplementedError, XlanbError
from xlanb.frontends.stablehlo import from_stablehlo
from xlanb.frontends.stablehlo.ir import Block, Opaque, StablehloOperation, TensorType
from xlanb.frontends.stablehlo.ir import StablehloValue as MlirValue
from xlanb.frontends.stablehlo.parser import parse
from xlanb.hlo import parse as parse_hlo
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import Shape
from xlanb.shape.shape import TOKEN, array
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import TensorSharding, parse_manual_axes, parse_shardings
from xlanb.spmd.shardy.program import (
    DataFlowEdge,
    ShardyOp,
    ShardyProgram,
    ShardyRegion,
    ShardyValue,
    ValueKind,
    add_edge,
    add_op,
    set_results,
)

_MESH = re.compile(r"sdy\.mesh @([\w.$-]+) = (<.*>)")
_FUNCTION = re.compile(r"^\s*func\.func (?:private |public )?@(\w+)", re.MULTILINE)
SHARDING = re.compile(
    r"<@[\w.$-]+, \[(?:\{[^}]*\}(?:p\d+)?(?:, )?)*\](?:, replicated=\{[^}]*\})?(?:, unreduced=[^>]*)?>"
)
RULE = re.compile(r"#sdy\.op_sharding_rule(<.*?>)(?=[,}\s]|$)")
_TERMINATORS = ("func.return", "return", "stablehlo.return", "sdy.return")
_REWRITES = (
    (
        re.compile(r"sdy\.propagation_barrier (%\w+) allowed_direction=(\w+) : (\S+)"),
        r'"sdy.propagation_barrier"(\1) {allowed_direction = "\2"} : (\3) -> \3',
    ),
    (
        re.compile(r"sdy\.data_flow_edge (%\w+(?:#\d+)?) sharding=(<.*>) : (\S+)"),
        r'"sdy.data_flow_edge"(\1) {sharding = #sdy.sharding\2} : (\3) -> \3',
    ),
    (
        re.compile(r"sdy\.sharding_group (%\w+(?:#\d+)?) group_id ?= ?(\d+) : (\S+)"),
        r'"sdy.sharding_group"(\1) {group_id = \2} : (\3) -> ()',
    ),
    (re.compile(r"sdy\.constant"), "stablehlo.constant"),
)


@dataclass
class Case:
    """A test function: its name, the text that contains it without comments, and its comments."""

    name: str
    text: str
    expected: str

    @property
    def shardings(self) -> list[str]:
        """The shardings that are expected, in order."""
        return SHARDING.findall(self.expected)

    @property
    def rules(self) -> list[str]:
        """The rules that are expected, in order."""
        return RULE.findall(self.expected)


def cases(text: str) -> Iterator[Case]:
    """The functions of a file of tests."""
    for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE):
        kept = [line for line in part.split("\n") if not line.lstrip().startswith("//")]
        meshes = "\n".join(line for line in kept if _MESH.search(line))
        begins = [m.start() for m in _FUNCTION.finditer(part)]
        labels = [_comments_begin(part, at) for at in begins]
        for at, start, end in zip(begins, labels, [*labels[1:], len(part)][: len(labels)], strict=True):
            found = _FUNCTION.search(part, at)
            lines = part[start:end].split("\n")
            body = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
            for pattern, new in _REWRITES:
                body = pattern.sub(new, body)
            checks = "\n".join(m[1] for line in lines if (m := re.search(r"// CHECK(?:-\w+)?:(.*)", line)))
            yield Case(found[1] if found else "", f"{meshes}\n{body}", checks)


def _comments_begin(text: str, at: int) -> int:
    """Return the position of the comments before a function."""
    before = text[:at].rstrip("\n").split("\n") if at else []
    while before and before[-1].lstrip().startswith("//"):
        before.pop()
    return len("\n".join(before))


@dataclass
class Reader:
    """Builds the Program of a case."""

    text: str
    meshes: dict[str, Mesh]
    values: dict[MlirValue, ShardyValue] = field(default_factory=dict)
    groups: dict[Any, list[ShardyValue]] = field(default_factory=dict)
    program: ShardyProgram = field(init=False)

    def read(self, function: StablehloOperation) -> ShardyProgram:
        """The Program of a function."""
        (block,) = function.regions
        region = ShardyRegion()
        results = function.attributes.get("res_attrs") or ()
        self.program = ShardyProgram(region, self.meshes)
        for n, argument in enumerate(block.arguments):
            region.arguments.append(self.bind(argument))
            given = (function.attributes.get("arg_attrs") or ())[n : n + 1]
            for attributes in given:
                self.set_shardings([region.arguments[-1]], attributes)
        self.block(block, region)
        shardings = [self.sharding_of(r) for r in results]
        self.program.result_shardings = shardings or [None] * len(region.results)
        self.program.groups += self.groups.values()
        return self.program

    def bind(self, value: MlirValue) -> ShardyValue:
        """An argument of a region."""
        self.values[value] = ShardyValue(value.name, _shape(value))
        return self.values[value]

    def sharding_of(self, attributes: dict[str, Any]) -> TensorSharding | None:
        """The sharding in the attributes of an argument or a result."""
        given = attributes.get("sdy.sharding")
        return parse_shardings(given.text, self.meshes)[0] if isinstance(given, Opaque) else None

    def set_shardings(
        self, values: Sequence[ShardyValue], attributes: dict[str, Any], name: str = "sdy.sharding"
    ) -> None:
        """Give values the shardings that an attribute lists."""
        given = attributes.get(name)
        if isinstance(given, Opaque):
            text = given.text if given.text.startswith("#sdy") else f"#sdy.sharding{given.text}"
            for value, sharding in zip(values, parse_shardings(text, self.meshes), strict=False):
                value.own_sharding = sharding

    def block(self, block: Block, region: ShardyRegion) -> None:
        """The operations of a block, into a region."""
        for n, op in enumerate(block.operations):
            if op.name in _TERMINATORS:
                set_results(region, [self.values[v] for v in op.operands])
            else:
                self.operation(op, region, block.operations[n + 1].offset)

    def operation(self, op: StablehloOperation, region: ShardyRegion, end: int) -> None:
        """Read one operation, whose text ends at `end`."""
        if op.name == "sdy.data_flow_edge":
            self.edge(op)
            return
        if op.name == "sdy.sharding_group":
            self.groups.setdefault(str(op.attributes.get("group_id")), []).append(self.values[op.operands[0]])
            return
        if op.name in ("func.call", "sdy.func_data_flow_edge", "sdy.named_computation", "sdy.reshard"):
            raise UnimplementedError(f"{op.name} in a test of Shardy's")
        kind = _KINDS.get(op.name, ValueKind.HLO)
        hlo = _instruction(op, self.text[op.offset : end]) if kind is ValueKind.HLO else _PLACEHOLDER
        operands = [self.values[v] for v in op.operands]
        made = add_op(region, kind, hlo, operands, [_shape(r) for r in op.results])
        for mlir, value in zip(op.results, made.results, strict=True):
            value.name = mlir.name
            self.values[mlir] = value
        if kind is ValueKind.BARRIER:
            made.attributes["allowed_direction"] = op.attributes["allowed_direction"]
        if kind is ValueKind.CONSTRAINT:
            self.set_shardings(made.results, op.attributes, "sharding")
        if kind is ValueKind.MANUAL:
            raise UnimplementedError("a manual computation in a test of Shardy's")
        self.set_shardings(made.results, op.attributes)
        self.regions(op, made)

    def regions(self, op: StablehloOperation, made: ShardyOp) -> None:
        """The bodies of a loop or of branches."""
        if made.kind is ValueKind.HLO:
            return
        for block in op.regions:
            inner = ShardyRegion(parent=made)
            made.regions.append(inner)
            inner.arguments = [self.bind(a) for a in block.arguments]
            self.block(block, inner)

    def edge(self, op: StablehloOperation) -> None:
        """Map an edge to the value that owns it."""
        owner = self.values[op.operands[0]]
        producer = owner.producer
        if producer is None:
            raise UnimplementedError("an edge into a body in a test of Shardy's")
        n = owner.index
        targets = [owner]
        operands: tuple[int, ...] = (n,)
        results: tuple[tuple[ShardyRegion, int], ...] = ()
        if producer.kind is ValueKind.WHILE:
            targets += [r.arguments[n] for r in producer.regions]
            results = ((producer.regions[1], n),)
        elif producer.kind is ValueKind.CASE:
            operands, results = (), tuple((r, n) for r in producer.regions)
        self.set_shardings([owner], op.attributes, "sharding")
        add_edge(self.program, DataFlowEdge(owner, targets, producer, operands, results))
        self.values[op.results[0]] = owner


_KINDS = {
    "sdy.sharding_constraint": ValueKind.CONSTRAINT,
    "sdy.propagation_barrier": ValueKind.BARRIER,
    "sdy.manual_computation": ValueKind.MANUAL,
    "stablehlo.while": ValueKind.WHILE,
    "stablehlo.case": ValueKind.CASE,
    "stablehlo.optimization_barrier": ValueKind.OPTIMIZATION_BARRIER,
}
_PLACEHOLDER = parse_hlo("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n").entry_computation.root


_NEXT_RESULTS = re.compile(r"(?:%[\w:]+,?\s*)+=\s*$")
"""The text before the next operation's name."""


def _shape(value: MlirValue) -> Shape:
    if isinstance(value.type, TensorType) and value.type.element is not None:
        return array(value.type.element, [d or 0 for d in value.type.dimensions])
    return TOKEN


def _instruction(op: StablehloOperation, text: str) -> HloInstruction:
    """The instruction that the operation alone becomes.

    Raises:
        UnimplementedError: it becomes several.
    """
    operands = {v.name: v for v in op.operands}
    parameters = ", ".join(f"{v}: {v.type}" for v in operands.values()).replace("#", "_")
    types = ", ".join(str(r.type) for r in op.results)
    count = len(op.results)
    names = ["%made"] if count == 1 else [f"%made#{n}" for n in range(count)]
    returned = f"  return {', '.join(names)} : {types}" if count else "  return"
    begin = f"%made{f':{count}' if count > 1 else ''} = " if count else ""
    text = re.sub(r"(%\w+)#(\d+)", r"\1_\2", _NEXT_RESULTS.sub("", text))
    module = from_stablehlo(f"func.func @main({parameters}) -> ({types}) {{\n{begin}{text}\n{returned}\n}}\n")
    root = module.entry_computation.root
    inner = [i for i in module.entry_computation.post_order() if i.opcode not in _PASSING]
    if len(inner) != 1 and inner[0].opcode is not HloOpcode.CONSTANT:
        raise UnimplementedError(f"{op.name} becomes {len(inner)} instructions of HLO: {root}")
    return inner[0]


_PASSING = frozenset((HloOpcode.PARAMETER, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT))


def read_case(case: Case) -> ShardyProgram:
    """Return the Program of a case.

    Raises:
        XlanbError: it cannot be read, or HLO cannot express it.
    """
    meshes = {m[1]: Mesh.parse(m[1], f"#sdy.mesh{m[2]}") for m in _MESH.finditer(case.text)}
    top = parse(f"module {{\n{case.text}\n}}\n")
    text = f"module {{\n{case.text}\n}}\n"
    for function in top.regions[0].operations:
        if function.name == "func.func":
            return Reader(text, meshes).read(function)
    raise XlanbError(f"there is no function in the case {case.name}")


__all__ = ["SHARDING", "Case", "cases", "parse_manual_axes", "read_case"]
