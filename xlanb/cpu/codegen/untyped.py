"""Kernels whose emitters still write text: their function takes the place of the typed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlanb.codegen import indexing
from xlanb.codegen.function import Function, Line, Outlined, PartCall
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.codegen import ir
from xlanb.cpu.codegen import kernel as kernels
from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.emitters.kernel import Kernel as TypedKernel
from xlanb.hlo.instruction import HloInstruction


def emit(k: TypedKernel) -> bool:
    """Write a kernel by its emitter of text; False where it has none for this instruction."""
    f, module = k.f, k.f.module
    if not any(a.shape.element_count for a in k.outputs.values()):
        return True
    old = ir.Function(module, f.name, [], "", f.scope, "internal", f.instruction)
    if module.debug:
        old.at(f.instruction)

    def array(a: indexing.IrArray) -> IrArray:
        return IrArray(a.pointer.text, a.shape)

    def constants(i: HloInstruction) -> IrArray:
        return array(k.e.constants(i))

    bindings: dict[HloInstruction, Mapping[Any, IrArray]] = {
        i: {leaf: array(a) for leaf, a in found.items() if isinstance(a, indexing.IrArray)}
        for i, found in k.e.bindings.items()
    }
    e = Elemental(old, bindings, constants)
    outputs = {leaf: array(a) for leaf, a in k.outputs.items()}
    scratch = "" if k.scratch is None else k.scratch.text
    made = kernels.Kernel(old, e, k.instruction, k.root, outputs, scratch, k.shared_scratch, k.own_scratch_bytes)
    emitter: Callable[[kernels.Kernel], bool] = kernels.SPECIAL[k.root.opcode]
    if not emitter(made):
        return False
    _take(f, old)
    return True


def _take(f: Function, old: ir.Function) -> None:
    """Make the lines and the parts of a function of text those of a typed one."""
    parts: dict[str, Line] = {}
    for p in old.outlined:
        count, chunks = (n if isinstance(n, int) else Value(f, I64, n) for n in (p.count, p.chunks))
        part = Outlined(p.name, count, chunks, p.scope, list(p.lines))
        f.outlined.append(part)
        parts[f"  {p.name}{p.mark}"] = PartCall(part, p.mark)
    f.replace_body([parts.get(line, line) for line in old.body])
    f.ready, f.calls_only = old.ready, old.calls_only
    f._count = old._count  # noqa: SLF001 - names that are made from here on are new
