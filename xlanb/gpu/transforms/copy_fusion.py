"""Fuse copies of a fusion's result into it, so that it writes the result twice (copy_fusion.cc).

    f = f32[8] fusion(), calls={ROOT b}
    c = f32[8] copy(f)
    ... = scatter(c, ...), ... = add(f, ...)
    =>  f = (f32[8], f32[8]) fusion(), calls={ROOT tuple(b, copy(b))}
        c = f#1
        ... = scatter(c, ...), ... = add(f#0, ...)

Only the entry computation is visited: in loops, a copy may share a buffer with its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition, asked, first_failing, objecting
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.heroes import roots_of
from xlanb.gpu.model.fusible import MAX_OPERANDS_AND_OUTPUTS, budget_objection, is_custom_fusion
from xlanb.gpu.reductions import is_reduction_of_rows_or_columns
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.tracing import Decision, because, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass

_WHERE: Final = "xlanb/gpu/transforms/copy_fusion.py"


@dataclass(frozen=True)
class CopyFusion(HloPass):
    """Fuses copies of fusions' results into the fusions."""

    name = "copy_fusion"
    triggers = frozenset((O.COPY,))

    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))
    """The target GPU."""

    def apply(self, module: HloModule) -> None:
        for i in module.entry_computation.post_order():
            if i.opcode is O.FUSION and not is_custom_fusion(i):
                copies = [c for u in i.users if (c := _copy_behind(i, u, self.device)) is not None]
                if copies and _decided(i, copies):
                    _fuse(i, copies)


def _copy_behind(fusion: HloInstruction, user: HloInstruction, device: GpuDevice) -> HloInstruction | None:
    """Return the copy that a user is or leads to (by a tuple element, a bitcast), or None."""
    i = user
    if i.opcode is O.GET_TUPLE_ELEMENT and i.user_count == 1:
        root = fusion.fused_computation.root
        if root.opcode is O.TUPLE and is_reduction_of_rows_or_columns(root.operands[i.tuple_index]):
            return None
        i = i.users[0]
    if i.opcode is O.BITCAST and i.user_count == 1:
        i = i.users[0]
    if i.opcode is not O.COPY or i.shape != i.operands[0].shape or isinstance(i.shape, TupleShape):
        return None
    if i.control_predecessors or i.control_successors or budget_objection(fusion, i, device):
        return None
    return i


# -- conditions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """A fusion and copies of its results."""

    fusion: HloInstruction
    copies: Sequence[HloInstruction]


def _moves(c: Copied) -> str:
    """Name an instruction of the fusion that moves elements of its inputs, or return ""."""
    parameters = c.fusion.fused_computation.parameters
    seen, stack = set(parameters), list(parameters)
    while stack:
        for user in stack.pop().users:
            is_free = user.opcode in (O.BITCAST, O.TUPLE)
            if not is_free and (user.opcode is O.COPY or not _is_elementwise(user)):
                return f"{user.name} moves elements"
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return ""


def _is_elementwise(i: HloInstruction) -> bool:
    return is_elementwise(i) if i.opcode is not O.DYNAMIC_UPDATE_SLICE else False


def _root(c: Copied) -> str:
    root = c.fusion.fused_computation.root
    if is_reduction_of_rows_or_columns(root) or root.opcode is O.SCATTER:
        return f"its root is a {root.opcode}"
    sliced = root.opcode is O.TUPLE and all(o.opcode is O.SLICE for o in root.operands)
    return "its results are slices" if sliced else ""


def _in_place(c: Copied) -> str:
    results = [_behind_bitcasts(r) for r in roots_of(c.fusion)]
    updates = [r for r in results if r.opcode is O.DYNAMIC_UPDATE_SLICE]
    is_tuple = c.fusion.fused_computation.root.opcode is O.TUPLE
    if updates and (not is_tuple or len(updates) == len(results)):
        return f"{updates[0].name} updates an array in place"
    return ""


def _behind_bitcasts(i: HloInstruction) -> HloInstruction:
    while i.opcode is O.BITCAST:
        i = i.operands[0]
    return i


def _outputs(c: Copied) -> int:
    return len(roots_of(c.fusion)) + len(c.copies)


CONDITIONS: tuple[Condition[Copied], ...] = (
    objecting("elements of its operands stay in place", _moves),
    objecting("its results are written elementwise", _root),
    objecting("nothing is updated in place", _in_place),
    Condition(
        "few results",
        lambda c: _outputs(c) <= MAX_OPERANDS_AND_OUTPUTS,
        lambda c: f"{_outputs(c)}, of at most {MAX_OPERANDS_AND_OUTPUTS}",
    ),
)
"""Conditions for a fusion to absorb copies."""


def _decided(fusion: HloInstruction, copies: Sequence[HloInstruction]) -> bool:
    subject = Copied(fusion, copies)
    holds = first_failing(CONDITIONS, subject) is None
    if is_observed():
        names = (fusion.name, *(c.name for c in copies))
        emit(Decision(current_cause(), "fuse copies", names, holds, asked(CONDITIONS, subject)))
    return holds


# -- fusing ----------------------------------------------------------------------------------------


def _fuse(fusion: HloInstruction, copies: Sequence[HloInstruction]) -> None:
    """Add the copies to the fusion's results."""
    where = f"{_WHERE}:{_fuse.__code__.co_firstlineno}"
    with because(rule="write a copied result twice", where=where, parts=(("fusion", fusion.name),)):
        _rewrite(fusion, copies)


def _rewrite(fusion: HloInstruction, copies: Sequence[HloInstruction]) -> None:
    fused, parent, root = fusion.fused_computation, fusion.parent, fusion.fused_computation.root
    is_tuple = root.opcode is O.TUPLE
    elements = list(roots_of(fusion))
    count = len(elements)
    others = tuple(u for u in fusion.users if not any(u in _chain(fusion, c) for c in copies))
    for copy in copies:
        value = root
        for i in reversed(_chain(fusion, copy)):
            is_result = is_tuple and i.opcode is O.GET_TUPLE_ELEMENT
            value = elements[i.tuple_index] if is_result else fused.clone_instruction(i, (value,))
        elements.append(value)
    shape = tuple_of(e.shape for e in elements)
    fused.set_root(fused.add(O.TUPLE, tuple(elements), shape))
    if is_tuple:
        fused.remove(root)
    was_root, old_shape = fusion.is_root, fusion.shape
    parent.update(fusion, shape=shape, sharding="")
    if not is_tuple:
        first = parent.add(O.GET_TUPLE_ELEMENT, (fusion,), old_shape, like=fusion, index=0)
        for u in others:
            for n, o in enumerate(u.operands):
                if o is fusion:
                    parent.replace_operand(u, n, first)
        if was_root:
            parent.set_root(first)
    for n, copy in enumerate(copies, count):
        new = parent.add(O.GET_TUPLE_ELEMENT, (fusion,), copy.shape, like=copy, index=n)
        parent.replace(copy, new)


def _chain(fusion: HloInstruction, copy: HloInstruction) -> list[HloInstruction]:
    """Return a copy and the instructions between it and the fusion."""
    found = [copy]
    while found[-1].operands[0] is not fusion:
        found.append(found[-1].operands[0])
    return found
