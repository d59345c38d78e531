"""The questions of docs/how-to/agents.md: each command prints the text below it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.test_docs_code import NUMBER, said
from xlanb.cli import main

PAGE = (Path(__file__).parents[2] / "docs/how-to/agents.md").read_text(encoding="utf-8")
PROGRAMS = re.search(r'^```python title="programs.py"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)
SECTIONS = dict(re.findall(r"^### (.*?)\n.*?^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROGRAMS is not None
    (tmp_path / "programs.py").write_text(PROGRAMS[1])
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("question", SECTIONS)
def test_a_command_answers_a_question(
    question: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked in re.split(r"^\$ ", SECTIONS[question], flags=re.MULTILINE)[1:]:
        command, _, answer = asked.partition("\n")
        words = shlex.split(command)
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("=", 1))
        assert words[0] == "xlanb"
        capsys.readouterr()
        status = main(words[1:])
        printed = capsys.readouterr()
        assert status in {0, 1}, printed.err
        assert printed.err.count("xlanb:") == 0
        assert said(answer) <= said(printed.out), printed.out


def test_there_are_twenty() -> None:
    assert len(SECTIONS) == 20
    assert NUMBER.sub("#", "1,024 us") == "# us"
