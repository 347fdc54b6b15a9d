# SPDX-License-Identifier: MIT
"""Data sets and variables in files: ``ipu.utils.export_...`` and ``import_...``.

The files are NumPy's: ``numpy.load`` reads what is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ipu._text.errors import NotFoundError, OutOfRangeError
from ipu._text.exports import defined
from ipu._text.refusals import refuse_call
from ipu._text.suggestions import refuse_unknown


def export_dataset_to_file(
    dataset_or_infeed: Any,
    output_filename: str,
    num_elements: int,
    feed_name: str = "",
    apply_debug_options: bool = True,
    **kwargs: Any,
) -> list[str]:
    """Write the first elements of a data set, one file for each tensor of an element.

    Args:
        dataset_or_infeed: A data set, or an ``IPUInfeedQueue`` for its data set.
        output_filename: For "folder/data.bin" the files are "folder/data.0.bin",
            "folder/data.1.bin", ...; each is an array [num_elements, ...] in the
            format of ``numpy.save``.
        num_elements: How many elements.
        feed_name: Accepted without effect.
        apply_debug_options: Accepted without effect; once called ``apply_options``.
        **kwargs: ``apply_options`` only.

    Returns:
        The names of the files.

    Raises:
        OutOfRangeError: The data set has fewer elements; nothing is written.

    Example:
        >>> import tempfile
        >>> from ipu import tf, utils
        >>> ds = tf.data.Dataset.range(5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [file] = utils.export_dataset_to_file(ds, folder + "/x.bin", 3)
        ...     np.load(file).tolist()
        [0, 1, 2]
    """
    from ipu.tf import nest

    refuse_unknown("export_dataset_to_file", kwargs, ("apply_options",))
    del feed_name, apply_debug_options
    dataset = getattr(dataset_or_infeed, "_dataset", dataset_or_infeed)
    columns: list[list[Any]] = [[] for _ in nest.flatten(dataset.element_spec)]
    elements = iter(dataset)
    for number in range(num_elements):
        try:
            element = next(elements)
        except StopIteration:
            raise OutOfRangeError(
                f"The data set ended after {number} elements, but num_elements = "
                f"{num_elements}. Repeat the data set, or ask for fewer."
            ) from None
        for column, tensor in zip(columns, nest.flatten(element), strict=True):
            column.append(np.asarray(tensor))
    stem, extension = os.path.splitext(output_filename)
    names = [f"{stem}.{n}{extension or '.bin'}" for n in range(len(columns))]
    for name, column in zip(names, columns, strict=True):
        with open(name, "wb") as file:
            np.save(file, np.stack(column) if column else np.empty(0))
    return names


def export_variables_from_live_model(
    model: Any, output_file: str, gc_metadata: Any = None
) -> None:
    """Write the variables of a Keras model to one file.

    Args:
        model: The model, built.
        output_file: The file, in the format of ``numpy.savez``: an array for each
            variable under its name.
        gc_metadata: Accepted without effect.

    Raises:
        ValueError: Two variables have the same name.

    Example:
        >>> import os, tempfile
        >>> from ipu import keras, utils
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.bin")
        >>> utils.export_variables_from_live_model(model, path)
        >>> os.path.exists(path)
        True
    """
    del gc_metadata
    arrays: dict[str, Any] = {}
    for variable in model.weights:
        if variable.name in arrays:
            raise ValueError(
                f"Two variables of the model are called {variable.name!r}. Give the "
                "layers names of their own."
            )
        arrays[variable.name] = np.asarray(variable)
    with open(output_file, "wb") as file:
        np.savez(file, **arrays)


def _arrays(data_files: str | Iterable[str]) -> dict[str, Any]:
    files = [data_files] if isinstance(data_files, str) else list(data_files)
    arrays: dict[str, Any] = {}
    for name in files:
        if not os.path.exists(name):
            raise NotFoundError(f"There is no file {name!r} with variables.")
        with np.load(name) as archive:
            arrays.update({key: archive[key] for key in archive.files})
    return arrays


def import_data_in_live_model(
    model: Any,
    data_files: str | Sequence[str],
    output_folder: str | None = None,
) -> None:
    """Set the variables of a Keras model to what such files hold.

    Args:
        model: The model, built.
        data_files: Files of :func:`export_variables_from_live_model`.
        output_folder: Where to write the variables again as "weights.npz", or None.

    Raises:
        NotFoundError: A file does not exist, or has no value for any variable.
        ValueError: A value has another shape than its variable.

    Example:
        >>> import os, tempfile
        >>> from ipu import keras, utils
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.bin")
        >>> utils.export_variables_from_live_model(model, path)
        >>> before = model.get_weights()[0]
        >>> model.set_weights([0 * w for w in model.get_weights()])
        >>> utils.import_data_in_live_model(model, path)
        >>> bool((model.get_weights()[0] == before).all())
        True
    """
    arrays = _arrays(data_files)
    found = [v for v in model.weights if v.name in arrays]
    if not found:
        raise NotFoundError(
            "None of the model's variables is in the files. They hold: "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    for variable in found:
        value = arrays[variable.name]
        if tuple(value.shape) != tuple(variable.shape):
            raise ValueError(
                f"The file has shape {tuple(value.shape)} for the variable "
                f"{variable.name!r} of shape {tuple(variable.shape)}."
            )
    for variable in found:
        variable.assign(arrays[variable.name])
    if output_folder is not None:
        os.makedirs(output_folder, exist_ok=True)
        export_variables_from_live_model(
            model, os.path.join(output_folder, "weights.npz")
        )


def export_inputs_to_file(
    inputs: Any, output_filename: str, feed_dict: Any
) -> NoReturn:
    """Not there yet: inputs belong to graphs.

    Raises:
        NotThereYetError: Always.
    """
    del inputs, output_filename, feed_dict
    refuse_call(f"{__name__}.export_inputs_to_file")


def export_variables_from_live_session(
    session: Any, output_file: str, gc_metadata: Any = None
) -> NoReturn:
    """Not there yet: sessions.

    Raises:
        NotThereYetError: Always.
    """
    del session, output_file, gc_metadata
    refuse_call(f"{__name__}.export_variables_from_live_session")


def import_data_in_live_session(
    session: Any, data_files: Any, output_folder: str | None = None
) -> NoReturn:
    """Not there yet: sessions.

    Raises:
        NotThereYetError: Always.
    """
    del session, data_files, output_folder
    refuse_call(f"{__name__}.import_data_in_live_session")


if not TYPE_CHECKING:
    __all__ = defined(__name__)
