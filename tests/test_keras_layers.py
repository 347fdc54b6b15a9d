"""Layers, models and initializers of ipu.keras, against NumPy and Keras's rules."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


class Scale(keras.layers.Layer):
    """A user's layer: a weight made in `build`, and an argument of `call`."""

    def __init__(self, start: float = 1.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.start = start

    def build(self, input_shape: tuple) -> None:
        self.factor = self.add_weight(
            "factor",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(self.start),
        )

    def call(self, inputs: object, training: object = None) -> object:
        return inputs * self.factor if training else inputs * self.factor + 1.0


# --- single layers --------------------------------------------------------------------


def test_dense_is_a_product_with_bias_and_activation() -> None:
    layer = keras.layers.Dense(3, activation="relu")
    x = floats(4, 5)
    y = layer(x)
    kernel, bias = layer.get_weights()
    assert kernel.shape == (5, 3) and bias.shape == (3,) and not bias.any()
    np.testing.assert_allclose(y.numpy(), np.maximum(x @ kernel, 0), atol=1e-6)
    assert [w.name for w in layer.weights] == [
        f"{layer.name}/kernel:0",
        f"{layer.name}/bias:0",
    ]
    assert layer.count_params() == 18


def test_dense_works_on_the_last_axis_of_many() -> None:
    layer = keras.layers.Dense(2, use_bias=False)
    x = floats(3, 4, 5)
    np.testing.assert_allclose(layer(x).numpy(), x @ layer.get_weights()[0], atol=1e-6)
    assert layer.compute_output_shape((None, 4, 5)) == (None, 4, 2)


def test_dense_casts_what_is_no_float() -> None:
    layer = keras.layers.Dense(2, kernel_initializer="ones")
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert layer(x).numpy().tolist() == [[3, 3], [12, 12]]
    assert layer(x.astype(np.float64)).numpy().dtype == np.float32


def test_flatten_reshape_activation_lambda() -> None:
    x = floats(2, 3, 4)
    assert keras.layers.Flatten()(x).shape == (2, 12)
    assert keras.layers.Flatten()(floats(5)).shape == (5, 1)
    first = keras.layers.Flatten(data_format="channels_first")(x).numpy()
    np.testing.assert_array_equal(first, x.transpose(0, 2, 1).reshape(2, 12))
    assert keras.layers.Reshape((4, -1))(x).shape == (2, 4, 3)
    np.testing.assert_allclose(
        keras.layers.Activation("tanh")(x).numpy(), np.tanh(x), atol=1e-6
    )
    double = keras.layers.Lambda(lambda v, by: v * by, arguments={"by": 2.0})
    np.testing.assert_array_equal(double(x).numpy(), x * 2)


def test_add_and_concatenate() -> None:
    a, b = floats(2, 3), floats(2, 3)
    np.testing.assert_array_equal(keras.layers.add([a, b]).numpy(), a + b)
    joined = keras.layers.concatenate([a, b], axis=1).numpy()
    np.testing.assert_array_equal(joined, np.concatenate([a, b], 1))
    with pytest.raises(ValueError, match="at least 2"):
        keras.layers.Add()([a])
    with pytest.raises(ValueError, match="matching shapes except"):
        keras.layers.Concatenate()([a, floats(3, 3)])


def test_dropout_only_in_training() -> None:
    layer = keras.layers.Dropout(0.5)
    x = np.ones((64, 64), np.float32)
    np.testing.assert_array_equal(layer(x).numpy(), x)
    dropped = layer(x, training=True).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert 0.4 < (dropped == 0).mean() < 0.6
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        keras.layers.Dropout(1.0)


def test_a_users_layer() -> None:
    layer = Scale(2.0, name="mine")
    x = floats(2, 3)
    np.testing.assert_allclose(layer(x).numpy(), x * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(layer(x, training=True).numpy(), x * 2, rtol=1e-6)
    np.testing.assert_allclose(layer(x, True).numpy(), x * 2, rtol=1e-6)
    assert layer.get_config() == {
        "name": "mine",
        "trainable": True,
        "dtype": "float32",
        "start": 2.0,
    }
    assert [w.name for w in layer.trainable_weights] == ["mine/factor:0"]
    layer.trainable = False
    assert layer.trainable_weights == [] and len(layer.non_trainable_weights) == 1


def test_a_layer_without_super_init_says_so() -> None:
    class Bad(keras.layers.Layer):
        def __init__(self) -> None:
            self.x = 1

    with pytest.raises(RuntimeError, match="forgot to call"):
        Bad()(floats(2, 2))


def test_set_weights_is_all_or_nothing() -> None:
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    before = layer.get_weights()
    with pytest.raises(ValueError, match="expecting 2 weights"):
        layer.set_weights([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="not compatible"):
        layer.set_weights([np.ones((3, 2)), np.zeros(3)])
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    layer.set_weights([np.ones((3, 2)), np.ones(2)])
    assert all((w == 1).all() for w in layer.get_weights())


def test_automatic_names() -> None:
    keras.backend.clear_session()
    names = [keras.layers.Dense(1).name for _ in range(3)]
    assert names == ["dense", "dense_1", "dense_2"]
    assert keras.Input((3,)).name == "input_1"
    assert keras.Sequential().name == "sequential"


def test_errors_name_the_layer_and_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="Did you mean 'relu'"):
        keras.layers.Dense(2, activation="relo")
    with pytest.raises(ValueError, match="Did you mean 'glorot_uniform'"):
        keras.layers.Dense(2, kernel_initializer="glorot_unifrom")
    with pytest.raises(ValueError, match="positive integer"):
        keras.layers.Dense(0)
    with pytest.raises(TypeError, match="Did you mean 'input_shape'"):
        keras.layers.Dense(2, input_shap=(3,))
    layer = keras.layers.Dense(2, name="odd")
    layer(floats(2, 3))
    with pytest.raises(ValueError, match=r"layer odd.*axis -1.*value 3.*\(2, 4\)"):
        layer(floats(2, 4))
    with pytest.raises(ValueError, match="min_ndim=2"):
        layer(floats(3))

    broken = keras.layers.Lambda(lambda v: tf.matmul(v, v), name="square")
    with pytest.raises(Exception, match=r'layer "square" .type Lambda') as caught:
        broken(floats(2, 3))
    assert "when calling" in str(caught.value)


# --- functional models ----------------------------------------------------------------


def test_functional_model_with_two_inputs_and_outputs() -> None:
    a = keras.Input((3,), name="a")
    b = keras.Input((2,), name="b")
    shared = keras.layers.Dense(4, name="shared")
    left = shared(a)
    right = shared(keras.layers.Dense(3, name="lift")(b))
    joined = keras.layers.Concatenate(name="join")([left, right])
    model = keras.Model([a, b], [keras.layers.Dense(1, name="out")(joined), joined])
    x, y = floats(5, 3), floats(5, 2)
    out, join = model([x, y])
    weights = {w.name: w.numpy() for w in model.weights}
    np_left = x @ weights["shared/kernel:0"] + weights["shared/bias:0"]
    np_lift = y @ weights["lift/kernel:0"] + weights["lift/bias:0"]
    np_right = np_lift @ weights["shared/kernel:0"] + weights["shared/bias:0"]
    np_join = np.concatenate([np_left, np_right], 1)
    np.testing.assert_allclose(join.numpy(), np_join, atol=1e-5)
    np.testing.assert_allclose(
        out.numpy(),
        np_join @ weights["out/kernel:0"] + weights["out/bias:0"],
        atol=1e-5,
    )
    by_name = model({"a": x, "b": y})
    np.testing.assert_array_equal(by_name[0].numpy(), out.numpy())
    assert model.input_names == ["a", "b"] and model.output_names == ["out", "join"]
    assert model.output_shape == [(None, 1), (None, 8)]
    assert [layer.name for layer in model.layers] == [
        "b",
        "a",
        "lift",
        "shared",
        "join",
        "out",
    ]
    assert len(model.weights) == 6  # shared once


def test_operators_and_activations_on_symbolic_values() -> None:
    x = keras.Input((3,))
    y = keras.activations.relu((2.0 - x) * x + 1.0)[:, :2]
    model = keras.Model(x, y)
    data = floats(4, 3)
    expected = np.maximum((2 - data) * data + 1, 0)[:, :2]
    np.testing.assert_allclose(model(data).numpy(), expected, atol=1e-6)


def test_symbolic_shapes_keep_the_open_batch() -> None:
    x = keras.Input((4, 6))
    assert keras.layers.Flatten()(x).shape == (None, 24)
    assert keras.layers.Lambda(lambda v: tf.reduce_sum(v, axis=0))(x).shape == (
        4,
        6,
    )
    assert keras.layers.Dense(2)(x).shape == (None, 4, 2)
    assert keras.Input(shape=(80), batch_size=8).shape == (8, 80)


def test_model_inside_a_model() -> None:
    inner = keras.Sequential([keras.layers.Dense(3, input_shape=(2,))], name="inner")
    x = keras.Input((2,))
    model = keras.Model(x, keras.layers.Dense(1)(inner(x)))
    assert len(model.trainable_weights) == 4
    data = floats(5, 2)
    direct = model.layers[-1](inner(data)).numpy()
    np.testing.assert_allclose(model(data).numpy(), direct, atol=1e-6)


def test_inputs_adapt_a_last_axis_of_one_and_the_dtype() -> None:
    x = keras.Input((4, 4, 1))
    model = keras.Model(x, keras.layers.Flatten()(x))
    assert model(floats(2, 4, 4)).shape == (2, 16)
    y = keras.Input((4,))
    flat = keras.Model(y, keras.layers.Dense(1)(y))
    assert flat(floats(2, 4, 1)).shape == (2, 1)
    assert flat(np.ones((2, 4), np.uint8)).numpy().dtype == np.float32
    with pytest.raises(ValueError, match=r"expected shape=\(None, 4\)"):
        flat(floats(2, 5))


def test_graph_errors() -> None:
    a, b = keras.Input((2,)), keras.Input((2,))
    with pytest.raises(ValueError, match="Graph disconnected"):
        keras.Model(a, keras.layers.Add()([a, b]))
    with pytest.raises(ValueError, match="used 2 times"):
        x = keras.layers.Dense(1, name="twin")(a)
        keras.Model(a, keras.layers.Dense(1, name="twin")(x))
    with pytest.raises(ValueError, match="symbolic"):
        keras.Model(np.ones(3), a)


def test_deferred_sequential() -> None:
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="not yet been created"):
        _ = model.weights
    with pytest.raises(ValueError, match="not yet been built"):
        model.summary()
    assert model(floats(2, 4, 5)).shape == (2, 3)
    assert [tuple(w.shape) for w in model.weights] == [(20, 3), (3,)]
    model.pop()
    model.add(keras.layers.Dense(7))
    assert model.output_shape == (None, 7)
    built = keras.Sequential([keras.layers.Dense(3)])
    built.build((None, 6))
    assert built.count_params() == 21
    with pytest.raises(TypeError, match="instance of class Layer"):
        built.add(3)


class TwoBranches(keras.Model):
    """A user's model, with layers in a list and one that is built by its call."""

    def __init__(self) -> None:
        super().__init__(name="branches")
        self.branches = [keras.layers.Dense(4, activation="relu") for _ in range(2)]
        self.scale = Scale(1.5)
        self.last = keras.layers.Dense(1)

    def call(self, inputs: object, training: object = None) -> object:
        total = self.branches[0](inputs) + self.branches[1](inputs)
        return self.last(self.scale(total, training=training))


def test_subclassed_model() -> None:
    model = TwoBranches()
    assert model(floats(3, 2)).shape == (3, 1)
    assert len(model.weights) == 7 and len(model.layers) == 4
    symbolic = model(keras.Input((2,)))
    assert symbolic.shape == (None, 1)
    other = TwoBranches()
    other.build((None, 2))
    assert len(other.weights) == 7


def test_composite_layer_is_built_in_the_middle_of_a_trace() -> None:
    class Block(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = keras.Sequential(
                [keras.layers.Dense(5), keras.layers.Dense(2)]
            )

        def call(self, inputs: object) -> object:
            return self.inner(inputs)

    x = keras.Input((3,))
    model = keras.Model(x, Block()(x))
    assert [tuple(w.shape) for w in model.weights] == [(3, 5), (5,), (5, 2), (2,)]
    assert model.predict(floats(4, 3)).shape == (4, 2)


def test_functional_subclass() -> None:
    class Mine(keras.Model):
        def __init__(self) -> None:
            x = keras.Input((2,))
            super().__init__(x, keras.layers.Dense(1)(x), name="mine")

        def extra(self) -> int:
            return 5

    model = Mine()
    assert model.extra() == 5 and model.output_shape == (None, 1)
    assert model(floats(3, 2)).shape == (3, 1)


def test_summary_text_and_html() -> None:
    model = keras.Sequential(
        [keras.layers.Dense(300, input_shape=(28,), name="a_long_name_" * 3)],
        name="m",
    )
    lines: list[str] = []
    model.summary(print_fn=lines.append)
    assert lines[0] == 'Model: "m"'
    assert "Total params: 8,700" in lines
    narrow: list[str] = []
    model.summary(line_length=40, print_fn=narrow.append)
    assert max(len(line) for line in narrow) <= 40
    assert "".join(narrow).count("8700") == 1
    assert "<table>" in model._repr_html_() and "8700" in model._repr_html_()
    a = keras.Input((2,), name="left")
    b = keras.layers.Dense(2, name="mid")(a)
    branching = keras.Model(a, keras.layers.Add()([a, b]))
    lines.clear()
    branching.summary(print_fn=lines.append)
    assert any("left[0][0], mid[0][0]" in line for line in lines)


def test_trainable_flags_reach_the_model() -> None:
    model = keras.Sequential(
        [keras.layers.Dense(3, input_shape=(2,)), keras.layers.Dense(1)]
    )
    model.layers[0].trainable = False
    assert len(model.trainable_weights) == 2 and len(model.non_trainable_weights) == 2
    assert [tuple(w.shape) for w in model.weights] == [(2, 3), (3,), (3, 1), (1,)]


# --- initializers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("glorot_uniform", np.sqrt(6 / 500)),
        ("he_uniform", np.sqrt(6 / 300)),
        ("lecun_uniform", np.sqrt(3 / 300)),
        ("random_uniform", 0.05),
    ],
)
def test_uniform_initializers(name: str, limit: float) -> None:
    values = keras.initializers.get(name)((300, 200)).numpy()
    assert values.dtype == np.float32
    assert np.abs(values).max() <= limit and np.abs(values).max() > 0.99 * limit
    np.testing.assert_allclose(values.std(), limit / np.sqrt(3), rtol=0.02)


