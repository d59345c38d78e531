"""The dump of priority fusion, parsed."""

import pytest

from xlanb.dump.gpu.fusion_process import FusionStep, parse_fusion_process
from xlanb.errors import DumpError

DUMP = """\
fusion_steps {
  producer_ineligible {
    producer_name: "gemm_fusion_dot.10"
    reason: "the producer is not fusible"
  }
}
fusion_steps {
  update_priority {
    producer_name: "reduce.16"
    consumer_names: "slice.4"
    consumer_names: "slice.1.0"
    us_fused: 2.408
    us_unfused: 3.556
  }
}
fusion_steps {
  fusion {
    fusion_name: "fusion.25"
    producer_name: "reduce.16"
    consumer_name: "slice.4"
  }
}
fusion_steps {
  a_field_of_a_newer_release { n: 3 }
}
gpu_device_info {
  core_count: 132
  cuda_compute_capability { major: 9 }
}
hlo_module_before_fusion: "HloModule f {\\n  fusion_steps {\\n"
"""


def test_steps_are_read_in_order() -> None:
    assert parse_fusion_process(DUMP) == (
        FusionStep("ineligible", "gemm_fusion_dot.10", reason="the producer is not fusible"),
        FusionStep("priority", "reduce.16", ("slice.4", "slice.1.0"), us_fused=2.408, us_unfused=3.556),
        FusionStep("fusion", "reduce.16", ("slice.4",), "fusion.25"),
    )


def test_an_empty_dump_has_no_steps() -> None:
    assert parse_fusion_process("") == ()


@pytest.mark.parametrize(
    "text", ["hello", "fusion_steps {", "fusion_steps { fusion { producer_name: 3 } }", "x {" * 5000]
)
def test_what_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(DumpError, match="not a priority fusion dump"):
        parse_fusion_process(text)
