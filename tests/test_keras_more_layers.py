"""Layers beyond Dense: numbers, training, masks, configurations, files.

The expected numbers are those of TensorFlow 2.21 with Keras 3.15 for the inputs below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

L = keras.layers
X = np.array(
    [
        [-0.81, -0.03, 0.88],
        [-0.58, -0.11, 0.11],
        [0.06, -1.23, 0.08],
        [1.36, -1.55, 0.86],
    ],
    np.float32,
)
X3 = np.array(
    [
        [
            [0.12, -0.64, 2.0, 0.76],
            [-1.2, 0.07, 0.58, -0.19],
            [0.68, -0.07, 0.67, 1.44],
        ],
        [
            [-0.68, 0.2, -0.46, 0.13],
            [-1.19, -0.58, -0.2, 0.9],
            [1.15, -1.32, -0.79, 0.65],
        ],
    ],
    np.float32,
)
Q = np.array(
    [
        [[-1.99, -0.46, -0.1, 1.26], [0.69, -0.33, -0.37, -0.25]],
        [[1.52, -0.43, -0.3, 0.35], [-0.12, -0.2, -1.11, -0.01]],
    ],
    np.float32,
)


def near(got: Any, expected: Any, atol: float = 2e-6) -> None:
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=atol)


def test_batch_normalization() -> None:
    layer = L.BatchNormalization(momentum=0.9)
    near(
        layer(X, training=True),
        [
            [-0.96858, 1.043267, 1.021859],
            [-0.696074, 0.924036, -0.957591],
            [0.062202, -0.74519, -1.034712],
            [1.602451, -1.222112, 0.970444],
        ],
    )
    near(layer.moving_mean.numpy(), [0.00075, -0.073, 0.04825])
    near(layer.moving_variance.numpy(), [0.971137, 0.94492, 0.915032])
    near(
        layer(X),
        [
            [-0.822287, 0.044212, 0.869036],
            [-0.589014, -0.038043, 0.064518],
            [0.060093, -1.189614, 0.033173],
            [1.378592, -1.518634, 0.848139],
        ],
    )
    with tf.GradientTape() as tape:
        x = tf.constant(X)
        tape.watch(x)
        value = tf.reduce_sum(tf.square(layer(x, training=True)) * X)
    near(
        tape.gradient(value, x),
        [
            [1.268584, 0.340331, 0.120881],
            [-0.029596, -0.146974, -0.170886],
            [-2.078687, -0.998567, 0.134958],
            [0.8397, 0.805211, -0.084954],
        ],
        atol=1e-4,
    )


def test_batch_normalization_of_images_keeps_the_unbiased_variance() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2, 1)
    layer = L.BatchNormalization(momentum=0.0)
    layer(x, training=True)
    near(layer.moving_variance.numpy(), [6.0])
    layer = L.BatchNormalization(momentum=0.0, fused=False)
    layer(x, training=True)
    near(layer.moving_variance.numpy(), [x.var()])


def test_frozen_batch_normalization_stands_still_in_fit() -> None:
    model = keras.Sequential([L.BatchNormalization(input_shape=(3,)), L.Dense(1)])
    x, y = np.tile(X, (4, 1)) + 5, np.zeros((16, 1), np.float32)
    model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(x, y, batch_size=8, verbose=0)
    moved = model.layers[0].moving_mean.numpy()
    assert (moved > 0).all()
    assert len(model.trainable_weights) == 4
    model.layers[0].trainable = False
    model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(x, y, batch_size=8, verbose=0)
    np.testing.assert_array_equal(model.layers[0].moving_mean.numpy(), moved)
    assert len(model.trainable_weights) == 2


def test_moving_averages_in_fit_are_those_of_the_batches() -> None:
    model = keras.Sequential([L.BatchNormalization(momentum=0.9, input_shape=(3,))])
    x = np.concatenate([X, X + 1])
    model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(x, x, batch_size=4, shuffle=False, verbose=0)
    mean = 0.9 * 0.1 * X.mean(0) + 0.1 * (X + 1).mean(0)
    near(model.layers[0].moving_mean.numpy(), mean)


def test_unit_normalization() -> None:
    layer = L.UnitNormalization(axis=[0, 1])
    near(layer(X), X / np.linalg.norm(X))
    near(L.UnitNormalization()(X), X / np.linalg.norm(X, axis=1, keepdims=True))
    assert L.UnitNormalization.from_config(layer.get_config()).axis == [0, 1]
    with pytest.raises(TypeError, match="`axis` of UnitNormalization"):
        L.UnitNormalization(axis=1.5)


def test_layer_and_group_normalization() -> None:
    near(
        L.LayerNormalization()(X),
        [
            [-1.190918, -0.06268, 1.253598],
            [-1.335541, 0.287832, 1.047709],
            [0.68981, -1.412209, 0.7224],
            [0.894425, -1.395408, 0.500983],
        ],
    )
    near(
        L.LayerNormalization(axis=[1, 2])(X3),
        [
            [
                [-0.277943, -1.189755, 1.977593, 0.489899],
                [-1.861617, -0.33793, 0.273944, -0.649866],
                [0.393919, -0.505896, 0.381921, 1.305731],
            ],
            [
                [-0.648734, 0.498776, -0.361857, 0.407496],
                [-1.313768, -0.518335, -0.02282, 1.411567],
                [1.737564, -1.483287, -0.792173, 1.08557],
            ],
        ],
    )
    neighbours = L.GroupNorm(groups=2, strided_channel_grouping=False)
    near(
        neighbours(X3),
        [
            [
                [0.48867, -0.77743, 1.624969, -0.168766],
                [-1.710346, 0.405374, -0.429146, -1.542998],
                [1.421586, 0.172145, -0.298956, 0.814896],
            ],
            [
                [-0.324938, 0.708601, -0.837903, 0.154129],
                [-0.923922, -0.207491, -0.400736, 1.448816],
                [1.824353, -1.076603, -1.392769, 1.028463],
            ],
        ],
    )
    strided = L.GroupNorm(groups=2)(X3[:, :, [0, 2, 1, 3]]).numpy()
    near(strided[:, :, [0, 2, 1, 3]], neighbours(X3))
    one = L.InstanceNorm(epsilon=0.0)(X3).numpy()
    near(one.mean(1), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="commensurate with 3 groups"):
        L.GroupNorm(groups=3)(X3)


def test_attention() -> None:
    near(
        L.Attention()([Q, X3]),
        [
            [
                [-0.696018, -0.086242, 0.867439, 0.209223],
                [0.132362, -0.210999, 1.046988, 0.907396],
            ],
            [
                [1.064766, -1.271098, -0.771574, 0.642423],
                [0.00458, -0.687695, -0.538903, 0.567075],
            ],
        ],
    )
    near(
        L.AdditiveAttention(use_scale=False)([Q, X3]),
        [
            [
                [-0.035335, -0.240784, 1.132726, 0.74856],
                [0.371701, -0.295645, 1.206666, 1.093664],
            ],
            [
                [-0.257768, -0.498249, -0.487621, 0.514162],
                [0.294569, -0.833615, -0.604451, 0.577304],
            ],
        ],
    )
    layer = L.MultiHeadAttention(2, 3)
    layer(Q, X3)
    layer.set_weights(
        [
            0.1 + np.linspace(0, 0.3, w.size).reshape(w.shape).astype(np.float32)
            for w in layer.get_weights()
        ]
    )
    near(
        layer(Q, X3),
        [
            [
                [1.32452, 1.489075, 1.65363, 1.818185],
                [1.245403, 1.405542, 1.565681, 1.72582],
            ],
            [
                [0.376801, 0.489853, 0.602906, 0.715958],
                [0.372914, 0.485741, 0.598568, 0.711395],
            ],
        ],
    )
    mask = np.array([[True, False, False], [True, True, False]])
    alone = L.Attention()([Q, X3], mask=[None, mask]).numpy()
    near(alone[0], [X3[0, 0], X3[0, 0]])


def test_activation_layers() -> None:
    near(
        L.PReLU(alpha_initializer=keras.initializers.Constant(0.25))(X),
        [
            [-0.2025, -0.0075, 0.88],
            [-0.145, -0.0275, 0.11],
            [0.06, -0.3075, 0.08],
            [1.36, -0.3875, 0.86],
        ],
    )
    near(
        L.LeakyReLU()(X),
        [
            [-0.243, -0.009, 0.88],
            [-0.174, -0.033, 0.11],
            [0.06, -0.369, 0.08],
            [1.36, -0.465, 0.86],
        ],
    )
    near(
        L.ELU()(X),
        [
            [-0.555142, -0.029554, 0.88],
            [-0.440102, -0.104166, 0.11],
            [0.06, -0.707707, 0.08],
            [1.36, -0.787752, 0.86],
        ],
    )
    near(
        L.Softmax(axis=[1, 2])(X3),
        [
            [
                [0.046495, 0.021744, 0.304703, 0.088176],
                [0.01242, 0.044227, 0.073651, 0.034101],
                [0.081397, 0.038449, 0.080587, 0.174049],
            ],
            [
                [0.037708, 0.09091, 0.046987, 0.084764],
                [0.022643, 0.041674, 0.060939, 0.18307],
                [0.235067, 0.019883, 0.03378, 0.142575],
            ],
        ],
    )
    near(
        L.ReLU(max_value=1.0, negative_slope=0.5)(X),
        np.clip(X, None, 1) * np.where(X < 0, 0.5, 1),
    )
    with pytest.raises(ValueError, match="cannot be negative"):
        L.ReLU(max_value=-1.0)


def test_embedding_learns_rows_and_masks_zeros() -> None:
    layer = L.Embedding(5, 2, mask_zero=True)
    ids = np.array([[1, 3, 0], [4, 0, 0]])
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    layer(ids)
    layer.set_weights([table])
    near(layer(ids), table[ids])
    near(L.GlobalAveragePooling1D()(layer(ids)), [(table[1] + table[3]) / 2, table[4]])
    inputs = keras.Input((3,), dtype="int32")
    hidden = L.Activation("linear")(layer(inputs))
    model = keras.Model(inputs, L.GlobalAveragePooling1D()(hidden))
    near(model.predict(ids, batch_size=2), [(table[1] + table[3]) / 2, table[4]])
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(layer(tf.constant([[1, 1, 3]])))
    [gradient] = tape.gradient(value, layer.trainable_weights)
    near(gradient, [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]])
    with pytest.raises(ValueError, match="must be a positive integer"):
        L.Embedding(0, 3)


def test_masked_steps_weigh_nothing_in_the_loss() -> None:
    model = keras.Sequential(
        [L.Masking(input_shape=(3, 1)), L.Dense(1, use_bias=False)]
    )
    model.set_weights([np.ones((1, 1), np.float32)])
    x = np.array([[[1.0], [2.0], [0.0]]] * 2, np.float32)
    model.compile("sgd", "mse")
    loss = model.evaluate(x, x + 1, batch_size=2, verbose=0)
    assert loss == pytest.approx(2 / 3)


def test_merging_layers() -> None:
    a, b = X, X[::-1].copy()
    near(L.subtract([a, b]), a - b)
    near(L.multiply([a, b, a]), a * b * a)
    near(L.average([a, b]), (a + b) / 2)
    near(L.maximum([a, b]), np.maximum(a, b))
    near(L.minimum([a, b]), np.minimum(a, b))
    near(L.dot([X3, Q], axes=2), np.einsum("bik,bjk->bij", X3, Q))
    near(L.Dot(axes=1)([a, b]), (a * b).sum(1, keepdims=True))
    with pytest.raises(ValueError, match="exactly 2 inputs"):
        L.subtract([a, b, a])
    with pytest.raises(ValueError, match="Dimension incompatibility 3 != 4"):
        L.dot([X3, Q], axes=(1, 2))


def test_shapes_and_noise() -> None:
    near(L.Permute((2, 1))(X3), X3.transpose(0, 2, 1))
    near(L.RepeatVector(2)(X), np.stack([X, X], 1))
    near(L.ZeroPadding1D((1, 0))(X3), np.pad(X3, [(0, 0), (1, 0), (0, 0)]))
    near(L.Cropping1D(1)(X3), X3[:, 1:-1])
    near(L.UpSampling1D(2)(X3), X3.repeat(2, 1))
    near(L.GlobalMaxPooling1D()(X3), X3.max(1))
    near(L.TimeDistributed(L.Flatten())(X3), X3)
    dropped = L.SpatialDropout1D(0.5)(np.ones((8, 5, 6)), training=True).numpy()
    assert (dropped == dropped[:, :1]).all() and set(np.unique(dropped)) == {0, 2}
    wide = np.ones((256, 64), np.float32)
    noisy = L.GaussianNoise(0.5)(wide, training=True).numpy()
    assert abs(noisy.std() - 0.5) < 0.02 and abs(noisy.mean() - 1) < 0.02
    near(L.GaussianNoise(0.5)(wide), wide)
    normal = np.random.default_rng(0).normal(size=(256, 64)).astype(np.float32)
    kept = L.AlphaDropout(0.3)(normal, training=True).numpy()
    assert abs(kept.std() - 1) < 0.05 and abs(kept.mean()) < 0.05
    model = keras.Sequential([L.ActivityRegularization(l2=0.5, input_shape=(3,))])
    model.compile("sgd", "mse")
    loss = model.evaluate(X, X, batch_size=4, verbose=0)
    assert loss == pytest.approx(0.5 * np.square(X).sum() / 4, rel=1e-5)


def test_preprocessing_layers() -> None:
    layer = L.Normalization()
    layer.adapt(tf.data.Dataset.from_tensor_slices(X).batch(2))
    near(layer(X), (X - X.mean(0)) / X.std(0), atol=1e-5)
    near(layer.mean, X.mean(0, keepdims=True), atol=1e-5)
    near(L.Normalization(mean=1.0, variance=4.0)(X), (X - 1) / 2)
    near(L.experimental.preprocessing.Rescaling(0.5, 1.0)(X), X * 0.5 + 1)
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    near(L.CenterCrop(2, 2)(image), image[:, 1:3, 1:3])


# --- configurations and files ---------------------------------------------------------


def branched() -> keras.Model:
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    shared = L.Dense(4, activation="relu", kernel_regularizer="l2")
    hidden = L.concatenate([shared(a), shared(b)])
    hidden = 1 - hidden * 2 + tf.reduce_mean(hidden, axis=-1, keepdims=True)
    hidden = L.BatchNormalization()(hidden[:, 1:4])
    return keras.Model([a, b], [L.Dense(2, activation="softmax")(hidden), hidden])


@pytest.mark.parametrize("way", ["json", "clone", "config"])
def test_a_copy_of_a_model_computes_the_same(way: str) -> None:
    model = branched()
    other = {
        "json": lambda: keras.models.model_from_json(model.to_json()),
        "clone": lambda: keras.models.clone_model(model),
        "config": lambda: type(model).from_config(model.get_config()),
    }[way]()
    other.set_weights(model.get_weights())
    x = [np.ones((4, 5), np.float32), np.full((4, 5), -0.5, np.float32)]
    for one, two in zip(
        model.predict(x, batch_size=4), other.predict(x, batch_size=4), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    assert [w.shape for w in other.weights] == [w.shape for w in model.weights]


def test_a_model_from_a_file_goes_on_training(tmp_path: Path) -> None:
    model = keras.Sequential(
        [
            L.Embedding(10, 4, input_length=3, mask_zero=True),
            L.GlobalAveragePooling1D(),
            L.Dense(1, activation="sigmoid"),
        ]
    )
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.BinaryCrossentropy(label_smoothing=0.1),
        metrics=["accuracy", keras.metrics.AUC(num_thresholds=20)],
        steps_per_execution=2,
    )
    ids = np.random.default_rng(0).integers(0, 10, (64, 3))
    labels = (ids.sum(1) > 13).astype(np.float32)
    model.fit(ids, labels, verbose=0, shuffle=False)
    model.save(tmp_path / "model")
    other = keras.models.load_model(tmp_path / "model")
    runs = [m.fit(ids, labels, verbose=0, shuffle=False) for m in (model, other)]
    assert runs[0].history == runs[1].history
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    keras.models.clone_model(model).load_weights(tmp_path / "model")
    model.save_weights(tmp_path / "weights")
    with pytest.raises(ValueError, match="weights without a model"):
        keras.models.load_model(tmp_path / "weights")
    with pytest.raises(NotImplementedError, match=r"Model\.save and"):
        model.save(tmp_path / "folder", save_format="tf")


def test_own_layers_are_found_by_name(tmp_path: Path) -> None:
    class Twice(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2.0

    model = keras.Sequential([Twice(input_shape=(3,))])
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="Unknown layer: 'Twice'"):
        keras.models.load_model(tmp_path / "model")
    other = keras.models.load_model(tmp_path / "model", {"Twice": Twice})
    near(other.predict(X, batch_size=4), X * 2)
    lambdas = keras.Sequential(
        [L.Lambda(lambda v: v + X[0], input_shape=(3,), name="mine")]
    )
    lambdas.to_json()
    around = X[0]
    lambdas.add(L.Lambda(lambda v: v + around, name="other"))
    with pytest.raises(TypeError, match="Layer 'other'"):
        lambdas.to_json()


def test_a_scalar_weight_keeps_its_shape_in_a_file(tmp_path: Path) -> None:
    a, b = keras.Input((3, 4)), keras.Input((2, 4))
    model = keras.Model([b, a], L.Attention(use_scale=True)([b, a]))
    model.set_weights([np.float32(3)])
    model.save_weights(tmp_path / "w")
    model.set_weights([np.float32(0)])
    model.load_weights(tmp_path / "w")
    assert model.get_weights()[0] == 3 and model.get_weights()[0].shape == ()


# --- utilities ------------------------------------------------------------------------


def test_schedule_with_restarts() -> None:
    rate = keras.optimizers.schedules.CosineDecayRestarts(0.5, 4, m_mul=0.5, alpha=0.1)
    near(
        [float(rate(i)) for i in (0, 1, 3, 4, 7, 11, 12, 20)],
        [0.5, 0.434099, 0.115901, 0.275, 0.205552, 0.058564, 0.1625, 0.10625],
    )


def test_pad_sequences_and_tokenizer() -> None:
    pad = keras.preprocessing.sequence.pad_sequences
    assert pad([[1, 2, 3], [4], []], maxlen=2).tolist() == [[2, 3], [0, 4], [0, 0]]
    assert pad([[1, 2], [3]], padding="post", value=9).tolist() == [[1, 2], [3, 9]]
    tokenizer = keras.preprocessing.text.Tokenizer(num_words=3, oov_token="?")
    tokenizer.fit_on_texts(["The cat sat.", "The cat, the dog!"])
    assert tokenizer.texts_to_sequences(["the dog"]) == [[2, 1]]
    assert tokenizer.sequences_to_texts([[2, 3]]) == ["the ?"]


def test_plateau_reduces_the_rate() -> None:
    model = keras.Sequential(
        [L.Dense(1, input_shape=(3,), trainable=False), L.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.optimizer.learning_rate = 0.5
    model.layers[1].trainable = False
    callback = keras.callbacks.ReduceLROnPlateau("other", factor=0.5, patience=1)
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate([1.0, 0.5, 0.5, 0.5]):
        callback.on_epoch_end(epoch, {"other": value})
    assert float(model.optimizer.learning_rate.numpy()) == 0.125


def test_what_comes_later_says_so() -> None:
    with pytest.raises(AttributeError, match="Further recurrent layers"):
        _ = keras.layers.CuDNNLSTM


def test_the_ipus_own_layers_have_its_restrictions() -> None:
    from ipu import layers

    near(layers.LayerNorm(epsilon=0.0)(X3).numpy().mean((1, 2)), [0, 0])
    again = layers.LayerNorm.from_config(layers.LayerNorm(epsilon=0.5).get_config())
    assert again.epsilon == 0.5
    assert layers.Embedding(4, 2)(np.array([[0, 3]])).shape == (1, 2, 2)
    with pytest.raises(NotImplementedError, match="does not support `mask_zero`"):
        layers.Embedding(4, 2, mask_zero=True)
    with pytest.raises(ValueError, match="two axes"):
        layers.Embedding(4, 2)(np.array([0, 3]))
    with pytest.raises(NotImplementedError, match="beta_regularizer"):
        layers.LayerNorm(beta_regularizer="l2")
    with pytest.raises(ValueError, match="expected one of"):
        layers.SerialDense(4, 2, "rows")
    for made in (
        layers.SerialDense(4, 2, "kernel_rows", dtype="int32"),
        L.Dense(4, dtype="int32"),
    ):
        with pytest.raises(TypeError, match="non-floating point dtype int32"):
            made.build((2, 4))
    dense, serial = L.Dense(4), layers.SerialDense(4, 2, "kernel_rows")
    dense(X), serial(X)
    serial.set_weights(dense.get_weights())
    near(serial(X), dense(X).numpy())


def test_a_checkpoint_changes_no_number() -> None:
    from ipu import ipu_strategy, layers, pipelining_ops

    def weights(recomputes: bool) -> list[Any]:
        keras.utils.set_random_seed(1)
        kept = [layers.RecomputationCheckpoint()] if recomputes else []
        first = [L.Dense(4, "tanh"), *kept, L.Dense(4, "tanh")]
        mode = pipelining_ops.RecomputationMode.RecomputeAndBackpropagateInterleaved
        with ipu_strategy.IPUStrategy().scope():
            model = keras.SequentialPipelineModel(
                [first, [L.Dense(1)]],
                4,
                device_mapping=[0, 0],
                recomputation_mode=mode if recomputes else None,
            )
            model.compile("sgd", "mse")
            model.fit(X, X[:, :1], batch_size=1, epochs=2, verbose=0, steps_per_epoch=4)
            return model.get_weights()

    for one, other in zip(weights(True), weights(False), strict=True):
        np.testing.assert_array_equal(one, other)
    layer = layers.RecomputationCheckpoint(name="kept")
    assert type(layer).from_config(layer.get_config()).name == "kept"
