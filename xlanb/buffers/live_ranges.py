"""Live ranges of the values of a scheduled module (xla/hlo/utils/hlo_live_range.h).

The program is one sequence: the entry's instructions in order, with those of called computations at
their caller's position. A loop's condition and body occur once, between the loop's two positions
(its start and its end).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from xlanb.analysis.dataflow import FORWARDING, HloDataflowAnalysis, HloValue, Leaf, is_plain_reshape
from xlanb.errors import CompilationError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape


def sizes_bytes(shape: Shape) -> int:
    """Bytes of the sizes that are stored after a dynamic array's elements; 0 for others.

    An s32 per dimension, as in XLA's runtime.
    """
    return 4 * shape.rank if isinstance(shape, ArrayShape) and shape.is_dynamic else 0


@dataclass(eq=False, slots=True)
class LiveRange:
    """A value and the `intervals` of the sequence in which it is live.

    `instruction` defines it at `leaf` of its result. `kind` is "parameter", "constant" or "value".
    `size` is its bytes; for a dynamic array those of its bound, followed by its sizes. `output` is
    the number of the result in whose memory it is computed.
    """

    id: int
    instruction: HloInstruction
    leaf: Leaf
    shape: Shape
    kind: str
    start: int
    end: int
    size: int
    intervals: list[tuple[int, int]] = field(default_factory=list)
    output: int | None = None

    def use(self, position: int) -> None:
        """Extend the live range to a position."""
        self.end = max(self.end, position)


@dataclass(frozen=True, slots=True)
class ElementCopy:
    """A copy in addition to the instructions: to a loop's state, a branch's result, or a result."""

    source: LiveRange
    target: LiveRange
    position: int


@dataclass(eq=False)
class LoopState:
    """A loop's state: its initial values, its values, and the body's results."""

    instruction: HloInstruction
    begin: int
    body_end: int = 0
    initial: dict[Leaf, LiveRange] = field(default_factory=dict)
    state: dict[Leaf, LiveRange] = field(default_factory=dict)
    left: dict[Leaf, LiveRange] = field(default_factory=dict)
    last_read: dict[LiveRange, int] = field(default_factory=dict)


@dataclass(eq=False)
class ConditionalResults:
    """A conditional: its results, and each branch's values for them."""

    instruction: HloInstruction
    results: dict[Leaf, LiveRange] = field(default_factory=dict)
    branches: list[tuple[int, dict[Leaf, LiveRange]]] = field(default_factory=list)


