"""Rewrite split slices and concatenations before partitioning so that less data moves.

Follows SpmdPartitioner::PreprocessHlos.

slice(pad(x))                                     =>  pad(x) of the kept part: one halo exchange
concatenate(slice(x, [n-k:n]), slice(x, [0:n-k])) =>  rotate x right by k: collective-permutes
concatenate(f(slice(x)), x, g(slice(x)))          =>  rotations of the padded x, by position
    (a periodic pad)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Literal, PrimitiveType
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.rotate import ROTATE_RIGHT, find_rotate_right_pattern, rotate_right_opaque, skip_copies

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.hlo.module import HloModule

_O = HloOpcode
_REPLICATED = str(HloSharding.replicate())


def preprocess_hlos(module: HloModule) -> None:
    """Rewrite every split slice and concatenation of a module."""
    for computation in module.computations:
        for hlo in computation.post_order():
            if not hlo.sharding or hlo.opcode not in _REWRITES:
                continue
            sharding = HloSharding.parse(hlo.sharding)
            if not sharding.is_tiled:
                continue
            new = _REWRITES[hlo.opcode](hlo, sharding)
            if new is not None:
                computation.replace_uses(hlo, new)
                computation.remove_dead(hlo)


# -- slice of a pad --------------------------------------------------------------------------------


def _pad_of_slice(hlo: HloInstruction, sharding: HloSharding) -> HloInstruction | None:
    pad = skip_copies(hlo.operands[0])
    if pad is None or pad.opcode is not _O.PAD or HloSharding.parse(pad.sharding or _REPLICATED) != sharding:
        return None
    box: Sequence[SliceDimension] = hlo.attributes["slice"]
    padding: Sequence[PaddingDimension] = pad.attributes["padding"]
    if any(p.interior for p in padding) or any(d.stride != 1 for d in box):
        return None
    sizes, padded = hlo.array_shape.dimensions, pad.array_shape.dimensions
    moves_twice = any(
        sharding.dimension(n) != 1 and (p.low or p.high) and sizes[n] != padded[n] for n, p in enumerate(padding)
    )
    if not moves_twice:
        return None
    kept = tuple(
        PaddingDimension(p.low - d.start, d.limit - (size - p.high))
        for p, d, size in zip(padding, box, padded, strict=True)
    )
    new = hlo.parent.add(_O.PAD, pad.operands, hlo.shape, metadata=pad.metadata, padding=kept)
    hlo.parent.update(new, sharding=hlo.sharding)
    return new


# -- rotations -------------------------------------------------------------------------------------


def _rotation_of_concatenate(hlo: HloInstruction, sharding: HloSharding) -> HloInstruction | None:
    dim = hlo.dimensions[0]
    if sharding.dimension(dim) == 1:
        return None
    amount = find_rotate_right_pattern(hlo)
    if amount is not None:
        back = skip_copies(hlo.operands[0])
        return _rotated(hlo, back.operands[0], dim, amount) if back is not None else None
    wrap = find_pad_with_wrap_pattern(hlo)
    return None if wrap is None else _padded_with_wrap(hlo, dim, wrap)


def _rotated(hlo: HloInstruction, source: HloInstruction, dim: int, amount: int) -> HloInstruction:
    return _placed(
        hlo,
        _O.CUSTOM_CALL,
        (source,),
        source,
        custom_call_target=ROTATE_RIGHT,
        opaque=rotate_right_opaque(dim, amount),
    )


def _placed(
    hlo: HloInstruction,
    opcode: HloOpcode,
    operands: Sequence[HloInstruction],
    like: HloInstruction,
    **attributes: Any,
) -> HloInstruction:
    """Add an instruction with the shape of `like`, and the metadata and sharding of `hlo`."""
    new = hlo.parent.add(opcode, operands, like.shape, metadata=hlo.metadata, **attributes)
    hlo.parent.update(new, sharding=hlo.sharding)
    return new


@dataclass(frozen=True)
class PadWithWrapPattern:
    """An array with slices of itself before and after it.

    `middle` is the array, `before` and `behind` are the slices; the modifiers are the elementwise
    ops applied to each slice, outermost first.
    """

    middle: HloInstruction
    before: HloInstruction
    behind: HloInstruction
    before_modifiers: tuple[HloInstruction, ...]
    behind_modifiers: tuple[HloInstruction, ...]


def find_pad_with_wrap_pattern(concatenate: HloInstruction) -> PadWithWrapPattern | None:
    """Match periodic padding along the concatenated dimension (FindPadWithWrapPattern).

    Returns None if it does not match.
    """
    if len(concatenate.operands) != 3:
        return None
    left, middle, right = concatenate.operands
    before, whole, behind = skip_copies(left), skip_copies(middle, check_single_use=False), skip_copies(right)
    if before is None or whole is None or behind is None:
        return None
    before_modifiers, before = _unary_chain(before)
    behind_modifiers, behind = _unary_chain(behind)
    dim = concatenate.dimensions[0]
    for part in (before, behind):
        if part.opcode is not _O.SLICE or part.operands[0] is not whole or part.attributes["slice"][dim].stride != 1:
            return None
    return PadWithWrapPattern(whole, before, behind, before_modifiers, behind_modifiers)


def _unary_chain(hlo: HloInstruction) -> tuple[tuple[HloInstruction, ...], HloInstruction]:
    """Return the chain of single-use unary elementwise ops, outermost first, and its input."""
    modifiers = []
    while hlo.opcode.is_elementwise and len(hlo.operands) == 1 and hlo.user_count == 1:
        if hlo.opcode is not _O.COPY:
            modifiers.append(hlo)
        hlo = hlo.operands[0]
    return tuple(modifiers), hlo


def _padded_with_wrap(hlo: HloInstruction, dim: int, wrap: PadWithWrapPattern) -> HloInstruction:
    c, shape = hlo.parent, hlo.array_shape
    low = skipped(hlo.operands[0]).array_shape.dimensions[dim]
    high = skipped(hlo.operands[2]).array_shape.dimensions[dim]
    size = shape.dimensions[dim]
    padding = [PaddingDimension() for _ in shape.dimensions]
    padding[dim] = PaddingDimension(low, high)
    zero = _replicated_constant(hlo, np.zeros((), shape.element_type.dtype))
    pad = _placed(hlo, _O.PAD, (wrap.middle, zero), hlo, padding=tuple(padding))
    before = _rotated(hlo, pad, dim, size - (wrap.before.attributes["slice"][dim].start + low))
    before = _modified(before, wrap.before_modifiers)
    behind = _rotated(hlo, pad, dim, size - (wrap.behind.attributes["slice"][dim].start + low + high))
    behind = _modified(behind, wrap.behind_modifiers)
    place = c.add(_O.IOTA, (), shape.with_type(PrimitiveType.U32), metadata=hlo.metadata, iota_dimension=dim)
    c.update(place, sharding=hlo.sharding)
    merged = pad
    for limit, part, direction in ((low, before, "LT"), (size - high, behind, "GE")):
        edge = _replicated_constant(hlo, np.uint32(limit))
        edges = _placed(hlo, _O.BROADCAST, (edge,), place, dimensions=())
        here = c.add(_O.COMPARE, (place, edges), metadata=hlo.metadata, direction=direction)
        c.update(here, sharding=hlo.sharding)
        merged = _placed(hlo, _O.SELECT, (here, part, merged), hlo)
    return merged


def skipped(hlo: HloInstruction) -> HloInstruction:
    """Return the source of single-use copies."""
    return skip_copies(hlo, check_single_use=False) or hlo


def _replicated_constant(hlo: HloInstruction, value: object) -> HloInstruction:
    constant = hlo.parent.constant(Literal.of(value))
    hlo.parent.update(constant, sharding=_REPLICATED)
    return constant


def _modified(hlo: HloInstruction, modifiers: Sequence[HloInstruction]) -> HloInstruction:
    for modifier in reversed(modifiers):
        shape = hlo.array_shape.with_type(modifier.array_shape.element_type)
        clone = hlo.parent.clone_instruction(modifier, (hlo,), shape)
        hlo.parent.update(clone, sharding=modifier.sharding)
        hlo = clone
    return hlo


_REWRITES = {_O.SLICE: _pad_of_slice, _O.CONCATENATE: _rotation_of_concatenate}
