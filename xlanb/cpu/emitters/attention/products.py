"""The two products of a tile: packed operands, and the micro-kernel over them.

The second operand is packed in panels: for each step of depth a few contiguous vectors (see
matmul.panel). If the machine multiplies bf16 pairs, a step is two elements of depth, in the
halves of a lane. All other types are widened to f32 when they are packed.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.codegen.function import Function
from xlanb.codegen.module import CodegenTarget
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis
from xlanb.cpu.emitters.matmul.grid import Span, Work, emit_grid, even
from xlanb.cpu.emitters.matmul.lanes import lanes_of
from xlanb.cpu.emitters.matmul.tile import MatmulTile, tile_routine, tile_table
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType


@dataclass(frozen=True)
class Product:
    """A product of `rows` by `columns` (a multiple of 16) over `depth`.

    a has lines of `a_line` elements, b is packed in panels, c has lines of `c_line` elements of
    f32.
    """

    rows: int
    columns: int
    depth: int
    a_line: int
    c_line: int
    pairs: bool

    @property
    def type(self) -> PrimitiveType:
        """The element type of a and b."""
        return T.BF16 if self.pairs else T.F32

    def panel(self, target: CodegenTarget) -> int:
        """Columns of a panel."""
        width = lanes_of(target, 32)
        return 2 * width if self.columns % (2 * width) == 0 else width

    def emit(self, f: Function, a: Value, b: Value, c: Value) -> None:
        """Emit the product."""
        width, panel = lanes_of(f.target, 32), self.panel(f.target)
        vectors = panel // width
        rows = even(self.rows, (f.target.vector_registers - vectors - 1) // vectors)
        tile = MatmulTile(
            width,
            rows,
            vectors,
            width,
            1,
            self.type,
            self.type,
            T.F32,
            T.F32,
            pairs=self.pairs,
            panel=True,
        )
        depth = (ContractionAxis(self.depth, 1, 1),)
        table = tile_table(tile, depth, [(r * self.a_line, r * self.c_line) for r in range(rows)], width)
        lines = self.depth // 2 if self.pairs else self.depth
        spans = [
            Span(self.columns, panel, (0, 4 * lines, 4)),
            Span(self.rows, rows, (self.a_line * self.type.byte_size, 0, 4 * self.c_line)),
        ]
        nanoseconds = rows * vectors * lines / 2 * f.target.costs.cycle_ns
        emit_grid(f, spans, Work(tile_routine(f.module, tile), table, (a, b, c), nanoseconds))


def has_pairs(target: CodegenTarget, t: PrimitiveType) -> bool:
    """Whether the machine has a multiply-add of pairs of this type."""
    return t is T.BF16 and "avx512bf16" in target.enabled and lanes_of(target, 32) == 16


def pieces(size: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first block, block count, block size): whole blocks of `step`, then the remainder."""
    if size // step:
        yield 0, size // step, step
    if size % step:
        yield size // step, 1, size % step
