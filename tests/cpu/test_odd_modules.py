"""Modules that no frontend creates but a text may contain: rejected or run, never out of bounds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.errors import EvaluationError, HloVerifierError


def test_a_bitcast_to_more_bits_is_refused():
    text = "HloModule m\n\nENTRY e {\n  a = f32[2,3] parameter(0)\n  n = f32[2,3] negate(a)\n  ROOT b = f32[7] bitcast(n)\n}\n"
    with pytest.raises(HloVerifierError, match=r"%b: cannot be compiled.*f32\[2,3\].*f32\[7\]"):
        xlanb.compile(text)


def test_a_parameter_that_should_wait_waits_for_nothing():
    text = (
        "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  n = f32[4] negate(a)\n"
        "  b = f32[4] parameter(1), control-predecessors={n}\n  ROOT s = f32[4] add(n, b)\n}\n"
    )
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(xlanb.compile(text)(a, b), b - a)


@pytest.mark.parametrize("size", [-1, 5, 1 << 30])
def test_a_dynamic_size_beyond_its_bound_is_refused(size):
    text = (
        "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  n = s32[] parameter(1)\n"
        '  ROOT d = f32[<=4] custom-call(a, n), custom_call_target="SliceToDynamic"\n}\n'
    )
    exe = xlanb.compile(text)
    with pytest.raises(EvaluationError, match=rf"size {size} exceeds the bound 4 of the dimension"):
        exe(np.ones(4, np.float32), np.int32(size))
    assert exe(np.ones(4, np.float32), np.int32(3)).shape == (3,)


DYNAMIC = """HloModule m

gt {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT
}

ENTRY e {
  a = s32[5] parameter(0)
  n = s32[] parameter(1)
  d = s32[<=5] set-dimension-size(a, n), dimensions={0}
  %s
}
"""


@pytest.mark.parametrize(
    "last",
    [
        "ROOT s = s32[<=5] sort(d), dimensions={0}, to_apply=gt",
        "ROOT s = s32[<=5] reverse(d), dimensions={0}",
        "ROOT s = s32[<=5] negate(d)",
        "k = s32[<=5] negate(d)\n  ROOT s = s32[<=5] multiply(k, d)",
        "ROOT s = s32[<=5] copy(d)",
    ],
)
@pytest.mark.parametrize("without", [(), ("dynamic_padder",)])
def test_what_needs_the_elements_of_a_dynamic_array_together_reads_no_more_than_there_are(last, without):
    module = xlanb.hlo.parse(DYNAMIC % last)
    a = np.array([-1, -9, -3, 7, 8], np.int32)
    for n in (0, 3, 5):
        want = np.asarray(xlanb.evaluate(module, a, np.int32(n)))
        exe = compile_module(module, CompileOptions(disable_passes=without))
        np.testing.assert_array_equal(exe(a, np.int32(n)), want)


INDEXED_TWICE = """HloModule m

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}

