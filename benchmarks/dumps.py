"""Dump directories: the time to open, step and export them, and the size of a page.

Rows: a directory of 10,000 small files; a program of some 2,000 instructions through 40 dumps
(written by xlanb itself); one of 40,000 instructions through 12. `first_step_s` is the time to the
first module read, `page_s` and `page_kb` are for the exported step view, `rss_mb` is the process
after it (each row in its own process).
"""

from __future__ import annotations

import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

import xlanb

_CASES = ("10,000 files", "2,000 instructions, 40 dumps", "40,000 instructions, 12 dumps")


def table() -> pd.DataFrame:
    """One row per directory."""
    rows = []
    for case in _CASES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(_measured, case).result())
    return pd.DataFrame(rows)


def _measured(case: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        {_CASES[0]: _many, _CASES[1]: _middle, _CASES[2]: _large}[case](directory)
        files = list(directory.iterdir())
        size = sum(f.stat().st_size for f in files)
        begin = time.perf_counter()
        dump = xlanb.read_dump(directory)
        opened = time.perf_counter()
        text = str(dump)
        listed = time.perf_counter()
        trace = dump[0]
        steps = [s for s in trace if s.kind == "hlo_pass"]
        _ = steps[0].after
        stepped = time.perf_counter()
        page = directory / "page.html"
        trace.to_html(str(page))
        exported = time.perf_counter()
        return {
            "directory": case,
            "files": len(files),
            "mb": round(size / 1e6, 1),
            "open_s": round(opened - begin, 3),
            "list_s": round(listed - opened, 3) if text else 0.0,
            "first_step_s": round(stepped - listed, 3),
            "page_s": round(exported - stepped, 2),
            "page_kb": round(page.stat().st_size / 1e3),
            "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        }


def program(instructions: int, name: str = "jit_step") -> str:
    """Return HLO of a number of instructions: a chain of layers, some of which a pass can
    simplify.
    """
    lines = [
        "  n0 = f32[64,64]{1,0} parameter(0)",
        "  zero = f32[] constant(0)",
        "  zeros = f32[64,64]{1,0} broadcast(zero), dimensions={}",
    ]
    last = "n0"
    for k in range(1, instructions - 4):
        kind = ("tanh({})", "add({}, zeros)", "multiply({}, n0)", "negate({})", "exponential({})")[k % 5].format(last)
        last = f"n{k}"
        lines.append(f'  {last} = f32[64,64]{{1,0}} {kind}, metadata={{op_name="jit(step)/layer{k // 20}/op{k}"}}')
    lines.append(f"  ROOT root = f32[64,64]{{1,0}} copy({last})")
    return f"HloModule {name}\n\nENTRY main {{\n" + "\n".join(lines) + "\n}\n"


def _many(directory: Path) -> None:
    text = program(40)
    for module in range(250):
        for step in range(39):
            name = f"module_{module:04d}.jit_f{module}.{step:04d}.simplification.after_p{step}.before_p{step + 1}.txt"
            (directory / name).write_text(text if step % 2 else text.replace("layer0", f"step{step}"))
        (directory / f"module_{module:04d}.jit_f{module}.before_optimizations.txt").write_text(text)


def _dumps(directory: Path, instructions: int, dumps: int) -> None:
    """Dumps of a program that loses an instruction with each pass."""
    for step in range(dumps):
        text = program(instructions - step)
        name = f"module_0001.jit_step.{step:04d}.simplification.after_p{step}.before_p{step + 1}.txt"
        (directory / name).write_text(text)


def _middle(directory: Path) -> None:
    _dumps(directory, 2000, 40)


def _large(directory: Path) -> None:
    _dumps(directory, 40_000, 12)
