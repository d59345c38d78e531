"""A program as data: where `run` does nothing but hand memory to kernels, of which the pool shares some, it is a table that one routine goes through.

    xlanb.steps (args, results, temp, table)

The table begins with the pool's entry and the number of constants, the constants' addresses and the number of steps; then step after step

    function, pointers, count, chunks, threads        of a kernel that threads share: its part for the pool, as (context, low, high, slot)
    function, pointers, 0, 0, 0                       of another kernel, called with so many pointers

with four words for each pointer: which table it comes from (args, results, temp, constants), the place in there, what is added, and a mask. The routine is compiled once in a process,
and so is `run`, which gives it the table: a program's own module holds kernels alone. A function costs the code generator most of a millisecond, whatever it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.outlining import thunk
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.codegen.values import Value

_POINTERS = 8
"""The most pointers of a kernel that is called as it is."""
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
            out.append(f"  %{name}.at = getelementptr ptr, ptr {table}, i64 {self.index}")
            out.append(f"  {base} = load ptr, ptr %{name}.at")
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
    words: list[list[int]] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)

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

    def add(self, kernel: Function, addresses: Sequence[Address]) -> bool:
        """Add the call of a kernel; False where it has too many pointers."""
        head = _shared_whole(kernel)
        if head is None and len(addresses) > _POINTERS:
            return False
        pointers = [w for a in addresses for w in self.words_of(a)]
        if head is None:
            self.functions.append(kernel.name)
            self.words.append([len(addresses), 0, 0, 0, *pointers])
        else:
            self.functions.append(thunk(kernel.outlined[0]))
            self.words.append([len(addresses), *head, *pointers])
            self.parts.add(kernel.name)
        return True


def steps_of(module: ModuleBuilder, run: Function, calls: Sequence[Step]) -> Steps | None:
    """The calls of a program as a table, where threads share one of them at least; None of others, and where a kernel needs LLVM's passes."""
    kernels = {f.name: f for f in module.functions if f is not run}
    if PARALLEL not in module.declarations or any(not f.ready for f in kernels.values()):
        return None
    steps = Steps()
    if not all(steps.add(kernels[c.function], c.addresses) for c in calls):
        return None
    return steps if steps.parts else None


def _shared_whole(kernel: Function) -> tuple[int, int, int] | None:
    """(count, chunks, threads) of a kernel that does nothing but give the pool one loop; None of others."""
    if len(kernel.outlined) != 1 or len(kernel.body) != 2:
        return None
    part = kernel.outlined[0]
    if not isinstance(part.count, int) or not isinstance(part.chunks, int) or f"@{PARALLEL}(" not in kernel.body[1]:
        return None
    return part.count, part.chunks, kernel.target.threads


# -- what is compiled once -------------------------------------------------------------------------------------------


def run_text(head: Sequence[str]) -> str:
    """The module of `run`: it gives the routine the program's table."""
    parameters = "ptr %args, ptr %results, ptr %temp"
    return "\n".join([
        *head, f"@{TABLE} = external constant i8", f"declare void @{STEPS}(ptr, ptr, ptr, ptr)",
        f"define void @run({parameters}) nounwind {{", f"  tail call void @{STEPS}({parameters}, ptr @{TABLE})", "  ret void", "}", "",
    ])  # fmt: skip


@cache
def steps_text(head: tuple[str, ...]) -> str:
    """The module of the routine."""
    return "\n".join([*head, _ROUTINE.replace("CALLS", _calls()), ""])


def _calls() -> str:
    """A call for each number of pointers."""
    cases = " ".join(f"i64 {n}, label %call{n}" for n in range(_POINTERS + 1))
    lines = [f"  switch i64 %n, label %next [ {cases} ]"]
    for n in range(_POINTERS + 1):
        lines.append(f"call{n}:")
        for k in range(n):
            lines.append(f"  %at{n}.{k} = getelementptr ptr, ptr %context, i64 {k}")
            lines.append(f"  %p{n}.{k} = load ptr, ptr %at{n}.{k}")
        lines += [f"  call void %f({', '.join(f'ptr %p{n}.{k}' for k in range(n))})", "  br label %next"]
    return "\n".join(lines)


