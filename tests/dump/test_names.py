"""Names of dumped files, decoded and encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.dump.names import DumpName, decode_name, encode_name, sanitized

BETWEEN = "module_0004.jit_step.0025.HLO_passes_after_layout_assignment.after_copy-insertion.before_dce.txt"
CLUSTER = "cluster_0__XlaCompiledKernel_true__XlaNumConstantArgs_1_.5"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            BETWEEN,
            DumpName("pass", "txt", 4, "jit_step", 25, "HLO_passes_after_layout_assignment", "copy-insertion", "dce"),
        ),
        (
            "module_0001.0003.IPU.after_allocation-finder.before_forward-allocation.dot",
            DumpName("pass", "dot", 1, "", 3, "IPU", "allocation-finder", "forward-allocation"),
        ),
        (
            f"module_0020.{CLUSTER}.0007.simplification.after_algsimp.before_simplify-sorts.hlo.pb.gz",
            DumpName("pass", "hlo.pb", 20, CLUSTER, 7, "simplification", "algsimp", "simplify-sorts", compressed=True),
        ),
        (
            "module_0000.jit_f.0013.copy-insertion.after_removing_unnecessary_copies.txt",
            DumpName("step", "txt", 0, "jit_f", 13, "copy-insertion", "removing_unnecessary_copies"),
        ),
        (
            "module_0000.jit_f.0030.tpu-tiling-rewriter.before_tiling_rewriter.txt",
            DumpName("step", "txt", 0, "jit_f", 30, "tpu-tiling-rewriter", before="tiling_rewriter"),
        ),
        (
            "module_0000.jit_f.after_optimizations_before_buffer_assignment.txt",
            DumpName("fixed", "txt", 0, "jit_f", label="after_optimizations_before_buffer_assignment"),
        ),
        (
            "module_0001.jit_f.gemm_fusion_dot.1.ttir.txt",
            DumpName("triton_ir", "txt", 1, "jit_f", label="ttir", kernel="gemm_fusion_dot.1"),
        ),
        (
            "module_0001.jit_f.gemm_fusion_dot.1.before_validation.ttir.txt",
            DumpName("xtile", "txt", 1, "jit_f", label="before_validation.ttir", kernel="gemm_fusion_dot.1"),
        ),
        (
            "1700000000000.module_0003.jit_f.1.before_optimizations.txt",
            DumpName("fixed", "txt", 3, "jit_f.1", label="before_optimizations", timestamp=1700000000000),
        ),
        (
            "module_0003.jit_f.cpu_after_optimizations-buffer-assignment.txt",
            DumpName("fixed", "txt", 3, "jit_f", label="cpu_after_optimizations-buffer-assignment"),
        ),
        ("module_0003.jit_f.debug_options", DumpName("fixed", "", 3, "jit_f", label="debug_options")),
        (
            "module_0003.jit_f.obj-file.add_fusion_kernel_module.o",
            DumpName("object", "o", 3, "jit_f", label="obj-file", kernel="add_fusion_kernel_module"),
        ),
        (
            "module_0003.jit_f.ir-with-opt.ll",
            DumpName("llvm_ir_optimized", "ll", 3, "jit_f", label="ir-with-opt"),
        ),
        ("module_0003.jit_f.12.sass", DumpName("sass", "sass", 3, "jit_f", kernel="12")),
        (
            "module_0003.jit_f.12.ptxas.txt",
            DumpName("ptxas", "txt", 3, "jit_f", label="ptxas", kernel="12"),
        ),
        (
            "module_0003.jit_f.thunk_sequence_after_thunk_passes.txt",
            DumpName("fixed", "txt", 3, "jit_f", label="thunk_sequence_after_thunk_passes"),
        ),
        (
            "hlo_0004_cluster_1.after_fusion,_before_dce.txt",
            DumpName("pass", "txt", module="cluster_1", sequence=4, after="fusion", before="dce"),
        ),
        (
            "hlo_1_cluster_0__XlaCompiledKernel_true__.v4.CPU pipeline_after_algsimp.pbtxt",
            DumpName(
                "pass",
                "pbtxt",
                module="cluster_0__XlaCompiledKernel_true__",
                sequence=1,
                pipeline="CPU pipeline",
                after="algsimp",
            ),
        ),
        (
            "hlo_2_cluster_0.v3.CPU_after_optimizations.txt",
            DumpName("fixed", "txt", module="cluster_0", sequence=2, label="v3.CPU_after_optimizations"),
        ),
        ("hlo_graph_12.aBcDeF.dot", DumpName("other", "dot", sequence=12, label="hlo_graph")),
        ("mark_for_compilation_3.pbtxt", DumpName("graph", "pbtxt", sequence=3, label="mark_for_compilation")),
        (
            "encapsulate_subgraphs_subgraph_cluster_0.pbtxt",
            DumpName("graph", "pbtxt", label="encapsulate_subgraphs_subgraph_cluster_0"),
        ),
        ("readme.md", DumpName("other", "", label="readme.md")),
    ],
)
def test_a_name_is_taken_apart(file: str, expected: DumpName) -> None:
    assert decode_name(file) == expected


@pytest.mark.parametrize(
    ("file", "module"),
    [
        (BETWEEN, ""),
        (f"module_0020.{CLUSTER}.multiply_fusion.1_kernel_module.ir-no-opt.ll", CLUSTER),
        (f"module_0020.{CLUSTER}.multiply_fusion_kernel_module-pre-optimization.mlir", CLUSTER),
        ("module_0004.jit_f.add_fusion_kernel_module.mlir-passes.log", "jit_f"),
        (f"module_0020.{CLUSTER}.obj-file.multiply_fusion.o", CLUSTER),
        ("12345678.module_0001.jit_f.sm_8.0_gpu_after_optimizations.hlo.pb", "jit_f"),
        ("module_0001.0003.IPU.after_a.before_b.dot", ""),
    ],
)
def test_a_name_taken_apart_goes_together_again(file: str, module: str) -> None:
    assert encode_name(decode_name(file, module)) == file


def test_a_name_that_would_be_too_long_leaves_the_module_out() -> None:
    name = DumpName("pass", "txt", 3, "m" * 250, 7, "simplification", "algsimp", "dce")
    assert encode_name(name) == "module_0003.0007.simplification.after_algsimp.before_dce.txt"


def test_what_has_no_place_in_a_file_name_is_replaced() -> None:
    assert sanitized("a/b\\c[d] e") == "a_b_c_d__e"


def test_names_say_in_words_what_they_mean() -> None:
    assert decode_name(BETWEEN).describe() == (
        "HLO after copy-insertion, before dce, in pipeline HLO_passes_after_layout_assignment"
    )
    start = decode_name("module_0004.f.0001.simplification.after_pipeline-start.before_algsimp.dot")
    assert start.describe() == ("Graphviz graph of the HLO before algsimp, at the start of pipeline simplification")
    assert decode_name("module_0003.jit_f.obj-file.k.o").describe() == "machine code of k"
    assert decode_name("module_0003.jit_f.cpu_after_optimizations.txt").describe() == "the optimised program"


@given(st.text(max_size=300))
def test_any_name_is_taken(name: str) -> None:
    assert decode_name(name).describe() is not None


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("module_0001.SyncTensorsGraph.123.sm_8.0_gpu_after_optimizations.txt", "SyncTensorsGraph.123"),
        ("module_0000.jit_f.sm_9.0_gpu_after_optimizations-buffer-assignment.txt", "jit_f"),
        ("module_0000.jit_f.gfx90a_gpu_after_optimizations.txt", "jit_f"),
        ("module_0005.pjit_train_step.after_codegen.txt", "pjit_train_step"),
        ("module_0005.pjit_train_step.after_codegen-buffer-assignment.txt", "pjit_train_step"),
    ],
)
def test_the_dot_in_a_gpu_target_is_not_of_the_module(file: str, module: str) -> None:
    name = decode_name(file)
    assert (name.kind, name.module) == ("fixed", module)


@pytest.mark.parametrize(
    ("file", "label", "sequence", "owner", "words"),
    [
        ("forward_type_inference_after_13.pbtxt", "forward_type_inference_after", 13, "", "types inferred from inputs"),
        ("EnsureMemoryTypes.pbtxt", "EnsureMemoryTypes", None, "", "copies between host and device"),
        ("before_replicate_constants_pass_2.pbtxt", "before_replicate_constants_pass", 2, "", "before small constants"),
        (
            "after_MetaOptimizer_iteration_1_remapper_140722968131408_2.pbtxt",
            "after_MetaOptimizer_iteration_1_remapper",
            2,
            "140722968131408",
            "after Grappler's remapper, round 1: nodes fused",
        ),
        (
            "after_MetaOptimizer_iteration_0_tfg_optimizer{any(tfg-toposort,tfg-x{v=0})}_140722968131408.pbtxt",
            "after_MetaOptimizer_iteration_0_tfg_optimizer{any(tfg-toposort,tfg-x{v=0})}",
            None,
            "140722968131408",
            "after Grappler's tfg_optimizer, round 0: ",
        ),
        (
            "before_MetaOptimizer_iteration_0_140722968.pbtxt",
            "before_MetaOptimizer_iteration_0",
            None,
            "140722968",
            "before round 0 of Grappler",
        ),
        (
            "after_MetaOptimizer_140722968.pbtxt",
            "after_MetaOptimizer",
            None,
            "140722968",
            "after Grappler, functions too",
        ),
        (
            "tfg_before_graph_tf_graph_1234567890.pbtxt",
            "tfg_before_graph",
            None,
            "tf_graph_1234567890",
            "before Grappler's passes in MLIR",
        ),
        (
            "__forward_f_75.0004.main.before_opt_group_post_rewrite_for_exec.pbtxt",
            "before_opt_group_post_rewrite_for_exec",
            4,
            "__forward_f_75",
            "before the passes after feeds",
        ),
        (
            "unknown_graph.0003.bridge_phase2.before_LegalizeTF.mlir",
            "before_LegalizeTF",
            3,
            "unknown_graph",
            "before the MLIR pass LegalizeTF",
        ),
        ("2_mlir_bridge_CSE_before.mlir", "mlir_bridge_CSE_before", 2, "", "before the MLIR pass CSE"),
        ("__forward_f_75placer_input_1.pbtxt", "placer_input", 1, "__forward_f_75", "before devices are chosen"),
        (
            "__forward_f_75colocation_graph.txt",
            "colocation_graph",
            None,
            "__forward_f_75",
            "which nodes the placer keeps",
        ),
        (
            "partition__job:localhost_device:CPU:0_94341521650488.pbtxt",
            "partition__job:localhost_device:CPU:0",
            None,
            "94341521650488",
            "the part of the graph on one device",
        ),
    ],
)
def test_names_of_the_graphs_of_todays_tensorflow(
    file: str, label: str, sequence: int | None, owner: str, words: str
) -> None:
    name = decode_name(file)
    assert (name.kind, name.label, name.sequence, name.module) == ("graph", label, sequence, owner)
    assert name.describe().startswith(f"TensorFlow graph: {words}")


@pytest.mark.parametrize(
    "file",
    ["notes.mlir", "model.main.pbtxt", "x_placer_input.mlir", "a_140722968131408.pbtxt"],
)
def test_what_is_no_graph_of_tensorflows_stays_unknown(file: str) -> None:
    assert decode_name(file).kind == "other"
