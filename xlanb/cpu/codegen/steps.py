"""A program as data: where `run` does nothing but hand memory to kernels, of which the pool shares some, it is a table that one routine goes through.

    xlanb.steps (args, results, temp, table)

The table begins with the pool's entry and the number of constants, the constants' addresses and the number of steps; then step after step

    function, pointers, count, chunks, threads        of a kernel that threads share: its part for the pool, as (context, low, high, slot)
    function, pointers, 0, 0, 0                       of another kernel, called once with (context, 0, 0, 0)

with four words for each pointer of the context: which table it comes from (args, results, temp, constants), the place in there, what is added, and a mask. The routine is compiled once in a process,
and so is `run`, which gives it the table: a program's own module holds kernels alone. A function costs the code generator most of a millisecond, whatever it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from xlanb.codegen import polling
from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.native import NativeModule
from xlanb.codegen.outlining import Outlined, thunk
from xlanb.codegen.target import Target
from xlanb.codegen.types import I8, I64, PTR, VOID
from xlanb.codegen.values import Ix, Value

_WORDS = 4
"""Words of a pointer."""
STEPS = "xlanb.steps"
TABLE = "xlanb.table"
"""The routine that goes through a program's steps, and the program's table of them."""
ARGS, RESULTS, TEMP, CONSTANTS = range(4)
"""The tables that pointers come from."""


@dataclass(frozen=True)
class Address:
    """A pointer of `run`: its value there; place `index` of the table `source` (a constant: its symbol), `offset` bytes on, without the bits that the mask lacks."""

    value: Value
    source: int
    index: int | str
    offset: int = 0
    mask: int = -1

    def lines(self, name: str) -> list[str]:
        """The instructions that make it of the tables, as `%name` in another function with the parameters of `run`."""
        base, out = f"@{self.index}" if self.source == CONSTANTS else "%temp", []
        if self.source in (ARGS, RESULTS):
            base, table = f"%{name}.base", ("%args", "%results")[self.source]
            if self.index:
                out.append(f"  %{name}.at = getelementptr ptr, ptr {table}, i64 {self.index}")
                table = f"%{name}.at"
            if self.offset == 0 and self.mask == -1:
                return [*out, f"  %{name} = load ptr, ptr {table}"]
            out.append(f"  {base} = load ptr, ptr {table}")
        at = name if self.mask == -1 else f"{name}.beyond"
        out.append(f"  %{at} = getelementptr i8, ptr {base}, i64 {self.offset}")
        if self.mask != -1:
            out.append(f"  %{name} = call ptr @llvm.ptrmask.p0.i64(ptr %{at}, i64 {self.mask})")
        return out

    def by(self, value: Value, offset: int, mask: int = -1) -> Address:
        """The pointer so many bytes further, which is `value` in `run`."""
        return Address(value, self.source, self.index, self.offset + offset, mask)


@dataclass(frozen=True)
class Step:
    """A call of a function with pointers."""

    function: str
    addresses: tuple[Address, ...]


@dataclass
class Steps:
    """The calls of a program in order, each with its words but for the function; `parts` names the kernels of which nothing but their parts for threads is called."""

    functions: list[str] = field(default_factory=list)
    words: list[list[Ix]] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)

    @property
    def symbols(self) -> set[str]:
        """What the table names."""
        return {PARALLEL, *self.constants, *self.functions}

    def table(self) -> str:
        """The table as a global of LLVM's."""
        fields = [f"ptr @{PARALLEL}", f"i64 {len(self.constants)}", *(f"ptr @{c}" for c in self.constants)]
        fields.append(f"i64 {len(self.functions)}")
        for name, words in zip(self.functions, self.words, strict=True):
            fields += [f"ptr @{name}", *(f"i64 {w}" for w in words)]
        kinds = ", ".join(f.split(" ", 1)[0] for f in fields)
        return f"@{TABLE} = constant {{ {kinds} }} {{ {', '.join(fields)} }}, align 64"

    def words_of(self, address: Address) -> tuple[int, int, int, int]:
        """The words of a pointer."""
        index = address.index
        if isinstance(index, str):
            if index not in self.constants:
                self.constants.append(index)
            index = self.constants.index(index)
        return address.source, index, address.offset, address.mask

    def add(self, kernel: Function, addresses: Sequence[Address]) -> None:
        """Add the call of a kernel."""
        part = _shared_whole(kernel)
        self.functions.append(kernel.name if part is None else thunk(part))
        head = (0, 0, 0) if part is None else (part.count, part.chunks, kernel.target.threads)
        self.words.append([len(addresses), *head, *(w for a in addresses for w in self.words_of(a))])
        if part is not None:
            self.parts.add(kernel.name)


