"""Whole programs as one module: from graphs, and from trained sessions with their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlanb
from tests.programs import LineFit, line_fit
from xlanb import tf
from xlanb.errors import ArgumentError
from xlanb.hlo.opcode import HloOpcode
from xlanb.runtime.extract import extraction


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def program(request: pytest.FixtureRequest) -> LineFit:
    return line_fit(use_resource=request.param)


def trained(program: LineFit) -> Any:
    session = tf.Session(program.graph)
    session.load_variables({"weights": np.float32(1.5), "bias": np.float32(-0.5)})
    return session


def given(program: LineFit) -> dict[str, Any]:
    return {"x_observed": program.points[0], "y_observed": program.points[1]}


def test_parameters_and_results_have_names(program: LineFit) -> None:
    session = trained(program)
    found = extraction(session, [program.loss, program.train], **given(program))
    assert found.parameters == ("weights", "bias", "x_observed", "y_observed")
    assert found.results[0] == program.loss.name
    assert set(found.results[1:]) == {"weights", "bias"}
    names = [p.metadata.op_name for p in found.module.entry_computation.parameters]
    assert tuple(names) == found.parameters
    results = found.named(xlanb.evaluate(found.module, *found.arguments(**given(program))))
    expected = session.run(program.loss, program.feeds)
    session.run(program.train, program.feeds)
    np.testing.assert_allclose(results[program.loss.name], expected, rtol=1e-5)
    for name in ("weights", "bias"):
        np.testing.assert_allclose(results[name], session.read_variable(name), rtol=1e-5)


def test_weights_stand_in_the_module(program: LineFit) -> None:
    module = xlanb.extract(trained(program), program.loss, literals=True, **given(program))
    assert [p.metadata.op_name for p in module.entry_computation.parameters] == ["x_observed", "y_observed"]
    (loss,) = xlanb.evaluate(module, *program.points)
    np.testing.assert_allclose(loss, np.mean((1.5 * program.points[0] - 0.5 - program.points[1]) ** 2), rtol=1e-5)
    constants = [str(i) for i in module.instructions() if i.opcode is HloOpcode.CONSTANT]
    assert any("constant(1.5)" in text for text in constants)
    assert any(i.metadata.op_name == "weights" for i in module.instructions())


def test_weights_lie_beside_the_module(program: LineFit, tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    session = trained(program)
    module = xlanb.extract(session, program.loss, npz=path, **given(program))
    found = extraction(program.graph, program.loss, **given(program))
    with np.load(path) as weights:
        assert set(weights) == {"weights", "bias"}
        arguments = found.arguments(weights, **given(program))
    np.testing.assert_array_equal(xlanb.evaluate(module, *arguments)[0], xlanb.evaluate(found.module, *arguments)[0])
    with pytest.raises(ArgumentError, match="no value for 'weights', 'bias'"):
        found.arguments(given(program))


def test_types_that_numpy_does_not_know_come_back(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default():
        v = tf.get_variable("deep/v", dtype=tf.bfloat16, shape=[3], use_resource=True)
        doubled = v + v
    session = tf.Session(graph)
    session.load_variables({"deep/v": np.asarray([1, 2, 3], ml_dtypes.bfloat16)})
    xlanb.extract(session, doubled, npz=tmp_path / "w.npz")
    found = extraction(graph, doubled)
    with np.load(tmp_path / "w.npz") as weights:
        (result,) = xlanb.evaluate(found.module, *found.arguments(weights))
    np.testing.assert_array_equal(np.asarray(result, np.float32), [2, 4, 6])


def test_every_instruction_names_its_node(program: LineFit) -> None:
    module = xlanb.extract(program.graph, [program.loss, program.train], **given(program))
    nodes = {op.name for op in program.graph.get_operations()}
    nameless = [str(i) for i in module.instructions() if not i.metadata.op_name]
    assert nameless == []
    root = module.entry_computation.root
    assert {i.metadata.op_name for i in module.instructions() if i is not root} <= nodes


def test_a_variable_without_a_value_is_asked_for(program: LineFit) -> None:
    with tf.Session(program.graph) as session:
        found = extraction(session, program.loss, weights=np.float32(2), **given(program))
        assert found.weights == {}
        with pytest.raises(ArgumentError, match="no value for 'weights', 'bias'"):
            found.arguments(given(program))


def test_a_graph_alone_has_no_weights(program: LineFit, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="use a session"):
        xlanb.extract(program.graph, program.loss, literals=True, **given(program))
    with pytest.raises(ArgumentError, match="use a session"):
        xlanb.extract(program.graph, program.loss, npz=tmp_path / "w.npz", **given(program))


def test_an_argument_that_does_not_fit_is_named(program: LineFit) -> None:
    found = extraction(trained(program), program.loss, **given(program))
    with pytest.raises(ArgumentError, match=r"x_observed has shape \[100\], not \[3\]"):
        found.arguments({**given(program), "x_observed": np.zeros(3, np.float32)})
