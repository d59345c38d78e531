"""Hoist dots with slices of an array out of the loop that iterates over the slices.

    while(tuple(i, x, w)), body={...; d = dot(dynamic-slice(x, i, 0), w); ...}
      =>  while(tuple(i, x, w, dot(x, w))),
          body={...; d = dynamic-slice(get-tuple-element(t), i, 0); ...}

This is what the cell of a recurrent network does with its input: one matrix product instead of a
small one per iteration, which reads all weights again. XLA has no such pass. The index may be any,
such as that of a reverse scan: the slice of the result is clamped like the slice of the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.while_loop import trip_count
from xlanb.conditions import Condition, decide
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import TupleShape
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.loops.while_util import invariant_elements, widen
from xlanb.transforms.reason import reason
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.verdict import REAL

_MOST_ROWS = 4
"""With more rows per iteration, storing all results costs as much as reading weights saves."""
_LEAST_PRODUCTS = 1 << 14
"""The fewest multiplications per iteration for which an array of all results pays."""
_MOST_BYTES = 1 << 28
"""The largest array for the results of all iterations, in bytes."""
_ARRAY = ("lhs", "rhs")


@dataclass(frozen=True, eq=False)
class _Sliced:
    """A dot in a body, one operand of which is a slice of a loop-carried array.

    `slice` is taken from `array`, an element of the loop's tuple, along its first dimension. It is
    operand `side` of `dot`, possibly reshaped.
    """

    loop: HloInstruction
    dot: HloInstruction
    side: int
    slice: HloInstruction
    array: HloInstruction
    weights: HloInstruction
    is_reshaped: bool

    @property
    def steps(self) -> int:
        """The number of slices in the array."""
        return self.array.array_shape.dimensions[0]

    @property
    def rows(self) -> int:
        """The rows of one slice in the product."""
        shape, name = self.dot.operands[self.side].array_shape, _ARRAY[self.side]
        gone = (*self.dot.ints(f"{name}_batch_dims"), *self.dot.ints(f"{name}_contracting_dims"))
        return prod(size for d, size in enumerate(shape.dimensions) if d not in gone)

    @property
    def products(self) -> int:
        """The multiplications per iteration."""
        depth = self.dot.ints(f"{_ARRAY[self.side]}_contracting_dims")
        sizes = self.dot.operands[self.side].array_shape.dimensions
        return self.dot.array_shape.element_count * prod(sizes[d] for d in depth)


CONDITIONS: Sequence[Condition[_Sliced]] = (
    Condition(
        "each slice is used in one iteration",
        lambda s: (trip_count(s.loop) or 0) >= s.steps,
        lambda s: f"{s.steps} slices, {trip_count(s.loop) or 'an unknown number of'} iterations",
    ),
    Condition(
        "an iteration has few rows",
        lambda s: s.rows <= _MOST_ROWS,
        lambda s: f"{s.rows} rows; at most {_MOST_ROWS} are allowed",
    ),
    Condition(
        "an iteration has enough multiplications",
        lambda s: s.products >= _LEAST_PRODUCTS,
        lambda s: f"{s.products}; at least {_LEAST_PRODUCTS} are needed",
    ),
    Condition(
        "the results of all iterations fit",
        lambda s: s.steps * s.dot.array_shape.byte_size <= _MOST_BYTES,
        lambda s: f"{s.steps} x {s.dot.array_shape.byte_size} bytes; at most {_MOST_BYTES}",
    ),
)
"""Conditions for hoisting a dot out of the loop."""


class WhileLoopSlicedDotHoisting(HloPass):
    """Computes dots with the slices of an array before the loop that iterates over them."""

    name = "while-loop-sliced-dot-hoisting"
    triggers = frozenset((O.WHILE,))
    keeps = REAL
    ulps = 8.0

    def apply(self, module: HloModule) -> None:
        loops = [i for c in module.post_order() for i in c.post_order() if i.opcode is O.WHILE]
        if not loops:
            return
        graph = CallGraph(module)
        changed = False
        for loop in loops:
            if all(len(graph.callers[d]) == 1 for d in loop.called_computations):
                found = [s for s in _products(loop) if decide(self.name, (s.dot.name,), CONDITIONS, s)]
                if found:
                    _hoist(loop, found)
                    changed = True
        if changed:
            HloDce().apply(module)


def _products(loop: HloInstruction) -> list[_Sliced]:
    """The dots of a body with slices of loop-carried arrays."""
    body: HloComputation = loop.attributes["body"]
    if not isinstance(loop.shape, TupleShape):
        return []
    numbers = {i.tuple_index for i in invariant_elements(body)}

    def is_invariant(i: HloInstruction) -> bool:
        is_access = i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is body.parameters[0]
        return is_access and i.tuple_index in numbers and i.shape.is_array

    found: list[_Sliced] = []
    for dot in body.post_order():
        if dot.opcode is not O.DOT or len(dot.operands) != 2 or dot.control_predecessors or dot.control_successors:
            continue
        for side in (0, 1):
            i, weights = dot.operands[side], dot.operands[1 - side]
            sliced = i.operands[0] if i.opcode is O.RESHAPE else i
            if sliced.opcode is not O.DYNAMIC_SLICE or not (is_invariant(weights) or weights.opcode is O.CONSTANT):
                continue
            made = _Sliced(loop, dot, side, sliced, sliced.operands[0], weights, i is not sliced)
            if is_invariant(made.array) and _is_by_first(made):
                found.append(made)
                break
    return found


def _is_by_first(s: _Sliced) -> bool:
    """Whether the slice is one of the first dimension, all of the others, and that dimension is not
    a batch and not contracted.
    """
    sizes, shape = s.slice.ints("dynamic_slice_sizes"), s.array.array_shape
    if shape.rank < 2 or sizes != (1, *shape.dimensions[1:]) or shape.is_dynamic:
        return False
    if s.is_reshaped:
        return not s.dot.operands[s.side].array_shape.is_dynamic
    name = _ARRAY[s.side]
    return 0 not in (*s.dot.ints(f"{name}_batch_dims"), *s.dot.ints(f"{name}_contracting_dims"))


@reason("the products of all iterations become one product before the loop")
def _hoist(loop: HloInstruction, found: Sequence[_Sliced]) -> None:
    parent, body = loop.parent, loop.attributes["body"]
    begin = loop.operands[0]

    def outside(i: HloInstruction) -> HloInstruction:
        if i.opcode is O.CONSTANT:
            return parent.clone_instruction(i)
        if begin.opcode is O.TUPLE:
            return begin.operands[i.tuple_index]
        return parent.add(O.GET_TUPLE_ELEMENT, (begin,), i.shape, like=i, index=i.tuple_index)

    whole = [_whole(parent, s, outside(s.array), outside(s.weights)) for s in found]
    for s, carried in zip(found, widen(loop, whole), strict=True):
        place, shape = _slice_dimension(s), s.dot.array_shape
        zero = Builder(s.slice).scalar(0, s.slice.operands[1].array_shape.element_type)
        starts = [s.slice.operands[1] if d == place else zero for d in range(carried.array_shape.rank)]
        sizes = tuple(1 if d == place else n for d, n in enumerate(carried.array_shape.dimensions))
        made = body.add(
            O.DYNAMIC_SLICE,
            (carried, *starts),
            array(shape.element_type, sizes),
            like=s.dot,
            dynamic_slice_sizes=sizes,
        )
        body.replace(s.dot, body.add(O.RESHAPE, (made,), shape, like=s.dot) if s.is_reshaped else made)


def _slice_dimension(s: _Sliced) -> int:
    """The dimension of the hoisted dot that numbers the slices."""
    batch = len(s.dot.ints("lhs_batch_dims"))
    lhs = s.dot.operands[0].array_shape.rank - batch - len(s.dot.ints("lhs_contracting_dims"))
    return batch if s.side == 0 else batch + lhs


def _whole(parent: HloComputation, s: _Sliced, x: HloInstruction, weights: HloInstruction) -> HloInstruction:
    """The dot with the whole array; as a plain matrix product if the dot of a slice is one."""
    given = s.dot.operands[s.side].array_shape.dimensions
    whole = (s.steps, *given) if s.is_reshaped else (s.steps, *given[1:])
    sizes, place, t = list(s.dot.array_shape.dimensions), _slice_dimension(s), s.dot.array_shape.element_type
    if s.is_reshaped:
        sizes.insert(place, s.steps)
    else:
        sizes[place] = s.steps
    b = Builder(x)
    if _is_matrices(s):
        flat = b.reshape(x, (prod(whole[:-1]), whole[-1]))
        made = parent.add(
            O.DOT,
            (flat, weights),
            array(t, (flat.array_shape.dimensions[0], sizes[-1])),
            like=s.dot,
            **{**s.dot.attributes, "lhs_contracting_dims": (1,)},
        )
        return b.reshape(made, sizes)
    attributes = dict(s.dot.attributes)
    for kind in ("batch", "contracting") if s.is_reshaped else ():
        name = f"{_ARRAY[s.side]}_{kind}_dims"
        attributes[name] = tuple(d + 1 for d in s.dot.ints(name)) or None
    x = b.reshape(x, whole)
    operands = (x, weights) if s.side == 0 else (weights, x)
    return parent.add(O.DOT, operands, array(t, sizes), like=s.dot, **attributes)


def _is_matrices(s: _Sliced) -> bool:
    """Whether rows of the slice are multiplied by a matrix."""
    last = s.dot.operands[0].array_shape.rank - 1
    contracted = s.dot.ints("lhs_contracting_dims"), s.dot.ints("rhs_contracting_dims")
    return (
        s.side == 0
        and not s.dot.ints("lhs_batch_dims")
        and contracted == ((last,), (0,))
        and s.weights.array_shape.rank == 2
    )
