"""Tiles of an attention, and the layout of a thread's scratch memory.

Depends on the shapes and masks alone, not on the machine: the scratch is assigned before any code is emitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xlanb.analysis.attention import Attention, attention_of
from xlanb.analysis.digits import MOVING
from xlanb.codegen.costs import COMMON
from xlanb.cpu.emitters.attention.tiles import Reach, reach_of
from xlanb.cpu.emitters.matmul.grid import even
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

LANES = 16
"""What lines are rounded up to, so that vectors of any machine may be read and written whole."""
_ROWS = 28, 72
"""Queries of a tile, at the least where there are more, and at the most."""
_BLOCK = 14
"""Rows of the micro-kernel at the most."""
_CALL, _TILE = 0.5, 2.0
"""Overhead of a micro-kernel call and of a tile, expressed in rows."""
_ITEMS, _LEAST_TILES = 24, 4
"""Preferred number of work items for threads if a head's tiles can be split into runs, and minimum
number of tiles per run (each run packs keys and values again)."""
_KEYS, _MASKED_KEYS = 256, 128
"""Keys of a tile at the most; fewer where a mask leaves out whole tiles, which fewer keys do better."""
_LINE = 64


def attention_in(fusion: HloInstruction) -> Attention | None:
    """The attention that a fusion computes; None where its computation is none, as it is given."""
    i = fusion.fused_computation.root
    while i.opcode in MOVING:
        i = i.operands[0]
    found = attention_of(i) if i.opcode is Op.DOT else None
    if found is None or found.root is not fusion.fused_computation.root:
        return None
    sources = (found.q.array, found.k.array, found.v.array)
    return found if all(s.opcode is Op.PARAMETER for s in sources) else None


@dataclass(frozen=True, eq=False)
class AttentionTiling:
    """Tiles of `rows` queries, of which the last ones overlap those before, and of `keys` keys, of which the last have fewer."""

    a: Attention
    rows: int
    keys: int
    reach: Reach | None

    @property
    def row_tiles(self) -> int:
        """Tiles along the queries of a head."""
        return -(-self.a.rows.size // self.rows)

    @property
    def key_tiles(self) -> int:
        """Tiles along the keys of a head."""
        return -(-self.a.keys.size // self.keys)

    @property
    def runs(self) -> int:
        """In how many runs the tiles of queries of a head are cut."""
        return max(1, min(-(-_ITEMS // self.a.head_count), self.row_tiles // _LEAST_TILES))

    @property
    def run_tiles(self) -> int:
        """Tiles of queries of a run; the last may have fewer."""
        return -(-self.row_tiles // self.runs)

    @property
    def items(self) -> int:
        """What threads share: the runs of all heads."""
        return self.a.head_count * self.runs

    @property
    def nanoseconds(self) -> float:
        """What one of them takes, about."""
        share = self.reach.share(self.key_tiles) if self.reach is not None else 1.0
        scores = self.run_tiles * self.rows * self.a.keys.size * share
        products = scores * (self.a.depth.size + self.a.width.size) / 32 * COMMON.cycle_ns
        return products + scores * COMMON.function_ns / 2

    @property
    def padded_keys(self) -> int:
        """Keys with those that the last tile has too few of."""
        return self.key_tiles * self.keys

    @property
    def depth_line(self) -> int:
        """Elements of a line over depth."""
        return _up(self.a.depth.size, LANES)

    @property
    def width_line(self) -> int:
        """Elements of a line of the result."""
        return _up(self.a.width.size, LANES)

    @property
    def score_line(self) -> int:
        """Elements of a line of scores: no multiple of a page, so that the micro-kernel's rows do not drive one another out of the cache."""
        return self.keys + LANES

    @property
    def line_count(self) -> int:
        """Rows of a tile, rounded up to vectors."""
        return _up(self.rows, LANES)

    @cached_property
    def places(self) -> dict[str, int]:
        """Bytes from the begin of a thread's scratch to each of its parts, and its size."""
        sizes = {
            "keys": self.padded_keys * self.a.depth.size,
            "values": self.padded_keys * self.width_line,
            "queries": self.rows * self.depth_line,
            "scores": self.rows * self.score_line,
            "part": self.rows * self.width_line,
            "total": self.rows * self.width_line,
            "sums": self.rows * LANES,
            "maxima": self.line_count,
            "tile maxima": self.line_count,
            "shifts": self.line_count,
            "factors": self.line_count,
            "finite": self.key_tiles,
        }
        out, at = {}, 0
        for name, elements in sizes.items():
            out[name] = at
            at += _up(4 * elements, _LINE)
        return {**out, "size": at}


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def tiling(a: Attention) -> AttentionTiling:
    """The tiles of an attention."""
    rows = _rows(a.rows.size)
    for most in (_MASKED_KEYS, _KEYS):
        count = -(-a.keys.size // most)
        keys = _up(-(-a.keys.size // count), LANES if count == 1 else 2 * LANES)
        reach = reach_of(a, _blocks(a.rows.size, rows, overlap=True), _blocks(a.keys.size, keys, overlap=False))
        if reach is not None:
            break
    return AttentionTiling(a, rows, keys, reach)


def _rows(size: int) -> int:
    """The number of queries per tile that minimizes the rows which the micro-kernel computes twice
    (its last blocks overlap the previous ones).
    """
    least, most = _ROWS

    def cost(rows: int) -> float:
        block = even(rows, _BLOCK)
        return -(-size // rows) * (-(-rows // block) * (block + _CALL) + _TILE)

    return min(range(min(size, most), min(size, least) - 1, -1), key=cost)


def _blocks(size: int, step: int, *, overlap: bool) -> list[tuple[int, int]]:
    """The first and the last of each block."""
    begins = [min(at, size - step) if overlap else at for at in range(0, size, step)]
    return [(at, min(at + step, size) - 1) for at in begins]
