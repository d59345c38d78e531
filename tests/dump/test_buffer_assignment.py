"""Buffer assignment reports, parsed."""

from __future__ import annotations

import pytest

from xlanb.dump.buffer_assignment import parse_buffer_assignment, parse_live_ranges
from xlanb.errors import DumpError

REPORT = """BufferAssignment:
allocation 0: size 64, parameter 1, shape |f32[16]| at ShapeIndex {0,2}:
 value: <5 x.1{0,2} @0> (size=64,offset=0): f32[16]{0}
allocation 1: size 64, output shape is |f32[16]|, maybe-live-out:
 value: <7 fusion @0> (size=64,offset=0): f32[16]{0}
allocation 2: size 4, thread-local:
 value: <1 sum.5 @0> (size=4,offset=0): f32[]
allocation 3: size 4, constant:
 value: <2 c @0> (size=4,offset=0): f32[]
allocation 4: size 128, preallocated-temp:
 value: <8 dot @0> (size=64,offset=0): f32[16]{0}
 value: <9 exp @0> (size=64,offset=64): f32[16]{0}
 value: <10 neg @0> (size=64,offset=0): f32[16]{0}
"""
LIVE = """HloLiveRange (max 5):
  InstructionSequence:
    0:x.1
    1:dot
    2:exp
    3:neg
    4:fusion
  BufferLiveRange:
    x.1{0,2}:0-5
    dot{}:1-2
    exp{}:2-4
    neg{}:3-4
  Live ranges at 2 (peak):
    dot{}: 64 bytes (cumulative: 64 bytes)
"""


def test_allocations_values_and_live_ranges_are_read() -> None:
    record = parse_buffer_assignment(REPORT, "m", LIVE)
    assert [a.kind for a in record.allocations] == ["parameter", "output", "thread-local", "constant", "temp"]
    parameter = record.allocations[0]
    assert (parameter.parameter_number, parameter.parameter_index) == (1, (0, 2))
    assert parameter.values[0].index == (0, 2)
    exp = record.allocations[4].values[1]
    assert (exp.instruction, exp.offset, exp.size, exp.start, exp.end) == ("exp", 64, 64, 2, 4)
    assert record.sequence == ("x.1", "dot", "exp", "neg", "fusion")
    assert record.temp_bytes == 128


def test_the_peak_counts_what_lives_at_one_time() -> None:
    assert parse_buffer_assignment(REPORT, "m", LIVE).peak_bytes == 128  # dot and exp, then exp and neg
    assert parse_buffer_assignment(REPORT, "m").peak_bytes == 192  # nothing said: all at once


def test_a_report_of_live_ranges_may_stand_in_the_same_file() -> None:
    assert parse_buffer_assignment(REPORT + "\n" + LIVE, "m").allocations[4].values[0].start == 1


def test_other_text_is_refused_with_its_beginning() -> None:
    with pytest.raises(DumpError, match=r"the buffer assignment of m has no allocations: it begins 'HloModule"):
        parse_buffer_assignment("HloModule m", "m")


def test_unknown_lines_are_passed_over() -> None:
    assert parse_live_ranges("BufferLiveRange:\n  a{}:0-1\n???\n  b{}:0-1\n").ranges == {("a", ()): (0, 1)}
