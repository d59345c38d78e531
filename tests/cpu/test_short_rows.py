"""Rows of a few elements, computed for as many rows at a time as a vector has lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.guard_pages import run_guarded
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

ACROSS = "interleaved elements"


def _given(text):
    rng = np.random.default_rng(5)
    made = []
    for p in parse(text).entry_computation.parameters:
        dtype, shape = p.array_shape.element_type.dtype, p.array_shape.dimensions
        values = rng.integers(0, 9, shape) if dtype.kind in "iu" else rng.standard_normal(shape)
        made.append(np.asarray(values).astype(dtype))
    return made


def _checked(backend, text, *, is_across=True):
    exe, given = backend(text), _given(text)
    want = np.asarray(evaluate(parse(text), *given))
    np.testing.assert_allclose(np.asarray(exe(*given)).astype(float), want.astype(float), rtol=1e-5)
    assert (ACROSS in "".join(map(str, exe.plans.values()))) == is_across
    return exe


def _stack(rows, elements, t):
    """Columns in reverse order, each with another number added."""
    lines = [f"x = {t}[{rows},{elements}] parameter(0)"]
    for k in range(elements):
        lines += [
            f"cut{k} = {t}[{rows},1] slice(x), slice={{[0:{rows}],[{elements - 1 - k}:{elements - k}]}}",
            f"c{k} = {t}[] constant({k})",
            f"b{k} = {t}[{rows},1] broadcast(c{k}), dimensions={{}}",
            f"a{k} = {t}[{rows},1] add(cut{k}, b{k})",
        ]
    columns = ", ".join(f"a{k}" for k in range(elements))
    lines.append(f"ROOT r = {t}[{rows},{elements}] concatenate({columns}), dimensions={{1}}")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("rows", [64, 81, 1000])
@pytest.mark.parametrize("elements", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("t", ["f32", "bf16", "s8", "u16"])
def test_stacked_columns(backend, rows, elements, t):
    _checked(backend, _stack(rows, elements, t))


@pytest.mark.parametrize(("t", "elements", "is_across"), [("f32", 7, False), ("f64", 4, True), ("f64", 5, False)])
def test_longer_rows_are_vectors_themselves(backend, t, elements, is_across):
    _checked(backend, _stack(200, elements, t), is_across=is_across)


def test_a_few_rows_are_not_enough(backend):
    _checked(backend, _stack(5, 3, "f32"), is_across=False)


BODIES = {
    "columns differ": "b = f32[3] parameter(1)\n w = f32[9,70,3] broadcast(b), dimensions={2}\n ROOT r = f32[9,70,3] add(x, w)",
    "rows differ": "b = f32[9,70] parameter(1)\n w = f32[9,70,3] broadcast(b), dimensions={0,1}\n"
    " ROOT r = f32[9,70,3] multiply(x, w)",
    "reversed": "ROOT r = f32[9,70,3] reverse(x), dimensions={2}",
    "padded": "v = f32[] parameter(1)\n ROOT r = f32[11,74,5] pad(x, v), padding=1_1x3_1x1_1",
    "cut": "n = f32[9,70,3] negate(x)\n ROOT r = f32[5,61,2] slice(n), slice={[2:7],[4:65],[1:3]}",
    "two columns of three": "n = f32[9,70,3] negate(x)\n ROOT r = f32[9,70,2] slice(n), slice={[0:9],[0:70],[0:3:2]}",
    "function": "n = f32[9,70,3] exponential(x)\n b = f32[3] parameter(1)\n w = f32[9,70,3] broadcast(b), dimensions={2}\n"
    " ROOT r = f32[9,70,3] add(n, w)",
    "counted": "i = f32[9,70,3] iota(), iota_dimension=2\n j = f32[9,70,3] iota(), iota_dimension=1\n"
    " k = f32[9,70,3] add(i, j)\n ROOT r = f32[9,70,3] add(x, k)",
    "two short axes": "f = f32[700] parameter(1)\n n = f32[630,3] bitcast(x)\n b = f32[630] slice(f), slice={[0:630]}\n"
    " w = f32[630,3,2] broadcast(n), dimensions={0,1}\n v = f32[630,3,2] broadcast(b), dimensions={0}\n"
    " ROOT r = f32[630,3,2] add(w, v)",
}


def _fused(body):
    lines = [line.strip() for line in ("x = f32[9,70,3] parameter(0)\n" + body).split("\n")]
    parameters = [line for line in lines if "parameter(" in line]
    names, result = ", ".join(line.split()[0] for line in parameters), lines[-1].split()[3]
    entry = "\n".join(parameters)
    inside = "\n".join(lines)
    return f"""HloModule m
