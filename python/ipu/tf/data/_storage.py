# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that keep elements: in memory, and in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._text.errors import AlreadyExistsError, DataLossError, NotFoundError
from ipu._text.refusals import refuse_given
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._string_ops.tensors import path_of
from ipu.tf.data import _packed, _stored, _structure
from ipu.tf.data._made_by import note

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_Arrays = tuple["np.ndarray[Any, Any]", ...]
_ROWS, _ABOUT = "elements.rows", "about.json"  # in the folder of `save`


@boundaries(after=note)
class Storage:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any

        def _then(self, impl: Any) -> Dataset: ...

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Keep the elements when they are read for the first time.

        Later passes, of this or another iterator, take them from there: what is in
        front of ``cache`` (a generator, a ``map``) makes each element once.

        Args:
            filename: Where they are kept: "" (default) for memory, or the name of a
                file, which another process finds too. The file is there when they have
                been read to the end, without those that failed.

        Returns:
            A data set of the same elements.

        Raises:
            TypeError: A file is named, and elements are data sets.
            FailedPreconditionError: When an element is read: the file is of another
                pipeline, also of this one before its functions, its arguments or its
                data changed (files that it reads are known by name alone). Remove it to
                make it anew.
            DataLossError: When an element is read: the file is damaged.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(2).cache().repeat(2)]
            [0, 1, 0, 1]
        """
        del name
        path = "" if filename is None else path_of(filename)
        if not path:
            return self._then(self._impl.cache())
        from ipu.tf.data._fingerprint import fingerprint  # slow to import

        return self._then(self._kept(path, fingerprint(self)))

    def _kept(self, path: str, pipeline: str) -> Any:
        """The core's data set of elements that a file keeps."""
        impl, structure = self._impl, self._structure
        _stored.described(structure)

        def start() -> Iterator[_Arrays]:
            if os.path.exists(path):
                return _stored.read_rows(path, structure, None, pipeline)
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            rows = _packed.packed_rows(impl)
            return _stored.Written(path, structure, rows, None, pipeline)

        specs = nest.flatten(structure)
        types = tuple(_structure.core_spec(spec) for spec in specs)
        return _core.Dataset.generator(types, start, impl.cardinality)

    def snapshot(
        self,
        path: Any,
        compression: str | None = "AUTO",
        reader_func: Any = None,
        shard_func: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Keep the elements in a folder, also for later processes.

        Args:
            path: The folder, with a folder in it for each pipeline: where a function,
                an argument or the data before ``snapshot`` has changed, elements are
                made and kept anew (files that are read are known by name alone).
            compression: "GZIP"; "AUTO", "SNAPPY" or None: none.
            reader_func: Must be None.
            shard_func: Accepted for compatibility: there is one file.

        Returns:
            A data set of the same elements.

        Raises:
            TypeError: Elements are data sets.
            NotImplementedError: ``reader_func`` is given.

        Example:
            >>> import tempfile
            >>> kept = tf.data.Dataset.range(3).snapshot(tempfile.mkdtemp())
            >>> [int(x) for x in kept], [int(x) for x in kept]
            ([0, 1, 2], [0, 1, 2])
        """
        del name, compression, shard_func
        refuse_given(f"{__name__}.Storage.snapshot", reader_func=reader_func)
        from ipu.tf.data._fingerprint import fingerprint

        pipeline = fingerprint(self)
        file = os.path.join(path_of(path), pipeline, _ROWS)
        return self._then(self._kept(file, pipeline))

    def save(
        self,
        path: Any,
        compression: str | None = None,
        shard_func: Any = None,
        checkpoint_args: Any = None,
    ) -> None:
        """Read all elements, and write them into a folder for :meth:`load`.

        Args:
            path: The folder; what was saved there before is replaced.
            compression: "GZIP" or None.
            shard_func: Accepted for compatibility: there is one file.
            checkpoint_args: Accepted for compatibility.

        Raises:
            ValueError: There is no such compression, or no end to the elements.
            TypeError: Elements are data sets.
            AlreadyExistsError: ``path`` is a file.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> tf.data.Dataset.range(3).save(folder)
            >>> [int(x) for x in tf.data.Dataset.load(folder)]
            [0, 1, 2]
        """
        import json

        del shard_func, checkpoint_args
        folder, kind = path_of(path), _checked_compression(compression)
        about = {"spec": _stored.described(self._structure), "compression": kind}
        if self._impl.cardinality == -1:
            raise ValueError(
                "A data set without an end cannot be saved. Use take() before."
            )
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError as error:
            raise AlreadyExistsError(f"{folder} is a file.") from error
        rows = _packed.packed_rows(self._impl)
        target = os.path.join(folder, _ROWS)
        with closing(_stored.Written(target, self._structure, rows, kind)) as written:
            count = sum(1 for _ in written)
        with open(os.path.join(folder, _ABOUT), "w", encoding="utf-8") as file:
            json.dump({**about, "count": count}, file)

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        wait: bool = False,
    ) -> Dataset:
        """Give the elements that :meth:`save` wrote.

        Args:
            path: The folder.
            element_spec: Accepted for compatibility: the folder says it.
            compression: Accepted for compatibility: the folder says it.
            reader_func: Must be None.
            wait: Must be False.

        Returns:
            A data set.

        Raises:
            NotFoundError: Nothing was saved there.
            NotImplementedError: ``reader_func`` or ``wait`` is given.
            DataLossError: What the folder says of itself is damaged; or when an element
                is read: the file of elements is.

        Example: :meth:`save`.
        """
        import json

        from ipu.tf.data._dataset import Dataset

        del element_spec, compression
        refuse_given(f"{__name__}.Storage.load", reader_func=reader_func, wait=wait)
        folder = path_of(path)
        described = os.path.join(folder, _ABOUT)
        try:
            with open(described, encoding="utf-8") as file:
                about = json.load(file)
            structure = _stored.spec_from(about["spec"])
            kind = _checked_compression(about["compression"])
            count = int(about["count"])
        except OSError as error:
            raise NotFoundError(
                f"No data set was saved in {folder} ({error.strerror})."
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise DataLossError(
                f"The file {described!r}, which says what was saved, is damaged "
                f"({type(error).__name__}: {error}). Save the data set again."
            ) from error
        rows = os.path.join(folder, _ROWS)
        types = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))
        impl = _core.Dataset.generator(
            types, lambda: _stored.read_rows(rows, structure, kind)
        )
        return Dataset(impl.assert_cardinality(count), structure)


def _checked_compression(compression: Any) -> str | None:
    if compression in (None, "", "NONE"):
        return None
    if compression != "GZIP":
        raise ValueError(
            "`compression` must be None or 'GZIP'. "
            f"Received: compression={compression!r}."
        )
    return "GZIP"
