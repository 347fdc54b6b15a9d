# SPDX-License-Identifier: MIT
"""``ImageDataGenerator``: batches of pictures, changed at random on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from ipu._device.generators import numpy_stream
from ipu._text.user_warnings import warn_user
from ipu.keras._backend_state import state
from ipu.keras.preprocessing import _affine
from ipu.keras.preprocessing._batches import DirectoryIterator, NumpyArrayIterator
from ipu.keras.preprocessing._frame_batches import DataFrameIterator

_Array = np.ndarray[Any, Any]


@dataclass(eq=False, repr=False)
class ImageDataGenerator:
    """Changes pictures at random and brings their values into form.

    Where a seed is given, the numbers are those of Keras with this seed. A shift of the
    width moves columns and one of the height rows, which Keras has had the wrong way
    round since 2.7.

    Args:
        featurewise_center: Whether the mean of the pictures of ``fit`` is taken off.
        samplewise_center: Whether each picture's own mean is taken off.
        featurewise_std_normalization: Whether pictures are divided by the standard
            deviation of those of ``fit``.
        samplewise_std_normalization: Whether each is divided by its own.
        zca_whitening: Whether the pictures' values are decorrelated, as ``fit`` found.
        zca_epsilon: Added to the singular values of that.
        rotation_range: The largest angle in degrees.
        width_shift_range: The largest shift of columns: below 1 a share of the width,
            else a number of pixels; a list holds the numbers to choose from.
        height_shift_range: The same of rows.
        brightness_range: The least and the largest factor of Pillow's brightness.
        shear_range: The largest angle of a shear in degrees.
        zoom_range: The least and the largest part of rows and columns that is shown, or
            a number z for (1 - z, 1 + z).
        channel_shift_range: The largest number that is added to all values.
        fill_mode: The pixels outside: "nearest", "constant", "reflect" or "wrap".
        cval: The value for "constant".
        horizontal_flip: Whether half of the pictures are mirrored sideways.
        vertical_flip: Whether half of them are turned upside down.
        rescale: A factor, before what is normalised; None or 0 for none.
        preprocessing_function: A function of a picture, called after the changes.
        data_format: "channels_last" or "channels_first"; None: the backend's.
        validation_split: The share of the subset "validation".
        interpolation_order: 0 for the nearest pixel, 1 for linear interpolation.
        dtype: Of the pictures; None: the backend's ``floatx``.

    Raises:
        ValueError: An argument is not one of those allowed.

    Example:
        >>> pictures = np.arange(2 * 4 * 4 * 1.0).reshape(2, 4, 4, 1)
        >>> generator = ImageDataGenerator(rescale=0.5, horizontal_flip=True)
        >>> x, y = next(generator.flow(pictures, [0, 1], batch_size=2, seed=1))
        >>> x.shape, y.tolist()
        ((2, 4, 4, 1), [0, 1])
    """

    featurewise_center: bool = False
    samplewise_center: bool = False
    featurewise_std_normalization: bool = False
    samplewise_std_normalization: bool = False
    zca_whitening: bool = False
    zca_epsilon: float = 1e-6
    rotation_range: float = 0
    width_shift_range: Any = 0.0
    height_shift_range: Any = 0.0
    brightness_range: Any = None
    shear_range: float = 0.0
    zoom_range: Any = 0.0
    channel_shift_range: float = 0.0
    fill_mode: str = "nearest"
    cval: float = 0.0
    horizontal_flip: bool = False
    vertical_flip: bool = False
    rescale: float | None = None
    preprocessing_function: Callable[[_Array], Any] | None = None
    data_format: Any = None
    validation_split: InitVar[float] = 0.0
    interpolation_order: int = 1
    dtype: Any = None

    def __post_init__(self, validation_split: float) -> None:
        self.dtype = np.dtype(self.dtype or state.floatx)
        given = self.data_format
        self.data_format = given or state.image_data_format
        if self.data_format not in ("channels_last", "channels_first"):
            raise ValueError(
                '`data_format` should be "channels_last" or "channels_first". '
                f"Received: {given!r}."
            )
        is_last = self.data_format == "channels_last"
        self.row_axis, self.col_axis, self.channel_axis = (
            (1, 2, 3) if is_last else (2, 3, 1)
        )
        if validation_split and not 0 < validation_split < 1:
            raise ValueError(
                "`validation_split` must be strictly between 0 and 1. "
                f"Received: {validation_split}."
            )
        self._validation_split = validation_split
        if isinstance(self.zoom_range, (int, float)):
            self.zoom_range = (1 - self.zoom_range, 1 + self.zoom_range)
        self.zoom_range = list(_affine.pair_of("zoom_range", self.zoom_range))
        if self.brightness_range is not None:
            _affine.pair_of("brightness_range", self.brightness_range)
        _affine.check_fill(self.fill_mode, self.interpolation_order)
        self.mean: Any = None
        self.std: Any = None
        self.zca_whitening_matrix: Any = None
        self._settle_normalizations()

    def _settle_normalizations(self) -> None:
        """Turn on what whitening and division need, as Keras does."""
        for cause, effect, value in (
            ("zca_whitening", "featurewise_center", True),
            ("zca_whitening", "featurewise_std_normalization", False),
            ("featurewise_std_normalization", "featurewise_center", True),
            ("samplewise_std_normalization", "samplewise_center", True),
        ):
            if getattr(self, cause) and getattr(self, effect) != value:
                setattr(self, effect, value)
                warn_user(
                    f"This ImageDataGenerator specifies `{cause}`, which overrides the "
                    f"setting of `{effect}`."
                )

    # --- batches ----------------------------------------------------------------------

    def flow(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        shuffle: bool = True,
        sample_weight: Any = None,
        seed: int | None = None,
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        ignore_class_split: bool = False,
        subset: str | None = None,
    ) -> NumpyArrayIterator:
        """Return batches of arrays; see ``NumpyArrayIterator`` for the arguments.

        Returns:
            Batches of pictures, or of (pictures, labels) or (pictures, labels,
            weights), without end and by number.
        """
        return NumpyArrayIterator(
            x,
            y,
            self,
            batch_size,
            shuffle,
            sample_weight,
            seed,
            save_to_dir=save_to_dir,
            save_prefix=save_prefix,
            save_format=save_format,
            subset=subset,
            ignore_class_split=ignore_class_split,
        )

    def flow_from_directory(
        self, directory: Any, *args: Any, **kwargs: Any
    ) -> DirectoryIterator:
        """Return batches of the pictures in a folder, which has a folder for each
        class.

        Args:
            directory: The folder.
            *args: What follows, in this order.
            **kwargs: ``target_size``: (height, width) that pictures are brought to,
                (256, 256). ``color_mode``: "rgb", "rgba" or "grayscale". ``classes``:
                the folders in the order of their numbers; None: sorted.
                ``class_mode``: "categorical" (one-hot), "binary" or "sparse"
                (numbers), "input" (the pictures) or None. ``batch_size``: 32.
                ``shuffle``: True. ``seed``. ``save_to_dir``, ``save_prefix``,
                ``save_format``: where changed pictures are written to.
                ``follow_links``: False. ``subset``: "training" or "validation".
                ``interpolation``: as for ``load_img``. ``keep_aspect_ratio``: whether
                what does not fit is cut off.

        Returns:
            Batches of (pictures, labels), or of pictures, without end and by number.
        """
        names = _OF_FILES[: _OF_FILES.index("follow_links") + 1]
        given = _by_name("flow_from_directory", args, kwargs, (*names, *_SHARED))
        return DirectoryIterator(directory, self, **given)

    def flow_from_dataframe(
        self,
        dataframe: Any,
        directory: Any = None,
        x_col: str = "filename",
        y_col: Any = "class",
        weight_col: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> DataFrameIterator:
        """Return batches of the pictures that a table lists.

        Args:
            dataframe: A pandas frame, or a dict of columns.
            directory: The folder that file names are in, or None for whole paths.
            x_col: The column of file names.
            y_col: The column of labels, or the columns.
            weight_col: The column of weights, or None.
            *args: What follows, in this order.
            **kwargs: ``target_size``, ``color_mode``, ``classes``, ``class_mode``,
                ``batch_size``, ``shuffle``, ``seed``, ``save_to_dir``,
                ``save_prefix``, ``save_format``, ``subset``, ``interpolation`` and
                ``keep_aspect_ratio`` as for :meth:`flow_from_directory`;
                ``class_mode`` may also be "raw" or "multi_output".
                ``validate_filenames``: whether names without a file are left out.

        Returns:
            Batches of (pictures, labels), or of pictures, without end and by number.
        """
        names = (*_OF_FILES[:-1], "subset", "interpolation", "validate_filenames")
        known = (*names, "keep_aspect_ratio")
        given = _by_name("flow_from_dataframe", args, kwargs, known)
        given = {"data_format": self.data_format, "dtype": self.dtype, **given}
        return DataFrameIterator(
            dataframe, directory, self, x_col, y_col, weight_col, **given
        )

    def _part(self, subset: str | None, count: int) -> slice:
        """Return which of so many samples are of a subset: validation comes first."""
        if subset not in ("training", "validation", None):
            raise ValueError(
                f"Invalid subset name: {subset!r}; expected 'training' or 'validation'."
            )
        border = int(self._validation_split * count)
        if subset is None:
            return slice(None)
        return slice(border) if subset == "validation" else slice(border, None)

    # --- single pictures --------------------------------------------------------------

    def get_random_transform(
        self, img_shape: tuple[int, ...], seed: int | None = None
    ) -> dict[str, Any]:
        """Draw what happens to a picture.

        Args:
            img_shape: Its shape, of three axes.
            seed: For the same numbers at every call, or None.

        Returns:
            The arguments of ``apply_affine_transform``, ``flip_horizontal``,
            ``flip_vertical``, ``channel_shift_intensity`` and ``brightness``.
        """
        return self._drawn(img_shape, numpy_stream() if seed is None else _seeded(seed))

    def _drawn(self, shape: tuple[int, ...], draw: Any) -> dict[str, Any]:
        def within(limit: float) -> Any:
            return draw.uniform(-limit, limit) if limit else 0

        # the order is that of Keras, so that a seed means the same
        theta = within(self.rotation_range)
        ty = _shift(self.height_shift_range, shape[self.row_axis - 1], draw)
        tx = _shift(self.width_shift_range, shape[self.col_axis - 1], draw)
        shear = within(self.shear_range)
        is_fixed = self.zoom_range == [1, 1]
        zx, zy = (1, 1) if is_fixed else draw.uniform(*self.zoom_range, 2)
        chances = [draw.random_sample() < 0.5 for _ in range(2)]
        shift, light = self.channel_shift_range, self.brightness_range
        return {
            "theta": theta,
            "tx": tx,
            "ty": ty,
            "shear": shear,
            "zx": zx,
            "zy": zy,
            "flip_horizontal": chances[0] and self.horizontal_flip,
            "flip_vertical": chances[1] and self.vertical_flip,
            "channel_shift_intensity": within(shift) if shift else None,
            "brightness": None if light is None else draw.uniform(*light),
        }

    def apply_transform(self, x: _Array, transform_parameters: dict[str, Any]) -> Any:
        """Change a picture.

        Args:
            x: An array of three axes.
            transform_parameters: As ``get_random_transform`` gives them; what is not
                there does not happen.

        Returns:
            The changed picture.
        """
        given = transform_parameters
        row, column, channel = (
            axis - 1 for axis in (self.row_axis, self.col_axis, self.channel_axis)
        )
        names = ("theta", "tx", "ty", "shear", "zx", "zy")
        x = _affine.apply_affine_transform(
            x,
            **{name: given[name] for name in names if name in given},
            row_axis=row,
            col_axis=column,
            channel_axis=channel,
            fill_mode=self.fill_mode,
            cval=self.cval,
            order=self.interpolation_order,
        )
        if given.get("channel_shift_intensity") is not None:
            x = _affine.apply_channel_shift(x, given["channel_shift_intensity"])
        for name, axis in (("flip_horizontal", column), ("flip_vertical", row)):
            x = np.flip(x, axis) if given.get(name) else x
        if given.get("brightness") is not None:
            x = _affine.apply_brightness_shift(x, given["brightness"], False)
        return x

    def random_transform(self, x: _Array, seed: int | None = None) -> Any:
        """Change a picture at random; see :meth:`get_random_transform`."""
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def standardize(self, x: _Array) -> Any:
        """Bring the values of a picture, or of a batch, into form, in place.

        Args:
            x: Floats.

        Returns:
            The pictures.
        """
        if self.preprocessing_function is not None:
            x = np.asarray(self.preprocessing_function(x))
        if self.rescale:
            x *= self.rescale
        if self.samplewise_center:
            x -= np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x /= np.std(x, keepdims=True) + 1e-6
        if self.featurewise_center and self._is_fitted("featurewise_center", self.mean):
            x -= self.mean
        name = "featurewise_std_normalization"
        if self.featurewise_std_normalization and self._is_fitted(name, self.std):
            x /= self.std + 1e-6
        matrix = self.zca_whitening_matrix
        if self.zca_whitening and self._is_fitted("zca_whitening", matrix):
            size = int(np.prod(x.shape[-3:]))
            x = (x.reshape(-1, size) @ matrix).reshape(x.shape)
        return x

    @staticmethod
    def _is_fitted(name: str, found: Any) -> bool:
        if found is None:
            warn_user(
                f"This ImageDataGenerator specifies `{name}`, but it has not been fit "
                "on any training data, so it is left out. Call `.fit(pictures)` first."
            )
        return found is not None

    def _changed(self, x: _Array, draw: Any) -> Any:
        """Return a picture of a batch: changed, then brought into form."""
        made = self.apply_transform(x, self._drawn(x.shape, draw))
        return self.standardize(np.asarray(made, self.dtype))

    def fit(
        self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None
    ) -> None:
        """Find mean, standard deviation and whitening, those that are asked for.

        Args:
            x: Pictures, [samples, height, width, channels] or with the channels first.
            augment: Whether they are changed at random before.
            rounds: How often each is, then.
            seed: Of the changes, or None.

        Raises:
            ValueError: ``x`` does not have four axes.
        """
        pictures = np.array(x, self.dtype)
        if pictures.ndim != 4:
            raise ValueError(
                "Input to `.fit()` should have rank 4. Received: an array of shape "
                f"{pictures.shape}."
            )
        if self.rescale:
            pictures *= self.rescale
        if augment:
            draw = numpy_stream() if seed is None else _seeded(seed)
            pictures = np.stack(
                [
                    self.apply_transform(one, self._drawn(one.shape, draw))
                    for _ in range(rounds)
                    for one in pictures
                ]
            ).astype(self.dtype)
        axes = (0, self.row_axis, self.col_axis)
        if self.featurewise_center:
            self.mean = np.mean(pictures, axis=axes, keepdims=True)[0]
            pictures -= self.mean
        if self.featurewise_std_normalization:
            self.std = np.std(pictures, axis=axes, keepdims=True)[0]
            pictures /= self.std + 1e-6
        if self.zca_whitening:
            flat = pictures.reshape(len(pictures), -1)
            u, s, _ = np.linalg.svd(flat.T, full_matrices=False)
            scales = np.sqrt(len(pictures)) / (s + self.zca_epsilon)
            self.zca_whitening_matrix = (u * scales) @ u.T


# the arguments of files in their order, and those after them
_OF_FILES = (
    "target_size",
    "color_mode",
    "classes",
    "class_mode",
    "batch_size",
    "shuffle",
    "seed",
    "save_to_dir",
    "save_prefix",
    "save_format",
    "follow_links",
)
_SHARED = ("subset", "interpolation", "keep_aspect_ratio")


def _by_name(
    what: str, args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """Return arguments by name, all of which must be known."""
    from ipu.keras import _names

    if len(args) > len(names):
        raise TypeError(f"{what}() takes fewer positional arguments.")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise TypeError(f"{what}() got multiple values for argument {name!r}.")
        if name not in names:
            raise TypeError(
                f"{what}() got an unexpected keyword argument {name!r}."
                f"{_names.nearest(name, names)}"
            )
        given[name] = value
    return given


def _seeded(seed: int) -> np.random.RandomState:
    return np.random.RandomState(seed)


def _shift(limit: Any, size: int, draw: Any) -> Any:
    """Return by how many pixels: of a list of numbers or below an integer, or a
    share."""
    if not np.any(limit):
        return 0
    if isinstance(limit, float):
        shift = draw.uniform(-limit, limit)
    else:
        shift = draw.choice(limit) * draw.choice([-1, 1])
    return shift * size if np.max(limit) < 1 else shift
