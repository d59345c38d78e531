"""Files in dump directories that are not what their names say."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import xlanb
from xlanb import read_dump, tf
from xlanb.dump.reader import list_dump, read_hlo
from xlanb.errors import DumpError, GraphError, XlanbError
from xlanb.explorer.stage import TextRecord
from xlanb.graph.graph import Graph


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "module_0000.x.before_optimizations.txt.gz"
    with gzip.open(path, "wb", 6) as file:
        file.write(b"HloModule x\n")
        for _ in range(200):
            file.write(b" " * (1 << 20))
    with pytest.raises(
        DumpError, match=r"the content is larger than the limit of 67,108,864 bytes, compressed to [\d,]+ bytes"
    ):
        list_dump(tmp_path).modules[0].files[0].read_bytes()


def test_a_zipped_file_of_ordinary_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "module_0000.x.before_optimizations.txt.gz"
    text = b"HloModule x\n" + b"// a\n" * (1 << 20) + b"ENTRY e { ROOT p = f32[] parameter(0) }\n"
    path.write_bytes(gzip.compress(text))
    assert list_dump(tmp_path).modules[0].files[0].read_bytes() == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_blocks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "module_0000.x.before_optimizations.txt"
    os.mkfifo(path)
    assert list_dump(tmp_path).file_count == 0
    with pytest.raises(DumpError, match="is not a regular file"):
        read_hlo(path)
    path.unlink()
    path.write_text("HloModule x\nENTRY e { ROOT p = f32[] parameter(0) }\n")
    listed = list_dump(tmp_path).modules[0].files[0]
    path.unlink()
    os.mkfifo(path)  # it was a file when it was listed
    with pytest.raises(DumpError, match="is not a regular file"):
        listed.read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_graph_a_table_and_lines_are_not_read_from_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    os.mkfifo(path)
    with pytest.raises(GraphError, match="cannot read the graph"):
        Graph.from_graphdef(path)
    with tf.Graph().as_default(), tf.Session() as session:
        lines = tf.data.TextLineDataset(str(path)).make_one_shot_iterator().get_next()
        with pytest.raises(XlanbError, match="is not a regular file"):
            session.run(lines)


def test_a_device_without_an_end_is_no_file_of_lines() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        lines = tf.data.TextLineDataset("/dev/zero").make_one_shot_iterator().get_next()
        with pytest.raises(XlanbError, match="is not a regular file"):
            session.run(lines)


@pytest.mark.parametrize("body", ["unknown {" * 3000, f"arg_attr {{ key: {'9' * 5000} }}"], ids=["deep", "long"])
def test_a_functiondef_that_cannot_be_read_is_shown_as_text(tmp_path: Path, body: str) -> None:
    (tmp_path / "encapsulate_fdef.pbtxt").write_text(f'signature {{ name: "f" }}\n{body}\n')
    graphs = read_dump(tmp_path).graphs
    assert graphs is not None
    shown = graphs.stages[0].after
    assert isinstance(shown, TextRecord)
    assert shown.text.startswith("signature")


@pytest.mark.parametrize("name", ["\ud800", "\udcff", "a\0b"])  # noqa: PT014 - ruff reads all halves as one character
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(DumpError, match="is not a directory"):
        read_dump(name)
    with pytest.raises(DumpError, match=r"null byte|surrogates|No such file"):
        read_hlo(name)


def test_a_file_system_is_no_dump_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlanb.dump.reader._SAMPLE", 200)
    monkeypatch.setattr("xlanb.dump.reader.MAX_FOLDERS", 3)
    for folder in "ab":
        (tmp_path / folder).mkdir()
    for n in range(200):
        (tmp_path / "b" / f"file{n}.txt").touch()
    (tmp_path / "a" / "module_0001.m.before_optimizations.txt").touch()
    with pytest.raises(DumpError, match=r"is not a dump directory: 0 of its first 200 files are named like dump files"):
        list_dump(tmp_path)
    for n in range(10):
        (tmp_path / "b" / f"module_0001.m.{n:04d}.p.after_x.before_y.txt").touch()
    assert len(list_dump(tmp_path).modules) == 2
    (tmp_path / "b" / "c").mkdir(parents=True)
    with pytest.raises(DumpError, match="holds more than 3 folders"):
        list_dump(tmp_path)


def test_a_dump_below_a_folder_whose_name_is_not_utf8_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "x\udcff"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={folder}")
    xlanb.compile("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }")
    assert read_dump(folder).listing.file_count > 1
