"""Products in AMX's tiles: run where they are, and compiled for such a machine anywhere."""

from __future__ import annotations

import platform
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.matmul.conftest import DTYPES, array, assert_close
from tests.cpu.matmul.test_dot import dot_text
from xlanb.codegen import costs, jit
from xlanb.codegen.cross import target_named
from xlanb.cpu import CompileOptions, Executable, compile_module, compiler
from xlanb.cpu.emitters.matmul import plan as plans
from xlanb.cpu.emitters.matmul.blocks import amx_slices, blocks_of
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis
from xlanb.cpu.objects import compile_units
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.shape import PrimitiveType
from xlanb.transforms.pipeline import HloPassPipeline

AMX = frozenset({"amx-tile", "amx-int8", "amx-bf16"})
NEEDED = sorted(AMX | {f"avx512{s}" for s in ("f", "vl", "bw", "dq", "vnni", "bf16")})
PRODUCTS = {
    ("bf16", "bf16", "bf16"): "tdpbf16ps",
    ("bf16", "bf16", "f32"): "tdpbf16ps",
    ("s8", "s8", "s32"): "tdpbssd",
    ("s8", "u8", "s32"): "tdpbsud",
    ("u8", "s8", "s32"): "tdpbusd",
}
SIZES = [(37, 71, 53), (64, 128, 96), (16, 130, 32), (100, 64, 45), (9, 140, 80), (80, 33, 68), (129, 257, 65)]
ORDERS = [(False, False), (True, False), (False, True), (True, True)]


def built(text: str) -> Executable:
    return compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))


@pytest.fixture
def tiles(monkeypatch):
    """Two threads of a host that has AMX, and tiles for all products."""
    if not jit.host().enabled >= AMX:
        pytest.skip("no AMX")
    monkeypatch.setattr(compiler, "_target", lambda _: replace(jit.host(), threads=2))
    monkeypatch.setattr(costs, "COMMON", costs.COMMON.replace(tiled_products=1))
    plans.plan.cache_clear()
    yield
    plans.plan.cache_clear()


@pytest.mark.parametrize("types", PRODUCTS)
@pytest.mark.parametrize("transposed", ORDERS)
@pytest.mark.parametrize("lanes", [16, 512])
def test_products(tiles, monkeypatch, types, transposed, lanes):
    monkeypatch.setattr(costs, "COMMON", costs.COMMON.replace(stretch_lanes=lanes))
    rng = np.random.default_rng(7)
    for m, k, n in SIZES:
        text, shapes = dot_text(m, k, n, transposed=transposed, types=types)
        exe = built(text)
        assert PRODUCTS[types] in exe.llvm_ir
        arguments = [array(rng, s, t) for s, t in zip(shapes, types, strict=False)]
        want = np.asarray(evaluate(parse(text), *arguments))
        assert_close(np.asarray(exe(*arguments)), want, types[2] if types[2] == "s32" else "bf16")


@pytest.mark.parametrize("types", [("s8", "s32"), ("bf16", "f32")])
def test_batches(tiles, types):
    rng = np.random.default_rng(5)
    for batch, m, k, n in [((3,), 40, 70, 33), ((2, 3), 17, 64, 50)]:
        outer, dims = ",".join(map(str, batch)), ",".join(map(str, range(len(batch))))
        last = len(batch)
        text = (
            f"ENTRY e {{\n x = {types[0]}[{outer},{m},{k}] parameter(0)\n"
            f" y = {types[0]}[{outer},{n},{k}] parameter(1)\n ROOT r = {types[1]}[{outer},{m},{n}] dot(x, y), lhs_batch_dims={{{dims}}}, rhs_batch_dims={{{dims}}}, "
            f"lhs_contracting_dims={{{last + 1}}}, rhs_contracting_dims={{{last + 1}}}\n}}\n"
        )
        exe = built(text)
        assert "llvm.x86.tdpb" in exe.llvm_ir
        x, y = array(rng, (*batch, m, k), types[0]), array(rng, (*batch, n, k), types[0])
        to = DTYPES[types[1]]
        assert_close(np.asarray(exe(x, y)), np.matmul(x.astype(to), y.swapaxes(-1, -2).astype(to)), types[1])


@pytest.mark.parametrize("types", [t for t in PRODUCTS if t[2] == "s32"])
def test_bytes_at_the_ends_of_their_range(tiles, types):
    text, shapes = dot_text(20, 65, 40, types=types)
    exe = built(text)
    first, second = (np.iinfo(DTYPES[t]) for t in types[:2])
    for x in (first.min, first.max):
        for y in (second.min, second.max):
            got = exe(*(np.full(s, v, i.dtype) for s, v, i in zip(shapes, (x, y), (first, second), strict=True)))
            np.testing.assert_array_equal(got, 65 * x * y)


def test_infinity_and_not_a_number_stay_where_they_are(tiles):
    text, (a, b) = dot_text(40, 30, 45, types=("bf16", "bf16", "f32"))
    x, y = np.ones(a, ml_dtypes.bfloat16), np.ones(b, ml_dtypes.bfloat16)
    x[3, 5], x[39, 29], y[11, 44] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(built(text)(x, y), x.astype(np.float32) @ y.astype(np.float32))


def test_sums_over_slices_are_rounded_once(tiles, monkeypatch):
    monkeypatch.setattr(costs, "COMMON", costs.COMMON.replace(stretch_lanes=16))
    text, (a, b) = dot_text(9, 257, 33, types=("bf16",) * 3)
    ones = [np.ones(s, ml_dtypes.bfloat16) for s in (a, b)]
    ones[0][:, 0] = 3  # 259 has no bf16
    np.testing.assert_array_equal(built(text)(*ones), np.float32(259).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("types", PRODUCTS)
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="not x86")
def test_llvm_accepts_the_code_anywhere(monkeypatch, types):
    plain = target_named(jit.host().triple, "sapphirerapids")
    target = replace(plain, features=",".join(f"+{f}" for f in NEEDED))
    monkeypatch.setattr(compiler, "_target", lambda _: target)
    monkeypatch.setattr(compiler, "code_threads", lambda: 1)
    exe = built(dot_text(64, 128, 96, types=types)[0])
    assert PRODUCTS[types] in exe.llvm_ir
    assert all(compile_units(exe.program.units(), target))
    assert "AMX tiles" in "".join(map(str, exe.plans.values()))


def test_without_the_permission_there_are_no_tiles(monkeypatch):
    monkeypatch.setattr(jit, "_may_use_tiles", lambda _: False)
    assert not jit._host.__wrapped__().enabled & AMX


def test_object_files_have_no_tiles():
    features = ",".join(f"+{f}" for f in NEEDED)
    assert not target_named("x86_64-unknown-linux-gnu", "sapphirerapids", features).enabled & AMX


@pytest.mark.parametrize("stride", [1, 97])
def test_slices_fit_the_scratch_memory_of_any_machine(stride):
    axis = ContractionAxis
    for depth in range(16, 9000, stride * 7):
        axes = (axis(100, depth, 0, 96),), (axis(96, 0, 1, 1),), (axis(depth, 1, 96),)
        x = Contraction((), *axes, *(PrimitiveType.BF16,) * 2, PrimitiveType.F32, PrimitiveType.BF16)
        given = blocks_of(x)
        assert all(a <= b for a, b in zip(amx_slices(given).bytes, given.bytes, strict=True))
