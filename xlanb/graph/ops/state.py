"""Variables, by reference and by resource: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
Assign(ref: Ref(T), value: T) -> (output_ref: Ref(T)) [T: type; validate_shape: bool = true; use_locking: bool = true]
    Sets a reference variable; gives the reference.
AssignAdd(ref: Ref(T), value: T) -> (output_ref: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
    Adds to a reference variable; gives the reference.
AssignAddVariableOp(resource: resource, value: dtype) -> () [dtype: type] stateful
    Adds to a resource variable.
AssignSub(ref: Ref(T), value: T) -> (output_ref: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
    Subtracts from a reference variable; gives the reference.
AssignSubVariableOp(resource: resource, value: dtype) -> () [dtype: type] stateful
    Subtracts from a resource variable.
AssignVariableOp(resource: resource, value: dtype) -> () [dtype: type; validate_shape: bool = false] stateful
    Sets a resource variable.
CountUpTo(ref: Ref(T)) -> (output: T) [limit: int; T: type in INDEX]
DestroyTemporaryVariable(ref: Ref(T)) -> (value: T) [T: type; var_name: string]
IsVariableInitialized(ref: Ref(dtype)) -> (is_initialized: pred) [dtype: type]
    Whether a reference variable has a value.
ReadVariableOp(resource: resource) -> (value: dtype) [dtype: type] stateful
    The value of a resource variable.
ResourceGather(resource: resource, indices: Tindices) -> (output: dtype)
    [batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: type in INDEX] stateful
    Rows of a resource variable by index.
ResourceGatherNd(resource: resource, indices: Tindices) -> (output: dtype)
    [dtype: type; Tindices: type in INDEX] stateful
ResourceScatterAdd(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type in NUMBER; Tindices: type in INDEX] stateful
    Adds to rows of a resource variable.
ResourceScatterDiv(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type in NUMBER; Tindices: type in INDEX] stateful
    Divides rows of a resource variable.
ResourceScatterMax(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type in NUMBER; Tindices: type in INDEX] stateful
    Maximum with rows of a resource variable.
ResourceScatterMin(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type in NUMBER; Tindices: type in INDEX] stateful
    Minimum with rows of a resource variable.
ResourceScatterMul(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type in NUMBER; Tindices: type in INDEX] stateful
    Multiplies rows of a resource variable.
ResourceScatterNdAdd(ref: resource, indices: Tindices, updates: T) -> ()
    [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
    Adds to elements or slices of a resource variable.
ResourceScatterNdSub(ref: resource, indices: Tindices, updates: T) -> ()
    [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
    Subtracts from elements or slices of a resource variable.
ResourceScatterNdUpdate(ref: resource, indices: Tindices, updates: T) -> ()
    [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
    Sets elements or slices of a resource variable.
ResourceScatterSub(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type in NUMBER; Tindices: type in INDEX] stateful
    Subtracts from rows of a resource variable.
ResourceScatterUpdate(resource: resource, indices: Tindices, updates: dtype) -> ()
    [dtype: type; Tindices: type in INDEX] stateful
    Sets rows of a resource variable.
ScatterAdd(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
    Adds to rows of a reference variable.
ScatterNdAdd(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; bad_indices_policy: string = ""]
ScatterNdUpdate(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""]
ScatterSub(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
    Subtracts from rows of a reference variable.
ScatterUpdate(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type; Tindices: type in INDEX; use_locking: bool = true]
    Sets rows of a reference variable.
TemporaryVariable() -> (ref: Ref(dtype)) [shape: shape; dtype: type; var_name: string = ""] stateful
VarHandleOp() -> (resource: resource)
    [container: string = ""; shared_name: string = ""; debug_name: string = ""; dtype: type; shape: shape;
     allowed_devices: list(string) = []] stateful
    A handle to a resource variable.
VarIsInitializedOp(resource: resource) -> (is_initialized: pred) stateful
    Whether a resource variable has a value.
Variable() -> (ref: Ref(dtype)) [shape: shape; dtype: type; container: string = ""; shared_name: string = ""] stateful
    A reference variable, the oldest form.
VariableShape(input: resource) -> (output: out_type) [out_type: type in INDEX = s32] stateful
    The shape of a resource variable.
VariableV2() -> (ref: Ref(dtype))
    [shape: shape; dtype: type; container: string = ""; shared_name: string = ""] stateful
    A reference variable.
"""
