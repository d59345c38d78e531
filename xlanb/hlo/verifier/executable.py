"""Checks beyond the rules of HLO that keep generated code from reading out of bounds."""

from __future__ import annotations

from collections.abc import Mapping

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import brackets, compatible
from xlanb.hlo.verifier.fault import fail
from xlanb.hlo.verifier.instructions import Check
from xlanb.hlo.verifier.layouts import HandOver, entry_hand_overs, hand_overs
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape

_LARGEST_SIZE = 2**31 - 1


def verify_sizes(i: HloInstruction) -> None:
    """Raise if a forwarded value has other dynamic dimensions than its user expects.

    The sizes are stored after the elements, in the same buffer.
    """
    for over in hand_overs(i):
        _verify_sizes(i, over)


def verify_dynamic(i: HloInstruction) -> None:
    """Raise if a dynamic array has a dimension that exceeds s32.

    get-dimension-size returns sizes as s32.
    """
    for _, shape in i.shape.leaves():
        if isinstance(shape, ArrayShape) and shape.is_dynamic and max(shape.dimensions) > _LARGEST_SIZE:
            fail(
                i,
                f"cannot be compiled: expected the dimensions of a dynamic array to be at most {_LARGEST_SIZE}, "
                f"as sizes are s32, not {shape}",
            )


def verify_entry_sizes(module: HloModule) -> None:
    """Raise if entry_computation_layout has other dynamic dimensions than the entry computation."""
    for i, over in entry_hand_overs(module):
        _verify_sizes(i, over)


def _verify_sizes(i: HloInstruction, over: HandOver) -> None:
    what, given, taken = over
    if given is not taken and _sizes(given) != _sizes(taken):
        fail(
            i,
            f"cannot be compiled: {what} is {given}, but is taken as {taken}: expected the same "
            "dimensions to be dynamic "
            "(use set-dimension-size)",
        )


def _verify_loop(i: HloInstruction) -> None:
    """Check that a loop's result has the shape of its operand."""
    body = i.attributes["body"]
    taken = i.operands[0].shape
    for what, shape in ((f"the root of {body.name}", body.root.shape), ("the loop", i.shape)):
        if not compatible(taken, shape):
            fail(i, f"cannot be compiled: expected {what} to have the input's shape {taken}, not {shape}")


def _sizes(shape: Shape) -> list[tuple[bool, ...]]:
    """Which dimensions are dynamic, array by array."""
    return [s.dynamic if isinstance(s, ArrayShape) and s.is_dynamic else () for _, s in shape.leaves()]


def _verify_bitcast(i: HloInstruction) -> None:
    """Check that a bitcast has as many bits as its operand; if not an array, the same shape."""
    source, shape = i.operands[0].shape, i.shape
    if not (source.is_array and shape.is_array):
        if not compatible(source, shape):
            fail(i, f"cannot be compiled: expected {source}, which is not an array, to keep its shape, not {shape}")
    elif _sizes(source) != _sizes(shape):
        fail(i, f"cannot be compiled: expected the same dimensions to be dynamic as in {source}, not {shape}")
    elif _bits(source.as_array()) != _bits(shape.as_array()):
        fail(i, f"cannot be compiled: expected a shape of as many bits as {source} has, not {shape}")


def _verify_scan(i: HloInstruction) -> None:
    """Check a scan's computation.

    It takes a slice, or an element, of each input and the carries, and returns carries of the same
    shapes.
    """
    carries, (along,) = i.attributes["num_carries"], i.dimensions
    count = len(i.operands) - carries
    target = i.to_apply
    results = target.root.shape.shapes if isinstance(target.root.shape, TupleShape) else (target.root.shape,)
    given = [*(None for _ in range(count)), *results[len(results) - carries :]]
    for n, (operand, parameter, next_one) in enumerate(zip(i.operands, target.parameters, given, strict=True)):
        whole = operand.array_shape
        kept = (d for k, d in enumerate(whole.dimensions) if n >= count or k != along)
        wanted = ArrayShape(whole.element_type, tuple(kept))
        for shape in (parameter.shape, parameter.shape if next_one is None else next_one):
            if not compatible(shape, wanted) and not compatible(shape, ArrayShape(whole.element_type, ())):
                fail(
                    i,
                    f"cannot be compiled: expected {target.name} to take and return {wanted}, not "
                    f"{shape}, for operand {n}",
                )


def _verify_transform(i: HloInstruction) -> None:
    """Check that an fft has the length of its operand's last dimensions, and one precision."""
    source, shape = i.operands[0].array_shape, i.array_shape
    if i.attributes["fft_type"] in ("RFFT", "IRFFT"):
        real, other = sorted((source.element_type, shape.element_type), key=lambda t: t.is_complex)
        if 2 * real.bits != other.bits:
            fail(i, f"cannot be compiled: expected real and complex numbers of one precision, not {source} and {shape}")
    else:
        lengths = tuple(i.attributes["fft_length"])
        last = source.dimensions[-len(lengths) :]
        if last != lengths:
            fail(
                i, f"cannot be compiled: expected fft_length to be the operand's last dimensions, {last}, not {lengths}"
            )


