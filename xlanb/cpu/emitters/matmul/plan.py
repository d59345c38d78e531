"""How a contraction is computed: which operands are copied first, and by which micro-kernel.

A plan depends only on shapes, not on the machine: buffer assignment needs the scratch size before
any code is emitted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from xlanb.codegen import costs
from xlanb.codegen.elements import part
from xlanb.cpu.emitters.copies import PAGE, Copy
from xlanb.cpu.emitters.matmul.blocks import Blocks, blocks_of
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis, count
from xlanb.cpu.emitters.matmul.lanes import can_load, can_store, can_sum
from xlanb.cpu.emitters.matmul.shared import PAGES
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_LANES = 16
"""Lines of a copy are rounded up to this many elements, to allow whole vectors on any machine."""
_SHORT = 4
"""The least depth at which sums along it pay for one or two rows."""
_SHORTEST = 2
"""The same for a few results, for which copying b does not pay."""
_FEW_RESULTS, _FEW_COLUMNS = 24, 4
"""The most results, and columns of more than two rows (of fewer: twice as many), that are few."""
_PANEL = 32
"""Columns of a copy's panels."""
_IN_SEQUENCE = 64
"""The most products of a batch of bf16 for which tiles pay, though threads share only each one."""
_STRETCH = 32
"""The least elements of a row of a at even distances for strips to pay."""
_PAGED = 64
"""The least number of lines at which cache set conflicts matter."""
_LONG = 3072
"""Lines of this many bytes are long enough to be read in strips."""
_LONG_ENOUGH, _SEVERAL = 2048, 8
"""The same for several rows, and how many those are."""


@dataclass(frozen=True)
class MatmulPlan:
    """How to compute a contraction.

    `x` is what the micro-kernel sees, after the copies of a and b (None: read in place).
    """

    x: Contraction
    a: Copy | None = None
    b: Copy | None = None
    a_bytes: int = 0
    b_bytes: int = 0
    folds: bool = False
    """Whether vectors run along depth in both operands and are summed at the end."""
    panels: bool = False
    """Whether columns of b are copied to panels during the computation."""
    strips: bool = False
    """Whether threads take strips of columns, which they read in slices of a few lines."""
    blocks: Blocks | None = None
    """The blocks of a large product, used on machines with tiles for its types."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory for the copies (a's first), or for blocks."""
        blocks = sum(self.blocks.bytes) if self.blocks is not None else 0
        return max(self.a_bytes + self.b_bytes, blocks)


@lru_cache(maxsize=1024)
def plan(x: Contraction) -> MatmulPlan | None:
    """How to compute a contraction.

    None if its types are unsupported, or if the result's fastest axis is a batch axis.
    """
    if 0 in (x.batch_count, x.row_count, x.column_count, x.depth_count):
        return None
    if not _has_vectors(x):
        return None
    x = x.normalized() if x.type.is_complex else _batch_as_columns(x.normalized())
    if x.columns[-1].c != 1 if x.columns else x.rows:
        return None
    if _is_along(x) and (not x.columns or (x.columns[-1].b != 1 and x.row_count <= costs.COMMON.rowdot_rows)):
        return _in_parts(MatmulPlan(x, folds=True, blocks=_tiled(x) if x.type.is_integral else None))
    if _wants_strips(x):
        return MatmulPlan(x, strips=True)
    made = MatmulPlan(x, blocks=(blocks_of(x) if _wants_blocks(x) else None) or _tiled(x))
    if x.columns and not x.columns[-1].a and _wants_b(x):
        made = replace(made, panels=True) if _fits_panels(x) else _with_b(made)
    if x.column_count > 4 * _LANES and not x.columns[-1].a and _wants_a(x):
        made = _with_a(made)
    return _in_parts(made)


