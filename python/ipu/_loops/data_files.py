# SPDX-License-Identifier: MIT
"""Data sets and variables in files: ``ipu.utils.export_...`` and ``import_...``.

The files are NumPy's: ``numpy.load`` reads what is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.errors import NotFoundError, OutOfRangeError
from ipu._text.exports import defined
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


def _matched(
    variables: dict[str, Any], arrays: dict[str, Any], owner: str
) -> list[tuple[Any, Any]]:
    """Return the variables that the files have, with their values."""
    found = [(v, arrays[name]) for name, v in variables.items() if name in arrays]
    if not found:
        raise NotFoundError(
            f"None of the {owner}'s variables is in the files. They hold: "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    for variable, value in found:
        if tuple(value.shape) != tuple(variable.shape):
            raise ValueError(
                f"The file has shape {tuple(value.shape)} for the variable "
                f"{variable.name!r} of shape {tuple(variable.shape)}."
            )
    return found


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
    named = {v.name: v for v in model.weights}
    for variable, value in _matched(named, _arrays(data_files), "model"):
        variable.assign(value)
    if output_folder is not None:
        os.makedirs(output_folder, exist_ok=True)
        export_variables_from_live_model(
            model, os.path.join(output_folder, "weights.npz")
        )


def export_inputs_to_file(
    inputs: Any, output_filename: str, feed_dict: Any = None
) -> list[str]:
    """Write what the inputs of a graph are fed with, one file for each.

    Args:
        inputs: Placeholders, or other tensors, of a graph of TensorFlow 1.
        output_filename: For "folder/data.bin" the files are "folder/data.0.bin",
            "folder/data.1.bin", ..., in the format of ``numpy.save``.
        feed_dict: The value of each placeholder.

    Returns:
        The names of the files.

    Raises:
        ValueError: A placeholder has no value, or there is no graph.

    Example:
        >>> import tempfile
        >>> with v1.Graph().as_default():
        ...     x = v1.placeholder(tf.float32, [2])
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         [file] = export_inputs_to_file([x], folder + "/x", {x: [1.0, 2.0]})
        ...         np.load(file).tolist()
        [1.0, 2.0]
    """
    listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    values = [np.asarray(v) for v in _run(list(listed), feed_dict)]
    stem, extension = os.path.splitext(output_filename)
    names = [f"{stem}.{n}{extension or '.bin'}" for n in range(len(values))]
    for name, value in zip(names, values, strict=True):
        with open(name, "wb") as file:
            np.save(file, value)
    return names


def _run(fetches: Any, feed_dict: Any) -> Any:
    """Run a session of its own, in which no variable has a value."""
    from ipu.tf._graph.session import Session

    for one in fetches:
        graph = getattr(one, "graph", None)
        if graph is None:
            raise ValueError(
                "`inputs` of export_inputs_to_file must be tensors of a graph of "
                f"TensorFlow 1. Received: {one!r}."
            )
        is_fed = any(one is key for key in feed_dict or ())
        if getattr(one.op, "type", "") == "Placeholder" and not is_fed:
            raise ValueError(
                f"`feed_dict` of export_inputs_to_file has no value for {one.name!r}."
            )
    if not fetches:
        return []
    with Session(graph=fetches[0].graph) as session:
        return session.run(fetches, feed_dict)


def _variables_of(session: Any) -> dict[str, Any]:
    graph = getattr(session, "graph", None)
    if graph is None:
        raise TypeError(
            f"`session` must be a session of TensorFlow 1. Received: {session!r}."
        )
    return {v.name: v for v in graph.get_collection("variables")}


def export_variables_from_live_session(
    session: Any, output_file: str, gc_metadata: Any = None
) -> None:
    """Write the variables of a session to one file.

    Args:
        session: The session, whose variables have values.
        output_file: The file, in the format of ``numpy.savez``: an array for each
            variable under its name.
        gc_metadata: Accepted without effect.

    Raises:
        TypeError: It is not a session.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.bin")
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     export_variables_from_live_session(session, path)
        ...     w.load(5.0, session)
        ...     import_data_in_live_session(session, path)
        ...     print(session.run(w))
        1.0
    """
    del gc_metadata
    variables = _variables_of(session)
    values = session.run(variables)
    arrays: dict[str, Any] = {n: np.asarray(value) for n, value in values.items()}
    with open(output_file, "wb") as file:
        np.savez(file, **arrays)


def import_data_in_live_session(
    session: Any,
    data_files: str | Sequence[str],
    output_folder: str | None = None,
) -> None:
    """Set the variables of a session to what such files hold.

    Args:
        session: The session.
        data_files: Files of :func:`export_variables_from_live_session`.
        output_folder: Where to write the variables again as "weights.npz", or None.

    Raises:
        NotFoundError: A file does not exist, or has no value for any variable.
        ValueError: A value has another shape than its variable.

    Example:
        >>> session = v1.Session(graph=v1.Graph())
        >>> try:
        ...     import_data_in_live_session(session, [])
        ... except tf.errors.NotFoundError as error:
        ...     print(error)
        None of the session's variables is in the files. They hold: nothing.
    """
    found = _matched(_variables_of(session), _arrays(data_files), "session")
    for variable, value in found:
        variable.load(value, session)
    if output_folder is not None:
        os.makedirs(output_folder, exist_ok=True)
        export_variables_from_live_session(
            session, os.path.join(output_folder, "weights.npz")
        )


if not TYPE_CHECKING:
    __all__ = defined(__name__)
