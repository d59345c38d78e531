"""Threads that share a session: no lost updates, no duplicate work, no deadlocks."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import CancelledError, GraphError, XlanbError
from xlanb.graph.operation import Operation
from xlanb.runtime.resources import OutOfRangeError
from xlanb.runtime.variables import VariableHandle, VariableStore

THREADS, ROUNDS = 8, 12
SIZES = (1, 20_000)


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Make threads switch often, without logging: an interrupt may leave a logging lock held."""
    logging.disable(logging.INFO)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
    logging.disable(logging.NOTSET)


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Call `work` with 0, 1, ... in threads that start together; raise their exception."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001 - reported to the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    if errors:
        raise errors[0]


def jit(level: int) -> Any:
    return xlanb.flags(f"--tf_xla_auto_jit={level} --tf_xla_min_cluster_size=1")


def variable(size: int, is_resource: bool, name: str = "v", dtype: Any = np.float32) -> Any:
    return tf.get_variable(name, initializer=np.zeros(size, dtype), use_resource=is_resource)


def started() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def _adding(v: Any, size: int) -> Any:
    return tf.assign_add(v, np.ones(size, np.float32), use_locking=True).op


def _subtracting(v: Any, size: int) -> Any:
    return tf.assign_sub(v, -np.ones(size, np.float32), use_locking=True).op


def _scattering(v: Any, size: int) -> Any:
    return tf.scatter_add(v, np.arange(size, dtype=np.int32), np.ones(size, np.float32)).op


def _descending(v: Any, _size: int) -> Any:
    return tf.train.GradientDescentOptimizer(1.0, use_locking=True).minimize(-tf.reduce_sum(v))


def _descending_sparsely(v: Any, size: int) -> Any:
    rows = tf.gather(v, np.arange(size, dtype=np.int32))
    return tf.train.MomentumOptimizer(1.0, 0.0, use_locking=True).minimize(-tf.reduce_sum(rows))


UPDATES = (_adding, _subtracting, _scattering, _descending, _descending_sparsely)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("is_resource", [False, True])
@pytest.mark.parametrize("update", UPDATES)
def test_no_update_is_lost(update: Callable[[Any, int], Operation], is_resource: bool, level: int, size: int) -> None:
    with jit(level), tf.Graph().as_default():
        v = variable(size, is_resource)
        step = update(v, size)
        session = started()

        def work(_number: int) -> None:
            with jit(level):
                for _ in range(ROUNDS):
                    session.run(step)

        in_threads(work)
        np.testing.assert_array_equal(session.run(v), np.full(size, THREADS * ROUNDS, np.float32))


@pytest.mark.parametrize("is_resource", [False, True])
@pytest.mark.parametrize("level", [0, 2])
def test_slots_of_an_optimizer_are_updated_with_its_variable(level: int, is_resource: bool) -> None:
    with jit(level), tf.Graph().as_default():
        v = variable(1000, is_resource)
        optimizer = tf.train.MomentumOptimizer(1.0, 1.0, use_locking=True)
        step = optimizer.minimize(-tf.reduce_sum(v))
        session = started()

        def work(_number: int) -> None:
            with jit(level):
                for _ in range(ROUNDS):
                    session.run(step)

        in_threads(work)
        count = THREADS * ROUNDS
        # The n-th update subtracts an accumulated gradient of -n: any other order of reads gives
        # another sum.
        np.testing.assert_array_equal(session.run(optimizer.get_slot(v, "momentum")), np.full(1000, -count, np.float32))
        np.testing.assert_array_equal(session.run(v), np.full(1000, count * (count + 1) / 2, np.float32))


