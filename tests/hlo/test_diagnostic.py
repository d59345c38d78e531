"""What errors show of an instruction: its neighbours, and its Python lines."""

from __future__ import annotations

import pytest

import xlanb
from xlanb.errors import EvaluationError
from xlanb.hlo.attributes import OpMetadata, StackFrame
from xlanb.hlo.diagnostic import context, origin, with_origin

TEXT = """HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  ROOT c = f32[2] custom-call(p), custom_call_target="nowhere", metadata={op_name="f" source_file="model.py" source_line=3}
}
"""


def test_the_origin_is_the_line_or_the_frames():
    root = xlanb.hlo.parse(TEXT).entry_computation.root
    assert origin(root) == "from model.py:3"
    assert origin(root.operands[0]) == ""
    assert context(root).endswith("\n  from model.py:3")
    caller = StackFrame("train.py", "loss", 9)
    metadata = OpMetadata(op_name="f", frame=StackFrame("model.py", "layer", 3, caller=caller))
    root.parent.update(root, metadata=metadata)
    assert origin(root) == "from model.py:3 (layer), called from train.py:9 (loss)"
    assert with_origin(root, width=10) == f"{str(root)[:10]} ...\n  {origin(root)}"


def frames(*files: str) -> StackFrame | None:
    made = None
    for file in reversed(files):
        made = StackFrame(file, "f", 1, caller=made)
    return made


def test_the_origin_has_no_frames_of_the_shell_and_of_libraries():
    packages = "/env/lib/python3.12/site-packages"
    stack = frames(
        f"{packages}/jax/_src/lax.py",
        "/kernel/ipykernel_77/123.py",
        f"{packages}/flax/linen/module.py",
        "/usr/lib/python3.12/contextlib.py",
        f"{packages}/IPython/core/interactiveshell.py",
        "<frozen runpy>",
        "/home/jax/python3/train.py",
        r"C:\env\Lib\site-packages\ipykernel\zmqshell.py",
    )
    root = xlanb.hlo.parse(TEXT).entry_computation.root
    root.parent.update(root, metadata=OpMetadata(op_name="f", frame=stack))
    assert origin(root) == (
        f"from cell:1 (f), called from {packages}/flax/linen/module.py:1 (f), "
        "called from /home/jax/python3/train.py:1 (f)"
    )
    runner = StackFrame(f"{packages}/tornado/platform/asyncio.py", "start", 203)
    cell = StackFrame("/kernel/ipykernel_77/9.py", "<module>", 2, caller=runner)
    root.parent.update(root, metadata=OpMetadata(frame=StackFrame("model.py", "layer", 3, caller=cell)))
    assert origin(root) == "from model.py:3 (layer), called from cell:2 (<module>)"
    root.parent.update(root, metadata=OpMetadata(frame=frames(f"{packages}/jax/_src/lax.py")))
    assert origin(root) == f"from {packages}/jax/_src/lax.py:1 (f)"


def test_errors_at_run_time_show_it():
    with pytest.raises(EvaluationError, match=r"(?s)nowhere.*from model\.py:3"):
        xlanb.evaluate(TEXT, [1.0, 2.0])
