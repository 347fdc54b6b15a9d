# SPDX-License-Identifier: MIT
"""``load_weights(by_name=, skip_mismatch=)`` for files of every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras

_FORMATS = ("w.safetensors", "w.weights.h5", "w.h5", "m.safetensors", "m.keras", "m.h5")


def _model(head: int, *, head_name: str = "head", has_more: bool = False) -> Any:
    layers = keras.layers
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(5, name="in")], "inner")
    x = keras.Input((6,))
    y = layers.BatchNormalization(name="norm")(inner(x))
    if has_more:
        y = layers.Dense(5, name="more")(y)
    return keras.Model(x, layers.Dense(head, name=head_name)(y))


@pytest.fixture(params=_FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    target = str(tmp_path / request.param)
    model = _model(3)
    _fill(model)
    (model.save if request.param[0] == "m" else model.save_weights)(target)
    return target


def _fill(model: Any) -> None:
    model.set_weights([np.full(w.shape, 7.0, np.float32) for w in model.get_weights()])


def _filled(model: Any) -> dict[str, bool]:
    return {
        layer.name: all(bool((w == 7.0).all()) for w in layer.get_weights())
        for layer in model.layers
        if layer.weights
    }


def test_by_name_takes_the_layers_of_the_same_name(path: str) -> None:
    model = _model(4, head_name="new", has_more=True)
    model.load_weights(path, by_name=True)
    found = _filled(model)
    assert found == {"inner": True, "norm": True, "more": False, "new": False}


def test_by_name_refuses_other_shapes_unless_they_are_skipped(path: str) -> None:
    model = _model(4)
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"head.*shape \(5, 4\)"):
        model.load_weights(path, by_name=True)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.warns(UserWarning, match="stay as they are"):
        model.load_weights(path, by_name=True, skip_mismatch=True)
    assert _filled(model) == {"inner": True, "norm": True, "head": False}


def test_skip_mismatch_leaves_the_layer_that_differs(path: str) -> None:
    model = _model(4)
    with pytest.warns(UserWarning, match=r"stay as they are[\s\S]*\(5, 4\)"):
        model.load_weights(path, skip_mismatch=True)
    assert _filled(model) == {"inner": True, "norm": True, "head": False}


def test_names_that_are_all_other_ones_are_said(path: str) -> None:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2, name="own")])
    with pytest.warns(UserWarning, match="No layer of model"):
        model.load_weights(path, by_name=True)


def test_all_of_a_file_needs_no_word(path: str, recwarn: Any) -> None:
    for arguments in ({}, {"by_name": True}, {"skip_mismatch": True}):
        model = _model(3)
        model.load_weights(path, **arguments).assert_consumed()
        assert all(_filled(model).values())
    assert not recwarn.list


def test_summary_says_what_is_trained_and_lists_a_range() -> None:
    model = _model(3, has_more=True)
    model.get_layer("inner").trainable = False
    lines: list[str] = []
    model.summary(print_fn=lines.append, show_trainable=True, expand_nested=True)
    told = {line.split(" ")[0]: line.split()[-1] for line in lines if "(" in line}
    assert lines[2].split()[-1] == "Trainable"
    assert (told["inner"], told["norm"], told["head"]) == ("N", "Y", "Y")
    assert next(line for line in lines if line.startswith("  in ")).endswith("N")
    lines.clear()
    model.summary(print_fn=lines.append, layer_range=("norm", "more"))
    shown = [line.split(" ")[0] for line in lines if "(" in line]
    assert shown == ["Layer", "norm", "more"]
    with pytest.raises(ValueError, match="names no layer"):
        model.summary(layer_range=("norm", "none"))
