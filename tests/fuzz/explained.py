"""Results in which compiled code and interpreter may differ, by kinds of single instructions.

    which(module, noted, has_extremes=False) -> [kind or "" of every leaf of the result]

A result may differ only if it depends on an instruction of a kind below; the module's other results
are compared.

    state                     random numbers, and values from a host or another device
    context                   the number of an asynchronous instruction that has not ended: u32[]
                              of its tuple
    fold without an order     XLA applies a reducer in any order: one of two operands that is not
                              associative (it is only in one type), or of several values
    fold over padding         of a dynamic dimension, with an initial value that is not the
    reducer's
                              identity: XLA fills what is beyond the size with that value
    fold over devices         with an initial value that is not the reducer's identity: in XLA's
                              partitioned programs each device's part begins with it
    sort without an order     the comparator is no `<` or `>` of one key in one type, or several
                              arrays follow keys that may be equal and the sort is not stable
    comparison with NaN       a sort by `<` or `>`, or the maximum, of floats of which some may be
                              NaN: its sign, which arithmetic does not define, determines its place
    algorithm over infinities an FFT, a solve or a decomposition with infinite or NaN elements: its
                              order of operations determines which results are
    decomposition             vectors may have another sign, or for multiple eigenvalues be any
                              others of their space
    singular system           of a triangular matrix with 0 on its diagonal: only finite elements
                              are compared (`singular`)
    failed factorization      a Cholesky factorization with a pivot that was not positive, or 0 up
    to
                              rounding: the columns from it on
    order of a sum or product it depends on the order: of a narrow type, each step of which rounds,
    or
                              if a step overflows or underflows (so that also log(exp(x)),
                              exp(x) * exp(y), ... differ from the simplifier's result)
    pivot by rounding         an LU factorization in which several elements equal the pivot up to
                              rounding
    complex infinity by one   XLA's simplifier drops factors, divisors and exponents of 1; if
                              multiplied, an infinite part makes the other one NaN
    predicate as a factor     XLA's simplifier selects 0 where the predicate is false; if
    multiplied,
                              an infinity or NaN gives NaN
    unknown custom call       compiled code always rejects it; the interpreter only if its value is
                              needed
    decision on a rounded     a comparison, a floor, a conversion, ... of a value that is rounded
    more
                              than once
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tests.fuzz.conditioning import DECOMPOSITIONS, FUNCTIONS
from tests.fuzz.reference import Noted
from xlanb.evaluator.folding import monoid
from xlanb.hlo import HloInstruction, HloModule
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.devices import is_per_device
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType

_STATEFUL = {Op.RNG, Op.RNG_GET_AND_UPDATE_STATE, Op.INFEED, Op.RECV, Op.RECV_DONE, Op.RNG_BIT_GENERATOR}
_UP_TO_A_FACTOR = re.compile(r"lapack_[sdcz](gesdd|gesvd|syevd|heevd|geev|gees)_ffi")
_FOLDS = {Op.REDUCE, Op.REDUCE_WINDOW, Op.SCATTER, Op.SELECT_AND_SCATTER, Op.SCAN, Op.ALL_REDUCE, Op.REDUCE_SCATTER}
_ASSOCIATIVE = {Op.ADD, Op.MULTIPLY, Op.MINIMUM, Op.MAXIMUM, Op.AND, Op.OR, Op.XOR}
ROUGH = FUNCTIONS | DECOMPOSITIONS
"""Opcodes whose results are rounded more than once."""
_SHARP = {
    Op.COMPARE, Op.FLOOR, Op.CEIL, Op.SIGN, Op.ROUND_NEAREST_AFZ, Op.ROUND_NEAREST_EVEN, Op.SORT, Op.TOPK,
    Op.BITCAST_CONVERT, Op.IS_FINITE, Op.REMAINDER,
    Op.REDUCE_PRECISION, Op.STOCHASTIC_CONVERT, Op.SELECT_AND_SCATTER, Op.BITCAST, Op.CONVERT, Op.CLAMP, Op.MAXIMUM,
    Op.MINIMUM,
}  # fmt: skip


def _state(i: HloInstruction) -> bool:
    return i.opcode in _STATEFUL


def _fold(i: HloInstruction) -> bool:
    return i.opcode in _FOLDS and not all(_is_associative(c) for c in i.called_computations)


def _padded_fold(i: HloInstruction) -> bool:
    if i.opcode not in (Op.REDUCE, Op.REDUCE_WINDOW):
        return False
    operands = i.operands[: len(i.operands) // 2]
    return any(o.array_shape.is_dynamic for o in operands) and not _starts_from_identity(i)


def _split_fold(i: HloInstruction) -> bool:
    module = i.parent.module
    is_split = int(module.header.get("num_partitions") or 1) > 1 and not is_per_device(module)
    return i.opcode is Op.REDUCE and is_split and not _starts_from_identity(i)


def _starts_from_identity(fold: HloInstruction) -> bool:
    """Whether the initial value of a reduce or reduce-window is the identity of its reducer."""
    starts = fold.operands[len(fold.operands) // 2 :]
    found = monoid(fold.called_computations[0]) if len(starts) == 1 else None
    start = starts[0]
    if found is None or start.opcode is not Op.CONSTANT:
        return False
    value = np.asarray(start.literal.array)
    if value.dtype.kind == "V" or start.array_shape.element_type.is_floating:  # of ml_dtypes some
        value = value.astype(np.float64)
    return bool(np.array_equal(value, found.identity(value.dtype)))


def _is_associative(computation: HloComputation) -> bool:
    plain = len(computation.instructions) == len(computation.parameters) + 1
    takes_both = {*computation.root.operands} == {*computation.parameters}
    one_type = len({i.array_shape.element_type for i in computation.instructions if i.opcode is not Op.COMPARE}) == 1
    return plain and takes_both and one_type and computation.root.opcode in (*_ASSOCIATIVE, Op.COMPARE)


def _sort(i: HloInstruction) -> bool:
    return i.opcode is Op.SORT and not (_keys(i) and (len(i.operands) == 1 or i.get("is_stable")))


def _keys(sort: HloInstruction) -> set[int]:
    """The numbers of both parameters that a comparator compares by < or >: of one key, or none."""
    root = sort.called_computations[0].root
    if root.opcode is not Op.COMPARE or root.get("direction") not in ("LT", "GT"):
        return set()
    if any(o.opcode is not Op.PARAMETER for o in root.operands):
        return set()
    numbers = {o.parameter_number for o in root.operands}
    types = {o.shape.element_type for o in root.operands}
    return numbers if len(numbers) == 2 and len(types) == 1 and len({n // 2 for n in numbers}) == 1 else set()


def _unordered(i: HloInstruction) -> bool:
    if i.opcode is Op.TOPK or _is_top_k(i):
        return _is_float(i.operands[0])
    keys = _keys(i) if i.opcode is Op.SORT else set()
    return any(_is_float(i.operands[k // 2]) for k in keys)


def _is_float(i: HloInstruction) -> bool:
    return isinstance(i.shape, ArrayShape) and i.shape.element_type.is_floating


def _decomposition(i: HloInstruction) -> bool:
    return i.opcode is Op.CUSTOM_CALL and bool(_UP_TO_A_FACTOR.fullmatch(i.get("custom_call_target")))


_KINDS: dict[str, Callable[[HloInstruction], bool]] = {
    "state": _state,
    "fold without an order": _fold,
    "fold over padding": _padded_fold,
    "fold over devices": _split_fold,
    "sort without an order": _sort,
    "decomposition": _decomposition,
}
_ROUNDED = "decision on a rounded"
_NAN = "comparison with NaN"


class _Flow(NamedTuple):
    """Properties of a value.

    The kind that explains a difference, whether it is rounded more than once, whether it depends on
    a singular system.
    """

    kind: str = ""
    is_rough: bool = False
    is_singular: bool = False


_NOTHING = Noted()


def which(module: HloModule, noted: Noted = _NOTHING, *, has_extremes: bool = False) -> list[str]:
    """The kind that explains differences of each leaf of the result, "" for exact leaves."""
    return [flow.kind or _context(i, s) for i, s, flow in _leaves(module, noted, has_extremes=has_extremes)]


def singular(module: HloModule, noted: Noted) -> list[bool]:
    """The leaves of the result that depend on a singular triangular system.

    Rounding and tiling determine which of their elements are infinite or NaN.
    """
    return [flow.is_singular for _, _, flow in _leaves(module, noted, has_extremes=False)]


def _leaves(
    module: HloModule, noted: Noted, *, has_extremes: bool
) -> Iterator[tuple[HloInstruction, ArrayShape, _Flow]]:
    """The arrays of the result, each with its instruction and its properties."""
    root = module.entry_computation.root
    flows = _flows(module.entry_computation, noted, has_extremes=has_extremes)
    for part in root.operands if root.opcode is Op.TUPLE else [root]:
        for _, s in part.shape.leaves():
            if isinstance(s, ArrayShape) and s.is_array:
                yield part, s, flows[part]


def _context(i: HloInstruction, shape: ArrayShape) -> str:
    is_start = i.opcode in (Op.COPY_START, Op.ASYNC_START, Op.ASYNC_UPDATE, Op.SEND, Op.RECV)
    return "context" if is_start and shape.element_type is PrimitiveType.U32 and not shape.dimensions else ""


def _flows(computation: HloComputation, noted: Noted, *, has_extremes: bool) -> dict[HloInstruction, _Flow]:
    flows: dict[HloInstruction, _Flow] = {}
    for i in computation.post_order():
        inside = [j for c in _called(i) for j in c.instructions]
        given = [flows[o] for o in i.operands]
        flows[i] = _flow(i, inside, given, noted, has_extremes=has_extremes)
    return flows


def _flow(
    i: HloInstruction, inside: list[HloInstruction], given: list[_Flow], noted: Noted, *, has_extremes: bool
) -> _Flow:
    """The properties of an instruction's value; the order of called computations is irrelevant."""
    both = [*inside, i]
    is_rough = any(g.is_rough for g in given) or any(map(_is_rough, both))
    is_singular = any(g.is_singular for g in given) or not noted.singular.isdisjoint(both)
    kind = next((g.kind for g in given if g.kind), "")
    kind = kind or next((name for name, holds in _KINDS.items() if any(map(holds, both))), "")
    kind = kind or _noted(both, noted)
    if not kind and has_extremes and any(map(_unordered, both)):
        kind = _NAN
    if not kind and is_rough and any(map(_is_sharp, both)):
        kind = _ROUNDED
    return _Flow(kind, is_rough, is_singular)


