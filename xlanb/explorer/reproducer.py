"""Reproducers: one Python file that shows a fault and needs only xlanb, or only JAX.

The file contains the program, its arrays and the expected result. It exits with status 1 and
reports what it saw if the fault is still there, and with 0 if it is gone.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from xlanb.display import Displayable
from xlanb.errors import ArgumentError, MissingPeerError, XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer import bisection
from xlanb.explorer.bisection import Asked, Bisection, as_configured, reads_bytes, start_of
from xlanb.explorer.failing import (
    ChangesResult,
    Dies,
    Differs,
    Raises,
    Run,
    Way,
    compiled,
    differs,
    interpreted,
    made_up,
    real_xla,
)
from xlanb.explorer.numbers import leaves_of, module_of, tolerance_of
from xlanb.explorer.source_text import UNPACKED, arrays_source, function_source
from xlanb.hlo import HloModule, parse
from xlanb.hlo.records import ModuleRecord
from xlanb.reducer import search
from xlanb.tracing import Edit
from xlanb.transforms import PASSES, HloPassFix

_PACKAGES = ("xlanb", "jax", "jaxlib", "numpy", "llvmlite")
_LONGEST_RUN = 60.0
"""Time limit in seconds for running a candidate file."""
_MOST_SHOWN = 400
"""Characters of a result shown at the beginning of the file."""

_REAL = '''
def run(text, arrays):
    """The program by the XLA of jaxlib, on the CPU."""
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    program = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    device = jax.devices("cpu")[0]
    loaded = device.client.compile_and_load(program, _jax.DeviceList((device,)), _jax.CompileOptions())
    with jax.enable_x64(True):
        given = [jax.device_put(np.asarray(a), device) for a in arrays]
    results = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(r[0]) for r in results]
'''
_REAL_IMPORTS = ("import jax", "from jaxlib import _hlo, _jax")

_LEAVES = '''

def leaves(value):
    """The arrays of a result, in order."""
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple | list) else [np.asarray(value)]
'''
_CHECK = '''

def check(seen, expected, tolerance):
    """Check that the results agree, relative to the largest number expected; NaN and infinities in the same places."""
    for number, (a, b) in enumerate(zip(seen, expected, strict=True)):
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        print(f"result {number}: expected", b, "saw", a, sep="\\n")
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)
    print("the fault is gone")
'''


@dataclass(frozen=True)
class Reproducer(Displayable):
    """The `text` of a Python file that shows a fault.

    `title` names the fault, `needs` the packages that the file imports.
    """

    title: str
    text: str
    needs: tuple[str, ...]

    def write(self, path: str | Path) -> Path:
        """Write the file and return its path.

        Raises:
            ArgumentError: it cannot be written.
        """
        path = Path(path)
        try:
            path.write_text(self.text, encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"cannot write the reproducer to {path}: {error.strerror or error}") from None
        return path

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Reproducer: {self.title}; needs {', '.join(self.needs)}>"


@search.reproducer.implement
def reproducer(
    module: HloModule | str, test: Callable[..., object], *arrays: Any, notes: Sequence[str] = ()
) -> Reproducer:
    """Return a file in which `test` holds for a module and arrays.

    Args:
        module: a module, or HLO text.
        test: one of `xlanb.explorer.failing`, or a function of a module and its arrays, whose
            source is put into the file.
        *arrays: the module's arguments, by default random.
        notes: lines for the beginning of the file.

    Raises:
        ArgumentError: the test does not hold, or cannot be written to a file.
        XlanbError: the module is invalid.
    """
    given = parse(module) if isinstance(module, str) else module
    given.verify()
    made: Reproducer = _written(test, given, tuple(arrays), tuple(notes))
    return made


@singledispatch
def _written(test: Any, module: HloModule, arrays: tuple[Any, ...], notes: tuple[str, ...]) -> Reproducer:
    """Write a test of the user's own, with its source."""
    _holds(test, module, arrays)
    imports, source = function_source(test)
    name = test.__name__
    said = (test.__doc__ or "").strip().splitlines()
    title = f"{name}: {said[0]}" if said else f"{name}(module) holds"
    call = f"{name}(module, *arrays)" if arrays else f"{name}(module)"
    body = [
        "module = xlanb.hlo.parse(HLO)",
        f"if {call}:",
        f"    raise SystemExit({title!r})",
        'print("the fault is gone")',
    ]
    return _file(title, notes, module, arrays, body, imports=("import xlanb", *imports.splitlines()), functions=source)


