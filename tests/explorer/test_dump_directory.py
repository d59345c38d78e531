"""Dump directories: modules ranked, names decoded, a module as a Trace; bad files do no harm."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

import xlanb
from xlanb.errors import DumpError
from xlanb.explorer.dump_directory import DumpDirectory
from xlanb.explorer.stage import Deferred, TextRecord
from xlanb.hlo.records import ModuleRecord

FIRST = """HloModule jit_step

ENTRY main {
  x = f32[8]{0} parameter(0)
  one = f32[] constant(1)
  ones = f32[8]{0} broadcast(one), dimensions={}
  p = f32[8]{0} multiply(x, ones)
  ROOT e = f32[8]{0} exponential(p)
}
"""
SECOND = """HloModule jit_step

ENTRY main {
  x = f32[8]{0} parameter(0)
  one = f32[] constant(1)
  ones = f32[8]{0} broadcast(one), dimensions={}
  ROOT e = f32[8]{0} exponential(x)
}
"""
THIRD = """HloModule jit_step

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT e = f32[8]{0} exponential(x)
}
"""
LLVM = "define ptr @exp_fusion_kernel(ptr %0) {\n  ret ptr null\n}\n"
LONG = (
    "HloModule jit_step\n\nENTRY main {\n  x = f32[8]{0} parameter(0)\n"
    + "".join(f"  n{k} = f32[8]{{0}} negate({f'n{k - 1}' if k else 'x'})\n" for k in range(20))
    + "  ROOT r = f32[8]{0} abs(n19)\n}\n"
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a dump of one program and a helper, with a fixed point of two rounds."""
    through = "HLO_passes_through_layout_assignment"
    files = {
        "before_optimizations.txt": FIRST,
        f"0000.{through}.after_pipeline-start.before_dot_decomposer.txt": FIRST,
        "0001.simplification.after_pipeline-start.before_algsimp.txt": FIRST,
        "0002.simplification.after_algsimp.before_dce.txt": SECOND,
        "0003.simplification.after_pipeline-start.before_algsimp.txt": SECOND,
        "0004.simplification.after_dce.before_cse.txt": THIRD,
        f"0005.{through}.after_simplification.before_cse.txt": THIRD,
        "cpu_after_optimizations.txt": THIRD,
        "exp_fusion_kernel_module.ir-no-opt.ll": LLVM,
    }
    for name, text in files.items():
        (tmp_path / f"module_0003.jit_step.{name}").write_text(text)
    (tmp_path / "module_0001.jit_convert_element_type.before_optimizations.txt").write_text(
        THIRD.replace("jit_step", "jit_convert_element_type")
    )
    return tmp_path


def test_the_main_program_comes_first_and_says_why(directory: Path) -> None:
    (directory / "module_0003.jit_step.before_optimizations.txt").write_text(LONG)
    dump = xlanb.read_dump(directory)
    assert [m.name for m in dump.ranked] == ["jit_step", "jit_convert_element_type"]
    assert dump.main is not None
    assert dump.main.why == "main program: the most work (176 flop, 64 B a run); all others are helpers"
    assert dump.ranked[1].why == "helper: named after a single op"
    table = dump.modules
    assert list(table["module"]) == ["jit_step", "jit_convert_element_type"]
    assert list(table["kernels"]) == [1, 0]
    assert table["instructions_before"][0] == 22


def test_a_module_is_a_trace_of_its_pipelines(directory: Path) -> None:
    trace = xlanb.read_dump(directory)["jit_step"]
    through = "HLO_passes_through_layout_assignment"
    assert [(s.pipeline, s.name, s.changed) for s in trace] == [
        ((), "before_optimizations", True),
        ((through, "simplification"), "algsimp", True),
        ((through, "simplification", "round 2"), "dce", True),
        ((through,), "simplification", False),
        ((), "after_optimizations", False),
        ((), "llvm_ir", True),
    ]
    assert trace["algsimp"].describe() == "algsimp: 1 removed, 1 changed"
    assert trace["dce"].removed == {"one", "ones"}
    assert trace["llvm_ir"].after is not None
    assert trace["llvm_ir"].after.kernels == {"exp_fusion_kernel": "exp_fusion"}  # type: ignore[union-attr]


