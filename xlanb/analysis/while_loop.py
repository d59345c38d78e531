"""Static analysis of while loops: induction variable and trip count.

Source: xla/hlo/analysis/while_loop_analysis.h.
"""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass

_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}


@dataclass(frozen=True)
class Induction:
    """An induction variable: element `index` of the loop's tuple.

    It starts at `start`, grows by `step` in each iteration, and is compared with `limit`.
    """

    index: int
    start: int
    step: int
    limit: int
    direction: str

    @property
    def trip_count(self) -> int | None:
        """The trip count; None if this variable does not end the loop."""
        distance = self.limit - self.start
        if self.direction == "NE":
            return distance // self.step if distance % self.step == 0 and distance // self.step >= 0 else None
        if self.direction in ("LT", "LE"):
            if self.step < 0:
                return 0 if distance < 0 or (distance == 0 and self.direction == "LT") else None
            return max(0, -(-distance // self.step) if self.direction == "LT" else distance // self.step + 1)
        if self.direction in ("GT", "GE"):
            if self.step > 0:
                return 0 if distance > 0 or (distance == 0 and self.direction == "GT") else None
            return max(0, -(-distance // self.step) if self.direction == "GT" else distance // self.step + 1)
        return None


def induction(loop: HloInstruction) -> Induction | None:
    """The induction variable that ends a loop, or None.

    The condition compares one element with a constant, the body adds a constant to it, and its
    initial value is constant.
    """
    condition: HloComputation = loop.attributes["condition"]
    body: HloComputation = loop.attributes["body"]
    test = condition.root
    if test.opcode is not O.COMPARE or body.root.opcode is not O.TUPLE:
        return None
    left, right = test.operands
    direction: str = test.get("direction")
    for element, bound, holds in ((left, right, direction), (right, left, _MIRRORED[direction])):
        index, limit = _element_of_parameter(element), _integer(bound)
        if index is None or limit is None:
            continue
        start = _initial(loop, index)
        step = _step(body, index)
        if start is None or not step:
            return None
        found = Induction(index, start, step, limit, holds)
        return found if _stays_in_range(found, element) else None
    return None


def trip_count(loop: HloInstruction) -> int | None:
    """The trip count of a while loop; None if unknown."""
    found = induction(loop)
    return None if found is None else found.trip_count


def _element_of_parameter(i: HloInstruction) -> int | None:
    if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0].opcode is O.PARAMETER:
        return i.tuple_index
    return None


def _integer(i: HloInstruction) -> int | None:
    if (
        i.opcode is not O.CONSTANT
        or not i.shape.element_type.is_integral
        or i.literal.is_elided
        or i.literal.array.size != 1
    ):
        return None
    return int(i.literal.array.item())


def _initial(loop: HloInstruction, index: int) -> int | None:
    start = loop.operands[0]
    if start.opcode is not O.TUPLE:
        return None
    element = start.operands[index]
    while element.opcode is O.COPY:
        element = element.operands[0]
    return _integer(element)


def _step(body: HloComputation, index: int) -> int | None:
    new = body.root.operands[index]
    if new.opcode not in (O.ADD, O.SUBTRACT):
        return None
    a, b = new.operands
    if new.opcode is O.SUBTRACT:
        step = _integer(b)
        return -step if step is not None and _element_of_parameter(a) == index else None
    for old, added in ((a, b), (b, a)):
        if _element_of_parameter(old) == index:
            return _integer(added)
    return None


def _stays_in_range(found: Induction, element: HloInstruction) -> bool:
    """Whether the variable reaches its limit without wrapping around."""
    count = found.trip_count
    if count is None:
        return False
    t = element.shape.element_type
    low, high = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
    return low <= found.start + count * found.step <= high
