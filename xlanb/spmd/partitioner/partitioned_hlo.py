"""PartitionedHlo: an instruction of a device's program, with the whole's shape and sharding.

Resharding starts here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from xlanb.hlo.attributes import Window
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hooks import Hook
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.state import PartitioningState
from xlanb.spmd.partitioner.utilities import (
    as_tuple,
    create_zero,
    evenly_partitions,
    make_partition_offsets,
    set_sharding,
    sharding_of,
)

if TYPE_CHECKING:
    from xlanb.spmd.partitioner.windows import WindowedInputShardReturnValue

_O = HloOpcode
reshard_array_hook: Final[Hook[..., PartitionedHlo]] = Hook("spmd.reshard_array")
replicate_partial_hook: Final[Hook[..., HloInstruction]] = Hook("spmd.replicate_partial")
broadcast_hook: Final[Hook[..., PartitionedHlo]] = Hook("spmd.broadcast")
reshard_as_windowed_input_hook: Final[Hook[..., WindowedInputShardReturnValue | None]] = Hook(
    "spmd.reshard_as_windowed_input"
)


@dataclass(frozen=True)
class PartitionedHlo:
    """One device's part `hlo` of a value of shape `base_shape`.

    Within groups of devices, `base_shape` is the shape of what one group has.
    """

    hlo: HloInstruction
    base_shape: Shape
    state: PartitioningState

    @property
    def sharding(self) -> HloSharding:
        """The sharding of the value: that of `hlo`."""
        return sharding_of(self.hlo)

    @property
    def array_shape(self) -> ArrayShape:
        """The shape of the whole array."""
        return self.base_shape.as_array()

    def with_hlo(self, hlo: HloInstruction, sharding: HloSharding | None = None) -> PartitionedHlo:
        """Return the same value in another instruction, which gets `sharding` if given."""
        if sharding is not None:
            set_sharding(hlo, sharding)
        return replace(self, hlo=hlo)

    def with_state(self, state: PartitioningState) -> PartitionedHlo:
        """Return the same value in another state."""
        return replace(self, state=state)

    # -- resharding --------------------------------------------------------------------------------

    def reshard(self, target: HloSharding, pad_value: Any | None = None) -> PartitionedHlo:
        """Return the same value with sharding `target`; repeated calls reuse the result.

        Padding of uneven tiles is zero or `pad_value`.
        """
        sharding = self.sharding
        if sharding == target:
            return self
        if self.hlo.opcode is _O.CONSTANT and not sharding.is_manual and target.is_manual:
            whole = self.replicate()
            return whole.with_hlo(whole.hlo, target)
        to_replicate = isinstance(self.hlo.shape, ArrayShape) and target.num_tiles() < sharding.num_tiles()
        use_cache = not to_replicate or self.state.options.cache_all_gather
        cache = self.state.reshard_cache
        if pad_value is None and use_cache:
            found = cache.of(self.hlo).reshard.get(target)
            if found is not None:
                return found
        resharded = self.reshard_no_cache(target, pad_value)
        cache.of(resharded.hlo).reshard[sharding] = self
        if use_cache:
            cache.of(self.hlo).reshard[target] = resharded
        return resharded

    def add_reshard_cache(self, sharding: HloSharding, partitioned: PartitionedHlo) -> None:
        """Let later reshards to `sharding` return this value."""
        self.state.reshard_cache.of(self.hlo).reshard[sharding] = partitioned

    def reshard_no_cache(
        self, target: HloSharding, pad_value: Any | None = None, *, allow_full_replication: bool = True
    ) -> PartitionedHlo:
        """Reshard the value to `target`.

        Returns it unchanged if that needs full replication, which is not allowed.
        """
        shape = self.hlo.shape
        if shape.is_token:
            return self
        if isinstance(shape, TupleShape):
            return self._reshard_tuple(target, shape)
        if self.sharding == target:
            return self
        with self.state.because(None, None, self.sharding, target, self.reason(target), weak=True):
            return reshard_array_hook(self, target, pad_value, allow_full_replication=allow_full_replication)

    def reason(self, target: HloSharding) -> str:
        """Say why data moves."""
        if target.is_replicated:
            return "every device needs the whole array"
        return "another sharding is needed"

    def _reshard_tuple(self, target: HloSharding, shape: TupleShape) -> PartitionedHlo:
        if not target.is_tuple:
            return self.reshard(target.normalize_tuple(shape))
        b = self.state.b
        elements = []
        for n, base in enumerate(as_tuple(self.base_shape).shapes):
            element = b.get_tuple_element(self.hlo, n)
            set_sharding(element, self.sharding.subsharding(shape, n))
            elements.append(PartitionedHlo(element, base, self.state).reshard(target.subsharding(shape, n)).hlo)
        made = b.add(_O.TUPLE, elements)
        return self.with_hlo(made, target)

    def replicate(self) -> PartitionedHlo:
        """Return the value replicated on every device."""
        cache, sharding = self.state.reshard_cache, self.sharding
        if sharding.is_replicated:
            if self.state.options.cache_all_gather:
                return self._replicated_before() or self
            return self
        found = self._replicated_before()
        if found is not None:
            return found
        if sharding.is_tile_maximal:
            result = self.broadcast()
        else:
            with self.state.because(
                None, None, sharding, HloSharding.replicate(), "every device needs the whole array", weak=True
            ):
                whole = self.replicate_partial(range(self.hlo.shape.as_array().rank))
            result = self.with_hlo(whole, HloSharding.replicate())
        cache.of(result.hlo).reshard[sharding] = self
        if self.state.options.cache_all_gather:
            cache.of(self.hlo).reshard[HloSharding.replicate()] = result
        return result

    def _replicated_before(self) -> PartitionedHlo | None:
        cached = self.state.reshard_cache.of(self.hlo).reshard
        return next((p for sharding, p in cached.items() if sharding.is_replicated), None)

    def replicate_partial(self, dims: Sequence[int]) -> HloInstruction:
        """Replicate along some data dimensions.

        The result has no meaningful sharding.
        """
        return replicate_partial_hook(self, dims)

    def broadcast(self) -> PartitionedHlo:
        """Broadcast what one device holds to every device."""
        return broadcast_hook(self)

    def reshard_as_windowed_input(
        self,
        window: Window,
        target: HloSharding,
        pad_value: HloInstruction,
        mask_invalid_region: bool = True,
        force_mask_in_compact: bool = False,
    ) -> WindowedInputShardReturnValue | None:
        """Return the part that this device's windows read; None if halos cannot provide it."""
        return reshard_as_windowed_input_hook(
            self,
            window,
            target,
            pad_value,
            mask_invalid_region=mask_invalid_region,
            force_mask_in_compact=force_mask_in_compact,
        )

    # -- padding -----------------------------------------------------------------------------------

    def pad_with_value(
        self, pad_value: HloInstruction, left_padded_dims: Sequence[int] = (), skipped_dims: Sequence[int] = ()
    ) -> PartitionedHlo:
        """Return the value with padding set to a scalar.

        `left_padded_dims` have their padding first; `skipped_dims` are not padded.
        """
        sharding, b = self.sharding, self.state.b
        if sharding.is_replicated or evenly_partitions(self.base_shape, sharding):
            return self
        shape, base = self.hlo.shape.as_array(), self.base_shape.as_array()
        offsets = make_partition_offsets(base, sharding, self.state.partition_id, b)
        mask: HloInstruction | None = None
        for dim in range(shape.rank):
            if base.dimensions[dim] % sharding.dimension(dim) == 0 or dim in skipped_dims:
                continue
            inside = self._inside(dim, offsets[dim], left=dim in left_padded_dims)
            mask = inside if mask is None else b.add(_O.AND, (mask, inside), mask.shape)
        if mask is None:
            return self
        padding = b.broadcast(pad_value, shape)
        return self.with_hlo(b.add(_O.SELECT, (mask, self.hlo, padding), shape), sharding)

    def _inside(self, dim: int, start: HloInstruction, *, left: bool) -> HloInstruction:
        """Return which elements belong to the whole, along one dimension."""
        b = self.state.b
        shape = self.hlo.shape.as_array().with_type(PrimitiveType.S32)
        limit = self.base_shape.as_array().dimensions[dim]
        if left:
            limit = shape.dimensions[dim] * self.sharding.dimension(dim) - limit
        iota = b.add(_O.IOTA, (), shape, iota_dimension=dim)
        index = b.add(_O.ADD, (iota, b.broadcast(start, shape)), shape)
        wide = b.broadcast(b.s32(limit), shape)
        return b.add(_O.COMPARE, (index, wide), shape.with_type(PrimitiveType.PRED), direction="GE" if left else "LT")

    def pad_with_zero(self, left_padded_dims: Sequence[int] = (), skipped_dims: Sequence[int] = ()) -> PartitionedHlo:
        """Return the value with padding set to zero."""
        zero = create_zero(array(self.hlo.shape.as_array().element_type), self.state.b)
        return self.pad_with_value(zero, left_padded_dims, skipped_dims)

    def pad_with_zero_on_specified_dims(
        self, dims: Sequence[int], left_padded_dims: Sequence[int] = ()
    ) -> PartitionedHlo:
        """Return the value with padding set to zero along some dimensions only."""
        skipped = [d for d in range(self.base_shape.as_array().rank) if d not in dims]
        return self.pad_with_zero(left_padded_dims, skipped)
