"""Making, reading, cutting and joining arrays: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
BatchToSpace(input: T, crops: Tidx) -> (output: T) [T: type; block_size: int >= 2; Tidx: type in INDEX = s32]
    Moves blocks of the batch into height and width, then crops.
BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> (output: T)
    [T: type; Tblock_shape: type in INDEX = s32; Tcrops: type in INDEX = s32]
    Moves blocks of the batch into spatial dimensions, then crops.
Bitcast(input: T) -> (output: type) [T: type in NUMBER; type: type in NUMBER]
    The same bits as another type; a trailing dimension appears or goes where sizes differ.
BroadcastArgs(s0: T, s1: T) -> (r0: T) [T: type in INDEX = s32]
    The shape that two shapes broadcast to.
BroadcastGradientArgs(s0: T, s1: T) -> (r0: T, r1: T) [T: type in INDEX = s32]
    For two shapes that broadcast: the dimensions over which each one's gradient is summed.
BroadcastTo(input: T, shape: Tidx) -> (output: T) [T: type; Tidx: type in INDEX = s32]
    The tensor broadcast to a shape.
CheckNumerics(tensor: T) -> (output: T) [T: type in FLOAT; message: string] stateful
    The tensor itself; fails where it holds NaN or infinity.
Concat(concat_dim: s32, values: N * T) -> (output: T) [N: int >= 2; T: type]
    Joins tensors along a dimension; the dimension comes first.
ConcatOffset(concat_dim: s32, shape: N * shape_type) -> (offset: N * shape_type)
    [N: int >= 2; shape_type: type in INDEX = s32]
    Where each of N tensors begins in their concatenation.
ConcatV2(values: N * T, axis: Tidx) -> (output: T) [N: int >= 2; T: type; Tidx: type in INDEX = s32]
    Joins tensors along a dimension.
ConjugateTranspose(x: T, perm: Tperm) -> (y: T) [T: type; Tperm: type in INDEX = s32]
    Dimensions permuted, elements conjugated.
Const() -> (output: dtype) [value: tensor; dtype: type]
    The tensor in the attribute `value`.
DepthToSpace(input: T) -> (output: T)
    [T: type; block_size: int >= 2; data_format: string in {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"]
    Moves blocks of channels into height and width.
Dequantize(input: T, min_range: f32, max_range: f32) -> (output: dtype)
    [T: type in {qs8, qu8, qs32, qs16, qu16}; mode: string in {"MIN_COMBINED", "MIN_FIRST", "SCALED"} =
     "MIN_COMBINED"; narrow_range: bool = false; axis: int = -1; dtype: type in {bf16, f32} = f32]
Diag(diagonal: T) -> (output: T) [T: type in {bf16, f16, f32, f64, s32, s64, c64, c128}]
    A tensor with the elements on its diagonal.
DiagPart(input: T) -> (diagonal: T) [T: type in {bf16, f16, f32, f64, s32, s64, c64, c128}]
    The diagonal of a tensor whose dimensions come in two equal halves.
Empty(shape: s32) -> (output: dtype) [dtype: type; init: bool = false] stateful
    A tensor of a shape, with or without zeros in it.
EnsureShape(input: T) -> (output: T) [shape: shape; T: type]
    The tensor itself; fails unless it has the shape.
ExpandDims(input: T, dim: Tdim) -> (output: T) [T: type; Tdim: type in INDEX = s32]
    A new dimension of size 1.
ExtractImagePatches(images: T) -> (patches: T)
    [ksizes: list(int) >= 4; strides: list(int) >= 4; rates: list(int) >= 4; T: type in {bf16, f16, f32, f64, s8, s16,
     s32, s64, u8, u16, u32, u64, c64, c128, pred}; padding: string in {"SAME", "VALID"}]
    Windows of images laid out along the channels.
FakeQuantWithMinMaxArgs(inputs: f32) -> (outputs: f32)
    [min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range: bool = false]
    Rounds to the values that a quantised type between fixed bounds has.
FakeQuantWithMinMaxArgsGradient(gradients: f32, inputs: f32) -> (backprops: f32)
    [min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range: bool = false]
FakeQuantWithMinMaxVars(inputs: f32, min: f32, max: f32) -> (outputs: f32)
    [num_bits: int = 8; narrow_range: bool = false]
    Rounds to the values that a quantised type between given bounds has.
FakeQuantWithMinMaxVarsGradient(gradients: f32, inputs: f32, min: f32, max: f32) -> (backprops_wrt_input: f32, backprop_wrt_min: f32, backprop_wrt_max: f32)
    [num_bits: int = 8; narrow_range: bool = false]
FakeQuantWithMinMaxVarsPerChannel(inputs: f32, min: f32, max: f32) -> (outputs: f32)
    [num_bits: int = 8; narrow_range: bool = false]
FakeQuantWithMinMaxVarsPerChannelGradient(gradients: f32, inputs: f32, min: f32, max: f32) -> (backprops_wrt_input: f32, backprop_wrt_min: f32, backprop_wrt_max: f32)
    [num_bits: int = 8; narrow_range: bool = false]
Fill(dims: index_type, value: T) -> (output: T) [T: type; index_type: type in INDEX = s32]
    A tensor of a shape with one value everywhere.
Gather(params: Tparams, indices: Tindices) -> (output: Tparams)
    [validate_indices: bool = true; Tparams: type; Tindices: type in INDEX]
    Rows by index.
GatherNd(params: Tparams, indices: Tindices) -> (output: Tparams)
    [Tparams: type; Tindices: type in {s16, s32, s64}; bad_indices_policy: string = ""]
    Elements or slices by index vectors.
GatherV2(params: Tparams, indices: Tindices, axis: Taxis) -> (output: Tparams)
    [batch_dims: int = 0; Tparams: type; Tindices: type in {s16, s32, s64}; Taxis: type in INDEX]
    Slices by index along a dimension.
GuaranteeConst(input: T) -> (output: T) [T: type] stateful
    The tensor itself, promised never to change.
Identity(input: T) -> (output: T) [T: type]
    The tensor itself.
IdentityN(input: list(T)) -> (output: list(T)) [T: list(type) >= 1]
    The tensors themselves.
InvertPermutation(x: T) -> (y: T) [T: type in INDEX = s32]
    The permutation that undoes one.
ListDiff(x: T, y: T) -> (out: T, idx: out_idx) [T: type; out_idx: type in INDEX = s32]
    Elements of x that y does not have, and their places.
LowerBound(sorted_inputs: T, values: T) -> (output: out_type) [T: type; out_type: type in INDEX = s32]
    Where values would go in sorted rows, before equal ones.
MatrixBandPart(input: T, num_lower: Tindex, num_upper: Tindex) -> (band: T) [T: type; Tindex: type in INDEX = s64]
    Matrices with all but a band about the diagonal set to 0.
MatrixDiag(diagonal: T) -> (output: T) [T: type]
    Matrices with the vectors on their diagonals.
MatrixDiagPart(input: T) -> (diagonal: T) [T: type]
    Diagonals of matrices.
MatrixDiagPartV2(input: T, k: s32, padding_value: T) -> (diagonal: T) [T: type]
    Some diagonals of matrices.
MatrixDiagPartV3(input: T, k: s32, padding_value: T) -> (diagonal: T)
    [T: type; align: string in {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"]
    Some diagonals of matrices, aligned as asked.
MatrixDiagV2(diagonal: T, k: s32, num_rows: s32, num_cols: s32, padding_value: T) -> (output: T) [T: type]
    Matrices with vectors on some diagonals.
MatrixDiagV3(diagonal: T, k: s32, num_rows: s32, num_cols: s32, padding_value: T) -> (output: T)
    [T: type; align: string in {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"]
    Matrices with vectors on some diagonals, aligned as asked.
MatrixSetDiag(input: T, diagonal: T) -> (output: T) [T: type]
    Matrices with their diagonals replaced.
MatrixSetDiagV2(input: T, diagonal: T, k: s32) -> (output: T) [T: type]
    Matrices with some diagonals replaced.
MatrixSetDiagV3(input: T, diagonal: T, k: s32) -> (output: T)
    [T: type; align: string in {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"]
    Matrices with some diagonals replaced, aligned as asked.
MirrorPad(input: T, paddings: Tpaddings) -> (output: T)
    [T: type; Tpaddings: type in INDEX = s32; mode: string in {"REFLECT", "SYMMETRIC"}]
    Pads with the tensor reflected at its border.
MirrorPadGrad(input: T, paddings: Tpaddings) -> (output: T)
    [T: type; Tpaddings: type in INDEX = s32; mode: string in {"REFLECT", "SYMMETRIC"}]
    Gradient of MirrorPad.
OneHot(indices: TI, depth: s32, on_value: T, off_value: T) -> (output: T)
    [axis: int = -1; T: type; TI: type in {u8, s8, s32, s64} = s64]
    on_value at each index along a new dimension, off_value elsewhere.
OnesLike(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, u8, s16, u16, s32, u32, s64, u64, c64, c128, pred}]
    Ones of the same shape and type.
Pack(values: N * T) -> (output: T) [N: int >= 1; T: type; axis: int = 0]
    Joins tensors along a new dimension.
Pad(input: T, paddings: Tpaddings) -> (output: T) [T: type; Tpaddings: type in INDEX = s32]
    Adds zeros around.
PadV2(input: T, paddings: Tpaddings, constant_values: T) -> (output: T) [T: type; Tpaddings: type in INDEX = s32]
    Adds a constant around.
Placeholder() -> (output: dtype) [dtype: type; shape: shape = *]
    A value that is fed.
PlaceholderV2() -> (output: dtype) [dtype: type; shape: shape]
    A value that is fed, its shape required.
PlaceholderWithDefault(input: dtype) -> (output: dtype) [dtype: type; shape: shape]
    The input, unless something else is fed.
PreventGradient(input: T) -> (output: T) [T: type; message: string = ""]
    The tensor itself; asking for a gradient through it fails.
QuantizeAndDequantizeV2(input: T, input_min: T, input_max: T) -> (output: T)
    [signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: type in FLOAT; round_mode: string in
     {"HALF_TO_EVEN", "HALF_UP"} = "HALF_TO_EVEN"; narrow_range: bool = false; axis: int = -1]
    Rounds to the values that a quantised type has.
QuantizeAndDequantizeV3(input: T, input_min: T, input_max: T, num_bits: s32) -> (output: T)
    [signed_input: bool = true; range_given: bool = true; T: type in FLOAT; narrow_range: bool = false; axis: int =
     -1]
QuantizeAndDequantizeV4(input: T, input_min: T, input_max: T) -> (output: T)
    [signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: type in FLOAT; round_mode: string in
     {"HALF_TO_EVEN", "HALF_UP"} = "HALF_TO_EVEN"; narrow_range: bool = false; axis: int = -1]
Rank(input: T) -> (output: s32) [T: type]
    Number of dimensions.
RefIdentity(input: Ref(T)) -> (output: Ref(T)) [T: type]
    Identity for references.
Reshape(tensor: T, shape: Tshape) -> (output: T) [T: type; Tshape: type in INDEX = s32]
    The same elements in another shape; one size may be -1.
ResourceStridedSliceAssign(ref: resource, begin: Index, end: Index, strides: Index, value: T) -> ()
    [T: type; Index: type in INDEX; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int
     = 0; shrink_axis_mask: int = 0] stateful
    Sets a strided slice of a resource variable.
Reverse(tensor: T, dims: pred) -> (output: T)
    [T: type in {u8, s8, u16, s16, u32, s32, u64, s64, pred, bf16, f16, f32, f64, c64, c128, string}]
    Reverses dimensions that are marked.
ReverseSequence(input: T, seq_lengths: Tlen) -> (output: T)
    [seq_dim: int; batch_dim: int = 0; T: type; Tlen: type in INDEX = s64]
    Reverses the beginning of each sequence.
ReverseV2(tensor: T, axis: Tidx) -> (output: T)
    [Tidx: type in INDEX = s32; T: type in {u8, s8, u16, s16, s32, u32, s64, u64, pred, bf16, f16, f32, f64, c64,
     c128, string}]
    Reverses dimensions.
Roll(input: T, shift: Tshift, axis: Taxis) -> (output: T) [T: type; Tshift: type in INDEX; Taxis: type in INDEX]
    Elements shifted round along dimensions.
ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> (output: T)
    [T: type; Tindices: type in {s16, s32, s64}; bad_indices_policy: string = ""]
    Adds updates into zeros by index vectors.
Shape(input: T) -> (output: out_type) [T: type; out_type: type in INDEX = s32]
    The shape as a vector.
ShapeN(input: N * T) -> (output: N * out_type) [N: int >= 1; T: type; out_type: type in INDEX = s32]
    The shapes of N tensors.
Size(input: T) -> (output: out_type) [T: type; out_type: type in INDEX = s32]
    Number of elements.
Slice(input: T, begin: Index, size: Index) -> (output: T) [T: type; Index: type in INDEX]
    A block from begin, of a size; -1 to the end.
Snapshot(input: T) -> (output: T) [T: type]
    A copy of the input.
SpaceToBatch(input: T, paddings: Tpaddings) -> (output: T)
    [T: type; Tpaddings: type in INDEX = s32; block_size: int >= 2]
    Moves blocks of height and width into the batch, after padding.
SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> (output: T)
    [T: type; Tblock_shape: type in INDEX = s32; Tpaddings: type in INDEX = s32]
    Moves blocks of spatial dimensions into the batch, after padding.
SpaceToDepth(input: T) -> (output: T)
    [T: type; block_size: int >= 2; data_format: string in {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"]
    Moves blocks of height and width into the channels.
Split(split_dim: s32, value: T) -> (output: num_split * T) [num_split: int >= 1; T: type]
    Equal pieces along a dimension.
SplitV(value: T, size_splits: Tlen, split_dim: s32) -> (output: num_split * T)
    [num_split: int >= 1; T: type; Tlen: type in {s8, s32, s64} = s64]
    Pieces of given sizes along a dimension.
Squeeze(input: T) -> (output: T) [T: type; squeeze_dims: list(int) >= 0 = []]
    Without dimensions of size 1.
StopGradient(input: T) -> (output: T) [T: type]
    The tensor itself; no gradient flows through.
StridedSlice(input: T, begin: Index, end: Index, strides: Index) -> (output: T)
    [T: type; Index: type in {s16, s32, s64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0;
     new_axis_mask: int = 0; shrink_axis_mask: int = 0]
    Elements from begin to end by strides; bits of the masks say which dimensions are whole, new or dropped.
StridedSliceGrad(shape: Index, begin: Index, end: Index, strides: Index, dy: T) -> (output: T)
    [T: type; Index: type in INDEX; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int
     = 0; shrink_axis_mask: int = 0]
    Zeros of a shape with dy in the strided slice.
TensorScatterAdd(tensor: T, indices: Tindices, updates: T) -> (output: T)
    [T: type; Tindices: type in INDEX; bad_indices_policy: string = ""]
    The tensor with updates added by index vectors.
TensorScatterMax(tensor: T, indices: Tindices, updates: T) -> (output: T)
    [T: type; Tindices: type in INDEX; bad_indices_policy: string = ""]
    The tensor with the maximum of updates taken by index vectors.
TensorScatterMin(tensor: T, indices: Tindices, updates: T) -> (output: T)
    [T: type; Tindices: type in INDEX; bad_indices_policy: string = ""]
    The tensor with the minimum of updates taken by index vectors.
TensorScatterSub(tensor: T, indices: Tindices, updates: T) -> (output: T)
    [T: type; Tindices: type in INDEX; bad_indices_policy: string = ""]
    The tensor with updates subtracted by index vectors.
TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> (output: T)
    [T: type; Tindices: type in {s16, s32, s64, u16}; bad_indices_policy: string = ""]
    The tensor with elements or slices replaced by index vectors.
TensorStridedSliceUpdate(input: T, begin: Index, end: Index, strides: Index, value: T) -> (output: T)
    [T: type; Index: type in INDEX; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int
     = 0; shrink_axis_mask: int = 0]
    The tensor with a strided slice replaced.
Tile(input: T, multiples: Tmultiples) -> (output: T) [T: type; Tmultiples: type in INDEX = s32]
    The tensor repeated along each dimension.
Transpose(x: T, perm: Tperm) -> (y: T) [T: type; Tperm: type in INDEX = s32]
    Dimensions permuted.
Unique(x: T) -> (y: T, idx: out_idx) [T: type; out_idx: type in INDEX = s32]
    Distinct elements in order, and the index of each element among them.
UniqueV2(x: T, axis: Taxis) -> (y: T, idx: out_idx)
    [T: type; Taxis: type in INDEX = s64; out_idx: type in INDEX = s32]
    Unique along a dimension.
UniqueWithCounts(x: T) -> (y: T, idx: out_idx, count: out_idx) [T: type; out_idx: type in INDEX = s32]
    Unique, and how often each occurs.
Unpack(value: T) -> (output: num * T) [num: int >= 0; T: type; axis: int = 0]
    The slices along a dimension, without it.
UpperBound(sorted_inputs: T, values: T) -> (output: out_type) [T: type; out_type: type in INDEX = s32]
    Where values would go in sorted rows, after equal ones.
Where(input: T) -> (index: s64)
    [T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64,
     pred} = pred]
    Index vectors of the true elements.
ZerosLike(x: T) -> (y: T) [T: type]
    Zeros of the same shape and type.
"""
