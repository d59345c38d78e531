"""Operations among replicas and partitions."""

from __future__ import annotations

from typing import Any

from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, rule
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import array, tuple_of

_O = HloOpcode


def _rows(s: RegionScope, op: StablehloOperation, name: str) -> list[list[int]]:
    value = op.attributes.get(name)
    if not isinstance(value, Elements) or len(value.dimensions) != 2 or value.full().size > 2**20:
        s.fail(op, f"expected a matrix as '{name}'")
    rows: list[list[int]] = value.full().tolist()
    return rows


def _groups(s: RegionScope, op: StablehloOperation) -> str:
    """XLA's text of the groups; a row is filled up with -1."""
    if not isinstance(op.attributes.get("replica_groups"), Elements):
        s.refuse(op, "expected replica_groups as a matrix of numbers")
    rows = [[d for d in row if d >= 0] for row in _rows(s, op, "replica_groups")]
    return "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows if row) + "}"


def _named(s: RegionScope, op: StablehloOperation, *, ids: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"channel_id": s.channel(op), "replica_groups": _groups(s, op)}
    if ids:
        found["use_global_device_ids"] = s.flag(op, "use_global_device_ids") or None
    return found


@rule("stablehlo.all_reduce")
def _all_reduce(s: RegionScope, op: StablehloOperation) -> Instructions:
    operands = s.operands(op)
    reducer = s.reducer(op, 0, 1)
    for n, x in enumerate(operands):
        _check_promotion(s, op, x, reducer, n)
    made = s.instruction(_O.ALL_REDUCE, operands, **_named(s, op), to_apply=reducer)
    return s.unpacked(made, op)


@rule("stablehlo.cross-replica-sum")
def _cross_replica_sum(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    add = s.b.region(_O.ADD, [x.array_shape.element_type])
    return s.instruction(_O.ALL_REDUCE, (x,), replica_groups=_groups(s, op), to_apply=add)


@rule("stablehlo.all_gather")
def _all_gather(s: RegionScope, op: StablehloOperation) -> Instructions:
    operands = s.operands(op)
    shapes = [s.result_shape(op, n) for n in range(len(op.results))]
    made = s.instruction(
        _O.ALL_GATHER,
        operands,
        shapes[0] if len(shapes) == 1 else tuple_of(shapes),
        **_named(s, op),
        dimensions=(s.integer(op, "all_gather_dim"),),
    )
    return s.unpacked(made, op)


@rule("stablehlo.reduce_scatter")
def _reduce_scatter(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    reducer = s.reducer(op, 0, 1)
    _check_promotion(s, op, x, reducer, 0)
    return s.instruction(
        _O.REDUCE_SCATTER,
        (x,),
        s.result_shape(op),
        **_named(s, op),
        dimensions=(s.integer(op, "scatter_dimension"),),
        to_apply=reducer,
    )


def _check_promotion(
    s: RegionScope, op: StablehloOperation, x: HloInstruction, reducer: HloComputation, number: int
) -> None:
    """The region reduces in the element type of the result, and scalars."""
    given, made = x.array_shape.element_type, reducer.root.shape
    result = s.result_element(op, number)
    if not isinstance(made, ArrayShape) or made.dimensions or made.element_type is not result:
        s.fail(op, f"expected a region that returns {result}[], the result's element type, not {made}")
    same_kind = given.is_floating == result.is_floating and given.is_complex == result.is_complex
    if not same_kind or given.bits > result.bits:
        s.fail(op, f"expected a region with a type to which {given} can be promoted, got {result}")


@rule("stablehlo.all_to_all")
def _all_to_all(s: RegionScope, op: StablehloOperation) -> Instructions:
    return [_exchanged(s, op, x, n) for n, x in enumerate(s.operands(op))]


def _exchanged(s: RegionScope, op: StablehloOperation, x: HloInstruction, number: int) -> HloInstruction:
    """Split and join along two dimensions like XlaBuilder, by a temporary dimension for the
    pieces.
    """
    named = _named(s, op, ids=False)
    split, concat, count = (s.integer(op, n) for n in ("split_dimension", "concat_dimension", "split_count"))
    sizes = x.array_shape.dimensions
    if not (0 <= split < len(sizes) and 0 <= concat < len(sizes)) or count < 1 or sizes[split] % count:
        s.fail(op, f"cannot split dimension {split} of {x.shape.text(layout=False)} into {count} pieces")
    if split == concat:
        return s.instruction(_O.ALL_TO_ALL, (x,), x.shape, **named, dimensions=(split,))
    pieces = s.b.reshape(x, [*sizes[:split], count, sizes[split] // count, *sizes[split + 1 :]])
    made = s.instruction(_O.ALL_TO_ALL, (pieces,), pieces.shape, **named, dimensions=(split,))
    rest = [d for d in range(len(sizes) + 1) if d != split]
    rest.insert(concat, split)
    return s.b.reshape(s.b.transpose(made, rest), s.result_shape(op, number).dimensions)


@rule("stablehlo.collective_permute")
def _collective_permute(s: RegionScope, op: StablehloOperation) -> Instructions:
    rows = _rows(s, op, "source_target_pairs")
    if any(len(row) != 2 for row in rows):
        s.fail(op, "expected pairs as 'source_target_pairs'")
    pairs = tuple((int(a), int(b)) for a, b in rows)
    made = s.instruction(_O.COLLECTIVE_PERMUTE, s.operands(op), channel_id=s.channel(op), source_target_pairs=pairs)
    return s.unpacked(made, op)


@rule("stablehlo.collective_broadcast")
def _collective_broadcast(s: RegionScope, op: StablehloOperation) -> Instructions:
    rooted = s.flag(op, "has_dynamic_root") or None
    made = s.instruction(_O.COLLECTIVE_BROADCAST, s.operands(op), **_named(s, op, ids=False), has_dynamic_root=rooted)
    return s.unpacked(made, op)


@rule("stablehlo.replica_id")
def _replica_id(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.instruction(_O.REPLICA_ID, (), array(PrimitiveType.U32))


@rule("stablehlo.partition_id")
def _partition_id(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.instruction(_O.PARTITION_ID, (), array(PrimitiveType.U32))
