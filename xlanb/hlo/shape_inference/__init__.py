"""Infer result shapes from operand shapes and attributes (xla/service/shape_inference.cc).

    infer(HloOpcode.ADD, [f32[2], f32[2]], {})              -> f32[2]{0}
    check(HloOpcode.RESHAPE, [f32[2,3]], {}, f32[7])        -> ShapeError

A result array is row-major, whatever the operands' layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from xlanb.errors import ShapeError
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference import (
    collectives,
    control,
    data,
    elementwise,
    indexing,
    linalg,
    reductions,
)
from xlanb.hlo.shape_inference.registry import CHECKS, RULES, Site, compatible
from xlanb.shape import EXTENT_LIMIT, ArrayShape, Literal, Shape, TupleShape

__all__ = ["GIVEN", "check", "compatible", "infer", "is_inferred"]

FAMILIES = (collectives, control, data, elementwise, indexing, linalg, reductions)
"""The modules of rules; importing them registers the rules."""

GIVEN = frozenset(CHECKS) | {HloOpcode.BITCAST, HloOpcode.CUSTOM_CALL, HloOpcode.PARAMETER}
"""Opcodes whose shape must be given."""


def is_inferred(opcode: HloOpcode) -> bool:
    """Whether the shape follows from operands and attributes."""
    return opcode in RULES


def infer(opcode: HloOpcode, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The result shape, row-major.

    Attribute values are those of the opcode table; computations are live ones.

    Raises:
        ShapeError: the operands or attributes do not match the opcode, or its shape cannot be
            inferred and must be given.
    """
    found = RULES.get(opcode)
    if opcode is HloOpcode.CONSTANT and "literal" in attributes:
        literal: Literal = attributes["literal"]
        return literal.shape
    if found is None:
        raise ShapeError(f"{opcode}: the shape cannot be inferred from the operands and must be given")
    site = Site(opcode, shapes, attributes)
    shape = found(site)
    for part in shape.shapes if isinstance(shape, TupleShape) and opcode is not HloOpcode.TUPLE else (shape,):
        if isinstance(part, ArrayShape) and prod(d if d > 0 else 1 for d in part.dimensions) >= EXTENT_LIMIT:
            site.fail(f"the dimensions {part} are too large: the size in bytes must fit into 64 bits")
    return shape


def check(opcode: HloOpcode, shapes: Sequence[Shape], attributes: Mapping[str, Any], shape: Shape) -> None:
    """Check a given shape of an opcode whose shape is not inferred; some opcodes accept any.

    Raises:
        ShapeError: the shape is not possible.
    """
    found = CHECKS.get(opcode)
    if found is not None:
        found(Site(opcode, shapes, attributes), shape)
