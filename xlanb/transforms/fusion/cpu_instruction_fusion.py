"""Fuse elementwise instructions and data movement into one loop.

    m = f32[8] multiply(a, b)
    ROOT r = f32[8] add(m, c)
      =>  fusion(c, a, b), kind=kLoop, calls={
            m = multiply(p1, p2), ROOT r = add(m, p0) }

CONDITIONS lists the conditions in the order in which they are checked; all must hold.
Source: xla/service/cpu/cpu_instruction_fusion.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import BY_TEXT
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion import in_place
from xlanb.transforms.fusion.fusion_indexing import ALLOWED_CODE_DUPLICATION, opens_block
from xlanb.transforms.fusion.fusion_loops import LOOP_CONDITIONS
from xlanb.transforms.fusion.instruction_fusion import (
    FusionEdge,
    FusionPolicy,
    is_always_duplicable,
    is_effective_scalar,
    is_reduced_too,
    one_user,
    run_fusion,
)
from xlanb.transforms.fusion.stored_operands import STORED_CONDITIONS
from xlanb.wording import counted

_LOOP_FUSIBLE = frozenset(
    (
        O.BITCAST,
        O.BROADCAST,
        O.CONCATENATE,
        O.DYNAMIC_SLICE,
        O.DYNAMIC_UPDATE_SLICE,
        O.GATHER,
        O.IOTA,
        O.PAD,
        O.REDUCE,
        O.RESHAPE,
        O.REVERSE,
        O.SLICE,
        O.TRANSPOSE,
    )
)
_CHEAP = frozenset(
    BY_TEXT[text]
    for text in (
        "add and bitcast bitcast-convert broadcast ceil clamp count-leading-zeros compare complex "
        "concatenate constant copy copy-done copy-start dynamic-reshape dynamic-slice "
        "dynamic-update-slice floor get-tuple-element imag infeed iota is-finite maximum minimum "
        "multiply mulhi negate not opt-barrier or outfeed pad partition-id popcnt real "
        "reduce-precision replica-id reshape reverse round-nearest-afz round-nearest-even select "
        "shift-left shift-right-arithmetic shift-right-logical shuffle slice stochastic-convert "
        "subtract transpose tuple xor"
    ).split()
)
_CHEAP_FOR_REALS = frozenset((O.ABS, O.SIGN, O.COSINE, O.SINE, O.TAN))

_SMALL_OPERAND_BYTES = 16 * 1024
_CACHED_BYTES = 256 * 1024
_MAX_CONCATENATED = 8
_MAX_REDUCTIONS = 6
_MAX_ARRAYS = 2
"""Arrays that a fusion with duplicates may read; with more, it is faster to read the original."""
_COPIED_ROW = 128
_COPIED_ROW_BYTES = 64
_COPIED_BYTES = 2048
_NARROW = 4
"""Pieces of a row with fewer elements on average do not vectorize.

