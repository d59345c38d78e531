"""The descriptions of the passes of the two pipelines."""

import pytest

from xlanb import gpu
from xlanb.cpu import pipeline
from xlanb.cpu.pipelines import ADDED, LEFT_OUT, NOT_IN_XLA_CPU, PIPELINES, RELEASES
from xlanb.errors import PassError
from xlanb.transforms import PASSES


def _passes(name: str, partitions: int = 1) -> set[str]:
    return set(pipeline(name, partitions=partitions).names) & set(PASSES)


def test_each_difference_of_the_pipelines_has_a_reason() -> None:
    assert _passes("xla") - _passes("default") == LEFT_OUT.keys()
    assert _passes("default") - _passes("xla") == ADDED.keys()
    ours = {n for n, p in PASSES.items() if p.__module__.startswith("xlanb.")}  # other tests define passes
    run = _passes("xla") | _passes("default") | _passes("xla", partitions=2)
    elsewhere = set(gpu.pipeline("a100").names)
    assert ours - run - elsewhere == NOT_IN_XLA_CPU.keys() - elsewhere
    assert run.isdisjoint(NOT_IN_XLA_CPU)
    assert all((LEFT_OUT | ADDED | NOT_IN_XLA_CPU).values())


def test_algsimp_after_layouts_keeps_them() -> None:
    for name in PIPELINES:
        assert "algsimp{is_layout_sensitive=True" in str(pipeline(name))


def test_a_release_has_its_own_order() -> None:
    older, newer = (pipeline(xla=release).names for release in RELEASES)
    assert older == pipeline("xla").names == pipeline(xla="0.10.2").names
    assert newer == pipeline("xla-0.12").names
    assert set(newer) - set(older) == {"permutation_sort_simplifier", "embedded_scatter_expansion"}
    assert older.index("cse_barrier_expander") < older.index("layout-assignment")
    assert newer.index("cse_barrier_expander") > newer.index("layout-assignment")


@pytest.mark.parametrize(("name", "release"), [("default", "0.9"), ("xla", "default"), ("xla-0.12", "0.10.2")])
def test_an_order_that_is_not_there_is_refused(name: str, release: str) -> None:
    with pytest.raises(PassError, match=r"xla|0\.10\.2, 0\.12"):
        pipeline(name, xla=release)
