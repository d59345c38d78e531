"""The order of XLA:GPU's HLO passes, with the passes that exist here.

It is that of an A100 compilation by the XLA of JAX 0.10.2.

    xlanb.gpu.pipeline("a100")      prints as a tree; `.without`, `.until` etc. return others

Source of the order: the stages that `--xla_dump_hlo_pass_re=.*` writes
(xla/service/gpu/gpu_compiler.cc and nvptx_compiler.cc build it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache

from xlanb.analysis.mixed_precision import WIDER
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.float_support import GpuFloatSupport
from xlanb.gpu.layouts import GpuLayouts
from xlanb.gpu.transforms.conv_layout_normalization import CUDNN_CONVOLUTIONS
from xlanb.gpu.transforms.fusion_wrapper import GPU_WRAPPING
from xlanb.transforms import PASSES
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import HloPassPipeline
from xlanb.transforms.pipeline_table import Row, build, names_in

_FLOAT_NORMALIZATION = (
    "float_normalization",
    (" ".join(f"float-normalization-{low}@gpu" for low in WIDER), "simplify-fp-conversions"),
)

# Each pipeline: its name and its passes, or pipelines within it. A name with * runs to a fixed
# point; name@variant is a row of _VARIANTS.
_XLA: tuple[Row, ...] = (
    ("annotate-host-compute", ("hlo_host_device_type_call_wrapper",)),
    (
        "pre-spmd-partitioner",
        (
            "cudnn-custom-call-converter composite-rewriter convert-memory-placement-to-internal-annotations "
            "scan-rewriter flatten-call-graph call-inliner zero_sized_hlo_elimination conditional-canonicalizer "
            "topk-decomposer topk-rewriter",
        ),
    ),
    ("sharding-removal", ("sharding-remover shardy-xla dce",)),
    ("host-compute", ("host_compute_asyncifier host-offloading-prepare-convert-to-custom-call",)),
    (
        "optimization",
        (
            "ragged_dot_rewriter batched_gather_scatter_normalizer windowed-einsum-handler topk-splitter "
            "topk-specializer topk-decomposer@calls dot_dimension_sorter dot_decomposer result_caster operand_upcaster "
            "operand_converter sub-byte-size-setter rng-expander rng-bit-generator-expander "
            "permutation_sort_simplifier sort-rewriter comparison-expander zero_sized_hlo_elimination "
            "select_and_scatter_expander cholesky_expander gpu_scatter_expander qr_expander eigh_expander "
            "dynamic-index-splitter call-inliner stochastic_convert_decomposer convolution_4d_expander "
            "convolution-pred-expander batchnorm_expander logistic-expander conditional-canonicalizer "
            "dynamic-dimension-simplifier associative-scan-rewriter reduce-window-rewriter reduce-window-resizer "
            "scan_expander dynamic_padder sort-rewriter stable-sort-expander",
            (
                "simplification*",
                (
                    "zero_sized_hlo_elimination gather_simplifier gather_expander scatter_simplifier scatter_expander "
                    "scatter-slice-simplifier dot-strength-reduction algsimp@no-layout simplify-sorts tuple-simplifier "
                    "while-loop-constant-sinking simplify-while-loops slice-sinker reshape-mover@gpu constant_folding "
                    "simplify-conditional transpose-folding@gpu cse@no-layout dce",
                ),
            ),
            "dot-merger@gpu transpose-folding@gpu",
            ("simplification-2*", ("convert-mover algsimp@no-layout",)),
            "computation-deduplicator apply-xla-transforms",
        ),
    ),
    (
        "collective-optimizations",
        (
            "ragged-all-to-all-canonicalizer all-reduce-simplifier all-reduce-folder all-reduce-splitter "
            "all-gather-optimizer all-gather-dynamic-slice-simplifier all-gather-pad-ds-simplifier "
            "all-gather-to-collective-permute-simplifier all-reduce-reassociate reduce-scatter-reassociate "
            "while-loop-all-reduce-code-motion collective-quantizer dce collective-pipelining-analyzer "
            "collective-pipeliner-forward algsimp@no-layout reduce-scatter-creator all-gather-bcast-reorder "
            "all-gather-remove-degenerate-dims all-reduce-promotion dce while-loop-trip-count-annotator",
        ),
    ),
    (
        "conv_canonicalization",
        (
            "float-normalization-bf16@gpu conv-rewriter cudnn-fused-convolution-rewriter conv-padding-legalization "
            "cudnn_pad_for_convolutions call-inliner tuple-simplifier algsimp@no-layout cudnn_simplify_padding",
            ("reshape_mover_after_conv_canonicalization*", ("reshape-mover@gpu algsimp@no-layout",)),
            ("simplify_after_conv_canonicalization*", ("convert-mover algsimp@no-layout",)),
            "constant_folding",
        ),
    ),
    (
        "layout_assignment",
        (
            "flatten-call-graph layout-assignment@gpu sub-byte-size-setter optimize_input_output_buffer_alias "
            "host-offload-legalize all-gather-major-dimension-rewriter",
        ),
    ),
    (
        "layout_normalization",
        (
            "reshape-decomposer move_copy_to_users layout_normalization@gpu algsimp@layout broadcast_canonicalizer "
            "scatter_simplifier",
        ),
    ),
    ("nvptx_post-layout_assignment_part_1", ("block-scaling-rewriter dot_dimension_merger",)),
    (
        "hlo_normalization",
        (
            "algsimp@layout bitcast_dtypes_expander transpose-folding@dots reshape-decomposer reduce-decomposer "
            "algorithm-checker dot_normalizer gemv-rewriter splitk-rewriter triton-gemm-rewriter "
            "hoist-fused-bitcasts gemm-fusion-swap-operands cublas-pad-for-gemms constant_folding "
            "dot-algorithm-rewriter cublas-gemm-rewriter cublas-gemm-broadcast-folding-rewriter reshape-decomposer "
            "layout_normalization@gpu algsimp@layout scatter_simplifier broadcast_canonicalizer "
            "reduction-degenerate-dim-remover reduction-layout-normalizer algsimp@layout cse@layout constant_folding "
            "dce triton-softmax-rewriter reduction-dimension-grouper reduction-splitter tree-reduction-rewriter "
            "sub-byte-size-setter deviceless-estimate-cub-sort-scratch-size estimate-cub-scan-scratch-size",
        ),
    ),
    (
        "post-layout_assignment",
        (
            "sub-byte-collective-normalization",
            _FLOAT_NORMALIZATION,
            "cublas-gemm-broadcast-folding-rewriter reshape-decomposer layout_normalization@gpu scatter_simplifier "
            "host-offloader",
            _FLOAT_NORMALIZATION,
            "tuple-simplifier algsimp@layout simplify-fp-conversions",
            ("remove-no-op-reduce-precision-algebraic-simplifier", ("algsimp@layout",)),
            "cse@layout host-memory-transfer-asyncifier",
        ),
    ),
    ("nvptx_post-layout_assignment_part_2", ("triangular-solve-rewriter",)),
    ("dynamic-slice", ("dynamic-slice-annotator",)),
    ("pre-fusion", ("rename-instructions",)),
    (
        "fusion",
        ("variadic-op-splitter sort-iota-fusion priority-fusion cse@fusion dce multi_output_fusion cse@fusion dce",),
    ),
    (
        "post-fusion_optimization",
        (
            "rename_fusions dus-accumulator-zero-init-elimination dce tuple-simplifier gpu-all-gather-combiner "
            "gpu-all-reduce-combiner gpu-reduce-scatter-combiner collective-permute-combiner "
            "collective-backend-assigner collective-kernel-strategy-annotator all-reduce-contiguous",
        ),
    ),
    ("async-collective-conversion", ("async-collective-creator async-collective-annotator",)),
    (
        "post-fusion-simplification-pipeline_optimization",
        (
            "algsimp@layout computation-deduplicator@fusions stream-attribute-annotator async-stream-attribute-wrapper "
            "explicit-stream-annotation-async-wrapper explicit-collectives-group-async-wrapper",
        ),
    ),
    ("collective-schedule-linearizer", ("collectives-schedule-linearizer",)),
    ("autotuner", ("fusion-wrapper@gpu autotuner convert_triton_gemm_config",)),
    ("propagate-call-metadata", ("propagate-call-metadata",)),
    (
        "pre-scheduling-copy-insertion",
        ("dce loop-schedule-linearizer copy-insertion copy_fusion sanitize-constant-names",),
    ),
    ("pre-scheduling-passes", ("fusion-wrapper@gpu",)),
    ("post-scheduler-xla-transforms", ("apply-xla-transforms@post_scheduler",)),
    (
        "post-scheduling-passes",
        (
            ("async-to-sync-converter", ("gpu-convert-async-collectives-to-sync",)),
            ("remat-pipeline", ("rematerialization stream-attribute-annotator cse_barrier_expander",)),
            ("fusion-wrapper", ("fusion-wrapper@gpu",)),
            ("fusion-dispatch-pipeline", ("dce fusion-block-level-rewriter fusion-dynamic-memcpy-rewriter",)),
            ("sanitize-constant-names", ("sanitize-constant-names",)),
        ),
    ),
)

_ALGSIMP: Mapping[str, object] = {"inverts_divisors": False, "inverts_narrow_constants": True}
_VARIANTS: Mapping[str, Mapping[str, object]] = {
    "algsimp@layout": {"is_layout_sensitive": True, **_ALGSIMP},
    "algsimp@no-layout": {"is_layout_sensitive": False, "sweeps": 1, **_ALGSIMP},
    "reshape-mover@gpu": {"cheap_broadcasts": True},
    "cse@layout": {"is_layout_sensitive": True},
    "cse@no-layout": {"is_layout_sensitive": False},
    "cse@fusion": {"is_layout_sensitive": True, "only_fusion_computations": True},
    "computation-deduplicator@fusions": {"mark_fusions": True},
    "fusion-wrapper@gpu": {"wrapping": GPU_WRAPPING},
    "topk-decomposer@calls": {"decomposes_calls": True},
    "layout_normalization@gpu": {"custom_calls": CUDNN_CONVOLUTIONS},
    "dot-merger@gpu": {"max_size_to_merge": 32 << 20},
    "transpose-folding@gpu": {"any_matrices": True, "convolutions": True},
    "transpose-folding@dots": {"any_matrices": True},
    "apply-xla-transforms@post_scheduler": {"stage": "post_scheduler"},
}
"""Options of passes, by name@variant."""

_OF_DEVICE: Mapping[str, Mapping[str, Callable[[GpuDevice], object]]] = {
    **{f"float-normalization-{low}@gpu": {"support": GpuFloatSupport} for low in WIDER},
    "layout-assignment@gpu": {"wishes": GpuLayouts},
}
"""Options that depend on the device, by name@variant."""


def pipeline(device: str | GpuDevice = "a100") -> HloPassPipeline:
    """Return the HLO passes of the GPU back end in XLA:GPU's order, as far as they exist here.

    Args:
        device: a name that `xlanb.gpu.devices.gpu_device` takes ("a100", "h100"), or a custom
            device.

    Raises:
        XlanbError: no device has that name.
    """
    return _of_device(gpu_device(device) if isinstance(device, str) else device)


def missing_passes() -> list[str]:
    """Return the passes of XLA:GPU's order that do not exist here, in order."""
    names = dict.fromkeys(n.partition("@")[0] for n in names_in(_XLA))
    return [n for n in names if n not in PASSES]


@cache
def _of_device(device: GpuDevice) -> HloPassPipeline:
    """Return the pipeline for a device; passes are immutable, so one serves every compilation."""
    made: dict[str, HloPass] = {}

    def named(name: str) -> HloPass:
        if name not in made:
            made[name] = _named(name, device)
        return made[name]

    def names_of(part: str) -> list[str]:
        return [n for n in part.split() if n.partition("@")[0] in PASSES]

    built = [p for row in _XLA if (p := build(row, names_of, named)) is not None]
    return HloPassPipeline(f"gpu {device.key}", built)


def _named(name: str, device: GpuDevice) -> HloPass:
    """Return the pass of a name or variant, for a device if it depends on one."""
    options = {option: of(device) for option, of in _OF_DEVICE.get(name, {}).items()}
    made = PASSES[name.partition("@")[0]](**_VARIANTS.get(name, {}), **options)
    if any(f.name == "device" for f in dataclasses.fields(made)):
        return dataclasses.replace(made, device=device)  # type: ignore[call-arg]
    return made
