"""Static shapes, by the lowering's shape functions, which register here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xlanb.boundary import boundary
from xlanb.errors import GraphError, GraphValueError, XlanbError
from xlanb.graph.constant_value import partial_vector
from xlanb.graph.operation import Dims, Operation, handed_on_from, infer_shapes

ShapeFunction = Callable[[Operation], Sequence[Dims | None] | None]

_shape_function: ShapeFunction | None = None


def set_shape_function(function: ShapeFunction | None) -> ShapeFunction | None:
    """Set the function for static shapes of an op's outputs; return the previous one.

    It returns one entry per output (None: unknown rank; None inside: unknown size), or None if all
    is unknown. It raises an XlanbError if the inputs' shapes do not fit the op.
    """
    global _shape_function
    previous, _shape_function = _shape_function, function
    return previous


@boundary("infer the shapes of a node")
def output_shapes(op: Operation) -> list[Dims | None]:
    """Return static shapes of the outputs, by attributes, inputs or the registered function.

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
    if known is None or (known and known[0] is None):
        asked = _asked_for(op)
        known = known if asked is None else [asked]
    shapes = list(known or ())[: len(op.outputs)]
    return shapes + [None] * (len(op.outputs) - len(shapes))


infer_shapes.implement(output_shapes)


def _from_attributes(op: Operation) -> list[Dims | None] | None:
    """Return shapes that an op states itself: a source's own, or the variable's for assigns and
    reads.
    """
    if op.type == "Const":
        value = op.attrs.get("value")
        return None if value is None else [tuple(value.shape)]
    if op.type in {"Placeholder", "PlaceholderWithDefault", "Variable", "VariableV2", "TemporaryVariable"}:
        shape = op.attrs.get("shape")
        return [shape.as_tuple() if shape is not None else None]
    if op.type in _HANDLES:
        return [()]
    if op.type == "ReadVariableOp":
        return [handle_shape(op)]
    if op.type in {"IteratorGetNext", "IteratorGetNextSync"}:
        return [s.as_tuple() for s in op.attrs.get("output_shapes") or ()]
    if (
        op.outputs
        and op.outputs[0].dtype.is_ref_dtype
        and op.inputs
        and op.inputs[0].dtype.is_ref_dtype
        and len(op.outputs) == 1
    ):
        return [op.inputs[0].shape.as_tuple()]  # an update gives the reference that it was given
    return None


# Op types with the number of the input whose elements are the result's sizes.
# Single sizes may be known statically.
_SIZES = {
    "RandomUniform": 0,
    "RandomUniformInt": 0,
    "RandomStandardNormal": 0,
    "TruncatedNormal": 0,
    "ParameterizedTruncatedNormal": 0,
    "StatelessRandomUniform": 0,
    "StatelessRandomNormal": 0,
    "StatelessTruncatedNormal": 0,
    "Fill": 0,
    "Empty": 0,
    "BroadcastTo": 1,
    "Reshape": 1,
    "ScatterNd": 2,
    "Slice": 2,
    "Conv2DBackpropInput": 0,
    "Conv3DBackpropInputV2": 0,
    "Tile": 1,
}


def _asked_for(op: Operation) -> Dims | None:
    """Return the shape that a shape input requests, as far as its elements are known."""
    index = _SIZES.get(op.type)
    sizes = None if index is None or index >= len(op.inputs) else partial_vector(op.inputs[index])
    if sizes is None:
        return None
    dims = op.inputs[0].shape.as_tuple() or (None,) * len(sizes)
    if op.type == "Tile":
        return tuple(None if d is None or m is None else d * m for d, m in zip(dims, sizes, strict=False))
    if op.type == "Slice":
        begins = partial_vector(op.inputs[1]) or [None] * len(sizes)
        return tuple(_sliced_size(*part) for part in zip(dims, begins, sizes, strict=False))
    found = tuple(None if s is None or s < 0 else s for s in sizes)
    if op.type == "Reshape" and found.count(None) == 1:
        count, rest = op.inputs[0].shape.num_elements(), prod(s for s in found if s is not None)
        if count is not None and rest and count % rest == 0:
            return tuple(count // rest if s is None else s for s in found)
    return found


def _sliced_size(size: int | None, begin: int | None, count: int | None) -> int | None:
    """Return the size of a sliced dimension: `count`, or the rest after `begin` if it is -1."""
    if count is None or count >= 0:
        return count
    return None if size is None or begin is None else max(size - begin, 0)


_HANDLES = frozenset({"VarHandleOp", "_XlaAotOnlyVarHandleOp"})
_HANDLES_PASS = frozenset({"Identity", "Enter", "RefEnter", "Switch", "Merge"})


def handle_shape(op: Operation) -> Dims | None:
    """Return the shape of the variable behind the op's first input, a resource handle, or None."""
    source = handed_on_from(op.inputs[0], lambda o: o.type in _HANDLES_PASS).op if op.inputs else op
    shape = source.attrs.get("shape") if source.type in _HANDLES else None
    return None if shape is None else shape.as_tuple()
