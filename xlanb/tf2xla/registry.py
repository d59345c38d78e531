"""The registry of lowerings: TensorFlow op type -> how it becomes HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xlanb.tf2xla.context import OpContext, Value

Lowering = Callable[["OpContext"], "Value | Sequence[Value]"]
Positions = tuple[int, ...] | slice | Callable[[int], Sequence[int]]


class Rank(NamedTuple):
    """The rank required of an input: exactly `low`, or at least `low` if `open`."""

    low: int
    is_open: bool

    def fits(self, rank: int) -> bool:
        """Whether an input of this rank will do."""
        return rank == self.low or (self.is_open and rank > self.low)

    def __str__(self) -> str:
        return f"rank {self.low}{' or more' if self.is_open else ''}"


@dataclass(frozen=True, slots=True)
class OpLowering:
    """The lowering of one op type.

    `lower` takes an OpContext and returns the HLO of its output, a sequence for several outputs, or
    None for none. `constants` are positions of inputs that must be compile-time constants
    (negative: from the end; a slice if their number varies; a function of the number of inputs if
    that does not suffice). `is_compilable` is False for ops that TensorFlow's tf2xla leaves to the
    host (reference variables); they are lowered only to run op by op. `ranks` are the ranks that
    the op requires of its first inputs, as in its TensorFlow shape function.
    """

    op_type: str
    lower: Lowering
    constants: Positions = ()
    is_compilable: bool = True
    ranks: tuple[Rank, ...] = ()

    def constant_inputs(self, count: int) -> list[int]:
        """Positions, from 0, of the inputs that must be known, of a node with so many inputs."""
        if callable(self.constants):
            return sorted(self.constants(count))
        if isinstance(self.constants, slice):
            return list(range(count))[self.constants]
        return sorted({c % count for c in self.constants if -count <= c < count})


_KERNELS: dict[str, OpLowering] = {}


def register(
    *op_types: str, constants: Positions = (), is_compilable: bool = True, ranks: str = ""
) -> Callable[[Lowering], Lowering]:
    """Decorator: register a lowering for these op types.

    `ranks` are the ranks of the first inputs, as words: "2" exactly two, "2+" two or more, "0+"
    any.
    """
    wanted = tuple(Rank(int(word.rstrip("+")), word.endswith("+")) for word in ranks.split())

    def decorate(lower: Lowering) -> Lowering:
        for op_type in op_types:
            if op_type in _KERNELS:
                raise AssertionError(f"{op_type} has two lowerings")
            _KERNELS[op_type] = OpLowering(op_type, lower, constants, is_compilable, wanted)
        return lower

    return decorate


def kernel(op_type: str) -> OpLowering | None:
    """Return the lowering of an op type, or None."""
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
