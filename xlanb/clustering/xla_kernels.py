"""Op types with a kernel for XLA_CPU_JIT or XLA_GPU_JIT, and their element types.

As tf2xla 2.21 registers them. A row has the constraints on attributes in brackets, then the op
types that they hold for. An element type is a short name or a set of TYPE_SETS.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from xlanb.graph.operation import Operation
from xlanb.graph.ops.table import find_op

TYPE_SETS: dict[str, str] = {
    "ANY": "pred bf16 f16 f32 f64 f8e4m3fn f8e5m2 f8e4m3b11fnuz f8e4m3fnuz f8e5m2fnuz c64 c128 s4 s8 s16 s32 "
    "s64 u4 u8 u16 u32 u64 qs8 qu8 qs32",
    "NUMBER": "bf16 f16 f32 f64 c64 c128 s8 s16 s32 s64 u8 u16 u32 u64 qs8 qu8 qs32",
    "PLAIN": "bf16 f16 f32 f64 c64 c128 s8 s16 s32 s64 u8 u16 u32 u64",
    "REAL": "bf16 f16 f32 f64 s8 s16 s32 s64 u8 u16 u32 u64",
    "INTEGER": "s8 s16 s32 s64 u8 u16 u32 u64",
    "INEXACT": "bf16 f16 f32 f64 c64 c128",
    "FLOAT": "bf16 f16 f32 f64",
    "QUANTIZED": "qs8 qu8 qs32",
    "INDEX": "s32 s64",
}

ROWS = r"""
[]
    CollectiveAssignGroupV2 ControlTrigger DeviceIndex FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient
    FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
    FakeQuantWithMinMaxVarsPerChannelGradient LogicalAnd LogicalNot LogicalOr NoOp RngReadAndSkip RngSkip
    StackCloseV2 StatelessRandomGetAlg TensorArrayCloseV3 TensorArrayGradV3 TensorArraySizeV3 TensorListLength
    VarIsInitializedOp XlaDequantize XlaReplicaId XlaSetBound
[T: FLOAT]
    Atan2 AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BesselI0e BesselI1e Ceil CheckNumerics Conv2DBackpropFilter
    Conv3D Conv3DBackpropFilterV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Digamma Elu EluGrad Erf Erfc Erfinv Floor HSVToRGB Igamma Igammac IsFinite
    IsInf IsNan L2Loss LeakyRelu LeakyReluGrad Lgamma LogSoftmax Ndtri QuantizeAndDequantizeV2
    QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 RGBToHSV ResizeBilinearGrad ResourceApplyAdaMax
    ResourceApplyAdagradDA ResourceApplyAddSign ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyMomentum
    ResourceApplyPowerSign Rint Selu SeluGrad Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign
    SoftsignGrad XlaReducePrecision XlaSvd
[T: ANY]
    AssignVariableXlaConcatND Concat DepthToSpace DynamicPartition DynamicStitch EnsureShape Equal MatrixDiag
    MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2
    MatrixSetDiagV3 NotEqual Pack ParallelDynamicStitch PreventGradient RandomShuffle Rank ReadVariableXlaSplitND
    Select SelectV2 Snapshot SpaceToDepth Split Squeeze StackPushV2 TensorArrayScatterV3 TensorArraySplitV3
    TensorArrayWriteV3 ToBool Unpack XlaConcatND XlaOptimizationBarrier XlaRemoveDynamicDimensionSize XlaSend
    XlaSetDynamicDimensionSize XlaSharding XlaSort XlaSplitND XlaSpmdFullToShardShape XlaSpmdShardToFullShape
    XlaVariadicReduceV2 XlaVariadicSort _EagerConst
[T: INEXACT]
    Acos Acosh Asin Asinh Atan Atanh Cos Cosh DivNoNan Exp Expm1 Log Log1p MatrixTriangularSolve MulNoNan
    ReciprocalGrad ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyAdam
    ResourceApplyCenteredRMSProp ResourceApplyGradientDescent ResourceApplyKerasMomentum
    ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent ResourceApplyRMSProp Rsqrt RsqrtGrad Sigmoid
    SigmoidGrad Sin Sinh Sqrt SqrtGrad Tan Tanh TanhGrad Xdivy Xlog1py Xlogy
