# SPDX-License-Identifier: MIT
"""`ipu.config`, the simulated devices, TF_POPLAR_FLAGS and `ipu.utils`."""

import copy
import json
import logging
import pickle
import subprocess
import sys
import threading

import pytest

from ipu import _devices, _flags, config, utils
from ipu.config import IPUConfig, SelectionOrder, StochasticRoundingBehaviour
from ipu.tf import errors


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    monkeypatch.delenv("IPU_NUM_IPUS", raising=False)
    _flags._forget()
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()
    _flags._forget()


def poplar_flags(monkeypatch, text):
    monkeypatch.setenv("TF_POPLAR_FLAGS", text)
    _flags._forget()


DEFAULTS = {
    "allow_recompute": False,
    "selection_order": 0,
    "serialization_output_folder": "",
    "compilation_poplar_options": {},
    "gcl_poplar_options": {},
    "auto_select_ipus": [],
    "select_ipus": [],
    "convolutions.poplar_options": {},
    "device_connection.type": 0,
    "device_connection.version": "",
    "device_connection.enable_remote_buffers": False,
    "slices.poplar_options": {},
    "experimental.always_rearrange_copies_on_the_host": False,
    "experimental.enable_remote_buffer_embedding": False,
    "experimental.enable_prng_stability": False,
    "experimental.multi_replica_distribution.process_index": 0,
    "experimental.multi_replica_distribution.process_count": 0,
    "floating_point_behaviour.inv": False,
    "floating_point_behaviour.div0": False,
    "floating_point_behaviour.oflo": False,
    "floating_point_behaviour.esr": 0,
    "floating_point_behaviour.nanoo": False,
    "floating_point_behaviour.set_all": False,
    "io_tiles.num_io_tiles": 0,
    "io_tiles.place_ops_on_io_tiles": False,
    "io_tiles.available_memory_proportion": 0.9,
    "ipu_model.compile_ipu_code": True,
    "ipu_model.tiles_per_ipu": 0,
    "ipu_model.version": "ipu2",
    "matmuls.clear_pass_type": False,
    "matmuls.poplar_options": {},
    "matmuls.same_bits_on_every_cpu": False,
    "norms.use_stable_statistics": False,
    "norms.experimental.distributed_batch_norm_replica_group_size": 1,
    "optimizations.math.fast": False,
    "optimizations.math.dot_strength": True,
    "optimizations.prefetch_data_streams": True,
    "optimizations.combine_embedding_lookups": False,
    "optimizations.combine_matmuls": False,
    "optimizations.enable_graph_outlining": True,
    "optimizations.merge_infeed_io_copies": True,
    "optimizations.maximum_cross_replica_sum_buffer_size": 0,
    "optimizations.maximum_reduce_scatter_buffer_size": 0,
    "optimizations.maximum_inter_ipu_copies_buffer_size": 0,
    "optimizations.maximum_send_recv_cluster_size": 0,
    "optimizations.maximum_reduce_many_buffer_size": 0,
    "optimizations.maximum_all_gather_buffer_size": 0,
    "optimizations.minimum_remote_tensor_size": 128,
    "optimizations.merge_remote_buffers": 2,
    "optimizations.enable_gather_simplifier": True,
    "optimizations.triangular_solve_expander_block_size": 0,
    "optimizations.cholesky_block_size": 0,
    "optimizations.enable_fast_math": False,
    "optimizations.enable_dynamic_slice_replacement": True,
    "pooling.poplar_options": {},
    "scheduling.algorithm": 0,
    "scheduling.maximum_scheduler_lookahead_depth": 5,
    "scheduling.maximum_scheduler_search_space_size": 64,
}


