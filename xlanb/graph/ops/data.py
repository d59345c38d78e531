"""Host ops on strings, files, images, data sets, queues, tables, sparse tensors: rows of the op
table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
AdjustContrastv2(images: T, contrast_factor: f32) -> (output: T) [T: type in {f16, f32} = f32]
AdjustHue(images: T, delta: f32) -> (output: T) [T: type in {f16, f32} = f32]
AdjustSaturation(images: T, scale: f32) -> (output: T) [T: type in {f16, f32} = f32]
AsString(input: T) -> (output: string)
    [T: type in {f32, f64, s32, u8, s16, s8, s64, bf16, u16, f16, u32, u64, c64, c128, pred, variant, string};
     precision: int = -1; scientific: bool = false; shortest: bool = false; width: int = -1; fill: string = ""]
    Numbers as text.
Assert(condition: pred, data: list(T)) -> () [T: list(type) >= 1; summarize: int = 3] stateful
    Fails with `data` in the message unless the condition holds.
AudioSummaryV2(tag: string, tensor: f32, sample_rate: f32) -> (summary: string) [max_outputs: int >= 1 = 3]
    A record of sounds.
Barrier() -> (handle: Ref(string))
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
Batch(in_tensors: list(T)) -> (batched_tensors: list(T), batch_index: s64, id: s64)
    [num_batch_threads: int; max_batch_size: int; max_enqueued_batches: int = 10; batch_timeout_micros: int;
     allowed_batch_sizes: list(int) = []; grad_timeout_micros: int; container: string = ""; shared_name: string = "";
     batching_queue: string = ""; T: list(type) >= 1]
BatchDatasetV2(input_dataset: variant, batch_size: s64, drop_remainder: pred) -> (handle: variant)
    [parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string =
     ""]
BoostedTreesBucketize(float_values: num_features * f32, bucket_boundaries: num_features * f32) -> (buckets: num_features * s32)
    [num_features: int >= 0]
CollectiveAssignGroupV2(group_assignment: s32, device_index: s32, base_key: s32) -> (group_size: s32, group_key: s32) stateful
CollectiveReduceV2(input: T, group_size: s32, group_key: s32, instance_key: s32, ordering_token: Nordering_token * resource) -> (data: T)
    [T: type in {bf16, f32, f16, f64, s32, s64}; merge_op: string in {"Min", "Max", "Mul", "Add"}; final_op: string in
     {"Id", "Div"}; communication_hint: string = "auto"; timeout_seconds: float = 0.0; is_stateless: bool = false;
     Nordering_token: int >= 0 = 0; max_subdivs_per_device: int = -1] stateful
CropAndResize(image: T, boxes: f32, box_ind: s32, crop_size: s32) -> (crops: f32)
    [T: type in {u8, u16, s8, s16, s32, s64, f16, f32, f64}; method: string in {"bilinear", "nearest"} = "bilinear";
     extrapolation_value: float = 0.0]
DecodeJpeg(contents: string) -> (image: u8)
    [channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false;
     acceptable_fraction: float = 1.0; dct_method: string = ""]
DecodePng(contents: string) -> (image: dtype) [channels: int = 0; dtype: type in {u8, u16} = u8]
DecodeRaw(bytes: string) -> (output: out_type)
    [out_type: type in {f16, f32, f64, s32, u16, u8, s16, s8, s64, c64, c128, pred, bf16}; little_endian: bool = true]
DynamicPartition(data: T, partitions: s32) -> (outputs: num_partitions * T) [num_partitions: int >= 1; T: type]
    Splits rows among num_partitions tensors as an index says.
DynamicStitch(indices: N * s32, data: N * T) -> (merged: T) [N: int >= 1; T: type]
    Puts rows to where the indices say; later ones win.
EagerPyFunc(input: list(Tin)) -> (output: list(Tout))
    [token: string; is_async: bool = false; Tin: list(type) >= 0; Tout: list(type) >= 0] stateful
    Calls a Python function on tensors.
EncodeBase64(input: string) -> (output: string) [pad: bool = false]
ExtractGlimpse(input: f32, size: s32, offsets: f32) -> (glimpse: f32)
    [centered: bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = "uniform"]
FIFOQueueV2() -> (handle: resource)
    [component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = "";
     shared_name: string = ""] stateful
Fact() -> (fact: string)
HSVToRGB(images: T) -> (output: T) [T: type in FLOAT = f32]
HashTableV2() -> (table_handle: resource)
    [container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type;
     value_dtype: type] stateful
HistogramSummary(tag: string, values: T) -> (summary: string) [T: type in REAL = f32]
    A record of a histogram.
ImageSummary(tag: string, tensor: T) -> (summary: string)
    [max_images: int >= 1 = 3; T: type in {u8, f32, f16, f64} = f32; bad_color: tensor]
IteratorGetNext(iterator: resource) -> (components: list(output_types))
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1] stateful
    The next element of a data set.
IteratorV2() -> (handle: resource)
    [shared_name: string; container: string; output_types: list(type) >= 1; output_shapes: list(shape) >= 1] stateful
LookupTableFindV2(table_handle: resource, keys: Tin, default_value: Tout) -> (values: Tout)
    [Tin: type; Tout: type] stateful
MakeIterator(dataset: variant, iterator: resource) -> () stateful
MergeSummary(inputs: N * string) -> (summary: string) [N: int >= 1]
NonMaxSuppression(boxes: f32, scores: f32, max_output_size: s32) -> (selected_indices: s32)
    [iou_threshold: float = 0.5]
NonMaxSuppressionV3(boxes: T, scores: T, max_output_size: s32, iou_threshold: T_threshold, score_threshold: T_threshold) -> (selected_indices: s32)
    [T: type in {f16, f32} = f32; T_threshold: type in {f16, f32} = f32]
NonMaxSuppressionV4(boxes: T, scores: T, max_output_size: s32, iou_threshold: T_threshold, score_threshold: T_threshold) -> (selected_indices: s32, valid_outputs: s32)
    [T: type in {f16, f32} = f32; T_threshold: type in {f16, f32} = f32; pad_to_max_output_size: bool = false]
OneShotIterator() -> (handle: resource)
    [dataset_factory: func; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; container: string = "";
     shared_name: string = ""] stateful
ParallelDynamicStitch(indices: N * s32, data: N * T) -> (merged: T) [N: int >= 1; T: type]
ParseExample(serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, dense_defaults: list(Tdense)) -> (sparse_indices: Nsparse * s64, sparse_values: list(sparse_types), sparse_shapes: Nsparse * s64, dense_values: list(Tdense))
    [Nsparse: int >= 0; Ndense: int >= 0; sparse_types: list(type) in {f32, s64, string} >= 0; Tdense: list(type) in
     {f32, s64, string} >= 0; dense_shapes: list(shape) >= 0]
Print(input: T, data: list(U)) -> (output: T)
    [T: type; U: list(type) >= 0; message: string = ""; first_n: int = -1; summarize: int = 3] stateful
    The tensor itself; prints others.
PrintV2(input: string) -> () [output_stream: string = "stderr"; end: string = "\n"] stateful
    Prints a text.
PyFunc(input: list(Tin)) -> (output: list(Tout)) [token: string; Tin: list(type) >= 0; Tout: list(type) >= 0] stateful
    Calls a Python function on NumPy arrays.
PyFuncStateless(input: list(Tin)) -> (output: list(Tout)) [token: string; Tin: list(type) >= 0; Tout: list(type) >= 0]
QueueDequeueV2(handle: resource) -> (components: list(component_types))
    [component_types: list(type) >= 1; timeout_ms: int = -1] stateful
QueueEnqueueV2(handle: resource, components: list(Tcomponents)) -> ()
    [Tcomponents: list(type) >= 1; timeout_ms: int = -1] stateful
RGBToHSV(images: T) -> (output: T) [T: type in FLOAT = f32]
RangeDataset(start: s64, stop: s64, step: s64) -> (handle: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""; replicate_on_split: bool =
     false] stateful
ReadFile(filename: string) -> (contents: string)
ReduceJoin(inputs: string, reduction_indices: s32) -> (output: string)
    [keep_dims: bool = false; separator: string = ""]
RegexReplace(input: string, pattern: string, rewrite: string) -> (output: string) [replace_global: bool = true]
ResizeBilinear(images: T, size: s32) -> (resized_images: f32)
    [T: type in {s8, u8, s16, u16, s32, s64, bf16, f16, f32, f64, bf16}; align_corners: bool = false;
     half_pixel_centers: bool = false]
    Images resized, linear between pixels.
ResizeBilinearGrad(grads: f32, original_image: T) -> (output: T)
    [T: type in FLOAT; align_corners: bool = false; half_pixel_centers: bool = false]
    Gradient of ResizeBilinear.
ResizeNearestNeighbor(images: T, size: s32) -> (resized_images: T)
    [T: type in {s8, u8, s16, u16, s32, s64, f16, f32, f64, bf16}; align_corners: bool = false; half_pixel_centers:
     bool = false]
    Images resized by the nearest pixel.
RestoreV2(prefix: string, tensor_names: string, shape_and_slices: string) -> (tensors: list(dtypes))
    [dtypes: list(type) >= 1] stateful
    Tensors by name out of a checkpoint.
SaveV2(prefix: string, tensor_names: string, shape_and_slices: string, tensors: list(dtypes)) -> ()
    [dtypes: list(type) >= 1] stateful
    Writes tensors to a checkpoint.
ScalarSummary(tags: string, values: T) -> (summary: string) [T: type in REAL]
    A record of numbers.
Skipgram() -> (vocab_word: string, vocab_freq: s32, words_per_epoch: s64, current_epoch: s32, total_words_processed: s64, examples: s32, labels: s32)
    [filename: string; batch_size: int; window_size: int = 5; min_count: int = 5; subsample: float = 0.001] stateful
SparseTensorDenseMatMul(a_indices: Tindices, a_values: T, a_shape: s64, b: T) -> (product: T)
    [T: type; Tindices: type in INDEX = s64; adjoint_a: bool = false; adjoint_b: bool = false]
SparseToDense(sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T) -> (dense: T)
    [validate_indices: bool = true; T: type; Tindices: type in INDEX]
    Values at indices, a default elsewhere.
StackCloseV2(handle: resource) -> () stateful
StackPopV2(handle: resource) -> (elem: elem_type) [elem_type: type] stateful
StackPushV2(handle: resource, elem: T) -> (output: T) [T: type; swap_memory: bool = false] stateful
StackV2(max_size: s32) -> (handle: resource) [elem_type: type; stack_name: string = ""] stateful
Stage(values: list(dtypes)) -> ()
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ""; shared_name:
     string = ""] stateful
    Puts tensors into a queue between the stages of a pipeline.
StagePeek(index: s32) -> (values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ""; shared_name:
     string = ""] stateful
StringFormat(inputs: list(T)) -> (output: string)
    [T: list(type) >= 0; template: string = "%s"; placeholder: string = "%s"; summarize: int = 3]
    Tensors filled into a text.
StringJoin(inputs: N * string) -> (output: string) [N: int >= 0; separator: string = ""]
    Joins texts element by element.
StringLength(input: string) -> (output: s32) [unit: string in {"BYTE", "UTF8_CHAR"} = "BYTE"]
StringSplit(input: string, delimiter: string) -> (indices: s64, values: string, shape: s64) [skip_empty: bool = true]
StringToHashBucketFast(input: string) -> (output: s64) [num_buckets: int >= 1]
StringToNumber(string_tensor: string) -> (output: out_type) [out_type: type in {f32, f64, s32, s64, u32, u64} = f32]
    Texts as numbers.
Substr(input: string, pos: T, len: T) -> (output: string)
    [T: type in INDEX; unit: string in {"BYTE", "UTF8_CHAR"} = "BYTE"]
    Part of each text.
TensorArrayCloseV3(handle: resource) -> () stateful
TensorArrayConcatV3(handle: resource, flow_in: f32) -> (value: dtype, lengths: s64)
    [dtype: type; element_shape_except0: shape = *] stateful
TensorArrayGatherV3(handle: resource, indices: s32, flow_in: f32) -> (value: dtype)
    [dtype: type; element_shape: shape = *] stateful
    Elements of a tensor array as one tensor.
TensorArrayGradV3(handle: resource, flow_in: f32) -> (grad_handle: resource, flow_out: f32) [source: string] stateful
TensorArrayReadV3(handle: resource, index: s32, flow_in: f32) -> (value: dtype) [dtype: type] stateful
    An element of a tensor array.
TensorArrayScatterV3(handle: resource, indices: s32, value: T, flow_in: f32) -> (flow_out: f32) [T: type] stateful
    A tensor's slices as elements of a tensor array.
TensorArraySizeV3(handle: resource, flow_in: f32) -> (size: s32) stateful
    Number of elements of a tensor array.
TensorArraySplitV3(handle: resource, value: T, lengths: s64, flow_in: f32) -> (flow_out: f32) [T: type] stateful
TensorArrayV3(size: s32) -> (handle: resource, flow: f32)
    [dtype: type; element_shape: shape = *; dynamic_size: bool = false; clear_after_read: bool = true;
     identical_element_shapes: bool = false; tensor_array_name: string = ""] stateful
    An array of tensors, written and read by index.
TensorArrayWriteV3(handle: resource, index: s32, value: T, flow_in: f32) -> (flow_out: f32) [T: type] stateful
    Sets an element of a tensor array.
TensorDataset(components: list(Toutput_types)) -> (handle: variant)
    [Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""] stateful
TensorSliceDataset(components: list(Toutput_types)) -> (handle: variant)
    [Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; is_files: bool = false; metadata: string = "";
     replicate_on_split: bool = false] stateful
TensorSummary(tensor: T) -> (summary: string)
    [T: type; description: string = ""; labels: list(string) = []; display_name: string = ""]
TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> (summary: string) [T: type]
    A record of a tensor.
Unbatch(batched_tensor: T, batch_index: s64, id: s64) -> (unbatched_tensor: T)
    [timeout_micros: int; container: string = ""; shared_name: string = ""; T: type]
Unstage() -> (values: list(dtypes))
    [capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container: string = ""; shared_name:
     string = ""] stateful
    Takes tensors out of a queue between the stages of a pipeline.
"""
