"""Reproducers: a separate process runs each file, and reports the fault only if it exists."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError
from xlanb.evaluator import evaluate
from xlanb.explorer import failing
from xlanb.explorer.reproducer import Reproducer, reproducer
from xlanb.explorer.source_text import UNPACKED, arrays_source, function_source
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.reducer import reduction
from xlanb.transforms import HloPass

TEXT = """HloModule m

ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  a = f32[4,8] add(x, y)
  t = f32[4,8] tanh(a)
  b = f32[4,8] multiply(t, y)
  ROOT r = f32[4,8] negate(b)
}
"""


def has_tanh(module: HloModule) -> bool:
    """Whether the program has a tanh."""
    return any(i.opcode is HloOpcode.TANH for i in module.instructions())


@dataclass(frozen=True)
class NoTanh(HloPass):
    """Replace tanh by its operand: x = tanh(y) => x = y."""

    name = "no-tanh"

    def apply(self, module: HloModule) -> None:
        for i in list(module.instructions()):
            if i.opcode is HloOpcode.TANH:
                i.parent.replace(i, i.operands[0])


@dataclass(frozen=True)
class Refuses(HloPass):
    """Raise if there is a tanh."""

    name = "refuses"

    def apply(self, module: HloModule) -> None:
        if any(i.opcode is HloOpcode.TANH for i in module.instructions()):
            raise xlanb.errors.PassError("no tanh, please")


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the file as its recipient would."""
    path = folder / "fault.py"
    path.write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=300,
        check=False,
    )


def without_tanh(module: HloModule, arrays: Sequence[Any]) -> Any:
    """A compiler that replaces tanh by its operand."""
    copy = module.clone()
    NoTanh().run(copy)
    return evaluate(copy, *arrays)


def test_a_function_of_the_users_own_is_in_the_file(tmp_path: Path) -> None:
    small = reduction(TEXT, has_tanh)
    made = small.reproducer()
    assert made.needs == ("xlanb",)
    seen = run(made.text, tmp_path)
    assert seen.returncode == 1, seen.stderr
    assert "Whether the program has a tanh" in seen.stderr
    gone = run(made.text.replace("tanh(%", "abs(%"), tmp_path)
    assert (gone.returncode, "the fault is gone" in gone.stdout) == (0, True), gone.stderr


def test_a_wrong_result_is_shown_beside_the_expected_one(tmp_path: Path) -> None:
    wrong = failing.Way("a compiler without tanh", without_tanh, "without_tanh(module, arrays)")
    small = reduction(TEXT, failing.differs(wrong, failing.interpreted), *[np.full((4, 8), 0.7, np.float32)] * 2)
    made = small.reproducer()
    assert "a compiler without tanh and xlanb's interpreter give different results" in made.title
    assert "expected: [[0.8" in made.text
    # The file names what computed it, which is not part of xlanb: insert the fault, and remove it.
    fault = "import numpy\n\ndef without_tanh(module, arrays):\n    return arrays[0]\n"
    right = "def without_tanh(module, arrays):\n    return xlanb.evaluate(module, *arrays)\n"
    assert run(made.text.replace("seen = ", fault + "\nseen = "), tmp_path).returncode == 1
    assert run(made.text.replace("seen = ", right + "\nseen = "), tmp_path).returncode == 0


def test_compiled_code_of_ours_is_run_under_its_flags(tmp_path: Path) -> None:
    way = failing.without("fusion")
    wrong = failing.Way(way.name, without_tanh, way.code, way.flags)
    made = reproducer(TEXT, failing.differs(wrong, failing.interpreted))
    assert "with xlanb.flags('--xla_disable_hlo_passes=fusion'):" in made.text
    seen = run(made.text, tmp_path)
    assert (seen.returncode, "the fault is gone" in seen.stdout) == (0, True), seen.stderr  # ours has the tanh


def test_large_arrays_are_packed_and_come_back(tmp_path: Path) -> None:
    wide = TEXT.replace("4,8", "64,128")
    x = np.random.default_rng(0).standard_normal((64, 128), np.float32)
    wrong = failing.Way("a compiler without tanh", without_tanh, "[-numpy.tanh(arrays[0] + arrays[1]) * arrays[1]]")
    made = reproducer(wide, failing.differs(wrong, failing.interpreted), x, x)
    assert "unpacked(" in made.text
    seen = run(made.text.replace("seen = ", "import numpy\nseen = "), tmp_path)
    assert (seen.returncode, "the fault is gone" in seen.stdout) == (0, True), seen.stderr


