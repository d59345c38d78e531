"""The compilation cache: equal signatures, when a cluster is compiled, threads, its tables."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest

import xlanb
from tests.programs import LineFit, line_fit
from xlanb import tf
from xlanb.errors import GraphError
from xlanb.explorer.recorder import Recorder
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph
from xlanb.runtime.compilation_cache import MEGAMORPHIC_COMPILATIONS
from xlanb.tracing import observing

JIT = "--tf_xla_auto_jit=2"
LAZY = f"{JIT} --xlanb_lazy_compilation"


class Runs:
    """A session that computes the loss of a line for any number of points."""

    def __init__(self) -> None:
        self.program: LineFit = line_fit()
        self.session = tf.Session(self.program.graph)
        self.session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        self.cache = self.session.cache

    def loss(self, count: int) -> float:
        x, y = self.program.points
        found = self.session.run(self.program.loss, {self.program.x: x[:count], self.program.y: y[:count]})
        np.testing.assert_allclose(found, np.mean((0.5 * x[:count] - y[:count]) ** 2), rtol=1e-5)
        return float(found)

    @property
    def compiled(self) -> list[str]:
        table = self.cache.table
        return list(table[(table.kind == "cluster") & (table.state == "compiled")].signature)

    def states(self) -> list[str]:
        table = self.cache.table
        return list(table[table.kind == "cluster"].state)


def test_strictly_every_signature_is_compiled_at_once() -> None:
    with xlanb.flags(JIT):
        runs = Runs()
        for count in (10, 20, 10):
            runs.loss(count)
    assert ["f32[10]" in runs.compiled[1], "f32[20]" in runs.compiled[0]] == [True, True]
    (row,) = runs.cache.clusters.itertuples()
    assert (row.executions, row.compilations, row.megamorphic) == (3, 2, False)
    assert row.compile_ms > 0
    assert runs.cache.table.run_ms.max() > 0


def test_a_new_shape_is_a_compilation_beside_the_old() -> None:
    with xlanb.flags(JIT), observing(Recorder()) as recorder:
        runs = Runs()
        runs.loss(10)
        runs.loss(20)
    assert recorder.traces[0].name.endswith("cluster_0")
    assert "cluster_0(f32[], f32[], f32[20]{0}, f32[20]{0})" in recorder.traces[1].name
    summaries = [t["tf2xla"].summary for t in recorder.traces]
    assert ["f32[10]" in summaries[0], "f32[20]" in summaries[1]] == [True, True]
    assert [len([s for s in t if s.kind == "mark_for_compilation"]) for t in recorder.traces] == [1, 1]


def test_lazily_another_signature_is_compiled_at_its_second_request(caplog: pytest.LogCaptureFixture) -> None:
    with xlanb.flags(LAZY), caplog.at_level(logging.DEBUG, "xlanb"):
        runs = Runs()
        runs.loss(10)
        assert len(runs.compiled) == 1
        runs.loss(20)
        assert len(runs.compiled) == 1
        assert runs.states()[-1] == "requested 1 time"
        runs.loss(20)
        assert len(runs.compiled) == 2
        runs.loss(30)
    assert sum("has not reached compile threshold" in r.getMessage() for r in caplog.records) == 2
    with xlanb.flags(f"{LAZY} --tf_xla_enable_lazy_compilation=false"):
        runs.loss(40)
        assert len(runs.compiled) == 3


def test_a_megamorphic_cluster_is_compiled_no_more() -> None:
    with xlanb.flags(LAZY):
        runs = Runs()
        for count in range(1, MEGAMORPHIC_COMPILATIONS + 4):
            runs.loss(count)
            runs.loss(count)
        assert len(runs.compiled) == MEGAMORPHIC_COMPILATIONS + 1
        assert runs.states()[-1] == "megamorphic, requested 2 times"
        (row,) = runs.cache.clusters.itertuples()
        assert row.megamorphic


def test_asynchronously_nodes_run_until_the_cluster_is_compiled() -> None:
    with xlanb.flags(f"{JIT} --tf_xla_async_compilation"):
        runs = Runs()
        first = runs.loss(10)
        assert runs.cache.wait(60)
        assert len(runs.compiled) == 1
        assert runs.loss(10) == pytest.approx(first)
        assert int(runs.cache.table.query("kind == 'cluster'").hits.iloc[0]) == 1


def test_threads_that_need_one_signature_compile_it_once() -> None:
    with xlanb.flags(JIT):
        runs = Runs()
        runs.loss(10)  # prepares the graph
    errors: list[BaseException] = []
    barrier = threading.Barrier(4)

    def run() -> None:
        try:
            with xlanb.flags(JIT):
                barrier.wait(30)
                runs.loss(50)
        except BaseException as error:  # noqa: BLE001 - reported to the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not errors
    assert len(runs.compiled) == 2
    (row,) = runs.cache.clusters.itertuples()
    assert (row.executions, row.compilations) == (5, 2)


def test_a_compilation_that_somebody_steps_through_holds_nobody_up() -> None:
    with xlanb.flags(JIT):
        runs = Runs()
        x, y = runs.program.points
        stepped = xlanb.Compilation(
            runs.program.loss, {runs.program.x: x[:10], runs.program.y: y[:10]}, session=runs.session
        )
        stepped.run_to("fusion")
        runs.loss(10)  # the same thread
        other = threading.Thread(target=lambda: runs.loss(10))
        other.start()
        other.join(30)
        assert not other.is_alive()
        stepped.finish()


def test_the_least_recently_used_goes_first() -> None:
    with xlanb.flags(JIT):
        runs = Runs()
        runs.cache.capacity = 2
        for count in (10, 20, 10, 30):
            runs.loss(count)
        assert ["f32[10]" in runs.compiled[0], "f32[30]" in runs.compiled[1]] == [True, True]
        assert len(runs.cache) == 2
        assert list(runs.cache.table.state) == ["dropped", "compiled", "compiled"]
    runs.session.close()
    assert len(runs.cache) == 0
    assert list(runs.cache.table.state) == ["dropped"] * 3


def function(name: str, factor: float) -> GraphFunction:
    body = Graph(name)
    arg = body.add_op("_Arg", "x", (), [tf.float32], {"T": tf.float32, "index": 0}).outputs[0]
    value = {"dtype": tf.float32, "value": np.float32(factor)}
    by = body.add_op("Const", "by", (), [tf.float32], value).outputs[0]
    product = body.add_op("Mul", "product", [arg, by], [tf.float32], {"T": tf.float32}).outputs[0]
    body.add_op("_Retval", "result", [product], [], {"T": tf.float32, "index": 0})
    return GraphFunction.of_body(name, body)


@pytest.mark.parametrize("flags", ["", JIT])
def test_functions_count_by_content_not_by_name(flags: str) -> None:
    graph = Graph("calls")
    graph.functions["f"] = function("f", 2)
    with graph.as_default():
        x = tf.placeholder(tf.float32, [3], name="x")
        attrs: dict[str, Any] = {"f": FunctionRef("f"), "Tin": (tf.float32,), "Tout": (tf.float32,)}
        call = graph.add_op("PartitionedCall", "call", [x], [tf.float32], attrs).outputs[0]
        for _ in range(4):
            call = tf.tanh(call)
    ones = np.ones(3, np.float32)

    def expected(value: float) -> float:
        for _ in range(4):
            value = float(np.tanh(value))
        return value

    with xlanb.flags(flags), tf.Session(graph) as session:
        np.testing.assert_allclose(session.run(call, {x: ones}), expected(2), rtol=1e-5)
        graph.functions["f"] = function("f", 3)
        np.testing.assert_allclose(session.run(call, {x: ones}), expected(3), rtol=1e-5)
        graph.functions["f"].body.get_operation_by_name("by").set_attr("value", np.float32(4))
        np.testing.assert_allclose(session.run(call, {x: ones}), expected(4), rtol=1e-5)


def test_what_failed_in_a_thread_of_its_own_is_said_when_it_is_asked_for() -> None:
    cache = Runs().cache

    def fails() -> Any:
        raise GraphError("node 'a' cannot be lowered")

    cache.compile_later(("f",), fails)
    assert cache.wait(30)
    with pytest.raises(GraphError, match="node 'a' cannot be lowered"):
        cache.wants(("f",), "f()", is_first=False, mode="async")


def test_the_cache_shows_itself() -> None:
    with xlanb.flags(JIT):
        runs = Runs()
        runs.loss(10)
    assert repr(runs.cache).startswith("<CompilationCache: 1 of 256 entries, 0 hits, 1 misses")
    bundle = runs.cache._repr_mimebundle_()
    assert "cluster_0(" in bundle["text/plain"]
    assert "megamorphic" in bundle["text/html"]
