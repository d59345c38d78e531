"""Emit one LLVM function: its lines, by regions, and the values known in each region.

The methods that emit instructions are in separate files:

    lanes.py          index arithmetic, which may differ from lane to lane
    instructions.py   arithmetic, conversions, calls, lanes of vectors
    memory.py         loads and stores, of single values and of arrays
    control.py        blocks, branches, loops
    outlining.py      parts that become functions of their own, and the text of all

Indices are `int` if known and values of type i64 otherwise, so that arithmetic on constants costs
no instruction. Within a `vectorized` region the loop counter is a lane index (see lanes.py):
instructions with such an operand, or with a vector, are emitted on vectors, all others once, before
the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from xlanb.codegen import control, instructions, lanes, memory, outlining, polling
from xlanb.codegen.control import CodeRegion, Loop, Phi, Rounds
from xlanb.codegen.outlining import PARALLEL, Definition, Outlined, OutlinedBody, PartCall
from xlanb.codegen.plan import Choice, Step
from xlanb.codegen.types import I64, PTR, VOID, Type
from xlanb.codegen.values import Ix, Number, Value, Vector, named, text_of
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.module import CodegenTarget, ModuleBuilder

__all__ = ["PARALLEL", "CodeRegion", "Function", "Ix", "Loop", "Parameter", "Phi", "Rounds"]

Line = str | Phi | PartCall
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its type, name and attributes (`noalias readonly`, ...)."""

    type: Type
    name: str
    attributes: str = ""

    def __str__(self) -> str:
        promised = f" {self.attributes}" if self.attributes else ""
        return f"{self.type.text}{promised} %{self.name}"