_ROUTINE = f"""declare ptr @llvm.ptrmask.p0.i64(ptr, i64)
@{ATTENTION} = external global i64
declare i1 @{CHECK}()

define void @{STEPS}(ptr %args, ptr %results, ptr %temp, ptr %table) nounwind {{
entry:
  %arena = alloca ptr
  %bases = alloca [4 x ptr]
  store ptr %temp, ptr %arena
  store ptr %args, ptr %bases
  %base1 = getelementptr ptr, ptr %bases, i64 1
  store ptr %results, ptr %base1
  %base2 = getelementptr ptr, ptr %bases, i64 2
  store ptr %arena, ptr %base2
  %constants = getelementptr i64, ptr %table, i64 2
  %base3 = getelementptr ptr, ptr %bases, i64 3
  store ptr %constants, ptr %base3
  %pool = load ptr, ptr %table
  %known.at = getelementptr i64, ptr %table, i64 1
  %known = load i64, ptr %known.at
  %steps.at = getelementptr i64, ptr %constants, i64 %known
  %steps = load i64, ptr %steps.at
  %first = getelementptr i64, ptr %steps.at, i64 1
  br label %step
step:
  %left = phi i64 [ %steps, %entry ], [ %left.next, %on ]
  %here = phi ptr [ %first, %entry ], [ %after, %on ]
  %f = load ptr, ptr %here
  %n.at = getelementptr i64, ptr %here, i64 1
  %n = load i64, ptr %n.at
  %count.at = getelementptr i64, ptr %here, i64 2
  %count = load i64, ptr %count.at
  %chunks.at = getelementptr i64, ptr %here, i64 3
  %chunks = load i64, ptr %chunks.at
  %threads.at = getelementptr i64, ptr %here, i64 4
  %threads = load i64, ptr %threads.at
  %words = getelementptr i64, ptr %here, i64 5
  %size = mul i64 %n, {_WORDS}
  %after = getelementptr i64, ptr %words, i64 %size
  %saved = call ptr @llvm.stacksave.p0()
  %context = alloca ptr, i64 %n, align 64
  %any = icmp ne i64 %n, 0
  br i1 %any, label %pointer, label %ready
pointer:
  %k = phi i64 [ 0, %step ], [ %k.next, %pointer ]
  %word = phi ptr [ %words, %step ], [ %word.next, %pointer ]
  %source = load i64, ptr %word
  %index.at = getelementptr i64, ptr %word, i64 1
  %index = load i64, ptr %index.at
  %offset.at = getelementptr i64, ptr %word, i64 2
  %offset = load i64, ptr %offset.at
  %mask.at = getelementptr i64, ptr %word, i64 3
  %mask = load i64, ptr %mask.at
  %base.at = getelementptr ptr, ptr %bases, i64 %source
  %base = load ptr, ptr %base.at
  %entry.at = getelementptr ptr, ptr %base, i64 %index
  %begin = load ptr, ptr %entry.at
  %moved = getelementptr i8, ptr %begin, i64 %offset
  %pointer.is = call ptr @llvm.ptrmask.p0.i64(ptr %moved, i64 %mask)
  %to = getelementptr ptr, ptr %context, i64 %k
  store ptr %pointer.is, ptr %to
  %k.next = add i64 %k, 1
  %word.next = getelementptr i64, ptr %word, i64 {_WORDS}
  %more = icmp ult i64 %k.next, %n
  br i1 %more, label %pointer, label %ready
ready:
  %is.shared = icmp ne i64 %threads, 0
  br i1 %is.shared, label %share, label %call
share:
  call void %pool(ptr %f, ptr %context, i64 %count, i64 %chunks, i64 %threads)
  br label %next
call:
CALLS
next:
  call void @llvm.stackrestore.p0(ptr %saved)
  %left.next = sub i64 %left, 1
  %flag = load volatile i64, ptr @{ATTENTION}
  %asked = icmp ne i64 %flag, 0
  br i1 %asked, label %ask, label %on
ask:
  %stop = call i1 @{CHECK}()
  br i1 %stop, label %end, label %on
on:
  %done = icmp eq i64 %left.next, 0
  br i1 %done, label %end, label %step
end:
  ret void
}}

declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)"""
