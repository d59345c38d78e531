"""Data sets: rows of the op table.

Facts of tensorflow/core/ops/dataset_ops.cc; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
AnonymousIteratorV3() -> (handle: resource)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1] stateful
    A new iterator, which has no name.
AnonymousMemoryCache() -> (handle: resource, deleter: variant) stateful
AnonymousRandomSeedGenerator(seed: s64, seed2: s64) -> (handle: resource, deleter: variant) stateful
AnonymousSeedGenerator(seed: s64, seed2: s64, reshuffle: pred) -> (handle: resource, deleter: variant) stateful
AssertCardinalityDataset(input_dataset: variant, cardinality: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1]
BatchDataset(input_dataset: variant, batch_size: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
CacheDataset(input_dataset: variant, filename: string) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
CacheDatasetV2(input_dataset: variant, filename: string, cache: resource) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""] stateful
ConcatenateDataset(input_dataset: variant, another_dataset: variant) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
DeleteMemoryCache(handle: resource, deleter: variant) -> () stateful
DeleteSeedGenerator(handle: resource, deleter: variant) -> () stateful
DummyMemoryCache() -> (handle: resource) stateful
DummySeedGenerator() -> (handle: resource) stateful
FilterDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
FinalizeDataset(input_dataset: variant) -> (handle: variant)
    [has_captured_ref: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1]
FlatMapDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
InterleaveDataset(input_dataset: variant, other_arguments: list(Targuments), cycle_length: s64, block_length: s64) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
MapAndBatchDataset(input_dataset: variant, other_arguments: list(Targuments), batch_size: s64, num_parallel_calls: s64, drop_remainder: pred) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     preserve_cardinality: bool = false; metadata: string = ""]
MapDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; force_synchronous: bool = false;
     metadata: string = ""]
OptionsDataset(input_dataset: variant) -> (handle: variant)
    [serialized_options: string; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
PaddedBatchDatasetV2(input_dataset: variant, batch_size: s64, padded_shapes: N * s64, padding_values: list(Toutput_types), drop_remainder: pred) -> (handle: variant)
    [parallel_copy: bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1;
     metadata: string = ""]
ParallelBatchDataset(input_dataset: variant, batch_size: s64, num_parallel_calls: s64, drop_remainder: pred) -> (handle: variant)
    [parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; deterministic: string =
     "default"; metadata: string = ""]
ParallelFilterDataset(input_dataset: variant, other_arguments: list(Targuments), num_parallel_calls: s64) -> (handle: variant)
    [predicate: func; deterministic: string = "default"; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
ParallelInterleaveDatasetV4(input_dataset: variant, other_arguments: list(Targuments), cycle_length: s64, block_length: s64, buffer_output_elements: s64, prefetch_input_elements: s64, num_parallel_calls: s64) -> (handle: variant)
    [f: func; deterministic: string = "default"; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
ParallelMapDataset(input_dataset: variant, other_arguments: list(Targuments), num_parallel_calls: s32) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     use_inter_op_parallelism: bool = true; sloppy: bool = false; preserve_cardinality: bool = false; metadata:
     string = ""]
ParallelMapDatasetV2(input_dataset: variant, other_arguments: list(Targuments), num_parallel_calls: s64) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     use_inter_op_parallelism: bool = true; deterministic: string = "default"; preserve_cardinality: bool = false;
     use_unbounded_threadpool: bool = false; metadata: string = ""]
PrefetchDataset(input_dataset: variant, buffer_size: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; slack_period: int = 0; legacy_autotune: bool
     = true; buffer_size_min: int = 0; metadata: string = ""]
ReduceDataset(input_dataset: variant, initial_state: list(Tstate), other_arguments: list(Targuments)) -> (components: list(output_types))
    [f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; use_inter_op_parallelism: bool = true; metadata: string = ""] stateful
    The state after a function was applied to it and each element.
RepeatDataset(input_dataset: variant, count: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
RewriteDataset(input_dataset: variant, rewrite_name: string) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1]
ScanDataset(input_dataset: variant, initial_state: list(Tstate), other_arguments: list(Targuments)) -> (handle: variant)
    [f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; preserve_cardinality: bool = false; use_default_device: bool = true; metadata: string = ""]
    Elements that a function of a state and each element gives, with the next state.
ShardDataset(input_dataset: variant, num_shards: s64, index: s64) -> (handle: variant)
    [require_non_empty: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata:
     string = ""]
ShuffleAndRepeatDatasetV2(input_dataset: variant, buffer_size: s64, seed: s64, seed2: s64, count: s64, seed_generator: resource) -> (handle: variant)
    [reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""] stateful
ShuffleDataset(input_dataset: variant, buffer_size: s64, seed: s64, seed2: s64) -> (handle: variant)
    [reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
ShuffleDatasetV2(input_dataset: variant, buffer_size: s64, seed_generator: resource) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""] stateful
ShuffleDatasetV3(input_dataset: variant, buffer_size: s64, seed: s64, seed2: s64, seed_generator: resource) -> (handle: variant)
    [reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""] stateful
SkipDataset(input_dataset: variant, count: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
TakeDataset(input_dataset: variant, count: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
TakeWhileDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
    The elements before the first that a predicate refuses.
TextLineDataset(filenames: string, compression_type: string, buffer_size: s64) -> (handle: variant)
    [metadata: string = ""] stateful
UniqueDataset(input_dataset: variant) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
WindowDataset(input_dataset: variant, size: s64, shift: s64, stride: s64, drop_remainder: pred) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
    Data sets of a fixed number of elements each.
ZipDataset(input_datasets: N * variant) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = ""]
"""