ENTRY e {
  p = s32[8,64] parameter(0)
  ROOT s = %s
}
"""


@pytest.mark.parametrize(
    "last",
    [
        "s32[8,64] scatter(p, p, p), update_window_dims={}, input_batching_dims={0}, scatter_indices_batching_dims={0}, "
        "inserted_window_dims={1}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add",
        "s32[8,64] gather(p, p), offset_dims={}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
        "collapsed_slice_dims={1}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,1}",
    ],
)
def test_an_index_along_a_batching_dimension_is_refused(last):
    module = xlanb.hlo.parse(INDEXED_TWICE % last)
    module.verify()  # as in XLA's verifier
    with pytest.raises(HloVerifierError, match=r"%s: cannot be compiled.*both have \[0\]"):
        xlanb.compile(module)


def test_a_fusion_with_more_operands_than_parameters_is_refused():
    text = (
        "HloModule m\n\nfused {\n  c = f32[4] constant({1, 2, 3, 4})\n  ROOT b = f32[2,4] broadcast(c), dimensions={1}\n}\n\n"
        "ENTRY e {\n  p = f32[4] parameter(0)\n  ROOT f = f32[2,4] fusion(p), kind=kCustom, calls=fused\n}\n"
    )
    xlanb.hlo.parse(text).verify()
    with pytest.raises(HloVerifierError, match=r"%f: cannot be compiled: expected an operand for each of 0 parameters"):
        xlanb.compile(text)


F8 = "f8e5m2 f8e4m3fn f8e4m3fnuz f8e5m2fnuz f8e4m3 f8e3m4 f4e2m1fn".split()


def test_a_program_may_hold_all_small_floats_at_once():
    steps = [f"  c{k} = {t}[2] convert({f'c{k - 1}' if k else 'p'})" for k, t in enumerate(F8)]
    text = "\n".join(
        [
            "HloModule m",
            "ENTRY e {",
            "  p = f32[2] parameter(0)",
            *steps,
            f"  ROOT r = f32[2] convert(c{len(F8) - 1})",
            "}",
        ]
    )
    x = np.array([1.25, -3.0], np.float32)
    np.testing.assert_array_equal(xlanb.compile(text)(x), xlanb.evaluate(text, x))


ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
EMPTY = {
    "reduce in a fusion": ADD
    + "f1 {\n  p0 = f32[128] parameter(0)\n  c0 = f32[] constant(3)\n  b = f32[128,0] broadcast(p0), dimensions={0}\n"
    "  ROOT r = f32[128] reduce(b, c0), dimensions={1}, to_apply=add\n}\n"
    "ENTRY e {\n  p = f32[128] parameter(0)\n  ROOT f = f32[128] fusion(p), kind=kLoop, calls=f1\n}",
    "reduce-window over a padded constant": ADD
    + "ENTRY e {\n  p = f32[3] parameter(0)\n  x = f32[0,2] constant({})\n  c = f32[] constant(5)\n"
    "  d = f32[1,3] pad(x, c), padding=0_1x0_1\n  ROOT r = f32[3,8] reduce-window(d, c), to_apply=add, "
    "window={size=2x2 pad=2_1x3_3}\n}",
    "pad of an empty parameter": ADD
    + "ENTRY e {\n  p = f32[0,2] parameter(0)\n  c = f32[] constant(5)\n  d = f32[1,3] pad(p, c), padding=0_1x0_1\n"
    "  ROOT r = f32[3,8] reduce-window(d, c), to_apply=add, window={size=2x2 pad=2_1x3_3}\n}",
}


@pytest.mark.parametrize("case", EMPTY)
def test_elements_of_empty_arrays_are_computed_nowhere(case):
    module = xlanb.hlo.parse("HloModule m\n" + EMPTY[case])
    x = np.ones(module.entry_computation.parameters[0].array_shape.dimensions, np.float32)
    np.testing.assert_array_equal(xlanb.compile(module)(x), xlanb.evaluate(module, x))


CONSTANTS = {
    "an iota beyond its type": "i = s8[300] iota(), iota_dimension=0\n  ROOT r = s8[1] slice(i), slice={[200:201]}",
    "u64 with the largest number": "ROOT s = u64[2] constant({0, 18446744073709551615})",
    "u64 that f64 cannot tell apart": "ROOT s = u64[3] constant({0, 9007199254740993, 18014398509481986})",
    "infinity after zero": "ROOT s = f32[2] constant({0, inf})",
    "nan after zero": "ROOT s = f32[2] constant({0, nan})",
    "counting from minus zero": "ROOT s = f32[3] constant({-0, 1, 2})",
    "zeros of both signs": "ROOT s = f32[4] constant({0, -0, 0, 0})",
    "state of a generator": "s = u64[2] constant({0, 18446744073709551615})\n"
    "  ROOT r = (u64[2], u32[]) rng-bit-generator(s), algorithm=rng_default",
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_at_the_edges_of_their_types(case):
    text = f"HloModule m\nENTRY e {{\n  {CONSTANTS[case]}\n}}\n"
    got, want = xlanb.compile(text)(), xlanb.evaluate(text)
    for a, b in zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]:
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_an_opcode_may_take_one_small_float_and_give_another():
    text = "HloModule m\nENTRY e {\n  p = f8e4m3fnuz[4] parameter(0)\n  ROOT r = f8e8m0fnu[4] negate(p)\n}\n"
    x = np.array([1, -2, 0.5, -8], np.float32).astype(ml_dtypes.float8_e4m3fnuz)
    want = xlanb.evaluate(text, x)
    assert want.dtype == ml_dtypes.float8_e8m0fnu
    assert xlanb.compile(text)(x).tobytes() == want.tobytes()


def test_a_custom_call_without_a_buffers_shape_says_that_it_is_not_known():
    text = (
        "HloModule m\nENTRY e {\n  i = s32[2,8] parameter(0)\n"
        '  b = b(s32[2,8]) custom-call(i), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}\n'
        '  ROOT v = s32[2,8] custom-call(b), custom_call_target="%s", output_to_operand_aliasing={{}: (0, {})}\n}\n'
    )
    x = np.arange(16, dtype=np.int32).reshape(2, 8)
    np.testing.assert_array_equal(xlanb.compile(text % "Unpin")(x), x)
    with pytest.raises(EvaluationError, match=r'custom-call target "AddOne" is unknown'):
        xlanb.compile(text % "AddOne")(x)


def test_a_gather_of_empty_slices_into_elements_is_refused():
    text = (
        "HloModule m\nENTRY e {\n  p = f32[6,2] parameter(0)\n  i = s32[6,1] parameter(1)\n  ROOT g = f32[6] gather(p, i), "
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1}, index_vector_dim=1, slice_sizes={1,0}\n}\n"
    )
    xlanb.hlo.parse(text).verify()
    with pytest.raises(HloVerifierError, match=r"%g: cannot be compiled: slices of sizes \(1, 0\) have no element"):
        xlanb.compile(text)
