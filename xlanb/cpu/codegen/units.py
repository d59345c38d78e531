"""A program cut into LLVM modules that are compiled each for itself: those whose IR needs LLVM's passes, those whose IR is ready, and as many as threads may work on.

A function stands in the module of `run` where it is to be inlined there; the others are called across modules, so that their linkage is external. Globals (small
constants) are private: each module that uses one has a copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xlanb.codegen.function import THUNK_PARAMETERS, Function
from xlanb.codegen.module import ModuleBuilder
from xlanb.cpu.codegen.levels import is_light
from xlanb.cpu.codegen.steps import STEPS, TABLE, Step, Steps, part_lines, run_text, steps_of, steps_text

_SYMBOL = re.compile(r"@([A-Za-z0-9_.\-$]+)")
_VALUE = re.compile(r"%(?=v\d)")
_HEAD = re.compile(r"define (?:internal )?void @([^(]+)\(")
_PASSES_COST = 2.5
"""How much longer a line takes that goes through LLVM's passes."""
LONG = 3000
"""Lines of `run`, with what is inlined there, from which on it is compiled without LLVM's passes: they take quadratic time over hundreds of loops."""
_WORTH = 100
"""Lines of a module from which on it pays to give another to a second thread."""


@dataclass(frozen=True)
class Unit:
    """A module of LLVM IR; `ready`: it needs no passes. `weight` says how long it takes to compile, in lines.

    `shared` is the name of the function where it is one that other programs have too; `calls_only`: no code in it is worth optimising. `everywhere`: any program may have this
    module, with symbols of its own behind the names; it is compiled once, and linked with each.
    """

    text: str
    ready: bool
    weight: float
    shared: str = ""
    calls_only: bool = False
    everywhere: bool = False


@dataclass
class _Piece:
    """Functions that stay together."""

    ready: bool
    texts: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    calls_only: bool = False

    @property
    def weight(self) -> float:
        return self.lines if self.ready else self.lines * _PASSES_COST

    def take(self, other: _Piece) -> None:
        self.texts |= other.texts
        self.lines += other.lines
        self.calls_only = self.calls_only and other.calls_only


def cut(module: ModuleBuilder, run: Function, calls: Sequence[Step] | None, *, loops: bool) -> list[Unit]:
    """The modules of a program whose entry is `run`.

    `calls` is all that run does, where it does nothing but call functions with pointers; `loops`: it has loops or branches of its own, which gain from LLVM's passes.
    """
    steps = steps_of(module, run, calls) if calls is not None else None
    if steps is not None:
        return _cut_of_steps(module, steps, run)
    inlined = [f for f in module.functions if f is not run and "alwaysinline" in f.attributes]
    own = {f.name: f for f in module.functions}
    joined = _joined(module, run, calls[0]) if calls is not None and len(calls) == 1 and not inlined else None
    if joined is not None:
        kernel, lines = joined
        main = _Piece(True, {run.name: "\n".join(lines)}, len(lines), kernel.calls_only or is_light(lines))
        others = [f for f in module.functions if f is not run and f is not kernel]
    else:
        called = [f.ready for f in module.functions if f is not run and not f.shared]
        # What only calls goes with what it calls.
        with_callees = not loops and (any(called) or not called)
        main = _piece(run, ready=not inlined and (with_callees or run.size > LONG))
        if not loops and not inlined:  # it only calls: nothing in it is worth a pass of the code generator's
            main.texts[run.name] = main.texts[run.name].replace(" {\n", " noinline optnone {\n", 1)
            main.calls_only = True
        for f in inlined:
            main.take(_piece(f, ready=False))
        others = [f for f in module.functions if f.name not in main.texts]
    own_kernels = [f for f in others if not f.shared]
    pieces = [p for f in own_kernels for p in (_pieces(f) if len(own_kernels) > 1 else [_piece(f, f.ready)])]
    made = [_unit(module, own, b) for b in _bins(main, pieces, module.target.threads)]
    return [*made, *(_unit(module, own, _piece(f, ready=True), f.name) for f in others if f.shared)]


def _cut_of_steps(module: ModuleBuilder, steps: Steps, run: Function) -> list[Unit]:
    """The modules of a program that is a table of steps: its kernels, with the table, the routine that goes through it, and what gives it the table."""
    own = {f.name: f for f in module.functions if f is not run}
    main = _Piece(True, {TABLE: steps.table()}, calls_only=True)
    pieces = [p for f in own.values() if not f.shared for p in ([_part(f)] if f.name in steps.parts else _pieces(f))]
    head = _head(module)
    return [
        *(_unit(module, own, b) for b in _bins(main, pieces, module.target.threads)),
        Unit(run_text(head), True, 0, calls_only=True, everywhere=True),
        Unit(steps_text(head), True, 0, STEPS, calls_only=True),
        *(_unit(module, own, _piece(f, ready=True), f.name) for f in own.values() if f.shared),
    ]


def _part(f: Function) -> _Piece:
    """Of a kernel the part for threads alone."""
    lines = part_lines(f)
    return _Piece(True, {f"{f.outlined[0].name}.thunk": "\n".join(lines)}, len(lines), f.calls_only or is_light(lines))


