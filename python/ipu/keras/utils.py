# SPDX-License-Identifier: MIT
"""``ipu.keras.utils``: small helpers."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any

import numpy as np

from ipu import tf
from ipu._text.arguments import as_int as _as_int
from ipu._text.exports import export, offered
from ipu.keras._drawing.model_drawing import (
    model_to_dot as model_to_dot,
    plot_model as plot_model,
)
from ipu.keras._enqueuers import (
    GeneratorEnqueuer as GeneratorEnqueuer,
    OrderedEnqueuer as OrderedEnqueuer,
    SequenceEnqueuer as SequenceEnqueuer,
)
from ipu.keras._folders import (
    image_dataset_from_directory as image_dataset_from_directory,
    text_dataset_from_directory as text_dataset_from_directory,
)
from ipu.keras._pictures import (
    array_to_img as array_to_img,
    img_to_array as img_to_array,
    load_img as load_img,
    save_img as save_img,
)
from ipu.keras._progress import Progbar as Progbar
from ipu.keras._sequence import Sequence as Sequence
from ipu.keras._serialization import (
    CustomObjectScope as CustomObjectScope,
    custom_object_scope as custom_object_scope,
    deserialize_keras_object as deserialize_keras_object,
    get_custom_objects as get_custom_objects,
    get_registered_name as get_registered_name,
    get_registered_object as get_registered_object,
    register_keras_serializable as register_keras_serializable,
    serialize_keras_object as serialize_keras_object,
)
from ipu.keras._series import (
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
from ipu.keras._splitting import (
    pack_x_y_sample_weight as pack_x_y_sample_weight,
    split_dataset as split_dataset,
    unpack_x_y_sample_weight as unpack_x_y_sample_weight,
)
from ipu.keras.backend import (
    clear_session as clear_session,
    floatx as _floatx,
    is_keras_tensor as is_keras_tensor,
)
from ipu.keras.config import (
    disable_interactive_logging as disable_interactive_logging,
    enable_interactive_logging as enable_interactive_logging,
    is_interactive_logging_enabled as is_interactive_logging_enabled,
)
from ipu.keras.engine.symbols.keras_tensor import get_source_inputs as get_source_inputs
from ipu.keras.preprocessing.sequence import pad_sequences as pad_sequences

PyDataset = Sequence  # what Keras 3 calls it


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray[Any, Any]:
    """Divide an array by its norms along an axis.

    Args:
        x: An array.
        axis: The axis.
        order: The order of the norm, 2 for the length.

    Returns:
        An array of the same shape; what has a norm of 0 stays as it is.

    Example:
        >>> normalize(np.array([[3.0, 4.0]])).tolist()
        [[0.6, 0.8]]
    """
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    result: np.ndarray[Any, Any] = np.asarray(x) / np.expand_dims(norms, axis)
    return result


def get_file(
    fname: str | None = None,
    origin: str | None = None,
    untar: bool = False,
    md5_hash: str | None = None,
    file_hash: str | None = None,
    cache_subdir: str = "datasets",
    hash_algorithm: str = "auto",
    extract: bool = False,
    archive_format: Any = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
    force_download: bool = False,
) -> str:
    """Return the path of a file in the Keras cache; download it if it is not there.

    Args:
        fname: Its name in the cache, or an absolute path; None for that in ``origin``.
        origin: Its address.
        untar: The same as ``extract``.
        md5_hash: Its MD5 checksum; ``file_hash`` is better.
        file_hash: Its SHA-256 or MD5 checksum. A file in the cache that has another
            one is downloaded again.
        cache_subdir: The folder in the cache.
        hash_algorithm: ``"sha256"``, ``"md5"`` or ``"auto"``, by the length.
        extract: Whether it is an archive to unpack beside itself.
        archive_format: Ignored: archives are known by their names.
        cache_dir: The cache, instead of ``$KERAS_HOME`` or ``~/.keras``.
        force_download: Whether it is downloaded although it is there.

    Returns:
        The path.

    Raises:
        ValueError: There is no address, or no file name in it.
        OSError: The download failed or came with another checksum; the text says
            where to put the file by hand.

    Example:
        >>> import pathlib
        >>> _ = pathlib.Path("words.txt").write_text("one two")
        >>> origin = pathlib.Path("words.txt").absolute().as_uri()
        >>> path = get_file("words.txt", origin, cache_dir=".")
        >>> pathlib.Path(path).read_text()
        'one two'
    """
    from ipu.keras.datasets import _download

    del archive_format, hash_algorithm
    if origin is None:
        raise ValueError("`get_file` needs the address of the file, `origin`.")
    name = fname or origin.rpartition("/")[2]
    if not name:
        raise ValueError(f"Give `fname`: there is no file name in {origin!r}.")
    home = cache_dir or os.environ.get("KERAS_HOME") or "~/.keras"
    path = pathlib.Path(home).expanduser() / cache_subdir / name
    wanted = file_hash or md5_hash
    is_there = path.is_file() and not force_download
    if not (is_there and _has_checksum(path.read_bytes(), wanted)):
        try:
            content = _download.fetch(origin)
        except OSError as error:
            raise OSError(
                f"{origin} cannot be downloaded ({error}). Put the file to {path}."
            ) from None
        if not _has_checksum(content, wanted):
            raise OSError(f"{origin} came with another checksum than {wanted}.")
        _download.store(path, content)
    if extract or untar:
        import shutil

        shutil.unpack_archive(path, path.parent, **_safely(path))
    return str(path)


def _safely(path: pathlib.Path) -> dict[str, Any]:
    """Refuse archives that write outside of the folder that they are unpacked into."""
    import tarfile

    is_tar = tarfile.is_tarfile(path)
    return {"filter": "data"} if is_tar and hasattr(tarfile, "data_filter") else {}


def _has_checksum(content: bytes, wanted: str | None) -> bool:
    if wanted is None:
        return True
    kind = hashlib.sha256 if len(wanted) == 64 else hashlib.md5
    return kind(content).hexdigest() == wanted


def to_categorical(
    y: Any, num_classes: int | None = None, dtype: Any = "float32"
) -> np.ndarray[Any, Any]:
    """Turn class numbers into rows with a one at the class.

    Args:
        y: Integers, any shape; a last axis of size 1 is taken away.
        num_classes: The length of a row; None for the largest number and one.
        dtype: The dtype of the result.

    Returns:
        An array of shape ``(*y.shape, num_classes)``.

    Raises:
        ValueError: A number is not in ``[0, num_classes)``.

    Example:
        >>> to_categorical([0, 2]).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = np.asarray(y, dtype=np.int64)
    if labels.ndim > 1 and labels.shape[-1] == 1:
        labels = labels.reshape(labels.shape[:-1])
    classes = int(labels.max()) + 1 if num_classes is None else _as_int(num_classes)
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(
            f"Class numbers must be in [0, {classes}). Received: numbers from "
            f"{labels.min()} to {labels.max()}."
        )
    return np.eye(classes, dtype=dtype)[labels]


