"""Runs one TensorFlow op: made on a graph, lowered, verified, evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.graph import dtypes
from xlanb.graph.graph import Graph
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf2xla import kernel, lower
from xlanb.tf2xla.compiler import Argument, argument_of

RunOp = Callable[..., Any]


class OpRunner:
    """run_op("Pad", x, paddings, mode=...): arrays in, the array out (or a list of several).

    Inputs that must be constants are.
    """

    def __call__(
        self,
        op_type: str,
        *inputs: Any,
        outputs: Sequence[Any] | None = None,
        variables: Sequence[Any] = (),
        **attrs: Any,
    ) -> Any:
        """Run one op.

        `outputs`: the outputs' dtypes, by default the first input's; `variables` precede the
        inputs, and their new values are returned.
        """
        graph = Graph()
        values = [*map(np.asarray, variables), *map(np.asarray, inputs)]
        types = [dtypes.as_dtype(v.dtype) for v in values]
        made = []
        for i, (v, t) in enumerate(zip(values, types, strict=True)):
            kind = dtypes.resource if i < len(variables) else t
            attributes = {"dtype": t, "shape": TensorShape(list(v.shape))}
            made.append(
                graph.create_op(
                    "VarHandleOp" if i < len(variables) else "Placeholder", (), [kind], attributes, f"in{i}"
                ).outputs[0]
            )
        result_types = [dtypes.as_dtype(o) for o in outputs] if outputs is not None else [] if variables else types[:1]
        op = graph.create_op(op_type, made, result_types, {"T": types[0], **attrs}, "node")
        found = kernel(op_type)
        assert found is not None
        must = set(found.constant_inputs(len(values)))
        arguments = [
            Argument("variable", argument_of(v).shape)
            if i < len(variables)
            else argument_of(v, kind="constant" if i in must else "parameter")
            for i, v in enumerate(values)
        ]
        lowered = lower("f", list(zip(made, arguments, strict=True)), op.outputs, [op])
        lowered.module.verify()
        results = list(evaluate(lowered.module, *(values[i] for i in lowered.parameters)))
        if variables:
            after = list(values[: len(variables)])
            for position, value in zip(lowered.updates, results[lowered.fetch_count :], strict=True):
                after[position] = value
            return after[0] if len(after) == 1 else after
        return results[0] if len(results) == 1 else results


@pytest.fixture
def run_op() -> OpRunner:
    return OpRunner()
