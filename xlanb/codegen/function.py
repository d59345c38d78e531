"""Writes one LLVM function: instructions, loops, branches, and what is known in which of them.

Indices are `int` where they are known and values of type i64 otherwise, so that arithmetic on constants costs no instruction. Within a `vectorized` region the counter of
the loop is a lane index (see lanes.py): instructions with such an operand, or with a vector, are written on vectors, all others once, before the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from xlanb.codegen import lanes, polling
from xlanb.codegen.plan import Choice, Step
from xlanb.codegen.types import I1, I64, PTR, VOID, Type, integer
from xlanb.codegen.values import Number, Value, Vector, text_of

if TYPE_CHECKING:
    from xlanb.codegen.module import ModuleBuilder, Target

Ix = int | Value
_T = TypeVar("_T")
_LONG = 4000
"""Lines of a function from which on LLVM is kept from turning selects into branches: it begins its walk of the function again after each, which takes quadratic time."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its type, its name, and what is promised of it (`noalias readonly`, ...)."""

    type: Type
    name: str
    attributes: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.type.text, self.attributes, f"%{self.name}") if part)


@dataclass(slots=True)
class Phi:
    """A phi instruction: its blocks may get other names as long as the function is not finished."""

    value: Value
    incoming: list[tuple[Value, str]]
    mark: str = ""

    def __str__(self) -> str:
        given = ", ".join(f"[ {v.text}, %{block} ]" for v, block in self.incoming)
        return f"  {self.value.text} = phi {self.value.type.text} {given}{self.mark}"


@dataclass(slots=True)
class PartCall:
    """Where a part of the function that became one of its own is handed to the pool."""

    part: Outlined
    mark: str = ""
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.lines)


Line = str | Phi | PartCall


@dataclass
class Loop:
    """A loop that is being written: its counter, the values that it carries, and what they become."""

    index: Ix
    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)


@dataclass
class Rounds:
    """A loop with a condition of its own: what it carries, what that becomes, and whether there is another round; how many rounds at most, and its strips (see polling.py)."""

    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)
    again: Value | None = None
    count: int | None = None
    strip: polling.Strip | None = None


@dataclass(eq=False)
class Region:
    """A stretch of a function that is being written: a loop's body, a branch, the function itself.

    `memo` holds what was computed here once, by key. Nothing is moved out of a `barrier`: it may run no time at all. In a region of `width` > 0 each instruction may stand for so
    many consecutive elements, those that `mask` names where there is one.
    """

    lines: list[Line]
    block: str
    """The basic block that is being written; empty as long as it is that of the region around."""
    barrier: bool = False
    width: int = 0
    mask: lanes.Mask | None = None
    memo: dict[object, object] = field(default_factory=dict)
    work: int = 0
    """What is done here between two polls beyond its lines once (see polling.py)."""
    called: bool = False
    """Whether the last that was written is a call of code that may have returned because it is to stop."""


@dataclass
class Outlined:
    """A part of a function that became one of its own, over lo..hi of 0..count, in `chunks` pieces."""

    name: str
    count: Ix
    chunks: Ix
    scope: int | None
    lines: list[Line] = field(default_factory=list)


