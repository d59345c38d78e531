"""Where static shapes come from: the lowering registers itself here, so that no op's shape rule is written twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xlanb.errors import GraphError, GraphValueError, XlanbError

if TYPE_CHECKING:
    from xlanb.graph.operation import Operation

Dims = tuple[int | None, ...]
ShapeFunction = Callable[["Operation"], Sequence[Dims | None] | None]

_shape_function: ShapeFunction | None = None


def set_shape_function(function: ShapeFunction | None) -> ShapeFunction | None:
    """Let `function` say the static shapes of an op's outputs; returns the one before.

    It gives one entry an output (None: unknown rank; None inside: unknown size), or None where it knows nothing, and
    raises an XlanbError where the inputs' shapes do not fit the op.
    """
    global _shape_function
    previous, _shape_function = _shape_function, function
    return previous


def output_shapes(op: Operation) -> list[Dims | None]:
    """Static shapes of the op's outputs, as far as attributes, inputs or the registered function tell.

    Raises:
        GraphValueError: the inputs' shapes do not fit the op; the message names the node.
    """
    known: Sequence[Dims | None] | None = _from_attributes(op)
    if known is None and _shape_function is not None:
        try:
            known = _shape_function(op)
        except GraphError:
            raise
        except XlanbError as error:
            raise GraphValueError(f"{error}\n  in {op.describe()}") from error
    shapes = list(known or ())[: len(op.outputs)]
    return shapes + [None] * (len(op.outputs) - len(shapes))


def _from_attributes(op: Operation) -> list[Dims | None] | None:
    """Shapes that an op states itself: sources say theirs, assignments and reads hand on their variable's."""
    if op.type == "Const":
        value = op.attrs.get("value")
        return None if value is None else [tuple(value.shape)]
    if op.type in {"Placeholder", "PlaceholderWithDefault", "Variable", "VariableV2", "TemporaryVariable"}:
        shape = op.attrs.get("shape")
        return [shape.as_tuple() if shape is not None else None]
    if op.type == "VarHandleOp":
        return [()]
    if op.type == "ReadVariableOp":
        return [handle_shape(op)]
    if op.type in {"IteratorGetNext", "IteratorGetNextSync"}:
        return [s.as_tuple() for s in op.attrs.get("output_shapes") or ()]
    if op.type in _RANDOM:
        from xlanb.graph.constant_value import constant_value

        sizes = constant_value(op.inputs[0])
        return [None if sizes is None else tuple(int(d) for d in sizes)]
    if (
        op.outputs
        and op.outputs[0].dtype.is_ref_dtype
        and op.inputs
        and op.inputs[0].dtype.is_ref_dtype
        and len(op.outputs) == 1
    ):
        return [op.inputs[0].shape.as_tuple()]  # an update gives the reference that it was given
    return None


# Drawn on the host, not lowered: their shape is their first input's value.
_RANDOM = frozenset({"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"})


def handle_shape(op: Operation) -> Dims | None:
    """The shape of the variable behind the op's first input, a resource handle; None where unknown."""
    source = op.inputs[0].op if op.inputs else op
    while source.type in {"Identity", "Enter", "RefEnter", "Switch", "Merge"} and source.inputs:
        source = source.inputs[0].op
    shape = source.attrs.get("shape") if source.type == "VarHandleOp" else None
    return None if shape is None else shape.as_tuple()
