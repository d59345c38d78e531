"""A program cut into LLVM modules that are compiled each for itself: those whose IR needs LLVM's passes, those whose IR is ready, and as many as threads may work on.

A function stands in the module of `run` where it is to be inlined there; the others are called across modules, so that their linkage is external. Globals (small
constants) are private: each module that uses one has a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xlanb.codegen.function import Function
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.outlining import thunk
from xlanb.cpu.codegen.levels import is_light
from xlanb.cpu.codegen.steps import STEPS, TABLE, Step, Steps, run_text, steps_of, steps_text
from xlanb.cpu.target import Target

_SYMBOL = re.compile(r"@([A-Za-z0-9_.\-$]+)")
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


def cut(
    module: ModuleBuilder, target: Target, run: Function, calls: Sequence[Step] | None, *, loops: bool
) -> list[Unit]:
    """The modules of a program for a target whose entry is `run`.

    `calls` is all that run does, where it does nothing but call functions with pointers; `loops`: it has loops or branches of its own, which gain from LLVM's passes.
    """
    steps = steps_of(module, run, calls) if calls is not None else None
    if steps is not None:
        return _cut_of_steps(module, target, steps, run)
    inlined = [f for f in module.functions if f is not run and "alwaysinline" in f.attributes]
    own = {f.name: f for f in module.functions}
    kernel = own[calls[0].function] if calls is not None and len(calls) == 1 and not inlined else None
    if calls is not None and kernel is not None and kernel.ready:
        main, done = _joined(run, kernel, calls[0]), {run.name, kernel.name}
    else:
        called = [f.ready for f in module.functions if f is not run and not f.shared]
        # What only calls goes with what it calls.
        with_callees = not loops and (any(called) or not called)
        main = _piece(run, run.definitions(), ready=not inlined and (with_callees or run.size > LONG))
        if not loops and not inlined:  # it only calls: nothing in it is worth a pass of the code generator's
            main.texts[run.name] = main.texts[run.name].replace(" {\n", " noinline optnone {\n", 1)
            main.calls_only = True
        for f in inlined:
            main.take(_piece(f, f.definitions(), ready=False))
        done = set(main.texts)
    others = [f for f in module.functions if f.name not in done]
    pieces = [p for f in others if not f.shared for p in _pieces(f, f.definitions())]
    made = [_unit(module, own, b) for b in _bins(main, pieces, target.threads)]
    return [*made, *_shared(module, own, others)]


def _shared(module: ModuleBuilder, own: Mapping[str, Function], functions: Iterable[Function]) -> list[Unit]:
    """A module for each function that other programs have too."""
    return [_unit(module, own, _piece(f, f.definitions()), f.name) for f in functions if f.shared]


def _cut_of_steps(module: ModuleBuilder, target: Target, steps: Steps, run: Function) -> list[Unit]:
    """The modules of a program that is a table of steps: its kernels, with the table, the routine that goes through it, and what gives it the table."""
    own = {f.name: f for f in module.functions if f is not run}
    main = _Piece(True, {TABLE: steps.table()}, calls_only=True)
    kernels = [f for f in own.values() if not f.shared]
    pieces = [p for f in kernels for p in ([_part(f)] if f.name in steps.parts else _pieces(f, f.unpacking()))]
    return [
        *(_unit(module, own, b) for b in _bins(main, pieces, target.threads)),
        Unit(run_text(target), True, 0, calls_only=True, everywhere=True),
        Unit(steps_text(target), True, 0, STEPS, calls_only=True),
        *_shared(module, own, own.values()),
    ]


def _part(f: Function) -> _Piece:
    """Of a kernel the part for threads alone, which the table calls."""
    name = thunk(f.outlined[0])
    head, *lines = f.definitions()[name]
    return _piece(f, {name: [head.replace("internal ", "", 1), *lines]})


def _joined(run: Function, kernel: Function, call: Step) -> _Piece:
    """A ready kernel as `run` of a program that does nothing but call it: each function has its price."""
    own = kernel.definitions()
    _, entry, *body = own.pop(kernel.name)
    pointers = [line for p, a in zip(kernel.parameters, call.addresses, strict=True) for line in a.lines(p.name)]
    return _piece(kernel, {**own, run.name: [run.definitions()[run.name][0], entry, *pointers, *body]})


def _pieces(f: Function, functions: Mapping[str, Sequence[str]]) -> list[_Piece]:
    """What is compiled of a kernel: light functions apart from others, as a part for threads and what hands it to the pool may differ."""
    if not f.ready or f.calls_only or len(functions) == 1:
        return [_piece(f, functions, ready=f.ready)]
    light = {name: is_light([lines]) for name, lines in functions.items()}
    if all(light.values()):  # together they may be too long
        return [_piece(f, functions)]
    made = [_Piece(True), _Piece(True, calls_only=True)]
    for name, lines in functions.items():
        made[light[name]].take(_Piece(True, {name: "\n".join(lines)}, len(lines), light[name]))
    return [p for p in made if p.texts]


def _piece(f: Function, functions: Mapping[str, Sequence[str]], *, ready: bool = True) -> _Piece:
    """What is compiled of a kernel: these functions."""
    texts = {name: "\n".join(lines) for name, lines in functions.items()}
    light = f.calls_only or (ready and (_is_light(tuple(texts.values())) if f.shared else is_light(functions.values())))
    return _Piece(ready, texts, sum(map(len, functions.values())), light)


@lru_cache(maxsize=512)
def _is_light(texts: tuple[str, ...]) -> bool:
    """Whether a routine is light, which is the same for each program that has it."""
    return is_light([text.split("\n") for text in texts])


@lru_cache(maxsize=512)
def _symbols_of_routine(text: str) -> frozenset[str]:
    return frozenset(_SYMBOL.findall(text))


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
    parts = [module.head, ""]
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
    thunks = {thunk(part) for f in own.values() for part in f.outlined}
    parts += [f"declare void @{n}(ptr, i64, i64, i64)" for n in sorted(used & thunks - piece.texts.keys())]
    return Unit("\n".join([*parts, "", body, ""]), piece.ready, piece.weight, shared, piece.calls_only)
