# SPDX-License-Identifier: MIT
"""One official file of a data set: from the Keras cache, or downloaded.

A file that is in the cache is used as it is, with a warning where it is not the
official one. A download is compared with its checksum before it is kept.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ipu._text.log import logger
from ipu.keras.datasets import _download

Array = np.ndarray[Any, Any]
Splits = tuple[tuple[Array, Array], tuple[Array, Array]]

_BASE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"


class Official(NamedTuple):
    """A file as its publisher gives it.

    Attributes:
        title: The data set's name for people.
        file: The file's name in the cache.
        checksum: Its SHA-256, or MD5 where the publisher gives only that.
        base: The beginning of its address.
    """

    title: str
    file: str
    checksum: str
    base: str = _BASE


def _checksum(content: bytes, like: str) -> str:
    kind = hashlib.sha256 if len(like) == 64 else hashlib.md5
    return kind(content).hexdigest()


def content_of(official: Official, path: str | None = None) -> tuple[bytes, Path]:
    """Return the bytes of a file, and where it is."""
    place = _download.cache_folder() / Path(path or official.file).expanduser()
    if place.is_file():
        content = place.read_bytes()
        if _checksum(content, official.checksum) != official.checksum:
            logger.warning(
                "%s is used as it is, though its checksum is not that of the official "
                "%s file.",
                place,
                official.title,
            )
        return content, place
    url = official.base + official.file
    try:
        content = _download.fetch(url)
        received = _checksum(content, official.checksum)
        if received != official.checksum:
            raise OSError(
                f"{url} came with the checksum {received}, not {official.checksum}"
            )
    except OSError as error:
        raise FileNotFoundError(
            f"{official.title} was not found in the Keras cache. Ways out: (1) connect "
            f"to the network and try again (the download failed: {error}); (2) put the "
            f"official file ({official.file}, from {official.base}) to {place}, or set "
            "KERAS_HOME to where it is."
        ) from None
    _download.store(place, content)
    return content, place


def _damaged(official: Official, place: Path, reason: object) -> ValueError:
    return ValueError(
        f"{place} is truncated or does not hold {official.title}: {reason}. Delete it, "
        "or put a whole copy in its place."
    )


class _PlainUnpickler(pickle.Unpickler):
    """Reads lists, dicts, numbers, strings and NumPy arrays, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        is_array = module in (
            "numpy",
            "numpy.core.multiarray",
            "numpy._core.multiarray",
        )
        if is_array and name in ("_reconstruct", "ndarray", "dtype", "scalar"):
            return super().find_class(module, name)
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def unpickled(content: bytes) -> Any:
    """Read a pickle that holds data only; code in it is refused."""
    return _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()


def arrays_of(official: Official, path: str | None, names: list[str]) -> list[Any]:
    """Give arrays of an ``.npz`` file; lists of numbers are arrays of objects there."""
    import zipfile

    content, place = content_of(official, path)
    arrays = []
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in names:
                stream = io.BytesIO(archive.read(f"{name}.npy"))
                version = np.lib.format.read_magic(stream)
                header = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = header(stream)
                if dtype.hasobject:
                    arrays.append(unpickled(stream.read()).reshape(shape))
                else:
                    arrays.append(np.load(io.BytesIO(archive.read(f"{name}.npy"))))
    except (KeyError, OSError, ValueError, EOFError) as error:
        raise _damaged(official, place, error) from None
    except (zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise _damaged(official, place, error) from None
    return arrays


def _as_keras_leaves_it(official: Official, names: list[str]) -> list[Path]:
    """Return the places of an unpacked archive's files in the Keras cache, if it is
    there.

    Keras 2 unpacks ``DIR.tar.gz`` to ``DIR``; Keras 3 unpacks ``DIR-target_archive`` to
    ``DIR-target/DIR``, or ``X.tar.gz`` to ``X_extracted/DIR``.
    """
    cache = _download.cache_folder()
    folder = names[0].partition("/")[0]
    inside = (
        "",
        f"{folder}-target",
        f"{folder}_extracted",
        f"{folder}-target_extracted",
        f"{official.file}_extracted",
        f"{official.file.partition('.')[0]}_extracted",
    )
    for parent in inside:
        places = [cache / parent / name for name in names]
        if all(place.is_file() for place in places):
            return places
    return []


def _archive_of_keras(official: Official, folder: str) -> str | None:
    """Return the name of an archive in the Keras cache, where Keras gave it another
    one."""
    for name in (f"{folder}.tar.gz", f"{folder}-target_archive"):
        if (_download.cache_folder() / name).is_file():
            return name
    return None


def _unpickled_file(official: Official, place: Path) -> Any:
    try:
        return unpickled(place.read_bytes())
    except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise _damaged(official, place, error) from None


def members_of(official: Official, names: list[str]) -> list[Any]:
    """Return the pickled members of a ``.tar.gz`` file, packed or unpacked."""
    path = None
    if not (_download.cache_folder() / official.file).is_file():
        places = _as_keras_leaves_it(official, names)
        if places:
            return [_unpickled_file(official, place) for place in places]
        path = _archive_of_keras(official, names[0].partition("/")[0])
    content, place = content_of(official, path)
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = []
            for name in names:
                stream = archive.extractfile(name)
                assert stream is not None
                found.append(unpickled(stream.read()))
            return found
    except (KeyError, OSError, EOFError, tarfile.TarError) as error:
        raise _damaged(official, place, error) from None
    except pickle.UnpicklingError as error:
        raise _damaged(official, place, error) from None


# --- photographs ----------------------------------------------------------------------

_CIFAR = "https://www.cs.toronto.edu/~kriz/"


def cifar(title: str, checksum: str) -> Official:
    """Return the archive of one of the two sets of photographs, "CIFAR-10" or so."""
    return Official(title, f"{title.lower()}-python.tar.gz", checksum, _CIFAR)


def photographs(parts: list[Any], labels: bytes) -> tuple[Array, Array]:
    """Return the images and the classes of some members of such an archive."""
    from ipu.keras.backend import image_data_format

    data = np.concatenate([np.asarray(part[b"data"], np.uint8) for part in parts])
    images = data.reshape(-1, 3, 32, 32)
    if image_data_format() == "channels_last":
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    classes = np.concatenate([np.asarray(part[labels], np.uint8) for part in parts])
    return images, classes.reshape(-1, 1)
