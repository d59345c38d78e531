"""Mutations of graphs and checkpoints: unchanged inputs pass, changed ones differ every time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import checkpoints, graph_edits, graph_seeds, graphdefs
from tests.fuzz.graph_seeds import seeds
from tests.fuzz.kinds import kinds
from xlanb.graph.graph import Graph


@pytest.mark.parametrize("name", seeds())
def test_a_seed_is_read_shown_written_clustered_and_run(name: str) -> None:
    assert graphdefs.check(seeds()[name], np.random.default_rng(0)) is None


@pytest.mark.parametrize("kind", ["graphdef", "graphdef_text", "checkpoint"])
def test_mutants_differ_and_depend_on_the_seed_alone(kind: str) -> None:
    first, again, other = (list(islice(kinds()[kind].mutants(np.random.default_rng(s)), 30)) for s in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(set(first)) > 20


def test_graphs_of_files_and_folders_are_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = Graph.from_graphdef(seeds()["line"])
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.pb").write_bytes(seeds()["texts"])
    (tmp_path / "some" / "other.pb").write_bytes(b"\xff no graph")
    (tmp_path / "b.pbtxt").write_text(str(graph.as_graph_def()))
    (tmp_path / "c.pbtxt").write_text("node { name: 9999999999999999999999 }")
    monkeypatch.setenv("XLANB_FUZZ_SEEDS", f"{tmp_path / 'some'}:{tmp_path / 'b.pbtxt'}:{tmp_path / 'c.pbtxt'}")
    found = graph_seeds.given_seeds.__wrapped__()
    assert [len(Graph.from_graphdef(s).get_operations()) for s in found] == [
        len(Graph.from_graphdef(seeds()[n]).get_operations()) for n in ("texts", "line")
    ]


@pytest.mark.parametrize("edit", dict.fromkeys(graph_edits._EDITS))
def test_every_edit_changes_texts(edit: Callable[[str, np.random.Generator], str]) -> None:
    texts = ["\n".join(graphdefs._text_of(s)) for s in graph_seeds.small_seeds()[:20]]
    assert sum(edit(t, np.random.default_rng(k)) != t for k, t in enumerate(texts)) >= 5


def test_blocks_of_other_texts_come_in() -> None:
    first, second = ("\n".join(graphdefs._text_of(seeds()[n])) for n in ("line", "texts"))
    made = [graph_edits._splice(first, second, np.random.default_rng(k)) for k in range(10)]
    assert any("StringJoin" in m or "AsString" in m or "StringSplit" in m for m in made)


def test_an_unchanged_checkpoint_is_read() -> None:
    whole = checkpoints._packed(list(checkpoints._whole()))
    assert checkpoints.check(whole, np.random.default_rng(0)) is None
