"""Choose the block of the result that a micro-kernel holds in registers.

It is the one with the fewest cycles by a simple count of multiply-adds and loads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf
from operator import attrgetter, itemgetter

from xlanb.codegen.costs import Costs
from xlanb.codegen.module import CodegenTarget
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis, count
from xlanb.cpu.emitters.matmul.lanes import lanes_of
from xlanb.cpu.emitters.matmul.shared import LINE
from xlanb.lazy_dataclass import dataclass

_VECTORS = (1, 2, 3, 4, 6, 8)
_COMMON = (
    (14, 2),
    (28, 1),
    (8, 2),
    (16, 1),
    (10, 2),
    (6, 4),
    (4, 4),
    (8, 1),
    (4, 2),
    (2, 4),
    (1, 6),
    (1, 8),
    (1, 4),
    (1, 2),
)
"""Preferred tiles (rows, vectors), used unless another is clearly faster.

Programs share these and need not compile their own.
"""
_HARDLY = 1.02
_OTHERS = 3
"""Blocks that are shown as alternatives."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """The block of a tile: `rows` by `vectors`, and the estimated cycles of all tiles.

    Rows are `part` of row axis number `axis` times all of row axis `whole` (-1: no axis).
    """

    axis: int
    part: int
    whole: int
    rows: int
    vectors: int
    width: int
    cycles: float
    tiles: int

    def offsets(self, axes: Sequence[ContractionAxis]) -> list[tuple[int, int]]:
        """The rows, as element offsets from the first in a and in the result."""
        partial, whole = (axes[n] if n >= 0 else ContractionAxis(1) for n in (self.axis, self.whole))
        return [
            (p * partial.a + w * whole.a, p * partial.c + w * whole.c)
            for p in range(self.part)
            for w in range(whole.size)
        ]

    def __str__(self) -> str:
        return f"{self.rows} rows by {self.vectors} vectors of {self.width}"


@lru_cache(maxsize=1024)
def blocking(x: Contraction, target: CodegenTarget, most_columns: float = inf) -> Blocking:
    """The best block for a contraction whose vectors run along the last column axis.

    It has at most `most_columns` columns, or one vector.
    """
    width = lanes_of(target, x.type.bits)
    while width > 4 and width // 2 >= _column(x).size:
        width //= 2  # some machines execute two of half the width at once
    options = sorted(_options(x, target, width, most_columns), key=attrgetter("cycles"))
    least = options[0].cycles * _slowed(options[0], x, target.costs)
    near: dict[tuple[int, int], tuple[float, Blocking]] = {}
    for option in options:
        if option.cycles > least * _HARDLY:
            break  # the slowdown is at least 1
        cycles = option.cycles * _slowed(option, x, target.costs)
        least = min(least, cycles)
        shape = option.rows, option.vectors
        near[shape] = min(near.get(shape, (cycles, option)), (cycles, option), key=itemgetter(0))
    near = {shape: found for shape, found in near.items() if found[0] <= least * _HARDLY}
    common = next((near[shape] for shape in _COMMON if shape in near), None)
    return (common or min(near.values(), key=itemgetter(0)))[1]


def other_ways(
    x: Contraction, target: CodegenTarget, made: Blocking, most_columns: float = inf
) -> list[tuple[str, str]]:
    """The next best blocks of other shapes, with their cycles relative to the chosen one."""
    options = _options(x, target, made.width, most_columns)
    cycles = {str(o): o.cycles * _slowed(o, x, target.costs) for o in options}
    others = sorted((c, way) for way, c in cycles.items() if way != str(made))
    return [(way, f"{c / made.cycles:.2f} times the cycles") for c, way in others[:_OTHERS]]


def _column(x: Contraction) -> ContractionAxis:
    return x.columns[-1] if x.columns else ContractionAxis(1)


def _options(x: Contraction, target: CodegenTarget, width: int, most_columns: float) -> Iterator[Blocking]:
    """Yield the blocks whose sums fit the registers."""
    for vectors in _VECTORS:
        if vectors > -(-_column(x).size // width) or vectors * width > max(most_columns, width):
            continue
        limit = (target.vector_registers - vectors - 1) // vectors // (2 if x.is_complex else 1)
        axes = list(enumerate(x.rows)) or [(-1, ContractionAxis(1))]
        for n, axis in axes:
            few = [(m, other.size) for m, other in axes if m != n and other.size <= limit // 2]
            for whole, size in [(-1, 1), *few]:
                for part in range(min(size, 2), min(limit // size, axis.size) + 1):
                    yield _option(x, (n, part, whole, part * size), vectors, width, target.costs)


def _option(x: Contraction, block: tuple[int, int, int, int], vectors: int, width: int, costs: Costs) -> Blocking:
    n, part, _, rows = block
    axis, column = x.rows[n] if x.rows else ContractionAxis(1), _column(x)
    tiles = x.batch_count * count(x.rows) // (rows // part * axis.size) * -(-axis.size // part)
    tiles *= x.column_count // column.size * max(1, -(-column.size // (width * vectors)))
    parts = 2 if x.is_complex else 1
    sums = rows * vectors * parts
    is_far = x.depth_count * vectors > costs.first_cache_sets * costs.first_cache_ways // 2
    step = step_cycles(rows, vectors, costs, parts, is_far=is_far)
    cycles = tiles * (step * x.depth_count + 2 * sums + costs.tile_cycles)
    return Blocking(*block, vectors, width, cycles * (1 + 0.001 / sums), tiles)


def step_cycles(rows: int, vectors: int, costs: Costs, parts: int = 1, *, is_far: bool) -> float:
    """The cycles of a step of depth of a tile, whose numbers have `parts`.

    There are as many loads per cycle as multiply-adds; fewer than four sums are bound by latency;
    lines of b that are far come from the L2 cache.
    """
    sums = rows * vectors * parts
    step = max(sums, parts * rows + vectors, 4.0 if sums < 4 else 0.0)
    return step + vectors * (1.0 if is_far else 0.3) + rows * costs.row_cycles


def _slowed(made: Blocking, x: Contraction, costs: Costs) -> float:
    """The estimated slowdown of loads of a.

    Rows of a tile that map to few sets of the L1 cache evict one another; many streams that are far
    apart exceed the prefetchers.
    """
    size = x.a_type.byte_size
    if not x.depth or x.depth_count * size <= LINE:
        return 1.0
    places = sorted({a * size // LINE for a, _ in made.offsets(x.rows)})
    crowd = max(Counter(line % costs.first_cache_sets for line in places).values())
    if crowd > costs.first_cache_ways:
        return 1.0 + (crowd - costs.first_cache_ways) * costs.crowded
    apart = len(places) > costs.streams and min(b - a for a, b in pairwise(places)) * LINE >= costs.stream_bytes
    return costs.scattered if apart and x.depth[-1].size * size >= costs.stream_bytes else 1.0
