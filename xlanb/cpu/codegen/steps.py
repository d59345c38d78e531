"""A program as data: a table of steps that one routine interprets.

Used if `run` only passes memory to kernels, some of them run by the pool.

    xlanb.steps (args, results, temp, table)

The table begins with the pool's entry and the number of constants, then the addresses of the
constants and the number of steps, then for each step:

    function, pointers, count, chunks, threads    a shared kernel: its part, called by the pool as
                                                  (context, low, high, slot)
    function, pointers, count, 0, 0               another kernel: one call (context, 0, count, 0)
    function, 4, 0, 0, -1                         a routine that takes the four pointers as
    arguments

and four words for each pointer of the context: its source table (args, results, temp, constants, or
none), the index in it, an offset to add, and a mask. The routine is compiled once per process, and
so is `run`, which passes the table to it. A program's own module then contains only kernels; there
is none if all kernels are static calls. Each function costs the code generator almost a
millisecond.

In this process the table is memory, filled when the addresses are known (`image`); in a file it is
an LLVM global (`ProgramSteps.table`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xlanb.codegen import polling
from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.native import NativeModule
from xlanb.codegen.outlining import Outlined, thunk
from xlanb.codegen.target import Target
from xlanb.codegen.types import I8, I64, PTR, VOID
from xlanb.codegen.values import Ix, Value
from xlanb.cpu.codegen.static_calls import DIRECT, StaticCall, Word, static_calls
from xlanb.lazy_dataclass import dataclass

_WORDS = 4
"""Words per pointer."""
STEPS = "xlanb.steps"
TABLE = "xlanb.table"
"""The routine that runs a program's steps, and the program's table of them."""
ARGS, RESULTS, TEMP, CONSTANTS, NONE = range(5)
"""Source tables of pointers; every entry of NONE is null, so that the offset is the word itself."""
_LINE = 64
"""Bytes of a cache line; tables and constants are aligned to it."""
Content: TypeAlias = "bytes | Sequence[int | str]"
"""A constant of a program: bytes, or 64-bit words that are numbers or function names (with @)."""


@dataclass(frozen=True)
class Address:
    """A pointer in `run`, which is `value` there.

    It is entry `index` of the table `source` (the symbol of a constant), plus `offset` bytes, with
    the bits not in `mask` cleared.
    """

    value: Value
    source: int
    index: int | str
    offset: int = 0
    mask: int = -1

    def lines(self, name: str) -> list[str]:
        """Instructions that compute it as `%name` in a function with `run`'s parameters."""
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
        """The pointer plus an offset in bytes; `value` is the result in `run`."""
        return Address(value, self.source, self.index, self.offset + offset, mask)


@dataclass(frozen=True)
class ProgramStep:
    """A call of a function with pointers."""

    function: str
    addresses: tuple[Address, ...]


