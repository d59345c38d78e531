"""The module of each pass, so that a pipeline imports only what it runs.

A row has the module within xlanb.transforms, the name of the pass and, if it only runs on modules
with one of a few opcodes (see HloPass.triggers), those; a line that begins with blanks continues
it. `make generate` writes the rows; a pass without a row is found by importing all passes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from xlanb.hlo.opcode import BY_TEXT, HloOpcode

_ROWS = """
algebraic_simplifier.algebraic_simplifier  algsimp
calls.call_inliner                         call-inliner                        call
calls.computation_deduplicator             computation-deduplicator
calls.conditional_canonicalizer            conditional-canonicalizer           conditional
calls.conditional_simplifier               simplify-conditional                conditional
calls.conditional_to_select                conditional-to-select               conditional
calls.flatten_call_graph                   flatten-call-graph
calls.map_inliner                          map-inline                          map
calls.propagate_call_metadata              propagate-call-metadata             call
collectives.all_reduce_promotion           all-reduce-promotion
collectives.all_reduce_simplifier          all-reduce-simp                     all-gather all-reduce
                                                                               all-to-all collective-permute
                                                                               reduce-scatter
collectives.all_to_all_decomposer          all_to_all_decomposer
collectives.async_collective_replacer      async-collective-replacer           all-gather-done all-reduce-done
                                                                               async-done collective-permute-done
collectives.cpu_all_reduce_combiner        cpu-all-reduce-combiner
collectives.sharding_remover               sharding-remover                    custom-call
copies.copy_insertion                      copy-insertion
copies.host_offloader                      host-offloader
copies.optimize_input_output_buffer_alias  optimize_input_output_buffer_alias
copies.strip_memory_placement_annotations  strip-memory-placement-annotations  custom-call
dots.batch_dot_simplification              batch-dot-simplification            dot
dots.conv_canonicalization                 convolution-canonicalization        convolution
dots.convolution_group_converter           convolution-group-converter
dots.dot_decomposer                        dot_decomposer                      dot
dots.dot_dimension_merger                  dot_dimension_merger
dots.dot_library_rewriter                  dot-library-rewriter
dots.dot_merger                            dot-merger                          dot
dots.gemv_rewriter                         gemv-rewriter
dots.gemv_to_reduce                        gemv-to-reduce                      dot
dots.transpose_folding                     transpose-folding                   transpose
dynamic.dynamic_dimension_simplifier       dynamic-dimension-simplifier
dynamic.dynamic_padder                     dynamic_padder
expanders.batchnorm_expander               batchnorm_expander                  batch-norm-grad batch-norm-inference
                                                                               batch-norm-training
