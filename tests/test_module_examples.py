# SPDX-License-Identifier: MIT
"""Examples in modules that no other file of tests goes through."""

from __future__ import annotations

import doctest
import importlib

import pytest

from ipu import tf

MODULES = """
_config_enums _data_files _flags _legacy_config _legacy_options _options
gradient_accumulation ipu_outfeed_queue tf._derivatives tf._pooling
tf.data.experimental tf.debugging utils
""".split()


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"ipu.{name}")
    done = doctest.testmod(module, extraglobs={"tf": tf})
    assert done.attempted and not done.failed
