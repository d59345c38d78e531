"""Identify equivalent fusions, so that each is tiled once.

Follows xla/service/gpu/fusion_deduplication_cache.cc.

    alike = Alike()
    alike.pair(producer, consumer)            the key that equivalent pairs share
    alike.fused(fusion, key)                  give the pair's key to the fusion made from it

An instruction is identified by its opcode, its shape, the shapes of its operands and its
attributes. Equal operands do not count: x * x and x * y are equivalent for a producer x, and share
the result.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.simplifiers.hlo_cse import computation_keys


class PairKey(NamedTuple):
    """A producer, a consumer, and the index of the first operand that is the producer."""

    producer: int
    consumer: int
    operand: int


class Alike:
    """Numbers that equivalent instructions share."""

    def __init__(self) -> None:
        self._known: dict[HloInstruction, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._computation_key = computation_keys()

    def pair(self, producer: HloInstruction, consumer: HloInstruction) -> PairKey:
        """Return the key of a producer and a consumer that uses it."""
        return PairKey(self._of(producer), self._of(consumer), consumer.operands.index(producer))

    def fused(self, fusion: HloInstruction, key: PairKey) -> None:
        """Record the pair that a fusion was made from."""
        self._known[fusion] = self._number(key)

    def _of(self, i: HloInstruction) -> int:
        found = self._known.get(i)
        if found is None:
            found = self._known[i] = self._number(self._content(i))
        return found

    def _number(self, content: Hashable) -> int:
        return self._numbers.setdefault(content, len(self._numbers))

    def _content(self, i: HloInstruction) -> Hashable:
        if i.opcode is O.CONSTANT:
            return (i.uid,)
        attributes = tuple((k, self._value(v)) for k, v in sorted(i.attributes.items()))
        return (i.opcode, i.shape, tuple(o.shape for o in i.operands), attributes, i.backend_config)

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, HloComputation):
            return self._computation_key(value)
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        found: Hashable = value
        return found
