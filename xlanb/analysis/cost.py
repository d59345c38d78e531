"""Cost analysis: floating-point operations, bytes and transcendental functions.

These are counts, not times: `flops` and `transcendentals` per run of the instruction,
`bytes_accessed` in bytes, read and written once each. The computation of a fusion, reduce, map, ...
counts as often as it is applied; a while loop as often as its trip count, once if that is unknown.
Source: xla/service/hlo_cost_analysis.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import astuple

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import BY_TEXT
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern
from xlanb.shape import ArrayShape, Shape


@dataclass(frozen=True)
class Cost:
    """Counts, which can be added, and multiplied by a number of runs."""

    flops: float = 0
    bytes_accessed: float = 0
    transcendentals: float = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*_sum((astuple(self), astuple(other))))

    def __mul__(self, times: float) -> Cost:
        return Cost(*_times(astuple(self), times))

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte; infinity if no bytes are accessed."""
        return self.flops / self.bytes_accessed if self.bytes_accessed else math.inf


Counts = tuple[float, float, float]
"""The fields of a Cost, in order.

There is one per instruction, and a plain tuple takes a tenth of the time.
"""
_NOTHING: Counts = (0, 0, 0)
_LARGEST = 1e300
_COUNTED = 1 << 14  # window positions along a dimension that are counted exactly


def _bounded(count: float) -> float:
    """A count; infinity beyond 1e300, and 0 for NaN (0 times infinity).

    Integers would grow without bound if nested calls double them.
    """
    return count if count <= _LARGEST else math.inf if count > _LARGEST else 0


def _times(counts: Counts, times: float) -> Counts:
    times = _bounded(times)
    flops, size, transcendentals = counts
    return _bounded(flops * times), _bounded(size * times), _bounded(transcendentals * times)


def _sum(counts: Iterable[Counts]) -> Counts:
    flops, size, transcendentals = (_bounded(sum(column)) for column in zip(_NOTHING, *counts, strict=True))
    return flops, size, transcendentals


_TRANSCENDENTAL = frozenset(
    BY_TEXT[text]
    for text in (
        "acos acosh asin asinh atan atan2 atanh cbrt cosh cosine erf exponential exponential-minus-one "
        "log log-plus-one logistic power rsqrt sine sinh sqrt tan tanh"
    ).split()
)
# They rename values: nothing is computed and no bytes are accessed.
_FREE = frozenset(
    (
        O.PARAMETER,
        O.CONSTANT,
        O.TUPLE,
        O.GET_TUPLE_ELEMENT,
        O.BITCAST,
        O.AFTER_ALL,
        O.ADD_DEPENDENCY,
        O.OPT_BARRIER,
        O.DOMAIN,
        O.PARTITION_ID,
        O.REPLICA_ID,
    )
)
_CONTROL = frozenset((O.CALL, O.WHILE, O.CONDITIONAL, O.ASYNC_START, O.ASYNC_UPDATE, O.ASYNC_DONE))
_TRIP_COUNT = pattern(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d+)')


def known_trip_count(loop: HloInstruction) -> int | None:
    """The trip count of a while loop in its backend_config, or None."""
    found = _TRIP_COUNT.search(loop.backend_config)
    return int(found[1]) if found else None


def cost(what: HloInstruction | HloComputation | HloModule) -> Cost:
    """The cost of one run of an instruction, a computation with its callees, or a module's entry.

    Linear in the reachable instructions, however often a computation is called. Counts beyond 1e300
    are infinite.
    """
    return Cost(*CostCounter().cost(what))


