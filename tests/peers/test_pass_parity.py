"""Our passes against those of the installed XLA:CPU: their order, and their effect on JAX's
modules.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.peers.make_triples import PROGRAMS, triples
from tests.peers.pass_parity import parity
from xlanb.cpu.pipelines import pipeline
from xlanb.dump.names import DumpName, decode_name
from xlanb.peers.versions import installed

pytest.importorskip("jax")
pytestmark = pytest.mark.peer

NOT_HERE = frozenset(
    ("async-collective-custom-call-rewriter", "embedded-while-loop-unroller", "nullary-function-wrap-inliner")
)
"""Passes of 0.12 that changed nothing in any of PROGRAMS."""


def test_most_passes_do_what_those_of_xla_do() -> None:
    found = triples()
    assert {t.program for t in found} == set(PROGRAMS)
    verdicts = parity(found)
    assert {name for name, row in verdicts.items() if row["missing"]} == set()
    total = sum(verdicts.values(), Counter())
    assert total["same"] / total.total() >= 0.92
    for name in ("dce", "layout-assignment", "shape-canonicalizer", "copy-insertion", "reshape-mover"):
        assert set(verdicts[name]) == {"same"}, name


def _order(folder: Path) -> dict[str, list[str]]:
    """By pipeline: its passes in the order in which they ran first."""
    names = sorted((decode_name(p.name) for p in folder.glob("*jit_add*.txt")), key=lambda name: name.sequence or 0)
    order: dict[str, list[str]] = {}
    for name in names:
        if name.kind == "pass" and name.after != "pipeline-start":
            order.setdefault(name.pipeline, []).append(name.after)
    return {title: _first_round(passes, names, title) for title, passes in order.items()}


def _first_round(passes: list[str], names: list[DumpName], title: str) -> list[str]:
    """What ran until the pipeline began anew, if it did."""
    starts = sum(1 for n in names if n.pipeline == title and n.after == "pipeline-start")
    return passes[: len(passes) // max(starts, 1)]


def test_our_order_is_that_of_the_dumps(tmp_path: Path) -> None:
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=.+ --xla_dump_hlo_as_text"
    code = "import jax\ndef add(x): return x + x\njax.jit(add).lower(jax.ShapeDtypeStruct((8,), 'float32')).compile()"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    theirs = _order(tmp_path)
    ours = pipeline(xla=installed().pipeline)
    for title, names in theirs.items():
        wanted = [n.rstrip("-0123456789") if n.startswith("apply-") else n for n in names if n not in NOT_HERE]
        wanted = [n for n in wanted if n != "after_layout_assignment"]  # a pipeline without passes
        if wanted:
            assert _passes_of(ours, title) == wanted, title


def _passes_of(whole: object, title: str) -> list[str]:
    """Return the names of the passes of a pipeline inside another one."""
    inner = getattr(whole, "inner", whole)
    passes = getattr(inner, "passes", ())
    if inner.name == title:  # type: ignore[attr-defined]
        return [p.name for p in passes]
    return next((found for p in passes if (found := _passes_of(p, title))), [])
