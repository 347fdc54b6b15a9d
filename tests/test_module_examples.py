# SPDX-License-Identifier: MIT
"""Examples in modules that no other file of tests goes through."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator

import pytest

from ipu import config, tf
from ipu.tf.compat import v1

MODULES = """
_config.enums _config.flags _config.legacy _config.legacy_options _config.options
_device.strategy_state _device.threads _loops.data_files _text.errors
gradient_accumulation ipu_outfeed_queue ipu_strategy ops._pipeline_options scopes
tf._functions.function tf._functions.scopes tf._gradients.derivatives tf._ops.pooling
tf.autograph tf.autograph._calls tf.autograph.experimental tf.config
tf.custom_gradient tf.data._iterator tf.data._packed tf.data.experimental tf.debugging
tf.distribute tf.functional_ops tf.gradient_tape tf.io._files tf.io._images
tf.io._parsing tf.io._records tf.sparse tf.test utils
""".split()


@pytest.fixture(autouse=True)
def one_ipu() -> Iterator[None]:
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"ipu.{name}")
    done = doctest.testmod(module, extraglobs={"tf": tf, "v1": v1})
    assert done.attempted and not done.failed
