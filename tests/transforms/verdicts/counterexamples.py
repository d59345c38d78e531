"""Inputs for which a rule of algsimp changes the result, for each loss in its verdict.

`python -m tests.transforms.verdicts.counterexamples` draws them anew, runs each on the real XLA:CPU
(needs JAX) with its own algsimp and without it, and writes `counterexamples.json`, from which
`docs/generate.py` makes a page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.numeric_values import same
from tests.transforms.verdicts.establish import Checker, Counterexample, applied
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES
from xlanb.transforms.rules import Rule

PATH = Path(__file__).with_name("counterexamples.json")
TYPES = ("f32", "c64")
JUDGED = {
    "yes": "its algsimp changes the result in the same way",
    "otherwise": "its algsimp changes the result, but to another number (its exp, pow or complex division differs)",
    "always": "its result is always the number after the rule, even without algsimp",
    "no": "its algsimp does not change the result",
    "refused": "it rejects the module",
}
"""What the real XLA may do with a counterexample."""
WITHOUT = "--xla_disable_hlo_passes=algsimp"
_EFFORT = 1.0

_WRAPS = (
    "HloModule wraps\n\nENTRY e {{\n  {a}\n  k = s8[] constant({k})\n  c = s8[{n}] broadcast(k), dimensions={{}}\n"
    "  ROOT r = {root}\n}}\n"
)
_IOTA = {"a": "a = s8[200] iota(), iota_dimension=0", "n": 200}
_SQUARE = {"a": "x = s8[256] parameter(0)\n  a = s8[256] multiply(x, x)", "n": 256}
_ABS = {"a": "x = s8[256] parameter(0)\n  a = s8[256] abs(x)", "n": 256}
MENDED = {
    "A >= 0 => true for A >= 0, an iota": _WRAPS.format(**_IOTA, k=0, root="pred[200] compare(a, c), direction=GE"),
    "A < 0 => false for A >= 0, an iota": _WRAPS.format(**_IOTA, k=0, root="pred[200] compare(a, c), direction=LT"),
    "A < 0 => false for A >= 0, a square": _WRAPS.format(**_SQUARE, k=0, root="pred[256] compare(a, c), direction=LT"),
    "A < 0 => false for A >= 0, an abs": _WRAPS.format(**_ABS, k=0, root="pred[256] compare(a, c), direction=LT"),
    "A / 2^k => A >> k for A >= 0, an iota": _WRAPS.format(**_IOTA, k=4, root="s8[200] divide(a, c)"),
    "A / 2^k => A >> k for A >= 0, a square": _WRAPS.format(**_SQUARE, k=4, root="s8[256] divide(a, c)"),
    "A / 2^k => A >> k for A >= 0, an abs": _WRAPS.format(**_ABS, k=4, root="s8[256] divide(a, c)"),
    "A % 2^k => A & (2^k - 1) for A >= 0, an iota": _WRAPS.format(**_IOTA, k=4, root="s8[200] remainder(a, c)"),
}
"""Integers that XLA's rules change and ours do not.

