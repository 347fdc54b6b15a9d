# SPDX-License-Identifier: MIT
"""The modules of ``ipu.ops``: numbers, gradients, what they refuse.

Reference values of CTC and of sampled losses are those of TensorFlow 2.21 on the same
data: tf.nn.ctc_loss, tf.nn.sampled_softmax_loss without the removal of accidental hits,
tf.nn.nce_loss."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import drop_in, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.ops import (
    _sampled_losses,
    control_flow_ops,
    embedding_ops,
    functional_ops,
    image_ops,
    internal_ops,
    math_ops,
    nn_ops,
    rand_ops,
    slicing_ops,
    statistics_ops,
)
from ipu.tf import errors

MODULES = [
    "all_to_all_op",
    "control_flow_ops",
    "embedding_ops",
    "functional_ops",
    "image_ops",
    "internal_ops",
    "math_ops",
    "nn_ops",
    "rand_ops",
    "reduce_scatter_op",
    "slicing_ops",
    "statistics_ops",
    "within_replica_ops",
]


def compiled(function: Callable[..., Any], *args: Any) -> Any:
    return IPUStrategy().run(tf.function(function, jit_compile=True), args)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    module = importlib.import_module(f"ipu.ops.{name}")
    assert getattr(ipu, name) is module
    assert importlib.import_module(f"ipu.{name}") is module
    assert getattr(ipu, name) is module


def test_old_programs_find_them() -> None:
    drop_in.install()
    try:
        from tensorflow.python import ipu as served
        from tensorflow.python.ipu.ops import math_ops as by_path

        assert by_path.segment_sum is math_ops.segment_sum
        assert served.nn_ops.gelu is nn_ops.gelu
        assert served.outlined_function is functional_ops.outlined_function
    finally:
        drop_in.uninstall()


# --- functions, order, printing -------------------------------------------------------


@pytest.mark.parametrize("kind", ["bare", "called", "wrapped"])
def test_outlined_functions(kind: str) -> None:
    scale = tf.Variable(3.0)

    def body(x: Any, y: Any) -> Any:
        return {"sum": x * scale + y, "x": x}

    if kind == "bare":
        outlined = ipu.outlined_function(body)
    else:
        outlined = ipu.outlined_function(unique_sharding=True, name="f")(body)
    if kind == "wrapped":
        outlined = nn_ops.multi_conv(options={"planType": "parallel"})(outlined)

    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = outlined(outlined(x, 1.0)["sum"], 2.0)["sum"]
        return loss, tape.gradient(loss, scale)

    # (3 x + 1) 3 + 2, and its derivative 6 x + 1
    assert [float(v) for v in compiled(train, 2.0)] == [23.0, 13.0]


def test_outlined_functions_take_tensors_by_position() -> None:
    with pytest.raises(TypeError, match="takes a function of tensors"):
        ipu.outlined_function(3)
    with pytest.raises(TypeError):
        ipu.outlined_function(lambda x: x)(x=1.0)
    with pytest.raises(TypeError, match="to be a `dict`"):
        nn_ops.multi_conv(options="fast")


def test_hints_hand_on_what_they_get() -> None:
    def hints(x: Any) -> Any:
        y = internal_ops.remap(internal_ops.remap_deduce(x))
        y = internal_ops.recompute(internal_ops.block_recompute(y))
        pair = control_flow_ops.barrier({"a": y, "b": [x]}, True)
        return tf.gradients(pair["a"] * pair["b"][0], [x])

    assert float(compiled(hints, np.float32(3.0))[0]) == 6.0


def test_printing(capfd: pytest.CaptureFixture[str]) -> None:
    def run(x: Any) -> Any:
        for _ in tf.range(2):
            internal_ops.print_tensor(x, "x")
        return x

    compiled(run, 1.5)
    assert capfd.readouterr().err.splitlines() == ["x: 1.5", "x: 1.5"]


# --- products, segments, lookups ------------------------------------------------------


@pytest.mark.parametrize("dimension", ["a_columns", "a_rows_b_columns", "b_rows"])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_serialized_products(dimension: str, transposed: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 6, 8))
    operands = [
        np.float32(np.swapaxes(x, -1, -2) if turn else x)
        for x, turn in zip((a, b), transposed, strict=True)
    ]
    product = math_ops.serialized_matmul(*operands, 2, dimension, *transposed)
    np.testing.assert_allclose(product, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "factor", "dimension", "message"),
    [
        (((4, 6), (6, 8)), 0, "a_columns", "at least 1"),
        (((4, 6), (6, 8)), 3, "a_columns", "must divide a_columns.*3 for a size of 4"),
        (((4, 6), (6, 8)), 4, "a_rows_b_columns", "must divide.*for a size of 6"),
        (((4, 6), (6, 8)), 3, "b_rows", "must divide b_rows.*for a size of 8"),
        (((4, 6), (6, 8)), 2, "b_columns", "Invalid serialization_dimension="),
        (((6,), (6, 8)), 2, "b_rows", "`a` must have at least two axes"),
    ],
)
def test_products_that_cannot_be_cut(
    shapes: Any, factor: int, dimension: str, message: str
) -> None:
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        math_ops.serialized_matmul(a, b, factor, dimension)


def test_segments() -> None:
    def sums(data: Any, ids: Any) -> Any:
        result = math_ops.segment_sum(data, ids, 4)
        return result, tf.gradients(result * result, [data])[0]

    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    total, gradient = compiled(sums, data, np.int32([0, 2, 2]))
    np.testing.assert_array_equal(total, [[0, 1], [0, 0], [6, 8], [0, 0]])
    np.testing.assert_array_equal(gradient, [[0, 2], [12, 16], [12, 16]])
    with pytest.raises(ValueError, match="a number for each row"):
        math_ops.segment_sum(data, [0, 1], 2)
    with pytest.raises(ValueError, match="in rising order"):
        math_ops.segment_sum(data, [0, 2, 1], 3)


def test_lookups() -> None:
    table = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2))

    def train(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            rows = embedding_ops.embedding_lookup(table, ids, serialization_factor=2)
            loss = tf.reduce_sum(rows * rows)
        return rows, tf.convert_to_tensor(tape.gradient(loss, table))

    rows, gradient = compiled(train, np.int32([[3], [3]]))
    np.testing.assert_array_equal(rows, [[[6, 7]], [[6, 7]]])
    np.testing.assert_array_equal(gradient, [[0, 0], [0, 0], [0, 0], [24, 28]])
    for factor in (0, 3):
        with pytest.raises(ValueError, match=f"Received: {factor} for 4 rows"):
            embedding_ops.embedding_lookup(table, [0], serialization_factor=factor)


# --- random numbers, histograms, images -----------------------------------------------


def test_dropout_masks() -> None:
    x = np.ones((1000,), np.float32)
    first, again, other = (
        rand_ops.dropout(x, 0.25, seed=[1, last]).numpy() for last in (2, 2, 3)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert set(np.unique(first)) == {0, np.float32(1 / 0.75)}
    assert 650 < np.count_nonzero(first) < 850
    columns = rand_ops.dropout(np.ones((50, 8)), 0.5, [1, 8], [3, 4]).numpy()
    assert (columns == columns[0]).all()

    def masked(x: Any) -> Any:
        y = rand_ops.dropout(x)
        return y, tf.gradients(y, [x])[0]

    value, gradient = compiled(masked, x)
    np.testing.assert_array_equal(value, gradient)
    assert 0 < np.count_nonzero(value) < 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 1.0}, r"in \[0, 1\). Received: 1.0"),
        ({"rate": -0.5}, r"in \[0, 1\)"),
        ({"noise_shape": [1]}, "a size for each axis"),
        ({"noise_shape": [2, 3]}, "noise_shape"),
        ({"seed": [1, 2, 3]}, "two integers"),
        ({"seed": 7}, "two integers"),
    ],
)
def test_dropout_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rand_ops.dropout(np.ones((4, 3), np.float32), **arguments)


def test_histograms() -> None:
    values = np.linspace(0.1, 1.0, 10, dtype=np.float32)
    levels = np.float32([0.25, 0.5, 0.75, 1.0])

    def count(values: Any) -> Any:
        counts = statistics_ops.histogram(values, levels)
        more = statistics_ops.histogram_update(counts, -values, levels, True)
        return counts, more, statistics_ops.histogram_normalize(more)

    counts, more, shares = compiled(count, values)
    np.testing.assert_array_equal(counts, [2, 2, 3, 2, 1])
    np.testing.assert_array_equal(more, [4, 4, 6, 4, 2])
    np.testing.assert_allclose(shares, [0.2, 0.2, 0.3, 0.2, 0.1], rtol=1e-6)
    half = statistics_ops.histogram(np.float16(values), np.float16([0.5]))
    assert half.dtype == tf.float32
    np.testing.assert_allclose(
        statistics_ops.fixed_width_bins(values, 4), [0.1, 0.4, 0.7, 1.0], rtol=1e-6
    )
    for wrong in (np.ones((2, 2), np.float32), np.int32([1])):
        with pytest.raises(ValueError, match="a vector of float16 or float32"):
            statistics_ops.histogram(wrong, levels)
    with pytest.raises(ValueError, match="one dtype"):
        statistics_ops.histogram(values, np.float16(levels))
    with pytest.raises(ValueError, match="one element more than levels"):
        statistics_ops.histogram_update([1.0], values, levels)
    with pytest.raises(ValueError, match="float32 vector"):
        statistics_ops.histogram_normalize(np.float16([1]))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_images(dtype: str) -> None:
    image = np.arange(12).reshape(2, 2, 3).astype(dtype)
    made = image_ops.normalise_image(image, [1, 2, 3], [0.5, 1, 2], 2)
    assert made.dtype.name == ("float16" if dtype == "uint8" else dtype)
    wanted = (np.float32(image) * 2 - [1, 2, 3]) * [0.5, 1, 2]
    np.testing.assert_array_equal(made[..., :3], wanted)
    np.testing.assert_array_equal(made[..., 3], np.zeros((2, 2)))
    with pytest.raises(TypeError, match="Received: int32"):
        image_ops.normalise_image(np.int32(image), [1] * 3, [1] * 3)
    with pytest.raises(ValueError, match="channel_scales"):
        image_ops.normalise_image(image, [1] * 3, [1] * 4)


# --- runs of rows ---------------------------------------------------------------------


@pytest.mark.parametrize("zero_unused", [False, True])
def test_runs_of_rows(zero_unused: bool) -> None:
    """Against a loop over random runs."""
    rng = np.random.default_rng(int(zero_unused))
    copy = tf.function(slicing_ops.sequence_slice, jit_compile=True)
    for _ in range(20):
        src = rng.normal(size=(7, 2)).astype(np.float32)
        dst = rng.normal(size=(5, 2)).astype(np.float32)
        lengths = rng.integers(0, len(dst) + 1, 3)
        begins = [rng.integers(0, len(src) - n + 1) for n in lengths]
        places = [rng.integers(0, len(dst) - n + 1) for n in lengths]
        wanted = np.zeros_like(dst) if zero_unused else dst.copy()
        for n, begin, place in zip(lengths, begins, places, strict=True):
            wanted[place : place + n] = src[begin : begin + n]
        runs = [np.int32(v) for v in (lengths, begins, places)]
        eager = slicing_ops.sequence_slice(dst, src, *runs, zero_unused)
        np.testing.assert_array_equal(eager, wanted)
        np.testing.assert_array_equal(copy(dst, src, *runs, zero_unused), wanted)
        rows = slicing_ops.sequence_slice_unpack(src, *runs[:2], int(lengths.sum()) + 2)
        back = slicing_ops.sequence_slice_pack(dst, rows, runs[0], runs[2], zero_unused)
        np.testing.assert_array_equal(back, wanted)
        assert not rows.numpy()[lengths.sum() :].any()


def test_gradients_of_runs() -> None:
    def both(dst: Any, src: Any) -> Any:
        made = slicing_ops.sequence_slice(dst, src, [2, 1], [1, 1], [0, 3], False)
        return tf.gradients(made * [[1.0], [2.0], [3.0], [4.0]], [dst, src])

    to_dst, to_src = compiled(both, np.ones((4, 1), "f4"), np.ones((3, 1), "f4"))
    np.testing.assert_array_equal(to_dst, [[0], [0], [3], [0]])
    np.testing.assert_array_equal(to_src, [[0], [5], [2]])


def test_runs_that_do_not_fit() -> None:
    dst, src = np.zeros((4, 2), np.float32), np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="matching, nonzero shapes of rank 1"):
        slicing_ops.sequence_slice(dst, src, [1, 2], [0], [0, 1], False)
    with pytest.raises(ValueError, match="matching, nonzero"):
        slicing_ops.sequence_slice_unpack(src, [], [], 2)
    with pytest.raises(ValueError, match="inner shapes must match"):
        slicing_ops.sequence_slice(dst, src[:, :1], [1], [0], [0], False)
    with pytest.raises(ValueError, match="at least two axes"):
        slicing_ops.sequence_slice(dst[0], src[0], [1], [0], [0], False)
    with pytest.raises(ValueError, match="Slice 1 takes 2 rows from row 2 on of src"):
        slicing_ops.sequence_slice(dst, src, [1, 2], [0, 2], [0, 0], False)
    with pytest.raises(ValueError, match="from row 3 on of dst, which has 4"):
        slicing_ops.sequence_slice_pack(dst, src, [2], [3], False)
    with pytest.raises(errors.InvalidArgumentError):
        tf.function(slicing_ops.sequence_slice, jit_compile=True)(
            dst, src, np.int32([2]), np.int32([2]), np.int32([0]), False
        )


# --- losses over many classes ---------------------------------------------------------

TIME, BATCH, CLASSES = 6, 4, 5
LABELS = np.int32([[1, 2, 3], [2, 2, 0], [4, 0, 0], [0, 0, 0]])
LABEL_LENGTHS, TIMES = np.int32([3, 2, 1, 0]), np.int32([6, 5, 1, 4])
LOSSES = [6.148054599761963, 4.863386154174805, 4.165231227874756, 8.119318008422852]
# of the losses to the logits, projected on cos(0), cos(1), ...; and its first row
PROJECTED = 2.148003578186035
FIRST = [
    *(0.053949691355228424, -0.3479921817779541, 0.05122426897287369),
    *(0.013405516743659973, 0.22941264510154724),
]


def logits() -> np.ndarray:
    values = np.sin(np.arange(TIME * BATCH * CLASSES) * 1.7).astype(np.float32) * 2
    return values.reshape(TIME, BATCH, CLASSES)


@pytest.mark.parametrize("kind", ["logits", "log_probs"])
def test_ctc(kind: str) -> None:
    def train(x: Any) -> Any:
        if kind == "logits":
            loss = nn_ops.ctc_loss_v2(LABELS, x, LABEL_LENGTHS, TIMES, 0)
        else:
            data = tf.nn.log_softmax(x)
            loss = nn_ops.ctc_loss_with_log_probs(LABELS, data, LABEL_LENGTHS, TIMES, 0)
        return loss, tf.gradients(loss, [x])[0]

    loss, gradient = compiled(train, logits())
    np.testing.assert_allclose(loss, LOSSES, rtol=1e-5)
    np.testing.assert_allclose(gradient[0, 0], FIRST, rtol=1e-4, atol=1e-6)
    against = np.cos(np.arange(gradient.numpy().size)).reshape(gradient.shape)
    np.testing.assert_allclose((gradient * against).numpy().sum(), PROJECTED, rtol=1e-4)


def test_ctc_of_labels_that_do_not_fit() -> None:
    loss = nn_ops.ctc_loss_v2(LABELS, logits(), LABEL_LENGTHS, TIMES * 0 + 1, 0)
    assert loss.numpy()[0] > 1e29
    assert np.isfinite(loss.numpy()).all()


def test_ctc_with_the_blank_elsewhere() -> None:
    """Classes in another order, the blank last: the same losses."""
    order = [1, 2, 3, 4, 0]
    where = np.argsort(order).astype(np.int32)
    moved = logits()[..., order]
    loss = nn_ops.ctc_loss_v2(where[LABELS], moved, LABEL_LENGTHS, TIMES, -1)
    np.testing.assert_allclose(loss, LOSSES, rtol=1e-5)


def test_ctc_arguments() -> None:
    with pytest.raises(ValueError, match="labels must be"):
        nn_ops.ctc_loss_v2(LABELS[:2], logits(), LABEL_LENGTHS, TIMES, 0)
    with pytest.raises(ValueError, match="data_length must have a number"):
        nn_ops.ctc_loss_v2(LABELS, logits(), LABEL_LENGTHS, TIMES[:1], 0)
    with pytest.raises(ValueError, match="cannot be float16 when dtype of logits is"):
        nn_ops.ctc_loss_v2(LABELS, logits(), LABEL_LENGTHS, TIMES, 0, tf.float16)


SAMPLED = (
    np.int64([1, 4, 7, 3]),
    np.float32([[0.9, 0.5], [0.6, 0.6], [0.1, 0.7]]),
    np.float32([0.7, 0.4, 0.2, 0.5]),
)
SOFTMAX = [3.9221761226654053, 5.039595603942871, 3.88818359375]
NCE = [6.381587505340576, 8.688138008117676, 9.2655658268667]


@pytest.mark.parametrize("name", ["sampled_softmax_loss", "nce_loss"])
def test_sampled_losses(name: str) -> None:
    weights = np.cos(np.arange(40) * 0.7).reshape(10, 4).astype(np.float32)
    biases = np.linspace(-1, 1, 10, dtype=np.float32)
    inputs = np.sin(np.arange(12) * 0.9).reshape(3, 4).astype(np.float32)
    labels = [[0, 3], [2, 2], [9, 1]]
    loss = getattr(nn_ops, name)

    def run(w: Any) -> Any:
        return loss(w, biases, labels, inputs, 4, 10, 2, sampled_values=SAMPLED)

    wanted = SOFTMAX if name == "sampled_softmax_loss" else NCE
    np.testing.assert_allclose(compiled(run, weights), wanted, rtol=1e-5)
    drawn = loss(weights, biases, labels, inputs, 4, 10, 2)
    assert np.isfinite(drawn.numpy()).all()
    with pytest.raises(ValueError, match="Received: 11 of 10"):
        loss(weights, biases, labels, inputs, 11, 10, 2)
    with pytest.raises(ValueError, match=r"\[batch, num_true\]: \[3, 1\]"):
        loss(weights, biases, labels, inputs, 4, 10)


def test_candidates() -> None:
    """Without repetition; the frequent first; expected as often as they come."""
    true = tf.constant([[0], [9]])

    def draw(true: Any) -> Any:
        return _sampled_losses.log_uniform_candidates(true, 4, 10, None)

    drawing = tf.function(draw, jit_compile=True)
    seen, expected = np.zeros(10), np.zeros(2)
    rounds = 300
    for _ in range(rounds):
        classes, of_true, of_drawn = drawing(true)
        assert len(set(classes.numpy().tolist())) == 4
        assert (of_drawn.numpy() > 0).all()
        seen[classes.numpy()] += 1
        expected += of_true.numpy()[:, 0]
    np.testing.assert_allclose(seen[[0, 9]] / rounds, expected / rounds, atol=0.1)
    assert seen[0] > 2 * seen[9]


def test_outlined_functions_capture_no_tensors() -> None:
    v = tf.Variable(3.0)

    @tf.function(jit_compile=True)
    def program(x: Any, kind: str) -> Any:
        outside = x * 2.0
        inside = {
            "tensor": lambda z: z + x,
            "of a loop": lambda z: tf.while_loop(
                lambda i, a: i < 2, lambda i, a: (i + 1, a + x), (0, z)
            )[1],
            "variable": lambda z: z * v + tf.constant([1.0, 2.0]) * 2.0,
            "loop": lambda z: tf.while_loop(
                lambda i, a: i < 2, lambda i, a: (i + 1, a + z), (0, z)
            )[1],
        }[kind]
        return ipu.outlined_function(inside)(outside)

    x = tf.constant([1.0, 2.0])
    for kind in ("tensor", "of a loop"):
        with pytest.raises(ValueError, match=r"capture the tensor .*pass"):
            program(x, kind)
    assert program(x, "variable").numpy().tolist() == [8.0, 16.0]
    assert program(x, "loop").numpy().tolist() == [6.0, 12.0]


def test_a_package_with_a_second_name_is_loaded_once() -> None:
    program = """
