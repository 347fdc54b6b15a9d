"""A training over several processes: what each ends with, in `INDEX.json`.

several_processes.py REPLICAS_OF_THIS_PROCESS
"""

import hashlib
import json
import sys

import numpy as np

import ipu
from ipu import (
    all_to_all_op,
    cross_replica_ops,
    distributed,
    keras,
    reduce_scatter_op,
    tf,
)
from ipu.distributed.popdist_strategy import PopDistStrategy

rng = np.random.default_rng(0)
x = rng.normal(size=(256, 20)).astype("f4")
y = rng.integers(0, 4, 256).astype("i4")
found = {}


def digest(*arrays):
    parts = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)
    return hashlib.sha256(parts).hexdigest()[:16]


def configured(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    strategy = PopDistStrategy()
    strategy.update_ipu_config(config)
    config.configure_ipu_system()
    return strategy


def layers():
    dense, dropout = keras.layers.Dense, keras.layers.Dropout
    return [
        dense(64, "relu"),
        keras.layers.BatchNormalization(),
        dropout(0.2),
        dense(4),
    ]


class Exchanged(keras.layers.Layer):
    """What replicas gather and deal out to each other, with their gradients."""

    def call(self, x):
        gathered = all_to_all_op.all_gather(x, 4)
        return x + tf.reduce_mean(gathered, 0) + all_to_all_op.all_to_all(x, 1, 1, 4)


def compiled(model):
    model.compile(
        keras.optimizers.Adam(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=4,
    )
    model.set_replication_options("MEAN")
    return model


def keep(name, model):
    history = model.fit(x, y, batch_size=8, epochs=2, validation_data=(x, y), verbose=0)
    found[name] = {
        "history": history.history,
        "evaluated": model.evaluate(x, y, batch_size=8, verbose=0),
        "predicted": digest(model.predict(x, batch_size=8)),
        "weights": digest(*(weight.numpy() for weight in model.weights)),
    }


replicas = int(sys.argv[1])
strategy = configured(replicas)
# first values are those of process 0, whatever the others have
tf.random.set_seed(distributed.process_index())
with strategy.scope():
    keep("plain", compiled(keras.Sequential(layers())))

    accumulated = compiled(keras.Sequential(layers()))
    accumulated.set_gradient_accumulation_options(4)
    keep("accumulated", accumulated)

    keras.mixed_precision.set_global_policy("mixed_float16")
    keep("halves", compiled(keras.Sequential(layers())))
    keras.mixed_precision.set_global_policy("float32")

    @tf.function(jit_compile=True)
    def exchanged():
        own = tf.random.normal([4, 1500])
        gathered = all_to_all_op.all_gather(own[0, :7], 4)
        dealt = all_to_all_op.all_to_all(own, 0, 0, 4)
        pairs = cross_replica_ops.cross_replica_sum(own, 2)
        empty = cross_replica_ops.cross_replica_sum(own[:, :0])
        halves = cross_replica_ops.cross_replica_mean(tf.cast(own, tf.float16))
        whole = cross_replica_ops.cross_replica_sum(tf.cast(own, tf.int32))
        sums = cross_replica_ops.cross_replica_sum(dealt), halves, whole, gathered
        return *sums, cross_replica_ops.cross_replica_sum(pairs), empty

    @tf.function(jit_compile=True)
    def turned_back():
        parts = tf.random.normal([8, 9])
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                tape.watch(parts)
                dealt = all_to_all_op.all_to_all(parts, 0, 1, 4)
                kept = [
                    reduce_scatter_op.reduce_scatter(
                        tf.cast(tf.reshape(dealt, [-1])[:71], dtype),
                        4,
                        f"COLLECTIVE_OP_{op}",
                    )
                    for dtype in (tf.float16, tf.float32)
                    for op in ("ADD", "MEAN", "MAX")
                ]
                gathered = [all_to_all_op.all_gather(one, 2) for one in kept]
                loss = sum(
                    tf.reduce_sum(tf.cast(one, tf.float32) ** 2) for one in gathered
                )
            parts -= 0.01 * tape.gradient(loss, parts)
        return all_to_all_op.all_gather(parts, 4)

    found["turned back"] = digest(strategy.run(turned_back).numpy())
    results = strategy.run(exchanged)
    found["exchanged"] = digest(*(result.numpy() for result in results))

strategy = configured(2 * replicas)
with strategy.scope():
    first, *rest = layers()
    stack = [keras.Input((20,)), first, Exchanged(), *rest, Exchanged()]
    pipelined = compiled(keras.Sequential(stack))
    pipelined.set_pipeline_stage_assignment([0, 0, 0, 1, 1, 1])
    pipelined.set_pipelining_options(4)
    keep("pipelined", pipelined)

value = np.float32(distributed.process_index() + 1)
total = float(distributed.allreduce(value, tf.distribute.ReduceOp.SUM))
count = distributed.process_count()
assert total == count * (count + 1) / 2
assert distributed.allgather([value]).numpy().tolist() == [
    [p + 1.0] for p in range(count)
]
assert float(distributed.broadcast(value, count - 1)) == count
assert strategy.num_replicas_in_sync == replicas * count
with open(f"{distributed.process_index()}.json", "w") as file:
    json.dump([count, found], file)
