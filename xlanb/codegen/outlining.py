"""Outline parts of a function for threads to share; the text of all its functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from xlanb.codegen.control import CodeRegion
from xlanb.codegen.types import I64, PTR, VOID, Type
from xlanb.codegen.values import Ix, Value
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.function import Function, Line, Parameter

PARALLEL = "xlanb.parallel"
"""The symbol of the pool's entry."""
_THUNK_PARAMETERS = "ptr %context, i64 %lo, i64 %hi, i64 %slot"
"""The parameters of the function that the pool calls."""
_LONG = 4000
"""Lines of a function from which on LLVM must not turn selects into branches.

It restarts its walk of the function after each, which takes quadratic time.
"""


@dataclass
class Outlined:
    """An outlined part of a function, over lo..hi of 0..count, in `chunks` pieces."""

    name: str
    count: Ix
    chunks: Ix
    scope: int | None
    lines: list[Line] = field(default_factory=list)
    symbols: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class OutlinedBody:
    """The shareable content of a function: its lines, its declarations, and their symbols.

    Each exists once.
    """

    lines: list[str]
    declarations: dict[str, str]
    symbols: set[str]


@dataclass(slots=True)
class Definition:
    """One of the functions that a function is emitted as.

    `lines` are all of it except the first, `symbols` the ones they refer to.
    """

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
        """The number of lines."""
        return len(self.lines) + 1


@dataclass(slots=True)
class PartCall:
    """The position at which an outlined part is passed to the pool."""

    part: Outlined
    mark: str = ""
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.lines)


@contextmanager
def outline(f: Function, count: Ix, chunks: Ix) -> Iterator[tuple[Value, Value]]:
    """Outline the enclosed code as a function over a part lo..hi (never empty) of 0..count.

    Yields lo and hi; there are `chunks` parts. The code may use only the kernel's parameters,
    constants and its own values: LLVM rejects the module otherwise.
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
    """Set the parameters and attributes of the finished function, and of its parts."""
    f.parameters, f.attributes = list(parameters), attributes
    if not f.outlined:
        return
    f.module.declare("void", PARALLEL, "ptr, ptr, i64, i64, i64")
    context = f.alloca(PTR, len(parameters))
    for call in (line for line in f.regions[-1].lines if isinstance(line, PartCall)):
        call.lines = _pool_call(f, call, context)


def _pool_call(f: Function, call: PartCall, context: Value) -> list[str]:
    """The lines that store the kernel's pointers to a table and pass it to the pool."""
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
    """The functions that a finished one is emitted as, by name: its parts, then itself.

    Each ends with a `ret void`.
    """
    if f.written is not None and f.written[f.name].attributes == f.attributes:
        return f.written
    made: dict[str, Definition] = {}
    given = ", ".join([str(p) for p in f.parameters])
    for part in f.outlined:
        body = [str(line) for line in part.lines]
        attributes = f.attributes.replace("alwaysinline", "noinline")
        if f.ready:  # needs no noalias attributes
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
    """The same for a function that loads its pointers from a table, as the pool calls it."""
    made = definitions(f)
    if not f.ready:  # LLVM's passes need the noalias attributes of its parameters
        own = replace(made[f.name], name=f"{f.name}.body")
        given = ", ".join(f"{p.type.text} %{p.name}" for p in f.parameters)
        return {**made, own.name: own, f.name: _unpacked(f.name, f.parameters, own.name, given)}
    entry, *body = made[f.name].lines
    lines = [entry, *_unpack(f.parameters), *body]
    return {**made, f.name: Definition(f.name, _THUNK_PARAMETERS, f.attributes, lines, f.symbols)}


def text(f: Function) -> list[str]:
    """The lines of all its functions."""
    lines: list[str] = []
    for d in definitions(f).values():
        own = d.text(f.linkage if d.name == f.name else "internal")
        lines += ["", *own] if lines else own
    return lines


def _without_branch(line: str) -> str:
    """A line whose select between two numbers must remain a select."""
    return f"{line}, !unpredictable !{{}}" if " = select i1 " in line else line


def _thunk(part: Outlined, parameters: Sequence[Parameter]) -> Definition:
    """The function that the pool calls: it loads the pointers of a part from their table."""
    given = "".join(f"{p.type.text} %{p.name}, " for p in parameters)
    return _unpacked(thunk(part), parameters, part.name, f"{given}i64 %lo, i64 %hi, i64 %slot")


def _unpacked(name: str, parameters: Sequence[Parameter], called: str, given: str) -> Definition:
    """A function that loads pointers from a table and calls another one."""
    lines = [*_unpack(parameters), f"  call void @{called}({given})", "  ret void", "}"]
    return Definition(name, _THUNK_PARAMETERS, "noinline optnone nounwind", lines, {called})


def _unpack(parameters: Sequence[Parameter]) -> list[str]:
    """Load the kernel's pointers from the table at %context."""
    lines = []
    for k, p in enumerate(parameters):
        if k:
            lines.append(f"  %context{k} = getelementptr inbounds ptr, ptr %context, i64 {k}")
        lines.append(f"  %{p.name} = load {p.type.text}, ptr %context{k or ''}")
    return lines
