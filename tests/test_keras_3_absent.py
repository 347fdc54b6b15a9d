# SPDX-License-Identifier: MIT
"""Every name of Keras 3 is there, or an error says what to use in its place."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from grouped import in_groups

from ipu import keras
from ipu._text import keras_3
from ipu._text.missing import MissingNameError
from ipu.drop_in import _check

# of Keras 3.15.1, by module
NAMES: dict[str, str] = json.loads(
    Path(__file__).with_name("keras_3_names.json").read_text(encoding="utf-8")
)
ABSENT = {
    f"{row.module}.{name}".lstrip("."): row
    for row in keras_3.ABSENT
    for name in row.names.split()
}


def module_of(path: str) -> object:
    return importlib.import_module(f"ipu.keras.{path}" if path else "ipu.keras")


@pytest.mark.parametrize("path", NAMES)
def test_each_name_is_there_or_in_the_table(path: str) -> None:
    if any(f"{path}.".startswith(f"{name}.") for name in ABSENT):
        return
    module = module_of(path)
    for name in NAMES[path].split():
        whole = f"{path}.{name}".lstrip(".")
        assert hasattr(module, name) == (whole not in ABSENT), whole


@in_groups(ABSENT)
def test_what_is_not_there_says_what_to_use(whole: str) -> None:
    path, _, name = whole.rpartition(".")
    with pytest.raises(MissingNameError) as caught:
        getattr(module_of(path), name)
    row = ABSENT[whole]
    text = str(caught.value)
    assert text.startswith(f"ipu.keras.{whole} is not in ipu (line ")
    assert text.endswith(f"{row.topic} {row.instead}")
    assert caught.value.instead == row.instead


def test_check_says_it_too() -> None:
    uses = _check.check_source(
        "import keras\n"
        "from tensorflow.keras import layers\n"
        "from keras.applications import ResNet50\n"
        "layers.RandomHue(0.5)\n"
        "keras.distribution.list_devices()\n"
        "ResNet50()\n"
    )
    found = {use.name: use.instead for use in uses if not use.there}
    assert {name.rpartition("keras.")[2] for name in found} == {
        "layers.RandomHue",
        "distribution",
        "applications",
    }
    for name, instead in found.items():
        row = ABSENT[name.rpartition("keras.")[2]]
        assert instead == f"{row.topic} {row.instead}"


def test_policies_by_their_new_names() -> None:
    policies = keras.mixed_precision
    assert policies.DTypePolicy is policies.Policy
    assert policies.dtype_policy().name == policies.global_policy().name
    assert policies.set_dtype_policy is policies.set_global_policy