def _head(module: ModuleBuilder) -> tuple[str, ...]:
    return f'target datalayout = "{module.target.data_layout}"', f'target triple = "{module.target.triple}"'


def _joined(module: ModuleBuilder, run: Function, call: Step) -> tuple[Function, list[str]] | None:
    """The ready kernel of a program whose `run` does nothing but call it, and the lines of both as one function: each function has its price. None where the kernel is not ready."""
    kernel = next(f for f in module.functions if f.name == call.function)
    if not kernel.ready:
        return None
    head, entry, *lines, end, close = run.text()
    renamed = [_VALUE.sub("%run.", line) for line in lines]
    given = [_VALUE.sub("%run.", a.value.text) for a in call.addresses]
    text = kernel.text()
    at = next(k for k, line in enumerate(text) if line.startswith(f"define internal void @{kernel.name}("))
    aliases = [
        f"  %{p.name} = getelementptr i8, ptr {value}, i64 0" for p, value in zip(kernel.parameters, given, strict=True)
    ]
    return kernel, [*text[:at], head, entry, *renamed[:-1], *aliases, *text[at + 2 : -2], end, close]


def _piece(f: Function, ready: bool) -> _Piece:
    lines = f.text()
    text = "\n".join(lines)
    light = _is_light(text) if f.shared else is_light(lines)
    return _Piece(ready, {f.name: text}, len(lines), f.calls_only or (ready and light))


@lru_cache(maxsize=512)
def _is_light(text: str) -> bool:
    """Whether a routine is light, which is the same for each program that has it."""
    return is_light(text.split("\n"))


@lru_cache(maxsize=512)
def _symbols_of_routine(text: str) -> frozenset[str]:
    return frozenset(_SYMBOL.findall(text))


def _pieces(f: Function) -> list[_Piece]:
    """The pieces of a kernel: its parts for threads apart from what hands them to the pool, where one of them is light and the other is not."""
    whole = _piece(f, f.ready)
    if not f.ready or whole.calls_only or not f.outlined:
        return [whole]
    texts: dict[str, list[str]] = {}
    for line in f.text():
        head = _HEAD.match(line)
        if head:
            lines = texts[head[1]] = []
        if line:
            lines.append(line)
    light = {name for name, lines in texts.items() if is_light(lines)}
    if not light or len(light) == len(texts):
        return [whole]
    made = [_Piece(True), _Piece(True, calls_only=True)]
    for name, lines in texts.items():
        made[name in light].take(_Piece(True, {name: "\n".join(lines)}, len(lines), name in light))
    return made


def _bins(main: _Piece, pieces: Sequence[_Piece], threads: int) -> list[_Piece]:
    """Pieces put together: ready ones apart from others, each kind in as many bins as pay."""
    bins = [main]
    light = any(p.calls_only for p in pieces)
    for ready, calls_only in ((False, False), (True, False), (True, True)):
        mine = sorted((p for p in pieces if (p.ready, p.calls_only) == (ready, calls_only)), key=lambda p: -p.lines)
        with_main = main.ready is ready and (main.calls_only is calls_only or (main.calls_only and not light))
        kind = [main] if with_main else []
        total = sum(p.weight for p in (*mine, *kind))
        while mine and len(kind) < max(1, min(threads, int(total // _WORTH))):
            kind.append(_Piece(ready, calls_only=calls_only))
        for p in mine:
            min(kind, key=lambda b: b.lines).take(p)
        bins += [b for b in kind if b is not main and b.texts]
    return bins


def _unit(module: ModuleBuilder, own: Mapping[str, Function], piece: _Piece, shared: str = "") -> Unit:
    body = "\n\n".join(piece.texts.values())
    used = set(_symbols_of_routine(body) if shared else _SYMBOL.findall(body))
    for name in piece.texts:
        if name not in own or "alwaysinline" not in own[name].attributes:  # a function of another module may call it
            body = body.replace(f"define internal void @{name}(", f"define void @{name}(", 1)
    parts = [*_head(module), ""]
    constants = [text for name, text in module.globals.items() if name in used]
    used.update(
        name for g in constants if "{ ptr @" in g for name in _SYMBOL.findall(g)
    )  # it holds a function's address
    parts += constants
    for name, text in module.declarations.items():
        if name in used and text.startswith("define"):  # a function of vectors (see math_calls), which calls others
            used.update(_SYMBOL.findall(text))
    parts += [text for name, text in module.declarations.items() if name in used]
    for name in sorted(used & own.keys() - piece.texts.keys()):
        parts.append(f"declare void @{name}({', '.join(str(p).split(' ', 1)[0] for p in own[name].parameters)})")
    elsewhere = sorted(n for n in used if n.endswith(".thunk") and f"@{n}({THUNK_PARAMETERS})" not in body)
    parts += [
        f"declare void @{n}({', '.join(p.split(' ', 1)[0] for p in THUNK_PARAMETERS.split(', '))})" for n in elsewhere
    ]
    return Unit("\n".join([*parts, "", body, ""]), piece.ready, piece.weight, shared, piece.calls_only)
