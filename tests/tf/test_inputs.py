"""Inputs of programs: data sets, queues, sparse tensors, lookup tables."""

import threading
from itertools import pairwise

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import FeedError, GraphTypeError, GraphValueError, UninitializedError


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def walked(dataset, most=50):
    """All elements, as lists."""
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(most):
            try:
                value = session.run(element)
            except tf.errors.OutOfRangeError:
                return found
            found.append(value)
    return found


def numbers(dataset):
    return [np.asarray(v).tolist() for v in walked(dataset)]


def test_data_sets_are_made_of_data_sets():
    of = tf.data.Dataset.range
    assert numbers(of(5).skip(3)) == [3, 4]
    assert numbers(of(2, 9, 3)) == [2, 5, 8]
    assert numbers(of(5).take(2).concatenate(of(1))) == [0, 1, 0]
    assert numbers(of(6).shard(3, 1)) == [1, 4]
    assert numbers(of(2).repeat(2)) == [0, 1, 0, 1]
    assert numbers(of(7).batch(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert numbers(of(7).batch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert numbers(of(6).filter(lambda v: tf.equal(v % 2, 0))) == [0, 2, 4]
    assert numbers(of(3).flat_map(lambda v: tf.data.Dataset.from_tensors(v).repeat(v))) == [1, 2, 2]
    assert numbers(of(2).interleave(lambda v: of(v, v + 3), cycle_length=2)) == [0, 1, 1, 2, 2, 3]
    assert [tuple(map(int, v)) for v in walked(tf.data.Dataset.zip((of(2), of(3, 9))))] == [(0, 3), (1, 4)]
    assert sorted(numbers(of(9).shuffle(4, seed=3))) == list(range(9))


def test_maps_read_what_is_outside_and_keep_structures():
    factor = tf.constant(3.0)
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    dataset = tf.data.Dataset.from_tensor_slices({"x": rows, "y": [1, 2, 3]})
    mapped = dataset.map(lambda d: (d["x"] * factor, d["y"] + 1))
    assert mapped.output_shapes == (tf.TensorShape([2]), tf.TensorShape([]))
    assert mapped.output_types == (tf.float32, tf.int64)
    first = walked(mapped)[1]
    assert first[0].tolist() == [6, 9]
    assert first[1] == 3
    assert all(op.type != "Mul" for op in tf.get_default_graph()), "the function's nodes are in its body"


def test_a_shuffle_begins_anew_each_time_unless_told_otherwise():
    def orders(again):
        dataset = tf.data.Dataset.range(20).shuffle(20, seed=1, reshuffle_each_iteration=again).repeat(2)
        found = numbers(dataset)
        return found[:20], found[20:]

    assert len(set(map(tuple, orders(again=True)))) == 2
    assert len(set(map(tuple, orders(again=False)))) == 1


def test_generators_of_different_sizes_are_padded():
    def rows():
        for i in range(3):
            yield np.full(i + 1, float(i)), i

    dataset = tf.data.Dataset.from_generator(rows, (tf.float32, tf.int32), ([None], []))
    first, second = walked(dataset.padded_batch(2, ([None], []), padding_values=(-1.0, 0)))
    assert first[0].tolist() == [[0, -1], [1, 1]]
    assert second[0].tolist() == [[2, 2, 2]]
    assert second[1].tolist() == [2]


def test_one_iterator_serves_several_data_sets():
    train, test = tf.data.Dataset.range(3), tf.data.Dataset.range(10, 12)
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    element = iterator.get_next()
    starts = [iterator.make_initializer(d) for d in (train, test)]
    handle = tf.placeholder(tf.string, [])
    own = train.make_one_shot_iterator()
    fed = tf.data.Iterator.from_string_handle(handle, own.output_types, own.output_shapes).get_next()
    with tf.Session() as session:
        with pytest.raises(UninitializedError, match="has not been initialized"):
            session.run(element)
        session.run(starts[0])
        assert session.run(element) == 0
        session.run(starts[1])
        assert [int(session.run(element)) for _ in range(2)] == [10, 11]
        with pytest.raises(tf.errors.OutOfRangeError, match=r"'IteratorGetNext'.*End of sequence"):
            session.run(element)
        name = session.run(own.string_handle())
        assert [int(session.run(fed, {handle: name})) for _ in range(2)] == [0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="not an iterator handle"):
            session.run(fed, {handle: b"another"})


def test_mistakes_of_data_sets_are_named():
    with pytest.raises(GraphValueError, match="it has no rows"):
        tf.data.Dataset.from_tensor_slices(3.0)
    fed = tf.data.Dataset.from_tensor_slices(tf.placeholder(tf.float32, [None]))
    with pytest.raises(GraphValueError, match="make_initializable_iterator"):
        fed.make_one_shot_iterator()
    with pytest.raises(GraphTypeError, match="must return one bool"):
        tf.data.Dataset.range(3).filter(lambda v: v)
    with pytest.raises(tf.errors.InvalidArgumentError, match="different shapes in component 0"):
        walked(tf.data.Dataset.range(3).map(lambda v: tf.zeros([tf.cast(v, tf.int32)])).batch(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="batch_size must be greater than zero"):
        walked(tf.data.Dataset.range(3).batch(0))


def test_a_model_is_trained_from_a_data_set():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32)
    features, labels = (
        tf.data.Dataset.from_tensor_slices((x, y)).shuffle(32).repeat().batch(8).make_one_shot_iterator().get_next()
    )
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1))
    step = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(120):
            found, _ = session.run([loss, step])
    assert found < 0.05


def test_queues_hand_over_in_their_order():
    queues = [
        tf.FIFOQueue(9, tf.int32, [[]]),
        tf.RandomShuffleQueue(9, 0, tf.int32, [[]], seed=1),
        tf.PriorityQueue(9, tf.int32, [[]]),
    ]
    puts = [q.enqueue_many([[3, 1, 2]]) for q in queues[:2]] + [
        queues[2].enqueue_many([tf.constant([5, 1, 3], tf.int64), [50, 10, 30]])
    ]
    takes = [q.dequeue_many(3) for q in queues]
    with tf.Session() as session:
        session.run(puts)
        assert session.run(queues[0].size()) == 3
        first, second, third = session.run(takes)
    assert first.tolist() == [3, 1, 2]
    assert sorted(second.tolist()) == [1, 2, 3]
    assert third[1].tolist() == [10, 30, 50]


def test_padding_queues_pad():
    queue = tf.PaddingFIFOQueue(9, tf.float32, [[None]])
    value = tf.placeholder(tf.float32, [None])
    put, take = queue.enqueue([value]), queue.dequeue_many(2)
    assert take.shape.as_list() == [2, None]
    with tf.Session() as session:
        session.run(put, {value: [1.0]})
        session.run(put, {value: [2.0, 3.0]})
        assert session.run(take).tolist() == [[1, 0], [2, 3]]


def test_runs_wait_for_runs_of_other_threads_until_the_queue_is_closed():
    queue = tf.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[2], []])
    x = tf.placeholder(tf.float32, [None, 2])
    put, taken, close = queue.enqueue_many([x, [7, 7]]), queue.dequeue(), queue.close()
    found = []
    with tf.Session() as session:

        def fill():
            for k in range(3):
                session.run(put, {x: np.full((2, 2), k)})
            session.run(close)

        thread = threading.Thread(target=fill)
        thread.start()
        found.extend(float(session.run(taken)[0][0]) for _ in range(6))
        with pytest.raises(tf.errors.OutOfRangeError, match="'fifo_queue_Dequeue'"):
            session.run(taken)
        thread.join()
        with pytest.raises(tf.errors.CancelledError, match="is closed"):
            session.run(put, {x: np.zeros((2, 2))})
    assert found == [0, 0, 1, 1, 2, 2]


