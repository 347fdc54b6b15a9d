# SPDX-License-Identifier: MIT
"""Savers: the variables of a session in a file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ipu._text.errors import NotFoundError
from ipu._text.suggestions import refuse_unknown
from ipu.tf._graph import mode
from ipu.tf.dtypes import as_dtype
from ipu.tf.io import _checkpoint_files
from ipu.tf.io._checkpoint_files import INDEX, SUFFIX

_OPTIONS = frozenset(
    """
    allow_empty builder defer_build filename keep_checkpoint_every_n_hours max_to_keep
    name pad_step_number reshape restore_sequentially save_relative_paths saver_def
    sharded write_version
    """.split()
)
_SAVE_OPTIONS = frozenset(
    """
    meta_graph_suffix save_debug_info strip_default_attrs
    write_meta_graph write_state
    """.split()
)


class Saver:
    """Writes variables of a session to files, and reads them.

    A file is one of safetensors, ``<path>.safetensors``, with the names of the
    variables; those of TensorFlow itself cannot be read.

    Args:
        var_list: The variables, or a dict of them by the names in the file; None: the
            global ones of the default graph.
        max_to_keep: How many files are kept, the last ones; None or 0: all.
        **more: ``keep_checkpoint_every_n_hours`` and others of TensorFlow, without
            effect.

    Raises:
        TypeError: An unknown argument.
        ValueError: There are no variables.

    Example:
        >>> import tempfile
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     saver = v1.train.Saver()
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         path = saver.save(session, f"{folder}/model", global_step=3)
        ...         w.load(5.0, session)
        ...         saver.restore(session, path)
        ...     print(session.run(w))
        1.0
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        **more: Any,
    ) -> None:
        refuse_unknown("Saver", more, _OPTIONS)
        self._reshape = reshape
        graph = mode.current() or mode.default()
        if var_list is None:
            var_list = graph.get_collection("variables")
        if not isinstance(var_list, Mapping):
            var_list = {v.name.split(":")[0]: v for v in var_list}
        if not var_list:
            raise ValueError("No variables to save")
        self._variables: dict[str, Any] = dict(var_list)
        self._most = max_to_keep
        self._kept: list[str] = []

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths that were written and are kept, the last one last."""
        return list(self._kept)

    def save(
        self,
        sess: Any,
        save_path: str,
        global_step: Any = None,
        latest_filename: str | None = None,
        **more: Any,
    ) -> str:
        """Write the variables.

        Args:
            sess: The session whose values are written.
            save_path: The path, without a suffix.
            global_step: A number, or the variable of it, that is put after the path.
            latest_filename: The file that says which path was written last; None:
                ``checkpoint``.
            **more: ``write_meta_graph`` and others of TensorFlow, without effect.

        Returns:
            The path with the number.

        Raises:
            TypeError: An unknown argument.
            ValueError: The folder does not exist.
        """
        refuse_unknown("save", more, _SAVE_OPTIONS)
        path = os.fspath(save_path)
        if global_step is not None:
            is_number = isinstance(global_step, (int, np.integer))
            step = global_step if is_number else sess.run(global_step)
            path = f"{path}-{int(step)}"
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise ValueError(
                f"Parent directory of {path} doesn't exist, can't save. Make the "
                f"folder {folder!r} first: os.makedirs(...)."
            )
        values = sess.run(self._variables)
        arrays = {name: np.asarray(value, order="C") for name, value in values.items()}
        _checkpoint_files.write(path, arrays, {})
        _checkpoint_files.note_last(path, latest_filename)
        self._kept = [one for one in self._kept if one != path] + [path]
        while self._most and len(self._kept) > self._most:
            _checkpoint_files.delete(self._kept.pop(0))
        return path

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Count what an earlier run has written among the files that are kept.

        Args:
            checkpoint_paths: The paths, the last one last; those without a file are
                left out.
        """
        self._kept = [path for path in checkpoint_paths if checkpoint_exists(path)]

    def restore(self, sess: Any, save_path: str) -> None:
        """Read the variables.

        Args:
            sess: The session that gets the values.
            save_path: The result of :meth:`save`.

        Raises:
            NotFoundError: There is no such file, or it lacks a variable.
            DataLossError: The file is damaged.
            ValueError: A variable has another shape in the file.
        """
        file = Path(os.fspath(save_path) + SUFFIX)
        try:
            arrays, _ = _checkpoint_files.read(os.fspath(save_path))
        except NotFoundError:
            raise NotFoundError(
                f"The passed save_path is not a valid checkpoint: {save_path}. There "
                f"is not a file {file}."
            ) from None
        missing = sorted(set(self._variables) - set(arrays))
        if missing:
            raise NotFoundError(
                f"Key {missing[0]} not found in checkpoint {file}. It has: "
                f"{', '.join(sorted(arrays))}."
            )
        for name, variable in self._variables.items():
            if self._reshape and arrays[name].size == math.prod(variable.shape):
                arrays[name] = arrays[name].reshape(tuple(variable.shape))
            if arrays[name].shape != tuple(variable.shape):
                raise ValueError(
                    f"Variable {name} has shape {variable.shape}, but "
                    f"{arrays[name].shape} in {file}."
                )
        sess._set_values({v: arrays[name] for name, v in self._variables.items()})


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> Any:
    """Return the path that a saver wrote last in a folder, or None.

    Args:
        checkpoint_dir: The folder.
        latest_filename: The name of the file that says so; None: ``checkpoint``.

    Example:
        >>> print(v1.train.latest_checkpoint("/no/such/folder"))
        None
    """
    index = Path(checkpoint_dir) / (latest_filename or INDEX)
    if not index.exists():
        return None
    return str(Path(checkpoint_dir) / index.read_text(encoding="utf-8").strip())


