"""XLA:GPU's order of passes."""

import pytest

from xlanb import gpu
from xlanb.errors import XlanbError
from xlanb.gpu.devices import gpu_device
from xlanb.gpu.pipelines import _XLA, missing_passes
from xlanb.transforms import PASSES, HloPassFix
from xlanb.transforms.pipeline_table import names_in


def test_a_device_has_the_order_of_its_compiler() -> None:
    names = gpu.pipeline("a100").names
    assert names.index("batched_gather_scatter_normalizer") < names.index("simplification")
    assert names.index("simplification") < names.index("layout-assignment") < names.index("post-fusion_optimization")
    assert str(gpu.pipeline("a100")).startswith("gpu a100_sxm_80\n")


def test_simplification_runs_to_a_fixed_point() -> None:
    optimization = next(p for p in gpu.pipeline("h100").passes if p.name == "optimization")
    assert [p.name for p in optimization.passes if isinstance(p, HloPassFix)] == ["simplification", "simplification-2"]


def test_a_device_is_built_once() -> None:
    assert gpu.pipeline("a100") is gpu.pipeline(gpu_device("a100_sxm_80"))
    assert gpu.pipeline("a100") is not gpu.pipeline("h100")


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(XlanbError, match="a100"):
        gpu.pipeline("a1000")


def test_what_is_missing_is_known() -> None:
    assert not set(missing_passes()) & set(PASSES)
    assert all(name in PASSES or name in missing_passes() for name in names_in(_XLA) if "@" not in name)