def packed(p: MatmulPlan) -> tuple[MatmulPlan, Copy, int] | None:
    """The plan with b packed at compile time, the copy, and the packed array's element count.

    None if packing gains nothing or b is converted. The plan has no blocks: they read b as it was.
    """
    x, p = p.x, replace(p, blocks=None, strips=False)
    if p.folds or x.is_complex or not x.columns or x.columns[-1].a:
        return None
    if p.b is None:
        fast = x.columns[-1].size
        if not p.panels and (x.row_count <= _LANES or fast % _PANEL or fast == _PANEL):
            return None
        p = _with_b(replace(p, panels=False))
    if p.b is None or p.b.source_type is not p.b.type:
        return None
    return replace(p, b=None, b_bytes=0), p.b, p.b_bytes // p.b.type.byte_size


def _has_vectors(x: Contraction) -> bool:
    if x.type.is_complex:
        return x.a_type is x.b_type is x.c_type is x.type
    loads = can_load(x.a_type, x.type) and can_load(x.b_type, x.type)
    return loads and can_sum(x.type) and can_store(x.type, x.c_type)


def _in_parts(p: MatmulPlan) -> MatmulPlan:
    """Replace complex numbers by parts: strides count interleaved real and imaginary parts."""
    x = p.x
    if not x.type.is_complex:
        return p
    t = part(x.type)
    batch, rows, columns, depth = (
        [ContractionAxis(axis.size, 2 * axis.a, 2 * axis.b, 2 * axis.c) for axis in axes]
        for axes in (x.batch, x.rows, x.columns, x.depth)
    )
    if p.folds:
        depth[-1] = ContractionAxis(2 * depth[-1].size, 1, 1)
    elif columns:
        columns[-1] = ContractionAxis(2 * columns[-1].size, 0, 1, 1)
    else:
        columns = [ContractionAxis(2, 0, 1, 1)]
    made = Contraction(
        tuple(batch), tuple(rows), tuple(columns), tuple(depth), t, t, t, t, x.is_swapped, is_complex=True
    )
    return replace(p, x=made)


def _batch_as_columns(x: Contraction) -> Contraction:
    """Turn a batch axis that is contiguous in all arrays into columns, one element per lane."""
    fast = x.batch[-1] if x.batch else None
    if fast is None or x.columns or (fast.a, fast.b, fast.c) != (1, 1, 1):
        return x
    return replace(x, batch=x.batch[:-1], columns=(fast,))


def _is_along(x: Contraction) -> bool:
    """Whether both operands are contiguous along depth, and it is long enough for sums along it."""
    inner = x.depth[-1] if x.depth else ContractionAxis(1)
    rows, columns, least = x.row_count, x.column_count, _LANES
    if rows * columns <= _FEW_RESULTS and columns <= (_FEW_COLUMNS if rows > 2 else 2 * _FEW_COLUMNS):
        least = _SHORTEST
    elif rows <= 2:
        least = _SHORT
    return inner.a == 1 and inner.b == 1 and inner.size >= least


def _tiled(x: Contraction) -> Blocks | None:
    """The blocks of a product that should be packed in them on machines with AMX only."""
    common, each = costs.COMMON, x.products // x.batch_count
    pairs = x.a_type is x.b_type is PrimitiveType.BF16 and x.batch_count <= _IN_SEQUENCE
    narrow = x.type.is_integral or pairs
    large = min(x.row_count, x.column_count) >= common.tiled_rows and each >= common.tiled_products
    return blocks_of(x, needs_amx=True) if narrow and large else None


def _wants_blocks(x: Contraction) -> bool:
    """Whether a product should be packed in blocks.

    It should for bytes (only its tiles multiply groups); if a panel over all of depth would be too
    large; if a would be copied as a whole; if tiles would read both operands line by line; or if b
    or the product is huge.
    """
    common = costs.COMMON
    least = min(x.row_count, x.column_count)
    if x.type.is_integral:
        return least >= common.blocked_rows and x.products >= common.blocked_byte_products
    if _is_across(x):
        return True
    if least < common.blocked_rows or x.row_count * x.column_count < common.blocked_results:
        return False
    if _shares_sets(x) and least >= common.paged_rows and x.products >= common.paged_products:
        return True
    is_odd = has_pairs(x) and x.depth[-1].size % 2 == 1  # other tiles then cannot read pairs from panels
    in_order = x.columns[-1].b != 1 and (most_columns(x) >= 2 * _PANEL or x.row_count <= common.paged_rows)
    is_huge = not in_order and x.products >= common.huge_products
    is_large = x.columns[-1].b == 1 and _b_bytes(x) >= common.blocked_bytes
    return is_huge or is_large or is_odd or not _fits_panels(x) or _wants_a(x)