def test_the_whole_tree_with_its_defaults():
    assert IPUConfig().to_dict() == DEFAULTS


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_option_is_described_typed_and_settable(name):
    cfg = IPUConfig()
    metadata = cfg.get_attribute_metadata(name)
    assert metadata.name == name
    assert metadata.__doc__
    parent, _, last = name.rpartition(".")
    owner = cfg
    for part in parent.split(".") if parent else ():
        owner = getattr(owner, part)
    setattr(owner, last, metadata.default)
    assert getattr(owner, last) == metadata.default
    with pytest.raises(TypeError, match=rf"Trying to set {name} to .* of type"):
        setattr(owner, last, object())
    metadata.check_type(metadata.default)
    assert owner.get_attribute_metadata(last).name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_select_ipus", True),
        ("auto_select_ipus", [1, True]),
        ("auto_select_ipus", (1, 2.0)),
        ("auto_select_ipus", "1"),
        ("allow_recompute", 1),
        ("selection_order", 1),
        ("serialization_output_folder", None),
        ("compilation_poplar_options", []),
    ],
)
def test_types_are_exact(name, value):
    cfg = IPUConfig()
    before = getattr(cfg, name)
    with pytest.raises(TypeError, match="but it must be of type"):
        setattr(cfg, name, value)
    assert getattr(cfg, name) == before


def test_types_in_categories_are_exact():
    cfg = IPUConfig()
    with pytest.raises(TypeError, match=r"io_tiles\.num_io_tiles to True"):
        cfg.io_tiles.num_io_tiles = True
    with pytest.raises(TypeError, match="available_memory_proportion"):
        cfg.io_tiles.available_memory_proportion = 1
    with pytest.raises(TypeError, match="StochasticRoundingBehaviour"):
        cfg.floating_point_behaviour.esr = True


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("auto_select_ipu", "auto_select_ipus"),
        ("num_io_tiles", "io_tiles.num_io_tiles"),
        ("ipu_modle", "ipu_model"),
        ("process_cuont", "experimental.multi_replica_distribution.process_count"),
        ("matmuls.poplar_option", "matmuls.poplar_options"),
        ("slices.poplar_opts", "slices.poplar_options"),
    ],
)
def test_unknown_names_get_a_suggestion(path, suggestion):
    cfg = IPUConfig()
    parent, _, last = path.rpartition(".")
    owner = getattr(cfg, parent) if parent else cfg
    text = f"'{last}' is not a valid attribute of this config.*'{suggestion}'"
    with pytest.raises(ValueError, match=text):
        getattr(owner, last)
    with pytest.raises(ValueError, match=text):
        setattr(owner, last, 1)


def test_unknown_names_without_a_suggestion():
    with pytest.raises(ValueError, match=r"valid attribute of this config\.$"):
        IPUConfig().zzzzzz  # noqa: B018
    assert not hasattr(IPUConfig(), "zzzzzz")
    assert not hasattr(IPUConfig(), "_repr_html_")


def test_categories_cannot_be_assigned_to():
    cfg = IPUConfig()
    with pytest.raises(Exception, match="ipu_model is a category and cannot be ass"):
        cfg.ipu_model = 3
    name = "experimental.multi_replica_distribution is a category"
    with pytest.raises(Exception, match=name):
        cfg.experimental.multi_replica_distribution = None


def test_metadata():
    cfg = IPUConfig()
    metadata = cfg.get_attribute_metadata("io_tiles.available_memory_proportion")
    assert (metadata.type, metadata.default) == (float, 0.9)
    assert (metadata.deprecated, metadata.deprecated_msg) == (False, None)
    with pytest.raises(TypeError):
        metadata.check_type(1)
    old = cfg.get_attribute_metadata("optimizations.enable_fast_math")
    assert old.deprecated
    assert "optimizations.math.fast" in old.deprecated_msg
    for bad, part in (("io_tiles.nothing", "nothing"), ("none.version", "none")):
        with pytest.raises(ValueError, match=f"'{bad}': '{part}' is no option"):
            cfg.get_attribute_metadata(bad)
    with pytest.raises(ValueError, match=r"'io_tiles' is no option.*'num_io_tiles'"):
        cfg.io_tiles.get_attribute_metadata("io_tiles.num_io_tiles")
    for bad in ("nothing", "ipu_model", "ipu_model.nothing"):
        with pytest.raises(ValueError, match="Could not get attribute metadata for"):
            cfg.get_attribute_metadata(bad)


def test_the_deprecated_option_warns_and_works(caplog):
    cfg = IPUConfig()
    cfg.optimizations.enable_fast_math = True
    assert "enable_fast_math has been deprecated: " in caplog.text
    assert cfg.optimizations.math.fast is True
    assert cfg.optimizations.enable_fast_math is True