[T: REAL]
    Cross FloorMod Greater GreaterEqual Less LessEqual MaxPoolGrad MaxPoolGradV2 Maximum Minimum Relu6 Relu6Grad
    ReluGrad
[T: ANY; Tindices: INDEX]
    ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdUpdate SparseToDense TensorScatterAdd
    TensorScatterMax TensorScatterMin TensorScatterSub XlaDynamicSlice XlaDynamicUpdateSlice XlaPad
[dtype: ANY]
    AssignVariableOp Empty FakeParam PlaceholderWithDefault ReadVariableOp TensorArrayConcatV3 TensorArrayGatherV3
    TensorArrayReadV3 TensorArrayV3 XlaRecv _XlaAotOnlyVarHandleOp
[T: PLAIN]
    AddV2 Div FloorDiv Mul RealDiv Square Sub TruncateDiv
[T: f32 f64]
    Betainc IgammaGradA NextAfter Polygamma RandomGammaGrad TridiagonalMatMul TridiagonalSolve Zeta
[T: ANY resource variant]
    Identity IdentityN StatelessWhile While XlaWhile _Arg _Retval
[T: INDEX]
    BroadcastArgs BroadcastGradientArgs DataFormatDimMap DataFormatVecPermute DataFormatVecPermute InTopKV2
    InvertPermutation
[T: INTEGER]
    BitwiseAnd BitwiseOr BitwiseXor Invert LeftShift PopulationCount RightShift
[T: NUMBER]
    ApproximateEqual BiasAdd BiasAddGrad BiasAddV1 ClipByValue XlaDot XlaSelfAdjointEig
[T: INEXACT INDEX s8 s16]
    Inv Neg Pow Reciprocal Round Sign
[Tcomplex: c64 c128]
    FFT FFT2D FFT3D IFFT IFFT2D IFFT3D
[Tcomplex: c64 c128; Treal: f32 f64]
    IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D
[Tindices: INDEX; dtype: NUMBER]
    ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul
    ResourceScatterSub
[T: ANY; Tpaddings: INDEX]
    MirrorPad MirrorPadGrad Pad PadV2 SpaceToBatch
[T: ANY; out_type: INDEX]
    LowerBound Shape ShapeN Size UpperBound
[T: INEXACT INDEX]
    BatchMatMul Diag DiagPart MatMul SquaredDifference
[T: f32]
    FusedBatchNorm FusedBatchNormGrad MaxPool3DGradGrad MaxPoolGradGrad MaxPoolGradGradV2
[Index: INDEX; T: ANY]
    ResourceStridedSliceAssign Slice StridedSliceGrad TensorStridedSliceUpdate
[T: FLOAT s32]
    Conv Conv2D Conv2DBackpropInput ExtractImagePatches
[T: REAL; Tindices: INDEX; Tnumsegments: INDEX]
    SegmentMaxV2 SegmentMinV2 UnsortedSegmentMax UnsortedSegmentMin
[T: bf16 f16 f32]
    ApproxTopK LRN LRNGrad MaxPool3D
[T: bf16 f16 f32; U: f32]
    FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 _FusedBatchNormEx
[T: c64 c128; Tout: f32 f64]
    Angle ComplexAbs Imag Real
[T: f16 f32 f64]
    MatrixInverse MatrixSolve Svd _UnaryOpsComposition
[element_dtype: ANY; shape_type: INDEX]
    TensorListConcatV2 TensorListFromTensor TensorListReserve TensorListSplit
[T: ANY; Tidx: INDEX]
    BatchToSpace BroadcastTo ConcatV2
[T: FLOAT INDEX]
    CollectiveReduceV2 Mod TruncateMod
[T: INDEX; Tseed: s32; dtype: FLOAT]
    StatelessRandomNormal StatelessRandomUniform StatelessTruncatedNormal
[T: NUMBER pred]
    Where XlaReduce XlaVariadicReduce
[T: NUMBER pred; Tindices: INDEX]
    XlaGather XlaReduceWindow XlaScatter
[T: NUMBER; Tidx: INDEX]
    Mean Prod Sum
[T: NUMBER; Tindices: INDEX]
    XlaBroadcastHelper XlaConv XlaSelectAndScatter
