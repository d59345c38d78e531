"""`xlanb mcp`: the tools for agents, and their answers."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from xlanb.cli import mcp
from xlanb.errors import MissingLibraryError

pytest.importorskip("mcp")

from mcp import Client, stdio_client
from mcp.client.stdio import StdioServerParameters

TEXT = """HloModule m

ENTRY e {
  a = f32[3] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[3] broadcast(zero), dimensions={}
  s = f32[3] add(a, zeros)
  t = f32[3] tanh(s)
  ROOT r = f32[3] multiply(t, t)
}
"""


def ask(tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool failed, and its text."""

    async def asked() -> tuple[bool, str]:
        async with Client(mcp.server()) as client:
            answer = await client.call_tool(tool, arguments)
            return bool(answer.is_error), answer.content[0].text

    return asyncio.run(asked())


def test_every_tool_says_what_it_does_and_what_it_takes() -> None:
    async def listed() -> Any:
        async with Client(mcp.server()) as client:
            return await client.list_tools()

    tools = {t.name: t for t in asyncio.run(listed()).tools}
    assert set(tools) == {t.__name__ for t in mcp.TOOLS}
    assert all(len(t.description) > 60 for t in tools.values())
    assert tools["why"].input_schema["required"] == ["program", "names"]


def test_text_is_a_program() -> None:
    failed, text = ask("passes", program=TEXT)
    assert not failed
    assert text.startswith("m: ")
    assert "algsimp: 3 removed" in text


def test_why_and_lineage_answer_about_names() -> None:
    assert "in one kernel" in ask("why", program=TEXT, names=["t", "r"])[1]
    assert "algsimp removed it by" in ask("why", program=TEXT, names=["s"])[1]
    assert ask("lineage", program=TEXT, name="t")[1].startswith("t\n")


def test_json_is_the_same_answer_as_data() -> None:
    failed, text = ask("profile", program=TEXT, runs=2, as_json=True)
    assert not failed
    assert len(json.loads(text)["kernels"]) == 1


def test_an_answer_is_cut_and_says_what_is_missing() -> None:
    whole = ask("optimize", program=TEXT, characters=100_000)[1]
    text = ask("optimize", program=TEXT, characters=50)[1]
    assert text.startswith(whole[:50])
    assert f"{len(whole) - 50} more characters: use characters={len(whole)}" in text


def test_bad_input_is_an_answer_with_its_place() -> None:
    failed, text = ask("passes", program="HloModule m\nENTRY e { ROOT x = f32[ parameter(0) }")
    assert failed
    assert "2:" in text
    assert "the text: HloParseError" in text


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run", {"program": "-"}, "used by the protocol"),
        ("run", {"program": "/no/such.hlo"}, "no/such.hlo"),
        ("why", {"program": TEXT, "names": ["tt"]}, "did you mean 't'"),
        ("why", {"program": TEXT, "names": ["--help"]}, "'--help'"),
        ("optimize", {"program": TEXT, "pass_names": "algsmp"}, "did you mean 'algsimp'"),
        ("profile", {"program": TEXT, "runs": 0}, "not a positive whole number"),
    ],
)
def test_what_cannot_be_answered_says_why(tool: str, arguments: dict[str, Any], said: str) -> None:
    failed, text = ask(tool, **arguments)
    assert failed
    assert said in text


def test_a_reduction_keeps_the_fault(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("def has_tanh(module):\n    return 'tanh(' in str(module)\n")
    text = ask("reduce", program=TEXT, fault="test", value=f"{tmp_path / 't.py'}:has_tanh")[1]
    assert "tanh(" in text
    assert "multiply(" not in text


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", {}.get)
    with pytest.raises(MissingLibraryError, match=r"pip install 'xlanb\[mcp\]'"):
        mcp.server()


def test_a_client_in_another_process_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # A user's file that prints must not disturb the protocol.
    (tmp_path / "loud.py").write_text(
        "import xlanb.tf as tf\nprint('loud')\ndef f(x):\n    print('louder')\n    return tf.tanh(x)\n"
    )

    async def asked() -> Any:
        server = StdioServerParameters(command=sys.executable, args=["-m", "xlanb", "mcp"])
        async with Client(stdio_client(server)) as client:
            program = {"program": f"{tmp_path / 'loud.py'}:f", "args": "[1.0, 2.0],"}
            return await client.call_tool("run", program)

    answer = asyncio.run(asked())
    assert "Failed to parse" not in caplog.text
    assert not answer.is_error
    assert "[0.76159416 0.96402758]" in answer.content[0].text
