"""The order of the HLO passes: XLA:CPU's own, as in its dumps, as far as passes exist here.

One table holds the order of each release of JAX. A pass that only some have is written as
`name[0.12]` or `name[0.10.2,default]`, by release; `default` is xlanb's own pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

from xlanb.analysis.mixed_precision import WIDER
from xlanb.errors import PassError, nearest
from xlanb.transforms import PASSES
from xlanb.transforms.base import HloPass
from xlanb.transforms.pass_modules import pass_modules
from xlanb.transforms.pipeline import AnyPass, DeferredPass, HloPassPipeline
from xlanb.transforms.pipeline_table import Row, build

_SIMPLIFICATION = (
    "algsimp simplify-sorts dce gather_expander gather_simplifier tree_reduction_rewriter zero_sized_hlo_elimination "
    "while-loop-invariant-code-motion tuple-simplifier while-loop-constant-sinking simplify-while-loops dce "
    "reshape-mover "
    "constant_folding simplify-conditional"
)
_FLOAT_NORMALIZATION = " ".join(f"float-normalization-{low}" for low in WIDER)
_BEFORE_LAYOUT = (
    "batched_gather_scatter_normalizer result_caster gemv-to-reduce@transposed[default] dot_decomposer "
    "operand_upcaster rng-expander "
    "rng-bit-generator-expander "
    "zero_sized_hlo_elimination dynamic-index-splitter conditional-to-select map-inline topk-decomposer "
    "permutation_sort_simplifier[0.12,default] comparison-expander "
    "cholesky_expander qr_expander eigh_expander triangular_solve_expander all_to_all_decomposer "
    "stochastic_convert_decomposer "
    "call-inliner batch-dot-simplification dot_decomposer all-reduce-promotion all-reduce-simp[default] "
    + _FLOAT_NORMALIZATION
    + " batch-dot-simplification "
    "convolution-group-converter convolution-group-converter batchnorm_expander logistic-expander "
    "conditional-canonicalizer "
    "dynamic-dimension-simplifier associative-scan-rewriter reduce-window-rewriter reduce-window-resizer "
    "scan_expander dynamic_padder "
    "convolution-canonicalization change-op-data-type"
)
_BEFORE_LAYOUT_END = (
    "while-loop-sliced-dot-hoisting[default] gemv-rewriter bitcast_dtypes_expander topk-rewriter "
    "transpose-folding cse cse_barrier_expander[0.10.2,default] tuple-simplifier[0.10.2,default] "
    "while-loop-trip-count-annotator flatten-call-graph layout-assignment sub-byte-size-setter "
    "shape-canonicalizer literal-canonicalizer"
)
_AFTER_LAYOUT_END = (
    "tuple-simplifier[default] fusion-wrapper[0.12] cpu-parallel-task-assigner dce "
    "optimize_input_output_buffer_alias copy-insertion small-while-loop-hoisting propagate-call-metadata "
    "apply-xla-transforms dce"
)

# Each pipeline: its name and its passes, or pipelines within it; a name with * is run to a fixed
# point, name@variant is a row of _VARIANTS, name[...] is in those releases only.
_XLA: tuple[Row, ...] = (
    ("async-collective", ("async-collective-replacer",)),
    ("pre-spmd-partitioner", ("strip-memory-placement-annotations",)),
    (
        "spmd-partitioner",
        (
            "flatten-call-graph call-inliner zero_sized_hlo_elimination conditional-canonicalizer "
            "shardy-xla spmd-partitioning",
            ("spmd-cleanup", ("dce tuple-simplifier dce cse@no-layout",)),
            "call-inliner",
        ),
    ),
    ("sharding-removal", ("flatten-call-graph sharding-remover shardy-xla control-dep-rewriter dce",)),
    ("SubbytePacker_pipeline", ("sub-byte-size-setter",)),
    (
        "HLO_passes_through_layout_assignment",
        (
            _BEFORE_LAYOUT,
            ("simplification*", (_SIMPLIFICATION,)),
            "select_and_scatter_expander scatter_expander scatter_simplifier",
            ("embedded_scatter_expansion", ("scatter_expander[0.12]",)),
            ("post_scatter_expansion_simplification*", (_SIMPLIFICATION,)),
            _BEFORE_LAYOUT_END,
        ),
    ),
    ("hlo_normalization", ("reshape-decomposer reduce-decomposer broadcast_canonicalizer",)),
    ("dot-library-passes", ("dot_decomposer dot-library-rewriter",)),
    (
        "HLO_passes_after_layout_assignment",
        (
            "reshape-decomposer attention-fusion[default] gemv-to-reduce[default] row-fusion[default] fusion "
            "sibling-fusion[default] fusion-wrapper",
            "cpu-all-reduce-combiner tuple-simplifier[0.10.2,0.12]",
            ("simplification_after_layout_assignment*", ("algsimp@layout dce cse@layout",)),
            _AFTER_LAYOUT_END,
        ),
    ),
    (
        "HLO_passes_after_scheduling",
        ("apply-xla-transforms@post_scheduler cse_barrier_expander[0.12] tuple-simplifier[0.12]",),
    ),
)

_OWN_KERNEL = "our code generator has a kernel for it"
_NARROW = "our kernels widen elements of this type when they load them and narrow them when they store them"

LEFT_OUT: Mapping[str, str] = {
    "result_caster": "our dot and convolution kernels accumulate in the result's type for any operand type",
    "operand_upcaster": "our dot and convolution kernels widen operands when they load them",
    "change-op-data-type": "our dot and convolution kernels take f16 as it is and accumulate in f32",
    "rng-expander": f"{_OWN_KERNEL}, of the same generator",
    "topk-decomposer": f"{_OWN_KERNEL}, which does not sort the dropped elements",
    "topk-rewriter": "it calls XLA's runtime; our sort kernel detects itself that only the first elements are used",
    "cholesky_expander": f"{_OWN_KERNEL}: no loop over columns that updates the whole matrix in each iteration",
    "triangular_solve_expander": f"{_OWN_KERNEL}: no loop over rows that updates the whole system in each iteration",
    "qr_expander": f"{_OWN_KERNEL}: no loop over columns that updates the whole matrix in each iteration",
    "eigh_expander": f"{_OWN_KERNEL}: no loop of rotations of the whole matrix",
    "all_to_all_decomposer": "on one device the kernel is a copy",
    "all-reduce-promotion": "on one device there is nothing to add",
    "cpu-all-reduce-combiner": "on one device there are no messages to combine; it runs for several devices",
    **{f"float-normalization-{low}": _NARROW for low in WIDER},
    "convolution-group-converter": f"{_OWN_KERNEL}: grouped convolutions are not widened with zeros",
    "logistic-expander": "our vectorized logistic function needs one exponential and one division",
    "associative-scan-rewriter": "our scan kernel reads the array once; windows would read it log n times",
    "reduce-window-rewriter": "our cumulative sums and products read the array once",
    "reduce-window-resizer": f"{_OWN_KERNEL} for windows over any number of dimensions",
    "scan_expander": f"{_OWN_KERNEL}: no loop that updates an array in each iteration",
    "gather_expander": f"{_OWN_KERNEL}: a gather of one slice is as fast as a dynamic slice",
    "gather_simplifier": f"{_OWN_KERNEL} for gathers of every form",
    "select_and_scatter_expander": f"{_OWN_KERNEL}: no arrays of selected positions",
    "scatter_expander": f"{_OWN_KERNEL}: a scatter of one update is as fast as a dynamic update",
    "tree_reduction_rewriter": "our reductions add in many lanes, which is as accurate, and read the array once",
    "gemv-rewriter": "our dot kernels take vectors",
    "bitcast_dtypes_expander": f"{_OWN_KERNEL}: bytes are loaded as another type",
    "sub-byte-size-setter": "we store each element in at least one byte, as NumPy does",
    "reduce-decomposer": "our reductions write results in any layout",
    "broadcast_canonicalizer": "our loops index broadcasts with their dimensions in any order",
    "dot-library-rewriter": "XLA:CPU calls kernel libraries for dots and large reductions; ours are in the "
    "code generator",
    "fusion-wrapper": "our code generator compiles single instructions without a fusion",
    "copy-insertion": "our buffer assignment never puts two live values into one buffer",
    "optimize_input_output_buffer_alias": "our executables never write to their arguments",
    "small-while-loop-hoisting": "our code generator compiles a small loop into one function without it",
}
"""Why the default pipeline leaves out a pass that XLA:CPU runs, by name."""

ADDED: Mapping[str, str] = {
    "while-loop-sliced-dot-hoisting": "recurrent networks then read their input weights once, not in each "
    "step; XLA has no such pass",
    "attention-fusion": "our code generator has a kernel for attention in one pass; XLA:CPU writes all "
    "scores to memory",
    "gemv-to-reduce": "our kernels of products read a matrix from memory, our sums compute it on the way; XLA:CPU "
    "fuses such a matrix into the product",
    "row-fusion": "our code generator compiles computations along the same rows into one kernel; XLA:CPU "
    "has no such pass",
    "all-reduce-simp": "it removes runtime calls on one device; XLA runs it for several devices",
    "permutation_sort_simplifier": "XLA:CPU has it since JAX 0.12: a scatter reads and writes each element once",
    "sibling-fusion": "our loops can write several results and share their operands; XLA:CPU has no such pass",
}
"""Why the default pipeline has a pass that XLA:CPU of JAX 0.10.2 lacks, by name."""

NOT_IN_XLA_CPU: Mapping[str, str] = {
    "dot-merger": "a pass of XLA:GPU and XLA:TPU: on a CPU one large dot is no faster than two",
    "dot_dimension_merger": "a pass of XLA:GPU that prepares library calls",
    "float-normalization-f16": "LLVM computes f16, in f32 if the machine has no f16 arithmetic; XLA:CPU does the same",
    "layout_normalization": "a pass of XLA:GPU; the code generators of XLA:CPU and xlanb take any layout",
    "reduce-precision-insertion": "for numerical studies only (XLA had a flag for it until 2022)",
}
"""Why a pass is in neither pipeline, by name."""

_FOR_SEVERAL = frozenset(("cpu-all-reduce-combiner",))
"""Passes of LEFT_OUT that the default pipeline has for several devices."""

_ONLY_FOR = {"spmd-partitioner": True, "sharding-removal": False}
"""Pipelines that run only for several devices, or only for one."""

_MAX_COPIES = 4
"""The most copies of a producer.

