"""Names of targets, and the description of a GPU that is made from the table."""

from __future__ import annotations

from pathlib import Path

import pytest

import xlanb
from xlanb.errors import ArgumentError, MissingPeerError, XlanbError
from xlanb.gpu.devices import DEVICES, gpu_device
from xlanb.peers.targets.compiling import _answer, _environment
from xlanb.peers.targets.config_proto import config_text, described
from xlanb.peers.targets.installed import NEEDS, check_installed
from xlanb.peers.targets.names import parse_target
from xlanb.peers.targets.serve import without_field


@pytest.mark.parametrize(
    ("given", "name", "platform", "topology"),
    [
        ("h100", "h100", "cuda", "1x1x1"),
        (" A100:8 ", "a100:8", "cuda", "1x8x1"),
        ("a100-pcie-80:2x8", "a100_pcie_80:2x8", "cuda", "2x8x1"),
        ("mi300", "mi300", "rocm", "1x1x1"),
        ("pvc", "pvc", "oneapi", "1x1x1"),
        ("tpu v5e", "tpu v5e:2x2", "tpu", "v5e:2x2"),
        ("TPU v5p:2x2x1", "tpu v5p:2x2x1", "tpu", "v5p:2x2x1"),
        ("v6e:4x4", "tpu v6e:4x4", "tpu", "v6e:4x4"),
        ("tpu 7x", "tpu 7x:2x2x1", "tpu", "tpu7x:2x2x1"),
        ("tpu7x", "tpu 7x:2x2x1", "tpu", "tpu7x:2x2x1"),
    ],
)
def test_a_name_says_platform_and_topology(given: str, name: str, platform: str, topology: str) -> None:
    target = parse_target(given)
    assert (target.name, target.platform, target.topology) == (name, platform, topology)
    assert target.is_tpu == (platform == "tpu")


def test_devices_say_how_many() -> None:
    assert parse_target("h100", devices=4).topology == "1x4x1"
    assert parse_target("h100", devices=4).name == "h100:4"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h1000", "did you mean 'h100'"),
        ("tpu v9", "known TPUs: tpu v2, .* tpu v6e, tpu 7x"),
        ("v5e:2x2x2", "written as tpu v5e:2x2"),
        ("a100:0", "1 to 65,536 devices"),
        ("a100:99999999999999999999", "1 to 65,536 devices"),
        ("nothing.txtpb", "no such file"),
        ("", "unknown target ''"),
        ("h100; rm", "unknown target"),
    ],
)
def test_what_is_no_target_is_refused(name: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        parse_target(name)


def test_two_counts_must_agree() -> None:
    with pytest.raises(ArgumentError, match="devices=4 was given"):
        parse_target("h100:8", devices=4)


def test_a_description_of_ones_own_is_a_target(tmp_path: Path) -> None:
    file = tmp_path / "half_h100.txtpb"
    file.write_text(config_text(gpu_device("h100")).replace("core_count: 132", "core_count: 66"))
    target = parse_target(str(file))
    assert (target.name, target.platform) == ("half_h100", "cuda")
    assert "core_count: 66" in target.config
    assert target.device is gpu_device("h100")


@pytest.mark.parametrize("text", ["", "gpu_device_info {}", 'gpu_device_info {}\nplatform_name: "TPU"'])
def test_a_file_that_describes_no_gpu_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.txtpb"
    file.write_text(text)
    with pytest.raises(ArgumentError, match=r"x\.txtpb: .*GpuTargetConfigProto"):
        parse_target(str(file))


@pytest.mark.parametrize("key", list(DEVICES))
def test_every_device_has_a_description(key: str) -> None:
    text = config_text(DEVICES[key])
    assert text.count("{") == text.count("}")
    assert described(text).platform == DEVICES[key].architecture.platform
    assert described(text).name == DEVICES[key].name


def test_a_field_is_left_out_with_all_its_lines() -> None:
    text = "a {\n  b: 1\n  c {\n    d: 2\n  }\n  c: 3\n  cd: 4\n}\n"
    assert without_field(text, "c") == "a {\n  b: 1\n  cd: 4\n}\n"
    assert without_field(text, "b") == text.replace("  b: 1\n", "")


def test_a_platform_that_starts_only_beside_its_device_says_so() -> None:
    rows = xlanb.targets().set_index("target")["compiles"]
    assert rows["mi300"].startswith("only on a machine with an AMD GPU")
    assert rows["pvc"] in ("yes", "pip install 'xlanb[intel]'")
    with pytest.raises(MissingPeerError, match=r"jax-rocm7-plugin jax-rocm7-pjrt \(only on a machine with an AMD GPU"):
        check_installed(parse_target("mi300"))


def test_a_plugin_that_did_not_start_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text('{"error": "NotImplementedError: topology not implemented for rocm"}')
    with pytest.raises(XlanbError, match=r"did not start .only on a machine with an AMD GPU"):
        _answer(tmp_path, NEEDS["rocm"].obstacle)


def test_the_child_of_another_python_has_nothing_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_LIBRARY_PATH", "/here/libtpu.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/user")
    tpu, intel = parse_target("tpu v5e"), parse_target("pvc")
    assert _environment(tmp_path, tpu, "")["TPU_LIBRARY_PATH"] == "/here/libtpu.so"
    assert "TPU_LIBRARY_PATH" not in _environment(tmp_path, tpu, "", "/other/bin/python")
    found = _environment(tmp_path, intel, "--mine=1", "/other/bin/python")
    assert found["LD_LIBRARY_PATH"] == "/other/lib:/of/the/user"
    assert "sycl-gemm-workspace" in found["XLA_FLAGS"]
    assert found["XLA_FLAGS"].endswith("--mine=1")
    assert "triton-fusion" in found["XLA_FLAGS"]
    assert "triton-fusion" not in _environment(tmp_path, tpu, "")["XLA_FLAGS"]