class CheckpointState(NamedTuple):
    """The files that a saver keeps in a folder.

    Attributes:
        model_checkpoint_path: The last one.
        all_model_checkpoint_paths: All, the last one last.

    Example:
        >>> CheckpointState("a", ["a"]).model_checkpoint_path
        'a'
    """

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]


def get_checkpoint_state(
    checkpoint_dir: str, latest_filename: str | None = None
) -> CheckpointState | None:
    """Return the files that savers have written to a folder, or None.

    Args:
        checkpoint_dir: The folder.
        latest_filename: As for :func:`latest_checkpoint`.

    Example:
        >>> print(v1.train.get_checkpoint_state("/no/such/folder"))
        None
    """
    last = latest_checkpoint(checkpoint_dir, latest_filename)
    if last is None:
        return None
    files = Path(checkpoint_dir).glob(f"*{SUFFIX}")
    by_age = sorted(files, key=_checkpoint_files.written_at)
    paths = [str(file).removesuffix(SUFFIX) for file in by_age]
    return CheckpointState(last, [*(one for one in paths if one != last), last])


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Return whether a saver has written a path.

    Args:
        checkpoint_prefix: The result of :meth:`Saver.save`.

    Example:
        >>> v1.train.checkpoint_exists("/no/such/file")
        False
    """
    return Path(os.fspath(checkpoint_prefix) + SUFFIX).exists()


class CheckpointReader:
    """The variables in a file that a saver has written.

    Args:
        path: The result of :meth:`Saver.save`, or a folder: the last one in it.

    Raises:
        NotFoundError: There is no such file.
        DataLossError: The file is damaged.
    """

    def __init__(self, path: str) -> None:
        found = latest_checkpoint(path) if os.path.isdir(path) else path
        prefix = os.fspath(found or path)
        try:
            self._arrays, _ = _checkpoint_files.read(prefix)
        except NotFoundError:
            raise NotFoundError(
                "Unsuccessful TensorSliceReader constructor: no file "
                f"{Path(prefix + SUFFIX)}."
            ) from None

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shapes by the variables' names."""
        return {name: list(array.shape) for name, array in self._arrays.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """Return the dtypes by the variables' names."""
        return {name: as_dtype(array.dtype) for name, array in self._arrays.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Return whether there is a variable of that name."""
        return tensor_str in self._arrays

    def get_tensor(self, tensor_str: str) -> Any:
        """Return the value of a variable.

        Raises:
            NotFoundError: There is nothing of that name.
        """
        if tensor_str not in self._arrays:
            raise NotFoundError(
                f"Key {tensor_str} not found in checkpoint. It has: "
                f"{', '.join(self._arrays)}."
            )
        return self._arrays[tensor_str]


def load_checkpoint(ckpt_dir_or_file: str) -> CheckpointReader:
    """Return what reads a file that a saver has written.

    Args:
        ckpt_dir_or_file: The result of :meth:`Saver.save`, or a folder.

    Raises:
        NotFoundError: There is no such file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     path = v1.train.Saver().save(session, f"{folder.name}/model")
        >>> load_checkpoint(folder.name).get_tensor("w").tolist()
        1.0
        >>> folder.cleanup()
    """
    return CheckpointReader(ckpt_dir_or_file)


NewCheckpointReader = load_checkpoint


def list_variables(ckpt_dir_or_file: str) -> list[tuple[str, list[int]]]:
    """Return the names and shapes in a file that a saver has written.

    Args:
        ckpt_dir_or_file: As for :func:`load_checkpoint`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     path = v1.train.Saver().save(session, f"{folder.name}/model")
        >>> list_variables(path)
        [('w', [])]
        >>> folder.cleanup()
    """
    found = load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map()
    return [*found.items()]


def load_variable(ckpt_dir_or_file: str, name: str) -> Any:
    """Return the value of a variable in a file that a saver has written.

    Args:
        ckpt_dir_or_file: As for :func:`load_checkpoint`.
        name: Its name.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     path = v1.train.Saver().save(session, f"{folder.name}/model")
        >>> load_variable(path, "w").tolist()
        1.0
        >>> folder.cleanup()
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def init_from_checkpoint(
    ckpt_dir_or_file: str, assignment_map: Mapping[str, Any]
) -> None:
    """Let initializers of variables set what a file has.

    Args:
        ckpt_dir_or_file: As for :func:`load_checkpoint`.
        assignment_map: By a name in the file a variable or its name; or by a scope
            there, with a slash at its end, a scope of the graph.

    Raises:
        NotFoundError: There is no such file, or it lacks a variable.
        ValueError: There is no such variable, or it has another shape in the file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     path = v1.train.Saver().save(session, f"{folder.name}/model")
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     other = v1.get_variable("other", [])
        ...     v1.train.init_from_checkpoint(path, {"w": other})
        ...     session.run(v1.global_variables_initializer())
        ...     print(session.run(other))
        1.0
        >>> folder.cleanup()
    """
    reader = load_checkpoint(ckpt_dir_or_file)
    graph = mode.current() or mode.default()
    known = {v.name.split(":")[0]: v for v in graph.get_collection("variables")}
    pairs: list[tuple[str, Any]] = []
    for source, target in assignment_map.items():
        if not source.endswith("/"):
            pairs.append((source, target))
            continue
        scope, before = str(target).rstrip("/"), source.lstrip("/")
        inside = f"{scope}/" if scope else ""
        for name, variable in known.items():
            there = before + name.removeprefix(inside)
            if name.startswith(inside) and reader.has_tensor(there):
                pairs.append((there, variable))
    for source, target in pairs:
        variable = known.get(target) if isinstance(target, str) else target
        if variable is None:
            raise ValueError(f"There is no variable {target!r} in the graph.")
        value = reader.get_tensor(source)
        if value.shape != tuple(variable.shape):
            raise ValueError(
                f"Shape of variable {variable.name} {variable.shape} doesn't match "
                f"with shape of tensor {source} {list(value.shape)} from checkpoint."
            )
        variable.begin_with(value)
