"""Select the emitter of an instruction or fusion, by its root."""

from __future__ import annotations

from collections.abc import Callable

from xlanb.errors import UnimplementedError
from xlanb.gpu.emitters import dots, reductions, rows, transposes
from xlanb.gpu.emitters.elements import RULES
from xlanb.gpu.emitters.kernel import Lowering
from xlanb.gpu.emitters.loops import emit_loop
from xlanb.gpu.emitters.sorts import emit_sort
from xlanb.gpu.emitters.updates import emit_scatter, emit_update, updates_in_place
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass

Emit = Callable[[Lowering], None]


@dataclass(frozen=True)
class Emitter:
    """A way to write kernels; `fits` says whether it applies to an instruction and its root."""

    name: str
    fits: Callable[[HloInstruction, HloInstruction], bool]
    emit: Emit


_STRUCTURE = frozenset(
    {Op.CALL, Op.FUSION, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.PARAMETER, Op.OPT_BARRIER, Op.ADD_DEPENDENCY, Op.DOMAIN}
)
"""Opcodes whose elements come from operands or called computations."""


def _has_elements(_: HloInstruction, root: HloInstruction) -> bool:
    """Whether the root has an elemental rule."""
    return root.opcode in RULES or root.opcode in _STRUCTURE


def _is(*opcodes: Op) -> Callable[[HloInstruction, HloInstruction], bool]:
    """Return a test whether the root has one of these opcodes."""
    return lambda _, root: root.opcode in opcodes


def _update(lowering: Lowering) -> None:
    if not emit_update(lowering):
        emit_loop(lowering)


EMITTERS: list[Emitter] = [
    Emitter("scatter", _is(Op.SCATTER), emit_scatter),
    Emitter("sort", _is(Op.SORT), emit_sort),
    Emitter("update", updates_in_place, _update),
    Emitter("dot", dots.fits, dots.emit_dot),
    Emitter("rows", rows.fits, rows.emit_rows),
    Emitter("reduction", reductions.fits, reductions.emit_reduction),
    Emitter("transpose", transposes.fits, transposes.emit_transpose),
    Emitter("loop", _has_elements, emit_loop),
]
"""Emitters in the order in which they are tried."""

ROOTS = frozenset({Op.SCATTER, Op.SORT})
"""Opcodes without an elemental rule that may be a fusion's root."""


def choose(i: HloInstruction) -> Emitter:
    """Return the emitter of an instruction.

    Raises:
        UnimplementedError: there is none.
    """
    root = i.fused_computation.root if i.opcode is Op.FUSION else i
    for emitter in EMITTERS:
        if emitter.fits(i, root):
            return emitter
    raise UnimplementedError(f"the GPU backend has no kernel for {root.opcode}:\n  {with_origin(i)}")


__all__ = ["EMITTERS", "Emitter", "choose"]
