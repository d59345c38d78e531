"""A dump of XLA:GPU as a Trace.

Code of the kernels, the launch program, and the real reasons of its fusions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.cpu.records import CodeRecord
from xlanb.errors import XlanbError
from xlanb.explorer.trace import Trace
from xlanb.gpu.roofline import LAUNCH_SECONDS
from xlanb.runtime.gpu_program import GpuProgram

sys.path.insert(0, str(Path(__file__).parent))
from gpu_dump import BEFORE, DECISIONS, FINAL, LLVM, PTX, REPORT, SASS, TARGET, write_dump


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    write_dump(tmp_path)
    return xlanb.read_dump(tmp_path).main.trace


def test_the_code_of_kernels_is_stages_with_their_instructions(trace: Trace) -> None:
    assert [s.kind for s in trace][-5:] == ["llvm_ir", "llvm_ir_optimized", "ptx", "sass", "gpu_program"]
    for kind, language in (("llvm_ir", "llvm"), ("llvm_ir_optimized", "llvm"), ("ptx", "ptx"), ("sass", "sass")):
        record = trace[kind].after
        assert isinstance(record, CodeRecord)
        assert record.language == language
        assert record.functions == ("wrapped_sine", "loop_add_fusion_1")
        assert record.kernels == {"wrapped_sine": "wrapped_sine", "loop_add_fusion_1": "loop_add_fusion.1"}


def test_a_kernel_has_all_its_forms_and_what_it_needs(trace: Trace) -> None:
    program = trace["kernels"].after
    assert isinstance(program, GpuProgram)
    kernel = program["loop_add_fusion.2"]
    assert kernel is program["loop_add_fusion_1"]
    assert (kernel.instructions, kernel.launches) == (("loop_add_fusion.1", "loop_add_fusion.2"), 4)
    assert [name for name, _, _ in kernel.code.forms] == ["hlo", "llvm", "llvm_optimized", "ptx", "sass"]
    assert "add.2 = " in kernel.code.hlo
    assert kernel.code.llvm_optimized.startswith("; optimized")
    assert kernel.ptx.splitlines()[kernel.code.sass_lines[0] - 1] == "\tret;"
    assert kernel.resources is not None
    assert kernel.resources.registers == 40
    assert kernel.occupancy is not None
    # 40 registers take 1280 a warp: 12 warps in each of 4 partitions, 12 blocks of 4
    assert (kernel.occupancy.blocks, kernel.occupancy.limited_by) == (12, "registers")
    assert kernel.cost is not None
    assert (kernel.cost.flops, kernel.cost.bytes) == (2048, 3 * 4096)
    assert str(kernel.emitter) == "loop"
    assert program["wrapped_sine"].source == "model.py:7"
    assert "8 blocks of 128 threads, 4 times" in str(kernel)


def test_launches_stand_in_order_with_loops_by_their_trip_count(trace: Trace) -> None:
    program = trace["kernels"].after
    graph, sine, add, loop, inside = program.launches
    assert [x.thunk.instruction for x in program.launches[1:]] == [
        "wrapped_sine",
        "loop_add_fusion.1",
        "while.1",
        "loop_add_fusion.2",
    ]
    assert (graph.row, loop.row, sine.row, inside.times) == ("", "", "stream 0", 3)
    assert loop.detail == "3 iterations"
    assert graph.seconds == pytest.approx(sine.seconds + add.seconds)
    assert (add.start, inside.start) == (pytest.approx(sine.seconds), pytest.approx(graph.seconds))
    assert inside.seconds == pytest.approx(3 * add.seconds)
    assert loop.seconds == pytest.approx(inside.seconds)
    assert program.seconds == pytest.approx(graph.seconds + loop.seconds)
    assert program.seconds > 5 * LAUNCH_SECONDS


def test_a_collective_runs_on_its_stream_until_it_is_waited_for(tmp_path: Path) -> None:
    reduced = """\
000: kAsyncStart [source | next=002 (1)] stream=communication_stream[0], async_id=7
    001: kAllReduce [source | sink] kAllReduce