def test_what_one_cluster_does_to_several_variables_is_one_step() -> None:
    """Two clusters with the same variables in opposite orders: no deadlock, no partial update."""
    with jit(2), tf.Graph().as_default():
        a, b = variable(1000, True, "a"), variable(1000, True, "b")
        one = np.ones(1000, np.float32)
        forth = tf.group(tf.assign_add(a, one), tf.assign_sub(b, one))
        back = tf.group(tf.assign_add(b, one), tf.assign_sub(a, one))
        total = tf.reduce_sum(tf.abs(a.value() + b.value()))
        session = started()
        seen: list[float] = []

        def work(number: int) -> None:
            with jit(2):
                for _ in range(ROUNDS):
                    if number == THREADS - 1:
                        seen.append(float(session.run(total)))
                    else:
                        session.run(forth if number % 2 else back)

        in_threads(work)
        assert "cluster" in set(session.cache.table.kind)
        assert seen == [0.0] * ROUNDS
        np.testing.assert_array_equal(session.run(a), np.full(1000, -ROUNDS, np.float32))


def test_every_number_is_counted_once() -> None:
    with tf.Graph().as_default():
        counter = tf.get_variable("n", initializer=np.int64(0))
        reference = counter.as_tensor(None, None, as_ref=True)
        attrs = {"limit": THREADS * ROUNDS, "T": tf.int64}
        following = tf.get_default_graph().create_op("CountUpTo", [reference], attrs=attrs).outputs[0]
        session = started()
        found: list[int] = []

        def work(_number: int) -> None:
            found.extend(int(session.run(following)) for _ in range(ROUNDS))

        in_threads(work)
        assert sorted(found) == list(range(THREADS * ROUNDS))
        with pytest.raises(OutOfRangeError, match="Reached limit"):
            session.run(following)


def test_every_element_of_an_iterator_is_given_once() -> None:
    with tf.Graph().as_default():
        data = tf.data.Dataset.range(THREADS * ROUNDS).map(lambda i: i * 2)
        following = data.make_one_shot_iterator().get_next()
        session = tf.Session()
        found: list[int] = []

        def work(_number: int) -> None:
            found.extend(int(session.run(following)) for _ in range(ROUNDS))

        in_threads(work)
        assert sorted(found) == list(range(0, 2 * THREADS * ROUNDS, 2))


def test_no_random_number_is_drawn_twice() -> None:
    with tf.Graph().as_default():
        drawn = tf.random_uniform([4], seed=3, dtype=tf.float64)
        session = tf.Session()
        found: list[Any] = []

        def work(_number: int) -> None:
            found.extend(session.run(drawn) for _ in range(ROUNDS))

        in_threads(work)
        assert len(np.unique(np.concatenate(found))) == 4 * THREADS * ROUNDS


def test_every_element_of_a_queue_is_taken_once() -> None:
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(3, tf.int32, shapes=[[]])
        value = tf.placeholder(tf.int32, [])
        put, taken = queue.enqueue(value), queue.dequeue()
        session = tf.Session()
        found: list[int] = []

        def work(number: int) -> None:
            for index in range(ROUNDS):
                if number % 2:
                    session.run(put, {value: number * ROUNDS + index})
                else:
                    found.append(int(session.run(taken)))

        in_threads(work)
        assert sorted(found) == [n * ROUNDS + i for n in range(1, THREADS, 2) for i in range(ROUNDS)]


def test_many_threads_compile_a_cluster_once_and_prepare_the_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    from xlanb.runtime import session as module

    honest = module.prepare

    def counted(*args: Any, **named: Any) -> Any:
        prepared.append(named["name"])
        return honest(*args, **named)

    monkeypatch.setattr(module, "prepare", counted)
    with jit(2), tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [100], name="x")
        y = tf.add(tf.square(x), 1.0, name="y")
        session = tf.Session()
        found: list[Any] = [None] * THREADS

        def work(number: int) -> None:
            with jit(2):
                found[number] = session.run(y, {x: np.full(100, number, np.float32)})

        in_threads(work)
    assert prepared == ["y:0"]
    (row,) = session.cache.table.itertuples()
    assert (row.kind, row.runs) == ("cluster", THREADS)
    for number, value in enumerate(found):
        np.testing.assert_array_equal(value, np.full(100, number**2 + 1, np.float32))


