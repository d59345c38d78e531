"""XLA:GPU's layout constraints, for layout-assignment.

Follows xla/service/gpu/transforms/layout_assignment.h. cuDNN convolutions have features minormost
(NHWC) or after the batch (NCHW), by device and type. The dimension groups of a dot (batch, rows,
columns) are contiguous, with the batch not minormost. Sorts and FFTs are row-major.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import prod

from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, TupleShape
from xlanb.transforms.layout.layout_constraints import LayoutConstraints, Order, arrays_of, default_order

P = PrimitiveType

# By target: which operand (-1: the result) is the input, the kernel and the output.
_ROLES = {
    "__cudnn$convForward": (0, 1, -1),
    "__cudnn$convForwardGraph": (0, 1, -1),
    "__cudnn$convBiasActivationForward": (0, 1, -1),
    "__cudnn$convBackwardInput": (-1, 1, 0),
    "__cudnn$convBackwardFilter": (0, -1, 1),
}
_PLACEMENTS = ("MoveToHost", "MoveToDevice")
_F8 = frozenset(t for t in P if t.text.startswith("f8"))
_F8_OF_CUBLAS = frozenset((P.F8E4M3FN, P.F8E5M2FNUZ))
_SHORTEST_ROW = 32
"""The fewest elements for which changing a layout for a row reduction pays off."""

_JOINED_ALONG = {O.ALL_GATHER: "dimensions", O.REDUCE_SCATTER: "dimensions", O.ALL_TO_ALL: "dimensions"}


@dataclass(frozen=True)
class GpuLayouts:
    """The layout constraints of a device."""

    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def constrain(self, layouts: LayoutConstraints) -> None:
        """Constrain dots, convolutions, sorts and collectives, the last instruction first."""
        for i in reversed(list(layouts.computation.post_order())):
            if i.opcode is O.CUSTOM_CALL:
                self._constrain_call(layouts, i)
            elif i.opcode is O.DOT:
                self._constrain_dot(layouts, i)
            elif i.opcode is O.TRANSPOSE:
                _constrain_transposed_dot(layouts, i)
            elif i.opcode is O.FFT:
                layouts.set_operand(i, 0, default_order(i.operands[0].array_shape.rank))
                layouts.set_result(i, default_order(i.array_shape.rank))
            elif i.opcode is O.SORT:
                _constrain_sort(layouts, i)
            elif i.opcode is O.TRIANGULAR_SOLVE:
                for n, o in enumerate(i.operands):
                    layouts.set_operand(i, n, _column_major(o.array_shape.rank))
                layouts.set_result(i, _column_major(i.array_shape.rank))
            elif i.opcode is O.BITCAST_CONVERT:
                _constrain_bitcast_convert(layouts, i)
            elif i.opcode in _JOINED_ALONG and i.shape.is_array:
                layouts.set_result(i, _outermost(i.array_shape.rank, _joined_along(i)))
            elif i.opcode is O.RAGGED_ALL_TO_ALL:
                layouts.set_result(i, _outermost(i.array_shape.rank, 0))

    def keeps_layout(self, i: HloInstruction) -> bool:
        """Whether it is the library's top-k, which cannot change layouts."""
        return i.opcode is O.CUSTOM_CALL and i.attributes.get("custom_call_target") == "TopK"

    def reduces_rows(self, i: HloInstruction) -> bool:
        """Whether a reduce is large enough for a row reduction to pay off."""
        return prod(i.operands[0].array_shape.dimensions[d] for d in i.dimensions) >= _SHORTEST_ROW

    def _constrain_call(self, layouts: LayoutConstraints, i: HloInstruction) -> None:
        target = str(i.attributes.get("custom_call_target"))
        if target in _ROLES:
            self._constrain_convolution(layouts, i, _ROLES[target])
        elif target == "TopK":
            for leaf, s in arrays_of(i.shape).items():
                layouts.set_result(i, default_order(s.rank), leaf)
        elif target in _PLACEMENTS:
            order = default_order(i.array_shape.rank)
            layouts.set_operand(i, 0, order)
            layouts.set_result(i, order)

    def _constrain_convolution(
        self, layouts: LayoutConstraints, i: HloInstruction, roles: tuple[int, int, int]
    ) -> None:
        numbers: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
        features_last = self._features_last(i)
        orders = (
            _spatial_order(
                numbers.input_batch,
                numbers.input_feature,
                numbers.input_spatial,
                features_last,
            ),
            _spatial_order(
                numbers.kernel_output_feature,
                numbers.kernel_input_feature,
                numbers.kernel_spatial,
                features_last,
            ),
            _spatial_order(
                numbers.output_batch,
                numbers.output_feature,
                numbers.output_spatial,
                features_last,
            ),
        )
        for role, order in sorted(zip(roles, orders, strict=True), key=lambda r: r[0] % 3):
            if role < 0:
                layouts.set_result(i, order, (0,) if isinstance(i.shape, TupleShape) else ())
            else:
                layouts.set_operand(i, role, order)
        output = orders[2]
        for n, o in enumerate(i.operands[2:], 2):
            if o.array_shape.rank == len(output):
                layouts.set_operand(i, n, output)

    def _features_last(self, i: HloInstruction) -> bool:
        """Whether cuDNN needs NHWC."""
        kind = i.operands[0].array_shape.element_type
        if kind.is_integral or kind in _F8:
            return True
        architecture = self.device.architecture
        if architecture.platform == "CUDA" and architecture.capability >= (9, 0):
            return kind is not P.F64
        is_half = kind in (P.F16, P.BF16) and architecture.platform == "CUDA" and architecture.capability >= (7, 0)
        return is_half and arrays_of(i.shape)[(0,) if isinstance(i.shape, TupleShape) else ()].rank == 4

    def _constrain_dot(self, layouts: LayoutConstraints, i: HloInstruction) -> None:
        sides = [_DotSide.of(i, n) for n in range(2)]
        for n, side in enumerate(sides):
            if self._wants_minor_contraction(i):
                order = side.shape.minor_to_major
                if not side.is_minor_contracting(order):
                    order = _laid_out(side.batch, side.free, side.contracted)
                layouts.set_operand(i, n, order)
            elif side.batch or len(side.contracted) > 1 or len(side.free) > 1:
                tried = (side.shape.minor_to_major, default_order(side.shape.rank))
                order = next(
                    (t for t in tried if is_matrix(t, side.batch, side.contracted, side.free)),
                    _laid_out(side.batch, side.contracted, side.free),
                )
                layouts.set_operand(i, n, order)
        if sides[0].batch or any(len(s.free) > 1 for s in sides):
            layouts.set_result(i, _dot_order(layouts, i))

    def _wants_minor_contraction(self, i: HloInstruction) -> bool:
        kinds = {o.array_shape.element_type for o in i.operands[:2]}
        if kinds == {P.S8} and i.array_shape.element_type is P.S32:
            return True
        architecture = self.device.architecture
        is_blackwell = architecture.platform == "CUDA" and architecture.capability >= (10, 0)
        return kinds <= _F8_OF_CUBLAS and not is_blackwell


