"""What XLA:GPU's emitters can fuse (xla/service/gpu/gpu_fusible.h)."""

from __future__ import annotations

from typing import Final

from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.backend_config import fusion_config
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.heroes import is_intermediate, roots_of
from xlanb.gpu.model.fusion_analysis import (
    TRITON_KIND,
    elements_in,
    find_hero,
    is_reshape_or_transpose_bitcast,
    tiled_transpose,
)
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.reductions import dimensions_of, is_real_reduction_hero, is_reduction_of_rows_or_columns
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.transforms.fusion.instruction_fusion import is_fusible as has_no_side_effect
from xlanb.transforms.layout.layout_normalization import is_bitcast_transpose

MAX_OPERANDS_AND_OUTPUTS: Final = 96
"""The maximum number of operands and results of a kernel: ptxas limits its parameters."""
MAX_REDUCTIONS: Final = 8
"""The maximum number of row or column reductions in one kernel: more need too many registers."""

_LOOP_FUSIBLE = frozenset(
    (O.BROADCAST, O.CONCATENATE, O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE, O.GATHER, O.PAD, O.REDUCE_WINDOW, O.RESHAPE,
     O.REVERSE, O.SLICE, O.TRANSPOSE)
)  # fmt: skip


def is_triton_fusion(i: HloInstruction) -> bool:
    """Whether it is a Triton fusion that others may be fused into."""
    return i.opcode is O.FUSION and i.get("kind") == "kCustom" and fusion_config(i).get("kind") == TRITON_KIND


def is_custom_fusion(i: HloInstruction) -> bool:
    """Whether it is a fusion of kind kCustom."""
    return i.opcode is O.FUSION and bool(i.get("kind") == "kCustom")


def is_loop_fusion(i: HloInstruction) -> bool:
    """Whether it is a fusion of kind kLoop."""
    return i.opcode is O.FUSION and bool(i.get("kind") == "kLoop")


def keeps_bit_width(i: HloInstruction) -> bool:
    """Whether a bitcast's elements are as wide as its operand's."""
    return (
        isinstance(i.shape, ArrayShape)
        and isinstance(i.operands[0].shape, ArrayShape)
        and i.shape.element_type.bits == i.operands[0].shape.element_type.bits
    )


def is_elementwise_gpu(i: HloInstruction) -> bool:
    """Whether element n of the result depends only on element n of the operands."""
    if i.opcode is O.FUSION:
        return all(f.opcode is O.PARAMETER or is_elementwise(f) for f in i.fused_computation)
    return is_elementwise(i)


# -- transposes and reductions ---------------------------------------------------------------------


def transposes_minor_dimension(i: HloInstruction) -> bool:
    """Whether it, or an instruction within it, changes the minormost dimension."""
    if i.opcode is O.FUSION:
        return any(map(transposes_minor_dimension, i.fused_computation))
    if i.opcode is O.COPY:
        given, made = i.operands[0].shape, i.shape
        if not isinstance(given, ArrayShape) or not isinstance(made, ArrayShape):
            return False
        return _minor(given)[0] != _minor(made)[0]
    if i.opcode is not O.TRANSPOSE:
        return False
    given = i.operands[0].array_shape
    place = {d: n for n, d in enumerate(given.minor_to_major)}
    for d in i.array_shape.minor_to_major:
        if i.array_shape.dimensions[d] != 1:
            return place[i.dimensions[d]] > _minor(given)[1]
    return False


def _minor(shape: ArrayShape) -> tuple[int, int]:
    """Return the minormost dimension longer than 1 and its position, or (-1, rank)."""
    for n, d in enumerate(shape.minor_to_major):
        if shape.dimensions[d] > 1:
            return d, n
    return -1, shape.rank


def is_physically_transposing(i: HloInstruction) -> bool:
    """Whether it, or an instruction within it, changes the order of elements in memory."""
    if i.opcode is O.FUSION and any(map(is_physically_transposing, i.fused_computation)):
        return True
    return i.opcode is O.COPY or (i.opcode is O.TRANSPOSE and not is_bitcast_transpose(i))


def is_input_fusible_reduction(i: HloInstruction) -> bool:
    """Whether it is a row or column reduction, or a fusion with one as a hero."""
    if i.opcode is not O.FUSION:
        return is_reduction_of_rows_or_columns(i)
    view = FusionView(i)
    return any(is_real_reduction_hero(root, find_hero(root, view)) for root in view.roots)


def is_input_fusible_transpose(i: HloInstruction) -> bool:
    """Whether it goes through shared memory as a transpose."""
    if i.opcode is O.BITCAST or is_custom_fusion(i):
        return False
    if i.opcode is not O.FUSION:
        return tiled_transpose(i) is not None
    view = FusionView(i)
    return any(tiled_transpose(find_hero(root, view)) is not None for root in view.roots)


