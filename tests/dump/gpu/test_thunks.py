"""Thunk sequences of XLA:GPU, parsed."""

import pytest

from xlanb.dump.gpu.thunks import parse_metadata, parse_thunks
from xlanb.errors import DumpError

# Loops and conditionals as XLA 0.10.2 prints them, the name of the condition at the margin.
NESTED = """\
001: kCopy         [source       | next=002 (1)] kCopy
005: kWhile        [prev=001 (1) | next=014 (1)]
condition:
    006: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
  body:
    007: kCustomKernel       [source       | next=008 (1)] gemm_fusion_dot_0 grid: [16, 2, 1] threads: [64, 1, 1]  shared_memory: 1024 bytes
    011: kDynamicSliceFusion [prev=010 (1) | sink        ] params=1, results=1
        012: kCopy [source | sink] kCopy
    022: kConditional  [prev=017 (2) | next=023 (1)]
      false_branch:
        019: kCustomKernel [source | sink] wrapped_sine grid: [16, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
      true_branch:
        020: kAllReduceStart [source | sink] kAllReduceStart
    013: kCopy         [prev=008 (4) | sink        ] kCopy
014: kCublasLtMatmul [prev=005 (1) | sink        ] kCublasLtMatmul
"""
METADATA = """\
thunk_metadata {
  thunk_info {
    profile_annotation: "command_buffer_1"
  }
  thunk_kind: "kCommandBuffer"
}
thunk_metadata {
  thunk_info {
    profile_annotation: "gemm_fusion_dot.0"
    thunk_id: 7
  }
  thunk_kind: "kCustomKernel"
}
thunk_metadata {
  thunk_info {
    profile_annotation: "custom-call.1"
    thunk_id: 14
  }
  thunk_kind: "kCublasLtMatmul"
}
"""


def test_thunks_are_nested_with_the_part_that_they_stand_in() -> None:
    thunks = parse_thunks(NESTED, METADATA)
    by_number = {t.number: t for t in thunks}
    assert [t.number for t in thunks] == [1, 5, 6, 7, 11, 12, 22, 19, 20, 13, 14]
    parts = {n: (by_number[n].branch, by_number[n].depth) for n in (5, 6, 7, 11, 12, 19, 20, 13, 14)}
    assert parts == {
        5: ("", 0), 6: ("condition", 1), 7: ("body", 1), 11: ("body", 1), 12: ("", 2), 19: ("false_branch", 2),
        20: ("true_branch", 2), 13: ("body", 1), 14: ("", 0),
    }  # fmt: skip
    assert {n: thunks[by_number[n].parent].number for n in (6, 7, 12, 19, 13)} == {6: 5, 7: 5, 12: 11, 19: 22, 13: 5}


def test_a_launch_has_its_dimensions_and_its_instruction() -> None:
    found = {t.number: t for t in parse_thunks(NESTED, METADATA)}
    kernel, call = found[7], found[14]
    assert (kernel.name, kernel.instruction) == ("gemm_fusion_dot_0", "gemm_fusion_dot.0")
    assert (kernel.grid, kernel.block, kernel.shared_bytes) == ((16, 2, 1), (64, 1, 1), 1024)
    assert (kernel.blocks, kernel.threads, kernel.waits_for) == (32, 64, -1)
    assert kernel.is_kernel
    assert (call.words, call.engine, call.instruction, call.waits_for) == (
        "matrix product",
        "cuBLASLt",
        "custom-call.1",
        5,
    )
    assert found[11].detail == "params=1, results=1"
    assert (found[20].words, found[20].engine) == ("all reduce", "NCCL")


def test_a_cuda_graph_holds_its_kernels() -> None:
    text = """\
000: kCommandBuffer [source | next=006 (1)]
    001: kCustomKernel [source | sink] fusion grid: [5, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
006: kConvolution   [prev=000 (1) | sink] kConvolution
"""
    graph, kernel, convolution = parse_thunks(text, 'profile_annotation: "x"\nthunk_id: 0\n')
    assert (graph.words, graph.instruction) == ("CUDA graph", "")
    assert (kernel.parent, kernel.depth) == (0, 1)
    assert (convolution.parent, convolution.engine) == (-1, "cuDNN")


def test_metadata_without_a_number_names_nothing() -> None:
    assert parse_metadata(METADATA) == {7: "gemm_fusion_dot.0", 14: "custom-call.1"}


@pytest.mark.parametrize("text", ["", "hello", "001: kKernel", "\0" * 100, "001: kKernel [" + "x" * 100_000])
def test_what_is_no_thunk_sequence_is_refused(text: str) -> None:
    with pytest.raises(DumpError, match="not a thunk sequence"):
        parse_thunks(text)


def test_deep_nesting_is_read() -> None:
    text = "".join(f"{' ' * n}{n}: kWhile [source | sink] \n" for n in range(2000))
    thunks = parse_thunks(text)
    assert thunks[-1].depth == 1999
    assert thunks[-1].parent == 1998
