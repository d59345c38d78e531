"""Parts of a function that become functions of their own, for threads to share, and the text of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlanb.codegen.control import CodeRegion
from xlanb.codegen.types import I64, PTR, VOID, Type
from xlanb.codegen.values import Ix, Value

if TYPE_CHECKING:
    from xlanb.codegen.function import Function, Line, Parameter

PARALLEL = "xlanb.parallel"
"""The symbol of the pool's entry."""
_THUNK_PARAMETERS = "ptr %context, i64 %lo, i64 %hi, i64 %slot"
"""Of what the pool calls."""
_LONG = 4000
"""Lines of a function from which on LLVM is kept from turning selects into branches: it begins its walk of the function again after each, which takes quadratic time."""


@dataclass
class Outlined:
    """A part of a function that became one of its own, over lo..hi of 0..count, in `chunks` pieces."""

    name: str
    count: Ix
    chunks: Ix
    scope: int | None
    lines: list[Line] = field(default_factory=list)
    symbols: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class OutlinedBody:
    """What programs share of a function: its lines, what they need declared, and the symbols in them. Each exists once."""

    lines: list[str]
    declarations: dict[str, str]
    symbols: set[str]


@dataclass(slots=True)
class Definition:
    """One of the functions that a function is written as: `lines` are all of it but for the first, `symbols` what they name."""

    name: str
    parameters: str
    attributes: str
    lines: list[str]
    symbols: set[str]
    scope: int | None = None
    result: Type = VOID

    def text(self, linkage: str) -> list[str]:
        """The lines of the function."""
        debug = f" !dbg !{self.scope}" if self.scope is not None else ""
        space = " " if linkage else ""
        head = f"define {linkage}{space}{self.result.text} @{self.name}({self.parameters}) {self.attributes}{debug} {{"
        return [head, *self.lines]

    @property
    def size(self) -> int:
        """How many lines it has."""
        return len(self.lines) + 1


@dataclass(slots=True)
class PartCall:
    """Where a part of the function that became one of its own is handed to the pool."""

    part: Outlined
    mark: str = ""
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.lines)


