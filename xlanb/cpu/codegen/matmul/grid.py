"""Loops over the blocks of something, as one loop that threads share: the counter is taken apart into a position along each axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.parallel import parallel


@dataclass(frozen=True, slots=True)
class Span:
    """An axis cut into blocks of `step` elements, the last of which lies over the one before where they do not fit; `strides` of the arrays that are walked."""

    size: int
    step: int
    strides: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.size // self.step)

    def start(self, f: Function, block: Ix, limit: int) -> Ix:
        """Where a block, one of `limit`, begins; a number beyond the last block is taken for it."""
        if isinstance(block, int):
            return min(block * self.step, self.size - self.step)
        at = f.mul(block, self.step)
        if limit * self.step <= self.size:
            return at
        return f.call("i64", "llvm.smin.i64", ("i64", str(at)), ("i64", str(self.size - self.step)))


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of the counter: `count` values, each worth `weight` blocks of a span."""

    span: int
    count: int
    weight: int = 1


def digits_of(spans: Sequence[Span]) -> tuple[Digit, ...]:
    """A digit for each span, the last one the fastest."""
    return tuple(Digit(k, s.blocks) for k, s in enumerate(spans))


@dataclass
class Position:
    """Where a round of the loop is: the element along each span, and the offset in each array."""

    starts: tuple[Ix, ...]
    offsets: tuple[Ix, ...]


@contextmanager
def grid(
    e: Elemental, spans: Sequence[Span], digits: Sequence[Digit], arrays: int, *, nanoseconds: float
) -> Iterator[Position]:
    """A loop over all values of the digits (the last the fastest), shared by threads where it pays: gives the position in each round."""
    f = e.f
    with parallel(e, prod(d.count for d in digits), nanoseconds=nanoseconds) as counter:
        blocks: list[Ix] = [0] * len(spans)
        rest: Ix = counter
        for n, d in enumerate(reversed(digits)):
            if d.count == 1:
                continue
            outermost = all(other.count == 1 for other in digits[: len(digits) - 1 - n])
            value = rest if outermost else f.rem(rest, d.count)
            rest = rest if outermost else f.div(rest, d.count)
            blocks[d.span] = f.add(blocks[d.span], f.mul(value, d.weight))
        limits = [prod(d.count for d in digits if d.span == n) for n in range(len(spans))]
        starts = tuple(s.start(f, b, n) for s, b, n in zip(spans, blocks, limits, strict=True))
        offsets: list[Ix] = [0] * arrays
        for s, at in zip(spans, starts, strict=True):
            for k in range(arrays):
                offsets[k] = f.add(offsets[k], f.mul(at, s.strides[k]))
        yield Position(starts, tuple(offsets))
