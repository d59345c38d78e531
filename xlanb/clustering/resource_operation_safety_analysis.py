"""Find pairs of resource operations that must not share a cluster.

A cluster reads all variables when it begins and writes them when it ends. So a read may precede
anything, and a write may follow anything; but a read (or a change) that follows a write (or a
change) must be in another cluster. Source: TensorFlow's resource_operation_safety_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.clustering.node_graph import NodeGraph
from xlanb.graph.functions import FunctionRef
from xlanb.graph.operation import Operation

READ, WRITE, MODIFY = "Read", "Write", "Modify"
VARIABLE, STACK, TENSOR_ARRAY = "variable", "stack", "tensor array"

_TABLE = {
    (
        READ,
        VARIABLE,
    ): "CollectiveReduceV2 ReadVariableOp ReadVariableXlaSplitND ResourceGather VarIsInitializedOp VariableShape",
    (WRITE, VARIABLE): "AssignVariableOp AssignVariableXlaConcatND",
    (MODIFY, VARIABLE): (
        "AssignAddVariableOp AssignSubVariableOp ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad "
        "ResourceApplyAdagradV2 ResourceApplyAdagradDA ResourceApplyAdam ResourceApplyAddSign "
        "ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent "
        "ResourceApplyMomentum ResourceApplyKerasMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad "
        "ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceScatterAdd ResourceScatterDiv "
        "ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdSub "
        "ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate ResourceStridedSliceAssign RngReadAndSkip "
        "RngSkip StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt "
        "StatefulUniformInt"
    ),
    (READ, STACK): "StackCloseV2",
    (WRITE, STACK): "StackV2",
    (MODIFY, STACK): "StackPopV2 StackPushV2",
    (READ, TENSOR_ARRAY): (
        "TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayGradV3 TensorArrayCloseV3 TensorArrayReadV3 "
        "TensorArraySizeV3"
    ),
    (WRITE, TENSOR_ARRAY): "TensorArrayV3 TensorArrayScatterV3 TensorArraySplitV3 TensorArrayWriteV3",
}
# op type -> (kind of access, kind of resource)
RESOURCE_OPS: dict[str, tuple[str, str]] = {op: kinds for kinds, ops in _TABLE.items() for op in ops.split()}


def resource_kind(op_type: str) -> str:
    """VARIABLE, STACK or TENSOR_ARRAY, "" for other op types."""
    return RESOURCE_OPS.get(op_type, ("", ""))[1]


def has_resource(op: Operation) -> bool:
    """Whether a node takes or gives a handle of a resource."""
    return any(t.dtype.name == "resource" for t in (*op.inputs, *op.outputs))


def may_call_function(op: Operation) -> bool:
    """Whether a node calls a function, or has an attribute that names one."""
    return op.type in op.graph.functions or any(isinstance(v, FunctionRef) for v in op.attrs.values())


def access(op: Operation) -> str:
    """Return READ, WRITE or MODIFY, "" if no resource is used; a call is assumed to MODIFY."""
    known = RESOURCE_OPS.get(op.type)
    return known[0] if known else MODIFY if may_call_function(op) else ""


def describe_access(op: Operation) -> str:
    """As TensorFlow logs it: `[v/Assign: AssignVariableOp(Write)]`."""
    return f"[{op.name}: {op.type}({access(op)})]"


def incompatible_resource_operations(
    graph: NodeGraph, order: list[int], is_ignored: Callable[[Operation], bool]
) -> dict[int, frozenset[int]]:
    """Return for each operation the later ones that it must not share a cluster with.

    `order` is topological.
    """
    reaching: dict[int, frozenset[int]] = {}
    unsafe: dict[int, set[int]] = {}
    done = set()
    for node in order:
        op = graph.op(node)
        # What comes back through NextIteration has not been visited yet, and does not count.
        sets = {reaching[e.src] for e in graph.in_edges[node] if e.src in done and reaching[e.src]}
        before = sets.pop() if len(sets) == 1 else frozenset().union(*sets)
        does = "" if is_ignored(op) else access(op)
        if does in (READ, MODIFY):
            for earlier in before:
                unsafe.setdefault(earlier, set()).add(node)
        reaching[node] = before | {node} if does in (WRITE, MODIFY) else before
        done.add(node)
    return {node: frozenset(later) for node, later in unsafe.items()}