@pytest.mark.parametrize("level", [0, 2])
def test_threads_run_while_another_one_extends_the_graph(level: int) -> None:
    with jit(level):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [10])
            y = tf.square(x) + 1.0
        session = tf.Session(graph)

        def work(number: int) -> None:
            with jit(level):
                for index in range(ROUNDS):
                    if number:
                        value = session.run(y, {x: np.full(10, number, np.float32)})
                        np.testing.assert_array_equal(value, np.full(10, number**2 + 1, np.float32))
                    else:
                        with graph.as_default():
                            grown = y * float(index)
                        np.testing.assert_array_equal(session.run(grown, {x: np.zeros(10)}), np.full(10, index))

        in_threads(work, 4)


def test_closing_a_session_ends_the_runs_of_others_with_errors_that_say_so() -> None:
    with tf.Graph().as_default():
        v = variable(100, is_resource=False)
        step = _adding(v, 100)
        queue = tf.FIFOQueue(1, tf.float32)
        taken = queue.dequeue()
        session = started()
        begun = threading.Semaphore(0)
        said: list[str] = []

        def work(number: int) -> None:
            if number == 0:
                for _ in range(THREADS - 1):
                    begun.acquire()
                session.close()
                return
            begun.release()
            try:
                while True:
                    session.run(step if number % 2 else taken)
            except XlanbError as error:
                said.append(f"{type(error).__name__}: {error}")

        in_threads(work)
    assert len(said) == THREADS - 1
    assert all("clos" in text for text in said), said  # codespell:ignore


def test_loading_variables_is_no_update_to_lose() -> None:
    with tf.Graph().as_default():
        v = variable(20_000, is_resource=True)
        step = _adding(v, 20_000)
        session = started()
        offset = 10_000

        def work(number: int) -> None:
            for index in range(ROUNDS):
                if number == 0 and index == ROUNDS // 2:
                    session.load_variables({"v": np.full(20_000, offset, np.float32)})
                elif number:
                    session.run(step)
                value = session.read_variable("v")
                assert value.min() == value.max()

        in_threads(work)
        assert offset <= session.read_variable("v")[0] <= offset + THREADS * ROUNDS


