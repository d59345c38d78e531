"""Check shared buffers: of the module's results and parameters, and of an instruction's."""

from __future__ import annotations

from xlanb.errors import HloVerifierError, ShapeError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import compatible
from xlanb.hlo.verifier.fault import fail
from xlanb.patterns import pattern
from xlanb.shape import BufferShape, Shape, TupleShape
from xlanb.shape.shape import Index, subshape

_ALIAS = pattern(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}(?:\s*,\s*([\w\-]+))?")
"""`{output index}: (parameter or operand, {index}, kind)`."""


def verify_module_aliases(module: HloModule) -> None:
    """Check that aliases of results and parameters exist and do not overlap.

    Those that must alias need the same shape.
    """
    text = module.header.get("input_output_alias")
    if not text:
        return
    entry = module.entry_computation
    parameters = [p.shape for p in entry.parameters]
    outputs, taken = set(), set()
    for output, number, inner, kind in _ALIAS.findall(text):
        where, which = _index(output), (int(number), _index(inner))
        if which[0] >= len(parameters):
            raise HloVerifierError(
                f"input_output_alias names parameter {number}, but {entry.name} has {len(parameters)}: {text}"
            )
        try:
            result, parameter = subshape(entry.root.shape, where), subshape(parameters[which[0]], which[1])
        except ShapeError as error:
            raise HloVerifierError(f"input_output_alias: {error}: {text}") from None
        if where in outputs or which in taken:
            raise HloVerifierError(f"input_output_alias names an element twice: {text}")
        if kind == "must-alias" and not compatible(result, parameter):
            raise HloVerifierError(
                f"input_output_alias: result {where} is {result}, but parameter {number} is {parameter} there: {text}"
            )
        outputs.add(where)
        taken.add(which)


def verify_instruction_aliases(i: HloInstruction) -> None:
    """Check that results that share an operand's buffer have its shape."""
    text: str = i.attributes.get("output_to_operand_aliasing") or ""
    for output, number, inner, _ in _ALIAS.findall(text):
        if int(number) >= len(i.operands):
            fail(i, f"output_to_operand_aliasing names operand {number} of {len(i.operands)}: {text}")
        try:
            result = subshape(i.shape, _index(output))
            operand = subshape(i.operands[int(number)].shape, _index(inner))
        except ShapeError as error:
            fail(i, f"output_to_operand_aliasing: {error}")
        comes_later = i.opcode is HloOpcode.ASYNC_START and result == TupleShape(())
        if not comes_later and not compatible(_unpinned(result), _unpinned(operand)):
            fail(i, f"output_to_operand_aliasing: the result there is {result}, the operand {operand}: {text}")


def _unpinned(shape: Shape) -> Shape:
    return shape.array if isinstance(shape, BufferShape) else shape


def _index(text: str) -> Index:
    return tuple(int(n) for n in text.replace(" ", "").split(",") if n)