[T: NUMBER; Tindices: INDEX; Tnumsegments: INDEX]
    SegmentProdV2 SegmentSumV2 UnsortedSegmentProd
[T: f16 f32]
    AdjustContrastv2 AdjustHue AdjustSaturation
[T: f16 f32 f64 c64 c128]
    Cholesky Qr SelfAdjointEigV2
[Tcond: ANY resource variant; Tin: ANY resource variant; Tout: ANY resource variant]
    If StatelessIf XlaIf
[Tshape: INDEX; dtype: FLOAT]
    StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2
[dtype: FLOAT; shape_dtype: ANY]
    StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
[element_dtype: ANY]
    TensorListGather TensorListSetItem TensorListStack
[T: ANY variant]
    StopGradient ZerosLike
[T: ANY; Tperm: INDEX]
    ConjugateTranspose Transpose
[T: FLOAT INDEX s8 s16 u8 u16]
    ResizeBilinear ResizeNearestNeighbor
[T: FLOAT INDEX s8 s16 u8 u16 qs8]
    MaxPool MaxPoolV2
[T: FLOAT INDEX; Tidx: INDEX]
    Cumprod Cumsum
[T: FLOAT; Tidx: INDEX]
    CumulativeLogsumexp LinSpace
[T: INDEX f32 f64]
    Bincount Bucketize
[T: INDEX; Tseed: s32; dtype: INDEX]
    StatelessRandomUniformFullInt StatelessRandomUniformInt
[T: INDEX; dtype: FLOAT]
    RandomStandardNormal RandomUniform
[T: INDEX; dtype: f32 f64]
    ParameterizedTruncatedNormal TruncatedNormal
[T: PLAIN pred]
    OnesLike Reverse
[T: REAL QUANTIZED; Tidx: INDEX]
    Max Min
[T: bf16 f16 f32 s32 u32]
    XlaAllReduce XlaReduceScatter
[T: f16 f32; T_threshold: f16 f32]
    NonMaxSuppressionV3 NonMaxSuppressionV4
[T: qs32]
    UniformQuantizedAdd UniformQuantizedClipByValue
[Tidx: INDEX]
    All Any
[Tin: ANY resource variant; Tout: ANY resource variant]
    Case StatelessCase
[Tin: ANY string resource variant; Tout: ANY string resource variant]
    PartitionedCall StatefulPartitionedCall
[Tin: ANY; Tout: ANY]
    SymbolicGradient XlaCallModule
[Tin: qs8; Tout: qs32]
    UniformQuantizedConvolution UniformQuantizedDot
[Tindices: INDEX; dtype: ANY]
    ResourceGather ResourceScatterUpdate
[Tseed: INDEX]
    StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
[Tshape: INDEX; dtype: INDEX u32 u64]
    StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2
[dtype: INDEX u32 u64; shape_dtype: ANY]
    StatefulUniformFullInt StatefulUniformInt
[dtype: PLAIN]
    AssignAddVariableOp AssignSubVariableOp
[elem_type: ANY]
    StackPopV2 StackV2
[element_dtype: ANY variant]
    TensorListPopBack TensorListPushBack
[shape_type: INDEX]
    ConcatOffset TensorListElementShape
[DstT: ANY; SrcT: ANY]
    Cast
[Index: INDEX s16; T: ANY]
    StridedSlice
[K: REAL; V: ANY]
    XlaKeyValueSort
[LhsT: NUMBER; RhsT: NUMBER; Tindices: INDEX; preferred_element_type: NUMBER]
    XlaConvV2
[LhsT: NUMBER; RhsT: NUMBER; preferred_element_type: NUMBER]
    XlaDotV2
[S: INDEX; Tseed: s32; dtype: f16 f32 f64]
    StatelessParameterizedTruncatedNormal
[T: ANY string]
    Assert
[T: ANY; TI: INDEX s8 u8]
    OneHot
[T: ANY; Taxis: INDEX; Tshift: INDEX]
    Roll
[T: ANY; Taxis: INDEX; out_idx: INDEX]
    UniqueV2
[T: ANY; Tblock_shape: INDEX; Tcrops: INDEX]
    BatchToSpaceND
