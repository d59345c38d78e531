"""A few rounds of the campaign of interrupts, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_nothing_goes_wrong_after_interrupts():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.interrupts", "--count", "40", "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "interrupted: compile" in done.stdout
    assert not done.stderr