def steps_of(module: ModuleBuilder, run: Function, calls: Sequence[Step]) -> Steps | None:
    """The calls of a program as a table, where threads share one of them at least; None of others, and where a kernel needs LLVM's passes."""
    kernels = {f.name: f for f in module.functions if f is not run}
    if PARALLEL not in module.declarations or any(not f.ready for f in kernels.values()):
        return None
    steps = Steps()
    for c in calls:
        steps.add(kernels[c.function], c.addresses)
    return steps if steps.parts else None


def _shared_whole(kernel: Function) -> Outlined | None:
    """The part of a kernel that does nothing but give the pool one loop, over a known count; None of others."""
    if len(kernel.regions[-1].lines) != 1 or len(kernel.outlined) != 1:
        return None
    (part,) = kernel.outlined
    return part if isinstance(part.count, int) and isinstance(part.chunks, int) else None


# -- what is compiled once -------------------------------------------------------------------------------------------


@cache
def run_text(target: Target) -> str:
    """The module of `run`: it gives the routine the program's table."""
    m = NativeModule("xlanb.run", replace(target, polls=False))
    table = m.external(TABLE)

    @m.define("run", VOID, exported=True, args=PTR, results=PTR, temp=PTR)
    def run(f: Function, args: Value, results: Value, temp: Value) -> None:
        f.call(VOID, STEPS, args, results, temp, table.address(f))

    return m.text()


@cache
def steps_text(target: Target) -> str:
    """The module of the routine."""
    m = NativeModule(STEPS, replace(target, polls=False))

    @m.define(STEPS, VOID, exported=True, args=PTR, results=PTR, temp=PTR, table=PTR)
    def steps(f: Function, args: Value, results: Value, temp: Value, table: Value) -> None:
        arena, bases = Pointer(f.alloca(PTR), PTR), Pointer(f.alloca(PTR, 4), PTR)
        arena[0] = temp
        constants = Pointer(table, I64).by(2)
        for source, base in enumerate((args, results, arena.base, constants.base)):
            bases[source] = base
        pool = Pointer(table, PTR)[0]
        first = constants.by(Pointer(table, I64)[1])
        f.goes_on = True  # what a kernel leaves that was stopped does no harm to the next
        with f.rounds([first[0], first.address(1)]) as loop:
            left, step = loop.values
            stack = f.call(PTR, "llvm.stacksave.p0")
            following = _call_step(f, Pointer(step, I64), bases, pool)
            f.call(VOID, "llvm.stackrestore.p0", stack)
            polling.write(f)
            loop.next, loop.again = [left - 1, following], left.differs(1)

    return m.text()


def _call_step(f: Function, step: Pointer, bases: Pointer, pool: Value) -> Value:
    """Call the function of a step, or give it to the pool; gives where the next step is."""
    function, (number, count, chunks, threads) = Pointer(step.base, PTR)[0], (step[k] for k in range(1, 5))
    context = Pointer(f.stack_bytes(number * PTR.bytes), PTR)
    with f.carried(number, [step.address(5)], guarded=True) as loop:
        word = Pointer(loop.values[0], I64)
        begin = Pointer(Pointer(bases[word[0]], PTR)[word[1]], I8).address(word[2])
        context[loop.index] = f.call(PTR, "llvm.ptrmask.p0.i64", begin, word[3])
        loop.next = [word.address(_WORDS)]
    shared = threads.differs(0)
    with f.when(shared):
        f.call_pointer(pool, function, context.base, count, chunks, threads)
    with f.when(~shared):
        zero = f.const(I64, 0)
        f.call_pointer(function, context.base, zero, zero, zero)
    return loop.values[0]
