# SPDX-License-Identifier: MIT
"""A user's program, for type checkers alone: lines that end in `# wrong` are.

``test_editors.py`` compares these lines with those that mypy and pyright complain of.
"""

from typing import Any

import numpy as np
from typing_extensions import assert_type

import ipu
from ipu import keras, tf
from ipu.keras import layers
from ipu.pipelining_ops import PipelineSchedule

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.ipu_model.version = "ipu21"
config.auto_select_ipu = 1  # wrong
config.auto_select_ipus = "1"  # wrong
config.ipu_model.versoin = "ipu21"  # wrong
config.configure_ipu_system()
ipu.ipu_stratgy.IPUStrategy()  # wrong
print(ipu.pipelining_ops.PipelineSchedule.Groupd)  # wrong

# --- tensors

x = tf.constant([1.0, 2.0])
assert_type(x, tf.Tensor)
assert_type(x + 1, tf.Tensor)
assert_type(2 * x - x / 3.0, tf.Tensor)
assert_type(2.0**x, tf.Tensor)
assert_type(x @ x, tf.Tensor)
assert_type(-x, tf.Tensor)
assert_type(x > 1.0, tf.Tensor)
assert_type(x[0], tf.Tensor)
assert_type(tf.reduce_mean(x), tf.Tensor)
assert_type(tf.nn.relu(x), tf.Tensor)
assert_type(tf.math.log(x), tf.Tensor)
assert_type(tf.cast(x, tf.int32), tf.Tensor)
assert_type(tf.random.normal((2, 3)), tf.Tensor)
tf.reduce_men(x)  # wrong
tf.nn.rellu(x)  # wrong
tf.math.lgo(x)  # wrong
x.nunpy()  # wrong
tf.reduce_sum(x, axes=1)  # wrong

v = tf.Variable(2.0)
assert_type(v + 1.0, tf.Tensor)
assert_type(v * x, tf.Tensor)
assert_type(v.assign_add(1.0), tf.Variable)
assert_type(v.value(), tf.Tensor)
v.asign(1.0)  # wrong

with tf.GradientTape() as tape:
    y = v * v
gradient = tape.gradient(y, v)
print(gradient.numpy())
for one in tape.gradient(y, [v, v]):
    print(one.numpy())
tape.gradients(y, v)  # wrong

# --- functions


@tf.function
def double(a: tf.Tensor, times: int = 2) -> tf.Tensor:
    return a * times


@tf.function(jit_compile=True)
def both(a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return a, double(a)


assert_type(double(x), tf.Tensor)
assert_type(both(x), tuple[tf.Tensor, tf.Tensor])
double(x, tims=3)  # wrong
double()  # wrong
print(double.explain())

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    assert_type(strategy.run(double, args=(x,)), tf.Tensor)
    assert_type(strategy.run(both, args=[x]), tuple[tf.Tensor, tf.Tensor])
    strategy.runn(double, args=(x,))  # wrong

# --- models


class Scale(keras.layers.Layer):
    def build(self, input_shape: Any) -> None:
        self.factor = self.add_weight("factor", (), initializer="ones")

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        return inputs * self.factor


class Own(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3, activation="relu")

    def call(self, batch: tf.Tensor) -> tf.Tensor:
        return self.dense(batch)

    @tf.function
    def twice(self, a: tf.Tensor) -> tf.Tensor:
        return self(a) * 2.0


class Bell(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        print(epoch, logs)


assert_type(Own().twice(x), tf.Tensor)
assert_type(Scale()(x), tf.Tensor)
assert_type(layers.Dense(2)(np.zeros((2, 2))), tf.Tensor)
inputs = keras.Input((4,))
outputs = layers.Dense(1)(layers.Concatenate()([inputs, inputs * 2.0]))
model = keras.Model(inputs, outputs)
stack = keras.Sequential([layers.Dense(2), keras.layers.Dropout(0.5)])
keras.layers.Dens(2)  # wrong
layers.Dense(units=2, actvation="relu")  # wrong
layers.LSTM(2, retrun_sequences=True)  # wrong
layers.BatchNormalization(momentun=0.9)  # wrong
layers.Flatten(nmae="flat")  # wrong
layers.Dense(2, input_shape=(4,), name="one", dtype="float16")
keras.Sequential([keras.Input((4,)), layers.Dense(2)])
keras.Sequential([layers.Dense(2), stack])
keras.optimizer.Adam()  # wrong
keras.optimizers.Adamm()  # wrong
keras.losses.MeanSquaredEror()  # wrong
tf.keras.layers.Dens(2)  # wrong
model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
model.compil()  # wrong
model.compile(optimiser="adam")  # wrong
model.compile("adam", "mse", jit_compile=True)
history = model.fit(np.zeros((8, 4)), np.zeros((8, 1)), callbacks=[Bell()])
assert_type(history, keras.callbacks.History)
assert_type(history.history, dict[str, list[float]])
model.fit(np.zeros((8, 4)), epoch=3)  # wrong
assert_type(stack.trainable_variables, list[tf.Variable])
print(model.predict(np.zeros((8, 4))).argmax(axis=-1))
model.predict(np.zeros((8, 4))).argmux()  # wrong
print(model.evaluate(np.zeros((8, 4)), return_dict=True)["loss"])


class Wider(layers.Dense):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(2 * units, **kwargs)


class Careful(keras.Model):
    def compile(self, *args: Any, **kwargs: Any) -> None:
        super().compile(*args, **kwargs)


# --- schedules

ipu.Timetable("1F1B", 2)
ipu.Timetable("1F2B", 2)  # wrong
print(PipelineSchedule.Grouped)
model.set_pipelining_options(pipeline_schedule=PipelineSchedule.Interleaved)

# --- data

(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
x_train = x_train / 255
x_test = x_test.astype("float32") / 255.0
y_train = keras.utils.to_categorical(y_train)

data = tf.data.Dataset.from_tensor_slices(np.arange(10.0))
assert_type(data.shuffle(10).batch(2, drop_remainder=True), tf.data.Dataset)
assert_type(data.map(lambda a: a + 1.0).repeat().prefetch(2), tf.data.Dataset)
assert_type(tf.data.Dataset.zip((data, data)), tf.data.Dataset)
data.shufle(10)  # wrong
data.batch(2, drop_remander=True)  # wrong
for element in data.take(3):
    print(element)
