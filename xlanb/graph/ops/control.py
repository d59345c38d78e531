"""Control flow, functions and tensor lists: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
Abort() -> () [error_msg: string = ""; exit_without_error: bool = false]
Case(branch_index: s32, input: list(Tin)) -> (output: list(Tout))
    [Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []] stateful
    Calls the branch of an index; the last where it is out of range.
ControlTrigger() -> ()
    Does nothing, alive even behind dead inputs.
DeviceIndex() -> (index: s32) [device_names: list(string)] stateful
EmptyTensorList(element_shape: shape_type, max_num_elements: s32) -> (handle: variant)
    [element_dtype: type; shape_type: type in INDEX]
    A list of no tensors.
Enter(data: T) -> (output: T) [T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10]
    Passes a value into the frame of a loop.
Exit(data: T) -> (output: T) [T: type]
    Passes a value out of a loop's frame.
FakeParam() -> (output: dtype) [dtype: type; shape: shape]
    Stands for a value that is never used.
If(cond: Tcond, input: list(Tin)) -> (output: list(Tout))
    [Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes:
     list(shape) = []] stateful
    Calls one of two functions.
LoopCond(input: pred) -> (output: pred)
    A loop's condition.
Merge(inputs: N * T) -> (output: T, value_index: s32) [T: type; N: int >= 1]
    The first of its inputs to come, and its index.
NextIteration(data: T) -> (output: T) [T: type]
    Passes a value to the next round of a loop.
NoOp() -> ()
    Does nothing.
PartitionedCall(args: list(Tin)) -> (output: list(Tout))
    [Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ""; config_proto: string = "";
     executor_type: string = ""]
    Calls a function without side effects.
RefEnter(data: Ref(T)) -> (output: Ref(T))
    [T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10]
    Enter for references.
RefExit(data: Ref(T)) -> (output: Ref(T)) [T: type]
    Exit for references.
RefMerge(inputs: Ref(N * T)) -> (output: Ref(T), value_index: s32) [T: type; N: int >= 1]
    Merge for references.
RefNextIteration(data: Ref(T)) -> (output: Ref(T)) [T: type]
    NextIteration for references.
RefSelect(index: s32, inputs: Ref(N * T)) -> (output: Ref(T)) [T: type; N: int >= 1]
    One of N references.
RefSwitch(data: Ref(T), pred: pred) -> (output_false: Ref(T), output_true: Ref(T)) [T: type]
    Switch for references.
StatefulPartitionedCall(args: list(Tin)) -> (output: list(Tout))
    [Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ""; config_proto: string = "";
     executor_type: string = ""] stateful
    Calls a function that may have side effects.
StatelessCase(branch_index: s32, input: list(Tin)) -> (output: list(Tout))
    [Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []]
    Case without side effects.
StatelessIf(cond: Tcond, input: list(Tin)) -> (output: list(Tout))
    [Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes:
     list(shape) = []]
    If without side effects.
StatelessWhile(input: list(T)) -> (output: list(T))
    [T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10]
    While without side effects.
Switch(data: T, pred: pred) -> (output_false: T, output_true: T) [T: type]
    Passes data to output_true or output_false; the other is dead.
SymbolicGradient(input: list(Tin)) -> (output: list(Tout)) [Tin: list(type) >= 1; Tout: list(type) >= 1; f: func]
    The gradient of a function.
TensorListConcatV2(input_handle: variant, element_shape: shape_type, leading_dims: s64) -> (tensor: element_dtype, lengths: s64)
    [element_dtype: type; shape_type: type in INDEX]
TensorListElementShape(input_handle: variant) -> (element_shape: shape_type) [shape_type: type in INDEX]
TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> (output_handle: variant)
    [element_dtype: type; shape_type: type in INDEX]
    A tensor's slices as a list.
TensorListGather(input_handle: variant, indices: s32, element_shape: s32) -> (values: element_dtype)
    [element_dtype: type]
TensorListGetItem(input_handle: variant, index: s32, element_shape: Tshape) -> (item: element_dtype)
    [element_dtype: type; Tshape: type in INDEX = s32]
    An element of a list.
TensorListLength(input_handle: variant) -> (length: s32)
    Number of elements of a list.
TensorListPopBack(input_handle: variant, element_shape: s32) -> (output_handle: variant, tensor: element_dtype)
    [element_dtype: type]
    A list without its last element, and that element.
TensorListPushBack(input_handle: variant, tensor: element_dtype) -> (output_handle: variant) [element_dtype: type]
    A list with one element more.
TensorListReserve(element_shape: shape_type, num_elements: s32) -> (handle: variant)
    [element_dtype: type; shape_type: type in INDEX]
    A list of elements still to be set.
TensorListSetItem(input_handle: variant, index: s32, item: element_dtype) -> (output_handle: variant)
    [element_dtype: type; resize_if_index_out_of_bounds: bool = false]
    A list with one element replaced.
TensorListSplit(tensor: element_dtype, element_shape: shape_type, lengths: s64) -> (output_handle: variant)
    [element_dtype: type; shape_type: type in INDEX]
TensorListStack(input_handle: variant, element_shape: s32) -> (tensor: element_dtype)
    [element_dtype: type; num_elements: int = -1]
    All elements of a list as one tensor.
ToBool(input: T) -> (output: pred) [T: type]
    Whether a scalar is not zero, or a tensor not empty.
While(input: list(T)) -> (output: list(T))
    [T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10] stateful
    Calls body as long as cond holds.
"""
