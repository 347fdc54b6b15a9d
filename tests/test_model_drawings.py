# SPDX-License-Identifier: MIT
"""``plot_model`` and ``model_to_dot``: boxes, where they lie, and the files."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from ipu import keras
from ipu.keras._drawing.boxes import Box, Shown, boxes_of
from ipu.keras._drawing.layout import lay_out

layers = keras.layers


def residual(depth: int = 3) -> Any:
    inputs = keras.Input((8,), name="inputs")
    x = layers.Dense(8, activation="relu", name="first")(inputs)
    for i in range(depth):
        y = layers.Dense(8, name=f"dense{i}")(x)
        x = layers.Add(name=f"add{i}")([x, y])
    side = layers.Dense(2, name="side")(inputs)
    both = layers.Concatenate(name="both")([x, side])
    return keras.Model(inputs, [both, side], name="residual")


def nested() -> Any:
    inputs = keras.Input((8,), name="data")
    inner = residual(1)
    first, _ = inner(inputs)
    return keras.Model(inputs, layers.Dense(1, name="last")(first), name="outer")


def every(boxes: list[Box]) -> list[Box]:
    return [one for box in boxes for one in (box, *every(box.inner))]


def overlap(a: Box, b: Box) -> bool:
    is_beside = a.x + a.width <= b.x or b.x + b.width <= a.x
    is_below = a.y + a.height <= b.y or b.y + b.height <= a.y
    return not (is_beside or is_below)


@pytest.mark.parametrize("direction", ["TB", "BT", "LR", "RL"])
def test_boxes_do_not_overlap_and_data_flow_one_way(direction: str) -> None:
    boxes = boxes_of(nested(), Shown(nested=True))
    drawing = lay_out(boxes, direction)
    everything = every(boxes)
    assert len(everything) == 9
    for siblings in (boxes, boxes[1].inner):
        for i, box in enumerate(siblings):
            assert not any(overlap(box, other) for other in siblings[:i])
            assert -0.01 <= box.x <= drawing.width - box.width + 0.01
            assert -0.01 <= box.y <= drawing.height - box.height + 0.01
    for box in everything:
        for source in box.sources:
            above = box.y - (source.y + source.height)
            before = box.x - (source.x + source.width)
            below = source.y - (box.y + box.height)
            behind = source.x - (box.x + box.width)
            gaps = {"TB": above, "BT": below, "LR": before, "RL": behind}
            assert gaps[direction] > 10
    inner = boxes[1]
    for box in inner.inner:
        assert inner.x <= box.x and box.x + box.width <= inner.x + inner.width
        assert inner.y <= box.y and box.y + box.height <= inner.y + inner.height


def test_lines_go_from_box_to_box_and_around_others() -> None:
    boxes = boxes_of(residual(), Shown())
    drawing = lay_out(boxes)
    edges = sum(len(box.sources) for box in boxes)
    assert len(drawing.lines) == edges == 13
    for line in drawing.lines:
        ends = [line[0], line[-1]]
        for end, side in zip(ends, (1, 0), strict=True):
            assert any(
                abs(end.y - (box.y + side * box.height)) < 0.01
                and box.x <= end.x <= box.x + box.width
                for box in boxes
            )
        for corner in line[1:-1]:
            assert not any(
                box.x < corner.x < box.x + box.width
                and box.y < corner.y < box.y + box.height
                for box in boxes
            )


def test_what_boxes_say() -> None:
    model = residual(1)
    (first, *_) = [box for box in boxes_of(model, Shown()) if box.name == "first"]
    assert first.lines == ["first: Dense"]
    shown = Shown(True, True, False, False, True)
    (first, *_) = [box for box in boxes_of(model, shown) if box.name == "first"]
    assert first.lines == [
        "Dense",
        "activation: relu",
        "dtype: float32",
        "input: (None, 8)",
        "output: (None, 8)",
    ]
    some = boxes_of(model, Shown(layers=["dense", "add"]))
    assert [box.name for box in some] == ["dense0", "add0"]


def test_files_are_svg_dot_and_by_matplotlib(tmp_path: Path) -> None:
    model = nested()
    drawing = keras.utils.plot_model(
        model, tmp_path / "model.svg", expand_nested=True, show_shapes=True
    )
    picture = ElementTree.parse(tmp_path / "model.svg")
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "last: Dense" in texts and "output: (None, 1)" in texts
    assert "prefers-color-scheme:dark" in drawing._repr_svg_()
    page = drawing._repr_html_()  # in the colours of the page around it
    assert "<svg" in page and "currentColor" in page and "<style" not in page
    assert keras.utils.plot_model(model, None).create(format="svg")
    keras.utils.plot_model(model, tmp_path / "model.dot", expand_nested=True)
    text = (tmp_path / "model.dot").read_text()
    assert text.count("{") == text.count("}") == 2
    assert '"residual/inputs" -> "residual/first";' in text
    assert '"data" -> "residual/inputs";' in text
    pytest.importorskip("matplotlib", reason="needs pip install '.[plot]'")
    keras.utils.plot_model(model, tmp_path / "model.png", rankdir="LR", dpi=50)
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has not yet been built"):
        keras.utils.plot_model(keras.Sequential([layers.Dense(1)]), None)
    with pytest.raises(ValueError, match="rankdir"):
        keras.utils.plot_model(residual(), None, rankdir="up")
    with pytest.raises(ValueError, match="names no layer"):
        keras.utils.plot_model(residual(), None, layer_range=["first", "none"])

    class Own(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    own = Own(name="own")
    own.built = True
    assert "own: Own" in keras.utils.model_to_dot(own).to_string()
