"""A small U-Net: residual blocks, separable convolutions, upsampling, mean IoU."""

import json

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
masks = np.zeros((24, 32, 32, 1), "uint8")
for mask in masks:
    top, left = rng.integers(2, 16, 2)
    mask[top : top + 12, left : left + 12] = 1
pictures = (masks * 160 + rng.integers(0, 80, (24, 32, 32, 3))).astype("uint8")


def prepare(picture, mask):
    picture = tf.image.resize(picture, (32, 32))
    return tf.image.convert_image_dtype(picture, "float32") / 255.0, mask


data = tf.data.Dataset.from_tensor_slices((pictures, masks)).map(prepare).batch(8)


def get_model(size, classes):
    inputs = keras.Input(shape=(*size, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same")(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    previous = x
    for filters in [16, 32]:
        x = layers.Activation("relu")(x)
        x = layers.SeparableConv2D(filters, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        residual = layers.Conv2D(filters, 1, strides=2, padding="same")(previous)
        x = layers.add([x, residual])
        previous = x
    for filters in [32, 16, 8]:
        x = layers.Activation("relu")(x)
        x = layers.Conv2DTranspose(filters, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.UpSampling2D(2)(x)
        residual = layers.UpSampling2D(2)(previous)
        residual = layers.Conv2D(filters, 1, padding="same")(residual)
        x = layers.add([x, residual])
        previous = x
    outputs = layers.Conv2D(classes, 3, activation="softmax", padding="same")(x)
    return keras.Model(inputs, outputs)


model = get_model((32, 32), 2)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss="sparse_categorical_crossentropy",
    metrics=[
        "sparse_categorical_accuracy",
        keras.metrics.MeanIoU(num_classes=2, sparse_y_pred=False, name="iou"),
    ],
)
callbacks = [
    keras.callbacks.ModelCheckpoint(
        "best.keras", monitor="val_loss", save_best_only=True
    )
]
history = model.fit(
    data, epochs=6, validation_data=data.take(1), callbacks=callbacks, verbose=2
)
best = keras.models.load_model("best.keras")
predicted = best.predict(data, verbose=0)
found = ops.convert_to_numpy(ops.argmax(predicted, axis=-1))
print(
    json.dumps(
        {
            "loss": history.history["loss"],
            "keys": sorted(history.history),
            "shape": list(predicted.shape),
            "agreement": float((found == masks[..., 0]).mean()),
        }
    )
)