class Function:
    """Emits one LLVM function `name(parameters)`.

    It returns void unless `result` is set to a type; it then ends with `give`. `symbols` are the
    functions and globals that its instructions refer to. `slot` is the number of the current
    thread: a value inside an outlined part, 0 elsewhere. `fast` are the fast-math flags of float
    operators (`contract`: products may go into sums unrounded). `plans` describe its loops (see
    nest.py), `uses` counts functions that may be called out of line (see math/routines.py).

    An emitter sets `ready` if its IR needs none of LLVM's passes, `calls_only` if nothing in it is
    worth optimizing. `shared` is the body of a function that other programs have too, verbatim, and
    that calls no other by name. `goes_on`: no poll is needed after a call of code that polls, as
    the results of an interrupted call do no harm (see has_called). If `across_rows` is not zero,
    a vector has an element of each of several rows, which are loaded whole if they have at most so
    many elements; others that are far apart raise NotAVectorError.
    """

    # arithmetic of indices
    add = lanes.add
    sub = lanes.sub
    mul = lanes.mul
    div = lanes.div
    rem = lanes.rem
    clamp = lanes.clamp
    within = lanes.within
    # arithmetic, conversions, calls and lanes
    alike = instructions.alike
    binary = instructions.binary
    unary = instructions.unary
    compare = instructions.compare
    select = instructions.select
    cast = instructions.cast
    intrinsic = instructions.intrinsic
    both = instructions.both
    call = instructions.call
    call_as = instructions.call_as
    call_own = instructions.call_own
    call_pointer = instructions.call_pointer
    has_called = instructions.has_called
    poll_after_call = instructions.poll_after_call
    splat = instructions.splat
    shuffle = instructions.shuffle
    extract = instructions.extract
    insert = instructions.insert
    apart = instructions.apart
    joined = instructions.joined
    any_of = instructions.any_of
    reduce = instructions.reduce
    # memory
    load = memory.load
    store = memory.store
    fill = memory.fill
    fill_zero = memory.fill_zero
    copy = memory.copy
    move = memory.move
    prefetch = memory.prefetch
    stack_bytes = memory.stack_bytes
    # control flow
    label = control.label
    begin = control.begin
    branch = control.branch
    branch_if = control.branch_if
    give = control.give
    phi = control.phi
    phi_value = control.phi_value
    rounds = control.rounds
    carried = control.carried
    loop = control.loop
    when = control.when
    choose = control.choose
    # parts and text
    outline = outlining.outline
    sign = outlining.sign
    definitions = outlining.definitions
    unpacking = outlining.unpacking
    text = outlining.text

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
        self.target: CodegenTarget = module.target
        self.name = name
        self.attributes = attributes
        self.linkage = linkage
        self.scope = scope
        self.instruction = instruction
        self.parameters = list(parameters)
        self.ready = self.calls_only = False
        self.shared: OutlinedBody | None = None
        self.slot: Ix = 0
        self.repeats = False
        self.across_rows = 0
        self.fast = ""
        self.outlined: list[Outlined] = []
        self.plans: list[Step] = []
        self.result = VOID
        self.uses: dict[str, int] = {}
        self.regions = [CodeRegion([], "entry", barrier=True)]
        self._holders: dict[object, CodeRegion] = {}  # the last region to remember a key
        self.allocas: list[str] = []
        self.count = 0
        self.outside_lines = 0
        self.dbg = ""
        self.part_rounds: int | None = None
        self.polls = self.goes_on = False
        self.symbols: set[str] = set()
        self.written: dict[str, Definition] | None = None

    def decided(self, what: str, taken: str, why: str = "", others: Sequence[tuple[str, str]] = ()) -> None:
        """Record a decision, shown with the generated code; see `Choice`."""
        if self.module.debug:
            self.plans.append(Choice(what, taken, why, tuple(others)))

    def const(self, type_: Type, number: Number) -> Value:
        """A constant; for a vector type, a splat."""
        element = type_.element
        if element is None:
            return Value(self, type_, text_of(type_, number), 0, number)
        return Vector(self, type_, f"splat ({element.text} {text_of(element, number)})", 0, number)

    def constants(self, scalar: Type, numbers: Sequence[Number]) -> Value:
        """A constant vector of these elements."""
        given = ", ".join([f"{scalar.text} {text_of(scalar, n)}" for n in numbers])
        return Vector(self, scalar.times(len(numbers)), f"<{given}>")

    def zero(self, type_: Type) -> Value:
        """Zero, or all zeros."""
        return Vector(self, type_, "zeroinitializer", 0, 0) if type_.lanes else self.const(type_, 0)

    def table(self, name: str, scalar: Type, numbers: Sequence[Number]) -> Value:
        """The address of a constant array of the module, created once per name."""
        if name not in self.module.globals:
            given = ", ".join(f"{scalar.text} {text_of(scalar, n)}" for n in numbers)
            self.module.globals[name] = (
                f"@{name} = private unnamed_addr constant [{len(numbers)} x {scalar.text}] [{given}], align 64"
            )
        return self.symbol(name)

    def symbol(self, name: str) -> Value:
        """The address of a function or global of the module."""
        self.symbols.add(name)
        return Value(self, PTR, f"@{name}")

    def poison(self, type_: Type) -> Value:
        """A poison value."""
        return named(self, type_, "poison")

    def value(self, index: Ix) -> Value:
        """An index as an i64; a vector for a lane index."""
        if isinstance(index, int):
            return Value(self, I64, f"{index:d}", 0, index)
        return lanes.materialize(index) if isinstance(index, lanes.LaneIndex) else index

    def fresh(self, prefix: str = "v") -> str:
        """A name that is unique in the function."""
        self.count += 1
        return f"%{prefix}{self.count}"

    def write(self, text: str) -> None:
        """Emit an instruction without a value, verbatim."""
        if self.regions[-1].called:
            self.poll_after_call()
        self.regions[-1].lines.append(f"  {text}{self.dbg}")

    def let(self, type_: Type, text: str) -> Value:
        """Emit an instruction with a value, verbatim."""
        regions = self.regions
        if regions[-1].called:
            self.poll_after_call()
        self.count = number = self.count + 1
        name = f"%v{number}"
        regions[-1].lines.append(f"  {name} = {text}{self.dbg}")
        return (Vector if type_.lanes else Value)(self, type_, name, len(regions))

    def pure(self, type_: Type, text: str, *operands: Value) -> Value:
        """Emit an instruction without side effects; a scalar one among vectors is hoisted."""
        if not self.regions[-1].width or type_.lanes:
            return self.let(type_, text)
        return self.once(text, operands, lambda: self.let(type_, text))

    def alloca(self, type_: Type, count: int = 1) -> Value:
        """Stack memory for `count` values, cache-line aligned, allocated in the entry block."""
        name = self.fresh("stack")
        self.allocas.append(f"  {name} = alloca [{count} x {type_.text}], align 64")
        return Value(self, PTR, name)

    def locate(self, instruction: str) -> str:
        """Attribute the following code to an HLO instruction; return the mark for `restore`."""
        before = self.dbg
        if self.scope is not None:
            line = self.module.line_of.get(instruction)
            if line is not None:
                self.dbg = f", !dbg !{self.module.location(line, self.scope)}"
        return before

    def restore(self, mark: str) -> None:
        """Return to a previous mark."""
        self.dbg = mark

    @property
    def size(self) -> int:
        """The number of lines so far."""
        return sum([len(r.lines) for r in self.regions]) + self.outside_lines

    @property
    def block(self) -> str:
        """The name of the current basic block; a pending poll begins another one."""
        if self.regions[-1].called:
            self.poll_after_call()
        for r in reversed(self.regions):
            if r.block:
                break
        return r.block

    @block.setter
    def block(self, name: str) -> None:
        self.regions[-1].block = name

    @property
    def width(self) -> int:
        """Elements per vector here; 0 for scalar code."""
        return self.regions[-1].width

    @property
    def mask(self) -> lanes.Mask | None:
        """The mask of active elements; None for all."""
        return self.regions[-1].mask

    def enter(
        self, block: str = "", *, barrier: bool = False, width: int = 0, mask: lanes.Mask | None = None
    ) -> CodeRegion:
        """Begin a region; values remembered in it are not valid outside."""
        here = self.regions[-1]
        if here.called:  # its block ends here: what the region finds as its own would be another
            self.poll_after_call()
        depth = len(self.regions)
        made = CodeRegion([], block, barrier, width or here.width, mask or here.mask, self.dbg, depth)
        self.regions.append(made)
        return made

    def leave(self) -> CodeRegion:
        """End the innermost region; the caller inserts its lines."""
        inner = self.regions.pop()
        self.dbg = inner.mark
        return inner

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Emit code whose values are not remembered outside and from which nothing is hoisted."""
        self.enter(barrier=True)
        yield
        self._append(self.leave())

    @contextmanager
    def vectorized(self, width: int, mask: lanes.Mask | None = None) -> Iterator[None]:
        """Emit code that stands for `width` elements, those of the mask if there is one."""
        self.enter(width=width, mask=mask)
        yield
        self._append(self.leave())

    def _append(self, inner: CodeRegion) -> None:
        here = self.regions[-1]
        here.lines.extend(inner.lines)
        here.work += inner.work
        here.called |= inner.called
        here.block = inner.block or here.block

    def mark(self) -> Callable[[], None]:
        """Save the state; calling the result restores it, leaving all regions begun since."""
        regions = [(r, len(r.lines), r.block, dict(r.memo), r.work, r.called) for r in self.regions]
        here, allocas, parts, plans = self.regions, len(self.allocas), len(self.outlined), len(self.plans)
        former = self.allocas, self.scope, self.dbg, self.outside_lines, self.slot, self.polls, self.part_rounds
        symbols, named_so_far = self.symbols, set(self.symbols)

        def back() -> None:
            self.regions = here
            self.regions[:] = [r for r, *_ in regions]
            for r, size, block, memo, work, called in regions:
                del r.lines[size:]
                r.block, r.memo, r.work, r.called = block, dict(memo), work, called
            self.allocas, self.scope, self.dbg, self.outside_lines, self.slot, self.polls, self.part_rounds = former
            self.symbols = symbols
            self.symbols.intersection_update(named_so_far)
            del self.allocas[allocas:], self.outlined[parts:], self.plans[plans:]

        return back

    def once(self, key: object, operands: Sequence[Ix], write: Callable[[], _T], floor: int = 0) -> _T:
        """The value remembered for a key; otherwise `write()`, which is then remembered.

        The code is emitted in the outermost region, no further out than `floor`, in which all
        operands are known and which executes whenever this region does: loop-invariant code is
        hoisted.
        """
        found = self.recall(key)
        if found is not None:
            return found  # type: ignore[return-value]
        inner = self.regions[self._target_depth(operands, floor) :]
        if not inner:
            return self.remember(key, write())
        del self.regions[-len(inner) :]
        size = sum([len(r.lines) for r in inner])
        self.outside_lines += size
        entered = self.block
        try:
            made = self.remember(key, write())
        finally:
            if self.block != entered:  # the previous code now ends in another block
                for phi in (line for r in inner for line in r.lines if isinstance(line, Phi)):
                    phi.incoming = [(v, self.block if b == entered else b) for v, b in phi.incoming]
            self.outside_lines -= size
            self.regions += inner
        return made

    def runs_with(self, depth: int) -> bool:
        """Whether code here is executed whenever the enclosing region at a depth is."""
        return not any(region.barrier for region in self.regions[depth:])

    def _target_depth(self, operands: Sequence[Ix], floor: int) -> int:
        """The depth of the region to emit code with these operands in (see `once`)."""
        for v in operands:
            if isinstance(v, Value) and v.depth > floor:
                floor = v.depth
        at = len(self.regions)
        while at > floor and not self.regions[at - 1].barrier:
            at -= 1
        return at

    def recall(self, key: object) -> object:
        """The value remembered for a key here or in an enclosing region, or None."""
        last = self._holders.get(key)
        if last is None:
            return None
        if last.depth < len(self.regions) and self.regions[last.depth] is last and key in last.memo:
            return last.memo[key]
        for region in reversed(self.regions):  # the last one has ended: an outer region may have it
            found = region.memo.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: object, value: _T) -> _T:
        """Remember a value until this region ends."""
        self.regions[-1].memo[key] = value
        self._holders[key] = self.regions[-1]
        return value

    def argument(self, parameter: Parameter) -> Value:
        """The value of a parameter."""
        return named(self, parameter.type, f"%{parameter.name}")

    @property
    def body(self) -> list[str]:
        """The instructions of the finished function without its return."""
        return [*self.allocas, *map(str, self.regions[-1].lines), *self.stopped_block()]

    def stopped_block(self) -> list[str]:
        """The block that a poll branches to in order to stop the function."""
        return [f"  br label %{polling.STOPPED}", f"{polling.STOPPED}:"] if self.polls else []

    def replace_body(self, body: OutlinedBody) -> None:
        """Replace the instructions by those of another function with the same parameters."""
        self.allocas, self.regions[-1].lines, self.polls = [], list(body.lines), False
        self.symbols, self.shared = body.symbols, body
