"""Tiles of an attention, and the layout of a thread's scratch memory.

Depends only on shapes and masks, not on the machine: scratch is assigned before code is emitted.
"""

from __future__ import annotations

from functools import cached_property

from xlanb.analysis.attention import Attention, attention_of
from xlanb.analysis.digits import MOVING
from xlanb.codegen.costs import COMMON
from xlanb.cpu.emitters.attention.tiles import Reach, reach_of
from xlanb.cpu.emitters.matmul.grid import even
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass

LANES = 16
"""Lines are rounded up to this many elements, so that any machine's vectors fit."""
_ROWS = 28, 72
"""The least and greatest number of queries per tile; fewer if there are fewer queries."""
_BLOCK = 14
"""The most rows of the micro-kernel."""
_CALL, _TILE = 0.5, 2.0
"""Overhead of a micro-kernel call and of a tile, expressed in rows."""
_ITEMS, _LEAST_TILES = 24, 4
"""Preferred number of work items for threads if a head's tiles can be split into runs, and minimum
number of tiles per run (each run packs keys and values again)."""
_KEYS, _MASKED_KEYS = 256, 128
"""The most keys per tile; the smaller number is for masks, to exclude more tiles."""
_LINE = 64


def attention_in(fusion: HloInstruction) -> Attention | None:
    """The attention that a fusion computes; None if its computation is not an attention."""
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
    """Tiles of `rows` queries by `keys` keys.

    The last tiles of queries overlap the previous ones; the last tile of keys may be shorter.
    """

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
        """The number of runs that a head's query tiles are divided into."""
        return max(1, min(-(-_ITEMS // self.a.head_count), self.row_tiles // _LEAST_TILES))

    @property
    def run_tiles(self) -> int:
        """Query tiles of a run; the last run may have fewer."""
        return -(-self.row_tiles // self.runs)

    @property
    def items(self) -> int:
        """The number of work items that threads share: the runs of all heads."""
        return self.a.head_count * self.runs

    @property
    def nanoseconds(self) -> float:
        """Estimated nanoseconds of one work item."""
        share = self.reach.share(self.key_tiles) if self.reach is not None else 1.0
        scores = self.run_tiles * self.rows * self.a.keys.size * share
        products = scores * (self.a.depth.size + self.a.width.size) / 32 * COMMON.cycle_ns
        return products + scores * COMMON.function_ns / 2

    @property
    def padded_keys(self) -> int:
        """Keys, rounded up to whole tiles."""
        return self.key_tiles * self.keys

    @property
    def depth_line(self) -> int:
        """Elements per line of depth."""
        return _up(self.a.depth.size, LANES)

    @property
    def width_line(self) -> int:
        """Elements per line of the result."""
        return _up(self.a.width.size, LANES)

    @property
    def score_line(self) -> int:
        """Elements per line of scores: not a multiple of a page, to avoid cache conflicts."""
        return self.keys + LANES

    @property
    def line_count(self) -> int:
        """Rows of a tile, rounded up to whole vectors."""
        return _up(self.rows, LANES)

    @cached_property
    def places(self) -> dict[str, int]:
        """Byte offsets of the parts of a thread's scratch memory, and its size."""
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


def tiling_of(fusion: HloInstruction) -> AttentionTiling | None:
    """The tiles of the attention that a fusion computes, cached; None if it isn't an attention."""

    def found(_: HloComputation) -> AttentionTiling | None:
        a = attention_in(fusion)
        return tiling(a) if a is not None else None

    return fusion.fused_computation.derived("attention tiling", found)


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
    """The number of queries per tile that minimizes the rows computed twice.

    The micro-kernel's last blocks overlap the previous ones.
    """
    least, most = _ROWS

    def cost(rows: int) -> float:
        block = even(rows, _BLOCK)
        return -(-size // rows) * (-(-rows // block) * (block + _CALL) + _TILE)

    return min(range(min(size, most), min(size, least) - 1, -1), key=cost)


def _blocks(size: int, step: int, *, overlap: bool) -> list[tuple[int, int]]:
    """The first and the last element of each block."""
    begins = [min(at, size - step) if overlap else at for at in range(0, size, step)]
    return [(at, min(at + step, size) - 1) for at in begins]