@dataclass
class ProgramSteps:
    """The calls of a program in order, each with its words except for the function.

    `parts` are kernels of which only the part for threads is called; `static` are kernels that are
    just routine calls and have no code.
    """

    functions: list[str] = field(default_factory=list)
    words: list[list[Ix]] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    static: set[str] = field(default_factory=set)
    has_pool: bool = True

    @property
    def symbols(self) -> set[str]:
        """The symbols that the table refers to."""
        return {*([PARALLEL] if self.has_pool else []), *self.constants, *self.functions}

    def table(self) -> str:
        """The table as an LLVM global."""
        pool = f"ptr @{PARALLEL}" if self.has_pool else "ptr null"
        fields = [pool, f"i64 {len(self.constants)}", *(f"ptr @{c}" for c in self.constants)]
        fields.append(f"i64 {len(self.functions)}")
        for name, words in zip(self.functions, self.words, strict=True):
            fields += [f"ptr @{name}", *(f"i64 {w}" for w in words)]
        kinds = ", ".join(f.split(" ", 1)[0] for f in fields)
        return f"@{TABLE} = constant {{ {kinds} }} {{ {', '.join(fields)} }}, align 64"

    def words_of(self, address: Address) -> tuple[int, int, int, int]:
        """The words of a pointer."""
        index = address.index
        return address.source, self._constant(index) if isinstance(index, str) else index, address.offset, address.mask

    def _constant(self, name: str) -> int:
        """The index of a constant in the table."""
        if name not in self.constants:
            self.constants.append(name)
        return self.constants.index(name)

    def add(self, kernel: Function, addresses: Sequence[Address], calls: Sequence[StaticCall] | None) -> None:
        """Add the call of a kernel, or the calls it makes."""
        if calls is not None:
            for c in calls:
                words = [w for word in c.words for w in self._words(word, addresses)]
                self._add(c.function, len(c.words), (c.count, c.chunks, c.threads), words)
            self.static.add(kernel.name)
            return
        part = shared_whole(kernel)
        head = (0, 0, 0) if part is None else (part.count, part.chunks, kernel.target.threads)
        name = kernel.name if part is None else thunk(part)
        self._add(name, len(addresses), head, [w for a in addresses for w in self.words_of(a)])
        if part is not None:
            self.parts.add(kernel.name)

    def _add(self, name: str, pointers: int, head: tuple[Ix, Ix, Ix], words: Sequence[Ix]) -> None:
        self.functions.append(name)
        self.words.append([pointers, *head, *words])

    def _words(self, word: Word, addresses: Sequence[Address]) -> tuple[int, int, int, int]:
        """The words of a pointer passed on by a kernel that is called with these addresses."""
        if word.base is None:
            return NONE, 0, word.offset, -1
        if isinstance(word.base, str):
            return CONSTANTS, self._constant(word.base), word.offset, -1
        source, index, offset, mask = self.words_of(addresses[word.base])
        return source, index, offset + word.offset, mask


def steps_of(module: ModuleBuilder, run: Function, calls: Sequence[ProgramStep]) -> ProgramSteps | None:
    """The calls of a program as a table.

    At least one kernel must be shared by threads, or no kernel may have code of its own. Returns
    None for other programs, and if all kernels need LLVM's passes, which then see `run` too.
    """
    kernels = {f.name: f for f in module.functions if f is not run}
    if not calls or not any(f.ready for f in kernels.values()):
        return None
    has_pool = PARALLEL in module.declarations
    steps = ProgramSteps(has_pool=has_pool)
    for c in calls:
        known = _static_calls(module, kernels, c)
        if known is None and not has_pool:
            return None
        steps.add(kernels[c.function], c.addresses, known)
    return steps if steps.parts or len(steps.static) == len({c.function for c in calls}) else None


def _static_calls(
    module: ModuleBuilder, kernels: Mapping[str, Function], call: ProgramStep
) -> tuple[StaticCall, ...] | None:
    """The calls that a kernel makes if a table can represent them; None otherwise."""
    known = static_calls(kernels[call.function])
    for word in [w for c in known or () for w in c.words]:
        if isinstance(word.base, str):
            is_held = word.base in module.contents or word.base in kernels or is_external(module, word.base)
        else:  # a step adds the offset before it masks
            is_held = word.base is None or not word.offset or call.addresses[word.base].mask == -1
        if not is_held:
            return None
    return known


def is_external(module: ModuleBuilder, name: str) -> bool:
    """Whether a constant is memory that the executable keeps."""
    return f"@{name} = external constant" in module.globals.get(name, "")


def shared_whole(kernel: Function) -> Outlined | None:
    """The part of a kernel that only runs one loop of known trip count on the pool, or None."""
    if len(kernel.regions[-1].lines) != 1 or len(kernel.outlined) != 1:
        return None
    (part,) = kernel.outlined
    return part if isinstance(part.count, int) and isinstance(part.chunks, int) else None