def test_a_pass_that_moves_the_numbers(tmp_path: Path) -> None:
    made = reproducer(TEXT, failing.ChangesResult(NoTanh()))
    assert "class NoTanh(HloPass)" in made.text
    seen = run(made.text, tmp_path)
    assert seen.returncode == 1
    assert "Not equal to tolerance" in seen.stderr
    gone = run(made.text.replace("i.parent.replace(i, i.operands[0])", "pass"), tmp_path)
    assert gone.returncode == 0, gone.stderr


def test_code_that_moves_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file runs xlanb's compiled code, which is right: only this process has the fault."""
    wrong = failing.Way("xlanb's code", lambda m, arrays: -evaluate(m, *arrays), "xlanb.compile(module)(*arrays)")
    monkeypatch.setattr("xlanb.explorer.reproducer.compiled", wrong)
    trace = xlanb.trace(TEXT)
    trace.program = xlanb.trace(TEXT.replace("tanh", "sine")).program
    found = trace.bisect()
    assert found.code is not None
    made = found.reproducer(seconds=5)
    assert "xlanb's code and xlanb's interpreter give different results" in made.title
    assert run(made.text, tmp_path).returncode == 0


def test_what_moves_nothing_has_no_reproducer() -> None:
    with pytest.raises(ArgumentError, match="no stage changed the result"):
        xlanb.trace(TEXT).bisect().reproducer()


def test_a_pass_that_raises(tmp_path: Path) -> None:
    made = reproducer(TEXT, failing.raises(Refuses()))
    assert "no tanh, please" in made.text
    seen = run(made.text, tmp_path)
    assert (seen.returncode, "PassError" in seen.stderr) == (1, True)


def test_a_process_that_dies_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        failing, "_RUN_OURS", "import os, sys\nprint('Check failed: a == b', file=sys.stderr, flush=True)\nos.abort()"
    )
    made = reproducer(TEXT, failing.dies(real=False))
    assert "Check failed: a == b" in made.text
    assert "xlanb.compile(xlanb.hlo.parse(HLO))(*ARRAYS)" in made.text
    assert not failing.dies(real=False, message="c == d")(parse(TEXT))


def test_what_does_not_fail_has_no_reproducer() -> None:
    with pytest.raises(ArgumentError, match="does not hold"):
        reproducer(TEXT.replace("tanh(", "abs("), has_tanh)
    with pytest.raises(ArgumentError, match="does not hold"):
        reproducer(TEXT, failing.differs(failing.compiled, failing.interpreted))
    with pytest.raises(ArgumentError, match="does not hold"):
        reproducer(TEXT.replace("tanh(", "abs("), failing.raises(Refuses()))
    with pytest.raises(ArgumentError, match="give a Way"):
        reproducer(TEXT, failing.differs(without_tanh, failing.interpreted))


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot write the reproducer"):
        Reproducer("a fault", "", ("xlanb",)).write(tmp_path / "nowhere" / "fault.py")


VALUES = [
    np.float32(0.1),
    np.array([1.5, -0.0, np.nan, np.inf, -np.inf, 1e-45], np.float32),
    np.array([[1 + 2j, complex(np.nan, np.inf)]], np.complex64),
    np.arange(-4, 4).astype(ml_dtypes.int4),
    np.array([0.1, 3e38, -0.0], ml_dtypes.bfloat16),
    np.array([0.1, 440, -0.0], ml_dtypes.float8_e4m3fn),
    np.array([[True, False]]),
    np.zeros((0, 3), np.int16),
    np.zeros((100, 100), np.float64),
    np.random.default_rng(0).standard_normal((7, 31)),
    np.uint64(2**64 - 1),
    (np.int8(3), (np.arange(3), np.full((2, 2), -0.0))),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: str(getattr(v, "dtype", "tuple")))
def test_arrays_come_back_bit_for_bit(value: Any) -> None:
    scope: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes, "nan": float("nan")}
    text = f"import base64, zlib\n{UNPACKED}\nARRAYS = {arrays_source([value])}"
    exec(text, scope)  # noqa: S102 - our own text

    def same(a: Any, b: Any) -> None:
        if isinstance(a, tuple):
            assert isinstance(b, tuple)
            for x, y in zip(a, b, strict=True):
                same(x, y)
            return
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())

    same(value, scope["ARRAYS"][0])


def test_what_a_function_uses_is_named_where_it_cannot_be_written() -> None:
    shared = object()

    def uses_it(module: HloModule) -> bool:
        return module is shared

    with pytest.raises(ArgumentError, match="it uses shared, a object"):
        function_source(uses_it)
    with pytest.raises(ArgumentError, match="not a named function"):
        function_source(lambda module: module is None)
