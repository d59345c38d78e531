"""Tensor arrays, lists, maps, stacks, optionals and mutexes: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
ConsumeMutexLock(mutex_lock: variant) -> () stateful
Copy(input: T) -> (output: T) [T: type; tensor_name: string = ""; debug_ops_spec: list(string) = []]
CopyHost(input: T) -> (output: T) [T: type; tensor_name: string = ""; debug_ops_spec: list(string) = []]
CopyOp(a: T) -> (b: T) [T: type]
DeepCopy(x: T) -> (y: T) [T: type] stateful
DisableCopyOnRead(resource: resource) -> () stateful
EmptyTensorMap() -> (handle: variant)
For(start: s32, limit: s32, delta: s32, input: list(T)) -> (output: list(T)) [T: list(type) >= 0; body: func]
IteratorGetNextAsOptional(iterator: resource) -> (optional: variant)
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1] stateful
MapDefun(arguments: list(Targuments), captured_inputs: list(Tcaptured)) -> (output: list(output_types))
    [Targuments: list(type) >= 1; Tcaptured: list(type) >= 0 = []; output_types: list(type) >= 1; output_shapes:
     list(shape) >= 1; f: func; max_intra_op_parallelism: int = 1]
MutexLock(mutex: resource) -> (mutex_lock: variant) stateful
MutexV2() -> (resource: resource) [container: string = ""; shared_name: string = ""] stateful
OptionalFromValue(components: list(Toutput_types)) -> (optional: variant) [Toutput_types: list(type) >= 1]
OptionalGetValue(optional: variant) -> (components: list(output_types))
    [output_types: list(type) >= 1; output_shapes: list(shape) >= 1]
OptionalHasValue(optional: variant) -> (has_value: pred)
OptionalNone() -> (optional: variant)
RemoteCall(target: string, args: list(Tin)) -> (output: list(Tout))
    [Tin: list(type) >= 1; Tout: list(type) >= 1; f: func] stateful
Stack() -> (handle: Ref(string)) [elem_type: type; stack_name: string = ""] stateful
StackClose(handle: Ref(string)) -> ()
StackPop(handle: Ref(string)) -> (elem: elem_type) [elem_type: type]
StackPush(handle: Ref(string), elem: T) -> (output: T) [T: type; swap_memory: bool = false]
TensorArray(size: s32) -> (handle: Ref(string))
    [dtype: type; dynamic_size: bool = false; clear_after_read: bool = true; tensor_array_name: string = "";
     element_shape: shape = *] stateful
TensorArrayClose(handle: Ref(string)) -> ()
TensorArrayCloseV2(handle: string) -> ()
TensorArrayConcat(handle: Ref(string), flow_in: f32) -> (value: dtype, lengths: s64)
    [dtype: type; element_shape_except0: shape = *]
TensorArrayConcatV2(handle: string, flow_in: f32) -> (value: dtype, lengths: s64)
    [dtype: type; element_shape_except0: shape = *]
TensorArrayGather(handle: Ref(string), indices: s32, flow_in: f32) -> (value: dtype)
    [dtype: type; element_shape: shape = *]
TensorArrayGatherV2(handle: string, indices: s32, flow_in: f32) -> (value: dtype)
    [dtype: type; element_shape: shape = *]
TensorArrayGrad(handle: string, flow_in: f32) -> (grad_handle: Ref(string)) [source: string] stateful
TensorArrayGradV2(handle: string, flow_in: f32) -> (grad_handle: string) [source: string] stateful
TensorArrayGradWithShape(handle: resource, flow_in: f32, shape_to_prepend: s32) -> (grad_handle: resource, flow_out: f32)
    [source: string] stateful
TensorArrayPack(handle: Ref(string), flow_in: f32) -> (value: dtype) [dtype: type; element_shape: shape = *]
TensorArrayRead(handle: Ref(string), index: s32, flow_in: f32) -> (value: dtype) [dtype: type]
TensorArrayReadV2(handle: string, index: s32, flow_in: f32) -> (value: dtype) [dtype: type]
TensorArrayScatter(handle: Ref(string), indices: s32, value: T, flow_in: f32) -> (flow_out: f32) [T: type]
TensorArrayScatterV2(handle: string, indices: s32, value: T, flow_in: f32) -> (flow_out: f32) [T: type]
TensorArraySize(handle: Ref(string), flow_in: f32) -> (size: s32)
TensorArraySizeV2(handle: string, flow_in: f32) -> (size: s32)
TensorArraySplit(handle: Ref(string), value: T, lengths: s64, flow_in: f32) -> (flow_out: f32) [T: type]
TensorArraySplitV2(handle: string, value: T, lengths: s64, flow_in: f32) -> (flow_out: f32) [T: type]
TensorArrayUnpack(handle: Ref(string), value: T, flow_in: f32) -> (flow_out: f32) [T: type]
TensorArrayV2(size: s32) -> (handle: string)
    [dtype: type; element_shape: shape = *; dynamic_size: bool = false; clear_after_read: bool = true;
     tensor_array_name: string = ""] stateful
TensorArrayWrite(handle: Ref(string), index: s32, value: T, flow_in: f32) -> (flow_out: f32) [T: type]
TensorArrayWriteV2(handle: string, index: s32, value: T, flow_in: f32) -> (flow_out: f32) [T: type]
TensorListConcat(input_handle: variant) -> (tensor: element_dtype, lengths: s64)
    [element_dtype: type; element_shape: shape = *]
TensorListConcatLists(input_a: variant, input_b: variant) -> (output: variant) [element_dtype: type]
TensorListPushBackBatch(input_handles: variant, tensor: element_dtype) -> (output_handles: variant)
    [element_dtype: type]
TensorListResize(input_handle: variant, size: s32) -> (output_handle: variant)
TensorListScatter(tensor: element_dtype, indices: s32, element_shape: shape_type) -> (output_handle: variant)
    [element_dtype: type; shape_type: type in INDEX]
TensorListScatterIntoExistingList(input_handle: variant, tensor: element_dtype, indices: s32) -> (output_handle: variant)
    [element_dtype: type]
TensorListScatterV2(tensor: element_dtype, indices: s32, element_shape: shape_type, num_elements: s32) -> (output_handle: variant)
    [element_dtype: type; shape_type: type in INDEX]
TensorMapErase(input_handle: variant, key: key_dtype) -> (output_handle: variant)
    [key_dtype: type; value_dtype: type]
TensorMapHasKey(input_handle: variant, key: key_dtype) -> (has_key: pred) [key_dtype: type]
TensorMapInsert(input_handle: variant, key: key_dtype, value: value_dtype) -> (output_handle: variant)
    [key_dtype: type; value_dtype: type]
TensorMapLookup(input_handle: variant, key: key_dtype) -> (value: value_dtype)
    [key_dtype: type; value_dtype: type]
TensorMapSize(input_handle: variant) -> (size: s32)
TensorMapStackKeys(input_handle: variant) -> (keys: key_dtype) [key_dtype: type]
Timestamp() -> (ts: f64) stateful
"""
