# SPDX-License-Identifier: MIT
"""``image_dataset_from_directory``: a folder of pictures as a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu._text.errors import InvalidArgumentError
from ipu.keras._class_folders import FolderOptions, dataset_of_files
from ipu.keras._pictures import middle_part

_FORMATS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


def image_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: tuple[int, int] = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    **kwargs: Any,
) -> Any:
    """Make a data set of the pictures in a folder.

    Args:
        directory: The folder. With ``labels="inferred"`` it has a folder for each
            class.
        labels: "inferred"; None for pictures alone; or a number for each picture, in
            the order of the sorted paths.
        label_mode: "int" (int32), "categorical" (one-hot float32), "binary" (float32
            [1], of two classes) or None.
        class_names: The classes' folders in the order of their numbers; None: sorted.
        color_mode: "grayscale", "rgb" or "rgba".
        batch_size: Pictures in a batch; None: not batched. Devices need batches of one
            size: ``.unbatch().batch(n, drop_remainder=True)``, or ``batch_size=None``.
        image_size: (height, width) that pictures are brought to.
        shuffle: Whether the order is random, and another one in each pass.
        seed: Of the order, and of the cut of ``validation_split``.
        validation_split: The share of pictures of the subset "validation".
        subset: "training", "validation", or "both" for a pair of data sets.
        interpolation: "bilinear" or "nearest".
        follow_links: Whether links to folders are followed.
        crop_to_aspect_ratio: Whether what does not fit is cut off before.
        **kwargs: ``verbose``, whether the number of files is printed.

    Returns:
        A ``tf.data.Dataset`` of (pictures, labels), or of pictures: float32 from 0 to
        255, [batch, height, width, channels]. It has the attributes ``class_names`` and
        ``file_paths``.

    Raises:
        ValueError: A folder without classes or pictures; arguments that do not fit.
        FileNotFoundError: There is no such folder.
        InvalidArgumentError: When it is read: a file is not a picture; it is named.
        ImportError: The extra ``images`` is not installed.

    Source: ``tf.keras.utils.image_dataset_from_directory``.
    """
    verbose = kwargs.pop("verbose", True)
    if kwargs:
        raise TypeError(f"Unknown keywords argument(s) passed in: {sorted(kwargs)}.")
    if color_mode not in _CHANNELS:
        raise ValueError(
            '`color_mode` must be "grayscale", "rgb", or "rgba". '
            f"Received: {color_mode!r}."
        )
    if interpolation not in ("bilinear", "nearest"):
        raise ValueError(
            f'`interpolation` is "bilinear" or "nearest". Received: {interpolation!r}.'
        )
    options = FolderOptions(
        labels,
        label_mode,
        class_names,
        batch_size,
        shuffle,
        seed,
        validation_split,
        subset,
        follow_links,
        verbose,
    )
    load = _loader(
        _CHANNELS[color_mode], image_size, interpolation, crop_to_aspect_ratio
    )
    return dataset_of_files(directory, "images", _FORMATS, load, options)


def _loader(channels: int, size: tuple[int, int], method: str, crops: bool) -> Any:
    """The function from a path (and a label) to pixels (and the label)."""
    height, width = (int(n) for n in size)

    def load(path: Any, *label: Any) -> Any:
        try:
            pixels = tf.io.decode_image(
                tf.io.read_file(path), channels, expand_animations=False
            )
        except InvalidArgumentError as error:
            name = os.fsdecode(path.numpy())
            raise InvalidArgumentError(f"{name}: {error}") from error
        if crops:
            pixels = pixels[middle_part(pixels.shape[:2], (height, width))]
        pixels = tf.cast(tf.image.resize(pixels, (height, width), method), tf.float32)
        return (pixels, *label) if label else pixels

    return load
