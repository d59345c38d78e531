"""Which results of a module may differ: only those that depend on a listed instruction."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import explained, hlo_check
from tests.fuzz.reference import Noted, Reference
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, parse

_REDUCER = """
sub {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] subtract(a, b)
}
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
twice {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(b, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
mixed {
  a = f32[] parameter(0)
  b = f8e3m4[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
first {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT e = pred[] compare(a, b), direction=LT
}
late {
  a = f32[] parameter(0)
  t = f32[] tanh(a)
  ROOT f = f32[] floor(t)
}
"""


def _kinds(rows: str, *, has_extremes: bool = False) -> list[str]:
    entry = f"ENTRY e {{\n  p = f32[4] parameter(0)\n  z = f32[] constant(0)\n  n = f32[4] negate(p)\n{rows}\n}}\n"
    return explained.which(parse(f"HloModule m\n{_REDUCER}{entry}"), has_extremes=has_extremes)


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("f32[] reduce(p, z), dimensions={0}, to_apply=sub", "fold without an order"),
        ("f32[] reduce(p, z), dimensions={0}, to_apply=add", ""),
        ("f32[4] sort(p), dimensions={0}, to_apply=less", ""),
        ("f32[4] sort(p), dimensions={0}, is_stable=true, to_apply=mixed", "sort without an order"),
        ("(f32[4], f32[4]) sort(p, n), dimensions={0}, to_apply=first", "sort without an order"),
        ("(f32[4], f32[4]) sort(p, n), dimensions={0}, is_stable=true, to_apply=first", ""),
        ("f32[4] rng(z, z), distribution=rng_uniform", "state"),
        ("f32[4] map(p), dimensions={0}, to_apply=late", "decision on a rounded"),
        ("f32[4] tanh(p)", ""),
        ("f32[] reduce(p, z), dimensions={0}, to_apply=twice", "fold without an order"),
        ("f32[4] floor(p)", ""),
    ],
)
def test_a_result_is_open_by_what_leads_to_it(instruction: str, kind: str) -> None:
    leaves = 2 if instruction.startswith("(") else 1
    assert _kinds(f"  ROOT r = {instruction}") == [kind] * leaves
    shape = instruction.partition(") ")[0] + ")" if instruction.startswith("(") else instruction.partition(" ")[0]
    assert _kinds(f"  r = {instruction}\n  ROOT t = ({shape}, f32[4]) tuple(r, n)") == [*[kind] * leaves, ""]


@pytest.mark.parametrize("of", ["p", "w"])
def test_a_choice_of_the_largest_is_open_where_they_are_rounded(of: str) -> None:
    rows = f'  w = f32[4] log(p)\n  ROOT r = (f32[2], s32[2]) custom-call({of}), custom_call_target="TopK"'
    assert _kinds(rows) == ["decision on a rounded" if of == "w" else ""] * 2


def test_the_largest_are_open_where_some_may_be_nan() -> None:
    rows = '  ROOT r = (f32[2], s32[2]) custom-call(p), custom_call_target="TopK"'
    assert _kinds(rows, has_extremes=True) == ["comparison with NaN"] * 2
    assert (
        _kinds("  ROOT r = (f32[2], s32[2]) topk(p), k=2, largest=true", has_extremes=True)
        == ["comparison with NaN"] * 2
    )


@pytest.mark.parametrize(
    ("start", "reducer", "kind"),
    [
        ("constant(0)", "add", ""),
        ("constant(127.5)", "add", "fold over padding"),
        ("parameter(2)", "add", "fold over padding"),
    ],
)
def test_a_fold_over_padding_is_open_where_it_starts_from_no_identity(start: str, reducer: str, kind: str) -> None:
    size = "  k = s32[] parameter(1)\n  d = f32[<=4] set-dimension-size(p, k), dimensions={0}\n"
    fold = f"  s = f32[] {start}\n  ROOT r = f32[] reduce(d, s), dimensions={{0}}, to_apply={reducer}"
    assert _kinds(size + fold) == [kind]
    assert _kinds(
        f"  s = f32[] constant(127.5)\n  ROOT r = f32[] reduce(p, s), dimensions={{0}}, to_apply={reducer}"
    ) == [""]


@pytest.mark.parametrize(("start", "partitions", "kind"), [("0", 2, ""), ("1", 2, "fold over devices"), ("1", 1, "")])
def test_a_fold_over_devices_is_open_where_it_starts_from_no_identity(start: str, partitions: int, kind: str) -> None:
    module = parse(f"""HloModule m, num_partitions={partitions}
{_REDUCER}
ENTRY e {{
  p = f32[4] parameter(0), sharding={{devices=[{partitions}]<=[{partitions}]}}
  s = f32[] constant({start})
  ROOT r = f32[] reduce(p, s), dimensions={{0}}, to_apply=add
}}""")
    assert explained.which(module) == [kind]


@pytest.mark.parametrize(("start", "is_open"), [("-inf", False), ("1", True)])
def test_identities_are_known_of_narrow_floats(start: str, is_open: bool) -> None:
    module = parse(f"""HloModule m
larger {{
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT m = bf16[] maximum(a, b)
}}
ENTRY e {{
  p = bf16[<=4] parameter(0)
  s = bf16[] constant({start})
  ROOT r = bf16[] reduce(p, s), dimensions={{0}}, to_apply=larger
}}""")
    assert (explained.which(module) == ["fold over padding"]) == is_open


def test_a_rounded_value_is_no_reason_before_a_decision() -> None:
    assert _kinds("  t = f32[4] tanh(p)\n  ROOT f = f32[4] floor(t)") == ["decision on a rounded"]
    rows = "  t = f32[4] tanh(p)\n  f = f32[4] floor(p)\n  ROOT r = (f32[4], f32[4]) tuple(t, f)"
    assert _kinds(rows) == ["", ""]


def test_only_the_context_of_what_has_not_ended_is_open() -> None:
    start = "c = (f32[4], f32[4], u32[]) copy-start(p)"
    assert _kinds(f"  ROOT {start}") == ["", "", "context"]
    assert _kinds(f"  {start}\n  ROOT d = f32[4] copy-done(c)") == [""]


def test_an_order_of_floats_is_open_where_some_are_nan() -> None:
    sort = "  ROOT r = f32[4] sort(p), dimensions={0}, to_apply=less"
    assert _kinds(sort, has_extremes=True) == ["comparison with NaN"]
    assert _kinds("  ROOT r = f32[4] maximum(p, n)", has_extremes=True) == [""]


def _noted(module: HloModule, *arguments: np.ndarray, tries_orders: bool = False) -> Noted:
    reference = Reference(1000, 10.0, tries_orders=tries_orders)
    reference.run(module.entry_computation, list(arguments))
    return reference.noted


SOLVES = (
    "HloModule m\nENTRY e {\n  a = f32[2,2] parameter(0)\n  b = f32[2,1] parameter(1)\n  s = f32[2,1] "
    "triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE\n  n = f32[2,1] negate(b)\n"
    "  ROOT r = (f32[2,1], f32[2,1]) tuple(s, n)\n}\n"
)


@pytest.mark.parametrize(("pivot", "is_open"), [(0, True), (1, False)])
def test_infinities_and_nan_are_one_where_a_singular_system_was_solved(pivot: float, is_open: bool) -> None:
    module = parse(SOLVES)
    arguments = [np.array([[1, 0], [1, pivot]], np.float32), np.array([[1], [3]], np.float32)]
    noted = _noted(module, *arguments)
    assert explained.singular(module, noted) == [is_open, False]
    expected = list(evaluate(module, *arguments))
    for k, is_found in ((0, not is_open), (1, True)):
        got = [x.copy() for x in expected]
        got[k][1] = np.nan
        find = hlo_check._judged(module, arguments, got, expected, noted, has_extremes=False)
        assert (find is not None) == is_found


@pytest.mark.parametrize(("value", "kind"), [(np.inf, "algorithm over infinities"), (1.0, "")])
def test_an_algorithm_is_open_where_it_met_an_infinity(value: float, kind: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n  a = c64[4] parameter(0)\n  b = f32[4] parameter(1)\n  f = c64[4] fft(a), fft_type=FFT, fft_length={4}\n"
        '  c = f32[4] custom-call(b), custom_call_target="Sharding"\n  ROOT r = (c64[4], f32[4]) tuple(f, c)\n}\n'
    )
    module = parse(text)
    noted = _noted(module, np.array([value, 1, 2, 3], np.complex64), np.full(4, value, np.float32))
    assert explained.which(module, noted, has_extremes=True) == [kind, ""]


@pytest.mark.parametrize(("pivot", "kind"), [(-1, "failed factorization"), (1, "")])
def test_a_failed_factorization_opens_what_follows_from_it_alone(pivot: float, kind: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n  a = f32[2,2]{0,1} parameter(0)\n  f = (f32[2,2]{0,1}, s32[]) custom-call(a), "
        'custom_call_target="lapack_spotrf_ffi", api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}\n'
        "  n = f32[2,2]{0,1} negate(a)\n  x = f32[2,2]{0,1} get-tuple-element(f), index=0\n"
        "  ROOT r = (f32[2,2]{0,1}, f32[2,2]{0,1}) tuple(x, n)\n}\n"
    )
    module = parse(text)
    noted = _noted(module, np.array([[1, 0], [0, pivot]], np.float32))
    assert explained.which(module, noted) == [kind, ""]


@pytest.mark.parametrize(("corner", "kind"), [(3, "failed factorization"), (4, "")])
def test_a_pivot_that_is_rounding_alone_is_open(corner: float, kind: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n  a = f32[1,2,2] parameter(0)\n  f = f32[1,2,2] cholesky(a), lower=false\n"
        "  n = f32[1,2,2] negate(a)\n  ROOT r = (f32[1,2,2], f32[1,2,2]) tuple(f, n)\n}\n"
    )
    module = parse(text)
    assert explained.which(module, _noted(module, np.array([[[3, 3], [0, corner]]], np.float32))) == [kind, ""]


@pytest.mark.parametrize(
    ("row", "x", "kind"),
    [
        ("multiply(p, q)", complex(0, np.inf), "complex infinity by one"),
        ("divide(p, q)", complex(0, np.inf), "complex infinity by one"),
        ("dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}", complex(0, np.inf), "complex infinity by one"),
        ("dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}", complex(0, np.inf), ""),
        ("add(p, q)", complex(0, np.inf), ""),
        ("multiply(p, q)", complex(0, 2), ""),
        ("multiply(p, p)", complex(0, np.inf), ""),
    ],
)
def test_products_of_infinities_by_one_are_open(row: str, x: complex, kind: str) -> None:
    shape = "c64[]" if "contracting" in row else "c64[2]"
    text = (
        f"HloModule m\nENTRY e {{\n  p = c64[2] parameter(0)\n  q = c64[2] parameter(1)\n  ROOT r = {shape} {row}\n}}\n"
    )
    module = parse(text)
    noted = _noted(module, np.array([x, 3], np.complex64), np.ones(2, np.complex64))
    assert explained.which(module, noted, has_extremes=True) == [kind]


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        ([[3, 1, 0], [1, 1, 2], [1, 1, -1]], "pivot by rounding"),  # 1 - 1 / 3 twice
        ([[3, 1, 0], [3, 2, 2], [1, 3, -1]], ""),  # a tie of inputs
        ([[3, 1, 0], [1, 1, 2], [1, 2, -1]], ""),
    ],
)
def test_pivots_are_open_where_rounding_chooses_them(matrix: list[list[int]], kind: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n  a = f64[3,3]{0,1} parameter(0)\n  f = (f64[3,3]{0,1}, s32[3], s32[]) custom-call(a), "
        'custom_call_target="lapack_dgetrf_ffi", api_version=API_VERSION_TYPED_FFI, backend_config={}\n'
        "  p = s32[3] get-tuple-element(f), index=1\n  n = f64[3,3]{0,1} negate(a)\n  ROOT r = (s32[3], f64[3,3]{0,1}) tuple(p, n)\n}\n"
    )
    module = parse(text)
    assert explained.which(module, _noted(module, np.array(matrix, np.float64))) == [kind, ""]


def _adds(t: str, opcode: str = "add") -> str:
    return f"step {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT s = {t}[] {opcode}(a, b)\n}}\n"


def _in_orders(text: str, *arguments: np.ndarray) -> list[str]:
    module = parse(text)
    parameters = module.entry_computation.parameters
    given = [a.astype(p.array_shape.dtype) for a, p in zip(arguments, parameters, strict=True)]
    return explained.which(module, _noted(module, *given, tries_orders=True))


_FOLDS = {
    "reduce": "T[] reduce(p, z), dimensions={0}, to_apply=step",
    "window": "T[1] reduce-window(p, z), window={size=4}, to_apply=step",
    "cumulative": "T[7] reduce-window(p, z), window={size=4 pad=3_3}, to_apply=step",
    "scatter": "T[1] scatter(o, at, p), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=step",
    "select-and-scatter": "T[7] select-and-scatter(x, p, z), window={size=4}, select=greater, scatter=step",
}  # fmt: skip
"""Each combines the four elements of p; all windows of x select the same element."""


def _fold(fold: str, t: str, opcode: str, start: float) -> str:
    return f"""HloModule m
{_adds(t, opcode)}greater {{
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT g = pred[] compare(a, b), direction=GE
}}
ENTRY e {{
  p = T[4] parameter(0)
  z = T[] constant({start})
  o = T[1] broadcast(z), dimensions={{}}
  at = s32[4,1] constant({{{{0}},{{0}},{{0}},{{0}}}})
  x = T[7] constant({{0,0,0,1,0,0,0}})
  n = T[4] negate(p)
  r = {_FOLDS[fold]}
  ROOT t = ({_FOLDS[fold].partition(" ")[0]}, T[4]) tuple(r, n)
}}""".replace("T[", f"{t}[")


@pytest.mark.parametrize("fold", _FOLDS)
@pytest.mark.parametrize(
    ("t", "opcode", "start", "values", "is_open"),
    [
        ("f4e2m1fn", "add", 0, [6, -4, 6, -6], True),  # the largest is 6
        ("f8e4m3", "add", 0, [16, 0.5, 0.5, 0.5], True),  # from 16 on they are 2 apart
        ("f8e4m3", "add", 0, [1, 1, 1, 1], False),
        ("bf16", "add", 0, [1, -1, 2, 1], False),
        ("f32", "add", 0, [1e30, 1, 1, -1e30], False),  # for wide types, rounding errors do not count
        ("f32", "add", 0, [3e38, 3e38, -3e38, -3e38], True),
        ("f32", "add", 0, [3e38, 3e38, 0, 0], False),
        ("f32", "multiply", 0, [1e30, 1e30, 1, 1], False),
        ("f32", "multiply", 1, [1e30, 1e30, 0, 1], True),
        ("f32", "multiply", 1, [1e-30, 1e-30, 1e30, 1e30], True),
        ("s8", "add", 0, [127, 127, -127, 1], False),
    ],
)
def test_sums_and_products_are_open_where_their_order_shows(
    fold: str, t: str, opcode: str, start: float, values: list[float], *, is_open: bool
) -> None:
    folded, beside = _in_orders(_fold(fold, t, opcode, start), np.array(values))
    assert (folded == "order of a sum or product") == is_open
    assert not beside


def test_the_order_of_a_fold_explains_its_difference_alone() -> None:
    module = parse(_fold("cumulative", "f4e2m1fn", "add", 0))
    argument = np.array([6, -4, 6, -6]).astype(module.entry_computation.parameters[0].array_shape.dtype)
    expected = list(evaluate(module, argument))
    for k, is_found in ((0, False), (1, True)):
        got = [-x if n == k else x for n, x in enumerate(expected)]
        find = hlo_check._judged(module, [argument], got, expected, Noted(), has_extremes=False)
        assert (find is not None) == is_found


def test_a_reducer_of_several_types_has_an_order() -> None:
    step = "step {\n  a = f8e3m4[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
    entry = "ENTRY e {\n  p = f32[4] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=step\n}"
    assert explained.which(parse(f"HloModule m\n{step}{entry}")) == ["fold without an order"]


@pytest.mark.parametrize(
    ("row", "x", "kind"),
    [
        ("multiply(c, b)", np.inf, "predicate as a factor"),
        ("multiply(b, c)", np.nan, "predicate as a factor"),
        ("divide(c, b)", 0.0, "predicate as a factor"),
        ("divide(b, c)", np.inf, ""),
        ("multiply(c, b)", 0.0, ""),
        ("multiply(b, b)", np.inf, ""),
        ("add(c, b)", np.inf, ""),
    ],
)
def test_predicates_as_factors_are_open_where_the_other_is_not_finite(row: str, x: float, kind: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n  p = pred[2] parameter(0)\n  s = f32[] parameter(1)\n  c = f32[2] convert(p)\n"
        f"  b = f32[2] broadcast(s), dimensions={{}}\n  ROOT r = f32[2] {row}\n}}\n"
    )
    module = parse(text)
    noted = _noted(module, np.array([True, False]), np.float32(x))
    assert explained.which(module, noted, has_extremes=True) == [kind]


@pytest.mark.parametrize(
    ("first", "kind"), [(3e38, "order of a sum or product"), (2.0, ""), (1e-44, "order of a sum or product")]
)
def test_constants_folded_first_may_keep_a_product_in_range(first: float, kind: str) -> None:
    module = parse(
        f"HloModule m\nENTRY e {{\n  p = f32[] parameter(0)\n  a = f32[] constant({first})\n  b = f32[] constant(0.00195)\n"
        "  m = f32[] multiply(p, a)\n  r = f32[] multiply(m, b)\n  n = f32[] negate(p)\n"
        "  ROOT t = (f32[], f32[]) tuple(r, n)\n}\n"
    )
    assert explained.which(module, _noted(module, np.float32(4))) == [kind, ""]


@pytest.mark.parametrize(
    ("row", "x", "is_open"),
    [
        ("log(e)", 100, True),
        ("log(e)", -200, True),
        ("log(e)", 0, False),
        ("log(e)", 3, False),
        ("multiply(e, f)", -200, True),
        ("multiply(e, f)", 5, False),
        ("divide(p, e)", 100, True),
        ("power(e, p)", 20, True),
        ("power(e, p)", 2, False),
        ("sqrt(s)", 1e30, True),
        ("sqrt(s)", 1e-30, True),
        ("rsqrt(s)", 3, False),
        ("multiply(p, e)", 3, False),
        ("log(p)", 1e-44, False),
    ],
)
def test_what_becomes_one_expression_is_open_where_a_step_leaves_the_range(
    row: str, x: float, *, is_open: bool
) -> None:
    module = parse(
        "HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n  e = f32[] exponential(p)\n  n = f32[] negate(p)\n"
        f"  f = f32[] exponential(n)\n  s = f32[] multiply(p, p)\n  r = f32[] {row}\n  ROOT t = (f32[], f32[]) tuple(r, n)\n}}\n"
    )
    assert explained.which(module, _noted(module, np.float32(x))) == [
        "order of a sum or product" if is_open else "",
        "",
    ]
