"""A PyDataset with workers, epochs that it sees, and a generator beside it."""

import json
import math

import keras
import numpy as np


class Rows(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch_size = x, y, batch_size
        self.epochs = 0

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    @property
    def num_batches(self):
        return len(self)

    def __getitem__(self, index):
        low = index * self.batch_size
        high = min(low + self.batch_size, len(self.x))
        return self.x[low:high], self.y[low:high]

    def on_epoch_end(self):
        self.epochs += 1


def batches(x, y):
    for row in range(0, len(x), 25):
        yield x[row : row + 25], y[row : row + 25]


keras.utils.set_random_seed(0)
x = np.random.rand(110, 6)
y = x @ np.arange(6.0)[:, None]
rows = Rows(x, y, 32, workers=2, use_multiprocessing=False, max_queue_size=4)
model = keras.Sequential(
    [
        keras.Input(shape=(6,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(
    optimizer=keras.optimizers.RMSprop(0.01, clipnorm=1.0),
    loss=keras.losses.Huber(),
    metrics=[keras.metrics.R2Score(), "mae"],
)
history = model.fit(rows, epochs=6, validation_data=Rows(x, y, 50), verbose=2)
model.fit(batches(x, y), epochs=1, verbose=0)
print(
    json.dumps(
        {
            "loss": history.history["loss"],
            "keys": sorted(history.history),
            "epochs": rows.epochs,
            "predicted": list(model.predict(rows, verbose=0).shape),
            "evaluated": sorted(model.evaluate(rows, verbose=0, return_dict=True)),
        }
    )
)
