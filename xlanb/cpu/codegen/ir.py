"""A function of LLVM IR as text: fresh names, folded index arithmetic, loops.

Indices are `int` where they are known and the name of an i64 otherwise, so that arithmetic on constants costs no instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from xlanb.codegen.function import PARALLEL, THUNK_PARAMETERS
from xlanb.codegen.module import ModuleBuilder
from xlanb.cpu.target import Target

Ix = int | str


@dataclass
class Loop:
    """A loop that is being built: its counter, the values that it carries, and what they become."""

    index: Ix
    values: list[str]
    next: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Region:
    """A stretch of a function that is being written: a loop's body, a branch, the function itself.

    `memo` holds what was computed here once, by key. Nothing is moved out of a `barrier` region: it may run no time at all.
    """

    lines: list[str]
    block: str
    """The basic block that is being written; empty as long as it is that of the region around."""
    barrier: bool = False
    memo: dict[object, object] = field(default_factory=dict)


@dataclass
class Outlined:
    """A part of a function that became one of its own, `void name(the kernel's pointers, i64 %lo, i64 %hi, i64 %slot)`; the pool is given it where a line of its name stands."""

    name: str
    count: Ix
    chunks: Ix
    scope: int | None
    lines: list[str] = field(default_factory=list)
    mark: str = ""


def _come_from(regions: Sequence[Region], old: str, new: str) -> None:
    """What was written before these regions ends in another block than it did: what they took from the old one comes from the new one."""
    for r in regions:
        r.lines[:] = [
            line.replace(f", %{old} ]", f", %{new} ]") if " = phi " in line and f", %{old} ]" in line else line
            for line in r.lines
        ]


class Function:
    """Builds one LLVM function, statement after statement.

    An emitter sets `ready` where the IR that it wrote needs none of LLVM's IR passes to become good code, `calls_only` where nothing in it is worth optimising at all, and
    `shared` for a function that other programs have too, word for word, and that calls no other by name. `slot` is the number of the thread that runs: an i64
    inside of an outlined part, 0 elsewhere.
    """

    def __init__(
        self,
        module: ModuleBuilder,
        name: str,
        parameters: Sequence[str],
        attributes: str,
        scope: int | None,
        linkage: str,
        instruction: str = "",
    ) -> None:
        self.module = module
        self.name = name
        self.parameters = parameters
        self.attributes = attributes
        self.linkage = linkage
        self.scope = scope
        self.instruction = instruction
        self.ready = self.calls_only = self.shared = False
        self.slot: Ix = 0
        self.outlined: list[Outlined] = []
        self.regions = [Region([], "entry", barrier=True)]
        self.depths: dict[str, int] = {}
        self._allocas: list[str] = []
        self._count = 0
        self._outside = 0
        self._dbg = ""

    # -- statements ---------------------------------------------------------------------------------------------

    def at(self, instruction: str) -> str:
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

    @property
    def size(self) -> int:
        """Lines so far."""
        return sum(len(r.lines) for r in self.regions) + self._outside

    @property
    def body(self) -> list[str]:
        """The lines of the finished function between its head and its end."""
        return [*self._allocas, *self._lines]

    @body.setter
    def body(self, lines: list[str]) -> None:
        self._allocas, self.regions[-1].lines = [], lines

    @property
    def target(self) -> Target:
        """The machine that the code is made for."""
        return cast("Target", self.module.target)

    def fresh(self, prefix: str = "v") -> str:
        """A name that nothing else in the function has."""
        self._count += 1
        name = f"%{prefix}{self._count}"
        self.depths[name] = len(self.regions)
        return name

    def do(self, text: str) -> None:
        """A statement without a value."""
        self._lines.append(f"  {text}{self._dbg}")

    def let(self, text: str) -> str:
        """A statement with a value; gives its name."""
        return self.plain(text)

    def plain(self, text: str) -> str:
        """A statement with a value exactly as it is written; gives its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.depths[name] = len(self.regions)
        self.regions[-1].lines.append(f"  {name} = {text}{self._dbg}")
        return name

    def call(self, result: str, name: str, *arguments: tuple[str, str], flags: str = "", attributes: str = "") -> str:
        """A call of an intrinsic or an external function, declared by the way; arguments are (type, value)."""
        return self.plain_call(result, name, arguments, flags, attributes)

    def plain_call(
        self, result: str, name: str, arguments: Sequence[tuple[str, str]], flags: str = "", attributes: str = ""
    ) -> str:
        """A call exactly as it is written."""
        self.module.declare(result, name, ", ".join(t for t, _ in arguments))
        given = ", ".join(f"{t} {v}" for t, v in arguments)
        return self.plain(
            f"call {flags}{' ' if flags else ''}{result} @{name}({given}){' ' if attributes else ''}{attributes}"
        )

    def alloca(self, type_: str, count: int = 1) -> str:
        """Stack memory, aligned to a cache line, made in the entry block."""
        name = self.fresh("stack")
        self.depths[name] = 0
        self._allocas.append(f"  {name} = alloca [{count} x {type_}], align 64")
        return name

    # -- regions ------------------------------------------------------------------------------------------------

    @property
    def _lines(self) -> list[str]:
        return self.regions[-1].lines

    @property
    def block(self) -> str:
        """The name of the basic block that is being written."""
        return next(r.block for r in reversed(self.regions) if r.block)

    @block.setter
    def block(self, name: str) -> None:
        self.regions[-1].block = name

    @contextmanager
    def region(self, block: str, *, barrier: bool = False) -> Iterator[Region]:
        """Lines of their own within; the caller puts them where they belong. What is remembered within does not hold outside."""
        made = Region([], block, barrier)
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
        self._lines.extend(inner.lines)
        self.block = inner.block or self.block

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
            if self.block != entered:
                _come_from(inner, entered, self.block)
            self._outside -= size
            self.regions += inner

    def mark(self) -> Callable[[], None]:
        """What there is now; calling the result goes back to it, out of whatever has been begun since."""
        regions = [(r, len(r.lines), r.block, dict(r.memo)) for r in self.regions]
        here, allocas, parts = self.regions, len(self._allocas), len(self.outlined)
        former = self._allocas, self.scope, self._dbg, self._outside, self.slot

        def back() -> None:
            self.regions = here
            self.regions[:] = [r for r, *_ in regions]
            for r, size, block, memo in regions:
                del r.lines[size:]
                r.block, r.memo = block, dict(memo)
            self._allocas, self.scope, self._dbg, self._outside, self.slot = former
            del self._allocas[allocas:], self.outlined[parts:]

        return back

    def home(self, *names: Ix, floor: int = 0) -> int:
        """The outermost region, no further out than `floor`, in which all of the names are known and what is written runs as soon as this region runs."""
        target = max((self.depths.get(n, 0) for n in names if isinstance(n, str)), default=0)
        target = max(target, floor)
        at = len(self.regions)
        while at > target and not self.regions[at - 1].barrier:
            at -= 1
        return at

    def recall(self, key: object) -> object:
        """What was remembered under a key here or in a region around; None where nothing was."""
        for region in reversed(self.regions):
            found = region.memo.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: object, value: object) -> None:
        """Keep a value for as long as this region lasts."""
        self.regions[-1].memo[key] = value

    # -- index arithmetic ---------------------------------------------------------------------------------------

    def _index(self, op: str, a: Ix, b: Ix) -> str:
        """Index arithmetic, done once, where its operands are known first."""
        key = (op, a, b)
        found = self.recall(key)
        if found is None:
            with self.outside(self.home(a, b)):
                found = self.let(f"{op} i64 {a}, {b}")
                self.remember(key, found)
        return str(found)

    def add(self, a: Ix, b: Ix, *, wrap: bool = False) -> Ix:
        """a + b of indices; with `wrap` the sum may be negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        return self._index("add" if wrap else "add nuw nsw", a, b)

    def sub(self, a: Ix, b: Ix) -> Ix:
        """a - b of indices, perhaps negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if b == 0:
            return a
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
        return self._index("mul" if wrap else "mul nuw nsw", a, b)

    def div(self, a: Ix, b: int) -> Ix:
        """Floor of a / b for a >= 0."""
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        return self._index("udiv", a, b)

    def rem(self, a: Ix, b: int) -> Ix:
        """a modulo b for a >= 0."""
        if isinstance(a, int):
            return a % b
        if b == 1:
            return 0
        return self._index("urem", a, b)

    def clamp(self, a: Ix, low: int, high: int) -> Ix:
        """The nearest of low..high, both included; signed."""
        if isinstance(a, int):
            return min(max(a, low), high)
        if low == high:
            return low
        b = self.call("i64", "llvm.smax.i64", ("i64", a), ("i64", str(low)))
        return self.call("i64", "llvm.smin.i64", ("i64", b), ("i64", str(high)))

    def within(self, a: Ix, low: int, high: int) -> str:
        """i1: low <= a < high, signed."""
        if isinstance(a, int):
            return "true" if low <= a < high else "false"
        if low == 0:
            return self.let(f"icmp ult i64 {a}, {max(high, 0)}")
        shifted = self.let(f"sub i64 {a}, {low}")
        return self.let(f"icmp ult i64 {shifted}, {max(high - low, 0)}")

    def both(self, a: str, b: str) -> str:
        """i1 and, folded."""
        if a == "true":
            return b
        if b == "true":
            return a
        return "false" if "false" in (a, b) else self.let(f"and i1 {a}, {b}")

    # -- control flow -------------------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        """Begin a basic block. What was remembered in this region is forgotten: it need not hold in the block."""
        self.begin(name)
        self.regions[-1].memo.clear()

    def begin(self, name: str) -> None:
        """Begin a basic block before which all that was remembered in this region was computed."""
        self._lines.append(f"{name[1:]}:")
        self.block = name[1:]

    def branch(self, target: str) -> None:
        """Go to a block."""
        self.do(f"br label {target}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        """Go to one of two blocks."""
        self.do(f"br i1 {condition}, label {then}, label {otherwise}")

    @contextmanager
    def carried(
        self, count: Ix, initial: Sequence[tuple[str, str]] = (), start: Ix = 0, *, guarded: bool = False
    ) -> Iterator[Loop]:
        """A loop over start, ..., count - 1 that carries values of the given (type, initial value); at least one round.

        The body sets `loop.next`; after the block `loop.values` are the results. A loop whose `count` is not known must be `guarded`: it may then run
        no round at all. A loop of one known round costs nothing.
        """
        loop = Loop(start, [v for _, v in initial])
        if isinstance(count, int) and isinstance(start, int) and count - start == 1:
            yield loop
            if initial:
                loop.values = loop.next
            return
        head, exit_ = self.fresh("loop"), self.fresh("done")
        mark = self._dbg
        with self.region(head[1:], barrier=guarded) as body:
            index = self.fresh("i")
            phis = [self.fresh("c") for _ in initial]
            loop.index, loop.values = index, list(phis)
            yield loop
            self._dbg = mark
            after = self.plain(f"add nuw nsw i64 {index}, 1")
            again = self.plain(f"icmp slt i64 {after}, {count}")
            latch = self.block
            self.branch_if(again, head, exit_)
        pre = self.block
        if guarded:
            self.branch_if(self.plain(f"icmp slt i64 {start}, {count}"), head, exit_)
        else:
            self.branch(head)
        self.begin(head)
        self._lines.append(f"  {index} = phi i64 [ {start}, %{pre} ], [ {after}, %{latch} ]{mark}")
        for phi, (type_, first), last in zip(phis, initial, loop.next, strict=True):
            self._lines.append(f"  {phi} = phi {type_} [ {first}, %{pre} ], [ {last}, %{latch} ]{mark}")
        self._lines.extend(body.lines)
        self.begin(exit_)
        loop.values = loop.next
        if guarded:
            loop.values = [
                self.plain(f"phi {t} [ {first}, %{pre} ], [ {v}, %{latch} ]")
                for (t, first), v in zip(initial, loop.next, strict=True)
            ]
        for value in loop.values:
            self.depths[value] = len(self.regions)

    @contextmanager
    def loop(self, count: Ix, start: Ix = 0, *, guarded: bool = False) -> Iterator[Ix]:
        """A loop that carries nothing; gives its counter."""
        with self.carried(count, (), start, guarded=guarded) as loop:
            yield loop.index

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What stands in the block happens only where the i1 holds."""
        then, exit_ = self.fresh("then"), self.fresh("endif")
        self.branch_if(condition, then, exit_)
        self.begin(then)
        with self.aside():
            yield
        self.branch(exit_)
        self.begin(exit_)

    # -- parts that become functions ----------------------------------------------------------------------------

    @contextmanager
    def outline(self, count: Ix, chunks: Ix) -> Iterator[tuple[str, str]]:
        """What is written within becomes a function over a part lo..hi (never empty) of 0..count, of which there are `chunks`: gives the names of lo and hi.

        Only the kernel's parameters, constants and what is made within may be used within: LLVM refuses the module otherwise.
        """
        name = self.module.unique(f"{self.name}.part")
        scope = self.module.subprogram(name, self.instruction, "internal")
        part = Outlined(name, count, chunks, scope)
        self.do(name)
        part.mark = self._dbg
        outer = (self.regions, self._allocas, self.scope, self._dbg, self._outside)
        self._outside = self.size
        self.regions = [Region([], "entry", barrier=True)]
        self._allocas, self.scope, self._dbg, self.slot = [], scope, "", "%slot"
        self.at(self.instruction)
        yield "%lo", "%hi"
        part.lines = ["entry:", *self._allocas, *self._lines, f"  ret void{self._dbg}", "}"]
        written = len(self._lines)
        self.regions, self._allocas, self.scope, self._dbg, self._outside = outer
        self._outside += written
        self.slot = 0
        self.outlined.append(part)

    def sign(self, parameters: Sequence[str], attributes: str) -> None:
        """Parameters and attributes of the finished function, the calls of its outlined parts with them."""
        self.parameters, self.attributes = parameters, attributes
        if not self.outlined:
            return
        self.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
        names = [p.rsplit(" ", 1)[1] for p in parameters]
        context = self.alloca("ptr", len(names))
        for part in self.outlined:
            at = self._lines.index(f"  {part.name}{part.mark}")
            self._lines[at] = self._pool_call(part, names, context)

    def _pool_call(self, part: Outlined, names: Sequence[str], context: str) -> str:
        """The lines that put the kernel's pointers into a table and hand it to the pool."""
        lines = []
        for k, name in enumerate(names):
            at = self.fresh("at")
            lines.append(f"  {at} = getelementptr inbounds ptr, ptr {context}, i64 {k}{part.mark}")
            lines.append(f"  store ptr {name}, ptr {at}{part.mark}")
        arguments = (
            f"ptr @{part.name}.thunk, ptr {context}, i64 {part.count}, i64 {part.chunks}, i64 {self.target.threads}"
        )
        return "\n".join([*lines, f"  call void @{PARALLEL}({arguments}){part.mark}"])

    # -- the text -----------------------------------------------------------------------------------------------

    def text(self) -> list[str]:
        """The function's lines, after those of its outlined parts; a `ret void` closes each."""
        lines = []
        for part in self.outlined:
            parameters = ", ".join((*self.parameters, "i64 %lo", "i64 %hi", "i64 %slot"))
            attributes = self.attributes.replace("alwaysinline", "noinline")
            if self.ready:  # needs no promise that its pointers do not overlap
                head = _head("internal", f"{part.name}.thunk", THUNK_PARAMETERS, attributes, part.scope)
                lines += [head, part.lines[0], *_unpack(len(self.parameters)), *part.lines[1:], ""]
                continue
            lines += [_head("internal", part.name, parameters, attributes, part.scope), *part.lines, ""]
            lines += [*_thunk(part.name, len(self.parameters)), ""]
        head = _head(self.linkage, self.name, ", ".join(self.parameters), self.attributes, self.scope)
        lines += [head, "entry:", *self._allocas, *self._lines, f"  ret void{self._dbg}", "}"]
        return lines if len(lines) < _LONG else [_without_branch(line) for line in lines]


_LONG = 4000
"""Lines of a function from which on LLVM is kept from turning selects into branches: it begins its walk of the function again after each, which takes quadratic time."""


def _without_branch(line: str) -> str:
    """A line whose select, if it is one of two numbers, stays a select."""
    return f"{line}, !unpredictable !{{}}" if " = select i1 " in line else line


def _thunk(part: str, pointers: int) -> list[str]:
    """The function that the pool calls: it takes the pointers of a part out of their table."""
    head = f"define internal void @{part}.thunk({THUNK_PARAMETERS}) noinline optnone nounwind {{"
    arguments = "".join(f"ptr %p{k}, " for k in range(pointers))
    call = f"  call void @{part}({arguments}i64 %lo, i64 %hi, i64 %slot)"
    return [head, *_unpack(pointers), call, "  ret void", "}"]


def _unpack(pointers: int) -> list[str]:
    """The kernel's pointers %p0, ... out of the table at %context."""
    lines = []
    for k in range(pointers):
        lines.append(f"  %context{k} = getelementptr inbounds ptr, ptr %context, i64 {k}")
        lines.append(f"  %p{k} = load ptr, ptr %context{k}")
    return lines


def _head(linkage: str, name: str, parameters: str, attributes: str, scope: int | None) -> str:
    """The first line of a function."""
    debug = f" !dbg !{scope}" if scope is not None else ""
    return f"define {linkage + ' ' if linkage else ''}void @{name}({parameters}) {attributes}{debug} {{"


__all__ = ["PARALLEL", "THUNK_PARAMETERS", "Function", "Ix", "Loop", "ModuleBuilder", "Outlined", "Region"]
