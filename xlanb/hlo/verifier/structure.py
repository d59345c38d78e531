"""Check the graph: parents, operands and users, names, parameters, roots, cycles, calls.

Source: VerifyHloStructure in hlo_verifier.cc.
"""

from __future__ import annotations

from xlanb.errors import HloVerifierError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.verifier.fault import fail

CALLERS = frozenset(o for o in HloOpcode if any(a.kind in ("computation", "computations") for a in o.attributes))
"""Opcodes that may call computations."""


def verify_structure(module: HloModule) -> None:
    """Check everything that the other checks rely on."""
    if not module.name:
        raise HloVerifierError("the module has no name")
    if module.entry is None:
        raise HloVerifierError(f"module {module.name} has no entry computation")
    computations = set(module.computations)
    if module.entry not in computations:
        raise HloVerifierError(f"the entry computation {module.entry.name} is not in module {module.name}")
    _verify_computation_names(module)
    names: dict[str, HloInstruction] = {}
    for computation in module.computations:
        _verify_computation(computation, names)
        _verify_parameters(computation)
    _verify_call_graph(module, computations)


def _verify_computation_names(module: HloModule) -> None:
    names = set()
    for c in module.computations:
        if c.module is not module:
            raise HloVerifierError(f"computation {c.name} is in module {module.name} but belongs to {c.module.name}")
        if c.name in names:
            raise HloVerifierError(f"two computations are called {c.name} in module {module.name}")
        names.add(c.name)


def _verify_computation(computation: HloComputation, names: dict[str, HloInstruction]) -> None:
    instructions = computation._instructions
    root = computation._root
    if root is None or root not in instructions:
        raise HloVerifierError(
            f"computation {computation.name} has no root{'' if root is None else f': {root.name} is not in it'}"
        )
    seen: set[HloInstruction] = set()
    in_order = True
    for i in instructions:
        if i.parent is not computation:
            fail(i, f"it is in computation {computation.name} but belongs to {i.parent.name}")
        if names.setdefault(i.name, i) is not i:
            fail(
                i,
                f"the name is not unique: computation {names[i.name].parent.name} also has an instruction of that name",
            )
        opcode = i.opcode
        if opcode.arity is not None and len(i.operands) != opcode.arity:
            fail(i, f"{opcode} takes {opcode.arity} operands, not {len(i.operands)}")
        if i.attributes and not i.attributes.keys() <= opcode.attribute.keys():
            fail(i, f"{opcode} has no attribute {', '.join(sorted(i.attributes.keys() - opcode.attribute.keys()))}")
        for o in i.operands:
            if o not in seen:
                _verify_operand(i, o, instructions)
                in_order = False
            if i not in o._users:
                fail(i, f"its operand {o.name} does not list it as a user")
        if i.control_predecessors or i.control_successors:
            _verify_control(i, instructions)
            in_order = False
        seen.add(i)
    if not in_order:
        _verify_acyclic(computation)


def _verify_operand(user: HloInstruction, operand: HloInstruction, instructions: dict[HloInstruction, None]) -> None:
    if operand.parent is not user.parent:
        fail(user, f"its operand {operand.name} is in computation {operand.parent.name}, not in {user.parent.name}")
    if operand not in instructions:
        fail(user, f"its operand {operand.name} was removed from computation {user.parent.name}")


def _verify_control(i: HloInstruction, instructions: dict[HloInstruction, None]) -> None:
    for p in i.control_predecessors:
        if p not in instructions:
            fail(i, f"its control predecessor {p.name} is not in computation {i.parent.name}")
        if i not in p.control_successors:
            fail(i, f"its control predecessor {p.name} does not list it as a successor")
    for s in i.control_successors:
        if s not in instructions or i not in s.control_predecessors:
            fail(i, f"its control successor {s.name} does not list it as a predecessor")


def _verify_acyclic(computation: HloComputation) -> None:
    """Check that no instruction depends on itself by data or control."""
    waiting = {i: len(set(i.operands)) + len(i.control_predecessors) for i in computation._instructions}
    ready = [i for i, n in waiting.items() if not n]
    done = 0
    while ready:
        i = ready.pop()
        done += 1
        for user in (*i._users, *i.control_successors):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if done < len(waiting):
        caught = next(i for i, n in waiting.items() if n > 0)
        # Every remaining instruction has a remaining operand, so walking back ends in the cycle.
        seen: set[HloInstruction] = set()
        while caught not in seen:
            seen.add(caught)
            caught = next(o for o in (*caught.operands, *caught.control_predecessors) if waiting[o] > 0)
        fail(caught, "it depends on itself")


def _verify_replication(i: HloInstruction) -> None:
    """Check that a parameter states replication for all of its leaf buffers, or for none."""
    flags = i.get("parameter_replication")
    if flags is not None:
        given, leaves = len([f for f in flags.strip("{}").split(",") if f]), sum(1 for _ in i.shape.leaves())
        if given != leaves:
            fail(i, f"the parameter has {leaves} leaf buffers, but parameter_replication has {given} elements")


def _verify_parameters(computation: HloComputation) -> None:
    """Check that parameters are numbered 0, 1, ... without gaps or repetitions."""
    parameters = [i for i in computation._instructions if i.opcode is HloOpcode.PARAMETER]
    for i in parameters:
        _verify_replication(i)
    if len(parameters) != len(computation._parameters) or set(parameters) != set(computation._parameters):
        raise HloVerifierError(
            f"computation {computation.name}: its list of {len(computation._parameters)} parameters does not contain "
            f"exactly its {len(parameters)} parameter instructions"
        )
    taken: dict[int, HloInstruction] = {}
    for p in parameters:
        number = p.attributes.get("parameter_number")
        if not isinstance(number, int) or not 0 <= number < len(parameters):
            fail(p, f"expected a parameter number in [0, {len(parameters)}), not {number}")
        if number in taken:
            fail(p, f"{taken[number].name} is also parameter {number}")
        taken[number] = p


def _verify_call_graph(module: HloModule, computations: set[HloComputation]) -> None:
    """Check that called computations are in the module, and that there is no recursion."""
    calls: dict[HloComputation, list[tuple[HloInstruction, HloComputation]]] = {}
    for c in module.computations:
        found = calls[c] = []
        for i in c._instructions:
            if i.opcode not in CALLERS:
                continue
            for called in i._called():
                if called not in computations:
                    fail(i, f"it calls {called.name}, which is not in module {module.name}")
                if called is module.entry:
                    fail(i, f"it calls the entry computation {called.name}")
                found.append((i, called))
    done: set[HloComputation] = set()
    for start in module.computations:
        _verify_no_recursion(start, calls, done)


def _verify_no_recursion(
    start: HloComputation,
    calls: dict[HloComputation, list[tuple[HloInstruction, HloComputation]]],
    done: set[HloComputation],
) -> None:
    path: dict[HloComputation, None] = {}
    stack: list[tuple[HloComputation, bool]] = [(start, False)]
    while stack:
        c, leaving = stack.pop()
        if leaving:
            path.pop(c)
            done.add(c)
        elif c not in done and c not in path:
            path[c] = None
            stack.append((c, True))
            for i, called in calls[c]:
                if called in path:
                    fail(i, f"computation {called.name} calls itself")
                stack.append((called, False))
