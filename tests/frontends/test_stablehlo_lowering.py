"""StableHLO text as HLO: values, structure, and refusals that name the operation."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloVerifierError, LiteralError, UnimplementedError
from xlanb.frontends.stablehlo import from_stablehlo
from xlanb.frontends.stablehlo.scope import RULES

X = np.arange(12, dtype=np.float32).reshape(3, 4)
V = np.array([3, 1, 2, 0], np.float32)
SUM = """({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""


def program(body: str, result: str, arguments: str = "%x: tensor<3x4xf32>", value: str = "%0") -> str:
    return f"func.func @main({arguments}) -> {result} {{\n  {body}\n  return {value} : {result}\n}}\n"


def run(text: str, *arrays):
    module = from_stablehlo(text)
    module.verify(executable=True)
    return xlanb.evaluate(module, *arrays)


CASES = {
    "elementwise": ("%0 = stablehlo.tanh %x : tensor<3x4xf32>", "tensor<3x4xf32>", np.tanh(X)),
    "generic": (
        '%0 = "stablehlo.add"(%x, %x) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>',
        "tensor<3x4xf32>",
        X + X,
    ),
    "splat": (
        "%c = stablehlo.constant dense<2.0> : tensor<3x4xf32>\n %0 = stablehlo.multiply %x, %c : tensor<3x4xf32>",
        "tensor<3x4xf32>",
        2 * X,
    ),
    "compare": (
        "%0 = stablehlo.compare GE, %x, %x, FLOAT : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>",
        "tensor<3x4xi1>",
        np.ones((3, 4), bool),
    ),
    "convert": ("%0 = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<3x4xi8>", "tensor<3x4xi8>", X.astype(np.int8)),
    "iota": ("%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>", "tensor<2x3xi32>", np.array([[0, 1, 2]] * 2, np.int32)),
    "slice": (
        "%0 = stablehlo.slice %x [1:3, 0:4:2] : (tensor<3x4xf32>) -> tensor<2x2xf32>",
        "tensor<2x2xf32>",
        X[1:3, ::2],
    ),
    "transpose": (
        "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
        X.T,
    ),
    "broadcast": (
        "%0 = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<3x4xf32>) -> tensor<4x2x3xf32>",
        "tensor<4x2x3xf32>",
        np.broadcast_to(X.T[:, None], (4, 2, 3)),
    ),
    "pad": (
        "%c = stablehlo.constant dense<9.0> : tensor<f32>\n"
        "%0 = stablehlo.pad %x, %c, low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x5xf32>",
        "tensor<3x5xf32>",
        np.pad(X, ((0, 0), (1, 0)), constant_values=9),
    ),
    "dot": (
        "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [HIGHEST, DEFAULT] : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>",
        "tensor<3x3xf32>",
        X @ X.T,
    ),
    "einsum": (
        '%0 = stablehlo.einsum %x, %x, config = "ab,cb->ca" : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>',
        "tensor<3x3xf32>",
        X @ X.T,
    ),
    "reduce": (
        "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>",
        "tensor<4xf32>",
        X.sum(0),
    ),
    "window": (
        f'%c = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 1, 2>}}> {SUM} : '
        "(tensor<3x4xf32>, tensor<f32>) -> tensor<3x3xf32>",
        "tensor<3x3xf32>",
        X[:, 1:] + X[:, :-1],
    ),
    "top_k": (
        "%0, %1 = chlo.top_k(%x, k = 2) : tensor<3x4xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)",
        "tensor<3x2xf32>",
        X[:, :1:-1],
    ),
    "broadcasting": (
        "%c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n%0 = chlo.broadcast_add %x, %c : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>",
        "tensor<3x4xf32>",
        X + np.arange(1, 5, dtype=np.float32),
    ),
    "sizes": (
        "%n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x4xf32>) -> tensor<i32>\n"
        "%m = stablehlo.constant dense<3> : tensor<i32>\n"
        "%k = stablehlo.multiply %n, %m : tensor<i32>\n%s = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>\n"
        "%0 = stablehlo.dynamic_reshape %x, %s : (tensor<3x4xf32>, tensor<1xi32>) -> tensor<?xf32>",
        "tensor<?xf32>",
        X.reshape(-1),
    ),
}


@pytest.mark.parametrize(("body", "result", "value"), CASES.values(), ids=CASES)
def test_values(body, result, value):
    got = run(program(body, result), X)
    np.testing.assert_array_equal(got, value)
    assert got.dtype == value.dtype


def test_sort_gather_and_scatter():
    sort = """%0 = "stablehlo.sort"(%v) <{dimension = 0 : i64}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>"""
    np.testing.assert_array_equal(run(program(sort, "tensor<4xf32>", "%v: tensor<4xf32>"), V), np.sort(V))
    gather = """%i = stablehlo.constant dense<[2, 0]> : tensor<2xi32>
    %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>"""
    np.testing.assert_array_equal(run(program(gather, "tensor<2x4xf32>"), X), X[[2, 0]])
    scatter = f"""%i = stablehlo.constant dense<[1]> : tensor<1xi32>
    %u = stablehlo.constant dense<1.0> : tensor<4xf32>
    %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}}> {SUM} : (tensor<3x4xf32>, tensor<1xi32>, tensor<4xf32>) -> tensor<3x4xf32>"""
    want = X.copy()
    want[1] += 1
    np.testing.assert_array_equal(run(program(scatter, "tensor<3x4xf32>"), X), want)


@pytest.mark.parametrize(
    ("name", "want"), [("maximum", [2 + 1j, 1 + 3j]), ("minimum", [1 + 5j, 1 + 2j])], ids=["maximum", "minimum"]
)
def test_complex_numbers_are_ordered_by_their_parts(name, want):
    body = f"%0 = stablehlo.{name} %x, %y : tensor<2xcomplex<f32>>"
    text = program(body, "tensor<2xcomplex<f32>>", "%x: tensor<2xcomplex<f32>>, %y: tensor<2xcomplex<f32>>")
    x, y = np.array([1 + 5j, 1 + 2j], np.complex64), np.array([2 + 1j, 1 + 3j], np.complex64)
    np.testing.assert_array_equal(run(text, x, y), want)


def test_the_cubic_root_of_complex_numbers():
    text = program("%0 = stablehlo.cbrt %x : tensor<complex<f64>>", "tensor<complex<f64>>", "%x: tensor<complex<f64>>")
    np.testing.assert_allclose(run(text, np.complex128(3 + 4j)) ** 3, 3 + 4j, rtol=1e-12)


LOOP = """func.func @main(%x: tensor<f32>, %step: tensor<f32>) -> tensor<f32> {
  %n = stablehlo.constant dense<0> : tensor<i32>
  %last = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, tensor<f32>
  cond {
    %p = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = func.call @more(%y, %step) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %j, %z : tensor<i32>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
func.func private @more(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %x, %y : tensor<f32>
  return %0 : tensor<f32>
}
"""


def test_a_loop_takes_in_what_its_body_uses_from_around_it():
    module = from_stablehlo(LOOP)
    loop = next(i for i in module.entry_computation if i.opcode.text == "while")
    # the constant bound is made again in the condition; the step goes round with the state
    assert [s.text(layout=False) for s in loop.shape.shapes] == ["s32[]", "f32[]", "f32[]"]
    assert run(LOOP, np.float32(1), np.float32(2)) == 11


def test_branches_take_what_they_use():
    text = """func.func @main(%p: tensor<i1>, %a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
      %0 = "stablehlo.if"(%p) ({
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }, {
        %c = stablehlo.constant dense<7.0> : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    module = from_stablehlo(text)
    branch = next(i for i in module.entry_computation if i.opcode.text == "conditional")
    assert [o.shape.text(layout=False) for o in branch.operands] == ["pred[]", "(f32[], f32[])", "()"]
    assert run(text, np.bool_(True), np.float32(1), np.float32(2)) == 3
    assert run(text, np.bool_(False), np.float32(1), np.float32(2)) == 7


def test_functions_of_open_sizes_are_made_for_those_of_the_call():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<?xf32> {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %0 = call @head(%x, %n) : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }
    func.func private @head(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32> {
      %zero = stablehlo.constant dense<0> : tensor<1xi32>
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %l = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %0 = stablehlo.real_dynamic_slice %x, %zero, %l, %one : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    np.testing.assert_array_equal(run(text, V), V[:3])


def test_the_entry_may_be_chosen():
    text = "func.func @f() -> tensor<i32> {\n %0 = stablehlo.constant dense<1> : tensor<i32>\n return %0 : tensor<i32>\n}\n"
    assert xlanb.evaluate(from_stablehlo(text)) == 1
    both = text + text.replace("@f", "@g").replace("dense<1>", "dense<2>")
    assert xlanb.evaluate(from_stablehlo(both, "g")) == 2
    with pytest.raises(HloVerifierError, match="no entry function @main; it has @f, @g"):
        from_stablehlo(both)


def test_what_stands_beside_an_operation_is_kept():
    text = """module @step attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
      func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}", tf.aliasing_output = 0 : i32} loc("params['w']")) -> tensor<4xf32> {
        %0 = stablehlo.custom_call @mine(%x) {mhlo.backend_config = {a = 1 : i64}, mhlo.frontend_attributes = {k = "v"}} : (tensor<4xf32>) -> tensor<4xf32>
        %1 = stablehlo.abs %0 : tensor<4xf32> loc(#loc1)
        return %1 : tensor<4xf32>
      }
    }
    #loc1 = loc("jit(step)/abs"(#loc2))
    #loc2 = loc("model.py":7:3)"""
    module = from_stablehlo(text)
    (x,) = module.entry_computation.parameters
    assert (module.name, module.header["num_partitions"]) == ("step", "2")
    assert module.header["input_output_alias"] == "{ {}: (0, {}, may-alias) }"
    assert (x.sharding, x.metadata.op_name) == ("{devices=[2]<=[2]}", "params['w']")
    root = module.entry_computation.root
    assert (root.metadata.op_name, *root.metadata.python_line) == ("jit(step)/abs", "model.py", 7)
    call = root.operands[0]
    assert call.backend_config == "{a = 1 : i64}"
    assert call.attributes["api_version"] == "API_VERSION_TYPED_FFI"
    assert call.frontend_attributes == (("k", "v"),)