XLA treats values as non-negative that wrap around to negative ones (openxla/xla#46628).
"""


def arrays_of(hlo: str) -> list[Any]:
    """All values of s8, for each parameter of a module of `MENDED`."""
    return [np.arange(-128, 128).astype(np.int8)] * hlo.count("parameter(")


def found(rule: Rule) -> list[dict[str, Any]]:
    """Counterexamples to a rule's exactness, one per kind of loss and of number."""
    seen = Checker(rule, effort=_EFFORT).run(TYPES).seen
    return [entry(rule, e) for _, e in sorted(seen.items(), key=lambda k: (k[0][0], k[0][1].value))]


def entry(rule: Rule, e: Counterexample) -> dict[str, Any]:
    """A counterexample as plain data."""
    return {
        "rule": rule.label,
        "loss": e.lost.name,
        "hlo": e.module,
        "arrays": [plain(a) for a in e.arrays],
        "inputs": ", ".join(map(number, e.inputs)),
        "before": number(e.before),
        "after": number(e.after),
    }


def number(value: Any) -> str:
    """A number with as many digits as needed to identify it."""
    return str(value)


def plain(array: Any) -> dict[str, Any]:
    """An array as type, shape and the bits of its elements, which preserve NaN and -0."""
    return {"type": array.dtype.name, "shape": list(array.shape), "bytes": array.tobytes().hex()}


def array(data: dict[str, Any]) -> Any:
    """The array that `plain` wrote."""
    return np.frombuffer(bytes.fromhex(data["bytes"]), np.dtype(data["type"])).reshape(data["shape"])


def rewritten(data: dict[str, Any]) -> tuple[Any, Any]:
    """The results of an entry's module before and after its rule, by the reference interpreter.

    Raises:
        AssertionError: the rule does not fire on it.
    """
    rule = next(r for r in RULES.rules if r.label == data["rule"])
    arrays = [array(a) for a in data["arrays"]]
    for is_layout_sensitive in (False, True):
        pair = applied(rule, parse(data["hlo"]), is_layout_sensitive=is_layout_sensitive)
        if pair is not None:
            x, y = (np.asarray(leaf(evaluate(m, *arrays))) for m in pair)
            return x, y
    raise AssertionError(f"{rule.label} does not fire")


def leaf(value: Any) -> Any:
    """The first array of a result."""
    return leaf(value[0]) if isinstance(value, tuple) else value


def by_real_xla(entries: list[dict[str, Any]], flags: str = "") -> list[Any]:
    """The real XLA:CPU's results for each entry: arrays, or a message if it rejects the module.

    It runs in a separate process, with the given flags.
    """
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            __name__ if __name__ != "__main__" else "tests.transforms.verdicts.counterexamples",
            "run",
        ],
        input=json.dumps(entries),
        env=os.environ | {"XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [array(r) if isinstance(r, dict) else r for r in json.loads(ran.stdout)]


def _run() -> None:
    from xlanb.peers.xla import RealExecutable

    results: list[Any] = []
    for e in json.load(sys.stdin):
        try:
            results.append(plain(RealExecutable(e["hlo"])(*map(array, e["arrays"]))[0]))
        except Exception as error:  # noqa: BLE001 - whatever the extension raises is the answer
            results.append(f"refused: {str(error)[:200]}")
    json.dump(results, sys.stdout)


def judged(e: dict[str, Any], real: Any, without: Any) -> str:
    """What the real XLA:CPU does with an entry, one of `JUDGED`."""
    if isinstance(real, str) or isinstance(without, str):
        return "refused"
    _, after = rewritten(e)
    has_after, had_after = (same(r.ravel(), after.ravel()).all() for r in (real, without))
    if same(real.ravel(), without.ravel()).all():
        return "always" if has_after else "no"
    return "yes" if has_after and not had_after else "otherwise"


def first_difference(e: dict[str, Any], real: Any, without: Any) -> tuple[str, str]:
    """The first differing element in the real results, with algsimp and without it.

    Its position is where the entry's own results first differ.
    """
    if isinstance(real, str) or isinstance(without, str):
        return "", ""
    before, after = rewritten(e)
    place = int(np.flatnonzero(~same(before.ravel(), after.ravel()))[0])
    return number(real.ravel()[place]), number(without.ravel()[place])


def main() -> None:
    """Draw them, run them on the real XLA, write them."""
    if sys.argv[1:] == ["run"]:
        _run()
        return
    import jax

    entries = [e for r in RULES.rules if not r.keeps.is_exact for e in found(r)]
    with_, without = by_real_xla(entries), by_real_xla(entries, WITHOUT)
    for e, x, y in zip(entries, with_, without, strict=True):
        e["real"] = judged(e, x, y)
        e["real with"], e["real without"] = first_difference(e, x, y)
    mended = [{"rule": r, "hlo": hlo, "arrays": list(map(plain, arrays_of(hlo)))} for r, hlo in MENDED.items()]
    for m, x, y in zip(mended, by_real_xla(mended), by_real_xla(mended, WITHOUT), strict=True):
        right = evaluate(parse(m["hlo"]), *arrays_of(m["hlo"]))
        m["wrong"], m["wrong without"] = (f"{(r != right).sum()} of {r.size}" for r in (x, y))
    PATH.write_text(
        json.dumps({"jax": jax.__version__, "words": JUDGED, "entries": entries, "mended": mended}, indent=1) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
