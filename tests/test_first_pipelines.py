# SPDX-License-Identifier: MIT
"""Pipelines of `tensorflow.python.ipu.keras` in the first generation.

What a pipeline gives is what the same layers give on one IPU, with as many mini-batches
accumulated: the bits of it.
"""

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import drop_in, keras, tf
from ipu.drop_in import first_keras
from ipu.drop_in.first_keras import runs
from ipu.drop_in.first_keras.pipelines import PipelineOptions
from ipu.ipu_strategy import IPUStrategy
from ipu.keras import PipelineStage
from ipu.ops.pipelining_ops import PipelineSchedule

RNG = np.random.default_rng(7)
X = RNG.normal(size=(64, 6)).astype(np.float32)
Y = (X[:, :1] > 0).astype(np.float32)
BATCH = 2
Dense = keras.layers.Dense


@pytest.fixture(autouse=True)
def one_ipu():
    yield
    attach(1)


def scope(ipus=1):
    attach(ipus)
    return IPUStrategy().scope()


def layers():
    units = [8, 7, 5]
    return [*(Dense(n, activation="tanh") for n in units), Dense(1)]


def stacked(mapping=None, count=4, **kwargs):
    """Four stages, or with no count the same layers in one loop."""
    keras.utils.set_random_seed(3)
    if count is None:
        return first_keras.Sequential(layers(), **kwargs)
    stages = [[layer] for layer in layers()]
    return first_keras.SequentialPipelineModel(
        stages, count, device_mapping=mapping, **kwargs
    )


