"""What single opcodes ask for beyond their shape (InstructionVerifier and the checks of pairs in hlo_verifier.cc)."""

from __future__ import annotations

import re
from collections.abc import Callable

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
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
    """A fused computation belongs to its fusion alone; what is in it is used in it, but for the root."""
    fused: HloComputation = i.attributes["calls"]
    root = fused.root
    if root._users:
        fail(i, f"the root {root.name} of the fused computation {fused.name} has users in it")
    _same_thread(i, fused)


@_check(_O.CALL)
def _call(i: HloInstruction) -> None:
    """A composite call says by frontend attributes what it is composed for."""
    _callers(i)
    if not i.attributes.get("is_composite"):
        return
    facts = dict(i.frontend_attributes)
    if not facts.get("composite.name"):
        fail(i, "expected a composite call to have the frontend attribute composite.name")
    version = facts.get("composite.version", "0").strip('"')
    if not version.isdecimal():
        fail(i, f"expected composite.version to be a number that is not negative, not {version}")


@_check(_O.WHILE, _O.CONDITIONAL, _O.REDUCE, _O.MAP, _O.SORT, _O.SCATTER, _O.REDUCE_WINDOW, _O.SELECT_AND_SCATTER)
def _callers(i: HloInstruction) -> None:
    for called in i._called():
        _same_thread(i, called)


def _same_thread(i: HloInstruction, called: HloComputation) -> None:
    here, there = i.parent.execution_thread or "main", called.execution_thread or "main"
    if here != there:
        fail(i, f"it runs in thread {here}, but {called.name}, which it calls, in {there}")


# -- collectives ------------------------------------------------------------------------------------------------

_COLLECTIVES = frozenset(o for o in HloOpcode if "replica_groups" in o.attribute)
_REDUCING = frozenset((_O.ALL_REDUCE, _O.ALL_REDUCE_START, _O.REDUCE_SCATTER))
_GROUP = re.compile(r"\{([\d,\s]*)\}")


@_check(*_COLLECTIVES)
def _collective(i: HloInstruction) -> None:
    """Groups are not empty and no replica is in two; a list of groups names all from 0 on."""
    if i.opcode in _REDUCING:
        _callers(i)
    text: str = i.attributes.get("replica_groups") or ""
    if not text.startswith("{") or text == "{}":
        return  # one group of all, or the form that counts them off: [2,4]<=[8]
    seen: set[int] = set()
    for group in _GROUP.findall(text[1:-1]):
        members = [int(n) for n in group.split(",") if n.strip()]
        if not members:
            fail(i, f"replica_groups has an empty group: {text}")
        for n in members:
            if n in seen:
                fail(i, f"replica_groups names replica {n} twice: {text}")
            seen.add(n)
    missing = set(range(len(seen))) - seen
    if missing:
        fail(i, f"replica_groups does not name replica {min(missing)}: {text}")


@_check(_O.COLLECTIVE_PERMUTE)
def _permute(i: HloInstruction) -> None:
    if len(i.operands) == 4:
        return  # several slices may go from and to one place
    for side, name in enumerate(("source", "target")):
        seen: set[int] = set()
        for pair in i.attributes["source_target_pairs"]:
            n = pair[side]
            if n < 0 or n in seen:
                fail(i, f"source_target_pairs has {name} {n}{' twice' if n >= 0 else ''}")
            seen.add(n)


# -- what runs aside: a start, updates perhaps, a done ----------------------------------------------------------

_SINGLE_USER: dict[HloOpcode, tuple[HloOpcode, ...]] = {
    _O.ASYNC_START: (_O.ASYNC_UPDATE, _O.ASYNC_DONE),
    _O.ASYNC_UPDATE: (_O.ASYNC_UPDATE, _O.ASYNC_DONE),
    _O.ALL_REDUCE_START: (_O.ALL_REDUCE_DONE,),
    _O.COPY_START: (_O.COPY_DONE,),
    _O.COLLECTIVE_PERMUTE_START: (_O.COLLECTIVE_PERMUTE_DONE,),
}
_OPERAND: dict[HloOpcode, tuple[HloOpcode, ...]] = {
    _O.ASYNC_UPDATE: (_O.ASYNC_START, _O.ASYNC_UPDATE),
    _O.ASYNC_DONE: (_O.ASYNC_START, _O.ASYNC_UPDATE),
    _O.ALL_REDUCE_DONE: (_O.ALL_REDUCE_START,),
    _O.COPY_DONE: (_O.COPY_START,),
    _O.COLLECTIVE_PERMUTE_DONE: (_O.COLLECTIVE_PERMUTE_START,),
    _O.SEND_DONE: (_O.SEND, _O.GET_TUPLE_ELEMENT),
    _O.RECV_DONE: (_O.RECV, _O.GET_TUPLE_ELEMENT),
}


@_check(*(set(_SINGLE_USER) | set(_OPERAND)))
def _pair(i: HloInstruction) -> None:
    """A start has one user, which goes on with it or ends it; an end has a start as operand."""
    users = _SINGLE_USER.get(i.opcode)
    if users is not None and (len(i._users) != 1 or i.users[0].opcode not in users):
        found = ", ".join(f"{u.name} ({u.opcode})" for u in i.users) or "none"
        fail(i, f"expected one user, {' or '.join(map(str, users))}, not {found}")
    operands = _OPERAND.get(i.opcode)
    if operands is not None and i.operands[0].opcode not in operands:
        fail(i, f"expected {' or '.join(map(str, operands))} as operand, not {i.operands[0].opcode}")
    if i.opcode is _O.ASYNC_START:
        _async_start(i)
    elif i.opcode is _O.COLLECTIVE_PERMUTE_START:
        _permute(i)
    elif i.opcode is _O.ALL_REDUCE_START:
        _collective(i)
    elif i.opcode in (_O.SEND_DONE, _O.RECV_DONE):
        _transfer_done(i)


def _async_start(i: HloInstruction) -> None:
    called: HloComputation = i.attributes["calls"]
    thread, wrapped = i.attributes.get("async_execution_thread") or "main", called.execution_thread or "main"
    if thread != wrapped:
        fail(i, f"expected {called.name}, which it calls, in thread {thread}, not in {wrapped}")
    # Transfers and collectives may run aside together, as a group.
    for o in called._instructions:
        alone = o is called.root or o.opcode in (_O.PARAMETER, _O.TUPLE, _O.GET_TUPLE_ELEMENT)
        if not alone and o.opcode.kind not in ("side", "collective", "async"):
            fail(
                o,
                f"expected nothing but the root, parameters and collectives in {called.name}, which {i.name} runs aside",
            )


def _transfer_done(i: HloInstruction) -> None:
    start = i.operands[0]
    if start.opcode is _O.GET_TUPLE_ELEMENT:
        return
    for name in ("channel_id", "is_host_transfer"):
        if (i.get(name) or 0) != (start.get(name) or 0):
            fail(i, f"expected the {name} of {start.name}, {start.get(name)}, not {i.get(name)}")