class LiveRanges:
    """The live ranges of a module's values, for a schedule.

    `dataflow` is not in SSA form. `instructions` are all that run, callers before callees.
    """

    def __init__(
        self,
        entry: HloComputation,
        dataflow: HloDataflowAnalysis,
        orders: Mapping[HloComputation, Sequence[HloInstruction]],
    ) -> None:
        self.dataflow = dataflow
        self.orders = orders
        self.sequence: list[HloInstruction] = []
        self.position: dict[HloInstruction, int] = {}
        self.instructions: list[HloInstruction] = []
        self.values: list[LiveRange] = []
        self.loops: list[LoopState] = []
        self.choices: list[ConditionalResults] = []
        self._range: dict[HloValue, LiveRange] = {}
        self._visited: set[HloComputation] = set()
        for p in entry.parameters:
            self._define(p, "parameter", 0)
        self._visit(entry, entry.parameters)
        self.end = len(self.sequence)
        self.results = self._values(entry.root)
        for v in self.results:
            v.use(self.end)
        self._close()

    def value(self, i: HloInstruction, leaf: Leaf = ()) -> LiveRange:
        """The value at a leaf of an instruction's result, whichever instruction defines it."""
        return self._range[self.dataflow.at[i][leaf]]

    # -- the walk ----------------------------------------------------------------------------------

    def _values(self, i: HloInstruction) -> list[LiveRange]:
        return [self._range[v] for v in self.dataflow.at[i].values()]

    def _define(self, i: HloInstruction, kind: str, position: int) -> dict[Leaf, LiveRange]:
        """The values that an instruction defines."""
        made, held = {}, self.dataflow.at[i]
        for leaf, shape in i.shape.leaves():
            value = held[leaf]
            if value.instruction is i:
                size = max(shape.byte_size, 0) + sizes_bytes(shape)
                own = LiveRange(len(self.values), i, leaf, shape, kind, position, position, size)
                self.values.append(own)
                made[leaf] = self._range[value] = own
        return made

    def _step(self, i: HloInstruction) -> int:
        self.sequence.append(i)
        return len(self.sequence) - 1

    def _visit(self, c: HloComputation, parameters: Sequence[HloInstruction]) -> None:
        if c in self._visited:
            raise CompilationError(
                f"computation {c.name} is called from more than one place: the call graph is not flat"
            )
        self._visited.add(c)
        self.instructions += parameters
        for i in self.orders[c]:
            if i.opcode is Op.WHILE:
                self._while(i)
            elif i.opcode is Op.CONDITIONAL:
                self._conditional(i)
            elif i.opcode is Op.CALL:
                self._visit(i.called_computations[0], i.called_computations[0].parameters)
                self.instructions.append(i)
            elif i.opcode is not Op.PARAMETER:
                self._instruction(i)

    def _instruction(self, i: HloInstruction) -> None:
        self.instructions.append(i)
        if i.opcode in FORWARDING or is_plain_reshape(i):
            self._check_forwarded(i)
            if i.opcode is Op.COPY_START:  # the context of an asynchronous copy
                self.position[i] = self._step(i)
                self._define(i, "value", self.position[i])
        elif i.opcode not in (Op.TUPLE, Op.GET_TUPLE_ELEMENT):
            position = self.position[i] = self._step(i)
            for o in i.operands:
                for v in self._values(o):
                    v.use(position)
            self._define(i, "constant" if i.opcode is Op.CONSTANT else "value", position)

    def _check_forwarded(self, i: HloInstruction) -> None:
        """Raise for a bitcast between arrays of different size in memory."""
        if i.opcode is not Op.BITCAST:
            return
        given, shape = i.operands[0].shape, i.shape
        if isinstance(given, ArrayShape) and isinstance(shape, ArrayShape) and given.byte_size != shape.byte_size:
            raise CompilationError(f"{i.opcode} from {given.byte_size} to {shape.byte_size} bytes:\n  {i}")
        if sizes_bytes(given) != sizes_bytes(shape):
            raise CompilationError(f"{i.opcode} between a dynamic and a static array:\n  {i}")

    def _while(self, i: HloInstruction) -> None:
        (init,) = i.operands
        condition, body = i.attributes["condition"], i.attributes["body"]
        begin = self._step(i)
        loop = LoopState(i, begin)
        self.loops.append(loop)
        for v in self._values(init):
            v.use(begin)
        loop.state = self._define(i, "value", begin)
        loop.initial = {leaf: self.value(init, leaf) for leaf in loop.state}
        self.instructions += (i, condition.parameters[0], body.parameters[0])
        self._visit(condition, ())
        tested = self._step(i)
        self.value(condition.root).use(tested)
        for v in loop.state.values():  # the loop may end here, and the state is then the result
            v.use(tested)
        self._visit(body, ())
        loop.last_read = {v: v.end for v in loop.state.values()}
        loop.body_end = self._step(i)
        for leaf, state in loop.state.items():
            left = self.value(body.root, leaf)
            loop.left[leaf] = left
            if left is not state:
                left.use(loop.body_end)
            if left in loop.last_read:  # unchanged, or taken over by another leaf at the end
                loop.last_read[left] = loop.body_end
        for v in self._values(i):
            v.use(loop.body_end)
        self.position[i] = loop.body_end

    def _conditional(self, i: HloInstruction) -> None:
        begin = self._step(i)
        self.value(i.operands[0]).use(begin)
        choice = ConditionalResults(i)
        self.choices.append(choice)
        for c in i.called_computations:
            self._visit(c, c.parameters)
            end = self._step(i)
            given = {leaf: self.value(c.root, leaf) for leaf in self.dataflow.at[i]}
            for v in given.values():
                v.use(end)
            choice.branches.append((end, given))
        position = self.position[i] = self._step(i)
        self.instructions.append(i)
        choice.results = self._define(i, "value", position)

    # -- when values live --------------------------------------------------------------------------

    def _close(self) -> None:
        for v in self.values:
            v.intervals = [(v.start, v.end)]
        for loop in self.loops:
            for state in loop.state.values():
                read = loop.last_read[state]
                state.intervals = (
                    [(loop.begin, read), (loop.body_end, state.end)]
                    if read < loop.body_end
                    else [(loop.begin, state.end)]
                )
        for choice in self.choices:
            for result in choice.results.values():
                result.intervals = [(end, end) for end, _ in choice.branches] + [(result.start, result.end)]
