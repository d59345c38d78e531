"""One element of any instruction: `Elemental.element(instruction, index)` emits what computes it, its producers inlined.

As XLA's ElementalIrEmitter: a rule per opcode (the registry `RULES`; this module and the ones that it is extended by) says how one element of the result comes from
elements of the operands. Instructions that are bound (operands of the kernel, parameters of a called computation) are read instead; everything else is inlined and remembered per
index, so a value that is used twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlanb.codegen.elemental import KernelTooLargeError, OverwrittenError
from xlanb.cpu.codegen import arithmetic, complex_math, vectors
from xlanb.cpu.codegen.indexing import Index, IrArray
from xlanb.cpu.codegen.ir import Function, Ix, Loop
from xlanb.cpu.codegen.types import Value, constant, names, pair, real, register, rounded, zero
from xlanb.errors import UnimplementedError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import subshape

T = PrimitiveType
Leaf = tuple[int, ...]
Source = IrArray | Callable[[Index], Value]
Binding = Mapping[Leaf, Source]
Rule = Callable[["Elemental", HloInstruction, Index], Value | tuple[Value, ...]]

RULES: dict[Op, Rule] = {}
_ALL = object()
_DEEP = 100
"""Rules within rules after which a chain is emitted from its beginning: Python's stack is not as deep as chains are long."""
SIZE_LIMIT = 30_000
"""Lines of a function past which a fusion is not compiled as one kernel: inlining has multiplied its producers."""


@dataclass(eq=False)
class Kept:
    """An instruction whose elements are written to an array when they are computed first, and read from there once it is `filled`."""

    instruction: HloInstruction
    array: IrArray
    filled: bool = False


def elementwise_chain(i: HloInstruction, within: Callable[[HloInstruction], bool]) -> list[HloInstruction]:
    """`i` after the instructions `within` that it reaches through none but those, each after its operands."""
    order: dict[HloInstruction, None] = {}
    entered: set[HloInstruction] = set()
    stack = [i]
    while stack:
        j = stack[-1]
        if j in entered:
            order[stack.pop()] = None
            continue
        entered.add(j)
        stack += [o for o in reversed(j.operands) if o not in entered and within(o)]
    return list(order)


def elemental(*opcodes: Op) -> Callable[[Rule], Rule]:
    """Register the rule of opcodes."""

    def register_rule(rule: Rule) -> Rule:
        for op in opcodes:
            RULES[op] = rule
        return rule

    return register_rule


def array_of(i: HloInstruction, leaf: Leaf = ()) -> ArrayShape:
    """The array shape at a leaf of an instruction's result."""
    return subshape(i.shape, leaf).as_array()


