# SPDX-License-Identifier: MIT
"""``keras.optimizers.AdamW`` against Keras's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

# of Keras 3 on TensorFlow 2.21, by whether amsgrad
WANTED = {
    False: ([0.7289682, -1.9849720, 3.0542042], [0.3569147]),
    True: ([0.7289682, -1.9849720, 3.0542042], [0.3569384]),
}


@pytest.mark.parametrize("amsgrad", [False, True])
def test_three_steps_are_those_of_keras(amsgrad: bool) -> None:
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=0.25, amsgrad=amsgrad)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    kernel = tf.Variable([1.0, -2.0, 3.0], name="kernel")
    bias = tf.Variable([0.5], name="bias")
    for i in range(3):
        gradients = [tf.constant([0.1, 0.2 * i, -0.3]), tf.constant([1.0 - i])]
        optimizer.apply_gradients(zip(gradients, [kernel, bias], strict=True))
    for variable, wanted in zip((kernel, bias), WANTED[amsgrad], strict=True):
        np.testing.assert_allclose(variable.numpy(), wanted, rtol=1e-5)


def trained(optimizer: Any, pipelined: bool) -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 if pipelined else 1
    config.configure_ipu_system()
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                keras.layers.Dense(5, input_shape=(4,), kernel_initializer="ones"),
                keras.layers.Dense(1, kernel_initializer="ones"),
            ]
        )
        if pipelined:
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(4)
        else:
            model.set_gradient_accumulation_options(4)
        model.compile(optimizer, "mse", steps_per_execution=4)
        model.fit(x, x.sum(1), batch_size=4, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def test_pipelined_and_accumulated_training_give_the_same_bits() -> None:
    one, other = (trained(keras.optimizers.AdamW(0.1), flag) for flag in (True, False))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    plain = trained(keras.optimizers.Adam(0.1), False)
    assert not np.array_equal(plain[0], one[0])


def test_it_is_known_by_name_and_has_a_configuration() -> None:
    optimizer = keras.optimizers.get("adamw")
    assert isinstance(optimizer, keras.optimizers.AdamW)
    assert optimizer.weight_decay == 0.004
    again = keras.optimizers.AdamW.from_config(
        keras.optimizers.AdamW(weight_decay=0.5).get_config()
    )
    assert again.weight_decay == 0.5
    with pytest.raises(ValueError, match="weight_decay >= 0"):
        keras.optimizers.AdamW(weight_decay=-1.0)
    kept = tf.Variable([1.0])
    optimizer.exclude_from_weight_decay([kept])
    assert not optimizer._decays(kept) and optimizer._decays(tf.Variable([1.0]))
