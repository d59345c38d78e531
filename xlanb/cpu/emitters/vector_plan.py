"""Choose vector dimensions and width, and estimate the cost of an element.

The choice depends on the instructions that a kernel inlines.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from functools import lru_cache

from xlanb.codegen.costs import COMMON, Costs
from xlanb.codegen.elemental import Leaf, array_of, elementwise_chain
from xlanb.codegen.elements import part
from xlanb.codegen.function import Function
from xlanb.codegen.indexing import order, same_order
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType

ALL = 1 << 30
_DEEP = 100
"""Recursion depth at which a chain is visited iteratively instead."""
_SHORT = 5
"""Reduced dimensions with fewer elements are not vectorized."""

HARD = frozenset(
    (
        Op.EXPONENTIAL, Op.EXPONENTIAL_MINUS_ONE, Op.LOG, Op.LOG_PLUS_ONE, Op.LOGISTIC, Op.TANH,
        Op.ERF, Op.SINE, Op.COSINE, Op.TAN, Op.POWER,
        Op.ATAN2, Op.CBRT, Op.REMAINDER, Op.SINH, Op.COSH, Op.ASIN, Op.ACOS, Op.ATAN, Op.ASINH, Op.ACOSH, Op.ATANH,
    )
)  # fmt: skip
_FREE = frozenset({Op.CONSTANT, Op.BROADCAST, Op.SLICE, Op.RESHAPE, Op.BITCAST})
"""Opcodes that only say which element is read."""


@dataclass
class VectorPlan:
    """Properties of the code of one element.

    `run` is the number of fastest dimensions that can share one counter; 0 if the element's code
    already loops along rows of memory, so that elements are better computed one by one. `widest`
    and `narrowest` are type widths in bits, `nanoseconds` is the cost of an element. `hard` means
    that it contains functions of much code. `repeated` has the plans of values that broadcasts
    repeat, shared by all of them: a chain of normalizations has one inside the other.
    """

    run: int = ALL
    widest: int = 8
    narrowest: int = 64
    nanoseconds: float = 0.0
    hard: bool = False
    seen: set[HloInstruction] = field(default_factory=set)
    runs: dict[tuple[HloInstruction, Leaf], int] = field(default_factory=dict)
    depth: int = 0
    costs: Costs = COMMON
    repeated: dict[HloInstruction, VectorPlan] = field(default_factory=dict)

    def vectors(self, register: int) -> tuple[int, int]:
        """(elements of a vector register of this many bits, registers per vector)."""
        bits = self.widest if self.widest <= 32 or self.narrowest == 64 else 32
        return register // bits, 1 if self.hard or len(self.seen) > 16 else 2 if len(self.seen) > 4 else 4

    def width(self, register: int, count: int) -> tuple[int, int]:
        """(elements of a vector register of this many bits, elements of the vectors to use).

        The latter span several registers if the code is short.
        """
        one, registers = self.vectors(register)
        while one > 2 and one // 2 >= count:
            one //= 2
        wide = one * registers
        while wide > one and wide > count:
            wide //= 2
        return one, wide


def plan(
    bound: Collection[HloInstruction], roots: list[tuple[HloInstruction, Leaf]], costs: Costs = COMMON
) -> VectorPlan:
    """The plan for elements of instructions of one shape; `bound` ones are read from memory."""
    made = VectorPlan(costs=costs)
    for i, leaf in roots:
        _use(made, array_of(i, leaf), 1.0)
        made.run = min(made.run, _run(made, bound, i, leaf))
    return made


def costs_in(f: Function) -> Costs:
    """The costs of a function's loops."""
    return _near(f.target.costs) if f.repeats else f.target.costs


@lru_cache
def _near(costs: Costs) -> Costs:
    return costs.replace(byte_ns=costs.near_byte_ns)


