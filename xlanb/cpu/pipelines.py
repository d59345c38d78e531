"""The order of the HLO passes: XLA:CPU's own, as its dumps show it, with the passes that exist here."""

from __future__ import annotations

from xlanb.errors import PassError
from xlanb.transforms import PASSES
from xlanb.transforms.apply_xla_transforms import ApplyXlaTransforms
from xlanb.transforms.base import HloPass
from xlanb.transforms.float_normalization import WIDER
from xlanb.transforms.pipeline import AnyPass, HloPassFix, HloPassPipeline

_SIMPLIFICATION = (
    "algsimp simplify-sorts dce gather_expander gather_simplifier tree_reduction_rewriter zero_sized_hlo_elimination "
    "while-loop-invariant-code-motion tuple-simplifier while-loop-constant-sinking simplify-while-loops dce reshape-mover "
    "constant_folding simplify-conditional"
)
_FLOAT_NORMALIZATION = " ".join(f"float-normalization-{low}" for low in WIDER)
_BEFORE_LAYOUT = (
    "batched_gather_scatter_normalizer result_caster dot_decomposer operand_upcaster rng-expander rng-bit-generator-expander "
    "zero_sized_hlo_elimination dynamic-index-splitter conditional-to-select map-inline topk-decomposer comparison-expander "
    "cholesky_expander qr_expander eigh_expander triangular_solve_expander all_to_all_decomposer stochastic_convert_decomposer "
    "call-inliner batch-dot-simplification dot_decomposer all-reduce-promotion "
    + _FLOAT_NORMALIZATION
    + " batch-dot-simplification "
    "convolution-group-converter convolution-group-converter batchnorm_expander logistic-expander conditional-canonicalizer "
    "dynamic-dimension-simplifier associative-scan-rewriter reduce-window-rewriter reduce-window-resizer scan_expander dynamic_padder "
    "convolution-canonicalization change-op-data-type"
)
_BEFORE_LAYOUT_END = (
    "gemv-rewriter bitcast_dtypes_expander topk-rewriter transpose-folding cse cse_barrier_expander tuple-simplifier "
    "while-loop-trip-count-annotator flatten-call-graph layout-assignment sub-byte-size-setter shape-canonicalizer literal-canonicalizer"
)
_AFTER_LAYOUT_END = (
    "cpu-all-reduce-combiner tuple-simplifier simplification_after_layout_assignment cpu-parallel-task-assigner dce "
    "optimize_input_output_buffer_alias copy-insertion small-while-loop-hoisting propagate-call-metadata apply-xla-transforms dce"
)

# Each pipeline: its name and its passes, or pipelines within it; a name with * is run to a fixed point, `apply-xla-transforms@stage` runs what is registered for a stage.
_XLA: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("async-collective", ("async-collective-replacer",)),
    ("pre-spmd-partitioner", ("strip-memory-placement-annotations",)),
    ("sharding-removal", ("flatten-call-graph sharding-remover shardy-xla control-dep-rewriter dce",)),
    ("SubbytePacker_pipeline", ("sub-byte-size-setter",)),
    (
        "HLO_passes_through_layout_assignment",
        (
            _BEFORE_LAYOUT,
            ("simplification*", (_SIMPLIFICATION,)),
            "select_and_scatter_expander scatter_expander scatter_simplifier",
            ("post_scatter_expansion_simplification*", (_SIMPLIFICATION,)),
            _BEFORE_LAYOUT_END,
        ),
    ),
    ("hlo_normalization", ("reshape-decomposer reduce-decomposer broadcast_canonicalizer",)),
    ("dot-library-passes", ("dot_decomposer",)),
    (
        "HLO_passes_after_layout_assignment",
        (
            "reshape-decomposer row-fusion fusion fusion-wrapper",
            ("simplification_after_layout_assignment*", ("algsimp dce cse",)),
            _AFTER_LAYOUT_END.replace(" simplification_after_layout_assignment", ""),
        ),
    ),
    ("HLO_passes_after_scheduling", ("apply-xla-transforms@post_scheduler",)),
)

# Passes that XLA:CPU runs for the sake of its own code generator; ours does what they expand by kernels of its own.
_NOT_BY_DEFAULT = frozenset(
    "rng-bit-generator-expander topk-decomposer cholesky_expander triangular_solve_expander select_and_scatter_expander "
    "scatter_expander reduce-window-rewriter scan_expander fusion-wrapper convolution-group-converter gather_expander logistic-expander "
    "copy-insertion operand_upcaster result_caster reduce-decomposer tree_reduction_rewriter small-while-loop-hoisting topk-rewriter "
    "change-op-data-type bitcast_dtypes_expander sub-byte-size-setter gather_simplifier broadcast_canonicalizer "
    "associative-scan-rewriter reduce-window-resizer gemv-rewriter all_to_all_decomposer all-reduce-promotion "
    "cpu-all-reduce-combiner optimize_input_output_buffer_alias qr_expander eigh_expander rng-expander".split()
) | frozenset(_FLOAT_NORMALIZATION.split())

# Passes that XLA:CPU does not have.
_ONLY_BY_DEFAULT = frozenset(("row-fusion",))

PIPELINES = ("default", "xla")

_JOINED: dict[str, tuple[HloPass, str | None]] = {}


def join(hlo_pass: HloPass, *, after: str | None = None) -> None:
    """Make a pass part of the default pipeline of later compilations: after each pass of a name, or at the end; one of the same name that joined before gives way.

    Raises:
        PassError: the default pipeline has no pass of that name.
    """
    leave(hlo_pass.name)
    pipeline().insert(hlo_pass, after=after)  # refuses a name that is not there
    _JOINED[hlo_pass.name] = (hlo_pass, after)


def leave(name: str) -> None:
    """Take a pass that joined the default pipeline out of it again; one that did not is no error."""
    _JOINED.pop(name, None)


def joined() -> tuple[tuple[HloPass, str | None], ...]:
    """The passes that joined the default pipeline, each with the pass that it follows."""
    return tuple(_JOINED.values())


def pipeline(name: str = "default") -> HloPassPipeline:
    """The HLO passes of the CPU backend in order: "default", what `compile` runs, or "xla", XLA:CPU's order with all of its passes that exist here.

    Raises:
        PassError: no pipeline of that name.
    """
    if name not in PIPELINES:
        raise PassError(f"no pipeline {name!r}: there are {', '.join(PIPELINES)}")
    skip = _NOT_BY_DEFAULT if name == "default" else _ONLY_BY_DEFAULT
    built = HloPassPipeline(
        "cpu" if name == "default" else name, [p for part in _XLA if (p := _build(*part, skip)) is not None]
    )
    for hlo_pass, after in joined() if name == "default" else ():
        if after is None or after in built.names:
            built = built.insert(hlo_pass, after=after)
    return built


def _build(name: str, parts: tuple[object, ...], skip: frozenset[str]) -> AnyPass | None:
    passes: list[AnyPass] = []
    for part in parts:
        if isinstance(part, tuple):
            inner = _build(part[0], part[1], skip)
            passes += [inner] if inner is not None else []
        else:
            passes += [_named(n) for n in str(part).split() if n.partition("@")[0] in PASSES and n not in skip]
    if not passes:
        return None
    built = HloPassPipeline(name.rstrip("*"), passes)
    return HloPassFix(built) if name.endswith("*") else built


def _named(name: str) -> AnyPass:
    """A pass of a name; of transformations also `name@stage`."""
    base, _, stage = name.partition("@")
    return ApplyXlaTransforms(stage=stage) if stage else PASSES[base]()
