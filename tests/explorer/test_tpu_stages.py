"""A dump of XLA:TPU as a Trace, with or without the HLO dumps.

It has memory space assignment, the schedule, and the LLO programs.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import xlanb
from xlanb.dump.tpu.memory_space import MemorySpaceRecord
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.explorer.dump_trace import dump_trace
from xlanb.explorer.stage import Deferred, TextRecord
from xlanb.explorer.trace import Trace

HLO = """HloModule jit_f, is_scheduled=true

ENTRY main {
  x = f32[8,128]{1,0:T(8,128)} parameter(0)
  copy-start = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(x), cross_program_prefetch_index=0
  copy-done = f32[8,128]{1,0:T(8,128)S(1)} copy-done(copy-start)
  neg.1 = f32[8,128]{1,0:T(8,128)} negate(copy-done)
  ROOT neg.2 = f32[8,128]{1,0:T(8,128)} negate(neg.1)
}
"""
BUNDLES = """     0   :  { %v5_v0 = vld [vmem:[%s1_s0] sm:$0xff] }
   0x1   :  { %v6_v1 = vadd.f32 1.0, %v5_v0  ;;  %7 = vmatmul.bf16.gmra.mxu0 %v5_v0 }
   0x2   :  {}
"""
TOP = """     0   :  { %1 = inlined_call /* %neg.1 = negate(%copy-done) */ }
   0x1   :  { %2 = inlined_call /* %neg.2 = negate(%neg.1) */ }
"""
USE = "== CAPACTIY:\nMATMUL, VALU, VLOAD\n 4 4 3\n== UTILIZATION:\n0 0 1\n4 1 0\n0 0 0\n"
ANALYSIS = "\ttotal scheduled bundles: 3\n\tempty scheduled bundles: 1\n\t 2.00 scheduled bundles (100.00%): %neg.1 = f32[8] negate(%x)\n"
FINGERPRINTS = "".join(
    f"{sum_}JdpnrHDCSlNuh19QjKTsfORBevwS2eM=:i=0000000{n}:c=00000000:a=00000000:b=00000001 {label}\n"
    for sum_, n, label in (("aa", 9, "original"), ("bb", 5, "post-CP"), ("bb", 5, "post-GVN"))
)
SPACES = {
    "bufferinfo": 'buffer_id,buffer_name,alt_mem_benefit,size,definition_time,use_times,use_names,is_scoped\n3,"<3 neg.1>",1e-9,4096,1,"2","neg.2, operand 0",0\n',
    "allocinfo": "buffer_id,size,offset,start_time,end_time\n3,4096,0,1,2\n1,4096,4096,0,3\n",
    "scheduleinfo": "time,instruction_name\n0,x\n1,neg.1\n2,neg.2\n",
}
TARGET = 'tpu_topology_args {\n  version: TPU_VERSION_VIPERFISH\n  variant: "lite"\n}\n'
START = 1795425055000000000


def write_llo(folder: Path, at: int = 0, hlo: str = HLO) -> None:
    """Write the LLO dumps of a compilation that begins `at` units after the first."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, (name, text) in enumerate(SPACES.items()):
        (folder / f"{START + at}-TLP-{k:02d}-memory-space-assignment-{name}.txt").write_text(text)
    top, own = f"{START + at + 5}-TLP", f"{START + at + 7}-neg.1"
    (folder / f"{top}-hlo.txt").write_text(hlo)
    (folder / f"{top}-00-deduplication-map.txt").write_text(
        "key:neg.1\nordinal:1\nequivalent_hlos[size=2]:\n  neg.1\n  neg.2\n"
    )
    (folder / f"{top}-09-final_bundles.txt").write_text(TOP)
    for k, (label, text) in enumerate(
        {
            "fingerprints": FINGERPRINTS,
            "original": "%v5 = vld [vmem:[%s1]]\n%v8 = vmul.f32 1.0, %v5\n",
            "post-CP": "%v5 = vld [vmem:[%s1]]\n",
            "post-GVN": "%v5 = vld [vmem:[%s1]]\n",
            "final_hlo-static-per-bundle-utilization": USE,
            "schedule-analysis_final_bundles": ANALYSIS,
            "final_bundles": BUNDLES,
        }.items()
    ):
        (folder / f"{own}-{k:02d}-{label}.txt").write_text(text)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Return a module with its LLO in a subfolder, as a peer process leaves it."""
    (tmp_path / "module_0000.jit_f.cl_1.before_optimizations.txt").write_text(HLO)
    (tmp_path / "module_0000.jit_f.cl_1.after_optimizations.txt").write_text(HLO)
    (tmp_path / "module_0000.jit_f.cl_1.target_arguments.txt").write_text(TARGET)
    write_llo(tmp_path / "llo")
    return tmp_path


def test_llo_gives_stages_after_the_hlo(dump: Path) -> None:
    """Nothing is read before it is used."""
    trace = xlanb.read_dump(dump)[0]
    assert [(s.kind, s.name) for s in trace.stages[-4:]] == [
        ("memory_space_assignment", "memory_space_assignment"),
        ("tpu_schedule", "schedule"),
        ("llo", "TLP"),
        ("llo", "neg.1"),
    ]
    assert all(isinstance(s.given_after, Deferred) and not s.given_after.is_read for s in trace.stages[-4:])
    assert trace.stages[-1].pipeline == ("LLO",)
    assert list(xlanb.read_dump(dump).modules["kernels"]) == [2]
    assert [s.index for s in trace] == list(range(len(trace)))


def test_program_knows_its_chip_and_whom_it_serves(dump: Path) -> None:
    """Bundles, use of units, LLO stages; the chip by the module's target_arguments."""
    program = xlanb.read_dump(dump)[0]["neg.1"].after
    assert isinstance(program, TpuProgram)
    assert (len(program.final), program.final.empty, program.serves) == (3, 1, ("neg.1", "neg.2"))
    assert program.chip is not None
    assert program.seconds == pytest.approx(3 / 1.5e9)
    assert program.mxu_share == pytest.approx(1 / 3)
    assert program.headline() == "3 bundles, 1 empty, 0.002 us if each runs once, busiest MATMUL 33%"
    assert list(program.stage_frame()["changed"]) == [True, True, False, True]
    assert list(program.stage_frame()["instructions"].fillna(0)) == [9, 5, 5, 0]
    assert list(program.frame()["use MATMUL"]) == [0, 4, 0]


