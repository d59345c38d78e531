"""`recording`: the traces and runs of programs compiled in the block, in any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import xlanb
from xlanb import tf, tracing
from xlanb.cpu.executable import Executable
from xlanb.errors import XlanbError
from xlanb.runtime.compiler import compiled

X = np.arange(4, dtype=np.float32)


def text(name: str = "scale", factor: float = 2.0) -> str:
    return f"""
HloModule {name}

ENTRY main {{
  x = f32[4] parameter(0)
  c = f32[] constant({factor})
  b = f32[4] broadcast(c), dimensions={{}}
  ROOT r = f32[4] multiply(x, b)
}}
"""


def in_thread(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    assert not tracing.is_observed()
    with tracing.with_everywhere():
        assert not tracing.is_observed()


def test_programs_of_all_threads_are_recorded() -> None:
    with xlanb.recording() as r:
        xlanb.compile(text("first"))
        in_thread(lambda: xlanb.compile(text("second")))
    assert sorted(t.name for t in r) == ["first", "second"]
    assert r["second"]["algsimp"].kind == "hlo_pass"
    assert set(r.to_dataframe()["program"]) == {"first", "second"}


def test_nothing_is_recorded_outside_of_the_block() -> None:
    with xlanb.recording() as r:
        pass
    xlanb.compile(text())
    assert len(r) == 0
    assert "nothing was compiled" in str(r)
    with pytest.raises(XlanbError, match=r"jax\.clear_caches"):
        r.explore()


def test_runs_are_counted_until_the_end_of_the_block() -> None:
    with xlanb.recording() as r:
        program = xlanb.compile(text())
        plain = program.calls.entry()
        for _ in range(3):
            program(X)
    assert (r.programs[0].runs, r.programs[0].run_seconds > 0) == (3, True)
    program(X)
    assert r.programs[0].runs == 3
    assert program.counter is None
    assert type(program.__call__) is type(plain)


def test_the_slowest_comes_first() -> None:
    with xlanb.recording() as r:
        programs = [xlanb.compile(text(name)) for name in ("a", "b")]
        for _ in range(3):
            programs[1](X)
        for p in r.programs:
            p.compile_seconds = 0.0
    assert [t.name for t in r] == ["b", "a"]
    assert r[0] is r["b"]
    assert str(r).splitlines()[2].split()[0] == "b"


def test_programs_of_one_name_are_numbered() -> None:
    with xlanb.recording() as r:
        for factor in (2.0, 3.0):
            xlanb.compile(text("f", factor))
    assert {t.name for t in r} == {"f", "f (2)"}
    with pytest.raises(XlanbError, match="no program 'g'"):
        r["g"]


def test_recordings_nest() -> None:
    with xlanb.recording() as outer:
        xlanb.compile(text("before"))
        with xlanb.recording() as inner:
            program = xlanb.compile(text("within"))
            program(X)
        program(X)
    assert [t.name for t in inner] == ["within"]
    assert {t.name for t in outer} == {"before", "within"}
    assert (inner.programs[0].runs, {p.trace.name: p.runs for p in outer.programs}["within"]) == (1, 2)


def test_recordings_in_two_threads_overlap() -> None:
    is_open, may_end = threading.Event(), threading.Event()
    found = []

    def other() -> None:
        with xlanb.recording() as r:
            is_open.set()
            may_end.wait()
        found.append(r)

    thread = threading.Thread(target=other)
    thread.start()
    is_open.wait()
    with xlanb.recording() as r:
        xlanb.compile(text())
    may_end.set()
    thread.join()
    assert [t.name for t in r] == [t.name for t in found[0]] == ["scale"]
    assert r[0] is not found[0][0]
    assert [s.name for s in r[0]] == [s.name for s in found[0][0]]


def test_an_error_leaves_the_recording_readable() -> None:
    def train() -> None:
        xlanb.compile(text())
        raise KeyError

    with pytest.raises(KeyError), xlanb.recording() as r:
        train()
    assert [t.name for t in r] == ["scale"]


def test_a_failed_compilation_is_kept_with_its_failed_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise XlanbError("no such code")

    monkeypatch.setattr("xlanb.cpu.compiler.emit_program", fails)
    with xlanb.recording() as r, pytest.raises(XlanbError, match="no such code"):
        xlanb.compile(text())
    assert r.programs[0].failed
    assert r[0].stages[-1].error is not None
    assert r.programs[0].compile_seconds > 0
    assert "failed" in str(r)


def test_what_nobody_is_to_see_is_not_recorded() -> None:
    with xlanb.recording() as r:

        def work() -> None:
            with tracing.unobserved():
                compiled(xlanb.hlo.parse(text()))

        work()
        in_thread(work)
    assert len(r) == 0


def test_code_is_made_when_it_is_looked_at() -> None:
    with xlanb.recording() as r:
        program = xlanb.compile(text())
    assert "llvm_record" not in vars(program)
    assert "define" in r[0]["llvm_ir"].after.text
    assert [s.kind for s in r[0].stages[-3:]] == ["llvm_ir", "llvm_ir_optimized", "assembly"]


def test_compilations_of_a_stepper_have_their_code_once() -> None:
    with xlanb.recording() as r:
        found = xlanb.Compilation(text())
        found.finish()
    assert [s.kind for s in r[0]].count("assembly") == 1


def test_jitted_functions_are_recorded_with_their_runs() -> None:
    double = xlanb.jit(lambda x: tf.add(x, x))
    with xlanb.recording() as r:
        for _ in range(4):
            double(X)
    assert [p.runs for p in r.programs] == [4]
    assert isinstance(r[0].program, Executable)


def test_notebooks_show_a_table() -> None:
    with xlanb.recording() as r:
        xlanb.compile(text())
    shown = r._repr_mimebundle_()
    assert "compile_seconds" in shown["text/html"]
    assert shown["text/plain"].startswith("1 program, slowest first")
    assert r.explore().traces == [r[0]]


def test_a_page_holds_the_slowest(tmp_path) -> None:
    with xlanb.recording() as r:
        xlanb.compile(text())
    r.to_html(str(tmp_path / "page.html"))
    assert "xlanb-static" in (tmp_path / "page.html").read_text()
