"""Tiled dots and convolutions: operand tiles in shared memory, result tiles in registers.

    for each depth step    all threads load a tile of A and one of B, computing what is fused into
                           the operands; then each adds products to its results
    at the end             the result tile goes to shared memory; threads read consecutive elements
                           and compute what is fused after the product

Tensor cores multiply f16 and bf16 if the device has them for these types (see tensor_cores.py).
Otherwise each thread computes 4 x 4 results. The products of a step are summed separately and then
added to the total, so the error grows with the number of steps, not of products.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.codegen import arithmetic
from xlanb.codegen.elemental import array_of, flat, pack
from xlanb.codegen.elements import Element, from_memory, load, parts, store, zero
from xlanb.codegen.elements import memory as memory_type
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.memory import Pointer
from xlanb.codegen.products import accumulator_type, multiply_add
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.gpu.emitters.hero import hero_of, index_for, roots_of
from xlanb.gpu.emitters.kernel import GpuKernelFunction, Lowering
from xlanb.gpu.emitters.loops import store_elements
from xlanb.gpu.emitters.matrices import Matrices, matrices_of
from xlanb.gpu.emitters.tensor_cores import Fragments, WarpTile, tensor_type
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

_LEAST_PRODUCTS = 1 << 12
"""The least number of multiplications for which tiling pays off."""
_LEAST_DEPTH = 8
_STEP = 16
"""The depth of a tile computed by threads without tensor cores."""
_OWN = 4
"""Rows and columns of the result computed by one thread."""
_PADDING = 4
"""Elements of padding between a tile's rows.

