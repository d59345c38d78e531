"""Parts of a function that become functions of their own, for threads to share, and the text of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlanb.codegen.control import Region
from xlanb.codegen.types import I64, PTR, VOID, Type
from xlanb.codegen.values import Ix, Value

if TYPE_CHECKING:
    from xlanb.codegen.function import Function, Line, Parameter

PARALLEL = "xlanb.parallel"
"""The symbol of the pool's entry."""
THUNK_PARAMETERS = "ptr %context, i64 %lo, i64 %hi, i64 %slot"
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
    outer = (f.regions, f.allocas, f.scope, f.dbg, f.outside_lines, f.polls)
    f.outside_lines = f.size
    f.regions = [Region([], "entry", barrier=True)]
    f.allocas, f.scope, f.dbg, f.polls = [], part.scope, "", False
    if isinstance(count, int) and isinstance(chunks, int):
        f.part_rounds = -(-count // chunks)
    f.slot = Value(f, I64, "%slot")
    f.locate(f.instruction)
    yield Value(f, I64, "%lo"), Value(f, I64, "%hi")
    lines = f.regions[-1].lines
    part.lines = ["entry:", *f.allocas, *lines, *f.stopped_block(), f"  ret void{f.dbg}", "}"]
    f.regions, f.allocas, f.scope, f.dbg, f.outside_lines, f.polls = outer
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
    given = f"ptr @{thunk(part)}, {context!r}, {count!r}, {chunks!r}, i64 {f.target.threads}"
    return [*lines, f"  call void @{PARALLEL}({given}){call.mark}"]


def thunk(part: Outlined) -> str:
    """The name of the function that the pool calls for a part."""
    return f"{part.name}.thunk"


def definitions(f: Function) -> dict[str, list[str]]:
    """The lines of each function that it is by name: those of its outlined parts, then itself; a `ret void` closes each."""
    made: dict[str, list[str]] = {}
    given = [str(p) for p in f.parameters]
    for part in f.outlined:
        body = [str(line) for line in part.lines]
        attributes = f.attributes.replace("alwaysinline", "noinline")
        if f.ready:  # needs no promise that its pointers do not overlap
            head = _head("internal", thunk(part), THUNK_PARAMETERS, attributes, part.scope)
            made[thunk(part)] = [head, body[0], *_unpack(f.parameters), *body[1:]]
            continue
        parameters = ", ".join((*given, "i64 %lo", "i64 %hi", "i64 %slot"))
        made[part.name] = [_head("internal", part.name, parameters, attributes, part.scope), *body]
        made[thunk(part)] = _thunk(part, f.parameters)
    head = _head(f.linkage, f.name, ", ".join(given), f.attributes, f.scope, f.result)
    end = f"  ret void{f.dbg}" if f.result is VOID else "  unreachable"
    made[f.name] = [head, "entry:", *f.body, end, "}"]
    if sum(map(len, made.values())) < _LONG:
        return made
    return {name: [_without_branch(line) for line in lines] for name, lines in made.items()}


def unpacking(f: Function) -> dict[str, list[str]]:
    """The same of a ready function that takes its pointers out of a table, as the pool calls parts."""
    made = definitions(f)
    _, entry, *body = made[f.name]
    head = _head("", f.name, THUNK_PARAMETERS, f.attributes, None)
    return {**made, f.name: [head, entry, *_unpack(f.parameters), *body]}


def text(f: Function) -> list[str]:
    """The lines of all of its functions."""
    lines: list[str] = []
    for own in definitions(f).values():
        lines += ["", *own] if lines else own
    return lines


def _without_branch(line: str) -> str:
    """A line whose select, if it is one of two numbers, stays a select."""
    return f"{line}, !unpredictable !{{}}" if " = select i1 " in line else line


def _thunk(part: Outlined, parameters: Sequence[Parameter]) -> list[str]:
    """The function that the pool calls: it takes the pointers of a part out of their table."""
    head = f"define internal void @{thunk(part)}({THUNK_PARAMETERS}) noinline optnone nounwind {{"
    given = "".join(f"{p.type.text} %{p.name}, " for p in parameters)
    call = f"  call void @{part.name}({given}i64 %lo, i64 %hi, i64 %slot)"
    return [head, *_unpack(parameters), call, "  ret void", "}"]


def _unpack(parameters: Sequence[Parameter]) -> list[str]:
    """The kernel's pointers out of the table at %context."""
    lines = []
    for k, p in enumerate(parameters):
        if k:
            lines.append(f"  %context{k} = getelementptr inbounds ptr, ptr %context, i64 {k}")
        lines.append(f"  %{p.name} = load {p.type.text}, ptr %context{k or ''}")
    return lines


def _head(linkage: str, name: str, parameters: str, attributes: str, scope: int | None, result: Type = VOID) -> str:
    """The first line of a function."""
    debug = f" !dbg !{scope}" if scope is not None else ""
    return f"define {linkage + ' ' if linkage else ''}{result.text} @{name}({parameters}) {attributes}{debug} {{"
