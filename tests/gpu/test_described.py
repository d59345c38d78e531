"""GPUs from the descriptions that programs are compiled for."""

from __future__ import annotations

import pytest

from xlanb.gpu.described import described_device, device_name
from xlanb.gpu.devices import DEVICES, gpu_device
from xlanb.peers.targets.config_proto import config_text

# As XLA writes it into a dump.
H100 = """\
gpu_device_info {
  threads_per_warp: 32
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  memory_bandwidth: 3352320000000
  clock_rate_ghz: 1.98
  cuda_compute_capability {
    major: 9
    feature_extension: ACCELERATED_FEATURES
  }
  registers_per_core_limit: 65536
  matrix_unit_description {
    rate_infos {
      key: 10
      value {
        clock_rate_ghz: 1.83
        units_per_core: 4
        ops_per_clock: 512
      }
    }
  }
  name: "NVIDIA H100 80GB HBM3"
}
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def test_a_device_of_the_table_is_that_of_the_table() -> None:
    assert device_name(H100) == "NVIDIA H100 80GB HBM3"
    assert described_device(H100) == gpu_device("h100")


@pytest.mark.parametrize("key", [k for k, d in DEVICES.items() if d.architecture.platform == "CUDA"])
def test_what_is_written_is_read(key: str) -> None:
    assert described_device(config_text(DEVICES[key])) == DEVICES[key]


def test_a_device_of_ones_own_has_its_own_figures() -> None:
    text = H100.replace("NVIDIA H100 80GB HBM3", "Half an H100").replace("132", "66").replace("2048", "1024")
    found = described_device(text.replace("  core_count", "  fpus_per_core: 96\n  core_count"))
    assert found is not None
    assert (found.name, found.cores, found.architecture.threads_per_core) == ("Half an H100", 66, 1024)
    assert found.architecture.fpus_per_core == 96
    assert found.flops("bf16") == pytest.approx(gpu_device("h200").flops("bf16") / 2)


@pytest.mark.parametrize(
    "text", ["", "hello", "gpu_device_info {}", H100.replace("major: 9", "major: 42").replace("NVIDIA H100", "X")]
)
def test_what_is_like_none_of_the_table_is_none(text: str) -> None:
    assert described_device(text) is None