def _wants_strips(x: Contraction) -> bool:
    """Whether few rows are multiplied by a large b of long lines."""
    common, size = costs.COMMON, x.type.byte_size
    if len(x.columns) != 1 or not x.depth or x.is_complex:
        return False
    column, depth = x.columns[0], x.depth[-1]
    if not x.a_type is x.b_type is x.type or not x.type.is_floating or column.a or (column.b, column.c) != (1, 1):
        return False
    if any(outer.b != inner.b * inner.size for outer, inner in pairwise(x.depth)):
        return False  # lines of b are not evenly apart
    if len(x.depth) > 1 and depth.size < _STRETCH:
        return False
    line, least = depth.b * size, _LONG_ENOUGH if x.row_count >= _SEVERAL else _LONG
    most = common.strip_rows if line < PAGES else common.paged_strip_rows
    return _b_bytes(x) >= common.strip_bytes and x.row_count <= most and line >= least


def _is_across(x: Contraction) -> bool:
    """Whether a large a is transposed, as in the gradient of weights.

    Each tile would then read a part of each line of both operands. A tile of few columns reads a
    once.
    """
    common = costs.COMMON
    if not (x.rows and x.columns and x.depth) or x.rows[-1].a != 1 or x.depth[-1].a == 1:
        return False
    rows, columns = x.row_count, x.column_count
    wide = columns >= common.across_columns and (2 * columns >= rows or columns >= 4 * common.across_columns)
    large = x.products // x.batch_count >= common.across_products
    return wide and large and rows >= common.blocked_rows and x.columns[-1].b == 1


def _shares_sets(x: Contraction) -> bool:
    """Whether b's lines in a tile conflict in the L1 cache, and a tile of one vector would help.

    They conflict if they are 4096 bytes apart, or 2048 and a's are too; there must be few of them.
    """
    if not x.depth or not x.a_type is x.b_type is x.type:
        return False
    common, size, depth = costs.COMMON, x.type.byte_size, x.depth[-1]
    few = _PAGED <= x.depth_count <= common.first_cache_sets * common.first_cache_ways // 2
    apart = depth.b * size % (2 * PAGE) == 0 or (depth.a * size % PAGE == 0 == depth.b * size % PAGE)
    return few and x.columns[-1].b == 1 and apart


def _wants_b(x: Contraction) -> bool:
    """Whether b must be copied: no vector loads, widened for many rows, or too large in place."""
    if x.columns[-1].b != 1 or (x.b_type is not x.type and x.row_count > _LANES):
        return True
    large = _b_bytes(x) >= costs.COMMON.copied_bytes
    return large and x.row_count >= (costs.COMMON.copied_panel_rows if _fits_panels(x) else costs.COMMON.copied_rows)


def _fits_panels(x: Contraction) -> bool:
    """Whether panels of b can be filled first: there are enough rows and a panel fits the cache."""
    column = x.columns[-1]
    if column.b != 1 and (has_pairs(x) or x.type.is_complex):
        return False
    return min(column.size, most_columns(x)) >= _PANEL and x.row_count > _LANES


def most_columns(x: Contraction) -> int:
    """The most columns of b whose panel fits the cache."""
    lines = x.depth_count // 2 if has_pairs(x) else x.depth_count
    return costs.COMMON.panel_bytes // (max(lines, 1) * x.type.byte_size)


def _wants_a(x: Contraction) -> bool:
    """Whether a must be copied: widened, made contiguous along depth, or a page per step."""
    if not x.depth:
        return False
    if has_pairs(x):
        return x.depth[-1].a != 1
    return x.a_type is not x.type or (_is_large(x) and _is_dense(x) and x.depth[-1].a * x.type.byte_size >= PAGE)


