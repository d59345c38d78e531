"""Compare compiled code, evaluator and the real XLA:CPU for every HLO opcode and element type.

    python -m tests.peers.opcode_sweep [--only dot,add] [--types f32,s8] [--share 0.1]
                                       [--seed 0] [--list FILE]

A case is right if all three results are equal, or all reject it. Prints the number of cases of each
class, and each failure.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.numeric_values import NUMERIC, is_float, same
from tests.peers.opcode_cases import MAKERS, Case, cases
from xlanb.shape.primitive_type import BY_TEXT

Array = NDArray[Any]

RIGHT = ("same", "refused", "newer than XLA", "XLA died", "XLA dies", "explained")
_ROUNDED = frozenset(
    "acos acosh asin asinh atan atanh atan2 cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one logistic power rsqrt sine sinh sqrt tan tanh "
    "batch-norm-grad batch-norm-inference batch-norm-training cholesky fft triangular-solve".split()
)
_COMPLEX = frozenset("abs divide multiply sign".split())
"""Opcodes whose complex results are rounded more than once."""
_ROUNDED_EACH = frozenset("batch-norm-grad batch-norm-training logistic".split())
_UNITS = 64
_UNITS_COMPLEX = 512
_UNITS_NARROW = 4


@dataclass(frozen=True)
class Outcome:
    """What became of a case: its class ("same", "refused", ...) and what was seen."""

    kind: str
    detail: str = ""


def judge(case: Case, running: Callable[[str], None] = lambda _: None) -> Outcome:
    """Compile, evaluate and run a case with XLA:CPU; call `running` with the name of each."""
    running("xlanb")
    ours = _ours(case)
    if isinstance(ours, Outcome):
        return ours
    if case.opcode == "sort" and case.type in _SUB_BYTE:
        return Outcome("XLA dies")  # it writes beyond the array
    running("XLA")
    theirs = _theirs(case)
    if isinstance(theirs, str) and ("Unknown opcode" in theirs or "mhlo.unknown" in theirs):
        return Outcome("newer than XLA")
    if isinstance(theirs, str) or isinstance(ours, str):
        if isinstance(theirs, str) and isinstance(ours, str):
            return Outcome("refused")
        return (
            Outcome("refused by XLA alone", theirs)
            if isinstance(theirs, str)
            else Outcome("refused by us alone", str(ours))
        )
    different = _different(case, ours, theirs, flushed=True)
    return Outcome("unlike XLA", different) if different else Outcome("same")


_SUB_BYTE = ("s2", "u2", "s4", "u4", "f4e2m1fn")
_NO_ZERO = "f8e8m0fnu has neither zero nor sign: what XLA:CPU flushes to zero, or compares with it, is NaN there"


def explained(case: Case, outcome: Outcome) -> str:
    """Return why a failure is not a fault of xlanb, or ""."""
    return next((why for fits, why in _EXPLAINED if fits(case, outcome)), "")


_EXPLAINED: tuple[tuple[Callable[[Case, Outcome], bool], str], ...] = (
    (
        lambda c, o: o.kind == "refused by us alone" and c.variant == "none",
        "arrays without elements are folded on jaxlib's way from HLO to MLIR, before XLA's rules are asked",
    ),
    (
        lambda c, o: (
            o.kind == "refused by XLA alone" and c.opcode == "bitcast-convert" and "pred" in (c.type, c.variant)
        ),
        "StableHLO, the only way into jaxlib, takes a pred for one bit, HLO for eight",
    ),
    (
        lambda c, o: o.kind == "refused by XLA alone" and c.variant == "none",
        "StableHLO, the only way into jaxlib, asks for the types of arrays without elements; XLA:CPU computes nothing",
    ),
    (
        lambda _, o: o.kind == "refused by XLA alone" and "UNIMPLEMENTED" in o.detail,
        "XLA:CPU lacks it (acos, atanh, products of two bits, ...)",
    ),
    (
        lambda c, o: o.kind == "refused by us alone" and c.type in ("c64", "c128"),
        "HLO gives complex numbers no order; XLA:CPU compares their real parts, JAX never asks for it",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.type in ("c64", "c128") and c.opcode == "multiply",
        "XLA:CPU contracts a * c - b * d: a product that overflows alone may not in the sum",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.opcode == "power" and not is_float(c.arrays[0]),
        "XLA:CPU looks at six bits of an integer exponent; its own interpreter at all, as xlanb",
    ),
    (
        lambda c, o: o.kind.startswith("unlike") and c.type in ("c64", "c128") and c.opcode == "power",
        "the angle of a large power is the last digits of a product",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.type in ("c64", "c128") and c.opcode in ("cosine", "divide", "sine"),
        "parts next to overflow, and products of subnormals with infinities, which XLA:CPU takes for NaN",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.opcode == "popcnt" and c.type in ("s2", "s4"),
        "XLA:CPU counts the copies of the sign in the byte, too",
    ),
    (
        lambda c, o: o.kind == "refused by XLA alone" and c.opcode == "topk" and c.type in _SUB_BYTE,
        "XLA:CPU packs the positions, of 32 bits, as it does the values",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.type == "f4e2m1fn" and c.opcode == "convert",
        "XLA:CPU takes 6, the largest number, for infinite where it becomes an integer",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.type == "f4e2m1fn" and c.opcode == "cholesky",
        "f4e2m1fn has no NaN",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.opcode in _ROUNDED_EACH and c.type == "f16",
        "XLA:CPU rounds each step to f16",
    ),
    (
        lambda c, o: (
            o.kind == "unlike XLA" and c.opcode == "convert" and c.type in ("f64", "c128") and c.variant == "f16"
        ),
        "XLA:CPU rounds twice, to f32 and then to f16, on machines without AVX512-FP16",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.opcode == "log-plus-one" and c.type == "f64",
        "80 units in the last place around -0.4, in XLA:CPU's polynomial",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.type in ("c64", "c128") and c.opcode in ("exponential", "sqrt"),
        "jaxlib expands them on the way from StableHLO to HLO: e^(x/2)^2 where e^x overflows, no sign of a zero next to a negative number",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.type in ("c64", "c128") and c.opcode == "atan2",
        "a logarithm on the negative axis, where the sign of a zero decides, and of a number next to 1",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.opcode == "log-plus-one" and c.type in ("c64", "c128"),
        "the logarithm of a subnormal, which XLA:CPU takes for zero",
    ),
    (
        lambda c, o: o.kind == "unlike XLA" and c.opcode == "stochastic-convert" and c.type.startswith("f8"),
        "2^bits overflows the type: XLA:CPU rounds every fraction up, or none",
    ),
    (lambda c, o: o.kind == "unlike XLA" and c.type == "f8e8m0fnu", _NO_ZERO),
    (
        lambda c, o: o.kind == "unlike the evaluator" and c.type == "f8e8m0fnu" and c.opcode == "stochastic-convert",
        _NO_ZERO,
    ),
)


def _ours(case: Case) -> list[Array] | str | Outcome:
    """Return the results of compiled code if the evaluator agrees; the error if both reject it."""
    import xlanb
    from xlanb.errors import InternalError, XlanbError
    from xlanb.explorer.numbers import leaves_of

    try:
        xlanb.hlo.parse(case.text).verify()
    except XlanbError as error:
        return _first_line(error)
    found: list[list[Array] | str] = []
    for run in (lambda: xlanb.compile(case.text)(*case.arrays), lambda: xlanb.evaluate(case.text, *case.arrays)):
        try:
            found.append([np.asarray(x) for x in leaves_of(run())])
        except InternalError as error:
            return Outcome("internal error", str(error)[:200])
        except XlanbError as error:
            found.append(_first_line(error))
    compiled, evaluated = found
    if isinstance(compiled, str):
        return compiled  # the evaluator may know more
    if isinstance(evaluated, str):
        return Outcome("refused by the evaluator alone", evaluated)
    different = _different(case, compiled, evaluated)
    return Outcome("unlike the evaluator", different) if different else compiled


def _theirs(case: Case) -> list[Array] | str:
    from xlanb.peers import xla

    try:
        return xla.RealExecutable(case.text)(*case.arrays)
    except Exception as error:  # noqa: BLE001 - the extension raises its own kinds
        return _first_line(error)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _different(case: Case, got: list[Array], want: list[Array], *, flushed: bool = False) -> str:
    """Return the first elements that differ by more than rounding, or "".

    With `flushed`, subnormals are zeros in the wanted values, as XLA:CPU runs.
    """
    if [(g.dtype, g.shape) for g in got] != [(w.dtype, w.shape) for w in want]:
        return f"{[(str(g.dtype), g.shape) for g in got]} for {[(str(w.dtype), w.shape) for w in want]}"
    for g, w in zip(got, want, strict=True):
        alike = same(g, w) | _near(case, g, w)
        wrong = np.flatnonzero(~(alike | _flushed(g, w) if flushed else alike))
        if wrong.size:
            shown = [(*_sources(case, g, int(k)), g.ravel()[k], w.ravel()[k]) for k in wrong[:4]]
            text = "; ".join(f"({', '.join(map(str, s))}) {x} for {y}" for *s, x, y in shown)
            return f"{wrong.size} of {g.size}: {text}"
    return ""


def _sources(case: Case, result: Array, at: int) -> list[Any]:
    """The elements of the arguments at the same place, where all have the result's shape."""
    return [a.ravel()[at] for a in case.arrays] if all(a.shape == result.shape for a in case.arrays) else []


