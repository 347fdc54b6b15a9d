"""The examples in the texts of ``ipu.keras`` and ``ipu.layers`` run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import ipu.keras

MODULES = ["ipu.layers"] + [
    info.name for info in pkgutil.walk_packages(ipu.keras.__path__, "ipu.keras.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    failed = doctest.testmod(module, report=True).failed
    assert not failed
