"""Keras models in pipelines, one device configuration after another (SDK 2.x)."""

import json

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import Model
from tensorflow.keras.layers import Dense, Flatten, Input
from tensorflow.python import ipu
from tensorflow.python.keras.engine.sequential import Sequential

BATCH_SIZE = 8
STEPS = 40
EPOCHS = 3
ACCUMULATED = 4

Schedule = ipu.ops.pipelining_ops.PipelineSchedule


def create_dataset():
    images = tf.random.uniform([256, 28, 28], maxval=256, dtype=tf.int32, seed=3)
    labels = tf.math.floormod(tf.range(256), 10)
    ds = tf.data.Dataset.from_tensor_slices((images, labels))
    ds = ds.batch(BATCH_SIZE, drop_remainder=True)
    # the images have no channel, and the labels are floats
    ds = ds.map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, tf.cast(y, tf.float32)))
    return ds.repeat()


def configure(num_ipus: int, order: ipu.utils.SelectionOrder = None):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = num_ipus
    if order:
        config.selection_order = order
    config.configure_ipu_system()


class Batches(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(batch)

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(batch)


def train(model_factory, num_ipus, steps_per_replica=ACCUMULATED):
    configure(num_ipus, ipu.utils.SelectionOrder.ZIGZAG)
    strategy = ipu.ipu_strategy.IPUStrategy()
    tf.random.set_seed(5)
    with strategy.scope():
        model = model_factory()
        model.compile(
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=tf.keras.optimizers.SGD(learning_rate=0.01, momentum=0.9),
            steps_per_execution=STEPS,
        )
        if steps_per_replica:
            model.set_pipelining_options(
                gradient_accumulation_steps_per_replica=steps_per_replica
            )
        batches = Batches()
        history = model.fit(
            create_dataset(),
            steps_per_epoch=STEPS,
            epochs=EPOCHS,
            callbacks=[batches],
            verbose=0,
        )
        stages = [a.pipeline_stage for a in model.get_pipeline_stage_assignment()]
        return {
            "losses": history.history["loss"],
            "updates": int(model.optimizer.iterations.numpy()),
            "batches": batches.seen,
            "stages": stages,
        }


def functional():
    inputs = Input(shape=(28, 28, 1), dtype=tf.float32, batch_size=BATCH_SIZE)
    x = Flatten()(inputs)
    x = Dense(32, activation="relu")(x)
    x = Dense(16, activation="relu")(x)
    return Model(inputs=inputs, outputs=Dense(10)(x), name="one")


def functional_in_stages():
    inputs = Input(shape=(28, 28, 1), dtype=tf.float32, batch_size=BATCH_SIZE)
    with ipu.keras.PipelineStage(0):
        x = Flatten()(inputs)
        x = Dense(32, activation="relu")(x)
    with ipu.keras.PipelineStage(1):
        x = Dense(16, activation="relu")(x)
        x = Dense(10)(x)
    return Model(inputs=inputs, outputs=x, name="two")


def sequential():
    return Sequential(
        layers=[
            Flatten(),
            Dense(32, activation="relu"),
            Dense(16, activation="relu"),
            Dense(10, activation="softmax"),
        ],
        name="stack",
    )


def sequential_in_stages():
    model = sequential()
    model.set_pipeline_stage_assignment([0, 0, 1, 1])
    return model


def sequential_under_a_name_that_the_next_call_drops():
    model = sequential_in_stages()
    model.set_pipelining_options(schedule=Schedule.Interleaved)
    return model


def interleaved():
    model = sequential_in_stages()
    model.set_pipelining_options(ACCUMULATED, schedule=Schedule.Interleaved)
    return model


print(
    json.dumps(
        {
            "one": train(functional, 1),
            "stack": train(sequential, 1),
            "two": train(functional_in_stages, 2),
            "two_stack": train(sequential_in_stages, 2),
            "dropped": train(sequential_under_a_name_that_the_next_call_drops, 2),
            "interleaved": train(interleaved, 2, None),
        }
    )
)
