"""Sessions: training by clusters and single ops, feeds, fetches, variables, the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from tests.programs import LineFit, line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.errors import FeedError, GraphError, OutOfMemoryError, UninitializedError, UnknownOpError
from xlanb.runtime.session import _own


def jit_config() -> Any:
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    return config


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def program(request: pytest.FixtureRequest) -> LineFit:
    return line_fit(use_resource=request.param)


@pytest.mark.parametrize("jit", [False, True])
def test_gradient_descent_finds_the_least_squares_line(program: LineFit, jit: bool) -> None:
    with tf.Session(program.graph, jit_config() if jit else None) as session:
        session.run(program.init)
        for _ in range(500):
            session.run(program.train, program.feeds)
        found = session.run([program.weights, program.bias])
    np.testing.assert_allclose(found, np.polyfit(*(p.astype(float) for p in program.points), 1), atol=1e-3)


def test_with_and_without_clusters_the_values_agree(program: LineFit) -> None:
    results = []
    for config in (None, jit_config()):
        with tf.Session(program.graph, config) as session:
            session.load_variables({"weights": np.float32(0.5), "bias": np.float32(-0.25)})
            losses = [session.run([program.loss, program.train], program.feeds)[0] for _ in range(5)]
            results.append([*losses, session.read_variable("weights"), session.read_variable("bias")])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


def test_one_compilation_per_shape_signature() -> None:
    program = line_fit()
    with tf.Session(program.graph, jit_config()) as session:
        session.load_variables({"weights": np.float32(0), "bias": np.float32(0)})
        x, y = program.points
        for size in (100, 100, 50, 100, 50):
            session.run(program.loss, {program.x: x[:size], program.y: y[:size]})
        table = session.cache.table
        assert sorted(table[table.kind == "cluster"].hits) == [1, 2]
        assert session.cache.hits >= 3


@pytest.mark.parametrize(
    ("count", "name"), [(5, "y:0, y_1:0, y_2:0, y_3:0, y_4:0"), (9, "y:0, y_1:0, y_2:0, y_3:0 and 5 more")]
)
def test_a_run_of_many_fetches_has_a_short_name(count: int, name: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2])
        fetches = [tf.add(x, float(k), name="y") for k in range(count)]
        with xlanb.recording() as recorded, tf.Session() as session:
            session.run(fetches, {x: [1.0, 2.0]})
    assert {t.name.partition(": cluster")[0] for t in recorded} == {name}


def test_fetches_keep_their_structure() -> None:
    program = line_fit()
    with tf.Session(program.graph) as session:
        session.run(program.init)
        result = session.run(
            {"loss": program.loss, "both": (program.weights, ["bias:0", program.train])}, program.feeds
        )
        assert set(result) == {"loss", "both"}
        weights, (bias, train) = result["both"]
        assert weights.dtype == bias.dtype == np.float32
        assert train is None
        assert session.run("weights:0") == session.read_variable("weights")


def test_a_missing_feed_names_the_placeholder() -> None:
    program = line_fit()
    with tf.Session(program.graph, jit_config()) as session:
        session.run(program.init)
        with pytest.raises(FeedError, match="feed a value for placeholder tensor 'y_observed' with dtype float32"):
            session.run(program.loss, {program.x: program.points[0]})
        assert np.isfinite(session.run(program.loss, program.feeds))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((3, 3), np.float32), r"shape \(3, 3\) for tensor 'x_observed:0'"),
        (["a", "b"], "x_observed:0"),
        (np.array([1 + 2j]), "x_observed:0"),
        ([[1.0], [1.0, 2.0]], "x_observed:0"),
    ],
)
def test_a_feed_that_does_not_fit_names_the_tensor(value: Any, message: str) -> None:
    program = line_fit()
    with tf.Session(program.graph) as session:
        session.run(program.init)
        with pytest.raises(FeedError, match=message):
            session.run(program.loss, {program.x: value, program.y: program.points[1]})


def test_operands_that_do_not_fit_each_other_name_the_node_and_leave_the_graph_usable() -> None:
    program = line_fit()
    with tf.Session(program.graph, jit_config()) as session:
        session.run(program.init)
        with pytest.raises(GraphError, match=r"node 'sub' \(Sub\).*(\[100\].*\[99\]|\[99\].*\[100\])"):
            session.run(program.loss, {program.x: program.points[0], program.y: program.points[1][:99]})
        assert np.isfinite(session.run(program.loss, program.feeds))


def test_a_variable_without_value_names_the_node(program: LineFit) -> None:
    with tf.Session(program.graph) as session, pytest.raises(UninitializedError, match=r"weights|bias"):
        session.run(program.loss, program.feeds)


def test_a_failed_run_changes_no_variable() -> None:
    graph = tf.Graph()
    with graph.as_default():
        v = tf.Variable(1.0, name="v")
        missing = tf.placeholder(tf.float32, [], name="missing")
        with tf.control_dependencies([tf.assign(v, 5.0)]):
            late = tf.identity(missing)
    with tf.Session(graph) as session:
        session.load_variables({"v": np.float32(1)})
        with pytest.raises(FeedError):
            session.run(late)
        assert session.read_variable("v") == 1


def test_an_op_that_nobody_can_run_is_named() -> None:
    graph = tf.Graph()
    made = graph.create_op("NoSuchOp", (), [tf.float32], {}, "strange")
    with tf.Session(graph) as session, pytest.raises(UnknownOpError, match=r"strange.*NoSuchOp"):
        session.run(made.outputs[0])


def test_unknown_fetches_and_feeds_are_named() -> None:
    program = line_fit()
    with tf.Session(program.graph) as session:
        with pytest.raises(FeedError, match="cannot fetch 'nothing:0'"):
            session.run("nothing:0")
        with pytest.raises(FeedError, match="cannot feed 'nothing:0'"):
            session.run(program.loss, {"nothing:0": 1})


def test_a_closed_session_says_so() -> None:
    program = line_fit()
    session = tf.Session(program.graph)
    session.close()
    with pytest.raises(GraphError, match="closed Session"):
        session.run(program.init)


def test_an_intermediate_tensor_can_be_fed() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        middle = tf.square(x, name="middle")
        end = middle + 1.0
    with tf.Session(graph) as session, flags(tf_xla_min_cluster_size=1):
        np.testing.assert_array_equal(session.run(end, {middle: [3.0, 4.0]}), [4, 5])
        np.testing.assert_array_equal(session.run([end, middle], {x: [3.0, 4.0]}), [[10, 17], [9, 16]])


def test_integers_and_lists_are_fed_as_the_placeholder_wants_them() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        end = tf.reduce_sum(x)
    with tf.Session(graph) as session:
        assert session.run(end, {"x": [1, 2, 3]}) == 6
        assert session.run(end, {"x:0": np.arange(4)}) == 6


def test_a_constant_that_was_changed_is_compiled_anew() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [100], name="x")
        held = tf.constant(np.arange(100, dtype=np.float32), name="held")
        end = tf.reduce_sum(tf.abs(tf.negative(tf.abs(x + held))))
    zeros = np.zeros(100, np.float32)
    with tf.Session(graph, jit_config()) as session:
        assert session.run(end, {x: zeros}) == 4950
        changed = np.arange(100, dtype=np.float32)
        changed[50] += 7  # in the part that its text omits
        held.op.set_attr("value", changed)
        assert session.run(end, {x: zeros}) == 4957


def test_gigabytes_are_refused_by_the_node_that_asks_for_them():
    with tf.Graph().as_default():
        huge = tf.fill([1_000_000, 1_000_000], 1.0, name="huge")
        with tf.Session() as session, pytest.raises(GraphError, match="'huge'"):
            session.run(tf.reduce_sum(huge))


def test_candidates_that_cannot_be_drawn_are_refused():
    with tf.Graph().as_default():
        drawn = tf.nn.uniform_candidate_sampler(np.array([[0]]), 1, 2_000_000_000, True, 2_000_000_001, name="drawn")
        with tf.Session() as session, pytest.raises(GraphError, match=r"'drawn' .*cannot draw 2000000000"):
            session.run(drawn[0])


def test_a_value_that_memory_cannot_hold_names_its_tensor():
    """A splat constant takes no memory until the caller gets an array of it."""
    with tf.Graph().as_default():
        tensor = tf.constant(7, name="sevens")
    with pytest.raises(
        OutOfMemoryError, match=r"out of memory for the value of sevens:0, int32\[1125899906842624\]: 4\.0 PiB"
    ):
        _own(tensor, np.broadcast_to(np.int32(7), (2**50,)))