def test_equal_instructions_of_successive_dumps_are_one_object(directory: Path) -> None:
    trace = xlanb.read_dump(directory)["jit_step"]
    before, after = trace["dce"].before, trace["dce"].after
    assert isinstance(before, ModuleRecord)
    assert isinstance(after, ModuleRecord)
    assert after.entry_computation.by_name["x"] is before.entry_computation.by_name["x"]


def test_nothing_is_parsed_before_it_is_looked_at(directory: Path) -> None:
    trace = xlanb.read_dump(directory)["jit_step"]
    given = trace.stages[1].given_after
    assert isinstance(given, Deferred)
    assert given._artifact is None
    assert isinstance(trace.stages[1].after, ModuleRecord)
    assert given._artifact is not None


def test_missing_dumps_are_said(directory: Path) -> None:
    for number in ("0001", "0002"):
        next(directory.glob(f"*.{number}.*")).unlink()
    trace = xlanb.read_dump(directory)["jit_step"]
    assert trace.stages[1].name == "pipeline-start"
    assert trace.stages[1].summary == "dumps 0001 to 0002 are missing"


def test_bad_files_stand_in_the_trace_as_such(directory: Path) -> None:
    broken = next(directory.glob("*.0002.*"))
    broken.write_text(SECOND[:120])
    compressed = next(directory.glob("*.0004.*"))
    compressed.with_name(compressed.name + ".gz").write_bytes(gzip.compress(THIRD.encode())[:-20])
    compressed.unlink()
    trace = xlanb.read_dump(directory)["jit_step"]
    bad = trace["algsimp"].after
    assert isinstance(bad, TextRecord)
    assert bad.note.startswith("6:30: expects opcode")
    truncated = trace["dce"].after
    assert isinstance(truncated, TextRecord)
    assert "cannot be read" in truncated.note
    assert isinstance(trace["after_optimizations"].after, ModuleRecord)


def test_binary_and_compressed_dumps_open(directory: Path) -> None:
    module = xlanb.hlo.parse(SECOND)
    text = next(directory.glob("*.0002.*"))
    text.with_name(text.name.replace(".txt", ".hlo.pb")).write_bytes(module.to_proto())
    text.unlink()
    other = next(directory.glob("*.0004.*"))
    other.with_name(other.name + ".gz").write_bytes(gzip.compress(THIRD.encode()))
    other.unlink()
    trace = xlanb.read_dump(directory)["jit_step"]
    assert str(trace["algsimp"].after) == str(module.record())
    assert trace["dce"].removed == {"one", "ones"}


def test_folders_keep_processes_apart(directory: Path, tmp_path: Path) -> None:
    for worker in ("worker0", "worker1"):
        folder = tmp_path / "all" / worker
        folder.mkdir(parents=True)
        for file in directory.glob("module_*"):
            shutil.copy(file, folder)
    dump = xlanb.read_dump(tmp_path / "all")
    assert len(dump) == 4
    with pytest.raises(DumpError, match="2 modules are called 'jit_step'"):
        dump["jit_step"]
    assert len(dump[0]) == 6


def test_a_name_that_is_not_there_lists_those_that_are(directory: Path) -> None:
    dump = xlanb.read_dump(directory)
    with pytest.raises(
        DumpError, match=r"no module 'step'; did you mean 'jit_step'.*; there are: .*jit_step \(module_0003\)"
    ):
        dump["step"]
    assert dump["module_0003"] is dump["jit_step"] is dump["*Step*"]
    with pytest.raises(DumpError, match=r"2 modules are called '\*j\*'"):
        dump["*j*"]
    with pytest.raises(DumpError, match="no module 2"):
        dump[2]


def test_a_file_is_no_directory(directory: Path) -> None:
    file = next(directory.glob("*.0002.*"))
    with pytest.raises(DumpError, match="is not a directory: did you mean"):
        xlanb.read_dump(file)


def test_graphs_of_tensorflow_are_a_trace(directory: Path) -> None:
    graph = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\n'
    for name in ("mark_for_compilation", "before_mark_for_compilation", "build_xla_ops"):
        (directory / f"{name}.pbtxt").write_text(graph)
        (directory / f"{name}_1.pbtxt").write_text("node { nonsense" if name == "build_xla_ops" else graph)
    graphs = xlanb.read_dump(directory).graphs
    assert graphs is not None
    assert [(s.name, s.pipeline) for s in graphs] == [
        (name, (run,))
        for run in ("run 0", "run 1")
        for name in ("before_mark_for_compilation", "mark_for_compilation", "build_xla_ops")
    ]
    assert type(graphs.stages[1].after).__name__ == "GraphRecord"
    assert isinstance(graphs.stages[5].after, TextRecord)


