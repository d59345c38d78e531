"""The attention kernel, softmax(f(q k^T)) v: one pass over tiles of queries and keys.

    for head: pack k and v
      for tile of queries: pack q; total, sum = 0; m = -inf
        for tile of keys that the mask does not exclude:
          s = f(q k^T), kept in the L2 cache     f: the program's scale, masks, biases; vectorized
          m' = max(m, max(s)); p = exp(s - m'); a = exp(m - m')
          sum = sum * a + sum(p); total = total * a + p v; m = m'
        result = total / sum

A row of logits that is all -inf, or has inf or NaN, gives NaN, as the instructions do one by one.
A masked tile adds exp(masked - m) = 0 times v. That is zero if the row has larger logits and v is
finite. Otherwise (the row is masked as a whole, or v is not finite) the tile is computed too.

Threads share the heads, or runs of query tiles if there are few heads. Each part packs the keys
and values of its heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf, prod

from xlanb.analysis.attention import Access
from xlanb.analysis.digits import Digit
from xlanb.codegen import lanes
from xlanb.codegen.elemental import Elemental, KernelTooLargeError
from xlanb.codegen.elements import memory, real, rounded
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, IrArray
from xlanb.codegen.lanes import Mask, NotAVectorError
from xlanb.codegen.math import single
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parts
from xlanb.codegen.types import FLOAT, I8, I64
from xlanb.codegen.values import Value, Vector
from xlanb.cpu.emitters.attention.plan import LANES, AttentionTiling, tiling_of
from xlanb.cpu.emitters.attention.products import Product, has_pairs, pieces
from xlanb.cpu.emitters.copies import Copy, emit_copy
from xlanb.cpu.emitters.kernel import CUSTOM_FUSIONS, CustomFusion, Kernel
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis
from xlanb.cpu.emitters.matmul.lanes import Lanes, lanes_of
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType
from xlanb.transforms.fusion.attention_fusion import KIND

T = PrimitiveType
_VANISHED = 104.0
"""exp(-x) is zero in f32 for x of at least this value."""


def is_attention_kernel(fusion: HloInstruction) -> bool:
    """Whether a fusion is computed by this kernel."""
    return tiling_of(fusion) is not None


def scratch_bytes(fusion: HloInstruction) -> int:
    """Bytes of scratch memory per thread."""
    t = tiling_of(fusion)
    return t.places["size"] if t is not None else 0


def rounds(fusion: HloInstruction) -> tuple[int, float]:
    """Trip count of the loop that threads share, and nanoseconds of one iteration."""
    t = tiling_of(fusion)
    return (t.items, t.nanoseconds) if t is not None else (1, 0.0)


def emit_attention(k: Kernel) -> bool:
    """Emit the kernel of an attention fusion."""
    t = tiling_of(k.instruction)
    if t is None:
        return False
    try:
        _AttentionEmitter(k, t).emit()
    except NotAVectorError as error:
        raise KernelTooLargeError(f"{k.f.name} has logits that cannot be vectorized: {error}") from error
    return True


CUSTOM_FUSIONS[KIND] = CustomFusion(is_attention_kernel, emit_attention, scratch_bytes, rounds)


class _AttentionEmitter:
    """Emits the kernel."""

    def __init__(self, k: Kernel, t: AttentionTiling) -> None:
        self.k, self.t, self.a, self.f = k, t, t.a, k.f
        a = t.a
        self.width = lanes_of(self.f.target, 32)
        self.v = Lanes(self.f, T.F32, self.width)
        self.pairs = has_pairs(self.f.target, a.operand_type) and self._suits_pairs()
        self.first = Product(t.rows, t.keys, a.depth.size, t.depth_line, t.score_line, self.pairs)
        self.second = Product(
            t.rows,
            t.width_line,
            t.keys,
            t.score_line * (2 if self.pairs else 1),
            t.width_line,
            self.pairs,
        )
        self.single = t.key_tiles == 1

    def _suits_pairs(self) -> bool:
        """Whether depth and keys can be read as bf16 pairs: contiguous, even sizes and strides."""
        a = self.a
        k_steps = [a.k.offset, a.k.step(a.keys), *(a.k.step(d) for d in a.heads)]
        types = {access.array.array_shape.element_type for access in (a.q, a.k, a.v)}
        along = types == {T.BF16} and a.q.step(a.depth) == a.k.step(a.depth) == a.v.step(a.width) == 1
        return along and a.depth.size % 2 == 0 and not any(s % 2 for s in k_steps)

    # -- loops -------------------------------------------------------------------------------------

    def emit(self) -> None:
        f, t = self.f, self.t
        self._decided()
        with parts(f, t.items, nanoseconds=t.nanoseconds) as (low, high), f.loop(high, low) as item:
            head, run = f.div(item, t.runs), f.rem(item, t.runs)
            self.scratch = self.k.own_scratch()
            self.at = dict(zip(self.a.heads, lanes.split(f, head, [d.size for d in self.a.heads]), strict=True))
            if t.runs == 1:
                self._pack()
            else:
                with f.when(f.value(run).equals(0) | f.value(item).equals(f.value(low))):
                    self._pack()
            begin = f.mul(run, t.run_tiles)
            end = f.value(f.add(begin, t.run_tiles)).smin(t.row_tiles)
            with f.loop(end if t.runs > 1 else t.row_tiles, begin, guarded=t.runs > 1, most=t.run_tiles) as tile:
                self._queries(tile)

    def _pack(self) -> None:
        self._pack_keys()
        self._pack_values()

    def _decided(self) -> None:
        t, f = self.t, self.f
        if not f.module.debug:
            return
        f.decided(
            "tile",
            f"{t.rows} queries by {t.keys} keys",
            f"{t.places['size']} bytes of scratch per thread",
        )
        if t.reach is not None:
            f.decided(
                "masked tiles",
                "skipped",
                f"{t.reach.share(t.key_tiles):.0%} of {t.row_tiles * t.key_tiles} are computed",
            )
        f.decided(
            "products",
            "pairs of bf16" if self.pairs else "f32",
            f"{self.first.panel(f.target)} columns per panel",
        )

    def _queries(self, tile: Ix) -> None:
        """Emit the computation of a tile of queries."""
        f, t, a = self.f, self.t, self.a
        self.row = f.value(f.mul(tile, t.rows)).smin(a.rows.size - t.rows) if t.row_tiles > 1 else f.value(0)
        self._pack_queries()
        if not self.single:
            self._fill(self._scratch_at("total"), t.rows * t.width_line, 0.0)
            self._fill(self._scratch_at("sums"), t.rows * LANES, 0.0)
            self._fill(self._scratch_at("maxima"), t.line_count, -inf)
        if self.single:
            self._tile(0)
        elif t.reach is None:
            with f.loop(t.key_tiles) as n:
                self._tile(n)
        else:
            self._emit_key_tiles(tile)
        self._finish()

    def _emit_key_tiles(self, tile: Ix) -> None:
        """Emit the key tiles that the mask keeps, then the others if they may contribute."""
        f, t = self.f, self.t
        reach = t.reach
        assert reach is not None  # noqa: S101 - checked by the caller
        words = [w for pair in zip(reach.first, reach.last, strict=True) for w in pair]
        table = Pointer(f.table(f"xlanb.reach.{f.name}", I64, words), I64)
        first, last = (table[f.add(f.mul(tile, 2), n)] for n in (0, 1))
        needed = last - first + 1
        with f.rounds([f.value(0), needed]) as loop:
            n, end = loop.values
            beyond = n - needed
            key_tile = (n < needed).select(first + n, (beyond < first).select(beyond, n))
            self._tile(key_tile)
            after = n + 1
            (end,) = f.choose(
                after.equals(needed) & needed.differs(t.key_tiles),
                lambda: [self._may_count(first, last, reach.most).select(t.key_tiles, end)],
                lambda: [end],
            )
            loop.next, loop.again, loop.count = [after, end], after < end, t.key_tiles

    def _may_count(self, first: Value, last: Value, most: float) -> Value:
        """i1: whether tiles outside first..last may contribute; their logits are at most `most`."""
        f, t = self.f, self.t
        if most == -inf:
            counts = f.value(0).differs(0)
        else:
            maxima = Pointer(self._scratch_at("maxima"), FLOAT)
            with f.carried(t.rows, [f.value(0)]) as loop:
                near = (maxima[loop.index] - most) < _VANISHED
                loop.next = [loop.values[0] | near.zext(I64)]
            counts = loop.values[0].differs(0)
        finite = Pointer(self._scratch_at("finite"), FLOAT)
        with f.carried(t.key_tiles, [f.const(FLOAT, 0.0)]) as others:
            n = f.value(others.index)
            inside = (n >= first) & (n <= last)
            others.next = [others.values[0] + inside.select(f.const(FLOAT, 0.0), finite[n])]
        return counts | others.values[0].differs(0.0)

    # -- memory ------------------------------------------------------------------------------------

    def _scratch_at(self, name: str) -> Value:
        return Pointer(self.scratch, I8).address(self.t.places[name])

    def _fill(self, at: Value, elements: int, number: float) -> None:
        f = self.f
        with f.loop(-(-elements // self.width)) as n:
            Pointer(at, FLOAT).store(f.mul(n, self.width), f.const(self.v.kind, number))

    def _array(self, access: Access) -> Value:
        """The address of this head's first element in an operand."""
        i = access.array
        operand = self.k.instruction.operands[i.parameter_number]
        array = self.k.e.constants(operand) if operand.opcode is Op.CONSTANT else self.k.e.bindings[i][()]
        if not isinstance(array, IrArray):
            raise CompilationError(f"operand {i.name} is not in memory:\n  {self.k.instruction}")
        return self._of_head(access, array, access.offset)

    def _of_head(self, access: Access, array: IrArray, offset: Ix) -> Value:
        f = self.f
        for digit in self.a.heads:
            offset = f.add(offset, f.mul(self.at[digit], access.step(digit)))
        return Pointer(array.pointer, memory(array.shape.element_type)).address(offset)

    def _pack_queries(self) -> None:
        a, t, f = self.a, self.t, self.f
        given = a.q.array.array_shape.element_type
        source = Pointer(self._array(a.q), memory(given)).address(f.mul(self.row, a.q.step(a.rows)))
        axes = (
            ContractionAxis(t.rows, a.q.step(a.rows), 0, t.depth_line),
            ContractionAxis(a.depth.size, a.q.step(a.depth), 0, 1),
        )
        emit_copy(f, Copy(axes, given, self.first.type), source, self._scratch_at("queries"))

    def _pack_keys(self) -> None:
        """Pack the keys into panels with a line of keys per step of depth.

        The rest of the last panel is undefined and never used.
        """
        a, f = self.a, self.f
        given, panel, source, goal = (
            a.k.array.array_shape.element_type,
            self.first.panel(f.target),
            self._array(a.k),
            self._scratch_at("keys"),
        )
        key, depth, lines = a.k.step(a.keys), a.k.step(a.depth), a.depth.size
        types = given, T.F32
        if self.pairs:  # two neighbours along depth are copied as 32 bits
            key, lines, types = key // 2, lines // 2, (T.U32, T.U32)
        unit = 4 if self.pairs else given.byte_size
        for first, count, size in pieces(a.keys.size, panel):
            axes = (
                ContractionAxis(count, panel * key, 0, panel * lines),
                ContractionAxis(lines, depth, 0, panel),
                ContractionAxis(size, key, 0, 1),
            )
            here = Pointer(source, I8).address(first * panel * key * unit)
            emit_copy(f, Copy(axes, *types), here, Pointer(goal, I8).address(4 * first * panel * lines))

    def _pack_values(self) -> None:
        """Pack each tile's values into panels, a line of columns per key; missing keys are zero."""
        a, t, f = self.a, self.t, self.f
        given, panel, source, goal = (
            a.v.array.array_shape.element_type,
            self.second.panel(f.target),
            self._array(a.v),
            self._scratch_at("values"),
        )
        key, column = a.v.step(a.keys), a.v.step(a.width)
        two = 2 if self.pairs else 1
        tile_lines = t.keys // two
        missing = (t.padded_keys - a.keys.size) // two
        if self.pairs and a.keys.size % 2:
            self._pack_odd_value(source, goal, panel)
        for first_tile, tiles, keys in pieces(a.keys.size, t.keys):
            for first, count, size in pieces(a.width.size, panel):
                axes = (
                    ContractionAxis(tiles, t.keys * key, 0, tile_lines * t.width_line),
                    ContractionAxis(count, panel * column, 0, tile_lines * panel),
                    ContractionAxis(keys // two, two * key, 0, panel),
                    ContractionAxis(size, column, 0, 1),
                )
                here = Pointer(source, memory(given)).address(first_tile * t.keys * key + first * panel * column)
                to = 4 * (first_tile * tile_lines * t.width_line + first * tile_lines * panel)
                emit_copy(
                    f,
                    Copy(axes, given, T.F32, key if self.pairs else 0),
                    here,
                    Pointer(goal, I8).address(to),
                )
        if missing:
            tile = (t.key_tiles - 1) * tile_lines * t.width_line
            for n in range(t.width_line // panel):
                begin = tile + n * tile_lines * panel + (tile_lines - missing) * panel
                self._fill(Pointer(goal, FLOAT).address(begin), missing * panel, 0.0)
        if t.reach is not None:
            self._note_finite(tile_lines * t.width_line)

    def _pack_odd_value(self, source: Value, goal: Value, panel: int) -> None:
        """Pack the last of an odd number of values into the lanes' low halves, paired with zero."""
        a, t, f = self.a, self.t, self.f
        column, lines = a.v.step(a.width), t.keys // 2
        begin = (t.key_tiles - 1) * t.keys
        for first, count, size in pieces(a.width.size, panel):
            offset = (a.keys.size - 1) * a.v.step(a.keys) + first * panel * column
            line = first * lines * panel + (a.keys.size - 1 - begin) // 2 * panel
            there = 4 * ((t.key_tiles - 1) * lines * t.width_line + line)
            axes = ContractionAxis(count, panel * column, 0, lines * panel), ContractionAxis(size, column, 0, 1)
            here = Pointer(source, memory(T.BF16)).address(offset)
            emit_copy(f, Copy(axes, T.U16, T.U32), here, Pointer(goal, I8).address(there))

    def _note_finite(self, size: int) -> None:
        """Record for each tile whether its values are finite.

        Stores the sum of the values times zero: zero or NaN. Padding columns are left out.
        """
        a, t, f = self.a, self.t, self.f
        given, source = a.v.array.array_shape.element_type, self._array(a.v)
        finite = Pointer(self._scratch_at("finite"), FLOAT)
        key, column = a.v.step(a.keys), a.v.step(a.width)
        with f.loop(t.key_tiles) as n:
            begin = f.mul(n, t.keys)
            count = f.value(f.sub(a.keys.size, begin)).smin(t.keys)
            with f.carried(count, [f.zero(self.v.kind)], guarded=True, most=t.keys) as keys:
                line = Pointer(source, memory(given)).address(f.mul(f.add(begin, keys.index), key))
                total = keys.values[0]
                if column == 1:
                    for at in range(0, a.width.size, self.width):
                        some = self.v.some(min(self.width, a.width.size - at))
                        total = total + self.v.load(given, line, at, some) * 0.0
                else:
                    with f.carried(a.width.size, [total]) as columns:
                        one = self.v.broadcast(given, line, f.mul(columns.index, column))
                        columns.next = [columns.values[0] + one * 0.0]
                    total = columns.values[0]
                keys.next = [total]
            finite[n] = self.v.sum(keys.values[0])

    # -- a tile ------------------------------------------------------------------------------------

    def _tile(self, n: Ix) -> None:
        """Emit the computation of a tile of keys."""
        f, t, a = self.f, self.t, self.a
        begin = f.mul(n, t.keys)
        lines = self.first.depth // 2 if self.pairs else self.first.depth
        keys = Pointer(self._scratch_at("keys"), FLOAT).address(f.mul(begin, lines))
        self.first.emit(f, self._scratch_at("queries"), keys, self._scratch_at("scores"))
        vectors = f.value(-(-t.keys // self.width))
        if a.keys.size % t.keys:
            there = f.value(f.sub(a.keys.size, begin)).smin(t.keys)
            vectors = (there + (self.width - 1)).lshr(self.width.bit_length() - 1)
        with f.loop(t.rows) as r:
            self._maximum(r, begin, vectors)
        with f.loop(t.line_count // self.width) as n_rows:
            self._shift(f.mul(n_rows, self.width))
        with f.loop(t.rows) as r:
            self._exponentials(r, begin, vectors)
        per_tile = t.keys // (2 if self.pairs else 1) * t.width_line
        values = Pointer(self._scratch_at("values"), FLOAT).address(f.mul(n, per_tile))
        part = self._scratch_at("total" if self.single else "part")
        self.second.emit(f, self._scratch_at("scores"), values, part)
        if not self.single:
            with f.loop(t.rows) as r:
                self._add(r)

    def _mask(self, begin: Ix, at: Ix) -> Mask | None:
        """The mask of the keys that exist in a vector; None if all always do."""
        f, size = self.f, self.a.keys.size
        return None if size % self.width == 0 else Mask.first(f, self.width, f.sub(f.sub(size, begin), at))

    @contextmanager
    def _vectors(
        self, vectors: Value, begin: Ix, carried: Sequence[Value]
    ) -> Iterator[tuple[Ix, Mask | None, list[Value], list[Value]]]:
        """Loop over a row's vectors: yield the first key in the tile, the mask, the carried values,
        and the list to put the next carried values in.
        """
        f, most = self.f, -(-self.t.keys // self.width)
        with f.carried(vectors, list(carried), most=most) as loop:
            at = f.mul(loop.index, self.width)
            become: list[Value] = []
            yield at, self._mask(begin, at), loop.values, become
            loop.next = become
        self.carried = loop.values

    def _maximum(self, r: Ix, begin: Ix, vectors: Value) -> None:
        """Compute the logits of a row and their maximum."""
        f, t, a = self.f, self.t, self.a
        line = Pointer(self._scratch_at("scores"), FLOAT).by(f.mul(r, t.score_line))
        floor = len(f.regions)
        is_plain = a.logits is a.scores and a.scores.array_shape.element_type is T.F32
        with self._vectors(vectors, begin, [f.const(self.v.kind, -inf)]) as (
            at,
            mask,
            (most,),
            become,
        ):
            x = (
                line.load(at, self.width)
                if is_plain
                else self._logits(r, f.add(begin, at), line.address(at), mask, floor)
            )
            if not is_plain:
                line.store(at, x)
            if mask is not None:
                x = mask.value(f).select(x, -inf)
            become.append((x > most).select(x, most))
        Pointer(self._scratch_at("tile maxima"), FLOAT)[r] = _highest(self.carried[0])

    def _logits(self, r: Ix, key: Ix, scores: Value, mask: Mask | None, floor: int) -> Value:
        """A vector of logits: the program's scale, biases and masks applied to `scores`."""
        f, a, scored = self.f, self.a, self.a.scores
        of = scored.array_shape.element_type

        def score(_: Index) -> Value:
            return rounded(f, of, Pointer(scores, FLOAT).load(0, self.width))

        with f.vectorized(self.width, mask):
            lane = lanes.counter(f, key, 0, a.keys.size - 1, self.width)
            at = {**self.at, a.rows: f.add(self.row, r), a.keys: lane}
            index = [_number(f, group, at) for group in a.logits_dims]
            e = Elemental(
                f,
                {**self.k.e.bindings, scored: {(): score}},
                self.k.e.constants,
                self.k.e.flags,
                floor,
            )
            made = real(e.element(a.logits, Index(a.logits.array_shape, index)))
        return made if isinstance(made, Vector) else f.splat(made, self.width)

    def _shift(self, at: Ix) -> None:
        """Update the maxima of a vector of rows; store shifts and the factors of previous sums.

        A row with only -inf so far subtracts zero, so that its exponentials are zero, not NaN.
        """
        f, width = self.f, self.width
        maxima, tile, shifts, factors = (
            Pointer(self._scratch_at(name), FLOAT) for name in ("maxima", "tile maxima", "shifts", "factors")
        )
        most = tile.load(at, width)
        if not self.single:
            before = maxima.load(at, width)
            most = (most > before).select(most, before)
        shift = most.equals(-inf).select(0.0, most)
        shifts.store(at, shift)
        if not self.single:
            maxima.store(at, most)
            with f.vectorized(width):
                factors.store(at, single.exp(before - shift))

    def _exponentials(self, r: Ix, begin: Ix, vectors: Value) -> None:
        """Replace the logits of a row by exp(s - m), and add them up per lane."""
        f, t = self.f, self.t
        line = Pointer(self._scratch_at("scores"), FLOAT).by(f.mul(r, t.score_line))
        shift = f.splat(Pointer(self._scratch_at("shifts"), FLOAT)[r], self.width)
        sums = Pointer(self._scratch_at("sums"), FLOAT).by(f.mul(r, LANES))
        start = f.const(self.v.kind, 0.0)
        if not self.single:
            start = sums.load(0, self.width) * f.splat(Pointer(self._scratch_at("factors"), FLOAT)[r], self.width)
        with self._vectors(vectors, begin, [start]) as (at, mask, (total,), become):
            with f.vectorized(self.width):
                p = single.exp(line.load(at, self.width) - shift)
            if mask is not None:
                p = mask.value(f).select(p, 0.0)
            become.append(total + p)
            self._store_probabilities(line, at, p)
        sums.store(0, self.carried[0])
        if self.a.keys.size % t.keys:
            zero = f.const(self.v.kind, 0.0)
            with f.loop(-(-t.keys // self.width), vectors, guarded=True, most=-(-t.keys // self.width)) as n:
                self._store_probabilities(line, f.mul(n, self.width), zero)

    def _store_probabilities(self, line: Pointer, at: Ix, p: Value) -> None:
        """Store probabilities in the type of the product's operands, rounded as in the program."""
        if self.pairs:
            self.v.store(T.BF16, line.base, at, p)
        else:
            line.store(at, rounded(self.f, self.a.operand_type, p))

    def _add(self, r: Ix) -> None:
        """Add the tile's product to a row of the running result."""
        f, t = self.f, self.t
        total, part = (Pointer(self._scratch_at(name), FLOAT).by(f.mul(r, t.width_line)) for name in ("total", "part"))
        factor = f.splat(Pointer(self._scratch_at("factors"), FLOAT)[r], self.width)
        for at in range(0, t.width_line, self.width):
            total.store(at, total.load(at, self.width).times_plus(factor, part.load(at, self.width)))

    def _finish(self) -> None:
        """Divide the rows of the result by their sums, and store them."""
        f, t, a = self.f, self.t, self.a
        output = self.k.output
        to = output.shape.element_type
        target = Pointer(self._of_head(a.output, output, 0), memory(to)).address(f.mul(self.row, a.output.step(a.rows)))
        total = Pointer(self._scratch_at("total"), FLOAT)
        along = a.output.step(a.width) == 1
        with f.loop(t.rows) as r:
            line = total.by(f.mul(r, t.width_line))
            sums = Pointer(self._scratch_at("sums"), FLOAT).load(f.mul(r, LANES), self.width)
            by = f.splat(f.const(FLOAT, 1.0) / self.v.sum(sums), self.width)
            there = Pointer(target, memory(to)).address(f.mul(r, a.output.step(a.rows)))
            for at in range(0, a.width.size, self.width):
                x = line.load(at, self.width) * by
                if along:
                    self.v.store(to, there, at, x, self.v.some(min(self.width, a.width.size - at)))
                else:
                    line.store(at, x)
        if not along:
            axes = (
                ContractionAxis(t.rows, t.width_line, 0, a.output.step(a.rows)),
                ContractionAxis(a.width.size, 1, 0, a.output.step(a.width)),
            )
            emit_copy(f, Copy(axes, T.F32, to), total.base, target)


def _number(f: Function, group: Sequence[Digit], at: dict[Digit, Ix]) -> Ix:
    """The index of a dimension, computed from the indices of its digits."""
    out: Ix = 0
    for whole in group:
        for digit, index in at.items():
            if digit.axis == whole.axis and whole.stride <= digit.stride < whole.stride * whole.size:
                rest = prod(other.size for other in group[group.index(whole) + 1 :])
                out = f.add(out, f.mul(index, rest * (digit.stride // whole.stride)))
    return out


def _highest(x: Value) -> Value:
    """The maximum of the lanes; NaN lanes are ignored (the sums propagate NaN)."""
    if not isinstance(x, Vector):
        return x
    low, high = x.halves()
    return _highest((low > high).select(low, high))
