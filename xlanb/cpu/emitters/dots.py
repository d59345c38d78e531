"""Dot: batch dimensions, free dimensions of either side, contracting dimensions, in any layout.

A single element is a fold over the contracting dimensions (see codegen.contractions). A kernel
of its own is a contraction (see `matmul`).
"""

from __future__ import annotations

from functools import lru_cache

from xlanb.codegen import costs
from xlanb.codegen.contractions import DotLoops
from xlanb.codegen.elemental import Elemental, array_of
from xlanb.codegen.indexing import IrArray, strides
from xlanb.codegen.products import accumulator_type
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.kernel import IS_CONTRACTION, SCRATCH, Kernel, emitter
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis
from xlanb.cpu.emitters.matmul.gemm import emit_contraction
from xlanb.cpu.emitters.matmul.literals import with_literal
from xlanb.cpu.emitters.matmul.plan import plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape


def contraction_of(i: HloInstruction) -> Contraction:
    """A dot as axes with strides."""
    return _contraction(array_of(i.operands[0]), array_of(i.operands[1]), array_of(i), DotLoops.of(i))


@lru_cache(maxsize=1024)
def _contraction(a: ArrayShape, b: ArrayShape, c: ArrayShape, d: DotLoops) -> Contraction:
    sa, sb, sc = strides(a), strides(b), strides(c)
    batch = len(d.lhs_batch)
    rows = batch + len(d.lhs_free)
    return Contraction(
        tuple(
            ContractionAxis(a.dimensions[p], sa[p], sb[q], sc[k])
            for k, (p, q) in enumerate(zip(d.lhs_batch, d.rhs_batch, strict=True))
        ),
        tuple(ContractionAxis(a.dimensions[p], sa[p], 0, sc[batch + k]) for k, p in enumerate(d.lhs_free)),
        tuple(ContractionAxis(b.dimensions[q], 0, sb[q], sc[rows + k]) for k, q in enumerate(d.rhs_free)),
        tuple(
            ContractionAxis(a.dimensions[p], sa[p], sb[q])
            for p, q in zip(d.lhs_contracting, d.rhs_contracting, strict=True)
        ),
        a.element_type,
        b.element_type,
        accumulator_type(c.element_type),
        c.element_type,
    )


def _scratch_bytes(i: HloInstruction) -> int:
    """Bytes of scratch memory that `emit_dot` needs."""
    made = plan(contraction_of(i))
    return made.scratch_bytes if made is not None else 0


def _is_contraction(i: HloInstruction) -> bool:
    """Whether it has enough products, of types that can be vectorized."""
    x = contraction_of(i)
    return x.products >= costs.COMMON.written_products and plan(x) is not None


SCRATCH[Op.DOT] = _scratch_bytes
IS_CONTRACTION[Op.DOT] = _is_contraction


@emitter(Op.DOT)
def emit_dot(k: Kernel) -> bool:
    """Emit a dot of operands in memory as a kernel; False if the elemental rule must be used."""
    e, i = k.e, k.root
    a, b = (place_of(e, o) for o in i.operands[:2])
    if a is None or b is None:
        return False
    made = plan(contraction_of(i))
    if made is None:
        return False
    found = with_literal(e, i.operands[:2], made)
    if found is not None:
        made, place = found
        a, b = (place, b) if made.x.is_swapped else (a, place)
    emit_contraction(e.f, made, (a, b, k.output.pointer), k.scratch)
    e.f.ready = e.f.calls_only = True
    return True


def place_of(e: Elemental, i: HloInstruction) -> Value | None:
    """The memory of an operand, constants included.

    None if its elements would have to be recomputed for every use, which is not worthwhile.
    """
    if i.opcode is Op.CONSTANT:
        return e.constants(i).pointer
    source = e.bindings.get(i, {}).get(())
    return source.pointer if isinstance(source, IrArray) else None