def changed():
    cfg = IPUConfig()
    cfg.auto_select_ipus = [2, 1]
    cfg.selection_order = SelectionOrder.SNAKE
    cfg.convolutions.poplar_options["partialsType"] = "half"
    cfg.floating_point_behaviour.esr = StochasticRoundingBehaviour.ON
    cfg.optimizations.math.fast = True
    return cfg


@pytest.mark.parametrize(
    "again",
    [
        lambda cfg: IPUConfig.from_dict(cfg.to_dict()),
        lambda cfg: IPUConfig.from_json(cfg.to_json()),
        copy.deepcopy,
        lambda cfg: pickle.loads(pickle.dumps(cfg)),
    ],
    ids=["dict", "json", "deepcopy", "pickle"],
)
def test_copies_are_equal_and_independent(again, caplog):
    cfg = changed()
    copied = again(cfg)
    assert copied.to_dict() == cfg.to_dict()
    assert copied.selection_order is SelectionOrder.SNAKE
    copied.convolutions.poplar_options["partialsType"] = "float"
    copied.io_tiles.num_io_tiles = 32
    copied.auto_select_ipus.append(4)
    assert cfg.to_dict() == changed().to_dict()
    assert not caplog.records


def test_serialised_form(caplog):
    assert json.loads(changed().to_json())["selection_order"] == 2
    partial = IPUConfig.from_dict({"ipu_model.version": "ipu1"})
    assert partial.ipu_model.version == "ipu1"
    assert "allow_recompute is missing" in caplog.text
    with pytest.raises(ValueError, match=r"ipu_model\.version"):
        IPUConfig.from_dict({"ipu_model.versoin": "ipu1"})
    with pytest.raises(ValueError, match="9 is not a SelectionOrder"):
        IPUConfig.from_dict({"selection_order": 9})
    with pytest.raises(TypeError, match="allow_recompute"):
        IPUConfig.from_dict({"allow_recompute": 1})
    caplog.clear()
    old = IPUConfig.from_dict({"optimizations.enable_fast_math": True})
    assert old.optimizations.math.fast is True


def test_default_containers_are_not_shared():
    IPUConfig().convolutions.poplar_options["a"] = "b"
    IPUConfig().auto_select_ipus.append(1)
    assert IPUConfig().to_dict() == DEFAULTS


def test_text_forms():
    lines = str(IPUConfig()).splitlines()
    assert len(lines) == len(DEFAULTS)
    assert "ipu_model.version = ipu2" in lines
    assert "selection_order = SelectionOrder.AUTO" in lines
    assert repr(IPUConfig()) == "IPUConfig()"
    text = repr(changed())
    assert text.startswith("IPUConfig(")
    assert "auto_select_ipus=[2, 1]" in text
    assert str(IPUConfig().slices) == "slices.poplar_options = {}"


def test_esr_from_bool():
    from_bool = StochasticRoundingBehaviour.from_bool
    assert from_bool(True) is StochasticRoundingBehaviour.ON
    assert from_bool(False) is StochasticRoundingBehaviour.OFF
    with pytest.raises(TypeError):
        from_bool(1)


# Configuring.


def configured(**options):
    cfg = IPUConfig()
    for name, value in options.items():
        setattr(cfg, name, value)
    cfg.configure_ipu_system()
    return cfg


def test_a_number_of_ipus_becomes_a_list_in_place():
    cfg = configured(auto_select_ipus=2)
    assert cfg.auto_select_ipus == [2]
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == 2
    assert configured(select_ipus=3).select_ipus == [3]


def test_the_log_names_the_device(caplog):
    configured(auto_select_ipus=1)
    assert caplog.messages == ["Device /device:IPU:0 attached to IPU: 0"]
    assert caplog.records[0].name == "ipu"
    assert caplog.records[0].levelno == logging.INFO


def test_the_log_names_groups(caplog, monkeypatch):
    monkeypatch.setenv("IPU_NUM_IPUS", "16")
    configured(auto_select_ipus=4, selection_order=SelectionOrder.SNAKE)
    assert caplog.messages == [
        "Device /device:IPU:0 attached to IPUs: 24 (4 IPUs, hardware ids: 0, 1, 3, 2)"
    ]


