"""The messages of HLO in binary form: names, numbers and types (openxla/xla, 2026).

Enums are int32 here, maps are repeated pairs (see xlanb.protos). Messages that xlanb's IR cannot
hold (profiles, device assignments, buffer assignments) are left out.
Source: xla/xla_data.proto, xla/service/hlo.proto.
"""

from __future__ import annotations

from xlanb.protos import Schema

_TABLE = """
message SplitConfigProto
  1 dimension int64
  2 split_indices int64*
message TileProto
  1 dimensions int64*
message LayoutProto
  1 minor_to_major int64*
  9 dim_level_types int32*
  13 dim_unique bool*
  14 dim_ordered bool*
  6 tiles TileProto*
  16 tail_padding_alignment_in_elements int64
  7 element_size_in_bits int64
  8 memory_space int64
  11 index_primitive_type int32
  12 pointer_primitive_type int32
  15 dynamic_shape_metadata_prefix_bytes int64
  17 split_configs SplitConfigProto*
message ShapeProto
  2 element_type int32
  3 dimensions int64*
  6 is_dynamic_dimension bool*
  4 tuple_shapes ShapeProto*
  5 layout LayoutProto
message ProgramShapeProto
  1 parameters ShapeProto*
  2 result ShapeProto
  3 parameter_names string*
message LiteralProto
  1 shape ShapeProto
  2 preds bool*
  30 s1s bytes
  26 s2s bytes
  21 s4s bytes
  15 s8s bytes
  31 u1s bytes
  27 u2s bytes
  22 u4s bytes
  3 u8s bytes
  4 s32s int32*
  5 s64s int64*
  6 u32s uint32*
  7 u64s uint64*
  8 f32s float*
  9 f64s double*
  12 c64s float*
  18 c128s double*
  10 tuple_literals LiteralProto*
  11 f16s bytes
  13 bf16s bytes
  16 u16s bytes
  17 s16s bytes
  32 f4e2m1fns bytes
  29 f8e3m4s bytes
  23 f8e4m3b11fnuzs bytes
  20 f8e4m3fns bytes
  25 f8e4m3fnuzs bytes
  28 f8e4m3s bytes
  24 f8e5m2fnuzs bytes
  19 f8e5m2s bytes
  33 f8e8m0fnus bytes
  35 f6e3m2fns bytes
  36 f6e2m3fns bytes
  14 sparse_indices int64*
  34 dynamic_sizes int32*
message WindowDimension
  1 size int64
  2 stride int64
  3 padding_low int64
  4 padding_high int64
  5 window_dilation int64
  6 base_dilation int64
  7 window_reversal bool
message Window
  1 dimensions WindowDimension*
message PaddingDimension
  1 edge_padding_low int64
  2 edge_padding_high int64
  3 interior_padding int64
message PaddingConfig
  1 dimensions PaddingDimension*
message GatherDimensionNumbers
  1 offset_dims int64*
  2 collapsed_slice_dims int64*
  3 start_index_map int64*
  4 index_vector_dim int64
  5 operand_batching_dims int64*
  6 start_indices_batching_dims int64*
message ScatterDimensionNumbers
  1 update_window_dims int64*
  2 inserted_window_dims int64*
  3 scatter_dims_to_operand_dims int64*
  4 index_vector_dim int64
  5 input_batching_dims int64*
  6 scatter_indices_batching_dims int64*
message ConvolutionDimensionNumbers
  7 input_batch_dimension int64
  8 input_feature_dimension int64
  11 input_spatial_dimensions int64*
  3 kernel_input_feature_dimension int64
  4 kernel_output_feature_dimension int64
  6 kernel_spatial_dimensions int64*
  9 output_batch_dimension int64
  10 output_feature_dimension int64
  12 output_spatial_dimensions int64*
message DotDimensionNumbers
  1 lhs_contracting_dimensions int64*
  2 rhs_contracting_dimensions int64*
  3 lhs_batch_dimensions int64*
  4 rhs_batch_dimensions int64*
message RaggedDotDimensionNumbers
  1 dot_dimension_numbers DotDimensionNumbers
  2 lhs_ragged_dimensions int64*
  3 rhs_group_dimensions int64*
message TriangularSolveOptions
  1 left_side bool
  2 lower bool
  3 unit_diagonal bool
  4 transpose_a int32
message CholeskyOptions
  1 lower bool
message TensorSparsity
  1 num_non_zero int64
  2 block_size int64
  3 dimension int64
  4 stride int64
  5 idx int64
message SparsityConfig
  1 lhs TensorSparsity
  2 rhs TensorSparsity
message BlockScaling
  1 scale_idx int64
message BlockScalingConfig
  1 lhs BlockScaling
  2 rhs BlockScaling
message ShuffleRotate
  1 shifts int64*
message ShuffleMode
  1 rotate ShuffleRotate
message FrontendAttribute
  1 key string
  2 value string
message FrontendAttributes
  1 map FrontendAttribute*
message Statistic
  1 stat_name string
  2 stat_val double
message StatisticsViz
  1 stat_index_to_visualize int64
  2 statistics Statistic*
message OpMetadata
  1 op_type string
  2 op_name string
  3 source_file string
  4 source_line int32
  17 source_end_line int32
  18 source_column int32
  19 source_end_column int32
  5 profile_type int32*
  8 size_of_generated_code_in_bytes int64
  9 size_of_memory_working_set_in_bytes int64
  12 deduplicated_name string
  15 stack_frame_id int32
  16 scheduling_name string
message MeshAxis
  1 name string
  2 size int64
message IotaTransform
  1 reshape_dims int64*
  2 transpose_perm int64*
message MeshProto
  1 axes MeshAxis*
  2 device_ids int64*
  3 iota_transform IotaTransform
message SubAxis
  1 pre_size int64
  2 size int64
message AxisRefProto
  1 mesh_axis_index int64
  2 sub_axis_info SubAxis
message DimensionSharding
  1 axes AxisRefProto*
  2 is_closed bool
message NamedShardingProto
  2 mesh MeshProto
  3 dim_shardings DimensionSharding*
  4 replicated_axes AxisRefProto*
  5 unreduced_axes AxisRefProto*
  7 manual_axes AxisRefProto*
  6 metadata OpMetadata*
  8 reduction_op int32
message OpSharding
  1 type int32
  3 tile_assignment_dimensions int64*
  4 tile_assignment_devices int64*
  5 tuple_shardings OpSharding*
  6 replicate_on_last_tile_dim bool
  7 metadata OpMetadata*
  8 last_tile_dims int32*
  9 iota_reshape_dims int64*
  10 iota_transpose_perm int32*
  11 is_shard_group bool
  12 shard_group_id int64
  13 shard_group_type int32
  14 named_sharding NamedShardingProto
message ReplicaGroup
  1 replica_ids int64*
message MeshAxesReplicaGroupListProto
  1 mesh MeshProto
  2 axes AxisRefProto*
message IotaReplicaGroupListProto
  1 num_replica_groups int64
  2 num_devices_per_group int64
  3 iota_reshape_dims int64*
  4 iota_transpose_perm int32*
message CollectiveDeviceListProto
  1 replica_groups ReplicaGroup*
message SourceTarget
  1 source int64
  2 target int64
message Tolerance
  1 atol double
  2 rtol double
  3 ulps int64
message ResultAccuracy
  1 mode int32?
  2 tolerance Tolerance
message PrecisionConfig
  1 operand_precision int32*
  2 algorithm int32
message ParameterReplication
  1 replicated_at_leaf_buffers bool*
message OutputOperandAliasing
  1 output_shape_index int64*
  2 operand_index int64
  3 operand_shape_index int64*
message OriginalArrayProto
  1 instruction_name string
  2 shape_index int64*
message OriginalValueElementProto
  1 shape_index int64*
  2 original_array OriginalArrayProto
message OriginalValueProto
  1 elements OriginalValueElementProto*
  2 is_synthetic_call bool
message SliceDimensions
  1 start int64
  2 limit int64
  3 stride int64
message HloInstructionProto
  1 name string
  2 opcode string
  3 shape ShapeProto
  7 metadata OpMetadata
  8 literal LiteralProto
  9 parameter_number int64
  11 fusion_kind string
  13 tuple_index int64
  14 dimensions int64*
  15 window Window
  16 convolution_dimension_numbers ConvolutionDimensionNumbers
  50 feature_group_count int64
  58 batch_group_count int64
  17 slice_dimensions SliceDimensions*
  18 exponent_bits int32
  19 mantissa_bits int32
  20 dynamic_slice_sizes int64*
  21 padding_config PaddingConfig
  22 outfeed_config bytes
  23 distribution int32
  24 epsilon float
  25 feature_index int64
  26 channel_id int64
  27 infeed_config bytes
  28 custom_call_target string
  29 outfeed_shape ShapeProto
  30 dot_dimension_numbers DotDimensionNumbers
  90 ragged_dot_dimension_numbers RaggedDotDimensionNumbers
  31 fft_type int32
  32 fft_length int64*
  63 comparison_direction string
  33 gather_dimension_numbers GatherDimensionNumbers
  34 gather_slice_sizes int64*
  35 id int64
  36 operand_ids int64*
  37 control_predecessor_ids int64*
  38 called_computation_ids int64*
  40 sharding OpSharding
  43 backend_config bytes
  49 replica_groups ReplicaGroup*
  45 all_reduce_id int64
  71 use_global_device_ids bool
  47 is_host_transfer bool
  60 is_stable bool
  48 scatter_dimension_numbers ScatterDimensionNumbers
  51 precision_config PrecisionConfig
  52 source_target_pairs SourceTarget*
  54 domain_entry_sharding OpSharding
  55 domain_exit_sharding OpSharding
  56 constrain_layout bool
  57 operand_shapes_with_layout ShapeProto*
  59 triangular_solve_options TriangularSolveOptions
  62 cholesky_options CholeskyOptions
  61 parameter_replication ParameterReplication
  65 custom_call_has_side_effect bool
  74 output_operand_aliasing OutputOperandAliasing*
  76 custom_call_schedule int32
  66 delta int64
  67 indices_are_sorted bool
  68 frontend_attributes FrontendAttributes
  69 unique_indices bool
  70 rng_algorithm int32
  72 comparison_type string
  73 is_cross_program_prefetch bool
  80 cross_program_prefetch_index int32?
  75 padding_type int32
  77 custom_call_api_version int32
  79 async_execution_thread string
  81 k int64
  85 largest bool
  82 statistics_viz StatisticsViz
  87 collective_device_list CollectiveDeviceListProto
  92 iota_collective_device_list IotaReplicaGroupListProto
  93 mesh_axes_replica_group_list MeshAxesReplicaGroupListProto
  88 original_value OriginalValueProto
  89 is_composite bool
  91 result_accuracy ResultAccuracy
  94 is_reverse bool
  95 num_carries int64
  96 is_associative int32
  97 conv_kind int32
  98 sparsity_config SparsityConfig
  100 has_dynamic_root bool
  101 block_scaling_config BlockScalingConfig
  102 comparison_order string
  103 shuffle_mode ShuffleMode
message HloComputationProto
  1 name string
  2 instructions HloInstructionProto*
  4 program_shape ProgramShapeProto
  5 id int64
  6 root_id int64
  7 is_fusion_computation bool
  8 execution_thread string
message InstructionSequence
  1 instruction_ids int64*
message ScheduleEntry
  1 key int64
  2 value InstructionSequence
message HloScheduleProto
  1 sequences ScheduleEntry*
message AliasEntry
  1 output_shape_index int64*
  2 parameter_number int64
  3 parameter_shape_index int64*
  4 kind int32
message HloInputOutputAliasProto
  1 entries AliasEntry*
message DonorEntry
  1 parameter_number int64
  2 parameter_shape_index int64*
message HloBufferDonorProto
  1 entries DonorEntry*
message FileLocation
  1 file_name_id int32
  2 function_name_id int32
  3 line int32
  5 end_line int32
  4 column int32
  6 end_column int32
message StackFrame
  1 file_location_id int32
  2 parent_frame_id int32
message StackFrameIndexProto
  1 file_names string*
  2 function_names string*
  3 file_locations FileLocation*
  4 stack_frames StackFrame*
message RecoveryEntry
  1 old_original_array OriginalArrayProto
  2 new_original_array OriginalArrayProto
  3 recovery_module HloModuleProto
message DebugAttributesProto
  1 log_mode int32
  2 callback_id int64
  3 op_id int64
  4 partitioned bool
message DebugAttributeTableEntryProto
  1 original_array OriginalArrayProto
  2 debug_attributes DebugAttributesProto*
message OriginalValueRecoveryTableProto
  1 entries RecoveryEntry*
message HloModuleProto
  1 name string
  2 entry_computation_name string
  6 entry_computation_id int64
  3 computations HloComputationProto*
  4 host_program_shape ProgramShapeProto
  5 id int64
  7 schedule HloScheduleProto
  8 input_output_alias HloInputOutputAliasProto
  18 buffer_donor HloBufferDonorProto
  11 is_dynamic bool
  16 use_auto_spmd_partitioning bool
  17 stack_frame_index StackFrameIndexProto
  19 frontend_attributes FrontendAttributes
  20 original_value_recovery_table OriginalValueRecoveryTableProto
  21 device_type string
  24 debug_attributes DebugAttributeTableEntryProto*
message HloProto
  1 hlo_module HloModuleProto
message HloSnapshot
  1 hlo HloProto
  2 arguments LiteralProto*
  3 result LiteralProto
  4 execution_platform string
"""

SCHEMA = Schema("xlanb.hlo", _TABLE)
"""The message classes: SCHEMA.HloModuleProto(), SCHEMA.ShapeProto(), ..."""
