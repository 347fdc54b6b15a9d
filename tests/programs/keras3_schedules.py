"""Rates that warm up and fall, an average of the weights, accumulated gradients."""

import json

import keras
import numpy as np


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_end(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


class Own(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, peak, warmup):
        self.peak, self.warmup = peak, warmup

    def __call__(self, step):
        step = keras.ops.cast(step, "float32")
        rising = self.peak * (step + 1) / self.warmup
        falling = self.peak * keras.ops.rsqrt(
            keras.ops.maximum(step - self.warmup + 2, 1.0)
        )
        return keras.ops.where(step < self.warmup, rising, falling)

    def get_config(self):
        return {"peak": self.peak, "warmup": self.warmup}


keras.utils.set_random_seed(9)
x, y = np.random.rand(80, 4), np.random.rand(80, 1)


def trained(optimizer, **kwargs):
    model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile(optimizer=optimizer, loss="mse")
    recorder = Recorder()
    kwargs["callbacks"] = [recorder, *kwargs.get("callbacks", [])]
    history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, **kwargs)
    return history, recorder.rates


cosine = keras.optimizers.schedules.CosineDecay(
    initial_learning_rate=0.0, decay_steps=10, warmup_target=0.1, warmup_steps=5
)
history, rates = trained(keras.optimizers.SGD(cosine, momentum=0.9, nesterov=True))
own_history, own_rates = trained(
    keras.optimizers.AdamW(Own(0.01, 4), weight_decay=1e-4, use_ema=True)
)
accumulated, _ = trained(
    keras.optimizers.Adam(0.01, gradient_accumulation_steps=5, global_clipnorm=1.0)
)
scheduler = keras.callbacks.LearningRateScheduler(
    lambda epoch, lr: lr if epoch < 1 else lr * 0.5
)
callback_history, callback_rates = trained(
    keras.optimizers.Adam(learning_rate=0.01), callbacks=[scheduler]
)
print(
    json.dumps(
        {
            "rates": rates,
            "own_rates": own_rates,
            "callback_rates": callback_rates,
            "logged": callback_history.history.get("learning_rate"),
            "losses": [
                h.history["loss"][-1] for h in (history, own_history, accumulated)
            ],
        }
    )
)
