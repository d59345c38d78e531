"""`%%xla_jit --target "xlanb a100"`: the cell's program compiled for a GPU by xlanb itself."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.notebook.shells import printed, run, texts
from xlanb.errors import ArgumentError, MissingPeerError
from xlanb.notebook import target_cell
from xlanb.peers.targets.own import OwnTrace, own_target, trace_own

HLO = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] negate(p)\n}"


def test_a_cell_of_hlo_is_compiled_for_a_gpu(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit --target 'xlanb a100' -o seen\n{HLO}")
    assert result.success, result.error_in_exec
    trace = shell.user_ns["seen"].trace
    assert isinstance(trace, OwnTrace)
    assert ".entry" in trace["ptx"].after.text
    assert trace.memory["argument_size_in_bytes"] == trace.memory["output_size_in_bytes"] == 8
    assert "stages" in texts(captured)


def test_two_gpus_are_shown_together(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit --target 'xlanb a100,xlanb h100' -o seen\n{HLO}")
    assert result.success, result.error_in_exec
    assert [t.target.name for t in shell.user_ns["seen"].traces] == ["a100", "h100"]
    assert "xlanb h100" in texts(captured)
    assert "estimated us" in texts(captured)


def test_without_the_real_compiler_xlanb_compiles(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(target: object) -> None:
        raise MissingPeerError(f"{target} needs a plugin: pip install something")

    monkeypatch.setattr(target_cell, "check_installed", missing)
    result, captured = run(shell, f"%%xla_jit --target a100 -o seen\n{HLO}")
    assert result.success, result.error_in_exec
    assert isinstance(shell.user_ns["seen"].trace, OwnTrace)
    assert "Compiled by xlanb itself: a100 needs a plugin" in texts(captured)
    result, captured = run(shell, f"%%xla_jit --target 'tpu v5e:2x2'\n{HLO}")
    assert not result.success
    assert "needs a plugin" in printed(captured)


@pytest.mark.parametrize("name", ["xlanb a100:8", "xlanb tpu v5e:2x2", "xlanb mi300", "xlanb a1000"])
def test_what_xlanb_does_not_compile_for_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        own_target(name)


def test_options_of_the_real_compiler_are_refused() -> None:
    target = own_target("xlanb a100")
    assert target is not None
    assert own_target("a100") is None
    with pytest.raises(ArgumentError, match="shardings"):
        trace_own(HLO, (), target, shardings={"x": 1})
