"""The builder: what it broadcasts, what it rejects, and results that agree with NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb.errors import ShapeError
from xlanb.hlo import HloInstruction, HloModule, HloOpcode
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, OpMetadata, Window, WindowDimension
from xlanb.hlo.builder import HloBuilder
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array

F32, S32 = PrimitiveType.F32, PrimitiveType.S32


def run(build: Callable[..., HloInstruction], *arrays: np.ndarray[Any, Any]) -> Any:
    """The value of `build(b, *parameters)`.

    The module is verified, printed and parsed again.
    """
    b = HloBuilder("main")
    parameters = [b.parameter(i, xlanb.shape.shape.of_array(a)) for i, a in enumerate(arrays)]
    module = b.build(build(b, *parameters))
    module.verify()
    again = xlanb.hlo.parse(str(module))
    again.verify()
    assert str(again) == str(module)
    return xlanb.evaluate(again, *arrays)


def ones(*dims: int) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(dims, dtype=int)).reshape(dims) + 1).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right", "dimensions", "same_as"),
    [
        ((2, 3), (2, 3), None, (2, 3)),
        ((2, 3), (), None, ()),
        ((), (2, 3), None, (2, 3)),
        ((2, 3), (2, 1), None, (2, 1)),
        ((1, 3), (2, 1), None, (2, 1)),
        ((2, 3), (3,), [1], (1, 3)),
        ((2, 3), (2,), [0], (2, 1)),
        ((2,), (2, 3), [0], (2, 3)),
        ((2, 3, 4), (2, 4), [0, 2], (2, 1, 4)),
        ((2, 3, 4), (1, 4), [0, 2], (1, 1, 4)),
    ],
)
def test_binary_operands_are_broadcast_as_xla_does(
    left: tuple[int, ...], right: tuple[int, ...], dimensions: list[int] | None, same_as: tuple[int, ...]
) -> None:
    x, y = ones(*left), ones(*right)
    got = run(lambda b, p, q: b.subtract(p, q, dimensions), x, y)
    if len(left) < len(right):
        x = x.reshape([d if i in (dimensions or ()) else 1 for i, d in enumerate(right)])
    np.testing.assert_array_equal(got, x - y.reshape(same_as))


@pytest.mark.parametrize(
    ("left", "right", "dimensions", "message"),
    [
        ((2, 3), (3,), None, "the same rank, a scalar, or broadcast_dimensions"),
        ((2, 3), (4,), [1], "the sizes 3 and 4"),
        ((2, 3), (2, 4), None, "the sizes 3 and 4"),
        ((2, 3), (3,), [2], "broadcast_dimensions do not match"),
        ((2, 3), (3,), [0, 1], "broadcast_dimensions do not match"),
    ],
)
def test_operands_that_do_not_broadcast_are_refused(
    left: tuple[int, ...], right: tuple[int, ...], dimensions: list[int] | None, message: str
) -> None:
    b = HloBuilder("main")
    x, y = b.parameter(0, array(F32, left)), b.parameter(1, array(F32, right))
    with pytest.raises(ShapeError, match=message):
        b.add(x, y, dimensions)


def test_a_binary_of_equal_shapes_adds_one_instruction() -> None:
    b = HloBuilder("main")
    x = b.parameter(0, array(F32, [2]))
    b.add(x, x)
    assert len(b.computation) == 2


UNARY: list[tuple[str, Callable[[Any], Any]]] = [
    ("abs", np.abs), ("ceil", np.ceil), ("cos", np.cos), ("exp", np.exp), ("expm1", np.expm1),
    ("floor", np.floor), ("log", np.log),
    ("log1p", np.log1p), ("negate", np.negative), ("rsqrt", lambda x: 1 / np.sqrt(x)),
    ("sign", np.sign), ("sin", np.sin), ("sqrt", np.sqrt),
    ("tan", np.tan), ("tanh", np.tanh), ("cbrt", np.cbrt), ("is_finite", np.isfinite),
    ("logistic", lambda x: 1 / (1 + np.exp(-x))),
    ("round_nearest_even", np.rint), ("sinh", np.sinh), ("cosh", np.cosh), ("atan", np.arctan),
    ("asinh", np.arcsinh), ("real", np.real),
]  # fmt: skip
BINARY: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("divide", np.divide),
    ("maximum", np.maximum),
    ("minimum", np.minimum), ("power", np.power), ("remainder", np.fmod), ("atan2", np.arctan2),
    ("complex", lambda x, y: x + 1j * y),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), UNARY, ids=[n for n, _ in UNARY])
def test_unary_methods_are_what_they_are_called(name: str, function: Callable[[Any], Any]) -> None:
    x = np.array([0.25, 0.5, 1.5], np.float32)
    np.testing.assert_allclose(run(lambda b, p: getattr(b, name)(p), x), function(x), rtol=1e-6)


@pytest.mark.parametrize(("name", "function"), BINARY, ids=[n for n, _ in BINARY])
def test_binary_methods_are_what_they_are_called(name: str, function: Callable[[Any, Any], Any]) -> None:
    x, y = np.array([0.25, 3.5, -7.0], np.float32), np.array([2.0, 1.5, 3.0], np.float32)
    x = np.abs(x) if name == "power" else x
    np.testing.assert_allclose(run(lambda b, p, q: getattr(b, name)(p, q), x, y), function(x, y), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("and_", 2),
        ("or_", 7),
        ("xor", 5),
        ("shift_left", 48),
        ("shift_right_arithmetic", 0),
        ("shift_right_logical", 0),
    ],
)
def test_bitwise_methods(name: str, want: int) -> None:
    assert run(lambda b, p, q: getattr(b, name)(p, q), np.int32(6), np.int32(3)) == want


def test_every_named_method_says_what_it_does() -> None:
    assert HloBuilder.exp.__doc__ == HloOpcode.EXPONENTIAL.summary
    assert HloBuilder.add.__doc__ == HloOpcode.ADD.summary


def test_compare_select_clamp_take_scalars() -> None:
    x = ones(2, 3)
    np.testing.assert_array_equal(run(lambda b, p: b.compare(p, b.constant(np.float32(3)), "GT"), x), x > 3)
    got = run(lambda b, p: b.select(b.compare(p, b.constant(np.float32(3)), "LE"), p, b.constant(np.float32(0))), x)
    np.testing.assert_array_equal(got, np.where(x <= 3, x, 0))
    got = run(lambda b, p: b.clamp(b.constant(np.float32(2)), p, b.constant(np.float32(4))), x)
    np.testing.assert_array_equal(got, x.clip(2, 4))


def test_conversions() -> None:
    x = np.array([1.5, -2.5], np.float32)
    np.testing.assert_array_equal(run(lambda b, p: b.convert(p, S32), x), [1, -2])
    np.testing.assert_array_equal(
        run(lambda b, p: b.bitcast_convert(p, PrimitiveType.U8), x), x.view(np.uint8).reshape(2, 4)
    )
    np.testing.assert_array_equal(
        run(lambda b, p: b.bitcast_convert(b.bitcast_convert(p, PrimitiveType.U16), F32), x), x
    )
    assert run(lambda b, p: b.reduce_precision(p, 8, 2), np.float32(1.3)) == 1.25


def test_broadcasts() -> None:
    x = ones(2, 1)
    np.testing.assert_array_equal(run(lambda b, p: b.broadcast(p, [3]), x), np.broadcast_to(x, (3, 2, 1)))
    np.testing.assert_array_equal(
        run(lambda b, p: b.broadcast_in_dim(p, [2, 4, 3], [0, 2]), x), np.broadcast_to(x[:, None], (2, 4, 3))
    )
    b = HloBuilder("main")
    with pytest.raises(ShapeError, match="cannot broadcast"):
        b.broadcast_in_dim(b.parameter(0, array(F32, [2])), [3], [0])


def test_data_movement() -> None:
    x = ones(3, 4)
    zero = np.float32(0)
    np.testing.assert_array_equal(run(lambda b, p: b.reshape(p, [2, 6]), x), x.reshape(2, 6))
    np.testing.assert_array_equal(run(lambda b, p: b.transpose(p, [1, 0]), x), x.T)
    np.testing.assert_array_equal(run(lambda b, p: b.slice(p, [0, 1], [3, 4], [2, 1]), x), x[::2, 1:])
    np.testing.assert_array_equal(
        run(lambda b, p, z: b.pad(p, z, [(1, 0, 0), (0, -1, 0)]), x, zero), np.pad(x, ((1, 0), (0, 0)))[:, :-1]
    )
    np.testing.assert_array_equal(run(lambda b, p: b.concatenate([p, p], 1), x), np.concatenate([x, x], 1))
    np.testing.assert_array_equal(run(lambda b, p: b.reverse(p, [1]), x), x[:, ::-1])
    np.testing.assert_array_equal(run(lambda b, p, i: b.dynamic_slice(p, [i, i], [2, 2]), x, np.int32(1)), x[1:3, 1:3])
    want = x.copy()
    want[1:2, 1:3] = 9
    got = run(lambda b, p, i, u: b.dynamic_update_slice(p, u, [i, i]), x, np.int32(1), np.full((1, 2), 9, np.float32))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(run(lambda b: b.iota(array(S32, [2, 3]), 1)), [[0, 1, 2]] * 2)


def test_gather_and_scatter_rows() -> None:
    x, rows = ones(5, 3), np.array([4, 0], np.int32)
    got = run(
        lambda b, p, i: b.gather(
            p, i, offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1, slice_sizes=[1, 3]
        ),
        x,
        rows,
    )
    np.testing.assert_array_equal(got, x[rows])
    got = run(
        lambda b, p, i, u: b.scatter(
            p,
            i,
            u,
            HloOpcode.ADD,
            update_window_dims=[1],
            inserted_window_dims=[0],
            scatter_dims_to_operand_dims=[0],
            index_vector_dim=1,
        ),
        x,
        rows,
        ones(2, 3),
    )
    want = x.copy()
    np.add.at(want, rows, ones(2, 3))
    np.testing.assert_array_equal(got, want)


def test_reduce_by_opcode_makes_its_region_once_a_module() -> None:
    b = HloBuilder("main")
    x, zero = b.parameter(0, array(F32, [2, 3])), b.constant(np.float32(0))
    sums = [b.reduce(x, zero, [d], HloOpcode.ADD) for d in (0, 1)]
    module = b.build(b.tuple(sums))
    assert [c.name for c in module.computations] == ["main", "add_f32"]
    columns, rows = xlanb.evaluate(module, ones(2, 3))
    np.testing.assert_array_equal(columns, ones(2, 3).sum(0))
    np.testing.assert_array_equal(rows, ones(2, 3).sum(1))


def test_several_arrays_are_reduced_by_a_computation_of_their_own() -> None:
    b = HloBuilder("main")
    x = b.parameter(0, array(F32, [4]))
    with pytest.raises(ShapeError, match="needs a computation"):
        b.reduce([x, x], [b.constant(np.float32(0))] * 2, [0], HloOpcode.ADD)
    inner = b.sub_computation("both")
    p = [inner.parameter(i, array(F32)) for i in range(4)]
    both = inner.build_computation(inner.tuple([inner.add(p[0], p[2]), inner.maximum(p[1], p[3])]))
    module = b.build(b.reduce([x, x], [b.constant(np.float32(0))] * 2, [0], both))
    module.verify()
    assert [float(v) for v in xlanb.evaluate(module, ones(4))] == [10, 4]


def test_windows() -> None:
    x = ones(1, 4, 4, 1)
    window = Window(tuple(WindowDimension(s, stride=s) for s in (1, 2, 2, 1)))
    low = np.float32(-np.inf)
    pooled = run(lambda b, p, i: b.reduce_window(p, i, window, HloOpcode.MAXIMUM), x, low)
    np.testing.assert_array_equal(pooled, x.reshape(1, 2, 2, 2, 2, 1).max((2, 4)))
    got = run(lambda b, p, s, z: b.select_and_scatter(p, s, z, window, "GE", HloOpcode.ADD), x, pooled, np.float32(0))
    np.testing.assert_array_equal(got, np.where(np.isin(x, pooled), x, 0))


def test_products() -> None:
    x, y = ones(2, 3), ones(3, 4)
    np.testing.assert_allclose(run(lambda b, p, q: b.dot(p, q), x, y), x @ y)
    batch = ones(5, 2, 3)
    got = run(
        lambda b, p, q: b.dot_general(
            p, q, lhs_contracting_dims=[2], rhs_contracting_dims=[2], lhs_batch_dims=[0], rhs_batch_dims=[0]
        ),
        batch,
        batch,
    )
    np.testing.assert_allclose(got, batch @ batch.transpose(0, 2, 1))
    small = np.array([[100, 100]], np.int8)
    got = run(
        lambda b, p: b.dot_general(p, p, lhs_contracting_dims=[1], rhs_contracting_dims=[1], element_type=S32), small
    )
    np.testing.assert_array_equal(got, [[20000]])


def test_convolution_of_one_pixel_is_a_product() -> None:
    x, kernel = ones(2, 3, 3, 4), ones(1, 1, 4, 5)
    labels = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    got = run(lambda b, p, k: b.convolution(p, k, Window((WindowDimension(1), WindowDimension(1))), labels), x, kernel)
    np.testing.assert_allclose(got, x @ kernel[0, 0])


def test_sort_orders_nan_last_and_takes_others_along() -> None:
    keys, values = np.array([3, np.nan, -1, 2], np.float32), np.arange(4, dtype=np.int32)
    first, second = run(lambda b, k, v: b.sort([k, v], 0, "LT", stable=True), keys, values)
    np.testing.assert_array_equal(first, [-1, 2, 3, np.nan])
    np.testing.assert_array_equal(second, [2, 3, 0, 1])
    np.testing.assert_array_equal(run(lambda b, v: b.sort(v, 0, "GT"), values), values[::-1])


def test_map_applies_a_scalar_computation() -> None:
    def build(b: HloBuilder, p: HloInstruction) -> HloInstruction:
        inner = b.sub_computation("square")
        x = inner.parameter(0, array(F32))
        return b.map([p], inner.build_computation(inner.multiply(x, x)))

    np.testing.assert_array_equal(run(build, ones(2, 3)), ones(2, 3) ** 2)


def test_control_flow() -> None:
    def loop(b: HloBuilder, n: HloInstruction) -> HloInstruction:
        condition, body = b.sub_computation("condition"), b.sub_computation("body")
        c, x = condition.parameter(0, array(S32)), body.parameter(0, array(S32))
        until = condition.build_computation(condition.compare(c, condition.constant(np.int32(100)), "LT"))
        return b.while_(until, body.build_computation(body.add(x, x)), n)

    def branch(b: HloBuilder, choice: HloInstruction) -> HloInstruction:
        makers = []
        for factor in (10, 20, 30):
            inner = b.sub_computation("branch")
            x = inner.parameter(0, array(S32))
            makers.append(inner.build_computation(inner.multiply(x, inner.constant(np.int32(factor)))))
        two = b.constant(np.int32(2))
        if choice.array_shape.element_type is PrimitiveType.PRED:
            return b.conditional(choice, makers[:2], [two, two])
        return b.conditional(choice, makers, [two] * 3)

    assert run(loop, np.int32(3)) == 192
    assert [int(run(branch, np.int32(i))) for i in (0, 1, 2, 7)] == [20, 40, 60, 60]
    assert [int(run(branch, np.bool_(v))) for v in (True, False)] == [20, 40]


def test_a_predicate_needs_two_branches() -> None:
    b = HloBuilder("main")
    inner = b.sub_computation("branch")
    computation = inner.build_computation(inner.parameter(0, array(S32)))
    p, x = b.parameter(0, array(PrimitiveType.PRED)), b.parameter(1, array(S32))
    with pytest.raises(ShapeError, match="one of two branches"):
        b.conditional(p, [computation], [x])


def test_calls_and_tuples() -> None:
    def build(b: HloBuilder, p: HloInstruction) -> HloInstruction:
        inner = b.sub_computation("twice")
        x = inner.parameter(0, array(F32))
        pair = b.call(inner.build_computation(inner.tuple([x, inner.add(x, x)])), [p])
        return b.subtract(b.get_tuple_element(pair, 1), b.get_tuple_element(pair, 0))

    assert run(build, np.float32(3)) == 3


def test_custom_calls_carry_what_they_are_given() -> None:
    b = HloBuilder("main")
    made = b.custom_call("target", [b.parameter(0, array(F32))], array(F32, [2]), custom_call_has_side_effect=True)
    assert made.has_side_effect
    assert 'custom_call_target="target"' in str(b.build(made))


def test_random_bits() -> None:
    state, bits = run(lambda b, s: b.rng_bit_generator(s, array(PrimitiveType.U32, [5])), np.array([1, 2], np.uint64))
    assert state.shape == (2,)
    assert bits.dtype == np.uint32
    assert len(set(bits.tolist())) == 5


def test_metadata_is_given_to_all_that_is_added_inside_also_in_other_computations() -> None:
    b = HloBuilder("main")
    outer, inner = OpMetadata(op_name="outer"), OpMetadata(op_name="inner")
    x = b.parameter(0, array(F32))
    with b.metadata(outer):
        y = b.constant(np.float32(1))
        with b.metadata(inner):
            z = b.add(x, y)
            other = b.sub_computation("other")
            w = other.parameter(0, array(F32))
        last = b.negate(z)
    assert [i.metadata.op_name for i in (x, y, z, w, last)] == ["", "outer", "inner", "inner", "outer"]


def test_metadata_ends_with_its_block_even_on_an_error() -> None:
    b = HloBuilder("main")
    x = b.parameter(0, array(F32))
    with pytest.raises(ShapeError), b.metadata(OpMetadata(op_name="node")):
        b.get_tuple_element(x, 0)
    assert b.negate(x).metadata.op_name == ""


def test_a_builder_of_another_computation_builds_no_module() -> None:
    b = HloBuilder("main")
    inner = b.sub_computation("inner")
    with pytest.raises(ShapeError, match="build_computation"):
        inner.build(inner.parameter(0, array(F32)))


def test_a_module_that_is_given_is_built_in() -> None:
    module = HloModule("mine")
    b = HloBuilder("main", module)
    assert b.build(b.constant(np.float32(1))) is module
    assert module.entry_computation.name == "main"


@given(st.data())
def test_broadcasting_is_numpys_where_ranks_agree(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), max_size=3))
    left, right = ([d if data.draw(st.booleans()) else 1 for d in sizes] for _ in range(2))
    x, y = ones(*left), ones(*right)
    np.testing.assert_array_equal(run(lambda b, p, q: b.add(p, q), x, y), x + y)
