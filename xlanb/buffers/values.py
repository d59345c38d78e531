"""Which values a scheduled module has, which instructions only pass them on, and when each lives.

The program is laid out as one sequence: the entry's instructions in order, those of called computations in their caller's place. A loop's condition and body stand once
between the loop's two positions (its beginning and its end).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.errors import CompilationError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, Shape
from xlanb.shape.shape import subshape

Leaf = tuple[int, ...]
FORWARDING = frozenset({Op.OPT_BARRIER, Op.ADD_DEPENDENCY, Op.DOMAIN, Op.COPY_START, Op.COPY_DONE, Op.BITCAST})
"""Opcodes whose result is their first operand, in the same memory."""


def sizes_bytes(shape: Shape) -> int:
    """Bytes that the sizes of a dynamic array take behind its elements: an s32 for each dimension, as in XLA's runtime; 0 of others."""
    return 4 * shape.rank if isinstance(shape, ArrayShape) and shape.is_dynamic else 0


@dataclass(eq=False, slots=True)
class HloValue:
    """What an instruction defines at a leaf of its result: `kind` is "parameter", "constant" or "value"; it lives during `intervals` of the sequence."""

    id: int
    instruction: HloInstruction
    leaf: Leaf
    shape: Shape
    kind: str
    start: int
    end: int
    intervals: list[tuple[int, int]] = field(default_factory=list)
    output: int | None = None

    @property
    def size(self) -> int:
        """Bytes: of a dynamic array those of its bound and, behind them, its sizes."""
        return max(self.shape.byte_size, 0) + sizes_bytes(self.shape)

    def use(self, position: int) -> None:
        """It is needed at a position."""
        self.end = max(self.end, position)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that the program does besides its instructions: into a loop's state, out of a branch, into a result."""

    source: HloValue
    target: HloValue
    position: int


@dataclass(eq=False)
class LoopState:
    """A loop's state: its initial values, the values that hold it, and what the body leaves in them."""

    instruction: HloInstruction
    begin: int
    body_end: int = 0
    initial: dict[Leaf, HloValue] = field(default_factory=dict)
    state: dict[Leaf, HloValue] = field(default_factory=dict)
    left: dict[Leaf, HloValue] = field(default_factory=dict)
    last_read: dict[HloValue, int] = field(default_factory=dict)


@dataclass(eq=False)
class Choice:
    """A conditional: its results, and what each branch gives for them at its end."""

    instruction: HloInstruction
    results: dict[Leaf, HloValue] = field(default_factory=dict)
    branches: list[tuple[int, dict[Leaf, HloValue]]] = field(default_factory=list)


