"""Tiles of a fusion's result for its dot's tile."""

import pytest

from xlanb.gpu.backend_config import fusion_config
from xlanb.gpu.transforms.convert_triton_gemm_config import ConvertTritonGemmConfig, output_tile
from xlanb.hlo import HloOpcode, parse


@pytest.mark.parametrize(
    ("after", "tile"),
    [
        ("ROOT n = f32[64,32] negate(d)", (16, 8)),
        ("ROOT t = f32[32,64] transpose(d), dimensions={1,0}", (8, 16)),
        ("ROOT b = f32[32,64]{0,1} bitcast(d)", (8, 16)),
        ("ROOT b = f32[4,16,32] bitcast(d)", (1, 16, 8)),
        ("ROOT b = f32[64,1,4,8] bitcast(d)", (16, 1, 1, 8)),
        ("ROOT b = f32[2048] bitcast(d)", (16, 8)),  # no box of the root gives the dot its tile
    ],
)
def test_the_tile_follows_the_bytes(after: str, tile: tuple[int, ...]) -> None:
    text = f"""HloModule m
ENTRY e {{
  a = f32[64,128] parameter(0)
  b = f32[128,32] parameter(1)
  d = f32[64,32] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {after.replace("ROOT b", "ROOT x")}
}}"""
    module = parse(text)
    dot = next(i for i in module.entry_computation if i.opcode is HloOpcode.DOT)
    assert output_tile(dot, (16, 8)) == tile


def test_fields_that_a_config_leaves_out_have_defaults() -> None:
    module = parse("""HloModule m
f {
  a = f32[64,128] parameter(0)
  b = f32[128,32] parameter(1)
  ROOT d = f32[64,32] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  a = f32[64,128] parameter(0)
  b = f32[128,32] parameter(1)
  ROOT g = f32[64,32] fusion(a, b), kind=kCustom, calls=f, backend_config={"fusion_backend_config":{"kind":"__triton_gemm","triton_gemm_config":{"block_m":"16","block_n":"8","block_k":"32"}}}
}""")
    ConvertTritonGemmConfig().run(module)
    config = fusion_config(module.entry_computation.root)
    assert config["block_level_fusion_config"]["output_tiles"] == [{"sizes": ["16", "8"]}]
    assert config["block_level_fusion_config"]["num_warps"] == "1"
