"""Data sets: rows of the op table.

Facts of tensorflow/core/ops/dataset_ops.cc; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
BatchDataset(input_dataset: variant, batch_size: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
CacheDataset(input_dataset: variant, filename: string) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
ConcatenateDataset(input_dataset: variant, another_dataset: variant) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
FilterDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
FlatMapDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
InterleaveDataset(input_dataset: variant, other_arguments: list(Targuments), cycle_length: s64, block_length: s64) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
MapDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant)
    [f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; force_synchronous: bool = false;
     metadata: string = ""]
PaddedBatchDatasetV2(input_dataset: variant, batch_size: s64, padded_shapes: N * s64, padding_values: list(Toutput_types), drop_remainder: pred) -> (handle: variant)
    [parallel_copy: bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1;
     metadata: string = ""]
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
RepeatDataset(input_dataset: variant, count: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
ShardDataset(input_dataset: variant, num_shards: s64, index: s64) -> (handle: variant)
    [require_non_empty: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata:
     string = ""]
ShuffleDataset(input_dataset: variant, buffer_size: s64, seed: s64, seed2: s64) -> (handle: variant)
    [reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""]
ShuffleDatasetV3(input_dataset: variant, buffer_size: s64, seed: s64, seed2: s64, seed_generator: resource) -> (handle: variant)
    [reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; output_shapes: list(shape) >= 1;
     metadata: string = ""] stateful
SkipDataset(input_dataset: variant, count: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
TakeDataset(input_dataset: variant, count: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""]
TextLineDataset(filenames: string, compression_type: string, buffer_size: s64) -> (handle: variant)
    [metadata: string = ""] stateful
ZipDataset(input_datasets: N * variant) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = ""]
"""
