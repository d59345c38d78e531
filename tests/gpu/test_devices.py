"""The table of GPUs against the figures of the data sheets."""

from __future__ import annotations

import pytest

from xlanb.errors import XlanbError
from xlanb.gpu.devices import ALIASES, DEVICES, device_of, gpu_device

# Dense tensor-core rates of the data sheets, tera-operations a second.
DATA_SHEETS = [
    ("v100", "f16", 125),
    ("a100", "bf16", 312),
    ("a100", "f64", 19.5),
    ("a100", "s8", 624),
    ("a6000", "f16", 154.8),
    ("h100", "bf16", 989),
    ("h100", "f8e4m3fn", 1979),
    ("h100", "f32", 67),
    ("h200", "bf16", 989),
    ("b200", "f16", 2250),
    ("b200", "f4e2m1fn", 9000),
    ("rtx6000pro", "f16", 503),
    ("mi300x", "f16", 1307),
    ("mi350x", "f16", 2307),
    ("pvc", "bf16", 356),
]


@pytest.mark.parametrize(("device", "dtype", "tera"), DATA_SHEETS)
def test_peak_rates_are_those_of_the_data_sheets(device: str, dtype: str, tera: float) -> None:
    assert gpu_device(device).flops(dtype) == pytest.approx(tera * 1e12, rel=0.02)


def test_a_dtype_without_units_has_no_rate() -> None:
    assert gpu_device("v100").flops("bf16") == 0


@pytest.mark.parametrize("name", ["A100", "a100-sxm-80", " a100_sxm_80 "])
def test_names_are_taken_in_any_spelling(name: str) -> None:
    assert gpu_device(name).name == "NVIDIA A100-SXM4-80GB"


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        XlanbError, match=r"'h1000'; did you mean 'h100', .* or .*; known GPUs: a100, h100, .*rtx6000pro"
    ):
        gpu_device("h1000")


def test_short_names_stand_for_devices() -> None:
    assert set(ALIASES.values()) <= DEVICES.keys()
    assert not ALIASES.keys() & DEVICES.keys()


def test_a_device_is_found_by_its_description() -> None:
    assert device_of("NVIDIA H100 80GB HBM3") is DEVICES["h100_sxm"]
    assert device_of("something else") is None


def test_the_limits_of_each_device_fit_together() -> None:
    for device in DEVICES.values():
        a = device.architecture
        assert a.threads_per_core % a.threads_per_warp == 0
        assert a.shared_memory_per_block <= a.shared_memory_per_block_optin <= a.shared_memory_per_core
        assert a.is_accelerated == (a.capability >= (9, 0) and a.capability < (12, 0) and a.platform == "CUDA")
