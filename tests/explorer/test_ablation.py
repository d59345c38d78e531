"""Ablation: what the program costs without each pass."""

from __future__ import annotations

import pytest

from xlanb.errors import XlanbError
from xlanb.explorer.ablation import ablate

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
        """What Dask's client does, here at once."""

        def map(self, work, jobs, pure):  # type: ignore[no-untyped-def]
            assert not pure
            return [work(j) for j in jobs]

        def gather(self, futures):  # type: ignore[no-untyped-def]
            return futures

    assert len(ablate(PROGRAM, passes=["fusion"], runs=1, client=Client()).table) == 2


def test_what_does_not_compile_is_an_error() -> None:
    with pytest.raises(XlanbError, match="m does not compile"):
        ablate('HloModule m\nENTRY e { ROOT c = f32[2]{0} custom-call(), custom_call_target="nobody" }', passes=[])