def test_a_composite_is_a_call_with_its_name():
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.composite "my.op" %x {composite_attributes = {n = 1 : i64}, decomposition = @d, version = 2 : i32} : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @d(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.negate %x : tensor<f32>
      return %0 : tensor<f32>
    }"""
    root = from_stablehlo(text).entry_computation.root
    assert root.attributes["is_composite"] is True
    assert dict(root.frontend_attributes) == {
        "composite.attributes": "{n = 1 : i64}",
        "composite.name": "my.op",
        "composite.version": "2",
    }
    assert run(text, np.float32(3)) == -3


@pytest.mark.parametrize(
    ("name", "arguments", "values"),
    [
        ("erf_inv", (np.array([-1, -0.5, 0, 0.9, 1], np.float32),), [-np.inf, -0.47693628, 0, 1.1630871, np.inf]),
        ("erfc", (np.array([-1, 0, 0.5, 3, 9], np.float32),), [1.8427008, 1, 0.47950012, 2.209049e-05, 0]),
        ("lgamma", (np.array([-0.5, 1, 4.5, 20, 0], np.float32),), [1.2655121, 0, 2.4537365, 39.339884, np.inf]),
        (
            "digamma",
            (np.array([-0.5, 1, 4.5, 20, 0], np.float32),),
            [0.03648998, -0.5772157, 1.3888713, 2.970524, np.nan],
        ),
        ("bessel_i1e", (np.array([-1, 0, 2, 9, 20], np.float32),), [-0.20791042, 0, 0.21526929, 0.127225, 0.08750622]),
    ],
)
def test_special_functions(name, arguments, values):
    text = program(f"%0 = chlo.{name} %x : tensor<5xf32> -> tensor<5xf32>", "tensor<5xf32>", "%x: tensor<5xf32>")
    np.testing.assert_allclose(run(text, *arguments), values, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "left", "right", "values"),
    [
        ("zeta", [1, 2, 3, 2.5, 0.5], [1, 1, 0.5, 2, 1], [np.inf, 1.6449341, 8.414399, 0.34148726, np.nan]),
        ("polygamma", [0, 1, 2, 3, -1], [1.5, 1.5, 0.5, 4, 1], [0.03648998, 0.9348022, -16.828796, 0.04486533, np.nan]),
        ("next_after", [1, 1, 0, -1, np.nan], [2, 0, 1, -1, 1], [1.0000001, 0.99999994, 1e-45, -1, np.nan]),
    ],
)
def test_special_functions_of_two_operands(name, left, right, values):
    body = f"%0 = chlo.{name} %x, %y : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>"
    text = program(body, "tensor<5xf32>", "%x: tensor<5xf32>, %y: tensor<5xf32>")
    got = run(text, np.array(left, np.float32), np.array(right, np.float32))
    np.testing.assert_allclose(got, np.array(values, np.float32), rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            '%0 = "stablehlo.frobnicate"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>',
            UnimplementedError,
            "2:8: stablehlo.frobnicate: there is no lowering",
        ),
        (
            "%0 = stablehlo.add %x, %x : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<4xf32>",
            HloVerifierError,
            "returns f32[3,4], its type is tensor<4xf32>",
        ),
        (
            '%0 = "stablehlo.add"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>',
            HloVerifierError,
            "expected 2 operands, not 1",
        ),
        ('%0 = "stablehlo.iota"() : () -> tensor<3x4xf32>', HloVerifierError, "iota_dimension"),
        (
            '%0 = "stablehlo.transpose"(%x) {permutation = array<i64: 0, 5>} : (tensor<3x4xf32>) -> tensor<3x4xf32>',
            HloVerifierError,
            "stablehlo.transpose",
        ),
        (
            "%0 = call @nowhere(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>",
            HloVerifierError,
            "no function @nowhere with a body",
        ),
        ("%0 = call @main(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>", UnimplementedError, "@main calls itself"),
        (
            "%n = stablehlo.constant dense<3> : tensor<i32>\n %i = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<3x4xi32>\n"
            "%0 = stablehlo.dynamic_reshape %x, %i : (tensor<3x4xf32>, tensor<3x4xi32>) -> tensor<3x4xf32>",
            UnimplementedError,
            "expected constant sizes",
        ),
        (
            '%c = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = "stablehlo.reduce"(%x, %c) ({\n^bb0(%p: tensor<f32>):\n  stablehlo.return %p : tensor<f32>\n'
            "}) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>",
            HloVerifierError,
            "expected a region of 2 arguments, not 1",
        ),
    ],
)
def test_refusals_name_the_operation_and_its_line(body, kind, message):
    with pytest.raises(kind) as caught:
        from_stablehlo(program(body, "tensor<3x4xf32>", value="%x"))
    text = str(caught.value)
    assert message in text
    assert text.split(":", maxsplit=1)[0].isdigit()
    assert text.endswith("^")


def test_sizes_that_are_not_known_are_refused():
    with pytest.raises(UnimplementedError, match="sizes of tensor<\\?xf32> are unknown"):
        from_stablehlo(program("%0 = stablehlo.abs %x : tensor<?xf32>", "tensor<?xf32>", "%x: tensor<?xf32>"))


def test_a_huge_splat_is_not_expanded():
    text = program(
        "%0 = stablehlo.constant dense<1.0> : tensor<100000000x1000000xf32>", "tensor<100000000x1000000xf32>", ""
    )
    assert from_stablehlo(text).instruction_count == 2


def test_calls_do_not_multiply():
    functions = [
        f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{\n %0 = call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>\n"
        f" %1 = call @f{i + 1}(%0) : (tensor<f32>) -> tensor<f32>\n return %1 : tensor<f32>\n}}"
        for i in range(40)
    ]
    last = "func.func private @f40(%a: tensor<f32>) -> tensor<f32> {\n return %a : tensor<f32>\n}"
    main = program("%0 = call @f0(%x) : (tensor<f32>) -> tensor<f32>", "tensor<f32>", "%x: tensor<f32>")
    assert len(from_stablehlo("\n".join([*functions, last, main])).computations) == 42


def refusal(text: str) -> str:
    """The message of what refuses a program; "" where it is taken."""
    try:
        from_stablehlo(text)
    except (HloVerifierError, UnimplementedError, LiteralError) as error:
        return str(error)
    return ""


def test_every_rule_refuses_what_does_not_fit():
    """Without operands, attributes and regions, every operation fails with an XlanbError."""
    refusal(program("%0 = stablehlo.abs %x : tensor<3x4xf32>", "tensor<3x4xf32>"))  # registers the rules
    refused = 0
    for name in sorted(RULES):
        for operands, types in (("", ""), ("%x", "tensor<3x4xf32>"), ("%x, %x", "tensor<3x4xf32>, tensor<3x4xf32>")):
            message = refusal(program(f'%0 = "{name}"({operands}) : ({types}) -> tensor<3x4xf32>', "tensor<3x4xf32>"))
            assert not message or message.startswith(f"2:8: {name}: ")
            refused += bool(message)
    assert refused > 2 * len(RULES)
