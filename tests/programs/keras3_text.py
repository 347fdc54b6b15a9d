"""Reviews as strings, vectorised in the data set; a model that takes strings."""

import json
import re
import string

import keras
import numpy as np
import tensorflow as tf
from keras import layers

good = ["what a fine film<br />", "I loved every minute!", "great, simply great"]
bad = ["a waste of time", "dull and far too long...", "I hated it<br />, all of it"]
texts, labels = np.array((good + bad) * 16), np.array(([1] * 3 + [0] * 3) * 16)


@keras.saving.register_keras_serializable()
def standardize(text):
    text = tf.strings.regex_replace(tf.strings.lower(text), "<br />", " ")
    return tf.strings.regex_replace(text, f"[{re.escape(string.punctuation)}]", "")


vectorize = layers.TextVectorization(
    standardize=standardize,
    max_tokens=200,
    output_mode="int",
    output_sequence_length=8,
)
raw = tf.data.Dataset.from_tensor_slices((texts, labels)).shuffle(96, seed=1).batch(20)
vectorize.adapt(raw.map(lambda text, label: text))


def vectorized(text, label):
    text = tf.expand_dims(text, -1)
    return vectorize(text), label


train = raw.map(vectorized, num_parallel_calls=tf.data.AUTOTUNE).cache().prefetch(2)

inputs = keras.Input(shape=(None,), dtype="int64")
x = layers.Embedding(vectorize.vocabulary_size(), 16, mask_zero=True)(inputs)
x = layers.Bidirectional(layers.LSTM(8))(x)
x = layers.Dense(8, activation="gelu")(x)
outputs = layers.Dense(1)(x)
model = keras.Model(inputs, outputs)
model.compile(
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    optimizer=keras.optimizers.Adam(0.02),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
)
history = model.fit(train, epochs=8, validation_data=train, verbose=2)

strings = keras.Input(shape=(1,), dtype="string")
whole = keras.Sequential([strings, vectorize, model, layers.Activation("sigmoid")])
whole.compile(loss="binary_crossentropy", metrics=["accuracy"])
found = whole.evaluate(raw, return_dict=True, verbose=0)
asked = keras.ops.convert_to_tensor([["a great film"], ["dull"]])
scores = whole.predict(asked, verbose=0)
print(
    json.dumps(
        {
            "loss": history.history["loss"],
            "accuracy": found["accuracy"],
            "ordered": bool(scores[0, 0] > scores[1, 0]),
            "words": len(vectorize.get_vocabulary()),
        }
    )
)