def branched(mapping=None, count=4, **kwargs):
    """Four stages with a branch in each of the middle ones."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    with PipelineStage(0):
        x = Dense(8, activation="tanh")(inputs)
    with PipelineStage(1):
        a = Dense(5, activation="relu")(x)
    with PipelineStage(2):
        b = Dense(5, activation="relu")(x)
    with PipelineStage(3):
        x = keras.layers.Concatenate()([a, b])
        x = Dense(1)(x)
    if count is None:
        return first_keras.Model(inputs, x, **kwargs)
    return first_keras.PipelineModel(
        inputs, x, gradient_accumulation_count=count, device_mapping=mapping, **kwargs
    )


def trained(model, **kwargs):
    """What came of training, evaluation and prediction."""
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    history = model.fit(X, Y, batch_size=BATCH, epochs=3, verbose=0, **kwargs)
    return {
        "history": history.history,
        "values": model.evaluate(X, Y, batch_size=BATCH, verbose=0),
        "outputs": model.predict(X, batch_size=BATCH),
        "weights": model.get_weights(),
        "updates": int(model.optimizer.iterations),
    }


def assert_same(one, other):
    assert one["history"] == other["history"] and one["values"] == other["values"]
    assert one["updates"] == other["updates"]
    for key in ("outputs", "weights"):
        for a, b in zip(one[key], other[key], strict=True):
            np.testing.assert_array_equal(a, b)


# --- where they are


def test_they_are_served_to_old_programs_only():
    drop_in.install()
    try:
        from tensorflow.python import ipu as served

        for name in (
            "PipelineModel",
            "SequentialPipelineModel",
            "PipelineSequential",
            "PipelinedModel",
        ):
            assert getattr(served.keras, name) is getattr(first_keras, name)
        assert served.keras.PipelineStage is PipelineStage
    finally:
        drop_in.uninstall()
    drop_in.install()
    try:
        from tensorflow.python.ipu.keras import model, pipeline

        assert model.Sequential is first_keras.Sequential
        assert pipeline.PipelineModel is first_keras.PipelineModel
    finally:
        drop_in.uninstall()
    with pytest.raises(
        NotImplementedError, match=r"PipelineModel.*SequentialPipelineM"
    ):
        first_keras.PipelinedModel([], 3)


# --- constructors


def test_the_order_of_arguments():
    names = """
        gradient_accumulation_count gradient_accumulation_dtype
        batch_serialization_iterations device_mapping pipeline_schedule
        recomputation_mode forward_propagation_stages_poplar_options
        backward_propagation_stages_poplar_options weight_update_poplar_options
        replicated_optimizer_state_sharding offload_activations
        offload_gradient_accumulation_buffers replicated_weight_sharding
        offload_weights layer_replacement
        """
    assert list(PipelineOptions._fields) == names.split()


def test_stacks_are_checked():
    kind = first_keras.SequentialPipelineModel
    with scope():
        for wrong in ([], None, Dense(1)):
            with pytest.raises(
                ValueError, match="must take a non-empty list of stages"
            ):
                kind(wrong, 4)
        with pytest.raises(ValueError, match="may only contain lists of stages,"):
            kind([[Dense(1)], Dense(1)], 4)
        with pytest.raises(ValueError, match="must contain only Keras Layers"):
            kind([[Dense(1)], ["relu"]], 4)
        with pytest.raises(ValueError, match="no layer on stage 1"):
            kind([[Dense(1)], [], [Dense(1)]], 4)
        with pytest.raises(TypeError, match=r"SequentialPipelineModel\(\) missing 1"):
            kind([[Dense(1)], [Dense(1)]])
        with pytest.raises(TypeError, match=r"Model\(\) got an unexpected .* 'depth'"):
            kind([[Dense(1)], [Dense(1)]], 4, depth=3)
        with pytest.raises(ValueError, match="`gradient_accumulation_count` must be a"):
            kind([[Dense(1)], [Dense(1)]], 0)
        model = kind(
            [[Dense(1)], [Dense(2), Dense(3)]], 4, None, 2, [0, 0], name="mine"
        )
        assert model.name == "mine" and model._accumulated == 8
        assert [e.pipeline_stage for e in model.get_pipeline_stage_assignment()] == [
            0,
            1,
            1,
        ]
        assert not hasattr(model, "add")


def test_networks_are_checked():
    kind = first_keras.PipelineModel
    with scope():
        x = keras.Input((4,))
        early = Dense(1)
        with PipelineStage(0):
            a = Dense(4)(x)
            b = early(a)
        with PipelineStage(1):
            c = Dense(3)(a)
        with pytest.raises(TypeError, match="gradient_accumulation_count"):
            kind(x, c)
        with pytest.raises(ValueError, match="was not provided with 'inputs' and"):
            kind(x, gradient_accumulation_count=4)
        words = "All layers of a pipelined model must have an associated pipeline stage"
        for outputs in (b, Dense(1)(c)):
            with pytest.raises(ValueError, match=words):
                kind(x, outputs, gradient_accumulation_count=4)
        with PipelineStage(0):
            back = Dense(2)(c)
        words = (
            "Post order execution node #2 has stage 0, but previous node had stage 1"
        )
        with pytest.raises(ValueError, match=words):
            kind(x, back, gradient_accumulation_count=4)
        with PipelineStage(3):
            far = Dense(2)(c)
        with pytest.raises(ValueError, match="no layer on stage 2"):
            kind(x, far, gradient_accumulation_count=4)
        model = kind(inputs=x, outputs=c, gradient_accumulation_count=4, name="mine")
        assert model.name == "mine" and model._accumulated == 4


def test_a_layer_that_is_called_twice_has_one_stage():
    with scope():
        x = keras.Input((4,))
        with PipelineStage(0):
            twice = Dense(4)
            a = twice(twice(x))
        with PipelineStage(1):
            b = Dense(1)(a)
        model = first_keras.PipelineModel(x, b, gradient_accumulation_count=4)
        stages = [e.pipeline_stage for e in model.get_pipeline_stage_assignment()]
        assert stages == [0, 0, 1]
        with PipelineStage(1):
            again = twice(a)
        model = first_keras.PipelineModel(x, [a, again], gradient_accumulation_count=4)
        stages = [e.pipeline_stage for e in model.get_pipeline_stage_assignment()]
        assert stages == [0, 0, 0]


def test_stages_outside_of_a_strategy():
    with pytest.raises(RuntimeError, match="from within an IPUStrategy context"):
        PipelineStage(0).__enter__()
    with pytest.raises(ValueError, match="`stage` of PipelineStage"):
        PipelineStage(-1)
    with scope(), PipelineStage(0), pytest.raises(RuntimeError, match="be nested"):
        PipelineStage(1).__enter__()


@pytest.mark.parametrize(
    "ipus, mapping, shards, replicas",
    [
        (4, None, 4, 1),
        (8, None, 4, 2),
        (2, [0, 1, 1, 0], 2, 1),
        (4, [0, 1, 2, 0], 4, 1),
    ],
)
def test_how_many_ipus_and_replicas(ipus, mapping, shards, replicas):
    with scope(ipus):
        model = stacked(mapping)
        assert (model.shard_count, model.replication_factor) == (shards, replicas)


def test_too_few_ipus():
    with scope(2):
        model = stacked()
        model.compile("sgd", "mse")
        words = "Current device has 2 IPUs attached, .* requires a multiple of 4 IPUs"
        with pytest.raises(ValueError, match=words):
            model.fit(X, Y, batch_size=BATCH)


@pytest.mark.parametrize("wrong", [3, "01", ["0", "1"], [0, 1.5]])
def test_a_mapping_that_is_none(wrong):
    with scope(4):
        model = stacked(wrong)
        model.compile("sgd", "mse")
        with pytest.raises(TypeError):
            model.fit(X, Y, batch_size=4, verbose=0)


def test_the_timetable_is_that_of_the_model():
    with scope(2):
        schedule = PipelineSchedule.Sequential
        model = branched([0, 1, 1, 0], count=2, pipeline_schedule=schedule)
        for training in (True, False):
            text = str(model.pipeline_schedule(training))
            what = "training" if training else "inference"
            assert f"Sequential: {what} of 4 stages on 2 IPUs, 2 micro-batches" in text


# --- what they do not do


def test_the_restrictions_hold_here_too(tmp_path):
    with scope():
        model = branched([0] * 4)
        model.compile("sgd", "mse")
        with pytest.raises(
            ValueError, match="PipelineModel can only be called through"
        ):
            model(X)
        with pytest.raises(NotImplementedError, match="`save` interface"):
            model.save(tmp_path)
        with pytest.raises(NotImplementedError, match=r"to fit\(\): validation_data"):
            model.fit(X, Y, batch_size=BATCH, validation_data=(X, Y))
        with pytest.raises(
            TypeError, match="unexpected keyword argument 'infeed_queue'"
        ):
            model.fit(X, Y, batch_size=BATCH, infeed_queue=None)
        with pytest.raises(
            ValueError, match="to be a multiple of the accumulated batch"
        ):
            model.fit(X, Y, batch_size=32)
        with pytest.raises(
            ValueError, match="to be a multiple of the accumulated batch"
        ):
            model.predict(X, batch_size=32)


def test_a_pipeline_without_weights_is_not_trained():
    with scope():
        stages = [[keras.layers.Flatten()], [keras.layers.Activation("tanh")]]
        model = first_keras.SequentialPipelineModel(stages, 4, device_mapping=[0, 0])
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="Sequential must have at least one train"):
            model.fit(X, X, batch_size=BATCH)


# --- numbers


BOTH = pytest.mark.parametrize("make", [stacked, branched])


@BOTH
@pytest.mark.parametrize("per_run", [None, 2])
def test_a_pipeline_gives_what_one_ipu_gives(make, per_run):
    with scope():
        plain = trained(make(count=None, accumulation_count=8), steps_per_run=per_run)
        assert plain["updates"] == 12
        one_ipu = trained(make([0] * 4, count=8), steps_per_run=per_run)
    assert_same(plain, one_ipu)
    with scope(4):
        assert_same(plain, trained(make(count=8), steps_per_run=per_run))


@pytest.mark.parametrize("schedule", ["Grouped", "Interleaved", "Sequential"])
def test_every_schedule_gives_the_same(schedule):
    with scope():
        plain = trained(branched(count=None, accumulation_count=8))
    mapping = None if schedule == "Interleaved" else [0, 1, 1, 0]
    with scope(4 if mapping is None else 2):
        chosen = PipelineSchedule[schedule]
        model = branched(mapping, count=8, pipeline_schedule=chosen)
        assert_same(plain, trained(model))


def test_replicas_of_a_pipeline_give_what_one_ipu_gives():
    with scope():
        plain = trained(branched(count=None, accumulation_count=16))
    with scope(4):
        model = branched([0, 1, 1, 0], count=8)
        assert model.replication_factor == 2
        replicated = trained(model)
    assert replicated["updates"] == plain["updates"] == 6
    np.testing.assert_allclose(replicated["outputs"], plain["outputs"], rtol=1e-4)
    for one, two in zip(replicated["weights"], plain["weights"], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)
    losses = [replicated["history"]["loss"], plain["history"]["loss"]]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_options_of_a_call_reach_the_pipeline():
    with scope(4):
        model = branched(count=8)
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="no pipeline schedule 'wrong'"):
            model.fit(X, Y, batch_size=BATCH, verbose=0, pipeline_schedule="wrong")
        model.fit(
            X,
            Y,
            batch_size=BATCH,
            verbose=0,
            pipeline_schedule=PipelineSchedule.Sequential,
        )
        assert int(model.optimizer.iterations) == 4


@pytest.mark.parametrize("make", [stacked, branched])
def test_sums_in_the_outfeed_change_no_result(make):
    def results(**options):
        with scope(4):
            model = make(count=8)
            model.compile("sgd", "mse", metrics=["mae"])
            history = model.fit(X, Y, batch_size=BATCH, verbose=0, **options).history
            values = model.evaluate(X, Y, batch_size=BATCH, verbose=0, **options)
            return [*history["loss"], values[0]], model.get_weights()

    losses, weights = results()
    others, same = results(accumulate_outfeed=True)
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    for one, two in zip(weights, same, strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_the_next_release_calls_a_pipeline():
    with scope(2):
        model = first_keras.PipelineSequential([[Dense(2)], [Dense(1)]], 4)
        with pytest.raises(ValueError, match="PipelineSequential can only be called"):
            model(X)
        assert model.predict(X, batch_size=BATCH).shape == (64, 1)


def test_a_pipeline_is_made_before_its_ipus_are_configured():
    with scope(1):
        stack, net = stacked(count=8), branched(count=8)
        attach(4)
        for model in (stack, net):
            model.compile("sgd", "mse")
            assert len(model.fit(X, Y, batch_size=4, verbose=0).history["loss"]) == 1


def test_serialized_batches_count_as_mini_batches():
    with scope():
        plain = trained(stacked(count=None, accumulation_count=8))
        model = stacked([0] * 4, count=4, batch_serialization_iterations=2)
        assert_same(plain, trained(model))


def test_a_stack_is_built_for_the_shape_of_the_data():
    words = RNG.integers(0, 9, (64, 5)).astype(np.int32)
    with scope(2):
        source = keras.layers.InputLayer((None,), dtype="int32")
        stages = [
            [source, keras.layers.Embedding(9, 3)],
            [keras.layers.Flatten(), Dense(1)],
        ]
        model = first_keras.SequentialPipelineModel(stages, 4)
        model.compile("adam", "mse")
        history = model.fit(words, Y, batch_size=BATCH, epochs=3, verbose=0).history
        assert [w.shape for w in model.get_weights()] == [(9, 3), (15, 1), (1,)]
        assert history["loss"][2] < history["loss"][0]
        (rows,) = model.predict(words, batch_size=BATCH)
        assert rows.shape == (64, 1)


@pytest.mark.parametrize(
    "per_run, moves", [(None, [768]), (256, [256, 512, 768])], ids=["epoch", "runs"]
)
def test_epochs_updates_and_the_bar(per_run, moves):
    """The guide's numbers: 768 steps of 16 mini-batches are 768 weight updates."""
    begins, bar_at = [], []
    bar = runs._StepBar()
    bar._show = lambda step, logs: bar_at.append(step + 1)

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            begins.append(batch)

    x = RNG.normal(size=(64, 3)).astype(np.float32)
    rows = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat()
    data = rows.batch(32, drop_remainder=True)
    with scope(2):
        stages = [[Dense(2)], [Dense(1)]]
        model = first_keras.SequentialPipelineModel(
            stages, gradient_accumulation_count=16
        )
        model.compile(keras.optimizers.SGD(1e-4), "mse")
        history = model.fit(
            data,
            steps_per_epoch=768,
            steps_per_run=per_run,
            callbacks=[Watch(), bar],
            verbose=0,
        )
    assert history.epoch == [0] and len(history.history["loss"]) == 1
    assert int(model.optimizer.iterations) == 768
    assert begins == [0, *moves[:-1]] and bar_at == moves
    assert bar.params["steps"] == 768
    mini_batches = history.steps["loss"]
    assert len(mini_batches) == 768 * 16
    np.testing.assert_allclose(
        history.history["loss"], [np.mean(mini_batches, dtype=np.float64)], rtol=1e-12
    )


def test_counts_that_the_schedule_does_not_have():
    with scope(4):
        model = branched(count=4)
        model.compile("sgd", "mse")
        words = "number of iterations of the pipeline must be a multiple of"
        with pytest.raises(tf.errors.FailedPreconditionError, match=words):
            model.fit(X, Y, batch_size=BATCH, verbose=0)


# --- layers replaced


def test_layers_are_replaced_in_their_stages():
    with scope():
        x = keras.Input((3,), dtype="int32")
        with PipelineStage(0):
            y = keras.layers.Embedding(5, 2)(x)
        with PipelineStage(1):
            y = Dense(1)(keras.layers.Flatten()(y))
        model = first_keras.PipelineModel(
            x, y, gradient_accumulation_count=4, layer_replacement=True
        )
        found = model.get_pipeline_stage_assignment()
        assert type(found[0].layer) is ipu.layers.Embedding
        assert [e.pipeline_stage for e in found] == [0, 1, 1]
        stages = [[keras.layers.Embedding(5, 2)], [Dense(1)]]
        stack = first_keras.SequentialPipelineModel(stages, 4, layer_replacement=True)
        assert type(stack.layers[0]) is ipu.layers.Embedding
