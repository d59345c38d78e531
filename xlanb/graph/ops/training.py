"""Optimizers' update ops: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
ApplyAdadelta(var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
    Adadelta's update of a reference variable.
ApplyAdagrad(var: Ref(T), accum: Ref(T), lr: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true]
    accum += grad^2; var -= lr * grad / sqrt(accum).
ApplyAdam(var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false]
    Adam's update of a reference variable and its two moments.
ApplyCenteredRMSProp(var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
    RMSProp's update, the variance taken about the mean gradient.
ApplyFtrl(var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, lr_power: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false]
    The FTRL-proximal update of a reference variable.
ApplyGradientDescent(var: Ref(T), alpha: T, delta: T) -> (out: Ref(T)) [T: type in NUMBER; use_locking: bool = false]
    var -= alpha * delta.
ApplyMomentum(var: Ref(T), accum: Ref(T), lr: T, grad: T, momentum: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false]
    accum = accum * momentum + grad; var -= lr * accum, or Nesterov's form.
ApplyRMSProp(var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> (out: Ref(T))
    [T: type in NUMBER; use_locking: bool = false]
    ms = rho * ms + (1 - rho) * grad^2; mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom.
ResourceApplyAdaMax(var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    AdaMax's update of a resource variable.
ResourceApplyAdadelta(var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    ApplyAdadelta for resource variables.
ResourceApplyAdagrad(var: resource, accum: resource, lr: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true] stateful
    ApplyAdagrad for resource variables.
ResourceApplyAdagradDA(var: resource, gradient_accumulator: resource, gradient_squared_accumulator: resource, grad: T, lr: T, l1: T, l2: T, global_step: s64) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyAdagradV2(var: resource, accum: resource, lr: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; update_slots: bool = true] stateful
    ApplyAdagrad for resource variables, with epsilon.
ResourceApplyAdam(var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false] stateful
    ApplyAdam for resource variables.
ResourceApplyAddSign(var: resource, m: resource, lr: T, alpha: T, sign_decay: T, beta: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    AddSign's update of a resource variable.
ResourceApplyCenteredRMSProp(var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    ApplyCenteredRMSProp for resource variables.
ResourceApplyFtrl(var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, lr_power: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false] stateful
    ApplyFtrl for resource variables.
ResourceApplyFtrlV2(var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; multiply_linear_by_lr: bool = false] stateful
    ResourceApplyFtrl with shrinkage.
ResourceApplyGradientDescent(var: resource, alpha: T, delta: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    ApplyGradientDescent for resource variables.
ResourceApplyKerasMomentum(var: resource, accum: resource, lr: T, grad: T, momentum: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false] stateful
    accum = accum * momentum - lr * grad; var += accum, or Nesterov's form.
ResourceApplyMomentum(var: resource, accum: resource, lr: T, grad: T, momentum: T) -> ()
    [T: type in NUMBER; use_locking: bool = false; use_nesterov: bool = false] stateful
    ApplyMomentum for resource variables.
ResourceApplyPowerSign(var: resource, m: resource, lr: T, logbase: T, sign_decay: T, beta: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    PowerSign's update of a resource variable.
ResourceApplyProximalAdagrad(var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyProximalGradientDescent(var: resource, alpha: T, l1: T, l2: T, delta: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
ResourceApplyRMSProp(var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T) -> ()
    [T: type in NUMBER; use_locking: bool = false] stateful
    ApplyRMSProp for resource variables.
ResourceSparseApplyAdagrad(var: resource, accum: resource, lr: T, grad: T, indices: Tindices) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; update_slots: bool = true] stateful
    SparseApplyAdagrad for resource variables.
ResourceSparseApplyMomentum(var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: T) -> ()
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; use_nesterov: bool = false] stateful
    SparseApplyMomentum for resource variables.
SparseApplyAdagrad(var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; update_slots: bool = true]
    ApplyAdagrad on some rows.
SparseApplyCenteredRMSProp(var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
SparseApplyMomentum(var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices, momentum: T) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false; use_nesterov: bool = false]
    ApplyMomentum on some rows.
SparseApplyRMSProp(var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices) -> (out: Ref(T))
    [T: type in NUMBER; Tindices: type in INDEX; use_locking: bool = false]
"""
