"""What a program's infeeds take, so that what fits none of them is told to whoever gives it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import FeedError
from xlanb.evaluator.values import describe, mismatch
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import Shape
from xlanb.shape.shape import subshape


def check_infeed(module: HloModule, values: tuple[Any, ...]) -> None:
    """See Executable.infeed."""
    taken = [s for i in module.instructions() if i.opcode is Op.INFEED for _, s in subshape(i.shape, (0,)).leaves()]
    if not taken:
        raise FeedError(f"{module.name} has no infeed")
    _check(module.name, [s for s in dict.fromkeys(taken) if not s.is_token], values)


def _check(name: str, taken: list[Shape], value: Any) -> None:
    if isinstance(value, (tuple, list)):
        for v in value:
            _check(name, taken, v)
        return
    array = np.asarray(value)
    if all(mismatch(array, s) for s in taken):
        shapes = ", ".join(s.text(layout=False) for s in taken)
        raise FeedError(f"no infeed of {name} takes {describe(array)}; they take {shapes}")
