"""Compilations on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xlanb.dump.names import decode_name
from xlanb.dump.reader import DumpFile
from xlanb.peers.targets.cache import PART, cache_folder, compress, found, keep, key_of


def compiled(folder: Path, name: str, size: int = 10) -> Path:
    made = folder / f"{PART}{name}"
    (made / "dumps").mkdir(parents=True)
    (made / "dumps" / "x.txt").write_text("x" * size)
    (made / "answer.json").write_text("{}")
    return made


def test_what_is_kept_is_found(tmp_path: Path) -> None:
    key = key_of(b"program", "target")
    assert found(tmp_path, key) is None
    kept = keep(tmp_path, key, compiled(tmp_path, "a"))
    assert found(tmp_path, key) == kept
    assert (kept / "dumps" / "x.txt").read_text() == "x" * 10


def test_what_another_process_kept_stays(tmp_path: Path) -> None:
    first = keep(tmp_path, "k", compiled(tmp_path, "a"))
    second = compiled(tmp_path, "b")
    assert keep(tmp_path, "k", second) == first
    assert not second.exists()


def test_parts_are_told_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")


def test_the_oldest_go_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLANB_CACHE_BYTES", "2500")
    for n, name in enumerate("abc"):
        kept = keep(tmp_path, name, compiled(tmp_path, name, 1000))
        os.utime(kept, (n, n))
    under_way = compiled(tmp_path, "under way", 5000)
    last = keep(tmp_path, "d", compiled(tmp_path, "d", 1000))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "d", under_way.name]
    assert found(tmp_path, "d") == last


def test_what_was_looked_at_stays_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        os.utime(keep(tmp_path, name, compiled(tmp_path, name, 1000)), (1, 1))
    assert found(tmp_path, "a") is not None
    monkeypatch.setenv("XLANB_CACHE_BYTES", "2500")
    keep(tmp_path, "c", compiled(tmp_path, "c", 1000))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c"]


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "targets"
    monkeypatch.setenv("XLANB_CACHE_DIR", "")
    assert cache_folder() is None
    monkeypatch.delenv("XLANB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / "xlanb" / "targets"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners here")
def test_a_folder_that_others_may_write_to_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets").chmod(0o777)
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    assert cache_folder() is None


def test_texts_are_compressed_in_their_place(tmp_path: Path) -> None:
    texts = {
        "1-fusion-00-original.txt": "line\n" * 1000,
        "deep/2-fusion-01-final_bundles.txt": "0x1\n",
        "empty.txt": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    compress(tmp_path)
    compress(tmp_path)
    names = sorted(str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file())
    assert names == ["1-fusion-00-original.txt.gz", "deep/2-fusion-01-final_bundles.txt.gz", "empty.txt"]
    path = tmp_path / names[0]
    file = DumpFile(path, path.stat().st_size, 0.0, decode_name(path.name))
    assert file.read_text() == texts["1-fusion-00-original.txt"]
    assert file.content_size == 5000
    assert file.size < 200


def test_a_name_too_long_for_its_ending_stays(tmp_path: Path) -> None:
    (tmp_path / ("x" * 254)).write_text("text")
    compress(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["x" * 254]
