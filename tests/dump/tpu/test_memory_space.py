"""Memory space assignment, read from XLA:TPU's three tables."""

from __future__ import annotations

import pytest

from xlanb.dump.tpu.memory_space import FastStretch, MemorySpaceRecord, parse_memory_space
from xlanb.errors import DumpError

BUFFERS = """buffer_id,buffer_name,alt_mem_benefit,size,definition_time,use_times,use_names,is_scoped
26,"<26 copy.15>",4.6898e-09,1024,1,"3","fusion.9, operand 2",0
29,"<35 fusion.78{1}>",2.81388e-09,512,0,"2;5","copy.15, operand 0;tuple, operand 1",0
33,"<34 x.1>",4.97428e-10,4096,0,"1;4","copy.15, operand 0;add, operand 0",0
"""
ALLOCATIONS = """buffer_id,size,offset,start_time,end_time
26,1024,0,1,3
29,512,2048,0,1
29,512,2048,1,2
29,512,2048,4,5
64,256,4096,0,6
"""
SCHEDULE = """time,instruction_name
0,x.1
1,copy.15
2,bitcast
3,fusion.9
4,add
5,tuple
"""


def record(**options: object) -> MemorySpaceRecord:
    return parse_memory_space("m", (BUFFERS, ALLOCATIONS, SCHEDULE), **options)  # type: ignore[arg-type]


def test_buffers_have_stretches_in_the_fast_memory() -> None:
    """Adjacent intervals at one place are one; between intervals the buffer is in HBM."""
    copy, fusion, x, _ = record().buffers
    assert (copy.place, copy.size, copy.defined, copy.last) == ("copy.15", 1024, 1, 3)
    assert (copy.fast, copy.slow) == ((FastStretch(0, 1024, 1, 3),), ())
    assert (fusion.place, fusion.uses) == ("fusion.78{1}", ((2, "copy.15, operand 0"), (5, "tuple, operand 1")))
    assert fusion.fast == (FastStretch(2048, 512, 0, 2), FastStretch(2048, 512, 4, 5))
    assert fusion.slow == ((3, 3),)
    assert (x.fast, x.slow) == ((), ((0, 4),))


def test_bytes_are_counted_over_the_schedule() -> None:
    """Counts bytes in fast memory, and bytes of buffers that are only in HBM."""
    found = record()
    assert found.fast_bytes == (768, 1792, 1792, 1280, 768, 768)
    assert found.slow_bytes == (4096, 4096, 4096, 4608, 4096, 0)
    assert found.extent == 4352
    assert repr(found) == "<MemorySpaceRecord m: 3 of 4 buffers in VMEM>"


def test_buffer_of_allocinfo_alone_is_the_prefetched_parameter() -> None:
    """Its name is the parameter's if there is one such buffer and parameter, else its number."""
    assert record(prefetched=("w",)).buffers[-1].place == "w"
    assert record(prefetched=("w", "v")).buffers[-1].place == "buffer 64"
    assert record().buffers[-1].fast == (FastStretch(4096, 256, 0, 6),)


def test_text_form_says_where_each_buffer_is() -> None:
    """One line for each buffer."""
    lines = str(record(space="CMEM")).splitlines()
    assert lines[0] == "memory space assignment of m: 1,792 bytes of CMEM in use at most"
    assert lines[1] == "  copy.15 1,024 bytes, defined 1, last used 3: CMEM at 0 from 1 to 3"
    assert lines[3].endswith("x.1 4,096 bytes, defined 0, last used 4: HBM")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("", ALLOCATIONS, SCHEDULE), "expected the heading 'buffer_id,buffer_name,alt_mem_benefit,size'"),
        (
            (BUFFERS, ALLOCATIONS + "1,2\n", SCHEDULE),
            "line 7 of memory space assignment: expected 5 columns, got 2",
        ),
        ((BUFFERS, ALLOCATIONS + "1,2,-3,4,5\n", SCHEDULE), "expected a number, got '-3'"),
        ((BUFFERS.replace("4.6898e-09", "much"), ALLOCATIONS, SCHEDULE), "expected a number, got 'much'"),
        ((BUFFERS.replace("4.6898e-09", "nan"), ALLOCATIONS, SCHEDULE), "expected a number, got 'nan'"),
        ((BUFFERS, ALLOCATIONS, SCHEDULE + '6,"' + "x" * 200_000 + '"\n'), "cannot be read: field larger"),
    ],
)
def test_other_tables_are_refused(texts: tuple[str, str, str], words: str) -> None:
    """The message names the line or the value."""
    with pytest.raises(DumpError, match=words):
        parse_memory_space("m", texts)


def test_what_the_compiler_reserves_has_a_negative_number() -> None:
    """It is a buffer like any other."""
    reserved = "buffer_id,size,offset,start_time,end_time\n-27,512,0,1,3\n"
    found = parse_memory_space("m", (BUFFERS.splitlines()[0] + "\n", reserved, SCHEDULE))
    assert [(b.number, b.size) for b in found.buffers] == [(-27, 512)]
    with pytest.raises(DumpError, match="expected a number, got '-512'"):
        parse_memory_space("m", (BUFFERS, reserved.replace(",512", ",-512"), SCHEDULE))
