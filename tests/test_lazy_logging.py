"""Loggers that import `logging` at their first use."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from xlanb import lazy_logging
from xlanb.lazy_logging import logger


def test_a_logger_does_what_that_of_logging_does(caplog: pytest.LogCaptureFixture) -> None:
    made = logger("xlanb.test")
    with caplog.at_level(logging.INFO, "xlanb.test"):
        made.info("%d of %d", 1, 2)
        made.debug("unseen")
    assert caplog.messages == ["1 of 2"]
    assert made.name == "xlanb.test"
    assert not made.isEnabledFor(logging.DEBUG)
    assert repr(made) == "logger('xlanb.test')"
    with pytest.raises(AttributeError, match="infos"):
        made.infos("x")


def test_a_logger_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = logger("xlanb.test")
    assert not made.isEnabledFor(logging.DEBUG)
    monkeypatch.setattr(lazy_logging, "import_module", None)
    assert not made.isEnabledFor(logging.DEBUG)
    assert made.isEnabledFor(logging.ERROR)


def test_it_does_not_import_logging() -> None:
    code = "import sys, xlanb.lazy_logging as l\nl.logger('x')\nprint('logging' in sys.modules)"
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
