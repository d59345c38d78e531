"""Launch dimensions of the kernel of a fusion, by its emitter.

Sources: launch_dimensions.cc, gpu_fusible.cc (unrolling) and the emitters of
xla/backends/gpu/codegen/emitters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.model.fusion_analysis import EmitterKind, FusionAnalysis, bit_width, elements_in, tiled_transpose
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.model.tiling import given_tiling
from xlanb.gpu.reductions import (
    MIN_THREADS_ROW_REDUCTION,
    ReductionDimensions,
    dimensions_of,
    is_real_reduction_hero,
)
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.transforms.layout.layout_normalization import is_bitcast_transpose

_UNROLL: Final = 4
_BLACKWELL_UNROLL: Final = 8
_MOST_CONCATENATED: Final = 10
_LARGEST_WINDOW: Final = 8
_TILE: Final = 32
_TRANSPOSE_THREADS: Final = 128
_ROW_ELEMENTS: Final = 16
_BLOCK_TARGET: Final = 256
_SCATTER_WARPS: Final = 4
_VECTOR_BITS: Final = 128


class LaunchDimensions(NamedTuple):
    """A kernel's launch: number of blocks, and threads per block."""

    blocks: int
    threads: int


def launch_of(analysis: FusionAnalysis) -> LaunchDimensions:
    """Return the launch of the kernel of a fusion."""
    return _BY_KIND.get(analysis.kind, _estimated)(analysis)


def loop_launch(shape: Shape, device: GpuDevice, unroll: int = 1) -> LaunchDimensions:
    """Return the launch of a loop over a shape with `unroll` elements per thread."""
    count = elements_in(shape)
    if count <= 1:
        return LaunchDimensions(1, 1)
    count = _ceil(count, unroll)
    threads = min(device.architecture.threads_per_warp * 4, count)
    return LaunchDimensions(_ceil(count, threads), threads)


def unroll_factor(analysis: FusionAnalysis, shape: Shape) -> int:
    """Return how many elements each thread of a loop over a shape computes."""
    device = analysis.device
    count = elements_in(shape)
    unroll = 1
    if count >= device.architecture.threads_per_core * device.cores and not _suffers_unrolled(analysis.view):
        unroll = math.gcd(count, _most_unrolled(analysis))
    return max(unroll, _ceil(8, analysis.smallest_output_bits))


def _suffers_unrolled(view: FusionView) -> bool:
    return any(_is_slow_unrolled(i) for i in view.nodes())


def _is_slow_unrolled(i: HloInstruction) -> bool:
    if i.opcode is O.REDUCE_WINDOW:
        return math.prod(d.size for d in i.window.dimensions) > _LARGEST_WINDOW
    if i.opcode is O.CONCATENATE:
        return len(i.operands) > _MOST_CONCATENATED
    if i.opcode is O.REDUCE:
        return isinstance(i.shape, TupleShape) and len(i.shape.shapes) > 1
    return i.opcode in (O.SORT, O.DOT)


