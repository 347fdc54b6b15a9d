# SPDX-License-Identifier: MIT
"""A process without a configuration, flags or devices."""

import pytest

from ipu import config
from ipu._config import flags
from ipu.config import IPUConfig


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    monkeypatch.delenv("IPU_NUM_IPUS", raising=False)
    flags._forget()
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()
    flags._forget()


def poplar_flags(monkeypatch, text):
    monkeypatch.setenv("TF_POPLAR_FLAGS", text)
    flags._forget()


def configured(**options):
    cfg = IPUConfig()
    for name, value in options.items():
        setattr(cfg, name, value)
    cfg.configure_ipu_system()
    return cfg


def with_option(name, value, **options):
    cfg = IPUConfig()
    for one, its in options.items():
        setattr(cfg, one, its)
    cfg._set(name, value)
    return cfg


PROCESS = "experimental.multi_replica_distribution.process_"
NEVER = config.DeviceConnectionType.NEVER
PRE_COMPILE = config.DeviceConnectionType.PRE_COMPILE
