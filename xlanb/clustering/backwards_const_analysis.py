"""Find nodes that must be compile-time constants (TensorFlow's BackwardsConstAnalysis): from inputs
that lowerings need, back through their producers.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.clustering.node_graph import CONTROL, Edge, NodeGraph
from xlanb.errors import GraphValueError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.graph.ops.op_def import ArgDef
from xlanb.graph.ops.table import find_op
from xlanb.tf2xla.const_analysis import constant_inputs
from xlanb.tf2xla.registry import kernel

_METADATA = frozenset(
    {"Shape", "ShapeN", "Rank", "Size", "VariableShape", "TensorListLength", "TensorListElementShape"}
)
# Inputs that TensorFlow's kernels must know, for op types that have no lowering here.
_UNLOWERED = {
    "DynamicStitch": ("indices",),
    "ParallelDynamicStitch": ("indices",),
    "EmptyTensorList": ("element_shape", "max_num_elements"),
    "NonMaxSuppressionV3": ("max_output_size",),
    "NonMaxSuppressionV4": ("max_output_size",),
    "ParameterizedTruncatedNormal": ("shape",),
    "ResizeBilinear": ("size",),
    "ResizeNearestNeighbor": ("size",),
    "RngReadAndSkip": ("alg",),
    "RngSkip": ("algorithm",),
    "SparseToDense": ("output_shape",),
    "StackV2": ("max_size",),
    "StatefulStandardNormalV2": ("algorithm", "shape"),
    "StatefulTruncatedNormal": ("algorithm", "shape"),
    "StatefulUniform": ("algorithm", "shape"),
    "StatefulUniformFullInt": ("algorithm", "shape"),
    "StatefulUniformInt": ("algorithm", "shape"),
    "StatelessParameterizedTruncatedNormal": ("shape",),
    "TensorArrayV3": ("size",),
    "TensorListConcatV2": ("element_shape",),
    "TensorListFromTensor": ("element_shape",),
    "TensorListReserve": ("element_shape", "num_elements"),
    "XlaBroadcastHelper": ("broadcast_dims",),
    "XlaConv": ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count"),
    "XlaConvV2": ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count"),
    "XlaDynamicSlice": ("size_indices",),
    "XlaGather": ("slice_sizes",),
    "XlaPad": ("padding_low", "padding_high", "padding_interior"),
    "XlaReduceWindow": ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"),
    "XlaSelectAndScatter": ("window_dimensions", "window_strides", "padding"),
    "XlaVariadicSort": ("dimension",),
}


def must_be_constant(
    graph: NodeGraph, order: list[int], is_followed: Callable[[Edge], bool] = lambda _: True
) -> set[int]:
    """Return nodes whose value some kernel needs at compile time.

    `order` is topological; `is_followed` selects the edges to follow.
    """
    found: set[int] = set()
    for node in reversed(order):
        op = graph.op(node)
        if op.type in _METADATA:
            continue  # it needs only the shape
        wanted = None if node in found else set(_constant_positions(op))
        if wanted is not None and not wanted:
            continue
        for edge in graph.in_edges[node]:
            if edge.slot != CONTROL and (wanted is None or edge.slot in wanted):
                source = _source(graph, edge, is_followed)
                if source is not None:
                    found.add(source)
    return found


def _source(graph: NodeGraph, edge: Edge, is_followed: Callable[[Edge], bool]) -> int | None:
    """Return the node that makes a value, looking through IdentityN, which forwards each input."""
    while is_followed(edge):
        if graph.type(edge.src) != "IdentityN":
            return edge.src
        edge = next(e for e in graph.in_edges[edge.src] if e.slot == edge.port)
    return None


def _constant_positions(op: Operation) -> list[int]:
    named = op.attrs.get("_XlaCompileTimeConstantInputs")
    if named is None and kernel(op.type) is None:
        named = _UNLOWERED.get(op.type)
    if named is None:
        return constant_inputs(op)
    return [i for i, name in enumerate(input_names(op)) if name in named]


def input_names(op: Operation) -> list[str]:
    """Return the name of each input by the op's definition, a list's name once per tensor.

    Empty for unknown op types.
    """
    definition = find_op(op.type)
    names: list[str] = []
    for arg in definition.inputs if definition is not None else ():
        names += [arg.name] * _count(op, arg)
    return names


def check_arity(graph: Graph) -> None:
    """Raise GraphValueError if a node's number of inputs or outputs is not its op's; shows the
    node.
    """
    for op in graph:
        definition = find_op(op.type)
        if definition is None or op.type in graph.functions:
            continue
        for what, args, tensors in (("takes", definition.inputs, op.inputs), ("gives", definition.outputs, op.outputs)):
            node = f"node {op.name!r} = {op.type}({', '.join(op.node_inputs)})"
            lists = [a.number_attr or a.type_list_attr for a in args if a.is_list]
            missing = [n for n in lists if n not in op.attrs and not definition.attr_defs[n].has_default]
            if missing:
                raise GraphValueError(f"{node} lacks the attribute {missing[0]!r}")
            if any(n not in op.attrs for n in lists):
                continue  # a default of the op, which does not describe this node's tensors
            count = sum(_count(op, a) for a in args)
            if count != len(tensors):
                names = ", ".join(a.name for a in args) or "none"
                raise GraphValueError(f"{node}: op {op.type} {what} {count} tensors ({names}), not {len(tensors)}")


def _count(op: Operation, arg: ArgDef) -> int:
    if arg.number_attr:
        return int(op.attrs.get(arg.number_attr, 1))
    return len(op.attrs.get(arg.type_list_attr, ())) if arg.type_list_attr else 1
