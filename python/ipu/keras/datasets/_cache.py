# SPDX-License-Identifier: MIT
"""Where the arrays of MNIST and Fashion-MNIST come from, in which order.

A given folder alone if there is one; else the Keras cache, a download of the official
files, and for Fashion-MNIST Debian's package. Files that are there are used as they
are, with a warning where they are not the official ones.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ipu._text.log import logger
from ipu.keras.datasets import _download

# of bytes; a program that divides them by 255 gives the same name to floats
Split = tuple[NDArray[Any], NDArray[Any]]
Arrays = tuple[Split, Split]

_BASE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_DEBIAN_PACKAGE = "dataset-fashion-mnist"

_NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")
_IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

# SHA-256 of the test labels as bytes: tells which data set somebody's files hold.
_KNOWN_LABELS = {
    "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5": "mnist",
    "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9": "fashion-mnist",
}


class Loaded(NamedTuple):
    """The arrays of a data set, and words for where they come from."""

    arrays: Arrays
    source: str


class Named(NamedTuple):
    """As :class:`Loaded`, with the name of the data set."""

    arrays: Arrays
    source: str
    name: str


class _Damaged(Exception):
    """The bytes are not what they should be; the text says why."""


@dataclass(frozen=True)
class _DataSet:
    """A data set as it lies in the Keras cache and on the server.

    Attributes:
        title: Its name for people.
        folder: Where in the cache its files are, "" for the cache itself.
        files: The name of each file with the SHA-256 of the official one.
        unpack: Turns a file into what the checksum is of. The gzip files exist in
            several packings, so theirs is of the content.
        parse: Turns the unpacked files into arrays.
    """

    title: str
    folder: str
    files: dict[str, str]
    unpack: Callable[[bytes], bytes]
    parse: Callable[[list[bytes]], Arrays]


def _as_is(content: bytes) -> bytes:
    return content


def _gunzip(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise _Damaged(str(error)) from error


def _maybe_gunzip(content: bytes) -> bytes:
    return _gunzip(content) if content[:2] == b"\x1f\x8b" else content


def _paired(arrays: list[NDArray[Any]]) -> Arrays:
    x_train, y_train, x_test, y_test = arrays
    for x, y in ((x_train, y_train), (x_test, y_test)):
        if x.ndim < 1 or y.ndim < 1 or len(x) != len(y):
            raise _Damaged(f"shapes {x.shape} and {y.shape} do not belong together")
    return (x_train, y_train), (x_test, y_test)


def _parse_npz(files: list[bytes]) -> Arrays:
    if not files[0].startswith((b"PK", b"\x93NUMPY")):
        raise _Damaged("it does not begin as an .npz archive does")
    try:
        archive = np.load(io.BytesIO(files[0]), allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise _Damaged("it is a single array, not an archive")
        missing = [key for key in _NPZ_KEYS if key not in archive]
        if missing:
            raise _Damaged(f"there is no array {missing[0]!r} in it")
        arrays = [archive[key] for key in _NPZ_KEYS]
    except (_Damaged, MemoryError):
        raise
    except Exception as error:
        # Damaged archives make zipfile, zlib and NumPy raise a dozen kinds of errors.
        raise _Damaged(f"{type(error).__name__}: {error}") from error
    return _paired(arrays)


def _parse_idx_file(content: bytes) -> NDArray[np.uint8]:
    """Read an IDX file: 0, 0, 8 for uint8, the rank, big-endian sizes, then the
    values."""
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise _Damaged("it does not begin as an IDX file of bytes does")
    rank = content[3]
    start = 4 + 4 * rank
    if len(content) < start:
        raise _Damaged("it ends inside its head")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", rank, 4))
    values = np.frombuffer(content, np.uint8, offset=start)
    expected = 1
    for size in shape:
        expected *= size
    if values.size != expected:
        raise _Damaged(f"it has {values.size} values, and its head says {expected}")
    # A copy, since a view of bytes would be read-only.
    shaped: np.ndarray[Any, Any] = values.reshape(shape).copy()
    return shaped


def _parse_idx(files: list[bytes]) -> Arrays:
    return _paired([_parse_idx_file(content) for content in files])


_DATA_SETS = {
    "mnist": _DataSet(
        title="MNIST",
        folder="",
        files={
            "mnist.npz": (
                "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
            )
        },
        unpack=_as_is,
        parse=_parse_npz,
    ),
    "fashion-mnist": _DataSet(
        title="Fashion-MNIST",
        folder="fashion-mnist",
        files=dict(
            zip(
                [f"{name}.gz" for name in _IDX_NAMES],
                [
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ],
                strict=True,
            )
        ),
        unpack=_gunzip,
        parse=_parse_idx,
    ),
}


def _damaged(where: Path, title: str, reason: object) -> ValueError:
    return ValueError(
        f"{where} is truncated or does not hold {title}: {reason}. Delete it, or put a "
        "whole copy in its place."
    )


def _read(
    paths: list[Path], data_set: _DataSet, fetched: Mapping[Path, bytes] | None = None
) -> tuple[list[bytes], Arrays]:
    """Return the unpacked files and their arrays; ValueError where one is damaged.

    A file that was just fetched is not read again: the cache may not be writable.
    """
    unpacked = []
    for path in paths:
        content = fetched[path] if fetched and path in fetched else path.read_bytes()
        try:
            unpacked.append(data_set.unpack(content))
        except _Damaged as error:
            raise _damaged(path, data_set.title, error) from None
    try:
        return unpacked, data_set.parse(unpacked)
    except _Damaged as error:
        where = paths[0] if len(paths) == 1 else paths[0].parent
        raise _damaged(where, data_set.title, error) from None


def _in_folder(folder: Path, name: str, data_set: _DataSet) -> Loaded | None:
    """Return what somebody's own folder, or file, holds of a data set."""
    if folder.is_file():
        candidates = [folder]
    else:
        candidates = [folder / f"{name}.npz", folder / name / f"{name}.npz"]
    npz = next((path for path in candidates if path.is_file()), None)
    if npz is not None:
        form = _DataSet(data_set.title, "", {}, _as_is, _parse_npz)
        return Loaded(_read([npz], form)[1], f"{data_set.title} from {npz}")
    for inside in (folder, folder / name):
        found = []
        for idx in _IDX_NAMES:
            both = (inside / f"{idx}.gz", inside / idx)
            found += [path for path in both if path.is_file()][:1]
        if len(found) == len(_IDX_NAMES):
            form = _DataSet(data_set.title, "", {}, _maybe_gunzip, _parse_idx)
            return Loaded(_read(found, form)[1], f"{data_set.title} from {inside}")
    return None


