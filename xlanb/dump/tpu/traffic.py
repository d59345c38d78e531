"""Count the HBM bytes that an instruction reads and writes.

Slices count what they read, in-place updates what they write.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape, Shape
from xlanb.shape.tiling import layout_of

_TAKE: Final = frozenset((HloOpcode.SLICE, HloOpcode.DYNAMIC_SLICE, HloOpcode.GATHER))
_SAME: Final = frozenset((HloOpcode.BITCAST, HloOpcode.RESHAPE))
_DEEPEST: Final = 20


class HbmTraffic:
    """Counts for a module's instructions."""

    def __init__(self, module: ModuleRecord) -> None:
        self.module = module
        self.shapes = {i.name: i.shape for c in module.computations for i in c.instructions}
        self._needed: dict[tuple[str, str], int] = {}
        self._uses = lru_cache(maxsize=None)(self._uses_in)

    def bytes_of(self, instruction: InstructionRecord) -> int:
        """Return the bytes of operands and results in HBM; each operand counts once."""
        total = self._written(instruction)
        for name in dict.fromkeys(instruction.operands):
            shape = self.shapes.get(name)
            if shape is None:
                continue
            size = _in_hbm(shape)
            total += min(size, self._read(instruction, name, 0)) if size else 0
        return total

    def _read(self, user: InstructionRecord, name: str, depth: int) -> int:
        """Return the bytes of operand `name` that an instruction needs, by default all."""
        whole = self.shapes[name].byte_size
        if user.opcode in _TAKE and user.operands[0] == name and name not in user.operands[1:]:
            return user.shape.byte_size
        if user.opcode is HloOpcode.DYNAMIC_UPDATE_SLICE and user.operands[0] == name:
            return 0  # updated in place
        if user.opcode is not HloOpcode.FUSION or depth > _DEEPEST:
            return whole
        inner = [self._read_inside(user, k, depth) for k, operand in enumerate(user.operands) if operand == name]
        return min(whole, sum(inner))

    def _read_inside(self, fusion: InstructionRecord, number: int, depth: int) -> int:
        """Return the bytes that a fusion reads of operand `number`."""
        computation = self._fused(fusion)
        parameter = (
            next((i for i in computation.instructions if _is_parameter(i, number)), None) if computation else None
        )
        if computation is None or parameter is None:
            return self.shapes[fusion.operands[number]].byte_size
        return self._read_by_users(computation.name, parameter.name, depth + 1)

    def _read_by_users(self, computation: str, name: str, depth: int) -> int:
        """Return the bytes that an instruction's users need of it, at most all.

        Cached per instruction.
        """
        known = self._needed.get((computation, name))
        if known is None:
            known = 0
            for user in self._uses(computation).get(name, ()):
                through = user.opcode in _SAME and depth <= _DEEPEST
                known += (
                    self._read_by_users(computation, user.name, depth + 1) if through else self._read(user, name, depth)
                )
            known = self._needed[computation, name] = min(known, self.shapes[name].byte_size)
        return known

    def _written(self, instruction: InstructionRecord) -> int:
        """Return the bytes of the result in HBM, for an in-place update those of the update."""
        whole = _in_hbm(instruction.shape)
        root = instruction
        while root.opcode is HloOpcode.FUSION and (computation := self._fused(root)) is not None:
            root = computation.by_name[computation.root]
        if root.opcode is HloOpcode.DYNAMIC_UPDATE_SLICE:
            return min(whole, self.shapes[root.operands[1]].byte_size)
        return whole

    def _fused(self, fusion: InstructionRecord) -> ComputationRecord | None:
        called = fusion.called_computations
        return self.module.by_name.get(called[0]) if called else None

    def _uses_in(self, computation: str) -> dict[str, tuple[InstructionRecord, ...]]:
        """Return the users of each instruction of a computation."""
        found: dict[str, list[InstructionRecord]] = {}
        for i in self.module.by_name[computation].instructions:
            for name in dict.fromkeys(i.operands):
                found.setdefault(name, []).append(i)
        return {name: tuple(users) for name, users in found.items()}


def _is_parameter(i: InstructionRecord, number: int) -> bool:
    return i.opcode is HloOpcode.PARAMETER and i.attributes.get("parameter_number") == number


def _in_hbm(shape: Shape) -> int:
    leaves = [leaf for _, leaf in shape.leaves()]
    return sum(leaf.byte_size for leaf in leaves if isinstance(leaf, ArrayShape) and layout_of(leaf).memory_space == 0)
