# SPDX-License-Identifier: MIT
"""Graphs of the host with sizes that only values tell, and loops over rows."""

import numpy as np
import pytest

from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

RNG = np.random.RandomState(3)
ROWS = RNG.normal(size=(4, 3)).astype(np.float32)


def run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


# --- what depends on values -----------------------------------------------------------


def test_slices_that_end_at_a_fed_number():
    n = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float32, [None, 3])
    first, rest, corner = x[:n], x[n:], x[: n + 1, n]
    assert first.shape.as_list() == [None, 3]
    slope = tf.gradients(first * first, x)[0]
    for count in (1, 3):
        found = run([first, rest, slope], {x: ROWS, n: count})
        wanted = np.where(np.arange(4)[:, None] < count, 2 * ROWS, 0)
        for got, one in zip(found, (ROWS[:count], ROWS[count:], wanted), strict=True):
            close(got, one)
    close(run(corner, {x: ROWS, n: 2}), ROWS[:3, 2])


def test_a_mask_trains_what_is_before_and_after_it():
    x = tf.placeholder(tf.float32, [None, 3])
    mask = tf.placeholder(tf.bool, [None])
    before = tf.Variable(np.eye(3, dtype=np.float32))
    after = tf.Variable(np.ones([3, 1], np.float32))
    chosen = tf.boolean_mask(tf.matmul(x, before), mask)
    loss = tf.reduce_mean(tf.matmul(chosen, after))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    flags = np.array([True, False, True, True])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feed = {x: ROWS, mask: flags}
        close(session.run(loss, feed), ROWS[flags].sum(1).mean())
        session.run(train, feed)
        mean = ROWS[flags].mean(0)
        close(session.run(before), np.eye(3) - 0.5 * np.outer(mean, np.ones(3)))
        close(session.run(after), 1 - 0.5 * mean[:, None])


def test_places_and_what_is_gathered_at_them():
    x = tf.placeholder(tf.float32, [None])
    places = tf.where(x > 0)
    assert places.shape.as_list() == [None, 1] and places.dtype == tf.int64
    taken = tf.gather_nd(x, places)
    slope = tf.gradients(tf.reduce_sum(taken**2), x)[0]
    got = run([places, taken, slope], {x: [1.0, -1.0, 2.0]})
    assert got[0].tolist() == [[0], [2]]
    assert got[1].tolist() == [1.0, 2.0] and got[2].tolist() == [2.0, 0.0, 4.0]


def test_sizes_that_are_computed():
    x = tf.placeholder(tf.float32, [None, 2])
    lengths = tf.placeholder(tf.int32, [None])
    longest = tf.reduce_max(lengths)
    made = {
        "range": tf.range(longest),
        "one_hot": tf.one_hot(lengths, longest),
        "ones": tf.ones([longest, 2]),
        "fill": tf.fill([longest], 3.0),
        "mask": tf.sequence_mask(lengths, longest, dtype=tf.float32),
        "tile": tf.tile(x, [longest, 1]),
        "pad": tf.pad(x, [[0, longest - tf.shape(x)[0]], [0, 0]]),
        "uniform": tf.random_uniform([longest, 2]),
        "linspace": tf.linspace(0.0, 1.0, longest),
        "top": tf.nn.top_k(tf.transpose(x), longest - 1).values,
    }
    got = run(made, {x: np.ones([2, 2]), lengths: [3, 1]})
    shapes = {name: value.shape for name, value in got.items()}
    assert shapes == {
        "range": (3,),
        "one_hot": (2, 3),
        "ones": (3, 2),
        "fill": (3,),
        "mask": (2, 3),
        "tile": (6, 2),
        "pad": (3, 2),
        "uniform": (3, 2),
        "linspace": (3,),
        "top": (2, 2),
    }
    assert got["mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_shapes_that_are_fed():
    x = tf.placeholder(tf.float32, [None])
    pair = tf.placeholder(tf.int32, [2])
    sizes = tf.placeholder(tf.int32, [None])
    one, other = tf.reshape(x, pair), tf.reshape(x, sizes)
    assert one.shape.as_list() == [None, None] and other.shape.rank is None
    parts = tf.split(x, pair, axis=0)
    slope = tf.gradients(tf.reduce_sum(one**2), x)[0]
    feed = {x: np.arange(6.0), pair: [2, 3], sizes: [3, 1, 2]}
    got = run([one, other, slope], feed)
    assert got[0].shape == (2, 3) and got[1].shape == (3, 1, 2)
    close(got[2], 2 * np.arange(6.0))
    got = run(parts, {x: np.arange(6.0), pair: [2, 4]})
    assert [one.tolist() for one in got] == [[0, 1], [2, 3, 4, 5]]


def test_branches_of_different_shapes():
    flag = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [4])
    y = tf.cond(flag, lambda: x[:2], lambda: x[:3])
    assert y.shape.as_list() == [None]
    slope = tf.gradients(y, x)[0]
    for value, count in ((True, 2), (False, 3)):
        got = run([y, slope], {flag: value, x: np.arange(4.0)})
        close(got[0], np.arange(count))
        close(got[1], np.arange(4) < count)


