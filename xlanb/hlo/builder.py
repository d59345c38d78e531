"""HloBuilder: build a computation, with XLA's implicit broadcasting.

b = HloBuilder("axpy") x = b.parameter(0, array(PrimitiveType.F32, [8])) module =
b.build(b.add(b.multiply(x, b.constant(np.float32(2))), x))

Source: xla/hlo/builder/xla_builder.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xlanb.errors import ShapeError
from xlanb.hlo import broadcasting, regions
from xlanb.hlo.attributes import (
    ConvolutionDimensionNumbers,
    OpMetadata,
    PaddingDimension,
    SliceDimension,
    Window,
)
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType, Shape
from xlanb.shape.reshaping import reshaped_dynamic
from xlanb.shape.shape import TOKEN, array, tuple_of

_O = HloOpcode
Region = HloComputation | HloOpcode
"""A computation over scalars, or the opcode of a binary computation to create."""


def _unary(opcode: HloOpcode) -> Callable[[HloBuilder, HloInstruction], HloInstruction]:
    """A method for an elementwise opcode of one operand."""

    def method(self: HloBuilder, x: HloInstruction) -> HloInstruction:
        return self.unary(opcode, x)

    method.__doc__ = opcode.summary
    return method


def _binary(opcode: HloOpcode) -> Callable[..., HloInstruction]:
    """A method for an elementwise opcode of two operands."""

    def method(
        self: HloBuilder, x: HloInstruction, y: HloInstruction, broadcast_dimensions: Sequence[int] | None = None
    ) -> HloInstruction:
        return self.binary(opcode, x, y, broadcast_dimensions)

    method.__doc__ = opcode.summary
    return method


class HloBuilder:
    """Adds instructions to one computation.

    Each method returns the instruction, and raises ShapeError if operands are incompatible.
    Dimensions are numbered from 0; negative numbers are not allowed.

    Args:
        name: the name of the computation, and of the module if none is given.
        module: the module to build in; by default a new one.
    """

    def __init__(
        self, name: str = "main", module: HloModule | None = None, *, _outer: HloBuilder | None = None
    ) -> None:
        self.module = HloModule(name) if module is None else module
        self.computation = self.module.add_computation(name)
        self._outer = _outer
        self._metadata: list[OpMetadata] = [] if _outer is None else _outer._metadata
        self._regions: regions.Cache = {} if _outer is None else _outer._regions

    # -- the whole ---------------------------------------------------------------------------------

    def build(self, root: HloInstruction) -> HloModule:
        """Set the computation's root, make it the entry, and return the module.

        Raises:
            ShapeError: this builder is for a computation of another builder's module (use
                `build_computation`).
        """
        if self._outer is not None:
            raise ShapeError(f"{self.computation.name} is not an entry computation: use build_computation")
        self.computation.set_root(root)
        self.module.set_entry(self.computation)
        return self.module

    def build_computation(self, root: HloInstruction) -> HloComputation:
        """Set the computation's root and return it, to be called by others."""
        self.computation.set_root(root)
        return self.computation

    def sub_computation(self, name: str) -> HloBuilder:
        """A builder for another computation of the same module, with the same metadata in force."""
        return HloBuilder(name, self.module, _outer=self)

    @contextmanager
    def metadata(self, metadata: OpMetadata) -> Iterator[None]:
        """Give every instruction added in this block this metadata; the innermost block wins."""
        self._metadata.append(metadata)
        try:
            yield
        finally:
            self._metadata.pop()

    def instruction(
        self,
        opcode: HloOpcode,
        operands: Iterable[HloInstruction] = (),
        shape: Shape | None = None,
        *,
        name: str | None = None,
        **attributes: Any,
    ) -> HloInstruction:
        """Add any instruction, as HloComputation.add, with the metadata in force."""
        metadata = self._metadata[-1] if self._metadata else None
        return self.computation.add(opcode, operands, shape, name=name, metadata=metadata, **attributes)

    def region(self, region: Region, types: Sequence[PrimitiveType]) -> HloComputation:
        """The computation itself, or a binary computation of an opcode, created once per module."""
        if isinstance(region, HloComputation):
            return region
        if len(types) != 1:
            raise ShapeError(f"{region} over {len(types)} arrays needs a computation, not an opcode")
        return regions.binary_region(self.module, self._regions, region, types[0])

    # -- leaves ------------------------------------------------------------------------------------

    def parameter(self, number: int, shape: Shape, name: str | None = None) -> HloInstruction:
        """Argument `number` of the computation; row-major if no layout is set."""
        return self.instruction(
            _O.PARAMETER, (), shape.with_default_layout(), name=name or f"arg{number}", parameter_number=number
        )

    def constant(self, value: Any) -> HloInstruction:
        """A constant of a Literal, or of a NumPy value whose dtype gives the element type."""
        made = self.computation.constant(value)
        if self._metadata:
            self.computation.update(made, metadata=self._metadata[-1])
        return made

    def iota(self, shape: ArrayShape, dimension: int = 0) -> HloInstruction:
        """An array whose elements are their index along a dimension."""
        return self.instruction(_O.IOTA, (), shape.with_default_layout(), iota_dimension=dimension)

    # -- elementwise -------------------------------------------------------------------------------

    def unary(self, opcode: HloOpcode, x: HloInstruction) -> HloInstruction:
        """An elementwise opcode of one operand."""
        return self.instruction(opcode, (x,))

    def binary(
        self,
        opcode: HloOpcode,
        x: HloInstruction,
        y: HloInstruction,
        broadcast_dimensions: Sequence[int] | None = None,
        **attributes: Any,
    ) -> HloInstruction:
        """An elementwise opcode of two operands that are broadcast to each other.

        A scalar is broadcast to any shape, and dimensions of size 1 are expanded. If the ranks
        differ, `broadcast_dimensions` maps each dimension of the lower rank to one of the higher
        rank.
        """
        x, y = broadcasting.broadcast_pair(self, opcode, x, y, broadcast_dimensions)
        return self.instruction(opcode, (x, y), **attributes)

    abs = _unary(_O.ABS)
    acos = _unary(_O.ACOS)
    acosh = _unary(_O.ACOSH)
    asin = _unary(_O.ASIN)
    asinh = _unary(_O.ASINH)
    atan = _unary(_O.ATAN)
    atanh = _unary(_O.ATANH)
    cbrt = _unary(_O.CBRT)
    ceil = _unary(_O.CEIL)
    cosh = _unary(_O.COSH)
    cos = _unary(_O.COSINE)
    popcnt = _unary(_O.POPCNT)
    clz = _unary(_O.COUNT_LEADING_ZEROS)
    erf = _unary(_O.ERF)
    exp = _unary(_O.EXPONENTIAL)
    expm1 = _unary(_O.EXPONENTIAL_MINUS_ONE)
    floor = _unary(_O.FLOOR)
    imag = _unary(_O.IMAG)
    is_finite = _unary(_O.IS_FINITE)
    log = _unary(_O.LOG)
    log1p = _unary(_O.LOG_PLUS_ONE)
    logistic = _unary(_O.LOGISTIC)
    negate = _unary(_O.NEGATE)
    not_ = _unary(_O.NOT)
    real = _unary(_O.REAL)
    round_nearest_afz = _unary(_O.ROUND_NEAREST_AFZ)
    round_nearest_even = _unary(_O.ROUND_NEAREST_EVEN)
    rsqrt = _unary(_O.RSQRT)
    sign = _unary(_O.SIGN)
    sin = _unary(_O.SINE)
    sinh = _unary(_O.SINH)
    sqrt = _unary(_O.SQRT)
    tan = _unary(_O.TAN)
    tanh = _unary(_O.TANH)
    add = _binary(_O.ADD)
    and_ = _binary(_O.AND)
    atan2 = _binary(_O.ATAN2)
    complex = _binary(_O.COMPLEX)
    divide = _binary(_O.DIVIDE)
    maximum = _binary(_O.MAXIMUM)
    minimum = _binary(_O.MINIMUM)
    multiply = _binary(_O.MULTIPLY)
    or_ = _binary(_O.OR)
    power = _binary(_O.POWER)
    remainder = _binary(_O.REMAINDER)
    shift_left = _binary(_O.SHIFT_LEFT)
    shift_right_arithmetic = _binary(_O.SHIFT_RIGHT_ARITHMETIC)
    shift_right_logical = _binary(_O.SHIFT_RIGHT_LOGICAL)
    subtract = _binary(_O.SUBTRACT)
    xor = _binary(_O.XOR)

    def compare(self, x: HloInstruction, y: HloInstruction, direction: str, type: str | None = None) -> HloInstruction:  # noqa: A002 - XLA's name
        """Compare elementwise: EQ NE GE GT LE LT.

        `type` is FLOAT, TOTALORDER, SIGNED or UNSIGNED, if not the default of the element type.
        """
        return self.binary(_O.COMPARE, x, y, direction=direction, type=type)

    def select(self, condition: HloInstruction, x: HloInstruction, y: HloInstruction) -> HloInstruction:
        """`x` where the condition holds, else `y`; scalars are broadcast."""
        return self.instruction(_O.SELECT, broadcasting.broadcast_scalars(self, (condition, x, y)))

    def clamp(self, low: HloInstruction, x: HloInstruction, high: HloInstruction) -> HloInstruction:
        """`x`, not below `low`, not above `high`; scalars are broadcast."""
        return self.instruction(_O.CLAMP, broadcasting.broadcast_scalars(self, (low, x, high)))

    def convert(self, x: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """The same values in another element type; `x` itself if it has that type."""
        shape = x.array_shape
        return (
            x
            if shape.element_type is element_type
            else self.instruction(_O.CONVERT, (x,), _row_major(shape).with_type(element_type))
        )

    def bitcast_convert(self, x: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """The same bits in another element type.

        If the sizes differ, the last dimension is split or merged.
        """
        shape = x.array_shape
        old, new, dims = shape.element_type.bits, element_type.bits, shape.dimensions
        if new < old:
            dims = (*dims, old // new)
        elif new > old:
            dims = dims[:-1]
        return self.instruction(_O.BITCAST_CONVERT, (x,), array(element_type, dims))

    def reduce_precision(self, x: HloInstruction, exponent_bits: int, mantissa_bits: int) -> HloInstruction:
        """Round to a format with this many bits."""
        return self.instruction(_O.REDUCE_PRECISION, (x,), exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)

    # -- data --------------------------------------------------------------------------------------

    def broadcast(self, x: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """`x` repeated over new leading dimensions."""
        shape = x.array_shape
        new = len(dimensions)
        return self.broadcast_in_dim(x, (*dimensions, *shape.dimensions), range(new, new + shape.rank))

    def broadcast_in_dim(
        self, x: HloInstruction, shape: Shape | Sequence[int], dimensions: Sequence[int]
    ) -> HloInstruction:
        """Broadcast `x` to `shape` (or to a list of sizes); its dimension i becomes dimensions[i].

        A dimension of size 1 is expanded (through a reshape).
        """
        sizes = shape.as_array().dimensions if isinstance(shape, Shape) else tuple(shape)
        return broadcasting.broadcast_in_dim(self, x, sizes, tuple(dimensions))

    def reshape(self, x: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """The same elements in row-major order with other dimensions; `x` itself if they are equal.

        A dynamic dimension stays dynamic: the most major one of those that it is split into or
        merged with.

        Raises:
            ShapeError: a dynamic dimension does not start at a boundary of the new dimensions.
        """
        shape = array(x.array_shape.element_type, dimensions)
        if x.array_shape.is_dynamic:
            shape = replace(shape, dynamic=reshaped_dynamic(x.array_shape, shape.dimensions))
        return x if x.array_shape.dimensions == shape.dimensions else self.instruction(_O.RESHAPE, (x,), shape)

    def transpose(self, x: HloInstruction, permutation: Sequence[int]) -> HloInstruction:
        """Result dimension i is dimension permutation[i]."""
        return self.instruction(_O.TRANSPOSE, (x,), dimensions=tuple(permutation))

    def slice(
        self, x: HloInstruction, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
    ) -> HloInstruction:
        """Elements start, start + stride, ... below limit of each dimension."""
        steps = strides or (1,) * len(starts)
        return self.instruction(
            _O.SLICE, (x,), slice=tuple(SliceDimension(*d) for d in zip(starts, limits, steps, strict=True))
        )

    def get_dimension_size(self, x: HloInstruction, dimension: int) -> HloInstruction:
        """The size of a dimension at run time, s32."""
        return self.instruction(_O.GET_DIMENSION_SIZE, (x,), dimensions=(dimension,))

    def set_dimension_size(self, x: HloInstruction, size: HloInstruction, dimension: int) -> HloInstruction:
        """`x` with another size of a dimension: an s32 scalar, at most the bound.

        A constant equal to the bound makes the dimension static, as in
        XlaBuilder::SetDimensionSize.
        """
        shape, known = x.array_shape, None
        if size.opcode is _O.CONSTANT and int(size.literal.array) == shape.dimensions[dimension]:
            flags = [moves and d != dimension for d, moves in enumerate(shape.dynamic)]
            known = replace(shape, dynamic=tuple(flags))
        return self.instruction(_O.SET_DIMENSION_SIZE, (x, size), known, dimensions=(dimension,))

    def pad(
        self, x: HloInstruction, value: HloInstruction, padding: Iterable[PaddingDimension | tuple[int, int, int]]
    ) -> HloInstruction:
        """Pad `x` by a scalar: (low, high, interior) per dimension; low, high may be negative."""
        dims = tuple(p if isinstance(p, PaddingDimension) else PaddingDimension(*p) for p in padding)
        return self.instruction(_O.PAD, (x, value), padding=dims)

    def concatenate(self, operands: Sequence[HloInstruction], dimension: int) -> HloInstruction:
        """Operands concatenated along a dimension."""
        return self.instruction(_O.CONCATENATE, operands, dimensions=(dimension,))

    def reverse(self, x: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """Reverse the order of elements along dimensions."""
        return self.instruction(_O.REVERSE, (x,), dimensions=tuple(dimensions))

    def dynamic_slice(
        self, x: HloInstruction, starts: Sequence[HloInstruction], sizes: Sequence[int]
    ) -> HloInstruction:
        """A slice of `sizes` at start indices (a scalar each), clamped to be in bounds."""
        return self.instruction(_O.DYNAMIC_SLICE, (x, *starts), dynamic_slice_sizes=tuple(sizes))

    def dynamic_update_slice(
        self, x: HloInstruction, update: HloInstruction, starts: Sequence[HloInstruction]
    ) -> HloInstruction:
        """`x` with a slice overwritten at start indices, clamped to be in bounds."""
        return self.instruction(_O.DYNAMIC_UPDATE_SLICE, (x, update, *starts))

    def gather(
        self,
        x: HloInstruction,
        indices: HloInstruction,
        *,
        offset_dims: Sequence[int],
        collapsed_slice_dims: Sequence[int],
        start_index_map: Sequence[int],
        index_vector_dim: int,
        slice_sizes: Sequence[int],
        operand_batching_dims: Sequence[int] = (),
        start_indices_batching_dims: Sequence[int] = (),
        indices_are_sorted: bool = False,
    ) -> HloInstruction:
        """Slices of `x` at the given, clamped indices."""
        return self.instruction(
            _O.GATHER,
            (x, indices),
            offset_dims=tuple(offset_dims),
            collapsed_slice_dims=tuple(collapsed_slice_dims),
            start_index_map=tuple(start_index_map),
            operand_batching_dims=tuple(operand_batching_dims) or None,
            start_indices_batching_dims=tuple(start_indices_batching_dims) or None,
            index_vector_dim=index_vector_dim,
            slice_sizes=tuple(slice_sizes),
            indices_are_sorted=indices_are_sorted or None,
        )

    def scatter(
        self,
        operands: HloInstruction | Sequence[HloInstruction],
        indices: HloInstruction,
        updates: HloInstruction | Sequence[HloInstruction],
        region: Region,
        *,
        update_window_dims: Sequence[int],
        inserted_window_dims: Sequence[int],
        scatter_dims_to_operand_dims: Sequence[int],
        index_vector_dim: int,
        input_batching_dims: Sequence[int] = (),
        scatter_indices_batching_dims: Sequence[int] = (),
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> HloInstruction:
        """Updates combined into the operands at indices; those out of bounds are skipped."""
        inputs, news = _listed(operands), _listed(updates)
        return self.instruction(
            _O.SCATTER,
            (*inputs, indices, *news),
            update_window_dims=tuple(update_window_dims),
            inserted_window_dims=tuple(inserted_window_dims),
            scatter_dims_to_operand_dims=tuple(scatter_dims_to_operand_dims),
            input_batching_dims=tuple(input_batching_dims) or None,
            scatter_indices_batching_dims=tuple(scatter_indices_batching_dims) or None,
            index_vector_dim=index_vector_dim,
            indices_are_sorted=indices_are_sorted or None,
            unique_indices=unique_indices or None,
            to_apply=self.region(region, _types(inputs)),
        )

    def sort(
        self,
        operands: HloInstruction | Sequence[HloInstruction],
        dimension: int,
        comparator: HloComputation | str = "LT",
        *,
        stable: bool = False,
    ) -> HloInstruction:
        """Sort operands together along a dimension.

        `comparator` is a computation, or the direction in which to compare the first operand.
        """
        xs = _listed(operands)
        if isinstance(comparator, str):
            comparator = regions.comparator(self.module, self._regions, comparator, _types(xs))
        return self.instruction(_O.SORT, xs, dimensions=(dimension,), is_stable=stable or None, to_apply=comparator)

    def tuple(self, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Operands as a tuple."""
        return self.instruction(_O.TUPLE, operands)

    def get_tuple_element(self, x: HloInstruction, index: int) -> HloInstruction:
        """One element of a tuple."""
        return self.instruction(_O.GET_TUPLE_ELEMENT, (x,), index=index)

    # -- reductions --------------------------------------------------------------------------------

    def reduce(
        self,
        operands: HloInstruction | Sequence[HloInstruction],
        inits: HloInstruction | Sequence[HloInstruction],
        dimensions: Sequence[int],
        region: Region,
    ) -> HloInstruction:
        """Reduce dimensions by a computation, from scalar initial values.

        Several arrays are reduced together to a tuple.
        """
        xs = _listed(operands)
        to_apply = self.region(region, _types(xs))
        return self.instruction(_O.REDUCE, (*xs, *_listed(inits)), dimensions=tuple(dimensions), to_apply=to_apply)

    def reduce_window(
        self,
        operands: HloInstruction | Sequence[HloInstruction],
        inits: HloInstruction | Sequence[HloInstruction],
        window: Window,
        region: Region,
    ) -> HloInstruction:
        """Reduce each window by a computation, from scalar initial values."""
        xs = _listed(operands)
        return self.instruction(
            _O.REDUCE_WINDOW, (*xs, *_listed(inits)), window=window, to_apply=self.region(region, _types(xs))
        )

    def select_and_scatter(
        self,
        x: HloInstruction,
        source: HloInstruction,
        init: HloInstruction,
        window: Window,
        select: str | HloComputation,
        scatter: Region,
    ) -> HloInstruction:
        """Combine each source element into the position that `select` picks in its window.

        `select` is a computation or a direction ("GE").
        """
        types = _types([x])
        chosen = regions.comparator(self.module, self._regions, select, types) if isinstance(select, str) else select
        return self.instruction(
            _O.SELECT_AND_SCATTER, (x, source, init), window=window, select=chosen, scatter=self.region(scatter, types)
        )

    def map(self, operands: Sequence[HloInstruction], computation: HloComputation) -> HloInstruction:
        """Apply a scalar computation to every element."""
        dims = tuple(range(operands[0].array_shape.rank))
        return self.instruction(_O.MAP, operands, dimensions=dims, to_apply=computation)

    # -- linear algebra ----------------------------------------------------------------------------

    def dot(self, x: HloInstruction, y: HloInstruction) -> HloInstruction:
        """Matrix or vector product: contracts the last dimension of `x` with the first of `y`."""
        return self.dot_general(x, y, lhs_contracting_dims=[x.array_shape.rank - 1], rhs_contracting_dims=[0])

    def dot_general(
        self,
        x: HloInstruction,
        y: HloInstruction,
        *,
        lhs_contracting_dims: Sequence[int] = (),
        rhs_contracting_dims: Sequence[int] = (),
        lhs_batch_dims: Sequence[int] = (),
        rhs_batch_dims: Sequence[int] = (),
        element_type: PrimitiveType | None = None,
    ) -> HloInstruction:
        """Sum of products, with batch dimensions first, then the rest of `x`, then the rest of `y`.

        `element_type` is that of the result.
        """
        made = self.instruction(
            _O.DOT,
            (x, y),
            lhs_batch_dims=tuple(lhs_batch_dims) or None,
            lhs_contracting_dims=tuple(lhs_contracting_dims) or None,
            rhs_batch_dims=tuple(rhs_batch_dims) or None,
            rhs_contracting_dims=tuple(rhs_contracting_dims) or None,
        )
        return made if element_type is None else self._typed(made, element_type)

    def convolution(
        self,
        x: HloInstruction,
        kernel: HloInstruction,
        window: Window,
        dim_labels: ConvolutionDimensionNumbers,
        *,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        element_type: PrimitiveType | None = None,
    ) -> HloInstruction:
        """Convolution as in neural networks; `window` has one dimension per spatial dimension."""
        made = self.instruction(
            _O.CONVOLUTION,
            (x, kernel),
            window=window,
            dim_labels=dim_labels,
            feature_group_count=feature_group_count if feature_group_count != 1 else None,
            batch_group_count=batch_group_count if batch_group_count != 1 else None,
        )
        return made if element_type is None else self._typed(made, element_type)

    def _typed(self, made: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """Give a sum of products another result type (XLA's preferred_element_type)."""
        self.computation.update(made, shape=made.array_shape.with_type(element_type))
        return made

    # -- control -----------------------------------------------------------------------------------

    def while_(self, condition: HloComputation, body: HloComputation, init: HloInstruction) -> HloInstruction:
        """Apply the body while the condition holds."""
        return self.instruction(_O.WHILE, (init,), condition=condition, body=body)

    def conditional(
        self, selector: HloInstruction, branches: Sequence[HloComputation], operands: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Apply the selected branch to its own operand.

        The selector is a predicate (true branch first), or the s32 number of the branch.
        """
        if selector.array_shape.element_type is PrimitiveType.PRED:
            if len(branches) != 2:
                raise ShapeError(f"conditional: a predicate selects one of two branches, got {len(branches)} branches")
            named: Mapping[str, Any] = {"true_computation": branches[0], "false_computation": branches[1]}
        else:
            named = {"branch_computations": tuple(branches)}
        return self.instruction(_O.CONDITIONAL, (selector, *operands), **named)

    def call(self, computation: HloComputation, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Apply a computation to operands."""
        return self.instruction(_O.CALL, operands, to_apply=computation)

    def custom_call(
        self, target: str, operands: Sequence[HloInstruction], shape: Shape, **attributes: Any
    ) -> HloInstruction:
        """Call a function that the backend knows by name; `shape` is that of its result."""
        return self.instruction(
            _O.CUSTOM_CALL, operands, shape.with_default_layout(), custom_call_target=target, **attributes
        )

    def after_all(self, operands: Sequence[HloInstruction] = ()) -> HloInstruction:
        """A token that orders side effects."""
        return self.instruction(_O.AFTER_ALL, operands, TOKEN)

    # -- random ------------------------------------------------------------------------------------

    def rng_bit_generator(
        self, state: HloInstruction, shape: ArrayShape, algorithm: str = "rng_default"
    ) -> HloInstruction:
        """A tuple of the new state and random bits, by rng_default, rng_three_fry or rng_philox."""
        both = tuple_of([_row_major(state.array_shape), shape.with_default_layout()])
        return self.instruction(_O.RNG_BIT_GENERATOR, (state,), both, algorithm=algorithm)

    def rng(self, distribution: str, low: HloInstruction, high: HloInstruction, shape: ArrayShape) -> HloInstruction:
        """Random numbers from hidden state.

        rng_uniform over [low, high), or rng_normal with mean `low` and standard deviation `high`.
        """
        return self.instruction(_O.RNG, (low, high), shape.with_default_layout(), distribution=distribution)


def _listed(x: HloInstruction | Sequence[HloInstruction]) -> tuple[HloInstruction, ...]:
    return (x,) if isinstance(x, HloInstruction) else tuple(x)


def _types(xs: Sequence[HloInstruction]) -> list[PrimitiveType]:
    return [x.array_shape.element_type for x in xs]


def _row_major(shape: ArrayShape) -> ArrayShape:
    return (
        array(shape.element_type, shape.dimensions)
        if not shape.is_dynamic
        else shape.without_layout().with_default_layout()
    )