def test_graphs_of_grappler_and_of_functions_stand_apart(tmp_path: Path) -> None:
    graph = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\n'
    names = [
        "after_MetaOptimizer_iteration_0_remapper_140722968131408",
        "before_MetaOptimizer_iteration_0_140722968131408",
        "after_MetaOptimizer_140722968131408",
        "after_MetaOptimizer_iteration_0_model_pruner_140722968131408",
        "f.0001.main.after_opt_group_pre_placement",
        "f.0000.main.before_opt_group_pre_placement",
        "encapsulate_xla_computations_before",
    ]
    for name in names:
        (tmp_path / f"{name}.pbtxt").write_text(graph)
    (tmp_path / "0_mlir_bridge_CSE_before.mlir").write_text("module {}\n")
    graphs = xlanb.read_dump(tmp_path).graphs
    assert graphs is not None
    grappler = ("Grappler", "graph at 140722968131408")
    assert [(s.pipeline, s.name) for s in graphs] == [
        (("run 0",), "encapsulate_xla_computations_before"),
        (("functions", "f"), "before_opt_group_pre_placement"),
        (("functions", "f"), "after_opt_group_pre_placement"),
        (grappler, "before_MetaOptimizer_iteration_0"),
        (grappler, "after_MetaOptimizer_iteration_0_model_pruner"),
        (grappler, "after_MetaOptimizer_iteration_0_remapper"),
        (grappler, "after_MetaOptimizer"),
        (("MLIR bridge",), "mlir_bridge_CSE_before"),
    ]
    assert [s.before is None for s in graphs] == [True, True, False, True, False, False, False, True]
    assert graphs.stages[-1].after == TextRecord("0_mlir_bridge_CSE_before.mlir", "module {}\n", "mlir")


def test_files_without_a_rule_are_listed(directory: Path) -> None:
    (directory / "notes.md").write_text("mine")
    dump = xlanb.read_dump(directory)
    assert dump.others == [("notes.md", "does not match a known dump file name")]
    assert "1 other file, " in str(dump)
    assert len(dump.files) == 11
    assert dict(zip(dump.files.file, dump.files.kind, strict=True))["notes.md"] == "other"


def test_an_empty_directory_has_nothing_to_show(tmp_path: Path) -> None:
    dump = xlanb.read_dump(tmp_path)
    assert isinstance(dump, DumpDirectory)
    assert dump.main is None
    assert dump.traces == []
    assert len(dump.modules) == 0


FUSED = """HloModule jit_step

fused {
  q = f32[8]{0} parameter(0)
  m.9 = f32[8]{0} multiply(q, q)
  ROOT e.9 = f32[8]{0} exponential(m.9)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT fusion_33 = f32[8]{0} fusion(x), kind=kLoop, calls=fused
}
"""
PLAIN = """HloModule jit_step

ENTRY main {
  x = f32[8]{0} parameter(0)
  m = f32[8]{0} multiply(x, x), metadata={op_name="jit(step)/square" source_file="step.py" source_line=4}
  ROOT e = f32[8]{0} exponential(m), metadata={op_name="jit(step)/exp" source_file="step.py" source_line=5}
}
"""


def test_a_fusion_of_the_real_compiler_leads_back_to_what_is_in_it(tmp_path: Path) -> None:
    for name, text in {"before_optimizations": PLAIN, "0001.fusion.after_fusion.before_dce": FUSED}.items():
        (tmp_path / f"module_0003.jit_step.{name}.txt").write_text(text)
    lineage = xlanb.read_dump(tmp_path)["jit_step"].lineage("fusion_33")
    assert set(lineage.nodes) == {"jit(step)/square", "jit(step)/exp"}
    assert set(lineage.lines) == {"step.py:4", "step.py:5"}
    assert {k.old for k in lineage.links} == {"m", "e"}


