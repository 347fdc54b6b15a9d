# SPDX-License-Identifier: MIT
"""The first generation's configuration: options, setters, companion functions."""

import copy

import numpy as np
import pytest

from ipu import config, keras, tf, utils
from ipu._config import flags as _flags
from ipu._device import devices
from ipu.config import DeviceConnectionType, IPUConfig, SelectionOrder
from ipu.tf import errors


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    _flags._forget()
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()
    _flags._forget()


def options(**arguments):
    return utils.create_ipu_config(**arguments)


# --- create_ipu_config


def test_defaults_that_differ_from_an_ipu_config():
    changed = repr(options().config)
    assert "ipu_model.version='ipu1'" in changed
    assert "NO_MERGING" in changed
    assert "merge_infeed_io_copies=False" in changed
    assert changed.count("=") == 3


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"profiling": True, "enable_ipu_events": True}, "mutually exclusive"),
        ({"retain_control_dependencies": True}, "deprecated"),
        ({"profile_execution": True}, "`profiling` is required"),
        ({"profiling": True, "profile_execution": 3}, "ExecutionProfileType"),
        ({"scheduler_selection": "Best"}, "PostOrder"),
    ],
)
def test_create_refuses(arguments, words):
    with pytest.raises(Exception, match=words):
        options(**arguments)


def test_profile_execution_true_is_the_device_profile():
    made = options(profiling=True, profile_execution=True)
    kind = made.profiling["execution_trace_type"]
    assert kind is utils.ExecutionProfileType.DEVICE_PROFILE
    none = options(profiling=True).profiling["execution_trace_type"]
    assert none is utils.ExecutionProfileType.NO_PROFILE


def test_arguments_reach_the_tree():
    made = options(
        scheduler_selection="LookAhead",
        disable_graph_outlining=True,
        prefetch_data_streams=False,
        max_scheduler_lookahead_depth=9,
        selection_order=SelectionOrder.HOOF,
        always_rearrange_copies_on_the_host=True,
    ).config
    assert made.scheduling.algorithm.name == "LOOK_AHEAD"
    assert made.scheduling.maximum_scheduler_lookahead_depth == 9
    assert made.optimizations.enable_graph_outlining is False
    assert made.optimizations.prefetch_data_streams is False
    assert made.selection_order is SelectionOrder.HOOF
    assert made.experimental.always_rearrange_copies_on_the_host is True


# --- setters


def test_every_setter_returns_the_same_object():
    made = options()
    for given in (
        utils.set_ipu_model_options(made),
        utils.set_ipu_connection_type(made),
        utils.set_floating_point_behaviour_options(made),
        utils.set_recomputation_options(made),
        utils.set_optimization_options(made),
        utils.set_norm_options(made),
        utils.set_io_tile_options(made, 32),
        utils.set_gcl_options(made),
        utils.set_serialization_options(made),
        utils.set_transfer_options(made),
        utils.set_verification_options(made, utils.VerificationOptions()),
        utils.set_compilation_options(made),
        utils.set_convolution_options(made),
        utils.set_pooling_options(made),
        utils.set_matmul_options(made),
        utils.set_report_options(made),
        utils.set_experimental_multi_replica_distribution_options(made, 2, 1),
        utils.auto_select_ipus(made, 1),
    ):
        assert given is made


@pytest.mark.parametrize("wrong", ["2", 1.0, True, [1, "2"], [], None])
def test_auto_select_needs_integers(wrong):
    with pytest.raises(Exception, match="must be an integer or list of integers"):
        utils.auto_select_ipus(options(), wrong)


def test_devices_are_chosen_once():
    made = utils.auto_select_ipus(options(), 2)
    with pytest.raises(Exception, match="IPU devices have already been configured"):
        utils.auto_select_ipus(made, 2)
    with pytest.raises(Exception, match="IPU devices have already been configured"):
        utils.select_ipus(made, [0])


@pytest.mark.parametrize("wrong", [1, "1", [1, 1], ["a"]])
def test_select_needs_unique_ids(wrong):
    with pytest.raises(Exception, match="indices"):
        utils.select_ipus(options(), wrong)


def test_connection_types():
    with pytest.raises(Exception, match="`ipu_version` must be set"):
        utils.set_ipu_connection_type(options(), DeviceConnectionType.NEVER)
    made = utils.set_ipu_connection_type(options(), DeviceConnectionType.NEVER, 2)
    assert made.config.device_connection.version == "ipu2"
    assert made.config.device_connection.type is DeviceConnectionType.NEVER
    none = utils.set_ipu_connection_type(options()).config.device_connection
    assert none.type is DeviceConnectionType.ALWAYS


def test_floating_point_behaviour_is_all_on_once_called():
    made = utils.set_floating_point_behaviour_options(options(), oflo=False)
    behaviour = made.config.floating_point_behaviour
    assert (behaviour.inv, behaviour.div0, behaviour.oflo, behaviour.nanoo) == (
        True,
        True,
        False,
        True,
    )
    assert behaviour.esr.name == "ON"


@pytest.mark.parametrize(
    "value, name", [(True, "MERGE"), (False, "NO_MERGING"), (None, "IF_BENEFICIAL")]
)
def test_merge_remote_buffers(value, name):
    made = utils.set_optimization_options(options(), merge_remote_buffers=value)
    assert made.config.optimizations.merge_remote_buffers.name == name


