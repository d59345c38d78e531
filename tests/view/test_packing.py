"""Payloads as columns and back, in Python and in the front end; their compression."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from factory import EVIL, make_trace
from unpacking import rows, unpacked, unpacked_text

from xlanb.view import assets
from xlanb.view.packing import columns, packed, packed_text
from xlanb.view.payload import build_payload

NODE = shutil.which("node")
STEP = Path(assets.__file__).parent / "step"

scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8)
keys = st.sampled_from(["a", "b", "~", "kind", "0"])
tables = st.lists(st.tuples(st.sampled_from("xy"), scalars).map(list), min_size=3, max_size=9)
data = st.recursive(
    scalars | tables | st.lists(st.sampled_from(["one", "two"]), max_size=12),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=60,
)


@given(data)
def test_columns_hold_what_the_rows_held(value):
    plain = json.loads(json.dumps(columns(value)))
    assert rows(plain) == value


@pytest.mark.parametrize("name", ["linear regression", EVIL])
def test_a_payload_comes_back_as_it_was(name):
    payload = build_payload([make_trace(name, evil=name == EVIL)])
    assert rounded(unpacked(packed(payload))) == rounded(json.loads(json.dumps(payload)))


def test_an_item_whose_text_is_its_own_is_left_as_it_is():
    odd = {"n": "x", "o": "add", "s": "f32[2]", "t": "  ) an odd text", "h": ["add", "x", "f32[2]"]}
    other = {
        "n": "y",
        "o": "add",
        "s": "f32[2]",
        "t": '  %y = f32[2] add(%x), metadata={op_name="f"}',
        "m": "f",
        "p": ["x"],
    }
    payload = {"items": [odd, {**other, "h": ["add", " y", "f32[2]"]}], "traces": []}
    assert unpacked(packed(payload)) == payload


@given(st.text())
def test_texts_of_all_lengths_come_back(text):
    packed = packed_text(text)
    assert unpacked_text(packed) == text
    assert not set(packed) & set("\"'<>&\\`$ \n")


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_front_end_unpacks_texts_of_all_lengths(tmp_path):
    texts = ["".join(map(chr, range(33, 33 + size))) for size in range(64)]
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    shutil.copy(STEP / "unpack.js", tmp_path)
    (tmp_path / "run.js").write_text(
        'import { unpackText } from "./unpack.js";\n'
        f"const texts = await Promise.all({json.dumps([packed_text(t) for t in texts])}.map(unpackText));\n"
        "process.stdout.write(JSON.stringify(texts));\n",
        encoding="utf-8",
    )
    found = subprocess.run([NODE, "run.js"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == texts


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_front_end_unpacks_the_same(tmp_path):
    payload = build_payload([make_trace(EVIL, evil=True)])
    payload["lines"] = {"~": "a key of ours", "large": "aé" * 40_000, "far": "".join(map(chr, range(33, 4000)))}
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    shutil.copy(STEP / "unpack.js", tmp_path)
    (tmp_path / "packed.txt").write_text(packed(payload), encoding="utf-8")
    (tmp_path / "run.js").write_text(
        'import { readFileSync } from "node:fs";\nimport { unpack } from "./unpack.js";\n'
        'process.stdout.write(JSON.stringify(await unpack(readFileSync("packed.txt", "utf8"))));\n',
        encoding="utf-8",
    )
    found = subprocess.run([NODE, "run.js"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert rounded(json.loads(found.stdout)) == rounded(json.loads(json.dumps(payload)))


def rounded(value):
    """Numbers as a page has them: four digits of a float."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) and math.isfinite(value) else value
