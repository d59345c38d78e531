"""Check shardings against shapes (HloSharding::Validate in xla/hlo/ir/hlo_sharding.cc).

Tiles and single devices are checked; named meshes are not.
"""

from __future__ import annotations

from math import prod

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.parse_sharding import sharding_elements
from xlanb.hlo.verifier.fault import fail
from xlanb.patterns import pattern
from xlanb.shape import ArrayShape, Shape, TupleShape

_TILES = pattern(r"\{devices=\[([\d,]+)\]([\d,]*)")
_LAST_DIMS = pattern(r"last_tile_dims=\{([^}]*)\}")
_MAXIMAL = pattern(r"\{maximal device=(-?\d+)")


def verify_sharding(i: HloInstruction) -> None:
    """Check that tiles match the rank, devices are unique, and a tuple has one per leaf."""
    text = i.sharding
    if i.opcode is HloOpcode.OUTFEED:
        return  # it is the data's, not the token's
    if text.startswith("{{"):
        parts = sharding_elements(text)
        leaves = _leaves(i.shape)
        if not isinstance(i.shape, TupleShape) or len(parts) != len(leaves):
            fail(i, f"expected a sharding for each of {len(leaves)} leaves, not {len(parts)}: {text}")
        for part, leaf in zip(parts, leaves, strict=True):
            _verify_one(i, part, leaf)
    elif not isinstance(i.shape, TupleShape):
        _verify_one(i, text, i.shape)


def _verify_one(i: HloInstruction, text: str, shape: Shape) -> None:
    maximal = _MAXIMAL.match(text)
    if maximal and int(maximal[1]) < 0:
        fail(i, f"expected a device in the sharding {text}, not {maximal[1]}")
    tiles = _TILES.match(text)
    if not tiles or not isinstance(shape, ArrayShape) or not shape.is_array:
        return
    sizes = [int(n) for n in tiles[1].split(",")]
    last = _LAST_DIMS.search(text)
    extra = len(last[1].split(",")) if last else int("last_tile_dim_replicate" in text)
    if len(sizes) - extra != shape.rank:
        fail(i, f"expected the sharding {text} to tile {shape.rank} dimensions, not {len(sizes) - extra}")
    devices = [n for n in tiles[2].split(",") if n]
    if devices and (len(set(devices)) != len(devices) or len(devices) != prod(sizes)):
        fail(i, f"expected the sharding {text} to name {prod(sizes)} devices, none twice")


def _leaves(shape: Shape) -> list[Shape]:
    """Subshapes that are not tuples; an empty tuple counts as one."""
    if not isinstance(shape, TupleShape):
        return [shape]
    return [leaf for s in shape.shapes for leaf in _leaves(s)] or [shape]


def verify_origin(i: HloInstruction) -> None:
    """Check that a result's origin has the result's tuple structure.

    Source: VerifyOriginalValue in hlo_verifier.cc.
    """
    if i.origin == "{[synthetic_call]}":
        return
    given, wanted = _tree(_QUOTED.sub("", i.origin[1:-1])), _form(i.shape)
    if given != wanted:
        fail(i, f"expected an origin for each leaf of {i.shape.text(layout=False)}, not {i.origin}")


def _form(shape: Shape) -> str:
    """The nesting of a shape: `((*,*),*)`."""
    if isinstance(shape, TupleShape):
        return "(" + ",".join(map(_form, shape.shapes)) + ")"
    return "*"


def _tree(origin: str) -> str:
    return _ARRAY.sub("*", origin).replace(" ", "")


_QUOTED = pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_ARRAY = pattern(r"\{\s*(?:\{[\d,]*\})?\s*\}")
