"""The front end's modules under Node.js, if installed; and their concatenation."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from xlanb.view import assets

HERE = Path(__file__).parent / "front"
MODULES = Path(assets.__file__).parent / "step"
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Copy the modules and their tests, as ES modules."""
    folder = tmp_path_factory.mktemp("front")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for path in (*MODULES.glob("*.js"), *HERE.glob("*.mjs")):
        shutil.copy(path, folder)
    return folder


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_modules_pass_their_own_tests(folder):
    found = subprocess.run([NODE, "--test", folder], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout[-6000:]
    assert int(re.search(r"# pass (\d+)", found.stdout).group(1)) > 20


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_what_is_put_together_is_a_module(folder):
    (folder / "whole.mjs").write_text(assets.esm(), encoding="utf-8")
    asked = "import('./whole.mjs').then(m => console.log(typeof m.default.render))"
    found = subprocess.run([NODE, "-e", asked], capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    assert found.stdout.split() == ["function"], found.stderr


def test_every_module_is_taken_along_and_no_name_twice():
    assert {p.stem for p in MODULES.glob("*.js")} == {*assets._MODULES, *assets._STARTERS, *assets._LOADERS}
    sources = "\n".join((MODULES / f"{name}.js").read_text(encoding="utf-8") for name in assets._MODULES)
    names = re.findall(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", sources, re.MULTILINE)
    assert [n for n, count in Counter(names).items() if count > 1] == []


def test_the_program_is_put_together_without_comments_and_imports():
    program = assets.program()
    assert not re.search(r"^\s*//|^import |^export |/\*\*", program, re.MULTILINE)
    assert len(program) < 451_000


def test_no_file_is_too_long_to_be_read():
    assert [p.name for p in MODULES.glob("*.js") if len(p.read_text(encoding="utf-8").splitlines()) > 500] == []
