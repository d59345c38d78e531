"""Names of LLO dumps, and which dumps belong to one compilation."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlanb.dump.names import decode_name, encode_name
from xlanb.dump.reader import DumpFile
from xlanb.dump.tpu.grouping import compilations
from xlanb.dump.tpu.names import LloName, decode_llo_name, is_llo_stage, label_words


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "1795425056461215157-fusion.32-72-final_bundles.txt",
            (1795425056461215157, "fusion.32", 72, "final_bundles", "txt"),
        ),
        (
            "1795425056461215157-all-gather-08-post-GVN-2.txt",
            (1795425056461215157, "all-gather", 8, "post-GVN-2", "txt"),
        ),
        (
            "1795425055598732490-<late-finalization>-00-fingerprints.txt",
            (1795425055598732490, "<late-finalization>", 0, "fingerprints", "txt"),
        ),
        ("1795425055598732490-TLP-85-vmem_report.html", (1795425055598732490, "TLP", 85, "vmem_report", "html")),
        ("1795425055598732490-TLP-hlo.txt", (1795425055598732490, "TLP", None, "hlo", "txt")),
    ],
)
def test_names_are_taken_apart_and_put_together(file: str, expected: tuple[int, str, int | None, str, str]) -> None:
    """Programs and labels may contain dashes and numbers."""
    assert decode_llo_name(file) == LloName(*expected)
    name = decode_name(file)
    assert (name.kind, name.kernel, name.label, name.extension) == ("llo", expected[1], expected[3], expected[4])
    assert encode_name(name) == file


@pytest.mark.parametrize(
    "file", ["TLP-73-final_bundles.txt", "12-TLP-73-x.txt", "1795425055598732490-TLP-final.txt", "module_0001.x.txt"]
)
def test_other_names_are_not_llo(file: str) -> None:
    """A timestamp, a program, a number and a label are needed."""
    assert decode_llo_name(file) is None
    assert decode_name(file).kind != "llo"


def test_labels_in_words() -> None:
    """Reports have their own words, stages their label."""
    assert label_words("final_bundles") == "the final VLIW bundles"
    assert label_words("DGO-post-load-store-optimizer") == "LLO post load store optimizer"
    name = decode_name("1795425056461215157-fusion.32-72-final_bundles.txt")
    assert name.describe() == "TPU program fusion.32: the final VLIW bundles"


@pytest.mark.parametrize(
    ("label", "is_stage"),
    [
        ("original", True),
        ("post-GVN-2", True),
        ("pre-cssa", True),
        ("packed-bundles-pre-ra", True),
        ("DGO-vliw-packed-bundles", True),
        ("final_bundles", True),
        ("schedule-analysis_final_bundles", False),
        ("pre-delay_hlo-static-per-bundle-utilization", False),
        ("critical-path", False),
        ("fingerprints", False),
    ],
)
def test_stages_are_told_from_reports(label: str, *, is_stage: bool) -> None:
    """A stage holds the program itself."""
    assert is_llo_stage(label) is is_stage


def _file(time: int, program: str, number: int, label: str) -> DumpFile:
    name = f"{1795425055000000000 + time}-{program}-{number:02d}-{label}.txt"
    return DumpFile(Path(name), 1, 0.0, decode_name(name))


def test_compilations_begin_with_their_top_level() -> None:
    """Memory space assignment is written before it, the other programs after it."""
    first = [
        _file(1, "TLP", 0, "memory-space-assignment-bufferinfo"),
        _file(5, "TLP", 0, "original"),
        _file(6, "fusion", 0, "original"),
    ]
    second = [
        _file(8, "TLP", 0, "memory-space-assignment-bufferinfo"),
        _file(9, "TLP", 0, "original"),
        _file(12, "fusion.1", 0, "original"),
    ]
    assert compilations([*second, *first]) == [first, second]


def test_programs_without_a_top_level_are_one_compilation() -> None:
    """This happens in a directory from which files were deleted."""
    files = [_file(6, "fusion", 0, "original"), _file(7, "fusion.1", 0, "original")]
    assert compilations(files) == [files]
    assert compilations([]) == []
