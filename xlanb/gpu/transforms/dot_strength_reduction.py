"""Replace matrix-vector dots by multiplications and reductions.

Follows xla/backends/gpu/transforms/dot_strength_reduction.cc.

    f32[5] dot(f32[5,8] a, f32[8] v)    =>    reduce(multiply(a, broadcast(v))), dimensions={1}

A matrix-vector product reads each element once: reduction kernels do that at full speed, and they
fuse. Large ones are left to Triton's kernels if they are supported. s32, which has no fast kernels,
is reduced here too if the right operand's contracting dimension is its last.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.conditions import Condition, decide, objecting
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.transforms.splitk_rewriter import accumulator_type, sum_computation
from xlanb.gpu.triton.support_legacy import UNSET, elements_of, gemm_objection
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape import PrimitiveType as T
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_LARGE: Final = 10_000_000
_SIDES: Final = ("lhs", "rhs")


@dataclass(frozen=True)
class DotStrengthReduction(HloPass):
    """Replaces dots with an operand that has no free dimension."""

    name = "dot-strength-reduction"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 16.0
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.DOT and _is_reduced(_ReducedDot(i, self.device)):
                    _expand(i)


@dataclass(frozen=True)
class _ReducedDot:
    dot: HloInstruction
    device: GpuDevice

    @property
    def vectors(self) -> int:
        """The number of operands without a free dimension."""
        return sum(not free_dimensions(self.dot, side) for side in _SIDES)

    @property
    def elements(self) -> int:
        """Elements of both operands of one product."""
        return elements_of(self.dot)


def _is_of_s32(dot: HloInstruction) -> bool:
    types = (dot.shape.element_type, *(o.shape.element_type for o in dot.operands))
    return all(t is T.S32 for t in types) and dot.ints("rhs_contracting_dims") == (1,)


def _form_objection(d: _ReducedDot) -> str:
    if d.dot.get("algorithm") != UNSET:
        return f"it requires the algorithm {d.dot.get('algorithm')}"
    if d.dot.control_predecessors or d.dot.control_successors:
        return "it has control dependencies"
    made = d.dot.shape.element_type
    narrowed = [o for o in d.dot.operands if o.shape.element_type.byte_size > made.byte_size]
    return f"`{narrowed[0].name}` would be rounded to {made}" if narrowed else ""


_CONDITIONS: Final[tuple[Condition[_ReducedDot], ...]] = (
    Condition(
        "it has two operands of static shape",
        lambda d: len(d.dot.operands) == 2 and not any(o.array_shape.is_dynamic for o in d.dot.operands),
    ),
    Condition(
        "an operand has no non-contracting dimension, or both are row-major s32",
        lambda d: d.vectors > 0 or _is_of_s32(d.dot),
        lambda d: f"{d.vectors} of its operands are vectors",
    ),
    objecting("it is computed by products and a sum of its own type", _form_objection),
    Condition(
        f"both are vectors, or the matrix has fewer than {_LARGE} elements, or Triton does not support it",
        lambda d: d.vectors == 2 or d.elements < _LARGE or bool(gemm_objection(d.dot, d.device)),
        lambda d: f"{d.elements} elements",
    ),
)


def _is_reduced(d: _ReducedDot) -> bool:
    return decide("reduce instead", (d.dot.name,), _CONDITIONS, d)


@reason("dot(A, v) => reduce(A * broadcast(v))")
def _expand(dot: HloInstruction) -> None:
    c, made = dot.parent, dot.array_shape
    free = [
        [o.array_shape.dimensions[d] for d in free_dimensions(dot, side)]
        for o, side in zip(dot.operands, _SIDES, strict=True)
    ]
    batches = len(dot.ints("lhs_batch_dims"))
    operands = []
    for n, side in enumerate(_SIDES):
        ordered = _ordered(dot, n, side)
        place = batches + (len(free[0]) if n == 0 else 0)
        operands.append(_inserted(ordered, place, free[1 - n]))
    left = operands[0]
    flow = c.add(O.MULTIPLY, operands, left.array_shape)
    contracted = len(dot.ints("lhs_contracting_dims"))
    if contracted:
        summed = accumulator_type(dot)
        rank = left.array_shape.rank
        flow = (
            flow if flow.shape.element_type is summed else c.add(O.CONVERT, (flow,), flow.array_shape.with_type(summed))
        )
        flow = c.add(
            O.REDUCE,
            (flow, c.constant(np.zeros((), summed.dtype))),
            _without_last(left.array_shape, contracted).with_type(summed),
            dimensions=tuple(range(rank - contracted, rank)),
            to_apply=sum_computation(c, "scalar_add_computation", summed, ("scalar_lhs", "scalar_rhs")),
        )
    if flow.shape.element_type is not made.element_type:
        flow = c.add(O.CONVERT, (flow,), flow.array_shape.with_type(made.element_type))
    c.replace(dot, flow)


def _ordered(dot: HloInstruction, number: int, side: str) -> HloInstruction:
    """Return an operand in the result's type with ordered dimensions.

    The order is batch, free, contracting.
    """
    c, operand = dot.parent, dot.operands[number]
    made = dot.shape.element_type
    if operand.shape.element_type is not made:
        operand = c.add(O.CONVERT, (operand,), operand.array_shape.with_type(made))
    order = (*dot.ints(f"{side}_batch_dims"), *free_dimensions(dot, side), *dot.ints(f"{side}_contracting_dims"))
    if order == tuple(sorted(order)):
        return operand
    shape = operand.array_shape
    layout = [order.index(d) for d in shape.minor_to_major]  # every byte stays in place
    transposed = ArrayShape(made, tuple(shape.dimensions[d] for d in order)).with_layout(layout)
    return c.add(O.TRANSPOSE, (operand,), transposed, dimensions=order)


def _inserted(operand: HloInstruction, place: int, sizes: list[int]) -> HloInstruction:
    """Broadcast an operand along new dimensions before one of its own."""
    if not sizes:
        return operand
    shape, count = operand.array_shape, len(sizes)
    dims = (*shape.dimensions[:place], *sizes, *shape.dimensions[place:])
    kept = [d if d < place else d + count for d in range(shape.rank)]
    return Builder(operand).broadcast(operand, kept, ArrayShape(shape.element_type, dims).with_default_layout())


def _without_last(shape: ArrayShape, count: int) -> ArrayShape:
    """Return a shape without its last dimensions, with the others' memory order."""
    rank = shape.rank - count
    return ArrayShape(shape.element_type, shape.dimensions[:rank]).with_layout(
        [d for d in shape.minor_to_major if d < rank]
    )
