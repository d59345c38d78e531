"""Linear algebra, transforms, random numbers and collectives not in the other tables: rows of the
op table (see op_def for their form; facts of tensorflow/core/ops).
"""

from __future__ import annotations

ROWS = r"""
AccumulateNV2(inputs: N * T) -> (sum: T) [N: int >= 1; T: type in NUMBER; shape: shape] commutative
AllToAll(input: T, group_assignment: s32) -> (output: T)
    [T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64,
     pred}; concat_dimension: int; split_dimension: int; split_count: int] stateful
BandedTriangularSolve(matrix: T, rhs: T) -> (output: T)
    [lower: bool = true; adjoint: bool = false; T: type in {f64, f32, f16, c64, c128}]
BatchCholesky(input: T) -> (output: T) [T: type in {f64, f32}]
BatchCholeskyGrad(l: T, grad: T) -> (output: T) [T: type in {f32, f64}]
BatchFFT(input: c64) -> (output: c64)
BatchFFT2D(input: c64) -> (output: c64)
BatchFFT3D(input: c64) -> (output: c64)
BatchFunction(in_tensors: list(Tin), captured_tensors: list(Tcaptured)) -> (out_tensors: list(Tout))
    [f: func; num_batch_threads: int; max_batch_size: int; batch_timeout_micros: int; max_enqueued_batches: int =
     10; allowed_batch_sizes: list(int) = []; container: string = ""; shared_name: string = ""; batching_queue:
     string = ""; low_priority_max_batch_size: int = 0; low_priority_batch_timeout_micros: int = 0;
     low_priority_allowed_batch_sizes: list(int) = []; low_priority_max_enqueued_batches: int = 0;
     mixed_priority_policy: string in {"low_priority_padding_with_max_batch_size",
     "low_priority_padding_with_next_allowed_batch_size", "priority_isolation", "priority_merge"} =
     "low_priority_padding_with_max_batch_size"; batch_padding_policy: string in {"PAD_UP", "BATCH_DOWN",
     "MINIMIZE_TPU_COST_PER_REQUEST"} = "PAD_UP"; Tin: list(type) >= 1; Tcaptured: list(type) >= 0; Tout: list(type)
     >= 1; enable_large_batch_splitting: bool = false]
BatchIFFT(input: c64) -> (output: c64)
BatchIFFT2D(input: c64) -> (output: c64)
BatchIFFT3D(input: c64) -> (output: c64)
BatchMatrixBandPart(input: T, num_lower: s64, num_upper: s64) -> (band: T) [T: type]
BatchMatrixDeterminant(input: T) -> (output: T) [T: type in {f32, f64, c64, c128}]
BatchMatrixDiag(diagonal: T) -> (output: T) [T: type]
BatchMatrixDiagPart(input: T) -> (diagonal: T) [T: type]
BatchMatrixInverse(input: T) -> (output: T) [adjoint: bool = false; T: type in {f64, f32}]
BatchMatrixSetDiag(input: T, diagonal: T) -> (output: T) [T: type]
BatchMatrixSolve(matrix: T, rhs: T) -> (output: T) [adjoint: bool = false; T: type in {f64, f32}]
BatchMatrixSolveLs(matrix: T, rhs: T, l2_regularizer: f64) -> (output: T)
    [T: type in {f64, f32}; fast: bool = true]
BatchMatrixTriangularSolve(matrix: T, rhs: T) -> (output: T)
    [lower: bool = true; adjoint: bool = false; T: type in {f64, f32}]
BatchNormWithGlobalNormalizationGrad(t: T, m: T, v: T, gamma: T, backprop: T) -> (dx: T, dm: T, dv: T, db: T, dg: T)
    [T: type in NUMBER; variance_epsilon: float; scale_after_normalization: bool]
BatchSelfAdjointEig(input: T) -> (output: T) [T: type in {f64, f32}]
BatchSelfAdjointEigV2(input: T) -> (e: T, v: T) [compute_v: bool = true; T: type in {f64, f32}]
BatchSvd(input: T) -> (s: T, u: T, v: T)
    [compute_uv: bool = true; full_matrices: bool = false; T: type in {f64, f32, c64, c128}]
BesselK0e(x: T) -> (y: T) [T: type in FLOAT]
BesselK1e(x: T) -> (y: T) [T: type in FLOAT]
BlockLSTMGrad(seq_len_max: s64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T, i: T, cs: T, f: T, o: T, ci: T, co: T, h: T, cs_grad: T, h_grad: T) -> (x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: T, b_grad: T)
    [use_peephole: bool; T: type in {f16, f32}]
BlockLSTMGradV2(seq_len_max: s64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T, i: T, cs: T, f: T, o: T, ci: T, co: T, h: T, cs_grad: T, h_grad: T) -> (x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: T, b_grad: T)
    [use_peephole: bool; T: type in {f16, f32}]
CTCBeamSearchDecoder(inputs: T, sequence_length: s32) -> (decoded_indices: top_paths * s64, decoded_values: top_paths * s64, decoded_shape: top_paths * s64, log_probability: T)
    [beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = true; T: type in {f32, f64} = f32]
CTCGreedyDecoder(inputs: T, sequence_length: s32) -> (decoded_indices: s64, decoded_values: s64, decoded_shape: s64, log_probability: T)
    [merge_repeated: bool = false; blank_index: int = -1; T: type in {f32, f64} = f32]
CTCLossV2(inputs: f32, labels_indices: s64, labels_values: s32, sequence_length: s32) -> (loss: f32, gradient: f32)
    [preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; ignore_longer_outputs_than_inputs:
     bool = false]
CheckNumericsV2(tensor: T) -> (output: T) [T: type in FLOAT; message: string] stateful
CholeskyGrad(l: T, grad: T) -> (output: T) [T: type in {f16, f32, f64}]
CollectiveAllToAllV2(input: T, group_size: s32, group_key: s32, instance_key: s32, ordering_token: Nordering_token * resource) -> (data: T)
    [T: type in {bf16, f32, f16, f64, s32, s64}; communication_hint: string = "auto"; timeout_seconds: float = 0.0;
     is_stateless: bool = false; Nordering_token: int >= 0 = 0] stateful
CollectiveAllToAllV3(input: T, communicator: resource, group_assignment: s32) -> (data: T)
    [T: type in {bf16, f32, f16, f64, s32, s64}; timeout_seconds: float = 0.0] stateful
CollectiveBcastRecv() -> (data: T)
    [T: type in {pred, f32, f16, f64, s32, s64}; group_size: int; group_key: int; instance_key: int; shape: shape;
     communication_hint: string = "auto"; timeout_seconds: float = 0.0] stateful
CollectiveBcastRecvV2(group_size: s32, group_key: s32, instance_key: s32, shape: Tshape) -> (data: T)
    [T: type in {pred, f32, f16, f64, s32, s64}; Tshape: type in INDEX = s32; communication_hint: string = "auto";
     timeout_seconds: float = 0.0] stateful
CollectiveBcastSend(input: T) -> (data: T)
    [T: type in {pred, f32, f16, f64, s32, s64}; group_size: int; group_key: int; instance_key: int; shape: shape;
     communication_hint: string = "auto"; timeout_seconds: float = 0.0] stateful
CollectiveBcastSendV2(input: T, group_size: s32, group_key: s32, instance_key: s32) -> (data: T)
    [T: type in {pred, f32, f16, f64, s32, s64}; communication_hint: string = "auto"; timeout_seconds: float = 0.0] stateful
CollectiveGather(input: T) -> (data: T)
    [T: type in {f32, f16, f64, s32, s64}; group_size: int; group_key: int; instance_key: int; shape: shape;
     communication_hint: string = "auto"; timeout_seconds: float = 0.0] stateful
CollectiveGatherV2(input: T, group_size: s32, group_key: s32, instance_key: s32, ordering_token: Nordering_token * resource) -> (data: T)
    [T: type in {f32, f16, f64, s32, s64}; communication_hint: string = "auto"; timeout_seconds: float = 0.0;
     is_stateless: bool = false; Nordering_token: int >= 0 = 0] stateful
CollectiveInitializeCommunicator(group_key: s32, rank: s32, group_size: s32) -> (communicator: resource)
    [communication_hint: string = "auto"; timeout_seconds: float = 0.0] stateful
CollectivePermute(input: T, source_target_pairs: s32) -> (output: T) [T: type in NUMBER] stateful
CollectiveReduce(input: T) -> (data: T)
    [T: type in {bf16, f32, f16, f64, s32, s64}; group_size: int; group_key: int; instance_key: int; merge_op:
     string in {"Min", "Max", "Mul", "Add"}; final_op: string in {"Id", "Div"}; subdiv_offsets: list(int); wait_for:
     list(int) = []; communication_hint: string = "auto"; timeout_seconds: float = 0.0] stateful
CollectiveReduceV3(input: T, communicator: resource, group_assignment: s32) -> (data: T)
    [T: type in {bf16, f32, f16, f64, s32, s64}; reduction: string in {"Min", "Max", "Mul", "Add"}; timeout_seconds:
     float = 0.0] stateful
CompositeTensorVariantFromComponents(components: list(Tcomponents)) -> (encoded: variant)
    [metadata: string; Tcomponents: list(type) >= 0]
CompositeTensorVariantToComponents(encoded: variant) -> (components: list(Tcomponents))
    [metadata: string; Tcomponents: list(type) >= 0]
ComputeAccidentalHits(true_classes: s64, sampled_candidates: s64) -> (indices: s32, ids: s64, weights: f32)
    [num_true: int; seed: int = 0; seed2: int = 0]
Conv2DBackpropFilterV2(input: T, filter: T, out_backprop: T) -> (output: T)
    [T: type in FLOAT; strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in {"SAME", "VALID",
     "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; dilations:
     list(int) = [1, 1, 1, 1]]
Conv2DBackpropInputV2(input: T, filter: T, out_backprop: T) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in
     {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} =
     "NHWC"; dilations: list(int) = [1, 1, 1, 1]]
CrossReplicaSum(input: T, group_assignment: s32) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32, u32}] stateful
DecodeJSONExample(json_examples: string) -> (binary_examples: string)
FusedPadConv2D(input: T, paddings: s32, filter: T) -> (output: T)
    [T: type in FLOAT; mode: string in {"REFLECT", "SYMMETRIC"}; strides: list(int); padding: string in {"SAME",
     "VALID"}]
GRUBlockCellGrad(x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T, r: T, u: T, c: T, d_h: T) -> (d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T)
    [T: type in {f32}]
HistogramFixedWidth(values: T, value_range: T, nbins: s32) -> (out: dtype)
    [T: type in {s32, s64, f32, f64}; dtype: type in INDEX = s32]
HostConst() -> (output: dtype) [value: tensor; dtype: type]
IFFTND(input: Tcomplex, fft_length: s32, axes: s32) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
IRFFTND(input: Tcomplex, fft_length: s32, axes: s32) -> (output: Treal)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
ImmutableConst() -> (tensor: dtype) [dtype: type; shape: shape; memory_region_name: string]
InvGrad(y: T, dy: T) -> (z: T) [T: type in INEXACT]
IsotonicRegression(input: T) -> (output: output_dtype, segments: s32)
    [T: type in REAL; output_dtype: type in FLOAT = f32]
KthOrderStatistic(input: f32) -> (output: f32) [k: int]
LSTMBlockCellGrad(x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T, i: T, cs: T, f: T, o: T, ci: T, co: T, cs_grad: T, h_grad: T) -> (cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T)
    [use_peephole: bool; T: type in {f16, f32}]
MatrixLogarithm(input: T) -> (output: T) [T: type in COMPLEX]
MatrixSolveLs(matrix: T, rhs: T, l2_regularizer: f64) -> (output: T)
    [T: type in {f64, f32, f16, c64, c128}; fast: bool = true]
MatrixSquareRoot(input: T) -> (output: T) [T: type in {f64, f32, f16, c64, c128}]
NonDeterministicInts(shape: shape_dtype) -> (output: dtype)
    [dtype: type = s64; shape_dtype: type = s64] stateful
ParallelConcat(values: N * T) -> (output: T) [N: int >= 1; T: type; shape: shape]
RFFTND(input: Treal, fft_length: s32, axes: s32) -> (output: Tcomplex)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype) -> (output: dtype)
    [rounds: int = 4; dtype: type in {s32, u32, s64, u64}; Tseed: type in {s32, u32, s64, u64}]
RandomPoisson(shape: S, rate: dtype) -> (output: dtype)
    [seed: int = 0; seed2: int = 0; S: type in INDEX; dtype: type in {f16, f32, f64}] stateful
RandomPoissonV2(shape: S, rate: R) -> (output: dtype)
    [seed: int = 0; seed2: int = 0; S: type in INDEX; R: type in {f16, f32, f64, s32, s64} = f64; dtype: type in
     {f16, f32, f64, s32, s64} = s64] stateful
Recv() -> (tensor: tensor_type)
    [tensor_type: type; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string;
     client_terminated: bool = false] stateful
RequantizationRange(input: Tinput, input_min: f32, input_max: f32) -> (output_min: f32, output_max: f32)
    [Tinput: type in {qs8, qu8, qs32, qs16, qu16}]
RequantizationRangePerChannel(input: T, input_min: f32, input_max: f32) -> (output_min: f32, output_max: f32)
    [T: type in {qs8, qu8, qs32, qs16, qu16} = qs32; clip_value_max: float]
Requantize(input: Tinput, input_min: f32, input_max: f32, requested_output_min: f32, requested_output_max: f32) -> (output: out_type, output_min: f32, output_max: f32)
    [Tinput: type in {qs8, qu8, qs32, qs16, qu16}; out_type: type in {qs8, qu8, qs32, qs16, qu16}]
RequantizePerChannel(input: T, input_min: f32, input_max: f32, requested_output_min: f32, requested_output_max: f32) -> (output: out_type, output_min: f32, output_max: f32)
    [T: type in {qs8, qu8, qs32, qs16, qu16} = qs32; out_type: type in {qs8, qu8, qs32, qs16, qu16} = qu8]
SelfAdjointEig(input: T) -> (output: T) [T: type in {f64, f32, f16}]
Send(tensor: T) -> ()
    [T: type; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string;
     client_terminated: bool = false] stateful
SobolSample(dim: s32, num_results: s32, skip: s32) -> (samples: dtype) [dtype: type in {f32, f64} = f32]
StatefulRandomBinomial(resource: resource, algorithm: s64, shape: S, counts: T, probs: T) -> (output: dtype)
    [S: type in INDEX; T: type in {f16, f32, f64, s32, s64} = f64; dtype: type in {f16, f32, f64, s32, s64} = s64] stateful
StatefulStandardNormal(resource: resource, shape: shape_dtype) -> (output: dtype)
    [dtype: type = f32; shape_dtype: type = s64] stateful
StatelessRandomBinomial(shape: S, seed: Tseed, counts: T, probs: T) -> (output: dtype)
    [S: type in INDEX; Tseed: type in INDEX = s64; T: type in {f16, f32, f64, s32, s64} = f64; dtype: type in {f16,
     f32, f64, s32, s64} = s64]
StatelessRandomGammaV2(shape: T, seed: Tseed, alpha: dtype) -> (output: dtype)
    [dtype: type in {f16, f32, f64}; T: type in INDEX; Tseed: type in INDEX = s64]
StatelessRandomGammaV3(shape: shape_dtype, key: u64, counter: u64, alg: s32, alpha: dtype) -> (output: dtype)
    [dtype: type in {f16, f32, f64}; shape_dtype: type in INDEX = s32]
StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> (output: dtype)
    [Rtype: type in {f16, f32, f64, s32, s64}; dtype: type in {f16, f32, f64, s32, s64}; T: type in INDEX; Tseed:
     type in INDEX = s64]
StatelessShuffle(value: T, key: u64, counter: u64, alg: s32) -> (output: T) [T: type]
TileGrad(input: T, multiples: s32) -> (output: T) [T: type]
TopKUnique(input: f32) -> (topk: f32, topk_indices: s32) [k: int]
TopKWithUnique(input: f32) -> (topk: f32, topk_indices: s32) [k: int]
UnbatchGrad(original_input: T, batch_index: s64, grad: T, id: s64) -> (batched_grad: T)
    [container: string = ""; shared_name: string = ""; T: type]
UniqueWithCountsV2(x: T, axis: Taxis) -> (y: T, idx: out_idx, count: out_idx)
    [T: type; Taxis: type in INDEX = s64; out_idx: type in INDEX = s32]
UnravelIndex(indices: Tidx, dims: Tidx) -> (output: Tidx) [Tidx: type in INDEX = s32]
"""
