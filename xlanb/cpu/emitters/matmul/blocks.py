"""The blocks of a large product: slices of depth, whose operands are packed (see vector_blocks).

They depend only on shapes and types; which micro-kernel multiplies them depends on the machine.
"""

from __future__ import annotations

from xlanb.codegen import costs
from xlanb.codegen.groups import Group, group_of, tile_product
from xlanb.codegen.module import CodegenTarget
from xlanb.cpu.emitters.matmul.contraction import Contraction
from xlanb.cpu.emitters.matmul.shared import LINE
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType
_LANES = 16
"""Lanes of the widest vector."""
_SIZES = {T.BF16: 2, T.S8: 4, T.U8: 4}
"""Elements per lane on machines that multiply groups of them."""
_COLUMNS = 64
"""Columns of b that are packed at once for AMX, at most."""


@dataclass(frozen=True)
class Blocks:
    """A blocked matrix product: `count` slices of `depth` elements; the same on any machine."""

    x: Contraction
    depth: int
    count: int
    needs_amx: bool = False
    """Whether blocks pay only on machines with AMX."""

    @property
    def keeps_sums(self) -> bool:
        """Whether sums over slices accumulate in scratch memory."""
        return self.count > 1 and self.x.c_type is not self.x.type

    @property
    def bytes(self) -> tuple[int, int, int]:
        """The most bytes of scratch memory needed: for panels of a, for b's (AMX), for the sums."""
        x, item = self.x, self.x.type.byte_size
        grouped = -(-self.depth // _SIZES.get(x.a_type, 1)) if x.type.is_integral or self.needs_amx else self.depth
        depth = -(-grouped // _LANES) * _LANES + 1
        rows = x.row_count * 4 // 3 + 2 * _LANES
        columns = -(-x.column_count // _COLUMNS) * _COLUMNS if x.a_type in _SIZES and x.b_type in _SIZES else 0
        sums = x.row_count * x.column_count * item if self.keeps_sums else 0
        a, b, s = (-(-size // LINE) * LINE for size in (rows * depth * item, columns * depth * item, sums))
        return a, b, s


def blocks_of(x: Contraction, *, needs_amx: bool = False) -> Blocks | None:
    """The blocks of a matrix product; None for other contractions and types without a tile."""
    one = len(x.rows) == len(x.columns) == len(x.depth) == 1 and not x.is_complex
    if (
        not one
        or (x.batch and not needs_amx)
        or x.columns[0].a
        or x.rows[0].b
        or x.columns[0].c != 1
        or not _are_packed(x)
    ):
        return None
    if 1 not in (x.rows[0].a, x.depth[0].a) or 1 not in (x.columns[0].b, x.depth[0].b):
        return None
    most = costs.COMMON.stretch_lanes * _SIZES.get(x.a_type, 1) * (2 if needs_amx else 1)
    count = -(-x.depth_count // most)
    each = -(-x.depth_count // count)
    return Blocks(x, -(-each // 4) * 4, count, needs_amx)


def _are_packed(x: Contraction) -> bool:
    """Whether these types have tiles: floats, and bytes of which at least one operand is signed."""
    if x.type in (T.F32, T.F64):
        return True
    bytes_ = (x.a_type, x.b_type)
    return x.type in (T.S32, T.U32) and set(bytes_) <= {T.S8, T.U8} and bytes_ != (T.U8, T.U8)


def group(x: Contraction, target: CodegenTarget) -> Group | None:
    """The groups of operand elements that the machine multiplies at once."""
    if x.a_type is x.b_type is T.BF16 and x.type is T.F32:
        return group_of(target, T.BF16)
    return group_of(target, T.S8) if x.type.is_integral else None


def has_blocks(b: Blocks, target: CodegenTarget) -> bool:
    """Whether the machine has a tile for it; bytes need instructions that multiply groups."""
    if b.needs_amx:
        return amx_product(b.x, target) is not None
    return not b.x.type.is_integral or group(b.x, target) is not None


def amx_slices(b: Blocks) -> Blocks:
    """The same with AMX's slices: as they hold pairs of bf16, those of `b` have room for more."""
    return (blocks_of(b.x, needs_amx=True) or b) if b.x.a_type is T.BF16 else b


def amx_product(x: Contraction, target: CodegenTarget) -> str | None:
    """The intrinsic that multiplies AMX tiles of the operands, with sums of 32 bits."""
    return tile_product(target, x.a_type, x.b_type) if x.type in (T.F32, T.S32, T.U32) else None
