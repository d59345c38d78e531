"""XLA's own ops, and those that the runtime adds to a graph: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
AssignVariableXlaConcatND(resource: resource, inputs: N * T) -> ()
    [T: type; N: int >= 1; num_concats: list(int); paddings: list(int) = []] stateful
ReadVariableXlaSplitND(resource: resource) -> (outputs: N * T)
    [T: type; N: int >= 1; num_splits: list(int); paddings: list(int) = []] stateful
XlaAllReduce(input: T, group_assignment: s32) -> (output: T)
    [T: type in {f16, bf16, f32, s32, u32}; reduce_op: string in {"Min", "Max", "Mul", "Add", "Mean"}; mode: string in
     {"CrossReplica", "CrossReplicaAndPartition"}]
XlaBroadcastHelper(lhs: T, rhs: T, broadcast_dims: Tindices) -> (lhs_output: T, rhs_output: T)
    [T: type in NUMBER; Tindices: type in INDEX]
    Two tensors with dimensions inserted so that they broadcast as XLA asks.
XlaCallModule(args: list(Tin)) -> (output: list(Tout))
    [version: int; module: string; Sout: list(shape) >= 0; Tout: list(type) >= 0; Tin: list(type) >= 0; dim_args_spec:
     list(string) = []; platforms: list(string) = []; function_list: list(func) = []; has_token_input_output: bool =
     false; disabled_checks: list(string) = []; use_shardy_partitioner: bool = false] stateful
XlaConcatND(inputs: N * T) -> (output: T) [T: type; N: int >= 1; num_concats: list(int); paddings: list(int) = []]
XlaConv(lhs: T, rhs: T, window_strides: Tindices, padding: Tindices, lhs_dilation: Tindices, rhs_dilation: Tindices, feature_group_count: Tindices) -> (output: T)
    [T: type in NUMBER; Tindices: type in INDEX; dimension_numbers: string; precision_config: string]
XlaConvV2(lhs: LhsT, rhs: RhsT, window_strides: Tindices, padding: Tindices, lhs_dilation: Tindices, rhs_dilation: Tindices, feature_group_count: Tindices) -> (output: preferred_element_type)
    [LhsT: type in NUMBER; RhsT: type in NUMBER; Tindices: type in INDEX; dimension_numbers: string; precision_config:
     string; preferred_element_type: type in NUMBER; batch_group_count: int = 1]
    XLA's ConvGeneralDilated.
XlaCustomCall(args: list(T)) -> (output: dtype)
    [target_name: string; backend_config: string; T: list(type) >= 0; dtype: type; shape: shape]
XlaCustomCallV2(operands: list(operand_dtypes)) -> (results: list(result_dtypes))
    [call_target_name: string; backend_config: string; has_side_effect: bool; operand_dtypes: list(type) >= 0;
     result_dtypes: list(type) >= 0; result_shapes: list(shape) >= 0]
XlaDequantize(input: u32) -> (output: bf16)
    [min_range: float; max_range: float; mode: string; transpose_output: bool] stateful
XlaDot(lhs: T, rhs: T) -> (output: T) [T: type in NUMBER; dimension_numbers: string; precision_config: string]
XlaDotV2(lhs: LhsT, rhs: RhsT) -> (output: preferred_element_type)
    [LhsT: type in NUMBER; RhsT: type in NUMBER; dimension_numbers: string; precision_config: string;
     preferred_element_type: type in NUMBER]
    XLA's DotGeneral.
XlaDynamicSlice(input: T, start_indices: Tindices, size_indices: Tindices) -> (output: T)
    [T: type; Tindices: type in INDEX]
    XLA's DynamicSlice.
XlaDynamicUpdateSlice(input: T, update: T, indices: Tindices) -> (output: T) [T: type; Tindices: type in INDEX]
    XLA's DynamicUpdateSlice.
XlaEinsum(a: T, b: T) -> (product: T) [equation: string; T: type in {c64, bf16, f32}]
    A sum of products of two tensors, for XLA.
XlaGather(operand: T, start_indices: Tindices, slice_sizes: Tindices) -> (output: T)
    [dimension_numbers: string; indices_are_sorted: bool; T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8,
     qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64, pred}; Tindices: type in INDEX]
    XLA's Gather.
XlaIf(cond: Tcond, inputs: list(Tin)) -> (output: list(Tout))
    [Tcond: type; then_branch: func; else_branch: func; Tin: list(type) >= 0; Tout: list(type) >= 0] stateful
    XLA's Conditional.
XlaKeyValueSort(keys: K, values: V) -> (sorted_keys: K, sorted_values: V) [K: type in REAL; V: type]
    XLA's Sort of keys with their values.
XlaLaunch(constants: list(Tconstants), args: list(Targs), resources: Nresources * resource) -> (results: list(Tresults))
    [Tconstants: list(type) >= 0; Targs: list(type) >= 0; Nresources: int >= 0; Tresults: list(type) >= 0; function:
     func] stateful
    Compiles and runs a cluster: the launch op of 2017 to 2018.
XlaOptimizationBarrier(input: list(T)) -> (output: list(T)) [T: list(type) >= 0]
    The tensors themselves; XLA moves nothing across.
XlaPad(input: T, padding_value: T, padding_low: Tindices, padding_high: Tindices, padding_interior: Tindices) -> (output: T)
    [T: type; Tindices: type in INDEX]
    XLA's Pad.
XlaRecv() -> (tensor: dtype) [dtype: type; tensor_name: string; shape: shape] stateful
XlaReduce(input: T, init_value: T) -> (output: T)
    [T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64,
     pred}; dimensions_to_reduce: list(int); reducer: func]
    XLA's Reduce by a function.
XlaReducePrecision(operand: T) -> (output: T) [T: type in FLOAT; exponent_bits: int; mantissa_bits: int]
XlaReduceScatter(input: T, group_assignment: s32, scatter_dimension: s32) -> (output: T)
    [T: type in {f16, bf16, f32, s32, u32}; reduce_op: string in {"Min", "Max", "Mul", "Add", "Mean"}]
XlaReduceWindow(input: T, init_value: T, window_dimensions: Tindices, window_strides: Tindices, base_dilations: Tindices, window_dilations: Tindices, padding: Tindices) -> (output: T)
    [T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64,
     pred}; Tindices: type in INDEX; computation: func]
    XLA's ReduceWindow by a function.
XlaRemoveDynamicDimensionSize(input: T, dim_index: s32) -> (output: T) [T: type]
XlaReplicaId() -> (id: s32)
XlaRngBitGenerator(algorithm: s32, initial_state: u64, shape: Tshape) -> (output_key: u64, output: dtype)
    [dtype: type in {u8, s8, s32, s64, u32, u64} = u64; Tshape: type in INDEX = s32]
    XLA's RngBitGenerator.
XlaScatter(operand: T, scatter_indices: Tindices, updates: T) -> (output: T)
    [update_computation: func; dimension_numbers: string; indices_are_sorted: bool; T: type in {f32, f64, s32, u8,
     s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64, pred}; Tindices: type in INDEX]
    XLA's Scatter by a function.
XlaSelectAndScatter(operand: T, window_dimensions: Tindices, window_strides: Tindices, padding: Tindices, source: T, init_value: T) -> (output: T)
    [T: type in NUMBER; Tindices: type in INDEX; select: func; scatter: func]
    XLA's SelectAndScatter by functions.
XlaSelfAdjointEig(a: T) -> (w: T, v: T) [lower: bool; max_iter: int; epsilon: float; T: type in NUMBER]
XlaSend(tensor: T) -> () [T: type; tensor_name: string] stateful
XlaSetBound(input: s32, bound: s32) -> (output: s32)
XlaSetDynamicDimensionSize(input: T, dim_index: s32, size: s32) -> (output: T) [T: type]
XlaSharding(input: T) -> (output: T) [T: type; sharding: string = ""; unspecified_dims: list(int) = []]
    A tensor with a sharding.
XlaSort(input: T) -> (output: T) [T: type]
    XLA's Sort.
XlaSplitND(input: T) -> (outputs: N * T) [T: type; N: int >= 1; num_splits: list(int); paddings: list(int) = []]
XlaSpmdFullToShardShape(input: T) -> (output: T)
    [T: type; manual_sharding: string; dim: int = -1; unspecified_dims: list(int) = []]
XlaSpmdShardToFullShape(input: T) -> (output: T)
    [T: type; manual_sharding: string; full_shape: shape; dim: int = -1; unspecified_dims: list(int) = []]
XlaSvd(a: T) -> (s: T, u: T, v: T) [max_iter: int; epsilon: float; precision_config: string; T: type in NUMBER]
XlaVariadicReduce(input: N * T, init_value: N * T) -> (output: N * T)
    [N: int >= 1; T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16,
     u32, u64, pred}; dimensions_to_reduce: list(int); reducer: func]
XlaVariadicReduceV2(inputs: list(T), init_values: list(T)) -> (outputs: list(T))
    [T: list(type) >= 1; dimensions_to_reduce: list(int); reducer: func]
    XLA's Reduce of several tensors by a function.
XlaVariadicSort(inputs: list(T), dimension: s32) -> (outputs: list(T))
    [T: list(type) >= 1; comparator: func; is_stable: bool]
    XLA's Sort of several tensors by a function.
XlaWhile(input: list(T)) -> (output: list(T)) [T: list(type) >= 0; cond: func; body: func] stateful
    XLA's While.
_Arg() -> (output: T) [T: type; index: int >= 0] stateful
    An argument of a function, by its index.
_ArrayToList(input: N * T) -> (output: list(out_types)) [T: type; N: int >= 1; out_types: list(type) >= 1]
_EagerConst(input: T) -> (output: T) [T: type]
_FusedBatchNormEx(x: T, scale: U, offset: U, mean: U, variance: U, side_input: num_side_inputs * T) -> (y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U)
    [T: type in {f16, f32, bf16}; U: type in {f32}; epsilon: float = 0.0001; exponential_avg_factor: float = 1.0;
     num_side_inputs: int >= 0 = 0; activation_mode: string = "Identity"; data_format: string in {"NHWC", "NCHW"} =
     "NHWC"; is_training: bool = true]
    FusedBatchNorm with what follows it, made by grappler's remapper.
_FusedConv2D(input: T, filter: T, args: list(TArgs), host_args: num_host_args * f32) -> (output: T)
    [T: type in {f16, f32, f64, s8, qs8}; TArgs: list(type) >= 1; num_args: int >= 0; num_host_args: int >= 0 = 0;
     strides: list(int); padding: string in {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = [];
     data_format: string in {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"; filter_format: string in {"HWIO", "OIHW",
     "OIHW_VECT_I"} = "HWIO"; dilations: list(int) = [1, 1, 1, 1]; use_cudnn_on_gpu: bool = true; fused_ops:
     list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2]
    Conv2D with what follows it, made by grappler's remapper.
_FusedMatMul(a: T, b: T, args: num_args * T) -> (product: T)
    [transpose_a: bool = false; transpose_b: bool = false; T: type in {bf16, f16, f32}; num_args: int >= 0; fused_ops:
     list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2]
    MatMul with what follows it, made by grappler's remapper.
_HostCast(x: SrcT) -> (y: DstT) [SrcT: type; DstT: type; Truncate: bool = false]
    Cast on the host.
_HostRecv() -> (tensor: tensor_type)
    [tensor_type: type; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string;
     client_terminated: bool = false] stateful
    Receives a tensor on the host.
_HostSend(tensor: T) -> ()
    [T: type; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string;
     client_terminated: bool = false] stateful
    Sends a tensor from the host.
_ListToArray(input: list(Tin)) -> (output: N * T) [Tin: list(type) >= 1; T: type; N: int >= 1]
_Recv() -> (tensor: tensor_type)
    [tensor_type: type; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string;
     client_terminated: bool = false] stateful
    Receives a tensor from another device.
_Retval(input: T) -> () [T: type; index: int >= 0] stateful
    A result of a function, by its index.
_Send(tensor: T) -> ()
    [T: type; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string;
     client_terminated: bool = false] stateful
    Sends a tensor to another device.
_UnaryOpsComposition(x: T) -> (y: T) [T: type in {f32, f16, f64}; op_names: list(string)]
_XlaAotOnlyVarHandleOp() -> (resource: resource)
    [container: string = ""; shared_name: string = ""; debug_name: string = ""; dtype: type; shape: shape] stateful
_XlaCompile(constants: list(Tconstants), args: list(Targs), resources: Nresources * resource) -> (key: string, compilation_successful: pred)
    [Tconstants: list(type) >= 0; must_compile: bool; Targs: list(type) >= 0; Nresources: int >= 0; function: func] stateful
    Compiles a cluster; gives a key of the executable and whether that succeeded.
_XlaMerge(partitioned_call: T, xla_run: T) -> (output: T) [T: type]
    The results of a cluster, compiled or called.
_XlaRun(args: list(Targs), key: string) -> (results: list(Tresults))
    [Targs: list(type) >= 0; Tresults: list(type) >= 0] stateful
    Runs a compiled cluster.
"""
