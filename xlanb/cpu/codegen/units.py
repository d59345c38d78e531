"""Split a program into LLVM modules that are compiled separately.

Modules whose IR needs LLVM's passes and those whose IR is final are separate; there are as many as
threads can use. A function that is inlined in `run` is in its module; others are called across
modules, so that their linkage is external. Globals (small constants) are private: each module that
uses one has a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from xlanb.codegen.function import Function
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.outlining import Definition, OutlinedBody, thunk
from xlanb.codegen.target import Target
from xlanb.cpu.codegen.levels import is_light
from xlanb.cpu.codegen.steps import (
    STEPS,
    ProgramStep,
    ProgramSteps,
    run_text,
    shared_whole,
    steps_of,
    steps_text,
)
from xlanb.lazy_dataclass import dataclass

_PASSES_COST = 2.5
"""The relative cost of a line that goes through LLVM's passes."""
LONG = 3000
"""Lines of `run`, with inlined code, from which on it skips LLVM's passes.

They take quadratic time over hundreds of loops.
"""
_WORTH = 100
"""Lines of a module from which on a second module for another thread pays."""
_HEAVY = 150
"""Lines of a kernel that needs LLVM's passes from which on it has a module of its own.

That module can be compiled while the kernels behind it are emitted.
"""


@dataclass(frozen=True)
class Unit:
    """A module of LLVM IR; `ready`: it needs no passes. `weight` is its compile time in lines.

    `shared` is the name of the function if other programs have it too. `calls_only`: no code in it
    is worth optimizing. `everywhere`: any program may use this module, with its own symbols behind
    the names; it is compiled once and linked with each program.
    """

    text: str
    ready: bool
    weight: float
    shared: str = ""
    calls_only: bool = False
    everywhere: bool = False


@dataclass
class _Piece:
    """Functions that stay in one module, optionally with the table of steps."""

    ready: bool
    functions: dict[str, Definition] = field(default_factory=dict)
    lines: int = 0
    calls_only: bool = False
    steps: ProgramSteps | None = None

    @property
    def weight(self) -> float:
        return self.lines if self.ready else self.lines * _PASSES_COST

    def take(self, other: _Piece) -> None:
        self.functions = self.functions | other.functions
        self.lines += other.lines
        self.calls_only = self.calls_only and other.calls_only


def cut(
    module: ModuleBuilder, target: Target, run: Function, calls: Sequence[ProgramStep] | None, *, loops: bool
) -> list[Unit]:
    """The modules of a program for a target whose entry is `run`.

    `calls` are the calls of run if it does nothing else. `loops`: it has loops or branches of its
    own, which profit from LLVM's passes.
    """
    steps = steps_of(module, run, calls) if calls is not None else None
    if steps is not None:
        return [
            *_of_steps(module, target, steps, run, _Piece(True, calls_only=True, steps=steps)),
            Unit(run_text(target), True, 0, calls_only=True, everywhere=True),
            routine_of_steps(target),
            *_shared(module, {}, module.functions),
        ]
    inlined = [f for f in module.functions if f is not run and "alwaysinline" in f.attributes]
    own = {f.name: f for f in module.functions}
    kernel = own[calls[0].function] if calls is not None and len(calls) == 1 and not inlined else None
    if calls is not None and kernel is not None and kernel.ready:
        main, done = _joined(run, kernel, calls[0]), {run.name, kernel.name}
    else:
        called = [f.ready for f in module.functions if f is not run and not f.shared]
        # A function that only calls is in the same module as its callees.
        with_callees = not loops and (any(called) or not called)
        main = _piece(run, run.definitions(), ready=not inlined and (with_callees or run.size > LONG))
        if not loops and not inlined:  # it only calls: nothing in it is worth optimizing
            d = main.functions[run.name]
            main.functions = {run.name: replace(d, attributes=f"{d.attributes} noinline optnone")}
            main.calls_only = True
        for f in inlined:
            main.take(_piece(f, f.definitions(), ready=False))
        done = set(main.functions)
    others = [f for f in module.functions if f.name not in done]
    pieces = [p for f in others if not f.shared for p in _pieces(f, f.definitions())]
    made = [_unit(module, own, b) for b in _bins(main, pieces, target.threads)]
    return [*made, *_shared(module, own, others)]


_ROUTINES: dict[tuple[OutlinedBody, str], Unit] = {}
"""The modules of functions that programs share, by body and name."""


def _shared(module: ModuleBuilder, own: Mapping[str, Function], functions: Iterable[Function]) -> list[Unit]:
    """A module for each function that other programs share."""
    made = []
    for f in functions:
        if f.shared is not None:
            key = f.shared, f.name
            if key not in _ROUTINES:
                _ROUTINES[key] = _unit(module, own, _piece(f, f.definitions()), f)
            made.append(_ROUTINES[key])
    return made


def kernels_of_steps(module: ModuleBuilder, target: Target, steps: ProgramSteps, run: Function) -> list[Unit]:
    """The modules of a program that is a table of steps, without the table.

    These are the kernels that have code, and the routines that programs share.
    """
    own = _of_steps(module, target, steps, run, _Piece(True, calls_only=True))
    return [*own, routine_of_steps(target), *_shared(module, {}, module.functions)]


