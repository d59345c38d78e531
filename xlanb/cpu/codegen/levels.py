"""Choose the kernels that may be compiled at the lowest level: those bound by memory anyway.

At that level each value is in a register within a block and on the stack between blocks, and
constants are loaded at each use; it takes a third of the time. So a kernel is light if it has no
loop, or if each innermost loop is one block that moves much data, computes little, and carries only
its counter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import field

from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern

_LINES = 400
"""Kernels of more lines are not considered."""
_STRAIGHT = 160
"""The most lines outside of loops that run once per call: spilling a register for each is
negligible.
"""
_BYTES = 256
"""Bytes that an iteration must move to make up for its counter on the stack."""
_OUTSIDE = 8
"""The most outside values that an iteration may use: each is loaded from the stack."""
_LINE = 256
"""Bytes that inner loops must move per line of the loop around them."""
_LABEL = pattern(r"([\w.]+):$")
_DEFINED = pattern(r"  (%[\w.]+) = (.*)")
_VALUE = pattern(r"%[\w.]+")
_TARGET = pattern(r"label %([\w.]+)")
_VECTOR = pattern(r"<(\d+) x (\w+)>")
_ROUNDS = pattern(r"icmp slt i64 %[\w.]+, (\d+)$")
_CALLED = pattern(r"@([\w.]+)\(")
_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}
_CHEAP = (
    "llvm.maximum.", "llvm.minimum.", "llvm.maxnum.", "llvm.minnum.", "llvm.fma.", "llvm.fabs.", "llvm.smax.",
    "llvm.smin.", "llvm.umax.", "llvm.umin.", "llvm.abs.", "llvm.copysign.", "llvm.sqrt.",
    "llvm.x86.avx512.mask.range.",
)  # fmt: skip


@dataclass
class _LevelBlock:
    name: str
    lines: list[str] = field(default_factory=list)

    @property
    def targets(self) -> list[str]:
        return _TARGET.findall(self.lines[-1]) if self.lines else []


def is_light(functions: Collection[Sequence[str]]) -> bool:
    """Whether the functions of a kernel, each a list of its lines, are light."""
    return sum(len(lines) + 1 for lines in functions) <= _LINES and all(
        _is_light(_blocks(lines)) for lines in functions
    )


def _blocks(function: Sequence[str]) -> list[_LevelBlock]:
    blocks: list[_LevelBlock] = []
    for line in function[:-1]:
        label = _LABEL.match(line)
        if label:
            blocks.append(_LevelBlock(label[1]))
        elif blocks:
            blocks[-1].lines.append(line)
    return blocks


def _is_light(blocks: Sequence[_LevelBlock]) -> bool:
    """The same for one function; loops are checked from the innermost outwards."""
    at = {b.name: k for k, b in enumerate(blocks)}
    vectors: set[str] = set()
    loops = sorted(
        ((at[t], k) for k, b in enumerate(blocks) for t in b.targets if at.get(t, k + 1) <= k),
        key=lambda loop: loop[1] - loop[0],
    )
    if not loops:
        return sum(len(b.lines) for b in blocks) <= _STRAIGHT
    moved: dict[int, int] = {}  # by the first block of a loop
    for first, last in loops:
        inside = [k for k in moved if first <= k <= last]
        rounds = _ROUNDS.search(blocks[last].lines[-2]) if len(blocks[last].lines) > 1 else None
        if first == last:
            each = _moved_bytes(blocks[first])
            vectors = vectors or (_vectors(blocks) if each else set())
            outside = _outside(blocks[first])
            if len(outside) > _OUTSIDE or any(v in vectors for v in outside):
                return False
        else:
            own = sum(len(blocks[k].lines) for k in range(first, last + 1) if k not in inside)
            each = sum(moved[k] for k in inside)
            each = each if own * _LINE <= each else 0
        if each < _BYTES:
            return False
        for k in inside:
            del moved[k]
        moved[first] = each * (int(rounds[1]) if rounds else 16)
    return True


def _vectors(blocks: Sequence[_LevelBlock]) -> set[str]:
    """The values that are neither addresses nor counters."""
    out: set[str] = set()
    for b in blocks:
        for line in b.lines:
            found = _DEFINED.match(line)
            if found is None:
                continue
            vector = _VECTOR.search(found[2])
            scalar = " float" in found[2] or " double" in found[2]
            if vector or (scalar and not found[2].startswith(("getelementptr", "icmp", "fcmp"))):
                out.add(found[1])
    return out


def _outside(block: _LevelBlock) -> set[str]:
    """The values and labels that a block uses but does not define."""
    made = {found[1] for line in block.lines if (found := _DEFINED.match(line))}
    return {v for line in block.lines for v in _VALUE.findall(line)} - made


def _moved_bytes(block: _LevelBlock) -> int:
    """Bytes moved per iteration of a one-block loop; 0 if it computes or carries too much."""
    moved, moves, work, phis, steps = 0, 0, 0, 0, 0
    for line in block.lines:
        found = _DEFINED.match(line)
        text = found[2] if found else line.strip()
        operation = text.split(" ", 1)[0]
        if operation == "phi":
            phis += 1
            if not text.startswith("phi i64"):
                return 0
        elif operation in ("load", "store"):
            moved += _bytes(text.split(" ", 1)[1])
            moves += 1
        elif operation == "call":
            called = _CALLED.search(text)
            if called is None or not called[1].startswith(_CHEAP):
                return 0
            work += 2
        elif "<" in text:
            work += 1 + ("splat" in text)
        else:
            steps += 1
    return moved if phis == 1 and work <= 2 * moves + 2 and steps <= 8 + 2 * moves else 0


def _bytes(type_: str) -> int:
    """Bytes of the type at the start of a text; 0 if unknown."""
    vector = _VECTOR.match(type_)
    count, element = (int(vector[1]), vector[2]) if vector else (1, re.split(r"[ ,]", type_, maxsplit=1)[0])
    bits = _BITS.get(element) or (int(element[1:]) if element[:1] == "i" and element[1:].isdigit() else 0)
    return count * bits // 8