@np.errstate(all="ignore")
def _near(case: Case, got: Array, want: Array) -> Any:
    """Which finite elements differ by no more than the opcode's rounding."""
    t = next(BY_TEXT[n] for n in NUMERIC if BY_TEXT[n].dtype == got.dtype)
    if t.is_integral or t.text == "pred":
        return np.zeros(got.shape, np.bool_)
    is_rounded = case.opcode in _ROUNDED or (case.opcode in _COMPLEX and case.type in ("c64", "c128"))
    units = (_UNITS_COMPLEX if t.is_complex else _UNITS) if is_rounded else 0
    wide: Any = np.complex128 if t.is_complex else np.float64
    facts = ml_dtypes.finfo(np.zeros((), got.dtype).real.dtype if t.is_complex else got.dtype)
    if not t.is_complex and t.bits < 32:
        units = _UNITS_NARROW if units else 0
    x, y = got.astype(wide), want.astype(wide)
    limit = units * float(facts.eps) * np.maximum(np.abs(x), float(facts.smallest_normal))
    if t.is_complex and case.opcode == "atan2":  # the logarithm of what is next to 1 keeps an error of 1
        limit = np.maximum(limit, float(facts.eps))
    return np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= limit)


@np.errstate(all="ignore")
def _flushed(got: Array, want: Array) -> Any:
    """Return which elements are subnormal in the computing type, and zero where wanted.

    For f8e8m0fnu, which has no zero, NaN is wanted.
    """
    if np.iscomplexobj(got):
        return (same(got.real, want.real) | _flushed(got.real, want.real)) & (
            same(got.imag, want.imag) | _flushed(got.imag, want.imag)
        )
    if not is_float(got):
        return np.zeros(got.shape, np.bool_)
    tiny = np.finfo(got.dtype if got.dtype == np.float64 else np.float32).tiny
    nothing = (
        want.astype(np.float64) == 0 if got.dtype != BY_TEXT["f8e8m0fnu"].dtype else np.isnan(want.astype(np.float64))
    )
    return nothing & (np.abs(got.astype(np.float64)) < tiny)