def _is_large(x: Contraction) -> bool:
    """Whether the cost of copies is small compared with the products."""
    return (
        x.row_count >= costs.COMMON.copied_rows
        and _b_bytes(x) >= costs.COMMON.copied_bytes
        and x.column_count >= costs.COMMON.copied_rows
    )


def _b_bytes(x: Contraction) -> int:
    """Bytes of b for one of a batch, in the type of the sums."""
    return x.depth_count * x.column_count * x.type.byte_size


def _is_dense(x: Contraction) -> bool:
    """Whether rows of a do not overlap in memory, so that a copy is no larger than a.

    Rows of a convolution do overlap.
    """
    axes = [axis for axis in (*x.batch, *x.rows, *x.depth) if axis.a]
    return 1 + sum((axis.size - 1) * abs(axis.a) for axis in axes) >= count(axes)


def has_pairs(x: Contraction) -> bool:
    """Whether two neighbours along depth are multiplied as a pair.

    That is the case for bf16, and for integers of up to 16 bits with 32-bit sums, on machines with
    such multiply-adds.
    """
    if x.type is PrimitiveType.F32:
        return x.a_type is x.b_type is PrimitiveType.BF16 and bool(x.depth) and x.depth[-1].size >= _LANES
    narrow = (PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.S16)
    return x.type.bits == 32 and x.type.is_integral and x.a_type in narrow and x.b_type in narrow


def _with_b(p: MatmulPlan) -> MatmulPlan:
    """Copy b with the vectors' axis fastest, if possible in panels of vectors over all of depth."""
    x = _in_panels(p.x)
    *columns, fast = x.columns
    made, copy, size = _packed(x, [fast], [*reversed(x.depth), *reversed(columns), *reversed(x.batch)])
    return replace(p, x=made, b=copy, b_bytes=size)


def _with_a(p: MatmulPlan) -> MatmulPlan:
    """Copy a with depth fastest."""
    x = p.x.swapped()
    made, copy, size = _packed(x, [*reversed(x.depth)], [*reversed(x.columns), *reversed(x.batch)])
    return replace(p, x=made.swapped(), a=copy, a_bytes=size)


def _packed(
    x: Contraction, inner: list[ContractionAxis], outer: list[ContractionAxis]
) -> tuple[Contraction, Copy, int]:
    """A contraction with b copied, the copy, and its bytes.

    Axes are given fastest first. Lines of the inner axes are a whole number of vectors apart, but
    not a multiple of a page.
    """
    to = x.b_type if has_pairs(x) else x.type
    inner, outer = ([axis for axis in axes if axis.b] for axes in (inner, outer))
    line = -(-count(inner) // _LANES) * _LANES
    if line * x.type.byte_size % PAGE == 0:
        line += _LANES
    steps: dict[ContractionAxis, int] = {}
    for axes, step in ((inner, 1), (outer, line)):
        for axis in axes:
            steps[axis] = step
            step *= axis.size

    def with_steps(found: tuple[ContractionAxis, ...]) -> tuple[ContractionAxis, ...]:
        return tuple(replace(axis, b=steps.get(axis, 0)) for axis in found)

    made = replace(x, batch=with_steps(x.batch), columns=with_steps(x.columns), depth=with_steps(x.depth), b_type=to)
    copy = Copy(tuple(ContractionAxis(axis.size, axis.b, 0, step) for axis, step in steps.items()), x.b_type, to)
    return made, copy, -(-line * count(outer) * x.type.byte_size // 64) * 64


def _in_panels(x: Contraction) -> Contraction:
    """Split the last columns into panels of `_PANEL`: a tile then reads contiguous memory."""
    fast = x.columns[-1]
    if fast.size % _PANEL or fast.size == _PANEL:
        return x
    panels = ContractionAxis(fast.size // _PANEL, 0, _PANEL * fast.b, _PANEL * fast.c)
    return replace(x, columns=(*x.columns[:-1], panels, replace(fast, size=_PANEL)))