class Function:
    """Writes one LLVM function `name(parameters)`, without a result unless `result` is set to its type; a function with one ends with `give`.

    An emitter sets `ready` where the IR that it wrote needs none of LLVM's passes to become good code, `calls_only` where nothing in it is worth optimising at all, and `shared` for a
    function that other programs have too, word for word, and that calls no other by name. `slot` is the number of the thread that runs: a value inside of an outlined part, 0 elsewhere.
    `plans` say how its loops were planned (see nest.py), `uses` how often it has a function that is perhaps to be
    called (see math/routines.py). `fast` are the fast-math flags that float operators write (`contract`: products may go into sums unrounded).
    """

    def __init__(
        self,
        module: ModuleBuilder,
        name: str,
        parameters: Sequence[Parameter],
        attributes: str,
        scope: int | None,
        linkage: str,
        instruction: str = "",
    ) -> None:
        self.module = module
        self.name = name
        self.attributes = attributes
        self.linkage = linkage
        self.scope = scope
        self.instruction = instruction
        self.parameters = list(parameters)
        self.ready = self.calls_only = self.shared = False
        self.slot: Ix = 0
        self.fast = ""
        self.outlined: list[Outlined] = []
        self.plans: list[Step] = []
        self.result = VOID
        self.uses: Counter[str] = Counter()
        self.regions = [Region([], "entry", barrier=True)]
        self._allocas: list[str] = []
        self._count = 0
        self._outside = 0
        self._dbg = ""
        self._part_rounds: int | None = None
        self.polls = self.goes_on = False

    @property
    def target(self) -> Target:
        """The machine that the code is made for."""
        return self.module.target

    # -- what was decided ---------------------------------------------------------------------------------------

    def decided(self, what: str, taken: str, why: str = "", others: Sequence[tuple[str, str]] = ()) -> None:
        """Note a choice, for those who read the code: see `Choice`."""
        if self.module.debug:
            self.plans.append(Choice(what, taken, why, tuple(others)))

    # -- constants ----------------------------------------------------------------------------------------------

    def const(self, type_: Type, number: Number) -> Value:
        """A constant; of a vector type it stands in each lane."""
        element = type_.element
        if element is None:
            return Value(self, type_, text_of(type_, number), 0, number)
        return Vector(self, type_, f"splat ({element.text} {text_of(element, number)})", 0, number)

    def constants(self, scalar: Type, numbers: Sequence[Number]) -> Value:
        """A constant vector of these elements."""
        given = ", ".join(f"{scalar.text} {text_of(scalar, n)}" for n in numbers)
        return Vector(self, scalar.times(len(numbers)), f"<{given}>")

    def zero(self, type_: Type) -> Value:
        """Zero, or all zeros."""
        return self.const(type_, 0)

    def table(self, name: str, scalar: Type, numbers: Sequence[Number]) -> Value:
        """The address of a constant array of the module, made once under a name."""
        if name not in self.module.globals:
            given = ", ".join(f"{scalar.text} {text_of(scalar, n)}" for n in numbers)
            self.module.globals[name] = (
                f"@{name} = private unnamed_addr constant [{len(numbers)} x {scalar.text}] [{given}], align 64"
            )
        return Value(self, PTR, f"@{name}")

    def poison(self, type_: Type) -> Value:
        """No value in particular."""
        return (Vector if type_.is_vector else Value)(self, type_, "poison")

    def value(self, index: Ix) -> Value:
        """An index as an i64 (a vector, of a lane index)."""
        if isinstance(index, int):
            return self.const(I64, index)
        return lanes.materialize(index) if isinstance(index, lanes.LaneIndex) else index

    # -- instructions -------------------------------------------------------------------------------------------

    def fresh(self, prefix: str = "v") -> str:
        """A name that nothing else in the function has."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def write(self, text: str) -> None:
        """An instruction without a value, exactly as it is written."""
        if self.regions[-1].called:
            self._poll_after_call()
        self.regions[-1].lines.append(f"  {text}{self._dbg}")

    def let(self, type_: Type, text: str) -> Value:
        """An instruction with a value, exactly as it is written."""
        region = self.regions[-1]
        if region.called:
            self._poll_after_call()
        self._count += 1
        name = f"%v{self._count}"
        region.lines.append(f"  {name} = {text}{self._dbg}")
        return (Vector if type_.lanes else Value)(self, type_, name, len(self.regions))

    def pure(self, type_: Type, text: str, *operands: Value) -> Value:
        """An instruction without effects: among vectors a scalar one is written once, where its operands are known first."""
        if not self.regions[-1].width or type_.lanes:
            return self.let(type_, text)
        return self.once(text, operands, lambda: self.let(type_, text))

    def alike(self, *operands: Value | Number) -> list[Value]:
        """Operands of one type: numbers as constants, scalars in each lane where there is a vector, lane indices as vectors."""
        typed = [lanes.materialize(v) if isinstance(v, lanes.LaneIndex) else v for v in operands]
        goal: Type | None = None
        for v in typed:
            if isinstance(v, Value) and (goal is None or v.type.lanes):
                goal = v.type
                if goal.lanes:
                    break
        if goal is None:
            raise AssertionError("no operand has a type")
        return [self._as(goal, v) for v in typed]

    def _as(self, type_: Type, operand: Value | Number) -> Value:
        if not isinstance(operand, Value):
            return self.const(type_, operand)
        return operand if operand.type.lanes == type_.lanes else self.splat(operand, type_.lanes)

    def binary(self, opcode: str, a: Value | Number, b: Value | Number, flags: str = "") -> Value:
        """LLVM's instruction of two operands of one type."""
        x, y = self.alike(a, b)
        flags = flags or (self.fast if opcode[0] == "f" else "")
        return self.pure(x.type, f"{opcode} {flags + ' ' if flags else ''}{x.type.text} {x.text}, {y.text}", x, y)

    def unary(self, opcode: str, a: Value) -> Value:
        """LLVM's instruction of one operand: fneg, freeze."""
        (x,) = self.alike(a)
        return self.pure(x.type, f"{opcode} {x.type.text} {x.text}", x)

    def compare(self, opcode: str, condition: str, a: Value | Number, b: Value | Number) -> Value:
        """An icmp or fcmp."""
        x, y = self.alike(a, b)
        return self.pure(x.type.of(I1), f"{opcode} {condition} {x.type.text} {x.text}, {y.text}", x, y)

    def select(self, condition: Value, then: Value | Number, otherwise: Value | Number) -> Value:
        """One of two values, lane by lane where the condition is a vector. A known condition costs nothing."""
        if condition.number is not None and isinstance(then, Value) and isinstance(otherwise, Value):
            return then if condition.number else otherwise
        a, b = self.alike(then, otherwise)
        if isinstance(condition, Vector) and not a.type.lanes:
            a, b = (self._as(a.type.times(condition.lanes), v) for v in (a, b))
        elif a.type.lanes and not condition.type.lanes and b.number == 0 and a.type.is_integer and a.type.bits > 1:
            # All lanes or none: a mask that is made once costs less than a choice in each round.
            return a & condition.sext(a.type.scalar)
        return self.pure(a.type, f"select {condition!r}, {a!r}, {b!r}", condition, a, b)

    def cast(self, opcode: str, a: Value, to: Type) -> Value:
        """A conversion of each lane."""
        if opcode == "trunc" and isinstance(a, lanes.LaneIndex):
            return lanes.truncated(a, to)
        (x,) = self.alike(a)
        goal = to if opcode == "bitcast" and to.lanes else x.type.of(to)
        if goal is x.type:
            return x
        return self.pure(goal, f"{opcode} {x!r} to {goal.text}", x)

    def intrinsic(self, name: str, *operands: Value | Number, flags: str = "", immediate: bool | None = None) -> Value:
        """LLVM's intrinsic of a name over operands of one type; those that take an immediate i1 have it last."""
        given = self.alike(*operands)
        type_ = given[0].type
        if immediate is not None:
            given.append(self.const(I1, immediate))
        flags = flags or (self.fast if type_.is_float else "")
        return self.call_as(type_, f"llvm.{name}.{type_.mangled}", *given, flags=flags)

    def call(self, result: Type, name: str, *arguments: Value, flags: str = "", attributes: str = "") -> Value:
        """A call of a function by its name, declared by the way; of vectors lane by lane. Of type void the value is of no use."""
        if any(isinstance(a, (Vector, lanes.LaneIndex)) for a in arguments) and self.width:
            return lanes.lane_by_lane(self, result, name, arguments, attributes)
        self._declare(result, name, arguments)
        given = ", ".join(map(repr, arguments))
        text = (
            f"call {flags}{' ' if flags else ''}{result.text} @{name}({given}){' ' if attributes else ''}{attributes}"
        )
        if result is VOID:
            self.write(text)
            return self.poison(VOID)
        return self.let(result, text)

    def call_own(self, name: str, *arguments: Value) -> None:
        """A call of a function of this module (see routines.py)."""
        self.write(f"call void @{name}({', '.join(repr(a) for a in arguments)})")
        self.has_called()

    def call_pointer(self, callee: Value, *arguments: Value) -> None:
        """A call of the function at an address."""
        self.write(f"call void {callee.text}({', '.join(repr(a) for a in arguments)})")
        self.has_called()

    def has_called(self) -> None:
        """The last instruction is a call of code that polls. Where that is to stop it returns early, and what it has
        written, places in an array perhaps, must not be used: what comes next is preceded by a poll.
        """
        self.regions[-1].work += polling.CALL
        self.regions[-1].called = self.target.polls and not self.goes_on

    def _poll_after_call(self) -> None:
        self.regions[-1].called = False
        polling.write(self)

    def prefetch(self, address: Value, *, for_write: bool = False) -> None:
        """Have the cache line of an address fetched; nothing happens where it is no memory."""
        self.module.declare("void", "llvm.prefetch.p0", "ptr, i32, i32, i32")
        self.write(f"call void @llvm.prefetch.p0({address!r}, i32 {int(for_write)}, i32 3, i32 1)")

    def stack_bytes(self, size: Value) -> Value:
        """Stack memory of so many bytes, known only when it runs, aligned to a cache line."""
        return self.let(PTR, f"alloca i8, {size!r}, align 64")

    def call_as(self, result: Type, name: str, *arguments: Value, flags: str = "") -> Value:
        """A call of a function without effects, exactly as it is given: an intrinsic whose operands are of several types."""
        self._declare(result, name, arguments)
        given = ", ".join(map(repr, arguments))
        return self.pure(result, f"call {flags}{' ' if flags else ''}{result.text} @{name}({given})", *arguments)

    def _declare(self, result: Type, name: str, arguments: Sequence[Value]) -> None:
        if name not in self.module.declarations:
            self.module.declare(result.text, name, ", ".join(a.type.text for a in arguments))

    # -- lanes --------------------------------------------------------------------------------------------------

    def splat(self, value: Value, count: int) -> Value:
        """A vector with a scalar in each lane; made where the scalar is known first."""
        if value.number is not None:
            return self.const(value.type.times(count), value.number)
        type_ = value.type.times(count)

        def repeat() -> Value:
            one = self.let(type_, f"insertelement {type_.text} poison, {value!r}, i64 0")
            return self.let(type_, f"shufflevector {one!r}, {type_.text} poison, <{count} x i32> zeroinitializer")

        return self.once(("splat", value.text, count), (value,), repeat)

    def shuffle(self, a: Value, b: Value | None, which: Sequence[int]) -> Value:
        """Lanes of one or two vectors of one type; below zero: any."""
        order = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in which)
        other = f"{b!r}" if b is not None else f"{a.type.text} poison"
        return self.let(a.type.times(len(which)), f"shufflevector {a!r}, {other}, <{len(which)} x i32> <{order}>")

    def extract(self, a: Value, lane: Ix) -> Value:
        """One element of a vector."""
        return self.let(a.type.scalar, f"extractelement {a!r}, {self.value(lane)!r}")

    def insert(self, a: Value, element: Value, lane: Ix) -> Value:
        """A vector with another element."""
        return self.let(a.type, f"insertelement {a!r}, {element!r}, {self.value(lane)!r}")

    def apart(self, a: Value) -> tuple[Value, Value]:
        """The even and the odd elements of a vector; its two elements where there are no more."""
        if a.type.lanes == 2:
            return self.extract(a, 0), self.extract(a, 1)
        n = a.type.lanes
        return self.shuffle(a, None, range(0, n, 2)), self.shuffle(a, None, range(1, n, 2))

    def joined(self, a: Value, b: Value) -> Value:
        """A vector of two scalars."""
        return self.insert(self.insert(self.poison(a.type.times(2)), a, 0), b, 1)

    def saturated(self, a: Value, to: Type) -> Value:
        """A float as a signed integer, towards zero: beyond the range its end, zero for NaN."""
        (x,) = self.alike(a)
        goal = x.type.of(to)
        return self.call_as(goal, f"llvm.fptosi.sat.{goal.mangled}.{x.type.mangled}", x)

    def any_of(self, bits: Value) -> Value:
        """i1: whether a vector of i1 has one that holds."""
        whole = integer(bits.type.lanes)
        return self.let(whole, f"bitcast {bits!r} to {whole.text}").differs(0)

    def reduce(self, how: str, a: Value, flags: str = "") -> Value:
        """`llvm.vector.reduce.<how>` of a vector."""
        start = {"fadd": -0.0, "fmul": 1.0}.get(how)
        first = [] if start is None else [self.const(a.type.scalar, start)]
        return self.call_as(a.type.scalar, f"llvm.vector.reduce.{how}.{a.type.mangled}", *first, a, flags=flags)

    # -- memory -------------------------------------------------------------------------------------------------

    def at(self, type_: Type, base: Value, offset: Ix) -> Value:
        """The address of element `offset`, the same for all lanes, of an array of a type."""
        if offset == 0:
            return base
        return self.pure(
            PTR, f"getelementptr inbounds {type_.text}, {base!r}, {self.value(offset)!r}", base, self.value(offset)
        )

    def load(self, type_: Type, address: Value, align: int = 0) -> Value:
        """The value at an address; a vector's elements need no more alignment than one of them."""
        return self.let(type_, f"load {type_.text}, {address!r}, align {align or type_.bytes}")

    def store(self, value: Value, address: Value, align: int = 0) -> None:
        """Set the value at an address."""
        self.write(f"store {value!r}, {address!r}, align {align or value.type.bytes}")

    def fill_zero(self, address: Value, size: Ix, align: int = 64) -> None:
        """Set so many bytes to zero; they begin at a cache line unless another alignment is given."""
        self.fill(address, 0, size, align)

    def fill(self, address: Value, byte: int, size: Ix, align: int = 1) -> None:
        """Set so many bytes to a value; 255 makes NaN of floats."""
        self.module.declare("void", "llvm.memset.p0.i64", "ptr, i8, i64, i1")
        given = f"ptr align {align} {address.text}, i8 {byte}, {self.value(size)!r}, i1 false"
        self.write(f"call void @llvm.memset.p0.i64({given})")

    def copy(self, target: Value, source: Value, size: Ix) -> None:
        """Copy so many bytes between places that do not overlap."""
        self.module.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
        self.write(f"call void @llvm.memcpy.p0.p0.i64({target!r}, {source!r}, {self.value(size)!r}, i1 false)")

    def move(self, target: Value, source: Value, size: Ix) -> None:
        """Copy so many bytes between places that may overlap."""
        self.module.declare("void", "llvm.memmove.p0.p0.i64", "ptr, ptr, i64, i1")
        self.write(f"call void @llvm.memmove.p0.p0.i64({target!r}, {source!r}, {self.value(size)!r}, i1 false)")

    def alloca(self, type_: Type, count: int = 1) -> Value:
        """Stack memory for so many values, aligned to a cache line, made in the entry block."""
        name = self.fresh("stack")
        self._allocas.append(f"  {name} = alloca [{count} x {type_.text}], align 64")
        return Value(self, PTR, name)

    # -- debug locations ----------------------------------------------------------------------------------------

    def locate(self, instruction: str) -> str:
        """What follows belongs to this HLO instruction; gives the former mark, for `restore`."""
        before = self._dbg
        if self.scope is not None:
            line = self.module.line_of.get(instruction)
            if line is not None:
                self._dbg = f", !dbg !{self.module.location(line, self.scope)}"
        return before

    def restore(self, mark: str) -> None:
        """Go back to a former mark."""
        self._dbg = mark

    # -- regions ------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Lines so far."""
        return sum(len(r.lines) for r in self.regions) + self._outside

    @property
    def block(self) -> str:
        """The name of the basic block that is being written; a poll that is due begins another one."""
        if self.regions[-1].called:
            self._poll_after_call()
        for r in reversed(self.regions):
            if r.block:
                break
        return r.block

    @block.setter
    def block(self, name: str) -> None:
        self.regions[-1].block = name

    @property
    def width(self) -> int:
        """How many elements a vector has here; 0 where there are scalars only."""
        return self.regions[-1].width

    @property
    def mask(self) -> lanes.Mask | None:
        """The elements that there are; None where all are."""
        return self.regions[-1].mask

    @contextmanager
    def region(
        self, block: str, *, barrier: bool = False, width: int = 0, mask: lanes.Mask | None = None
    ) -> Iterator[Region]:
        """Lines of their own within; the caller puts them where they belong. What is remembered within does not hold outside."""
        here = self.regions[-1]
        made = Region([], block, barrier, width or here.width, mask or here.mask)
        self.regions.append(made)
        mark = self._dbg
        yield made
        self._dbg = mark
        self.regions.pop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is remembered within does not hold outside, and nothing is moved out of it."""
        with self.region("", barrier=True) as inner:
            yield
        self._append(inner)

    @contextmanager
    def vectorized(self, width: int, mask: lanes.Mask | None = None) -> Iterator[None]:
        """What is written within stands for `width` elements, those of the mask where there is one."""
        with self.region("", width=width, mask=mask) as inner:
            yield
        self._append(inner)

    def _append(self, inner: Region) -> None:
        self.regions[-1].lines.extend(inner.lines)
        self.regions[-1].work += inner.work
        self.regions[-1].called |= inner.called
        if inner.block:
            self.block = inner.block

    @contextmanager
    def outside(self, depth: int) -> Iterator[None]:
        """Write before the loops that are deeper than `depth` (see `home`)."""
        inner = self.regions[depth:]
        if not inner:
            yield
            return
        del self.regions[depth:]
        size = sum(len(r.lines) for r in inner)
        self._outside += size
        entered = self.block
        try:
            yield
        finally:
            if self.block != entered:  # what was written before comes out of another block now
                for phi in (line for r in inner for line in r.lines if isinstance(line, Phi)):
                    phi.incoming = [(v, self.block if b == entered else b) for v, b in phi.incoming]
            self._outside -= size
            self.regions += inner

    def mark(self) -> Callable[[], None]:
        """What there is now; calling the result goes back to it, out of whatever has been begun since."""
        regions = [(r, len(r.lines), r.block, dict(r.memo), r.work, r.called) for r in self.regions]
        here, allocas, parts, plans = self.regions, len(self._allocas), len(self.outlined), len(self.plans)
        former = self._allocas, self.scope, self._dbg, self._outside, self.slot, self.polls, self._part_rounds

        def back() -> None:
            self.regions = here
            self.regions[:] = [r for r, *_ in regions]
            for r, size, block, memo, work, called in regions:
                del r.lines[size:]
                r.block, r.memo, r.work, r.called = block, dict(memo), work, called
            self._allocas, self.scope, self._dbg, self._outside, self.slot, self.polls, self._part_rounds = former
            del self._allocas[allocas:], self.outlined[parts:], self.plans[plans:]

        return back

    def home(self, *operands: Ix, floor: int = 0) -> int:
        """The outermost region, no further out than `floor`, in which all operands are known and what is written runs as soon as this region runs."""
        for v in operands:
            if isinstance(v, Value) and v.depth > floor:
                floor = v.depth
        at = len(self.regions)
        while at > floor and not self.regions[at - 1].barrier:
            at -= 1
        return at

    def once(self, key: object, operands: Sequence[Ix], write: Callable[[], _T], floor: int = 0) -> _T:
        """What is remembered under a key; else it is written where its operands are known first (see `home`), and remembered."""
        found = self.recall(key)
        if found is None:
            at = self.home(*operands, floor=floor)
            if at == len(self.regions):
                found = write()
                self.remember(key, found)
            else:
                with self.outside(at):
                    found = write()
                    self.remember(key, found)
        return found  # type: ignore[return-value]

    def recall(self, key: object) -> object:
        """What was remembered under a key here or in a region around; None where nothing was."""
        for region in reversed(self.regions):
            if region.memo:
                found = region.memo.get(key)
                if found is not None:
                    return found
        return None

    def remember(self, key: object, value: object) -> None:
        """Keep a value for as long as this region lasts."""
        self.regions[-1].memo[key] = value

    # -- index arithmetic ---------------------------------------------------------------------------------------

    def _index(self, op: str, a: Ix, b: Ix) -> Value:
        """Index arithmetic, done once, where its operands are known first."""

        def write() -> Value:
            x, y = self.alike(self.value(a), self.value(b))
            return self.let(x.type, f"{op} {x.type.text} {x.text}, {y.text}")

        return self.once((op, a, b), (a, b), write)

    def add(self, a: Ix, b: Ix, *, wrap: bool = False) -> Ix:
        """a + b of indices; with `wrap` the sum may be negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        if isinstance(a, lanes.LaneIndex) or isinstance(b, lanes.LaneIndex):
            return lanes.add(self, a, b)
        return self._index("add" if wrap else "add nuw nsw", a, b)

    def sub(self, a: Ix, b: Ix) -> Ix:
        """a - b of indices, perhaps negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if b == 0:
            return a
        if isinstance(a, lanes.LaneIndex) or isinstance(b, lanes.LaneIndex):
            return lanes.sub(self, a, b)
        return self._index("sub nsw", a, b)

    def mul(self, a: Ix, b: Ix, *, wrap: bool = False) -> Ix:
        """a * b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        if isinstance(a, lanes.LaneIndex) or isinstance(b, lanes.LaneIndex):
            return lanes.mul(self, a, b)
        return self._index("mul" if wrap else "mul nuw nsw", a, b)

    def div(self, a: Ix, b: int) -> Ix:
        """Floor of a / b for a >= 0."""
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        return lanes.div(a, b) if isinstance(a, lanes.LaneIndex) else self._index("udiv", a, b)

    def rem(self, a: Ix, b: int) -> Ix:
        """a modulo b for a >= 0."""
        if isinstance(a, int):
            return a % b
        if b == 1:
            return 0
        return lanes.rem(a, b) if isinstance(a, lanes.LaneIndex) else self._index("urem", a, b)

    def clamp(self, a: Ix, low: int, high: int) -> Ix:
        """The nearest of low..high, both included; signed."""
        if isinstance(a, int):
            return min(max(a, low), high)
        return low if low == high else a.smax(low).smin(high)

    def within(self, a: Ix, low: int, high: int) -> Value:
        """i1: low <= a < high, signed."""
        if isinstance(a, int):
            return self.const(I1, low <= a < high)
        if isinstance(a, lanes.LaneIndex):
            known = lanes.within(a, low, high)
            if known is not None:
                return self.const(I1, known)
        return (a if low == 0 else a - low).ult(max(high - low, 0))

    def both(self, a: Value, b: Value) -> Value:
        """i1 and, folded."""
        if a.number is not None:
            return b if a.number else a
        if b.number is not None:
            return a if b.number else b
        return a & b

    # -- control flow -------------------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        """Begin a basic block. What was remembered in this region is forgotten: it need not hold in the block."""
        self.begin(name)
        self.regions[-1].memo.clear()

    def begin(self, name: str) -> None:
        """Begin a basic block before which all that was remembered in this region was computed."""
        self.regions[-1].lines.append(f"{name[1:]}:")
        self.block = name[1:]

    def branch(self, target: str) -> None:
        """Go to a block."""
        self.write(f"br label {target}")

    def branch_if(self, condition: Value, then: str, otherwise: str) -> None:
        """Go to one of two blocks."""
        self.write(f"br {condition!r}, label {then}, label {otherwise}")

    def give(self, result: Value | None = None) -> None:
        """Return from the function; what is written behind it in this region does not run."""
        if (VOID if result is None else result.type) is not self.result:
            raise AssertionError(f"{self.name} gives {self.result}, not {result!r}")
        self.write("ret void" if result is None else f"ret {result!r}")
        self.begin(self.fresh("beyond"))

    def phi(self, type_: Type, incoming: Sequence[tuple[Value, str]]) -> Value:
        """A value by the block that one comes from."""
        value = self.phi_value(type_)
        self.regions[-1].lines.append(Phi(value, list(incoming), self._dbg))
        return value

    def phi_value(self, type_: Type) -> Value:
        """The value of a phi that is still to be written."""
        return (Vector if type_.lanes else Value)(self, type_, self.fresh("c"), len(self.regions))

    @contextmanager
    def rounds(self, state: Sequence[Value], guard: Value | None = None) -> Iterator[Rounds]:
        """A loop that carries values: the body sets `next` and `again`. One round at least, or none where the i1 `guard` does not hold; after it `values` are the results."""
        head, exit_ = self.fresh("loop"), self.fresh("done")
        mark = self._dbg
        with self.region(head[1:], barrier=guard is not None) as body:
            depth = len(self.regions)
            carried = [(Vector if v.type.lanes else Value)(self, v.type, self.fresh("c"), depth) for v in state]
            loop = Rounds(list(carried))
            yield loop
            self._dbg = mark
            if loop.again is None:
                raise AssertionError("a loop without a condition")
            left = polling.end_round(self, body, loop)
            latch = self.block
            behind = self.fresh("strip") if loop.strip is not None else exit_
            self.branch_if(loop.again, head, behind)
        before, entry = self.block, self.fresh("strips") if loop.strip is not None else head
        if guard is None:
            self.branch(entry)
        else:
            self.branch_if(guard, entry, exit_)
        here = self.regions[-1].lines
        self.regions[-1].work += left - len(body.lines)
        came, strips = [(v, before) for v in state], list[Phi]()
        if loop.strip is not None:
            self.begin(entry)
            strips = [Phi(self.phi_value(v.type), [first], mark) for v, first in zip(state, came, strict=True)]
            here.extend(strips)
            polling.begin_strips(self, loop.strip, strips[0].value)
            self.branch(head)
            came = [(phi.value, entry[1:]) for phi in strips]
        self.begin(head)
        last = [self._as(phi.type, v) for phi, v in zip(carried, loop.next, strict=True)]
        for phi, first, then in zip(carried, came, last, strict=True):
            here.append(Phi(phi, [first, (then, latch)], mark))
        here.extend(body.lines)
        if loop.strip is not None:
            self.begin(behind)
            polling.end_strips(self, loop.strip, last[0], entry, exit_)
            latch = self.block
            for strip, then in zip(strips, last, strict=True):
                strip.incoming.append((then, latch))
        self.begin(exit_)
        loop.values = last
        if guard is not None:
            loop.values = [self.phi(a.type, [(a, before), (b, latch)]) for a, b in zip(state, last, strict=True)]
        for v in loop.values:  # known after the loop
            if v.number is None:
                v.depth = len(self.regions)

    @contextmanager
    def carried(
        self,
        count: Ix,
        initial: Sequence[Value] = (),
        start: Ix = 0,
        *,
        guarded: bool = False,
        most: int | None = None,
    ) -> Iterator[Loop]:
        """A loop over start, ..., count - 1 that carries values; at least one round.

        The body sets `loop.next`; after the block `loop.values` are the results. A loop whose
        `count` is not known must be `guarded`: it may then run no round at all; `most` says how
        many rounds it has at most. A loop of one known round costs nothing.
        """
        loop = Loop(start, list(initial))
        if isinstance(count, int) and isinstance(start, int) and count - start == 1:
            yield loop
            loop.values = list(loop.next) if initial else []
            return
        if self.width:
            initial = [self._as(v.type.times(self.width), v) if not v.type.lanes else v for v in initial]
        first, end = self.value(start), self.value(count)
        guard = self.let(I1, f"icmp slt {first!r}, {end.text}") if guarded else None
        with self.rounds((first, *initial), guard) as inner:
            index, *values = inner.values
            loop.index, loop.values = index, list(values)
            yield loop
            inner.count = self._rounds_of(count, start) if most is None else most
            inner.strip = polling.strip(self, inner.count, end)
            bound = inner.strip.end if inner.strip is not None else end
            after = self.let(I64, f"add nuw nsw {index!r}, 1")
            inner.next, inner.again = [after, *loop.next], self.let(I1, f"icmp slt {after!r}, {bound.text}")
        loop.values = inner.values[1:]

    def _rounds_of(self, count: Ix, start: Ix) -> int | None:
        """How many rounds there are at most between two indices; None where that is not known."""
        if isinstance(count, int) and isinstance(start, int):
            return max(count - start, 0)
        return self._part_rounds if isinstance(count, Value) and count.text == "%hi" else None

    @contextmanager
    def loop(self, count: Ix, start: Ix = 0, *, guarded: bool = False, most: int | None = None) -> Iterator[Ix]:
        """A loop that carries nothing; gives its counter."""
        with self.carried(count, (), start, guarded=guarded, most=most) as loop:
            yield loop.index

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What stands in the block happens only where the i1 holds."""
        then, exit_ = self.fresh("then"), self.fresh("endif")
        self.branch_if(condition, then, exit_)
        self.begin(then)
        with self.aside():
            yield
        self.branch(exit_)
        self.begin(exit_)

    def choose(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """The values of one of two branches, of which only one runs."""
        if isinstance(condition, Vector):
            raise lanes.NotAVectorError("a condition that differs from lane to lane")
        if condition.number is not None:
            return list(then() if condition.number else otherwise())
        labels, end = (self.fresh("then"), self.fresh("else")), self.fresh("endif")
        self.branch_if(condition, *labels)
        results: list[list[Value]] = []
        blocks: list[str] = []
        for label, write in zip(labels, (then, otherwise), strict=True):
            self.begin(label)
            with self.aside():
                made = list(write())
                if self.width:
                    made = [self._as(v.type.times(self.width), v) for v in made]
            results.append(made)
            blocks.append(self.block)
            self.branch(end)
        self.begin(end)
        return [self.phi(a.type, list(zip((a, b), blocks, strict=True))) for a, b in zip(*results, strict=True)]

    # -- parts that become functions ----------------------------------------------------------------------------

    @contextmanager
    def outline(self, count: Ix, chunks: Ix) -> Iterator[tuple[Value, Value]]:
        """What is written within becomes a function over a part lo..hi (never empty) of 0..count, of which there are `chunks`: gives lo and hi.

        Only the kernel's parameters, constants and what is made within may be used within: LLVM refuses the module otherwise.
        """
        name = self.module.unique(f"{self.name}.part")
        part = Outlined(name, count, chunks, self.module.subprogram(name, self.instruction, "internal"))
        if self.regions[-1].called:
            self._poll_after_call()
        self.regions[-1].lines.append(PartCall(part, self._dbg))
        self.has_called()
        outer = (self.regions, self._allocas, self.scope, self._dbg, self._outside, self.polls)
        self._outside = self.size
        self.regions = [Region([], "entry", barrier=True)]
        self._allocas, self.scope, self._dbg, self.polls = [], part.scope, "", False
        if isinstance(count, int) and isinstance(chunks, int):
            self._part_rounds = -(-count // chunks)
        self.slot = Value(self, I64, "%slot")
        self.locate(self.instruction)
        yield Value(self, I64, "%lo"), Value(self, I64, "%hi")
        lines = self.regions[-1].lines
        part.lines = ["entry:", *self._allocas, *lines, *self._stop(), f"  ret void{self._dbg}", "}"]
        self.regions, self._allocas, self.scope, self._dbg, self._outside, self.polls = outer
        self._part_rounds = None
        self._outside += len(lines)
        self.slot = 0
        self.outlined.append(part)

    def argument(self, parameter: Parameter) -> Value:
        """The value of a parameter."""
        return (Vector if parameter.type.lanes else Value)(self, parameter.type, f"%{parameter.name}")

    def sign(self, parameters: Sequence[Parameter], attributes: str) -> None:
        """Parameters and attributes of the finished function; its parts get the same."""
        self.parameters, self.attributes = list(parameters), attributes
        if not self.outlined:
            return
        self.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
        context = self.alloca(PTR, len(parameters))
        for call in (line for line in self.regions[-1].lines if isinstance(line, PartCall)):
            call.lines = self._pool_call(call, context)

    def _pool_call(self, call: PartCall, context: Value) -> list[str]:
        """The lines that put the kernel's pointers into a table and hand it to the pool."""
        lines, part = [], call.part
        for k, p in enumerate(self.parameters):
            at = self.fresh("at")
            lines.append(f"  {at} = getelementptr inbounds ptr, {context!r}, i64 {k}{call.mark}")
            lines.append(f"  store {p.type.text} %{p.name}, ptr {at}{call.mark}")
        count, chunks = self.value(part.count), self.value(part.chunks)
        given = f"ptr @{part.name}.thunk, {context!r}, {count!r}, {chunks!r}, i64 {self.target.threads}"
        return [*lines, f"  call void @{PARALLEL}({given}){call.mark}"]

    # -- the text -----------------------------------------------------------------------------------------------

    @property
    def body(self) -> list[str]:
        """The instructions of the finished function but for its return."""
        return [*self._allocas, *map(str, self.regions[-1].lines), *self._stop()]

    def _stop(self) -> list[str]:
        """The block to which polls go that stop the function."""
        return [f"  br label %{polling.STOPPED}", f"{polling.STOPPED}:"] if self.polls else []

    def replace_body(self, lines: Sequence[Line]) -> None:
        """Take the instructions of another function with the same parameters."""
        self._allocas, self.regions[-1].lines, self.polls = [], list(lines), False

    def text(self) -> list[str]:
        """The function's lines, after those of its outlined parts; a `ret void` closes each."""
        lines: list[str] = []
        given = [str(p) for p in self.parameters]
        for part in self.outlined:
            body = [str(line) for line in part.lines]
            attributes = self.attributes.replace("alwaysinline", "noinline")
            if self.ready:  # needs no promise that its pointers do not overlap
                head = _head("internal", f"{part.name}.thunk", THUNK_PARAMETERS, attributes, part.scope)
                lines += [head, body[0], *_unpack(self.parameters), *body[1:], ""]
                continue
            parameters = ", ".join((*given, "i64 %lo", "i64 %hi", "i64 %slot"))
            lines += [_head("internal", part.name, parameters, attributes, part.scope), *body, ""]
            lines += [*_thunk(part.name, self.parameters), ""]
        head = _head(self.linkage, self.name, ", ".join(given), self.attributes, self.scope, self.result)
        end = f"  ret void{self._dbg}" if self.result is VOID else "  unreachable"
        lines += [head, "entry:", *self.body, end, "}"]
        return lines if len(lines) < _LONG else [_without_branch(line) for line in lines]


