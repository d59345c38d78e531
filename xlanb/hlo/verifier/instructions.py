"""Verify single opcodes beyond their shapes.

Source: InstructionVerifier and the checks of pairs in hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import compatible
from xlanb.hlo.verifier.collectives import GROUPED, verify_groups, verify_pairs, verify_ragged
from xlanb.hlo.verifier.fault import fail

_O = HloOpcode
Check = Callable[[HloInstruction], None]
CHECKS: dict[HloOpcode, Check] = {}


def _check(*opcodes: HloOpcode) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(opcodes, check))
        return check

    return register


@_check(_O.COMPARE)
def _compare(i: HloInstruction) -> None:
    given, kind = i.attributes.get("type"), i.operands[0].shape.element_type
    if i.attributes.get("direction") not in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        fail(i, f"expected a direction, not {i.attributes.get('direction')}")
    if given is None:
        return
    if kind.is_floating:
        allowed: tuple[str, ...] = ("FLOAT", "TOTALORDER")
    else:
        allowed = ("FLOAT",) if kind.is_complex else ("SIGNED",) if kind.is_signed else ("UNSIGNED",)
    if given not in allowed:
        fail(i, f"expected a comparison of type {' or '.join(allowed)} for {kind}, not {given}")


@_check(_O.FUSION)
def _fusion(i: HloInstruction) -> None:
    """Check that a fused computation has one caller, and no unused instructions but the root."""
    fused: HloComputation = i.attributes["calls"]
    root = fused.root
    if root._users:
        fail(i, f"the root {root.name} of the fused computation {fused.name} has users in it")
    for x in fused._instructions:
        # XLA also refuses unused parameters; its own dce removes them.
        if not x._users and x is not root and x.opcode is not _O.PARAMETER and not _acts(x):
            fail(i, f"{x.name} is unused in the fused computation {fused.name}")
    _same_thread(i, fused)


_ACTING = frozenset(o for o in HloOpcode if o.has_side_effect and o is not _O.DOMAIN) | {
    _O.RNG,
    _O.COLLECTIVE_BROADCAST,
    _O.COLLECTIVE_PERMUTE_START,
    _O.COLLECTIVE_PERMUTE_DONE,
}
"""Opcodes that may be in a fusion although unused (HloInstruction::HasSideEffectNoRecurse)."""


def _acts(i: HloInstruction) -> bool:
    if i.opcode in _ACTING:
        return True
    return bool(i.attributes.get("custom_call_has_side_effect") or i.attributes.get("constrain_layout"))


@_check(_O.CALL)
def _call(i: HloInstruction) -> None:
    """Check that a composite call has the frontend attributes that describe it."""
    if not i.attributes.get("is_composite"):
        return
    facts = dict(i.frontend_attributes)
    if not facts.get("composite.name"):
        fail(i, "expected a composite call to have the frontend attribute composite.name")
    version = facts.get("composite.version", "0").strip('"')
    if not version.isdecimal():
        fail(i, f"expected composite.version to be a number that is not negative, not {version}")


@_check(_O.WHILE)
def _while(i: HloInstruction) -> None:
    """Check that a loop's result and its computations' parameters and root are sharded alike."""
    body, condition = i.attributes["body"], i.attributes["condition"]
    _same_thread(i, body)
    _same_thread(i, condition)
    _same_sharding(i, (i, body.root, body.parameters[0], condition.parameters[0]))


@_check(_O.CONDITIONAL)
def _conditional(i: HloInstruction) -> None:
    """Check that the result is sharded like the roots of all branches."""
    for called in i.called_computations:
        _same_thread(i, called)
    _same_sharding(i, (i, *(c.root for c in i.called_computations)))


def _same_sharding(i: HloInstruction, instructions: Iterable[HloInstruction]) -> None:
    first: HloInstruction | None = None
    for x in instructions:
        if x.sharding:
            first = first or x
            if x.sharding != first.sharding:
                fail(i, f"expected {x.name} to be sharded as {first.name}, {first.sharding}, not {x.sharding}")


def _same_thread(i: HloInstruction, called: HloComputation) -> None:
    here, there = i.parent.execution_thread or "main", called.execution_thread or "main"
    if here != there:
        fail(i, f"it runs in thread {here}, but {called.name}, which it calls, in {there}")


# -- collectives -----------------------------------------------------------------------------------

CHECKS.update(dict.fromkeys(GROUPED, verify_groups))
CHECKS[_O.RAGGED_ALL_TO_ALL] = verify_ragged
CHECKS[_O.COLLECTIVE_PERMUTE] = verify_pairs


# -- what runs aside: a start, updates perhaps, a done ---------------------------------------------

_SINGLE_USER: dict[HloOpcode, tuple[HloOpcode, ...]] = {
    _O.ALL_REDUCE_START: (_O.ALL_REDUCE_DONE,),
    _O.COPY_START: (_O.COPY_DONE,),
    _O.COLLECTIVE_PERMUTE_START: (_O.COLLECTIVE_PERMUTE_DONE,),
}
_OPERAND: dict[HloOpcode, tuple[HloOpcode, ...]] = {
    _O.ALL_REDUCE_DONE: (_O.ALL_REDUCE_START,),
    _O.COPY_DONE: (_O.COPY_START,),
    _O.COLLECTIVE_PERMUTE_DONE: (_O.COLLECTIVE_PERMUTE_START,),
    _O.SEND_DONE: (_O.SEND, _O.GET_TUPLE_ELEMENT),
    _O.RECV_DONE: (_O.RECV, _O.GET_TUPLE_ELEMENT),
}


@_check(*(set(_SINGLE_USER) | set(_OPERAND)))
def _pair(i: HloInstruction) -> None:
    """Check that a start has one user that continues it, and a done has a start as operand."""
    users = _SINGLE_USER.get(i.opcode)
    if users is not None and (len(i._users) != 1 or i.users[0].opcode not in users):
        found = ", ".join(f"{u.name} ({u.opcode})" for u in i.users) or "none"
        fail(i, f"expected one user, {' or '.join(map(str, users))}, not {found}")
    operands = _OPERAND.get(i.opcode)
    if operands is not None and i.operands[0].opcode not in operands:
        fail(i, f"expected {' or '.join(map(str, operands))} as operand, not {i.operands[0].opcode}")
    if i.opcode is _O.COLLECTIVE_PERMUTE_START:
        verify_pairs(i)
    elif i.opcode is _O.ALL_REDUCE_START:
        verify_groups(i)
    elif i.opcode in (_O.SEND_DONE, _O.RECV_DONE):
        _transfer_done(i)


@_check(_O.ASYNC_UPDATE)
def _async_update(i: HloInstruction) -> None:
    if i.shape != (start := i.operands[0].shape) and compatible(i.shape, start):
        fail(i, f"expected its operand's shape, layouts and dynamic dimensions included, {start}, not {i.shape}")


@_check(_O.ASYNC_START)
def _async_start(i: HloInstruction) -> None:
    called: HloComputation = i.attributes["calls"]
    thread, wrapped = i.attributes.get("async_execution_thread") or "main", called.execution_thread or "main"
    if thread != wrapped:
        fail(i, f"expected {called.name}, which it calls, in thread {thread}, not in {wrapped}")
    # Transfers and collectives may run asynchronously as a group.
    for o in called._instructions:
        alone = o is called.root or o.opcode in (_O.PARAMETER, _O.TUPLE, _O.GET_TUPLE_ELEMENT)
        if not alone and o.opcode.kind not in ("side", "collective", "async"):
            fail(
                o,
                f"expected nothing but the root, parameters and collectives in {called.name}, "
                f"which {i.name} runs asynchronously",
            )


def _transfer_done(i: HloInstruction) -> None:
    start = i.operands[0]
    if start.opcode is _O.GET_TUPLE_ELEMENT:
        return
    for name in ("channel_id", "is_host_transfer"):
        if (i.get(name) or 0) != (start.get(name) or 0):
            fail(i, f"expected the {name} of {start.name}, {start.get(name)}, not {i.get(name)}")
