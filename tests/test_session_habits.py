# SPDX-License-Identifier: MIT
"""What programs of TensorFlow 1 write beside a graph: losses, rates, files, iterators.

Expected values are NumPy's, written out from the definitions.
"""

import math
import subprocess
import sys

import numpy as np
import pytest
from session_runs import run

from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

RNG = np.random.RandomState(4)
RIGHT = (RNG.uniform(size=(3, 4)) > 0.5).astype(np.float32)
FOUND = RNG.uniform(0.1, 0.9, size=(3, 4)).astype(np.float32)


def test_losses():
    labels = tf.placeholder(tf.float32, [None, 4])
    found = tf.placeholder(tf.float32, [None, 4])
    away = np.abs(FOUND - RIGHT)
    huber = np.where(away <= 0.3, away**2 / 2, 0.3 * away - 0.3**2 / 2)
    cross = -RIGHT * np.log(FOUND + 1e-7) - (1 - RIGHT) * np.log(1 - FOUND + 1e-7)
    wanted = {
        "huber": (tf.losses.huber_loss(labels, found, delta=0.3), huber.mean()),
        "log": (tf.losses.log_loss(labels, found), cross.mean()),
        "hinge": (
            tf.losses.hinge_loss(labels, found),
            np.maximum(0, 1 - (2 * RIGHT - 1) * FOUND).mean(),
        ),
        "cosine": (
            tf.losses.cosine_distance(labels, found, dim=1),
            (1 - (RIGHT * FOUND).sum(1)).mean(),
        ),
    }
    got = run({k: t for k, (t, _) in wanted.items()}, {labels: RIGHT, found: FOUND})
    for name, (_, value) in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, err_msg=name)
    assert len(tf.losses.get_losses()) == 4


@pytest.mark.parametrize("step", [0, 3, 10, 25])
def test_rates(step):
    held = tf.placeholder(tf.int32, [])
    rates = [
        tf.train.natural_exp_decay(0.1, held, 10, 0.5),
        tf.train.cosine_decay(0.1, held, 20, alpha=0.2),
        tf.train.cosine_decay_restarts(0.1, held, 10, t_mul=2.0, m_mul=0.5),
        tf.train.linear_cosine_decay(0.1, held, 20),
    ]
    first, begin, length, gain = step, 0, 10, 1.0
    while first >= begin + length:
        begin, length, gain = begin + length, 2 * length, gain / 2
    half = [math.cos(math.pi * x) / 2 + 0.5 for x in
            (min(step, 20) / 20, (step - begin) / length)]  # fmt: skip
    wanted = [
        0.1 * math.exp(-0.5 * step / 10),
        0.1 * (0.8 * half[0] + 0.2),
        0.1 * gain * half[1],
        0.1 * ((1 - min(step, 20) / 20) * half[0] + 0.001),
    ]
    np.testing.assert_allclose(run(rates, {held: step}), wanted, rtol=1e-4, atol=1e-7)


def test_files_can_be_looked_into(tmp_path):
    v = tf.get_variable("a/v", [2], initializer=tf.ones_initializer())
    path = str(tmp_path / "model")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, path)
    reader = tf.train.NewCheckpointReader(path)
    assert reader.get_variable_to_shape_map() == {"a/v": [2]}
    assert reader.get_variable_to_dtype_map() == {"a/v": tf.float32}
    assert reader.has_tensor("a/v") and not reader.has_tensor("b")
    assert tf.train.list_variables(str(tmp_path)) == [("a/v", [2])]
    assert tf.train.load_variable(path, "a/v").tolist() == [1, 1]
    with pytest.raises(tf.errors.NotFoundError, match="not found"):
        reader.get_tensor("b")
    with pytest.raises(tf.errors.NotFoundError, match=r"TensorSliceReader.*no file"):
        tf.train.NewCheckpointReader(f"{path}er")
    (tmp_path / "half.safetensors").write_bytes(b"half")
    with pytest.raises(tf.errors.DataLossError, match=r"half.* is damaged"):
        tf.train.NewCheckpointReader(str(tmp_path / "half"))
    with tf.Graph().as_default():
        one = tf.get_variable("b/v", [2])
        other = tf.get_variable("w", [2])
        wrong = tf.get_variable("wrong", [3])
        tf.train.init_from_checkpoint(path, {"a/": "b/", "a/v": other})
        with pytest.raises(ValueError, match="shape"):
            tf.train.init_from_checkpoint(path, {"a/v": wrong})
        assert [x.tolist() for x in run([one, other])] == [[1, 1], [1, 1]]
    assert v.name == "a/v:0"