PARALLEL = "xlanb.parallel"
"""The symbol of the pool's entry."""
THUNK_PARAMETERS = "ptr %context, i64 %lo, i64 %hi, i64 %slot"
"""Of what the pool calls."""


def _without_branch(line: str) -> str:
    """A line whose select, if it is one of two numbers, stays a select."""
    return f"{line}, !unpredictable !{{}}" if " = select i1 " in line else line


def _thunk(part: str, parameters: Sequence[Parameter]) -> list[str]:
    """The function that the pool calls: it takes the pointers of a part out of their table."""
    head = f"define internal void @{part}.thunk({THUNK_PARAMETERS}) noinline optnone nounwind {{"
    given = "".join(f"{p.type.text} %{p.name}, " for p in parameters)
    return [head, *_unpack(parameters), f"  call void @{part}({given}i64 %lo, i64 %hi, i64 %slot)", "  ret void", "}"]


def _unpack(parameters: Sequence[Parameter]) -> list[str]:
    """The kernel's pointers out of the table at %context."""
    lines = []
    for k, p in enumerate(parameters):
        lines.append(f"  %context{k} = getelementptr inbounds ptr, ptr %context, i64 {k}")
        lines.append(f"  %{p.name} = load {p.type.text}, ptr %context{k}")
    return lines


def _head(linkage: str, name: str, parameters: str, attributes: str, scope: int | None, result: Type = VOID) -> str:
    """The first line of a function."""
    debug = f" !dbg !{scope}" if scope is not None else ""
    return f"define {linkage + ' ' if linkage else ''}{result.text} @{name}({parameters}) {attributes}{debug} {{"
