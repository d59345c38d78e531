"""Sparse updates of variables' rows (core/kernels/training_ops.cc).

Applies the formulas of the dense updates row by row, in the order of the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.operation import Operation
from xlanb.graph.ops import get_op
from xlanb.runtime.host.ops import HostState, host

Array = np.ndarray[Any, Any]
Given = Mapping[str, Any]  # the op's inputs by name: rows of variables and of the gradient, rates
Rule = Callable[[Given, Operation], Mapping[str, Any]]


def _momentum(g: Given, op: Operation) -> Mapping[str, Any]:
    accum = g["accum"] * g["momentum"] + g["grad"]
    step = g["grad"] * g["lr"] + accum * g["momentum"] * g["lr"] if op.attrs.get("use_nesterov") else accum * g["lr"]
    return {"var": g["var"] - step, "accum": accum}


def _keras_momentum(g: Given, op: Operation) -> Mapping[str, Any]:
    accum = g["accum"] * g["momentum"] - g["grad"] * g["lr"]
    step = accum * g["momentum"] - g["grad"] * g["lr"] if op.attrs.get("use_nesterov") else accum
    return {"var": g["var"] + step, "accum": accum}


def _adadelta(g: Given, _op: Operation) -> Mapping[str, Any]:
    accum = g["rho"] * g["accum"] + (1 - g["rho"]) * g["grad"] ** 2
    update = np.sqrt(g["accum_update"] + g["epsilon"]) / np.sqrt(accum + g["epsilon"]) * g["grad"]
    after = g["rho"] * g["accum_update"] + (1 - g["rho"]) * update**2
    return {"var": g["var"] - g["lr"] * update, "accum": accum, "accum_update": after}


def _ftrl(g: Given, _op: Operation) -> Mapping[str, Any]:
    power, shrunk = -g["lr_power"], g["grad"] + 2 * g.get("l2_shrinkage", 0) * g["var"]
    accum = g["accum"] + g["grad"] ** 2
    sigma = (accum**power - g["accum"] ** power) / g["lr"]
    linear = g["linear"] + shrunk - sigma * g["var"]
    quadratic = accum**power / g["lr"] + 2 * g["l2"]
    var = np.where(np.abs(linear) > g["l1"], (np.sign(linear) * g["l1"] - linear) / quadratic, 0)
    return {"var": var, "accum": accum, "linear": linear}


def _proximal(value: Any, rate: Any, g: Given) -> Any:
    shrunk = np.sign(value) * np.maximum(np.abs(value) - rate * g["l1"], 0) if g["l1"] > 0 else value
    return shrunk / (1 + rate * g["l2"])


def _proximal_descent(g: Given, _op: Operation) -> Mapping[str, Any]:
    return {"var": _proximal(g["var"] - g["alpha"] * g["grad"], g["alpha"], g)}


def _proximal_adagrad(g: Given, _op: Operation) -> Mapping[str, Any]:
    accum = g["accum"] + g["grad"] ** 2
    rate = g["lr"] / np.sqrt(accum)
    return {"var": _proximal(g["var"] - rate * g["grad"], rate, g), "accum": accum}


def _rms(g: Given, _op: Operation) -> Mapping[str, Any]:
    ms = g["rho"] * g["ms"] + (1 - g["rho"]) * g["grad"] ** 2
    found: dict[str, Any] = {"ms": ms}
    below = ms + g["epsilon"]
    if "mg" in g:
        found["mg"] = g["rho"] * g["mg"] + (1 - g["rho"]) * g["grad"]
        below = below - found["mg"] ** 2
    found["mom"] = g["momentum"] * g["mom"] + g["lr"] * g["grad"] / np.sqrt(below)
    return {**found, "var": g["var"] - found["mom"]}


_RULES: dict[str, Rule] = {
    "Momentum": _momentum,
    "KerasMomentum": _keras_momentum,
    "Adadelta": _adadelta,
    "Ftrl": _ftrl,
    "FtrlV2": _ftrl,
    "ProximalGradientDescent": _proximal_descent,
    "ProximalAdagrad": _proximal_adagrad,
    "RMSProp": _rms,
    "CenteredRMSProp": _rms,
}
_VARIABLES = frozenset({"var", "accum", "accum_update", "linear", "ms", "mom", "mg"})


@host(
    *(
        f"{prefix}SparseApply{name}"
        for prefix in ("", "Resource")
        for name in _RULES
        if prefix or name != "KerasMomentum"
    )
)
def _apply(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    rule = _RULES[op.type.partition("SparseApply")[2]]
    given = dict(zip((a.name for a in get_op(op.type).inputs), inputs, strict=True))
    if op.attrs.get("multiply_linear_by_lr"):
        raise GraphError(f"node {op.name!r} ({op.type}): set multiply_linear_by_lr to false")
    handles = {name: given[name] for name in given if name in _VARIABLES}

    def step() -> None:
        values = {name: np.array(state.variables.read(handle)) for name, handle in handles.items()}
        _update_rows(op, rule, given, values)
        state.variables.write({handle.name: values[name] for name, handle in handles.items()})

    state.variables.exclusively([h.name for h in handles.values()], step)
    return [handles["var"]] if op.outputs else []


def _update_rows(op: Operation, rule: Rule, given: Given, values: Mapping[str, Array]) -> None:
    """Update the rows given by the indices, in order, in the variables' own arrays."""
    indices, grads = np.asarray(given["indices"]), np.asarray(given["grad"])
    if indices.size and not (indices.min() >= 0 and indices.max() < len(values["var"])):
        raise GraphError(f"node {op.name!r} ({op.type}): an index is not in [0, {len(values['var'])})")
    groups = (
        [slice(None)] if len(np.unique(indices)) == len(indices) else [slice(i, i + 1) for i in range(len(indices))]
    )
    for group in groups:
        rows = indices[group]
        now = {**given, **{n: v[rows] for n, v in values.items()}, "grad": grads[group]}
        for name, after in rule(now, op).items():
            values[name][rows] = after
