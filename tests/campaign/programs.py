# SPDX-License-Identifier: MIT
"""Thirty small programs into which something breaks; each makes steps of one size.

What users write in them (callbacks, functions of data sets, generators, layers while
they are traced) calls :func:`here`.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ipu import keras, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue, IPUOutfeedQueueIterator
from ipu.ipu_strategy import IPUStrategy
from ipu.ops.pipelining_ops import OptimizerFunctionOutput, PipelineSchedule, pipeline
from ipu.tf._functions.function import DeviceFunction
from ipu.tf.compat import v1

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
Y = np.array([0, 1, 2, 0], np.int32)
D = tf.data.Dataset
_hook: list[Callable[[], None]] = []


def here() -> None:
    """A place where code of the user runs."""
    for hook in _hook:
        hook()


class Program(NamedTuple):
    """A program.

    Attributes:
        run: Makes so many steps; what it gives is the same whenever it ends.
        state: The variables after a step.
        spoil: Deletes or closes what it uses.
        ipus: How many IPUs it runs on.
    """

    run: Callable[[int], Any]
    state: Callable[[], list[Any]] = list
    spoil: Callable[[], Any] = lambda: None
    ipus: int = 1


def _numbers(count: int) -> Iterator[np.ndarray[Any, Any]]:
    for _ in range(count):
        here()
        yield X


def _generated(count: int) -> Any:
    spec = tf.TensorSpec(X.shape, tf.float32)
    return D.from_generator(_numbers, args=(count,), output_signature=spec)


def _seen(x: Any) -> Any:
    here()
    return x


def _through_python(x: Any) -> Any:
    return tf.reshape(tf.py_function(_seen, [x], tf.float32), tf.shape(x))


# --- Keras ----------------------------------------------------------------------------


@keras.saving.register_keras_serializable("campaign")
class Traced(keras.layers.Layer):
    """A layer that runs the user's code while it is traced."""

    def call(self, x: Any) -> Any:
        here()
        return x * 0.5


