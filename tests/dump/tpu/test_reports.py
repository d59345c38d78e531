"""Small reports about LLO programs.

Use of units, bundles by HLO instruction, checksums, shared programs.
"""

from __future__ import annotations

import pytest

from xlanb.dump.tpu.analysis import parse_deduplication, parse_fingerprints, parse_schedule_analysis
from xlanb.dump.tpu.utilization import matrix_share, parse_utilization
from xlanb.dump.tpu.vmem import parse_vmem_report
from xlanb.errors import DumpError

UTILIZATION = """== CAPACTIY:
MATMUL, MATPUSH, XLU, VALU, VLOAD:FILL
    4     4     3     4     3
== UTILIZATION:
4 1 0 2 0
2 0 0 2 0
0 0 0 4 3
0 0 0 0 0
"""


def test_utilization_is_a_row_for_each_bundle() -> None:
    """Shares are of the capacity over all bundles."""
    used = parse_utilization(UTILIZATION)
    assert used.units == ("MATMUL", "MATPUSH", "XLU", "VALU", "VLOAD:FILL")
    assert used.capacity == (4, 4, 3, 4, 3)
    assert used.rows[0] == (4, 1, 0, 2, 0)
    assert used.shares == {"MATMUL": 6 / 16, "MATPUSH": 1 / 16, "XLU": 0.0, "VALU": 8 / 16, "VLOAD:FILL": 3 / 12}
    assert used.busiest == "VALU"


def test_program_without_bundles_uses_nothing() -> None:
    """It has no rows, no shares, and no busiest unit."""
    used = parse_utilization("== CAPACTIY:\nMATMUL, XLU\n 4 3\n== UTILIZATION:\n")
    assert (used.shares, used.busiest) == ({"MATMUL": 0.0, "XLU": 0.0}, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected the heading '== CAPACITY:'"),
        ("== CAPACTIY:\nA, B\n1 x\n", "line 3 of the utilization table: expected 2 numbers, got '1 x'"),
        (UTILIZATION + "1 2 3\n", "line 9 of the utilization table: expected 5 numbers"),
        (UTILIZATION + "1 2 3 4 99999999999\n", "line 9 of the utilization table"),
    ],
)
def test_other_tables_are_refused(text: str, words: str) -> None:
    """The message names the line."""
    with pytest.raises(DumpError, match=words):
        parse_utilization(text)


def test_schedule_analysis_gives_bundles_by_instruction() -> None:
    """A line for an opcode is a sum of others, not an instruction."""
    report = parse_schedule_analysis(
        "Schedule analysis:\n\ttotal scheduled bundles:    602\n\tempty scheduled bundles:    5\n"
        "\tnon empty scheduled bundles: 597\n\t 443.00 scheduled bundles (74.20%): <no hlo>\n"
        "\t  11.50 scheduled bundles ( 1.93%): %copy-start = (f32[8]{0:T(128)S(1)}) copy-start(%p), x={}\n"
        "\t[opcode]     146 scheduled bundles (24.46%): fusion               (27 instances,   5.41 avg)"
    )
    assert (report.total, report.empty) == (602, 5)
    assert report.by_instruction == (("", 443.0), ("copy-start", 11.5))
    with pytest.raises(DumpError, match="expected 'total scheduled bundles: N'"):
        parse_schedule_analysis("Schedule analysis:\n")


def test_fingerprints_count_instructions() -> None:
    """Numbers are hexadecimal; other lines are skipped."""
    first, second = parse_fingerprints(
        "m/OFNgBtgp1fdJpnrHDCSlNuh19QjKTsfORBevwS2eM=:i=0000047b:c=000000c9:a=00000040:b=00000017 original\n"
        "something else\n"
        "BFQvSbtfHimoT/+fvh18V+Aq5iHtOsvFgqBa3mWsb1g=:i=0000042e:c=000000c9:a=00000040:b=00000017 post-CP\n"
    )
    assert (first.label, first.instructions, first.constants, first.allocations, first.regions) == (
        "original",
        1147,
        201,
        64,
        23,
    )
    assert (second.label, second.checksum[:4]) == ("post-CP", "BFQv")


def test_deduplication_names_programs_that_serve_several() -> None:
    """A program of one instruction is not listed."""
    text = (
        "key:slice.5\nordinal:1\nequivalent_hlos[size=1]:\n  slice.5\n"
        "key:reduce.8\nordinal:2\nequivalent_hlos[size=2]:\n  reduce.8\n  reduce.6\n"
    )
    assert parse_deduplication(text) == {"reduce.8": ("reduce.8", "reduce.6")}
    assert parse_deduplication("") == {}


VMEM = """<html><script>
        const DATA ={
  "global_info": {"module_name": "jit_f", "vmem_capacity": 134217728},
  "hlo_breakdowns": {
    "<top-inlining-caller>": {"blocks": [{"allocations": [], "block_size": 428, "block_type": "HLO_TEMPORARY"}], "total_size": 428},
    "fusion.1": {"blocks": [
      {"allocations": [{"padding": 0, "size": 4096, "tag": "SPILL"}], "block_size": 4096, "block_type": "SCOPED"},
      {"allocations": [], "block_size": 512, "block_type": "SCOPED"}], "total_size": 4608}
  }
};
        const more = 1;</script></html>
"""


def test_scoped_vmem_is_read_out_of_the_page() -> None:
    """Only scoped blocks are the program's own."""
    assert parse_vmem_report(VMEM) == {"fusion.1": 4608}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html></html>", "expected 'const DATA ='"),
        ("const DATA =", "IndexError"),
        ("const DATA ={", "JSONDecodeError"),
        ("const DATA =[1]", "TypeError"),
        ('const DATA ={"hlo_breakdowns": {"f": {"blocks": [{}]}}}', "KeyError: 'block_type'"),
        ("const DATA =" + "[" * 100_000, "RecursionError"),
    ],
)
def test_other_pages_are_refused(text: str, words: str) -> None:
    """The message says what is wrong with the data."""
    with pytest.raises(DumpError, match=words):
        parse_vmem_report(text)


@pytest.mark.parametrize(("shares", "share"), [({"MATMUL": 0.5, "MXU": 0.1}, 0.5), ({"MXU": 0.25}, 0.25), ({}, 0.0)])
def test_matrix_units_have_the_names_of_two_releases(shares: dict[str, float], share: float) -> None:
    """Use the unit that multiplies, if it is listed separately from the one that takes weights."""
    assert matrix_share(shares) == share