002: kCustomKernel [source | sink] wrapped_sine grid: [8, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
003: kAsyncDone [source | sink] async_id=7
004: kCustomKernel [source | sink] wrapped_sine grid: [8, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
"""
    final = """HloModule jit_f, is_scheduled=true, num_partitions=8

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }

ENTRY main {
  y = f32[10000000]{0} parameter(0)
  x = f32[1024]{0} parameter(1)
  all-reduce-start = f32[10000000]{0} all-reduce-start(y), replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=add
  wrapped_sine = f32[1024]{0} sine(x)
  ROOT all-reduce-done = f32[10000000]{0} all-reduce-done(all-reduce-start)
}
"""
    names = enumerate(("all-reduce-start", "all-reduce-start", "wrapped_sine", "all-reduce-done", "wrapped_sine"))
    metadata = "".join(f'profile_annotation: "{name}"\nthunk_id: {n}\n' for n, name in names)
    write_dump(
        tmp_path,
        **{"thunk_sequence_after_thunk_passes.txt": reduced, "thunk_metadata.txt": metadata},
        **{"sm_9.0a_gpu_after_optimizations.txt": final},
    )
    around, reduce, beside, wait, after = xlanb.read_dump(tmp_path).main.trace["kernels"].after.launches
    assert (reduce.row, reduce.start, reduce.bound, beside.row, beside.start) == (
        "communication_stream[0]",
        0.0,
        "network",
        "stream 0",
        0.0,
    )
    sent = 2 * 7 / 8 * 40_000_000
    assert reduce.seconds == pytest.approx(LAUNCH_SECONDS + sent / (18 * 25e9))
    assert (around.row, around.seconds) == ("", pytest.approx(reduce.seconds))
    assert (wait.row, wait.start) == ("", pytest.approx(reduce.seconds))
    assert (after.row, after.start) == ("stream 0", pytest.approx(reduce.seconds))


def test_the_program_tells_what_its_figures_rest_on(trace: Trace) -> None:
    program = trace["kernels"].after
    text = str(program)
    assert text.startswith("jit_f on NVIDIA H100 80GB HBM3: 2 kernels, 3 launches")
    assert "loop_add_fusion_1" in text
    frame = program.frame()
    assert list(frame["kernel"]) == ["loop_add_fusion_1", "wrapped_sine"]
    assert list(frame["registers"]) == [40, 40]
    with pytest.raises(XlanbError, match="did you mean 'wrapped_sine'"):
        program["wrapped_sinus"]


def test_why_answers_with_the_real_costs(trace: Trace) -> None:
    fused = trace.why("neg.1", "add.1")
    assert (fused[0].cause.pass_name, fused[0].action, fused[0].taken) == ("priority-fusion", "fuse", True)
    assert fused[0].predicates[0][:3] == (
        "the cost model accepts it",
        True,
        "1.05 us fused, 2.1 us unfused",
    )
    assert fused[0].predicates[1].value == "fusion.9"
    apart = trace.why("sine.1", "neg.1")
    assert not apart[0].taken
    assert [p[:3] for p in apart[0].predicates] == [("the consumer is not fusible", False, "neg.1 is a negate")]
    assert [d.subject[0] for d in trace.why("sine.1")] == ["sine.1"]
    assert [s.name for s in trace if s.decisions] == ["priority-fusion"]
    frame = trace["priority-fusion"].decisions.frame()
    assert frame.to_dict("list") == {
        "producer": ["neg.1", "sine.1"],
        "consumers": ["add.1", "neg.1"],
        "fused": [True, False],
        "why": [
            "the cost model accepts it: 1.05 us fused, 2.1 us unfused",
            "the consumer is not fusible: neg.1 is a negate",
        ],
    }


def test_why_asks_about_what_the_two_were_fused_with(tmp_path: Path) -> None:
    made = 'custom-call(x), custom_call_target="__cublas$gemm"'
    own = {"0001.fusion.after_pipeline-start.before_priority-fusion.txt": BEFORE.replace("sine(x)", made)}
    reason = DECISIONS.replace("the consumer is", "the producer is")
    write_dump(tmp_path, **own, **{"priority_fusion_dump.txt": reason})
    found = xlanb.read_dump(tmp_path).main.trace.why("sine.1", "add.1")
    assert found[0].subject == ("sine.1", "neg.1")
    assert [p[:3] for p in found[0].predicates] == [
        ("the producer is not fusible", False, "sine.1 is a call of cuBLAS")
    ]


def test_nothing_is_decided_about_what_has_no_users_left(tmp_path: Path) -> None:
    left = 'fusion_steps { producer_ineligible { producer_name: "neg.1" reason: "No users to fuse" } }\n'
    write_dump(tmp_path, **{"priority_fusion_dump.txt": DECISIONS + left})
    trace = xlanb.read_dump(tmp_path).main.trace
    assert [d.taken for d in trace.why("neg.1") if d.subject[0] == "neg.1"] == [True]


def test_a_producer_that_saves_nothing_is_told_with_its_costs(tmp_path: Path) -> None:
    write_dump(tmp_path, **{"priority_fusion_dump.txt": DECISIONS.splitlines()[0]})
    found = xlanb.read_dump(tmp_path).main.trace.why("sine.1", "neg.1")
    assert (found[0].taken, found[0].predicates[0].holds) == (False, False)
    assert found[0].predicates[0].value == "2.5 us fused, 2.25 us unfused"


def test_what_was_fused_into_something_goes_on_under_the_fusions_name(tmp_path: Path) -> None:
    steps = (
        DECISIONS
        + 'fusion_steps { fusion { fusion_name: "fusion.10" producer_name: "sine.1" consumer_name: "fusion.9" } }\n'
    )
    write_dump(tmp_path, **{"priority_fusion_dump.txt": steps})
    trace = xlanb.read_dump(tmp_path).main.trace
    assert trace.why("sine.1", "add.1")[0].subject == ("sine.1", "fusion.9")
    assert [d.taken for d in trace["priority-fusion"].decisions] == [True, True]


def test_a_dump_without_thunks_or_tools_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    gone = {"thunk_sequence_after_thunk_passes.txt": "", "thunk_metadata.txt": "", "priority_fusion_dump.txt": ""}
    gone |= {f"{k}.{end}": "" for k in (1, 3) for end in ("ptxas.txt", "sass")}
    write_dump(tmp_path, **gone)
    trace = xlanb.read_dump(tmp_path).main.trace
    program = trace["kernels"].after
    kernel = program["loop_add_fusion_1"]
    assert (kernel.instructions, kernel.launches, program.launches) == (("loop_add_fusion.1",), 0, ())
    assert (kernel.resources, kernel.occupancy, kernel.estimate, kernel.sass) == (None, None, None, "")
    assert "unknown blocks of 128 threads" in str(kernel)
    assert not any(s.decisions for s in trace)


@pytest.mark.parametrize(
    "end",
    [
        "1.ptx",
        "1.ptxas.txt",
        "1.sass",
        "thunk_metadata.txt",
        "priority_fusion_dump.txt",
        "gpu_target_config.pbtxt",
    ],
)
@pytest.mark.parametrize("text", ["hello {", "\0" * 400, "9" * 5000])
def test_a_broken_file_costs_only_what_stands_in_it(tmp_path: Path, end: str, text: str) -> None:
    write_dump(tmp_path, **{end: text})
    trace = xlanb.read_dump(tmp_path).main.trace
    program = trace["kernels"].after
    assert "loop_add_fusion_1" in program.by_name
    assert str(program)
    assert trace.why("neg.1", "add.1")


def test_kernels_of_another_maker_are_those_of_the_llvm_ir(tmp_path: Path) -> None:
    gone = {f"{k}.{end}": "" for k in (1, 3) for end in ("ptx", "ptxas.txt", "sass")}
    names = {0: "wrapped_sine", 2: "loop_add_fusion_1"}
    made = {f"{k}.ir-no-opt.ll": LLVM.format(name=n).replace("ptx_kernel", "amdgpu_kernel") for k, n in names.items()}
    target = TARGET.replace("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X")
    write_dump(tmp_path, **gone, **made, **{"gpu_target_config.pbtxt": target})
    trace = xlanb.read_dump(tmp_path).main.trace
    program = trace["kernels"].after
    assert [(k.name, k.launches) for k in program.kernels] == [("wrapped_sine", 1), ("loop_add_fusion_1", 4)]
    kernel = program["loop_add_fusion.2"]
    assert [form for form, _, _ in kernel.code.forms] == ["hlo", "llvm", "llvm_optimized"]
    assert (kernel.occupancy, kernel.estimate.bound) == (None, "launch")
    assert [s.kind for s in trace][-3:] == ["llvm_ir", "llvm_ir_optimized", "gpu_program"]


def test_the_table_of_modules_counts_kernels_once(tmp_path: Path) -> None:
    write_dump(tmp_path)
    (tmp_path / "module_0001.jit_f.5.ptx").write_text("")  # of constants alone
    dump = xlanb.read_dump(tmp_path)
    assert list(dump.modules["kernels"]) == [2]
    assert "2 kernels" in str(dump)


def test_several_kernels_in_one_file_have_their_own_lines(tmp_path: Path) -> None:
    both = PTX.format(name="wrapped_sine") + PTX.format(name="loop_add_fusion_1").partition("sm_90a\n")[2]
    lines = both.splitlines()
    last = len(lines) - 1 - lines[::-1].index("\tret;") + 1
    sass = SASS.format(name="wrapped_sine") + SASS.format(name="loop_add_fusion_1").replace("line 9", f"line {last}")
    report = REPORT.format(name="wrapped_sine") + REPORT.format(name="loop_add_fusion_1").replace("40", "41")
    gone = {f"3.{end}": "" for end in ("ptx", "ptxas.txt", "sass")}
    write_dump(tmp_path, **gone, **{"1.ptx": both, "1.ptxas.txt": report, "1.sass": sass})
    program = xlanb.read_dump(tmp_path).main.trace["kernels"].after
    kernel = program["loop_add_fusion_1"]
    assert kernel.ptx.splitlines()[0] == ".visible .entry loop_add_fusion_1("
    assert kernel.ptx.splitlines()[kernel.code.sass_lines[0] - 1] == "\tret;"
    assert [program[n].resources.registers for n in ("wrapped_sine", "loop_add_fusion_1")] == [40, 41]
    assert program.by_name["wrapped_sine"].launches == 1


def test_a_refusal_of_ptxas_stands_at_the_kernel(tmp_path: Path) -> None:
    write_dump(tmp_path, **{"1.ptxas.txt": "ptxas fatal : no such instruction", "1.sass": ""})
    kernel = xlanb.read_dump(tmp_path).main.trace["kernels"].after["wrapped_sine"]
    assert "no such instruction" in kernel.refusal
    assert "no such instruction" in str(kernel)


def test_an_unknown_gpu_has_no_times_and_says_so(tmp_path: Path) -> None:
    write_dump(tmp_path, **{"gpu_target_config.pbtxt": TARGET.replace("NVIDIA H100 80GB HBM3", "My GPU")})
    program = xlanb.read_dump(tmp_path).main.trace["kernels"].after
    assert program.note.startswith("My GPU is not in the table of GPUs")
    assert (program.seconds, program.kernels[0].occupancy) == (0.0, None)


def test_a_loop_of_unknown_length_counts_once_and_the_figures_say_so(tmp_path: Path) -> None:
    final = FINAL.replace(', backend_config={"known_trip_count":{"n":"3"}}', "")
    write_dump(tmp_path / "d", **{"sm_9.0a_gpu_after_optimizations.txt": final})
    program = xlanb.read_dump(tmp_path / "d")["jit_f"]["kernels"].after
    loop = next(x for x in program.launches if x.thunk.kind == "kWhile")
    assert loop.is_unknown_loop
    assert "trip count is unknown" in loop.detail
    assert program.unknown_loops == 1
    assert program.headline.endswith("one iteration of 1 loop of unknown length")
    once = final.replace(
        "condition=cond, body=body", 'condition=cond, body=body, backend_config={"known_trip_count":{"n":"1"}}'
    )
    write_dump(tmp_path / "e", **{"sm_9.0a_gpu_after_optimizations.txt": once})
    program = xlanb.read_dump(tmp_path / "e")["jit_f"]["kernels"].after
    assert program.unknown_loops == 0
    assert next(x for x in program.launches if x.thunk.kind == "kWhile").detail == "1 iteration"
    assert "loop" not in program.headline


def test_tritons_ir_is_a_stage_and_a_form_of_its_kernel(tmp_path: Path) -> None:
    tiles = "module {\n  xtile.entry_func @loop_add_fusion_1(%arg0: memref<8xf32>) {\n    xtile.return\n  }\n}\n"
    files = {
        "loop_add_fusion.1.before_validation.ttir.txt": tiles,
        "loop_add_fusion.1.ttir.txt": tiles.replace("xtile.entry_func", "tt.func public"),
    }
    write_dump(tmp_path, **files)
    trace = xlanb.read_dump(tmp_path)["jit_f"]
    names = [s.name for s in trace]
    assert names[names.index("llvm_ir") - 2 : names.index("llvm_ir")] == ["xtile", "triton_ir"]
    for kind in ("xtile", "triton_ir"):
        assert trace[kind].after.kernels == {"loop_add_fusion_1": "loop_add_fusion.1"}
    program = trace["kernels"].after
    assert "tt.func" in program["loop_add_fusion.1"].code.triton
    assert program["wrapped_sine"].code.triton == ""


def test_the_report_of_memory_follows_the_buffers(tmp_path: Path) -> None:
    head = "sm_9.0a_gpu_after_optimizations"
    files = {
        f"{head}-buffer-assignment.txt": "BufferAssignment:\n",
        f"{head}-memory-usage-report.txt": "Total bytes: 8\n",
    }
    write_dump(tmp_path, **files)
    trace = xlanb.read_dump(tmp_path)["jit_f"]
    names = [s.name for s in trace]
    place = names.index("memory usage report")
    assert names[place - 1] == "buffer_assignment"
    assert trace.stages[place].after.text == "Total bytes: 8\n"
    assert trace["llvm_ir"].before is trace["buffer_assignment"].after