class CostCounter:
    """The costs within one call of `cost`; each called computation is visited once."""

    def __init__(self) -> None:
        self._sequences: dict[HloComputation, Counts] = {}
        self._bodies: dict[HloComputation, Counts] = {}

    def cost(self, what: HloInstruction | HloComputation | HloModule) -> Counts:
        """See the function `cost`."""
        if isinstance(what, HloModule):
            return self.cost(what.entry_computation)
        if isinstance(what, HloComputation):
            return self._run(what)
        arithmetic = self._arithmetic(what)
        if what.opcode in _FREE or what.opcode in _CONTROL:
            return arithmetic
        return arithmetic[0], _bytes(what), arithmetic[2]

    def trips(self, loop: HloInstruction) -> int | None:
        """The trip count of a while loop; None if unknown."""
        return known_trip_count(loop)

    def _run(self, computation: HloComputation) -> Counts:
        """The cost of a computation, including the bytes that each instruction accesses."""
        return self._total(computation, self._sequences, self.cost)

    def _body(self, computation: HloComputation) -> Counts:
        """The cost without bytes: values inside a kernel stay in registers."""
        return self._total(computation, self._bodies, self._arithmetic)

    def _total(
        self, computation: HloComputation, known: dict[HloComputation, Counts], one: Callable[[HloInstruction], Counts]
    ) -> Counts:
        """The sum over a computation, computed after its callees without deep recursion."""
        stack = [computation]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            pending = [c for i in top for c in i.called_computations if c not in known]
            if pending:
                stack += pending
            else:
                known[stack.pop()] = _sum(map(one, top))
        return known[computation]

    def _arithmetic(self, i: HloInstruction) -> Counts:
        code = i.opcode
        if code.is_elementwise:
            return _elementwise(i)
        if code is O.FUSION or code in _CONTROL:
            return self._called(i)
        if code in _APPLIED:
            return self._applied(i)
        flops = _FLOPS.get(code)
        return (flops(i), 0, 0) if flops is not None else _NOTHING

    def _applied(self, i: HloInstruction) -> Counts:
        """The cost of the computation of a reduce, map, ..., times its applications."""
        code = i.opcode
        if code is O.REDUCE:
            folded = elements_of(i.operands[0].shape) - elements_of(_first(i.shape))
            return _times(self._body(i.to_apply), max(0, folded))
        if code is O.MAP:
            return _times(self._body(i.to_apply), elements_of(i.shape))
        if code is O.SCATTER:
            return _times(self._body(i.to_apply), elements_of(i.operands[-1].shape))
        window = math.prod(d.size for d in i.window.dimensions)
        if code is O.REDUCE_WINDOW:
            return _times(self._body(i.to_apply), elements_of(_first(i.shape)) * max(0, window - 1))
        source = elements_of(i.operands[1].shape)
        selecting = _times(self._body(i.attributes["select"]), source * max(0, window - 1))
        return _sum((selecting, _times(self._body(i.attributes["scatter"]), source)))

    def _called(self, i: HloInstruction) -> Counts:
        is_run = i.opcode in _CONTROL
        bodies = [self._run(c) if is_run else self._body(c) for c in i.called_computations]
        if i.opcode is O.WHILE:
            trips = self.trips(i)
            return _times(_sum(bodies), 1 if trips is None else trips)
        if i.opcode is O.CONDITIONAL:
            return max(bodies, key=lambda c: (c[0] + c[2], c[1]), default=_NOTHING)
        return _sum(bodies)


_NO_FLOPS = frozenset((O.CONVERT, O.REAL, O.IMAG, O.COMPLEX, O.REDUCE_PRECISION))
_APPLIED = frozenset((O.REDUCE, O.REDUCE_WINDOW, O.MAP, O.SCATTER, O.SELECT_AND_SCATTER))


def _elementwise(i: HloInstruction) -> Counts:
    code, elements = i.opcode, elements_of(i.shape)
    if code in _TRANSCENDENTAL:
        return 0, 0, elements
    return (2 * elements if code is O.CLAMP else 0 if code in _NO_FLOPS else elements), 0, 0


def _dot(i: HloInstruction) -> float:
    left = _first(i.operands[0].shape)
    return 2 * elements_of(i.shape) * math.prod(left.dimensions[d] for d in i.ints("lhs_contracting_dims"))


def _sort(i: HloInstruction) -> float:
    n = max(1, _first(i.operands[0].shape).dimensions[i.dimensions[0]])
    return elements_of(i.operands[0].shape) * math.ceil(math.log2(n)) if n > 1 else 0


def _fft(i: HloInstruction) -> float:
    return 4 * elements_of(i.shape) * math.log2(max(2, math.prod(i.ints("fft_length"))))


def _batch_norm(i: HloInstruction) -> float:
    return 5 * elements_of(i.operands[0].shape)


