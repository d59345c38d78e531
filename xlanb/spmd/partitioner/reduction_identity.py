"""The identity element of a reduction, by its computation.

Follows MatchReductionComputation and GetReductionIdentity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation

_O = HloOpcode


def reduction_identity(computation: HloComputation, element_type: PrimitiveType) -> Any | None:
    """Return 0 for a sum, 1 for a product, the type's bounds for minimum and maximum.

    Returns None for other computations.
    """
    opcode = reduction_opcode(computation)
    pred = element_type is PrimitiveType.PRED
    if opcode is _O.ADD:
        return 0
    if opcode is _O.MULTIPLY or (opcode is _O.AND and pred):
        return 1
    if opcode is _O.OR and pred:
        return 0
    if opcode is _O.MINIMUM:
        return _end(element_type, last=True)
    if opcode is _O.MAXIMUM:
        return _end(element_type, last=False)
    return None


def reduction_opcode(computation: HloComputation) -> HloOpcode | None:
    """Return the opcode of a computation that applies one op to its two parameters, or None."""
    root = computation.root
    if len(computation.parameters) != 2 or len(root.operands) != 2:
        return None
    return root.opcode if set(root.operands) == set(computation.parameters) else None


def _end(element_type: PrimitiveType, *, last: bool) -> Any | None:
    dtype = np.dtype(element_type.dtype)
    if dtype == np.bool_:
        return last
    if np.issubdtype(dtype, np.complexfloating):
        return None
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).max if last else np.iinfo(dtype).min
    return np.inf if last else -np.inf