@_written.register
def _(test: Differs, module: HloModule, arrays: tuple[Any, ...], notes: tuple[str, ...]) -> Reproducer:
    run, reference = _way(test.run), _way(test.reference)
    what = f"{run.name} and {reference.name} give different results"
    arrays = arrays or made_up(module)
    _holds(test, module, arrays)
    wanted = leaves_of(reference(module, arrays))
    seen = leaves_of(run(module, arrays))
    limit = tolerance_of(wanted) if test.tolerance is None else test.tolerance
    call = "run(HLO, ARRAYS)" if run.is_real else run.code
    body = ["" if run.is_real else "module, arrays = xlanb.hlo.parse(HLO), ARRAYS"]
    body += [f"with xlanb.flags({run.flags!r}):", f"    seen = {call}"] if run.flags else [f"seen = {call}"]
    body += [f"check(leaves(seen), EXPECTED, {limit!r})"]
    return _file(
        what,
        (*notes, *_quoted_results("expected", wanted), *_quoted_results("saw", seen)),
        module,
        arrays,
        [line for line in body if line],
        imports=_REAL_IMPORTS if run.is_real else ("import xlanb",),
        functions=(_REAL if run.is_real else "") + _LEAVES + _CHECK,
        expected=(reference.name, wanted),
    )


def _way(run: Run) -> Way:
    if isinstance(run, Way):
        return run
    name = getattr(run, "__name__", repr(run))
    raise ArgumentError(f"{name} cannot be written to a file: give a Way, such as xlanb.explorer.failing.compiled")


@_written.register
def _(test: ChangesResult, module: HloModule, arrays: tuple[Any, ...], notes: tuple[str, ...]) -> Reproducer:
    arrays = arrays or made_up(module)
    _holds(test, module, arrays)
    wanted = leaves_of(evaluate(test.as_read(module.clone()), *arrays))
    after = module.clone()
    test.hlo_pass.run(after)
    seen = leaves_of(evaluate(test.as_read(after), *arrays))
    limit = tolerance_of(wanted) if test.tolerance is None else test.tolerance
    name = test.hlo_pass.name
    imports, functions, made = _pass_source(test.hlo_pass, test.path, test.source)
    body = ["module = xlanb.hlo.parse(HLO)", f"{made}.run(module)"]
    if test.reads_bytes:
        imports = (
            *imports,
            "from xlanb.hlo import HloOpcode",
            "from xlanb.transforms.layout.layout_agreement import agree",
        )
        body += ["agree(module, HloOpcode.BITCAST)  # make layouts agree, as compiled code requires"]
    body += [
        "print(module)",
        f"check(leaves(xlanb.evaluate(module, *ARRAYS)), EXPECTED, {limit!r})",
    ]
    return _file(
        f"the pass {name} changes what a program computes",
        (*notes, *_quoted_results("expected", wanted), *_quoted_results("saw", seen)),
        module,
        arrays,
        body,
        imports=("import xlanb", *imports),
        functions=functions + _LEAVES + _CHECK,
        expected=("xlanb's interpreter, before the pass", wanted),
    )


@_written.register
def _(test: Raises, module: HloModule, arrays: tuple[Any, ...], notes: tuple[str, ...]) -> Reproducer:
    try:
        test.hlo_pass.run(module.clone())
    except XlanbError as error:
        raised = error
    else:
        raise ArgumentError("the test does not hold for the module: nothing to reproduce")
    name = test.hlo_pass.name
    imports, functions, made = _pass_source(test.hlo_pass)
    body = ["module = xlanb.hlo.parse(HLO)", f"{made}.run(module)", 'print("the fault is gone")']
    said = str(raised).splitlines()[0]
    return _file(
        f"the pass {name} raises {type(raised).__name__}",
        (*notes, "expected: no error", f"saw: {said}"),
        module,
        (),
        body,
        imports=("import xlanb", *imports),
        functions=functions,
    )


@_written.register
def _(test: Dies, module: HloModule, arrays: tuple[Any, ...], notes: tuple[str, ...]) -> Reproducer:
    ended = test.ended(module)
    if not ended.is_dead:
        raise ArgumentError("the test does not hold for the module: nothing to reproduce")
    status = ended.status
    saw = (
        f"it does not finish within {test.seconds:g} s"
        if status is None
        else f"{signal.strsignal(-status) or f'signal {-status}'}{f': {ended.reason}' if ended.reason else ''}"
    )
    arrays = arrays or made_up(module)
    body = ["seen = run(HLO, ARRAYS)"] if test.real else ["seen = xlanb.compile(xlanb.hlo.parse(HLO))(*ARRAYS)"]
    who = "the real XLA" if test.real else "xlanb"
    return _file(
        f"{who} crashes the process that compiles and runs a program",
        (*notes, "expected: a result, or an error that Python can catch", f"saw: {saw}"),
        module,
        arrays,
        [*body, 'print("the fault is gone:", seen)'],
        imports=_REAL_IMPORTS if test.real else ("import xlanb",),
        functions=_REAL if test.real else "",
    )


