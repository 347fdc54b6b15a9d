# SPDX-License-Identifier: MIT
"""TF_POPLAR_FLAGS."""

import pytest
from fresh_config import (  # noqa: F401 - fixtures
    configured,
    fresh,
    poplar_flags,
)

from ipu import _devices, _flags, utils
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