@pytest.mark.parametrize(
    ("name", "deviation"),
    [
        ("glorot_normal", np.sqrt(2 / 500)),
        ("he_normal", np.sqrt(2 / 300)),
        ("lecun_normal", np.sqrt(1 / 300)),
        ("random_normal", 0.05),
    ],
)
def test_normal_initializers(name: str, deviation: float) -> None:
    values = keras.initializers.get(name)((300, 200)).numpy()
    np.testing.assert_allclose(values.std(), deviation, rtol=0.02)


def test_other_initializers() -> None:
    cut = keras.initializers.TruncatedNormal(stddev=2.0)((100, 100)).numpy()
    assert np.abs(cut).max() <= 4.0
    square = keras.initializers.Orthogonal()((20, 10)).numpy()
    np.testing.assert_allclose(square.T @ square, np.eye(10), atol=1e-5)
    assert keras.initializers.Identity()((2, 2)).numpy().tolist() == [
        [1, 0],
        [0, 1],
    ]
    assert keras.initializers.Constant([1, 2])((3, 2)).numpy().tolist() == [[1, 2]] * 3
    with pytest.raises(ValueError, match="two-dimensional"):
        keras.initializers.Orthogonal()((3,))
    with pytest.raises(ValueError, match="`mode`"):
        keras.initializers.VarianceScaling(mode="fan")


