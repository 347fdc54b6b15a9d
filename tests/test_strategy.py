# SPDX-License-Identifier: MIT
"""`ipu.ipu_strategy`: scopes, run, reduce, data sets."""

import threading

import numpy as np
import pytest

from ipu import config, tf
from ipu._device import devices, strategy_state
from ipu.ipu_strategy import IPUStrategy, IPUStrategyV1
from ipu.tf._functions.function import DeviceFunction


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()


def device_function(python_function):
    """What the strategy knows a device function by."""
    python_function._is_ipu_function = True
    return python_function


def test_both_names_and_signatures():
    assert IPUStrategy is IPUStrategyV1
    old = IPUStrategy(ipu_device="/device:IPU:1", cpu_device="/device:CPU:0")
    assert (old.ipu_device, old.device_ordinal) == ("/device:IPU:1", 1)
    new = IPUStrategyV1("/device:IPU:0", "cpu", False, enable_keras_extensions=False)
    assert new.enable_dataset_iterators is False
    assert new.enable_keras_extensions is False
    assert IPUStrategy().enable_keras_extensions is True
    assert repr(new) == "IPUStrategyV1('/device:IPU:0')"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"ipu_device": "/device:CPU:0"}, "ipu_device must name an IPU"),
        ({"cpu_device": "/device:IPU:0"}, "cpu_device must name a CPU"),
        ({"ipu_device": "/device:GPU:0"}, "Cannot parse the device name"),
    ],
)
def test_names_that_do_not_fit(arguments, text):
    with pytest.raises(ValueError, match=text):
        IPUStrategyV1(**arguments)


def test_scope_can_be_nested_and_entered_again():
    strategy = IPUStrategy()
    assert not strategy_state.has_strategy()
    assert strategy_state.get_strategy() is None
    scope = strategy.scope()
    for _ in range(2):
        with scope as entered:
            assert entered is strategy
            with strategy.scope(), scope:
                assert strategy_state.get_strategy() is strategy
            assert strategy_state.has_strategy()
        assert not strategy_state.has_strategy()


def test_a_different_strategy_inside_a_scope():
    outer, inner = IPUStrategy(), IPUStrategy()
    with outer.scope():
        with pytest.raises(RuntimeError, match="different one"), inner.scope():
            pass
        assert strategy_state.get_strategy() is outer
    with inner.scope():
        pass


def test_scope_ends_with_an_error():
    with pytest.raises(KeyError), IPUStrategy().scope():
        raise KeyError
    assert not strategy_state.has_strategy()


def test_scope_belongs_to_a_thread():
    seen = []
    with IPUStrategy().scope():
        thread = threading.Thread(
            target=lambda: seen.append(strategy_state.has_strategy())
        )
        thread.start()
        thread.join()
    assert seen == [False]


def test_device_follows_the_configuration():
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = [1, 2]
    cfg.configure_ipu_system()
    strategy = IPUStrategy("/device:IPU:1")
    assert strategy.num_ipus == 2
    assert strategy.device is devices.get_device(1)
    assert strategy.num_replicas_in_sync == 1
    assert strategy.supports_loss_scaling is True


@pytest.mark.parametrize("name", ["run", "experimental_run_v2"])
def test_run_returns_what_the_function_returns(name):
    strategy = IPUStrategy()

    @device_function
    def function(a, b, c=0):
        assert strategy_state.get_strategy() is strategy
        return {"sum": a + b, "c": c}

    run = getattr(strategy, name)
    assert run(function, [1, 2], {"c": 5}) == {"sum": 3, "c": 5}
    assert run(function, args=(1, 2)) == {"sum": 3, "c": 0}


def test_run_of_a_plain_function():
    with pytest.raises(ValueError, match="does not support eager execution"):
        IPUStrategy().run(lambda: 1)
    with pytest.raises(TypeError, match="fn must be callable"):
        IPUStrategy().run(3)


@pytest.mark.parametrize(
    "value", [np.zeros(2), np.float64(1), {"a": [np.zeros(1)]}], ids=str
)
def test_float64_is_refused(value):
    identity = device_function(lambda x: x)
    with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
        IPUStrategy().run(identity, args=(value,))
    with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
        IPUStrategy().run(identity, kwargs={"x": value})
    constant = device_function(lambda: value)
    with pytest.raises(TypeError, match="Unsupported data type for output: float64"):
        IPUStrategy().run(constant)


def test_other_inputs_are_not_refused():
    values = (1.5, 2, True, np.zeros(2, np.float32), np.int64(3), "name", object())
    assert IPUStrategy().run(device_function(lambda *a: a), args=values) == values


def test_reduce_on_the_host_is_the_value():
    value = {"loss": 2.5}
    for op in ("sum", "MEAN", strategy_state.ReduceOp.SUM):
        assert IPUStrategy().reduce(op, value) is value
        assert IPUStrategy().reduce(op, value, axis=None) is value
    with pytest.raises(ValueError, match="reduce_op must be"):
        IPUStrategy().reduce("max", value)


def test_data_sets():
    strategy = IPUStrategy()
    data = [1, 2]
    assert strategy.experimental_distribute_dataset(data) is data

    def make(context):
        assert context.num_input_pipelines == 1
        assert context.input_pipeline_id == 0
        return [context.get_per_replica_batch_size(32)]

    assert strategy.distribute_datasets_from_function(make) == [32]
    assert strategy.experimental_distribute_datasets_from_function(make) == [32]
    assert strategy.experimental_local_results(3) == (3,)


# With the core.


def configure(**options):
    cfg = config.IPUConfig()
    for name, value in options.items():
        setattr(cfg, name, value)
    cfg.configure_ipu_system()


def test_run_on_a_device():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = IPUStrategy().run(DeviceFunction(lambda x: {"twice": x + x}), args=(a,))
    np.testing.assert_array_equal(result["twice"].numpy(), a + a)
    assert IPUStrategy().reduce("mean", a, axis=0).shape == (3,)


def test_a_plain_function_inside_a_trace():
    strategy = IPUStrategy()
    function = DeviceFunction(lambda x: strategy.run(lambda y: y + y, args=(x,)))
    assert float(function(np.float32(3))) == 6


def test_a_program_is_replicated_on_several_ipus(caplog):
    function = DeviceFunction(lambda x: x + x)
    for ipus in (4, 1):
        configure(auto_select_ipus=ipus)
        caplog.clear()
        assert float(IPUStrategy().run(function, args=(np.float32(1),))) == 2
        line = "Automatically replicating the TensorFlow model by a factor of 4."
        assert (line in caplog.messages) == (ipus == 4)


def test_variables_outlive_the_configuration():
    configure(auto_select_ipus=1)
    with IPUStrategy().scope():
        variable = tf.Variable([1.0, 2.0])
    assert variable.device == "/job:localhost/replica:0/task:0/device:IPU:0"
    core = devices.get_device(0).core
    for n in (2, 3, 1):
        configure(auto_select_ipus=n)
        np.testing.assert_array_equal(variable.numpy(), [1, 2])
    config.reset_ipu_configuration()
    np.testing.assert_array_equal(variable.numpy(), [1, 2])
    assert devices.get_device(0).core is not core
