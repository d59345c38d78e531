"""f16 and bf16 products on tensor cores by mma.sync.m16n8k16: which lane has which elements.

    A, 16 x 16     lane l: rows l / 4 and l / 4 + 8, column pairs at 2 (l % 4) and 2 (l % 4) + 8
    B, 16 x 8      lane l: column l / 4, row pairs at 2 (l % 4) and 2 (l % 4) + 8
    C, 16 x 8      lane l: rows l / 4 and l / 4 + 8, column pair at 2 (l % 4)

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xlanb.codegen.elemental import array_of
from xlanb.codegen.function import Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import FLOAT, HALF, I32
from xlanb.codegen.values import Value
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.emitters.kernel import GpuKernelFunction
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType
_NAMES = {T.BF16: "bf16", T.F16: "f32.f32"}
_LEAST_SIDE, _LEAST_DEPTH = 8, 16


def tensor_type(i: HloInstruction, sizes: tuple[int, int, int, int], device: GpuDevice) -> PrimitiveType | None:
    """Return the type that tensor cores multiply for a dot or convolution, or None.

    Returns None for other types, for too small sizes (batch, rows, columns, depth), and for devices
    without tensor cores of that type.
    """
    a, b = (array_of(o).element_type for o in i.operands[:2])
    to = array_of(i).element_type
    if a is not b or a not in _NAMES or to not in (a, T.F32) or device.architecture.capability < (8, 0):
        return None
    _, rows, columns, depth = sizes
    return a if min(rows, columns) >= _LEAST_SIDE and depth >= _LEAST_DEPTH else None


@dataclass(frozen=True)
class Fragments:
    """Both operands' tiles in shared memory.

    They are rows of A and columns of B, with depth as the faster dimension.
    """

    a: Value
    b: Value


class WarpTile:
    """32 x 32 results of a warp: two fragments of 16 rows by four of 8 columns."""

    SIDE: ClassVar[int] = 32
    DEPTH: ClassVar[int] = 32
    """The depth of a tile in shared memory."""
    STRIDE: ClassVar[int] = 40
    """Elements between rows; the lanes' pairs are then in different banks."""

    def __init__(self, k: GpuKernelFunction, t: PrimitiveType, top: Ix, left: Ix) -> None:
        self.k, self.type, self.top, self.left = k, t, top, left
        f = k.f
        self.group, self.pair = f.div(k.lane, 4), f.mul(f.rem(k.lane, 4), 2)

    def place(self, step: Ix, at: Ix) -> Ix:
        """Return where a tile's element is stored, `step` deep in its row or column `at`."""
        f = self.k.f
        return f.add(f.mul(at, self.STRIDE), step)

    def nothing(self) -> list[Value]:
        """Return the results before the first step: four of each of the eight fragments."""
        return [self.k.f.const(FLOAT, 0.0)] * 32

    def multiply(self, tiles: Fragments, totals: Sequence[Value]) -> list[Value]:
        """Add the products of a tile's depth to the results."""
        f, done = self.k.f, list(totals)
        for depth in range(0, self.DEPTH, 16):
            columns = [self._pairs(tiles.b, f.add(self.left, f.add(self.group, 8 * n)), depth) for n in range(4)]
            for m in range(2):
                row = f.add(self.top, f.add(self.group, 16 * m))
                upper, lower = (self._pairs(tiles.a, f.add(row, more), depth) for more in (0, 8))
                a = [upper[0], lower[0], upper[1], lower[1]]
                for n in range(4):
                    at = 4 * (4 * m + n)
                    done[at : at + 4] = self._mma(a, columns[n], done[at : at + 4])
        return done

    def _pairs(self, memory: Value, row: Ix, depth: int) -> list[Value]:
        """Load this lane's two pairs of elements of a row or column, as i32."""
        f = self.k.f
        pointer = Pointer(memory, HALF)
        at = [f.add(self.place(f.add(self.pair, depth + more), row), 0) for more in (0, 8)]
        return [f.load(I32, pointer.address(p), 4) for p in at]

    def _mma(self, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        """Return c + a * b of the warp's fragments."""
        k, f = self.k, self.k.f
        k.waits = True
        name = f"llvm.nvvm.mma.m16n8k16.row.col.{_NAMES[self.type]}"
        pair = HALF.times(2) if self.type is T.F16 else I32
        given = [*(v.bits_as(pair) for v in (*a, *b)), *c]
        result = "{ float, float, float, float }"
        k.module.declare(result, name, ", ".join(v.type.text for v in given))
        f.symbols.add(name)
        made = f.fresh("mma")
        f.write(f"{made} = call {result} @{name}({', '.join(map(repr, given))})")
        return [f.let(FLOAT, f"extractvalue {result} {made}, {n}") for n in range(4)]

    def spill(self, memory: Value, width: int, totals: Sequence[Value]) -> None:
        """Write the results to their positions in the block's tile."""
        f, pointer = self.k.f, Pointer(memory, FLOAT)
        for m in range(2):
            for n in range(4):
                for q in range(4):
                    row = f.add(self.top, f.add(self.group, 16 * m + 8 * (q // 2)))
                    column = f.add(self.left, f.add(self.pair, 8 * n + q % 2))
                    pointer[f.add(f.mul(row, width), column)] = totals[4 * (4 * m + n) + q]
