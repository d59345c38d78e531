"""Concatenations of concatenations along the same dimension.

concatenate(concatenate(a, b), c)    =>    concatenate(a, b, c)
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode

_MOST_COPIED = 64
"""The most operands of a concatenation with several users that is flattened into each of them."""


def flattened(root: HloInstruction) -> list[HloInstruction] | None:
    """The operands of a concatenation, with nested concatenations replaced by their operands.

    None if no operand is nested, or if the only user of `root` will take its operands: a chain is
    flattened once, at its end. Large concatenations with several uses stay, since copies of copies
    would grow exponentially.
    """
    if not any(_is_taken(o, root) for o in root.operands) or _has_taker(root):
        return None
    flat: list[HloInstruction] = []
    stack = [(o, root) for o in reversed(root.operands)]
    while stack:
        i, user = stack.pop()
        if _is_taken(i, user):
            stack.extend((o, i) for o in reversed(i.operands))
        else:
            flat.append(i)
    return flat


def _is_taken(i: HloInstruction, user: HloInstruction) -> bool:
    """Whether a concatenation that uses `i` takes i's operands instead."""
    if i.opcode is not HloOpcode.CONCATENATE or user.opcode is not i.opcode or i.dimensions != user.dimensions:
        return False
    return len(i.operands) <= _MOST_COPIED or _has_one_use(i, user)


def _has_one_use(i: HloInstruction, user: HloInstruction) -> bool:
    return i.user_count == 1 and not i.is_root and i.uses_by(user) == 1


def _has_taker(root: HloInstruction) -> bool:
    """Whether the only use of `root` is in a concatenation that takes its operands."""
    users = root.users
    return len(users) == 1 and _has_one_use(root, users[0]) and _is_taken(root, users[0])
