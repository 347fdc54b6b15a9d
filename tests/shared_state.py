"""Trainings whose optimizers' state replicas share out, or do not: what each ends with,
in `INDEX.json`.

shared_state.py REPLICAS_OF_THIS_PROCESS SHARES FOLDER EPOCHS
"""

import hashlib
import json
import sys
import time
from functools import partial

import numpy as np

import ipu
from ipu import distributed, keras, tf
from ipu.distributed.popdist_strategy import PopDistStrategy

replicas, shares, folder = int(sys.argv[1]), sys.argv[2] == "1", sys.argv[3]
rng = np.random.default_rng(0)
x = rng.normal(size=(192, 7)).astype("f4")
y = rng.integers(0, 3, 192).astype("i4")
found = {}
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "clipped": lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1),
    "norms": lambda: keras.optimizers.Lamb(0.01),
    "decay": lambda: keras.optimizers.AdamW(0.01, use_ema=True, ema_momentum=0.9),
}


def digest(arrays):
    parts = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)
    return hashlib.sha256(parts).hexdigest()[:16]


def configured(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    strategy = PopDistStrategy()
    strategy.update_ipu_config(config)
    config.configure_ipu_system()
    return strategy


def model_of(optimizer):
    model = keras.Sequential([keras.layers.Dense(5, "relu"), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, steps_per_execution=4)
    return model


def state(model):
    """All of what a checkpoint has."""
    values = [*model.weights, *model.optimizer.variables]
    return digest(value.numpy() for value in values)


def slowly(save, path):
    time.sleep(0.05)
    save(path)


def fit(model, **options):
    history = model.fit(x, y, batch_size=6, verbose=0, shuffle=False, **options)
    return history.history["loss"]


strategy = configured(replicas)
tf.random.set_seed(1)
with strategy.scope():
    for name, make in OPTIMIZERS.items():
        model = model_of(make())
        model.set_gradient_accumulation_options(
            2, replicated_optimizer_state_sharding=shares
        )
        found[name] = [fit(model, epochs=2), state(model)]

    # a model whose option changes, and whose state is written
    for share in (shares, False, shares):
        model.set_gradient_accumulation_options(
            2, replicated_optimizer_state_sharding=share
        )
        model.compile(model.optimizer, model.loss, steps_per_execution=4)
        fit(model)
    for value in model.optimizer.variables[2:]:
        value.assign(0.5 * value)
    found["changed"] = [fit(model), state(model)]

    keras.mixed_precision.set_global_policy("mixed_float16")
    model = model_of(keras.optimizers.Adam(0.01))
    model.set_gradient_accumulation_options(
        2, replicated_optimizer_state_sharding=shares
    )
    found["halves"] = [fit(model), state(model)]
    keras.mixed_precision.set_global_policy("float32")

    # a training that is stopped after an epoch, and its files
    backup = keras.callbacks.BackupAndRestore(folder)
    backup.delete_checkpoint = False
    keeper = keras.callbacks.ModelCheckpoint(f"{folder}/{{epoch}}.h5", save_freq=4)
    model = model_of(keras.optimizers.Adam(0.01))
    model.set_gradient_accumulation_options(
        2, replicated_optimizer_state_sharding=shares
    )
    model.save = partial(slowly, model.save)  # another process reads what `fit` wrote
    fit(model, callbacks=[keeper, backup], epochs=int(sys.argv[4]))
    found["kept"] = state(model)
    loaded = keras.models.load_model(f"{folder}/{sys.argv[4]}.h5")
    found["loaded"] = state(loaded)

strategy = configured(2 * replicas)
with strategy.scope():
    model = model_of(keras.optimizers.Adam(0.01))
    model.build((6, 7))
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(4, replicated_optimizer_state_sharding=shares)
    found["pipelined"] = [fit(model, epochs=2), state(model)]
    model.set_pipelining_options(4, replicated_weight_sharding=shares)
    validation = {"validation_data": (x, y), "validation_batch_size": 6}
    found["weights"] = [fit(model, **validation, epochs=2), state(model)]

with open(f"{distributed.process_index()}.json", "w") as file:
    json.dump(found, file)
