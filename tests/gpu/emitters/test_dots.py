"""Matrix products on a GPU: any tile shape, batches, layouts, types, with fused neighbors."""

import ml_dtypes
import numpy as np
import pytest

import xlanb

NUMPY = {
    "f32": "f4",
    "f64": "f8",
    "s32": "i4",
    "u8": "u1",
    "bf16": ml_dtypes.bfloat16,
    "f16": "f2",
    "c64": "c8",
    "c128": "c16",
}


def numbers(kind, shape, seed=0):
    made = np.random.default_rng(seed).integers(-2, 3, shape)
    return (np.abs(made) if kind.startswith("u") else made).astype(NUMPY[kind])


def product(m, n, k, kind="f32", layouts=("{1,0}", "{1,0}", "{1,0}"), contracting=(1, 0)):
    left = (m, k) if contracting[0] == 1 else (k, m)
    right = (k, n) if contracting[1] == 0 else (n, k)
    return (
        f"""HloModule m
ENTRY e {{
  a = {kind}[{left[0]},{left[1]}]{layouts[0]} parameter(0)
  b = {kind}[{right[0]},{right[1]}]{layouts[1]} parameter(1)
  ROOT d = {kind}[{m},{n}]{layouts[2]} dot(a, b), lhs_contracting_dims={{{contracting[0]}}}, rhs_contracting_dims={{{contracting[1]}}}
}}""",
        numbers(kind, left, 1),
        numbers(kind, right, 2),
    )


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(16, 16, 16), (64, 64, 64), (65, 63, 17), (100, 130, 70), (1, 300, 40), (300, 1, 40), (7, 9, 200), (1, 1, 5000)],
)
def test_any_size(check, m, n, k):
    exe = check(*product(m, n, k))
    assert [kernel.emitter for kernel in exe.kernels] == ["dot"]
    assert exe.kernels[0].shared_bytes <= 48 << 10


@pytest.mark.parametrize("kind", NUMPY)
def test_every_type(check, kind):
    exe = check(*product(40, 50, 33, kind))
    assert exe.kernels[0].emitter == "dot"
    assert exe.kernels[0].shared_bytes <= 48 << 10


def test_predicates(check):
    text = product(20, 30, 40, "f32")[0].replace("f32", "pred")
    rng = np.random.default_rng(0)
    check(text, rng.random((20, 40)) > 0.9, rng.random((40, 30)) > 0.9)


@pytest.mark.parametrize("contracting", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("layouts", [("{0,1}", "{1,0}", "{0,1}"), ("{1,0}", "{0,1}", "{1,0}")])
def test_any_side_and_layout(check, contracting, layouts):
    check(*product(37, 45, 29, "f32", layouts, contracting))


def test_batches_and_several_dimensions(check):
    text = """HloModule m
ENTRY e {
  a = f32[3,5,4,6,2] parameter(0)
  b = f32[6,2,3,7,5] parameter(1)
  ROOT d = f32[3,2,5,4,7] dot(a, b), lhs_batch_dims={0,4}, rhs_batch_dims={2,1}, lhs_contracting_dims={3}, rhs_contracting_dims={0}
}""".replace("b = f32[6,2,3,7,5]", "b = f32[6,2,3,7]")
    exe = check(text, numbers("f32", (3, 5, 4, 6, 2), 1), numbers("f32", (6, 2, 3, 7), 2))
    assert exe.kernels[0].emitter == "loop"  # too shallow for tiles
    deep = text.replace("3,5,4,6,2]", "3,5,4,48,2]").replace("[6,2,3,7]", "[48,2,3,7]")
    exe = check(deep, numbers("f32", (3, 5, 4, 48, 2), 1), numbers("f32", (48, 2, 3, 7), 2))
    assert exe.kernels[0].emitter == "dot"


def test_what_is_fused_before_and_behind(check):
    text = """HloModule m
inner { x = f32[40,30] parameter(0)  ROOT t = f32[30,40] transpose(x), dimensions={1,0} }
f {
  a = bf16[40,50] parameter(0)  x = f32[40,30] parameter(1)  bias = f32[50] parameter(2)  c = f32[1500] parameter(3)
  wide = f32[40,50] convert(a)
  t = f32[30,40] fusion(x), kind=kLoop, calls=inner
  d = f32[30,50] dot(t, wide), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[30,50] broadcast(bias), dimensions={1}
  s = f32[30,50] add(d, b)
  zero = f32[] constant(0)  z = f32[30,50] broadcast(zero), dimensions={}
  relu = f32[30,50] maximum(s, z)
  flat = f32[1500] bitcast(relu)
  ROOT r = f32[1500] add(flat, c)
}
ENTRY e {
  a = bf16[40,50] parameter(0)  x = f32[40,30] parameter(1)  bias = f32[50] parameter(2)  c = f32[1500] parameter(3)
  ROOT r = f32[1500] fusion(a, x, bias, c), kind=kCustom, calls=f, backend_config={"fusion_backend_config":{"kind":"__triton_gemm"}}
}"""
    arrays = numbers("bf16", (40, 50), 1), numbers("f32", (40, 30), 2), numbers("f32", 50, 3), numbers("f32", 1500, 4)
    assert [k.emitter for k in check(text, *arrays).kernels] == ["dot"]


def test_product_that_is_read_in_two_ways_is_a_loop(check):
    text = """HloModule m
f {
  a = f32[20,30] parameter(0)  b = f32[30,20] parameter(1)
  d = f32[20,20] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[20,20] transpose(d), dimensions={1,0}
  ROOT r = f32[20,20] add(d, t)
}
ENTRY e { a = f32[20,30] parameter(0)  b = f32[30,20] parameter(1)  ROOT r = f32[20,20] fusion(a, b), kind=kCustom, calls=f }"""
    assert [k.emitter for k in check(text, numbers("f32", (20, 30)), numbers("f32", (30, 20))).kernels] == ["loop"]


def test_sums_of_many_products_are_close(check):
    rng = np.random.default_rng(0)
    text, a, b = product(20, 20, 6000)
    a, b = (rng.standard_normal(v.shape).astype(np.float32) for v in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    one_by_one = np.cumsum(a[:, :, None] * b[None], axis=1, dtype=np.float32)[:, -1]
    exe = check(text, a, b, rtol=1e-4, atol=1e-3)
    assert np.abs(exe.emulate(a, b) - exact).mean() < np.abs(one_by_one - exact).mean()


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 8, 16), (64, 64, 64), (100, 70, 33), (33, 300, 100), (8, 9, 1000)])
@pytest.mark.parametrize("contracting", [(1, 0), (0, 1)])
def test_tensor_cores(check, kind, m, n, k, contracting):
    exe = check(*product(m, n, k, kind, contracting=contracting))
    (kernel,) = exe.kernels
    instruction = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
    assert instruction in exe.ptx[kernel.name]
    assert kernel.shared_bytes <= 48 << 10


def test_products_of_tensor_cores_in_another_type(check):
    text, a, b = product(40, 50, 60, "bf16")
    text = text.replace("bf16[40,50]", "f32[40,50]")
    exe = check(text, a, b)
    assert "mma.sync" in exe.ptx[exe.kernels[0].name]


def test_devices_without_tensor_cores_for_a_type():
    text = product(64, 64, 64, "bf16")[0]
    exe = xlanb.compile(text, target="v100")
    assert not any("mma.sync" in t for t in exe.ptx.values())
