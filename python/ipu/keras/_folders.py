# SPDX-License-Identifier: MIT
"""Folders of files, with a folder for each class, as data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu import tf
from ipu._text.errors import InvalidArgumentError
from ipu.keras._pictures import middle_part
from ipu.tf.data._seeds import for_shuffle


class FolderOptions(NamedTuple):
    """Arguments that data sets of folders of images and of texts share."""

    labels: Any
    label_mode: str | None
    class_names: Sequence[str] | None
    batch_size: int | None
    shuffle: bool
    seed: int | None
    validation_split: float | None
    subset: str | None
    follow_links: bool
    verbose: bool

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> FolderOptions:
        """Pick the options out of the arguments of a function."""
        return cls(**{name: arguments[name] for name in cls._fields})


def class_folders(directory: Any) -> list[str]:
    """Return the sorted names of a folder's folders.

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
            "files of each class in a folder of its own, or pass labels=None."
        )
    return names


def files_below(
    directory: str, formats: tuple[str, ...], follow_links: bool
) -> Iterator[str]:
    """Yield the paths of the files in a folder and in those below it, sorted."""
    walk = os.walk(directory, followlinks=follow_links)
    for root, _, files in sorted(walk, key=lambda entry: entry[0]):
        for name in sorted(files):
            if name.lower().endswith(formats):
                yield os.path.join(root, name)


def dataset_of_files(
    directory: Any,
    what: str,
    formats: tuple[str, ...],
    load: Callable[..., Any],
    options: FolderOptions,
) -> Any:
    """Make a data set of the files in a folder.

    Args:
        directory: The folder.
        what: What the files are, for messages: "images".
        formats: The ends of their names.
        load: Makes an element of a path, or of a path and a label.
        options: The rest.

    Returns:
        A data set with the attributes ``class_names`` and ``file_paths``, or a pair.

    Raises:
        ValueError: A folder without classes or files; options that do not fit.
        FileNotFoundError: There is no such folder.
    """
    _check_labels(options.labels, options.label_mode, options.class_names)
    _check_split(
        options.validation_split, options.subset, options.shuffle, options.seed
    )
    seed = for_shuffle() & 0xFFFFFFFF if options.seed is None else int(options.seed)
    paths, numbers, names = _index(
        directory, formats, options.labels, options.class_names, options.follow_links
    )
    if options.label_mode == "binary" and len(names or ()) != 2:
        raise ValueError(
            'When passing `label_mode="binary"`, there must be exactly 2 classes. '
            f"Received: class_names={names}."
        )
    if options.verbose:
        where = f" belonging to {len(names)} classes" if names else ""
        print(f"Found {len(paths)} files{where}.")
    if options.shuffle:
        order = np.random.RandomState(seed).permutation(len(paths))
        paths = [paths[at] for at in order]
        numbers = None if numbers is None else numbers[order]
    count = int(len(paths) * (options.validation_split or 0))
    parts = {
        None: slice(None),
        "training": slice(0, len(paths) - count),
        "validation": slice(len(paths) - count, None),
    }

    def made(part: str | None) -> Any:
        mine = parts[part]
        if not paths[mine]:
            raise ValueError(
                f"No {what} found in directory {os.fspath(directory)}"
                f"{f' for the subset {part!r}' if part else ''}. "
                f"Allowed formats: {formats}"
            )
        data: Any = tf.data.Dataset.from_tensor_slices(paths[mine])
        if numbers is not None and options.label_mode is not None:
            targets = _targets(numbers[mine], options.label_mode, len(names or ()))
            data = tf.data.Dataset.from_tensor_slices((paths[mine], targets))
        size = options.batch_size
        if options.shuffle and part != "validation":
            data = data.shuffle((size or 128) * 8, seed)
        data = data.map(load)
        data = data if size is None else data.batch(size)
        data = data.prefetch(tf.data.AUTOTUNE)
        data.class_names, data.file_paths = names, paths[mine]
        return data

    if options.subset == "both":
        return made("training"), made("validation")
    return made(options.subset)


def _index(
    directory: Any,
    formats: tuple[str, ...],
    labels: Any,
    class_names: Sequence[str] | None,
    follow_links: bool,
) -> tuple[list[str], np.ndarray[Any, Any] | None, list[str] | None]:
    """Return paths, their classes' numbers, and the classes' names."""
    root = os.fspath(directory)
    if labels != "inferred" or isinstance(labels, (list, tuple)):
        paths = list(files_below(root, formats, follow_links))
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
        mine = list(files_below(os.path.join(root, name), formats, follow_links))
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


def _check_labels(labels: Any, label_mode: Any, names: Any) -> None:
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


def text_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Make a data set of the texts in a folder: files whose names end in ``.txt``.

    Args:
        directory: The folder. With ``labels="inferred"`` it has a folder for each
            class.
        batch_size: Texts in a batch; None: not batched.
        max_length: How many bytes of a text are kept; None: all.

    The other arguments are those of ``image_dataset_from_directory``.

    Returns:
        A ``tf.data.Dataset`` of (texts, labels), or of texts. It has the attributes
        ``class_names`` and ``file_paths``. ``keras.layers.TextVectorization`` makes
        numbers of texts.

    Raises:
        ValueError: A folder without classes or texts; arguments that do not fit.
        FileNotFoundError: There is no such folder.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> for name, text in (("good", "fine"), ("bad", "awful")):
        ...     tf.io.write_file(os.path.join(folder, name, "0.txt"), text)
        >>> texts = text_dataset_from_directory(folder, shuffle=False, verbose=False)
        >>> [(x.numpy().tolist(), y.numpy().tolist()) for x, y in texts]
        [([b'awful', b'fine'], [0, 1])]
    """

    def load(path: Any, *label: Any) -> Any:
        text = tf.io.read_file(path)
        if max_length is not None:
            text = tf.strings.substr(text, 0, max_length)
        return (text, *label) if label else text

    options = FolderOptions.of(locals())
    return dataset_of_files(directory, "text files", (".txt",), load, options)


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

    Example:
        >>> import pathlib
        >>> for kind in ("cat", "dog"):
        ...     pathlib.Path("pets", kind).mkdir(parents=True)
        ...     keras.utils.save_img(f"pets/{kind}/1.png", np.zeros((8, 8, 3)))
        >>> data = image_dataset_from_directory("pets", image_size=(4, 4), verbose=0)
        >>> data.class_names, next(iter(data))[0].shape
        (['cat', 'dog'], (2, 4, 4, 3))
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
    options = FolderOptions.of(locals())
    load = _loader(
        _CHANNELS[color_mode], image_size, interpolation, crop_to_aspect_ratio
    )
    return dataset_of_files(directory, "images", _FORMATS, load, options)


def _loader(channels: int, size: tuple[int, int], method: str, crops: bool) -> Any:
    """Return the function from a path (and a label) to pixels (and the label)."""
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