@contextmanager
def outline(f: Function, count: Ix, chunks: Ix) -> Iterator[tuple[Value, Value]]:
    """What is written within becomes a function over a part lo..hi (never empty) of 0..count, of which there are `chunks`: gives lo and hi.

    Only the kernel's parameters, constants and what is made within may be used within: LLVM refuses the module otherwise.
    """
    name = f.module.unique(f"{f.name}.part")
    part = Outlined(name, count, chunks, f.module.subprogram(name, f.instruction, "internal"))
    if f.regions[-1].called:
        f.poll_after_call()
    f.regions[-1].lines.append(PartCall(part, f.dbg))
    f.has_called()
    outer = (f.regions, f.allocas, f.scope, f.dbg, f.outside_lines, f.polls, f.symbols)
    f.outside_lines = f.size
    f.regions = [CodeRegion([], "entry", barrier=True)]
    f.allocas, f.scope, f.dbg, f.polls, f.symbols = [], part.scope, "", False, part.symbols
    if isinstance(count, int) and isinstance(chunks, int):
        f.part_rounds = -(-count // chunks)
    f.slot = Value(f, I64, "%slot")
    f.locate(f.instruction)
    yield Value(f, I64, "%lo"), Value(f, I64, "%hi")
    lines = f.regions[-1].lines
    part.lines = ["entry:", *f.allocas, *lines, *f.stopped_block(), f"  ret void{f.dbg}", "}"]
    f.regions, f.allocas, f.scope, f.dbg, f.outside_lines, f.polls, f.symbols = outer
    f.part_rounds = None
    f.outside_lines += len(lines)
    f.slot = 0
    f.outlined.append(part)


def sign(f: Function, parameters: Sequence[Parameter], attributes: str) -> None:
    """Parameters and attributes of the finished function; its parts get the same."""
    f.parameters, f.attributes = list(parameters), attributes
    if not f.outlined:
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    context = f.alloca(PTR, len(parameters))
    for call in (line for line in f.regions[-1].lines if isinstance(line, PartCall)):
        call.lines = _pool_call(f, call, context)


def _pool_call(f: Function, call: PartCall, context: Value) -> list[str]:
    """The lines that put the kernel's pointers into a table and hand it to the pool."""
    lines, part = [], call.part
    for k, p in enumerate(f.parameters):
        at = context.text
        if k:
            at = f.fresh("at")
            lines.append(f"  {at} = getelementptr inbounds ptr, {context!r}, i64 {k}{call.mark}")
        lines.append(f"  store {p.type.text} %{p.name}, ptr {at}{call.mark}")
    count, chunks = f.value(part.count), f.value(part.chunks)
    given = f"{f.symbol(thunk(part))!r}, {context!r}, {count!r}, {chunks!r}, i64 {f.target.threads}"
    return [*lines, f"  call void {f.symbol(PARALLEL).text}({given}){call.mark}"]


def thunk(part: Outlined) -> str:
    """The name of the function that the pool calls for a part."""
    return f"{part.name}.thunk"


def definitions(f: Function) -> dict[str, Definition]:
    """The functions that a finished one is written as, by name: its outlined parts, then itself; a `ret void` closes each."""
    if f.written is not None and f.written[f.name].attributes == f.attributes:
        return f.written
    made: dict[str, Definition] = {}
    given = ", ".join([str(p) for p in f.parameters])
    for part in f.outlined:
        body = [str(line) for line in part.lines]
        attributes = f.attributes.replace("alwaysinline", "noinline")
        if f.ready:  # needs no promise that its pointers do not overlap
            lines = [body[0], *_unpack(f.parameters), *body[1:]]
            made[thunk(part)] = Definition(
                thunk(part), _THUNK_PARAMETERS, attributes, lines, part.symbols | f.symbols, part.scope
            )
            continue
        taken = f"{given}{', ' if given else ''}i64 %lo, i64 %hi, i64 %slot"
        made[part.name] = Definition(part.name, taken, attributes, body, part.symbols | f.symbols, part.scope)
        made[thunk(part)] = _thunk(part, f.parameters)
    end = f"  ret void{f.dbg}" if f.result is VOID else "  unreachable"
    lines = ["entry:", *f.body, end, "}"]
    made[f.name] = Definition(f.name, given, f.attributes, lines, f.symbols, f.scope, f.result)
    if sum(d.size for d in made.values()) >= _LONG:
        for d in made.values():
            d.lines = [_without_branch(line) for line in d.lines]
    f.written = made
    return made


def unpacking(f: Function) -> dict[str, Definition]:
    """The same of a ready function that takes its pointers out of a table, as the pool calls parts."""
    made = definitions(f)
    entry, *body = made[f.name].lines
    lines = [entry, *_unpack(f.parameters), *body]
    return {**made, f.name: Definition(f.name, _THUNK_PARAMETERS, f.attributes, lines, f.symbols)}


def text(f: Function) -> list[str]:
    """The lines of all of its functions."""
    lines: list[str] = []
    for d in definitions(f).values():
        own = d.text(f.linkage if d.name == f.name else "internal")
        lines += ["", *own] if lines else own
    return lines


def _without_branch(line: str) -> str:
    """A line whose select, if it is one of two numbers, stays a select."""
    return f"{line}, !unpredictable !{{}}" if " = select i1 " in line else line


def _thunk(part: Outlined, parameters: Sequence[Parameter]) -> Definition:
    """The function that the pool calls: it takes the pointers of a part out of their table."""
    given = "".join(f"{p.type.text} %{p.name}, " for p in parameters)
    call = f"  call void @{part.name}({given}i64 %lo, i64 %hi, i64 %slot)"
    lines = [*_unpack(parameters), call, "  ret void", "}"]
    return Definition(thunk(part), _THUNK_PARAMETERS, "noinline optnone nounwind", lines, {part.name})


def _unpack(parameters: Sequence[Parameter]) -> list[str]:
    """The kernel's pointers out of the table at %context."""
    lines = []
    for k, p in enumerate(parameters):
        if k:
            lines.append(f"  %context{k} = getelementptr inbounds ptr, ptr %context, i64 {k}")
        lines.append(f"  %{p.name} = load {p.type.text}, ptr %context{k or ''}")
    return lines
