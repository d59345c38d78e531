"""Logs: Python's levels and TensorFlow's verbosity both select lines."""

from __future__ import annotations

import logging

import pytest

from xlanb.debug_options import flags
from xlanb.logs import MODULES_VARIABLE, VLog, verbosity

LOG = VLog("clustering", "mark_for_compilation_pass")


@pytest.fixture(autouse=True)
def python_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "xlanb")


def test_without_a_word_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert not LOG.is_on(1)
    LOG.vlog(1, "a line")
    assert capsys.readouterr().err == ""


def test_python_levels_choose(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "xlanb"):
        LOG.vlog(1, "a line of level %d", 1)
        LOG.vlog(2, "a line of level %d", 2)
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records] == [
        ("xlanb.clustering", logging.INFO, "a line of level 1")
    ]


def test_vmodule_chooses_by_file_and_level(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("xlanb"), "propagate", False)  # pytest listens at the root
    with flags("--vmodule=xla_compiler=2,mark_for_*=2"):
        assert [verbosity(m) for m in ("xla_compiler", "mark_for_compilation_pass", "other")] == [2, 2, 0]
        LOG.vlog(2, "second %s", "level")
        LOG.vlog(3, "third level")
    assert capsys.readouterr().err.endswith("I mark_for_compilation_pass] second level\n")


@pytest.mark.parametrize("variable", ["TF_CPP_MIN_VLOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL"])
def test_the_environment_turns_all_on(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv(MODULES_VARIABLE, "xla_compiler=3")
    assert [verbosity(m) for m in ("xla_compiler", "anything")] == [3, 1]
    assert LOG.is_on(1)
    assert not LOG.is_on(2)