def _nothing_in(folder: Path, names: str) -> FileNotFoundError:
    idx = ", ".join(_IDX_NAMES)
    return FileNotFoundError(
        f"There is no data set in {folder}. It must be a folder with {names}, or with "
        f"the four files {idx} (with or without .gz), or be such an .npz file itself."
    )


def _fetch_missing(data_set: _DataSet, paths: list[Path]) -> dict[Path, bytes]:
    """Download the files that the cache lacks, and put them there."""
    fetched = {}
    for path, (file, digest) in zip(paths, data_set.files.items(), strict=True):
        if path.is_file():
            continue
        content = _download.fetch(_BASE + file)
        try:
            received = hashlib.sha256(data_set.unpack(content)).hexdigest()
        except _Damaged as error:
            raise OSError(f"{_BASE}{file} came damaged: {error}") from None
        if received != digest:
            raise OSError(
                f"{_BASE}{file} came with the checksum {received}, not {digest}"
            )
        _download.store(path, content)
        fetched[path] = content
    return fetched


def _checked(
    data_set: _DataSet, paths: list[Path], fetched: Mapping[Path, bytes]
) -> Arrays:
    """Return the arrays, with a warning for each file that is not the official one."""
    unpacked, arrays = _read(paths, data_set, fetched)
    digests = data_set.files.values()
    for path, content, digest in zip(paths, unpacked, digests, strict=True):
        if path in fetched or hashlib.sha256(content).hexdigest() == digest:
            continue
        logger.warning(
            "%s is used as it is, though its checksum is not that of the official %s "
            "file.",
            path,
            data_set.title,
        )
    return arrays


def _debian() -> Loaded | None:
    """Return Fashion-MNIST from Debian's package, if that is installed."""
    name = "fashion-mnist"
    found = _in_folder(_DEBIAN_FOLDER, name, _DATA_SETS[name])
    if found is None:
        return None
    return Loaded(found.arrays, f"{found.source} (Debian's {_DEBIAN_PACKAGE})")


