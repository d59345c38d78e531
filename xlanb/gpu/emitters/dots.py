"""Matrix products: tiles of both operands in shared memory, a tile of the result in the registers of a block's threads.

    for each step of K:   all threads load a tile of A and one of B, computing what is fused into the operands;   each thread adds the products of its 4 x 4 results
    at the end            the tile of results goes to shared memory, from where threads take consecutive elements and compute what is fused behind the product

The products of a step are summed by themselves and then added to the total, as tensor cores do: the error grows with the number of steps, not of products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xlanb.codegen import arithmetic
from xlanb.codegen.contractions import DotDimensions
from xlanb.codegen.elemental import array_of, flat, pack
from xlanb.codegen.elements import Element, load, parts, store, zero
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.lanes import split
from xlanb.codegen.products import accumulator_type, multiply_add
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.gpu.emitters.hero import hero_of, index_for, roots_of
from xlanb.gpu.emitters.kernel import KernelFunction, Lowering
from xlanb.gpu.emitters.loops import store_elements
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

_LEAST_PRODUCTS = 1 << 12
"""Products from which on tiles pay."""
_LEAST_DEPTH = 8
_STEP = 16
"""The depth of a tile."""
_OWN = 4
"""Rows and columns of results of a thread."""


@dataclass(frozen=True)
class Product:
    """A dot as matrices of `rows` x `depth` and `depth` x `columns`, a `batch` of them."""

    dims: DotDimensions
    batch: tuple[int, ...]
    row: tuple[int, ...]
    column: tuple[int, ...]
    inner: tuple[int, ...]

    @staticmethod
    def of(i: HloInstruction) -> Product:
        """Of a dot instruction."""
        d = DotDimensions.of(i)
        a, b = (array_of(o).dimensions for o in i.operands[:2])
        return Product(
            d,
            tuple(a[p] for p in d.lhs_batch),
            tuple(a[p] for p in d.lhs_free),
            tuple(b[p] for p in d.rhs_free),
            tuple(a[p] for p in d.lhs_contracting),
        )

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(batch, rows, columns, depth)."""
        return math.prod(self.batch), math.prod(self.row), math.prod(self.column), math.prod(self.inner)


def _hero(root: HloInstruction) -> HloInstruction | None:
    """The dot that all results are computed of."""
    found = {hero_of(r, lambda j: j.opcode is Op.DOT) for r in roots_of(root)}
    return found.pop() if len(found) == 1 else None


def fits(i: HloInstruction, root: HloInstruction) -> bool:
    """Whether an instruction is a dot, or a fusion computed of one, that is worth tiles."""
    hero = _hero(root)
    if hero is None:
        return False
    batch, rows, columns, depth = Product.of(hero).sizes
    return depth >= _LEAST_DEPTH and batch * rows * columns * depth >= _LEAST_PRODUCTS


def emit_dot(lowering: Lowering) -> None:
    """Write and launch the kernel of a dot, or of a fusion around one."""
    hero = _hero(lowering.root)
    if hero is None:
        raise AssertionError("a fusion without a dot")
    _Tiles(lowering, hero).emit()