[T: ANY; Tblock_shape: INDEX; Tpaddings: INDEX]
    SpaceToBatchND
[T: ANY; Tdim: INDEX]
    ExpandDims
[T: ANY; Tin: ANY]
    _ListToArray
[T: ANY; Tindex: INDEX]
    MatrixBandPart
[T: ANY; Tindices: INDEX s16]
    ScatterNd
[T: ANY; Tindices: INDEX s16 u16]
    TensorScatterUpdate
[T: ANY; Tlen: INDEX]
    ReverseSequence
[T: ANY; Tlen: INDEX s8]
    SplitV
[T: ANY; Tmultiples: INDEX]
    Tile
[T: ANY; Tshape: INDEX]
    Reshape
[T: ANY; dtype: ANY]
    XlaCustomCall
[T: ANY; index_type: INDEX]
    Fill
[T: ANY; out_idx: INDEX]
    Unique
[T: ANY; out_types: ANY]
    _ArrayToList
[T: FLOAT INDEX s8 s16]
    Abs
[T: FLOAT INDEX s8 s16 u8 u32 u64; Tk: INDEX s16; index_type: INDEX s16]
    TopKV2
[T: FLOAT; Tlabels: INDEX]
    SparseSoftmaxCrossEntropyWithLogits
[T: FLOAT; Tshape: INDEX]
    Conv3DBackpropInputV2
[T: INDEX f32 f64; Tidx: INDEX]
    DenseBincount
[T: INDEX; Tout: INDEX]
    RandomUniformInt
[T: INDEX; out_idx: INDEX]
    ListDiff
[T: INEXACT INDEX s16 u8 u16 u32 u64]
    BatchMatMulV2
[T: INEXACT INDEX s8 s16 u8]
    Add
[T: INEXACT INDEX u64]
    Einsum
[T: NUMBER variant]
    AddN
[T: NUMBER; Tindices: INDEX s16; Tnumsegments: INDEX]
    UnsortedSegmentSum
[T: NUMBER; type: NUMBER]
    Bitcast
[T: PLAIN pred; Tidx: INDEX]
    ReverseV2
[T: REAL QUANTIZED pred; Tidx: INDEX s16; output_type: INDEX s16 u16]
    ArgMax
[T: REAL QUANTIZED pred; Tidx: INDEX; output_type: INDEX]
    ArgMin
[T: REAL qs8]
    Relu
[T: REAL; output_dtype: INDEX]
    Multinomial
[T: bf16 f16 f32; TInput: bf16 f16 f32]
    MaxPool3DGrad
[T: bf16 f16 f32; U: bf16 f32]
    FusedBatchNormV3
[T: bf16 f32 c64]
    XlaEinsum
[T: bf16 f32 f64; Tseed: s32; output_dtype: INDEX]
    StatelessMultinomial
[T: c64 c128]
    Conj
[T: f32 f64; Tout: c64 c128]
    Complex
[T: qs8 qu8; dtype: bf16 f32]
    Dequantize
[T: s8 qs8; TArgs: ANY]
    _FusedConv2D
[Ta: INEXACT INDEX s8 s16 u8; Tb: INEXACT INDEX s8 s16 u8; Tout: INEXACT INDEX s16]
    BatchMatMulV3
[Ta: bf16 f32; Tb: bf16 f32]
    SparseMatMul
[Taxis: INDEX; Tindices: INDEX s16; Tparams: ANY]
    GatherV2
[Tidx: FLOAT INDEX s8 s16 u16 u32 u64]
    Range
[Tin: FLOAT; Tout: s8 s16 s32]
    StochasticCastToInt
[Tin: QUANTIZED; Tout: f32]
    UniformDequantize
[Tin: f32; Tout: QUANTIZED]
    UniformQuantize
[Tin: qs8 qs32; Tout: qs8 qs32]
    UniformRequantize
[Tindices: INDEX s16; Tparams: ANY]
    GatherNd
[Tindices: INDEX; Tparams: ANY]
    Gather
[Tshape: INDEX; dtype: u8 u32 u64]
    XlaRngBitGenerator
[Tshape: INDEX; element_dtype: ANY]
    TensorListGetItem
[dtype: ANY string]
    Const
[element_dtype: ANY variant; shape_type: INDEX variant]
    EmptyTensorList
