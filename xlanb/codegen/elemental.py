"""One element of any instruction: `Elemental.element(instruction, index)` emits its computation.

Producers are inlined, as in XLA's ElementalIrEmitter: a rule per opcode (the registry `RULES`; see
elementwise.py and movement.py) computes one element of the result from elements of the operands.
Bound instructions (operands of the kernel, parameters of a called computation) are read instead.
Everything else is inlined and remembered per index, so that a value used twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xlanb.codegen import arithmetic
from xlanb.codegen.elements import Element, parts, real, zero
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, IrArray
from xlanb.codegen.lanes import varies
from xlanb.codegen.values import Value
from xlanb.errors import UnimplementedError, XlanbError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import subshape

T = PrimitiveType
Leaf = tuple[int, ...]
Source = IrArray | Callable[[Index], Element]
Binding = Mapping[Leaf, Source]
Rule = Callable[["Elemental", HloInstruction, Index], Element | Sequence[Element]]

RULES: dict[Op, Rule] = {}
SAME_INDEX: set[Op] = set()
"""Opcodes whose elements depend on the elements of all operands at the same index."""
_FORWARDING = frozenset({Op.OPT_BARRIER, Op.ADD_DEPENDENCY, Op.DOMAIN, Op.COPY_DONE, Op.COPY_START, Op.COPY})
_ALL = object()
_DEEP = 100
"""Recursion depth of rules at which a chain is emitted iteratively, to spare Python's stack."""
SIZE_LIMIT = 30_000
"""Lines of a function above which a fusion is not one kernel: inlining duplicated producers."""


@dataclass(eq=False)
class Kept:
    """An instruction whose elements are stored when first computed, and loaded once `filled`."""

    instruction: HloInstruction
    array: IrArray
    filled: bool = False


class UnplannedKernelError(XlanbError):
    """A kernel that cannot be emitted as planned, which only emitting it shows.

    `instruction` is the one that it computes, set by the program's emitter.
    """

    instruction: HloInstruction


class OverwrittenError(UnplannedKernelError):
    """A kernel reads an operand that its result has overwritten: they must not alias."""


class KernelTooLargeError(UnplannedKernelError):
    """A fusion's inlined producers exceed `SIZE_LIMIT`; compile its instructions separately."""


def elementwise_chain(i: HloInstruction, within: Callable[[HloInstruction], bool]) -> list[HloInstruction]:
    """`i` preceded by the instructions `within` that it reaches through such instructions only.

    Operands precede their users.
    """
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


