"""The scaffold of a pass: it writes a working pass."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from tests.transforms.new_pass import GOLDEN, ROOT
from xlanb.evaluator import evaluate
from xlanb.hlo import parse


def new_pass(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.transforms.new_pass", *words, "--root", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_pass_that_is_written_works_and_is_not_written_twice(tmp_path: Path) -> None:
    (tmp_path / "xlanb/transforms/simplifiers").mkdir(parents=True)
    made = new_pass(tmp_path, "scaffold-demo")
    assert made.returncode == 0, made.stderr
    code = tmp_path / "xlanb/transforms/simplifiers/scaffold_demo.py"
    spec = importlib.util.spec_from_file_location("scaffold_demo", code)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["scaffold_demo"] = loaded
    spec.loader.exec_module(loaded)
    module = parse(GOLDEN)
    assert loaded.ScaffoldDemo().run(module).changed
    x = [0.5] * 8
    assert (evaluate(module, x) == evaluate(parse(GOLDEN), x)).all()
    golden = tmp_path / "tests/transforms/goldens/scaffold-demo/example.hlo"
    assert golden.read_text() == GOLDEN
    assert "already" in new_pass(tmp_path, "scaffold-demo").stderr


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "expected small letters" in new_pass(tmp_path, "../up").stderr
    assert "no such folder" in new_pass(tmp_path, "fine", "--folder=nowhere").stderr
