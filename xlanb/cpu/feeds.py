"""The shapes that infeeds accept, to reject other values when they are provided."""

from __future__ import annotations

from typing import Any

from xlanb.boundary import array_of
from xlanb.errors import FeedError
from xlanb.evaluator.values import describe, mismatch
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import Shape
from xlanb.shape.shape import subshape


def infeed_arrays(module: HloModule, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """See Executable.infeed; the values as arrays, in the same (nested) tuples."""
    taken = [s for i in module.instructions() if i.opcode is Op.INFEED for _, s in subshape(i.shape, (0,)).leaves()]
    if not taken:
        raise FeedError(f"{module.name} has no infeed")
    return tuple(_checked(module.name, [s for s in dict.fromkeys(taken) if not s.is_token], v) for v in values)


def _checked(name: str, taken: list[Shape], value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_checked(name, taken, v) for v in value)
    array = array_of(value, lambda error: FeedError(f"no infeed of {name} takes {type(value).__name__}: {error}"))
    if all(mismatch(array, s) for s in taken):
        shapes = ", ".join(s.text(layout=False) for s in taken)
        raise FeedError(f"no infeed of {name} accepts {describe(array)}; they accept {shapes}")
    return array