def load(
    name: str, data_dir: str | Path | None = None, path: str | None = None
) -> Loaded:
    """Load a data set from the first place that has it.

    Args:
        name: "mnist" or "fashion-mnist".
        data_dir: None, or the only place to look: a folder with ``<name>.npz`` or
            the four IDX files, or an .npz file.
        path: Name of the file in the Keras cache, for MNIST alone; "mnist.npz".

    Returns:
        ``((x_train, y_train), (x_test, y_test))``, and words for the source.

    Raises:
        FileNotFoundError: No place has it; the message names the ways out.
        ValueError: A file is truncated or holds something else.

    Example:
        >>> arrays, source = load("fashion-mnist")  # doctest: +SKIP
    """
    data_set = _DATA_SETS[name]
    if data_dir is not None:
        folder = Path(data_dir).expanduser()
        found = _in_folder(folder, name, data_set)
        if found is None:
            raise _nothing_in(folder, f"{name}.npz")
        return found
    cache = _download.cache_folder() / data_set.folder
    paths = [cache / file for file in data_set.files]
    if path is not None:
        paths = [cache / Path(path).expanduser()]
    place = paths[0] if len(paths) == 1 else cache
    try:
        fetched = _fetch_missing(data_set, paths)
    except OSError as error:
        debian = _debian() if name == "fashion-mnist" else None
        if debian is not None:
            return debian
        failure = str(error) or type(error).__name__
        raise FileNotFoundError(_ways_out(name, data_set, place, failure)) from None
    arrays = _checked(data_set, paths, fetched)
    if not fetched:
        return Loaded(arrays, f"{data_set.title} from {place}")
    return Loaded(arrays, f"{data_set.title}, downloaded from {_BASE} to {place}")


def _ways_out(name: str, data_set: _DataSet, place: Path, failure: str) -> str:
    ways = [
        f"connect to the network and try again (the download failed: {failure})",
        f"put the official files ({', '.join(data_set.files)}, from {_BASE}) to "
        f"{place}, or set KERAS_HOME to where they are",
    ]
    if name == "fashion-mnist":
        ways.append(f"install Debian's package: apt-get install {_DEBIAN_PACKAGE}")
    else:
        ways.append(
            "use ipu.keras.datasets.fashion_mnist, which Debian's package "
            f"{_DEBIAN_PACKAGE} provides offline"
        )
    listed = "; ".join(f"({n}) {way}" for n, way in enumerate(ways, 1))
    return f"{data_set.title} was not found in the Keras cache. Ways out: {listed}."


def _label(arrays: Arrays, otherwise: str) -> str:
    labels = hashlib.sha256(arrays[1][1].tobytes()).hexdigest()
    return _KNOWN_LABELS.get(labels, otherwise)


def load_mnist_or_fashion(data_dir: str | Path | None = None) -> Named:
    """Return what ``python -m ipu mnist`` trains on: MNIST, or else Fashion-MNIST of
    Debian.

    Args:
        data_dir: None, or the only place to look, with either of them.

    Returns:
        The arrays, words for their source, and the name of the data set: "mnist" or
        "fashion-mnist", or for somebody's own images the name of the file or folder.

    Raises:
        FileNotFoundError: Neither is there; the message names the ways out.
        ValueError: A file is truncated or holds something else.

    Example:
        >>> arrays, source, name = load_mnist_or_fashion()  # doctest: +SKIP
    """
    if data_dir is not None:
        folder = Path(data_dir).expanduser()
        for name in _DATA_SETS:
            found = _in_folder(folder, name, _DATA_SETS[name])
            if found is not None:
                label = _label(found.arrays, folder.resolve().stem)
                return Named(found.arrays, f"{label} from {folder}", label)
        raise _nothing_in(folder, " or ".join(f"{name}.npz" for name in _DATA_SETS))
    try:
        return Named(*load("mnist"), "mnist")
    except FileNotFoundError as error:
        fashion = _debian()
        if fashion is None:
            raise FileNotFoundError(
                f"{error} Or install Debian's Fashion-MNIST, which this command takes "
                f"in its place: apt-get install {_DEBIAN_PACKAGE}."
            ) from None
        return Named(*fashion, "fashion-mnist")
