"""Sparse and ragged tensors, counts and sets: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
AddManySparseToTensorsMap(sparse_indices: s64, sparse_values: T, sparse_shape: s64) -> (sparse_handles: s64)
    [T: type; container: string = ""; shared_name: string = ""] stateful
DenseCountSparseOutput(values: T, weights: output_type) -> (output_indices: s64, output_values: output_type, output_dense_shape: s64)
    [T: type in INDEX; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; output_type: type
     in {s32, s64, f32, f64}]
DenseToDenseSetOperation(set1: T, set2: T) -> (result_indices: s64, result_values: T, result_shape: s64)
    [set_operation: string; validate_indices: bool = true; T: type in {s8, s16, s32, s64, u8, u16, string}]
DenseToSparseSetOperation(set1: T, set2_indices: s64, set2_values: T, set2_shape: s64) -> (result_indices: s64, result_values: T, result_shape: s64)
    [set_operation: string; validate_indices: bool = true; T: type in {s8, s16, s32, s64, u8, u16, string}]
DeserializeManySparse(serialized_sparse: string) -> (sparse_indices: s64, sparse_values: dtype, sparse_shape: s64)
    [dtype: type]
DeserializeSparse(serialized_sparse: Tserialized) -> (sparse_indices: s64, sparse_values: dtype, sparse_shape: s64)
    [dtype: type; Tserialized: type in {string, variant} = string]
RaggedBincount(splits: s64, values: Tidx, size: Tidx, weights: T) -> (output: T)
    [Tidx: type in INDEX; T: type in {s32, s64, f32, f64}; binary_output: bool = false]
RaggedCountSparseOutput(splits: s64, values: T, weights: output_type) -> (output_indices: s64, output_values: output_type, output_dense_shape: s64)
    [T: type in INDEX; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; output_type: type
     in {s32, s64, f32, f64}]
RaggedCross(ragged_values: list(ragged_values_types), ragged_row_splits: list(ragged_splits_types), sparse_indices: Nsparse * s64, sparse_values: list(sparse_values_types), sparse_shape: Nsparse * s64, dense_inputs: list(dense_types)) -> (output_values: out_values_type, output_row_splits: out_row_splits_type)
    [Nsparse: int >= 0; input_order: string; hashed_output: bool; num_buckets: int >= 0; hash_key: int;
     ragged_values_types: list(type) in {s64, string} >= 0; ragged_splits_types: list(type) in INDEX >= 0;
     sparse_values_types: list(type) in {s64, string} >= 0; dense_types: list(type) in {s64, string} >= 0;
     out_values_type: type in {s64, string}; out_row_splits_type: type in INDEX]
RaggedFillEmptyRows(value_rowids: s64, values: T, nrows: s64, default_value: T) -> (output_value_rowids: s64, output_values: T, empty_row_indicator: pred, reverse_index_map: s64)
    [T: type]
RaggedFillEmptyRowsGrad(reverse_index_map: s64, grad_values: T) -> (d_values: T, d_default_value: T) [T: type]
RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, indices: Tindices) -> (output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues)
    [Tvalues: type; Tindices: type in INDEX; Tsplits: type in INDEX = s64; PARAMS_RAGGED_RANK: int >= 1;
     OUTPUT_RAGGED_RANK: int >= 0]
RaggedRange(starts: T, limits: T, deltas: T) -> (rt_nested_splits: Tsplits, rt_dense_values: T)
    [T: type in {bf16, f32, f64, s32, s64} = s32; Tsplits: type in INDEX = s64]
RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T) -> (sparse_indices: s64, sparse_values: T, sparse_dense_shape: s64)
    [RAGGED_RANK: int >= 1; T: type; Tsplits: type in INDEX = s64]
RaggedTensorToTensor(shape: Tshape, values: T, default_value: T, row_partition_tensors: num_row_partition_tensors * Tindex) -> (result: T)
    [T: type; Tindex: type in INDEX; Tshape: type in INDEX; num_row_partition_tensors: int >= 1;
     row_partition_types: list(string)]
SetSize(set_indices: s64, set_values: T, set_shape: s64) -> (size: s32)
    [validate_indices: bool = true; T: type in {s8, s16, s32, s64, u8, u16, string}]
SparseAccumulatorApplyGradient(handle: Ref(string), local_step: s64, gradient_indices: s64, gradient_values: dtype, gradient_shape: s64) -> ()
    [dtype: type in NUMBER; has_known_shape: bool]
SparseAccumulatorTakeGradient(handle: Ref(string), num_required: s32) -> (indices: s64, values: dtype, shape: s64)
    [dtype: type in NUMBER]
SparseAdd(a_indices: s64, a_values: T, a_shape: s64, b_indices: s64, b_values: T, b_shape: s64, thresh: Treal) -> (sum_indices: s64, sum_values: T, sum_shape: s64)
    [T: type in NUMBER; Treal: type in REAL]
SparseAddGrad(backprop_val_grad: T, a_indices: s64, b_indices: s64, sum_indices: s64) -> (a_val_grad: T, b_val_grad: T)
    [T: type in NUMBER]
SparseBincount(indices: s64, values: Tidx, dense_shape: s64, size: Tidx, weights: T) -> (output: T)
    [Tidx: type in INDEX; T: type in {s32, s64, f32, f64}; binary_output: bool = false]
SparseConcat(indices: N * s64, values: N * T, shapes: N * s64) -> (output_indices: s64, output_values: T, output_shape: s64)
    [concat_dim: int; N: int >= 2; T: type]
SparseConditionalAccumulator() -> (handle: Ref(string))
    [dtype: type in NUMBER; shape: shape; container: string = ""; shared_name: string = ""; reduction_type: string
     in {"MEAN", "SUM"} = "MEAN"] stateful
SparseCountSparseOutput(indices: s64, values: T, dense_shape: s64, weights: output_type) -> (output_indices: s64, output_values: output_type, output_dense_shape: s64)
    [T: type in INDEX; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; output_type: type
     in {s32, s64, f32, f64}]
SparseCross(indices: N * s64, values: list(sparse_types), shapes: N * s64, dense_inputs: list(dense_types)) -> (output_indices: s64, output_values: out_type, output_shape: s64)
    [N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; sparse_types: list(type) in {s64,
     string} >= 0; dense_types: list(type) in {s64, string} >= 0; out_type: type in {s64, string}; internal_type:
     type in {s64, string}]
SparseCrossHashed(indices: N * s64, values: list(sparse_types), shapes: N * s64, dense_inputs: list(dense_types), num_buckets: s64, strong_hash: pred, salt: s64) -> (output_indices: s64, output_values: s64, output_shape: s64)
    [N: int >= 0; sparse_types: list(type) in {s64, string} >= 0; dense_types: list(type) in {s64, string} >= 0]
SparseCrossV2(indices: N * s64, values: list(sparse_types), shapes: N * s64, dense_inputs: list(dense_types), sep: string) -> (output_indices: s64, output_values: string, output_shape: s64)
    [N: int >= 0; sparse_types: list(type) in {s64, string} >= 0; dense_types: list(type) in {s64, string} >= 0]
SparseDenseCwiseAdd(sp_indices: s64, sp_values: T, sp_shape: s64, dense: T) -> (output: T) [T: type in NUMBER]
SparseDenseCwiseDiv(sp_indices: s64, sp_values: T, sp_shape: s64, dense: T) -> (output: T) [T: type in NUMBER]
SparseDenseCwiseMul(sp_indices: s64, sp_values: T, sp_shape: s64, dense: T) -> (output: T) [T: type in NUMBER]
SparseFillEmptyRows(indices: s64, values: T, dense_shape: s64, default_value: T) -> (output_indices: s64, output_values: T, empty_row_indicator: pred, reverse_index_map: s64)
    [T: type]
SparseFillEmptyRowsGrad(reverse_index_map: s64, grad_values: T) -> (d_values: T, d_default_value: T) [T: type]
SparseMatrixAdd(a: variant, b: variant, alpha: T, beta: T) -> (c: variant) [T: type in {f32, f64, c64, c128}]
SparseMatrixMatMul(a: variant, b: T) -> (output: T)
    [T: type; transpose_a: bool = false; transpose_b: bool = false; adjoint_a: bool = false; adjoint_b: bool =
     false; transpose_output: bool = false; conjugate_output: bool = false]
SparseMatrixMul(a: variant, b: T) -> (output: variant) [T: type]
SparseMatrixNNZ(sparse_matrix: variant) -> (nnz: s32)
SparseMatrixOrderingAMD(input: variant) -> (output: s32)
SparseMatrixSoftmax(logits: variant) -> (softmax: variant) [type: type in {f32, f64}]
SparseMatrixSoftmaxGrad(softmax: variant, grad_softmax: variant) -> (gradient: variant)
    [type: type in {f32, f64}]
SparseMatrixSparseCholesky(input: variant, permutation: s32) -> (output: variant)
    [type: type in {f32, f64, c64, c128}]
SparseMatrixSparseMatMul(a: variant, b: variant) -> (c: variant)
    [type: type in {f32, f64, c64, c128}; transpose_a: bool = false; transpose_b: bool = false; adjoint_a: bool =
     false; adjoint_b: bool = false]
SparseMatrixTranspose(input: variant) -> (output: variant)
    [conjugate: bool = false; type: type in {f32, f64, c64, c128}]
SparseMatrixZeros(dense_shape: s64) -> (sparse_matrix: variant) [type: type in {f32, f64, c64, c128}]
SparseReduceMax(input_indices: s64, input_values: T, input_shape: s64, reduction_axes: s32) -> (output: T)
    [keep_dims: bool = false; T: type in REAL]
SparseReduceMaxSparse(input_indices: s64, input_values: T, input_shape: s64, reduction_axes: s32) -> (output_indices: s64, output_values: T, output_shape: s64)
    [keep_dims: bool = false; T: type in REAL]
SparseReduceSum(input_indices: s64, input_values: T, input_shape: s64, reduction_axes: s32) -> (output: T)
    [keep_dims: bool = false; T: type in NUMBER]
SparseReduceSumSparse(input_indices: s64, input_values: T, input_shape: s64, reduction_axes: s32) -> (output_indices: s64, output_values: T, output_shape: s64)
    [keep_dims: bool = false; T: type in NUMBER]
SparseReorder(input_indices: s64, input_values: T, input_shape: s64) -> (output_indices: s64, output_values: T)
    [T: type]
SparseReshape(input_indices: s64, input_shape: s64, new_shape: s64) -> (output_indices: s64, output_shape: s64)
SparseSegmentMeanGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: s32) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32]
SparseSegmentMeanGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: s32) -> (output: T, sorted_unique_indices: Tidx)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32]
SparseSegmentMeanWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tnumsegments: type in INDEX = s32; Tsegmentids: type in INDEX =
     s32; sparse_gradient: bool = false]
SparseSegmentSqrtN(data: T, indices: Tidx, segment_ids: Tsegmentids) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32; sparse_gradient: bool = false]
SparseSegmentSqrtNGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: s32) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32]
SparseSegmentSqrtNGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: s32) -> (output: T, sorted_unique_indices: Tidx)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32]
SparseSegmentSqrtNWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tnumsegments: type in INDEX = s32; Tsegmentids: type in INDEX =
     s32; sparse_gradient: bool = false]
SparseSegmentSumGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: s32) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32]
SparseSegmentSumGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: s32) -> (output: T, sorted_unique_indices: Tidx)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32]
SparseSegmentSumWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments) -> (output: T)
    [T: type in REAL; Tidx: type in INDEX = s32; Tnumsegments: type in INDEX = s32; Tsegmentids: type in INDEX =
     s32; sparse_gradient: bool = false]
SparseSlice(indices: s64, values: T, shape: s64, start: s64, size: s64) -> (output_indices: s64, output_values: T, output_shape: s64)
    [T: type]
SparseSliceGrad(backprop_val_grad: T, input_indices: s64, input_start: s64, output_indices: s64) -> (val_grad: T)
    [T: type in NUMBER]
SparseSoftmax(sp_indices: s64, sp_values: T, sp_shape: s64) -> (output: T) [T: type in {f16, f32, f64}]
SparseSparseMaximum(a_indices: s64, a_values: T, a_shape: s64, b_indices: s64, b_values: T, b_shape: s64) -> (output_indices: s64, output_values: T)
    [T: type in REAL]
SparseSparseMinimum(a_indices: s64, a_values: T, a_shape: s64, b_indices: s64, b_values: T, b_shape: s64) -> (output_indices: s64, output_values: T)
    [T: type in NUMBER]
SparseSplit(split_dim: s64, indices: s64, values: T, shape: s64) -> (output_indices: num_split * s64, output_values: num_split * T, output_shape: num_split * s64)
    [num_split: int >= 1; T: type]
SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> (output: T)
    [T: type in NUMBER; Tindices: type in INDEX]
SparseToSparseSetOperation(set1_indices: s64, set1_values: T, set1_shape: s64, set2_indices: s64, set2_values: T, set2_shape: s64) -> (result_indices: s64, result_values: T, result_shape: s64)
    [set_operation: string; validate_indices: bool = true; T: type in {s8, s16, s32, s64, u8, u16, string}]
TakeManySparseFromTensorsMap(sparse_handles: s64) -> (sparse_indices: s64, sparse_values: dtype, sparse_shape: s64)
    [dtype: type; container: string = ""; shared_name: string = ""] stateful
"""