class Dataflow:
    """The values of a module in the order of a schedule."""

    def __init__(self, entry: HloComputation, orders: Mapping[HloComputation, Sequence[HloInstruction]]) -> None:
        self.orders = orders
        self.sequence: list[HloInstruction] = []
        self.position: dict[HloInstruction, int] = {}
        self.values: list[HloValue] = []
        self.loops: list[LoopState] = []
        self.choices: list[Choice] = []
        self._of: dict[tuple[HloInstruction, Leaf], HloValue] = {}
        self._visited: set[HloComputation] = set()
        for p in entry.parameters:
            for leaf, shape in p.shape.leaves():
                self._define(p, leaf, shape, "parameter", 0)
        self._visit(entry)
        self.end = len(self.sequence)
        self.results = [self.value(entry.root, leaf) for leaf, _ in entry.root.shape.leaves()]
        for v in self.results:
            v.use(self.end)
        self._close()

    def value(self, i: HloInstruction, leaf: Leaf = ()) -> HloValue:
        """The value at a leaf of an instruction's result, whoever defines it."""
        return self._of[i, leaf]

    @property
    def places(self) -> Mapping[tuple[HloInstruction, Leaf], HloValue]:
        """The value at each leaf of each instruction of the program."""
        return self._of

    # -- the walk -----------------------------------------------------------------------------------------------

    def _define(self, i: HloInstruction, leaf: Leaf, shape: Shape, kind: str, position: int) -> HloValue:
        value = HloValue(len(self.values), i, leaf, shape, kind, position, position)
        self.values.append(value)
        self._of[i, leaf] = value
        return value

    def _step(self, i: HloInstruction) -> int:
        self.sequence.append(i)
        return len(self.sequence) - 1

    def _visit(self, c: HloComputation) -> None:
        if c in self._visited:
            raise CompilationError(
                f"computation {c.name} is called from more than one place: the call graph is not flat"
            )
        self._visited.add(c)
        for i in self.orders[c]:
            handler = {Op.WHILE: self._while, Op.CONDITIONAL: self._conditional, Op.CALL: self._call}.get(i.opcode)
            if handler is not None:
                handler(i)
            elif i.opcode is not Op.PARAMETER:
                self._instruction(i)

    def _instruction(self, i: HloInstruction) -> None:
        if i.opcode in FORWARDING or is_plain_reshape(i):
            for leaf, shape in i.shape.leaves():
                self._of[i, leaf] = self._forwarded(i, leaf, shape)
        elif i.opcode is Op.TUPLE:
            for leaf, _ in i.shape.leaves():
                self._of[i, leaf] = self.value(i.operands[leaf[0]], leaf[1:])
        elif i.opcode is Op.GET_TUPLE_ELEMENT:
            for leaf, _ in i.shape.leaves():
                self._of[i, leaf] = self.value(i.operands[0], (i.tuple_index, *leaf))
        else:
            position = self._step(i)
            self.position[i] = position
            self._read(i.operands, position)
            kind = "constant" if i.opcode is Op.CONSTANT else "value"
            for leaf, shape in i.shape.leaves():
                self._define(i, leaf, shape, kind, position)

    def _forwarded(self, i: HloInstruction, leaf: Leaf, shape: Shape) -> HloValue:
        source = i.operands[0].shape
        # copy-start gives (destination, source, context): all of it is the one array
        if i.opcode is Op.COPY_START:
            return self.value(i.operands[0])
        if i.opcode is Op.COPY_DONE:
            return self.value(i.operands[0], (0,))
        found = subshape(source, leaf)
        if isinstance(found, ArrayShape) and isinstance(shape, ArrayShape) and found.byte_size != shape.byte_size:
            raise CompilationError(f"{i.opcode} from {found.byte_size} to {shape.byte_size} bytes:\n  {i}")
        if sizes_bytes(found) != sizes_bytes(shape):
            raise CompilationError(f"{i.opcode} between arrays of which one is dynamic:\n  {i}")
        return self.value(i.operands[0], leaf)

    def _read(self, operands: Sequence[HloInstruction], position: int) -> None:
        for o in operands:
            for leaf, _ in o.shape.leaves():
                self.value(o, leaf).use(position)

    def _call(self, i: HloInstruction) -> None:
        self._bind(i.called_computations[0], i.operands)
        self._visit(i.called_computations[0])
        for leaf, _ in i.shape.leaves():
            self._of[i, leaf] = self.value(i.called_computations[0].root, leaf)

    def _bind(self, c: HloComputation, operands: Sequence[HloInstruction]) -> None:
        for p, o in zip(c.parameters, operands, strict=True):
            for leaf, _ in p.shape.leaves():
                self._of[p, leaf] = self.value(o, leaf)

    def _while(self, i: HloInstruction) -> None:
        (init,) = i.operands
        condition, body = i.attributes["condition"], i.attributes["body"]
        begin = self._step(i)
        loop = LoopState(i, begin)
        self.loops.append(loop)
        for leaf, shape in i.shape.leaves():
            source = self.value(init, leaf)
            source.use(begin)
            if is_invariant(body, leaf):
                self._of[i, leaf] = source
            else:
                loop.initial[leaf] = source
                loop.state[leaf] = self._define(i, leaf, shape, "value", begin)
        for c in (condition, body):
            for leaf, _ in i.shape.leaves():
                self._of[c.parameters[0], leaf] = self._of[i, leaf]
        self._visit(condition)
        tested = self._step(i)
        self.value(condition.root).use(tested)
        for v in loop.state.values():  # the loop may end here, and then the state is the result
            v.use(tested)
        self._visit(body)
        loop.last_read = {v: v.end for v in loop.state.values()}
        loop.body_end = self._step(i)
        for leaf, state in loop.state.items():
            left = self.value(body.root, leaf)
            loop.left[leaf] = left
            if left is not state:
                left.use(loop.body_end)
            if left in loop.last_read:  # it stays as it is, or another leaf takes it over at the end
                loop.last_read[left] = loop.body_end
        for leaf, _ in i.shape.leaves():
            self._of[i, leaf].use(loop.body_end)
        self.position[i] = loop.body_end

    def _conditional(self, i: HloInstruction) -> None:
        begin = self._step(i)
        self.value(i.operands[0]).use(begin)
        choice = Choice(i)
        self.choices.append(choice)
        for k, c in enumerate(i.called_computations):
            operand = i.operands[1 + k]
            self._bind(c, [operand])
            self._visit(c)
            end = self._step(i)
            given = {leaf: self.value(c.root, leaf) for leaf, _ in i.shape.leaves()}
            for v in given.values():
                v.use(end)
            choice.branches.append((end, given))
        position = self._step(i)
        for leaf, shape in i.shape.leaves():
            choice.results[leaf] = self._define(i, leaf, shape, "value", position)
        self.position[i] = position

    # -- when values live ---------------------------------------------------------------------------------------

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


def is_plain_reshape(i: HloInstruction) -> bool:
    """Whether a reshape leaves every element where it is: row-major on both sides, and no sizes behind the elements."""
    if i.opcode is not Op.RESHAPE or involves_dynamic(i):
        return False
    a, b = i.operands[0].shape, i.shape
    return isinstance(a, ArrayShape) and isinstance(b, ArrayShape) and _row_major(a) and _row_major(b)


def _row_major(shape: ArrayShape) -> bool:
    order = [d for d in shape.minor_to_major if shape.dimensions[d] != 1]
    return all(a > b for a, b in pairwise(order))


def is_invariant(body: HloComputation, leaf: Leaf) -> bool:
    """Whether a loop's body gives back what it got at a leaf."""
    i, at = body.root, leaf
    parameter = body.parameters[0]
    while i is not parameter:
        if i.opcode is Op.TUPLE:
            i, at = i.operands[at[0]], at[1:]
        elif i.opcode is Op.GET_TUPLE_ELEMENT:
            i, at = i.operands[0], (i.tuple_index, *at)
        elif (i.opcode is Op.WHILE and is_invariant(i.attributes["body"], at)) or i.opcode is Op.OPT_BARRIER:
            i = i.operands[0]
        else:
            return False
    return at == leaf
