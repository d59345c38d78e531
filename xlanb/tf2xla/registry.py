"""The registry of lowerings: TensorFlow op type -> how it becomes HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlanb.tf2xla.context import OpContext, Value

Lowering = Callable[["OpContext"], "Value | Sequence[Value]"]
Positions = tuple[int, ...] | slice | Callable[[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """How one op type is lowered.

    `lower` takes an OpContext and returns the HLO of its output, a sequence for several outputs, or None for none. `constants` are positions of inputs whose values must be
    known when compiling (negative: from the end; a slice where their number varies, a function of the number of inputs where that is not enough); `is_compilable` is False for what TensorFlow's tf2xla leaves to the host (ref variables), which is
    then lowered only when it runs op by op.
    """

    op_type: str
    lower: Lowering
    constants: Positions = ()
    is_compilable: bool = True

    def constant_inputs(self, count: int) -> list[int]:
        """Positions, from 0, of the inputs that must be known, of a node with so many inputs."""
        if callable(self.constants):
            return sorted(self.constants(count))
        if isinstance(self.constants, slice):
            return list(range(count))[self.constants]
        return sorted({c % count for c in self.constants if -count <= c < count})


_KERNELS: dict[str, Kernel] = {}


def register(*op_types: str, constants: Positions = (), is_compilable: bool = True) -> Callable[[Lowering], Lowering]:
    """Decorator: the function lowers these op types."""

    def decorate(lower: Lowering) -> Lowering:
        for op_type in op_types:
            if op_type in _KERNELS:
                raise AssertionError(f"{op_type} has two lowerings")
            _KERNELS[op_type] = Kernel(op_type, lower, constants, is_compilable)
        return lower

    return decorate


def kernel(op_type: str) -> Kernel | None:
    """The lowering of an op type, None if there is none."""
    _load()
    return _KERNELS.get(op_type)


def registered() -> list[str]:
    """All op types that have a lowering, sorted."""
    _load()
    return sorted(_KERNELS)


@cache
def _load() -> None:
    package = import_module("xlanb.tf2xla.kernels")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
