"""What is said of the passes of the two pipelines."""

from xlanb.cpu import pipeline
from xlanb.cpu.pipelines import ADDED, LEFT_OUT, NOT_IN_XLA_CPU
from xlanb.transforms import PASSES


def _passes(name: str) -> set[str]:
    return set(pipeline(name).names) & set(PASSES)


def test_each_difference_of_the_pipelines_has_a_reason() -> None:
    assert _passes("xla") - _passes("default") == LEFT_OUT.keys()
    assert _passes("default") - _passes("xla") == ADDED.keys()
    ours = {n for n, p in PASSES.items() if p.__module__.startswith("xlanb.")}  # other tests make passes of their own
    assert ours - _passes("xla") - _passes("default") == NOT_IN_XLA_CPU.keys()
    assert all((LEFT_OUT | ADDED | NOT_IN_XLA_CPU).values())


def test_algsimp_after_layouts_keeps_them() -> None:
    for name in ("default", "xla"):
        assert "algsimp{is_layout_sensitive=True}" in str(pipeline(name))