Four consecutive elements of a row are loaded at once, and rows begin in different banks.
"""
_UNROLLED = 4
"""The unroll factor of the depth loop."""


_LEAST_COLUMNS = 4
"""The least number of output features per group of a convolution for which tiling pays off."""


def _is_hero(i: HloInstruction) -> bool:
    return i.opcode in (Op.DOT, Op.CONVOLUTION)


def _hero(root: HloInstruction) -> HloInstruction | None:
    """Return the dot or convolution that all results depend on."""
    found = {hero_of(r, _is_hero) for r in roots_of(root)}
    return found.pop() if len(found) == 1 else None


def fits(i: HloInstruction, root: HloInstruction) -> bool:
    """Whether an instruction is a dot or convolution worth tiling, or a fusion of one."""
    hero = _hero(root)
    if hero is None or (i is root and hero is not root):  # operands of an unfused hero are in memory
        return False
    made = matrices_of(hero)
    if made is None:
        return False
    batch, rows, columns, depth = made.sizes
    if hero.opcode is Op.CONVOLUTION and columns < _LEAST_COLUMNS:
        return False
    return depth >= _LEAST_DEPTH and batch * rows * columns * depth >= _LEAST_PRODUCTS


def emit_dot(lowering: Lowering) -> None:
    """Write and launch the kernel of a dot or convolution, or of a fusion around one."""
    hero = _hero(lowering.root)
    matrices = matrices_of(hero) if hero is not None else None
    if hero is None or matrices is None:
        raise AssertionError("the fusion has no matrix product")
    lowering.emitter = hero.opcode.text
    kind = tensor_type(hero, matrices.sizes, lowering.program.target.device)
    if kind is None:
        _emit_by_threads(lowering, hero, matrices)
    else:
        _emit_by_tensor_cores(lowering, hero, matrices, kind)


def _emit_by_threads(lowering: Lowering, hero: HloInstruction, matrices: Matrices) -> None:
    """Compute 4 x 4 results in each thread."""
    t = accumulator_type(array_of(hero).element_type)
    _, rows, columns, _ = matrices.sizes
    most = 64 if t.byte_size <= 4 else 32
    height, width = _tile(rows, 16, most), _tile(columns, 16, most)
    while height * width < 512:  # at least a warp
        height, width = (height * 2, width) if height < width else (height, width * 2)
    threads = height * width // (_OWN * _OWN)
    tiles = _Tiles(hero, matrices, height, width, threads)
    with lowering.kernel(tiles.blocks, threads) as k:
        tiles.begin(k)
        totals, row, column = _sum_by_threads(k, tiles, t)

        def spill(memory: Value) -> None:
            for m in range(_OWN):
                for n in range(_OWN):
                    at = k.f.add(k.f.mul(k.f.add(row, m), width), k.f.add(column, n))
                    store(t, memory, at, totals[m * _OWN + n])

        tiles.store(k, t, spill)


def _sum_by_threads(k: GpuKernelFunction, tiles: _Tiles, t: PrimitiveType) -> tuple[list[Element], Ix, Ix]:
    """Return this thread's results, row by row, and its first row and column in the tile."""
    f, across, count = k.f, tiles.width // _OWN, _OWN * _OWN
    row, column = f.mul(f.div(k.thread, across), _OWN), f.mul(f.rem(k.thread, across), _OWN)
    a, b = (k.shared_array(t, _STEP * (size + _PADDING)) for size in (tiles.height, tiles.width))

    def place(size: int) -> Callable[[Ix, Ix], Ix]:
        """Return where a tile's element is stored; depth is the slower dimension."""
        return lambda step, at: f.add(f.mul(step, size + _PADDING), at)

    at_a, at_b = place(tiles.height), place(tiles.width)
    nothing = [p for _ in range(count) for p in parts(zero(f, t))]
    with f.carried(-(-tiles.depth // _STEP), nothing) as steps:
        first = f.mul(steps.index, _STEP)
        tiles.load(k, t, a, first, _STEP, at_a, is_left=True)
        tiles.load(k, t, b, first, _STEP, at_b, is_left=False)
        k.barrier()
        with f.carried(_STEP // _UNROLLED, nothing) as loop:
            sums = pack([t] * count, loop.values)
            for n in range(_UNROLLED):
                step = f.add(f.mul(loop.index, _UNROLLED), n)
                x, y = _load_own(t, a, at_a(step, row)), _load_own(t, b, at_b(step, column))
                sums = [multiply_add(f, t, sums[m * _OWN + q], x[m], y[q]) for m in range(_OWN) for q in range(_OWN)]
            loop.next = flat(sums)
        k.barrier()
        steps.next = [_plus(p, q) for p, q in zip(steps.values, loop.values, strict=True)]
    return pack([t] * count, steps.values), row, column


def _load_own(t: PrimitiveType, memory: Value, at: Ix) -> list[Element]:
    """Load at once the elements of a tile row that a thread needs."""
    f = memory.function
    if t.is_complex:
        return [load(t, memory, f.add(at, n)) for n in range(_OWN)]
    kind = memory_type(t)
    align = min(16, _OWN * kind.bytes)
    row = f.load(kind.times(_OWN), Pointer(memory, kind).address(at), align)
    return [from_memory(f, t, f.extract(row, n)) for n in range(_OWN)]


def _emit_by_tensor_cores(lowering: Lowering, hero: HloInstruction, matrices: Matrices, t: PrimitiveType) -> None:
    """Compute 32 x 32 results in each warp by mma.sync."""
    _, rows, columns, _ = matrices.sizes
    side, step = WarpTile.SIDE, WarpTile.DEPTH
    height, width = _tile(rows, side, 2 * side), _tile(columns, side, 2 * side)
    threads = height * width // (side * side) * 32
    tiles = _Tiles(hero, matrices, height, width, threads)
    with lowering.kernel(tiles.blocks, threads) as k:
        f = k.f
        tiles.begin(k)
        warp = WarpTile(k, t, f.mul(f.div(k.warp, width // side), side), f.mul(f.rem(k.warp, width // side), side))
        a, b = (k.shared_array(t, size * WarpTile.STRIDE) for size in (height, width))
        with f.carried(-(-tiles.depth // step), warp.nothing()) as steps:
            first = f.mul(steps.index, step)
            tiles.load(k, t, a, first, step, warp.place, is_left=True)
            tiles.load(k, t, b, first, step, warp.place, is_left=False)
            k.barrier()
            steps.next = warp.multiply(Fragments(a, b), steps.values)
            k.barrier()
        tiles.store(k, PrimitiveType.F32, lambda memory: warp.spill(memory, width, steps.values))


class _Tiles:
    """The tiles of a product, `height` x `width` results per block, and what is fused around it."""

    def __init__(self, hero: HloInstruction, matrices: Matrices, height: int, width: int, threads: int) -> None:
        self.hero, self.matrices = hero, matrices
        self.height, self.width, self.threads = height, width, threads
        self.batch, self.rows, self.columns, self.depth = matrices.sizes
        self.across, self.down = -(-self.columns // width), -(-self.rows // height)

    @property
    def blocks(self) -> int:
        """How many tiles there are."""
        return self.batch * self.down * self.across

    def begin(self, k: GpuKernelFunction) -> None:
        """Compute which tile the block has."""
        f, each = k.f, self.down * self.across
        tile, self.number = f.rem(k.block, each), f.div(k.block, each)
        self.top = f.mul(f.div(tile, self.across), self.height)
        self.left = f.mul(f.rem(tile, self.across), self.width)

    # -- operands ----------------------------------------------------------------------------------

    def load(
        self,
        k: GpuKernelFunction,
        t: PrimitiveType,
        memory: Value,
        first: Ix,
        depth: int,
        place: Callable[[Ix, Ix], Ix],
        *,
        is_left: bool,
    ) -> None:
        """Fill a tile of an operand in type t by all threads, with zeros beyond the operand's ends.

        Consecutive threads read consecutive elements of the operand's memory.
        """
        f = k.f
        operand = self.hero.operands[0 if is_left else 1]
        shape = array_of(operand)
        along_depth = self.matrices.is_along_depth(is_left=is_left)
        size = self.height if is_left else self.width
        begin, most = (self.top, self.rows) if is_left else (self.left, self.columns)
        fast = depth if along_depth else size
        count = self._load_width(operand, fast, size * depth, is_left=is_left)
        total = size * depth // count
        rounds = -(-total // self.threads)
        with f.loop(rounds) as n:
            q = f.add(f.mul(n, self.threads), k.thread)
            with k.below(q, total, rounds * self.threads):
                slower, faster = f.div(q, fast // count), f.mul(f.rem(q, fast // count), count)
                step, at = (faster, slower) if along_depth else (slower, faster)
                places = [(f.add(step, m), at) if along_depth else (step, f.add(at, m)) for m in range(count)]
                inside = f.both(
                    _within(k, f.add(begin, at), most, size), _within(k, f.add(first, step), self.depth, depth)
                )
                where = [
                    self.matrices.operand(f, self.number, f.add(begin, y), f.add(first, x), is_left=is_left)
                    for x, y in places
                ]
                inside = f.both(inside, where[0][0])

                def elements() -> list[Value]:
                    values = [k.e.element(operand, Index(shape, multi)) for _, multi in where]
                    return flat([arithmetic.convert(f, shape.element_type, t, v) for v in values])

                made = f.choose(inside, elements, lambda: flat([zero(f, t)] * count))
                for (x, y), value in zip(places, pack([t] * count, made), strict=True):
                    store(t, memory, place(x, y), value)

    def _load_width(self, operand: HloInstruction, fast: int, total: int, *, is_left: bool) -> int:
        """Return how many consecutive operand elements a thread loads at once.

        16 bytes if the operand's runs and the tile are multiples of that; otherwise fewer.
        """
        count = max(1, 16 // max(1, array_of(operand).element_type.byte_size))
        run = self.matrices.run(is_left=is_left)
        while count > 1 and (run % count or fast % count or total < count * self.threads):
            count //= 2
        return count

    # -- results -----------------------------------------------------------------------------------

    def store(self, k: GpuKernelFunction, t: PrimitiveType, spill: Callable[[Value], None]) -> None:
        """Store the tile's results in memory order.

        `spill(memory)` writes this thread's results, of type t, to their places in the tile.
        Consecutive threads then store consecutive results.
        """
        f = k.f
        memory = k.shared_array(t, self.height * self.width)
        spill(memory)
        k.barrier()
        by_column = self.matrices.is_by_column()
        size = self.height if by_column else self.width
        with f.loop(self.height * self.width // self.threads) as turn:
            q = f.add(f.mul(turn, self.threads), k.thread)
            slow, fast = f.div(q, size), f.rem(q, size)
            y, x = (fast, slow) if by_column else (slow, fast)
            down, across = f.add(self.top, y), f.add(self.left, x)
            inside = f.both(_within(k, down, self.rows, self.height), _within(k, across, self.columns, self.width))
            with f.when(inside) if inside.number is None else f.aside():
                self._result(k, t, load(t, memory, f.add(f.mul(y, self.width), x)), down, across)

    def _result(self, k: GpuKernelFunction, t: PrimitiveType, value: Element, down: Ix, across: Ix) -> None:
        """Compute what is fused after an element of the product, and store it."""
        made = arithmetic.convert(k.f, t, array_of(self.hero).element_type, value)
        k.e.bindings[self.hero] = {(): lambda _: made}  # type: ignore[index]
        multi = self.matrices.result(k.f, self.number, down, across)
        for leaf in k.lowering.leaves:
            own = array_of(k.lowering.instruction, leaf)
            store_elements(k, [leaf], index_for(k, own, self.hero, multi))


def _within(k: GpuKernelFunction, at: Ix, most: int, size: int) -> Value:
    """Return an i1: whether a position in tiles of this size is inside the matrix."""
    return k.f.const(I1, True) if most % size == 0 else k.f.within(at, 0, most)


def _plus(a: Value, b: Value) -> Value:
    """Return the sum of two partial sums; for predicates, their or."""
    return a | b if a.type is I1 else a + b


def _tile(size: int, least: int, most: int) -> int:
    """Return the tile side for a matrix dimension."""
    made = least
    while made < size and made < most:
        made *= 2
    return made


__all__ = ["emit_dot", "fits"]