def _use(p: VectorPlan, shape: ArrayShape, bytes_: float) -> None:
    t = part(shape.element_type)
    bits = 8 if t is PrimitiveType.PRED else 32 if t.is_floating and t.bits < 32 else max(8, t.bits)
    p.widest, p.narrowest = max(p.widest, bits), min(p.narrowest, bits)
    p.nanoseconds += bytes_ * max(1, shape.element_type.bits // 8) * p.costs.byte_ns


def _run(p: VectorPlan, bound: Collection[HloInstruction], i: HloInstruction, leaf: Leaf) -> int:
    """The number of fastest dimensions, for the array at a leaf, that can share one counter."""
    found = p.runs.get((i, leaf))
    if found is None:
        p.depth += 1
        if p.depth == _DEEP:
            p.depth = 0
            for o in elementwise_chain(i, lambda o: o not in bound and o.opcode.is_elementwise):
                if o is not i:
                    _run(p, bound, o, ())
            p.depth = _DEEP
        found = p.runs[i, leaf] = _fresh_run(p, bound, i, leaf)
        p.depth -= 1
    return found


def _fresh_run(p: VectorPlan, bound: Collection[HloInstruction], i: HloInstruction, leaf: Leaf) -> int:
    if not array_of(i, leaf).dimensions:
        return ALL
    if i in bound:
        if i not in p.seen:
            p.seen.add(i)
            _use(p, array_of(i, leaf), 1.0)
        return ALL
    if i.opcode is Op.TUPLE:
        return _run(p, bound, i.operands[leaf[0]], leaf[1:])
    if i.opcode is Op.REDUCE and i.shape.is_tuple:
        return _reduce_run(p, bound, i, leaf)
    if i.opcode is Op.GET_TUPLE_ELEMENT or leaf:
        return 1
    own = array_of(i)
    if i not in p.seen:
        p.seen.add(i)
        _use(p, own, 0.0)
        p.hard = p.hard or i.opcode in HARD
        if i.opcode not in _FREE:
            p.nanoseconds += _calculation_ns(p.costs, i.opcode, part(own.element_type).bits)
    if i.opcode is Op.CONSTANT:
        return ALL
    if i.opcode is Op.BROADCAST:
        return _broadcast_run(p, bound, i)
    if i.opcode is Op.IOTA:
        fastest, d = order(own), i.get("iota_dimension")
        return (fastest.index(d) or 1) if d in fastest else ALL
    if i.opcode is Op.REDUCE:
        return _reduce_run(p, bound, i, leaf)
    if i.opcode in (Op.RESHAPE, Op.BITCAST):
        inner = _run(p, bound, i.operands[0], ())
        flat = _is_row_major(own) and _is_row_major(array_of(i.operands[0]))
        return ALL if flat and inner >= len(order(array_of(i.operands[0]))) else min(inner, 1)
    runs = [_operand_run(p, bound, o, own) for o in i.operands]
    if i.opcode.is_elementwise or i.opcode in (Op.COPY, Op.MAP):
        return min(runs, default=ALL)
    if i.opcode is Op.CONCATENATE:
        fastest, (d,) = order(own), i.dimensions
        if d in fastest and all(order(array_of(o)) == fastest for o in i.operands):
            return min(fastest.index(d) + 1, *(_run(p, bound, o, ()) for o in i.operands))
    return min(1, *runs) if runs else 1


def _operand_run(p: VectorPlan, bound: Collection[HloInstruction], o: HloInstruction, shape: ArrayShape) -> int:
    if o.shape.is_tuple:
        return 1
    run = _run(p, bound, o, ())
    return run if not array_of(o).dimensions or same_order(array_of(o), shape) else min(run, 1)


def _calculation_ns(costs: Costs, opcode: Op, bits: int) -> float:
    """The time of an operation on an element: vectors hold fewer wide ones.

    Functions of f64 need twice the terms, too.
    """
    wide = max(1.0, bits / 32)
    return costs.function_ns * wide * wide if opcode in HARD else costs.operation_ns * wide


def _is_row_major(shape: ArrayShape) -> bool:
    found = order(shape)
    return list(found) == sorted(found, reverse=True)


def _broadcast_run(p: VectorPlan, bound: Collection[HloInstruction], i: HloInstruction) -> int:
    """The fastest dimensions that are all broadcast, or all the operand's in its own order."""
    operand = array_of(i.operands[0])
    if not order(operand):
        return ALL
    fastest = order(array_of(i))
    kept = [operand.dimensions[i.dimensions.index(d)] != 1 if d in i.dimensions else False for d in fastest]
    if not kept:
        return ALL
    count = next((k for k, v in enumerate(kept) if v != kept[0]), len(kept))
    if not kept[0]:
        inner = p.repeated.get(i.operands[0])
        if inner is None:
            inner = p.repeated[i.operands[0]] = VectorPlan(costs=p.costs, repeated=p.repeated)
            _run(inner, bound, i.operands[0], ())
        nanoseconds = inner.nanoseconds
        for d in fastest[:count]:
            nanoseconds /= max(array_of(i).dimensions[d], 1)
        p.nanoseconds += nanoseconds
        p.widest, p.narrowest = max(p.widest, inner.widest), min(p.narrowest, inner.narrowest)
        return count
    same = [i.dimensions[d] for d in order(operand)][:count] == list(fastest[:count])
    return min(_run(p, bound, i.operands[0], ()), count if same else 1)


def _reduce_run(p: VectorPlan, bound: Collection[HloInstruction], i: HloInstruction, leaf: Leaf) -> int:
    """The fastest dimensions that are kept; 0 if the fastest one is reduced."""
    source = array_of(i.operands[0])
    count = len(i.operands) // 2
    before = p.nanoseconds
    runs = [_run(p, bound, o, ()) for o in i.operands[:count]]
    reduced = 1
    for d in i.dimensions:
        reduced *= source.dimensions[d]
    p.nanoseconds = before + (p.nanoseconds - before) * reduced
    fastest = order(source)
    if not fastest:
        return ALL
    if fastest[0] in i.dimensions:
        fastest = without_repeated(bound, i, fastest)
        return 0 if source.dimensions[fastest[0]] >= _SHORT and _has_rows(i, p.costs) else 1
    kept = next((k for k, d in enumerate(fastest) if d in i.dimensions), len(fastest))
    names = [d for d in range(source.rank) if d not in i.dimensions]
    own = [names[d] for d in order(array_of(i, leaf))]
    return min(*runs, kept if own[:kept] == list(fastest[:kept]) else 1) if runs else 1


def without_repeated(bound: Collection[HloInstruction], i: HloInstruction, fastest: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of a reduce's input without the fastest ones along which elements repeat.

    These are reduced too, and not the only ones that are; vectors run along the next.
    """
    inputs = i.operands[: len(i.operands) // 2]
    for k, d in enumerate(fastest):
        if d not in i.dimensions:
            break
        if not all(_is_repeated(bound, o, d) for o in inputs):
            return fastest[k:]
    return fastest


def _is_repeated(bound: Collection[HloInstruction], i: HloInstruction, d: int) -> bool:
    """Whether the elements of an array repeat along a dimension."""
    left, seen = [(i, d)], set[tuple[HloInstruction, int]]()
    while left:
        i, d = at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        if i in bound:
            return False
        if i.opcode is Op.BROADCAST:
            if d in i.dimensions:
                left.append((i.operands[0], i.dimensions.index(d)))
        elif i.opcode.is_elementwise and i.operands:
            left += [(o, d) for o in i.operands if array_of(o).dimensions]
        else:
            return False
    return True


def _has_rows(i: HloInstruction, costs: Costs) -> bool:
    """Whether an element of a reduce loops along rows of memory itself.

    It always does except for pairs, which must be many and allow any order.
    """
    if not i.shape.is_tuple:
        return True
    from xlanb.cpu.emitters.variadic import choice

    made = choice(i.to_apply)
    fastest = order(array_of(i.operands[0]))[0]
    many = array_of(i.operands[0]).dimensions[fastest] >= costs.vector_pair_elements
    return made is not None and many and len(i.dimensions) == 1 and made.any_order(i)
