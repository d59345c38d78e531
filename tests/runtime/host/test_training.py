"""Sparse updates match the dense ones for the rows that they update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import apply_op
from xlanb.graph.ops import get_op
from xlanb.runtime.host.training import _RULES, _VARIABLES

RATES = {"lr": 0.1, "alpha": 0.1, "rho": 0.9, "momentum": 0.8, "epsilon": 0.01, "l1": 0.02, "l2": 0.3, "lr_power": -0.5}
RATES["l2_shrinkage"] = 0.05


def run(op_type: str, values: dict[str, Any], grad: Any, indices: Any = None) -> dict[str, Any]:
    with Graph().as_default() as graph:
        variables = {n: tf.Variable(v, name=n, use_resource=True) for n, v in values.items()}
        inputs: dict[str, Any] = {}
        for arg in get_op(op_type).inputs:
            given = {"grad": grad, "delta": grad, "indices": indices}.get(arg.name)
            inputs[arg.name] = variables[arg.name].handle if arg.name in variables else given
            if inputs[arg.name] is None:
                inputs[arg.name] = np.float32(RATES[arg.name])
        op = apply_op(op_type, **inputs)
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            session.run(op)
            return {n: session.read_variable(n) for n in values}


@pytest.mark.parametrize("name", sorted(_RULES))
def test_the_rows_named_change_as_in_the_dense_update(name: str) -> None:
    rng = np.random.default_rng(3)
    names = [a.name for a in get_op(f"ResourceSparseApply{name}").inputs if a.name in _VARIABLES]
    values = {n: rng.uniform(0.5, 1.5, (4, 3)).astype(np.float32) for n in names}
    values |= {"mg": np.full((4, 3), 0.1, np.float32)} if "mg" in names else {}
    indices, grad = np.array([2, 0], np.int32), rng.standard_normal((2, 3)).astype(np.float32)
    got = run(f"ResourceSparseApply{name}", values, grad, indices)
    want = run(f"ResourceApply{name}", {n: v[indices] for n, v in values.items()}, grad)
    for n, before in values.items():
        np.testing.assert_allclose(got[n][indices], want[n], rtol=1e-5, err_msg=n)
        np.testing.assert_array_equal(got[n][[1, 3]], before[[1, 3]])


def test_an_index_out_of_range_is_named() -> None:
    values = {n: np.ones((4, 3), np.float32) for n in ("var", "accum")}
    with pytest.raises(GraphError, match=r"SparseApplyMomentum.*an index is not in \[0, 4\)"):
        run("ResourceSparseApplyMomentum", values, np.ones((1, 3), np.float32), np.array([4], np.int32))