def _noted(instructions: list[HloInstruction], noted: Noted) -> str:
    """The kind that the interpreter has noted for some of these."""
    if not noted.failed.isdisjoint(instructions):
        return "failed factorization"
    if not noted.unordered.isdisjoint(instructions):
        return "order of a sum or product"
    if not noted.tied.isdisjoint(instructions):
        return "pivot by rounding"
    if not noted.by_one.isdisjoint(instructions):
        return "complex infinity by one"
    if not noted.by_predicate.isdisjoint(instructions):
        return "predicate as a factor"
    return "" if noted.mixed.isdisjoint(instructions) else "algorithm over infinities"


def _is_rough(i: HloInstruction) -> bool:
    """Whether a value is rounded more than once, or is narrow and may be kept in a wider type."""
    if i.opcode in ROUGH and not _is_top_k(i):
        return True
    leaves = (s for _, s in i.shape.leaves() if isinstance(s, ArrayShape))
    is_narrow = any(s.element_type.is_floating and s.element_type.bits < 32 for s in leaves)
    return is_narrow and i.opcode not in (Op.PARAMETER, Op.CONSTANT)


def _is_sharp(i: HloInstruction) -> bool:
    """Whether a rounding error of an operand may become a whole step."""
    return i.opcode in _SHARP or _is_top_k(i)


def _is_top_k(i: HloInstruction) -> bool:
    return i.opcode is Op.CUSTOM_CALL and i.get("custom_call_target") == "TopK"


def _called(i: HloInstruction) -> list[HloComputation]:
    """All computations that an instruction calls, directly or indirectly."""
    found: dict[HloComputation, None] = {}
    left = list(i.called_computations)
    while left:
        c = left.pop()
        if c not in found:
            found[c] = None
            left += [d for j in c.instructions for d in j.called_computations]
    return list(found)
