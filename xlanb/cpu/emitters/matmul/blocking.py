"""Which block of the result a micro-kernel holds: the one that needs the fewest cycles by a simple count of multiply-adds and loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

from xlanb.codegen.costs import Costs
from xlanb.codegen.module import Target
from xlanb.cpu.emitters.matmul.contraction import Axis, Contraction, count
from xlanb.cpu.emitters.matmul.lanes import lanes_of

_LINE = 64
"""Bytes of a cache line."""
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
"""Rows and vectors of tiles that are taken where another is hardly better: programs then share them, and need not compile their own."""
_HARDLY = 1.02


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that one tile takes: all of `whole` (an index into the row axes, or -1) times `part` of axis `partial` (or -1, where there is no row axis)."""

    whole: int
    partial: int
    part: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """Rows and vectors of a tile, and what all tiles are guessed to take, in cycles."""

    rows: Rows
    vectors: int
    width: int
    cycles: float
    tiles: int

    def offsets(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """The rows of a tile, as steps of one element each: (size unused, a, b, c)."""
        whole = axes[self.rows.whole] if self.rows.whole >= 0 else Axis(1)
        partial = axes[self.rows.partial] if self.rows.partial >= 0 else Axis(1)
        return tuple(
            Axis(1, p * partial.a + w * whole.a, 0, p * partial.c + w * whole.c)
            for p in range(self.rows.part)
            for w in range(whole.size)
        )


@lru_cache(maxsize=1024)
def blocking(x: Contraction, target: Target) -> Blocking:
    """The best block for a contraction, whose last column axis is the one along which vectors lie."""
    width = lanes_of(target, x.type.bits)
    column = x.columns[-1] if x.columns else Axis(1)
    while width > 4 and width // 2 >= column.size:
        width //= 2  # two of half the width go at once on some machines
    options = [
        _option(x, rows, vectors, width, column, target.costs)
        for rows, vectors in _candidates(x, target, width, column)
    ]
    options.sort(key=lambda o: o.cycles)
    least = options[0].cycles * _slowed(options[0], x, target.costs)
    near: dict[tuple[int, int], tuple[float, Blocking]] = {}
    for option in options:
        if option.cycles > least * _HARDLY:
            break  # nothing makes an option faster than it is at first sight
        cycles = option.cycles * _slowed(option, x, target.costs)
        least = min(least, cycles)
        shape = (len(option.offsets(x.rows)), option.vectors)
        near[shape] = min(near.get(shape, (cycles, option)), (cycles, option), key=itemgetter(0))
    near = {shape: found for shape, found in near.items() if found[0] <= least * _HARDLY}
    common = next((near[shape] for shape in _COMMON if shape in near), None)
    return (common or min(near.values(), key=itemgetter(0)))[1]


def described(x: Contraction, made: Blocking) -> str:
    """A block as text: rows by elements of a vector's lanes."""
    return f"{len(made.offsets(x.rows))} rows by {made.vectors} vectors of {made.width}"


def other_ways(x: Contraction, target: Target, made: Blocking, most: int = 3) -> list[tuple[str, str]]:
    """The next best blocks of other shapes, with the cycles that they are guessed to take."""
    column = x.columns[-1] if x.columns else Axis(1)
    options = [
        _option(x, rows, vectors, made.width, column, target.costs)
        for rows, vectors in _candidates(x, target, made.width, column)
    ]
    cycles = {described(x, o): o.cycles * _slowed(o, x, target.costs) for o in options}
    taken = described(x, made)
    others = sorted((c, way) for way, c in cycles.items() if way != taken)
    return [(way, f"{c / made.cycles:.2f} times the cycles") for c, way in others[:most]]


def _candidates(x: Contraction, target: Target, width: int, column: Axis) -> Iterator[tuple[Rows, int]]:
    registers = target.vector_registers
    most = -(-column.size // width)
    for vectors in _VECTORS:
        if vectors > most:
            continue
        limit = (registers - vectors - 1) // vectors // (2 if x.is_complex else 1)
        if limit < 1:
            continue
        for rows in _row_candidates(x.rows, limit):
            yield rows, vectors


def _row_candidates(axes: tuple[Axis, ...], limit: int) -> Iterator[Rows]:
    if not axes:
        yield Rows(-1, -1, 1)
    for n, axis in enumerate(axes):
        for part in range(1, min(limit, axis.size) + 1):
            yield Rows(-1, n, part)
        for m, other in enumerate(axes):
            if m != n and other.size <= limit // 2:
                for part in range(2, min(limit // other.size, axis.size) + 1):
                    yield Rows(m, n, part)


def _option(x: Contraction, rows: Rows, vectors: int, width: int, column: Axis, costs: Costs) -> Blocking:
    whole = x.rows[rows.whole].size if rows.whole >= 0 else 1
    partial = x.rows[rows.partial].size if rows.partial >= 0 else 1
    height = whole * rows.part
    tiles = x.batch_count * count(x.rows) // (whole * partial) * -(-partial // rows.part)
    tiles *= x.column_count // column.size * max(1, -(-column.size // (width * vectors)))
    parts = 2 if x.is_complex else 1
    sums = height * vectors * parts
    # As many loads a cycle as multiply-adds; fewer than four sums wait for one another; lines of b come from beyond the first cache.
    step = max(sums, parts * height + vectors, 4.0 if sums < 4 else 0.0)
    step += vectors * (
        1.0 if x.depth_count * vectors * _LINE > _LINE * costs.first_cache_sets * costs.first_cache_ways // 2 else 0.3
    )
    cycles = tiles * (step * x.depth_count + 2 * sums + costs.tile_cycles)
    return Blocking(rows, vectors, width, cycles * (1 + 0.001 / sums), tiles)


def _slowed(made: Blocking, x: Contraction, costs: Costs) -> float:
    """How much longer loads of a take: where the rows of a tile fall on few sets of the first cache and drive one another out, or are many streams apart from one another."""
    if not x.depth or x.depth_count * x.a_type.byte_size <= _LINE:
        return 1.0
    size = x.a_type.byte_size
    places = sorted({o.a * size // _LINE for o in made.offsets(x.rows)})
    crowd = max(Counter(line % costs.first_cache_sets for line in places).values())
    if crowd > costs.first_cache_ways:
        return 1.0 + (crowd - costs.first_cache_ways) * costs.crowded
    apart = len(places) > costs.streams and min(b - a for a, b in pairwise(places)) * _LINE >= costs.stream_bytes
    return costs.scattered if apart and x.depth[-1].size * size >= costs.stream_bytes else 1.0