[operand_dtypes: ANY; result_dtypes: ANY]
    XlaCustomCallV2
[out_type: INDEX]
    VariableShape
"""


CPU_JIT = "XLA_CPU_JIT"
GPU_JIT = "XLA_GPU_JIT"

NOT_ON_GPU: dict[str, dict[str, frozenset[str]]] = {
    op: {"T": frozenset({"s32"})} for op in ("Conv", "Conv2D", "Conv2DBackpropInput", "ExtractImagePatches")
}
"""Element types of XLA_CPU_JIT kernels that XLA_GPU_JIT lacks, by op type and attribute.

tf2xla 2.21 registers the same 489 op types for both; this is the only difference.
"""


@cache
def _kernels(device: str = CPU_JIT) -> dict[str, tuple[dict[str, frozenset[str]], ...]]:
    """Return the constraints of each op type's kernels on a device: attribute -> allowed short
    names.
    """
    if device == GPU_JIT:
        everywhere = _kernels()
        return {op: tuple(_on_gpu(NOT_ON_GPU.get(op, {}), k) for k in kernels) for op, kernels in everywhere.items()}
    found: dict[str, tuple[dict[str, frozenset[str]], ...]] = {}
    constraints: dict[str, frozenset[str]] = {}
    for line in filter(None, ROWS.splitlines()):
        if line.startswith("["):
            constraints = dict(_constraint(c) for c in line[1:-1].split("; ") if c)
        else:
            for op_type in line.split():
                found[op_type] = (*found.get(op_type, ()), constraints)
    return found


def _on_gpu(excluded: dict[str, frozenset[str]], kernel: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: allowed - excluded.get(name, frozenset()) for name, allowed in kernel.items()}


def _constraint(text: str) -> tuple[str, frozenset[str]]:
    name, _, types = text.partition(": ")
    return name, frozenset(t for word in types.split() for t in TYPE_SETS.get(word, word).split())


def kernel_types() -> list[str]:
    """All op types that have a kernel, sorted."""
    return sorted(_kernels())


def kernel_constraints(op_type: str, device: str = CPU_JIT) -> dict[str, frozenset[str]] | None:
    """Return the element types (short names) that an op type's kernels support, by attribute.

    None if there is no kernel for the compilation device.
    """
    found = _kernels(device).get(op_type)
    if found is None:
        return None
    merged: dict[str, frozenset[str]] = {}
    for constraints in found:
        for name, allowed in constraints.items():
            merged[name] = merged.get(name, frozenset()) | allowed
    return merged


def missing_kernel(op: Operation, device: str = CPU_JIT) -> str:
    """Say why no kernel of a compilation device fits a node, in TensorFlow's words; "" if one
    does.
    """
    kernels = _kernels(device).get(op.type, ())
    if any(all(_allows(op, name, allowed) for name, allowed in kernel.items()) for kernel in kernels):
        return ""
    text = f"No registered '{op.type}' OpKernel for {device} devices compatible with node {{{{node {op.name}}}}}"
    if not kernels:
        return text
    asked = ", ".join(f"{name}={_shown(_attribute(op, name))}" for name in kernels[0])
    return f"{text} (OpKernel was found, but attributes didn't match) Requested Attributes: {asked}"


def _allows(op: Operation, name: str, allowed: frozenset[str]) -> bool:
    value = _attribute(op, name)
    types = value if isinstance(value, tuple | list) else (value,)
    # An unknown attribute (of an op outside the op table) matches any kernel.
    return all(t is None or t.base_dtype.short_name in allowed for t in types)


def _attribute(op: Operation, name: str) -> Any:
    if name in op.attrs:
        return op.attrs[name]
    definition = find_op(op.type)
    known = definition.attr_defs.get(name) if definition is not None else None
    return known.default if known is not None and known.has_default else None


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(_shown(v) for v in value)}]"
    if value is None:
        return "?"
    name = value.base_dtype.name.upper()
    for numpy_name, tensorflow_name in (("FLOAT32", "FLOAT"), ("FLOAT64", "DOUBLE"), ("FLOAT16", "HALF")):
        name = name.replace(numpy_name, tensorflow_name)
    return f"DT_{name}"
