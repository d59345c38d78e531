"""Valid inputs and attributes for each op type that tf2xla compiles.

A shape (a tuple) means values of the input's dtype; `D` bounds them; an array or list of numbers is
used directly; `K` makes it a constant of the graph, as shapes, axes and sizes must be at compile
time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.peers.op_programs import PROGRAMS as _XLA_PROGRAMS


@dataclass(frozen=True)
class D:
    """Values of this shape between two bounds."""

    shape: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True)
class K:
    """A constant of the graph."""

    value: Any


@dataclass(frozen=True)
class V:
    """A resource variable that holds such values."""

    held: Any


@dataclass(frozen=True)
class Case:
    """A call of an op type: `args` are inputs and attributes by TensorFlow's names.

    `compare` says how its results are compared.
    """

    args: dict[str, Any] = field(default_factory=dict)
    compare: str = "values"


def case(compare: str = "values", /, **args: Any) -> Case:
    """A case from its arguments."""
    return Case(args, compare)


def _of(names: str, made: Case) -> dict[str, Case]:
    return dict.fromkeys(names.split(), made)


_POSITIVE = (0.2, 3.0)
_IMAGE = (2, 6, 6, 4)
_CONV = {"strides": [1, 2, 2, 1], "padding": "SAME"}
_POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
_POOL3 = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
_ROWS = np.array([0, 2, 1, 2])
_BN = {"x": (2, 3, 3, 4), "scale": (4,), "epsilon": 0.01}
_ONE = D((), 0.1, 0.9)
_LR = D((), 0.1, 0.3)
_VAR = (3, 4)
_ACC = D((3, 4), 0.2, 2.0)
_SPD = np.array([[4.0, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]])
_KEY, _CTR = np.array([123456789], np.uint64), np.array([77, 99], np.uint64)
_SEED = K(np.array([5, 9]))
_SHAPE = K([3, 5])


CASES: dict[str, Case] = {
    # ---------------------------------------------------------------------------------- elementwise
    **_of("Abs Neg Sign Square Cos Sin Tan Tanh Sigmoid Erf Erfc Exp Expm1 Atan Asinh Sinh Cosh Ceil Floor Rint Round Elu Relu Relu6 Selu Softplus Softsign "
          "LeakyRelu Conj IsFinite IsInf IsNan Invert PopulationCount LogicalNot Identity Snapshot StopGradient PreventGradient ZerosLike OnesLike Rank Size "
          "Shape BesselI0e BesselI1e XlaOptimizationBarrier Real Imag Angle ComplexAbs Diag", case()),
    "CheckNumerics": case(tensor=(2, 3), message="not finite"),
    **_of("Log Sqrt Rsqrt Lgamma Digamma Inv Reciprocal Log1p", case(x=D((2, 3), *_POSITIVE))),
    **_of("Acos Asin Atanh Erfinv", case(x=D((2, 3), -0.9, 0.9))),
    "Acosh": case(x=D((2, 3), 1.2, 4)),
    "Ndtri": case(x=D((2, 3), 0.1, 0.9)),
    **_of("Add AddV2 Sub Mul Maximum Minimum SquaredDifference Equal NotEqual Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr BitwiseAnd BitwiseOr "
          "BitwiseXor ApproximateEqual DivNoNan MulNoNan Atan2 NextAfter Complex", case(x=(2, 3), y=(2, 3))),
    **_of("Div RealDiv FloorDiv TruncateDiv FloorMod Mod TruncateMod Xdivy Xlogy Xlog1py", case(x=(2, 3), y=D((2, 3), 1.2, 4))),
    "Pow": case(x=D((2, 3), 1, 3), y=D((2, 3), 0, 3)),
    **_of("LeftShift RightShift", case(x=(2, 3), y=D((2, 3), 0, 3))),
    **_of("EluGrad SeluGrad", case(gradients=(2, 3), outputs=(2, 3))),
    **_of("ReluGrad Relu6Grad LeakyReluGrad SoftplusGrad SoftsignGrad", case(gradients=(2, 3), features=(2, 3))),
    **_of("SigmoidGrad TanhGrad", case(y=D((2, 3), 0.1, 0.9), dy=(2, 3))),
    **_of("ReciprocalGrad RsqrtGrad SqrtGrad", case(y=D((2, 3), *_POSITIVE), dy=(2, 3))),
    "Betainc": case(a=D((2, 3), 0.5, 3), b=D((2, 3), 0.5, 3), x=D((2, 3), 0.1, 0.9)),
    **_of("Igamma Igammac IgammaGradA", case(a=D((2, 3), 0.5, 3), x=D((2, 3), 0.2, 4))),
    "RandomGammaGrad": case(alpha=D((2, 3), 0.5, 3), sample=D((2, 3), 0.2, 4)),
    "Polygamma": case(a=np.array([[0.0, 1, 2], [3, 1, 2]]), x=D((2, 3), 0.5, 4)),
    "Zeta": case(x=D((2, 3), 1.5, 4), q=D((2, 3), 0.5, 4)),
    "ClipByValue": case(t=(2, 3), clip_value_min=D((), 0, 1), clip_value_max=D((), 2, 3)),
    "AddN": case(inputs=[(2, 3), (2, 3), (2, 3)]),
    "Select": case(condition=(2, 3), t=(2, 3), e=(2, 3)),
    "SelectV2": case(condition=(3,), t=(2, 3), e=(2, 3)),
    "Bucketize": case(input=(2, 3), boundaries=[-1.0, 0.5, 1.5]),
    "Cast": case(x=D((2, 3), 0, 3)),
    "Bitcast": case(input=(2, 8)),
    "_UnaryOpsComposition": case(x=D((2, 3), *_POSITIVE), op_names=["Exp", "Sqrt"]),
    "StochasticCastToInt": case("shape", input=(2, 3), key=_KEY, counter=_CTR, alg=K(1)),
    # ----------------------------------------------------------------------------------- reductions
    **_of("Sum Max Min Mean Prod", case(input=(2, 3, 4), axis=K([0, 2]))),
    **_of("All Any", case(input=(2, 3), axis=K([1]))),
    **_of("ArgMax ArgMin", case(input=(2, 5), dimension=K(1))),
    **_of("Cumsum Cumprod CumulativeLogsumexp", case(x=D((2, 4), 0.5, 2), axis=K(1))),
    "L2Loss": case(t=(2, 3)),
    **_of("SegmentSumV2 SegmentMaxV2 SegmentMinV2 SegmentProdV2", case(data=(4, 2), segment_ids=np.array([0, 0, 1, 2]), num_segments=K(4))),
    **_of("UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd", case(data=(4, 2), segment_ids=_ROWS, num_segments=K(4))),
    "Bincount": case(arr=np.array([0, 2, 1, 2]), size=K(4), weights=(4,)),
    "DenseBincount": case(input=np.array([0, 2, 1, 2]), size=K(4), weights=(4,)),
    # --------------------------------------------------------------------------------------- arrays
    "BroadcastArgs": case(s0=K([2, 1]), s1=K([3])),
    "BroadcastGradientArgs": case(s0=K([2, 1]), s1=K([3])),
    "BroadcastTo": case(input=(1, 3), shape=K([2, 3])),
    "Concat": case(concat_dim=K(1), values=[(2, 3), (2, 2)]),
    "ConcatV2": case(values=[(2, 3), (2, 2)], axis=K(1)),
    "ConcatOffset": case(concat_dim=K(1), shape=[K([2, 3]), K([2, 2])]),
    "ConjugateTranspose": case(x=(2, 3), perm=K([1, 0])),
    "Transpose": case(x=(2, 3, 4), perm=K([2, 0, 1])),
        "DataFormatDimMap": case(x=np.array([0, 1, 3])),
    "DataFormatVecPermute": case(x=np.array([1, 2, 3, 4])),
    **_of("DepthToSpace SpaceToDepth", case(input=(2, 4, 4, 8), block_size=2)),
    "BatchToSpace": case(input=(4, 2, 2, 3), crops=K([[0, 1], [0, 0]]), block_size=2),
    "BatchToSpaceND": case(input=(4, 2, 2, 3), block_shape=K([2, 2]), crops=K([[0, 1], [0, 0]])),
    "SpaceToBatch": case(input=(1, 3, 4, 2), paddings=K([[0, 1], [0, 0]]), block_size=2),
    "SpaceToBatchND": case(input=(1, 3, 4, 2), block_shape=K([2, 2]), paddings=K([[0, 1], [0, 0]])),
    "DiagPart": case(input=(3, 3)),
    "MatrixDiag": case(diagonal=(2, 3)),
    "MatrixDiagPart": case(input=(2, 3, 4)),
    "MatrixDiagPartV2": case(input=(2, 3, 4), k=K([-1, 1]), padding_value=K(1)),
    "MatrixDiagPartV3": case(input=(2, 3, 4), k=K([-1, 1]), padding_value=K(1), align="LEFT_RIGHT"),
    "MatrixDiagV2": case(diagonal=(2, 3, 3), k=K([-1, 1]), num_rows=K(3), num_cols=K(3), padding_value=K(1)),
    "MatrixDiagV3": case(diagonal=(2, 3, 3), k=K([-1, 1]), num_rows=K(3), num_cols=K(3), padding_value=K(1), align="RIGHT_LEFT"),
    "MatrixSetDiag": case(input=(2, 3, 4), diagonal=(2, 3)),
    "MatrixSetDiagV2": case(input=(2, 3, 4), diagonal=(2, 3), k=K(0)),
    "MatrixSetDiagV3": case(input=(2, 3, 4), diagonal=(2, 2, 3), k=K([0, 1]), align="LEFT_LEFT"),
    "MatrixBandPart": case(input=(2, 4, 4), num_lower=K(1), num_upper=K(0)),
    "Empty": case("shape", shape=_SHAPE, dtype=None, init=True),
    "EnsureShape": case(input=(2, 3), shape=[2, None]),
    "ExpandDims": case(input=(2, 3), axis=K(1)),
    "ExtractImagePatches": case(images=(1, 5, 5, 2), ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="SAME"),
    "Fill": case(dims=_SHAPE, value=()),
    "Gather": case(params=(3, 4), indices=_ROWS),
    "GatherV2": case(params=(3, 4), indices=_ROWS, axis=K(0)),
    "GatherNd": case(params=(3, 4), indices=np.array([[0, 1], [2, 3]])),
    "IdentityN": case(input=[(2,), (3,)]),
    "InvertPermutation": case(x=np.array([2, 0, 1])),
    "LinSpace": case(start=K(1), stop=K(4), num=K(5)),
    "Range": case(start=K(1), limit=K(6), delta=K(2)),
    "MirrorPad": case(input=(3, 4), paddings=K([[1, 1], [2, 0]]), mode="REFLECT"),
    "MirrorPadGrad": case(input=(5, 6), paddings=K([[1, 1], [2, 0]]), mode="REFLECT"),
    "OneHot": case(indices=_ROWS, depth=K(3), on_value=K(1), off_value=K(0)),
    "Pack": case(values=[(2, 3), (2, 3)], axis=1),
    "Pad": case(input=(2, 3), paddings=K([[1, 0], [0, 2]])),
    "PadV2": case(input=(2, 3), paddings=K([[1, 0], [0, 2]]), constant_values=()),
    "PlaceholderWithDefault": case(input=(2, 3), shape=[2, 3]),
    "Reshape": case(tensor=(2, 3), shape=K([3, -1])),
    "Reverse": case(tensor=(2, 3), dims=K([True, False])),
    "ReverseV2": case(tensor=(2, 3), axis=K([1])),
    "ReverseSequence": case(input=(2, 4), seq_lengths=np.array([2, 3]), seq_dim=1),
    "Roll": case(input=(3, 4), shift=np.array([1, -2]), axis=K([0, 1])),
    "ScatterNd": case(indices=np.array([[0], [2], [0]]), updates=(3, 2), shape=K([4, 2])),
    "ShapeN": case(input=[(2, 3), (4,)]),
    "Slice": case(input=(3, 4), begin=K([1, 0]), size=K([2, -1])),
    "Split": case(axis=K(1), value=(2, 4), num_split=2),
    "SplitV": case(value=(2, 4), size_splits=K([1, 3]), axis=K(1), num_split=2),
    "Squeeze": case(input=(2, 1, 3), squeeze_dims=[1]),
    "StridedSlice": case(input=(3, 4), begin=K([0, 1]), end=K([3, 4]), strides=K([2, 1])),
    "StridedSliceGrad": case(shape=K([3, 4]), begin=K([0, 1]), end=K([3, 4]), strides=K([2, 1]), dy=(2, 3)),
    "TensorStridedSliceUpdate": case(input=(3, 4), begin=K([0, 1]), end=K([2, 4]), strides=K([1, 1]), value=(2, 3)),
    **_of("TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate",
          case(tensor=(4, 2), indices=np.array([[0], [2]]), updates=(2, 2))),
    "Tile": case(input=(2, 3), multiples=K([2, 1])),
    "TopKV2": case(input=(2, 5), k=K(2)),
    "ApproxTopK": case(input=(2, 5), k=2),
    "Unpack": case(value=(2, 3), num=2, axis=0),
    **_of("LowerBound UpperBound", case(sorted_inputs=np.array([[0, 1, 2, 3]]), values=np.array([[1, 3]]))),
    "ListDiff": case(x=K([1, 2, 3, 4]), y=K([2, 4])),
    "InTopKV2": case(predictions=(2, 5), targets=np.array([1, 3]), k=K(2)),
    "DynamicStitch": case(indices=[K([0, 2]), K([1])], data=[(2, 3), (1, 3)]),
    "ParallelDynamicStitch": case(indices=[K([0, 2]), K([1])], data=[(2, 3), (1, 3)]),
    "DynamicPartition": case(data=(4, 2), partitions=np.array([0, 1, 1, 0]), num_partitions=2),
    "SparseToDense": case(sparse_indices=np.array([[0, 1], [2, 0]]), output_shape=K([3, 2]), sparse_values=(2,), default_value=()),
    "Where": case(condition=(2, 3)),
    "Unique": case(x=np.array([3, 1, 3, 2])),
    "UniqueV2": case(x=np.array([3, 1, 3, 2]), axis=K(np.zeros(0))),
    # ------------------------------------------------------------------------------- linear algebra
    "MatMul": case(a=(2, 3), b=(3, 4)),
    "SparseMatMul": case(a=(2, 3), b=(3, 4)),
    **_of("BatchMatMul BatchMatMulV2 BatchMatMulV3", case(x=(2, 2, 3), y=(2, 3, 4))),
    "Einsum": case(inputs=[(2, 3), (3, 4)], equation="ij,jk->ik"),
    "XlaEinsum": case(a=(2, 3), b=(3, 4), equation="ij,jk->ik"),
    "Cholesky": case(input=_SPD),
    "Cross": case(a=(2, 3), b=(2, 3)),
    "MatrixInverse": case(input=_SPD),
    "MatrixSolve": case(matrix=_SPD, rhs=(3, 2)),
    "MatrixTriangularSolve": case(matrix=np.tril(_SPD), rhs=(3, 2)),
    "Qr": case("qr", input=(3, 3)),
    "SelfAdjointEigV2": case("eigh", input=_SPD),
    "XlaSelfAdjointEig": case("eigh", a=_SPD, lower=True, max_iter=30, epsilon=1e-7),
    "Svd": case("svd", input=(3, 3)),
    "XlaSvd": case("xla_svd", a=(3, 3), max_iter=30, epsilon=1e-7, precision_config=""),
    "TridiagonalMatMul": case(superdiag=(1, 4), maindiag=(1, 4), subdiag=(1, 4), rhs=(4, 2)),
    "TridiagonalSolve": case(diagonals=D((3, 4), 1.5, 4), rhs=(4, 2), partial_pivoting=False),
    **_of("FFT IFFT", case(input=(2, 4))),
    **_of("FFT2D IFFT2D", case(input=(2, 4, 4))),
    **_of("FFT3D IFFT3D", case(input=(2, 2, 4))),
    "RFFT": case(input=(2, 8), fft_length=K([8])),
    "RFFT2D": case(input=(4, 8), fft_length=K([4, 8])),
    "RFFT3D": case(input=(2, 4, 8), fft_length=K([2, 4, 8])),
    "IRFFT": case("irfft", input=(2, 5), fft_length=K([8])),
    "IRFFT2D": case("irfft", input=(4, 5), fft_length=K([4, 8])),
    "IRFFT3D": case("irfft", input=(2, 4, 5), fft_length=K([2, 4, 8])),
    # ------------------------------------------------------------------------------------------- nn
    "AvgPool": case(value=_IMAGE, **_POOL),
    "MaxPool": case(input=_IMAGE, **_POOL),
    "MaxPoolV2": case(input=_IMAGE, ksize=K([1, 2, 2, 1]), strides=K([1, 2, 2, 1]), padding="VALID"),
    "AvgPool3D": case(input=(1, 4, 4, 4, 2), **_POOL3),
    "MaxPool3D": case(input=(1, 4, 4, 4, 2), **_POOL3),
    "AvgPoolGrad": case(orig_input_shape=K([2, 6, 6, 4]), grad=(2, 3, 3, 4), **_POOL),
    "AvgPool3DGrad": case(orig_input_shape=K([1, 4, 4, 4, 2]), grad=(1, 2, 2, 2, 2), **_POOL3),
    "MaxPoolGrad": case(orig_input=_IMAGE, orig_output=("MaxPool",), grad=(2, 3, 3, 4), **_POOL),
    "MaxPoolGradV2": case(orig_input=_IMAGE, orig_output=("MaxPool",), grad=(2, 3, 3, 4), ksize=K([1, 2, 2, 1]), strides=K([1, 2, 2, 1]), padding="VALID"),
    "MaxPoolGradGrad": case(orig_input=_IMAGE, orig_output=("MaxPool",), grad=_IMAGE, **_POOL),
    "MaxPoolGradGradV2": case(orig_input=_IMAGE, orig_output=("MaxPool",), grad=_IMAGE, ksize=K([1, 2, 2, 1]), strides=K([1, 2, 2, 1]), padding="VALID"),
    "MaxPool3DGrad": case(orig_input=(1, 4, 4, 4, 2), orig_output=("MaxPool",), grad=(1, 2, 2, 2, 2), **_POOL3),
    "MaxPool3DGradGrad": case(orig_input=(1, 4, 4, 4, 2), orig_output=("MaxPool",), grad=(1, 4, 4, 4, 2), **_POOL3),
    "BiasAdd": case(value=(2, 3), bias=(3,)),
    "BiasAddV1": case(value=(2, 3), bias=(3,)),
    "BiasAddGrad": case(out_backprop=(2, 3)),
    "Conv": case(input=_IMAGE, filter=(3, 3, 4, 2), **_CONV),
    "Conv2D": case(input=_IMAGE, filter=(3, 3, 4, 2), **_CONV),
    "Conv2DBackpropFilter": case(input=_IMAGE, filter_sizes=K([3, 3, 4, 2]), out_backprop=(2, 3, 3, 2), **_CONV),
    "Conv2DBackpropInput": case(input_sizes=K([2, 6, 6, 4]), filter=(3, 3, 4, 2), out_backprop=(2, 3, 3, 2), **_CONV),
    "Conv3D": case(input=(1, 4, 4, 4, 2), filter=(2, 2, 2, 2, 3), strides=[1, 1, 1, 1, 1], padding="SAME"),
    "Conv3DBackpropFilterV2": case(input=(1, 4, 4, 4, 2), filter_sizes=K([2, 2, 2, 2, 3]), out_backprop=(1, 4, 4, 4, 3), strides=[1, 1, 1, 1, 1], padding="SAME"),
    "Conv3DBackpropInputV2": case(input_sizes=K([1, 4, 4, 4, 2]), filter=(2, 2, 2, 2, 3), out_backprop=(1, 4, 4, 4, 3), strides=[1, 1, 1, 1, 1], padding="SAME"),
    "DepthwiseConv2dNative": case(input=_IMAGE, filter=(3, 3, 4, 2), **_CONV),
    "DepthwiseConv2dNativeBackpropFilter": case(input=_IMAGE, filter_sizes=K([3, 3, 4, 2]), out_backprop=(2, 3, 3, 8), **_CONV),
    "DepthwiseConv2dNativeBackpropInput": case(input_sizes=K([2, 6, 6, 4]), filter=(3, 3, 4, 2), out_backprop=(2, 3, 3, 8), **_CONV),
    **_of("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", case("bn", **_BN, offset=(4,), mean=D((4,), 0, 1), variance=D((4,), 0.5, 1), is_training=True)),
    "_FusedBatchNormEx": case("bn", **_BN, offset=(4,), mean=D((4,), 0, 1), variance=D((4,), 0.5, 1), side_input=[], is_training=False, activation_mode="Relu", num_side_inputs=0),
    **_of("FusedBatchNormGrad FusedBatchNormGradV2",
          case("bn", **_BN, y_backprop=(2, 3, 3, 4), reserve_space_1=D((4,), 0, 1), reserve_space_2=D((4,), 0.5, 1), is_training=True)),
    "FusedBatchNormGradV3": case("bn", **_BN, y_backprop=(2, 3, 3, 4), reserve_space_1=D((4,), 0, 1), reserve_space_2=D((4,), 0.5, 1), reserve_space_3=(4,), is_training=True),
    "LRN": case(input=_IMAGE, depth_radius=1),
    "LRNGrad": case(input_grads=_IMAGE, input_image=_IMAGE, output_image=_IMAGE, depth_radius=1),
    **_of("Softmax LogSoftmax", case(logits=(2, 5))),
    "SoftmaxCrossEntropyWithLogits": case(features=(2, 4), labels=D((2, 4), 0.1, 0.5)),
    "SparseSoftmaxCrossEntropyWithLogits": case(features=(2, 4), labels=np.array([1, 3])),
    **_of("AdjustContrastv2", case(images=D((2, 4, 4, 3), 0, 1), contrast_factor=K(0.7))),
    "AdjustHue": case(images=D((2, 4, 4, 3), 0, 1), delta=np.float32(0.2)),
    "AdjustSaturation": case(images=D((2, 4, 4, 3), 0, 1), scale=np.float32(0.7)),
    **_of("HSVToRGB RGBToHSV", case(images=D((2, 4, 3), 0.05, 0.95))),
    "ResizeBilinear": case(images=(1, 4, 4, 2), size=K([7, 6]), align_corners=True),
    "ResizeNearestNeighbor": case(images=(1, 4, 4, 2), size=K([7, 6]), align_corners=True),
    "ResizeBilinearGrad": case(grads=(1, 7, 6, 2), original_image=(1, 4, 4, 2), align_corners=True),
    "NonMaxSuppressionV3": case(boxes=np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3.0]]), scores=np.array([0.9, 0.75, 0.6]), max_output_size=K(3),
                                iou_threshold=K(0.5), score_threshold=K(0.0)),
    "NonMaxSuppressionV4": case(boxes=np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3.0]]), scores=np.array([0.9, 0.75, 0.6]), max_output_size=K(3),
                                iou_threshold=K(0.5), score_threshold=K(0.0), pad_to_max_output_size=True),
    # ------------------------------------------------------------------------------------ quantised
    "FakeQuantWithMinMaxArgs": case(inputs=(2, 3)),
    "FakeQuantWithMinMaxArgsGradient": case(gradients=(2, 3), inputs=(2, 3)),
    "FakeQuantWithMinMaxVars": case(inputs=(2, 3), min=np.float32(-1), max=np.float32(1.5)),
    "FakeQuantWithMinMaxVarsGradient": case(gradients=(2, 3), inputs=(2, 3), min=np.float32(-1), max=np.float32(1.5)),
    "FakeQuantWithMinMaxVarsPerChannel": case(inputs=(2, 3), min=D((3,), -2, -1), max=D((3,), 1, 2)),
    "FakeQuantWithMinMaxVarsPerChannelGradient": case(gradients=(2, 3), inputs=(2, 3), min=D((3,), -2, -1), max=D((3,), 1, 2)),
    **_of("QuantizeAndDequantizeV2 QuantizeAndDequantizeV4", case(input=(2, 3), input_min=K(-2.0), input_max=K(2.0), range_given=True)),
    "QuantizeAndDequantizeV3": case(input=(2, 3), input_min=K(-2.0), input_max=K(2.0), num_bits=K(8), range_given=True),
    "Dequantize": case(input=(2, 3), min_range=np.float32(-1), max_range=np.float32(1.5)),
    "UniformQuantize": case(input=(2, 3), scales=np.float32(0.25), zero_points=np.int32(1), Tout="qint8", quantization_min_val=-128, quantization_max_val=127),
    "UniformDequantize": case(input=(2, 3), scales=np.float32(0.25), zero_points=np.int32(1), Tout="float32", quantization_min_val=-128, quantization_max_val=127),
    # --------------------------------------------------------------------------------------- random
    **_of("RandomUniform RandomStandardNormal TruncatedNormal", case("shape", shape=_SHAPE, dtype=None)),
    "RandomUniformInt": case("shape", shape=_SHAPE, minval=K(2), maxval=K(9)),
    "RandomShuffle": case("sorted", value=(5,)),
    "Multinomial": case("shape", logits=(2, 4), num_samples=K(5)),
    "StatelessMultinomial": case(logits=(2, 4), num_samples=K(5), seed=_SEED),
    "ParameterizedTruncatedNormal": case("shape", shape=K([2, 5]), means=D((), 0, 1), stdevs=D((), 1, 2), minvals=D((), -2, -1), maxvals=D((), 2, 3)),
    "StatelessParameterizedTruncatedNormal": case(shape=K([2, 5]), seed=_SEED, means=D((), 0, 1), stddevs=D((), 1, 2), minvals=D((), -2, -1), maxvals=D((), 2, 3)),
    **_of("StatelessRandomNormal StatelessRandomUniform StatelessTruncatedNormal", case(shape=_SHAPE, seed=_SEED)),
    "StatelessRandomUniformFullInt": case(shape=_SHAPE, seed=_SEED),
    "StatelessRandomUniformInt": case(shape=_SHAPE, seed=_SEED, minval=K(2), maxval=K(9)),
    **_of("StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2 StatelessRandomUniformFullIntV2", case(shape=_SHAPE, key=_KEY, counter=_CTR, alg=K(1))),
    "StatelessRandomUniformIntV2": case(shape=_SHAPE, key=_KEY, counter=_CTR, alg=K(1), minval=K(2), maxval=K(9)),
    "StatelessRandomGetAlg": case("alg"),
    "StatelessRandomGetKeyCounter": case(seed=np.array([5, 9])),
    "StatelessRandomGetKeyCounterAlg": case("alg", seed=np.array([5, 9])),
    "XlaRngBitGenerator": case(algorithm=K(1), initial_state=np.array([3, 5], np.uint64), shape=_SHAPE),
    # ---------------------------------------------------------------------------------------- lists
    "XlaBroadcastHelper": case(lhs=(2, 3), rhs=(3,), broadcast_dims=K([1])),
    "XlaDynamicSlice": case(input=(4, 5), start_indices=np.array([1, 2]), size_indices=K([2, 3])),
    "XlaDynamicUpdateSlice": case(input=(4, 5), update=(2, 2), indices=np.array([1, 2])),
    "XlaPad": case(input=(2, 3), padding_value=(), padding_low=K([1, 0]), padding_high=K([0, 2]), padding_interior=K([0, 1])),
    "XlaSort": case(input=(2, 5)),
    "XlaKeyValueSort": case(keys=np.array([3, 1, 2, 0]), values=(4,)),
    "XlaReducePrecision": case(operand=(2, 3), exponent_bits=5, mantissa_bits=4),
    "XlaConcatND": case(inputs=[(2, 2), (2, 2)], num_concats=[1, 2]),
    "XlaSplitND": case(input=(2, 4), N=2, num_splits=[1, 2]),
    "XlaSharding": case(input=(2, 3)),
    "XlaReplicaId": case(),
    "XlaSetBound": case(input=np.int32(3), bound=K(5)),
    "XlaSetDynamicDimensionSize": case("unsupported"),
    "XlaRemoveDynamicDimensionSize": case(input=(2, 3), dim_index=K(1)),
    "ToBool": case(input=()),
    "DeviceIndex": case(device_names=["CPU", "GPU"]),
    "TridiagonalSolvePivot": case("unsupported"),
}  # fmt: skip


def _updates() -> dict[str, Case]:
    """Variables and what writes them."""
    apply: dict[str, dict[str, Any]] = {
        "GradientDescent": {"alpha": _LR, "delta": _VAR},
        "Momentum": {"accum": V(_ACC), "lr": _LR, "grad": _VAR, "momentum": _ONE, "use_nesterov": True},
        "KerasMomentum": {"accum": V(_ACC), "lr": _LR, "grad": _VAR, "momentum": _ONE},
        "Adagrad": {"accum": V(_ACC), "lr": _LR, "grad": _VAR},
        "AdagradV2": {"accum": V(_ACC), "lr": _LR, "epsilon": _ONE, "grad": _VAR},
        "AdagradDA": {
            "gradient_accumulator": V(_ACC),
            "gradient_squared_accumulator": V(_ACC),
            "grad": _VAR,
            "lr": _LR,
            "l1": _LR,
            "l2": _LR,
            "global_step": np.int64(3),
        },
        "Adadelta": {"accum": V(_ACC), "accum_update": V(_ACC), "lr": _LR, "rho": _ONE, "epsilon": _ONE, "grad": _VAR},
        "Adam": {
            "m": V(_ACC),
            "v": V(_ACC),
            "beta1_power": _ONE,
            "beta2_power": _ONE,
            "lr": _LR,
            "beta1": _ONE,
            "beta2": _ONE,
            "epsilon": _ONE,
            "grad": _VAR,
        },
        "AdaMax": {
            "m": V(_ACC),
            "v": V(_ACC),
            "beta1_power": _ONE,
            "lr": _LR,
            "beta1": _ONE,
            "beta2": _ONE,
            "epsilon": _ONE,
            "grad": _VAR,
        },
        "AddSign": {"m": V(_ACC), "lr": _LR, "alpha": _ONE, "sign_decay": _ONE, "beta": _ONE, "grad": _VAR},
        "PowerSign": {"m": V(_ACC), "lr": _LR, "logbase": _ONE, "sign_decay": _ONE, "beta": _ONE, "grad": _VAR},
        "RMSProp": {
            "ms": V(_ACC),
            "mom": V(_ACC),
            "lr": _LR,
            "rho": _ONE,
            "momentum": _ONE,
            "epsilon": _ONE,
            "grad": _VAR,
        },
        "CenteredRMSProp": {
            "mg": V(D((3, 4), 0.1, 0.3)),
            "ms": V(_ACC),
            "mom": V(_ACC),
            "lr": _LR,
            "rho": _ONE,
            "momentum": _ONE,
            "epsilon": _ONE,
            "grad": _VAR,
        },
        "ProximalGradientDescent": {"alpha": _LR, "l1": _LR, "l2": _LR, "delta": _VAR},
        "ProximalAdagrad": {"accum": V(_ACC), "lr": _LR, "l1": _LR, "l2": _LR, "grad": _VAR},
        "Ftrl": {
            "accum": V(_ACC),
            "linear": V(_ACC),
            "grad": _VAR,
            "lr": _LR,
            "l1": _LR,
            "l2": _LR,
            "lr_power": D((), -0.6, -0.4),
        },
        "FtrlV2": {
            "accum": V(_ACC),
            "linear": V(_ACC),
            "grad": _VAR,
            "lr": _LR,
            "l1": _LR,
            "l2": _LR,
            "l2_shrinkage": _LR,
            "lr_power": D((), -0.6, -0.4),
        },
    }
    found = {f"ResourceApply{name}": case(var=V(_VAR), **args) for name, args in apply.items()}
    for name in ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update"):
        found[f"ResourceScatter{name}"] = case(resource=V(_VAR), indices=np.array([2, 0]), updates=D((2, 4), 1, 3))
    for name in ("Add", "Sub", "Update"):
        found[f"ResourceScatterNd{name}"] = case(ref=V(_VAR), indices=np.array([[2], [0]]), updates=(2, 4))
    return found | {
        "AssignVariableOp": case(resource=V((2, 3)), value=(2, 3)),
        "AssignAddVariableOp": case(resource=V((2, 3)), value=(2, 3)),
        "AssignSubVariableOp": case(resource=V((2, 3)), value=(2, 3)),
        "ReadVariableOp": case(resource=V((2, 3)), dtype=None),
        "VariableShape": case(input=V((2, 3))),
        "VarIsInitializedOp": case(resource=V((2, 3))),
        "ResourceGather": case(resource=V((3, 4)), indices=_ROWS, dtype=None),
        "ResourceStridedSliceAssign": case(ref=V((3, 4)), begin=K([0, 1]), end=K([2, 4]), strides=K([1, 1]), value=(2, 3)),
        "AssignVariableXlaConcatND": case(resource=V((2, 4)), inputs=[(2, 2), (2, 2)], num_concats=[1, 2]),
        "ReadVariableXlaSplitND": case(resource=V((2, 4)), N=2, num_splits=[1, 2], T=None),
        **_of("StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt", case(resource=V(np.array([1, 2, 3], np.int64)), algorithm=K(1), shape=_SHAPE)),
        "StatefulUniformInt": case(resource=V(np.array([1, 2, 3], np.int64)), algorithm=K(1), shape=_SHAPE, minval=K(2), maxval=K(9)),
        "RngSkip": case(resource=V(np.array([1, 2, 3], np.int64)), algorithm=K(1), delta=np.int64(5)),
        "RngReadAndSkip": case(resource=V(np.array([1, 2, 3], np.int64)), alg=K(1), delta=np.uint64(5)),
    }  # fmt: skip


def _list_programs() -> dict[str, Any]:
    """Lists, arrays and stacks of tensors: several ops together."""

    def reserve_set_get(r: Any, tf: Any, x: Any) -> Any:
        held = r.TensorListReserve(element_shape=tf.constant([3]), num_elements=2, element_dtype=x.dtype)
        held = r.TensorListSetItem(input_handle=held, index=1, item=x[0], resize_if_index_out_of_bounds=False)
        held = r.TensorListSetItem(input_handle=held, index=0, item=x[1], resize_if_index_out_of_bounds=False)
        shape = r.TensorListElementShape(input_handle=held, shape_type=tf.int32)
        return [r.TensorListGetItem(input_handle=held, index=0, element_shape=[3], element_dtype=x.dtype), shape,
                r.TensorListStack(input_handle=held, element_shape=[3], element_dtype=x.dtype), r.TensorListLength(input_handle=held)]  # fmt: skip

    def push_pop(r: Any, tf: Any, x: Any) -> Any:
        held = r.EmptyTensorList(element_shape=tf.constant([3]), max_num_elements=2, element_dtype=x.dtype)
        held = r.TensorListPushBack(input_handle=held, tensor=x[0])
        held = r.TensorListPushBack(input_handle=held, tensor=x[1])
        held, last = r.TensorListPopBack(input_handle=held, element_shape=[3], element_dtype=x.dtype)
        return [last, r.TensorListLength(input_handle=held)]

    def from_tensor(r: Any, tf: Any, x: Any) -> Any:
        held = r.TensorListFromTensor(tensor=x, element_shape=[3])
        return [r.TensorListGather(input_handle=held, indices=[1, 0, 1], element_shape=[3], element_dtype=x.dtype)]

    def split_concat(r: Any, tf: Any, x: Any) -> Any:
        held = r.TensorListSplit(tensor=x, element_shape=[1, 3], lengths=tf.constant([1, 1], tf.int64))
        return [
            r.TensorListConcatV2(
                input_handle=held, element_shape=[1, 3], leading_dims=tf.constant([], tf.int64), element_dtype=x.dtype
            )[0]
        ]

    def array(r: Any, tf: Any, x: Any) -> Any:
        handle, flow = r.TensorArrayV3(size=2, dtype=x.dtype, element_shape=[3])
        flow = r.TensorArrayWriteV3(handle=handle, index=0, value=x[1], flow_in=flow)
        flow = r.TensorArrayWriteV3(handle=handle, index=1, value=x[0], flow_in=flow)
        return [r.TensorArrayReadV3(handle=handle, index=1, flow_in=flow, dtype=x.dtype), r.TensorArraySizeV3(handle=handle, flow_in=flow),
                r.TensorArrayGatherV3(handle=handle, indices=[1, 0], flow_in=flow, dtype=x.dtype, element_shape=[3])]  # fmt: skip

    def array_scatter(r: Any, tf: Any, x: Any) -> Any:
        handle, flow = r.TensorArrayV3(size=2, dtype=x.dtype, element_shape=[3])
        flow = r.TensorArrayScatterV3(handle=handle, indices=[1, 0], value=x, flow_in=flow)
        value, lengths = r.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=x.dtype)
        return [value, lengths]

    def array_split(r: Any, tf: Any, x: Any) -> Any:
        handle, flow = r.TensorArrayV3(size=2, dtype=x.dtype)
        flow = r.TensorArraySplitV3(handle=handle, value=x, lengths=tf.constant([1, 1], tf.int64), flow_in=flow)
        return [r.TensorArrayReadV3(handle=handle, index=1, flow_in=flow, dtype=x.dtype)]

    def array_grad(r: Any, tf: Any, x: Any) -> Any:
        handle, flow = r.TensorArrayV3(size=2, dtype=x.dtype, element_shape=[3])
        flow = r.TensorArrayScatterV3(handle=handle, indices=[1, 0], value=x, flow_in=flow)
        grad, grad_flow = r.TensorArrayGradV3(handle=handle, flow_in=flow, source="g")
        grad_flow = r.TensorArrayScatterV3(handle=grad, indices=[0, 1], value=x, flow_in=grad_flow)
        grad_flow = r.TensorArrayWriteV3(handle=grad, index=0, value=x[1], flow_in=grad_flow)
        return [r.TensorArrayReadV3(handle=grad, index=0, flow_in=grad_flow, dtype=x.dtype)]

    def stack(r: Any, tf: Any, x: Any) -> Any:
        held = r.StackV2(max_size=3, elem_type=x.dtype)
        first = r.StackPushV2(handle=held, elem=x)
        with tf.control_dependencies([first]):
            popped = r.StackPopV2(handle=held, elem_type=x.dtype)
        with tf.control_dependencies([popped]):
            r.StackCloseV2(handle=held)
        return [popped]

    return (
        dict.fromkeys(
            ("TensorListReserve", "TensorListSetItem", "TensorListGetItem", "TensorListElementShape", "TensorListStack", "TensorListLength"),
            reserve_set_get,
        )
        | dict.fromkeys(("EmptyTensorList", "TensorListPushBack", "TensorListPopBack"), push_pop)
        | dict.fromkeys(("TensorListFromTensor", "TensorListGather"), from_tensor)
        | dict.fromkeys(("TensorListSplit", "TensorListConcatV2"), split_concat)
        | dict.fromkeys(("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArraySizeV3", "TensorArrayGatherV3"), array)
        | dict.fromkeys(("TensorArrayScatterV3", "TensorArrayConcatV3"), array_scatter)
        | {"TensorArraySplitV3": array_split, "TensorArrayGradV3": array_grad}
        | dict.fromkeys(("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2"), stack)
    )  # fmt: skip


def _control_programs() -> dict[str, Any]:
    """Loops, branches and calls."""

    def loop(_: Any, tf: Any, x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.reverse(a, [0])), [0, x])

    def branch(_: Any, tf: Any, x: Any) -> Any:
        return [tf.cond(tf.size(x) > tf.shape(x)[0], lambda: tf.reverse(x, [0]), lambda: x)]

    def switch(_: Any, tf: Any, x: Any) -> Any:
        return [tf.switch_case(tf.shape(x)[0] - 1, [lambda: x, lambda: tf.reverse(x, [0]), lambda: x])]

    def called(_: Any, tf: Any, x: Any) -> Any:
        return [tf.function(lambda y: tf.reverse(y, [0]))(x)]

    return {"StatelessWhile": loop, "StatelessIf": branch, "StatelessCase": switch, "PartitionedCall": called}


PROGRAMS: dict[str, Any] = _list_programs() | _control_programs() | _XLA_PROGRAMS
CASES |= _updates()
