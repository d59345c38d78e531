"""Inputs and outputs of op types in host memory, by HostMemory in TensorFlow 2.21's CPU kernels."""

from __future__ import annotations

from functools import cache

from xlanb.clustering.backwards_const_analysis import input_names
from xlanb.graph.operation import Operation
from xlanb.graph.ops.table import find_op

# Op types that XLA compiles: their outputs in host memory.
_OUTPUTS = r"""
BroadcastArgs: r0
BroadcastGradientArgs: r0 r1
InTopKV2: precision
LinSpace: output
Rank: output
Shape: output
ShapeN: output
Size: output
StatelessRandomGetAlg: alg
StatelessRandomGetKeyCounter: key counter
StatelessRandomGetKeyCounterAlg: key counter alg
TensorArrayConcatV3: lengths
"""

# Inputs in host memory, then the op types that have them.
_INPUTS = r"""
a_shape: SparseTensorDenseMatMul
alg: StochasticCastToInt
algorithm shape: XlaRngBitGenerator
axis: ConcatV2 CumulativeLogsumexp GatherV2 QuantizedConcatV2 ReverseV2 _MklConcatV2 _MklQuantizedConcatV2
begin end strides: StridedSlice StridedSliceAssign TensorStridedSliceUpdate
begin size: Slice
block_shape crops: BatchToSpaceND
block_shape paddings: SpaceToBatchND
broadcast_dims: XlaBroadcastHelper
concat_dim: Concat QuantizedConcat _MklConcat
condition data: Assert
crop_size: CropAndResize
crops: BatchToSpace
data: NextIteration
dense_shape: SparseFillEmptyRows
depth: OneHot
dim: ExpandDims
dimension: ArgMax ArgMin XlaVariadicSort
dims: Fill Reverse
handle: TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3
image_size: CropAndResizeGradImage
index: CSRSparseMatrixComponents RefSelect
indices: DynamicStitch ParallelDynamicStitch
input: DebugIdentityV3
ksize strides: MaxPoolGradGradV2 MaxPoolGradV2
multiples: Tile TileGrad
nrows: RaggedFillEmptyRows
orig_input_shape: AvgPool3DGrad AvgPoolGrad
output_index: _SwitchN
padding_low padding_high padding_interior: XlaPad
paddings: MirrorPad MirrorPadGrad Pad SpaceToBatch
paddings constant_values: PadV2
perm: ConjugateTranspose Transpose _MklConjugateTranspose _MklTranspose
pred: RefSwitch Switch
predictions targets: InTopK
predictions targets k: InTopKV2
reduction_indices: All Any
ref: ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate
ref begin end strides: ResourceStridedSliceAssign
resource: ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv ResourceScatterMax
    ResourceScatterMin ResourceScatterMul ResourceScatterSub ResourceScatterUpdate
resource alg delta: RngReadAndSkip
resource algorithm delta: RngSkip
resource algorithm shape: StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt
resource algorithm shape counts probs: StatefulRandomBinomial
resource algorithm shape minval maxval: StatefulUniformInt
resource shape: StatefulStandardNormal
s0 s1: BroadcastArgs BroadcastGradientArgs
scale translation: ScaleAndTranslateGrad
seed: StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
shape: Empty NonDeterministicInts QuantizedReshape RandomStandardNormal RandomUniform Reshape ScatterNd
    TruncatedNormal
shape alg: StatelessRandomGammaV3 StatelessRandomNormalV2 StatelessRandomUniformFullIntV2 StatelessRandomUniformV2
    StatelessTruncatedNormalV2
shape alg minval maxval: StatelessRandomUniformIntV2
shape begin end strides: StridedSliceGrad
shape minval maxval: RandomUniformInt
shape seed: StatelessRandomGammaV2 StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformFullInt
    StatelessTruncatedNormal
shape seed counts probs: StatelessRandomBinomial
shape seed lam: StatelessRandomPoisson
shape seed means stddevs minvals maxvals: StatelessParameterizedTruncatedNormal
shape seed minval maxval: StatelessRandomUniformInt
shift axis: Roll
size: QuantizedResizeBilinear ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor
    ResizeNearestNeighborGrad
size scale translation: ScaleAndTranslate
size_indices: XlaDynamicSlice
size_splits split_dim: SplitV
slice_sizes: XlaGather
split_dim: Split
start limit delta: Range
start stop num: LinSpace
target: RemoteCall
var: ResourceApplyGradientDescent ResourceApplyProximalGradientDescent
var accum: ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyKerasMomentum ResourceApplyMomentum
    ResourceApplyProximalAdagrad
var accum accum_update: ResourceApplyAdadelta
var accum linear: ResourceApplyFtrl ResourceApplyFtrlV2
var gradient_accumulator gradient_squared_accumulator: ResourceApplyAdagradDA ResourceSparseApplyAdagradDA
var m: ResourceApplyAddSign ResourceApplyPowerSign
var m v: ResourceApplyAdaMax ResourceApplyAdam
var m v vhat: ResourceApplyAdamWithAmsgrad
var mg ms mom: ResourceApplyCenteredRMSProp
var ms mom: ResourceApplyRMSProp
window_dimensions window_strides base_dilations window_dilations padding: XlaReduceWindow
window_dimensions window_strides padding: XlaSelectAndScatter
window_strides padding lhs_dilation rhs_dilation feature_group_count: XlaConv XlaConvV2
"""


@cache
def _host_outputs() -> dict[str, frozenset[str]]:
    rows = (line.partition(": ") for line in _OUTPUTS.splitlines() if line)
    return {op_type: frozenset(names.split()) for op_type, _, names in rows}


@cache
def _host_inputs() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    names: frozenset[str] = frozenset()
    for line in filter(None, _INPUTS.splitlines()):
        head, colon, op_types = line.partition(": ")
        if colon:
            names = frozenset(head.split())
        found.update(dict.fromkeys((op_types if colon else line).split(), names))
    return found


def is_host_output(op: Operation, port: int) -> bool:
    """Whether an output of a node lives in host memory."""
    names = _host_outputs().get(op.type)
    definition = find_op(op.type)
    if not names or definition is None:
        return False
    # A list of outputs (ShapeN) means all of them.
    outputs = [a.name for a in definition.outputs]
    return (outputs[port] if port < len(outputs) and len(outputs) == len(op.outputs) else outputs[0]) in names


def is_host_input(op: Operation, slot: int) -> bool:
    """Whether an input of a node must be in host memory."""
    names = _host_inputs().get(op.type)
    known = input_names(op) if names else []
    return bool(names) and slot < len(known) and known[slot] in (names or ())