@bisection.reproducer_of.implement
def reproducer_of(found: Bisection, *, seconds: float = 60.0) -> Reproducer:
    """See Bisection.reproducer."""
    stage, asked = found.stage, found.asked
    if asked is None or not found.changed:
        raise ArgumentError("no stage changed the result: nothing to reproduce")
    if stage is None:
        return _of_code(asked, seconds)
    if not isinstance(stage.before, ModuleRecord) or not isinstance(stage.after, ModuleRecord):
        raise XlanbError(f"stage {stage.name} does not contain the HLO before and after it")
    notes = [] if found.rewrite is None or not found.rewrite.cause.rule else [_rule(found.rewrite)]
    before, reads = module_of(stage.before), reads_bytes(asked.trace, stage)
    passes = as_configured(stage) if stage.kind == "hlo_pass" and stage.name in PASSES else []
    moving = [ChangesResult(c.hlo_pass, c.path, asked.tolerance, reads, c.source) for c in passes]
    moves = next((m for m in moving if _is_so(m, before, asked.inputs)), None)
    if found.is_replay:
        made = _of_real_xla(asked, stage.name, moves, notes, seconds)
        if made is not None:
            return made
    if moves is None:
        return _of_texts(before, module_of(stage.after), stage.name, asked.inputs, notes)
    return _smallest(before, moves, moves, asked.inputs, notes, seconds)


def _of_code(asked: Asked, seconds: float) -> Reproducer:
    """Return what compiled code (ours or XLA's) computes differently from the interpreter."""
    run = real_xla() if asked.trace.program is None else compiled
    test = differs(run, interpreted, asked.tolerance)
    return _smallest(start_of(asked.trace), test, test, asked.inputs, (), seconds)


def _of_real_xla(
    asked: Asked, name: str, moves: ChangesResult | None, notes: Sequence[str], seconds: float
) -> Reproducer | None:
    """Return what the real XLA computes differently from the interpreter, or None.

    Our pass of the name must change the same result. None if the installed XLA has no such fault.
    """
    try:
        test = differs(real_xla(), interpreted, asked.tolerance)
    except MissingPeerError:
        return None
    start = start_of(asked.trace)
    again = None if moves is None else replace(moves, hlo_pass=HloPassFix(moves.hlo_pass), reads_bytes=False)

    def both(module: HloModule, *arrays: Any) -> bool:
        return (again is None or _is_so(again, module, arrays)) and test(module, *arrays)

    if again is not None and not _is_so(again, start, asked.inputs):
        again = None  # other passes must come before it
    if not _is_so(both, start, asked.inputs):
        return None
    notes = [f"xlanb's {name} does the same by the {n}" for n in notes]
    made = _smallest(start, both, test, asked.inputs, notes, seconds)
    without = f"--xla_disable_hlo_passes={name}"
    if _ends_well(made, without):
        return replace(made, text=made.text.replace("\n\n", f"\n\nwith XLA_FLAGS={without} the fault is gone\n", 1))
    return made


def _ends_well(made: Reproducer, flags: str) -> bool:
    """Whether the file reports no fault under other XLA_FLAGS."""
    environment = os.environ | {"XLA_FLAGS": flags}
    command = [sys.executable, "-c", made.text]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_LONGEST_RUN, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _smallest(
    module: HloModule,
    holds: Callable[..., bool],
    test: Differs | ChangesResult,
    arrays: tuple[Any, ...],
    notes: Sequence[str],
    seconds: float,
) -> Reproducer:
    """Return the file for the smallest module for which `holds`.

    `holds` is `test`, and what else must stay the same.
    """
    small = search.reduction(module, holds, *arrays, seconds=seconds)
    size = f"reduced: {small.before} instructions -> {small.module.instruction_count}"
    made: Reproducer = reproducer(small.module, test, *(small.arrays or ()), notes=(*notes, size))
    return made


def _is_so(test: Callable[..., bool], module: HloModule, arrays: Sequence[Any]) -> bool:
    try:
        return test(module.clone(), *arrays)
    except XlanbError:  # the pass, or the interpreter, rejects it
        return False


def _rule(rewrite: Edit) -> str:
    cause = rewrite.cause
    return f"rule: {cause.rule}{f' ({cause.where})' if cause.where else ''}"