class Elemental:
    """Emits elements into a function.

    `bindings` gives, per bound instruction and leaf of its tuple, the array that holds it or a function that emits an element. `constants` gives the memory of a constant array.
    Of loops that are being written an element is computed in the outermost one in which its index is known, but no further out than `floor` (regions of the
    function): what the bindings capture may be known only there.
    """

    def __init__(
        self,
        f: Function,
        bindings: Mapping[HloInstruction, Binding],
        constants: Callable[[HloInstruction], IrArray],
        flags: str = "",
        floor: int = 0,
    ) -> None:
        self.f = f
        self.bindings = bindings
        self.constants = constants
        self.flags = flags
        self.floor = floor
        self.kept: Kept | None = None
        self._written: dict[str, object] = {}
        self._depth = 0
        self._chained: HloInstruction | None = None

    # -- results that lie in the place of operands ----------------------------------------------------------------

    def writes(self, pointers: Iterable[str], at: Index | None = None) -> None:
        """From now on the element at an index is computed (None: any) of the results that lie at these pointers: what else was there must not be read any more."""
        self._written.update(dict.fromkeys(pointers, _ALL if at is None else at.key))

    def has_written_none(self, pointers: Iterable[str]) -> None:
        """These results are about to be computed."""
        for p in pointers:
            self._written.pop(p, None)

    def _read(self, i: HloInstruction, array: IrArray, index: Index) -> Value:
        if self._written.get(array.pointer, index.key) != index.key:
            raise OverwrittenError(f"{i.name} is read where {self.f.name} has written its result")
        return array.load(self.f, index)

    # -- elements -----------------------------------------------------------------------------------------------

    def element(self, i: HloInstruction, index: Index, leaf: Leaf = ()) -> Value:
        """The element at `index` of an instruction's result (of the array at `leaf` where that is a tuple)."""
        key = (self, i, leaf, index.key)
        f = self.f
        found = f.recall(key)
        if found is None:
            with f.outside(f.home(*index.names, floor=self.floor)):
                found = self._emit(i, index, leaf)
                f.remember(key, found)
        return found  # type: ignore[return-value]

    def scalar(self, i: HloInstruction, leaf: Leaf = ()) -> Value:
        """The value of a scalar."""
        return self.element(i, Index(array_of(i, leaf), ()), leaf)

    def _emit(self, i: HloInstruction, index: Index, leaf: Leaf) -> Value:
        bound = self.bindings.get(i)
        if bound is not None:
            source = bound[leaf]
            return self._read(i, source, index) if isinstance(source, IrArray) else source(index)
        if 0 in index.shape.dimensions:  # an element that does not exist: what asks for it never runs
            return zero(array_of(i, leaf).element_type)
        kept = self.kept if self.kept is not None and self.kept.instruction is i else None
        if kept is not None and kept.filled:
            return kept.array.load(self.f, index)
        op = i.opcode
        if op is Op.TUPLE:
            return self.element(i.operands[leaf[0]], index, leaf[1:])
        if op is Op.GET_TUPLE_ELEMENT:
            return self.element(i.operands[0], index, (i.tuple_index, *leaf))
        if op in _FORWARDING:
            return self.element(i.operands[0], index, leaf)
        if op in (Op.FUSION, Op.CALL):
            return self.inlined(i).element(i.called_computations[0].root, index, leaf)
        if self.f.size > SIZE_LIMIT and i is not self._chained:  # a chain is as long as its code: nothing is multiplied
            raise KernelTooLargeError(f"the kernel of {self.f.name} is too large")
        rule = RULES.get(op)
        if rule is None:
            raise UnimplementedError(f"no element of a {op} can be computed by itself:\n  {with_origin(i)}")
        mark = self.f.at(i.name)
        self._depth += 1
        try:
            if self._depth == _DEEP:
                self._emit_chain(i, index)
            value = rule(self, i, index)
        except UnimplementedError as error:
            raise (
                error if "\n" in str(error) else UnimplementedError(f"{error} is not implemented:\n  {with_origin(i)}")
            ) from None
        finally:
            self._depth -= 1
        self.f.restore(mark)
        if kept is not None:
            kept.array.store(self.f, index, value)  # type: ignore[arg-type]
        if not leaf:
            return value  # type: ignore[return-value]
        for k, v in enumerate(value):
            self.f.remember((self, i, (k,), index.key), v)
        return value[leaf[0]]

    def _emit_chain(self, i: HloInstruction, index: Index) -> None:
        """Emit the elements of `i`'s operands at an index, in the order in which recursion would, through chains of any length; the deep ones are then known."""
        self._depth = 0
        try:
            for o in elementwise_chain(i, lambda o: self.bindings.get(o) is None and o.opcode in _SAME_INDEX):
                if o is not i:
                    self._chained = o
                    self.element(o, index)
        finally:
            self._depth, self._chained = _DEEP, None

    # -- called computations ------------------------------------------------------------------------------------

    def inlined(self, i: HloInstruction) -> Elemental:
        """An emitter within the computation that `i` calls, its parameters bound to the operands of `i`."""
        target = i.called_computations[0]
        return self.within(target, i.operands)

    def within(self, target: HloComputation, operands: Sequence[HloInstruction]) -> Elemental:
        """An emitter within a computation, its parameters bound to instructions of this one."""
        bindings: dict[HloInstruction, Binding] = {}
        for p, operand in zip(target.parameters, operands, strict=True):
            bindings[p] = _Lazy(self, operand)
        return Elemental(self.f, bindings, self.constants, self.flags, self.floor)

    def apply(self, target: HloComputation, values: Sequence[Value], flags: str = "") -> list[Value]:
        """A scalar computation applied to values: its results, one or those of its root tuple."""
        bindings: dict[HloInstruction, Binding] = {
            p: {(): _always(v)} for p, v in zip(target.parameters, values, strict=True)
        }
        inner = Elemental(self.f, bindings, self.constants, flags, len(self.f.regions))
        mark = self.f.at(target.root.name)
        out = [
            inner.element(target.root, Index(array_of(target.root, leaf), ()), leaf)
            for leaf, _ in target.root.shape.leaves()
        ]
        self.f.restore(mark)
        return out

    def apply_at(self, target: HloComputation, values: Sequence[Value], index: Sequence[Ix]) -> list[Value]:
        """An elementwise computation over slices applied to values at one index of the slices."""
        bindings: dict[HloInstruction, Binding] = {
            p: {(): _always(v)} for p, v in zip(target.parameters, values, strict=True)
        }
        inner = Elemental(self.f, bindings, self.constants, floor=len(self.f.regions))
        shapes = {leaf: array_of(target.root, leaf) for leaf, _ in target.root.shape.leaves()}
        return [inner.element(target.root, Index(s, index if s.rank else ()), leaf) for leaf, s in shapes.items()]

    # -- control flow -------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is remembered within does not hold outside, and may not always run: a branch."""
        with self.f.aside():
            yield

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Nothing that was computed outside is known within, nor the other way round: the body of a function of its own."""
        floor, self.floor = self.floor, 0
        yield
        self.floor = floor

    @contextmanager
    def loop(self, count: Ix, start: Ix = 0) -> Iterator[Ix]:
        """A loop; what is remembered within does not hold outside."""
        with self.f.loop(count, start) as index:
            yield index

    @contextmanager
    def carried(self, count: Ix, initial: Sequence[tuple[str, str]]) -> Iterator[Loop]:
        """A loop that carries values; what is remembered within does not hold outside."""
        with self.f.carried(count, initial) as loop:
            yield loop

    def fold(
        self,
        sizes: Sequence[int],
        types: Sequence[PrimitiveType],
        initial: Sequence[Value],
        body: Callable[[list[Ix], list[Value]], list[Value]],
    ) -> list[Value]:
        """Nested loops, outermost first, that carry values of the given types; `body(indices, values)` gives the next values."""
        if 0 in sizes:
            return list(initial)

        def nest(indices: list[Ix], values: list[Value]) -> list[Value]:
            if len(indices) == len(sizes):
                return body(indices, values)
            flat = [(register(t), n) for t, v in zip(types, values, strict=True) for n in names(v)]
            with self.carried(sizes[len(indices)], flat) as loop:
                loop.next = [n for v in nest([*indices, loop.index], pack(types, loop.values)) for n in names(v)]
            return pack(types, loop.values)

        return nest([], list(initial))

    def branch(
        self, t: PrimitiveType, condition: str, then: Callable[[], Value], otherwise: Callable[[], Value]
    ) -> Value:
        """A value by either way, only one of them taken."""
        return self.branches([t], condition, lambda: [then()], lambda: [otherwise()])[0]

    def branches(
        self,
        types: Sequence[PrimitiveType],
        condition: str,
        then: Callable[[], list[Value]],
        otherwise: Callable[[], list[Value]],
    ) -> list[Value]:
        """Values by either way, only one of them taken."""
        if condition in ("true", "false"):
            return then() if condition == "true" else otherwise()
        f = self.f
        kinds = [register(t) for t in types for _ in range(2 if t.is_complex else 1)]
        if condition in f.lanes:
            raise vectors.NotAVectorError("a condition that differs from lane to lane")
        yes, no, end = f.fresh("yes"), f.fresh("no"), f.fresh("join")
        f.branch_if(condition, yes, no)
        sides: list[tuple[list[str], str]] = []
        for name, way in ((yes, then), (no, otherwise)):
            f.begin(name)
            with self.scope():
                values = [n for v in way() for n in names(v)]
                if f.width:
                    values = [vectors.as_vector(f, k, v)[1] for k, v in zip(kinds, values, strict=True)]
            sides.append((values, f.block))
            f.branch(end)
        f.begin(end)
        if f.width:
            kinds = [vectors.kind(k, f.width) for k in kinds]
        merged = [
            f.plain(f"phi {kind} [ {a}, %{sides[0][1]} ], [ {b}, %{sides[1][1]} ]")
            for kind, a, b in zip(kinds, sides[0][0], sides[1][0], strict=True)
        ]
        if f.width:
            f.lanes.update(dict.fromkeys(merged, f.width))
        return pack(types, merged)

    def start(self, i: HloInstruction, low: int, high: int) -> Ix:
        """A scalar integer as an i64 index, clamped to low..high."""
        return self.clamped(array_of(i).element_type, self.scalar(i), low, high)

    def clamped(self, t: PrimitiveType, value: Value, low: int, high: int) -> Ix:
        """An integer value as an i64 index, clamped to low..high; an unsigned one is never negative."""
        if low == high:
            return low
        if (
            t.bits == 32 and value in self.f.lanes and low == 0 and high < 1 << 31
        ):  # vectors of i64 would be twice as many
            kind, limit = register(t), ("llvm.smin.i32" if t.is_signed else "llvm.umin.i32")
            least = self.f.call(kind, "llvm.smax.i32", (kind, real(value)), (kind, "0")) if t.is_signed else real(value)
            return real(
                arithmetic.convert(self.f, t, T.S64, self.f.call(kind, limit, (kind, least), (kind, str(high))))
            )
        wide = real(arithmetic.convert(self.f, t, T.S64, value))
        if t is T.U64:
            wide = self.f.call("i64", "llvm.umin.i64", ("i64", wide), ("i64", str(high)))
        return self.f.clamp(wide, low, high)


class _Lazy(dict[Leaf, Source]):
    """The leaves of an instruction as seen from a computation that is called with it."""

    def __init__(self, outer: Elemental, operand: HloInstruction) -> None:
        super().__init__()
        self.outer, self.operand = outer, operand

    def __missing__(self, leaf: Leaf) -> Source:
        return lambda index: self.outer.element(self.operand, index, leaf)


def _always(value: Value) -> Callable[[Index], Value]:
    return lambda _: value


def pack(types: Sequence[PrimitiveType], flat: Sequence[str]) -> list[Value]:
    """Register names as values: two to a complex number."""
    rest = iter(flat)
    return [(next(rest), next(rest)) if t.is_complex else next(rest) for t in types]


_FORWARDING = frozenset({Op.OPT_BARRIER, Op.ADD_DEPENDENCY, Op.DOMAIN, Op.COPY_DONE, Op.COPY_START, Op.COPY})


# -- elementwise opcodes ------------------------------------------------------------------------------------------

_BINARY = (
    Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.REMAINDER, Op.MAXIMUM, Op.MINIMUM, Op.POWER, Op.ATAN2, Op.AND, Op.OR, Op.XOR,
    Op.SHIFT_LEFT, Op.SHIFT_RIGHT_ARITHMETIC, Op.SHIFT_RIGHT_LOGICAL, Op.MULHI,
)  # fmt: skip
_UNARY = (
    Op.CEIL, Op.FLOOR, Op.NEGATE, Op.NOT, Op.SIGN, Op.EXPONENTIAL, Op.EXPONENTIAL_MINUS_ONE, Op.LOG, Op.LOG_PLUS_ONE, Op.LOGISTIC, Op.TANH,
    Op.TAN, Op.SINE, Op.COSINE, Op.SINH, Op.COSH, Op.ASIN, Op.ACOS, Op.ATAN, Op.ASINH, Op.ACOSH, Op.ATANH, Op.SQRT, Op.RSQRT, Op.CBRT,
    Op.ERF, Op.ROUND_NEAREST_AFZ, Op.ROUND_NEAREST_EVEN, Op.IS_FINITE, Op.POPCNT, Op.COUNT_LEADING_ZEROS,
)  # fmt: skip
_SAME_INDEX = frozenset((*_BINARY, *_UNARY, Op.ABS, Op.CONVERT, Op.COMPARE))
"""Opcodes whose elements come from the elements of all operands at the same index."""


@elemental(*_BINARY)
def _binary(e: Elemental, i: HloInstruction, x: Index) -> Value:
    t = array_of(i.operands[0]).element_type
    a, b = (e.element(o, x) for o in i.operands)
    if t.is_complex:
        return complex_math.binary(e.f, i.opcode, t, pair(a), pair(b))
    return arithmetic.binary(e.f, i.opcode, t, real(a), real(b), e.flags)


@elemental(*_UNARY)
def _unary(e: Elemental, i: HloInstruction, x: Index) -> Value:
    t = array_of(i.operands[0]).element_type
    a = e.element(i.operands[0], x)
    if t.is_complex and i.opcode is not Op.IS_FINITE:
        return complex_math.unary(e.f, i.opcode, t, pair(a))
    if t.is_integral and i.opcode is Op.IS_FINITE:
        return "true"
    return arithmetic.unary(e.f, i.opcode, t, real(a))


@elemental(Op.ABS)
def _abs(e: Elemental, i: HloInstruction, x: Index) -> Value:
    t = array_of(i.operands[0]).element_type
    a = e.element(i.operands[0], x)
    return complex_math.Complex(e.f, t).abs(pair(a)) if t.is_complex else arithmetic.unary(e.f, Op.ABS, t, real(a))


@elemental(Op.COPY)
def _copy(e: Elemental, i: HloInstruction, x: Index) -> Value:
    """Only a name in the registry: `Elemental` passes copies on, leaf by leaf."""
    return e.element(i.operands[0], x)


@elemental(Op.CONSTANT)
def _constant(e: Elemental, i: HloInstruction, x: Index) -> Value:
    shape = array_of(i)
    values = i.literal.array
    if i.literal.is_elided or _is_splat(values.tobytes(), values.itemsize):
        return constant(shape.element_type, values.flat[0])
    return e.constants(i).load(e.f, x)


def _is_splat(data: bytes, size: int) -> bool:
    """Whether all elements of `size` bytes are the same."""
    return data == data[:size] * (len(data) // size)


@elemental(Op.CONVERT)
def _convert(e: Elemental, i: HloInstruction, x: Index) -> Value:
    value = e.element(i.operands[0], x)
    return arithmetic.convert(e.f, array_of(i.operands[0]).element_type, array_of(i).element_type, value)


@elemental(Op.COMPARE)
def _compare(e: Elemental, i: HloInstruction, x: Index) -> Value:
    a, b = (e.element(o, x) for o in i.operands)
    t = array_of(i.operands[0]).element_type
    return arithmetic.compare(e.f, t, i.get("direction"), a, b, total_order=i.get("type") == "TOTALORDER")


@elemental(Op.SELECT)
def _select(e: Elemental, i: HloInstruction, x: Index) -> Value:
    predicate, a, b = i.operands
    condition = e.scalar(predicate) if not array_of(predicate).dimensions else e.element(predicate, x)
    return arithmetic.select(e.f, array_of(i).element_type, real(condition), e.element(a, x), e.element(b, x))


@elemental(Op.CLAMP)
def _clamp(e: Elemental, i: HloInstruction, x: Index) -> Value:
    """min(max(x, low), high)."""
    t = array_of(i).element_type
    if t.is_complex:
        raise UnimplementedError(f"clamp of {t}")
    low, value, high = (real(e.element(o, x) if array_of(o).dimensions else e.scalar(o)) for o in i.operands)
    return arithmetic.binary(e.f, Op.MINIMUM, t, arithmetic.binary(e.f, Op.MAXIMUM, t, low, value), high)


@elemental(Op.COMPLEX)
def _complex(e: Elemental, i: HloInstruction, x: Index) -> Value:
    re, im = (real(e.element(o, x)) for o in i.operands)
    return re, im


@elemental(Op.REAL)
def _real(e: Elemental, i: HloInstruction, x: Index) -> Value:
    value = e.element(i.operands[0], x)
    return value if isinstance(value, str) else value[0]


@elemental(Op.IMAG)
def _imag(e: Elemental, i: HloInstruction, x: Index) -> Value:
    value = e.element(i.operands[0], x)
    return constant(array_of(i).element_type, 0) if isinstance(value, str) else value[1]


@elemental(Op.REDUCE_PRECISION)
def _reduce_precision(e: Elemental, i: HloInstruction, x: Index) -> Value:
    value = real(e.element(i.operands[0], x))
    t = array_of(i).element_type
    return arithmetic.reduce_precision(e.f, t, i.get("exponent_bits"), i.get("mantissa_bits"), value)


@elemental(Op.STOCHASTIC_CONVERT)
def _stochastic_convert(e: Elemental, i: HloInstruction, x: Index) -> Value:
    """Towards zero, and one further where the random number is below the fraction that was cut."""
    source, random = i.operands
    t, r, to = array_of(source).element_type, array_of(random).element_type, array_of(i).element_type
    if not to.is_integral or not r.is_unsigned:
        raise UnimplementedError(f"stochastic-convert of {t} to {to}")
    f, kind, suffix = e.f, register(t), arithmetic.suffix(t)
    value = real(e.element(source, x))
    size = f.call(kind, f"llvm.fabs.{suffix}", (kind, value))
    whole = f.call(kind, f"llvm.trunc.{suffix}", (kind, size))
    fraction = f.let(f"fsub {kind} {size}, {whole}")
    scale = constant(T.F64 if kind == "double" else T.F32, 2.0**r.bits)
    cut = f.call(
        register(r), f"llvm.fptoui.sat.{register(r)}.{suffix}", (kind, f.let(f"fmul {kind} {fraction}, {scale}"))
    )
    up = f.let(f"icmp ult {register(r)} {e.element(random, x)}, {cut}")
    one = constant(T.F64 if kind == "double" else T.F32, 1.0)
    size = f.let(f"select i1 {up}, {kind} {f.let(f'fadd {kind} {whole}, {one}')}, {kind} {whole}")
    signed = f.call(kind, f"llvm.copysign.{suffix}", (kind, size), (kind, value))
    return arithmetic.convert(f, t, to, rounded(f, t, signed))


@elemental(Op.MAP)
def _map(e: Elemental, i: HloInstruction, x: Index) -> Value:
    return e.apply(i.to_apply, [e.element(o, x) for o in i.operands])[0]


@elemental(Op.CONDITIONAL)
def _conditional(e: Elemental, i: HloInstruction, x: Index) -> Value:
    """A branch per computation; only the one that is selected runs."""
    if i.shape.is_tuple:
        raise UnimplementedError("a conditional that gives a tuple, inside a kernel")
    computations = i.called_computations
    t = array_of(i.operands[0]).element_type
    chosen = real(e.scalar(i.operands[0]))
    to = array_of(i).element_type

    def way(k: int) -> Value:
        return e.within(computations[k], [i.operands[1 + k]]).element(computations[k].root, x)

    if t is T.PRED:
        return e.branch(to, chosen, lambda: way(0), lambda: way(1))

    def pick(k: int) -> Value:
        if k == len(computations) - 1:
            return way(k)
        return e.branch(to, e.f.let(f"icmp eq {register(t)} {chosen}, {k}"), lambda: way(k), lambda: pick(k + 1))

    return pick(0)
