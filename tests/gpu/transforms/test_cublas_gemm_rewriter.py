"""Products as cuBLAS calls: conditions, and results of compiled programs."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.gpu.devices import gpu_device
from xlanb.gpu.transforms.cublas_gemm_rewriter import CublasGemmRewriter
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.tracing import Decision, observing

SUM = """HloModule m

ENTRY e {{
  x = {t}[8,32] parameter(0)
  y = {t}[32,16] parameter(1)
  c = f32[8,16] parameter(2)
  d = {t}[8,16] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  w = f32[8,16] convert(d)
  ROOT s = f32[8,16] add(w, c)
}}
"""


def _rewritten(text: str, device: str = "a100") -> HloModule:
    module = parse(text)
    CublasGemmRewriter(device=gpu_device(device)).run(module)
    module.verify()
    return module


def test_a_sum_of_f32_is_added_up_without_rounding_the_product() -> None:
    """An f32 addend is fused into an f16 product if nothing computes with the sum."""
    text, rng = SUM.format(t="f16"), np.random.default_rng(0)
    module = _rewritten(text)
    assert "add(" not in str(module)
    x, y, c = rng.standard_normal((8, 32)), rng.standard_normal((32, 16)), rng.standard_normal((8, 16))
    arrays = x.astype("e"), y.astype("e"), c.astype("f")
    want = arrays[0].astype("f") @ arrays[1].astype("f") + arrays[2]
    np.testing.assert_allclose(np.asarray(xlanb.evaluate(module, *arrays)), want, rtol=1e-5, atol=1e-5)


def test_a_sum_that_is_read_is_left() -> None:
    text = SUM.format(t="f16").replace("ROOT s", "s").replace("\n}", "\n  ROOT r = f32[8,16] tanh(s)\n}")
    assert "add(" in str(_rewritten(text))


def test_an_algorithm_of_bf16_converts_the_operands() -> None:
    text = SUM.format(t="f32").replace("rhs_contracting_dims={0}", "rhs_contracting_dims={0}, algorithm=ALGORITHM")
    module = _rewritten(text.replace("ALGORITHM", "dot_bf16_bf16_f32"))
    assert [str(i.shape.element_type) for i in module.entry_computation if i.name.startswith("convert")] == ["bf16"] * 2
    assert '"ALG_UNSET"' in str(module)
    assert '"ALG_DOT_TF32_TF32_F32"' in str(_rewritten(text.replace("ALGORITHM", "dot_tf32_tf32_f32")))


@pytest.mark.parametrize(("device", "memory"), [("a100", 4 << 20), ("h100", 32 << 20)])
def test_memory_to_work_in_is_the_devices(device: str, memory: int) -> None:
    assert f"s8[{memory}]" in str(_rewritten(SUM.format(t="f32"), device))


def test_a_decision_says_what_is_missing() -> None:
    """A vector with an element per row is no cuBLAS bias, which has an element per column."""
    text = SUM.format(t="f32").replace("f32[8,16] convert(d)", "f32[8,16] bitcast(d)")
    text = text.replace("f32[8,16] parameter(2)", "f32[8,16] broadcast(v), dimensions={0}")
    text = text.replace("  c =", "  v = f32[8] parameter(2)\n  c =")
    decisions: list[Decision] = []

    class Seen:
        def on_event(self, event: object) -> None:
            if isinstance(event, Decision):
                decisions.append(event)

    with observing(Seen()):
        _rewritten(text)
    (refused,) = [d for d in decisions if d.action == "add a vector in the call"]
    assert not refused.taken
    assert refused.predicates[-1].value == "the vector is not added along the last dimension"


def test_a_compiled_program_of_complex_numbers() -> None:
    def f(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (x @ y) * np.complex64(2 - 1j) + z  # type: ignore[no-any-return]

    rng = np.random.default_rng(1)
    x, y, z = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype("F") for s in ((8, 16), (16, 4), (8, 4)))
    exe = xlanb.compile(f, x, y, z, target="a100")
    (got,) = exe.emulate(x, y, z)
    np.testing.assert_allclose(got, f(x, y, z), rtol=1e-5, atol=1e-5)
