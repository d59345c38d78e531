"""cuDNN and cuBLAS calls: their meaning in the evaluator, and our kernels that replace them."""

import json

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError
from xlanb.gpu.compiler import GpuCompileOptions, compile_module
from xlanb.transforms.pipeline import HloPassPipeline

CASES = {
    "plain": ("2,3,9,8", "4,3,3,2", "size=3x2", 1),
    "padded": ("2,3,9,8", "4,3,3,3", "size=3x3 pad=1_1x2_0", 1),
    "strided": ("2,3,9,8", "4,3,3,2", "size=3x2 stride=2x3 pad=1_2x0_1", 1),
    "dilated": ("2,3,9,8", "4,3,3,2", "size=3x2 pad=1_1x1_1 rhs_dilate=2x3", 1),
    "grouped": ("2,6,7,7", "4,3,3,3", "size=3x3 stride=2x1 pad=1_1x1_1", 2),
    "depthwise": ("2,5,7,7", "10,1,3,3", "size=3x3 pad=1_1x1_1", 5),
}


def shape_of(text):
    return tuple(map(int, text.split(",")))


def numbers(shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def forward(name):
    """(input shape, filter shape, output shape, the attributes of the convolution)."""
    x, f, window, groups = CASES[name]
    attributes = f"window={{{window}}}, dim_labels=bf01_oi01->bf01, feature_group_count={groups}"
    text = f"HloModule m\nENTRY e {{ x = f32[{x}] parameter(0)  f = f32[{f}] parameter(1)\n  ROOT c = f32[0] convolution(x, f), {attributes} }}"
    module = xlanb.hlo.parse(text.replace("f32[0]", f"f32[{_output(x, f, window)}]"))
    return shape_of(x), shape_of(f), module.entry_computation.root.shape.dimensions, attributes


def _output(x, f, window):
    x, f = shape_of(x), shape_of(f)
    given = dict(part.split("=") for part in window.split())
    sizes = [2, 2]
    stride, dilate = ([int(v) for v in given.get(k, "1x1").split("x")] for k in ("stride", "rhs_dilate"))
    pads = [tuple(map(int, p.split("_"))) for p in given.get("pad", "0_0x0_0").split("x")]
    sizes = [(x[2 + d] + sum(pads[d]) - ((f[2 + d] - 1) * dilate[d] + 1)) // stride[d] + 1 for d in range(2)]
    return ",".join(map(str, (x[0], f[0], *sizes)))


def call(target, first, second, result, attributes, config=""):
    a, b, r = (",".join(map(str, s)) for s in (first, second, result))
    return f"""HloModule m
ENTRY e {{
  a = f32[{a}] parameter(0)
  b = f32[{b}] parameter(1)
  c = (f32[{r}], u8[16]) custom-call(a, b), {attributes}, custom_call_target="{target}"{config}
  ROOT r = f32[{r}] get-tuple-element(c), index=0
}}"""


def evaluated_and_emulated(text, *arrays):
    module = xlanb.hlo.parse(text)
    module.verify()
    want = xlanb.evaluate(module, *arrays)
    exe = compile_module(module, GpuCompileOptions(passes=HloPassPipeline("none", [])))
    np.testing.assert_allclose(exe.emulate(*arrays), want, rtol=1e-5, atol=1e-5)
    assert not [launch for launch in exe.launches if hasattr(launch, "library")]
    return want


@pytest.mark.parametrize("name", CASES)
def test_backward_convolutions_are_the_adjoints_of_the_forward_one(name):
    x_shape, f_shape, y_shape, attributes = forward(name)
    x, f, g = numbers(x_shape, 1), numbers(f_shape, 2), numbers(y_shape, 3)
    y = evaluated_and_emulated(call("__cudnn$convForward", x_shape, f_shape, y_shape, attributes), x, f)
    dx = evaluated_and_emulated(call("__cudnn$convBackwardInput", y_shape, f_shape, x_shape, attributes), g, f)
    df = evaluated_and_emulated(call("__cudnn$convBackwardFilter", x_shape, y_shape, f_shape, attributes), x, g)
    assert np.vdot(y, g) == np.vdot(x, dx) == np.vdot(f, df)  # whole numbers: exact
    assert np.vdot(y, g) != 0


@pytest.mark.parametrize("mode", ["kNone", "kRelu", "kRelu6", "kElu", "kLeakyRelu"])
def test_fused_convolution(mode):
    config = {"activation_mode": mode, "conv_result_scale": 0.5, "side_input_scale": 2, "leakyrelu_alpha": 0.25}
    text = f"""HloModule m
ENTRY e {{
  x = f32[2,3,5,5] parameter(0)  f = f32[4,3,3,3] parameter(1)  b = f32[4] parameter(2)  s = f32[2,4,3,3] parameter(3)
  c = (f32[2,4,3,3], u8[0]) custom-call(x, f, b, s), window={{size=3x3}}, dim_labels=bf01_oi01->bf01, custom_call_target="__cudnn$convBiasActivationForward", backend_config={json.dumps({"cudnn_conv_backend_config": config})}
  ROOT r = f32[2,4,3,3] get-tuple-element(c), index=0
}}"""
    x, f, b, s = (numbers(k, n) for n, k in enumerate(((2, 3, 5, 5), (4, 3, 3, 3), (4,), (2, 4, 3, 3))))
    got = evaluated_and_emulated(text, x, f, b, s)
    plain = evaluated_and_emulated(
        call("__cudnn$convForward", x.shape, f.shape, s.shape, "window={size=3x3}, dim_labels=bf01_oi01->bf01"), x, f
    )
    total = plain * 0.5 + b[:, None, None] + s * 2
    want = {
        "kNone": total,
        "kRelu": np.maximum(total, 0),
        "kRelu6": np.clip(total, 0, 6),
        "kElu": np.where(total > 0, total, np.expm1(np.minimum(total, 0))),
        "kLeakyRelu": np.where(total > 0, total, total * 0.25),
    }
    np.testing.assert_allclose(got, want[mode], rtol=1e-6)


@pytest.mark.parametrize("epilogue", ["DEFAULT", "RELU", "BIAS", "BIAS_RELU", "BIAS_GELU"])
@pytest.mark.parametrize("beta", [0, 1, 3])
def test_matrix_products(epilogue, beta):
    config = {
        "alpha_real": 2, "alpha_imag": 0, "beta": beta, "epilogue": epilogue,
        "dot_dimension_numbers": {
            "lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["2"],
            "lhs_batch_dimensions": ["0"], "rhs_batch_dimensions": ["0"],
        },
    }  # fmt: skip
    more = [("c", "3,4,6")] * bool(beta) + [("d", "6")] * epilogue.startswith("BIAS")
    parameters = "\n  ".join(f"{n} = f32[{s}] parameter({2 + k})" for k, (n, s) in enumerate(more))
    text = f"""HloModule m
ENTRY e {{
  a = f32[3,5,4] parameter(0)  b = f32[3,6,5] parameter(1)
  {parameters}
  g = (f32[3,4,6], s8[64]) custom-call({", ".join(["a", "b", *(n for n, _ in more)])}), custom_call_target="__cublas$lt$matmul", backend_config={json.dumps({"gemm_backend_config": config})}
  ROOT r = f32[3,4,6] get-tuple-element(g), index=0
}}"""
    a, b = numbers((3, 5, 4), 1), numbers((3, 6, 5), 2)
    rest = [numbers(shape_of(s), 3) for _, s in more]
    got = evaluated_and_emulated(text, a, b, *rest)
    total = 2 * np.einsum("zkm,znk->zmn", a, b)
    given = list(rest)
    if beta:
        total = total + beta * given.pop(0)
    if epilogue.startswith("BIAS"):
        total = total + given.pop(0)
    if epilogue.endswith("GELU"):
        total = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    elif epilogue.endswith("RELU"):
        total = np.maximum(total, 0)
    np.testing.assert_allclose(got, total, rtol=1e-5, atol=1e-5)


def test_calls_without_a_meaning_are_refused():
    text = call("__cublas$gemm", (2, 3), (3, 4), (2, 4), "api_version=API_VERSION_ORIGINAL")
    with pytest.raises(EvaluationError, match="does not describe a known matrix product"):
        xlanb.evaluate(xlanb.hlo.parse(text), np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32))
