"""compile, jit, extract: HLO text, modules, functions and graphs all become executables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.errors import ArgumentError, FeedError, GraphError
from xlanb.graph.builders.nest import flatten

TEXT = "HloModule m\nENTRY e {\n  a = f32[3] parameter(0)\n  ROOT r = f32[3] add(a, a)\n}"


def layer(x: Any, w: Any, b: Any) -> Any:
    return tf.nn.relu(tf.matmul(x, w) + b)


def arguments(rows: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(np.float32) for s in ((rows, 5), (5, 2), (2,))]


def expected(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def test_text_and_module_compile_to_the_same():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(xlanb.compile(TEXT)(x), xlanb.compile(xlanb.hlo.parse(TEXT))(x))


def test_the_callers_module_is_not_changed():
    module = xlanb.hlo.parse(TEXT)
    before = str(module)
    xlanb.compile(module)
    assert str(module) == before


def test_a_function_compiles_for_its_example_arguments():
    (result,) = xlanb.compile(layer, *arguments())(*arguments())
    np.testing.assert_allclose(result, expected(*arguments()), rtol=1e-5, atol=1e-6)


class Pair(NamedTuple):
    sum: Any
    parts: Any


STRUCTURES = {
    "array": lambda x: x * 2.0,
    "tuple of one": lambda x: (x * 2.0,),
    "list": lambda x: [x, x * 2.0],
    "nested": lambda x: {"b": x, "a": [x * 2.0, (x * 3.0,)]},
    "named tuple": lambda x: Pair(tf.reduce_sum(x), {"x": x}),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_jitted_functions_return_their_structure_compiled_ones_a_tuple_or_what_is_nested(name):
    function, x = STRUCTURES[name], np.float32([1, 2, 3])
    with tf.Graph().as_default():
        like = function(tf.constant(x))

    def shape_of(value):
        if isinstance(value, dict):
            return {k: shape_of(v) for k, v in value.items()}
        return (type(value), [shape_of(v) for v in value]) if isinstance(value, list | tuple) else None

    jitted, compiled, evaluated = xlanb.jit(function)(x), xlanb.compile(function, x)(x), xlanb.evaluate(function, x)
    assert shape_of(jitted) == shape_of(like)
    is_flat = name in {"array", "tuple of one", "list"}
    for result in (compiled, evaluated):
        assert type(result) is tuple if is_flat else shape_of(result) == shape_of(like)
        for a, b in zip(flatten(result), flatten(jitted), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_compiled_function_takes_its_arguments_by_position():
    exe = xlanb.compile(lambda x, y: {"sum": x + y, "pair": (x, y)}, np.float32(1), np.float32(2))
    with pytest.raises(ArgumentError, match="takes 2 arguments, 1 given"):
        exe(np.float32(1))
    with pytest.raises(ArgumentError, match="by position, not y="):
        exe(np.float32(1), y=np.float32(2))


def test_jit_compiles_once_per_signature():
    compiled = xlanb.jit(layer)
    for rows in (4, 4, 7):
        np.testing.assert_allclose(compiled(*arguments(rows)), expected(*arguments(rows)), rtol=1e-5, atol=1e-6)
    told = "2 signatures compiled, the last for x: shape float32[4,5] -> float32[7,5]"
    assert repr(compiled) == f"<xlanb.jit of layer: {told}>"
    assert compiled.executable(*arguments()) is compiled.executable(*arguments())


def test_jit_gives_back_the_structure_of_the_function():
    pair = xlanb.jit(lambda x: [x + 1.0, x * 2.0])(np.ones(2, np.float32))
    assert isinstance(pair, list)
    np.testing.assert_array_equal(pair, [[2, 2], [2, 2]])


def test_a_function_must_give_back_tensors():
    with pytest.raises(GraphError, match="must return tensors"):
        xlanb.compile(lambda _: 3, np.ones(2, np.float32))


def test_a_tensor_compiles_with_placeholders_and_variables_as_parameters():
    program = line_fit()
    x, y = program.points
    executable = xlanb.compile(program.loss, x_observed=x, y_observed=y)
    (loss,) = executable(np.float32(1.5), np.float32(-0.5), x, y)
    np.testing.assert_allclose(loss, np.mean((1.5 * x - 0.5 - y) ** 2), rtol=1e-5)


def test_extract_gives_new_values_of_variables_too():
    program = line_fit(use_resource=True)
    x, y = program.points
    module = xlanb.extract(program.graph, [program.loss, program.train], x_observed=x, y_observed=y)
    loss, *updated = xlanb.evaluate(module, np.float32(1.5), np.float32(-0.5), x, y)
    error = 1.5 * x - 0.5 - y
    np.testing.assert_allclose(loss, np.mean(error**2), rtol=1e-5)
    steps = sorted((1.5 - 0.025 * np.mean(2 * error * x), -0.5 - 0.025 * np.mean(2 * error)))
    np.testing.assert_allclose(sorted(map(float, updated)), steps, rtol=1e-4)


def test_an_open_shape_names_the_placeholder():
    with pytest.raises(GraphError, match=r"'x_observed' is unknown: pass an array for it by name"):
        xlanb.compile(line_fit().loss)


def test_a_string_argument_is_refused_by_its_name():
    words = tf.placeholder(tf.string, [2], name="words")
    with pytest.raises(GraphError, match=r"'words' is a string, .*A session runs its ops on the host"):
        xlanb.compile(tf.equal(words, "a"), words=["a", "b"])


def test_an_array_for_nothing_is_refused():
    program = line_fit()
    x, y = program.points
    with pytest.raises(ArgumentError, match="no placeholder or variable named 'z'"):
        xlanb.compile(program.loss, x_observed=x, y_observed=y, z=x)


def test_extract_refuses_what_is_not_in_the_graph():
    with pytest.raises(FeedError, match="cannot fetch"):
        xlanb.extract(line_fit().graph, "nothing:0")


def test_what_is_no_program_is_refused():
    with pytest.raises(TypeError, match="cannot create HLO from an object of type int"):
        xlanb.compile(3)


@pytest.mark.parametrize("door", [xlanb.compile, xlanb.trace])
def test_options_of_the_compiler_are_no_arguments_of_hlo(door):
    text = "HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT r = f32[3] add(x, x) }"
    for program in (text, xlanb.hlo.parse(text)):
        with pytest.raises(TypeError, match=r"a program in HLO takes no keyword arguments \(pipeline=\)"):
            door(program, pipeline="xla")


def test_the_source_of_a_text_is_what_was_written() -> None:
    """The module that was read is compiled in place; its source is read again on demand."""
    text = (
        "HloModule m\n\nENTRY e {\n  weight = f32[4] parameter(0)\n  x = f32[4] parameter(1)\n"
        "  s = f32[4] add(weight, x)\n  ROOT r = f32[4] subtract(s, x)\n}\n"
    )
    executable = xlanb.compile(text)
    assert str(executable.source_module) == str(xlanb.hlo.parse(text))
    assert executable.source_module is executable.source_module
    with pytest.raises(xlanb.errors.ArgumentError, match="weight"):
        executable(np.zeros(3, np.float32), np.zeros(4, np.float32))


def test_a_module_that_is_given_stays_as_it_is() -> None:
    module = xlanb.hlo.parse("HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n")
    before = str(module)
    executable = xlanb.compile(module)
    assert executable.source_module is module
    assert str(module) == before