def test_initializers_follow_the_seed() -> None:
    tf.random.set_seed(7)
    first = [keras.initializers.GlorotUniform()((4, 4)).numpy() for _ in range(2)]
    tf.random.set_seed(7)
    again = [keras.initializers.GlorotUniform()((4, 4)).numpy() for _ in range(2)]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    seeded = keras.initializers.GlorotUniform(seed=1)
    np.testing.assert_array_equal(seeded((3,)).numpy(), seeded((3,)).numpy())


# --- pipeline stages ------------------------------------------------------------------


def test_pipeline_stage_rules() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        keras.PipelineStage(-1)
    with (
        pytest.raises(RuntimeError, match="IPUStrategy context"),
        keras.PipelineStage(0),
    ):
        pass
    with IPUStrategy().scope():
        with (
            pytest.raises(RuntimeError, match="must not be nested"),
            keras.PipelineStage(0),
            keras.PipelineStage(1),
        ):
            pass
        x = keras.Input((2,))
        with keras.PipelineStage(0):
            y = keras.layers.Dense(2)(x)
        with pytest.raises(ValueError, match="has not been assigned to one"):
            keras.Model(x, keras.layers.Dense(1)(y))
        with keras.PipelineStage(1):
            z = keras.layers.Dense(1)(y)
        model = keras.Model(x, z)
    stages = [a.pipeline_stage for a in model.get_pipeline_stage_assignment()]
    assert stages == [0, 1]
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="accumulation_steps_per_replica"):
        model.fit(floats(4, 2), floats(4, 1), verbose=0)
    model.reset_pipeline_stage_assignment()
    model.fit(floats(4, 2), floats(4, 1), verbose=0)


