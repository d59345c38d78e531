"""Which emitter writes the kernels of an instruction or fusion: by its root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlanb.errors import UnimplementedError
from xlanb.gpu.emitters.elements import RULES
from xlanb.gpu.emitters.kernel import Lowering
from xlanb.gpu.emitters.loops import emit_loop
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

Emit = Callable[[Lowering], None]


@dataclass(frozen=True)
class Emitter:
    """A way to write kernels: `fits` says of an instruction, or of a fusion with its root, whether it can."""

    name: str
    fits: Callable[[HloInstruction, HloInstruction], bool]
    emit: Emit


def _has_elements(_: HloInstruction, root: HloInstruction) -> bool:
    """Whether an element of the root can be computed by itself."""
    return root.opcode in RULES or root.opcode in (Op.TUPLE, Op.FUSION)


EMITTERS: list[Emitter] = [Emitter("loop", _has_elements, emit_loop)]
"""Emitters in the order in which they are tried."""


def choose(i: HloInstruction) -> Emitter:
    """The emitter of an instruction.

    Raises:
        UnimplementedError: there is none.
    """
    root = i.fused_computation.root if i.opcode is Op.FUSION else i
    for emitter in EMITTERS:
        if emitter.fits(i, root):
            return emitter
    raise UnimplementedError(f"the GPU back end has no kernel for {root.opcode}:\n  {with_origin(i)}")


__all__ = ["EMITTERS", "Emitter", "choose"]
