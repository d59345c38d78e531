"""Convert the tiling of a dot to the tiles of its fusion (convert_triton_gemm_config.cc).

    fusion(x, y), "__triton_gemm",
        "triton_gemm_config":{"block_m":"16","block_n":"8","block_k":"128",...}
    =>  fusion(x, y), "__triton_nested_gemm_fusion",
        "block_level_fusion_config":{"output_tiles":[{"sizes":["16","8"]}],...};
        its dot has backend_config={"sizes":["128"]}

Between the dot and the root are bitcasts, transposes and elementwise instructions. The root's tile
has these sizes in the order that makes the dot's tile [1, ..., block_m, block_n].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.backend_config import changed, fusion_config, text_of
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.layout.layout_normalization import permutation
from xlanb.transforms.reason import reason

Tile = tuple[int, ...]


class ConvertTritonGemmConfig(HloPass):
    """Gives every fusion with a tiled dot the tiles of its result."""

    name = "convert_triton_gemm_config"
    triggers = frozenset((O.FUSION,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.FUSION and "triton_gemm_config" in fusion_config(i):
                    dot = next((f for f in i.fused_computation if f.opcode is O.DOT), None)
                    if dot is not None:
                        _convert(i, dot)


_DEFAULTS: dict[str, Any] = {
    "num_warps": "1", "num_ctas": "1", "num_stages": "1", "waves_per_eu": "0",
    "is_tma_allowed": False, "is_warp_specialization_allowed": False,
}  # fmt: skip
"""Fields that a hand-written config may omit."""


@reason("the block-level emitter takes tiles of the result")
def _convert(fusion: HloInstruction, dot: HloInstruction) -> None:
    config = fusion_config(fusion)
    tiling: dict[str, Any] = _DEFAULTS | config.pop("triton_gemm_config")
    sizes = output_tile(dot, (int(tiling["block_m"]), int(tiling["block_n"])))
    block_level = {
        "num_warps": tiling["num_warps"],
        "output_tiles": [{"sizes": [str(n) for n in sizes]}],
        "num_ctas": int(tiling["num_ctas"]),
        "num_stages": int(tiling["num_stages"]),
        "is_tma_allowed": tiling["is_tma_allowed"],
        "is_warp_specialization_allowed": tiling["is_warp_specialization_allowed"],
        "waves_per_eu": int(tiling["waves_per_eu"]),
    }
    config |= {"kind": "__triton_nested_gemm_fusion", "block_level_fusion_config": block_level}
    dot.parent.update(dot, backend_config=text_of({"sizes": [tiling["block_k"]]}))
    fusion.parent.update(fusion, backend_config=changed(fusion, fusion_backend_config=config))


def output_tile(dot: HloInstruction, block: tuple[int, int]) -> Tile:
    """Return the root tile for which the dot's tile is [1, ..., block_m, block_n].

    If no order of these sizes does that, it is [1, ..., block_m, block_n] itself.
    """
    wanted = (*(1,) * (dot.array_shape.rank - 2), *block)
    root = dot.parent.root
    path = _path(root, dot)
    sizes = (*(1,) * (root.array_shape.rank - 2), *block)
    if path is not None:
        for tile in dict.fromkeys(permutations(sorted(sizes))):
            if _carried(path, tile) == wanted:
                return tile
    return sizes


def _path(root: HloInstruction, dot: HloInstruction) -> list[HloInstruction] | None:
    """Return the instructions from the root to the dot, or None if there is no path."""
    found: list[HloInstruction] = []
    i = dot
    while i is not root:
        users = [u for u in i.users if u.shape.is_array]
        if not users:
            return None
        i = users[0]
        found.append(i)
    return found[::-1]


def _carried(path: list[HloInstruction], tile: Tile) -> Tile | None:
    """Return the dot's tile for a tile of the root."""
    current: Tile | None = tile
    for i in path:
        if current is None:
            return None
        if i.opcode is O.BITCAST or i.opcode is O.RESHAPE:
            current = _through_bitcast(i.operands[0].array_shape, i.array_shape, current)
        elif i.opcode is O.TRANSPOSE:
            current = tuple(current[i.dimensions.index(d)] for d in range(len(current)))
        elif not is_elementwise(i):
            return None
    return current


def _through_bitcast(source: ArrayShape, target: ArrayShape, tile: Tile) -> Tile | None:
    """Return the tile of `source` with the bytes of a tile of `target`, or None if it is no box."""
    if source.element_count != target.element_count:
        return None
    order, places = permutation(source), permutation(target)
    out = [1] * source.rank
    for from_target, from_source in _runs(
        [target.dimensions[d] for d in places], [source.dimensions[d] for d in order]
    ):
        given = [(target.dimensions[places[n]], tile[places[n]]) for n in from_target]
        split = _tile_of_run(given, [source.dimensions[order[n]] for n in from_source])
        if split is None:
            return None
        for n, size in zip(from_source, split, strict=True):
            out[order[n]] = size
    return tuple(out)


def _runs(a: list[int], b: list[int]) -> Iterator[tuple[range, range]]:
    """Yield the smallest runs of dimensions with equal products above 1, major to minor.

    Dimensions of size 1 join an adjacent run.
    """
    i = j = 0
    while i < len(a) or j < len(b):
        first_i, first_j, product_a, product_b = i, j, 1, 1
        while (i < len(a) or j < len(b)) and not product_a == product_b > 1:
            if j == len(b) or (i < len(a) and product_a <= product_b):
                product_a, i = product_a * a[i], i + 1
            else:
                product_b, j = product_b * b[j], j + 1
        yield range(first_i, i), range(first_j, j)


def _tile_of_run(given: list[tuple[int, int]], sizes: list[int]) -> list[int] | None:
    """Return a run's tile over other sizes of the same product; its elements must be contiguous."""
    proper = [(n, t) for n, t in given if n > 1]
    rest = [n for n in sizes if n > 1]
    if len(proper) == 1 and len(rest) == 1:
        length = proper[0][1]
        return [length if n > 1 else 1 for n in sizes]
    # All but the major one of the tiled dimensions must be whole, or 1 above the first that is not.
    elements, started = 1, False
    for n, t in proper:
        if started and t < n:
            return None
        started = started or t > 1
        elements *= t
    made = []
    for n in reversed(sizes):
        size = min(n, elements)
        if elements % size:
            return None
        elements //= size
        made.append(size)
    return made[::-1] if elements == 1 else None
