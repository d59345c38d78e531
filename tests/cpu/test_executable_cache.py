"""Executables on disk: what is found there, what is not stored, what a restored one can show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.cpu import compiler, pipelines
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.hlo import parse
from xlanb.runtime import program
from xlanb.transforms import PASSES

TEXT = """HloModule m

ENTRY e {
  p = f32[64,32] parameter(0)
  q = f32[32,16] parameter(1)
  d = f32[64,16] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,16] tanh(d)
}
"""
P = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
Q = np.linspace(-1, 1, 32 * 16, dtype=np.float32).reshape(32, 16)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of modules compiled since, in order."""
    found: list[str] = []
    real = compiler._compile

    def counted(module: Any, *rest: Any) -> Any:
        found.append(module.name)
        return real(module, *rest)

    monkeypatch.setattr(compiler, "_compile", counted)
    return found


def test_a_second_compilation_runs_no_pass(compilations: list[str]) -> None:
    first, second = xlanb.compile(TEXT), xlanb.compile(TEXT)
    assert compilations == ["m"]
    np.testing.assert_array_equal(first(P, Q), second(P, Q))


def test_a_restored_executable_shows_everything(compilations: list[str]) -> None:
    first, second = xlanb.compile(TEXT), xlanb.compile(TEXT)
    assert str(second.hlo_module) == str(first.hlo_module)
    assert second.buffer_assignment.temp_size == first.buffer_assignment.temp_size
    assert str(second.llvm_ir) == str(first.llvm_ir)
    assert str(second) == str(first)
    assert list(second.profile(P, Q).kernel) == list(first.profile(P, Q).kernel)
    assert compilations == ["m", "m"]  # compiled again once
    with pytest.raises(AttributeError, match="hlo_modul"):
        second.hlo_modul  # noqa: B018


def test_what_is_shown_is_the_program_as_it_was_compiled() -> None:
    xlanb.compile(TEXT)
    module = parse(TEXT)
    restored = compile_module(module)
    module.entry_computation.replace(module.entry_computation.root, module.entry_computation.root.operands[0])
    assert "tanh" in str(restored.hlo_module)


@pytest.mark.parametrize(
    "options", [CompileOptions(multi_thread=False), CompileOptions(disable_passes=("algsimp",)), CompileOptions("xla")]
)
def test_other_options_are_another_executable(options: CompileOptions, compilations: list[str]) -> None:
    for asked in (CompileOptions(), options, options):
        compile_module(parse(TEXT), asked)
    assert compilations == ["m", "m"]


def test_other_sources_are_another_executable(compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    xlanb.compile(TEXT)
    monkeypatch.setattr("xlanb.cpu.executable_cache.stamp", lambda: "changed")
    xlanb.compile(TEXT)
    assert compilations == ["m", "m"]


def test_a_pipeline_of_ones_own_is_not_kept(compilations: list[str]) -> None:
    for _ in range(2):
        compile_module(parse(TEXT), CompileOptions(pipelines.pipeline().without("algsimp")))
    pipelines.join(PASSES["reduce-precision-insertion"]())
    try:
        for _ in range(2):
            compile_module(parse(TEXT))
    finally:
        pipelines.leave("reduce-precision-insertion")
    assert compilations == ["m"] * 4


def test_a_program_that_calls_the_process_is_not_kept(compilations: list[str]) -> None:
    text = "HloModule h\nENTRY e { t = token[] after-all()\nROOT i = (f32[2], token[]) infeed(t) }"
    for _ in range(2):
        xlanb.compile(text)
    assert compilations == ["h", "h"]


def test_a_program_of_two_devices_is_not_kept(compilations: list[str]) -> None:
    text = """HloModule d, replica_count=2
add { a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT s = f32[] add(a, b) }
ENTRY e { p = f32[2] parameter(0)
ROOT r = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=add }"""
    assert [xlanb.compile(text).device_count for _ in range(2)] == [2, 2]
    assert compilations == ["d", "d"]


def test_a_damaged_entry_is_compiled_anew(folder: Path, compilations: list[str]) -> None:
    wanted = xlanb.compile(TEXT)(P, Q)
    for path in folder.glob("*.o"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    np.testing.assert_array_equal(xlanb.compile(TEXT)(P, Q), wanted)
    assert compilations == ["m", "m"]


def test_observed_compilations_have_their_stages(compilations: list[str]) -> None:
    xlanb.compile(TEXT)
    assert "algsimp" in [s.name for s in xlanb.trace(TEXT)]
    assert compilations == ["m"]


def test_errors_name_the_arguments() -> None:
    xlanb.compile(TEXT)
    with pytest.raises(xlanb.errors.ArgumentError, match=r"q.*f32\[32,16\]"):
        xlanb.compile(TEXT)(P, P)


def test_a_restored_executable_can_be_saved(tmp_path: Path, compilations: list[str]) -> None:
    xlanb.compile(TEXT)
    xlanb.compile(TEXT).save(tmp_path / "m.xlanb")
    np.testing.assert_array_equal(xlanb.load(tmp_path / "m.xlanb")(P, Q), xlanb.compile(TEXT)(P, Q))
    assert compilations == ["m", "m"]


def test_nothing_is_kept_without_a_folder(compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLANB_CACHE_DIR")
    for _ in range(2):
        xlanb.compile(TEXT)
    assert compilations == ["m", "m"]


def test_a_text_that_was_compiled_is_not_read_again(monkeypatch: pytest.MonkeyPatch, compilations: list[str]) -> None:
    first = xlanb.compile(TEXT)
    reads: list[str] = []
    real = program.to_module

    def counted(x: Any, *args: Any, **named: Any) -> Any:
        reads.append(x)
        return real(x, *args, **named)

    monkeypatch.setattr("xlanb.runtime.compile.to_module", counted)
    second = xlanb.compile(TEXT)
    np.testing.assert_array_equal(first(P, Q), second(P, Q))
    assert (compilations, reads) == (["m"], [])
    assert second.parameter_shapes == first.parameter_shapes
    assert str(second.source_module) == str(first.source_module)
    assert reads == [TEXT]
    with pytest.raises(xlanb.errors.ArgumentError, match="m takes 2 arguments"):
        second(P)


def test_other_words_of_the_same_module_find_its_executable(compilations: list[str]) -> None:
    first, second = xlanb.compile(TEXT), xlanb.compile(TEXT.replace("  p =", "  /* said */ p ="))
    np.testing.assert_array_equal(first(P, Q), second(P, Q))
    assert compilations == ["m"]


def test_a_text_is_read_where_somebody_watches(compilations: list[str]) -> None:
    xlanb.compile(TEXT)
    with xlanb.recording() as found:
        xlanb.compile(TEXT)
    assert len(found) == 1


def test_flags_in_force_are_part_of_what_is_found(compilations: list[str]) -> None:
    xlanb.compile(TEXT)
    with xlanb.flags(xla_disable_hlo_passes="algsimp"):
        xlanb.compile(TEXT)
    assert len(compilations) == 2


def test_a_bad_text_stays_bad() -> None:
    for _ in range(2):
        with pytest.raises(xlanb.errors.XlanbError):
            xlanb.compile(TEXT.replace("f32[64,16] tanh", "f32[64,17] tanh"))