def test_branches_that_are_tensors_from_outside():
    x = tf.placeholder(tf.float32, [None, 3])
    n = tf.placeholder(tf.int32, [])
    y = tf.cond(n > 1, lambda: x, lambda: x[:1])
    slope = tf.gradients(y, x)[0]
    for count, rows in ((2, 4), (1, 1)):
        got = run([y, slope], {x: ROWS, n: count})
        close(got[0], ROWS[:rows])
        assert got[1].sum() == 3 * rows


def test_sizes_that_are_fetched_alone():
    x = tf.placeholder(tf.float32, [None, 3])
    doubled, positive = x * 2.0, tf.boolean_mask(x, x[:, 0] > -9)
    for y in (doubled, positive, tf.map_fn(tf.identity, x)):
        assert run(tf.shape(y), {x: ROWS}).tolist() == [4, 3]
        assert run([tf.size(y), tf.shape(y)[0] + 1], {x: ROWS}) == [12, 5]


def test_counts_of_numbers():
    numbers = tf.placeholder(tf.int32, [None])
    counts = tf.bincount(numbers)
    assert run(counts + 1, {numbers: [1, 1, 3]}).tolist() == [1, 3, 1, 2]


def test_elements_that_differ():
    x = tf.placeholder(tf.int32, [None])
    y, index = tf.unique(x)
    parts = tf.dynamic_partition(x, x, 3)
    counted = tf.unique_with_counts(x)
    others, places = tf.setdiff1d(x, [0])
    got = run([y, index, counted.count, *parts], {x: [2, 0, 2]})
    assert [one.tolist() for one in got] == [[2, 0], [0, 1, 0], [2, 1], [0], [], [2, 2]]
    got = run([others, places], {x: [2, 0, 3]})
    assert [one.tolist() for one in got] == [[2, 3], [0, 2]]


def test_random_numbers_go_on_and_are_those_of_the_seed():
    def drawn():
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(5)
            n = tf.placeholder(tf.int32, [])
            x = tf.random_normal([n])
            return [session.run(x, {n: 3}).tolist() for _ in range(2)]

    first, second = drawn()
    assert first != second and drawn() == [first, second]


def test_a_variable_that_was_not_initialised_is_named():
    n = tf.placeholder(tf.int32, [])
    v = tf.get_variable("v", [4])
    y = v[:n] * 2.0
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError):
        session.run(y, {n: 2})


def test_on_a_device_sizes_are_known():
    from ipu import scopes

    n = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float32, [4])
    with scopes.ipu_scope("/device:IPU:0"), pytest.raises(TypeError, match="known"):
        x[:n]


# --- loops over rows ------------------------------------------------------------------


def test_map_fn_and_its_derivatives():
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.Variable(np.ones([3, 2], np.float32))
    y = tf.map_fn(lambda row: tf.matmul(row[None], w)[0], x)
    pair = tf.map_fn(
        lambda row: (row * 2, tf.cast(tf.argmax(row), tf.int32)),
        x,
        dtype=(tf.float32, tf.int32),
    )
    slopes = tf.gradients(y, [x, w])
    got = run([y, *pair, *slopes], {x: ROWS})
    close(got[0], ROWS.sum(1, keepdims=True) * np.ones(2))
    close(got[1], 2 * ROWS)
    assert got[2].tolist() == ROWS.argmax(1).tolist()
    close(got[3], np.full((4, 3), 2))
    close(got[4], ROWS.sum(0)[:, None] * np.ones(2))


def test_scan_and_folds():
    x = tf.placeholder(tf.float32, [None])
    total = tf.scan(lambda a, b: a + b, x)
    left = tf.foldl(lambda a, b: a * 2 + b, x)
    right = tf.foldr(lambda a, b: a * 2 + b, x, initializer=0.0)
    slope = tf.gradients(left, x)[0]
    got = run([total, left, right, slope], {x: [1.0, 2.0, 3.0]})
    assert got[0].tolist() == [1, 3, 6] and got[1] == 11 and got[2] == 17
    assert got[3].tolist() == [4, 2, 1]


def test_arrays_outside_of_loops():
    x = tf.placeholder(tf.float32, [])
    array = tf.TensorArray(tf.float32, 3)
    array = array.write(0, x).write(1, x * 2).write(2, 3.0)
    assert isinstance(array, tf.TensorArray)
    got = run(
        [array.stack(), array.gather([2, 0]), array.size(), array.read(1)], {x: 2}
    )
    assert got[0].tolist() == [2, 4, 3] and got[1].tolist() == [3, 2]
    assert got[2] == 3 and got[3] == 4
    rows = tf.placeholder(tf.float32, [None, 2])
    taken = tf.TensorArray(tf.float32, size=0, dynamic_size=True).unstack(rows)
    assert run(taken.size(), {rows: ROWS[:, :2]}) == 4


