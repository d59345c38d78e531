"""The backend alone: HLO text compiled to machine code without any passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cpu.narrowed import narrowed
from xlanb.codegen import costs
from xlanb.cpu import CompileOptions, Executable, compile_module, compiler
from xlanb.hlo import HloModule, parse
from xlanb.transforms.pipeline import HloPassPipeline

NO_PASSES = CompileOptions(pipeline=HloPassPipeline("none"))


@pytest.fixture
def backend() -> Callable[[str | HloModule], Executable]:
    """backend(text or module) -> Executable, with an empty pipeline."""
    return lambda source: compile_module(parse(source) if isinstance(source, str) else source, NO_PASSES)


@pytest.fixture
def set_costs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """set_costs(name=value, ...): use these costs on any machine."""

    def change(**changes: float) -> None:
        for name, table in list(costs.FAMILIES.items()):
            monkeypatch.setitem(costs.FAMILIES, name, table.replace(**changes))

    return change


@pytest.fixture(params=[512, 256, 128])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The vector width that the target pretends to have."""
    target = narrowed(request.param, threads=2)
    if target.vector_bits != request.param:
        pytest.skip(f"this machine has no vectors of {request.param} bits")
    monkeypatch.setattr(compiler, "_target", lambda _: target)
    return int(request.param)