import ipu.tf.optimizers.schedules as second
from ipu import keras, tf
assert second is keras.optimizers.schedules and tf.optimizers is keras.optimizers
import ipu.tf.metrics
assert ipu.tf.metrics is keras.metrics
"""
    subprocess.run([sys.executable, "-c", program], check=True)


OLD_NAMES = """
gradient_accumulation.GradientAccumulationReductionMethod IPUInfeedQueue
IPUOutfeedQueue function outlined_function
optimizers.GradientAccumulationReductionMethod
optimizers.gradient_accumulation_optimizer.GradientAccumulationReductionMethod
keras.PipelineSequential keras.layers.CTCInferenceLayer
keras.layers.CTCPredictionsLayer eager.backprop.GradientCaptureTape
keras.optimizers.CrossReplicaOptimizer pipelining_ops.pipeline
ops.pipelining_ops.pipeline functional_ops.outlined_function
""".split()
KERAS_NAMES = """
ipu.PipelineStage ipu.optimizers.ALSOptimizer ipu.extensions.PipelineStage
ipu.layers.CaptureUpstreamGradients ipu.ReplicatedMetricReductionMethod
ipu.extensions.pipeline_stage_assignment.PipelineStage
""".split()


@pytest.mark.parametrize("door", ["native", "drop-in"])
def test_names_of_old_programs(door: str, tmp_path: Path) -> None:
    """Both doors find them in one table."""
    native = door == "native"
    program = tmp_path / "program.py"
    program.write_text(
        ("import ipu\n" if native else "from tensorflow.python import ipu\n")
        + ("from ipu import keras\n" if native else "from tensorflow import keras\n")
        + "".join(f"ipu.{name}\n" for name in OLD_NAMES)
        + "".join(f"keras.{name}\n" for name in KERAS_NAMES)
    )
    words = [str(program)] if native else ["-m", "ipu", "run", str(program)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