def test_the_line_is_on_stderr_unless_silenced():
    program = (
        "import logging, sys\n"
        "from ipu.config import IPUConfig\n"
        "if len(sys.argv) > 1: logging.getLogger('ipu').setLevel(logging.WARNING)\n"
        "cfg = IPUConfig(); cfg.auto_select_ipus = 1; cfg.configure_ipu_system()\n"
    )
    run = [sys.executable, "-c", program]
    shown = subprocess.run(run, capture_output=True, text=True, check=True)
    assert shown.stdout == ""
    line = "Device /device:IPU:0 attached to IPU: 0\n"
    assert shown.stderr.endswith(line)
    assert shown.stderr.count(line) == 1
    run.append("quiet")
    assert subprocess.run(run, capture_output=True, check=True).stderr == b""


def test_several_devices():
    configured(auto_select_ipus=[1, 4, 3])
    devices = [_devices.get_device(n) for n in range(3)]
    assert [device.name for device in devices] == [f"/device:IPU:{n}" for n in range(3)]
    assert [device.hardware_ids for device in devices] == [
        (0,),
        (4, 5, 6, 7),
        (1, 2, 3),
    ]
    with pytest.raises(errors.InternalError, match="no device /device:IPU:3"):
        _devices.get_device(3)


def test_selected_ids(monkeypatch):
    monkeypatch.setenv("IPU_NUM_IPUS", "16")
    configured(select_ipus=[25, 3, 16])
    ids = [_devices.get_device(n).hardware_ids for n in range(3)]
    assert ids == [(4, 5, 6, 7), (3,), (0, 1)]
    for bad in (31, -1):
        with pytest.raises(errors.FailedPreconditionError, match=f"hardware id {bad}"):
            configured(select_ipus=[bad])
    with pytest.raises(errors.FailedPreconditionError, match="IPU 0 in two devices"):
        configured(select_ipus=[0, 24])
    assert _devices.get_device(1).hardware_ids == (3,)


@pytest.mark.parametrize("wanted", [0, -1, [0], [1, 0], 65, [64, 1]])
def test_more_ipus_than_there_are(wanted):
    text = "Unsupported number of IPUs requested"
    with pytest.raises(errors.FailedPreconditionError, match=text):
        configured(auto_select_ipus=wanted)
    assert not _devices.is_configured()


def test_the_number_of_ipus_can_be_set(monkeypatch):
    configured(auto_select_ipus=64)
    monkeypatch.setenv("IPU_NUM_IPUS", "128")
    configured(auto_select_ipus=[100, 28])
    assert _devices.get_device(1).num_ipus == 28
    monkeypatch.setenv("IPU_NUM_IPUS", "many")
    with pytest.raises(errors.InvalidArgumentError, match="IPU_NUM_IPUS"):
        configured(auto_select_ipus=1)


def with_option(name, value, **options):
    cfg = IPUConfig()
    for one, its in options.items():
        setattr(cfg, one, its)
    cfg._set(name, value)
    return cfg


GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"
PROCESS = "experimental.multi_replica_distribution.process_"
NEVER = config.DeviceConnectionType.NEVER
PRE_COMPILE = config.DeviceConnectionType.PRE_COMPILE


@pytest.mark.parametrize(
    ("cfg", "error", "text"),
    [
        (
            with_option("select_ipus", 0, auto_select_ipus=1),
            Exception,
            "Only one of .* can be set",
        ),
        (with_option("select_ipus", [1, 1]), ValueError, "must be unique"),
        (
            with_option("device_connection.type", NEVER),
            ValueError,
            "device_connection.version must be set when",
        ),
        (
            with_option("device_connection.type", PRE_COMPILE),
            ValueError,
            "device_connection.version must be set when",
        ),
        (with_option("device_connection.version", "ipu9"), ValueError, "one of ipu1"),
        (with_option("ipu_model.version", "ipu9"), ValueError, "ipu_model.version"),
        (
            with_option("io_tiles.place_ops_on_io_tiles", True),
            ValueError,
            "Cannot place ops on I/O tiles when",
        ),
        (
            with_option(PROCESS + "index", 2),
            ValueError,
            "process_index must be in the range",
        ),
        (
            with_option(PROCESS + "count", 2),
            errors.UnimplementedError,
            "process_count = 2",
        ),
        (with_option(GROUP, 0), ValueError, "at least 1"),
    ],
)
def test_options_that_do_not_fit(cfg, error, text):
    with pytest.raises(error, match=text):
        cfg.configure_ipu_system()
    assert not _devices.is_configured()


