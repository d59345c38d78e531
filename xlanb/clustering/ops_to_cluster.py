"""The op lists of --tf_xla_ops_to_cluster: FUSIBLE, or PW, RED, BN, ..., or op types.

Source: mark_for_compilation_pass.cc.
"""

from __future__ import annotations

from xlanb.clustering.xla_kernels import kernel_types
from xlanb.debug_options import DebugOptions
from xlanb.errors import FlagError

_WINDOW = "ArgMax ArgMin DiagPart Softmax SparseSoftmaxCrossEntropyWithLogits LogSoftmax"
SHORTCUTS: dict[str, str] = {
    "PW": (
        "ComplexAbs Angle Conj Abs Acos Acosh Asin Atan Atanh Ceil Cos Cosh Sin Exp Expm1 Floor IsFinite IsInf "
        "IsNan Inv Reciprocal Log Log1p Invert LogicalNot Ndtri Neg Rint Round Rsqrt Sigmoid Sign Sinh Softplus "
        "Softsign Sqrt Square Tan Tanh Real Imag Erf Erfc Erfinv Lgamma Digamma Add AddV2 Sub Mul Div Atan2 Complex "
        "DivNoNan MulNoNan FloorDiv Xlogy Xlog1py Xdivy FloorMod BitwiseAnd BitwiseOr BitwiseXor LeftShift "
        "RightShift LogicalAnd LogicalOr Mod Maximum Minimum RealDiv ReciprocalGrad RsqrtGrad SqrtGrad TruncateDiv "
        "TruncateMod Equal NotEqual Greater GreaterEqual Less LessEqual SigmoidGrad SoftplusGrad SoftsignGrad "
        "TanhGrad Pow SquaredDifference ApproximateEqual AddN Bitcast Cast ClipByValue Const Empty Identity "
        "IdentityN Relu Relu6 ReluGrad Relu6Grad LeakyReluGrad Elu EluGrad Selu SeluGrad Select SelectV2 Transpose "
        "ConjugateTranspose _UnaryOpsComposition CollectiveReduceV2 CollectiveAssignGroupV2 PlaceholderWithDefault "
        "PreventGradient StopGradient Snapshot _EagerConst"
    ),
    "RED": "All Any Min Max Mean Prod Sum",
    "PWRED": _WINDOW,
    "REDUCEWINDOW": _WINDOW,
    "REDUCEWINDOWPW": "BiasAddGrad LRN LRNGrad",
    "BN": "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx FusedBatchNormGrad "
    "FusedBatchNormGradV2 FusedBatchNormGradV3",
    "Conv": "_FusedConv2D",
    "SORT": "TopKV2",
    "MISC": (
        "ApproxTopK BroadcastTo ExpandDims Fill NoOp Range Rank Reshape Shape ShapeN Size Squeeze Transpose "
        "ZerosLike OnesLike BiasAdd BroadcastArgs BroadcastGradientArgs OneHot Concat ConcatV2 ConcatOffset Const "
        "MirrorPad MirrorPadGrad Pack Pad PadV2 Reverse ReverseV2 ReverseSequence Slice Split SplitV StridedSlice "
        "StridedSliceGrad ResourceStridedSliceAssign Tile InvertPermutation Unpack DeviceIndex "
        "TensorStridedSliceUpdate XlaConcatND XlaSplitND"
    ),
}


def listed_ops(flags: DebugOptions) -> frozenset[str]:
    """Return the op types that may be clustered; empty if all may.

    Raises:
        FlagError: --tf_xla_ops_to_cluster or --tf_xla_cluster_exclude_ops has an op type unknown to
            XLA.
    """
    excluded = [op for op in flags.tf_xla_cluster_exclude_ops if op != "Where"]
    if excluded:
        raise FlagError(
            f"The operation '{excluded[0]}' passed to --tf_xla_cluster_exclude_ops is not supported by XLA: "
            "only Where is."
        )
    found: set[str] = set()
    for word in flags.tf_xla_ops_to_cluster:
        if word == "FUSIBLE":
            found.update(op for ops in SHORTCUTS.values() for op in ops.split())
        elif word in SHORTCUTS:
            found.update(SHORTCUTS[word].split())
        elif word in _known():
            found.add(word)
        else:
            raise FlagError(f"The operation '{word}' passed to --tf_xla_ops_to_cluster is not supported by XLA.")
    return frozenset(found)


def _known() -> frozenset[str]:
    return frozenset(kernel_types())