def _verify_fusion(i: HloInstruction) -> None:
    """Check that a fusion has one operand per parameter; HLO's rules allow more."""
    fused = i.attributes["calls"]
    if len(fused.parameters) != len(i.operands):
        fail(
            i,
            f"cannot be compiled: expected an operand for each of {len(fused.parameters)} parameters of {fused.name}, "
            f"not {len(i.operands)}",
        )


def _verify_indexing(i: HloInstruction) -> None:
    """Check that gather or scatter indices do not address a batching dimension (StableHLO).

    There the position is the batch number.
    """
    batching, mapped = _INDEXED[i.opcode]
    both = set(i.ints(batching)) & set(i.ints(mapped))
    if both:
        fail(i, f"cannot be compiled: expected {mapped} without the {batching}, but both have {sorted(both)}")
    if i.opcode is HloOpcode.SCATTER:
        _verify_alike(i)
    if i.opcode is HloOpcode.GATHER and i.array_shape.element_count:
        sizes = i.ints("slice_sizes")
        if 0 in sizes:
            fail(
                i, f"cannot be compiled: slices of sizes {sizes} have no elements to gather, but {i.shape} is not empty"
            )


def _verify_alike(i: HloInstruction) -> None:
    """Check that a scatter's arrays have equal dimensions, and its updates too (StableHLO).

    One index addresses each of them.
    """
    count = len(i.operands) // 2
    for what, shapes in (("arrays", i.operands[:count]), ("updates", i.operands[count + 1 :])):
        found = sorted({o.array_shape.dimensions for o in shapes})
        if len(found) > 1:
            fail(
                i,
                f"cannot be compiled: expected {what} of the same dimensions, not {' and '.join(map(brackets, found))}",
            )


def _verify_product(i: HloInstruction) -> None:
    """Check that operands of dots and convolutions are stored plainly, not sparse or scaled."""
    for name in ("sparsity_config", "block_scaling_config"):
        if i.attributes.get(name):
            fail(i, f"cannot be compiled: unexpected {name}, by which an operand is stored in another form")


def _verify_top_k(i: HloInstruction) -> None:
    """Check that the elements are ordered."""
    kind = i.operands[0].array_shape.element_type
    if kind.is_complex:
        fail(i, f"cannot be compiled: expected real numbers, not unordered {kind.text}")


def _verify_broadcast(i: HloInstruction) -> None:
    """Check that a broadcast keeps the element type (XLA's verifier)."""
    given, taken = i.operands[0].array_shape.element_type, i.array_shape.element_type
    if given is not taken:
        fail(
            i,
            f"cannot be compiled: expected elements of {given.text}, as the operand has, not "
            f"{taken.text} (use convert)",
        )


def _verify_between_forms(i: HloInstruction) -> None:
    """Check SliceToDynamic and PadToStatic: an array and one size per dimension.

    They convert between arrays of dynamic size and arrays at their bounds.
    """
    target = i.get("custom_call_target")
    if target == "SliceToDynamic":
        array, sizes = i.shape, [o.shape for o in i.operands[1:]]
        whole = i.operands[0].shape if i.operands else i.shape
    elif target == "PadToStatic":
        parts = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
        array, sizes = parts[0] if parts else i.shape, list(parts[1:])
        whole = i.operands[0].shape if len(i.operands) == 1 else TupleShape(())
    else:
        return
    if not (isinstance(array, ArrayShape) and isinstance(whole, ArrayShape) and array.dimensions == whole.dimensions):
        fail(
            i,
            f"cannot be compiled: expected {target} to convert between an array of dynamic size and one at its bounds",
        )
    if len(sizes) != array.rank or not all(
        isinstance(s, ArrayShape) and s.is_array and not s.dimensions and s.element_type is PrimitiveType.S32
        for s in sizes
    ):
        shown = ", ".join(map(str, sizes)) or "none"
        fail(
            i,
            f"cannot be compiled: expected {target} to have an s32[] for the size of each of "
            f"{array.rank} dimensions, not {shown}",
        )


_INDEXED = {
    HloOpcode.GATHER: ("operand_batching_dims", "start_index_map"),
    HloOpcode.SCATTER: ("input_batching_dims", "scatter_dims_to_operand_dims"),
}


def _bits(shape: ArrayShape) -> int:
    return shape.element_count * shape.element_type.bits


EXECUTABLE_CHECKS: Mapping[HloOpcode, Check] = {
    HloOpcode.WHILE: _verify_loop,
    HloOpcode.BITCAST: _verify_bitcast,
    HloOpcode.FFT: _verify_transform,
    HloOpcode.SCAN: _verify_scan,
    HloOpcode.FUSION: _verify_fusion,
    HloOpcode.TOPK: _verify_top_k,
    HloOpcode.BROADCAST: _verify_broadcast,
    HloOpcode.CUSTOM_CALL: _verify_between_forms,
    HloOpcode.DOT: _verify_product,
    HloOpcode.CONVOLUTION: _verify_product,
    **dict.fromkeys(_INDEXED, _verify_indexing),
}
"""The checks by opcode; each raises HloVerifierError."""
