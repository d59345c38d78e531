"""Control flow, functions and tensor lists: rows of the op table (see op_def for their form; facts of tensorflow/core/ops)."""

from __future__ import annotations

ROWS = r"""
Abort() -> () [error_msg: string = ""; exit_without_error: bool = false]
Case(branch_index: s32, input: list(Tin)) -> (output: list(Tout)) [Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []] stateful
ControlTrigger() -> ()
DeviceIndex() -> (index: s32) [device_names: list(string)] stateful
EmptyTensorList(element_shape: shape_type, max_num_elements: s32) -> (handle: variant) [element_dtype: type; shape_type: type in INDEX]
Enter(data: T) -> (output: T) [T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10]
Exit(data: T) -> (output: T) [T: type]
FakeParam() -> (output: dtype) [dtype: type; shape: shape]
If(cond: Tcond, input: list(Tin)) -> (output: list(Tout)) [Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes: list(shape) = []] stateful
LoopCond(input: pred) -> (output: pred)
Merge(inputs: N * T) -> (output: T, value_index: s32) [T: type; N: int >= 1]
NextIteration(data: T) -> (output: T) [T: type]
NoOp() -> ()
PartitionedCall(args: list(Tin)) -> (output: list(Tout)) [Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ""; config_proto: string = ""; executor_type: string = ""]
RefEnter(data: Ref(T)) -> (output: Ref(T)) [T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10]
RefExit(data: Ref(T)) -> (output: Ref(T)) [T: type]
RefMerge(inputs: Ref(N * T)) -> (output: Ref(T), value_index: s32) [T: type; N: int >= 1]
RefNextIteration(data: Ref(T)) -> (output: Ref(T)) [T: type]
RefSelect(index: s32, inputs: Ref(N * T)) -> (output: Ref(T)) [T: type; N: int >= 1]
RefSwitch(data: Ref(T), pred: pred) -> (output_false: Ref(T), output_true: Ref(T)) [T: type]
StatefulPartitionedCall(args: list(Tin)) -> (output: list(Tout)) [Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ""; config_proto: string = ""; executor_type: string = ""] stateful
StatelessCase(branch_index: s32, input: list(Tin)) -> (output: list(Tout)) [Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []]
StatelessIf(cond: Tcond, input: list(Tin)) -> (output: list(Tout)) [Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes: list(shape) = []]
StatelessWhile(input: list(T)) -> (output: list(T)) [T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10]
Switch(data: T, pred: pred) -> (output_false: T, output_true: T) [T: type]
SymbolicGradient(input: list(Tin)) -> (output: list(Tout)) [Tin: list(type) >= 1; Tout: list(type) >= 1; f: func]
TensorListConcatV2(input_handle: variant, element_shape: shape_type, leading_dims: s64) -> (tensor: element_dtype, lengths: s64) [element_dtype: type; shape_type: type in INDEX]
TensorListElementShape(input_handle: variant) -> (element_shape: shape_type) [shape_type: type in INDEX]
TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> (output_handle: variant) [element_dtype: type; shape_type: type in INDEX]
TensorListGather(input_handle: variant, indices: s32, element_shape: s32) -> (values: element_dtype) [element_dtype: type]
TensorListGetItem(input_handle: variant, index: s32, element_shape: Tshape) -> (item: element_dtype) [element_dtype: type; Tshape: type in INDEX = s32]
TensorListLength(input_handle: variant) -> (length: s32)
TensorListPopBack(input_handle: variant, element_shape: s32) -> (output_handle: variant, tensor: element_dtype) [element_dtype: type]
TensorListPushBack(input_handle: variant, tensor: element_dtype) -> (output_handle: variant) [element_dtype: type]
TensorListReserve(element_shape: shape_type, num_elements: s32) -> (handle: variant) [element_dtype: type; shape_type: type in INDEX]
TensorListSetItem(input_handle: variant, index: s32, item: element_dtype) -> (output_handle: variant) [element_dtype: type; resize_if_index_out_of_bounds: bool = false]
TensorListSplit(tensor: element_dtype, element_shape: shape_type, lengths: s64) -> (output_handle: variant) [element_dtype: type; shape_type: type in INDEX]
TensorListStack(input_handle: variant, element_shape: s32) -> (tensor: element_dtype) [element_dtype: type; num_elements: int = -1]
ToBool(input: T) -> (output: pred) [T: type]
While(input: list(T)) -> (output: list(T)) [T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10] stateful
"""
