"""Run passes over HLO text, or compile and run it, for the command line."""

from __future__ import annotations

import difflib
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.cpu import pipeline
from xlanb.cpu.executable import Executable
from xlanb.errors import ArgumentError, DataLossError
from xlanb.hlo import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.compile import compile as compile_program
from xlanb.runtime.npz import read_npz
from xlanb.shape import Shape, TupleShape
from xlanb.transforms import PASSES
from xlanb.transforms.pipeline import HloPassPipeline

if TYPE_CHECKING:
    import pandas as pd

_TOLERANCE = 1e-4  # relative, for --reference


@dataclass(frozen=True)
class Optimized:
    """The result of passes on a module.

    Its text, one row for each pass that ran, and each change in the requested forms.
    """

    text: str
    rows: list[dict[str, Any]]
    shown: list[str]


def optimize(module: HloModule, passes: str | None, *, print_after_all: bool = False, diff: bool = False) -> Optimized:
    """Run passes (comma-separated names; None: the CPU pipeline) over a module, in place.

    Raises:
        XlanbError: There is no such pass, or one fails.
    """
    chosen = (
        pipeline()
        if passes is None
        else HloPassPipeline("opt", tuple(_pass(name.strip()) for name in passes.split(",")))
    )
    shown: list[str] = []
    rows: list[dict[str, Any]] = []
    before = module.record()
    for result in chosen.steps(module):
        after = module.record()
        rows.append(
            {
                "pass": result.name,
                "pipeline": list(result.pipeline),
                "changed": after is not before,
                "instructions": after.instruction_count,
                "seconds": result.seconds,
            }
        )
        if after is not before and print_after_all:
            shown.append(f"// ---- after {result.name}\n{after.text}")
        if after is not before and diff:
            sides = (before.text.splitlines(), after.text.splitlines())
            names = (f"before {result.name}", f"after {result.name}")
            shown.append("\n".join(difflib.unified_diff(*sides, *names, lineterm="")))
        before = after
    return Optimized(str(module), rows, shown)


def _pass(name: str) -> Any:
    return PASSES[name]()


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Results by leaf, wall seconds of each run, the largest error against the reference (None: not
    compared), kernels as rows.
    """

    results: list[Any]
    seconds: list[float]
    reference: str = ""
    error: float | None = None
    kernels: pd.DataFrame | None = None

    @property
    def agrees(self) -> bool:
        """Whether the reference, if any, gave the same results up to rounding."""
        return self.error is None or self.error <= _TOLERANCE

    @property
    def data(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return {
            "results": [{"dtype": str(v.dtype), "shape": list(v.shape), "values": _listed(v)} for v in self.results],
            "seconds": self.seconds,
            "median_seconds": statistics.median(self.seconds),
            "reference": self.reference or None,
            "error": self.error,
            "agrees": self.agrees,
            "kernels": None if self.kernels is None else json.loads(self.kernels.to_json(orient="records")),
        }

    def __str__(self) -> str:
        lines = [
            f"{i}: {v.dtype}{list(v.shape)} {np.array2string(v, threshold=8, edgeitems=2)}"
            for i, v in enumerate(self.results)
        ]
        lines.append(f"{statistics.median(self.seconds) * 1e6:.1f} us, median of {len(self.seconds)}")
        if self.error is not None:
            verdict = "agrees" if self.agrees else "DIFFERS"
            lines.append(f"largest difference from the {self.reference}: {self.error:.2g} ({verdict})")
        if self.kernels is not None:
            lines.append(self.kernels.to_string())
        return "\n".join(lines)


def run_module(
    module: HloModule,
    inputs: Path | Sequence[Any] | None,
    iterations: int,
    *,
    profile: bool,
    reference: Callable[[HloModule, list[Any]], Any] | None = None,
    name: str = "",
    devices: int | None = None,
) -> Outcome:
    """Compile and run a module on given or random inputs.

    `reference` computes the expected results, and `name` is its display name. `devices` is the
    number of devices that the module must run on, if known.

    Raises:
        XlanbError: The module cannot be compiled, or the inputs do not fit.
    """
    executable: Executable = compile_program(module)
    if devices is not None and executable.device_count != devices:
        raise ArgumentError(f"{module.name} runs on {executable.device_count} devices, not on {devices}")
    arguments = arguments_for(executable, inputs)
    seconds = []
    result: Any = None
    for _ in range(max(1, iterations)):
        begin = time.perf_counter()
        result = executable.flat(*arguments)
        seconds.append(time.perf_counter() - begin)
    results = _leaves(result)
    error = None
    if reference is not None:
        expected = _leaves(reference(module, arguments))
        error = max((_error(a, b) for a, b in zip(results, expected, strict=True)), default=0.0)
    kernels = executable.profile(*arguments) if profile else None
    return Outcome(results, seconds, name, error, kernels)


_MAX_LISTED = 1000


def _listed(value: Any) -> Any:
    """Values for JSON if they are few; otherwise None."""
    if value.size > _MAX_LISTED:
        return None
    if value.dtype.kind == "c":
        return [[z.real, z.imag] for z in value.ravel().tolist()]
    return value.astype(np.float64 if value.dtype.kind not in "biu" else value.dtype).tolist()


def arguments_for(program: HloModule | Executable, inputs: Path | Sequence[Any] | None) -> list[Any]:
    """The given arrays, or those of an .npz file in the order of their names, or random ones.

    Raises:
        ArgumentError: The file cannot be read.
    """
    if inputs is not None and not isinstance(inputs, Path):
        return list(inputs)
    if inputs:
        return _load(inputs)
    if isinstance(program, HloModule):
        return [random_value(p.shape) for p in program.entry_computation.parameters]
    return [random_value(shape) for shape in program.parameter_shapes]


def random_value(shape: Shape, seed: int = 0) -> Any:
    """A random value of a shape: standard normal floats, integers from 0 to 9."""
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
        arrays = read_npz(path)
        return [arrays[name] for name in sorted(arrays)]
    except OSError as error:
        raise ArgumentError(f"cannot read inputs from {path}: {error.strerror or error}") from None
    except DataLossError as error:
        raise ArgumentError(f"cannot read inputs from {path}: {error}") from None


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple | list) else [np.asarray(value)]


def _error(a: Any, b: Any) -> float:
    if a.dtype.kind in "biu":
        return float(np.max(a != b, initial=0))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        off = np.abs(x - y) / np.maximum(1, np.abs(y))
    return float(np.max(np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, off), initial=0))