They are computed separately and copied.
"""


@dataclass(frozen=True)
class CpuInstructionFusion(HloPass):
    """Fuses producers into consumers; CONDITIONS say which.

    Attributes:
        materialize_shifted_exponents: compute the x of exp(x - max(x)) only once, as newer XLA
            does; jax 0.10's XLA duplicates it.
        max_copies: the maximum number of instructions in one fusion that a reduction also reads.
            None: any number, as in XLA; then n steps x = x - sum(x) become n fusions of up to n
            steps each. The limit is four times as large for arrays that exceed a core's cache,
            since computing them is cheaper than reading them. A fusion that reads three such
            arrays gets no further duplicates: in a chain of residuals and normalizations each would
            add an array.
        rows_by_bytes: see `copies_rows`.
        separate_loops: don't fuse what one loop nest cannot vectorize together (see fusion_loops);
            XLA does fuse it.
        reads_stored: don't recompute what a product reads from memory (see stored_operands); XLA
            does.
        forced: pairs of names, producer and consumer, that are fused if possible even if it does
            not pay.
    """

    name = "fusion"
    materialize_shifted_exponents: bool = False
    max_copies: int | None = None
    cuts_rows: bool = False
    rows_by_bytes: bool = False
    separate_loops: bool = False
    reads_stored: bool = False
    forced: tuple[tuple[str, str], ...] = ()

    def apply(self, module: HloModule) -> None:
        limit = () if self.max_copies is None else (_few_copies(self.max_copies),)
        own = (LOOP_CONDITIONS if self.separate_loops else ()) + (STORED_CONDITIONS if self.reads_stored else ())
        rows = _NO_SHORT_COPIED_ROWS if self.rows_by_bytes else _NO_COPIED_ROWS
        rows = _NO_NARROW_PIECES if self.cuts_rows else rows
        conditions = [rows if c is _NO_COPIED_ROWS else c for c in CONDITIONS]
        policy = _CpuPolicy(self.materialize_shifted_exponents, (*conditions, *own, *limit))
        run_fusion(module, policy, frozenset(self.forced))


@dataclass(frozen=True)
class _CpuPolicy(FusionPolicy):
    materialize_shifted_exponents: bool
    loop_conditions: tuple[Condition[FusionEdge], ...]

    def conditions(self, edge: FusionEdge) -> Sequence[Condition[FusionEdge]]:
        return _OUTPUT_CONDITIONS if can_be_output_fused(edge.producer, edge.consumer) else self.loop_conditions

    def kind(self, edge: FusionEdge) -> str:
        return "kOutput" if can_be_output_fused(edge.producer, edge.consumer) else "kLoop"

    def is_expensive(self, i: HloInstruction) -> bool:
        return is_expensive(i)

    def must_materialize(self, i: HloInstruction) -> bool:
        return self.materialize_shifted_exponents and feeds_shifted_exponential(i)

    def skipped(self, module: HloModule) -> set[HloComputation]:
        """Computations without fusion, since the loops that contain them inline their bodies.

        These are bodies of custom fusions and custom calls, and computations applied per element.
        """
        skipped: set[HloComputation] = set()
        for i in module.instructions():
            if i.opcode in (O.SCATTER, O.CUSTOM_CALL) or i.opcode in _APPLIES_INSIDE_LOOPS:
                skipped.update(i.called_computations)
        return skipped


_APPLIES_INSIDE_LOOPS = frozenset(
    (O.REDUCE, O.REDUCE_WINDOW, O.MAP, O.SELECT_AND_SCATTER, O.SORT, O.ALL_REDUCE, O.REDUCE_SCATTER, O.SCAN)
)


# -- facts about instructions ----------------------------------------------------------------------


def is_expensive(i: HloInstruction) -> bool:
    """Whether the CPU takes longer to compute an element than to load it."""
    if i.opcode in _CHEAP:
        return False
    if i.opcode in _CHEAP_FOR_REALS:
        return i.operands[0].shape.element_type.is_complex
    if i.opcode is O.CONVERT:
        # A convert to bf16 takes several tests for NaN; one from bf16 is a shift.
        return i.shape.element_type is PrimitiveType.BF16 and i.operands[0].shape.element_type is PrimitiveType.F32
    if i.opcode in (O.DIVIDE, O.REMAINDER):
        # An integer division by a constant becomes a multiplication and a shift.
        return not (i.shape.element_type.is_integral and _is_scalar_constant(i.operands[1]))
    return True


def _is_scalar_constant(i: HloInstruction) -> bool:
    i = i.operands[0] if i.opcode is O.BROADCAST else i
    return i.opcode is O.CONSTANT and is_effective_scalar(i.shape)


def can_be_loop_fused(i: HloInstruction) -> bool:
    """Whether the loop emitter can compute one element of it."""
    return i.opcode in _LOOP_FUSIBLE or is_elementwise(i)


def can_be_output_fused(producer: HloInstruction, consumer: HloInstruction) -> bool:
    """Whether the producer is a matrix-vector product whose only user is the add `consumer`."""
    if consumer.opcode is not O.ADD or producer.opcode is not O.DOT or producer.shape.element_type.is_complex:
        return False
    if producer.array_shape.rank > 1 or producer.ints("lhs_batch_dims"):
        return False
    return producer.users == (consumer,) and consumer.operands.count(producer) == 1


def feeds_shifted_exponential(i: HloInstruction) -> bool:
    """Whether it is the x of exp(x - max(x)).

    If x is computed twice with different rounding, the difference could exceed 0 and exp overflow.
    """
    if i.opcode is O.FUSION or not is_elementwise(i):
        return False
    for r in i.users:
        if r.opcode is O.REDUCE and r.operands[0] is i and r.to_apply.root.opcode is O.MAXIMUM:
            return any(_is_shift_before_exponential(u, i, r) for u in i.users)
    return False


def _is_shift_before_exponential(subtract: HloInstruction, x: HloInstruction, reduce: HloInstruction) -> bool:
    if subtract.opcode is not O.SUBTRACT or x not in subtract.operands:
        return False
    if not any(o.opcode is O.BROADCAST and o.operands[0] is reduce for o in subtract.operands):
        return False
    return any(u.opcode is O.EXPONENTIAL for u in subtract.users)


def copies_rows(i: HloInstruction, *, by_bytes: bool) -> bool:
    """Whether XLA:CPU copies the rows of a concatenation as blocks.

    It does so for rows of at least 128 elements, as in JAX 0.10.2. With `by_bytes`, as in 0.12, for
    rows of at least 64 bytes if the result has at least 2 kB.
    """
    if i.opcode is not O.CONCATENATE or i.array_shape.rank <= 1:
        return False
    s, d = i.array_shape, i.dimensions[0]
    if d != s.minor_to_major[0]:
        return False
    if not by_bytes:
        return s.dimensions[d] >= _COPIED_ROW
    return s.dimensions[d] * s.element_type.byte_size >= _COPIED_ROW_BYTES and s.byte_size >= _COPIED_BYTES


def _is_awkward_concatenate(i: HloInstruction) -> bool:
    return i.opcode is O.CONCATENATE and (len(i.operands) > _MAX_CONCATENATED or copies_rows(i, by_bytes=False))


def _is_awkward_by_bytes(i: HloInstruction) -> bool:
    return i.opcode is O.CONCATENATE and (len(i.operands) > _MAX_CONCATENATED or copies_rows(i, by_bytes=True))


def _has_narrow_pieces(i: HloInstruction) -> bool:
    if not _is_awkward_by_bytes(i):
        return False
    return i.array_shape.dimensions[i.dimensions[0]] < _NARROW * len(i.operands) or len(i.operands) > _MAX_CONCATENATED


# -- the conditions: whether each holds, and its value in words ------------------------------------


def _awaited(e: FusionEdge) -> list[str]:
    if e.producer.opcode is not O.ADD:  # only an add can absorb a product
        return []
    return [o.name for o in e.producer.operands if o.opcode is O.DOT and can_be_output_fused(o, e.producer)]


def _no_concatenate(is_awkward: Callable[[HloInstruction], bool]) -> Condition[FusionEdge]:
    return Condition(
        "not a concatenation that is cheaper to copy",
        lambda e: not is_awkward(e.producer) and not is_awkward(e.consumer),
        lambda e: ", ".join(i.name for i in (e.producer, e.consumer) if is_awkward(i)) or "none",
        lambda e: f"concatenate at most {_MAX_CONCATENATED} operands, along shorter rows: {_awkward(e, is_awkward)}",
        may_fail=lambda p, c: O.CONCATENATE in (p, c),
        value_if_holds="none",
    )


def _awkward(e: FusionEdge, is_awkward: Callable[[HloInstruction], bool]) -> str:
    found = [i for i in (e.producer, e.consumer) if is_awkward(i)]
    return ", ".join(f"`{i.name}` has {counted(len(i.operands), 'piece')} along {i.shape}" for i in found)


_NO_COPIED_ROWS = _no_concatenate(_is_awkward_concatenate)
_NO_SHORT_COPIED_ROWS = _no_concatenate(_is_awkward_by_bytes)
_NO_NARROW_PIECES = _no_concatenate(_has_narrow_pieces)


def _profitable(e: FusionEdge) -> bool:
    expensive = e.producer.opcode is not O.FUSION and is_expensive(e.producer)
    return not (expensive and e.producer in e.run.reused(e.consumer))


_IS_CHEAP = "producer cheap"


def _uses(e: FusionEdge) -> str:
    if e.producer.opcode is O.FUSION or not is_expensive(e.producer):
        return _IS_CHEAP
    return "producer expensive" + (", its elements reused" if e.producer in e.run.reused(e.consumer) else "")


def _cheap(producer: O, _: O) -> str | None:
    return _IS_CHEAP if producer in _CHEAP else None


def _may_be_expensive(producer: O, _: O) -> bool:
    return producer not in _CHEAP


def _no_expensive_duplicate(e: FusionEdge) -> bool:
    return e.producer.user_count == 1 or not is_expensive(e.producer) or is_always_duplicable(e.producer)


def _few_reductions(e: FusionEdge) -> bool:
    counts = e.producer.opcode is O.REDUCE and e.consumer.opcode is O.FUSION
    return not counts or e.run.reductions(e.consumer) < _MAX_REDUCTIONS


def _code_stays_small(e: FusionEdge) -> bool:
    return e.consumer.opcode is not O.FUSION or not e.run.evaluation(e.consumer).code_duplication_too_high(e.producer)


@lru_cache(maxsize=64)
def _times(emitted: int) -> str:
    return f"emitted {counted(emitted, 'time')}, at most {ALLOWED_CODE_DUPLICATION}"


def _is_emitted_too_often(e: FusionEdge) -> bool:
    """Whether the consumer, as a fusion, already emits the producer too often.

    Growing the fusion further never reduces that.
    """
    return e.consumer.opcode is O.FUSION and e.run.evaluation(e.consumer).emitted_too_often(e.producer)


def _feeds_small_product(e: FusionEdge) -> bool:
    """Whether the consumer is a matrix-vector product whose vector is small enough to reread."""
    c = e.consumer
    if c.opcode is not O.DOT or c.array_shape.rank > 1 or e.index > 1:
        return False
    vector = c.operands[1 - e.index]
    return vector.array_shape.rank == 1 and vector.shape.byte_size < _SMALL_OPERAND_BYTES


def _consumer_takes_it(e: FusionEdge) -> bool:
    c = e.consumer
    if c.opcode is O.FUSION:
        return bool(c.get("kind") == "kLoop")
    return can_be_loop_fused(c) or _feeds_small_product(e)


def _taker(e: FusionEdge) -> str:
    if e.consumer.opcode is O.FUSION:
        return f"fusion of kind {e.consumer.get('kind')}"
    return "small matrix-vector product" if _feeds_small_product(e) else e.consumer.opcode.text


def _few_copies(limit: int) -> Condition[FusionEdge]:
    """Limit the instructions in a fusion that are copies of ones a reduction also reads."""

    def allowed(e: FusionEdge) -> int:
        return limit if e.producer.shape.byte_size <= _CACHED_BYTES else 4 * limit

    def holds(e: FusionEdge) -> bool:
        copies = e.run.copies(e.consumer)
        return copies < allowed(e) and (copies == 0 or _arrays(e) <= _MAX_ARRAYS)

    return Condition(
        "few of a fusion's instructions are duplicated into a reduction",
        lambda e: not is_reduced_too(e.producer) or holds(e),
        lambda e: (
            f"{e.run.copies(e.consumer)} duplicates inside, at most {allowed(e)}; {counted(_arrays(e), 'array')} "
            f"of this size read, at most {_MAX_ARRAYS} if there are duplicates"
            if is_reduced_too(e.producer)
            else "no reduction reads the producer too"
        ),
        one_user,
    )


def _arrays(e: FusionEdge) -> int:
    """The number of arrays that the consumer reads that are at least as large as the producer."""
    size = e.producer.shape.byte_size
    return sum(o.shape.byte_size >= size for o in e.consumer.operands)


CONDITIONS: tuple[Condition[FusionEdge], ...] = (
    Condition(
        "producer is not an array constant",
        lambda e: e.producer.opcode is not O.CONSTANT or is_effective_scalar(e.producer.shape),
        lambda e: f"{e.producer.opcode.text} {e.producer.shape}",
        lasting=True,
        is_required=True,
        may_fail=lambda p, _: p is O.CONSTANT,
    ),
    Condition(
        "producer has no pending output fusion of its own",
        lambda e: not _awaited(e),
        lambda e: ", ".join(_awaited(e)) or "it is not the addition to a matrix-vector product",
        may_fail=lambda p, _: p is O.ADD,
        value_if_holds="it is not the addition to a matrix-vector product",
    ),
    Condition(
        "producer is loop-fusible",
        lambda e: can_be_loop_fused(e.producer),
        lambda e: e.producer.opcode.text,
        lasting=True,
        is_required=True,
        value_if_holds=lambda p, _: p.text,
    ),
    _NO_COPIED_ROWS,
    Condition(
        "producer is cheap, or its elements are used once",
        _profitable,
        _uses,
        lambda e: f"use each element of `{e.producer.name}` only once in `{e.consumer.name}`",
        final=lambda _: True,
        may_fail=_may_be_expensive,
        value_if_holds=_cheap,
    ),
    Condition(
        "producer is not the root",
        lambda e: not e.producer.is_root,
        lambda e: f"the root is {e.producer.parent.root.name}",
        lambda e: f"do not return `{e.producer.name}`: results are always stored",
        is_required=True,
    ),
    Condition(
        "no expensive producer is duplicated",
        _no_expensive_duplicate,
        lambda e: f"{counted(e.producer.user_count, 'user')}, expensive" if is_expensive(e.producer) else _IS_CHEAP,
        one_user,
        may_fail=_may_be_expensive,
        value_if_holds=_cheap,
    ),
    Condition(
        "no conflict with an in-place update",
        lambda e: in_place.conflict(e.producer, e.consumer) is None,
        lambda e: in_place.conflict(e.producer, e.consumer) or "none",
        is_required=True,
        may_fail=lambda _, c: in_place.may_update(c),
        value_if_holds="none",
    ),
    Condition(
        "not too many reductions in one fusion",
        _few_reductions,
        lambda e: (
            f"{e.run.reductions(e.consumer) if e.consumer.opcode is O.FUSION else 0} inside, at most {_MAX_REDUCTIONS}"
            if e.producer.opcode is O.REDUCE
            else "the producer is none"
        ),
        lambda e: f"use fewer reductions in `{e.consumer.name}`",
        final=lambda _: True,
        may_fail=lambda p, c: p is O.REDUCE and c is O.FUSION,
        value_if_holds=lambda p, _: None if p is O.REDUCE else "the producer is none",
    ),
    Condition(
        "not only constants to fuse",
        lambda e: e.producer.opcode is not O.CONSTANT or e.consumer.opcode is O.FUSION,
        lambda e: f"{e.producer.opcode.text} into {e.consumer.opcode.text}",
        is_required=True,
        may_fail=lambda p, c: p is O.CONSTANT and c is not O.FUSION,
        value_if_holds=lambda p, c: f"{p.text} into {c.text}",
    ),
    Condition(
        "producer is not a fusion itself",
        lambda e: e.producer.opcode is not O.FUSION,
        lambda e: e.producer.opcode.text,
        lasting=True,
        is_required=True,
        may_fail=lambda p, _: p is O.FUSION,
        value_if_holds=lambda p, _: p.text,
    ),
    Condition(
        "code duplication is low",
        _code_stays_small,
        lambda e: _times(e.run.evaluation(e.consumer).emitted(e.producer) if e.consumer.opcode is O.FUSION else 1),
        lambda e: f"use `{e.producer.name}` in fewer places of `{e.consumer.name}`",
        final=_is_emitted_too_often,
        final_while_shared=lambda e: e.consumer.opcode is O.FUSION and opens_block(e.producer),
        may_fail=lambda p, c: c is O.FUSION and p is not O.BROADCAST,
        value_if_holds=lambda _, c: None if c is O.FUSION else _times(1),
    ),
    Condition(
        "consumer is loop-fusible, a loop fusion or a small matrix-vector product",
        _consumer_takes_it,
        _taker,
        is_required=True,
        may_fail=lambda _, c: c not in _LOOP_FUSIBLE and not c.is_elementwise,
        value_if_holds=lambda _, c: None if c in (O.FUSION, O.DOT) else c.text,
    ),
)
_OUTPUT_CONDITIONS: tuple[Condition[FusionEdge], ...] = (
    CONDITIONS[0],
    Condition(
        "matrix-vector product whose only use is an addition",
        lambda e: can_be_output_fused(e.producer, e.consumer),
        lambda e: f"{e.producer.opcode} {e.producer.shape} into {e.consumer.opcode}",
        is_required=True,
    ),
)


def required_conditions() -> frozenset[str]:
    """The names of the conditions without which an edge cannot be fused at all."""
    return frozenset(c.name for c in (*CONDITIONS, *_OUTPUT_CONDITIONS) if c.is_required)