def test_replica_groups_and_io_tiles_do_not_fit():
    cfg = with_option(GROUP, 2)
    cfg.io_tiles.num_io_tiles = 32
    with pytest.raises(ValueError, match="is not supported with I/O tiles"):
        cfg.configure_ipu_system()


def test_the_ipu_model(monkeypatch):
    assert not utils.running_on_ipu_model()
    poplar_flags(monkeypatch, "--use_ipu_model")
    assert utils.running_on_ipu_model()
    with pytest.raises(Exception, match="When using the IPUModel, the devices to att"):
        configured(select_ipus=[0])
    with pytest.raises(ValueError, match=r"ipu_model\.version must be set"):
        with_option("ipu_model.version", "").configure_ipu_system()
    text = "Multi-replica distribution is not supported on the IPU model."
    with pytest.raises(Exception, match=text):
        with_option(PROCESS + "count", 1).configure_ipu_system()
    configured(auto_select_ipus=1)


@pytest.mark.parametrize("bad", [None, 3, {"auto_select_ipus": 1}])
def test_only_a_config_configures(bad):
    with pytest.raises(TypeError, match="to be an IPUConfig"):
        config.configure_ipu_system(bad)


def test_the_same_configuration_changes_nothing(caplog):
    configured(auto_select_ipus=2)
    device = _devices.get_device(0)
    caplog.clear()
    configured(auto_select_ipus=2)
    configured(auto_select_ipus=(2,))
    assert _devices.get_device(0) is device
    assert not caplog.records


def test_reconfiguration_as_often_as_one_likes(caplog):
    for n in (1, 2, 3, 1, 4):
        configured(auto_select_ipus=n)
        assert utils.get_num_of_ipus_in_device("/device:IPU:0") == n
    assert sum("is reset and replaced" in text for text in caplog.messages) == 4
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    with pytest.raises(errors.FailedPreconditionError, match="only be set once"):
        config.configure_ipu_system(cfg, reset_configuration=False)
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == 4
    config.reset_ipu_configuration()
    config.configure_ipu_system(cfg, reset_configuration=False)


def test_a_configuration_that_fails_leaves_the_old_one():
    configured(auto_select_ipus=2)
    device = _devices.get_device(0)
    with pytest.raises(errors.FailedPreconditionError):
        configured(auto_select_ipus=1000)
    assert _devices.get_device(0) is device


def test_reset_without_devices_is_nothing():
    config.reset_ipu_configuration()
    config.reset_ipu_configuration()