def test_monitored_sessions_of_creators(tmp_path):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    path = str(tmp_path / "model")
    with tf.train.SingularMonitoredSession() as session:
        session.run(v.assign(5.0))
        tf.train.Saver().save(session.raw_session(), path)
    scaffold = tf.train.Scaffold(init_fn=lambda _, s: s.run(v.assign(3.0)))
    creator = tf.train.ChiefSessionCreator(scaffold=scaffold)
    with tf.train.MonitoredSession(creator) as session:
        assert session.run(v) == 3.0
    creator = tf.train.ChiefSessionCreator(checkpoint_dir=str(tmp_path))
    with tf.train.MonitoredSession(creator) as session:
        assert session.run(v) == 5.0
    creator = tf.train.ChiefSessionCreator(checkpoint_filename_with_path=path)
    with tf.train.MonitoredSession(creator) as session:
        assert session.run(v) == 5.0


def test_iterators_by_handle():
    one = tf.data.Dataset.from_tensor_slices(np.arange(4.0)).batch(2)
    other = tf.data.Dataset.from_tensor_slices(np.arange(10.0, 14.0)).batch(2)
    handle = tf.placeholder(tf.string, shape=[])
    types, shapes = tf.data.get_output_types(one), tf.data.get_output_shapes(one)
    iterator = tf.data.Iterator.from_string_handle(handle, types, shapes)
    following = iterator.get_next()
    first, second = one.make_one_shot_iterator(), other.make_initializable_iterator()
    with tf.Session() as session:
        a = session.run(first.string_handle())
        b = session.run(second.string_handle())
        session.run(second.initializer)
        got = [session.run(following, {handle: h}).tolist() for h in (a, b, a, b)]
        assert got == [[0, 1], [10, 11], [2, 3], [12, 13]]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(following, {handle: a})
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a handle"):
            session.run(following, {handle: b"other"})


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_transposed_convolutions(padding):
    x = tf.placeholder(tf.float32, [None, 4, None, 3])
    init = tf.ones_initializer()
    y = tf.layers.conv2d_transpose(
        x, 2, 3, 2, padding, name="up", bias_initializer=init
    )
    same = tf.layers.conv2d_transpose(x, 2, 3, 2, padding, name="up", reuse=True)
    kernel = tf.trainable_variables()
    assert [v.name for v in kernel] == ["up/kernel:0", "up/bias:0"]
    rows = RNG.normal(size=(2, 4, 5, 3)).astype(np.float32)
    got, again, k = run([y, same, kernel[0]], {x: rows})
    whole = np.zeros((2, 9, 11, 2), np.float32)
    for i in range(4):
        for j in range(5):
            piece = np.einsum("bc,hwoc->bhwo", rows[:, i, j], k)
            whole[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += piece
    wanted = whole if padding == "valid" else whole[:, :8, :10]
    np.testing.assert_allclose(got, wanted + 1, rtol=1e-4, atol=1e-5)
    assert (got == again).all()


def test_batch_normalization_begins_as_it_is_told():
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.layers.batch_normalization(
        x,
        beta_initializer=tf.constant_initializer(3.0),
        gamma_initializer=tf.constant_initializer(2.0),
        moving_mean_initializer=tf.ones_initializer(),
        epsilon=0.0,
        fused=True,
    )
    assert run(y, {x: [[1.0, 2.0]]}).tolist() == [[3.0, 5.0]]


def test_layers_of_a_placeholder_that_says_whether_to_train():
    training = tf.placeholder(tf.bool)
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    y = tf.layers.batch_normalization(x, training=training)
    y = tf.layers.dropout(tf.layers.max_pooling2d(y, 2, 2), 0.5, training=training)
    assert y.shape.as_list() == [None, 4, 4, 3]
    feed = {x: np.ones((2, 8, 8, 3))}
    assert np.allclose(run(y, {**feed, training: False}), 1, atol=1e-3)
    assert np.allclose(run(y, {**feed, training: True}), 0, atol=1e-3)


def test_what_a_graph_consists_of():
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.identity(x, name="y")
    nodes = tf.get_default_graph().as_graph_def().node
    assert (nodes[0].name, nodes[0].op) == ("x", "Placeholder")
    assert nodes[-1].name == "y" and nodes[-1].input == ["x:0"]
    options = tf.OptimizerOptions(global_jit_level=tf.OptimizerOptions.ON_1)
    config = tf.ConfigProto(graph_options=tf.GraphOptions(optimizer_options=options))
    assert config.graph_options.optimizer_options.global_jit_level == 1


@pytest.mark.parametrize("door", ["native", "drop-in"])
def test_flags_are_read_when_the_first_is_asked_for(door, tmp_path):
    program = tmp_path / "program.py"
    first = "import tensorflow.compat.v1 as tf\n"
    if door == "native":
        first = "from ipu.tf.compat import v1 as tf\n"
    program.write_text(
        first + "tf.Summary()\ntf.app.flags.DEFINE_integer('steps', 3, 'how many')\n"
        "print(tf.app.flags.FLAGS.steps, tf.flags.FLAGS.steps)\n"
    )
    runner = [] if door == "native" else ["-m", "ipu", "run"]
    words = [sys.executable, *runner, str(program), "--steps=5"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout == "5 5\n", done.stderr


def test_operations_without_nodes_run_after_others():
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    with tf.control_dependencies([v.assign_add(1.0)]):
        done = tf.no_op()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(done)
        assert session.run(v) == 1.0


def test_arguments_in_their_older_order():
    scores = tf.constant([[1.0, 2.0, 0.0], [3.0, 1.0, 2.0]])
    classes = tf.placeholder(tf.int32, [None])
    mean, _ = tf.nn.weighted_moments(scores, [1], tf.ones([2, 3]), keep_dims=True)
    got = run(
        [
            tf.nn.in_top_k(scores, classes, 2),
            tf.pad([[1.0]], [[1, 0], [0, 0]], "CONSTANT", "padded", 2.0),
            tf.argmax(scores, 1, "best"),
            mean,
        ],
        {classes: [0, 1]},
    )
    assert got[0].tolist() == [True, False] and got[1].tolist() == [[2.0], [1.0]]
    assert got[2].tolist() == [1, 0]
    assert got[3].tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("kind", ["nce_loss", "sampled_softmax_loss"])
def test_losses_that_draw_classes(kind):
    words = tf.placeholder(tf.int32, [4])
    labels = tf.placeholder(tf.int32, [4, 1])
    table = tf.Variable(tf.random_uniform([20, 3], -1.0, 1.0, seed=1))
    weights = tf.Variable(tf.truncated_normal([20, 3], stddev=0.5, seed=2))
    loss = tf.reduce_mean(
        getattr(tf.nn, kind)(
            weights=weights,
            biases=tf.Variable(tf.zeros([20])),
            labels=labels,
            inputs=tf.nn.embedding_lookup(table, words),
            num_sampled=5,
            num_classes=20,
            partition_strategy="div",
        )
    )
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    feed = {words: [1, 2, 3, 4], labels: [[2], [3], [4], [5]]}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train], feed)[0] for _ in range(40)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_older_helpers():
    v = tf.get_local_variable("v", [3], initializer=tf.zeros_initializer())
    assert v in tf.local_variables() and v not in tf.trainable_variables()
    table = tf.Variable([1.0, 2.0, 3.0])
    changed = tf.scatter_nd_update(table, [[1]], [7.0])
    with tf.container("rows"), tf.colocate_with(table.op):
        one, two = tf.identity_n([table * 2.0, table * 3.0])
    values, _ = tf.self_adjoint_eig([[2.0, 0.0], [0.0, 1.0]])
    got = run(
        [
            tf.sparse_to_dense([1, 2], [4], 1.0),
            tf.sparse_to_dense([[0, 1], [1, 0]], [2, 2], [5, 6], default_value=-1),
            tf.batch_gather([[1.0, 2.0], [3.0, 4.0]], [[1], [0]]),
            tf.verify_tensor_all_finite(one, "not finite"),
            tf.parallel_stack([one, two]),
            values,
        ]
    )
    assert got[0].tolist() == [0, 1, 1, 0] and got[1].tolist() == [[-1, 5], [6, -1]]
    assert got[2].tolist() == [[2.0], [3.0]] and got[3].tolist() == [2.0, 4.0, 6.0]
    assert got[4].shape == (2, 3)
    np.testing.assert_allclose(got[5], [1.0, 2.0])
    assert run(changed).tolist() == [1.0, 7.0, 3.0]