def test_what_cannot_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("xlanb.runtime.host.queues.PATIENCE", 0.2)
    queue = tf.FIFOQueue(1, tf.float32, name="inputs")
    taken = queue.dequeue()
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.DeadlineExceededError, match="waits for 1 elements of queue 'inputs'"),
    ):
        session.run(taken)


def test_closing_a_session_wakes_who_waits():
    queue = tf.FIFOQueue(1, tf.float32)
    taken = queue.dequeue()
    session = tf.Session()
    seen = []

    def wait():
        try:
            session.run(taken)
        except tf.errors.CancelledError as error:
            seen.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    threading.Event().wait(0.2)
    session.close()
    thread.join(10)
    assert "session was closed" in seen[0]


def test_elements_must_fit_their_queue():
    queue = tf.FIFOQueue(1, tf.float32, shapes=[[2]])
    value = tf.placeholder(tf.float32)
    put = queue.enqueue([value])
    with (
        tf.Session() as session,
        pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"component 0 .* must be float32 of shape \[2\], got float32 of shape \[3\]",
        ),
    ):
        session.run(put, {value: [1, 2, 3]})
    with pytest.raises(GraphValueError, match="holds 1 components, not 2"):
        queue.enqueue((1.0, 2.0))


def test_queue_runners_feed_batches():
    images = np.arange(20, dtype=np.float32).reshape(10, 2)
    image, label = tf.train.slice_input_producer([images, np.arange(10)], num_epochs=2, shuffle=False)
    batch = tf.train.batch([image, label], 4, allow_smaller_final_batch=True)
    shuffled = tf.train.shuffle_batch([tf.constant(images)], 4, capacity=30, min_after_dequeue=8, enqueue_many=True)
    labels = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        assert np.asarray(session.run(shuffled)).reshape(-1, 2).shape == (4, 2)
        while len(labels) < 20:
            labels += session.run(batch)[1].tolist()
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(batch)
        coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=10)
    assert labels == [*range(10), *range(10)]


