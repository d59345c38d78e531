"""Ablation: the cost of the program without each pass."""

from __future__ import annotations

import time

import pytest

from xlanb.debug_options import current
from xlanb.errors import XlanbError
from xlanb.explorer.ablation import _joined, ablate
from xlanb.runtime.compiler import compiled

PROGRAM = """HloModule m

ENTRY main {
  x = f32[64]{0} parameter(0)
  zero = f32[] constant(0)
  zeros = f32[64]{0} broadcast(zero), dimensions={}
  a = f32[64]{0} add(x, zeros)
  e = f32[64]{0} exponential(a)
  t = f32[64]{0} tanh(e)
  ROOT s = f32[64]{0} sine(t)
}
"""


def test_without_fusion_there_are_more_kernels() -> None:
    found = ablate(PROGRAM, runs=1)
    assert found.table["without"].tolist()[0] == ""
    rows = found.table.set_index("without")
    assert set(rows.index) >= {"", "algsimp", "fusion"}
    assert rows.loc["fusion", "kernels"] > rows.loc["", "kernels"]
    assert rows.loc["algsimp", "instructions"] > rows.loc["", "instructions"]
    assert found.relative.loc["fusion", "kernels"] == 3.0
    assert (rows["run_us"] > 0).all()


def test_the_figure_has_a_bar_for_each_pass() -> None:
    figure = ablate(PROGRAM, passes=["fusion", "dce"], runs=1).plot()
    assert set(figure.data[0].y) == {"fusion", "dce"}


def test_a_client_spreads_the_work() -> None:
    class Client:
        """Dask's client, executing immediately."""

        def map(self, work, jobs, pure):  # type: ignore[no-untyped-def]
            assert not pure
            return [work(j) for j in jobs]

        def gather(self, futures):  # type: ignore[no-untyped-def]
            return futures

    assert len(ablate(PROGRAM, passes=["fusion"], runs=1, client=Client()).table) == 2


def test_what_does_not_compile_is_an_error() -> None:
    with pytest.raises(XlanbError, match="m does not compile"):
        ablate('HloModule m\nENTRY e { ROOT c = f32[2]{0} custom-call(), custom_call_target="nobody" }', passes=[])


def test_times_of_another_process_are_told_by_its_own_whole_pipeline() -> None:
    def row(name: str, ms: float) -> dict[str, object]:
        return {
            "without": name,
            "instructions": 1,
            "kernels": 1,
            "temp_bytes": 0,
            "compile_ms": ms,
            "run_us": ms,
            "failure": "",
        }

    rows = _joined([[row("", 10.0), row("a", 20.0)], [row("", 40.0), row("b", 60.0)]])
    assert [(r["without"], r["run_us"]) for r in rows] == [("", 10.0), ("a", 20.0), ("b", 15.0)]


def test_the_first_compilation_is_not_the_one_that_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole pipeline comes first and is cold: counted, every pass would look expensive."""
    calls: list[tuple[str, ...]] = []

    def slow_at_first(module: object) -> object:
        calls.append(current().xla_disable_hlo_passes)
        if len(calls) == 1:
            time.sleep(0.5)
        return compiled(module)

    monkeypatch.setattr("xlanb.explorer.ablation.compiled", slow_at_first)
    found = ablate(PROGRAM, passes=["dce"], runs=2)
    assert found.table.loc[0, "compile_ms"] < 400
    assert calls == [(), ("dce",)] * 3
