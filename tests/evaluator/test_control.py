"""Control flow, and scalar computations applied to whole arrays."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate

LOOP = """HloModule m
cond { p = (s32[], s32[]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] get-tuple-element(p), index=1
 ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], s32[]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] get-tuple-element(p), index=1
 k = s32[] constant(3)
 j = s32[] add(i, k)
 ROOT r = (s32[], s32[]) tuple(j, n) }
"""


def test_while():
    text = (
        LOOP
        + "ENTRY e { p = (s32[], s32[]) parameter(0)\n ROOT w = (s32[], s32[]) while(p), condition=cond, body=body }"
    )
    assert evaluate(text, (np.int32(0), np.int32(10))) == (12, 10)
    assert evaluate(text, (np.int32(11), np.int32(10))) == (11, 10)


def test_a_loop_inside_map_runs_for_each_element_as_long_as_it_must():
    text = (
        LOOP
        + """f { a = s32[] parameter(0)
 b = s32[] parameter(1)
 t = (s32[], s32[]) tuple(a, b)
 w = (s32[], s32[]) while(t), condition=cond, body=body
 ROOT r = s32[] get-tuple-element(w), index=0 }
ENTRY e { x = s32[2,3] parameter(0)
 y = s32[2,3] parameter(1)
 ROOT r = s32[2,3] map(x, y), dimensions={0,1}, to_apply=f }"""
    )
    x, y = np.array([[0, 5, 2], [9, 1, -7]], np.int32), np.array([[10, 5, 3], [0, 2, 0]], np.int32)
    expected = np.where(x >= y, x, x + -(-(y - x) // 3) * 3)
    np.testing.assert_array_equal(evaluate(text, x, y), expected)


BRANCHES = """HloModule m
pos { p = f32[] parameter(0)
 ROOT r = f32[] sqrt(p) }
neg { p = f32[] parameter(0)
 ROOT r = f32[] negate(p) }
third { p = f32[] parameter(0)
 h = f32[] constant(100)
 ROOT r = f32[] add(p, h) }
"""


def test_conditional_by_predicate_and_by_index():
    by_predicate = (
        BRANCHES
        + "ENTRY e { c = pred[] parameter(0)\n a = f32[] constant(4)\n b = f32[] constant(5)\n ROOT r = f32[] conditional(c, a, b), true_computation=pos, false_computation=neg }"
    )
    assert evaluate(by_predicate, np.bool_(True)) == 2
    assert evaluate(by_predicate, np.bool_(False)) == -5
    by_index = (
        BRANCHES
        + "ENTRY e { c = s32[] parameter(0)\n a = f32[] constant(4)\n ROOT r = f32[] conditional(c, a, a, a), branch_computations={pos, neg, third} }"
    )
    for index, value in ((0, 2), (1, -4), (2, 104), (7, 104), (-1, 104)):
        assert evaluate(by_index, np.int32(index)) == value


def test_a_conditional_inside_map_takes_each_elements_own_branch():
    text = (
        BRANCHES
        + """f { p = f32[] parameter(0)
 z = f32[] constant(0)
 c = pred[] compare(p, z), direction=GE
 ROOT r = f32[] conditional(c, p, p), true_computation=pos, false_computation=neg }
ENTRY e { x = f32[4] parameter(0)
 ROOT r = f32[4] map(x), dimensions={0}, to_apply=f }"""
    )
    np.testing.assert_array_equal(evaluate(text, np.array([4, -4, 9, -1], np.float32)), [2, 4, 3, 1])
    assert evaluate(text.replace("f32[4]", "f32[0]"), np.zeros(0, np.float32)).shape == (0,)


def test_map_of_a_computation_that_uses_arrays_inside():
    text = """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
f { p = f32[] parameter(0)
 b = f32[3] broadcast(p), dimensions={}
 z = f32[] constant(1)
 ROOT r = f32[] reduce(b, z), dimensions={0}, to_apply=add }
ENTRY e { x = f32[2] parameter(0)
 ROOT r = f32[2] map(x), dimensions={0}, to_apply=f }"""
    np.testing.assert_array_equal(evaluate(text, np.array([1, 2], np.float32)), [4, 7])


STUCK = """HloModule m
c { p = (f32[], s32[]) parameter(0)
 ROOT t = pred[] constant(true) }
b { p = (f32[], s32[]) parameter(0)
 x = f32[] get-tuple-element(p), index=0
 i = s32[] get-tuple-element(p), index=1
 BODY
 ROOT t = (f32[], s32[]) tuple(x, j) }
ENTRY e { p = (f32[], s32[]) parameter(0)
 ROOT w = (f32[], s32[]) while(p), condition=c, body=b }"""


def test_a_loop_that_stays_where_it_is_has_that_value():
    x, i = evaluate(
        STUCK.replace("BODY", "z = s32[] constant(0)\n j = s32[] add(i, z)"),
        (np.float32(np.nan), np.int32(5)),
    )
    assert np.isnan(x)
    assert i == 5


def test_a_loop_in_a_circle_is_refused():
    with pytest.raises(EvaluationError, match="never ends: its state repeats every 2 steps"):
        evaluate(STUCK.replace("BODY", "j = s32[] negate(i)"), (np.float32(1), np.int32(5)))


def test_asynchronous_pairs_and_copies():
    text = """HloModule m
f { p = f32[2] parameter(0)
 ROOT n = f32[2] negate(p) }
ENTRY e { p = f32[2] parameter(0)
 s = ((f32[2]), f32[2], u32[]) async-start(p), calls=f
 u = ((f32[2]), f32[2], u32[]) async-update(s), calls=f
 d = f32[2] async-done(u), calls=f
 cs = (f32[2], f32[2], u32[]) copy-start(d)
 ROOT cd = f32[2] copy-done(cs) }"""
    np.testing.assert_array_equal(evaluate(text, np.array([1, -2], np.float32)), [-1, 2])


@pytest.mark.parametrize(
    "line",
    [
        "t = token[] after-all()\n i = (f32[2], token[]) infeed(t)\n ROOT r = f32[2] get-tuple-element(i), index=0",
        "t = token[] after-all()\n ROOT r = (f32[2], u32[], token[]) recv(t), channel_id=1",
    ],
)
def test_what_needs_a_host_is_refused(line):
    with pytest.raises(EvaluationError, match=r"the host|a host program"):
        evaluate(f"HloModule m\nENTRY e {{ {line} }}")


def test_collectives_of_one_participant():
    text = """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY e { p = f32[2] parameter(0)
 a = f32[2] all-reduce(p), replica_groups={}, to_apply=add
 g = f32[2] all-gather(a), replica_groups={}, dimensions={0}
 c = f32[2] collective-permute(g), source_target_pairs={{0,0}}
 i = u32[] replica-id()
 ROOT t = (f32[2], u32[]) tuple(c, i) }"""
    value, number = evaluate(text, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(value, [1, 2])
    assert number == 0
