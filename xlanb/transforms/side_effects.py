"""The side effects of a module, to check that a pass loses none.

Counted are instructions that run whenever the module does: those of the entry and of what it calls.
Branches and loops are excluded, since a pass may prove that they never run. Moving an effect out of
a branch or loop increases the count; only a decrease is an error.
"""

from __future__ import annotations

from collections import Counter

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O

_OUTSIDE = frozenset((O.INFEED, O.OUTFEED, O.SEND, O.RECV))
_RUNS_ONCE = frozenset((O.CALL, O.ASYNC_START))

Effects = Counter[tuple[str, str]]


def certain_effects(module: HloModule) -> Effects:
    """Count the side effects of a run by opcode and custom-call target; linear in the module."""
    found: Effects = Counter()
    todo: list[HloComputation] = [module.entry_computation]
    while todo:
        for i in todo.pop():
            if i.opcode in _OUTSIDE or i.attributes.get("custom_call_has_side_effect"):
                found[_kind(i)] += 1
            if i.opcode in _RUNS_ONCE:
                todo.extend(i.called_computations)
    return found


def _kind(i: HloInstruction) -> tuple[str, str]:
    return i.opcode.text, str(i.attributes.get("custom_call_target", ""))


def lost(before: Effects, after: Effects, allowed: frozenset[str] = frozenset()) -> list[str]:
    """The kinds of effects whose count decreased, as text.

    Custom calls to targets in `allowed` may be removed.
    """
    gone = {k: n for k, n in (before - after).items() if k[1] not in allowed}
    return [f"{n} {opcode}{f' to {target!r}' if target else ''}" for (opcode, target), n in sorted(gone.items())]