def routine_of_steps(target: Target) -> Unit:
    """The module of the routine that runs tables of steps."""
    return Unit(steps_text(target), True, 0, STEPS)


def _of_steps(module: ModuleBuilder, target: Target, steps: ProgramSteps, run: Function, main: _Piece) -> list[Unit]:
    """The modules of kernels, together with what is in `main` already."""
    own = {f.name: f for f in module.functions if f is not run}
    kernels = [f for f in own.values() if not f.shared and f.name not in steps.static]
    alone = [f for f in kernels if f.name in steps.parts and _is_heavy(f)]
    together = [f for f in kernels if f not in alone]
    pieces = [p for f in together for p in ([_part(f)] if f.name in steps.parts else _pieces(f, f.unpacking()))]
    bins = [b for b in _bins(main, pieces, target.threads) if b.functions or b.steps]
    return [_unit(module, own, b) for b in (*bins, *map(_part, alone))]


def _is_heavy(f: Function) -> bool:
    return not f.ready and not f.shared and f.size >= _HEAVY


def heavy_unit(module: ModuleBuilder, f: Function) -> Unit | None:
    """The module that a kernel just emitted has for itself in a table of steps, if any."""
    if not _is_heavy(f) or shared_whole(f) is None:
        return None
    return _unit(module, {g.name: g for g in module.functions}, _part(f))


def _part(f: Function) -> _Piece:
    """Only the part of a kernel that threads share, which the table calls."""
    return _piece(f, {name: d for name, d in f.definitions().items() if name != f.name}, ready=f.ready)


def _joined(run: Function, kernel: Function, call: ProgramStep) -> _Piece:
    """A ready kernel as the `run` of a program that only calls it, to save a function's cost."""
    own = dict(kernel.definitions())
    body = own.pop(kernel.name)
    entry, *lines = body.lines
    pointers = [line for p, a in zip(kernel.parameters, call.addresses, strict=True) for line in a.lines(p.name)]
    symbols = (run.symbols - {kernel.name}) | body.symbols
    made = replace(run.definitions()[run.name], lines=[entry, *pointers, *lines], symbols=symbols)
    return _piece(kernel, {**own, run.name: made})


def _pieces(f: Function, functions: dict[str, Definition]) -> list[_Piece]:
    """The pieces of a kernel: light functions are separate from others.

    A part for threads and the code that passes it to the pool may differ.
    """
    if not f.ready or f.calls_only or len(functions) == 1:
        return [_piece(f, functions, ready=f.ready)]
    light = {name: is_light([d.lines]) for name, d in functions.items()}
    if all(light.values()):  # together they may be too long
        return [_piece(f, functions)]
    made = [_Piece(True), _Piece(True, calls_only=True)]
    for name, d in functions.items():
        made[light[name]].take(_Piece(True, {name: d}, d.size, light[name]))
    return [p for p in made if p.functions]


def _piece(f: Function, functions: dict[str, Definition], *, ready: bool = True) -> _Piece:
    """A kernel's functions as one piece."""
    lines = [d.lines for d in functions.values()]
    light = f.calls_only or (ready and is_light(lines))
    return _Piece(ready, functions, sum(d.size for d in functions.values()), light)


def _bins(main: _Piece, pieces: Sequence[_Piece], threads: int) -> list[_Piece]:
    """Combine pieces into as many bins as pay, ready ones separate from others."""
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
        bins += [b for b in kind if b is not main and b.functions]
    return bins


def _unit(module: ModuleBuilder, own: Mapping[str, Function], piece: _Piece, routine: Function | None = None) -> Unit:
    here = piece.functions
    declared = routine.shared.declarations if routine is not None and routine.shared else module.declarations
    used = set[str]().union(*(d.symbols for d in here.values()), piece.steps.symbols if piece.steps else ())
    for table in (module.globals, declared):  # symbols that globals or vector functions refer to
        used.update(*(module.named_by.get(name, ()) for name in used & table.keys()))
    parts = [module.head, "", *(text for name, text in module.globals.items() if name in used)]
    parts += [text for name, text in declared.items() if name in used]
    parts += _declared(own, used - here.keys())
    parts += ["", *([piece.steps.table(), ""] if piece.steps else [])]
    for name, d in here.items():  # other modules may call the functions that are not inlined
        inlined = name in own and "alwaysinline" in own[name].attributes
        parts += [*d.text("internal" if inlined else ""), ""]
    return Unit("\n".join(parts), piece.ready, piece.weight, routine.name if routine else "", piece.calls_only)


def _declared(own: Mapping[str, Function], symbols: set[str]) -> list[str]:
    """Declarations of other modules' functions: kernels, then their parts."""
    kernels = [f"declare void @{n}({', '.join(p.type.text for p in own[n].parameters)})" for n in symbols & own.keys()]
    parts = symbols & {thunk(part) for f in own.values() for part in f.outlined}
    return sorted(kernels) + [f"declare void @{n}(ptr, i64, i64, i64)" for n in sorted(parts)]
