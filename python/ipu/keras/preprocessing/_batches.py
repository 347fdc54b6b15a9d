# SPDX-License-Identifier: MIT
"""What `ImageDataGenerator` gives: batches of changed pictures, without end."""

from __future__ import annotations

import os
from collections.abc import Iterator as _Endless
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._device.generators import numpy_stream
from ipu._device.locks import Lock
from ipu._text.user_warnings import warn_user
from ipu.keras import _pictures
from ipu.keras._folders import files_below
from ipu.keras._sequence import Sequence

if TYPE_CHECKING:
    from ipu.keras.preprocessing._image_data_generator import ImageDataGenerator

_Array = np.ndarray[Any, Any]
FORMATS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff")
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


class Iterator(Sequence):
    """Base class: batches by number, or one after another without end.

    A subclass defines ``_batch(numbers, draw)``. With a seed, the random numbers of a
    batch are a function of the seed and of how many batches came before; without,
    they are drawn from NumPy's global generator.

    Args:
        n: How many samples there are.
        batch_size: Samples in a batch; the last one of a pass may have fewer.
        shuffle: Whether each pass has another order.
        seed: Of order and changes, or None.

    Raises:
        ValueError: ``batch_size`` is not positive.

    Example:
        >>> from ipu.keras.preprocessing.image import NumpyArrayIterator
        >>> issubclass(NumpyArrayIterator, Iterator)
        True
    """

    def __init__(
        self, n: int, batch_size: int, shuffle: bool, seed: int | None
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be positive. Received: {batch_size}.")
        self.n = n
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.batch_index = 0
        self.total_batches_seen = 0
        self.lock = Lock()
        self.index_array: Any = None

    def _batch(self, numbers: _Array, draw: Any) -> Any:
        """Return the batch of these samples; ``draw`` gives random numbers."""
        raise NotImplementedError(f"{type(self).__name__} must define _batch().")

    def _draw(self) -> Any:
        """Return what gives the random numbers of the next batch."""
        seen = self.total_batches_seen
        self.total_batches_seen += 1
        if self.seed is None:
            return numpy_stream()
        return np.random.RandomState(self.seed + seen)

    def _set_order(self, draw: Any) -> None:
        kept = np.arange(self.n)
        self.index_array = draw.permutation(self.n) if self.shuffle else kept

    def __len__(self) -> int:
        """Return the number of batches of a pass."""
        return -(-self.n // self.batch_size)

    def __getitem__(self, index: int) -> Any:
        """Return a batch.

        Raises:
            ValueError: There is no batch of that number.
        """
        if not 0 <= index < len(self):
            raise ValueError(
                f"Asked to retrieve element {index}, but the Sequence has length "
                f"{len(self)}."
            )
        with self.lock:
            draw = self._draw()
            if self.index_array is None:
                self._set_order(draw)
            start = index * self.batch_size
            numbers = self.index_array[start : start + self.batch_size]
        return self._batch(numbers, draw)

    def on_epoch_end(self) -> None:
        """Shuffle anew."""
        seed = self.seed
        seen = self.total_batches_seen
        self._set_order(
            numpy_stream() if seed is None else np.random.RandomState(seed + seen)
        )

    def reset(self) -> None:
        """Go on with the first batch."""
        self.batch_index = 0

    def __iter__(self) -> _Endless[Any]:
        """Return the batches, pass after pass."""
        return self

    def __next__(self) -> Any:
        """Return the next batch.

        Raises:
            ValueError: There are no samples.
        """
        if not self.n:
            raise ValueError("There are no pictures to make a batch of.")
        with self.lock:
            draw = self._draw()
            if self.batch_index == 0:
                self._set_order(draw)
            start = self.batch_index * self.batch_size
            numbers = self.index_array[start : start + self.batch_size]
            self.batch_index = (self.batch_index + 1) % len(self)
        return self._batch(numbers, draw)

    def next(self) -> Any:
        """Return the next batch."""
        return next(self)


class Saved:
    """Where changed pictures are written to, for a look at them.

    Args:
        folder: The folder, or None.
        prefix: The prefix of names.
        ending: Such as "png".
        data_format: Of the pictures.
    """

    def __init__(
        self, folder: str | None, prefix: str, ending: str, data_format: str
    ) -> None:
        self._folder, self._prefix, self._ending = folder, prefix, ending
        self._data_format = data_format

    def keep(
        self, pictures: _Array, numbers: _Array, draw: Any, largest: float
    ) -> None:
        """Write the pictures of a batch."""
        if not self._folder:
            return
        for picture, number in zip(pictures, numbers, strict=True):
            name = (
                f"{self._prefix}_{number}_{draw.randint(int(largest))}.{self._ending}"
            )
            path = os.path.join(self._folder, name)
            _pictures.save_img(path, picture, self._data_format)


class NumpyArrayIterator(Iterator):
    """Batches of arrays, as ``ImageDataGenerator.flow`` gives them.

    Args:
        x: Pictures, [samples, height, width, channels] or with the channels first; or a
            pair of such and of more arrays that go along.
        y: Labels, or None.
        image_data_generator: The generator that changes the pictures.
        batch_size: Samples in a batch.
        shuffle: Whether each pass has another order.
        sample_weight: A weight for each sample, or None.
        seed: Of order and changes, or None.
        data_format: "channels_last" or "channels_first"; None: the generator's.
        save_to_dir: A folder that changed pictures are written to, or None.
        save_prefix: The prefix of their names.
        save_format: Such as "png".
        subset: "training" or "validation" of the generator's split, or None for all.
        ignore_class_split: Whether the subsets may have other classes.
        dtype: Of the batches; None: the generator's.

    Raises:
        ValueError: Numbers of samples that differ, pictures that do not have four axes,
            or subsets with other classes.

    Example:
        >>> from ipu.keras.preprocessing.image import ImageDataGenerator
        >>> batches = NumpyArrayIterator(
        ...     np.ones((5, 4, 4, 3)), np.arange(5), ImageDataGenerator(), batch_size=2
        ... )
        >>> [y.tolist() for _, y in (batches[k] for k in range(3))]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        image_data_generator: ImageDataGenerator,
        batch_size: int = 32,
        shuffle: bool = False,
        sample_weight: Any = None,
        seed: int | None = None,
        data_format: str | None = None,
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        ignore_class_split: bool = False,
        dtype: Any = None,
    ) -> None:
        more: list[Any] = []
        if isinstance(x, (tuple, list)):
            x, second = x
            more = list(second) if isinstance(second, list) else [second]
        count = len(x)
        beside = [*(("x", one) for one in more), ("y", y)]
        for name, one in [*beside, ("sample_weight", sample_weight)]:
            if one is not None and len(one) != count:
                raise ValueError(
                    "All arrays must have the same number of samples. Received: "
                    f"{count} pictures and {len(one)} in `{name}`."
                )
        part = image_data_generator._part(subset, count)
        if subset is not None and y is not None and not ignore_class_split:
            rest = np.delete(np.asarray(y), part, axis=0)
            if not np.array_equal(np.unique(np.asarray(y)[part]), np.unique(rest)):
                raise ValueError(
                    "Training and validation subsets have different number of classes "
                    "after the split. If your numpy arrays are sorted by the label, "
                    "you might want to shuffle them."
                )
        self.dtype = np.dtype(dtype or image_data_generator.dtype)
        self.x = np.asarray(x[part], self.dtype)
        self.x_misc = [np.asarray(one[part]) for one in more]
        self.y = None if y is None else np.asarray(y)[part]
        self.sample_weight = (
            None if sample_weight is None else np.asarray(sample_weight)[part]
        )
        self.data_format = data_format or image_data_generator.data_format
        if self.x.ndim != 4:
            raise ValueError(
                "Input data in `NumpyArrayIterator` should have rank 4. You passed an "
                f"array with shape {self.x.shape}."
            )
        axis = 3 if self.data_format == "channels_last" else 1
        if self.x.shape[axis] not in _CHANNELS.values():
            warn_user(
                f"Pictures have 1, 3 or 4 channels, on axis {axis} with the data "
                f"format {self.data_format!r}. Received: shape {self.x.shape}."
            )
        self.image_data_generator = image_data_generator
        self._saved = Saved(save_to_dir, save_prefix, save_format, self.data_format)
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _batch(self, numbers: _Array, draw: Any) -> Any:
        change = self.image_data_generator._changed
        pictures = np.empty((len(numbers), *self.x.shape[1:]), self.dtype)
        for place, number in enumerate(numbers):
            pictures[place] = change(self.x[number].copy(), draw)
        self._saved.keep(pictures, numbers, draw, 1e4)
        more = [one[numbers] for one in self.x_misc]
        result = [[pictures, *more] if more else pictures]
        for one in (self.y, self.sample_weight if self.y is not None else None):
            if one is not None:
                result.append(one[numbers])
        return result[0] if self.y is None else tuple(result)


class FilesIterator(Iterator):
    """Batches of pictures that are read from files.

    Args:
        paths: The files.
        labels: By class mode: numbers of classes (or lists of such), targets, or None.
        classes: How many classes there are.
        weights: A weight for each file, or None.
        image_data_generator: The generator that changes the pictures, or None.
        options: The arguments of ``flow_from_directory`` that are about pictures.
    """

    def __init__(
        self,
        paths: list[str],
        labels: Any,
        classes: int,
        weights: Any,
        image_data_generator: ImageDataGenerator | None,
        options: dict[str, Any],
    ) -> None:
        color_mode = options["color_mode"]
        if color_mode not in _CHANNELS:
            raise ValueError(
                'color_mode must be "grayscale", "rgb", or "rgba". '
                f"Received: {color_mode!r}."
            )
        self.filepaths = paths
        self.labels = labels
        self.samples = len(paths)
        self.sample_weight = weights
        self.image_data_generator = image_data_generator
        self.target_size = tuple(options["target_size"])
        self.color_mode = color_mode
        self.class_mode = options["class_mode"]
        self.data_format = options["data_format"]
        self.dtype = np.dtype(options["dtype"])
        self.interpolation = options["interpolation"]
        self.keep_aspect_ratio = options["keep_aspect_ratio"]
        channels = (_CHANNELS[color_mode],)
        is_last = self.data_format == "channels_last"
        self.image_shape = (
            (*self.target_size, *channels)
            if is_last
            else (*channels, *self.target_size)
        )
        self._class_count = classes
        self._saved = Saved(
            options["save_to_dir"],
            options["save_prefix"],
            options["save_format"],
            self.data_format,
        )
        super().__init__(
            self.samples, options["batch_size"], options["shuffle"], options["seed"]
        )

    def _picture(self, path: str) -> _Array:
        picture = _pictures.load_img(
            path,
            color_mode=self.color_mode,
            target_size=self.target_size,
            interpolation=self.interpolation,
            keep_aspect_ratio=self.keep_aspect_ratio,
        )
        return _pictures.img_to_array(picture, self.data_format, self.dtype)

    def _batch(self, numbers: _Array, draw: Any) -> Any:
        pictures = np.empty((len(numbers), *self.image_shape), self.dtype)
        for place, number in enumerate(numbers):
            picture = self._picture(self.filepaths[number])
            if self.image_data_generator is not None:
                picture = self.image_data_generator._changed(picture, draw)
            pictures[place] = picture
        self._saved.keep(pictures, numbers, draw, 1e7)
        if self.class_mode is None:
            return pictures
        targets = self._targets(pictures, numbers)
        if self.sample_weight is None:
            return pictures, targets
        return pictures, targets, self.sample_weight[numbers]

    def _targets(self, pictures: _Array, numbers: _Array) -> Any:
        if self.class_mode == "input":
            return pictures.copy()
        if self.class_mode == "multi_output":
            return [one[numbers] for one in self.labels]
        if self.class_mode == "raw":
            return self.labels[numbers]
        mine = [self.labels[number] for number in numbers]
        if self.class_mode != "categorical":
            return np.array(mine, self.dtype)
        one_hot = np.zeros((len(numbers), self._class_count), self.dtype)
        for place, label in enumerate(mine):
            one_hot[place, label] = 1
        return one_hot


class DirectoryIterator(FilesIterator):
    """Batches of a folder's pictures, as ``flow_from_directory`` gives them.

    Args:
        directory: The folder; each class has a folder in it.
        image_data_generator: The generator that changes the pictures.
        **options: The arguments of ``ImageDataGenerator.flow_from_directory``.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument is not one of those allowed; in a batch, a file
            that is not a picture.

    Example:
        >>> import tempfile
        >>> from ipu.keras.preprocessing.image import ImageDataGenerator
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     batches = DirectoryIterator(folder, ImageDataGenerator())
        Found 0 images belonging to 0 classes.
    """

    def __init__(
        self,
        directory: Any,
        image_data_generator: ImageDataGenerator,
        target_size: tuple[int, int] = (256, 256),
        color_mode: str = "rgb",
        classes: list[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        data_format: str | None = None,
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
        dtype: Any = None,
    ) -> None:
        options = dict(locals())
        modes = ("binary", "categorical", "input", "sparse", None)
        if class_mode not in modes:
            raise ValueError(
                f"Invalid class_mode: {class_mode!r}; expected one of: {modes}."
            )
        root = os.fspath(directory)
        names = list(classes or _folders(root))
        files: list[str] = []
        numbers: list[int] = []
        for number, name in enumerate(names):
            found = list(files_below(os.path.join(root, name), FORMATS, follow_links))
            mine = found[image_data_generator._part(subset, len(found))]
            files += mine
            numbers += [number] * len(mine)
        print(f"Found {len(files)} images belonging to {len(names)} classes.")
        self.directory = directory
        self.filenames = [os.path.relpath(path, root) for path in files]
        self.num_classes = len(names)
        self.class_indices = {name: number for number, name in enumerate(names)}
        self.classes = np.array(numbers, np.int32)
        options["data_format"] = data_format or image_data_generator.data_format
        options["dtype"] = dtype or image_data_generator.dtype
        super().__init__(
            files, self.classes, len(names), None, image_data_generator, options
        )


def _folders(root: str) -> list[str]:
    """Return the sorted names of a folder's folders."""
    names = os.listdir(root)
    return sorted(one for one in names if os.path.isdir(os.path.join(root, one)))
