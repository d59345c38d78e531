"""Colour families: the kind of an op's work.

The front end gives each family a colour, and always writes the op's own name too.
"""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode

_HLO = {
    "elementwise": "element",
    "data": "data",
    "leaf": "constant",
    "reduction": "reduce",
    "linalg": "matrix",
    "nn": "norm",
    "control": "control",
    "collective": "comm",
    "token": "comm",
    "async": "comm",
    "side": "comm",
    "dynamic": "data",
}

# TensorFlow ops by kind of work; others go by name below, else they are elementwise.
_TF = {
    "input": "Placeholder PlaceholderWithDefault PlaceholderV2 _Arg",
    "variable": "Variable VariableV2 VarHandleOp ReadVariableOp AssignVariableOp AssignAddVariableOp "
    "AssignSubVariableOp Assign AssignAdd AssignSub TemporaryVariable",
    "constant": "Const HostConst Fill Range ZerosLike OnesLike",
    "matrix": "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Svd Qr Cholesky MatrixInverse",
    "reduce": "Sum Mean Prod Max Min All Any ArgMax ArgMin SparseSoftmaxCrossEntropyWithLogits "
    "SoftmaxCrossEntropyWithLogits Softmax LogSoftmax L2Loss",
    "data": "Reshape Transpose Concat ConcatV2 Split SplitV Slice StridedSlice Pack Unpack Pad PadV2 Tile "
    "Gather GatherV2 GatherNd ExpandDims Squeeze Shape BroadcastTo BroadcastGradientArgs Cast Reverse ReverseV2 "
    "Identity IdentityN Snapshot OneHot Size Rank",
    "control": "NoOp Switch Merge Enter Exit NextIteration LoopCond While StatelessWhile If StatelessIf Case "
    "PartitionedCall StatefulPartitionedCall _Retval Assert",
    "launch": "_XlaCompile _XlaRun _XlaMerge _XlaLaunch XlaLaunch _XlaLaunchOp XlaLaunchOp",
    "comm": "_Send _Recv _HostSend _HostRecv PyFunc Print PrintV2",
}
VARIABLE_OPS = frozenset(("Variable", "VariableV2", "VarHandleOp", "TemporaryVariable"))
"""TensorFlow ops that are a variable, rather than read or write one."""
_TF_FAMILY = {op: f"tf-{family}" for family, ops in _TF.items() for op in ops.split()}


def hlo_family(opcode: HloOpcode) -> str:
    """The family of an HLO opcode."""
    if opcode is HloOpcode.PARAMETER:
        return "input"
    if opcode is HloOpcode.FUSION:
        return "fusion"
    if opcode is HloOpcode.CONVOLUTION:
        return "matrix"
    return _HLO.get(opcode.kind, "element")


def tf_family(op: str) -> str:
    """The family of a TensorFlow op type, with the prefix "tf-"."""
    known = _TF_FAMILY.get(op)
    if known is not None:
        return known
    if op.startswith(("ResourceApply", "Apply")):
        return "tf-variable"
    if "Conv" in op:
        return "tf-matrix"
    if "Pool" in op:
        return "tf-reduce"
    if "Norm" in op or op in ("LRN", "LRNGrad"):
        return "tf-norm"
    if op.startswith(("Random", "StatelessRandom")):
        return "tf-constant"
    return "tf-element"
