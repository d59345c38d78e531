"""Updates of variables other than those of training: rows of the op table (see op_def for their
form; facts of tensorflow/core/ops).
"""

from __future__ import annotations

ROWS = r"""
ApplyAdaMax(var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
ApplyAdagradDA(var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), grad: T, lr: T, l1: T, l2: T, global_step: s64) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
ApplyAdagradV2(var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true]
ApplyAddSign(var: Ref(T), m: Ref(T), lr: T, alpha: T, sign_decay: T, beta: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
ApplyFtrlV2(var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false]
ApplyPowerSign(var: Ref(T), m: Ref(T), lr: T, logbase: T, sign_decay: T, beta: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
ApplyProximalAdagrad(var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
ApplyProximalGradientDescent(var: Ref(T), alpha: T, l1: T, l2: T, delta: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
CollectiveReduceScatterV2(input: T, group_size: s32, group_key: s32, instance_key: s32, ordering_token: Nordering_token * resource) -> (data: T)
    [T: type in {bf16, f32, f16, f64, s32, s64}; merge_op: string in {"Min", "Max", "Mul", "Add"}; final_op: string
     in {"Id", "Div"}; communication_hint: string = "auto"; timeout_seconds: float = 0.0; is_stateless: bool = false;
     Nordering_token: int >= 0 = 0; max_subdivs_per_device: int = -1] stateful
DestroyResourceOp(resource: resource) -> () [ignore_lookup_error: bool = true] stateful
InplaceAdd(x: T, i: s32, v: T) -> (y: T) [T: type]
InplaceSub(x: T, i: s32, v: T) -> (y: T) [T: type]
InplaceUpdate(x: T, i: s32, v: T) -> (y: T) [T: type]
IsResourceHandleRefCounting(handle: resource) -> (result: pred) stateful
MakeWeakResourceHandle(handle: resource) -> (dup: resource) stateful
ResourceApplyAdamWithAmsgrad(var: resource, m: resource, v: resource, vhat: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
ResourceCountUpTo(resource: resource) -> (output: T) [limit: int; T: type in INDEX] stateful
ResourceScatterNdMax(ref: resource, indices: Tindices, updates: T) -> ()
    [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
ResourceScatterNdMin(ref: resource, indices: Tindices, updates: T) -> ()
    [T: type; Tindices: type in INDEX; use_locking: bool = true; bad_indices_policy: string = ""] stateful
ResourceSparseApplyAdadelta(var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false] stateful
ResourceSparseApplyAdagradDA(var: resource, gradient_accumulator: resource, gradient_squared_accumulator: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: s64) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false] stateful
ResourceSparseApplyAdagradV2(var: resource, accum: resource, lr: T, epsilon: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; update_slots: bool = true] stateful
ResourceSparseApplyCenteredRMSProp(var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false] stateful
ResourceSparseApplyFtrl(var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; multiply_linear_by_lr: bool = false] stateful
ResourceSparseApplyFtrlV2(var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; multiply_linear_by_lr: bool = false] stateful
ResourceSparseApplyKerasMomentum(var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: T) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; use_nesterov: bool = false] stateful
ResourceSparseApplyProximalAdagrad(var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false] stateful
ResourceSparseApplyProximalGradientDescent(var: resource, alpha: T, l1: T, l2: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false] stateful
ResourceSparseApplyRMSProp(var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false] stateful
ScatterDiv(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
ScatterMax(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in {f16, bf16, f32, f64, s32, s64}; Tindices: type in INDEX; use_locking: bool = false]
ScatterMin(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in {f16, bf16, f32, f64, s32, s64}; Tindices: type in INDEX; use_locking: bool = false]
ScatterMul(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
ScatterNdMax(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; bad_indices_policy: string = ""]
ScatterNdMin(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; bad_indices_policy: string = ""]
ScatterNdNonAliasingAdd(input: T, indices: Tindices, updates: T) -> (output: T)
    [T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16, u32, u64,
     pred}; Tindices: type in INDEX; bad_indices_policy: string = ""]
ScatterNdSub(ref: Ref(T), indices: Tindices, updates: T) -> (output_ref: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; bad_indices_policy: string = ""]
SparseApplyAdadelta(var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
SparseApplyAdagradDA(var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: s64) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
SparseApplyAdagradV2(var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; update_slots: bool = true]
SparseApplyFtrl(var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; multiply_linear_by_lr: bool = false]
SparseApplyFtrlV2(var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; multiply_linear_by_lr: bool = false]
SparseApplyProximalAdagrad(var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
SparseApplyProximalGradientDescent(var: Ref(T), alpha: T, l1: T, l2: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
StridedSliceAssign(ref: Ref(T), begin: Index, end: Index, strides: Index, value: T) -> (output_ref: Ref(T))
    [T: type; Index: type in INDEX; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask:
     int = 0; shrink_axis_mask: int = 0]
"""
