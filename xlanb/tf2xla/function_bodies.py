"""Copy parts of a graph, between some tensors and their sources, into function bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xlanb.graph.dtypes import DType
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape

ArgumentOf = Callable[[Tensor], int | None]
Holds = Callable[[Operation], bool]


class FunctionBody:
    """A function body under construction, with copies of operations of `source`.

    `argument_of` returns the argument number for a tensor from outside, None for one whose
    operation is copied; `holds` says which control inputs belong to the body.
    """

    def __init__(self, source: Graph, name: str, argument_of: ArgumentOf, holds: Holds) -> None:
        self.graph = Graph(name)
        self.graph.functions = source.functions
        self.graph.seed = source.seed
        self._source = source
        self._argument_of = argument_of
        self._holds = holds
        self._copies: dict[Operation, Operation] = {}
        self._arguments: dict[int, Tensor] = {}
        self._results = 0

    def copies(self, ops: Iterable[Operation]) -> None:
        """Take operations in, and all that they need."""
        for op in self._order(ops):
            copy = self.graph.add_op(op.type, op.name, dtypes=[t.dtype for t in op.outputs], attrs=op.attrs)
            copy.source_file, copy.source_line = op.source_file, op.source_line
            self._copies[op] = copy
            for tensor in op.inputs:
                copy.add_input(self.inside(tensor))
            for waited in op.control_inputs:
                if waited in self._copies:
                    copy.add_control_input(self._copies[waited])
            for old, new in zip(op.outputs, copy.outputs, strict=True):
                new.adopt_shape(old)

    def inside(self, tensor: Tensor) -> Tensor:
        """Return a tensor's counterpart in the body: an argument, or the output of a copy."""
        index = self._argument_of(tensor)
        if index is not None:
            return self.argument(index, tensor)
        if tensor.op not in self._copies:
            self.copies([tensor.op])
        return self._copies[tensor.op].outputs[tensor.value_index]

    def argument(self, index: int, like: Tensor) -> Tensor:
        """Return argument `index`; make a missing one of the dtype and shape of `like`."""
        found = self._arguments.get(index)
        if found is None:
            name = self.graph.unique_name(f"arg_{index}")
            found = self.graph.add_op("_Arg", name, (), [like.dtype], {"T": like.dtype, "index": index}).outputs[0]
            found.adopt_shape(like)
            self._arguments[index] = found
        return found

    def result(self, value: Tensor) -> None:
        """Give a tensor of the body back as its next result."""
        attrs = {"T": value.dtype, "index": self._results}
        self.graph.add_op("_Retval", self.graph.unique_name(f"retval_{self._results}"), [value], [], attrs)
        self._results += 1

    def finish(self, arguments: Sequence[Tensor]) -> FunctionRef:
        """Add the function to the library, with one argument for each tensor, used or not."""
        for index, tensor in enumerate(arguments):
            self.argument(index, tensor)
        function = GraphFunction.of_body(self.graph.name, self.graph)
        self._source.functions[function.name] = function
        return FunctionRef(function.name)

    def _order(self, ops: Iterable[Operation]) -> list[Operation]:
        """The operations to copy, each after its inputs."""
        order: dict[Operation, None] = {}
        opened: set[Operation] = set()
        stack = list(ops)[::-1]
        while stack:
            op = stack[-1]
            if op in order or op in self._copies:
                stack.pop()
            elif op in opened:
                order[op] = None
                stack.pop()
            else:
                opened.add(op)
                stack += [o for o in self._needs(op) if o not in opened and o not in self._copies]
        return list(order)

    def _needs(self, op: Operation) -> list[Operation]:
        found = [t.op for t in op.inputs if self._argument_of(t) is None]
        return found + [o for o in op.control_inputs if self._holds(o)]


def free_name(graph: Graph, wanted: str) -> str:
    """A name that no function of the library has."""
    name, number = wanted.replace("/", "_"), 0
    while name in graph.functions:
        number += 1
        name = f"{wanted.replace('/', '_')}_{number}"
    return name


def call_function(
    graph: Graph,
    op_type: str,
    name: str,
    inputs: Sequence[Tensor],
    results: Sequence[tuple[DType, TensorShape]],
    attrs: dict[str, object],
    waits: Iterable[Operation],
) -> Operation:
    """A node that calls functions of the library, with its results' dtypes and shapes."""
    made = graph.add_op(op_type, graph.unique_name(name), inputs, [d for d, _ in results], attrs, waits)
    for tensor, (_, shape) in zip(made.outputs, results, strict=True):
        tensor.give_shape(shape.as_tuple())
    return made