def test_llo_stages_are_a_trace(dump: Path) -> None:
    """A stage that changed nothing shares the previous text; texts are compared line by line."""
    trace = xlanb.read_dump(dump)[0]["neg.1"].after.trace
    assert isinstance(trace, Trace)
    assert [(s.name, s.changed) for s in trace] == [
        ("original", True),
        ("post-CP", True),
        ("post-GVN", False),
        ("final_bundles", True),
    ]
    assert "-%v8 = vmul.f32 1.0, %v5" in str(trace.diff("original", "post-CP")).splitlines()


def test_schedule_joins_hlo_and_programs(dump: Path) -> None:
    """An instruction that shares a program has its bundles; the copy runs concurrently."""
    schedule = xlanb.read_dump(dump)[0]["tpu_schedule"].after
    assert isinstance(schedule, TpuScheduleRecord)
    assert [(i.name, i.program, i.bundles) for i in schedule.instructions[2:]] == [
        ("neg.1", "neg.1", 3),
        ("neg.2", "neg.1", 3),
    ]
    assert [s.target for s in schedule.spans] == ["VMEM"]


def test_memory_spaces_name_the_prefetched_parameter(dump: Path) -> None:
    """VMEM's size is the chip's."""
    spaces = xlanb.read_dump(dump)[0]["memory_space_assignment"].after
    assert isinstance(spaces, MemorySpaceRecord)
    assert [b.place for b in spaces.buffers] == ["neg.1", "x"]
    assert (spaces.space, spaces.capacity) == ("VMEM", 128 << 20)


def test_unreadable_report_is_a_text_that_says_why(dump: Path) -> None:
    """The other stages are still read."""
    (file,) = (dump / "llo").glob("*neg.1-*utilization.txt")
    file.write_text("nonsense")
    trace = xlanb.read_dump(dump)[0]
    broken = trace["neg.1"].after
    assert isinstance(broken, TextRecord)
    assert "not a utilization table" in broken.note
    assert isinstance(trace["TLP"].after, TpuProgram)