def _most_unrolled(analysis: FusionAnalysis) -> int:
    """Return the unroll factor of a large loop; Blackwell has 256-bit vectors for narrow types."""
    if analysis.device.architecture.capability < (10, 0):
        return _UNROLL
    vectorized = (EmitterKind.LOOP, EmitterKind.TRANSPOSE, EmitterKind.CONCATENATE)
    width = 256
    if analysis.kind not in vectorized or analysis.smallest_output_bits >= width // _UNROLL or len(analysis.roots) > 1:
        return _UNROLL
    if any(i.opcode is O.REDUCE for i in analysis.view.nodes()):
        return _UNROLL
    shapes = [i.shape for i in (*analysis.view.parameters, *analysis.roots)]
    widest = max((8, *(bit_width(s) for s in shapes)))
    unroll = 1 << (min(_BLACKWELL_UNROLL, width // widest).bit_length() - 1)
    while unroll > _UNROLL and any(_minor_is_short(i, unroll) for i in analysis.view.nodes()):
        unroll //= 2
    return max(unroll, _BLACKWELL_UNROLL)


def _minor_is_short(i: HloInstruction, unroll: int) -> bool:
    return i.opcode is O.TRANSPOSE and not is_bitcast_transpose(i) and i.array_shape.dimensions[-1] < unroll


# -- by emitter ------------------------------------------------------------------------------------


def _loop(analysis: FusionAnalysis) -> LaunchDimensions:
    update = _updated_in_place(analysis)
    if update is not None:
        return loop_launch(update, analysis.device, unroll_factor(analysis, update))
    shape = _first_array(analysis.roots[0].shape)
    return loop_launch(shape, analysis.device, unroll_factor(analysis, shape))


def _first_array(shape: Shape) -> Shape:
    while isinstance(shape, TupleShape) and shape.shapes:
        shape = shape.shapes[0]
    return shape


def _updated_in_place(analysis: FusionAnalysis) -> Shape | None:
    """Return the update's shape if all roots are in-place dynamic-update-slices, else None."""
    view = analysis.view
    updates = []
    for root in analysis.roots:
        source = view.resolve(root.operands[0]) if root.opcode is O.BITCAST else root
        if source.opcode is not O.DYNAMIC_UPDATE_SLICE:
            return None
        updates.append(source)
    update_shape = view.resolve(updates[0].operands[1]).shape
    return update_shape if all(_is_in_place(u, update_shape, view) for u in updates) else None


def _is_in_place(update: HloInstruction, update_shape: Shape, view: FusionView) -> bool:
    """Whether the updated buffer is read only where it is written."""
    users = view.users(update)
    while users:
        if len(users) > 1 or users[0].opcode is not O.BITCAST:
            return False
        users = view.users(users[0])
    target = view.resolve(update.operands[0])
    if view.contains(target) and target.opcode is O.BITCAST:
        target = view.resolve(target.operands[0])
    if view.contains(target):
        return False
    seen, queue = {target, update}, [target]
    while queue:
        for user in view.users(queue.pop()):
            if not _reads_in_place(user, update, update_shape, view):
                return False
            if user not in seen:
                seen.add(user)
                queue.append(user)
    return view.resolve(update.operands[1]).shape == update_shape


def _reads_in_place(user: HloInstruction, update: HloInstruction, update_shape: Shape, view: FusionView) -> bool:
    reads_box = user.opcode is O.DYNAMIC_SLICE and user.shape == update_shape
    if reads_box and view.resolve(user.operands[0]) is view.resolve(update.operands[0]):
        return elements_in(update_shape) == 1 or user.operands[1:] == update.operands[2:]
    if user is update:
        return True
    return user.opcode in (O.BITCAST, O.TUPLE, O.COPY) or user.opcode.is_elementwise


def _concatenate(analysis: FusionAnalysis) -> LaunchDimensions:
    hero = analysis.heroes[0]
    dimension = hero.dimensions[0]
    largest = max((o.array_shape for o in hero.operands), key=lambda s: s.dimensions[dimension])
    unroll = unroll_factor(analysis, largest)
    for o in hero.operands:
        unroll = math.gcd(unroll, o.array_shape.dimensions[dimension])
    return loop_launch(largest, analysis.device, unroll)


def _transpose(analysis: FusionAnalysis) -> LaunchDimensions:
    t = analysis.transpose
    if t is None:
        return _estimated(analysis)
    threads = _TRANSPOSE_THREADS * (2 if analysis.device.architecture.platform == "ROCM" else 1)
    if t.tile:
        return LaunchDimensions(math.prod(map(_ceil, t.canonical, t.tile)), threads)
    inverse = [t.permutation.index(n) for n in range(len(t.permutation))]
    read = [t.dimensions[n] for n in inverse]
    keeps_minor = t.permutation[-1] == len(read) - 1
    if keeps_minor:
        return LaunchDimensions(_transpose_blocks(read, t.permutation, read[-1]), threads)
    blocks = _transpose_blocks(read, t.permutation, 1)
    widths = [h.array_shape.element_type.byte_size for h in analysis.heroes if tiled_transpose(h) is not None]
    shared = sum(_TILE * (_TILE + 1) * w for w in widths)
    arch, cores = analysis.device.architecture, analysis.device.cores
    vector = (16 if arch.platform == "ROCM" else 4) // max(widths)
    while vector > 1:
        enough = blocks * threads >= vector * vector * cores * arch.threads_per_core
        fits = shared * vector * vector <= arch.shared_memory_per_block
        if enough and fits and read[-1] % vector == 0 and read[t.permutation[-1]] % vector == 0:
            return LaunchDimensions(_transpose_blocks(read, t.permutation, vector), threads)
        vector //= 2
    return LaunchDimensions(blocks, threads)


def _transpose_blocks(read: list[int], permutation: tuple[int, ...], vector: int) -> int:
    tile = [1] * len(read)
    if permutation[-1] == len(read) - 1:
        tile[-1] = vector
        tile[-2] = tile[permutation[-2]] = _TILE
    else:
        tile[-1] = tile[permutation[-1]] = _TILE * vector
    return math.prod(map(_ceil, read, tile))


def _reduction(analysis: FusionAnalysis) -> LaunchDimensions:
    reduction = dimensions_of(analysis.hero_reduction)
    if reduction.is_row:
        blocks, threads = _many_rows(analysis, reduction) or _row(analysis, reduction)
    elif reduction.dimensions[2] and analysis.device.architecture.threads_per_warp % reduction.dimensions[2] == 0:
        blocks, threads = _small_column(analysis, reduction)
    else:
        vector = _vector_size(analysis, reduction.dimensions[2], _TILE)
        blocks, threads = reduction.dimensions[0] * _ceil(reduction.dimensions[2], _TILE * vector), _TILE * _TILE
    return LaunchDimensions(blocks * _disjoint_groups(analysis), threads)


def _many_rows(analysis: FusionAnalysis, reduction: ReductionDimensions) -> LaunchDimensions | None:
    """Return a launch with several short rows per warp.

    Returns None if rows are too long, or if their length is not a power of two.
    """
    _, kept, minor = reduction.dimensions
    if minor & (minor - 1):
        return None
    given, made = analysis.smallest_input_bits, analysis.smallest_output_bits
    narrow, wide = min(given, made), max(given, made)
    wide = made if wide == 2147483647 else wide
    vector = min(minor, 64 // narrow)
    if wide >= 32:
        vector = min(128 // wide, vector)
    warp = analysis.device.architecture.threads_per_warp
    if vector < 1 or minor > warp * vector:
        return None
    launch = _rows_launch(kept, minor, vector)
    while vector > 1 and launch.blocks < analysis.device.cores:
        vector //= 2
        launch = _rows_launch(kept, minor, vector)
    return None if minor > warp * vector else launch


def _rows_launch(kept: int, minor: int, vector: int) -> LaunchDimensions:
    reduced = minor // vector
    rows = kept if kept * reduced <= _BLOCK_TARGET else _BLOCK_TARGET // reduced
    return LaunchDimensions(_ceil(kept, rows), rows * reduced)


def _row(analysis: FusionAnalysis, reduction: ReductionDimensions) -> LaunchDimensions:
    _, kept, minor = reduction.dimensions
    warp = analysis.device.architecture.threads_per_warp
    reduced = min(MIN_THREADS_ROW_REDUCTION, _ceil(_ceil(minor, _ROW_ELEMENTS), warp) * warp)
    rows = 1
    if reduced * 2 <= _BLOCK_TARGET:
        rows = kept if kept * reduced <= _BLOCK_TARGET else _BLOCK_TARGET // reduced
    vector = _vector_size(analysis, minor, reduced)
    vectors = minor // vector
    tile = min(_ROW_ELEMENTS // vector, _ceil(vectors, reduced))
    return LaunchDimensions(_ceil(kept, rows) * _ceil(vectors, tile * reduced), rows * reduced)


def _small_column(analysis: FusionAnalysis, reduction: ReductionDimensions) -> LaunchDimensions:
    major, middle, minor = reduction.dimensions
    vector = _vector_size(analysis, middle * minor, _TILE)
    threads = 128
    rows = vector * threads // minor
    while rows > _TILE and vector > 1:
        vector //= 2
        rows //= 2
    if rows > _TILE:
        threads //= rows // _TILE
    return LaunchDimensions(major, threads)


def _vector_size(analysis: FusionAnalysis, minor: int, threads: int) -> int:
    """Return how many elements a thread reads at once."""
    if minor % 2 or threads * 2 > minor:
        return 1
    read = (o.shape for hero in analysis.heroes for o in hero.operands)
    if any(isinstance(s, ArrayShape) and s.element_type.is_complex for s in read):
        return 1
    if analysis.smallest_input_bits >= 64:
        return 1
    if analysis.smallest_input_bits >= 32 or threads * 4 > minor:
        return 2
    return 4 if minor % 4 == 0 else 2


def _disjoint_groups(analysis: FusionAnalysis) -> int:
    """Return the number of result groups that share no input; each has its own blocks."""
    roots = list(dict.fromkeys(analysis.roots))
    if len(roots) == 1:
        return 1
    view = analysis.view
    heroes = dict(zip(analysis.roots, analysis.heroes, strict=True))
    reduced = {root for root in roots if is_real_reduction_hero(root, heroes[root])}
    group = {root: n for n, root in enumerate(roots)}

    def merge(together: list[HloInstruction]) -> None:
        joined = {group[root] for root in together}
        for root, n in group.items():
            if n in joined:
                group[root] = group[together[0]]

    others = [root for root in roots if root not in reduced]
    if others:
        merge(others)
    reached: dict[HloInstruction, list[HloInstruction]] = {}
    for root in roots:
        inside = list(view.walk((root,), view.operands))
        outside = (o for i in inside for o in view.operands(i))
        for i in dict.fromkeys((*inside, *outside)):
            reached.setdefault(i, []).append(root)
    for i, by in reached.items():
        merge(_joined_by(i, by, reduced))
    return len(set(group.values()))


def _joined_by(i: HloInstruction, roots: list[HloInstruction], reduced: set[HloInstruction]) -> list[HloInstruction]:
    """Return the roots that a common source joins into one group.

    A scalar or constant, which is cheap to read again, joins only one reduction.
    """
    source = i.operands[0] if i.opcode is O.BROADCAST else i
    if source.opcode is not O.CONSTANT and not (isinstance(source.shape, ArrayShape) and source.shape.rank == 0):
        return roots
    first = next((r for r in roots if r in reduced), None)
    return [r for r in roots if r not in reduced or r is first]


def _scatter(analysis: FusionAnalysis) -> LaunchDimensions:
    scatter = analysis.heroes[0]
    count = len(scatter.operands) // 2
    output, indices = scatter.operands[0].array_shape, scatter.operands[count].array_shape
    updates = scatter.operands[count + 1].array_shape
    per_slice = math.prod(updates.dimensions[1:])
    warp = analysis.device.architecture.threads_per_warp
    slices = indices.dimensions[0]
    warps = _SCATTER_WARPS * analysis.device.cores
    if scatter.get("indices_are_sorted") and not scatter.get("unique_indices") and slices > warps:
        possible = math.prod(
            o - u + 1 for o, u in zip(output.dimensions, updates.dimensions[1:][: indices.dimensions[1]], strict=False)
        )
        per_warp = _ceil(slices, max(warps, possible))
        most = _VECTOR_BITS // indices.element_type.bits
        if indices.dimensions[1] == 1 and per_warp > most:
            per_warp = _ceil(per_warp, most) * most
        return LaunchDimensions(_ceil(slices, per_warp * _SCATTER_WARPS), _SCATTER_WARPS * warp)
    vector = math.gcd(per_slice, unroll_factor(analysis, updates))
    launch = loop_launch(updates, analysis.device, vector)
    return LaunchDimensions(launch.blocks, _ceil(launch.threads, warp) * warp)


def _triton(analysis: FusionAnalysis) -> LaunchDimensions:
    """Return a launch with one block per tile in the config.

    For a pair, the config may belong to a producer with a result of another rank.
    """
    given = given_tiling(analysis.config)
    if given is None:
        return _estimated(analysis)
    sizes, warps = given
    blocks = math.prod(_ceil(n, t) for n, t in zip(analysis.roots[0].array_shape.dimensions, sizes, strict=False))
    return LaunchDimensions(blocks, warps * analysis.device.architecture.threads_per_warp)


def _estimated(analysis: FusionAnalysis) -> LaunchDimensions:
    count = elements_in(analysis.roots[0].shape)
    return LaunchDimensions(_ceil(count, 128), 128)


_BY_KIND: Final[Mapping[EmitterKind, Callable[[FusionAnalysis], LaunchDimensions]]] = {
    EmitterKind.LOOP: _loop,
    EmitterKind.CONCATENATE: _concatenate,
    EmitterKind.TRANSPOSE: _transpose,
    EmitterKind.REDUCTION: _reduction,
    EmitterKind.SCATTER: _scatter,
    EmitterKind.TRITON: _triton,
}


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
