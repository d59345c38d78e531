"""Names of files that are written."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xlanb
from xlanb import tf
from xlanb.errors import ArgumentError
from xlanb.files import TemporaryFolder, path_to_write, replace_file


@pytest.fixture(scope="module")
def executable() -> Any:
    return xlanb.compile("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }")


def write_page(name: str, exe: Any) -> None:
    xlanb.trace(exe.hlo_module).to_html(name)


def write_executable(name: str, exe: Any) -> None:
    exe.save(name)


def write_graph(name: str, exe: Any) -> None:
    del exe
    tf.Graph().save(f"{name}.pb")


def write_checkpoint(name: str, exe: Any) -> None:
    del exe
    with tf.Graph().as_default() as graph:
        tf.get_variable("v", shape=[2])
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, name)


@pytest.mark.parametrize("write", [write_page, write_executable, write_graph, write_checkpoint])
@pytest.mark.parametrize(("name", "why"), [("a\ud800", "half of a surrogate pair"), ("a\0b", "a null character")])
def test_a_name_that_no_file_can_have_is_refused(
    write: Callable[[str, Any], None], name: str, why: str, executable: Any
) -> None:
    with pytest.raises(ArgumentError, match=f"no file can have this name: .*{why}"):
        write(name, executable)


def test_other_names_are_taken_as_they_are() -> None:
    assert str(path_to_write("a b\udcff")) == "a b\udcff"


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "new" / "file"
    for content in (b"one", b"two and more"):
        replace_file(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "file", b"content")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_temporary_folder_goes_with_its_last_holder(tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    for path in (made, kept):
        path.mkdir()
        (path / "x").write_text("1")
    folder = TemporaryFolder(made)
    left = TemporaryFolder(kept)
    left.keep()
    holder = [folder]
    del folder, left
    gc.collect()
    assert made.exists()
    holder.clear()
    gc.collect()
    assert not made.exists()
    assert kept.exists()
