"""Other artifacts in a dump: Shardy's own MLIR, a GPU's thunks."""

from __future__ import annotations

from pathlib import Path

import pytest

import xlanb
from xlanb.explorer.stage import TextRecord

HLO = "HloModule jit_f\n\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT n = f32[8] negate(x)\n}\n"
SPLIT = HLO.replace("f32[8]", "f32[4]")
THUNKS = "001: kCustomKernel [source | sink] neg grid: [1, 1, 1] threads: [8, 1, 1]  shared_memory: 0 bytes\n"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    files = {
        "before_optimizations.txt": HLO,
        "0001.spmd-partitioner.after_shardy-xla.before_spmd-partitioning.txt": HLO.replace(" n ", " m "),
        "0002.spmd-partitioner.after_spmd-partitioning.before_pipeline-end.txt": SPLIT,
        "sm_9.0a_gpu_after_optimizations.txt": SPLIT,
        "gpu_target_config.pbtxt": 'device_description_str: "some GPU"\n',
        "thunk_sequence.txt": THUNKS,
        "thunk_sequence_after_thunk_passes.txt": THUNKS,
    }
    for name, text in files.items():
        (tmp_path / f"module_0000.jit_f.{name}").write_text(text)
    shardy = tmp_path / "shardy" / "module_0000.jit_f"
    shardy.mkdir(parents=True)
    texts = ("module {}", "module {}", 'module { sdy.mesh @mesh = <["x"=2]> }')
    for k, (name, text) in enumerate(
        zip(("input_module", "before_propagation", "after_propagation"), texts, strict=True)
    ):
        (shardy / f"{k:02}.{name}.mlir").write_text(text)
    return tmp_path


def test_what_shardy_did_stands_before_its_pass(dump: Path) -> None:
    trace = xlanb.read_dump(dump)["jit_f"]
    names = [s.name for s in trace]
    place = names.index("shardy-xla")
    assert names[place - 3 : place] == ["input module", "before propagation", "after propagation"]
    first, second, third = trace.stages[place - 3 : place]
    assert (first.kind, first.pipeline) == ("shardy", ("spmd-partitioner", "shardy-xla"))
    assert [s.changed for s in (first, second, third)] == [True, False, True]
    assert isinstance(third.after, TextRecord)
    assert "sdy.mesh" in third.after.text
    assert trace["shardy-xla"].before is trace["before_optimizations"].after


def test_thunks_of_a_gpu_are_stages(dump: Path) -> None:
    trace = xlanb.read_dump(dump)["jit_f"]
    emitted, after = (s for s in trace if s.kind == "thunks")
    assert (emitted.name, after.name) == ("thunks as emitted", "thunks after their passes")
    assert "kCustomKernel" in emitted.after.text
    assert not after.changed


FRAMES = """\
HloModule jit_f

FileNames
1 "net.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=2}
2 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

ENTRY %e (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %dead = f32[8]{0} abs(%x), metadata={op_name="f/abs" stack_frame_id=1}
  ROOT %n = f32[8]{0} negate(%x), metadata={op_name="f/neg" stack_frame_id=2}
}
"""


def test_frame_of_what_is_gone_changes_nothing_else(tmp_path: Path) -> None:
    after = "".join(line for line in FRAMES.splitlines(keepends=True) if "%dead" not in line)
    for name, text in (("before_optimizations", FRAMES), ("0000.simplify.after_dce.before_pipeline-end", after)):
        (tmp_path / f"module_0000.jit_f.{name}.txt").write_text(text)
    trace = xlanb.read_dump(tmp_path)["jit_f"]
    assert trace["dce"].describe() == "dce: 1 removed"
    assert trace["dce"].after.by_name["e"].by_name["n"].metadata.python_line == ("net.py", 2)