def test_llo_alone_is_a_module(tmp_path: Path) -> None:
    """The HLO that it was made from gives its name and the program."""
    write_llo(tmp_path)
    dump = xlanb.read_dump(tmp_path)
    assert [(m.name, m.files.number) for m in dump.ranked] == [("jit_f", -1)]
    assert [s.kind for s in dump[0]] == ["hlo", "memory_space_assignment", "tpu_schedule", "llo", "llo"]
    assert dump.others == []


def test_compilations_go_to_their_modules(dump: Path) -> None:
    """Two modules, two compilations in one folder: matched by the name in their HLO."""
    (dump / "module_0002.jit_g.after_optimizations.txt").write_text(HLO.replace("jit_f", "jit_g"))
    write_llo(dump / "llo", at=100, hlo=HLO.replace("jit_f", "jit_g"))
    listing = xlanb.read_dump(dump).listing
    assert {m.name: min(f.name.timestamp or 0 for f in m.llo) - START for m in listing.modules} == {
        "jit_f": 0,
        "jit_g": 100,
    }


def test_chip_is_unknown_without_target(tmp_path: Path) -> None:
    """Then it has bundles, but no times."""
    write_llo(tmp_path)
    program = xlanb.read_dump(tmp_path)[0]["neg.1"].after
    assert (program.chip, program.seconds) == (None, None)
    assert "us" not in program.headline().split()


def test_revision_of_libtpu_is_no_part_of_the_module_name(dump: Path) -> None:
    """Shardy's files, without the revision, belong to the same module; helpers go by name."""
    shardy = dump / "shardy" / "module_0000.jit_f"
    shardy.mkdir(parents=True)
    (shardy / "00.input_module.mlir").write_text("module @jit_f {}")
    (dump / "module_0001.jit_convert_element_type.cl_1.after_optimizations.txt").write_text(
        HLO.replace("jit_f", "jit_c")
    )
    ranked = xlanb.read_dump(dump).ranked
    assert [m.name for m in ranked if not m.is_helper] == ["jit_f"]
    assert [m.name for m in ranked if m.is_helper] == ["jit_convert_element_type"]


def test_compressed_dumps_are_read_alike(tmp_path: Path) -> None:
    """LLO is large text, so users may compress it."""
    write_llo(tmp_path)
    for file in list(tmp_path.iterdir()):
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    dump = xlanb.read_dump(tmp_path)
    assert [m.name for m in dump.ranked] == ["jit_f"]
    assert isinstance(dump[0]["neg.1"].after, TpuProgram)
    assert len(dump[0]["neg.1"].after.trace["post-CP"].after.text) > 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
def test_pipe_in_place_of_the_hlo_does_not_block(tmp_path: Path) -> None:
    """It is not a regular file, so it is not listed."""
    write_llo(tmp_path)
    (file,) = tmp_path.glob("*-TLP-hlo.txt")
    file.unlink()
    os.mkfifo(file)
    trace = xlanb.read_dump(tmp_path)[0]
    assert [s.kind for s in trace] == ["memory_space_assignment", "llo", "llo"]


def test_cost_analysis_of_the_compiler_is_kept_with_the_schedule(dump: Path) -> None:
    """The compiling process has XLA's own estimate."""
    files = xlanb.read_dump(dump).ranked[0].files
    trace = dump_trace(files, {"flops": 197e6, "optimal_seconds": 2e-6})
    roofline = trace["tpu_schedule"].after.roofline()
    assert (roofline.compute_seconds, roofline.optimal_seconds) == (pytest.approx(1e-6), 2e-6)
    assert dump_trace(files)["tpu_schedule"].after.roofline().optimal_seconds is None


def test_llo_of_the_last_run_belongs_to_the_module(dump: Path) -> None:
    """HLO dumps of a second run overwrite those of the first, LLO dumps do not."""
    write_llo(dump / "llo", at=100)
    modules = xlanb.read_dump(dump).listing.modules
    starts = {m.number: min(f.name.timestamp or 0 for f in m.llo) - START for m in modules}
    assert starts == {0: 100, -1: 0}
