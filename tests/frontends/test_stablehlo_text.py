"""StableHLO text: parsing and error messages."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import HloParseError, LiteralError, UnimplementedError, XlanbError
from xlanb.frontends.stablehlo import from_stablehlo, is_stablehlo
from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import TensorType, TupleType
from xlanb.frontends.stablehlo.parser import parse
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.shape import PrimitiveType


def attribute(text: str):
    """The value of an attribute, read from an operation that has it."""
    return parse(f'"test.op"() {{a = {text}}} : () -> ()').regions[0].operations[0].attributes["a"]


def result_type(text: str):
    return parse(f'%0 = "test.op"() : () -> {text}').regions[0].operations[0].results[0].type


@pytest.mark.parametrize(
    ("text", "dimensions", "element"),
    [
        ("tensor<f32>", (), PrimitiveType.F32),
        ("tensor<2x?x0xbf16>", (2, None, 0), PrimitiveType.BF16),
        ("tensor<0x4xf32>", (0, 4), PrimitiveType.F32),
        ("tensor<4xcomplex<f64>>", (4,), PrimitiveType.C128),
        ("tensor<3xi1>", (3,), PrimitiveType.PRED),
        ("tensor<3xui4>", (3,), PrimitiveType.U4),
        ("tensor<3xf8E4M3FN>", (3,), PrimitiveType.F8E4M3FN),
        ("tensor<1x4xf8E5M2FNUZ>", (1, 4), PrimitiveType.F8E5M2FNUZ),
        ("tensor<2xindex>", (2,), PrimitiveType.S64),
    ],
)
def test_tensor_types(text, dimensions, element):
    type_ = result_type(text)
    assert isinstance(type_, TensorType)
    assert (type_.dimensions, type_.element) == (dimensions, element)
    assert str(type_) == text


def test_bounds_and_tuples():
    bounded = result_type("tensor<?x2xf32, #stablehlo.bounds<5, ?>>")
    assert bounded.bounds == (5, None)
    assert result_type("tensor<?xf32, #stablehlo.type_extensions<bounds = [5]>>").bounds == (5,)
    nested = result_type("tuple<tensor<i32>, tuple<!stablehlo.token>>")
    assert isinstance(nested, TupleType)
    assert nested.leaf_count == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 : i64", 1),
        ("-0x10", -16),
        ("2.5e-1 : f32", 0.25),
        ("0x7F800000 : f32", float("inf")),
        ("1 : f32", 1.0),
        ("true", True),
        ("unit", True),
        ('"a\\22b\\n"', 'a"b\n'),
        ("[1, [2], true]", (1, (2,), True)),
        ("{x = 1 : i32, y}", {"x": 1, "y": True}),
        ("array<i64: 1, -2>", (1, -2)),
        ("array<i1: true, false>", (True, False)),
        ("array<i64>", ()),
        ("#stablehlo<comparison_direction LT>", "LT"),
        ("#stablehlo.rng_algorithm<PHILOX>", "PHILOX"),
        ("#stablehlo.channel_handle<handle = 3, type = 1>", {"handle": 3, "type": 1}),
        (
            "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[f, b, 1, 0]>",
            ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 1, 0, (3, 2)),
        ),
    ],
)
def test_attributes(text, value):
    assert attribute(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dense<[1, -2, 3]> : tensor<3xi8>", np.array([1, -2, 3], np.int8)),
        ("dense<[[1.0, 2.], [0x7FC00000, -1.5e0]]> : tensor<2x2xf32>", np.array([[1, 2], [np.nan, -1.5]], np.float32)),
        ("dense<255> : tensor<ui8>", np.array(255, np.uint8)),
        ("dense<0xFF> : tensor<1xui8>", np.array([255], np.uint8)),
        ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
        ("dense<[(1.0, 2.0)]> : tensor<1xcomplex<f32>>", np.array([1 + 2j], np.complex64)),
        ('dense<"0x0000803F00000040"> : tensor<2xf32>', np.array([1, 2], np.float32)),
        ('dense<"0x05"> : tensor<3xi1>', np.array([True, False, True])),
        ('dense<"0x010001"> : tensor<3xi1>', np.array([True, False, True])),
        ("dense<> : tensor<0x3xf32>", np.zeros((0, 3), np.float32)),
    ],
)
def test_elements(text, value):
    found = attribute(text)
    assert isinstance(found, Elements)
    np.testing.assert_array_equal(found.full(), value)
    assert found.full().dtype == value.dtype


def test_a_splat_takes_no_memory():
    found = attribute("dense<1.0> : tensor<1000000x1000000xf32>")
    assert found.is_splat
    assert found.array.size == 1
    assert attribute('dense<"0x0000803F"> : tensor<1000000x1000000xf32>').is_splat


def test_resources_stand_behind_the_program():
    text = (
        "func.func @main() -> tensor<2xi32> {\n  %0 = stablehlo.constant dense_resource<w> : tensor<2xi32>\n  return %0 : tensor<2xi32>\n}\n"
        '{-#\n  dialect_resources: { builtin: { w: "0x040000000100000002000000" } }\n#-}\n'
    )
    root = from_stablehlo(text).entry_computation.root
    np.testing.assert_array_equal(root.attributes["literal"].array, [1, 2])


def test_a_resource_that_the_text_leaves_out():
    with pytest.raises(UnimplementedError, match="does not contain the resource 'w'"):
        attribute("dense_resource<w> : tensor<2xi32>")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("func.func @main() {\n  return %x : tensor<f32>\n}", (2, 10), "%x is not defined here"),
        ("func.func @main(%a: tensor<f32>) {\n  %a = stablehlo.abs %a : tensor<f32>\n}", (2, 3), "%a is defined twice"),
        ("func.func @main(%a: tensor<f33x>) {}", (1, 28), "unknown element type 'f33x'"),
        ("func.func @main(%a: tensor<2xbad>) {}", (1, 30), "unknown element type 'bad'"),
        ('"test.op"() {a = #nothing} : () -> ()', (1, 18), "unknown attribute #nothing"),
        ('"test.op"() {a = 1, a = 2} : () -> ()', (1, 21), "is given twice"),
        ('%0:2 = "test.op"() : () -> tensor<f32>', (1, 1), "gives 1 results, not 2"),
        (
            "func.func @main(%a: tensor<f32>) {\n  %b = stablehlo.abs %a : (tensor<f64>) -> tensor<f64>\n}",
            (2, 27),
            "is of type",
        ),
        ("module {\n  cf.br ^bb1\n^bb1:\n}", (2, 9), "a region of several blocks"),
        ("func.func @main() {", (1, 20), "expects '}'"),
        ("func.func @main(%a: tensor<*xf32>) {}", (1, 28), "expects a ranked tensor"),
        ("frobnicate", (1, 1), "unknown operation 'frobnicate'"),
    ],
)
def test_what_is_wrong_is_shown_in_its_place(text, place, message):
    with pytest.raises(HloParseError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).endswith("^")


@pytest.mark.parametrize(
    "text",
    [
        "dense<[1, 2]> : tensor<3xi32>",
        "dense<[[1, 2], [3]]> : tensor<2x2xi32>",
        "dense<1.5> : tensor<i32>",
        "dense<256> : tensor<ui8>",
        "dense<true> : tensor<f32>",
        "dense<[1, [2]]> : tensor<2xi32>",
        "dense<(1.0, 2.0)> : tensor<f32>",
        "dense<1,> : tensor<i32>",
        "dense<[1,,2]> : tensor<2xi32>",
        'dense<"0x00"> : tensor<2xf32>',
        "dense<> : tensor<2xf32>",
        "dense<0x1FFFFFFFF> : tensor<f32>",
    ],
)
def test_elements_that_do_not_fit(text):
    with pytest.raises(LiteralError, match="the elements do not fit"):
        attribute(text)


def test_quantized_types_are_refused_by_name():
    with pytest.raises(UnimplementedError, match="quantized"):
        result_type("tensor<2x!quant.uniform<i8:f32, 1.0>>")


@pytest.mark.parametrize(
    "text",
    [
        "tuple<" * 5000,
        "[" * 100_000,
        "dense<" + "[" * 100_000,
        "dense<" + "[" * 100_000 + "]" * 100_000 + "> : tensor<1xf32>",
        "9" * 100_000,
        "dense<" + "9" * 100_000 + "> : tensor<i32>",
        "loc(" + "fused[" * 100_000,
        "#x<" + "(" * 100_000,
    ],
    ids=["types", "arrays", "open elements", "elements", "digits", "element digits", "locations", "brackets"],
)
def test_deep_and_long_texts_are_refused(text):
    with pytest.raises(XlanbError):
        attribute(text)


def test_aliases_cannot_multiply():
    text = "!t0 = tuple<tensor<f32>>\n" + "\n".join(f"!t{i + 1} = tuple<!t{i}, !t{i}>" for i in range(60))
    with pytest.raises(HloParseError, match="a tuple of more than"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "module {}",
        "module @jit_f attributes {a = 1 : i32} {",
        "// a comment\n\n#loc = loc(unknown)\nmodule @m {",
        '"builtin.module"() ({',
        "func.func @main() {",
        "!t = tensor<f32>\n",
        "\ufeffmodule {}",
    ],
)
def test_stablehlo_is_told_by_its_beginning(text):
    assert is_stablehlo(text)


@pytest.mark.parametrize(
    "text", ["HloModule m\n\nENTRY e {", "ENTRY main {", "%add = f32[] add(x, y)", "", "module_x {", "{"]
)
def test_hlo_is_no_stablehlo(text):
    assert not is_stablehlo(text)


def test_bounds_that_are_no_list_are_refused():
    text = "func.func @main(%a: tensor<?xf32, {bounds = 4 : i64}>) { return }"
    with pytest.raises(HloParseError, match="expects a list of bounds"):
        from_stablehlo(text)
