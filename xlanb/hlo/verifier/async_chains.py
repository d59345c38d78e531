"""Check chains of async-start, async-update and async-done.

Source: VerifyAsynchronousInstructionPairs in hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.async_chain import PRODUCERS, passes_through, producer, wrapped_computation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.parse_shape import compatible
from xlanb.hlo.verifier.fault import fail
from xlanb.shape import TupleShape

_O = HloOpcode
_CONTINUED = frozenset((_O.ASYNC_UPDATE, _O.ASYNC_DONE))
_CARRIED = frozenset((_O.CALL, _O.CONDITIONAL, _O.DOMAIN))
"""Opcodes that may use an async state, besides those that forward it."""


def verify_async_chains(links: Sequence[HloInstruction]) -> None:
    """Check that each chain of a module starts, continues without branches and ends.

    Args:
        links: the module's async instructions.

    Raises:
        HloVerifierError: a link has no predecessor, two have the same one, or a start has no done.
    """
    for i in links:
        _verify_users(i)
        if i.opcode is not _O.ASYNC_START:
            _verify_link(i)
    ends: dict[HloInstruction, HloInstruction] = {}
    used: set[HloInstruction] = set()
    for done in (i for i in links if i.opcode is _O.ASYNC_DONE):
        _follow(done, ends, used)
    for i in links:
        ended = i in ends if i.opcode is _O.ASYNC_START else i in used
        if i.opcode in PRODUCERS and not ended and not _crosses_loop(i):
            fail(i, "expected an async-done at the end of its chain")


def _verify_users(i: HloInstruction) -> None:
    """Check that the state goes to the next link's first operand, possibly through others."""
    if i.opcode not in PRODUCERS:
        return
    for user in i.users:
        if user.opcode in _CONTINUED:
            if i in user.operands[1:]:
                fail(user, f"expected the state {i.name} as first operand, and nowhere else")
        elif not passes_through(user) and user.opcode not in _CARRIED:
            fail(i, f"expected one user, async-update or async-done, not {user.name} ({user.opcode})")


def _verify_link(i: HloInstruction) -> None:
    before = producer(i.operands[0])
    if before is None:
        fail(i, f"expected async-start or async-update as operand, not {i.operands[0].opcode}")
    called = wrapped_computation(before)
    if called is None:
        fail(i, f"expected a chain that begins with an async-start; {before.name} does not")
    if i.opcode is not _O.ASYNC_DONE:
        return
    bound = before.shape
    parameters = TupleShape(tuple(p.shape for p in called.parameters))
    if not isinstance(bound, TupleShape) or not compatible(bound.shapes[0], parameters):
        fail(i, f"expected all operands of {called.name}, {parameters}, got only those of {bound}")
    if not compatible(i.shape, called.root.shape):
        fail(i, f"expected the result {called.root.shape} of {called.name}, not {i.shape}")


def _follow(done: HloInstruction, ends: dict[HloInstruction, HloInstruction], used: set[HloInstruction]) -> None:
    """Walk from the end of a chain to its start."""
    link = producer(done.operands[0])
    while link is not None and link.opcode is _O.ASYNC_UPDATE:
        if link in used:
            fail(link, "expected one user: it is part of several chains, or of a cycle")
        used.add(link)
        link = producer(link.operands[0])
    if link is None or link.opcode is not _O.ASYNC_START:
        fail(done, "expected a chain that begins with an async-start")
    if link in ends:
        fail(link, f"expected one user: both {ends[link].name} and {done.name} end its chain")
    ends[link] = done


def _crosses_loop(state: HloInstruction) -> bool:
    """Whether a state enters a loop or is passed to its next iteration."""
    stack, seen = [state], {state}
    while stack:
        i = stack.pop()
        users = list(i.users)
        if i.is_root:
            callers = i.parent.module.callers(i.parent)
            if any(c.opcode is _O.WHILE and c.attributes["body"] is i.parent for c in callers):
                return True
            users += [c for c in callers if c.opcode in _CARRIED]
        for user in users:
            if user.opcode is _O.WHILE:
                return True
            passes = user.opcode in _CARRIED or user.opcode is _O.ASYNC_UPDATE or passes_through(user)
            if passes and user not in seen:
                seen.add(user)
                stack.append(user)
    return False
