"""Optimizers' update ops: rows of the op table (see op_def for their form; facts of tensorflow/core/ops)."""

from __future__ import annotations

ROWS = r"""
ApplyAdadelta(var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
ApplyAdagrad(var: Ref(T), accum: Ref(T), lr: T, grad: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true]
ApplyAdam(var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false]
ApplyFtrl(var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, lr_power: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false]
ApplyGradientDescent(var: Ref(T), alpha: T, delta: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
ApplyMomentum(var: Ref(T), accum: Ref(T), lr: T, grad: T, momentum: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false]
ApplyRMSProp(var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
ResourceApplyAdaMax(var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyAdadelta(var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyAdagrad(var: resource, accum: resource, lr: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true] stateful
ResourceApplyAdagradDA(var: resource, gradient_accumulator: resource, gradient_squared_accumulator: resource, grad: T, lr: T, l1: T, l2: T, global_step: s64) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyAdagradV2(var: resource, accum: resource, lr: T, epsilon: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true] stateful
ResourceApplyAdam(var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false] stateful
ResourceApplyAddSign(var: resource, m: resource, lr: T, alpha: T, sign_decay: T, beta: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyCenteredRMSProp(var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyFtrl(var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, lr_power: T) -> () [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false] stateful
ResourceApplyFtrlV2(var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T) -> () [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false] stateful
ResourceApplyGradientDescent(var: resource, alpha: T, delta: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyKerasMomentum(var: resource, accum: resource, lr: T, grad: T, momentum: T) -> () [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false] stateful
ResourceApplyMomentum(var: resource, accum: resource, lr: T, grad: T, momentum: T) -> () [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false] stateful
ResourceApplyPowerSign(var: resource, m: resource, lr: T, logbase: T, sign_decay: T, beta: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyProximalAdagrad(var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyProximalGradientDescent(var: resource, alpha: T, l1: T, l2: T, delta: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyRMSProp(var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> () [T: type in NUMBER; use_locking: bool = false] stateful
SparseApplyAdagrad(var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices) -> (out: Ref(T)) [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; update_slots: bool = true]
SparseApplyMomentum(var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices, momentum: T) -> (out: Ref(T)) [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; use_nesterov: bool = false]
"""
