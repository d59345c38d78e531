"""Compilations write the dumps that the flags select, under XLA's names; the files open again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xlanb
from xlanb.dump.names import decode_name
from xlanb.errors import DumpError, FlagError
from xlanb.hlo.records import ModuleRecord

PROGRAM = """HloModule jit_step

ENTRY main {
  x = f32[8]{0} parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8]{0} broadcast(zero), dimensions={}
  s = f32[8]{0} add(x, zeros)
  ROOT e = f32[8]{0} exponential(s)
}
"""


def dumped(directory: Path, *words: str) -> list[str]:
    """File names of one compilation's dump, without the module's number."""
    with xlanb.flags(" ".join([f"--xla_dump_to={directory}", *words])):
        xlanb.compile(PROGRAM)
    return sorted(re.sub(r"module_\d{4}\.jit_step\.", "", p.name) for p in directory.iterdir())


def test_without_a_pass_only_the_ends_are_written(tmp_path: Path) -> None:
    assert dumped(tmp_path) == [
        "before_optimizations.txt",
        "cpu_after_optimizations-buffer-assignment-values.txt",
        "cpu_after_optimizations-buffer-assignment.txt",
        "cpu_after_optimizations-live-range.txt",
        "cpu_after_optimizations.txt",
        "debug_options",
        "ir-no-opt.ll",
        "ir-with-opt.ll",
        "s",
    ]


def test_dumps_open_as_the_trace_that_wrote_them(tmp_path: Path) -> None:
    names = dumped(tmp_path, "--xla_dump_hlo_pass_re=.*")
    between = [n for n in names if re.match(r"\d{4}\.", n)]
    assert [n[:4] for n in between] == [f"{k:04d}" for k in range(len(between))]
    trace = xlanb.read_dump(tmp_path)["jit_step"]
    assert trace["algsimp"].removed == {"zero", "zeros", "s"}
    assert trace["algsimp"].pipeline == ("HLO_passes_through_layout_assignment", "simplification")
    assert trace["buffer_assignment"].after is not None
    assert not [s for s in trace if s.name == "pipeline-start"]


def test_a_pattern_chooses_passes_and_pipelines(tmp_path: Path) -> None:
    between = [n for n in dumped(tmp_path, "--xla_dump_hlo_pass_re=^algsimp$") if re.match(r"\d{4}\.", n)]
    assert between
    assert all("algsimp" in n for n in between)
    other = tmp_path / "other"
    words = ("--xla_dump_hlo_pass_re=.+", "--xla_dump_hlo_pipeline_re=layout_assignment$")
    assert {n.split(".")[1] for n in dumped(other, *words) if re.match(r"\d{4}\.", n)} == {
        "HLO_passes_through_layout_assignment",
        "HLO_passes_after_layout_assignment",
        "simplification_after_layout_assignment",
    }


def test_every_form_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    words = [f"--xla_dump_hlo_as_{form}" for form in ("proto", "dot", "html", "url")]
    names = dumped(tmp_path, *words, "--xla_dump_compress_protos", "--xla_dump_include_timestamp")
    ends = {n.partition("before_optimizations.")[2] for n in names if "before_optimizations" in n}
    assert ends == {"hlo.pb.gz", "dot", "html", "url"}
    assert all(re.match(r"\d{16}\.", n) for n in names)
    dump = xlanb.read_dump(tmp_path)
    first = dump["jit_step"].stages[0].after
    assert isinstance(first, ModuleRecord)
    assert str(first) == str(xlanb.hlo.parse(PROGRAM))
    page = next(tmp_path.glob("*before_optimizations.html")).read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_modules_are_chosen_by_name_and_limited(tmp_path: Path) -> None:
    with xlanb.flags(f"--xla_dump_to={tmp_path} --xla_dump_hlo_module_re=train"):
        xlanb.compile(PROGRAM)
        xlanb.compile(PROGRAM.replace("jit_step", "jit_train"))
    assert [m.name for m in xlanb.read_dump(tmp_path).ranked] == ["jit_train"]
    limited = tmp_path / "limited"
    with xlanb.flags(f"--xla_dump_to={limited} --xla_dump_max_hlo_modules=2"):
        for _ in range(3):
            xlanb.compile(PROGRAM)
    assert len(xlanb.read_dump(limited)) == 2


def test_without_a_directory_text_goes_to_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    with xlanb.flags("--xla_dump_hlo_as_text"):
        xlanb.compile(PROGRAM)
    assert re.search(
        r"\*\*\* Begin module_\d{4}\.jit_step\.before_optimizations\.txt \*\*\*\nHloModule", capsys.readouterr().out
    )


def test_flags_of_2018_write_as_well(tmp_path: Path) -> None:
    with xlanb.flags(f"--xla_generate_hlo_graph=.* --xla_hlo_graph_path={tmp_path}"):
        xlanb.compile(PROGRAM)
    assert list(tmp_path.glob("*.before_optimizations.dot"))
    assert not list(tmp_path.glob("*.before_optimizations.txt"))


def test_a_directory_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with xlanb.flags(f"--xla_dump_to={tmp_path}/file/dumps"), pytest.raises(DumpError, match="cannot write"):
        xlanb.compile(PROGRAM)


def test_a_pattern_that_is_none_is_an_error(tmp_path: Path) -> None:
    with (
        xlanb.flags(f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=("),
        pytest.raises(FlagError, match="--xla_dump_hlo_pass_re"),
    ):
        xlanb.compile(PROGRAM)


@pytest.mark.parametrize("pattern", ["*Dce*", "*dce"])
def test_a_glob_for_a_pattern_is_understood_and_said(tmp_path: Path, pattern: str) -> None:
    with (
        xlanb.flags(f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re={pattern}"),
        pytest.warns(UserWarning, match=r"interpreted as a case-insensitive glob.*needs dce"),
    ):
        xlanb.compile(PROGRAM)
    names = [n for p in tmp_path.iterdir() if (n := decode_name(p.name)).kind == "pass"]
    assert any(n.after == "dce" for n in names)
    assert all("dce" in (n.after, n.before) for n in names)


def test_a_glob_for_modules_dumps_those_alone(tmp_path: Path) -> None:
    for name in ("jit_step", "jit_while_loop"):
        with (
            xlanb.flags(f"--xla_dump_to={tmp_path} --xla_dump_hlo_module_re=*While* --xlanb_generation={len(name)}"),
            pytest.warns(UserWarning, match="xla_dump_hlo_module_re=.*needs while"),
        ):
            xlanb.compile(PROGRAM.replace("jit_step", name))
    assert {decode_name(p.name).module for p in tmp_path.iterdir()} == {"jit_while_loop"}