@pytest.mark.parametrize("kind", ["known", "open", "growing", "fed"])
def test_arrays_in_loops(kind):
    x = tf.placeholder(tf.float32, [4, 3] if kind == "known" else [None, 3])
    fed = tf.placeholder(tf.int32, [])
    n = {"known": 4, "fed": fed}.get(kind, tf.shape(x)[0])
    taken = tf.TensorArray(tf.float32, size=n).unstack(x)
    made = tf.TensorArray(
        tf.float32, size=0 if kind == "growing" else n, dynamic_size=kind == "growing"
    )
    _, made = tf.while_loop(
        lambda i, made: i < n,
        lambda i, made: (i + 1, made.write(i, taken.read(i) ** 2)),
        [tf.constant(0), made],
    )
    y = made.stack()
    got = run([y, tf.gradients(y, x)[0]], {x: ROWS, fed: 4})
    close(got[0], ROWS**2)
    close(got[1], 2 * ROWS)


def test_loops_whose_turns_are_fed_have_derivatives():
    n = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float32, [])
    w = tf.Variable(2.0)
    _, y = tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t * w), [0, x])
    slopes = tf.gradients(y, [x, w])
    for turns in (0, 3, 5):
        got = run([y, *slopes], {n: turns, x: 1.5})
        close(got, [1.5 * 2**turns, 2**turns, 1.5 * turns * 2.0 ** (turns - 1)])


def test_loops_that_values_end_have_derivatives():
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda t: t < 100.0, lambda t: t * x, [x])
    assert isinstance(y, tf.Tensor)
    close(run([y, tf.gradients(y, x)[0]], {x: 3.0}), [243.0, 5 * 3.0**4])


def test_loop_variables_that_grow():
    n = tf.placeholder(tf.int32, [])
    start = tf.placeholder(tf.float32, [1, 2])
    _, y = tf.while_loop(
        lambda i, a: i < n,
        lambda i, a: (i + 1, tf.concat([a, a[-1:] * 2.0], 0)),
        [tf.constant(0), start],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
    )
    assert y.shape.as_list() == [None, 2]
    got = run([y, tf.gradients(y, start)[0]], {n: 2, start: [[1.0, 3.0]]})
    assert got[0].tolist() == [[1, 3], [2, 6], [4, 12]]
    assert got[1].tolist() == [[7, 7]]
    with pytest.raises(ValueError, match="shape"):  # where nothing says that it may
        tf.while_loop(
            lambda i, a: i < n,
            lambda i, a: (i + 1, tf.concat([a, a], 0)),
            [tf.constant(0), start],
        )


def test_a_decoder_of_fed_length():
    tokens = tf.placeholder(tf.int32, [None])
    limit = tf.placeholder(tf.int32, [])
    table = tf.get_variable("table", [10, 4])
    cell = tf.nn.rnn_cell.GRUCell(4)

    def body(step, token, state, made):
        out, state = cell(tf.nn.embedding_lookup(table, token), state)
        scores = tf.layers.dense(out, 10, name="out", reuse=tf.AUTO_REUSE)
        token = tf.argmax(scores, -1, output_type=tf.int32)
        return step + 1, token, state, made.write(step, token)

    state = cell.zero_state(tf.shape(tokens)[0], tf.float32)
    made = tf.TensorArray(tf.int32, size=limit)
    made = tf.while_loop(lambda step, *_: step < limit, body, [0, tokens, state, made])[
        3
    ]
    words = tf.transpose(made.stack())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        longer = session.run(words, {tokens: [1, 2, 3], limit: 6})
        shorter = session.run(words, {tokens: [1, 2, 3], limit: 4})
    assert longer.shape == (3, 6)
    assert shorter.tolist() == longer[:, :4].tolist()


# --- what sessions give ---------------------------------------------------------------


def test_results_may_be_written_to():
    x = tf.placeholder(tf.float32, [2])
    v = tf.Variable(tf.ones([3]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run([x, x * 2, v, tf.constant([1.0, 2.0])], {x: [1.0, 2.0]})
        for one in found:
            one += 1
        assert session.run(v).tolist() == [1, 1, 1]


def test_one_result_is_a_tensor():
    flag = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(flag, fn1=lambda: [x], fn2=lambda: [x * 2])
    kept = tf.cond(flag, lambda: [x], lambda: [x * 2], strict=True)
    chosen = tf.case({x < 1: lambda: x, x > 2: lambda: -x}, default=lambda: x * 3)
    assert isinstance(y, tf.Tensor) and isinstance(kept, list)
    assert run([y, kept, chosen], {flag: False, x: 1.5}) == [3.0, [3.0], 4.5]