class _Tiles:
    """The kernel of a product: `height` x `width` results to a block."""

    def __init__(self, lowering: Lowering, hero: HloInstruction) -> None:
        self.lowering, self.hero, self.product = lowering, hero, Product.of(hero)
        self.batch, self.rows, self.columns, self.depth = self.product.sizes
        self.to: PrimitiveType = array_of(hero).element_type
        self.type = accumulator_type(self.to)
        most = 64 if self.type.byte_size <= 4 else 32
        self.height, self.width = _tile(self.rows, most), _tile(self.columns, most)
        while self.height * self.width < 512:  # a warp at least
            if self.height < self.width:
                self.height *= 2
            else:
                self.width *= 2
        self.threads = self.height * self.width // (_OWN * _OWN)
        self.across, self.down = -(-self.columns // self.width), -(-self.rows // self.height)

    def emit(self) -> None:
        with self.lowering.kernel(self.batch * self.down * self.across, self.threads) as k:
            f = k.f
            tile, batch = f.rem(k.block, self.down * self.across), f.div(k.block, self.down * self.across)
            self.top = f.mul(f.div(tile, self.across), self.height)
            self.left = f.mul(f.rem(tile, self.across), self.width)
            self.at = split(f, batch, self.product.batch) if self.product.batch else []
            totals = self._sum(k)
            self._store(k, totals)

    # -- products -------------------------------------------------------------------------------------------------

    def _sum(self, k: KernelFunction) -> list[Element]:
        """This thread's results, row after row."""
        f, t = k.f, self.type
        a = k.shared_array(t, _STEP * (self.height + 1))
        b = k.shared_array(t, _STEP * (self.width + 1))
        row, column = self._own(k)
        count = _OWN * _OWN
        nothing = [p for _ in range(count) for p in parts(zero(f, t))]
        with f.carried(-(-self.depth // _STEP), nothing) as steps:
            first = f.mul(steps.index, _STEP)
            self._load(k, a, first, self.height, is_left=True)
            self._load(k, b, first, self.width, is_left=False)
            k.barrier()
            with f.carried(_STEP, nothing) as loop:
                x = [load(t, a, self._place(k, loop.index, self.height, f.add(row, n))) for n in range(_OWN)]
                y = [load(t, b, self._place(k, loop.index, self.width, f.add(column, n))) for n in range(_OWN)]
                sums = pack([t] * count, loop.values)
                made = [multiply_add(f, t, sums[m * _OWN + n], x[m], y[n]) for m in range(_OWN) for n in range(_OWN)]
                loop.next = flat(made)
            k.barrier()
            steps.next = [_plus(p, q) for p, q in zip(steps.values, loop.values, strict=True)]
        return pack([t] * count, steps.values)

    def _own(self, k: KernelFunction) -> tuple[Ix, Ix]:
        """The first row and column of this thread in the tile."""
        f, across = k.f, self.width // _OWN
        return f.mul(f.div(k.thread, across), _OWN), f.mul(f.rem(k.thread, across), _OWN)

    @staticmethod
    def _place(k: KernelFunction, step: Ix, size: int, at: Ix) -> Ix:
        """Where an element of a tile in shared memory is: the depth is the slower dimension."""
        return k.f.add(k.f.mul(step, size + 1), at)

    def _load(self, k: KernelFunction, memory: Value, first: Ix, size: int, *, is_left: bool) -> None:
        """All threads fill a tile of an operand; consecutive threads take consecutive elements of its memory."""
        f, t = k.f, self.type
        operand = self.hero.operands[0 if is_left else 1]
        shape = array_of(operand)
        contracting = self.product.dims.lhs_contracting if is_left else self.product.dims.rhs_contracting
        along_depth = bool(shape.minor_to_major) and shape.minor_to_major[0] in contracting
        total = size * _STEP
        rounds = -(-total // self.threads)
        begin, most = (self.top, self.rows) if is_left else (self.left, self.columns)
        with f.loop(rounds) as n:
            q = f.add(f.mul(n, self.threads), k.thread)
            with k.below(q, total, rounds * self.threads):
                step, at = (f.rem(q, _STEP), f.div(q, _STEP)) if along_depth else (f.div(q, size), f.rem(q, size))
                depth, place = f.add(first, step), f.add(begin, at)
                inside = f.both(self._within(k, place, most, size), self._within(k, depth, self.depth, _STEP))

                def element() -> list[Value]:
                    index = Index(shape, self._operand_index(k, place, depth, is_left=is_left))
                    value = k.e.element(operand, index)
                    return flat([arithmetic.convert(f, shape.element_type, t, value)])

                values = f.choose(inside, element, lambda: flat([zero(f, t)]))
                store(t, memory, self._place(k, step, size, at), pack([t], values)[0])

    @staticmethod
    def _within(k: KernelFunction, at: Ix, most: int, size: int) -> Value:
        """i1: whether a place of a tile of some size lies in a matrix."""
        return k.f.const(I1, True) if most % size == 0 else k.f.within(at, 0, most)

    def _operand_index(self, k: KernelFunction, place: Ix, depth: Ix, *, is_left: bool) -> list[Ix]:
        d, f = self.product.dims, k.f
        batch, free, contracting = (
            (d.lhs_batch, d.lhs_free, d.lhs_contracting) if is_left else (d.rhs_batch, d.rhs_free, d.rhs_contracting)
        )
        sizes = self.product.row if is_left else self.product.column
        multi: list[Ix] = [0] * (len(batch) + len(free) + len(contracting))
        for dims, values in (
            (batch, self.at),
            (free, split(f, place, sizes) if sizes else []),
            (contracting, split(f, depth, self.product.inner) if self.product.inner else []),
        ):
            for p, v in zip(dims, values, strict=True):
                multi[p] = v
        return multi

    # -- results --------------------------------------------------------------------------------------------------

    def _store(self, k: KernelFunction, totals: Sequence[Element]) -> None:
        """The tile by way of shared memory: consecutive threads then have consecutive results."""
        f, t = k.f, self.type
        memory = k.shared_array(t, self.height * self.width)
        row, column = self._own(k)
        for m in range(_OWN):
            for n in range(_OWN):
                at = f.add(f.mul(f.add(row, m), self.width), f.add(column, n))
                store(t, memory, at, totals[m * _OWN + n])
        k.barrier()
        leaves = k.lowering.leaves
        by_column = self._is_by_column()
        with f.loop(_OWN * _OWN) as turn:
            q = f.add(f.mul(turn, self.threads), k.thread)
            size = self.height if by_column else self.width
            slow, fast = f.div(q, size), f.rem(q, size)
            y, x = (fast, slow) if by_column else (slow, fast)
            down, across = f.add(self.top, y), f.add(self.left, x)
            inside = f.both(
                self._within(k, down, self.rows, self.height), self._within(k, across, self.columns, self.width)
            )
            with f.when(inside) if inside.number is None else f.aside():
                value = load(t, memory, f.add(f.mul(y, self.width), x))
                made = arithmetic.convert(f, t, self.to, value)
                k.e.bindings[self.hero] = {(): lambda _: made}  # type: ignore[index]
                multi = [
                    *self.at,
                    *(split(f, down, self.product.row) if self.product.row else []),
                    *(split(f, across, self.product.column) if self.product.column else []),
                ]
                for leaf in leaves:
                    own = array_of(k.lowering.instruction, leaf)
                    store_elements(k, [leaf], index_for(k, own, self.hero, multi))

    def _is_by_column(self) -> bool:
        """Whether rows of the result are faster in memory than columns."""
        shape = array_of(self.hero)
        if not shape.rank:
            return False
        fastest = shape.minor_to_major[0]
        first = len(self.product.batch)
        return first <= fastest < first + len(self.product.row) and bool(self.product.column)


def _plus(a: Value, b: Value) -> Value:
    """The sum of two partial sums; of predicates whether either holds."""
    return a | b if a.type is I1 else a + b


def _tile(size: int, most: int) -> int:
    """The side of a tile for a matrix of some size."""
    made = 16
    while made < size and made < most:
        made *= 2
    return made