f {{
{inside}
}}
ENTRY e {{
{entry}
ROOT z = {result} fusion({names}), kind=kLoop, calls=f
}}
"""


@pytest.mark.parametrize("name", BODIES)
def test_programs(backend, width, name):
    _checked(backend, _fused(BODIES[name]), is_across=width > 128 or "padded" not in name)  # 5 elements


def test_columns_of_rows_with_another_layout_are_in_order(backend):
    text = """HloModule m
ENTRY e {
  x = f32[3,500]{0,1} parameter(0)
  b = f32[3] parameter(1)
  w = f32[3,500]{0,1} broadcast(b), dimensions={0}
  ROOT r = f32[3,500]{0,1} subtract(x, w)
}
"""
    _checked(backend, text)


def test_elements_that_are_far_apart_are_not_gathered(backend):
    text = """HloModule m
f {
  x = f32[300,64] parameter(0)
  n = f32[300,64] negate(x)
  a = f32[300,1] slice(n), slice={[0:300],[7:8]}
  b = f32[300,1] slice(n), slice={[0:300],[40:41]}
  ROOT r = f32[300,2] concatenate(b, a), dimensions={1}
}
ENTRY e {
  x = f32[300,64] parameter(0)
  ROOT z = f32[300,2] fusion(x), kind=kLoop, calls=f
}
"""
    _checked(backend, text, is_across=False)


def test_a_result_in_its_operand(backend):
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[333,3] parameter(0)
  b = f32[3] parameter(1)
  w = f32[333,3] broadcast(b), dimensions={1}
  ROOT r = f32[333,3] subtract(x, w)
}
"""
    _checked(backend, text)