With more, recomputing the previous steps of x = x - sum(x) costs more than reading x saves
(measured on 1 kB to 256 kB).
"""

_VARIANTS: Mapping[str, Mapping[str, object]] = {
    "algsimp@layout": {"is_layout_sensitive": True},
    "cse@no-layout": {"is_layout_sensitive": False},
    "cse@layout": {"is_layout_sensitive": True},
    "algsimp@0.12": {"reassociates_floats": False},
    "algsimp@layout-0.12": {"is_layout_sensitive": True, "reassociates_floats": False},
    "apply-xla-transforms@post_scheduler": {"stage": "post_scheduler"},
    "dot_decomposer@own": {"keeps_order": True},
    "gemv-to-reduce@transposed": {"transposed": True},
    "layout-assignment@own": {"any_dots": True},
    "dot-library-rewriter@0.12": {"bf16_dots": True, "large_bitcasts": True},
    "transpose-folding@own": {"vectors": True},
    "fusion@0.12": {"rows_by_bytes": True},
    "fusion-wrapper@0.12": {"rows_by_bytes": True},
    "fusion@own": {"max_copies": _MAX_COPIES, "cuts_rows": True, "separate_loops": True, "reads_stored": True},
}
"""Options of passes, by name@variant."""

_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "default": {
        "dot_decomposer": "dot_decomposer@own",
        "fusion": "fusion@own",
        "layout-assignment": "layout-assignment@own",
        "transpose-folding": "transpose-folding@own",
    },
    "0.12": {
        "algsimp": "algsimp@0.12",
        "algsimp@layout": "algsimp@layout-0.12",
        "dot-library-rewriter": "dot-library-rewriter@0.12",
        "fusion": "fusion@0.12",
        "fusion-wrapper": "fusion-wrapper@0.12",
    },
}
"""The variant of a pass that a release, or the default pipeline, uses instead."""

RELEASES = ("0.10.2", "0.12")
"""The releases of JAX whose XLA:CPU pass order is in the table, oldest first."""

PIPELINES: Mapping[str, str] = {"default": "default", "xla": "0.10.2", "xla-0.12": "0.12"}
"""Pipelines by name: xlanb's own, or the release of the order."""

