# SPDX-License-Identifier: MIT
"""The examples in the texts of ``ipu.tf.compat.v1`` run."""

from __future__ import annotations

import doctest
import importlib

import pytest

from ipu import tf
from ipu.tf.compat import v1


@pytest.mark.parametrize(
    "name",
    "_assignments _casts _cell_wrappers _cells _cross_entropy _datasets _flags "
    "_graphs _hooks _math _monitored _old_arguments _optimizer _recurrence _saver "
    "_saver_hooks _steps _variables data image layers losses metrics nn rnn_cell "
    "summary train".split(),
)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"ipu.tf.compat.v1.{name}")
    done = doctest.testmod(module, extraglobs={"tf": tf, "v1": v1})
    assert done.failed == 0