def test_templates_share_their_variables():
    def scaled(x, by):
        return x * by * tf.get_variable("w", [], initializer=tf.ones_initializer())

    scale = tf.make_template("scale", scaled, by=3.0)
    one, two = scale(tf.constant(1.0)), scale(tf.constant(2.0))
    other = tf.make_template("scale", scaled, by=4.0)(tf.constant(1.0))
    names = [one.name for one in tf.trainable_variables()]
    assert names == ["scale/w:0", "scale_1/w:0"]
    assert run([one, two, other]) == [3.0, 6.0, 4.0]


def test_default_names_begin_anew_in_a_scope_that_is_opened_again():
    """As in every program of two networks that judges real and made pictures."""

    def judge(x, reuse):
        with tf.variable_scope("judge", reuse=reuse) as scope:
            with tf.variable_scope("inner"):
                x = tf.layers.dense(tf.layers.dense(x, 4), 2)
            x = tf.layers.dense(x, 1)
        return x, scope

    x = tf.ones([2, 3])
    judge(x, False)
    judge(x, True)
    y, scope = judge(x, True)
    for _ in range(2):  # a scope that is gone back to is left as it was found
        with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
            tf.layers.dense(tf.ones([2, 2]), 1)
    names = [one.name for one in tf.trainable_variables() if "kernel" in one.name]
    places = ["inner/dense", "inner/dense_1", "dense"]
    assert names == [f"judge/{place}/kernel:0" for place in places]
    assert run(y).shape == (2, 1)


def test_a_variable_got_by_its_name_is_assigned():
    v = tf.get_variable("v", [2], initializer=tf.constant_initializer([3.0, 4.0]))
    found = tf.get_default_graph().get_tensor_by_name("v:0")
    clipped = tf.assign(found, tf.clip_by_norm(found, clip_norm=1.0))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(clipped)
        np.testing.assert_allclose(session.run(v), [0.6, 0.8], rtol=1e-6)
