"""From operations of a TensorFlow graph to one HloModule (TensorFlow's tf2xla/xla_compiler.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.boundary import boundary
from xlanb.contexts import bound
from xlanb.errors import GraphError, LiteralError, ShapeError, UnknownOpError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.optimize.call_expansion import check_expansion
from xlanb.hlo import HloInstruction, HloModule
from xlanb.hlo.attributes import OpMetadata
from xlanb.hlo.builder import HloBuilder
from xlanb.hooks import Hook
from xlanb.shape import ArrayShape
from xlanb.shape.shape import of_array
from xlanb.tf2xla.broadcasting import constant
from xlanb.tf2xla.context import ConstantValues, OpContext, PendingList, Store, Value, VariableState, explain
from xlanb.tf2xla.functionalize_control_flow import functionalized
from xlanb.tf2xla.registry import kernel

_DEEPEST = 40
_HANDS_ON = frozenset(
    {"Identity", "IdentityN", "Enter", "Exit", "NextIteration"}
)  # a handle stays the handle that it was
_DEPTH: ContextVar[int] = ContextVar("xlanb_function_depth", default=0)


@dataclass(frozen=True)
class Argument:
    """A tensor from outside the function.

    `kind` is "parameter" (known at run time), "constant" (known now: `value`) or "variable" (read
    and perhaps written; `shape` is None while it has no value, `value` is its initial value if that
    is to be a literal).
    """

    kind: str
    shape: ArrayShape | None
    value: Any = None
    name: str = ""


@dataclass(frozen=True)
class CompilationResult:
    """The HLO module of a function.

    `parameters` gives the argument of each HLO parameter. The module's root is a tuple: first the
    fetches, then the new values of the variables whose arguments are in `updates`.
    """

    module: HloModule
    parameters: tuple[int, ...]
    fetch_count: int
    updates: tuple[int, ...]


@boundary("lower a graph to HLO")
def lower(
    name: str,
    feeds: Sequence[tuple[Tensor, Argument]],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    *,
    follow_control: bool = True,
) -> CompilationResult:
    """Lower everything between `feeds` and `fetches` (and `targets`) to a module called `name`.

    `targets` are run for their side effects. Every instruction carries its TensorFlow node in its
    metadata (op_type, op_name, source_file, source_line). With `follow_control` False, control
    inputs are ignored, to lower a single op.

    Raises:
        UnknownOpError: an op type has no lowering.
        GraphError: a node's inputs are invalid, or a value that must be constant is not; the
            message names the node.
    """
    given = [t for t, _ in feeds]
    if follow_control:
        given, fetches, targets = functionalized(given, fetches, targets)
    state = _Lowering(name, [(t, a) for t, (_, a) in zip(given, feeds, strict=True)])
    ops = between(given, fetches, targets, follow_control=follow_control)
    if ops:
        check_expansion(f"{name!r} cannot be lowered", ops, ops[0].graph.functions)
    for op in ops:
        state.run(op)
    return state.finish(fetches)


def between(
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    *,
    follow_control: bool = True,
) -> list[Operation]:
    """List the operations that `fetches` and `targets` need given `feeds`, in topological order.

    Raises:
        GraphError: there is a cycle.
    """
    fed = set(feeds)
    order: dict[Operation, None] = {}
    open_: set[Operation] = set()
    stack = [*(reversed(targets)), *(t.op for t in reversed(fetches) if t not in fed)]
    while stack:
        op = stack[-1]
        if op in order:
            stack.pop()
            continue
        if op in open_:
            stack.pop()
            order[op] = None
            continue
        open_.add(op)
        before = [*(t.op for t in op.inputs if t not in fed), *(op.control_inputs if follow_control else ())]
        for o in reversed(before):
            if o in order:
                continue
            if o in open_:
                raise GraphError(f"nodes {o.name!r} and {op.name!r} form a cycle")
            stack.append(o)
    return list(order)


class _Lowering:
    """The state of one `lower`: HLO by tensor, variables by argument."""

    def __init__(self, name: str, feeds: Sequence[tuple[Tensor, Argument]]) -> None:
        self.module = HloModule(name)
        self.b = HloBuilder("main", self.module)
        self.values: dict[Tensor, Value] = {}
        self.variables: list[VariableState] = []
        self.constants = ConstantValues()
        self.parameters: list[int] = []
        for position, (tensor, argument) in enumerate(feeds):
            self._feed(position, tensor, argument)

    def _feed(self, position: int, tensor: Tensor, argument: Argument) -> None:
        with self.b.metadata(OpMetadata(op_type=tensor.op.type, op_name=tensor.op.name)):
            value: HloInstruction | None = None
            if argument.value is not None:
                value = constant(self.b, np.asarray(argument.value))
            elif argument.shape is not None:
                value = self.b.parameter(len(self.parameters), argument.shape, f"arg{len(self.parameters)}")
                self.parameters.append(position)
        if argument.kind == "variable":
            variable = VariableState(argument.name or tensor.op.name, position, value)
            self.variables.append(variable)
            self.values[tensor] = variable
        else:
            self.values[tensor] = value

    def run(self, op: Operation) -> None:
        """Lower one operation after its inputs."""
        lower_op(op, self.values, self.b, self.constants)

    def finish(self, fetches: Sequence[Tensor]) -> CompilationResult:
        """Close the module over its results."""
        results: list[HloInstruction] = []
        for tensor in fetches:
            value = self.values[tensor]
            value = value.value if isinstance(value, VariableState) else value
            if value is None or isinstance(value, PendingList):
                raise GraphError(f"tensor {tensor.name!r} has no value to fetch")
            results.append(value)
        written = [v for v in self.variables if v.is_written and v.value is not None]
        results.extend(v.value for v in written if v.value is not None)
        module = self.b.build(self.b.tuple(results))
        # shapes and axes that were needed only while lowering leave no trace
        for i in reversed(module.entry_computation.instructions):
            module.entry_computation.remove_dead(i)
        return CompilationResult(module, tuple(self.parameters), len(fetches), tuple(v.argument for v in written))


def lower_op(op: Operation, values: dict[Tensor, Value], b: HloBuilder, constants: ConstantValues) -> None:
    """Lower one operation: its inputs are in `values`, its outputs go there.

    Raises:
        UnknownOpError: the op type has no lowering.
        GraphError: the inputs do not fit; the message names the node.
    """
    found = kernel(op.type)
    if found is None:
        raise UnknownOpError(f"node {op.name!r}: no lowering to HLO for op {op.type!r}{_reason(op)}")
    inputs = [values[t] for t in op.inputs]
    if op.type in _HANDS_ON and any(isinstance(v, PendingList | Store) for v in inputs):
        values.update(zip(op.outputs, inputs, strict=True))
        return
    metadata = OpMetadata(op_type=op.type, op_name=op.name, source_file=op.source_file, source_line=op.source_line)
    with b.metadata(metadata):
        try:
            context = OpContext(op, inputs, b, constants)
            context.check_ranks(found.ranks)
            result = found.lower(context)
        except (ShapeError, LiteralError) as error:
            raise explain(op, inputs, error) from error
    results: Sequence[Value] = result if isinstance(result, list | tuple) else (result,)
    for index, output in enumerate(op.outputs):
        value: Value = results[index] if index < len(results) else None
        if output.dtype.is_ref_dtype and value is None and op.inputs:
            value = values[op.inputs[0]]  # an op on a reference variable forwards the variable
        elif output.dtype.name in {"resource", "variant"} and op.type in _HANDS_ON:
            value = values[op.inputs[index]]
        values[output] = value


runs_on_host: Hook[[str], bool] = Hook("tf2xla.runs_on_host")


def _reason(op: Operation) -> str:
    """Say why TensorFlow's XLA does not compile the op either, and what to do."""
    if op.type == "_XlaAotOnlyVarHandleOp":
        return " (TensorFlow: for ahead-of-time compilation only). Name it as a variable in the config of `xlanb aot`"
    reason = f"TensorFlow: No registered '{op.type}' OpKernel for XLA_CPU_JIT devices"
    if not runs_on_host(op.type):
        return f" ({reason})"
    return (
        f"; it runs on the host ({reason}). A session runs it, and compiles the nodes around it: "
        "xlanb.tf.Session(xlanb.tf.Graph.from_tensorflow(function, ...))"
    )