# -- dots ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DotSide:
    """An operand of a dot and the roles of its dimensions."""

    shape: ArrayShape
    batch: tuple[int, ...]
    contracted: tuple[int, ...]

    @staticmethod
    def of(dot: HloInstruction, number: int) -> _DotSide:
        side = ("lhs", "rhs")[number]
        return _DotSide(
            dot.operands[number].array_shape,
            tuple(dot.attributes.get(f"{side}_batch_dims") or ()),
            tuple(dot.attributes.get(f"{side}_contracting_dims") or ()),
        )

    @property
    def free(self) -> tuple[int, ...]:
        return tuple(d for d in range(self.shape.rank) if d not in (*self.batch, *self.contracted))

    def is_minor_contracting(self, order: Order) -> bool:
        minor = order[: len(self.contracted)]
        return set(minor) <= set(self.contracted) and is_matrix(order, self.batch, self.free, self.contracted)


def is_matrix(order: Order, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> bool:
    """Whether a library accepts an array as a batch of matrices (MatrixLayout::For).

    Each dimension group must be contiguous, major to minor, and the batch not minormost.
    """
    groups = {tuple(g): n for n, g in enumerate((batch, rows, columns)) if g}
    seen: list[int] = []
    left = list(order)
    while left:
        group = next((g for g in groups if g[-1] == left[0]), None)
        if group is None or tuple(left[: len(group)]) != group[::-1]:
            return False
        seen.append(groups[group])
        left = left[len(group) :]
    if not batch:
        return True
    # A group without dimensions counts as the most major.
    return (seen + [n for n in (2, 1) if n not in seen])[0] != 0


def _laid_out(*groups: Sequence[int]) -> Order:
    """Return the layout with these dimensions, major to minor."""
    return tuple(reversed([d for g in groups for d in g]))


def _dot_takes(dot: HloInstruction, order: Order) -> bool:
    lhs, rhs = _DotSide.of(dot, 0), _DotSide.of(dot, 1)
    dims = list(range(dot.array_shape.rank))
    first, second = len(lhs.batch), len(lhs.batch) + len(lhs.free)
    return is_matrix(order, dims[:first], dims[first:second], dims[second : second + len(rhs.free)])


def _dot_order(layouts: LayoutConstraints, dot: HloInstruction) -> Order:
    """Return the layout that a user requests, if the library supports it; else row-major."""
    for user in dot.users:
        for n, o in enumerate(user.operands):
            order = layouts.operand_order(user, n) if o is dot else None
            if order is not None and _dot_takes(dot, order):
                return order
    return default_order(dot.array_shape.rank)


def _constrain_transposed_dot(layouts: LayoutConstraints, i: HloInstruction) -> None:
    """Give a dot a result layout whose transpose is row-major."""
    dot = i.operands[0]
    if dot.opcode is not O.DOT or len(dot.users) > 1:
        return
    order = tuple(reversed(i.dimensions))
    if _dot_takes(dot, order):
        layouts.set_operand(i, 0, order)


# -- other instructions ----------------------------------------------------------------------------


def _constrain_sort(layouts: LayoutConstraints, i: HloInstruction) -> None:
    order = default_order(i.operands[0].array_shape.rank)
    if len(order) > 1:
        for n in range(len(i.operands)):
            layouts.set_operand(i, n, order)
            layouts.set_result(i, order, () if i.shape.is_array else (n,))


def _constrain_bitcast_convert(layouts: LayoutConstraints, i: HloInstruction) -> None:
    """Make the added or removed dimension of a bitcast-convert minormost, if the ranks differ.

    The other dimensions keep their order.
    """
    source, made = i.operands[0].array_shape, i.array_shape
    if source.rank == made.rank:
        return
    larger = max(source, made, key=lambda s: s.rank)
    last = larger.rank - 1
    smaller_order = tuple(d for d in larger.minor_to_major if d != last)
    orders = (smaller_order, (last, *smaller_order))
    layouts.set_operand(i, 0, orders[source is larger])
    layouts.set_result(i, orders[made is larger])


def _spatial_order(major: int, feature: int, spatial: Sequence[int], features_last: bool) -> Order:
    return _laid_out((major,), spatial, (feature,)) if features_last else _laid_out((major,), (feature,), spatial)


def _joined_along(i: HloInstruction) -> int:
    return int(i.attributes[_JOINED_ALONG[i.opcode]][0])


def _outermost(rank: int, dimension: int) -> Order:
    return (*(d for d in default_order(rank) if d != dimension), dimension)


def _column_major(rank: int) -> Order:
    order = default_order(rank)
    return (order[1], order[0], *order[2:])
