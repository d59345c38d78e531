"""Seeds of other folders, and the checks of a campaign's inputs."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import xlanb
from tests.fuzz import hlo_changes, hlo_check, hlo_edits, hlo_proto, hlo_seeds, hlo_text
from tests.fuzz.kinds import kinds
from xlanb.hlo import parse
from xlanb.hlo.proto.schema import SCHEMA

ADD = "HloModule first\n\nENTRY e {\n  p = f32[3] parameter(0)\n  ROOT r = f32[3] add(p, p)\n}\n"
SUB = ADD.replace("add", "subtract")
MUL = ADD.replace("add", "multiply")
WRONG = ADD.replace("add", "nothing")


@pytest.fixture
def seeds(monkeypatch):
    def of(*paths):
        monkeypatch.setenv("XLANB_FUZZ_SEEDS", ":".join(map(str, paths)))
        return hlo_seeds.seeds.__wrapped__()

    return of


def test_modules_of_files_and_folders_are_seeds(seeds, tmp_path):
    folder = tmp_path / "some" / "modules"
    folder.mkdir(parents=True)
    (folder / "a.hlo").write_text(ADD + WRONG)
    (folder / "notes.txt").write_text("no module")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": SUB}) + "\n" + json.dumps(["no object"]) + "\n")
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.write(json.dumps({"before": MUL, "id": 1}) + "\n")
    found = seeds(tmp_path / "some", tmp_path / "b.jsonl", tmp_path / "c.jsonl.gz")
    assert found[-3:] == (ADD, SUB, MUL)
    assert found[:-3] == seeds()


def test_modules_spliced_into_themselves_and_into_entries_of_that_name(seeds, tmp_path, monkeypatch):
    (tmp_path / "odd.hlo").write_text(ADD.replace("first", "ENTRY").replace("ENTRY e {", "ENTRYe {"))
    monkeypatch.setattr(hlo_changes, "seeds", lambda: (tmp_path.joinpath("odd.hlo").read_text(),))
    assert hlo_changes._spliced(ADD, np.random.default_rng(0)) == ADD


def test_a_share_of_the_inputs_is_compiled():
    rng = np.random.default_rng(0)
    kind = kinds()["hlo"]
    compiled = sum(kind.check_for(rng) is kind.check for _ in range(400))
    assert 60 < compiled < 140
    whole = kinds()["random-module"]
    assert all(whole.check_for(rng) is whole.check for _ in range(50))


def test_a_quarter_of_the_mutants_and_all_random_modules_verify():
    rng = np.random.default_rng(7)
    for made, count, least in ((hlo_text.mutants(rng), 240, 0.25), (hlo_text.modules(rng), 80, 1.0)):
        assert sum(hlo_seeds.is_valid(next(made)) for _ in range(count)) / count >= least


@pytest.mark.parametrize("edit", dict.fromkeys(hlo_edits.EDITS))
def test_every_edit_changes_modules_and_depends_on_the_seed_alone(edit):
    def made(seed):
        rng = np.random.default_rng(seed)
        return [edit(text, rng) for text in hlo_seeds.seeds()[:40]]

    first, again = made(3), made(3)
    assert first == again
    assert sum(a != b for a, b in zip(first, hlo_seeds.seeds(), strict=False)) >= 4


def test_an_outlined_entry_has_the_same_result():
    rng = np.random.default_rng(0)
    expected = xlanb.evaluate(parse(ADD), np.ones(3, np.float32))
    texts = {hlo_edits._outlined(ADD, rng) for _ in range(150)}
    assert len(texts) > 6
    for text in texts:
        module = parse(text)
        times = 2 if text.count("call(") == 2 else 1
        np.testing.assert_array_equal(xlanb.evaluate(module, np.ones(3, np.float32)), expected * times)


@pytest.mark.parametrize("frames", [(1, 1), (1, 0), (2, 9)])
def test_frames_that_the_parser_drops_are_no_find(frames):
    rows = 'FileNames\n1 "a.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=4}\n\n'
    rows += "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n\n"
    text = ADD.replace("\n\n", f"\n\n{rows}", 1).replace(
        "add(p, p)", 'add(p, p), metadata={op_name="r" stack_frame_id=1}'
    )
    proto = SCHEMA.HloModuleProto()
    proto.ParseFromString(parse(text).to_proto())
    for i, frame in zip(proto.computations[0].instructions, frames, strict=True):
        i.metadata.stack_frame_id = frame
    assert hlo_proto.quick(proto.SerializeToString(), np.random.default_rng(0)) is None


def test_a_rounding_too_few_is_a_find_in_wide_types_only():
    for kind, wrong, found in (("f32", 1e-5, True), ("f32", 1e-7, False), ("bf16", 1e-2, False), ("bf16", 0.1, True)):
        module = parse(ADD.replace("f32", kind))
        expected = np.ones(3, module.entry_computation.root.array_shape.dtype)
        got = (np.ones(3) + wrong).astype(np.float32)
        got = got if kind == "f32" else got.astype(expected.dtype)
        assert (hlo_check._compared(module, [got], [expected]) is not None) == found