_JOINED: dict[str, tuple[HloPass, str | None]] = {}


def join(hlo_pass: HloPass, *, after: str | None = None) -> None:
    """Add a pass to the default pipeline of later compilations.

    It runs after each pass named `after`, or at the end. Replaces an added pass of the same name.

    Raises:
        PassError: The default pipeline has no pass named `after`.
    """
    leave(hlo_pass.name)
    pipeline().insert(hlo_pass, after=after)  # rejects an unknown name
    _JOINED[hlo_pass.name] = (hlo_pass, after)


def leave(name: str) -> None:
    """Remove a pass that was added to the default pipeline; does nothing if it was not."""
    _JOINED.pop(name, None)


def joined() -> tuple[tuple[HloPass, str | None], ...]:
    """The passes added to the default pipeline, each with the pass that it follows."""
    return tuple(_JOINED.values())


def pipeline(name: str = "default", *, xla: str | None = None, partitions: int = 1) -> HloPassPipeline:
    """The HLO passes of the CPU backend in order.

    "default" is what `compile` runs, "xla" is XLA:CPU's order with all of its passes that exist
    here.
    `xla` is a release of JAX, as in `pipeline(xla="0.12")`, to get its order; "xla" is that of
    0.10.2. With more than one of `partitions`, the pipeline begins with the partitioning passes.

    Raises:
        PassError: There is no pipeline of that name, or no such release.
    """
    if xla is not None:
        name = _of_release(name, xla)
    if name not in PIPELINES:
        raise PassError(f"no pipeline {name!r}{nearest(name, PIPELINES)}")
    built = _of_its_own(name, partitions > 1)
    for hlo_pass, after in joined() if name == "default" else ():
        if after is None or after in built.names:
            built = built.insert(hlo_pass, after=after)
    return built


