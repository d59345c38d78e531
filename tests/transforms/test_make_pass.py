"""A pass in the configuration of a target."""

import pytest

from xlanb.errors import UnknownPassError, XlanbError
from xlanb.transforms import make_pass


@pytest.mark.parametrize(
    ("pipeline", "target", "sensitive"),
    [
        ("simplification", "a100", False),
        ("hlo_normalization", "a100", True),
        ("simplification_after_layout_assignment", "cpu", True),
        ("simplification", "cpu", None),
    ],
)
def test_the_pipeline_configures_the_pass(pipeline: str, target: str, sensitive: bool | None) -> None:
    assert make_pass("algsimp", pipeline, target).options.get("is_layout_sensitive") is sensitive


def test_elsewhere_the_first_run_counts() -> None:
    assert make_pass("algsimp", "no such pipeline", "a100") == make_pass("algsimp", target="a100")


def test_passes_of_several_devices_are_found() -> None:
    assert make_pass("shardy-xla", "spmd-partitioner").name == "shardy-xla"


def test_a_pass_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="algsimp") as caught:
        make_pass("algsim")
    assert isinstance(caught.value, UnknownPassError)


def test_a_pass_of_another_target_is_not_there() -> None:
    with pytest.raises(KeyError, match="row-fusion"):
        make_pass("row-fusion", target="a100")


def test_a_target_that_is_not_there_is_refused() -> None:
    with pytest.raises(XlanbError, match="a100"):
        make_pass("algsimp", target="a1000")
