# SPDX-License-Identifier: MIT
"""Batches of the pictures that a table lists."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.user_warnings import warn_user
from ipu.keras.preprocessing._batches import FORMATS, FilesIterator

if TYPE_CHECKING:
    from ipu.keras.preprocessing._image_data_generator import ImageDataGenerator

_MODES = ("binary", "categorical", "input", "multi_output", "raw", "sparse", None)
_OF_CLASSES = ("binary", "categorical", "sparse")


class DataFrameIterator(FilesIterator):
    """Batches of a table's pictures, as ``flow_from_dataframe`` gives them.

    Args:
        dataframe: A pandas frame, or a dict of columns.
        directory: The folder that file names are in, or None for whole paths.
        image_data_generator: The generator that changes the pictures, or None.
        **options: The arguments of ``ImageDataGenerator.flow_from_dataframe``.

    Raises:
        KeyError: There is no such column.
        TypeError: Values of a column that do not go with the class mode.
        ValueError: An argument is not one of those allowed; in a batch, a file
            that is not a picture.

    Example:
        >>> table = {"filename": ["a.png", "b.png"], "class": ["cat", "dog"]}
        >>> batches = DataFrameIterator(table, validate_filenames=False)
        Found 2 non-validated image filenames belonging to 2 classes.
        >>> batches.class_indices
        {'cat': 0, 'dog': 1}
    """

    def __init__(
        self,
        dataframe: Any,
        directory: Any = None,
        image_data_generator: ImageDataGenerator | None = None,
        x_col: str = "filename",
        y_col: Any = "class",
        weight_col: str | None = None,
        target_size: tuple[int, int] = (256, 256),
        color_mode: str = "rgb",
        classes: list[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        data_format: str = "channels_last",
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
        dtype: Any = "float32",
        validate_filenames: bool = True,
    ) -> None:
        options = dict(locals())
        if class_mode not in _MODES:
            raise ValueError(
                f"Invalid class_mode: {class_mode!r}; expected one of: {_MODES}."
            )
        if class_mode == "multi_output" and not isinstance(y_col, list):
            raise TypeError(
                'With class_mode="multi_output", y_col must be a list. '
                f"Received: {y_col!r}."
            )
        if classes and class_mode not in _OF_CLASSES:
            warn_user(f"`classes` will be ignored given the class_mode={class_mode!r}.")
        self.directory = os.fspath(directory or "")
        names = list(dataframe[x_col])
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"All values in column x_col={x_col} must be strings.")
        kept = np.arange(len(names))
        if validate_filenames:
            kept = self._readable(names, x_col)
        labels: Any = None
        if class_mode in _OF_CLASSES:
            labels = _checked(list(dataframe[y_col]), y_col, str(class_mode))
            labels, known = _among(labels, classes)
            kept = np.array([at for at in kept if labels[at] is not None], int)
            if class_mode == "binary" and len(known) != 2:
                raise ValueError(
                    'If class_mode="binary" there must be 2 classes. '
                    f"Found {len(known)} classes."
                )
            self.class_indices = {name: number for number, name in enumerate(known)}
        if subset is not None:
            if image_data_generator is None:
                raise ValueError(f"subset={subset!r} needs an image_data_generator.")
            kept = kept[image_data_generator._part(subset, len(kept))]
        if class_mode in _OF_CLASSES:
            self.classes = [self._numbers_of(labels[at]) for at in kept]
            labels = self.classes
        elif class_mode == "raw":
            labels = np.asarray(dataframe[y_col])[kept]
        elif class_mode == "multi_output":
            labels = [np.array(list(dataframe[one]))[kept] for one in y_col]
        weights = None
        if weight_col is not None:
            weights = np.asarray(dataframe[weight_col])
            if weights.dtype.kind not in "biuf":
                raise TypeError(f"Column weight_col={weight_col} must be numeric.")
            weights = weights[kept]
        self.filenames = [names[at] for at in kept]
        state = "validated" if validate_filenames else "non-validated"
        count = len(getattr(self, "class_indices", ()))
        where = f" belonging to {count} classes" if class_mode in _OF_CLASSES else ""
        print(f"Found {len(kept)} {state} image filenames{where}.")
        paths = [os.path.join(self.directory, name) for name in self.filenames]
        super().__init__(paths, labels, count, weights, image_data_generator, options)

    def _readable(self, names: list[str], x_col: str) -> np.ndarray[Any, Any]:
        """Return the rows whose file is there and has the name of a picture."""
        kept = [
            at
            for at, name in enumerate(names)
            if name.lower().endswith(FORMATS)
            and os.path.isfile(os.path.join(self.directory, name))
        ]
        if len(kept) < len(names):
            warn_user(
                f"Found {len(names) - len(kept)} invalid image filename(s) in "
                f'x_col="{x_col}". These filename(s) will be ignored.'
            )
        return np.array(kept, int)

    def _numbers_of(self, label: Any) -> Any:
        if isinstance(label, (list, tuple)):
            return [self.class_indices[one] for one in label]
        return self.class_indices[label]


def _checked(labels: list[Any], y_col: Any, class_mode: str) -> list[Any]:
    """Return the labels, if they are names of classes."""
    kinds = (str, list, tuple) if class_mode == "categorical" else (str,)
    for label in labels:
        if not isinstance(label, kinds):
            allowed = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(
                f'If class_mode="{class_mode}", y_col="{y_col}" column values must be '
                f"type {allowed}. Received: {label!r}."
            )
    return labels


def _among(labels: list[Any], classes: Any) -> tuple[list[Any], list[str]]:
    """Return the labels that are among the classes, None for a row without; the
    classes."""
    if not classes:
        found: set[str] = set()
        for label in labels:
            found.update(label if isinstance(label, (list, tuple)) else [label])
        return labels, sorted(found)
    known = list(dict.fromkeys(classes))
    kept: list[Any] = []
    for label in labels:
        if isinstance(label, (list, tuple)):
            kept.append([one for one in label if one in known] or None)
        else:
            kept.append(label if label in known else None)
    return kept, known
