"""Whether the emitter of gemm fusions supports a fusion.

Follows xla/service/gpu/triton_fusion_analysis.cc.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from xlanb.gpu.triton.tiling_propagation import (
    WHOLE,
    DimensionOrder,
    DotSide,
    PropagationError,
    TilingDirection,
    combined,
    propagate,
    reshaped,
    side_of_operand,
    side_of_result,
)
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout


@dataclass
class _OperandScope:
    """One operand of the dot, or its result, and the orders found on that side."""

    side: DotSide
    orders: dict[HloInstruction, DimensionOrder]
    major_part: int = WHOLE

    def add(self, orders: dict[HloInstruction, DimensionOrder], major_part: int, name: str) -> None:
        """Add the orders found across an instruction.

        Raises:
            PropagationError: they contradict earlier ones.
        """
        for i, order in orders.items():
            if i in self.orders and not self.orders[i].is_physically_equal(order):
                raise PropagationError(f"{i.name} would be read with two different tilings")
        both = combined(self.major_part, major_part)
        if both is None:
            raise PropagationError(f"{name} needs a different split of the dimension that may be split in two")
        self.major_part = both
        for i, order in orders.items():
            self.orders.setdefault(i, order)

    def follow(self, i: HloInstruction, direction: TilingDirection) -> None:
        """Propagate across an instruction from its known side.

        Raises:
            PropagationError: the emitter cannot follow.
        """
        order = self.orders[i if direction is TilingDirection.TO_OPERANDS else _source(i, self.orders)]
        found = propagate(i, order, direction, self.side)
        if isinstance(found, str):
            raise PropagationError(f"{i.name}: {found}")
        self.add(dict(found.orders), found.major_part, i.name)

    def follow_to_parameters(self, start: HloInstruction, dot: HloInstruction) -> None:
        """Propagate from an instruction up to all parameters it needs, stopping at the dot.

        Raises:
            PropagationError: the emitter cannot follow.
        """
        seen = {start, dot}
        pending = deque([start])
        while pending:
            i = pending.popleft()
            self.follow(i, TilingDirection.TO_OPERANDS)
            for o in i.operands:
                if o not in seen and o in self.orders:
                    seen.add(o)
                    pending.append(o)


def _source(user: HloInstruction, orders: dict[HloInstruction, DimensionOrder]) -> HloInstruction:
    return next(o for o in user.operands if o in orders)


def objection(dot: HloInstruction, *, swapped: bool = False) -> str:
    """Return why the emitter cannot read a fusion around `dot`, or "".

    With `swapped`, the fusion has the dot's operands swapped, and the same result.
    """
    try:
        _check(dot, swapped=swapped)
    except PropagationError as error:
        return str(error)
    return ""


def _check(dot: HloInstruction, *, swapped: bool) -> None:
    first, second = (1, 0) if swapped else (0, 1)
    left = _operand_scope(dot, first, may_split=True)
    _operand_scope(dot, second, may_split=False)
    result = _OperandScope(
        side_of_result(left.major_part), {dot: _order_of_result(dot, swapped=swapped)}, left.major_part
    )
    output = dot
    while not output.is_root:
        if output.user_count != 1:
            raise PropagationError(f"{output.name} has {output.user_count} users")
        (output,) = output.users
        result.follow(output, TilingDirection.TO_RESULT)
    if output is not dot:
        result.follow_to_parameters(output, dot)


def _operand_scope(dot: HloInstruction, number: int, *, may_split: bool) -> _OperandScope:
    operand = dot.operands[number]
    free = side_of_operand(dot, number).free
    splits = may_split and not dot.ints("lhs_batch_dims")
    scope = _OperandScope(
        DotSide(free, free) if splits else DotSide(free), {operand: DimensionOrder.of(operand.array_shape)}
    )
    scope.follow_to_parameters(operand, dot)
    return scope


def _order_of_result(dot: HloInstruction, *, swapped: bool) -> DimensionOrder:
    """Return the order of the result's dimensions; if swapped, the swapped dot's in this shape."""
    shape = dot.array_shape
    if not swapped:
        return DimensionOrder.of(shape)
    return reshaped(DimensionOrder.of(swapped_shape(dot)), shape)


def swapped_shape(dot: HloInstruction) -> ArrayShape:
    """Return the shape of a dot with swapped operands, with elements in place.

    dot(f32[8,4], f32[4,5]) is f32[8,5]{1,0}, with swapped operands f32[5,8]{0,1}
    """
    shape = dot.array_shape
    batch = len(dot.ints("lhs_batch_dims"))
    free = dot.operands[0].array_shape.rank - batch - len(dot.ints("lhs_contracting_dims"))
    order = [*range(batch), *range(batch + free, shape.rank), *range(batch, batch + free)]
    layout = replace(
        shape.layout or Layout.default(shape.rank), minor_to_major=tuple(order.index(d) for d in shape.minor_to_major)
    )
    return ArrayShape(shape.element_type, tuple(shape.dimensions[d] for d in order), layout)