def test_stage_assignment_of_sequential_and_functional() -> None:
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    model.compile("sgd", "mse", steps_per_execution=4)
    with pytest.raises(ValueError, match="Current device has 1 IPUs attached"):
        model.fit(floats(16, 3), floats(16, 1), batch_size=2, verbose=0)
    for wrong, message in [
        ((0, 1), "list"),
        ([0], "does not match the number of layers"),
        ([1, 1], "0th pipeline stage"),
        ([0, 2], "only be assigned to the same"),
        ([0, None], "not been assigned"),
        ([0, "1"], "All elements"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.set_pipeline_stage_assignment(wrong)
    lines: list[str] = []
    model.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert any("Pipeline Stage" in line for line in lines)

    x = keras.Input((2,))
    mid = keras.layers.Dense(2)(x)
    functional = keras.Model(x, keras.layers.Add()([mid, keras.layers.Dense(2)(mid)]))
    entries = functional.get_pipeline_stage_assignment()
    for entry, stage in zip(entries, (0, 0, 1), strict=True):
        entry.pipeline_stage = stage
    functional.set_pipeline_stage_assignment(entries)
    entries[0].pipeline_stage = 3
    with pytest.raises(ValueError, match="has a dependency from a pipeline stage"):
        functional.set_pipeline_stage_assignment(entries)
    with pytest.raises(ValueError, match="does not match the post-order"):
        functional.set_pipeline_stage_assignment(entries[::-1])


def test_pipelining_options_are_checked() -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    for kwargs, message in [
        ({"gradient_accumulation_steps_per_replica": 0}, "positive integer"),
        ({"device_mapping": (0, 1)}, "list of integers"),
        (
            {"gradient_accumulation_count": 4},
            "Found `gradient_accumulation_count` key",
        ),
        ({"repeat_count": 4}, "automatically set by Keras"),
        ({"outfeed_mask": []}, "not compatible"),
        ({"gradient_accumulation_reduction_method": "most"}, "Cannot parse"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.set_pipelining_options(**kwargs)
    with pytest.raises(ValueError, match="num_mini_batches"):
        model.set_gradient_accumulation_options(num_mini_batches=3)
    with pytest.raises(ValueError, match="Cannot parse"):
        model.set_replication_options("all")
    with pytest.raises(ValueError, match="`dataset` key"):
        model.set_infeed_queue_options(dataset=1)
    # no effect on a model without stages
    model.set_pipelining_options(4, schedule="Interleaved", device_mapping=[0])
    model.compile("sgd", "mse")
    model.fit(floats(4, 2), floats(4, 1), verbose=0)
    model.set_gradient_accumulation_options(3)
    model.compile("sgd", "mse", steps_per_execution=2)
    with pytest.raises(RuntimeError, match="is not divisible by"):
        model.fit(floats(8, 2), floats(8, 1), batch_size=4, verbose=0)


@pytest.mark.parametrize(
    ("module", "name", "nearest"),
    [
        ("layers", "Dens", "Dense"),
        ("losses", "MeanSquareError", "MeanSquaredError"),
        ("optimizers", "Adm", "Adam"),
        ("metrics", "CategoricalAcuracy", "CategoricalAccuracy"),
        ("callbacks", "EarlyStoping", "EarlyStopping"),
        ("initializers", "GlorotUnifrom", "GlorotUniform"),
    ],
)
def test_unknown_classes_have_a_nearest_match(
    module: str, name: str, nearest: str
) -> None:
    with pytest.raises(AttributeError, match=f"Did you mean '{nearest}'"):
        getattr(getattr(keras, module), name)


def test_a_layer_without_call_gives_its_inputs() -> None:
    class Watching(keras.layers.Layer):
        pass

    x = keras.Input((2,))
    model = keras.Model(x, Watching()(keras.layers.Dense(3)(x)))
    assert model.output_shape == (None, 3)

    class Unfinished(keras.Model):
        pass

    with pytest.raises(NotImplementedError, match=r"Unfinished must define call"):
        Unfinished()(tf.ones((1, 2)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_initializers_draw_in_pieces_what_one_draw_gives(dtype: str) -> None:
    shape = (70_001, 2)  # of several pieces, the last one not whole
    pair = (
        keras.initializers.GlorotUniform(5),
        keras.initializers.RandomUniform(0, 2, 5),
    )
    for initializer in pair:
        whole = initializer.values(shape)
        assert whole.dtype == np.float64
        got = initializer(shape, dtype).numpy()
        np.testing.assert_array_equal(got, whole.astype(dtype))
    one_draw = pair[1].rng().uniform(0, 2, shape)
    np.testing.assert_array_equal(pair[1].values(shape), one_draw)


def test_a_variable_takes_an_array_of_its_kind_and_refuses_others() -> None:
    variable = tf.Variable(np.zeros((2, 3), np.float32))
    array = np.arange(6, dtype=np.float32).reshape(3, 2).T
    variable.assign(array)
    np.testing.assert_array_equal(variable.numpy(), array)
    array[:] = 9.0
    assert variable.numpy()[1, 2] == 5.0
    variable.assign(np.ones((2, 3)))  # float64 is converted
    assert variable.numpy().sum() == 6.0
    with pytest.raises(ValueError, match="Shape mismatch"):
        variable.assign(np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_call_of_a_model_hears_training(wrap) -> None:
    x = tf.constant([[1.0], [3.0]])
    for kind in (keras.Sequential, lambda ls: keras.Model(ls[0], ls[1](ls[0]))):
        model = kind([keras.Input((1,)), keras.layers.BatchNormalization(epsilon=0.0)])
        call = wrap(lambda x, model=model: model.call(x, training=True))
        np.testing.assert_array_equal(call(x), [[-1.0], [1.0]])
        np.testing.assert_array_less(0.5, model.call(x, training=False))


def test_arrays_in_calls_on_symbols_are_copied() -> None:
    array = np.ones((1, 3), np.float32)
    x = keras.Input((3,))
    model = keras.Model(x, keras.layers.Add()([x + array, tf.multiply(x, y=array)]))
    array[:] = 9.0
    np.testing.assert_array_equal(model(np.ones((1, 3), np.float32)), [[3.0] * 3])


def test_a_call_does_not_look_at_what_a_layer_holds() -> None:
    gc.collect()  # layers of other tests that have added losses
    looked = []

    class Table(list):
        def __iter__(self):
            looked.append(len(self))
            return super().__iter__()

    class Holder(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.table = Table(range(1000))

        def call(self, inputs):
            return inputs + 1

    layer = Holder()
    layer(tf.ones((2, 2)))
    looked.clear()
    for _ in range(3):
        layer(tf.ones((2, 2)))
    assert looked == []
    layer.table.append(keras.layers.Dense(3))
    layer.table[-1](tf.ones((1, 2)))
    assert len(layer.weights) == 2


def test_losses_are_those_of_the_last_call() -> None:
    class Penalty(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(tf.reduce_sum(inputs))
            return inputs

    class Outer(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner: list[keras.layers.Layer] = []

        def call(self, inputs):
            for layer in self.inner:
                inputs = layer(inputs)
            return inputs

    outer, inner = Outer(), Penalty()
    outer(tf.ones(2))
    inner(tf.ones(2))
    outer.inner.append(inner)  # with the loss of a call of its own
    for value in (3.0, 4.0):
        outer(tf.fill((2,), value))
        assert [float(x) for x in outer.losses] == [2 * value]
    copied = copy.deepcopy(inner)
    outer.inner = [copied]
    outer(tf.ones(2))
    assert [float(x) for x in outer.losses] == [2.0]
    outer.inner = []
    outer(tf.ones(2))
    assert outer.losses == []