def test_reset_waits_for_a_running_program():
    configured(auto_select_ipus=1)
    device = _devices.get_device(0)
    order = []
    started, go_on = threading.Event(), threading.Event()

    def program():
        with device.running():
            started.set()
            assert go_on.wait(10)
            order.append("program")

    def reset():
        config.reset_ipu_configuration()
        order.append("reset")

    threads = [threading.Thread(target=program), threading.Thread(target=reset)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    threads[1].join(0.05)
    assert threads[1].is_alive()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert order == ["program", "reset"]


def test_reset_from_inside_a_program():
    with (
        _devices.get_device(0).running(),
        pytest.raises(errors.FailedPreconditionError, match="from inside a program"),
    ):
        config.reset_ipu_configuration()
    config.reset_ipu_configuration()


def test_first_use_makes_a_device(caplog):
    device = _devices.get_device(0)
    assert (device.num_ipus, device.hardware_ids) == (1, (0,))
    assert "a device with one IPU is made" in caplog.messages[0]
    assert "attached to IPU: 0" in caplog.messages[1]
    assert config.get_ipu_config()[0].auto_select_ipus == [1]
    configured(auto_select_ipus=2)
    assert _devices.get_device(0).num_ipus == 2


def test_first_use_by_many_threads_makes_one_device():
    found = []
    barrier = threading.Barrier(8)

    def use():
        barrier.wait()
        found.append(_devices.get_device(0))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_connection_on_demand(caplog):
    on_demand = config.DeviceConnectionType.ON_DEMAND
    with_option("device_connection.type", on_demand).configure_ipu_system()
    assert not caplog.records
    for _ in range(2):
        with _devices.get_device(0).running():
            pass
    assert caplog.messages == ["Device /device:IPU:0 attached to IPU: 0"]


@pytest.mark.parametrize(
    ("kind", "error"),
    [(NEVER, errors.FailedPreconditionError), (PRE_COMPILE, errors.UnimplementedError)],
)
def test_connections_that_do_not_run(kind, error):
    cfg = with_option("device_connection.type", kind)
    cfg.device_connection.version = "ipu2"
    cfg.configure_ipu_system()
    with pytest.raises(error, match=kind.name), _devices.get_device(0).running():
        pass


def test_get_ipu_config():
    with pytest.raises(RuntimeError, match=r"No IPU devices configured\."):
        config.get_ipu_config()
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.floating_point_behaviour.set_all = True
    cfg.configure_ipu_system()
    (record,) = utils.get_ipu_config()
    behaviour = record.floating_point_behaviour
    assert behaviour.inv and behaviour.div0 and behaviour.oflo and behaviour.nanoo
    assert behaviour.esr is StochasticRoundingBehaviour.ON
    assert cfg.floating_point_behaviour.inv is False
    record.auto_select_ipus.append(5)
    assert utils.get_ipu_config()[0].auto_select_ipus == [1]
    with pytest.raises(AssertionError):
        config.get_ipu_config(session=object())


def test_later_changes_of_a_config_have_no_effect():
    cfg = configured(auto_select_ipus=1)
    cfg.convolutions.poplar_options["a"] = "b"
    assert config.get_ipu_config()[0].convolutions.poplar_options == {}


@pytest.mark.parametrize(
    ("order", "n", "expected"),
    [
        ("AUTO", 4, [0, 1, 2, 3]),
        ("ZIGZAG", 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("SNAKE", 8, [0, 1, 3, 2, 4, 5, 7, 6]),
        ("SNAKE", 2, [0, 1]),
        ("SNAKE", 6, [0, 1, 3, 2, 4, 5]),
        ("HOOF", 8, [0, 2, 4, 6, 7, 5, 3, 1]),
        ("HOOF", 1, [0]),
        ("HOOF", 5, [0, 2, 4, 3, 1]),
    ],
)
def test_selection_orders(order, n, expected):
    assert _devices.physical_ids(SelectionOrder[order], n) == expected


@pytest.mark.parametrize("order", SelectionOrder)
def test_selection_orders_are_permutations(order):
    for n in range(1, 70):
        assert sorted(_devices.physical_ids(order, n)) == list(range(n))
    with pytest.raises(ValueError, match="positive"):
        _devices.physical_ids(order, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/device:IPU:0", ("IPU", 0)),
        ("/ipu:1", ("IPU", 1)),
        ("IPU:12", ("IPU", 12)),
        ("cpu", ("CPU", 0)),
        ("/job:localhost/replica:0/task:0/device:IPU:3", ("IPU", 3)),
    ],
)
def test_device_names(name, expected):
    assert _devices.parse_device_name(name) == expected


@pytest.mark.parametrize("name", ["", "gpu", "/device:GPU:0", "/device:IPU:x", "ipu0"])
def test_bad_device_names(name):
    with pytest.raises(ValueError, match="Cannot parse the device name"):
        _devices.parse_device_name(name)
    with pytest.raises(TypeError, match="must be a string"):
        _devices.parse_device_name(0)


def test_a_program_is_replicated_to_fill_its_device():
    configured(auto_select_ipus=4)
    device = _devices.get_device(0)
    factors = [device.replication_factor(shards) for shards in (1, 2, 3, 4)]
    assert factors == [4, 2, 1, 1]
    with pytest.raises(errors.FailedPreconditionError, match="uses 5 IPUs"):
        device.replication_factor(5)
    configured(auto_select_ipus=6)
    with pytest.raises(
        errors.InternalError, match="needs to divide the number of IPUs"
    ):
        _devices.get_device(0).replication_factor(3)


def test_num_of_ipus_names():
    with pytest.raises(ValueError, match="must name an IPU"):
        utils.get_num_of_ipus_in_device("/device:CPU:0")
    with pytest.raises(errors.InternalError):
        utils.get_num_of_ipus_in_device("/device:IPU:1")


# TF_POPLAR_FLAGS.


def test_flags_have_their_values():
    flags = _flags.parse_flags(
        " --use_ipu_model  --max_infeed_threads=3 --use_synthetic_data=true "
        "--synthetic_data_categories=infeed,outfeed --synthetic_data_initializer=-2 "
        "--executable_cache_path=/tmp/a=b --sync_replica_start=false"
    )
    assert flags.use_ipu_model is True
    assert flags.max_infeed_threads == 3
    assert flags.synthetic_data_categories == ("infeed", "outfeed")
    assert flags.executable_cache_path == "/tmp/a=b"
    assert flags.sync_replica_start is False
    assert _flags.parse_flags("") == _flags.PoplarFlags()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--use_ipu_modle", "'--use_ipu_model'"),
        ("use_ipu_model", "Unknown flag 'use_ipu_model'"),
        ("--max_infeed_threads=x", "an integer"),
        ("--max_infeed_threads", "given a value"),
        ("--use_ipu_model=perhaps", "true or false"),
        ("--synthetic_data_categories=weights", "a list of infeed"),
        ("--synthetic_data_initializer=uniform", "Add --use_synthetic_data"),
        ("--use_synthetic_data --synthetic_data_initializer=one", "or an integer"),
        ("--show_progress_bar=yes", "auto, true or false"),
        ("--on_demand_device_poll_time=5", "at least 100"),
    ],
)
def test_flags_that_are_wrong(monkeypatch, text, message):
    poplar_flags(monkeypatch, text)
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            _devices.get_device(0)
        with pytest.raises(errors.InvalidArgumentError, match=message):
            configured(auto_select_ipus=1)


