# SPDX-License-Identifier: MIT
"""TF_POPLAR_FLAGS."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from fresh_config import (  # noqa: F401 - fixtures
    configured,
    fresh,
    poplar_flags,
)

import ipu
from ipu import _core, tf, utils
from ipu._config import flags as _flags
from ipu._config.environment import warn_of_mistakes
from ipu._device import devices
from ipu.tf import errors

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
            devices.get_device(0)
        with pytest.raises(errors.InvalidArgumentError, match=message):
            configured(auto_select_ipus=1)


def test_flags_are_read_once(monkeypatch):
    devices.get_device(0)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--nonsense")
    devices.get_device(0)


def test_help_lists_every_flag(monkeypatch, capsys):
    poplar_flags(monkeypatch, "--help")
    devices.get_device(0)
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


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("IPU_CPU_CLASS", "sse2", "one of generic, avx2, avx512"),
        ("IPU_CPU_CLASS", "AVX2", "Did you mean 'avx2'"),
        ("IPU_CPU_CLASS", "", "names no class"),
        ("IPU_NUM_THREADS", "two", "must be a positive integer"),
        ("IPU_NUM_THREADS", "0", "must be a positive integer"),
        ("IPU_NUM_THREADS", "2x", "must be a positive integer"),
        ("IPU_TRACEBACK_FILTERING", "no", "it is on or off"),
        ("IPU_PIN_THREADS", "2", "IPU_PIN_THREADS=2 has no effect: it is on or off"),
        ("IPU_NUM_THREAD", "2", "Did you mean IPU_NUM_THREADS"),
        ("TF_POPLAR_FLAG", "--use_ipu_model", "Did you mean TF_POPLAR_FLAGS"),
    ],
)
def test_variables_that_have_no_effect_are_told(name, value, words):
    with pytest.warns(RuntimeWarning, match=words):
        warn_of_mistakes({name: value})


def test_variables_that_are_right_are_not_told(recwarn):
    good = {"IPU_CPU_CLASS": _core.cpu_class(), "IPU_NUM_THREADS": " 2 "}
    warn_of_mistakes({**good, "IPU_TRACEBACK_FILTERING": "OFF", "IPUOF_X": "1"})
    assert not recwarn.list


def wait_for_masks(are_right):
    """Compute until threads that are not Python's have the right sets of cores."""
    end = time.monotonic() + 10
    while True:
        with tf.device("/CPU:0"):
            tf.matmul(np.ones((600, 600), "float32"), np.ones((600, 600), "float32"))
        mine = {thread.native_id for thread in threading.enumerate()}
        tasks = {int(name) for name in os.listdir("/proc/self/task")} - mine
        masks = [os.sched_getaffinity(task) for task in tasks]
        if are_right(masks):
            return
        assert time.monotonic() < end, masks


def test_threads_that_stay_on_a_core():
    allowed = sorted(os.sched_getaffinity(0))
    before = ipu.num_threads(), _core.first_core()
    ipu.set_num_threads(3)
    try:
        for first in (0, 1, 10**12):
            ipu.pin_threads(first_core=first)
            core = min(first, 2**31 - 1 - 256)
            wanted = [{allowed[(core + i) % len(allowed)]} for i in (1, 2)]
            wait_for_masks(lambda masks, wanted=wanted: all(w in masks for w in wanted))
        ipu.pin_threads(False)
        wait_for_masks(lambda masks: masks.count(set(allowed)) >= 2)
        assert _core.first_core() == -1
        with pytest.raises(ValueError, match="first_core is the number of a core"):
            ipu.pin_threads(first_core=-1)
    finally:
        ipu.set_num_threads(before[0])
        _core.pin_threads(before[1])
    assert os.sched_getaffinity(0) == set(allowed)


@pytest.mark.parametrize(("value", "first"), [("1", 0), ("On", 0), ("0", -1), ("", -1)])
def test_the_variable_that_pins_threads(value, first):
    asked = "from ipu import _core; print(_core.first_core())"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "IPU_PIN_THREADS": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{first}\n" and not done.stderr


def test_an_import_tells_of_a_class_that_there_is_not():
    done = subprocess.run(
        [sys.executable, "-c", "import ipu"],
        env={**os.environ, "IPU_CPU_CLASS": "sse2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("IPU_CPU_CLASS=sse2 names no class of processors") == 1


def test_options_that_write_nothing_are_told_once(caplog, monkeypatch):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.compilation_poplar_options = {"autoReport.outputDebugInfo": "true"}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"profiler.format":"v3"}')
    monkeypatch.setattr(ipu.config, "_told", set())
    for _ in range(2):
        ipu.config.reset_ipu_configuration()
        config.configure_ipu_system()
    told = [one for one in caplog.messages if "has no effect" in one]
    assert len(told) == 2
    assert (
        "compilation_poplar_options['autoReport.outputDebugInfo'] is accepted"
        in told[0]
    )
    assert "POPLAR_ENGINE_OPTIONS" in told[1]
    ipu.config.reset_ipu_configuration()
