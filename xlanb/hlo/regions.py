"""Small computations over scalars that reductions, scatters and sorts call."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array

Cache = dict[tuple[object, ...], HloComputation]


def binary_region(module: HloModule, cache: Cache, opcode: HloOpcode, kind: PrimitiveType) -> HloComputation:
    """`opcode` of two scalars, created once per key of `cache`."""
    key = (opcode, kind)
    made = cache.get(key)
    if made is None:
        made = cache[key] = module.add_computation(f"{opcode.text}_{kind}")
        x, y = (
            made.add(HloOpcode.PARAMETER, (), array(kind), name=n, parameter_number=i) for i, n in enumerate(("x", "y"))
        )
        made.set_root(made.add(opcode, (x, y)))
    return made


def comparator(module: HloModule, cache: Cache, direction: str, kinds: Sequence[PrimitiveType]) -> HloComputation:
    """Compare by the first of several arrays; two parameters per array, the pairs in order.

    Floats compare in total order, as sorting needs (NaN last, -0 before +0).
    """
    key = (direction, *kinds)
    made = cache.get(key)
    if made is None:
        made = cache[key] = module.add_computation(f"compare_{direction.lower()}_{kinds[0]}")
        for i, kind in enumerate(kinds):
            for side in range(2):
                made.add(
                    HloOpcode.PARAMETER, (), array(kind), name=f"p.{i}.{'xy'[side]}", parameter_number=2 * i + side
                )
        total = "TOTALORDER" if kinds[0].is_floating else None
        made.set_root(made.add(HloOpcode.COMPARE, made.parameters[:2], direction=direction, type=total))
    return made


def second_of_two(module: HloModule, cache: Cache, kind: PrimitiveType) -> HloComputation:
    """Return the second of two scalars, to overwrite; created once per key of `cache`."""
    key = ("second", kind)
    made = cache.get(key)
    if made is None:
        made = cache[key] = module.add_computation(f"overwrite_{kind}")
        for i, name in enumerate(("old", "new")):
            made.add(HloOpcode.PARAMETER, (), array(kind), name=name, parameter_number=i)
        made.set_root(made.parameters[1])
    return made


def reducer(c: HloComputation) -> HloOpcode | None:
    """The opcode of a computation that only combines its two parameters, else None."""
    root = c.root
    if (
        len(root.operands) == 2
        and {o.opcode for o in root.operands} == {HloOpcode.PARAMETER}
        and root.operands[0] is not root.operands[1]
        and root.opcode.is_commutative
    ):
        return root.opcode
    return None
