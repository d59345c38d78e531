"""Tiled fusions: one block per tile of the result, as Triton's emitter computes them.

Follows symbolic_tile_analysis.cc and gpu_indexing_performance_model.cc.

    best_tiling(FusionView(fusion), costs, device)    the fastest tile of the result, or why not

The result's tile determines those of everything inside: an elementwise operation has the same tile,
a reduction reads whole rows, a transpose the transposed tile. An instruction that is needed in two
different tiles is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Final, NamedTuple

from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.model.cost_analysis import GpuCostAnalysis, concatenate_cycles
from xlanb.gpu.model.fusion_analysis import elements_in
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.model.run_time import RunTime, compute_time, read_time, seconds
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, TupleShape

_MAX_ELEMENTS: Final = 1048576
"""The maximum number of elements of a Triton tile."""
_REGISTERS_OF_TILE: Final = 0.4
"""The fraction of a block's registers that a tile may use."""
_MAX_BLOCKS: Final = 2147483647
_WARPS: Final = ((256, 1), (1024, 2), (4096, 4))
"""Warps per block by the elements of its largest tile; 8 for larger ones."""
_NO_CYCLES: Final = frozenset(
    (O.BITCAST, O.BROADCAST, O.CONSTANT, O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE, O.GATHER, O.IOTA, O.PAD, O.PARAMETER,
     O.SLICE, O.TRANSPOSE, O.TUPLE)
)  # fmt: skip


class UntileableError(Exception):
    """The fusion cannot be tiled, whatever the tile size."""


class TileViolationError(Exception):
    """Something inside has no tile for this tile of the result."""


class TiledDimension(NamedTuple):
    """A tile along one dimension: `size` elements, `stride` apart.

    `offset` distinguishes tiles of the same size. Only an `of_result` tile can be split: not one of
    a reduced dimension or of a slice.
    """

    size: int
    stride: int = 1
    offset: Any = 0
    of_result: bool = True


class Tile(NamedTuple):
    """The tile of an instruction."""

    instruction: HloInstruction
    dimensions: tuple[TiledDimension, ...]

    @property
    def padded(self) -> int:
        """The element count with every dimension rounded up to a power of two, as in Triton."""
        return prod(_padded(d.size) for d in self.dimensions)

    @property
    def as_of_result(self) -> Tile:
        """Return the same elements, ignoring where their dimensions come from."""
        if all(d.of_result for d in self.dimensions):
            return self
        return Tile(self.instruction, tuple(TiledDimension(*d[:3]) for d in self.dimensions))


@dataclass(frozen=True)
class Tiling:
    """A tile of the result, the warps per block, and the time."""

    sizes: tuple[int, ...]
    warps: int
    time: RunTime

    @property
    def config(self) -> dict[str, Any]:
        """The `block_level_fusion_config` of a fusion's backend config."""
        return {
            "num_warps": str(self.warps),
            "output_tiles": [{"sizes": [str(n) for n in self.sizes]}],
            "num_ctas": 1,
            "num_stages": 1,
            "is_tma_allowed": False,
            "is_warp_specialization_allowed": False,
            "waves_per_eu": 0,
        }


def best_tiling(view: FusionView, costs: GpuCostAnalysis, device: GpuDevice) -> Tiling | str:
    """Return the fastest tiling, or why there is none."""
    if len(view.roots) != 1 or not isinstance(view.roots[0].shape, ArrayShape):
        return "it has several results"
    shape = view.roots[0].array_shape
    if not all(elements_in(i.shape) for i in (*view.nodes(), *view.parameters)):
        return "it has empty arrays"
    best: Tiling | None = None
    try:
        for sizes in _candidates(shape.dimensions):
            found = _tiling(view, sizes, costs, device)
            if found is not None and (best is None or found.time.exec_time < best.time.exec_time):
                best = found
    except UntileableError as reason:
        return str(reason)
    return best if best is not None else "no tile of the result is valid and small enough"


def tiled_time(
    view: FusionView, sizes: Sequence[int], warps: int, costs: GpuCostAnalysis, device: GpuDevice
) -> RunTime | None:
    """Return a fusion's time with a given tile of its result; None if it needs too many registers.

    Raises:
        UntileableError, TileViolationError: something inside has no tile.
    """
    tiles = _tiles(view, sizes)
    return _run_time(view, tiles, sizes, warps, costs, device) if _fits(view, tiles, device) else None


