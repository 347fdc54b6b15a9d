# SPDX-License-Identifier: MIT
"""What test files and users of Keras rely on beside numbers: names, lists, widths."""

import numpy as np
import pytest

import ipu
from ipu import keras, loops, tf
from ipu.keras.callbacks import Callback, CallbackList
from ipu.keras.layers import Dense


def functional(*units):
    x = keras.Input([3])
    y = x
    for count in units:
        y = Dense(count)(y)
    return keras.Model(x, y)


def test_names_of_models():
    keras.backend.clear_session()
    assert [functional(2).name for _ in range(2)] == ["model", "model_1"]
    assert keras.Sequential().name == "sequential"
    assert keras.Model.from_config(functional(2).get_config()).name == "model_2"


def test_layers_at_the_ends_of_a_model():
    a, b = keras.Input([3], name="a"), keras.Input([3], name="b")
    out = Dense(2, name="out")(keras.layers.add([a, b]))
    model = keras.Model([a, b], [out, a])
    assert [layer.name for layer in model._input_layers] == ["a", "b"]
    assert [layer.name for layer in model._output_layers] == ["out", "a"]


def test_weights_before_a_model_is_built():
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = Dense(2)

        def call(self, x):
            return self.dense(x)

    class Building(Plain):
        def build(self, input_shape):
            super().build(input_shape)

    plain = Plain()
    assert plain.weights == [] and plain.trainable_variables == []
    plain(np.ones((1, 3), np.float32))
    assert len(plain.weights) == 2
    for made in (Building(), keras.Sequential([Dense(2)])):
        with pytest.raises(ValueError, match="have not yet been created"):
            _ = made.weights


def test_widths_of_a_summary(capsys):
    keras.backend.clear_session()
    functional(4, 2).summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "_" * 65 and "=" * 65 in lines
    assert [lines[2].index(word) for word in ("Output", "Param")] == [29, 55]
    assert lines[4].split() == ["input_1", "(InputLayer)", "[(None,", "3)]", "0"]
    assert lines[5].index("(None, 4)") == 29 and lines[5].index("16") == 55
    keras.Sequential([Dense(2, input_shape=(3,))]).summary(line_length=80)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "_" * 80 and lines[2].index("Output") == 36
    long = Dense(2, name="a_layer_whose_name_is_longer_than_its_column")
    keras.Sequential([keras.Input([3]), long]).summary()
    assert f"{long.name} (Dense)" in capsys.readouterr().out


def test_lists_of_callbacks():
    seen = []

    class Told(Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((epoch, logs))

        def on_train_begin(self, logs=None):
            seen.append(logs)

    assert CallbackList().callbacks == []
    model = functional(1)
    made = CallbackList(Told(), add_history=True, add_progbar=True, model=model)
    names = [type(one).__name__ for one in made.callbacks]
    assert names == ["Told", "ProgbarLogger", "History"]
    assert made.callbacks[0].model is model and made.callbacks[2].model is model
    told = CallbackList([Told()], epochs=2, steps=3)
    assert told.params == {"epochs": 2, "steps": 3}
    told.append(Told())
    told.on_train_begin()
    told.on_epoch_end(1, {"loss": 2.0})
    assert seen == [{}, {}, (1, {"loss": 2.0}), (1, {"loss": 2.0})]
    with pytest.raises(AttributeError):
        _ = told.nothing


def test_programs_of_one_infeed_one_after_the_other():
    data = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32))
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(data.repeat())
    _ = queue.initializer

    def program(count, factor):
        return tf.function(
            lambda: loops.repeat(count, lambda t, x: t + factor * x, [0.0], queue),
            jit_compile=True,
        )

    first, second = program(3, 1.0), program(2, 10.0)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        got = [float(strategy.run(one)) for one in (first, second, first)]
    assert got == [3.0, 70.0, 18.0]