def image(
    steps: ProgramSteps, contents: Mapping[str, Content], addresses: Mapping[str, int]
) -> tuple[int, NDArray[np.uint8]]:
    """Build the table in memory: its address, and the memory to keep alive.

    `addresses` are those of functions and of constants in memory, `contents` are all other
    constants.
    """
    own = [c for c in steps.constants if c not in addresses]
    parts = [_bytes(contents[c], addresses) for c in own]
    constants, size = dict[str, int](), 0
    for name, data in zip(own, parts, strict=True):
        constants[name], size = size, size + -(-len(data) // _LINE) * _LINE
    words = len(steps.constants) + 3 + sum(len(w) + 1 for w in steps.words)
    memory = np.empty(size + words * 8 + _LINE, np.uint8)
    base = memory.ctypes.data
    base += -base % _LINE
    table = [addresses[PARALLEL] if steps.has_pool else 0, len(steps.constants)]
    table += [base + constants[c] if c in constants else addresses[c] for c in steps.constants]
    table.append(len(steps.functions))
    for name, step in zip(steps.functions, steps.words, strict=True):
        table += [addresses[name], *step]  # type: ignore[list-item]  # the counts of a table's steps are known
    data = b"".join([*(p.ljust(-(-len(p) // _LINE) * _LINE, b"\0") for p in parts), _packed(table)])
    begin = base - memory.ctypes.data
    memory[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
    return base + size, memory


def _bytes(content: Content, addresses: Mapping[str, int]) -> bytes:
    if isinstance(content, bytes):
        return content
    return _packed([addresses[w[1:]] if isinstance(w, str) else w for w in content])


def _packed(words: Sequence[int]) -> bytes:
    return struct.pack(f"={len(words)}Q", *[w & 0xFFFFFFFFFFFFFFFF for w in words])


# -- shared code -----------------------------------------------------------------------------------


@cache
def run_text(target: Target) -> str:
    """The module of `run`: it passes the program's table to the routine."""
    m = NativeModule("xlanb.run", replace(target, polls=False))
    table = m.external(TABLE)

    @m.define("run", VOID, exported=True, args=PTR, results=PTR, temp=PTR)
    def run(f: Function, args: Value, results: Value, temp: Value) -> None:
        f.call(VOID, STEPS, args, results, temp, table.address(f))

    return m.text()


@cache
def steps_text(target: Target) -> str:
    """The module of the routine that runs steps."""
    m = NativeModule(STEPS, replace(target, polls=False))

    @m.define(STEPS, VOID, exported=True, args=PTR, results=PTR, temp=PTR, table=PTR)
    def steps(f: Function, args: Value, results: Value, temp: Value, table: Value) -> None:
        own, bases = Pointer(f.alloca(PTR, 2), PTR), Pointer(f.alloca(PTR, NONE + 1), PTR)
        own[0], own[1] = temp, f.const(PTR, 0)
        constants = Pointer(table, I64).by(2)
        for source, base in enumerate((args, results, own.base, constants.base, own.address(1))):
            bases[source] = base
        pool = Pointer(table, PTR)[0]
        first = constants.by(Pointer(table, I64)[1])
        f.goes_on = True  # an interrupted kernel cannot harm the next one
        with f.rounds([first[0], first.address(1)]) as loop:
            left, step = loop.values
            stack = f.call(PTR, "llvm.stacksave.p0")
            following = _call_step(f, Pointer(step, I64), bases, pool)
            f.call(VOID, "llvm.stackrestore.p0", stack)
            polling.write(f)
            loop.next, loop.again = [left - 1, following], left.differs(1)

    return m.text()


def _call_step(f: Function, step: Pointer, bases: Pointer, pool: Value) -> Value:
    """Call the function of a step, directly or on the pool; return the address of the next step."""
    function, (number, count, chunks, threads) = Pointer(step.base, PTR)[0], (step[k] for k in range(1, 5))
    context = Pointer(f.stack_bytes(number * PTR.bytes), PTR)
    with f.carried(number, [step.address(5)], guarded=True) as loop:
        word = Pointer(loop.values[0], I64)
        begin = Pointer(Pointer(bases[word[0]], PTR)[word[1]], I8).address(word[2])
        context[loop.index] = f.call(PTR, "llvm.ptrmask.p0.i64", begin, word[3])
        loop.next = [word.address(_WORDS)]
    zero = f.const(I64, 0)
    with f.when(threads.differs(0)):
        with f.when(threads.differs(DIRECT)):
            f.call_pointer(pool, function, context.base, count, chunks, threads)
        with f.when(threads.equals(DIRECT)):
            f.call_pointer(function, *(context[k] for k in range(4)))
    with f.when(threads.equals(0)):
        f.call_pointer(function, context.base, zero, count, zero)
    return loop.values[0]