def standardize_dtype(dtype: Any) -> str:
    """Return the name of a dtype.

    Args:
        dtype: A name, a ``tf.DType``, a NumPy or a Python type; None for float32.

    Returns:
        Its name.

    Raises:
        TypeError: There is no such dtype.

    Source: ``keras.utils.standardize_dtype`` of Keras 3.

    Example:
        >>> standardize_dtype(np.int64), standardize_dtype(None)
        ('int64', 'float32')
    """
    name: str = tf.as_dtype(_floatx() if dtype is None else dtype).name
    return name


def warmstart_embedding_matrix(
    base_vocabulary: Any,
    new_vocabulary: Any,
    base_embeddings: Any,
    new_embeddings_initializer: Any = "uniform",
) -> Any:
    """Return the table of an embedding of other words: known ones keep their rows.

    Args:
        base_vocabulary: The words of the old table, in order.
        new_vocabulary: The words of the new one.
        base_embeddings: The old table, a row for each word.
        new_embeddings_initializer: The first values of rows of other words.

    Returns:
        A tensor with a row for each new word.

    Raises:
        ValueError: The old table has another number of rows than words.

    Example:
        >>> table = warmstart_embedding_matrix(
        ...     ["a", "b"], ["b", "c"], np.array([[1.0], [2.0]]), "zeros")
        >>> table.numpy().tolist()
        [[2.0], [0.0]]
    """
    from ipu.keras import initializers

    known = {word: row for row, word in enumerate(base_vocabulary)}
    old = np.asarray(base_embeddings)
    if len(old) != len(known):
        raise ValueError(
            "There must be a row for each word of `base_vocabulary`. Received: "
            f"{len(known)} words, base_embeddings of shape {old.shape}."
        )
    start = initializers.get(new_embeddings_initializer)
    assert start is not None
    made = np.array(start((len(new_vocabulary), old.shape[1])))
    for row, word in enumerate(new_vocabulary):
        if word in known:
            made[row] = old[known[word]]
    return tf.constant(made)


def set_random_seed(seed: int) -> None:
    """Seed Python's, NumPy's and ``ipu``'s random numbers.

    Args:
        seed: An integer.

    Example:
        >>> set_random_seed(5)
        >>> first = tf.random.normal([3]).numpy()
        >>> set_random_seed(5)
        >>> bool((tf.random.normal([3]).numpy() == first).all())
        True
    """
    import random

    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    tf.random.set_seed(seed)


export(__name__, offered(__name__))