def test_option_dictionaries_add_up():
    made = utils.set_compilation_options(options(), {"a": 1})
    made = utils.set_compilation_options(made, {"b": "x"})
    assert made.config.compilation_poplar_options == {"a": "1", "b": "x"}
    for setter in (
        utils.set_compilation_options,
        utils.set_convolution_options,
        utils.set_matmul_options,
        utils.set_pooling_options,
        utils.set_report_options,
    ):
        with pytest.raises(Exception, match="must be a dictionary"):
            setter(options(), [("a", 1)])
    with pytest.raises(TypeError, match="gcl_options"):
        utils.set_gcl_options(options(), 0, "x")


def test_ranges():
    with pytest.raises(ValueError, match="I/O tiles"):
        utils.set_io_tile_options(options(), 0, True)
    with pytest.raises(ValueError, match="process_index must be in the range"):
        utils.set_experimental_multi_replica_distribution_options(options(), 2, 2)


def test_setters_refuse_an_ipu_config():
    with pytest.raises(Exception, match="create_ipu_config"):
        utils.auto_select_ipus(IPUConfig(), 1)


def test_copies_are_independent():
    made = utils.set_compilation_options(options(), {"a": 1})
    other = copy.deepcopy(made)
    assert other == made
    utils.set_compilation_options(other, {"a": 2})
    assert made.config.compilation_poplar_options == {"a": "1"}
    assert other != made


# --- both families make the same devices


def test_configure_takes_both_families():
    utils.configure_ipu_system(utils.auto_select_ipus(options(), [1, 2]))
    assert utils.get_num_of_ipus_in_device("/device:IPU:1") == 2
    first = utils.get_ipu_config()[0]
    assert isinstance(first, IPUConfig) and first.auto_select_ipus == [1, 2]
    assert devices.current_layout().generation == 1
    device = devices.get_device(0)
    # the same options again, in the other family, change nothing
    utils.configure_ipu_system(first)
    assert devices.get_device(0) is device
    other = IPUConfig()
    other.auto_select_ipus = 3
    other.configure_ipu_system()
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == 3
    assert devices.current_layout().generation == 2


@pytest.mark.parametrize("wrong", [None, 3, {}, "x"])
def test_configure_refuses_the_rest(wrong):
    with pytest.raises(TypeError, match="IPUConfig"):
        utils.configure_ipu_system(wrong)


def test_checks_of_the_configuration_hold_for_both(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    with pytest.raises(Exception, match="When using the IPUModel"):
        utils.configure_ipu_system(utils.select_ipus(options(), [0]))


def test_an_unknown_flag_is_an_error_at_the_first_use_of_a_device(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_modle")
    _flags._forget()
    made = utils.auto_select_ipus(options(), 1)
    with pytest.raises(errors.InvalidArgumentError, match="--use_ipu_model"):
        utils.configure_ipu_system(made)
    with pytest.raises(errors.InvalidArgumentError, match="Unknown flag"):
        tf.Variable(1.0)


def test_a_flag_without_effect_is_told(monkeypatch, caplog):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --save_vertex_graph=maps")
    _flags._forget()
    with caplog.at_level("WARNING", logger="ipu"):
        _flags.flags()
        _flags.flags()
    assert [r.message for r in caplog.records] == [
        "TF_POPLAR_FLAGS: --save_vertex_graph is accepted, but has no effect: "
        "nothing is written. Use python -m ipu profile, or ipu.profiler."
    ]


# --- files


def test_export_dataset_to_file(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    ds = tf.data.Dataset.from_tensor_slices({"x": x, "y": np.arange(6)})
    names = utils.export_dataset_to_file(ds, str(tmp_path / "data.bin"), 4)
    assert names == [str(tmp_path / "data.0.bin"), str(tmp_path / "data.1.bin")]
    np.testing.assert_array_equal(np.load(names[0]), x[:4])
    np.testing.assert_array_equal(np.load(names[1]), np.arange(4))


def test_export_of_too_short_a_data_set(tmp_path):
    ds = tf.data.Dataset.range(3)
    with pytest.raises(errors.OutOfRangeError, match="ended after 3 elements"):
        utils.export_dataset_to_file(ds, str(tmp_path / "x.bin"), 4)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="'apply'"):
        utils.export_dataset_to_file(ds, str(tmp_path / "x.bin"), 2, apply=True)
    utils.export_dataset_to_file(ds, str(tmp_path / "x"), 2, apply_options=False)
    assert (tmp_path / "x.0.bin").exists()


def dense_model():
    return keras.Sequential([keras.layers.Dense(2, input_shape=(3,), name="d")])


def test_variables_of_a_model_go_to_a_file_and_back(tmp_path):
    file = str(tmp_path / "weights.bin")
    first, second = dense_model(), dense_model()
    utils.export_variables_from_live_model(first, file)
    utils.import_data_in_live_model(second, [file], str(tmp_path / "out"))
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (tmp_path / "out" / "weights.npz").exists()


def test_bad_files_change_nothing(tmp_path):
    model = dense_model()
    before = model.get_weights()
    with pytest.raises(errors.NotFoundError, match="no file"):
        utils.import_data_in_live_model(model, [str(tmp_path / "none")])
    np.savez(tmp_path / "a.npz", other=np.ones(3))
    with pytest.raises(errors.NotFoundError, match="They hold: other"):
        utils.import_data_in_live_model(model, str(tmp_path / "a.npz"))
    wrong = {v.name: np.ones([7]) for v in model.weights}
    np.savez(tmp_path / "b.npz", **wrong)
    with pytest.raises(ValueError, match=r"shape \(7,\)"):
        utils.import_data_in_live_model(model, str(tmp_path / "b.npz"))
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