class Calls(keras.callbacks.Callback):
    """All that a callback can hear of."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        here()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        here()

    on_test_batch_end = on_predict_batch_end = on_train_batch_end
    on_epoch_end = on_epoch_begin

    def on_train_begin(self, logs: Any = None) -> None:
        here()

    on_train_end = on_test_begin = on_predict_end = on_train_begin


def _model(optimizer: str = "adam", **options: Any) -> Any:
    tf.random.set_seed(1)
    stack = [
        keras.Input((6,)),
        keras.layers.Dense(5, "tanh"),
        Traced(),
        keras.layers.Dense(3),
    ]
    model = keras.Sequential(stack)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], **options)
    model.optimizer.build(model.trainable_variables)
    return model


def _state(model: Any) -> Callable[[], list[Any]]:
    return lambda: [*model.get_weights(), *model.optimizer.get_weights()]


def _rows(count: int) -> tuple[Any, Any]:
    return np.tile(X, (count, 1)), np.tile(Y, count)


def _fits(model: Any, data: Callable[[int], Any], **options: Any) -> Program:
    def run(count: int) -> None:
        given = data(count)
        x, y = given if isinstance(given, tuple) else (given, None)
        model.fit(x, y, shuffle=False, verbose=0, callbacks=[Calls()], **options)

    return Program(run, _state(model))


def fit() -> Program:
    return _fits(_model(), _rows, batch_size=4)


def fit_and_validate() -> Program:
    return _fits(_model("sgd"), _rows, batch_size=4, validation_data=(X, Y))


def fit_many_steps() -> Program:
    return _fits(_model(steps_per_execution=3), _rows, batch_size=4)


def fit_generator() -> Program:
    return _fits(_model(), lambda count: zip(_numbers(count), itertools.repeat(Y)))


def fit_data() -> Program:
    def data(count: int) -> Any:
        rows = _generated(count).map(lambda x: (_through_python(x), Y))
        return rows.prefetch(2)

    return _fits(_model(), data)


def fit_in_strategy() -> Program:
    with IPUStrategy().scope():
        made = _fits(_model(), lambda n: D.from_tensors((X, Y)).repeat(n).map(_pair))

    def run(count: int) -> None:
        with IPUStrategy().scope():
            made.run(count)

    return made._replace(run=run)


def _pair(x: Any, y: Any) -> Any:
    return _through_python(x), y


def train_on_batch() -> Program:
    model = _model()

    def run(count: int) -> None:
        for _ in range(count):
            here()
            model.train_on_batch(X, Y)

    return Program(run, _state(model))


def own_loop() -> Program:
    model = _model()

    @tf.function
    def step(x: Any, y: Any) -> None:
        here()
        with tf.GradientTape() as tape:
            loss = model.compiled_loss(y, model(x, training=True))
        weights = model.trainable_variables
        pairs = zip(tape.gradient(loss, weights), weights, strict=True)
        model.optimizer.apply_gradients(pairs)

    def run(count: int) -> None:
        for x in _generated(count).prefetch(1):
            step(x, tf.constant(Y))

    return Program(run, _state(model))


def evaluate() -> Program:
    model = _model()

    def run(count: int) -> Any:
        return model.evaluate(*_rows(count), 4, verbose=0, callbacks=[Calls()])

    return Program(run, _state(model))


def predict() -> Program:
    model = _model()

    def run(count: int) -> Any:
        data = _generated(count).map(_through_python)
        return model.predict(data, verbose=0, callbacks=[Calls()])

    return Program(run)


def files() -> Program:
    folder = tempfile.TemporaryDirectory()
    model = _model()

    def run(count: int) -> Any:
        found = []
        for end in ("keras", "h5", "safetensors"):
            model.save(f"{folder.name}/m.{end}")
            found += keras.models.load_model(f"{folder.name}/m.{end}").get_weights()
        return found

    return Program(run)


def checkpoints() -> Program:
    folder = tempfile.TemporaryDirectory()
    model = _model()
    kept = tf.train.Checkpoint(model=model, count=tf.Variable(0))
    manager = tf.train.CheckpointManager(kept, folder.name, max_to_keep=2)

    def run(count: int) -> None:
        for _ in range(count):
            model.train_on_batch(X, Y)
            manager.save()
            here()
            kept.restore(manager.latest_checkpoint)

    return Program(run, _state(model))


def fit_with_files() -> Program:
    folder = tempfile.TemporaryDirectory()
    saves = keras.callbacks.ModelCheckpoint(f"{folder.name}/m.keras", save_freq=1)
    backup = keras.callbacks.BackupAndRestore(f"{folder.name}/b")
    model = _model()

    def run(count: int) -> None:
        backup.on_train_end()  # each run is a new one
        calls = [Calls(), saves, backup]
        model.fit(*_rows(count), 4, verbose=0, shuffle=False, callbacks=calls)

    return Program(run, _state(model))


# --- functions and tapes --------------------------------------------------------------


def function() -> Program:
    total = tf.Variable(np.zeros(6, np.float32))

    @tf.function
    def step(x: Any) -> Any:
        here()
        total.assign_add(tf.reduce_sum(tf.tanh(x + total), 0))
        return tf.reduce_sum(x)

    def run(count: int) -> Any:
        return [float(step(tf.constant(X))) for _ in range(count)]

    return Program(run, lambda: [total.numpy()])


def while_loop() -> Program:
    a, b = tf.Variable(1.0), tf.Variable(np.ones(6, np.float32))

    @tf.function
    def steps(count: Any) -> None:
        here()
        for _ in tf.range(count):
            a.assign(tf.sin(a) + 1.0)
            b.assign(b * 0.5 + a)

    def run(count: int) -> None:
        steps(tf.constant(count))

    return Program(run, lambda: [a.numpy(), b.numpy()])


def tape() -> Program:
    weights = tf.Variable(np.ones((6, 3), np.float32))

    def run(count: int) -> None:
        for _ in range(count):
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    loss = tf.reduce_sum(tf.nn.softmax(X @ weights)[:, 0])
                    here()
                found = inner.gradient(loss, weights)
                loss = loss + tf.reduce_sum(found * found)
            weights.assign_sub(0.1 * tape.gradient(loss, weights))

    return Program(run, lambda: [weights.numpy()])


def two_threads() -> Program:
    made = [function(), function()]

    def run(count: int) -> None:
        other = threading.Thread(target=made[1].run, args=(count,))
        other.start()
        try:
            made[0].run(count)
        finally:
            other.join()

    return Program(run, made[0].state)


# --- queues ---------------------------------------------------------------------------


def _queues(data: Callable[[int], Any], ipus: int = 1, ahead: bool = False) -> Program:
    total, other = tf.Variable(np.zeros(6, np.float32)), tf.Variable(1.0)
    open_ones: list[Any] = []

    def run(count: int) -> None:
        infeed, outfeed = IPUInfeedQueue(data(count * ipus)), IPUOutfeedQueue()
        open_ones[:] = [infeed]

        def body(x: Any) -> None:
            here()
            total.assign(total * 0.5 + tf.reduce_sum(x, 0))
            other.assign_add(1.0)
            outfeed.enqueue(other)

        work = DeviceFunction(lambda: loops.repeat(count, body, [], infeed))
        _ = infeed.initializer
        try:
            work()
            if ahead:
                assert len([*IPUOutfeedQueueIterator(outfeed)]) == count
            else:
                assert len(outfeed.dequeue()) == count
        finally:
            open_ones.clear()
            _ = infeed.deleter

    def spoil() -> None:
        for one in open_ones:
            # it has not been initialized, or is in use
            with suppress(tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
                _ = one.deleter

    return Program(run, lambda: [total.numpy(), other.numpy()], spoil, ipus)


def queues() -> Program:
    return _queues(lambda count: D.from_tensors(X).repeat())


def queues_of_generators() -> Program:
    return _queues(_generated, ahead=True)


def queues_of_functions() -> Program:
    return _queues(lambda count: _generated(count).map(_through_python).prefetch(2))


def replicas() -> Program:
    return _queues(_generated, 2)


def device_loop() -> Program:
    total = tf.Variable(0.0)

    def run(count: int) -> None:
        def body(x: Any) -> Any:
            total.assign_add(1.0)
            return tf.tanh(x @ tf.ones((6, 6)))

        for _ in range(count):
            DeviceFunction(lambda: loops.repeat(1, body, [tf.constant(X)]))()
            here()

    return Program(run, lambda: [total.numpy()])


# --- pipelines ------------------------------------------------------------------------

BATCHES = 4  # of an update


def _pipeline(schedule: PipelineSchedule, **options: Any) -> Program:
    weights = [tf.Variable(np.full((6, 6), 0.1, "f4")), tf.Variable(np.ones(6, "f4"))]

    def first(x: Any) -> Any:
        here()
        return tf.tanh(x @ weights[0])

    def second(x: Any) -> Any:
        return tf.reduce_mean(x * weights[1])

    def optimize(loss: Any) -> OptimizerFunctionOutput:
        sgd = keras.optimizers.SGD(0.1)
        return OptimizerFunctionOutput(sgd, loss, variables=weights)

    def run(count: int) -> None:
        infeed, outfeed = IPUInfeedQueue(_generated(count * BATCHES)), IPUOutfeedQueue()
        work = DeviceFunction(
            lambda: pipeline(
                [first, second],
                gradient_accumulation_count=BATCHES,
                repeat_count=count,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimize,
                pipeline_schedule=schedule,
                reduction_method="sum",
            )
        )
        _ = infeed.initializer
        try:
            work()
            outfeed.dequeue()
        finally:
            _ = infeed.deleter

    return Program(run, lambda: [one.numpy() for one in weights], ipus=2)


def pipeline_grouped() -> Program:
    return _pipeline(PipelineSchedule.Grouped)


def pipeline_sequential() -> Program:
    return _pipeline(PipelineSchedule.Sequential)


def pipeline_one_forward() -> Program:
    return _pipeline(PipelineSchedule.OneForwardOneBackward)


def pipeline_zero_bubble() -> Program:
    return _pipeline(PipelineSchedule.ZeroBubble)


def keras_pipeline() -> Program:
    with IPUStrategy().scope():
        model = _model("sgd", steps_per_execution=BATCHES)
        model.set_pipelining_options(BATCHES, pipeline_schedule="1F1B")
        model.set_pipeline_stage_assignment([0, 0, 1])

    def run(count: int) -> None:
        with IPUStrategy().scope():
            size = tf.data.experimental.assert_cardinality(count * BATCHES)
            data = _generated(count * BATCHES).map(lambda x: (x, Y)).apply(size)
            model.fit(data, verbose=0, callbacks=[Calls()], shuffle=False)

    return Program(run, _state(model), ipus=2)


# --- sessions -------------------------------------------------------------------------


def session() -> Program:
    graph = v1.Graph()
    with graph.as_default():
        w = v1.get_variable("w", [6, 3], initializer=v1.ones_initializer())
        data = D.from_tensors(X).repeat().prefetch(2)
        rows = v1.data.make_one_shot_iterator(data).get_next()
        x = v1.placeholder("float32", (4, 6))
        loss = v1.reduce_sum(v1.tanh(v1.matmul(x + 0.0 * rows, w)))
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        made = v1.Session()
        made.run(v1.global_variables_initializer())

    def run(count: int) -> None:
        for _ in range(count):
            made.run([step, loss], {x: X})

    return Program(run, lambda: [made.run(w)], made.close)


class Hook(v1.train.SessionRunHook):  # type: ignore[misc]
    """All that a hook can hear of."""

    def begin(self) -> None:
        here()

    def after_create_session(self, session: Any, coord: Any) -> None:
        here()

    def before_run(self, run_context: Any) -> None:
        here()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        here()

    def end(self, session: Any) -> None:
        here()


def monitored() -> Program:
    def run(count: int) -> Any:
        with v1.Graph().as_default():
            w = v1.get_variable("w", [6, 3], initializer=v1.ones_initializer())
            loss = v1.reduce_sum(v1.tanh(v1.matmul(X, w)))
            step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
            found = []
            with v1.train.MonitoredTrainingSession(hooks=[Hook()]) as session:
                for _ in range(count):
                    session.run(step)
                    found.append(session.run(w))
            return found

    return Program(run)


def summaries() -> Program:
    folder = tempfile.TemporaryDirectory()
    writer = tf.summary.create_file_writer(folder.name)

    def run(count: int) -> None:
        with writer.as_default():
            for step in range(count):
                here()
                tf.summary.scalar("a", float(step), step=step)
                tf.summary.histogram("x", X, step=step)
                writer.flush()

    return Program(run, list, writer.close)


# --- data -----------------------------------------------------------------------------


def _reads(data: Callable[[int], Any]) -> Program:
    def run(count: int) -> Any:
        return [np.array(x) for x in data(4 * count)]

    return Program(run)


def data_map() -> Program:
    return _reads(
        lambda count: (
            D.range(count)
            .map(
                lambda i: tf.py_function(_seen, [tf.cast(i, tf.float32)], tf.float32), 2
            )
            .shuffle(3, seed=1)
            .batch(2)
            .prefetch(1)
        )
    )


def data_generator() -> Program:
    return _reads(lambda count: _generated(count).batch(2).prefetch(2).unbatch())


def data_interleave() -> Program:
    return _reads(
        lambda count: D.range(2).interleave(
            lambda i: _generated(count).prefetch(1), cycle_length=2
        )
    )


def data_cache() -> Program:
    return _reads(lambda count: _generated(count).cache().repeat(2))


def data_file() -> Program:
    folder = tempfile.TemporaryDirectory()
    names = itertools.count()
    return _reads(
        lambda count: _generated(count).cache(f"{folder.name}/{next(names)}").repeat(2)
    )


def data_iterator() -> Program:
    kept: list[Any] = []

    def run(count: int) -> Any:
        kept[:] = [iter(_generated(4 * count).prefetch(1))]
        return [next(kept[0]).numpy() for _ in range(4 * count)]

    return Program(run, list, kept.clear)


def strategy_run() -> Program:
    strategy = IPUStrategy()
    with strategy.scope():
        total = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        here()
        total.assign_add(tf.reduce_sum(x))
        return total

    def run(count: int) -> None:
        for x in _generated(count):
            strategy.run(step, args=[x])

    return Program(run, lambda: [total.numpy()])


PROGRAMS: dict[str, Callable[[], Program]] = {
    made.__name__: made
    for made in (
        *(fit, fit_and_validate, fit_many_steps, fit_generator, fit_data),
        *(fit_in_strategy, train_on_batch, own_loop, evaluate, predict, files),
        *(checkpoints, fit_with_files, function, while_loop, tape, two_threads),
        *(queues, queues_of_generators, queues_of_functions, replicas, device_loop),
        *(pipeline_grouped, pipeline_sequential, pipeline_one_forward),
        *(pipeline_zero_bubble, keras_pipeline, session, monitored, data_map),
        *(data_generator, data_interleave, data_cache, data_file, data_iterator),
        *(strategy_run, summaries),
    )
}
