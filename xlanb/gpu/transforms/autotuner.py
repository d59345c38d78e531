"""Choose the autotuner's defaults, without a device.

Follows xla/backends/autotuner and xla/backends/gpu/autotuner.

    fusion(x), kind=kLoop, ...
    =>  backend_config={..., "native_emitter_backend_config":{...}}
    fusion(x, y), kind=kCustom, "__triton_gemm"
    =>  ... "triton_gemm_config":{"block_m":"16","block_n":"8",...}
    custom-call(x, k), "__cudnn$convForward"
    =>  ... "algorithm":{"algo_id":"-1",...}

Each back end that can emit an instruction has a deterministic default. XLA's own emitters choose
when they emit. A dot in a Triton kernel gets the first known good tiling of its search space. cuDNN
selects an algorithm at run time.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.gpu.backend_config import changed, fusion_config, read
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.transforms.dot_search_space import TritonDot, default_config
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_NATIVE: Final = {"type": "NATIVE_EMITTER_TYPE_INVALID", "unroll_factor": 0}
_CUDNN_ALGORITHM: Final = {
    "algo_id": "-1",
    "math_type": "DEFAULT_MATH",
    "tuning_knobs": {},
    "is_cudnn_frontend": False,
}
_CUDNN_ORDER: Final = (
    "activation_mode",
    "conv_result_scale",
    "side_input_scale",
    "algorithm",
    "leakyrelu_alpha",
)


@dataclass(frozen=True)
class Autotuner(HloPass):
    """Writes each fusion's and library call's choice into its backend config.

    The choices are XLA:GPU's without a device.
    """

    name = "autotuner"
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.CUSTOM_CALL and str(i.attributes.get("custom_call_target")).startswith("__cudnn$conv"):
                    _let_cudnn_choose(i)
                elif i.opcode is O.FUSION:
                    self._choose(i)

    def _choose(self, fusion: HloInstruction) -> None:
        if fusion.get("kind") != "kCustom":
            if fusion.fused_computation.root.opcode is not O.SCATTER:
                _emit_natively(fusion)
            return
        config = fusion_config(fusion)
        dot = next((i for i in fusion.fused_computation if i.opcode is O.DOT), None)
        if config.get("kind") == "__triton_gemm" and "triton_gemm_config" not in config and dot is not None:
            _tile(fusion, default_config(TritonDot(dot, self.device)).fields)


@reason("only XLA's own emitter supports it")
def _emit_natively(fusion: HloInstruction) -> None:
    _set(fusion, changed(fusion, native_emitter_backend_config=_NATIVE))


@reason("the first tiling known to be good")
def _tile(fusion: HloInstruction, tiling: dict[str, object]) -> None:
    config = {"kind": "__triton_gemm", "triton_gemm_config": tiling}
    _set(fusion, changed(fusion, fusion_backend_config={**fusion_config(fusion), **config}))


@reason("cuDNN chooses the algorithm at run time")
def _let_cudnn_choose(call: HloInstruction) -> None:
    config = {**read(call).get("cudnn_conv_backend_config", {}), "algorithm": _CUDNN_ALGORITHM}
    ordered = sorted(config, key=lambda n: _CUDNN_ORDER.index(n) if n in _CUDNN_ORDER else len(_CUDNN_ORDER))
    _set(call, changed(call, cudnn_conv_backend_config={name: config[name] for name in ordered}))


def _set(i: HloInstruction, config: str) -> None:
    if i.backend_config != config:
        i.parent.update(i, backend_config=config)
