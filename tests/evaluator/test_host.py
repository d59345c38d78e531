"""Infeed, outfeed and Python callbacks in the interpreter.

Their order and structure, unused values, and unsupported calls.
"""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import EvaluationError, FeedError
from xlanb.evaluator import Feeds, evaluate
from xlanb.hlo import HloModule, parse

BOTH = """HloModule both

ENTRY main {
  x = f32[2]{0} parameter(0)
  begin = token[] after-all()
  first = ((f32[2]{0}, (s32[], pred[])), token[]) infeed(begin)
  then = token[] get-tuple-element(first), index=1
  second = (f32[2]{0}, token[]) infeed(then)
  last = token[] get-tuple-element(second), index=1
  pair = (f32[2]{0}, (s32[], pred[])) get-tuple-element(first), index=0
  a = f32[2]{0} get-tuple-element(pair), index=0
  b = f32[2]{0} get-tuple-element(second), index=0
  s = f32[2]{0} subtract(a, b)
  out = token[] outfeed(pair, last), outfeed_shape=(f32[2]{0}, (s32[], pred[]))
  again = token[] outfeed(s, out), outfeed_shape=f32[2]{0}
  ROOT y = f32[2]{0} add(s, x)
}
"""
# Adds numbers and returns the sums until it gets a zero.
SUMS = """HloModule sums

condition {
  p = (s32[], s32[], token[]) parameter(0)
  taken = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0)
  ROOT more = pred[] compare(taken, zero), direction=NE
}

body {
  p = (s32[], s32[], token[]) parameter(0)
  sum = s32[] get-tuple-element(p), index=1
  t = token[] get-tuple-element(p), index=2
  fed = (s32[], token[]) infeed(t)
  n = s32[] get-tuple-element(fed), index=0
  u = token[] get-tuple-element(fed), index=1
  new = s32[] add(sum, n)
  v = token[] outfeed(new, u), outfeed_shape=s32[]
  ROOT next = (s32[], s32[], token[]) tuple(n, new, v)
}

ENTRY main {
  one = s32[] constant(1)
  zero = s32[] constant(0)
  t = token[] after-all()
  start = (s32[], s32[], token[]) tuple(one, zero, t)
  loop = (s32[], s32[], token[]) while(start), condition=condition, body=body
  ROOT sum = s32[] get-tuple-element(loop), index=1
}
"""
CALL = """HloModule call

ENTRY main {
  x = f32[3]{0} parameter(0)
  t = token[] after-all()
  told = (token[]) custom-call(t, x), custom_call_target="xla_ffi_python_cpu_callback", custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, backend_config={index = 1 : ui64}
  ROOT y = (f32[3]{0}, s32[]) custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI, backend_config={index = 0 : ui64}
}
"""
X = np.array([1.0, 2.0, 3.0], np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def calling(*functions) -> HloModule:
    module = parse(CALL)
    module.host_callbacks = functions
    return module


def test_arrays_are_taken_and_given_in_order():
    """A tuple is added as its leaves: values added together are taken separately."""
    feeds = Feeds()
    feeds.infeed((f32(5, 6), np.int32(3)), np.array(True), f32(1, 1))
    np.testing.assert_array_equal(evaluate(BOTH, f32(10, 20), feeds=feeds), [14, 25])
    assert (feeds.pending, len(feeds)) == (0, 2)
    a, (n, p) = feeds.outfeed()
    assert (a.tolist(), int(n), bool(p)) == ([5, 6], 3, True)
    np.testing.assert_array_equal(feeds.outfeed(), [4, 5])
    with pytest.raises(FeedError, match="outfeed is empty"):
        feeds.outfeed()


def test_a_loop_takes_in_each_round():
    """It returns to an earlier state, but must not stop while the host provides more."""
    feeds = Feeds()
    feeds.infeed(*(np.int32(n) for n in (1, -1, 1, -1, 1, 4, 0)))
    assert evaluate(SUMS, feeds=feeds) == 5
    assert [int(feeds.outfeed()) for _ in range(len(feeds))] == [1, 0, 1, 0, 1, 5, 5]


def test_what_does_not_fit_is_told_of_the_instruction():
    feeds = Feeds()
    feeds.infeed(f32(5, 6, 7))
    with pytest.raises(EvaluationError, match=r"first: the infeed provides f32\[3\], but f32\[2\] was expected"):
        evaluate(BOTH, f32(0, 0), feeds=feeds)
    with pytest.raises(EvaluationError, match="first: needs data from the host"):
        evaluate(BOTH, f32(0, 0))


def test_what_is_outfed_is_a_copy():
    feeds = Feeds()
    given = np.array(5, np.int32)
    feeds.infeed(given, np.int32(0))
    given[...] = 7
    assert evaluate(SUMS, feeds=feeds) == 5


def test_a_function_of_pythons_is_called_even_where_nobody_needs_it():
    seen = []

    def tell(token, x):
        seen.append((token, x))
        return (token,)

    module = calling(lambda x: (x * 2, np.int32(x.sum())), tell)
    doubled, total = evaluate(module, X)
    np.testing.assert_array_equal(doubled, [2, 4, 6])
    assert total == 6
    assert seen[0][0] is None
    np.testing.assert_array_equal(seen[0][1], X)
    assert not seen[0][1].flags.writeable
    assert evaluate(module.clone(), X)[1] == 6
    assert evaluate(HloModule.from_record(module.record()), X)[1] == 6


def test_what_it_raises_comes_out_as_it_is():
    class OwnError(LookupError):
        pass

    def fail(*_: object) -> None:
        raise OwnError("mine")

    with pytest.raises(OwnError, match="mine") as info:
        evaluate(calling(fail, lambda t, _: (t,)), X)
    assert info.value.__cause__ is None


def test_without_its_functions_the_instruction_is_named():
    with pytest.raises(EvaluationError, match=r"told: .*function number 1 .* came without its functions") as info:
        evaluate(CALL, X)
    assert "xlanb.from_jax" in str(info.value)
    with pytest.raises(EvaluationError, match=r"told: .*function number 1 .* has 1 functions here"):
        evaluate(calling(lambda x: (x, np.int32(0))), X)
    nameless = parse(CALL.replace("index = 1 : ui64", ""))
    with pytest.raises(EvaluationError, match="that the backend_config does not name"):
        evaluate(nameless, X)


def test_what_the_function_gives_is_checked():
    with pytest.raises(EvaluationError, match="y: "):
        evaluate(calling(lambda x: (x.astype(np.float64), np.int32(0)), lambda t, _: (t,)), X)
    with pytest.raises(EvaluationError, match="y: "):
        evaluate(calling(lambda x: (x,), lambda t, _: (t,)), X)