def test_sparse_tensors_are_fed_and_fetched_whole():
    sparse = tf.sparse_placeholder(tf.float32, name="a")
    dense = tf.constant(np.eye(3, 2, dtype=np.float32))
    weights = tf.get_variable("w", initializer=np.ones((3, 2), np.float32))
    product, loss = (
        tf.sparse_tensor_dense_matmul(sparse, dense),
        tf.reduce_sum(tf.sparse_tensor_dense_matmul(sparse, weights) ** 2),
    )
    slopes = tf.gradients(loss, [weights, sparse.values])
    value = tf.SparseTensorValue([[0, 1], [1, 2]], [2.0, 3.0], [2, 3])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(product, {sparse: value}).tolist() == [[0, 2], [0, 0]]
        back = session.run(sparse, {sparse: value})
        assert isinstance(back, tf.SparseTensorValue)
        assert back.values.tolist() == [2, 3]
        by_weights, by_values = session.run(slopes, {sparse: value})
        assert by_weights.tolist() == [[0, 0], [8, 8], [18, 18]]
        assert by_values.tolist() == [8, 12]
        with pytest.raises(FeedError, match="SparseTensorValue"):
            session.run(product, {sparse: 3.0})


def test_sparse_functions():
    found = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [3, 4])
    results = {
        "dense": tf.sparse_tensor_to_dense(found),
        "sum": tf.sparse_reduce_sum(found, 1),
        "turned": tf.sparse_tensor_to_dense(tf.sparse_transpose(found)),
        "added": tf.sparse_tensor_to_dense(tf.sparse_add(found, found)),
        "kept": tf.sparse_tensor_to_dense(tf.sparse_retain(found, [False, True])),
        "places": tf.sparse_to_dense([1, 3], [4], 5),
        "means": tf.nn.embedding_lookup_sparse(np.arange(8, dtype=np.float32).reshape(4, 2), tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 3, 0], [2, 2]), None),
    }  # fmt: skip
    with tf.Session() as session:
        values = {k: v.tolist() for k, v in session.run(results).items()}
    wide = [[1, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]]
    assert values["dense"] == wide
    assert values["sum"] == [1, 2, 0]
    assert values["turned"] == [list(c) for c in zip(*wide, strict=True)]
    assert values["added"] == [[2 * v for v in row] for row in wide]
    assert values["kept"] == [[0] * 4, [0, 0, 2, 0], [0] * 4]
    assert values["places"] == [0, 5, 0, 5]
    assert values["means"] == [[4, 5], [0, 1]]


def test_tables_look_up(tmp_path):
    words = tf.contrib.lookup.index_table_from_tensor(["a", "b"])
    (tmp_path / "words").write_text("x\ny\n")
    lines = tf.lookup.index_table_from_file(str(tmp_path / "words"))
    back = tf.lookup.index_to_string_table_from_tensor(["a", "b"])
    growing = tf.lookup.MutableHashTable(tf.string, tf.int64, -1)
    insert = growing.insert(tf.constant(["k"]), tf.constant([9], tf.int64))
    results = [
        words.lookup(tf.constant(["b", "?"])),
        lines.lookup(tf.constant("y")),
        back.lookup(tf.constant([1, 7], tf.int64)),
        words.size(),
    ]
    found = growing.lookup(tf.constant(["k", "l"]))
    with tf.Session() as session:
        with pytest.raises(UninitializedError, match="Table not initialized"):
            session.run(results[0])
        session.run(tf.tables_initializer())
        values = session.run(results)
        session.run(insert)
        assert session.run(found).tolist() == [9, -1]
    assert values[0].tolist() == [1, -1]
    assert values[1] == 1
    assert values[2].tolist() == [b"b", b"UNK"]
    assert values[3] == 2


def test_the_rows_of_one_run_stay_together_in_a_queue_that_is_full():
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    rows = tf.placeholder(tf.int32, [None])
    put, taken = queue.enqueue_many([rows]), queue.dequeue()
    with tf.Session() as session:
        threads = [threading.Thread(target=session.run, args=(put, {rows: [k] * 20})) for k in range(4)]
        for thread in threads:
            thread.start()
        found = [int(session.run(taken)) for _ in range(80)]
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted([*range(4)] * 20)
    assert sum(a != b for a, b in pairwise(found)) == 3