def _of_texts(
    before: HloModule, after: HloModule, name: str, arrays: Sequence[Any], notes: Sequence[str]
) -> Reproducer:
    """Return a file with a module before and after another compiler's pass."""
    wanted, seen = leaves_of(evaluate(before, *arrays)), leaves_of(evaluate(after, *arrays))
    body = [
        "after = xlanb.hlo.parse(AFTER)",
        f"check(leaves(xlanb.evaluate(after, *ARRAYS)), EXPECTED, {tolerance_of(wanted)!r})",
    ]
    return _file(
        f"the pass {name} changes what a program computes",
        (*notes, *_quoted_results("expected", wanted), *_quoted_results("saw", seen)),
        before,
        tuple(arrays),
        body,
        imports=("import xlanb",),
        functions=_LEAVES + _CHECK,
        expected=("xlanb's interpreter, before the pass", wanted),
        after=after,
    )


# -- the file --------------------------------------------------------------------------------------


def _holds(test: Callable[..., object], module: HloModule, arrays: tuple[Any, ...]) -> None:
    if not test(module.clone(), *arrays):
        raise ArgumentError("the test does not hold for the module: nothing to reproduce")


def _pass_source(hlo_pass: Any, path: tuple[str, ...] = (), source: str = "") -> tuple[tuple[str, ...], str, str]:
    """Return imports, functions and an expression that make a pass."""
    if path:
        return (), "", f"{source}.at({', '.join(map(repr, (*path, hlo_pass.name)))})"
    kind = type(hlo_pass)
    if kind.__module__.startswith("xlanb."):
        return (), "", f"xlanb.transforms.PASSES[{hlo_pass.name!r}]()"
    imports, source = function_source(kind)
    return tuple(imports.splitlines()), f"\n{source}\n", f"{kind.__name__}()"


def _quoted_results(word: str, results: Sequence[Any]) -> list[str]:
    """Return a result for the beginning of the file, if it is short."""
    text = ", ".join(" ".join(str(r).split()) for r in results)
    return [f"{word}: {text}"] if len(text) <= _MOST_SHOWN else []


def _file(
    title: str,
    notes: Sequence[str],
    module: HloModule,
    arrays: Sequence[Any],
    body: Sequence[str],
    *,
    imports: Sequence[str],
    functions: str = "",
    expected: tuple[str, Sequence[Any]] | None = None,
    after: HloModule | None = None,
) -> Reproducer:
    values = [f"ARRAYS = {arrays_source(arrays)}\n"]
    if expected is not None:
        values.append(f"# by {expected[0]}\nEXPECTED = {arrays_source(expected[1])}\n")
    data = "\n".join(values)
    uses = data + functions
    needed = [f"import {m}" for m in ("base64", "zlib") if "unpacked(" in data]
    needed += ["import ml_dtypes"] if "ml_dtypes." in uses else []
    needed += ["import numpy as np"] if "np." in uses else []
    flags = os.environ.get("XLA_FLAGS", "")
    if flags:  # before anything reads them
        needed = ["import os", "", f'os.environ["XLA_FLAGS"] = {flags!r}', *needed]
    head = [f"{title[0].upper()}{title[1:]}.", "", *notes, "", _versions()]
    wrapped = "\n".join(_lines(head)).replace("\\", "\\\\").replace('"""', "'''")
    modules = f"HLO = {_quoted(str(module))}\n" + (f"AFTER = {_quoted(str(after))}\n" if after is not None else "")
    first = (
        "from __future__ import annotations\n\n" if ") -> " in functions else ""
    )  # for annotations with names that are not imported
    parts = [
        f'"""{wrapped}\n"""',
        first + "\n".join([*needed, *imports]),
        *([f"\n{UNPACKED.strip(chr(10))}\n"] if "unpacked(" in data else []),  # before its callers
        f"{modules}\n{data.rstrip()}",
        functions.strip("\n"),
        "\n".join(body),
    ]
    text = "\n\n".join(p for p in parts[:-2] if p) + "\n\n\n" + "\n\n\n".join(p for p in parts[-2:] if p) + "\n"
    compile(text, "<reproducer>", "exec")  # never return an invalid Python file
    needs = ("jax",) if any("jax" in line for line in imports) else ("xlanb",)
    return Reproducer(title, text, needs)


def _lines(lines: Sequence[str]) -> list[str]:
    return [w for line in lines for w in (textwrap.wrap(line, 118) or [""])]


def _quoted(text: str) -> str:
    """Return HLO text as a multi-line raw string, escaped if it contains its delimiter."""
    if '"""' in text or text.endswith('"') or "\\" in text:
        return repr(text)
    return f'"""\\\n{text.rstrip()}\n"""'


def _versions() -> str:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return (
        f"Written with {', '.join(found)}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}."
    )