def is_input_fusible_scatter(i: HloInstruction) -> bool:
    """Whether it is a scatter, or an input fusion with one as its root."""
    if i.opcode is O.FUSION:
        return i.fused_computation.root.opcode is O.SCATTER and bool(i.get("kind") == "kInput")
    return i.opcode is O.SCATTER


def is_input_fusible(i: HloInstruction) -> bool:
    """Whether its kernel iterates over an operand rather than the result."""
    return has_no_side_effect(i) and (
        is_input_fusible_reduction(i) or is_input_fusible_scatter(i) or is_input_fusible_transpose(i)
    )


def significant_reduction(i: HloInstruction) -> HloInstruction | None:
    """Return a reduction of at least 16 elements per result, itself or within it."""
    for n in FusionView(i).nodes():
        if n.opcode is O.REDUCE and isinstance(n.shape, ArrayShape):
            made = n.shape.element_count
            if made and elements_in(n.operands[0].shape) // made >= 16:
                return n
    return None


# -- objections ------------------------------------------------------------------------------------


def scatter_objection(producer: HloInstruction, consumer: HloInstruction) -> str:
    """Return why a scatter cannot be emitted in a fusion of both, or ""."""
    if is_input_fusible_scatter(producer):
        return f"{producer.name} is a scatter, which cannot be a producer"
    if not is_input_fusible_scatter(consumer):
        return ""
    target = consumer.operands[0]
    if consumer.opcode is O.FUSION:
        parameter = consumer.fused_computation.root.operands[0]
        target = consumer.operands[parameter.parameter_number]
    if target is producer:
        return f"{consumer.name} updates {producer.name} in place"
    return (
        f"{producer.name} reads {target.name}, which {consumer.name} updates in place"
        if (target in producer.operands)
        else ""
    )