def _of_release(name: str, xla: str) -> str:
    """The name of the pipeline of a release."""
    if name not in ("default", "xla"):
        raise PassError(f"expected pipeline(xla={xla!r}), without the name {name!r}")
    found = next((n for n, release in PIPELINES.items() if release == xla and release in RELEASES), None)
    if found is None:
        raise PassError(f"no known XLA:CPU pipeline for JAX {xla!r}; known releases: {', '.join(RELEASES)}")
    return found


@cache
def _of_its_own(name: str, several: bool) -> HloPassPipeline:
    """A pipeline of PIPELINES without added passes; passes are values, so it is shared."""
    release = PIPELINES[name]
    title = "cpu" if release == "default" else name
    rows = [row for row in _XLA if _ONLY_FOR.get(row[0], several) == several]
    return HloPassPipeline(title, [p for r in rows if (p := _build(r, release=release, several=several)) is not None])


def _build(row: Row, *, release: str, several: bool) -> AnyPass | None:
    """A pipeline of the table in a release, or in "default"; None if no pass is left of it.

    `several`: for several devices.
    """
    skip = set(LEFT_OUT) - (_FOR_SEVERAL if several else frozenset()) if release == "default" else ()
    options = _OPTIONS.get(release, {})

    def names(part: str) -> list[str]:
        return [options.get(n, n) for n in _in_release(part, release) if n not in skip]

    return build(row, names, _member)


def _in_release(row: str, release: str) -> list[str]:
    """The names of a row that a release has, without their brackets."""
    names = (item.rstrip("]").partition("[") for item in row.split())
    return [name for name, _, releases in names if not releases or release in releases.split(",")]


@cache
def _member(name: str) -> HloPass | DeferredPass:
    """A pass by name or by name@variant; deferred if its triggers are known without it.

    It is the same object each time, so that a pipeline recognizes repeated passes.
    """
    of = name.partition("@")[0]
    listed = pass_modules().get(of)
    triggers = listed.triggers if listed is not None else None
    return _named(name) if triggers is None else DeferredPass(of, triggers, partial(_named, name))


@cache
def _named(name: str) -> HloPass:
    """The pass itself."""
    return PASSES[name.partition("@")[0]](**_VARIANTS.get(name, {}))