# -- runs ------------------------------------------------------------------------------------------


def _work(pipe: Any, wanted: list[Case], first: int) -> None:
    """Send the number of each case before it is tried, then how it went."""
    for number in range(first, len(wanted)):
        pipe.send((number, judge(wanted[number], lambda who, number=number: pipe.send((number, who)))))
    pipe.send(None)


def outcomes(wanted: list[Case]) -> Iterator[tuple[Case, Outcome]]:
    """Every case and how it went; where a process ends, another goes on behind the case."""
    context = multiprocessing.get_context("spawn")
    at, who = -1, ""
    while at + 1 < len(wanted):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, wanted, at + 1))
        process.start()
        theirs.close()
        try:
            while (said := ours.recv()) is not None:
                at, outcome = said
                if isinstance(outcome, Outcome):
                    yield wanted[at], outcome
                else:
                    who = outcome
            at = len(wanted)
        except EOFError:
            process.join()
            yield wanted[at], Outcome(f"{who} died", f"exit code {process.exitcode}")
        finally:
            process.join()


def main() -> int:
    """Run the cases asked for; the exit code says whether all are right."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", default="", help=f"opcodes, by commas (default: all {len(MAKERS)})")
    parser.add_argument("--types", default="", help="element types, by commas (default: all)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--list", type=Path, help="write every find there")
    options = parser.parse_args()
    only, types = (set(filter(None, o.split(","))) for o in (options.only, options.types))
    rng = np.random.default_rng(options.seed)
    wanted = [
        c
        for c in cases()
        if (not only or c.opcode in only) and (not types or c.type in types) and rng.random() < options.share
    ]
    counts: collections.Counter[str] = collections.Counter()
    lines = []
    for case, outcome in outcomes(wanted):
        why = "" if outcome.kind in RIGHT else explained(case, outcome)
        counts["explained" if why else outcome.kind] += 1
        if outcome.kind not in RIGHT and not why:
            lines.append(f"{outcome.kind}: {case.name}: {outcome.detail}")
            sys.stdout.write(lines[-1] + "\n")
            sys.stdout.flush()
    sys.stdout.write("".join(f"{n:6} {kind}\n" for kind, n in counts.most_common()))
    if options.list:
        options.list.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