def shared_memory(i: HloInstruction) -> int:
    """Return the bytes of shared memory for tiles of an instruction, or of all within a fusion."""
    if i.opcode is O.FUSION:
        return sum(map(shared_memory, i.fused_computation))
    if i.opcode is O.REDUCE:
        if not is_reduction_of_rows_or_columns(i):
            return 0
        widths = sum(o.array_shape.element_type.byte_size for o in i.operands[: len(i.operands) // 2])
        return 32 * widths * (1 if dimensions_of(i).is_row else 4 * 32 + 1)
    found = tiled_transpose(i)
    return found.shared_bytes if found is not None else 0


def reduction_count(i: HloInstruction) -> int:
    """Return the number of row or column reductions within it."""
    if i.opcode is O.FUSION:
        return sum(map(reduction_count, i.fused_computation))
    return int(is_reduction_of_rows_or_columns(i))


def parameter_objection(consumer: HloInstruction, producer: HloInstruction, *, is_consumer_producer: bool) -> str:
    """Return why the kernel of two instructions would have too many parameters, or ""."""
    outputs = _buffers(consumer.shape) + _buffers(producer.shape)
    if len(consumer.operands) + len(producer.operands) - 1 + outputs <= MAX_OPERANDS_AND_OUTPUTS:
        return ""
    operands = {*consumer.operands, *producer.operands} - {consumer, producer}
    if is_consumer_producer and len(operands) <= len(consumer.operands):
        return ""
    total = len(operands) + outputs
    if total <= MAX_OPERANDS_AND_OUTPUTS:
        return ""
    return f"{total} operands and results, of at most {MAX_OPERANDS_AND_OUTPUTS}"


def budget_objection(
    consumer: HloInstruction, producer: HloInstruction, device: GpuDevice, *, is_consumer_producer: bool = False
) -> str:
    """Return why two instructions do not fit one kernel's shared memory or parameters, or ""."""
    shared = shared_memory(consumer) + shared_memory(producer)
    limit = device.architecture.shared_memory_per_block
    if shared > limit:
        return f"{shared} bytes of shared memory, of {limit}"
    reductions = reduction_count(consumer) + reduction_count(producer)
    if reductions > MAX_REDUCTIONS:
        return f"{reductions} reductions, of at most {MAX_REDUCTIONS}"
    return parameter_objection(consumer, producer, is_consumer_producer=is_consumer_producer)


def _buffers(shape: Shape) -> int:
    """Return the number of buffers of a shape, including tuple tables."""
    return 1 + sum(map(_buffers, shape.shapes)) if isinstance(shape, TupleShape) else 1


# -- multi-output fusion ---------------------------------------------------------------------------


def is_loop_fusible_as_producer(i: HloInstruction) -> bool:
    """Whether a loop can compute it element by element for its user."""
    if not has_no_side_effect(i):
        return False
    if i.opcode in (O.IOTA, O.CONSTANT):
        return True
    if i.opcode is O.REDUCE:
        return isinstance(i.shape, ArrayShape)
    if i.opcode is O.COPY:
        return tiled_transpose(i) is None
    if is_elementwise_gpu(i) and i.operands:
        return True
    if i.opcode is O.FUSION:
        return is_loop_fusion(i)
    return keeps_bit_width(i) if i.opcode is O.BITCAST else i.opcode in _LOOP_FUSIBLE


def is_multi_output_root(i: HloInstruction) -> bool:
    """Whether it can be one of a kernel's results."""
    return (
        has_no_side_effect(i)
        and not is_custom_fusion(i)
        and (
            is_input_fusible_reduction(i) or is_input_fusible_transpose(i) or is_loop_fusion(i) or is_elementwise_gpu(i)
        )
    )


def deciding_hero(i: HloInstruction) -> HloInstruction:
    """Return the hero that decides an instruction's loop, a reduction or tiled transpose if any."""
    if i.opcode is not O.FUSION:
        return i
    view = FusionView(i)
    results = roots_of(i)
    for root in results:
        hero = find_hero(root, view)
        if is_real_reduction_hero(root, hero) or tiled_transpose(hero) is not None:
            return hero
    return results[0]


def heroes_objection(a: HloInstruction, b: HloInstruction) -> str:
    """Return why two heroes cannot share a kernel, or ""."""
    reduces_a, reduces_b = is_reduction_of_rows_or_columns(a), is_reduction_of_rows_or_columns(b)
    tiled_a, tiled_b = tiled_transpose(a), tiled_transpose(b)
    if reduces_a and reduces_b and dimensions_of(a) != dimensions_of(b):
        return f"{a.name} and {b.name} reduce different shapes"
    if tiled_a is not None and tiled_b is not None and not tiled_a.is_equivalent(tiled_b):
        return f"{a.name} and {b.name} transpose different shapes"
    for nested, other, tiled in ((a, b, tiled_a), (b, a, tiled_b)):
        is_nested = nested.opcode is O.TRANSPOSE and tiled is None
        if is_nested and (tiled_transpose(other) is not None or is_reduction_of_rows_or_columns(other)):
            return f"{nested.name} transposes in a loop, {other.name} reads tiles"
    if (tiled_a is not None and reduces_b) or (reduces_a and tiled_b is not None):
        return f"one of {a.name} and {b.name} transposes, the other reduces"
    return ""


def _untiled(above: HloInstruction, below: HloInstruction, hero: HloInstruction) -> str:
    """Return why a fusion's tiled transpose would not be tiled in its user's loop, or ""."""
    if tiled_transpose(hero) is None or above.opcode is not O.FUSION or below.opcode is not O.FUSION:
        return ""
    if above not in below.operands:
        return ""
    i = below.fused_computation.parameters[below.operands.index(above)]
    while i.users:
        if i.user_count != 1 or (i.opcode is not O.PARAMETER and not is_intermediate(i)):
            return f"{below.name} is not elementwise in {above.name}"
        i = i.users[0]
    return ""


def loop_objection(a: HloInstruction, b: HloInstruction) -> str:
    """Return why two instructions have no common loop for one kernel with both results, or ""."""
    hero_a, hero_b = deciding_hero(a), deciding_hero(b)
    found = heroes_objection(hero_a, hero_b) or _untiled(a, b, hero_a) or _untiled(b, a, hero_b)
    if found:
        return found
    loop_a, loop_b = _loop_shape(a, hero_a), _loop_shape(b, hero_b)
    if loop_a == loop_b or is_reshape_or_transpose_bitcast(loop_a, loop_b):
        return ""
    return f"loops over {loop_a} and {loop_b}"


def _loop_shape(owner: HloInstruction, hero: HloInstruction) -> Shape:
    """Return the shape that a hero's kernel iterates over."""
    inner = find_hero(hero, FusionView(owner)) if owner.opcode is O.FUSION else hero
    if is_reduction_of_rows_or_columns(hero) or tiled_transpose(inner) is not None:
        return inner.operands[0].shape
    return hero.shape


def producer_objection(producer: HloInstruction, *, is_in_place: bool) -> str:
    """Return why a producer's result cannot be added to its user's fusion, or ""."""
    if producer.opcode is O.FUSION and isinstance(producer.shape, TupleShape):
        return f"{producer.name} already has several results"
    if is_in_place:
        return f"{producer.name} updates an operand in place"
    if not is_loop_fusible_as_producer(producer):
        return f"{producer.name} cannot be computed elementwise"
    return f"{producer.name} changes the order of elements" if is_physically_transposing(producer) else ""
