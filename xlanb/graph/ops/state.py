"""Variables, by reference and by resource: rows of the op table (see op_def for their form; facts of tensorflow/core/ops)."""

from __future__ import annotations

ROWS = r"""
Assign(ref: Ref(T), value: T) -> (output_ref: Ref(T)) [T: type; validate_shape: bool = true; use_locking: bool = true]
AssignAdd(ref: Ref(T), value: T) -> (output_ref: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
AssignAddVariableOp(resource: resource, value: dtype) -> () [dtype: type] stateful
AssignSub(ref: Ref(T), value: T) -> (output_ref: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
AssignSubVariableOp(resource: resource, value: dtype) -> () [dtype: type] stateful
AssignVariableOp(resource: resource, value: dtype) -> () [dtype: type; validate_shape: bool = false] stateful
CountUpTo(ref: Ref(T)) -> (output: T) [limit: int; T: type in INDEX]
DestroyTemporaryVariable(ref: Ref(T)) -> (value: T) [T: type; var_name: string]
IsVariableInitialized(ref: Ref(dtype)) -> (is_initialized: pred) [dtype: type]
ReadVariableOp(resource: resource) -> (value: dtype) [dtype: type] stateful
ResourceGather(resource: resource, indices: Tindices) -> (output: dtype) [batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: type in INDEX] stateful
ResourceScatterAdd(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type in NUMBER; Tindices: type in INDEX] stateful
ResourceScatterDiv(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type in NUMBER; Tindices: type in INDEX] stateful
ResourceScatterMax(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type in NUMBER; Tindices: type in INDEX] stateful
ResourceScatterMin(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type in NUMBER; Tindices: type in INDEX] stateful
ResourceScatterMul(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type in NUMBER; Tindices: type in INDEX] stateful
ResourceScatterNdAdd(ref: resource, indices: Tindices, updates: T) -> () [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
ResourceScatterNdSub(ref: resource, indices: Tindices, updates: T) -> () [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
ResourceScatterNdUpdate(ref: resource, indices: Tindices, updates: T) -> () [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
ResourceScatterSub(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type in NUMBER; Tindices: type in INDEX] stateful
ResourceScatterUpdate(resource: resource, indices: Tindices, updates: dtype) -> () [dtype: type; Tindices: type in INDEX] stateful
ScatterAdd(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T)) [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
ScatterSub(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T)) [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
ScatterUpdate(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T)) [T: type; Tindices: type in INDEX; use_locking: bool = true]
TemporaryVariable() -> (ref: Ref(dtype)) [shape: shape; dtype: type; var_name: string = ""] stateful
VarHandleOp() -> (resource: resource) [container: string = ""; shared_name: string = ""; debug_name: string = ""; dtype: type; shape: shape; allowed_devices: list(string) = []] stateful
VarIsInitializedOp(resource: resource) -> (is_initialized: pred) stateful
Variable() -> (ref: Ref(dtype)) [shape: shape; dtype: type; container: string = ""; shared_name: string = ""] stateful
VariableShape(input: resource) -> (output: out_type) [out_type: type in INDEX = s32] stateful
VariableV2() -> (ref: Ref(dtype)) [shape: shape; dtype: type; container: string = ""; shared_name: string = ""] stateful
"""
