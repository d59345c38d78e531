"""The backend by itself: HLO text straight to machine code, with no pass before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xlanb.cpu import CompileOptions, Executable, compile_module
from xlanb.hlo import HloModule, parse
from xlanb.transforms.pipeline import HloPassPipeline

NO_PASSES = CompileOptions(pipeline=HloPassPipeline("none"))


@pytest.fixture
def backend() -> Callable[[str | HloModule], Executable]:
    """backend(text or module) -> Executable, with an empty pipeline."""
    return lambda source: compile_module(parse(source) if isinstance(source, str) else source, NO_PASSES)
