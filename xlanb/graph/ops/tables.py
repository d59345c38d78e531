"""Queues, lookup tables, readers, iterators, checkpoints and other host state: rows of the op
table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
AccumulatorApplyGradient(handle: Ref(string), local_step: s64, gradient: dtype) -> () [dtype: type in NUMBER]
AccumulatorNumAccumulated(handle: Ref(string)) -> (num_accumulated: s32)
AccumulatorSetGlobalStep(handle: Ref(string), new_global_step: s64) -> ()
AccumulatorTakeGradient(handle: Ref(string), num_required: s32) -> (average: dtype) [dtype: type in NUMBER]
AddSparseToTensorsMap(sparse_indices: s64, sparse_values: T, sparse_shape: s64) -> (sparse_handle: s64)
    [T: type; container: string = ""; shared_name: string = ""] stateful
AllCandidateSampler(true_classes: s64) -> (sampled_candidates: s64, true_expected_count: f32, sampled_expected_count: f32)
    [num_true: int >= 1; num_sampled: int >= 1; unique: bool; seed: int = 0; seed2: int = 0] stateful
BarrierClose(handle: Ref(string)) -> () [cancel_pending_enqueues: bool = false]
BarrierIncompleteSize(handle: Ref(string)) -> (size: s32)
BarrierInsertMany(handle: Ref(string), keys: string, values: T) -> () [T: type; component_index: int]
BarrierReadySize(handle: Ref(string)) -> (size: s32)
BarrierTakeMany(handle: Ref(string), num_elements: s32) -> (indices: s64, keys: string, values: list(component_types))
    [component_types: list(type) >= 1; allow_small_batch: bool = false; wait_for_incomplete: bool = false;
     timeout_ms: int = -1]
ConditionalAccumulator() -> (handle: Ref(string))
    [dtype: type in NUMBER; shape: shape; container: string = ""; shared_name: string = ""; reduction_type: string
     in {"MEAN", "SUM"} = "MEAN"] stateful
CreateSummaryDbWriter(writer: resource, db_uri: string, experiment_name: string, run_name: string, user_name: string) -> () stateful
CreateSummaryFileWriter(writer: resource, logdir: string, max_queue: s32, flush_millis: s32, filename_suffix: string) -> () stateful
DeserializeIterator(resource_handle: resource, serialized: variant) -> () stateful
DistributedSave(dataset: variant, directory: string, address: string) -> () [metadata: string = ""] stateful
FIFOQueue() -> (handle: Ref(string))
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
FixedLengthRecordReader() -> (reader_handle: Ref(string))
    [header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; container: string = "";
     shared_name: string = ""] stateful
FixedLengthRecordReaderV2() -> (reader_handle: resource)
    [header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; container: string = "";
     shared_name: string = ""; encoding: string = ""] stateful
FixedUnigramCandidateSampler(true_classes: s64) -> (sampled_candidates: s64, true_expected_count: f32, sampled_expected_count: f32)
    [num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; vocab_file: string = "";
     distortion: float = 1.0; num_reserved_ids: int = 0; num_shards: int >= 1 = 1; shard: int >= 0 = 0; unigrams:
     list(float) = []; seed: int = 0; seed2: int = 0] stateful
HashTable() -> (table_handle: Ref(string))
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type] stateful
IdentityReader() -> (reader_handle: Ref(string)) [container: string = ""; shared_name: string = ""] stateful
IdentityReaderV2() -> (reader_handle: resource) [container: string = ""; shared_name: string = ""] stateful
InitializeTable(table_handle: Ref(string), keys: Tkey, values: Tval) -> () [Tkey: type; Tval: type]
InitializeTableFromTextFile(table_handle: Ref(string), filename: string) -> ()
    [key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = "\t"; offset: int
     = 0]
InitializeTableFromTextFileV2(table_handle: resource, filename: string) -> ()
    [key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = "\t"; offset: int
     = 0] stateful
InitializeTableV2(table_handle: resource, keys: Tkey, values: Tval) -> () [Tkey: type; Tval: type] stateful
Iterator() -> (handle: resource)
    [shared_name: string; container: string; output_types: list(type) >= 1; output_shapes: list(shape) >= 1] stateful
IteratorGetDevice(resource: resource) -> (device: string) stateful
IteratorGetNextSync(iterator: resource) -> (components: list(output_types))
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1] stateful
LMDBReader() -> (reader_handle: Ref(string)) [container: string = ""; shared_name: string = ""] stateful
LearnedUnigramCandidateSampler(true_classes: s64) -> (sampled_candidates: s64, true_expected_count: f32, sampled_expected_count: f32)
    [num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0] stateful
LogUniformCandidateSampler(true_classes: s64) -> (sampled_candidates: s64, true_expected_count: f32, sampled_expected_count: f32)
    [num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0] stateful
LookupTableExport(table_handle: Ref(string)) -> (keys: Tkeys, values: Tvalues) [Tkeys: type; Tvalues: type]
LookupTableExportV2(table_handle: resource) -> (keys: Tkeys, values: Tvalues)
    [Tkeys: type; Tvalues: type] stateful
LookupTableFind(table_handle: Ref(string), keys: Tin, default_value: Tout) -> (values: Tout)
    [Tin: type; Tout: type]
LookupTableImport(table_handle: Ref(string), keys: Tin, values: Tout) -> () [Tin: type; Tout: type]
LookupTableImportV2(table_handle: resource, keys: Tin, values: Tout) -> () [Tin: type; Tout: type] stateful
LookupTableInsert(table_handle: Ref(string), keys: Tin, values: Tout) -> () [Tin: type; Tout: type]
LookupTableInsertV2(table_handle: resource, keys: Tin, values: Tout) -> () [Tin: type; Tout: type] stateful
LookupTableRemoveV2(table_handle: resource, keys: Tin) -> () [Tin: type] stateful
LookupTableSize(table_handle: Ref(string)) -> (size: s64)
LookupTableSizeV2(table_handle: resource) -> (size: s64) stateful
MapClear() -> ()
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
MapIncompleteSize() -> (size: s32)
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
MapPeek(key: s64, indices: s32) -> (values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = "";
     shared_name: string = ""] stateful
MapSize() -> (size: s32)
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
MapStage(key: s64, indices: s32, values: list(fake_dtypes)) -> ()
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1;
     container: string = ""; shared_name: string = ""] stateful
MapUnstage(key: s64, indices: s32) -> (values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = "";
     shared_name: string = ""] stateful
MapUnstageNoKey(indices: s32) -> (key: s64, values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = "";
     shared_name: string = ""] stateful
MergeV2Checkpoints(checkpoint_prefixes: string, destination_prefix: string) -> ()
    [delete_old_dirs: bool = true; allow_missing_files: bool = false] stateful
MutableDenseHashTable(empty_key: key_dtype) -> (table_handle: Ref(string))
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type; value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float =
     0.800000012] stateful
MutableDenseHashTableV2(empty_key: key_dtype, deleted_key: key_dtype) -> (table_handle: resource)
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type; value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float =
     0.800000012] stateful
MutableHashTable() -> (table_handle: Ref(string))
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type] stateful
MutableHashTableOfTensors() -> (table_handle: Ref(string))
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type; value_shape: shape = []] stateful
MutableHashTableOfTensorsV2() -> (table_handle: resource)
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type; value_shape: shape = []] stateful
MutableHashTableV2() -> (table_handle: resource)
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type] stateful
OrderedMapClear() -> ()
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
OrderedMapIncompleteSize() -> (size: s32)
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
OrderedMapPeek(key: s64, indices: s32) -> (values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = "";
     shared_name: string = ""] stateful
OrderedMapSize() -> (size: s32)
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
OrderedMapStage(key: s64, indices: s32, values: list(fake_dtypes)) -> ()
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1;
     container: string = ""; shared_name: string = ""] stateful
OrderedMapUnstage(key: s64, indices: s32) -> (values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = "";
     shared_name: string = ""] stateful
OrderedMapUnstageNoKey(indices: s32) -> (key: s64, values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = "";
     shared_name: string = ""] stateful
PaddingFIFOQueue() -> (handle: Ref(string))
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
PaddingFIFOQueueV2() -> (handle: resource)
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, dense_defaults: list(Tdense)) -> (sparse_indices: num_sparse * s64, sparse_values: list(sparse_types), sparse_shapes: num_sparse * s64, dense_values: list(Tdense), ragged_values: list(ragged_value_types), ragged_row_splits: list(ragged_split_types))
    [Tdense: list(type) in {f32, s64, string} >= 0; num_sparse: int >= 0; sparse_types: list(type) in {f32, s64,
     string} >= 0; ragged_value_types: list(type) in {f32, s64, string} >= 0; ragged_split_types: list(type) in INDEX
     >= 0; dense_shapes: list(shape) >= 0]
ParseSequenceExample(serialized: string, debug_name: string, context_dense_defaults: list(Tcontext_dense)) -> (context_sparse_indices: Ncontext_sparse * s64, context_sparse_values: list(context_sparse_types), context_sparse_shapes: Ncontext_sparse * s64, context_dense_values: list(Tcontext_dense), feature_list_sparse_indices: Nfeature_list_sparse * s64, feature_list_sparse_values: list(feature_list_sparse_types), feature_list_sparse_shapes: Nfeature_list_sparse * s64, feature_list_dense_values: list(feature_list_dense_types), feature_list_dense_lengths: Nfeature_list_dense * s64)
    [feature_list_dense_missing_assumed_empty: list(string) >= 0; context_sparse_keys: list(string) >= 0;
     context_dense_keys: list(string) >= 0; feature_list_sparse_keys: list(string) >= 0; feature_list_dense_keys:
     list(string) >= 0; Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; Nfeature_list_sparse: int >= 0 =
     0; Nfeature_list_dense: int >= 0 = 0; context_sparse_types: list(type) in {f32, s64, string} >= 0 = [];
     Tcontext_dense: list(type) in {f32, s64, string} >= 0 = []; feature_list_dense_types: list(type) in {f32, s64,
     string} >= 0 = []; context_dense_shapes: list(shape) >= 0 = []; feature_list_sparse_types: list(type) in {f32,
     s64, string} >= 0 = []; feature_list_dense_shapes: list(shape) >= 0 = []]
ParseSequenceExampleV2(serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: string, context_ragged_keys: string, feature_list_sparse_keys: string, feature_list_dense_keys: string, feature_list_ragged_keys: string, feature_list_dense_missing_assumed_empty: pred, context_dense_defaults: list(Tcontext_dense)) -> (context_sparse_indices: Ncontext_sparse * s64, context_sparse_values: list(context_sparse_types), context_sparse_shapes: Ncontext_sparse * s64, context_dense_values: list(Tcontext_dense), context_ragged_values: list(context_ragged_value_types), context_ragged_row_splits: list(context_ragged_split_types), feature_list_sparse_indices: Nfeature_list_sparse * s64, feature_list_sparse_values: list(feature_list_sparse_types), feature_list_sparse_shapes: Nfeature_list_sparse * s64, feature_list_dense_values: list(feature_list_dense_types), feature_list_dense_lengths: Nfeature_list_dense * s64, feature_list_ragged_values: list(feature_list_ragged_value_types), feature_list_ragged_outer_splits: list(feature_list_ragged_split_types), feature_list_ragged_inner_splits: list(feature_list_ragged_split_types))
    [Ncontext_sparse: int >= 0 = 0; Tcontext_dense: list(type) in {f32, s64, string} >= 0 = [];
     context_sparse_types: list(type) in {f32, s64, string} >= 0 = []; context_ragged_value_types: list(type) in
     {f32, s64, string} >= 0 = []; context_ragged_split_types: list(type) in INDEX >= 0 = []; context_dense_shapes:
     list(shape) >= 0 = []; Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0;
     feature_list_dense_types: list(type) in {f32, s64, string} >= 0 = []; feature_list_sparse_types: list(type) in
     {f32, s64, string} >= 0 = []; feature_list_ragged_value_types: list(type) in {f32, s64, string} >= 0 = [];
     feature_list_ragged_split_types: list(type) in INDEX >= 0 = []; feature_list_dense_shapes: list(shape) >= 0 =
     []]
ParseSingleExample(serialized: string, dense_defaults: list(Tdense)) -> (sparse_indices: num_sparse * s64, sparse_values: list(sparse_types), sparse_shapes: num_sparse * s64, dense_values: list(Tdense))
    [num_sparse: int >= 0; sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; sparse_types: list(type)
     in {f32, s64, string} >= 0; Tdense: list(type) in {f32, s64, string} >= 0; dense_shapes: list(shape) >= 0]
ParseSingleSequenceExample(serialized: string, feature_list_dense_missing_assumed_empty: string, context_sparse_keys: Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, feature_list_sparse_keys: Nfeature_list_sparse * string, feature_list_dense_keys: Nfeature_list_dense * string, context_dense_defaults: list(Tcontext_dense), debug_name: string) -> (context_sparse_indices: Ncontext_sparse * s64, context_sparse_values: list(context_sparse_types), context_sparse_shapes: Ncontext_sparse * s64, context_dense_values: list(Tcontext_dense), feature_list_sparse_indices: Nfeature_list_sparse * s64, feature_list_sparse_values: list(feature_list_sparse_types), feature_list_sparse_shapes: Nfeature_list_sparse * s64, feature_list_dense_values: list(feature_list_dense_types))
    [Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; Nfeature_list_sparse: int >= 0 = 0;
     Nfeature_list_dense: int >= 0 = 0; context_sparse_types: list(type) in {f32, s64, string} >= 0 = [];
     Tcontext_dense: list(type) in {f32, s64, string} >= 0 = []; feature_list_dense_types: list(type) in {f32, s64,
     string} >= 0 = []; context_dense_shapes: list(shape) >= 0 = []; feature_list_sparse_types: list(type) in {f32,
     s64, string} >= 0 = []; feature_list_dense_shapes: list(shape) >= 0 = []]
PriorityQueue() -> (handle: Ref(string))
    [component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
PriorityQueueV2() -> (handle: resource)
    [component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
QueueClose(handle: Ref(string)) -> () [cancel_pending_enqueues: bool = false]
QueueCloseV2(handle: resource) -> () [cancel_pending_enqueues: bool = false] stateful
QueueDequeue(handle: Ref(string)) -> (components: list(component_types))
    [component_types: list(type) >= 1; timeout_ms: int = -1]
QueueDequeueMany(handle: Ref(string), n: s32) -> (components: list(component_types))
    [component_types: list(type) >= 1; timeout_ms: int = -1]
QueueDequeueManyV2(handle: resource, n: s32) -> (components: list(component_types))
    [component_types: list(type) >= 1; timeout_ms: int = -1] stateful
QueueDequeueUpTo(handle: Ref(string), n: s32) -> (components: list(component_types))
    [component_types: list(type) >= 1; timeout_ms: int = -1]
QueueDequeueUpToV2(handle: resource, n: s32) -> (components: list(component_types))
    [component_types: list(type) >= 1; timeout_ms: int = -1] stateful
QueueEnqueue(handle: Ref(string), components: list(Tcomponents)) -> ()
    [Tcomponents: list(type) >= 1; timeout_ms: int = -1]
QueueEnqueueMany(handle: Ref(string), components: list(Tcomponents)) -> ()
    [Tcomponents: list(type) >= 1; timeout_ms: int = -1]
QueueEnqueueManyV2(handle: resource, components: list(Tcomponents)) -> ()
    [Tcomponents: list(type) >= 1; timeout_ms: int = -1] stateful
QueueIsClosed(handle: Ref(string)) -> (is_closed: pred)
QueueIsClosedV2(handle: resource) -> (is_closed: pred) stateful
QueueSize(handle: Ref(string)) -> (size: s32)
QueueSizeV2(handle: resource) -> (size: s32) stateful
RandomShuffleQueue() -> (handle: Ref(string))
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; min_after_dequeue: int =
     0; seed: int = 0; seed2: int = 0; container: string = ""; shared_name: string = ""] stateful
RandomShuffleQueueV2() -> (handle: resource)
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; min_after_dequeue: int =
     0; seed: int = 0; seed2: int = 0; container: string = ""; shared_name: string = ""] stateful
ReaderNumRecordsProduced(reader_handle: Ref(string)) -> (records_produced: s64)
ReaderNumRecordsProducedV2(reader_handle: resource) -> (records_produced: s64) stateful
ReaderNumWorkUnitsCompleted(reader_handle: Ref(string)) -> (units_completed: s64)
ReaderNumWorkUnitsCompletedV2(reader_handle: resource) -> (units_completed: s64) stateful
ReaderRead(reader_handle: Ref(string), queue_handle: Ref(string)) -> (key: string, value: string)
ReaderReadUpTo(reader_handle: Ref(string), queue_handle: Ref(string), num_records: s64) -> (keys: string, values: string)
ReaderReadUpToV2(reader_handle: resource, queue_handle: resource, num_records: s64) -> (keys: string, values: string) stateful
ReaderReadV2(reader_handle: resource, queue_handle: resource) -> (key: string, value: string) stateful
ReaderReset(reader_handle: Ref(string)) -> ()
ReaderResetV2(reader_handle: resource) -> () stateful
ReaderRestoreState(reader_handle: Ref(string), state: string) -> ()
ReaderRestoreStateV2(reader_handle: resource, state: string) -> () stateful
RecordInput() -> (records: string)
    [file_pattern: string; file_random_seed: int = 301; file_shuffle_shift_ratio: float = 0.0; file_buffer_size: int
     = 10000; file_parallelism: int = 16; batch_size: int = 32; compression_type: string = ""] stateful
ResourceAccumulatorApplyGradient(handle: resource, local_step: s64, gradient: dtype) -> ()
    [dtype: type in NUMBER] stateful
ResourceAccumulatorNumAccumulated(handle: resource) -> (num_accumulated: s32) stateful
ResourceAccumulatorSetGlobalStep(handle: resource, new_global_step: s64) -> () stateful
ResourceAccumulatorTakeGradient(handle: resource, num_required: s32) -> (average: dtype)
    [dtype: type in NUMBER] stateful
ResourceConditionalAccumulator() -> (handle: resource)
    [dtype: type in NUMBER; shape: shape; container: string = ""; shared_name: string = ""; reduction_type: string
     in {"MEAN", "SUM"} = "MEAN"] stateful
Restore(file_pattern: string, tensor_name: string) -> (tensor: dt)
    [dt: type; preferred_shard: int = -1] stateful
RestoreSlice(file_pattern: string, tensor_name: string, shape_and_slice: string) -> (tensor: dt)
    [dt: type; preferred_shard: int = -1] stateful
Save(filename: string, tensor_names: string, data: list(T)) -> () [T: list(type) >= 1] stateful
SaveSlices(filename: string, tensor_names: string, shapes_and_slices: string, data: list(T)) -> ()
    [T: list(type) >= 1] stateful
StageClear() -> ()
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
StageSize() -> (size: s32)
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); container: string = ""; shared_name:
     string = ""] stateful
TFRecordReader() -> (reader_handle: Ref(string))
    [container: string = ""; shared_name: string = ""; compression_type: string = ""] stateful
TFRecordReaderV2() -> (reader_handle: resource)
    [container: string = ""; shared_name: string = ""; compression_type: string = ""] stateful
TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> (summary: string) [T: type]
TextLineReader() -> (reader_handle: Ref(string))
    [skip_header_lines: int = 0; container: string = ""; shared_name: string = ""] stateful
TextLineReaderV2() -> (reader_handle: resource)
    [skip_header_lines: int = 0; container: string = ""; shared_name: string = ""] stateful
ThreadPoolHandle() -> (handle: resource)
    [num_threads: int; max_intra_op_parallelism: int = 1; display_name: string; container: string = ""; shared_name:
     string = ""] stateful
ThreadUnsafeUnigramCandidateSampler(true_classes: s64) -> (sampled_candidates: s64, true_expected_count: f32, sampled_expected_count: f32)
    [num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0] stateful
UniformCandidateSampler(true_classes: s64) -> (sampled_candidates: s64, true_expected_count: f32, sampled_expected_count: f32)
    [num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0] stateful
WholeFileReader() -> (reader_handle: Ref(string)) [container: string = ""; shared_name: string = ""] stateful
WholeFileReaderV2() -> (reader_handle: resource) [container: string = ""; shared_name: string = ""] stateful
"""
