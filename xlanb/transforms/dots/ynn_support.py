"""What YNNPACK, XLA:CPU's kernel library, supports: opcodes, types, layouts and sizes.

`supported(i, rules)` says whether an instruction can be part of a library call at all, and whether
it is large enough to be worth it. Source: xla/backends/cpu/ynn_support.h.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.regions import reducer
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType as T
from xlanb.shape import Shape

MIN_ELEMENTS = 4096
"""The fewest elements for which a library call of elementwise code or a reduction pays."""
_MAX_RANK = 8
_MIN_DOT = 8
_MAX_SMALL_CHANNELS = 16

_TYPES = frozenset((T.F64, T.F32, T.F16, T.BF16, T.S32, T.S8, T.U8))
_ELEMENTWISE_TYPES = frozenset((T.F64, T.F32, T.BF16, T.S8, T.U8))
_EXTREME_TYPES = frozenset((T.F64, T.F32, T.F16, T.BF16, T.S8, T.U8))
_SUMS = frozenset(((T.F64, T.F64), (T.F32, T.F32), (T.F16, T.F32), (T.BF16, T.F32), (T.S8, T.S32), (T.U8, T.S32)))
_DOTS = frozenset(
    (
        (T.F64, T.F64, T.F64),
        (T.F32, T.F32, T.F32),
        (T.BF16, T.BF16, T.F32),
        (T.S8, T.S8, T.S32),
        (T.U8, T.S8, T.S32),
    )
)
_CONVOLUTIONS = frozenset(((T.F64, T.F64, T.F64), (T.F32, T.F32, T.F32), (T.S8, T.S8, T.S32)))
_ELEMENTWISE = frozenset(
    (
        *(O.ABS, O.CEIL, O.CONVERT, O.COSINE, O.ERF, O.EXPONENTIAL, O.EXPONENTIAL_MINUS_ONE, O.FLOOR, O.LOG),
        *(O.LOG_PLUS_ONE, O.LOGISTIC, O.NEGATE, O.ROUND_NEAREST_EVEN, O.RSQRT, O.SIGN, O.SINE, O.SQRT, O.TANH, O.TAN),
        *(O.ADD, O.DIVIDE, O.MAXIMUM, O.MINIMUM, O.MULTIPLY, O.POWER, O.SUBTRACT),
    )
)


@dataclass(frozen=True)
class YnnRules:
    """What differs between releases.

    `bf16_dots`: dots of bf16 may return bf16. `large_bitcasts`: bitcasts must be large too.
    """

    bf16_dots: bool = False
    large_bitcasts: bool = False


def supported(i: HloInstruction, rules: YnnRules) -> bool:
    """Whether an instruction can be part of a library call."""
    check = _CHECKS.get(i.opcode)
    if check is None or not i.shape.is_array:
        return False
    sized = i.opcode not in _ANY_SIZE or (i.opcode is O.BITCAST and rules.large_bitcasts)
    if sized and not _is_large(i):
        return False
    if i.opcode is O.DOT and rules.bf16_dots and _types(i) == (T.BF16,) * 3:
        return _has_dot_form(i)
    return check(i)


def takes_reduction(i: HloInstruction) -> bool:
    """Whether the library computes a reduce or reduce-window."""
    return i.shape.is_array and _is_large(i) and _reduction(i)


def _is_large(i: HloInstruction) -> bool:
    return any(
        s.is_array and s.as_array().element_count >= MIN_ELEMENTS for s in (i.shape, *(o.shape for o in i.operands))
    )


def _is_plain(*shapes: Shape) -> bool:
    """Whether arrays are row-major and have few dimensions."""
    return all(
        s.is_array
        and s.as_array().rank <= _MAX_RANK
        and s.as_array().minor_to_major == tuple(reversed(range(s.as_array().rank)))
        for s in shapes
    )


def _types(i: HloInstruction) -> tuple[T, ...]:
    return (*(o.shape.element_type for o in i.operands), i.shape.element_type)


def _any_type(i: HloInstruction) -> bool:
    return i.shape.element_type in _TYPES


def _moves(i: HloInstruction) -> bool:
    """Whether it changes the shape and keeps the type."""
    operand = i.operands[0].shape
    return _any_type(i) and operand.element_type is i.shape.element_type and _is_plain(i.shape, operand)


def _broadcast(i: HloInstruction) -> bool:
    return _moves(i) and list(i.dimensions) == sorted(set(i.dimensions))


def _pad(i: HloInstruction) -> bool:
    if not _moves(i):
        return False
    sides = zip(i.attributes["padding"], i.operands[0].array_shape.dimensions, strict=True)
    return all(p.interior == 0 and (size != 1 or (p.low, p.high) == (0, 0)) for p, size in sides)


def _iota(i: HloInstruction) -> bool:
    return i.shape.element_type in (T.F32, T.S32) and _is_plain(i.shape)


def _elementwise(i: HloInstruction) -> bool:
    return all(t in _ELEMENTWISE_TYPES for t in _types(i))


def _reduction(i: HloInstruction) -> bool:
    """Whether it reduces one array by a single sum, minimum or maximum."""
    if len(i.operands) != 2 or not _is_plain(i.shape, i.operands[0].shape):
        return False
    if not (_windows(i) if i.opcode is O.REDUCE_WINDOW else i.dimensions):
        return False
    given, start, result = _types(i)
    kind = reducer(i.to_apply)
    if start is not result or kind is None or len(i.to_apply) != 3:
        return False
    if kind is O.ADD:
        return (given, result) in _SUMS
    return kind in (O.MAXIMUM, O.MINIMUM) and given is result and given in _EXTREME_TYPES


def _windows(i: HloInstruction) -> bool:
    """Whether its windows do not overlap, so that a reshape and a reduction can replace it."""
    cut = [d for d in i.window.dimensions if d.size > 1 or d.stride > 1]
    return bool(cut) and all(map(_is_tile, cut)) and i.array_shape.rank + len(cut) <= _MAX_RANK


def _is_tile(d: WindowDimension) -> bool:
    return d.size in (1, d.stride) and d.base_dilation == d.window_dilation == 1 and not d.reversal


def _dot(i: HloInstruction) -> bool:
    return _types(i) in _DOTS and _has_dot_form(i)


def _has_dot_form(i: HloInstruction) -> bool:
    """Whether it is a batch of matrix products that are large enough and have a supported form.

    The left operand is contracted along its last dimension.
    """
    left, right = (o.array_shape for o in i.operands)
    batch = tuple(range(len(i.ints("lhs_batch_dims"))))
    rank = len(batch) + 2
    if (
        i.ints("lhs_batch_dims") != batch
        or i.ints("rhs_batch_dims") != batch
        or (left.rank, right.rank) != (rank, rank)
    ):
        return False
    if not _is_plain(i.shape, left, right) or i.ints("lhs_contracting_dims") != (rank - 1,):
        return False
    (along,) = i.ints("rhs_contracting_dims")
    m, k, n = left.dimensions[-2], left.dimensions[-1], right.dimensions[2 * rank - 3 - along]
    return 1 not in (m, n) and max(m, k, n) >= _MIN_DOT


def _convolution(i: HloInstruction) -> bool:
    """Whether it is a supported convolution over images with many channels."""
    d, window = i.attributes["dim_labels"], i.window.dimensions
    image, kernel = (o.array_shape for o in i.operands)
    if _types(i) not in _CONVOLUTIONS or i.get("batch_group_count") not in (None, 1) or len(window) != 2:
        return False
    if not _is_plain(i.shape, image, kernel):
        return False
    places = (d.input_feature, d.output_feature, d.kernel_input_feature, d.kernel_output_feature)
    spatial = (d.input_spatial, d.kernel_spatial, d.output_spatial)
    if places != (3, 3, 2, 3) or spatial != ((1, 2), (0, 1), (1, 2)):
        return False
    if max(image.dimensions[3], i.array_shape.dimensions[3]) <= _MAX_SMALL_CHANNELS:
        return False
    if any(w.base_dilation != 1 or w.reversal for w in window):
        return False
    sizes = zip(image.dimensions[1:3], i.array_shape.dimensions[1:3], kernel.dimensions[:2], strict=True)
    return all(max(out, size) <= given for given, out, size in sizes)


_CHECKS: dict[O, Callable[[HloInstruction], bool]] = {
    O.CONSTANT: _any_type,
    O.IOTA: _iota,
    O.RESHAPE: _moves,
    O.BITCAST: _moves,
    O.BROADCAST: _broadcast,
    O.TRANSPOSE: _moves,
    O.PAD: _pad,
    O.DOT: _dot,
    O.CONVOLUTION: _convolution,
    O.REDUCE: _reduction,
    O.REDUCE_WINDOW: _reduction,
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}
_ANY_SIZE = frozenset((O.CONSTANT, O.IOTA, O.RESHAPE, O.BITCAST, O.BROADCAST, O.TRANSPOSE, O.PAD, O.DOT, O.CONVOLUTION))