expanders.bitcast_dtypes_expander          bitcast_dtypes_expander
expanders.cholesky_expander                cholesky_expander
expanders.comparison_expander              comparison-expander                 compare
expanders.eigh_expander                    eigh_expander
expanders.logistic_expander                logistic-expander
expanders.optimization_barrier_expander    cse_barrier_expander                opt-barrier
expanders.qr_expander                      qr_expander
expanders.rng_bit_generator_expander       rng-bit-generator-expander          rng-bit-generator
expanders.rng_expander                     rng-expander
expanders.scan_expander                    scan_expander
expanders.select_and_scatter_expander      select_and_scatter_expander
expanders.stable_sort_expander             stable-sort-expander                sort
expanders.topk_decomposer                  topk-decomposer
expanders.topk_rewriter                    topk-rewriter
expanders.triangular_solve_expander        triangular_solve_expander
fusion.attention_fusion                    attention-fusion                    dot
fusion.cpu_instruction_fusion              fusion
fusion.fusion_wrapper                      fusion-wrapper
fusion.row_fusion                          row-fusion
fusion.sibling_fusion                      sibling-fusion
indexing.batched_gather_scatter_normalizer batched_gather_scatter_normalizer   gather scatter
indexing.dynamic_index_splitter            dynamic-index-splitter              dynamic-slice dynamic-update-slice
indexing.gather_expander                   gather_expander
indexing.gather_simplifier                 gather_simplifier
indexing.scatter_expander                  scatter_expander
indexing.scatter_simplifier                scatter_simplifier                  scatter
layout.layout_assignment                   layout-assignment
layout.layout_normalization                layout_normalization
layout.reshape_decomposer                  reshape-decomposer                  reshape
layout.reshape_mover                       reshape-mover
loops.loop_schedule_linearizer             loop-schedule-linearizer            while
loops.small_while_loop_hoisting_pass       small-while-loop-hoisting
loops.while_loop_constant_sinking          while-loop-constant-sinking         while
loops.while_loop_invariant_code_motion     while-loop-invariant-code-motion    while
loops.while_loop_simplifier                simplify-while-loops                while
loops.while_loop_sliced_dot_hoisting       while-loop-sliced-dot-hoisting      while
loops.while_loop_trip_count_annotator      while-loop-trip-count-annotator     while
precision.change_op_data_type              change-op-data-type
precision.float_normalization              float-normalization-bf16
precision.float_normalization              float-normalization-f16
precision.float_normalization              float-normalization-f4e2m1fn
precision.float_normalization              float-normalization-f8e3m4
precision.float_normalization              float-normalization-f8e4m3
precision.float_normalization              float-normalization-f8e4m3b11fnuz
precision.float_normalization              float-normalization-f8e4m3fn
precision.float_normalization              float-normalization-f8e4m3fnuz
precision.float_normalization              float-normalization-f8e5m2
precision.float_normalization              float-normalization-f8e5m2fnuz
precision.float_normalization              float-normalization-f8e8m0fnu
precision.float_normalization              float-normalization-s4
precision.float_normalization              float-normalization-u4
precision.operand_upcaster                 operand_upcaster                    convolution dot
precision.reduce_precision_insertion       reduce-precision-insertion
precision.result_caster                    result_caster
precision.stochastic_convert_decomposer    stochastic_convert_decomposer       stochastic-convert
precision.sub_byte_normalization           sub-byte-size-setter
reductions.associative_scan_rewriter       associative-scan-rewriter
reductions.reduce_decomposer               reduce-decomposer
reductions.reduce_window_resizer           reduce-window-resizer
reductions.reduce_window_rewriter          reduce-window-rewriter
reductions.tree_reduction_rewriter         tree_reduction_rewriter
scheduling.control_dep_rewriter            control-dep-rewriter                custom-call
scheduling.parallel_task_assignment        cpu-parallel-task-assigner
simplifiers.apply_xla_transforms           apply-xla-transforms
simplifiers.broadcast_canonicalizer        broadcast_canonicalizer
simplifiers.computation_canonicalizers     literal-canonicalizer
simplifiers.computation_canonicalizers     shape-canonicalizer
simplifiers.convert_mover                  convert-mover                       convert
simplifiers.hlo_constant_folding           constant_folding
simplifiers.hlo_cse                        cse
simplifiers.hlo_dce                        dce
simplifiers.permutation_sort_simplifier    permutation_sort_simplifier         sort
simplifiers.simplify_fp_conversions        simplify-fp-conversions             convert
simplifiers.sort_simplifier                simplify-sorts                      sort
simplifiers.tuple_simplifier               tuple-simplifier                    get-tuple-element tuple
simplifiers.zero_sized_hlo_elimination     zero_sized_hlo_elimination
"""


class PassModule(NamedTuple):
    """The module that defines a pass, and its triggers if the row has them."""

    module: str
    triggers: frozenset[HloOpcode] | None


@cache
def pass_modules() -> dict[str, PassModule]:
    """The rows by the name of the pass."""
    made = {}
    for row in _ROWS.strip().replace("\n ", " ").splitlines():
        module, name, *opcodes = row.split()
        triggers = frozenset([BY_TEXT[o] for o in opcodes]) if opcodes else None
        made[name] = PassModule(f"{__package__}.{module}", triggers)
    return made
