# SPDX-License-Identifier: MIT
"""Frames of pandas, arrays of objects and wide inputs of everyday programs."""

import numpy as np
import pytest

import ipu
from ipu import keras, tf

ROWS = 48


@pytest.fixture(name="frame")
def made_frame():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(
        {
            "age": [25, 32, 47, 51] * (ROWS // 4),
            "city": ["paris", "rome", "oslo", "rome"] * (ROWS // 4),
            "fare": [1.5, 2.5, 3.0, 4.0] * (ROWS // 4),
            "alive": [True, False, True, True] * (ROWS // 4),
        }
    )
    frame["port"] = pd.Series(["a", "b", "c", "a"] * (ROWS // 4), dtype=object)
    frame["kind"] = frame["city"].astype("category")
    return frame


def texts(tensor):
    return [item.decode() for item in tensor.numpy().ravel()]


def classifier(frame):
    """A model of named inputs with lookups, as for tables."""
    layers = keras.layers
    inputs = {
        "age": keras.Input((1,), name="age", dtype="int64"),
        "city": keras.Input((1,), name="city", dtype="string"),
        "fare": keras.Input((1,), name="fare", dtype="float64"),
    }
    cities = layers.StringLookup(output_mode="one_hot")
    cities.adapt(frame["city"])
    ages = layers.IntegerLookup(output_mode="one_hot")
    ages.adapt(frame["age"])
    fares = layers.Normalization(axis=None)
    fares.adapt(frame["fare"])
    x = layers.concatenate(
        [ages(inputs["age"]), cities(inputs["city"]), fares(inputs["fare"])]
    )
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


@pytest.mark.parametrize("column", ["city", "port", "kind"])
def test_columns_of_words(frame, column):
    words = frame[column].astype(object).tolist()
    assert texts(tf.constant(frame[column])) == words
    assert texts(tf.convert_to_tensor(frame[column])) == words
    slices = tf.data.Dataset.from_tensor_slices(frame[column])
    assert slices.element_spec.dtype == tf.string
    assert [one.numpy().decode() for one in slices] == words
    lookup = keras.layers.StringLookup()
    lookup.adapt(frame[column])
    assert set(lookup.get_vocabulary()) == {"[UNK]", *words}
    assert lookup(frame[column]).numpy().min() == 1


def test_a_dict_of_columns_in_a_data_set(frame):
    alive = frame.pop("alive")
    slices = tf.data.Dataset.from_tensor_slices((dict(frame), alive))
    spec, target = slices.element_spec
    assert {name: one.dtype for name, one in spec.items()} == {
        "age": tf.int64,
        "city": tf.string,
        "fare": tf.float64,
        "port": tf.string,
        "kind": tf.string,
    }
    assert target.dtype == tf.bool
    row, alive_0 = next(iter(slices))
    assert row["city"].numpy() == b"paris" and row["age"].numpy() == 25 and alive_0


def test_a_data_set_is_not_changed_with_the_frame():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    ages = np.array([1.0, 2.0])
    slices = tf.data.Dataset.from_tensor_slices(pd.Series(ages, copy=False))
    ages[:] = 9.0
    assert [one.numpy() for one in slices] == [1.0, 2.0]


@pytest.mark.parametrize("form", ["dict", "data set"])
def test_training_on_a_dict_of_columns(frame, form):
    columns = dict(frame[["age", "city", "fare"]])
    model = classifier(frame)
    if form == "dict":
        history = model.fit(columns, frame["alive"], epochs=2, verbose=0)
    else:
        pairs = tf.data.Dataset.from_tensor_slices((columns, frame["alive"]))
        history = model.fit(pairs.batch(16), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
    assert model.predict(columns, verbose=0).shape == (ROWS, 1)
    assert len(model.train_on_batch(columns, frame["alive"])) == 2


def test_training_on_numbers_of_every_kind(frame):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    dummies = pd.get_dummies(frame[["age", "fare", "city"]])
    forms = [
        dummies,
        dummies.to_numpy(),  # objects: ints, floats and bools
        dummies.astype(object),
        dummies.convert_dtypes(),
        dummies.astype("float64").to_numpy(),
    ]
    losses = []
    for x in forms:
        start = keras.initializers.Constant(0.1)
        model = keras.Sequential([keras.layers.Dense(1, kernel_initializer=start)])
        model.compile("sgd", "mse")
        losses.append(model.train_on_batch(x, frame["alive"]))
    assert len(set(losses)) == 1


def test_arrays_of_objects_are_numbers_or_refused():
    objects = np.array([[1, 2.5], [True, 4]], object)
    assert tf.constant(objects).numpy().tolist() == [[1.0, 2.5], [1.0, 4.0]]
    with pytest.raises(TypeError, match="dtype"):
        tf.constant(np.array([1, None], object))


@pytest.mark.parametrize("in_strategy", [False, True])
@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_wide_inputs_are_what_wide_data_are(kind, in_strategy, recwarn, capfd):
    def run():
        symbol = keras.Input((10,), dtype=kind)
        assert symbol.dtype == kind
        if kind == "int64":
            x = keras.layers.Embedding(200, 8)(symbol)
            x = keras.layers.GlobalAveragePooling1D()(x)
        else:
            x = keras.layers.Dense(8)(symbol * 2.0)
        model = keras.Model(symbol, keras.layers.Dense(1)(x))
        model.compile("adam", "mse")
        x = np.arange(640).reshape(64, 10) % 200
        model.fit(x.astype(kind), np.ones(64), batch_size=16, verbose=0)
        assert model.predict(x.astype(kind), batch_size=16).shape == (64, 1)
        copy = keras.Model.from_config(model.get_config())
        assert copy.inputs[0].dtype == kind

    if in_strategy:
        with ipu.ipu_strategy.IPUStrategy().scope():
            run()
    else:
        run()
        assert "64" not in capfd.readouterr().err
    assert not recwarn.list


def test_an_open_length_of_wide_numbers():
    words = keras.layers.Embedding(200, 32)(keras.Input((None,), dtype="int64"))
    assert words.shape == (None, None, 32)


def test_a_wide_input_of_a_pipeline():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        symbol = keras.Input((4,), dtype="int64")
        with keras.PipelineStage(0):
            x = keras.layers.Embedding(20, 8)(symbol)
            x = keras.layers.Flatten()(x)
        with keras.PipelineStage(1):
            model = keras.Model(symbol, keras.layers.Dense(1)(x))
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4, device_mapping=[0, 1]
        )
        model.compile("sgd", "mse", steps_per_execution=8)
        x = np.arange(128).reshape(32, 4) % 20
        history = model.fit(x, np.ones(32), batch_size=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