def test_loading_is_all_or_nothing() -> None:
    with tf.Graph().as_default():
        variable(2, is_resource=False, name="a")
        variable(2, is_resource=False, name="b")
        session = started()
        with pytest.raises(xlanb.errors.FeedError, match="'b' holds"):
            session.load_variables({"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})
        np.testing.assert_array_equal(session.read_variable("a"), np.zeros(2, np.float32))


# ----------------------------------------------------------------------------------- runs that fail


def test_a_run_that_fails_takes_back_its_own_writes_alone() -> None:
    """Another thread writes one of the two variables between the write and the failure."""
    with tf.Graph().as_default():
        a, b = variable(1, is_resource=True, name="a"), variable(1, is_resource=True, name="b")
        other: list[tf.Session] = []
        one = np.ones(1, np.float32)
        from_other = tf.assign_add(a, one).op

        def fail(_x: Any) -> Any:
            in_threads(lambda _number: other[0].run(from_other), 1)
            raise GraphError("on purpose")

        with tf.control_dependencies([tf.assign_add(a, one), tf.assign_add(b, one)]):
            fails = tf.py_func(fail, [tf.constant(1.0)], tf.float32)
        session = started()
        other.append(session)
        with pytest.raises(GraphError, match="on purpose"):
            session.run(fails)
        assert session.run(b)[0] == 0.0  # rolled back
        assert session.run(a)[0] == 2.0  # the other run's later update is kept


def test_an_interrupt_leaves_no_variable_locked() -> None:
    store = VariableStore()
    store.load({"a": np.zeros(1), "b": np.zeros(1)})
    names = [f"v{i}" for i in range(100)]

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        store.exclusively([*names, "a", "b"], interrupted)
    with pytest.raises(ZeroDivisionError):
        store.exclusively(["a"], lambda: 1 / 0)
    done: list[int] = []
    in_threads(lambda number: store.exclusively([*names, "a", "b"], lambda: done.append(number)))
    assert sorted(done) == list(range(THREADS))


def test_interrupts_at_any_moment_of_a_run_leave_the_session_usable() -> None:
    with jit(2), tf.Graph().as_default():
        a, b = variable(10, is_resource=True, name="a"), variable(10, is_resource=True, name="b")
        one = np.ones(10, np.float32)
        step = tf.group(tf.assign_add(a, one), tf.assign_add(b, one))
        session = started()
        session.run(step)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        runs = interrupts = 0
        gc.disable()  # callbacks of other packages at a collection would swallow interrupts
        try:
            for tick in range(100):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 + tick * 2e-6)
                    for _ in range(500):
                        session.run(step)
                        runs += 1
                except KeyboardInterrupt:
                    interrupts += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            gc.enable()
        assert interrupts > 0 < runs

        def work(_number: int) -> None:
            with jit(2):
                session.run(step)

        in_threads(work, 2)
        first, second = session.run([a, b])
        np.testing.assert_array_equal(first, second)


def test_a_closed_session_gives_no_resource() -> None:
    resources = tf.Session(tf.Graph()).resources
    resources.close()
    with pytest.raises(CancelledError, match="closed"):
        resources.get("queue//q", list)


def test_a_variable_whose_shape_changes_meanwhile_is_run_with_the_code_of_its_shape() -> None:
    with jit(2), tf.Graph().as_default():
        v = tf.get_variable("v", initializer=np.ones(1, np.float32), validate_shape=False)
        small = tf.assign(v, np.ones(1, np.float32), validate_shape=False).op
        large = tf.assign(v, np.ones(3, np.float32), validate_shape=False).op
        double = tf.assign(v, v * 2.0, validate_shape=False)
        session = started()

        def work(number: int) -> None:
            with jit(2):
                for _ in range(ROUNDS):
                    value = session.run((small, large, double)[number % 3])
                    assert value is None or value.shape in {(1,), (3,)}

        in_threads(work)


def test_what_a_run_wrote_is_taken_back_where_nobody_else_wrote() -> None:
    store = VariableStore()
    store.load({"a": np.zeros(1), "b": np.zeros(1)})
    first, second = store.begin(), store.begin()
    first.write({"a": np.ones(1), "b": np.ones(1), "new": np.ones(1)})
    second.write({"b": np.full(1, 2.0)})
    first.roll_back()
    read = {n: store.get([n])[n] for n in ("a", "b", "new")}
    assert (read["a"], read["b"], read["new"]) == (0.0, 2.0, None)
    second.roll_back()
    assert store.read(VariableHandle("b", "b")) == 1.0  # the result of `second`


@pytest.mark.parametrize("level", [tf.OptimizerOptions.OFF, tf.OptimizerOptions.ON_1], ids=["ops", "clusters"])
def test_closing_a_session_ends_the_runs_of_other_threads(level):
    """An infinite loop, node by node or compiled."""
    begun = threading.Event()
    with tf.Graph().as_default() as graph:
        told = tf.py_func(lambda x: (begun.set(), x)[1], [tf.constant(0)], tf.int32)
        told.set_shape([])
        end = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [told])
    session = tf.Session(
        graph=graph,
        config=tf.ConfigProto(
            graph_options=tf.GraphOptions(optimizer_options=tf.OptimizerOptions(global_jit_level=level))
        ),
    )
    raised = []

    def run():
        try:
            session.run(end)
        except XlanbError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(60)
    session.close()
    thread.join(60)
    assert not thread.is_alive()
    assert [type(e) for e in raised] == [tf.errors.CancelledError]
    with pytest.raises(GraphError, match="closed Session"):
        session.run(end)


def test_compiled_code_of_a_closed_session_is_not_begun():
    """A run that was compiling, or waiting for a variable, when the session was closed."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4])
        y = x * 2
    session = tf.Session(graph=graph)
    session.run(y, {x: np.ones(4)})
    session.cache.cancel()
    with pytest.raises(CancelledError, match="Mul was cancelled before it ran"):
        session.run(y, {x: np.ones(4)})
    session.cache.clear()
    with pytest.raises(CancelledError, match="Mul was cancelled before it ran"):
        session.run(y, {x: np.ones(4)})
