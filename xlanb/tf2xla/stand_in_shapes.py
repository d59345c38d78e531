"""Choose shapes for tensors whose graph states none, consistent with the surrounding nodes.

A graph dumped before it runs often has no argument shapes, but lowering a cluster to HLO needs
them. Every dimension is an unknown; nodes equate unknowns (MatMul its inner sizes, Conv2D the
channels of image and filter, ...), forwards and backwards, to a fixed point. Then guesses follow,
one at a time, the most likely first: operands of the same shape, square images, a batch of 8, an
image size of 64. Guesses are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlanb.errors import GraphError, UnknownOpError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.shapes import handle_shape
from xlanb.tf2xla.const_analysis import constant_inputs
from xlanb.tf2xla.context import NotConstantError
from xlanb.tf2xla.registry import kernel
from xlanb.tf2xla.shape_rules import guess_rule, keeps_first_shape, rule
from xlanb.tf2xla.shapes import evaluate_op, exact_shapes
from xlanb.tracing import unobserved

Array = np.ndarray[Any, Any]
BATCH, PICTURE = 8, 64
_LARGEST_VALUE = 4096  # elements of a value that is followed
_MOST_ROUNDS = 10_000


class ContradictionError(GraphError):
    """Two nodes demand different shapes of one tensor."""


class Unknown:
    """One dimension: a size, or the unknown that it equals."""

    __slots__ = ("is_derived", "is_picture", "same", "size")

    def __init__(self, size: int | None = None) -> None:
        self.size = size
        self.same: Unknown | None = None
        self.is_picture = False
        self.is_derived = False  # follows from another by a number, so that a guess for it is one for that

    def root(self) -> Unknown:
        """Return the representative of all unknowns equal to this one."""
        found = self
        while found.same is not None:
            found = found.same
        return found

    @property
    def known(self) -> int | None:
        """The size, None while it is not known."""
        return self.root().size


Dims = list[Unknown]


@dataclass
class Solution:
    """Shapes by tensor, values that follow from them, and the tensors with guessed shapes."""

    shapes: dict[Tensor, tuple[int, ...]] = field(default_factory=dict)
    values: dict[Tensor, Array] = field(default_factory=dict)
    guessed: dict[Tensor, None] = field(default_factory=dict)


class ShapeSolver:
    """The unknowns of one graph."""

    def __init__(
        self,
        graph: Graph,
        wanted: Sequence[Tensor],
        given: Mapping[Tensor, Sequence[int]],
        constants: Sequence[Tensor],
        rank: int,
    ) -> None:
        self.ops = graph.topological_order()
        self.wanted = list(wanted)
        self._wanted = set(wanted)
        self._open_sizes: set[Unknown] = set()
        self.constants = list(constants)
        self.rank = rank
        self.dims: dict[Tensor, Dims] = {}
        self.values: dict[Tensor, Array] = {}
        self.guessed: dict[Tensor, None] = {}
        self.changes = 0
        self._settled: set[Operation] = set()
        for op in self.ops:
            self._begin(op)
        self._given = set(given)
        for tensor, shape in given.items():
            self.set_dims(tensor, [Unknown(int(d)) for d in shape])

    def _begin(self, op: Operation) -> None:
        if op.type == "Const" and (value := op.attrs.get("value")) is not None:
            if value.size <= _LARGEST_VALUE:
                self.values[op.outputs[0]] = value
            self.set_dims(op.outputs[0], [Unknown(d) for d in value.shape])
        for tensor in op.outputs:
            known = handle_shape(op) if tensor.dtype.name == "resource" else tensor.shape.as_tuple()
            if known is not None:
                self.set_dims(tensor, [Unknown(d) for d in known])

    # ------------------------------------------------------------------------------- what rules use

    def get(self, tensor: Tensor) -> Dims | None:
        """The dimensions of a tensor, None while its rank is not known."""
        return self.dims.get(tensor)

    def value(self, tensor: Tensor) -> Array | None:
        """Return the value of a tensor that follows from constants and shapes, or None."""
        return self.values.get(tensor)

    def number(self, tensor: Tensor) -> int | None:
        """Return the value of an integer tensor with one element if known; lowering rejects
        others.
        """
        found = self.values.get(tensor)
        return int(found.item()) if found is not None and found.size == 1 else None

    def with_rank(self, tensor: Tensor, rank: int) -> Dims:
        """The dimensions of a tensor that must have this rank."""
        if tensor not in self.dims:
            self.dims[tensor] = [Unknown() for _ in range(rank)]
            self.changes += 1
        found = self.dims[tensor]
        if len(found) != rank:
            raise ContradictionError(f"{tensor.name!r} has rank {len(found)}, expected {rank}")
        return found

    def set_dims(self, tensor: Tensor, dims: Dims) -> None:
        """Let a tensor have these dimensions."""
        for mine, other in zip(self.with_rank(tensor, len(dims)), dims, strict=True):
            self.equal(mine, other, tensor)

    def equal(self, a: Unknown, b: Unknown, where: Tensor) -> None:
        """Let two dimensions be equal."""
        first, second = a.root(), b.root()
        if first is second:
            return
        if None not in (first.size, second.size):
            if first.size != second.size:
                raise ContradictionError(f"{where.name!r} has a size of {first.size}, expected {second.size}")
            return
        if first.size is None:
            first, second = second, first
        second.same = first
        first.is_picture |= second.is_picture
        first.is_derived |= second.is_derived
        self.changes += 1

    def fix(self, a: Unknown, size: int, where: Tensor) -> None:
        """Let a dimension have a size."""
        if a.known != size:
            self.equal(a, Unknown(size), where)

    # -------------------------------------------------------------------------------------- solving

    def solve(self) -> Solution:
        """Solve for the shapes of all requested tensors.

        Raises:
            GraphError: nodes contradict each other, or a shape cannot be found.
        """
        with unobserved():
            for _ in range(_MOST_ROUNDS):
                self._propagate()
                if self._is_done() or not self._guess():
                    break
        solution = Solution({}, dict(self.values), dict(self.guessed))
        for tensor, dims in self.dims.items():
            sizes = [d.known for d in dims]
            if None not in sizes:
                solution.shapes[tensor] = tuple(s for s in sizes if s is not None)
        return solution

    def _is_done(self) -> bool:
        return all(t in self.values for t in self.constants) and all(self._exact(t) is not None for t in self.wanted)

    def _propagate(self) -> None:
        """Apply the rules to a fixed point, then lower whole nodes, and repeat until done."""
        before = -1
        while before != self.changes:
            before = self.changes
            for op in self.ops:
                found = rule(op.type)
                if found is not None and op not in self._settled:
                    found(self, op)
            if before == self.changes and not self._is_done():
                for op in self.ops:
                    if op not in self._settled:
                        self._apply(op)

    def _apply(self, op: Operation) -> None:
        found = rule(op.type)
        if found is not None:
            found(self, op)
        if any(t.dtype.name == "variant" for t in (*op.inputs, *op.outputs)):
            return
        shapes = [self._exact(t) for t in op.inputs]
        if None in shapes or (kernel(op.type) is None and op.type not in {"Const", "_Arg", "Placeholder"}):
            return
        known = [self.values.get(t) for t in op.inputs]
        if any(i < len(known) and known[i] is None for i in constant_inputs(op)):
            return
        self._settled.add(op)
        if op.type in {"Const", "_Arg", "Placeholder"}:
            return
        self._infer(op, [s for s in shapes if s is not None], known)

    def _infer(self, op: Operation, shapes: list[tuple[int, ...]], known: list[Array | None]) -> None:
        needed = set(constant_inputs(op))
        try:
            found = exact_shapes(op, shapes, [k if i in needed else None for i, k in enumerate(known)])
        except (NotConstantError, UnknownOpError):
            return
        for tensor, shape in zip(op.outputs, found or (), strict=False):
            if shape is not None:
                self.set_dims(tensor, [Unknown(d) for d in shape])
        self._evaluate(op, shapes, known)

    def _evaluate(self, op: Operation, shapes: list[tuple[int, ...]], known: list[Array | None]) -> None:
        """Evaluate integers: shapes, axes and values computed from them."""
        if not op.outputs or not all(t.dtype.is_integer or t.dtype.name == "bool" for t in op.outputs):
            return
        if op.type not in {"Shape", "ShapeN", "Size", "Rank"} and any(k is None for k in known):
            return
        if any(int(np.prod(s)) > _LARGEST_VALUE for s in map(self._exact, op.outputs) if s is not None):
            return
        values = evaluate_op(op, shapes, known)
        if values is not None:
            self.values.update(zip(op.outputs, values, strict=True))
            self.changes += 1

    def _exact(self, tensor: Tensor) -> tuple[int, ...] | None:
        dims = self.dims.get(tensor)
        if dims is None:
            return None
        sizes = tuple(d.known for d in dims)
        return None if None in sizes else tuple(s for s in sizes if s is not None)

    def may_guess(self, tensor: Tensor) -> bool:
        """Whether a tensor's rank may be guessed: it is requested, or forwarded from one that
        is.
        """
        seen: set[Tensor] = set()
        while (
            tensor not in self._wanted and keeps_first_shape(tensor.op.type) and tensor.op.inputs and tensor not in seen
        ):
            seen.add(tensor)
            tensor = tensor.op.inputs[0]
        return tensor in self._wanted

    def may_guess_size(self, size: Unknown) -> bool:
        """Whether a dimension belongs to a requested tensor."""
        return size.known is None and (size.root().is_derived or size.root() in self._open_sizes)

    def _guess(self) -> bool:
        """Make one more guess; return False if none is left."""
        self._open_sizes = {d.root() for t in self.wanted for d in self.dims.get(t, ()) if d.known is None}
        for op in self.ops:
            found = guess_rule(op.type)
            before = self.changes
            if found is not None and op not in self._settled:
                found(self, op)
            if self.changes != before:
                self._mark(op)
                return True
        for tensor in self.wanted:
            if tensor not in self.dims:
                self.guessed[tensor] = None
                self.with_rank(tensor, self.rank)
                return True
        for tensor in self.wanted:
            for d in self.dims[tensor]:
                if d.known is None:
                    self.guessed[tensor] = None
                    self.fix(d, PICTURE if d.root().is_picture else BATCH, tensor)
                    return True
        return False

    def _mark(self, op: Operation) -> None:
        for tensor in (*op.inputs, *op.outputs):
            if tensor in self._wanted and tensor not in self._given:
                self.guessed[tensor] = None


def stand_in_shapes(
    graph: Graph, wanted: Sequence[Tensor], given: Mapping[Tensor, Sequence[int]], constants: Sequence[Tensor] = ()
) -> Iterator[Solution]:
    """Yield shapes for `wanted` that fit the surrounding nodes, and the values of `constants`.

    `given` are known shapes of tensors of `graph`. There is one solution for each rank that tensors
    of unknown rank may have, the most likely first.

    Raises:
        GraphError: no shapes fit all nodes; the message names a node that fails.
    """
    refusal: GraphError | None = None
    count = 0
    for rank in (1, 2, 0, 4, 3):
        try:
            solution = ShapeSolver(graph, wanted, given, constants, rank).solve()
        except GraphError as error:
            refusal = refusal or error
            continue
        if all(t in solution.shapes for t in wanted):
            count += 1
            yield solution
    if not count:
        raise GraphError(
            f"no consistent shapes for all nodes: {refusal}" if refusal else "the shapes cannot be inferred"
        )
