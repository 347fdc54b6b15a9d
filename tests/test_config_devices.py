# SPDX-License-Identifier: MIT
"""The simulated devices that a configuration makes."""

import logging
import subprocess
import sys
import threading

import pytest
from fresh_config import (  # noqa: F401 - fixtures
    NEVER,
    PROCESS,
    configured,
    fresh,
    poplar_flags,
    with_option,
)

from ipu import config, ipu_strategy, utils
from ipu._device import devices as _devices
from ipu.config import IPUConfig, SelectionOrder, StochasticRoundingBehaviour
from ipu.tf import errors


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
    assert not caplog.messages  # plain programs are not told of a device
    assert config.get_ipu_config()[0].auto_select_ipus == [1]
    configured(auto_select_ipus=2)
    assert _devices.get_device(0).num_ipus == 2


def test_a_strategy_without_a_configuration_says_so_in_one_line(caplog):
    with ipu_strategy.IPUStrategy().scope():
        _devices.get_device(0)
    (line,) = caplog.messages
    assert line.startswith("Device /device:IPU:0 attached to IPU: 0; no IPU config")


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


def test_a_connection_that_does_not_run():
    cfg = with_option("device_connection.type", NEVER)
    cfg.device_connection.version = "ipu2"
    cfg.configure_ipu_system()
    words = "configured for compilation only"
    with (
        pytest.raises(errors.InvalidArgumentError, match=words),
        _devices.get_device(0).running(),
    ):
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
    words = r"number of shards needs to divide .*uses 5 IPUs.*auto_select_ipus = 8"
    with pytest.raises(errors.InternalError, match=words):
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
