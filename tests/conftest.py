"""What every test shares: a clean environment, seeded numbers, golden files, no silent skips."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# Timing belongs to benchmarks, so no deadline: a first example compiles code. The default draws
# the same examples on every run; HYPOTHESIS_PROFILE=explore draws new ones, and more of them.
hypothesis.settings.register_profile("default-xlanb", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default-xlanb"))

# A shell ignores SIGINT in background jobs, and Python inherits that: tests that interrupt
# themselves would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xlanb")
    group.addoption(
        "--update-goldens",
        action="store_true",
        help="write golden files instead of comparing with them; then read the diff",
    )
    group.addoption(
        "--fail-on-skip",
        action="store_true",
        help="a skipped test is a failure: for a run whose tests were asked for by name",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if skipped and item.config.getoption("--fail-on-skip"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {skip_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    if report.skipped and collector.config.getoption("--fail-on-skip"):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} was skipped: {skip_reason(report)}"
    return report


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """A skip's longrepr is (path, line, reason)."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


@pytest.fixture(autouse=True)
def no_flags_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear XLA's flags of the user's shell."""
    for name in ("XLA_FLAGS", "TF_XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_code_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the code cache: tests compile what they test, and leave nothing in the user's
    folder.
    """
    monkeypatch.setenv("XLANB_CACHE_DIR", "")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """golden(path, text): the file holds exactly this text; --update-goldens writes it."""
    update = request.config.getoption("--update-goldens")

    def compare(path: Path, text: str) -> None:
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing: run once with --update-goldens, then read it"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """Make a fresh IPython shell with xlanb's magics, and restore the module `__main__`
    afterwards.
    """
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "xlanb")
    yield made
    # It collects garbage, which takes longer than most tests that use a shell.
    monkeypatch.setattr(made.displayhook, "flush", lambda: None)
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)
    InteractiveShell.clear_instance()
