"""Operations and bytes of a launch, calculated by hand."""

from __future__ import annotations

import pytest

from xlanb.gpu.kernel_cost import KernelCost, kernel_cost
from xlanb.hlo import parse

KIB = 1024


def _cost(text: str, header: str = "HloModule m") -> KernelCost:
    return kernel_cost(parse(f"{header}\n{text}").entry_computation.root)


def _fused(body: str, operands: str, arguments: str, shape: str) -> KernelCost:
    return _cost(
        f"fused {{ {body} }}\nENTRY e {{ {operands} ROOT f = {shape} fusion({arguments}), kind=kLoop, calls=fused }}"
    )


def test_an_elementwise_fusion_reads_each_operand_once() -> None:
    body = "p = f32[1024] parameter(0) a = f32[1024] add(p, p) ROOT m = f32[1024] multiply(a, p)"
    assert _fused(body, "x = f32[1024] parameter(0)", "x", "f32[1024]") == KernelCost(2048, 4 * KIB, 4 * KIB, "f32")


def test_slices_cost_what_they_take() -> None:
    body = """p = bf16[64,1024] parameter(0) b = bf16[65536] bitcast(p) s = bf16[128] slice(b), slice={[0:128]}
      t = bf16[128] slice(b), slice={[128:256]} ROOT a = bf16[128] add(s, t)"""
    assert _fused(body, "x = bf16[64,1024] parameter(0)", "x", "bf16[128]") == KernelCost(128, 512, 256, "bf16")


def test_a_slice_beside_a_whole_use_costs_the_whole() -> None:
    body = """p = f32[1024] parameter(0) s = f32[1] slice(p), slice={[0:1]} r = f32[] reshape(s)
      b = f32[1024] broadcast(r), dimensions={} ROOT a = f32[1024] add(p, b)"""
    assert _fused(body, "x = f32[1024] parameter(0)", "x", "f32[1024]").bytes_read == 4 * KIB


def test_an_update_in_place_costs_the_update() -> None:
    body = """p = f32[64,1024] parameter(0) u = f32[1,1024] parameter(1) i = s32[] parameter(2) z = s32[] constant(0)
      n = f32[1,1024] negate(u) ROOT d = f32[64,1024] dynamic-update-slice(p, n, i, z)"""
    operands = "x = f32[64,1024] parameter(0) y = f32[1,1024] parameter(1) k = s32[] parameter(2)"
    assert _fused(body, operands, "x, y, k", "f32[64,1024]") == KernelCost(1024, 4 * KIB + 4, 4 * KIB, "f32")


def test_a_product_in_a_fusion_has_the_dtype_of_its_operands() -> None:
    body = """p = bf16[64,128] parameter(0) q = bf16[128,32] parameter(1)
      d = f32[64,32] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT n = f32[64,32] negate(d)"""
    found = _fused(body, "x = bf16[64,128] parameter(0) y = bf16[128,32] parameter(1)", "x, y", "f32[64,32]")
    assert found.flops == 2 * 64 * 128 * 32 + 64 * 32
    assert (found.bytes_read, found.bytes_written, found.dtype) == (2 * (64 * 128 + 128 * 32), 4 * 64 * 32, "bf16")


def test_calls_of_cublas_and_cudnn_cost_their_products() -> None:
    gemm = """ENTRY e { x = bf16[64,128] parameter(0) y = bf16[128,32] parameter(1)
      ROOT c = (bf16[64,32], s8[4096]) custom-call(x, y), custom_call_target="__cublas$lt$matmul",
        backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}} }"""
    found = _cost(gemm)
    assert (found.flops, found.bytes_read) == (2 * 64 * 128 * 32, 2 * (64 * 128 + 128 * 32))
    unknown = _cost(gemm.replace("__cublas$lt$matmul", "my_call"))
    assert (unknown.flops, unknown.bytes_read) == (0, found.bytes_read)


@pytest.mark.parametrize(
    ("target", "x", "y", "result"),
    [
        ("Forward", "f32[64,16,16,32]", "f32[64,3,3,32]", "f32[64,16,16,64]"),
        ("BackwardInput", "f32[64,16,16,64]", "f32[64,3,3,32]", "f32[64,16,16,32]"),
        ("BackwardFilter", "f32[64,16,16,32]", "f32[64,16,16,64]", "f32[64,3,3,32]"),
    ],
)
def test_convolutions_of_cudnn_cost_the_same_in_each_direction(target: str, x: str, y: str, result: str) -> None:
    found = _cost(f"""ENTRY e {{ x = {x} parameter(0) y = {y} parameter(1)
      ROOT c = ({result}, u8[0]) custom-call(x, y), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_o01i->b01f,
        custom_call_target="__cudnn$conv{target}" }}""")
    assert found.flops == 2 * (64 * 16 * 16 * 64) * (3 * 3 * 32)


@pytest.mark.parametrize(
    ("line", "sent", "count"),
    [
        ("all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=add", 4 * KIB * 2 * 3 / 4, 4),
        ("all-reduce(x), replica_groups=[2,4]<=[8], to_apply=add", 4 * KIB * 2 * 3 / 4, 4),
        ("all-reduce(x), replica_groups={}, to_apply=add", 4 * KIB * 2 * 7 / 8, 8),
        ("all-reduce(x), replica_groups=mesh['a'=2,'b'=4] {'b'}, to_apply=add", 4 * KIB * 2 * 3 / 4, 4),
        ("all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={0}", 4 * KIB * 3 / 4, 4),
        ("collective-permute(x), source_target_pairs={{0,1},{1,0}}", 4 * KIB, 2),
    ],
)
def test_collectives_send_what_a_ring_sends(line: str, sent: float, count: int) -> None:
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
    found = _cost(
        f"{add}\nENTRY e {{ x = f32[1024] parameter(0) ROOT r = f32[1024] {line} }}", "HloModule m, num_partitions=8"
    )
    assert (found.network_bytes, found.participants) == (sent, count)
