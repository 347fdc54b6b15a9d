# SPDX-License-Identifier: MIT
"""``image_dataset_from_directory``: a folder of pictures as a data set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu._errors import InvalidArgumentError
from ipu.keras._pictures import middle_part

__all__ = ["class_folders", "image_dataset_from_directory", "pictures_below"]

_FORMATS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


def class_folders(directory: Any) -> list[str]:
    """The sorted names of a folder's folders.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: It has no folders.
    """
    names = sorted(
        name
        for name in os.listdir(directory)
        if os.path.isdir(os.path.join(directory, name)) and not name.startswith(".")
    )
    if not names:
        raise ValueError(
            f"No classes: {os.fspath(directory)!r} has no folders in it. Put the "
            "pictures of each class in a folder of its own, or pass labels=None."
        )
    return names


def pictures_below(
    directory: str, formats: tuple[str, ...], follow_links: bool
) -> Iterator[str]:
    """The paths of the pictures in a folder and in those below it, sorted."""
    walk = os.walk(directory, followlinks=follow_links)
    for root, _, files in sorted(walk, key=lambda entry: entry[0]):
        for name in sorted(files):
            if name.lower().endswith(formats):
                yield os.path.join(root, name)


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
        InvalidArgumentError: When it is read: a file that is no picture, with its name.
        ImportError: The extra ``images`` is not installed.

    Source: ``tf.keras.utils.image_dataset_from_directory``.
    """
    verbose = kwargs.pop("verbose", True)
    if kwargs:
        raise TypeError(f"Unknown keywords argument(s) passed in: {sorted(kwargs)}.")
    _check(labels, label_mode, color_mode, interpolation, class_names)
    _check_split(validation_split, subset, shuffle, seed)
    seed = int(np.random.randint(1_000_000)) if seed is None else int(seed)
    paths, numbers, names = _index(directory, labels, class_names, follow_links)
    if label_mode == "binary" and len(names or ()) != 2:
        raise ValueError(
            'When passing `label_mode="binary"`, there must be exactly 2 classes. '
            f"Received: class_names={names}."
        )
    if verbose:
        where = f" belonging to {len(names)} classes" if names else ""
        print(f"Found {len(paths)} files{where}.")
    if shuffle:
        order = np.random.RandomState(seed).permutation(len(paths))
        paths = [paths[at] for at in order]
        numbers = None if numbers is None else numbers[order]
    count = int(len(paths) * (validation_split or 0))
    parts = {
        None: slice(None),
        "training": slice(0, len(paths) - count),
        "validation": slice(len(paths) - count, None),
    }

    def made(part: str | None) -> Any:
        mine = parts[part]
        if not paths[mine]:
            raise ValueError(
                f"No images found in directory {os.fspath(directory)}"
                f"{f' for the subset {part!r}' if part else ''}. "
                f"Allowed formats: {_FORMATS}"
            )
        data: Any = tf.data.Dataset.from_tensor_slices(paths[mine])
        if numbers is not None and label_mode is not None:
            targets = _targets(numbers[mine], label_mode, len(names or ()))
            data = tf.data.Dataset.from_tensor_slices((paths[mine], targets))
        if shuffle and part != "validation":
            data = data.shuffle((batch_size or 128) * 8, seed)
        data = data.map(
            _loader(
                _CHANNELS[color_mode], image_size, interpolation, crop_to_aspect_ratio
            )
        )
        data = data if batch_size is None else data.batch(batch_size)
        data = data.prefetch(tf.data.AUTOTUNE)
        data.class_names, data.file_paths = names, paths[mine]
        return data

    return (made("training"), made("validation")) if subset == "both" else made(subset)


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


def _index(
    directory: Any, labels: Any, class_names: Sequence[str] | None, follow_links: bool
) -> tuple[list[str], np.ndarray[Any, Any] | None, list[str] | None]:
    """Paths, their classes' numbers, and the classes' names."""
    root = os.fspath(directory)
    if labels != "inferred" or isinstance(labels, (list, tuple)):
        paths = list(pictures_below(root, _FORMATS, follow_links))
        if labels is None:
            return paths, None, None
        if len(labels) != len(paths):
            raise ValueError(
                "Expected the lengths of `labels` to match the number of files in the "
                f"target directory. len(labels) is {len(labels)} while we found "
                f"{len(paths)} files in directory {root}."
            )
        return paths, np.asarray(labels), [str(one) for one in sorted({*labels})]
    found = class_folders(root)
    names = found if class_names is None else list(class_names)
    if not set(names) <= set(found):
        raise ValueError(
            "The `class_names` passed did not match the names of the subdirectories of "
            f"the target directory. Expected: {found} (or a subset of it), but "
            f"received: class_names={names}."
        )
    paths, numbers = [], []
    for number, name in enumerate(names):
        mine = list(pictures_below(os.path.join(root, name), _FORMATS, follow_links))
        paths += mine
        numbers += [number] * len(mine)
    return paths, np.array(numbers, np.int32), names


def _targets(
    numbers: np.ndarray[Any, Any], label_mode: str, classes: int
) -> np.ndarray[Any, Any]:
    if label_mode == "binary":
        return numbers.astype(np.float32)[:, None]
    if label_mode == "categorical":
        return np.asarray(np.eye(classes, dtype=np.float32)[numbers])
    return numbers.astype(np.int32)


def _check(
    labels: Any, label_mode: Any, color_mode: str, interpolation: str, names: Any
) -> None:
    is_list = isinstance(labels, (list, tuple))
    if not is_list and labels not in ("inferred", None):
        raise ValueError(
            "`labels` must be a list or tuple of integers, 'inferred', or None. "
            f"Received: {labels!r}."
        )
    if (is_list or labels is None) and names is not None:
        raise ValueError("`class_names` can only be specified with labels='inferred'.")
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError(
            '`label_mode` must be "int", "categorical", "binary", or None. '
            f"Received: {label_mode!r}."
        )
    if color_mode not in _CHANNELS:
        raise ValueError(
            '`color_mode` must be "grayscale", "rgb", or "rgba". '
            f"Received: {color_mode!r}."
        )
    if interpolation not in ("bilinear", "nearest"):
        raise ValueError(
            f'`interpolation` is "bilinear" or "nearest". Received: {interpolation!r}.'
        )


def _check_split(share: Any, subset: Any, shuffle: bool, seed: Any) -> None:
    if share and not 0 < share < 1:
        raise ValueError(
            f"`validation_split` must be between 0 and 1. Received: {share!r}."
        )
    if bool(share) != bool(subset):
        raise ValueError(
            "If `subset` is set, `validation_split` must be set, and inversely."
        )
    if subset not in ("training", "validation", "both", None):
        raise ValueError(
            '`subset` must be "training", "validation" or "both". '
            f"Received: {subset!r}."
        )
    if share and shuffle and seed is None:
        raise ValueError(
            "With `validation_split` and shuffling, pass a `seed`, so that the subsets "
            "do not overlap."
        )