def test_the_main_program_leads_to_its_trace(directory: Path) -> None:
    dump = xlanb.read_dump(directory)
    assert dump.main is not None
    assert dump.main.trace is dump[0]
    assert [m.trace.name for m in dump.ranked] == [t.name for t in dump]


def test_why_of_a_dump_says_that_dumps_hold_no_decisions(directory: Path) -> None:
    dump = xlanb.read_dump(directory)
    said = str(dump[0].why("e"))
    assert "no pass decided" not in said
    assert "a dump shows what the passes did but not why: .lineage('e')" in said
    assert "no pass made a decision" in str(xlanb.trace(FIRST).why("x"))


def test_file_names_that_are_not_utf8(tmp_path):
    text = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[2] negate(p)\n}\n"
    with xlanb.flags(f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=.*"):
        xlanb.compile(text)
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace(".m.", ".m\udcff\udcfe.")))
    for name in ("\udce9t\udce9.txt", "before_mark_for_compilation_\udcff.pbtxt"):
        (tmp_path / name).write_text("node {")
    dump = xlanb.read_dump(tmp_path)
    trace = dump[0]
    assert trace.name == r"m\xff\xfe"
    trace.to_html(tmp_path / "page.html")
    shown = [str(dump), repr(dump), *dump._repr_mimebundle_().values(), str(trace), *trace._repr_mimebundle_().values()]
    shown += [
        dump.modules.to_json(orient="records", date_format="iso"),
        str(dump.others),
        *(str(s.after) for s in trace),
    ]
    assert all(str(v).encode("utf-8") for v in shown)


def test_a_time_that_no_calendar_has_is_left_out(tmp_path, monkeypatch):
    path = tmp_path / "module_0001.m.before_optimizations.txt"
    path.write_text("HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n")
    monkeypatch.setattr("xlanb.dump.reader.ModuleFiles.modified", property(lambda _: 2.0**50))
    assert xlanb.read_dump(tmp_path).modules["written"].isna().all()


PRODUCT = """HloModule jit__lambda

ENTRY main {
  x = f32[64,64]{1,0} parameter(0)
  ROOT d = f32[64,64]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_programs_are_ranked_by_work_and_not_by_instructions(tmp_path: Path) -> None:
    normal = LONG.replace("jit_step", "jit__normal").replace("f32[8]", "f32[9000]")
    texts = [(2, "jit__normal", normal), (4, "jit__lambda", LONG), (6, "jit__lambda", PRODUCT), (8, "jit_add", PRODUCT)]
    for number, name, text in texts:
        (tmp_path / f"module_{number:04d}.{name}.before_optimizations.txt").write_text(text)
    dump = xlanb.read_dump(tmp_path)
    assert [(m.files.number, m.is_helper) for m in dump.ranked] == [(6, False), (4, False), (2, True), (8, True)]
    assert [m.why for m in dump.ranked] == [
        "main program: the most work (524 kflop, 32.8 kB a run); "
        "the next, jit__lambda (module_0004): 168 flop, 1.34 kB a run",
        "program",
        "helper: named after a function inside the framework",
        "helper: named after a single op",
    ]
    assert list(dump.modules["flops"]) == [2 * 64**3, 21 * 8, 21 * 9000, 2 * 64**3]
    assert str(dump).count("524 kflop") == 2  # the main program's in its reason alone, and that of jit_add


def test_a_dump_that_cannot_be_read_is_ranked_by_its_size(tmp_path: Path) -> None:
    for number, name in ((1, "jit_f"), (2, "jit_g")):
        text = LONG if name == "jit_f" else LONG.replace("negate", "nonsense") + "  = \n" * 3
        (tmp_path / f"module_{number:04d}.{name}.before_optimizations.txt").write_text(text)
    dump = xlanb.read_dump(tmp_path)
    assert [m.work is None for m in dump.ranked] == [False, True]
    assert dump.main is not None
    assert dump.main.why.endswith("; the next, jit_g: 25 instructions, work unknown")


def test_a_trace_counts_the_kernels_that_its_directory_counts(directory: Path) -> None:
    text = "define void @exp_fusion_kernel_wrapped() {\n  ret void\n}\n" + LLVM
    next(directory.glob("*.ir-no-opt.ll")).write_text(text)
    module = next(m for m in xlanb.read_dump(directory).ranked if m.name == "jit_step")
    assert module.trace.kernel_count == module.files.kernel_count == 1
