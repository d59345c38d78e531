"""Types of values as shapes of HLO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from xlanb.errors import ArgumentError, UnimplementedError
from xlanb.frontends.stablehlo.ir import FutureType, StablehloType, TensorType, TokenType, TupleType
from xlanb.shape import Shape
from xlanb.shape.shape import TOKEN, ArrayShape, TupleShape, array, tuple_of


def shape_of(type_: StablehloType) -> Shape:
    """Return the shape of a type, row-major.

    Raises:
        UnimplementedError: HLO has no such shape: a size without a bound, or an element type of
            another dialect.
    """
    if isinstance(type_, TensorType):
        return _array(type_)
    if isinstance(type_, TupleType):
        return tuple_of([shape_of(t) for t in type_.types])
    if isinstance(type_, TokenType):
        return TOKEN
    raise UnimplementedError(f"values of type {type_} are not supported")


def _array(type_: TensorType) -> ArrayShape:
    if type_.element is None:
        raise UnimplementedError(f"the element type of {type_} is not supported")
    if type_.is_static:
        return array(type_.element, [d for d in type_.dimensions if d is not None])
    bounds = type_.bounds or (None,) * len(type_.dimensions)
    sizes = [b if d is None else d for d, b in zip(type_.dimensions, bounds, strict=True)]
    if None in sizes:
        raise UnimplementedError(
            f"{type_} has an unknown size: give the program static shapes, or bounds by #stablehlo.bounds"
        )
    dynamic = tuple(d is None for d in type_.dimensions)
    return replace(array(type_.element, [s for s in sizes if s is not None]), dynamic=dynamic)


def is_open(type_: StablehloType) -> bool:
    """Whether an array's type leaves a size open that has no bound either."""
    if not isinstance(type_, TensorType) or type_.is_static:
        return False
    bounds = type_.bounds or (None,) * len(type_.dimensions)
    return any(d is None and b is None for d, b in zip(type_.dimensions, bounds, strict=True))


def closed(type_: StablehloType, argument: Any) -> Shape:
    """Return the shape of a parameter, with open sizes from an argument (any object with a shape).

    Raises:
        ArgumentError: the argument has another rank, or differs in a size that the type states.
    """
    if not isinstance(type_, TensorType) or not is_open(type_):
        return shape_of(type_)
    sizes = tuple(int(n) for n in (argument.shape if hasattr(argument, "shape") else np.shape(argument)))
    if not fits(ArrayShape(type_.element, sizes), type_):  # type: ignore[arg-type]
        raise ArgumentError(f"expected sizes that match {type_}, got {list(sizes)}")
    return _array(replace(type_, dimensions=sizes, bounds=()))


def fits(shape: Shape, type_: StablehloType) -> bool:
    """Whether a shape matches a type; an open size matches any."""
    if isinstance(type_, TensorType):
        return (
            isinstance(shape, ArrayShape)
            and shape.element_type is type_.element
            and shape.rank == len(type_.dimensions)
            and all(w is None or h == w for h, w in zip(shape.dimensions, type_.dimensions, strict=True))
        )
    if isinstance(type_, TupleType):
        return (
            isinstance(shape, TupleShape)
            and len(shape.shapes) == len(type_.types)
            and all(fits(s, t) for s, t in zip(shape.shapes, type_.types, strict=True))
        )
    if isinstance(type_, FutureType):
        state = shape.shapes if isinstance(shape, TupleShape) else ()
        return len(state) > 1 and fits(state[1], type_.types[0] if len(type_.types) == 1 else TupleType(type_.types))
    return shape.is_token if isinstance(type_, TokenType) else False


def tuple_or_single(shapes: Iterable[Shape]) -> Shape:
    """The one shape, or the tuple of several or none."""
    every = tuple(shapes)
    return every[0] if len(every) == 1 else tuple_of(every)
