"""A cell with differing numbers shows the guilty rule, and a button saves a reproducer."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

CELL = """%load_ext xlanb
import numpy as np
import jax.numpy as jnp

x = np.array([0.5, 1.25, 3.0, -7.0], np.float32)

def near(x):
    y = (x + 1e8) - 1e8
    return jnp.tanh(y) * x, jnp.cos(y)
"""


@pytest.mark.parametrize("magic", ["--check", "--bisect"])
def test_numbers_that_differ_have_a_rule_and_a_file(lab, tmp_path: Path, magic: str) -> None:
    pytest.importorskip("jax")
    lab.open(lab.write(f"differs{magic}.ipynb", CELL, f"%%xla_jit -q {magic}\nnear(x)"))
    with pytest.raises(AssertionError, match="DIFFERS") if magic == "--check" else nullcontext():
        lab.run_all()  # a check that fails is an error of the cell, below what it shows
    page = lab.page
    page.get_by_text("algsimp (stage").first.wait_for()
    shown = page.locator(".jp-OutputArea").last.inner_text()
    assert "(A + C1) + C2 => A + (C1 + C2)" in shown
    assert "the rule keeps: real numbers only" in shown
    lab.screenshot(f"differs{magic}")
    with page.expect_download() as saving:
        page.get_by_text("Save reproducer").first.click()
    path = tmp_path / saving.value.suggested_filename
    saving.value.save_as(path)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "Not equal to tolerance" in done.stderr) == (1, True), done.stderr
