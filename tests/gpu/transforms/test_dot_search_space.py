"""Tilings chosen without measuring, as the XLA:GPU of JAX 0.10.2 writes them for these dots."""

import pytest

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.transforms.dot_search_space import TritonDot, TritonGemmConfig, default_config
from xlanb.hlo import parse


def _dot(dtype: str, m: int, n: int, k: int):
    text = f"""HloModule m
ENTRY e {{
  a = {dtype}[{m},{k}] parameter(0)
  b = {dtype}[{k},{n}] parameter(1)
  ROOT d = {dtype}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
    return parse(text).entry_computation.root


@pytest.mark.parametrize(
    ("device", "dtype", "m", "n", "k", "tiling"),
    [
        ("a100", "f32", 16, 128, 256, (16, 8, 16, 1, 2)),
        ("a100", "f32", 64, 32, 40, (16, 8, 64, 1, 2)),
        ("a100", "bf16", 1024, 1000, 256, (16, 8, 128, 1, 2)),
        ("a100", "f32", 200, 8, 100, (16, 8, 128, 1, 2)),
        ("a100", "f32", 200, 8, 256, (16, 8, 64, 3, 2)),
        ("a6000", "bf16", 4096, 8, 512, (16, 8, 64, 3, 2)),
        ("h100", "f32", 4096, 4096, 512, (16, 8, 16, 1, 2)),
        ("h100", "f32", 16384, 16384, 512, (64, 32, 64, 3, 2)),
        ("h100", "bf16", 16384, 16384, 512, (64, 32, 64, 1, 4)),
        ("b200", "f32", 8, 32, 512, (16, 16, 32, 3, 2)),
        ("b200", "bf16", 8, 8, 100, (16, 8, 16, 3, 2)),
        ("b200", "f32", 4096, 300, 100, (16, 16, 128, 1, 2)),
        ("b200", "bf16", 16384, 16384, 512, (64, 64, 128, 3, 4, True)),
    ],
)
def test_the_default_tiling(device: str, dtype: str, m: int, n: int, k: int, tiling: tuple[int, ...]) -> None:
    assert default_config(TritonDot(_dot(dtype, m, n, k), gpu_device(device))) == TritonGemmConfig(*tiling)


def test_tilings_go_from_small_to_large_and_fit_into_shared_memory() -> None:
    device = gpu_device("a100")
    space = list(TritonDot(_dot("f32", 512, 512, 512), device).configs())
    assert space[0] == TritonGemmConfig(16, 8, 16, 1, 2)
    assert len(space) == len(set(space)) > 100
    for c in space:
        assert (c.block_m + c.block_n) * c.block_k * 4 <= device.architecture.shared_memory_per_block_optin
