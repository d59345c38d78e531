"""What the command line does with HLO text: run passes over it, or compile and run it."""

from __future__ import annotations

import difflib
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.cpu import pipeline
from xlanb.cpu.executable import Executable
from xlanb.errors import ArgumentError, PassError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.runtime.jit import compile as compile_program
from xlanb.shape import Shape, TupleShape
from xlanb.transforms import PASSES
from xlanb.transforms.pipeline import HloPassPipeline

_TOLERANCE = 1e-4  # relative, for --reference


def optimize_text(text: str, passes: str | None, *, print_after_all: bool = False, diff: bool = False) -> str:
    """The text of a module after passes (names separated by commas; None: the CPU pipeline), with what each of them did where asked.

    Raises:
        XlanbError: the text is malformed, or there is no such pass.
    """
    module = parse(text)
    chosen = (
        pipeline()
        if passes is None
        else HloPassPipeline("opt", tuple(_pass(name.strip()) for name in passes.split(",")))
    )
    shown: list[str] = []
    before = module.record()
    for result in chosen.steps(module):
        after = module.record()
        if after is not before:
            if print_after_all:
                shown.append(f"// ---- after {result.name}\n{after.text}")
            if diff:
                lines = difflib.unified_diff(
                    before.text.splitlines(),
                    after.text.splitlines(),
                    f"before {result.name}",
                    f"after {result.name}",
                    lineterm="",
                )
                shown.append("\n".join(lines))
        before = after
    if not (print_after_all or diff):
        shown.append(str(module))
    return "\n".join(shown)


def _pass(name: str) -> Any:
    if name not in PASSES:
        near = difflib.get_close_matches(name, list(PASSES), 1)
        raise PassError(
            f"no pass {name!r}"
            + (f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(sorted(PASSES))}")
        )
    return PASSES[name]()


@dataclass(frozen=True)
class Outcome:
    """What `run_text` has to say, and whether the reference agreed."""

    text: str
    agrees: bool


def run_text(text: str, inputs: Path | None, iterations: int, *, profile: bool, compare: bool) -> Outcome:
    """Compile and run a module on given or random inputs.

    Raises:
        XlanbError: the text is malformed, or the inputs do not fit.
    """
    module = parse(text)
    arguments = _load(inputs) if inputs else [random_value(p.shape) for p in module.entry_computation.parameters]
    executable: Executable = compile_program(module)
    seconds = []
    for _ in range(max(1, iterations)):
        begin = time.perf_counter()
        result = executable(*arguments)
        seconds.append(time.perf_counter() - begin)
    lines = [
        f"{i}: {v.dtype}{list(v.shape)} {np.array2string(v, threshold=8, edgeitems=2)}"
        for i, v in enumerate(_leaves(result))
    ]
    lines.append(f"{statistics.median(seconds) * 1e6:.1f} us, median of {len(seconds)}")
    agrees = True
    if compare:
        worst = max(
            (_error(a, b) for a, b in zip(_leaves(result), _leaves(evaluate(module, *arguments)), strict=True)),
            default=0.0,
        )
        agrees = worst <= _TOLERANCE
        lines.append(f"largest difference from the evaluator: {worst:.2g} ({'agrees' if agrees else 'DIFFERS'})")
    if profile:
        lines.append(executable.profile(*arguments).to_string())
    return Outcome("\n".join(lines), agrees)


def random_value(shape: Shape, seed: int = 0) -> Any:
    """A value of a shape, for trying things out: standard normal floats, integers from 0 to 9."""
    rng = np.random.default_rng(seed)

    def make(s: Shape) -> Any:
        if isinstance(s, TupleShape):
            return tuple(make(t) for t in s.shapes)
        a = s.as_array()
        if a.element_type.is_floating or a.element_type.is_complex:
            return rng.standard_normal(a.dimensions).astype(a.dtype)
        return rng.integers(
            0, 2 if a.element_type.bits < 8 or a.element_type.text == "pred" else 10, a.dimensions
        ).astype(a.dtype)

    return make(shape)


def _load(path: Path) -> list[Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return [file[name] for name in sorted(file.files)]
    except (ValueError, OSError) as error:
        raise ArgumentError(f"cannot read inputs from {path}: {error}") from None


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


def _error(a: Any, b: Any) -> float:
    if a.dtype.kind in "biu":
        return float(np.max(a != b, initial=0))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        off = np.abs(x - y) / np.maximum(1, np.abs(y))
    return float(np.max(np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, off), initial=0))