def _triangle(i: HloInstruction) -> float:
    columns = _first(i.operands[0].shape).dimensions[-1]
    return elements_of(i.shape) * columns * (1 if i.opcode is O.TRIANGULAR_SOLVE else 1 / 3)


def _bytes(i: HloInstruction) -> float:
    out = i.shape.byte_size
    code = i.opcode
    if code in (O.SLICE, O.DYNAMIC_SLICE, O.GATHER):
        # Only the selected part is read.
        return 2 * out + sum(o.shape.byte_size for o in i.operands[1:])
    if code is O.DYNAMIC_UPDATE_SLICE:
        return 2 * i.operands[1].shape.byte_size + sum(o.shape.byte_size for o in i.operands[2:])
    if code is O.SCATTER:
        return 3 * i.operands[-1].shape.byte_size + i.operands[len(i.operands) // 2].shape.byte_size
    return out + sum(o.shape.byte_size for o in dict.fromkeys(i.operands))


def _convolution(i: HloInstruction) -> float:
    """Two operations per kernel tap that reads an element, not padding or a dilation hole."""
    numbers = i.attributes["dim_labels"]
    left, kernel, out = (_first(s) for s in (i.operands[0].shape, i.operands[1].shape, i.shape))
    taps = 1
    for w, d_in, d_out in zip(i.window.dimensions, numbers.input_spatial, numbers.output_spatial, strict=True):
        taps *= _valid_taps(
            w.size,
            w.stride,
            w.padding_low,
            w.window_dilation,
            w.base_dilation,
            left.dimensions[d_in],
            out.dimensions[d_out],
        )
    features: int = kernel.dimensions[numbers.kernel_input_feature]
    outputs: int = out.dimensions[numbers.output_feature] * out.dimensions[numbers.output_batch]
    return 2.0 * features * outputs * taps


def _valid_taps(
    size: int, stride: int, low: int, window_dilation: int, base_dilation: int, n_in: int, n_out: int
) -> int:
    """The number of pairs (output position, kernel tap) that read an input element.

    Along one dimension. If there are very many taps and positions, all pairs count.
    """
    last = (n_in - 1) * base_dilation
    # position = o * stride + k * window_dilation - low must be a multiple of base_dilation in [0,
    # last]
    if min(size, n_out) > _COUNTED:
        return size * n_out
    if size <= n_out:
        return sum(_hits(k * window_dilation - low, stride, n_out, last, base_dilation) for k in range(size))
    return sum(_hits(o * stride - low, window_dilation, size, last, base_dilation) for o in range(n_out))


def _hits(start: int, step: int, count: int, last: int, divisor: int) -> int:
    """How many of start, start + step, ... (`count` numbers) are multiples of `divisor`.

    Only multiples in [0, last] count.
    """
    low, high = max(0, -(start // step)), min(count - 1, (last - start) // step)
    common = math.gcd(step, divisor)
    if high < low or start % common:
        return 0
    period = divisor // common
    first = -(start // common) * pow(step // common, -1, period) % period
    first = low + (first - low) % period
    return max(0, (high - first) // period + 1)


def elements_of(shape: Shape) -> int:
    """The number of elements of a value; of a tuple, in all its arrays."""
    if isinstance(shape, ArrayShape):
        return shape.element_count if shape.is_array else 0
    return sum(s.element_count for _, s in shape.leaves() if isinstance(s, ArrayShape) and s.is_array)


def _first(shape: Shape) -> ArrayShape:
    """The first array of a shape."""
    return next(s for _, s in shape.leaves() if isinstance(s, ArrayShape))


_FLOPS: dict[O, Callable[[HloInstruction], float]] = {
    **dict.fromkeys((O.DOT, O.RAGGED_DOT, O.SCALED_DOT), _dot),
    O.CONVOLUTION: _convolution,
    O.SORT: _sort,
    O.FFT: _fft,
    **dict.fromkeys((O.BATCH_NORM_GRAD, O.BATCH_NORM_INFERENCE, O.BATCH_NORM_TRAINING), _batch_norm),
    **dict.fromkeys((O.CHOLESKY, O.TRIANGULAR_SOLVE), _triangle),
}
"""Floating-point operations per element of opcodes without a called computation."""
