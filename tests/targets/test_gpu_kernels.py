"""The real XLA:GPU compiles for an absent H100.

Every kernel has its code and figures, and the compiler gives its reasons.
"""

from __future__ import annotations

import pytest

from xlanb.explorer.trace import Trace
from xlanb.peers import xla
from xlanb.runtime.gpu_program import GpuProgram

pytestmark = pytest.mark.target
pytest.importorskip("jax_plugins.xla_cuda12")
jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def trace() -> Trace:
    def attention(q, k, v):
        return jax.nn.softmax(q @ k.T / 8.0) @ v

    shapes = [jax.ShapeDtypeStruct((256, 64), "float32")] * 3
    return xla.trace(attention, *shapes, target="h100")


def test_every_kernel_has_its_code_and_its_figures(trace: Trace) -> None:
    program = trace["kernels"].after
    assert isinstance(program, GpuProgram)
    assert len(program.kernels) >= 3
    for k in program.kernels:
        assert k.resources is not None
        assert k.resources.registers > 0
        assert k.launches > 0
        assert k.occupancy is not None
        assert k.estimate is not None
        by_triton = ["triton"] if str(k.emitter).startswith("Triton") else []
        assert [form for form, _, _ in k.code.forms] == ["hlo", *by_triton, "llvm", "llvm_optimized", "ptx", "sass"]
        lines = k.ptx.splitlines()
        linked = [lines[n - 1].split()[0] for n in k.code.sass_lines if n]
        assert len(linked) > len(k.code.sass_lines) / 2
        assert "ret;" in linked


def test_launches_are_those_of_the_final_module(trace: Trace) -> None:
    program = trace["kernels"].after
    names = {i.name for c in trace["after_optimizations"].after.computations for i in c.instructions}
    started = [x for x in program.launches if x.row]
    assert {x.thunk.instruction for x in started} <= names
    assert {x.thunk.name for x in started} == {k.name for k in program.kernels}
    assert program.seconds >= max(x.seconds for x in started) > 0


def test_the_compiler_says_why_the_product_stayed_apart_from_the_softmax(trace: Trace) -> None:
    program = trace["kernels"].after
    product = next(k for k in program.kernels if k.instruction.startswith("gemm_fusion_dot") and k.unit)
    users = [
        i
        for i in trace["after_optimizations"].after.entry_computation.instructions
        if product.instruction in i.operands
    ]
    answers = [trace.why(product.instruction, u.name) for u in users if u.opcode.text == "fusion"]
    assert any("not fusible" in p.name for why in answers for d in why if not d.taken for p in d.predicates)
