"""Describe the backend configs of XLA:GPU's instructions.

They name the emitter and tiles of a kernel, or the options of a library call. Source of the fields:
GpuBackendConfig of xla/service/gpu/backend_configs.proto, in the JSON form of the HLO text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord

MAX_CONFIG = 1 << 20

_LIBRARIES = (
    ("__cublas$lt", "cuBLASLt"),
    ("__cublas", "cuBLAS"),
    ("__cudnn", "cuDNN"),
    ("__triton", "Triton"),
    ("cusolver", "cuSOLVER"),
    ("cufft", "cuFFT"),
    ("__cub", "CUB"),
)
_TRITON = {
    "__triton": "Triton",
    "__triton_gemm": "Triton (matrix product)",
    "__triton_nested_gemm_fusion": "Triton (matrix product)",
    "__triton_scaled_dot_fusion": "Triton (scaled matrix product)",
    "__triton_collective": "Triton (collective)",
    "__cudnn$fusion": "cuDNN graph",
    "__custom_fusion": "custom",
    "__dynamic_memcpy": "dynamic copy",
    "__sort": "sort",
}
_HEROES = (
    (HloOpcode.SORT, "sort"),
    (HloOpcode.SCATTER, "scatter"),
    (HloOpcode.TRANSPOSE, "transpose"),
    (HloOpcode.REDUCE, "reduction"),
    (HloOpcode.CONCATENATE, "concatenate"),
)
_PLAIN = {  # fields that are omitted at these default values
    "num_ctas": (1, "1"), "num_stages": (1, "1"), "is_tma_allowed": (False,), "waves_per_eu": (0, "0"),
    "is_warp_specialization_allowed": (False,),
}  # fmt: skip


@dataclass(frozen=True)
class KernelBackend:
    """How an instruction's code is made.

    `kind` is "loop", "reduction", "transpose", "scatter", "Triton (matrix product)", "cuBLASLt",
    ...; `tiles` are the sizes of each result's tile that one block computes, `warps` the warps of a
    block, and `settings` the other options with their values.
    """

    kind: str
    tiles: tuple[tuple[int, ...], ...] = ()
    warps: int = 0
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tiles = (
            f", tile{'s' * (len(self.tiles) > 1)} {' and '.join('x'.join(map(str, t)) for t in self.tiles)}"
            if self.tiles
            else ""
        )
        warps = f", {self.warps} warp{'s' * (self.warps != 1)}" if self.warps else ""
        return self.kind + tiles + warps + "".join(f", {name} {value}" for name, value in self.settings)


def emitter_of(instruction: InstructionRecord, fused: Mapping[str, InstructionRecord] | None = None) -> KernelBackend:
    """Return how the code of a fusion or library call is made.

    `fused` are the instructions of its computation.
    """
    config = read_config(instruction.backend_config)
    fusion = _mapping(config.get("fusion_backend_config"))
    kind = str(fusion.get("kind", ""))
    if kind:
        return _fusion_emitter(kind, fusion)
    if instruction.opcode is HloOpcode.CUSTOM_CALL:
        return _library(instruction, config)
    return KernelBackend(_hero(instruction, fused or {}))


def read_config(text: str) -> Mapping[str, Any]:
    """Return a backend config as a mapping, {} if it is not JSON."""
    if not text.startswith("{") or len(text) > MAX_CONFIG:
        return {}
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    text = str(value)
    return int(text) if re.fullmatch(r"\d{1,18}", text) else 0


def _fusion_emitter(kind: str, fusion: Mapping[str, Any]) -> KernelBackend:
    block = _mapping(fusion.get("block_level_fusion_config"))
    gemm = _mapping(fusion.get("triton_gemm_config"))
    custom = _mapping(fusion.get("custom_fusion_config"))
    tiles = block.get("output_tiles")
    sizes = [_mapping(t).get("sizes") for t in (tiles if isinstance(tiles, list) else ())]
    settings = [(k, str(v)) for k, v in gemm.items()]
    if custom.get("name"):
        settings.append(("name", str(custom["name"])))
    settings += [(k, str(block[k])) for k, plain in _PLAIN.items() if k in block and block[k] not in plain]
    return KernelBackend(
        _TRITON.get(kind, kind.strip("_").replace("_", " ")),
        tuple(tuple(_number(n) for n in s) for s in sizes if isinstance(s, list)),
        _number(block.get("num_warps", 0)),
        tuple(settings),
    )


def _library(instruction: InstructionRecord, config: Mapping[str, Any]) -> KernelBackend:
    target = str(instruction.attributes.get("custom_call_target", ""))
    name = next((words for part, words in _LIBRARIES if part in target), "") or f"custom call {target}"
    return KernelBackend(name, settings=tuple(_settings(target, config)))


def _settings(target: str, config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the options of a library call that differ from the default."""
    found: list[tuple[str, str]] = [("call", target)] if target.startswith("__") else []
    gemm = _mapping(config.get("gemm_backend_config"))
    if gemm:
        found += _product(gemm)
    conv = _mapping(config.get("cudnn_conv_backend_config"))
    algorithm = _mapping(conv.get("algorithm"))
    if conv:
        number = str(algorithm.get("algo_id", "-1"))
        found.append(("algorithm", "chosen at run time" if number == "-1" else number))
        if conv.get("activation_mode") not in (None, "kNone"):
            found.append(("activation", str(conv["activation_mode"]).removeprefix("k").lower()))
        if algorithm.get("math_type") not in (None, "DEFAULT_MATH"):
            found.append(("math", str(algorithm["math_type"])))
    return found


def _product(gemm: Mapping[str, Any]) -> list[tuple[str, str]]:
    alpha, beta = gemm.get("alpha_real", 1), gemm.get("beta", 0)
    found = [(name, str(v)) for name, v, plain in (("alpha", alpha, 1), ("beta", beta, 0)) if v != plain]
    found.append(("epilogue", str(gemm.get("epilogue", "DEFAULT")).lower().replace("_", " ")))
    numbers = _mapping(gemm.get("dot_dimension_numbers"))
    for side in ("lhs", "rhs"):
        dims = numbers.get(f"{side}_contracting_dimensions")
        if isinstance(dims, list) and dims:
            found.append((f"{side} contracted over", ",".join(map(str, dims))))
    chosen = str(gemm.get("selected_algorithm", ""))
    if chosen:
        found.append(("algorithm", chosen))
    return found


def _hero(instruction: InstructionRecord, fused: Mapping[str, InstructionRecord]) -> str:
    """Return which of XLA's own emitters handles a fusion.

    This follows from its kind and from the instruction that determines its thread layout.
    """
    if instruction.opcode is not HloOpcode.FUSION:
        return instruction.opcode.text
    kind = str(instruction.attributes.get("kind", "")).rpartition(".")[2].removeprefix("k").lower()
    if kind == "loop":
        return kind
    return next((words for code, words in _HEROES if any(i.opcode is code for i in fused.values())), kind or "fusion")
