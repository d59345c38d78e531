"""Replace dynamic slices at loop-dependent offsets by copies without a kernel.

Follows fusion_dynamic_memcpy_rewriter.cc.

    f = f32[1,8] fusion(x, i), kind=kLoop, calls={ROOT s = dynamic-slice(p0, p1, 0)}
    =>  f = f32[1,8] fusion(x, i), kind=kCustom, calls={s = dynamic-slice(p0, p1, 0), ROOT copy(s)}

dynamic-slice-annotator records the slice's offset per iteration (`dynamic_slice_config`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlanb.conditions import Condition, asked, first_failing, objecting
from xlanb.gpu.backend_config import changed, read
from xlanb.gpu.model.fusible import is_custom_fusion
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, TupleShape
from xlanb.tracing import Decision, because, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass

_FILE: Final = "xlanb/gpu/transforms/fusion_dynamic_memcpy_rewriter.py"
_CONFIG: Final = {
    "kind": "__custom_fusion",
    "custom_fusion_config": {"name": "dynamic_slice_fusion", "kernel_index": 0},
}
_SLICES = frozenset((O.SLICE, O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE))
_FREE = frozenset((O.BITCAST, O.RESHAPE))


class FusionDynamicMemcpyRewriter(HloPass):
    """Rewrites fusions that only slice or update at a loop-dependent offset as copies."""

    name = "fusion-dynamic-memcpy-rewriter"
    triggers = frozenset((O.FUSION,))

    def apply(self, module: HloModule) -> None:
        for i in module.instructions():
            if i.opcode is O.FUSION and not is_custom_fusion(i):
                candidate = _candidate(i)
                if candidate is not None and _decided(candidate):
                    _rewrite(candidate)


class MemcpyCandidate(NamedTuple):
    """A fusion, its slice or update, and what would be copied."""

    fusion: HloInstruction
    slicing: HloInstruction
    copied: HloInstruction


def _candidate(fusion: HloInstruction) -> MemcpyCandidate | None:
    root = fusion.fused_computation.root
    slicing = _behind_free(root)
    if "dynamic_slice_config" not in read(slicing):
        return None
    if slicing.opcode is O.DYNAMIC_SLICE:
        return MemcpyCandidate(fusion, slicing, root)
    return MemcpyCandidate(fusion, slicing, slicing.operands[1]) if slicing.opcode is O.DYNAMIC_UPDATE_SLICE else None


def _behind_free(i: HloInstruction) -> HloInstruction:
    while i.opcode in _FREE:
        i = i.operands[0]
    return i


# -- conditions ------------------------------------------------------------------------------------


def is_contiguous(whole: ArrayShape, part: ArrayShape) -> bool:
    """Whether a box of an array is contiguous in memory.

    One dimension may be partial; all slower ones then have size 1.
    """
    is_cut = False
    for d in whole.minor_to_major:
        if is_cut and part.dimensions[d] != 1:
            return False
        is_cut = is_cut or part.dimensions[d] < whole.dimensions[d]
    return True


def _scattered(c: MemcpyCandidate) -> str:
    for i in c.fusion.fused_computation:
        if i.opcode not in _SLICES:
            continue
        if i.opcode is O.SLICE:
            strides = any(b.stride != 1 for b in i.attributes["slice"])
            if strides or not is_contiguous(i.operands[0].array_shape, i.array_shape):
                return f"{i.name} is not contiguous in memory"
        elif "dynamic_slice_config" not in read(i):
            return f"the position of {i.name} does not depend on a loop counter alone"
    return ""


def _computed(c: MemcpyCandidate) -> str:
    """Name what the copied array is computed by, or return "" for (a part of) a parameter."""
    source = _behind_free(c.copied)
    if source.opcode in (O.DYNAMIC_SLICE, O.SLICE):
        source = _behind_free(source.operands[0])
    elif source.opcode is O.PARAMETER and source.shape.byte_size != c.copied.shape.byte_size:
        return f"{c.copied.name} differs in size from {source.name}"
    return "" if source.opcode is O.PARAMETER else f"{source.name} is computed"


def _results(c: MemcpyCandidate) -> str:
    return "it has several results" if isinstance(c.fusion.shape, TupleShape) else ""


CONDITIONS: tuple[Condition[MemcpyCandidate], ...] = (
    objecting("one result", _results),
    objecting("every slice is contiguous, at an offset computed from the loop counter", _scattered),
    objecting("it copies part of a parameter", _computed),
)
"""Conditions for a fusion whose root is such a slice or update."""


def _decided(c: MemcpyCandidate) -> bool:
    holds = first_failing(CONDITIONS, c) is None
    if is_observed():
        predicates = asked(CONDITIONS, c)
        emit(Decision(current_cause(), "copy without a kernel", (c.fusion.name,), holds, predicates))
    return holds


def _rewrite(c: MemcpyCandidate) -> None:
    fused = c.fusion.fused_computation
    where = f"{_FILE}:{_rewrite.__code__.co_firstlineno}"
    with because(
        rule="copy a slice at an offset computed from the loop counter", where=where, parts=(("fusion", c.fusion.name),)
    ):
        copy = fused.add(O.COPY, (c.copied,), c.copied.shape)
        if c.slicing.opcode is O.DYNAMIC_SLICE:
            fused.set_root(copy)
        else:
            fused.replace_operand(c.slicing, 1, copy)
        text = changed(c.fusion, fusion_backend_config=_CONFIG, native_emitter_backend_config=None)
        c.fusion.parent.update(c.fusion, attributes={"kind": "kCustom"}, backend_config=text)