def lower_body(body: Graph, inputs: Sequence[Value], b: HloBuilder, constants: ConstantValues) -> list[Value]:
    """Lower a function's body in place of its call; the values of its results.

    Raises:
        GraphError: as `lower_op`; also where the body's arguments are not those of the call.
    """
    depth = _DEPTH.get() + 1
    if depth > _DEEPEST:
        raise GraphError(f"functions are nested more than {_DEEPEST} deep at {body.name!r}: does it call itself?")
    with bound(_DEPTH, depth):
        return _lower_inside(body, inputs, b, constants)


def _lower_inside(body: Graph, inputs: Sequence[Value], b: HloBuilder, constants: ConstantValues) -> list[Value]:
    values: dict[Tensor, Value] = {}
    results: dict[int, Value] = {}
    for op in body.topological_order():
        if op.type == "_Arg":
            index = int(op.attrs["index"])
            if not 0 <= index < len(inputs):
                raise GraphError(
                    f"function {body.name!r} has an argument {index}, but its call passes {len(inputs)} arguments"
                )
            values[op.outputs[0]] = inputs[index]
        elif op.type == "_Retval":
            results[int(op.attrs["index"])] = values[op.inputs[0]]
        else:
            lower_op(op, values, b, constants)
    return [results[i] for i in sorted(results)]


def argument_of(value: Any, *, kind: str = "parameter", name: str = "") -> Argument:
    """The argument that an array is, with its own shape and dtype."""
    array = np.asarray(value)
    return Argument(kind, of_array(array), array if kind == "constant" else None, name)
