"""Tuples, maps, scatters and gathers without effect, and empty optimization barriers."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms import match as m
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES

STRUCTURE = RuleSet("structure")
rule = STRUCTURE.rule


def _maps_one_opcode(root: HloInstruction) -> bool:
    inner = root.to_apply.root
    plain = (
        inner.opcode.is_elementwise and bool(inner.operands) and all(o.opcode is O.PARAMETER for o in inner.operands)
    )
    return plain or inner.opcode is O.PARAMETER


@rule("get-tuple-element(tuple(.., A, ..)) => A", m.op(O.GET_TUPLE_ELEMENT, m.op(O.TUPLE, name="t")), keeps=MOVES)
def _(root: HloInstruction, t: HloInstruction) -> HloInstruction:
    return t.operands[root.tuple_index]


@rule(
    "map(A, B) of one opcode => opcode(A, B)",
    m.op(O.MAP),
    guard("one elementwise opcode on parameters", _maps_one_opcode, "root"),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    inner = root.to_apply.root
    if inner.opcode is O.PARAMETER:
        return root.operands[inner.parameter_number]
    operands = [root.operands[o.parameter_number] for o in inner.operands]
    return b.add(inner.opcode, operands, root.shape, **inner.attributes)


@rule(
    "map to a constant => broadcast(constant)",
    m.op(O.MAP),
    guard("a constant scalar", lambda root: root.to_apply.root.opcode is O.CONSTANT),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.broadcast(b.literal(root.to_apply.root.literal), (), root.array_shape)


@rule(
    "conditional(convert(P), A, B) => conditional(P, B, A)",
    m.op(O.CONDITIONAL, m.op(O.CONVERT, "p"), "a", "b2"),
    guard("P is a predicate", lambda p: p.array_shape.element_type is PrimitiveType.PRED),
    guard("the branches have no side effect", lambda root: not root.has_side_effect),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, p: HloInstruction, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    others = {k: v for k, v in root.attributes.items() if k != "branch_computations"}
    first, second = root.called_computations
    made = b.add(O.CONDITIONAL, (p, b2, a), root.shape, **others, true_computation=second, false_computation=first)
    b.computation.update(made, backend_config=root.backend_config)
    return made


@rule(
    "sort along a dimension of size 1 => its operands",
    m.op(O.SORT, "a"),
    guard("size 1", lambda root, a: a.array_shape.dimensions[root.dimensions[0]] <= 1),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a
