"""HLO text: speed of parsing, printing and verifying, linearity in size, and a module's memory."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pandas as pd

from xlanb.hlo import HloModule, parse

SIZES = (1_000, 5_000, 20_000, 40_000)
ROUNDS = 3

_BLOCK = """\
  %dot.{n} = f32[64,64]{{1,0}} dot(%x.{p}, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_type="MatMul" op_name="layer{n}/MatMul"}}
  %bias.{n} = f32[64,64]{{1,0}} broadcast(%b), dimensions={{1}}, metadata={{op_type="BiasAdd" op_name="layer{n}/BiasAdd"}}
  %add.{n} = f32[64,64]{{1,0}} add(%dot.{n}, %bias.{n}), metadata={{op_type="BiasAdd" op_name="layer{n}/BiasAdd"}}
  %sum.{n} = f32[64]{{0}} reduce(%add.{n}, %zero), dimensions={{1}}, to_apply=%plus, metadata={{op_type="Mean" op_name="layer{n}/norm/Mean"}}
  %mean.{n} = f32[64,64]{{1,0}} broadcast(%sum.{n}), dimensions={{0}}
  %diff.{n} = f32[64,64]{{1,0}} subtract(%add.{n}, %mean.{n})
  %cut.{n} = f32[32,64]{{1,0}} slice(%diff.{n}), slice={{[0:32], [0:64]}}
  %two.{n} = f32[64,64]{{1,0}} concatenate(%cut.{n}, %cut.{n}), dimensions={{0}}
  %turn.{n} = f32[64,64]{{0,1}} transpose(%two.{n}), dimensions={{1,0}}
  %x.{n} = f32[64,64]{{1,0}} tanh(%turn.{n}), metadata={{op_type="Tanh" op_name="layer{n}/Tanh" source_file="model.py" source_line={n}}}
"""


def network(instructions: int) -> str:
    """A chain of layers as canonical HLO text, of about this many instructions."""
    blocks = max(1, instructions // 10)
    body = "".join(_BLOCK.format(n=n, p=n - 1) for n in range(1, blocks + 1))
    return (
        "HloModule network, entry_computation_layout={(f32[64,64]{1,0}, f32[64,64]{1,0}, "
        "f32[64]{0})->f32[64,64]{1,0}}\n\n"
        "%plus (l: f32[], r: f32[]) -> f32[] {\n  %l = f32[] parameter(0)\n  %r = f32[] parameter(1)\n  ROOT %s "
        "= f32[] add(%l, %r)\n}\n\n"
        "ENTRY %main (x.0: f32[64,64], w: f32[64,64], b: f32[64]) -> f32[64,64] {\n"
        "  %x.0 = f32[64,64]{1,0} parameter(0)\n  %w = f32[64,64]{1,0} parameter(1)\n  %b = f32[64]{0} parameter(2)\n"
        "  %zero = f32[] constant(0)\n" + body + f"  ROOT %end = f32[64,64]{{1,0}} copy(%x.{blocks})\n}}\n"
    )


def median(action: Callable[[], Any]) -> float:
    """Median seconds of a few runs."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _memory(text: str) -> tuple[HloModule, float]:
    """A parsed module, and bytes per instruction that it holds."""
    tracemalloc.start()
    module = parse(text)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return module, held / module.instruction_count


def table() -> pd.DataFrame:
    """Return a row per size: thousands of instructions a second, bytes per instruction.

    If JAX is installed, the real XLA's parser is measured too.
    """
    rows = []
    for size in SIZES:
        text = network(size)
        module, held = _memory(text)
        count = module.instruction_count
        seconds = median(lambda text=text: parse(text))
        row = {
            "instructions": count,
            "MB": len(text) / 1e6,
            "parse k/s": count / seconds / 1e3,
            "print k/s": count / median(lambda text=text: str(parse(text))) / 1e3,
            "verify k/s": count / median(module.verify) / 1e3,
            "bytes each": held,
        }
        if find_spec("jaxlib") is not None:
            real = import_module("jaxlib._hlo")
            row["XLA parses faster by"] = seconds / median(lambda text=text, real=real: real.hlo_module_from_text(text))
        rows.append(row)
    return pd.DataFrame(rows).round(2)