def elemental(*opcodes: Op, same_index: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of opcodes; `same_index`: it reads its operands only at its own index."""

    def register_rule(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(opcodes, rule))
        if same_index:
            SAME_INDEX.update(opcodes)
        return rule

    return register_rule


def array_of(i: HloInstruction, leaf: Leaf = ()) -> ArrayShape:
    """The array shape at a leaf of an instruction's result."""
    return (subshape(i.shape, leaf) if leaf else i.shape).as_array()


class Elemental:
    """Emits elements into a function.

    `rules` are the target's, by opcode. `bindings` gives, per bound instruction and leaf of its
    tuple, the array that holds it or a function that emits an element. `constants` gives the memory
    of a constant array. An element is computed in the outermost loop in which its index is known,
    but no further out than region
    `floor` of the function: values captured by the bindings may be known only there.
    """

    def __init__(
        self,
        f: Function,
        bindings: Mapping[HloInstruction, Binding],
        constants: Callable[[HloInstruction], IrArray],
        flags: str = "",
        floor: int = 0,
        rules: Mapping[Op, Rule] = RULES,
    ) -> None:
        self.f = f
        self.rules = rules
        self.bindings = bindings
        self.constants = constants
        self.flags = flags
        self.floor = floor
        self.kept: Kept | None = None
        self._written: dict[Value, object] = {}
        self._depth = 0
        self._chained: HloInstruction | None = None

    # -- results that alias operands ---------------------------------------------------------------

    def writes(self, pointers: Iterable[Value], at: Index | None = None) -> None:
        """Declare that the results at these pointers are written from now on, at an index.

        None as index means any. Other elements in that memory must no longer be read.
        """
        self._written.update(dict.fromkeys(pointers, _ALL if at is None else at.key))

    def has_written_none(self, pointers: Iterable[Value]) -> None:
        """Declare that these results are about to be computed."""
        for p in pointers:
            self._written.pop(p, None)

    def _read(self, i: HloInstruction, array: IrArray, index: Index) -> Element:
        if self._written.get(array.pointer, index.key) != index.key:
            raise OverwrittenError(f"{i.name} is read after {self.f.name} has overwritten it with its result")
        return array.load(index)

    # -- elements ----------------------------------------------------------------------------------

    def element(self, i: HloInstruction, index: Index, leaf: Leaf = ()) -> Element:
        """The element at `index` of an instruction's result, or of a tuple's array at `leaf`."""
        key = (self, i, leaf, index.key)
        return self.f.once(key, index.names, lambda: self._emit(i, index, leaf), self.floor)

    def scalar(self, i: HloInstruction, leaf: Leaf = ()) -> Element:
        """The value of a scalar."""
        return self.element(i, Index(array_of(i, leaf), ()), leaf)

    def _emit(self, i: HloInstruction, index: Index, leaf: Leaf) -> Element:
        bound = self.bindings.get(i)
        if bound is not None:
            source = bound[leaf]
            return self._read(i, source, index) if isinstance(source, IrArray) else source(index)
        if 0 in index.shape.dimensions:  # an element that does not exist: its user never executes
            return zero(self.f, array_of(i, leaf).element_type)
        kept = self.kept if self.kept is not None and self.kept.instruction is i else None
        if kept is not None and kept.filled:
            return kept.array.load(index)
        op = i.opcode
        if op is Op.TUPLE:
            return self.element(i.operands[leaf[0]], index, leaf[1:])
        if op is Op.GET_TUPLE_ELEMENT:
            return self.element(i.operands[0], index, (i.tuple_index, *leaf))
        if op in _FORWARDING:
            return self.element(i.operands[0], index, leaf)
        if op in (Op.FUSION, Op.CALL):
            return self.within(i.called_computations[0], i.operands).element(i.called_computations[0].root, index, leaf)
        if self.f.size > SIZE_LIMIT and i is not self._chained:  # a chain's code has its length: nothing is duplicated
            raise KernelTooLargeError(f"the kernel of {self.f.name} is too large")
        value = self._by_rule(i, index)
        if kept is not None:
            kept.array.store(index, value)  # type: ignore[arg-type]
        if not leaf:
            return value  # type: ignore[return-value]
        for k, v in enumerate(value):  # type: ignore[arg-type]
            self.f.remember((self, i, (k,), index.key), v)
        return value[leaf[0]]  # type: ignore[index]

    def _by_rule(self, i: HloInstruction, index: Index) -> Element | Sequence[Element]:
        rule = self.rules.get(i.opcode)
        if rule is None:
            raise UnimplementedError(f"{i.opcode} has no elementwise rule:\n  {with_origin(i)}")
        mark = self.f.locate(i.name)
        self._depth += 1
        try:
            if self._depth == _DEEP:
                self._emit_chain(i, index)
            return rule(self, i, index)
        except UnimplementedError as error:
            if "\n" in str(error):
                raise
            raise UnimplementedError(f"{error} is not implemented:\n  {with_origin(i)}") from None
        finally:
            self._depth -= 1
            self.f.restore(mark)

    def _emit_chain(self, i: HloInstruction, index: Index) -> None:
        """Emit `i`'s operands at an index iteratively, in the order of the recursion.

        Deep elements of long chains are then known.
        """
        self._depth = 0
        try:
            for o in elementwise_chain(i, lambda o: self.bindings.get(o) is None and o.opcode in SAME_INDEX):
                if o is not i:
                    self._chained = o
                    self.element(o, index)
        finally:
            self._depth, self._chained = _DEEP, None

    # -- called computations -----------------------------------------------------------------------

    def within(self, target: HloComputation, operands: Sequence[HloInstruction]) -> Elemental:
        """An Elemental for a called computation; its parameters are instructions of this one."""
        bindings: dict[HloInstruction, Binding] = {}
        for p, operand in zip(target.parameters, operands, strict=True):
            bindings[p] = _Lazy(self, operand)
        return Elemental(self.f, bindings, self.constants, self.flags, self.floor, self.rules)

    def apply(
        self, target: HloComputation, values: Sequence[Element], flags: str = "", index: Sequence[Ix] = ()
    ) -> list[Element]:
        """Apply a scalar computation to values; return its results, one or those of its root tuple.

        For an elementwise computation over slices, the values are those at one index of the slices.
        """
        bindings: dict[HloInstruction, Binding] = {
            p: {(): _always(v)} for p, v in zip(target.parameters, values, strict=True)
        }
        inner, root = Elemental(self.f, bindings, self.constants, flags, len(self.f.regions), self.rules), target.root
        mark = self.f.locate(root.name)
        shapes = {leaf: array_of(root, leaf) for leaf, _ in root.shape.leaves()}
        out = [inner.element(root, Index(s, index if s.rank else ()), leaf) for leaf, s in shapes.items()]
        self.f.restore(mark)
        return out

    # -- control flow ------------------------------------------------------------------------------

    def fold(
        self,
        sizes: Sequence[int],
        types: Sequence[PrimitiveType],
        initial: Sequence[Element],
        body: Callable[[list[Ix], list[Element]], Sequence[Element]],
    ) -> list[Element]:
        """Nested loops, outermost first, that carry values of the given types.

        `body(indices, values)` returns the next values.
        """
        if 0 in sizes:
            return list(initial)

        def nest(indices: list[Ix], values: Sequence[Element]) -> list[Element]:
            if len(indices) == len(sizes):
                return list(body(indices, list(values)))
            with self.f.carried(sizes[len(indices)], flat(values)) as loop:
                loop.next = flat(nest([*indices, loop.index], pack(types, loop.values)))
            return pack(types, loop.values)

        return nest([], initial)

    def branch(
        self, t: PrimitiveType, condition: Value, then: Callable[[], Element], otherwise: Callable[[], Element]
    ) -> Element:
        """A value from one of two branches, only one of which executes."""
        return self.branches([t], condition, lambda: [then()], lambda: [otherwise()])[0]

    def branches(
        self,
        types: Sequence[PrimitiveType],
        condition: Value,
        then: Callable[[], Sequence[Element]],
        otherwise: Callable[[], Sequence[Element]],
    ) -> list[Element]:
        """Values from one of two branches, only one of which executes."""
        return pack(types, self.f.choose(condition, lambda: flat(then()), lambda: flat(otherwise())))

    # -- indices -----------------------------------------------------------------------------------

    def clamped(self, t: PrimitiveType, value: Value, low: int, high: int) -> Ix:
        """An integer as an i64 index, clamped to low..high; unsigned ones are never negative."""
        if low == high:
            return low
        f = self.f
        if t.bits == 32 and varies(value) and low == 0 and high < 1 << 31:  # i64 would need twice as many vectors
            near = value.smax(0).smin(high) if t.is_signed else value.umin(high)
            return real(arithmetic.convert(f, t, T.S64, near))
        wide = real(arithmetic.convert(f, t, T.S64, value))
        return f.clamp(wide.umin(high) if t is T.U64 else wide, low, high)


class _Lazy(dict[Leaf, Source]):
    """The leaves of an instruction as operands of a called computation."""

    def __init__(self, outer: Elemental, operand: HloInstruction) -> None:
        super().__init__()
        self.outer, self.operand = outer, operand

    def __missing__(self, leaf: Leaf) -> Source:
        return lambda index: self.outer.element(self.operand, index, leaf)


def _always(value: Element) -> Callable[[Index], Element]:
    return lambda _: value


def flat(values: Sequence[Element]) -> list[Value]:
    """Elements as values: two for a complex number."""
    return [p for v in values for p in parts(v)]


def pack(types: Sequence[PrimitiveType], values: Sequence[Value]) -> list[Element]:
    """Values as elements: two for a complex number."""
    rest = iter(values)
    return [(next(rest), next(rest)) if t.is_complex else next(rest) for t in types]