def test_flags_are_read_once(monkeypatch):
    _devices.get_device(0)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--nonsense")
    _devices.get_device(0)


def test_help_lists_every_flag(monkeypatch, capsys):
    poplar_flags(monkeypatch, "--help")
    _devices.get_device(0)
    assert "--use_synthetic_data=False" in capsys.readouterr().err


def test_synthetic_data(monkeypatch):
    assert not utils.use_synthetic_data_for("infeed")
    poplar_flags(monkeypatch, "--use_synthetic_data")
    assert utils.use_synthetic_data_for(utils.SyntheticDataCategory.Seed)
    poplar_flags(monkeypatch, "--synthetic_data_categories=infeed")
    assert utils.use_synthetic_data_for("InFeed")
    assert not utils.use_synthetic_data_for("outfeed")
    with pytest.raises(ValueError, match="category must be one of"):
        utils.use_synthetic_data_for("weights")


def test_seed_arguments():
    with pytest.raises(TypeError, match="seed must be an integer"):
        utils.reset_ipu_seed(1.5)
    with pytest.raises(ValueError, match="must name an IPU"):
        utils.reset_ipu_seed(1, device="cpu")


def test_utils_has_the_names_of_config():
    for name in config.__all__:
        if name != "AttributeMetadata":
            assert getattr(utils, name) is getattr(config, name)
    utils.move_variable_initialization_to_cpu()


@pytest.mark.parametrize("category", ["convolutions", "matmuls"])
@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("partialsType", "float16"),
        ("partialsType", 16),
        ("availableMemoryProportion", "much"),
        ("availableMemoryProportion", 1.5),
    ],
)
def test_options_of_products_are_checked(category, option, wrong):
    cfg = IPUConfig()
    options = getattr(cfg, category).poplar_options
    options[option] = wrong
    with pytest.raises(ValueError, match=rf"{category}.*{option}.*must be"):
        cfg.configure_ipu_system()
    options.update(partialsType="half", availableMemoryProportion="0.2", other="kept")
    cfg.configure_ipu_system()
