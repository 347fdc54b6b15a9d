# SPDX-License-Identifier: MIT
"""A character LSTM that learns a text, by default its own source, and writes on.

python docs/examples/char_lstm.py --text some.txt --epochs 20
"""

import argparse
from pathlib import Path

import numpy as np

import ipu
from ipu import keras, tf

layers = keras.layers


def windows(codes: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Each run of characters, and the one after each of its characters."""
    runs = np.lib.stride_tricks.sliding_window_view(codes, length + 1)
    return runs[:, :-1].copy(), runs[:, 1:].copy()


def write_on(model: keras.Model, start: np.ndarray, count: int) -> np.ndarray:
    """Characters drawn one by one, each from what the model expects."""
    rng = np.random.default_rng(0)
    codes = start.copy()
    for _ in range(count):
        logits = model.predict(codes[None, -len(start) :], batch_size=1)[0, -1]
        chances = np.exp((logits - logits.max()) / 0.5)
        codes = np.append(codes, rng.choice(len(chances), p=chances / chances.sum()))
    return codes[len(start) :].astype(np.int32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=Path(__file__))
    parser.add_argument("--length", type=int, default=64, help="of a window")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--write", type=int, default=200, help="characters")
    parser.add_argument("--pipeline", action="store_true", help="on two IPUs")
    options = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 if options.pipeline else 1
    config.configure_ipu_system()

    text = options.text.read_text(encoding="utf-8")
    letters = sorted(set(text))
    codes = np.array([letters.index(letter) for letter in text], np.int32)
    x, y = windows(codes, options.length)
    steps = len(x) // 16 // 4 * 4  # updates of four batches, where there are stages
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=1)
    data = data.batch(16, drop_remainder=True).repeat()

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                layers.Embedding(len(letters), 32, input_length=options.length),
                layers.LSTM(options.units, return_sequences=True),
                layers.Dense(len(letters)),
            ]
        )
        if options.pipeline:
            model.set_pipeline_stage_assignment([0, 0, 1])
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.compile(
            keras.optimizers.Adam(0.003),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=steps,
        )
        model.fit(data, epochs=options.epochs, steps_per_epoch=steps)

    # one IPU writes; outside of a strategy a model takes a batch of one
    weights = model.get_weights()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    writer = keras.models.clone_model(model)
    writer.reset_pipeline_stage_assignment()
    writer.set_weights(weights)
    written = write_on(writer, x[0], options.write)
    print("".join(letters[code] for code in written))


if __name__ == "__main__":
    main()
