# SPDX-License-Identifier: MIT
"""``plot_model`` and ``model_to_dot``: models as pictures, without system packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ipu.keras._drawing.boxes import Shown, boxes_of
from ipu.keras._drawing.layout import lay_out
from ipu.keras._drawing.pictures import as_dot, as_svg, save_pixels
from ipu.tf._tensor.extras import extra

_DIRECTIONS = ("TB", "BT", "LR", "RL")


class ModelDrawing:
    """A picture of a model; what a notebook shows as the last line of a cell.

    Args:
        model: The model.
        shown: The parts of each layer that are drawn.
        direction: Which way data flow: ``"TB"``, ``"BT"``, ``"LR"`` or ``"RL"``.
        dpi: Pixels an inch, of formats that have pixels.
    """

    def __init__(self, model: Any, shown: Shown, direction: str, dpi: int) -> None:
        if direction not in _DIRECTIONS:
            raise ValueError(
                f"`rankdir` must be one of {', '.join(_DIRECTIONS)}. Received: "
                f"rankdir={direction!r}."
            )
        self._name = str(model.name)
        self._direction = direction
        self._dpi = dpi
        self._drawing = lay_out(boxes_of(model, shown), direction)

    @property
    def _across(self) -> bool:
        return self._direction in ("LR", "RL")

    def to_string(self) -> str:
        """Return the graph in Graphviz's language."""
        boxes = self._drawing.boxes
        return as_dot(boxes, self._direction, self._dpi, self._name)

    def to_svg(self) -> str:
        """Return the picture as a file of SVG."""
        return as_svg(self._drawing, self._across, is_file=True)

    def create(self, prog: Any = None, format: str = "svg") -> bytes:
        """Return the picture as the bytes of a file.

        Args:
            prog: Accepted: no program is called.
            format: ``"svg"`` or ``"dot"``.

        Raises:
            ValueError: It is another format.
        """
        del prog
        if format not in ("svg", "dot"):
            raise ValueError(
                f"The bytes can be had as 'svg' or 'dot'. Received: format={format!r}. "
                "write() has more."
            )
        return (self.to_svg() if format == "svg" else self.to_string()).encode()

    def write(self, path: str | os.PathLike[str], prog: Any = None) -> None:
        """Write a file, in the format that its suffix says.

        Args:
            path: ``.svg`` or ``.dot``; by matplotlib ``.png``, ``.pdf`` and more.
            prog: Accepted: no program is called.

        Raises:
            ImportError: The format needs matplotlib, which is not installed.
            ValueError: There is no such format.
        """
        del prog
        name = os.fspath(path)
        suffix = os.path.splitext(name)[1].lower()
        if suffix in (".svg", ".dot"):
            with open(name, "wb") as file:
                file.write(self.create(format=suffix[1:]))
            return
        what = f"A drawing in a {suffix or 'nameless'} file (one in .svg does not)"
        extra("matplotlib", what, "plot", "matplotlib")
        save_pixels(self._drawing, self._across, name, self._dpi)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        # notebooks show SVG as an image, which does not know the page's colours
        picture = as_svg(self._drawing, self._across, is_file=False)
        return f'<div style="overflow-x:auto">{picture}</div>'

    def __repr__(self) -> str:
        return f"<ModelDrawing of {self._name!r}: {len(self._drawing.boxes)} layers>"


def model_to_dot(
    model: Any,
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = True,
    rankdir: str = "TB",
    expand_nested: bool = False,
    dpi: int = 96,
    subgraph: bool = False,
    layer_range: Sequence[str] | None = None,
    show_layer_activations: bool = False,
) -> ModelDrawing:
    """Draw a model.

    Args:
        model: A built model.
        show_shapes: Whether boxes have the shapes of inputs and outputs.
        show_dtype: Whether they have the layer's dtype.
        show_layer_names: Whether they have the layer's name.
        rankdir: Which way data flow: ``"TB"`` is down, ``"LR"`` to the right.
        expand_nested: Whether models within are drawn with their layers.
        dpi: Pixels an inch.
        subgraph: Accepted and not used.
        layer_range: Patterns of the names of the first and the last layer drawn.
        show_layer_activations: Whether boxes have the layer's activation.

    Returns:
        The drawing; ``to_string()`` has it in Graphviz's language.

    Raises:
        TypeError: ``model`` is not a model.
        ValueError: The model is not built, or an argument has another value.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        >>> keras.utils.model_to_dot(model).to_string().startswith("digraph")
        True
    """
    del subgraph
    if not hasattr(model, "layers"):
        raise TypeError(f"`model` must be a keras.Model. Received: model={model!r}.")
    shown = Shown(
        show_shapes,
        show_dtype,
        show_layer_names,
        expand_nested,
        show_layer_activations,
        layer_range,
    )
    return ModelDrawing(model, shown, rankdir, dpi)


def plot_model(
    model: Any,
    to_file: str | os.PathLike[str] | None = "model.svg",
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = True,
    rankdir: str = "TB",
    expand_nested: bool = False,
    dpi: int = 96,
    layer_range: Sequence[str] | None = None,
    show_layer_activations: bool = False,
) -> ModelDrawing:
    """Draw a model and write the picture to a file.

    Args:
        model: A built model.
        to_file: The file: ``.svg``, ``.dot``, and by matplotlib ``.png``, ``.pdf``;
            None: no file.
        show_shapes: As for :func:`model_to_dot`.
        show_dtype, show_layer_names, rankdir, expand_nested, dpi, layer_range,
            show_layer_activations: As there.

    Returns:
        The drawing, which a notebook shows.

    Raises:
        ImportError: The format needs matplotlib, which is not installed.
        TypeError: ``model`` is not a model.
        ValueError: The model is not built, or an argument has another value.

    Source: ``tf.keras.utils.plot_model`` of Keras 2.6, whose default is ``model.png``.

    Example:
        >>> dense = keras.layers.Dense(1, input_shape=(2,))
        >>> model = keras.Sequential([dense], name="small")
        >>> keras.utils.plot_model(model, None, show_shapes=True)
        <ModelDrawing of 'small': 2 layers>
    """
    drawing = model_to_dot(
        model,
        show_shapes,
        show_dtype,
        show_layer_names,
        rankdir,
        expand_nested,
        dpi,
        False,
        layer_range,
        show_layer_activations,
    )
    if to_file is not None:
        drawing.write(to_file)
    return drawing
