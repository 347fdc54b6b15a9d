"""What fit, evaluate and predict refuse, and in which words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from trained_classifiers import (
    BATCH,
    CLASSES,
    FEATURES,
    SAMPLES,
    STEPS,
    X,
    Y,
    batches,
    classifier,
)

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy


def of_generator() -> object:
    """A data set of one batch, whose size is not known."""
    return tf.data.Dataset.from_generator(
        lambda: iter([(X[:8], Y[:8])]),
        output_signature=(
            tf.TensorSpec((8, FEATURES), tf.float32),
            tf.TensorSpec((8,), tf.int32),
        ),
    )


def test_step_errors() -> None:
    model = classifier(1)
    with pytest.raises(ValueError, match=r"When providing an infinite dataset"):
        model.fit(batches(repeat=True), verbose=0)
    with pytest.raises(ValueError, match="empty"):
        model.fit(batches().take(0), verbose=0)
    with pytest.raises(ValueError, match="`steps_per_epoch` must be a positive"):
        model.fit(batches(), steps_per_epoch=0, verbose=0)


def test_step_errors_in_a_strategy() -> None:
    with IPUStrategy().scope():
        with pytest.raises(
            ValueError, match=r"`steps_per_execution` \(4\) must be a divisor"
        ):
            classifier(4).fit(batches(), verbose=0)
        model = classifier(1)
        with pytest.raises(ValueError, match=r"does not have enough data.*at least 7"):
            model.fit(batches(), steps_per_epoch=7, verbose=0)
        with pytest.raises(ValueError, match=r"does not have enough data.*at least 8"):
            model.fit(batches(), steps_per_epoch=4, epochs=2, verbose=0)
        with pytest.raises(ValueError, match="Could not infer the size of the data"):
            model.fit(of_generator(), verbose=0)
        with pytest.raises(tf.errors.OutOfRangeError):
            model.fit(of_generator(), steps_per_epoch=2, verbose=0)
        assert model.fit(of_generator(), steps_per_epoch=1, verbose=0).epoch == [0]


def test_partial_batches_in_a_strategy() -> None:
    fit_way = r"size=10.* Or give fit the first 16 samples\. Or drop.*remainder=True"
    fill = r"Or fill the input up to 24 samples and keep the first 19 results. A model"
    with IPUStrategy().scope():
        model = classifier(1)
        with pytest.raises(ValueError, match=rf"partial batch.*{fit_way}"):
            model.fit(X[:20], Y[:20], batch_size=8, verbose=0)
        with pytest.raises(ValueError, match=r"8, which leaves 3\. .* Or give eval"):
            model.evaluate(X[:19], Y[:19], batch_size=8, verbose=0)
        with pytest.raises(ValueError, match=rf"leaves 3\. .*{fill}"):
            model.predict(X[:19], batch_size=8)
        open_batch = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
        with pytest.raises(ValueError, match="drop_remainder=True"):
            model.fit(open_batch, verbose=0)


def test_data_errors() -> None:
    model = classifier(1)
    with pytest.raises(ValueError, match="Data cardinality is ambiguous"):
        model.fit(X, Y[:-1], verbose=0)
    with pytest.raises(TypeError, match="dataset length is unknown"):
        model.fit(X[:0], Y[:0], verbose=0)
    with pytest.raises(ValueError, match="`y` argument is not supported"):
        model.fit(batches(), Y, verbose=0)
    with pytest.raises(ValueError, match="must not be specified"):
        model.fit(batches(), batch_size=8, verbose=0)
    with pytest.raises(ValueError, match="needs targets"):
        model.fit(X, batch_size=8, verbose=0)
    with pytest.raises(TypeError, match="dtype that no device has"):
        model.fit(X.astype(str), Y, batch_size=8, verbose=0)
    with pytest.raises(ValueError, match=r"layer dense.*axis -1|expected shape"):
        model.fit(X[:, :4], Y, batch_size=8, verbose=0)


def test_labels_outside_of_the_classes() -> None:
    model = classifier(STEPS)
    wrong = Y.copy()
    wrong[-1] = CLASSES
    with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
        model.fit(X, wrong, batch_size=BATCH, shuffle=False, verbose=0)
    model.fit(X, Y, batch_size=BATCH, verbose=0)


def test_an_exception_in_map_or_generator_reaches_the_caller() -> None:
    def data() -> object:
        yield X[:8], Y[:8]
        raise RuntimeError("the disk is full")

    broken = tf.data.Dataset.from_generator(
        data,
        output_signature=(
            tf.TensorSpec((8, FEATURES), tf.float32),
            tf.TensorSpec((8,), tf.int32),
        ),
    )
    model = classifier(2)
    with pytest.raises(Exception, match="the disk is full"):
        model.fit(broken, steps_per_epoch=2, verbose=0)
    model.fit(batches(), verbose=0)


def test_model_errors() -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(FEATURES,))])
    for call in (model.fit, model.evaluate):
        with pytest.raises(RuntimeError, match=r"You must compile your model before "):
            call(X, Y, verbose=0)
    assert model.predict(X, batch_size=BATCH).shape == (SAMPLES, 1)
    with pytest.raises(ValueError, match="Did you mean 'sgd'"):
        model.compile("sdg", "mse")
    with pytest.raises(ValueError, match="Did you mean 'accuracy'"):
        model.compile("sgd", "mse", metrics=["acuracy"])
    with pytest.raises(ValueError, match="Unknown loss function"):
        model.compile("sgd", "nonsense")
    with pytest.raises(ValueError, match="positive integer"):
        model.compile("sgd", "mse", steps_per_execution=0)
    model.compile("sgd")
    with pytest.raises(ValueError, match="no loss to optimize"):
        model.fit(X, Y, BATCH, verbose=0)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict", "predict_on_batch"])
def test_no_training_inside_of_functions(method) -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    function = tf.function(lambda: getattr(model, method)(np.ones((2, 2))))
    with pytest.raises(RuntimeError, match=r"inside a `tf\.function`"):
        function()


def test_a_model_of_another_device_is_refused() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    try:
        with ipu.ipu_strategy.IPUStrategy("/device:IPU:1").scope():
            model = classifier(1)
            model.predict(np.ones((4, 6), np.float32), batch_size=4)
        model._strategy = None
        again = "Make the model again"
        with pytest.raises(tf.errors.FailedPreconditionError, match=again):
            model.fit(batches(), verbose=0)
    finally:
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
    model.fit(batches(), verbose=0)  # its device is gone: it follows


def test_devices_are_not_replaced_during_fit() -> None:
    class Replaces(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            ipu.config.reset_ipu_configuration()

    model = classifier(1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="callback of fit"):
        model.fit(batches(), verbose=0, callbacks=[Replaces()])
    model.fit(batches(), verbose=0)


def test_shape_errors_name_layer_and_line() -> None:
    class Odd(keras.layers.Layer):
        def build(self, input_shape: tuple) -> None:
            self.w = self.add_weight("w", (7, 3))

        def call(self, inputs: object) -> object:
            return tf.matmul(inputs, self.w)  # here

    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(i + 1 for i, text in enumerate(lines) if text.endswith("# here"))
    with pytest.raises(Exception, match=r'layer "odd_one"') as caught:
        keras.Sequential([Odd(name="odd_one", input_shape=(6,))])
    assert f"{Path(__file__).name}:{line}" in str(caught.value)
    assert "(None, 6)" in str(caught.value)
