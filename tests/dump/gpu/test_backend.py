"""Backend configs of XLA:GPU in words."""

import json

import pytest

from xlanb.dump.gpu.backend import KernelBackend, emitter_of, read_config
from xlanb.hlo import parse
from xlanb.hlo.records import InstructionRecord

TRITON = {
    "fusion_backend_config": {
        "kind": "__triton_nested_gemm_fusion",
        "block_level_fusion_config": {
            "num_warps": "2", "output_tiles": [{"sizes": ["1", "16", "8"]}], "num_ctas": 1, "num_stages": 3,
            "is_tma_allowed": True, "is_warp_specialization_allowed": False, "waves_per_eu": 0,
        },
    }
}  # fmt: skip
GEMM = {
    "gemm_backend_config": {
        "selected_algorithm": "0", "alpha_real": 1, "beta": 0.5, "epilogue": "BIAS_RELU",
        "dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]},
    }
}  # fmt: skip
CONV = {
    "cudnn_conv_backend_config": {
        "activation_mode": "kRelu",
        "algorithm": {"algo_id": "-1", "math_type": "DEFAULT_MATH"},
    }
}
REDUCE = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
fused { p = f32[8,8] parameter(0) z = f32[] constant(0) ROOT r = f32[8] reduce(p, z), dimensions={1}, to_apply=add }
ENTRY e { x = f32[8,8] parameter(0) ROOT f = f32[8] fusion(x), kind=kInput, calls=fused }
"""


def _root(text: str) -> tuple[InstructionRecord, dict[str, InstructionRecord]]:
    module = parse(text).record()
    root = module.entry_computation.by_name[module.entry_computation.root]
    return root, {i.name: i for n in root.called_computations for i in module.by_name[n].instructions}


def _call(target: str, config: object) -> KernelBackend:
    text = f'ROOT c = f32[8] custom-call(x), custom_call_target="{target}", backend_config={json.dumps(config)}'
    return emitter_of(_root(f"HloModule m\nENTRY e {{ x = f32[8] parameter(0)\n{text}\n}}")[0])


def test_a_triton_fusion_has_its_tiles() -> None:
    root, fused = _root(REDUCE.replace("calls=fused", f"calls=fused, backend_config={json.dumps(TRITON)}"))
    emitter = emitter_of(root, fused)
    assert (emitter.tiles, emitter.warps) == (((1, 16, 8),), 2)
    assert str(emitter) == "Triton (matrix product), tile 1x16x8, 2 warps, num_stages 3, is_tma_allowed True"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (REDUCE, "reduction"),
        (REDUCE.replace("kInput", "kLoop"), "loop"),
        (REDUCE.replace("reduce(p, z), dimensions={1}, to_apply=add", "slice(q), slice={[0:8]}").replace(
            "z = f32[] constant(0)", "t = f32[8,8] transpose(p), dimensions={1,0} q = f32[64] reshape(t)"), "transpose"),
    ],
)  # fmt: skip
def test_xlas_own_emitters_are_told_by_kind_and_hero(text: str, kind: str) -> None:
    assert str(emitter_of(*_root(text))) == kind


def test_calls_of_libraries_say_their_configuration() -> None:
    assert str(_call("__cublas$lt$matmul", GEMM)) == (
        "cuBLASLt, call __cublas$lt$matmul, beta 0.5, epilogue bias relu, lhs contracted over 1, "
        "rhs contracted over 0, algorithm 0"
    )
    conv = _call("__cudnn$convForward", CONV)
    assert str(conv) == "cuDNN, call __cudnn$convForward, algorithm chosen at run time, activation relu"
    assert str(_call("my_ffi_call", {})) == "custom call my_ffi_call"


@pytest.mark.parametrize(
    "config",
    [
        '{"fusion_backend_config": 3}',
        '{"fusion_backend_config": {"kind": "__triton", "block_level_fusion_config": {"output_tiles": 7}}}',
        '{"fusion_backend_config": {"kind": "__triton", "block_level_fusion_config": {"output_tiles": [3, {"sizes": "x"}], "num_warps": []}}}',
        "{" * 100_000,
        "no json",
    ],
)
def test_a_config_of_another_form_is_no_error(config: str) -> None:
    record, fused = _root(REDUCE)
    record = InstructionRecord(
        record.name, record.opcode, record.shape, record.operands, record.attributes, backend_config=config
    )
    assert not emitter_of(record, fused).tiles
    assert isinstance(read_config(config), dict)