def given_tiling(config: Mapping[str, Any]) -> tuple[tuple[int, ...], int] | None:
    """Return the result's tile and the warps in a fusion's backend config, or None."""
    block = config.get("block_level_fusion_config", {})
    tiles = block.get("output_tiles", ())
    if not tiles:
        return None
    return tuple(int(n) for n in tiles[0].get("sizes", ())), int(block.get("num_warps", 1))


def _candidates(dimensions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return powers of two below the size of each dimension, and the size."""
    if not dimensions:
        yield ()
        return
    *rest, last = dimensions
    for sizes in _candidates(rest):
        size = 1
        while size < last:
            yield (*sizes, size)
            size *= 2
        yield (*sizes, last)


def _tiling(view: FusionView, sizes: tuple[int, ...], costs: GpuCostAnalysis, device: GpuDevice) -> Tiling | None:
    if prod(map(_padded, sizes)) > _registers(device) or _blocks(view, sizes) >= _MAX_BLOCKS:
        return None
    try:
        tiles = _tiles(view, sizes)
    except TileViolationError:
        return None
    largest = max(tiles.values())
    if largest > _MAX_ELEMENTS or not _fits(view, tiles, device):
        return None
    warps = next((count for size, count in _WARPS if largest <= size), 8)
    return Tiling(sizes, warps, _run_time(view, tiles, sizes, warps, costs, device))


def _blocks(view: FusionView, sizes: Sequence[int]) -> int:
    return prod(-(-n // t) for n, t in zip(view.roots[0].array_shape.dimensions, sizes, strict=True))


# -- tiles of instructions inside ------------------------------------------------------------------


def _tiles(view: FusionView, sizes: Sequence[int]) -> dict[Tile, int]:
    """Return the tiles of all that the fusion computes and reads, with their padded element counts.

    Raises:
        UntileableError: an instruction has no tiles.
        TileViolationError: an instruction has no tile for this tile of the result.
    """
    root = view.roots[0]
    counts = zip(root.array_shape.dimensions, sizes, strict=True)
    first = tuple(TiledDimension(t, 1, ("block", n, t) if t < size else 0) for n, (size, t) in enumerate(counts))
    stack, found = [Tile(root, first)], {Tile(root, first): Tile(root, first).padded}
    seen = set(stack)
    while stack:
        tile = stack.pop()
        if not view.contains(tile.instruction):
            continue
        for o, dimensions in zip(tile.instruction.operands, operand_tiles(*tile), strict=True):
            above = Tile(view.resolve(o), dimensions)
            if above not in seen:
                seen.add(above)
                stack.append(above)
                found.setdefault(above.as_of_result, above.padded)
    return found


def operand_tiles(i: HloInstruction, tile: tuple[TiledDimension, ...]) -> list[tuple[TiledDimension, ...]]:
    """Return the operand tiles that a tile of an instruction needs.

    Raises:
        UntileableError: it has none of any size.
        TileViolationError: it has none for this tile.
    """
    if i.opcode is O.BROADCAST:
        return [tuple(tile[d] for d in i.dimensions)]
    if i.opcode is O.REDUCE:
        return _reduced(i, tile)
    if i.opcode is O.TRANSPOSE:
        return [tuple(tile[i.dimensions.index(d)] for d in range(len(tile)))]
    if i.opcode is O.SLICE:
        boxes = i.attributes["slice"]
        return [tuple(_sliced(d, b.start, b.stride) for d, b in zip(tile, boxes, strict=True))]
    if i.opcode in (O.BITCAST, O.RESHAPE):
        return [_reshaped(i.operands[0].array_shape, i.array_shape, tile)]
    if i.opcode in (O.CONSTANT, O.IOTA):
        return []
    if is_elementwise(i):
        return [tile if o.array_shape.rank else () for o in i.operands]
    raise UntileableError(f"{i.name}: a {i.opcode} cannot be tiled")


def _sliced(d: TiledDimension, start: int, stride: int) -> TiledDimension:
    if start == 0 and stride == 1:
        return d
    return TiledDimension(d.size, d.stride * stride, ("slice", start, stride, d.offset), of_result=False)


def _reduced(i: HloInstruction, tile: tuple[TiledDimension, ...]) -> list[tuple[TiledDimension, ...]]:
    count = len(i.operands) // 2
    kept = iter(tile)
    sizes = i.operands[0].array_shape.dimensions
    read = tuple(TiledDimension(n, of_result=False) if d in i.dimensions else next(kept) for d, n in enumerate(sizes))
    return [read] * count + [()] * count


def _reshaped(given: ArrayShape, made: ArrayShape, tile: tuple[TiledDimension, ...]) -> tuple[TiledDimension, ...]:
    """Return a reshape's operand tile; dimensions are split or merged in memory order."""
    order_given, order_made = given.minor_to_major[::-1], made.minor_to_major[::-1]
    a = [given.dimensions[d] for d in order_given]
    b = [made.dimensions[d] for d in order_made]
    physical = [tile[d] for d in order_made]
    found: list[TiledDimension] = [TiledDimension(1)] * len(a)
    for places_a, places_b in _groups(tuple(a), tuple(b)):
        _fill(found, [(p, a[p]) for p in places_a], [(physical[p], b[p]) for p in places_b])
    result = [TiledDimension(1)] * len(a)
    for place, d in enumerate(order_given):
        result[d] = found[place]
    return tuple(result)


@cache
def _groups(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Return the smallest groups of dimensions with equal products, without those of size 1.

    Raises:
        UntileableError: a group has several dimensions on both sides.
    """
    left = [n for n, size in enumerate(a) if size != 1]
    right = [n for n, size in enumerate(b) if size != 1]
    found, x, y = [], 0, 0
    while x < len(left) and y < len(right):
        x0, y0, product_a, product_b = x, y, a[left[x]], b[right[y]]
        x, y = x + 1, y + 1
        while product_a != product_b:
            if product_a < product_b:
                product_a, x = product_a * a[left[x]], x + 1
            else:
                product_b, y = product_b * b[right[y]], y + 1
        if x - x0 > 1 and y - y0 > 1:
            raise UntileableError(f"reshaping dimensions {a} to {b} splits tiles")
        found.append((tuple(left[x0:x]), tuple(right[y0:y])))
    return tuple(found)


def _fill(found: list[TiledDimension], given: list[tuple[int, int]], made: list[tuple[TiledDimension, int]]) -> None:
    """Compute a group's tile: one dimension for one, several for one, or one for several."""
    if len(given) == len(made) == 1:
        found[given[0][0]] = made[0][0]
    elif len(made) == 1:
        _cut(found, given, made[0][0])
    else:
        found[given[0][0]] = _merged(made)


def _cut(found: list[TiledDimension], given: list[tuple[int, int]], tile: TiledDimension) -> None:
    """Split a result dimension's tile into operand dimensions, fastest first."""
    if not tile.of_result:
        raise UntileableError(f"a dimension of a reduction or a slice is split into {len(given)}")
    if tile.stride != 1:
        raise TileViolationError
    for left in (tile.size, _padded(tile.size)):
        if not _divides(left, [size for _, size in given]):
            raise TileViolationError
    rest = tile.size
    for place, size in reversed(given):
        taken = min(size, rest)
        offset = 0 if taken == size else ("cut", place, tile.offset)
        found[place] = TiledDimension(taken, 1, offset)
        rest = -(-rest // size)


def _divides(left: int, sizes: list[int]) -> bool:
    """Whether a tile ends at a row end of each of the fastest dimensions, or divides it."""
    inner = 1
    for size in reversed(sizes[1:]):
        inner *= size
        if left % inner and inner % left:
            return False
    return True


def _merged(made: list[tuple[TiledDimension, int]]) -> TiledDimension:
    """Merge the tiles of several result dimensions; they must be one strided run."""
    for pad in (lambda n: n, _padded):
        if _strided_run([(pad(d.size), size) for d, size in made]) is None:
            raise TileViolationError
    if any(d.stride != 1 and d.size > 1 for d, _ in made):
        raise TileViolationError
    run = _strided_run([(d.size, size) for d, size in made])
    assert run is not None  # noqa: S101 - it is one of those asked above
    offsets = tuple(d.offset for d, _ in made)
    return TiledDimension(*run, 0 if not any(offsets) else ("merged", offsets))


def _strided_run(made: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return size and stride of a multi-dimensional tile as one run, or None."""
    stride, count, inner, is_whole = 1, 1, 1, True
    for tile, size in reversed(made):
        if tile > 1:
            if count > 1 and not is_whole:
                return None
            stride = inner if count == 1 else stride
            count *= tile
        is_whole = tile == size if count > 1 else True
        inner *= size
    return count, stride


# -- time ------------------------------------------------------------------------------------------


def _registers(device: GpuDevice) -> float:
    """Return the registers that a tile may use."""
    return _REGISTERS_OF_TILE * device.architecture.registers_per_core


def _fits(view: FusionView, tiles: Mapping[Tile, int], device: GpuDevice) -> bool:
    """Whether the tiles of results, inputs and iotas fit in registers."""
    limit = _registers(device)
    return all(size <= limit or not _is_held(t.instruction, view) for t, size in tiles.items())


def _is_held(i: HloInstruction, view: FusionView) -> bool:
    return i.opcode is O.IOTA or i is view.roots[0] or not view.contains(i)


def _run_time(
    view: FusionView,
    tiles: Mapping[Tile, int],
    sizes: Sequence[int],
    warps: int,
    costs: GpuCostAnalysis,
    device: GpuDevice,
) -> RunTime:
    blocks = _blocks(view, sizes)
    flops = bytes_read = 0
    reads: dict[HloInstruction, tuple[int, float]] = {}
    for t, padded in tiles.items():
        i = t.instruction
        if view.contains(i):
            flops += cycles_per_element(i, costs) * blocks * padded
            continue
        shape = i.array_shape
        count = blocks * prod(min(d.size, n) for d, n in zip(t.dimensions, shape.dimensions, strict=True))
        size = shape.element_type.byte_size * count
        bytes_read += size
        total, rate = reads.get(i, (0, 1.0))
        reads[i] = total + size, min(rate, bandwidth_rate(t, device))
    ticks = sum(read_time(device, i.shape.byte_size, total, blocks, rate) for i, (total, rate) in reads.items())
    root = view.roots[0]
    bandwidth = int(bandwidth_rate(next(iter(tiles)), device) * int(device.bandwidth))
    written = root.shape.byte_size
    computing = compute_time(device, flops, blocks, warps * device.architecture.threads_per_warp)
    return RunTime(flops, bytes_read, written, ticks, seconds(written / bandwidth), computing)


def bandwidth_rate(tile: Tile, device: GpuDevice) -> float:
    """Return the fraction of the bandwidth that a tile's accesses use, in whole transactions."""
    shape = tile.instruction.array_shape
    run = 1
    for d in shape.minor_to_major:
        size, stride = tile.dimensions[d][:2]
        if stride != 1:
            break
        run *= min(size, shape.dimensions[d])
        if size < shape.dimensions[d]:
            break
    unit = device.architecture.dram_transaction_bytes
    wanted = run * shape.element_type.byte_size
    return wanted / (unit * -(-wanted // unit))


def cycles_per_element(i: HloInstruction, costs: GpuCostAnalysis) -> int:
    """Return the clock cycles for one element of an instruction."""
    if i.opcode in _NO_CYCLES:
        return 0
    if i.opcode is O.CONCATENATE:
        return concatenate_cycles(i)
    if is_elementwise(i):
        return costs.cycles(i.opcode, i.shape)
    if i.opcode is O.REDUCE:
        made = i.shape.shapes[0] if isinstance(i.shape, TupleShape) else i.shape
        factor = elements_in(i.operands[0].shape) // max(elements_in(made), 1)
        return (factor - 1) * sum(cycles_per_element(r, costs) for r in i.to_apply)
    return int(costs.of(i).flops) // max(elements_in(i.shape), 1)


def _padded(n: int) -> int:
    return 1 << (n - 1).bit_length() if n > 0 else n