def test_several_results_share_the_loop(backend):
    text = """HloModule m
ENTRY e {
  x = f32[120,3] parameter(0)
  b = f32[3] parameter(1)
  w = f32[120,3] broadcast(b), dimensions={1}
  s = f32[120,3] subtract(x, w)
  e = f32[120,3] exponential(s)
  ROOT t = (f32[120,3], f32[120,3]) tuple(s, e)
}
"""
    exe, given = backend(text), _given(text)
    for got, want in zip(exe(*given), evaluate(parse(text), *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert ACROSS in "".join(map(str, exe.plans.values()))


def test_complex_rows_are_as_before(backend):
    text = "HloModule m\nENTRY e {\nx = c64[90,3] parameter(0)\nROOT r = c64[90,3] reverse(x), dimensions={1}\n}\n"
    _given_complex = (np.arange(270) + 1j).astype(np.complex64).reshape(90, 3)
    exe = backend(text)
    np.testing.assert_array_equal(exe(_given_complex), _given_complex[:, ::-1])
    assert ACROSS not in "".join(map(str, exe.plans.values()))


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("rows", [16, 100])
def test_nothing_outside_the_arrays_is_touched(backend, rows, at_end):
    text = _stack(rows, 3, "f32")
    exe, (given,) = backend(text), _given(text)
    first, second = (run_guarded(exe, [given], at_end=at_end, fill=fill) for fill in (0, 255))
    assert first == second
    np.testing.assert_allclose(np.frombuffer(first[0], np.float32).reshape(rows, 3), evaluate(parse(text), given))


# -- reductions of short rows ----------------------------------------------------------------------


def _reduced(rows, elements, t="f32", op="add", *, dims="1", source=None, result=None, first="0"):
    source, result = source or f"{rows},{elements}", result or f"{rows}"
    return f"""HloModule m
r {{
  p = {t}[] parameter(0)
  q = {t}[] parameter(1)
  ROOT s = {t}[] {op}(p, q)
}}
f {{
  x = {t}[{source}] parameter(0)
  c = {t}[] constant({first})
  d = {t}[{source}] add(x, x)
  m = {t}[{result}] reduce(d, c), dimensions={{{dims}}}, to_apply=r
  ROOT a = {t}[{result}] negate(m)
}}
ENTRY e {{
  x = {t}[{source}] parameter(0)
  ROOT z = {t}[{result}] fusion(x), kind=kLoop, calls=f
}}
"""


def _is_across(exe, rows):
    """Whether vectors of several rows' results are computed."""
    plans = "".join(map(str, exe.plans.values()))
    return f"for {rows} elements by vectors" in plans and "one by one" not in plans


def _same(exe, text, given):
    want = np.asarray(evaluate(parse(text), *given)).astype(float)
    np.testing.assert_allclose(
        np.asarray(exe(*given)).astype(float), want, rtol=1e-2 if "bf16" in text else 1e-5, atol=1e-5
    )


@pytest.mark.parametrize("elements", [5, 7, 8, 9, 16, 17, 33, 64])
@pytest.mark.parametrize("t", ["f32", "f64", "bf16", "s32", "u8"])
def test_sums_of_short_rows(backend, elements, t):
    text = _reduced(131, elements, t)
    exe = backend(text)
    assert _is_across(exe, 131) == (elements <= {"f32": 64, "bf16": 64, "f64": 32}.get(t, 8))
    _same(exe, text, _given(text))


@pytest.mark.parametrize("op", ["maximum", "minimum", "multiply"])
@pytest.mark.parametrize("elements", [6, 20])
def test_operations_on_short_rows(backend, width, op, elements):
    text = _reduced(70, elements, op=op)
    exe = backend(text)
    assert _is_across(exe, 70)
    _same(exe, text, _given(text))


def test_an_operation_that_is_in_no_order(backend):
    text = _reduced(70, 20, op="subtract", first="3")
    _same(backend(text), text, _given(text))


@pytest.mark.parametrize(("source", "result"), [("128,64", "128"), ("12,17,64", "12,17")])
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_pieces_of_rows_are_not_transposed_for_each_of_their_elements(backend, op, source, result):
    """Rows whose last element comes first: each piece is read under a condition."""
    text = _reduced(0, 0, source=source, dims=str(source.count(",")), result=result, op=op)
    inside = "".join(f"[0:{n}]," for n in result.split(","))
    rolled = (
        f"end = f32[{result},1] slice(x), slice={{{inside}[63:64]}}\n"
        f"  rest = f32[{result},63] slice(x), slice={{{inside}[0:63]}}\n"
        f"  d = f32[{source}] concatenate(end, rest), dimensions={{{source.count(',')}}}"
    )
    text = text.replace(f"d = f32[{source}] add(x, x)", rolled)
    exe = backend(text)
    assert "turned" not in exe.llvm_ir
    assert "for 64 elements" in "".join(map(str, exe.plans.values()))
    _same(exe, text, _given(text))


def test_long_rows_are_reduced_along(backend):
    exe = backend(_reduced(70, 65))
    assert not _is_across(exe, 70)


@pytest.mark.parametrize(
    ("source", "dims", "result"),
    [
        ("2,70,20", "0,2", "70"),
        ("3,40,17,16", "0,3", "40,17"),
        ("3,70,5,6", "2,3", "3,70"),
        ("4,5,66,7", "1,3", "4,66"),
        ("66,1,7", "1,2", "66"),
    ],
)
def test_several_reduced_dimensions(backend, source, dims, result):
    text = _reduced(0, 0, source=source, dims=dims, result=result)
    exe = backend(text)
    assert _is_across(exe, {"70": 70, "40,17": 17, "3,70": 70, "4,66": 66, "66": 66}[result])
    _same(exe, text, _given(text))


@pytest.mark.parametrize("elements", [6, 24])
def test_what_each_row_adds(backend, elements):
    """The sum of exponentials of differences to a number per row, as in a logsumexp."""
    text = f"""HloModule m
r {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }}
f {{
  x = f32[100,{elements}] parameter(0)
  y = f32[100] parameter(1)
  c = f32[] constant(0)
  w = f32[100,{elements}] broadcast(y), dimensions={{0}}
  d = f32[100,{elements}] subtract(x, w)
  e = f32[100,{elements}] exponential(d)
  m = f32[100] reduce(e, c), dimensions={{1}}, to_apply=r
  l = f32[100] log(m)
  ROOT a = f32[100] add(l, y)
}}
ENTRY e {{
  x = f32[100,{elements}] parameter(0)
  y = f32[100] parameter(1)
  ROOT z = f32[100] fusion(x, y), kind=kLoop, calls=f
}}
"""
    exe = backend(text)
    assert _is_across(exe, 100)
    _same(exe, text, _given(text))


def test_rows_at_places_that_are_read(backend):
    text = """HloModule m
r { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
f {
  x = f32[70,8,5] parameter(0)
  i = s32[70,1] parameter(1)
  c = f32[] constant(0)
  g = f32[70,5] gather(x, i), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1},
    operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1,5}
  ROOT m = f32[70] reduce(g, c), dimensions={1}, to_apply=r
}
ENTRY e {
  x = f32[70,8,5] parameter(0)
  i = s32[70,1] parameter(1)
  ROOT z = f32[70] fusion(x, i), kind=kLoop, calls=f
}
"""
    x, i = np.random.default_rng(0).standard_normal((70, 8, 5)).astype(np.float32), np.arange(70, dtype=np.int32) % 8
    got = backend(text.replace(",\n    ", ", "))(x, i[:, None])
    np.testing.assert_allclose(got, x[np.arange(70), i].sum(1), rtol=1e-5, atol=1e-5)


def test_the_same_element_for_each_place(backend):
    text = """HloModule m
r { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
f {
  y = f32[] parameter(0)
  c = f32[] constant(0)
  w = f32[100,20] broadcast(y), dimensions={}
  ROOT m = f32[100] reduce(w, c), dimensions={1}, to_apply=r
}
ENTRY e {
  y = f32[] parameter(0)
  ROOT z = f32[100] fusion(y), kind=kLoop, calls=f
}
"""
    np.testing.assert_allclose(backend(text)(np.float32(0.5)), np.full(100, 10, np.float32))


_ARGMAX = """HloModule m
r {{
  a = {t}[] parameter(0)
  i = {p}[] parameter(1)
  b = {t}[] parameter(2)
  j = {p}[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  odd = pred[] compare(a, a), direction=NE
  keep = pred[] or(gt, odd)
  value = {t}[] select(keep, a, b)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  first = pred[] or(keep, tie)
  at = {p}[] select(first, i, j)
  ROOT both = ({t}[], {p}[]) tuple(value, at)
}}
f {{
  x = {t}[{source}] parameter(0)
  k = {p}[{source}] iota(), iota_dimension={d}
  least = {t}[] constant({least})
  zero = {p}[] constant({zero})
  ROOT m = ({t}[{result}], {p}[{result}]) reduce(x, k, least, zero), dimensions={{{d}}}, to_apply=r
}}
ENTRY e {{
  x = {t}[{source}] parameter(0)
  ROOT z = ({t}[{result}], {p}[{result}]) fusion(x), kind=kLoop, calls=f
}}
"""


@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("p", ["s32", "s64"])
@pytest.mark.parametrize(
    ("source", "d", "result"), [("90,6", 1, "90"), ("90,20", 1, "90"), ("40,50,3", 0, "50,3"), ("7,40,66", 1, "7,66")]
)
@pytest.mark.parametrize("with_nan", [False, True])
def test_largest_elements_and_their_places(backend, source, d, result, p, zero, with_nan):
    text = _ARGMAX.format(t="f32", p=p, source=source, d=d, result=result, least="-inf", zero=zero)
    rng = np.random.default_rng(1)
    x = rng.integers(0, 5, [int(n) for n in source.split(",")]).astype(np.float32)
    if with_nan:
        x[rng.random(x.shape) < 0.1] = np.nan
        x[0] = -np.inf
    for got, want in zip(backend(text)(x), evaluate(parse(text), x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("rows", [16, 100])
@pytest.mark.parametrize("elements", [7, 21])
def test_no_row_is_read_beyond_its_array(backend, rows, elements, at_end):
    text = _reduced(rows, elements)
    exe, (given,) = backend(text), _given(text)
    got = run_guarded(exe, [given], at_end=at_end)
    np.testing.assert_allclose(np.frombuffer(got[0], np.float32), evaluate(parse(text), given), rtol=1e-5)


@pytest.mark.parametrize("op", ["maximum", "add", "multiply"])
@pytest.mark.parametrize("t", ["f32", "u8", "s64", "bf16"])
@pytest.mark.parametrize(("elements", "low", "high"), [(2, 1, 0), (3, 2, 0), (4, 0, 3), (3, 1, 1)])
def test_windows_of_short_rows(backend, t, op, elements, low, high):
    size, first = low + high + 1, {"maximum": 0, "add": 0, "multiply": 1}[op]
    text = f"""HloModule m
r {{ p = {t}[] parameter(0) q = {t}[] parameter(1) ROOT s = {t}[] {op}(p, q) }}
ENTRY e {{
  x = {t}[5,90,{elements}] parameter(0)
  c = {t}[] constant({first})
  ROOT w = {t}[5,90,{elements}] reduce-window(x, c), window={{size=1x1x{size} pad=0_0x0_0x{low}_{high}}}, to_apply=r
}}
"""
    exe = backend(text)
    assert ACROSS in "".join(map(str, exe.plans.values()))
    _same(exe, text, _given(text))


def test_windows_of_complex_rows(backend):
    text = """HloModule m
r { p = c64[] parameter(0) q = c64[] parameter(1) ROOT s = c64[] add(p, q) }
ENTRY e {
  x = c64[5,90,3] parameter(0)
  c = c64[] constant((0, 0))
  ROOT w = c64[5,90,3] reduce-window(x, c), window={size=1x1x3 pad=0_0x0_0x1_1}, to_apply=r
}
"""
    x = np.random.default_rng(0).standard_normal((5, 90, 3, 2)).astype(np.float32).view(np.complex64)[..., 0]
    np.testing.assert_allclose(backend(text)(x), evaluate(parse(text), x), rtol=1e-5, atol=1e-5)
