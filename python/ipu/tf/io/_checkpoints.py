# SPDX-License-Identifier: MIT
"""``tf.train.Checkpoint``: the variables of objects in a file.

A file is one of safetensors, ``<path>.safetensors``. The name of a value in it is the
way to it: attributes, numbers in lists and keys of dicts, with slashes between them.
The metadata has, for an object with several ways to it, the way that its values have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ipu._text.tracebacks import boundaries
from ipu.tf._functions import restores
from ipu.tf._functions.tracing import init_scope
from ipu.tf.io import _checkpoint_files as files
from ipu.tf.module import Module
from ipu.tf.variable import Variable

__all__ = ["Checkpoint", "CheckpointManager", "LoadStatus"]

_FORMAT = "ipu.checkpoint"
_COUNTER = "save_counter"


class _Object:
    """An object that a checkpoint reaches.

    Attributes:
        thing: The object.
        ways: All ways to it; the first is what its values are named by.
        values: Its own variables, by their names below it.
    """

    def __init__(self, thing: Any, way: str) -> None:
        self.thing = thing
        self.ways = [way]
        self.values: dict[str, Any] = {}


def _is_kept(thing: Any) -> bool:
    """Return whether a checkpoint keeps something: it has variables, or may have
    some."""
    return (
        isinstance(thing, (Variable, Module, Checkpoint, list, tuple, Mapping))
        or hasattr(type(thing), "_checkpoint_parts")
    ) and not isinstance(thing, type)


def _is_late(thing: Any) -> bool:
    """Return whether the names of its parts have those of other variables: an
    optimizer."""
    return hasattr(type(thing), "get_slot")


def _parts(thing: Any, names: Mapping[int, str]) -> dict[str, Any]:
    """Return what an object holds, by name."""
    if hasattr(type(thing), "_checkpoint_parts"):
        parts: dict[str, Any] = thing._checkpoint_parts(names)
        return parts
    if isinstance(thing, (list, tuple)):
        return {str(number): one for number, one in enumerate(thing)}
    if isinstance(thing, Mapping):
        return {str(key): one for key, one in thing.items()}
    return {key: one for key, one in vars(thing).items() if key != "_tracked"}


def _joined(way: str, name: str) -> str:
    return f"{way}/{name}" if way else name


def _objects(root: Checkpoint, named: Mapping[str, str]) -> list[_Object]:
    """Return all objects that a checkpoint reaches, each with its variables.

    Args:
        root: The checkpoint.
        named: By ways to objects in a file, those that their values are named by there.
    """
    found: dict[int, _Object] = {}
    names: dict[int, str] = {}  # of variables, for optimizers
    late: list[tuple[str, Any]] = []
    queue: list[tuple[str, Any]] = [("", root)]
    while queue or late:
        way, thing = queue.pop(0) if queue else late.pop(0)
        if id(thing) in found:
            found[id(thing)].ways.append(way)
            continue
        if _is_late(thing) and queue:
            late.append((way, thing))
            continue
        entry = found[id(thing)] = _Object(thing, way)
        for name, part in _parts(thing, names).items():
            if isinstance(part, Variable):
                entry.values[name] = part
                names.setdefault(id(part), _joined(named.get(way, way), name))
            elif _is_kept(part):
                queue.append((_joined(way, name), part))
    return [entry for entry in found.values() if entry.values or len(entry.ways) > 1]


@boundaries("assert_consumed", "assert_existing_objects_matched")
class LoadStatus:
    """The state of a restore: what it did, and what it waits for.

    Values of variables that are not made yet, those of layers that are not built and of
    optimizers that updated nothing, are restored when they are made.

    Source: the status objects of ``tf.train.Checkpoint``.

    Args:
        root: The checkpoint.
        path: The file's path; None: nothing is restored.

    Example:
        >>> path = tf.train.Checkpoint(v=tf.Variable(3.0)).write("checkpoint_of_v")
        >>> status = tf.train.Checkpoint(v=tf.Variable(0.0)).restore(path)
        >>> status.assert_consumed() is status
        True
    """

    def __init__(self, root: Checkpoint, path: str | None) -> None:
        self._root, self._path = root, path
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._named: dict[str, str] = {}
        self._left: set[str] = set()
        self._done: set[int] = set()  # variables that have their values
        self._unmatched: list[str] = []  # variables that the file lacks
        if path is not None:
            self._arrays, about = files.read(path)
            self._named = json.loads(about.get("ways", "{}"))
            self._left = set(self._arrays)

    def go_on(self) -> bool:
        """Restore what is there by now.

        Returns:
            Whether the file has values that no variable took yet.

        Raises:
            ValueError: A variable has another shape or dtype; then none is changed.
        """
        wanted: list[tuple[str, Any]] = []
        self._unmatched = []
        for entry in _objects(self._root, self._named):
            ways = [self._named.get(way, way) for way in entry.ways]
            for name, variable in entry.values.items():
                keys = [_joined(way, name) for way in ways]
                key = next((one for one in keys if one in self._arrays), None)
                if key is not None:
                    wanted.append((key, variable))
                elif keys[0] != _COUNTER:
                    self._unmatched.append(keys[0])
        for key, variable in wanted:
            self._check(key, variable)
        with init_scope():
            for key, variable in wanted:
                if id(variable) not in self._done:
                    variable.assign(self._arrays[key])
                    self._done.add(id(variable))
                self._left.discard(key)
        return bool(self._left)

    def _check(self, key: str, variable: Any) -> None:
        array = self._arrays[key]
        shape, dtype = tuple(variable.shape), variable.dtype.name
        if shape != array.shape or dtype != array.dtype.name:
            raise ValueError(
                f"The variable {key!r} has shape {shape} and dtype {dtype}, but in "
                f"{self._path!r} shape {array.shape} and dtype {array.dtype.name}. "
                "Nothing is restored."
            )

    def _need_path(self) -> None:
        if self._path is None:
            raise AssertionError(
                "No checkpoint specified (save_path=None); nothing is being restored."
            )

    def assert_consumed(self) -> LoadStatus:
        """Check that each variable has its value, and each value its variable.

        Raises:
            AssertionError: They do not; some are listed.
        """
        self._need_path()
        self.assert_existing_objects_matched()
        if self._left:
            raise AssertionError(
                f"{self._path!r} has values that no variable of the program takes: "
                f"{_some(self._left)}. Layers and optimizers make variables when they "
                "are first used: check after that, or call expect_partial()."
            )
        return self

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Check that each variable there is has its value.

        Raises:
            AssertionError: One has none in the file.
        """
        self._need_path()
        self.go_on()
        if self._unmatched:
            raise AssertionError(
                f"{self._path!r} has no values of these variables of the program: "
                f"{_some(self._unmatched)}. It has: {_some(self._arrays)}."
            )
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Check that a variable has a value of the file.

        Raises:
            AssertionError: None has.
        """
        self._need_path()
        if not self._done:
            raise AssertionError(
                f"Nothing in the program has a value in {self._path!r}. It has: "
                f"{_some(self._arrays)}."
            )
        return self

    def expect_partial(self) -> LoadStatus:
        """Say nothing of values that no variable takes: nothing is said of them."""
        return self

    def initialize_or_restore(self, session: Any = None) -> None:
        """Do nothing: variables have their first values when they are made."""


def _some(names: Any) -> str:
    listed = sorted(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")


@boundaries("__init__", "save", "write", "restore", "read")
class Checkpoint:
    """Variables of objects, to be written to files and read again.

    It keeps variables, models, layers, optimizers, metrics, ``tf.Module``, generators
    of random numbers, and lists and dicts of them. A compiled model brings its
    optimizer along. Objects are told apart by the names they are given here.

    Args:
        root: An object whose attributes are kept as if they were given by name.
        **objects: What is kept, by name; also set as attributes.

    Raises:
        ValueError: An object that has no variables.

    Example:
        >>> step = tf.Variable(1)
        >>> checkpoint = tf.train.Checkpoint(step=step)
        >>> path = checkpoint.save("checkpoints/run")
        >>> path
        'checkpoints/run-1'
        >>> _ = step.assign(5)
        >>> _ = checkpoint.restore(path)
        >>> int(step)
        1
    """

    def __init__(self, root: Any = None, **objects: Any) -> None:
        self._tracked: dict[str, Any] = {}
        self._restore: LoadStatus | None = None
        if root is not None:
            _check_kept("root", root)
            if isinstance(root, Variable):
                raise ValueError(
                    "`root` is an object that holds variables. Received: a variable. "
                    "Give it a name: Checkpoint(v=variable)."
                )
        self._root = root
        self._counter: Any = None
        for name, thing in objects.items():
            setattr(self, name, thing)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            _check_kept(name, value)
            self._tracked[name] = value
        object.__setattr__(self, name, value)
        if not name.startswith("_"):
            restores.go_on()

    def _checkpoint_parts(self, names: Mapping[int, str]) -> dict[str, Any]:
        of_root = {} if self._root is None else _parts(self._root, names)
        parts = {**of_root, **self._tracked}
        if self._counter is not None:
            parts[_COUNTER] = self._counter
        return parts

    @property
    def save_counter(self) -> Any:
        """How often :meth:`save` was called: an int32 variable."""
        if self._counter is None:
            with init_scope():
                self._counter = Variable(np.int32(0), trainable=False, name=_COUNTER)
        return self._counter

    def save(self, file_prefix: str | os.PathLike[str], options: Any = None) -> str:
        """Write the variables to ``<file_prefix>-<number>.safetensors``.

        The folder is made. The file appears when it is whole.

        Args:
            file_prefix: The path, without a suffix; a number counts the calls.
            options: Ignored.

        Returns:
            The path with its number, for :meth:`restore`.
        """
        counter = self.save_counter
        counter.assign_add(1)
        path = self.write(f"{os.fspath(file_prefix)}-{int(counter)}", options)
        files.note_last(path)
        return path

    def write(self, file_prefix: str | os.PathLike[str], options: Any = None) -> str:
        """Write the variables to ``<file_prefix>.safetensors``.

        Args:
            file_prefix: The path, without a suffix.
            options: Ignored.

        Returns:
            The path, for :meth:`read`.

        Raises:
            ValueError: There are no variables.
        """
        del options
        path = files.without_suffix(file_prefix)
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        ways: dict[str, str] = {}
        for entry in _objects(self, {}):
            for name, variable in entry.values.items():
                arrays[_joined(entry.ways[0], name)] = variable.numpy()
            ways.update(dict.fromkeys(entry.ways[1:], entry.ways[0]))
        if not arrays:
            raise ValueError(
                "There are no variables to write yet. Build the model first: call it "
                "on a batch, or give its first layer an input shape."
            )
        files.write(path, arrays, {"format": _FORMAT, "ways": json.dumps(ways)})
        return path

    def restore(
        self, save_path: str | os.PathLike[str] | None, options: Any = None
    ) -> LoadStatus:
        """Read the variables: now, and those that come later when they are made.

        Args:
            save_path: The result of :meth:`save`; None restores nothing.
            options: Ignored.

        Returns:
            An object that says what was restored.

        Raises:
            NotFoundError: There is no such file.
            DataLossError: It is damaged.
            ValueError: A variable has another shape or dtype there; none is changed.
        """
        _ = self.save_counter
        return self.read(save_path, options)

    def read(
        self, save_path: str | os.PathLike[str] | None, options: Any = None
    ) -> LoadStatus:
        """Read the variables that :meth:`write` wrote, as :meth:`restore` does.

        Args:
            save_path: The result of :meth:`write`; None reads nothing.
            options: Ignored.
        """
        del options
        path = None if save_path is None else files.without_suffix(save_path)
        status = LoadStatus(self, path)
        has_more = status.go_on()
        if self._restore is not None:
            restores.forget(self._restore)
        self._restore = status
        if has_more:
            restores.wait(status)
        return status


def _check_kept(name: str, thing: Any) -> None:
    if _is_kept(thing):
        return
    way = "Keep numbers in a tf.Variable."
    if hasattr(thing, "get_next"):
        way = (
            "The place of an iterator is not kept: keep the number of elements in a "
            "tf.Variable, and begin again with dataset.skip(number)."
        )
    raise ValueError(
        f"`Checkpoint` was expecting {name} to be an object with variables (a "
        "variable, model, layer, optimizer, metric, tf.Module, or lists and dicts of "
        f"them), but got {thing!r}. {way}"
    )


@boundaries("__init__", "save", "restore_or_initialize")
class CheckpointManager:
    """Keeps the last ones of a checkpoint's files in a folder.

    Args:
        checkpoint: The :class:`Checkpoint`.
        directory: The folder; it is made.
        max_to_keep: How many files are kept; None: all.
        keep_checkpoint_every_n_hours: A file that is so much younger than the last one
            kept for ever is kept for ever, too; None: none is.
        checkpoint_name: The name of the files, before their numbers.
        step_counter: A variable that counts steps, for ``checkpoint_interval``.
        checkpoint_interval: Steps between two files: :meth:`save` does nothing before.
        init_fn: Called by :meth:`restore_or_initialize` where there is no file.

    Raises:
        ValueError: ``max_to_keep`` is not positive; an interval without a counter.

    Example:
        >>> step = tf.Variable(0)
        >>> checkpoint = tf.train.Checkpoint(step=step)
        >>> manager = tf.train.CheckpointManager(checkpoint, "managed", max_to_keep=2)
        >>> for _ in range(3):
        ...     _ = step.assign_add(10)
        ...     path = manager.save()
        >>> [path.split('/')[1] for path in manager.checkpoints]
        ['ckpt-2', 'ckpt-3']
        >>> _ = step.assign(0)
        >>> _ = checkpoint.restore(manager.latest_checkpoint)
        >>> int(step)
        30
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Any = None,
    ) -> None:
        if not isinstance(checkpoint, Checkpoint):
            raise TypeError(
                "`checkpoint` must be a tf.train.Checkpoint. Received: "
                f"checkpoint={checkpoint!r}."
            )
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(
                "Expected a positive integer or `None` for `max_to_keep`. Received: "
                f"max_to_keep={max_to_keep!r}."
            )
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError(
                "`step_counter` should be passed if `checkpoint_interval` is not "
                f"None. Received: checkpoint_interval={checkpoint_interval!r}."
            )
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._most = max_to_keep
        self._hours = keep_checkpoint_every_n_hours
        self._name = checkpoint_name
        self._steps = step_counter
        self._interval = checkpoint_interval
        self._init = init_fn
        self._last_step: int | None = None
        # what an earlier run left is deleted in its turn
        self._paths = files.numbered(self._directory, checkpoint_name)
        self._last_kept = files.age(self._paths[0]) if self._paths else None

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """The folder."""
        return self._directory

    @property
    def checkpoint_interval(self) -> int | None:
        """Steps between two files, or None."""
        return self._interval

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the files, the last one last; without those kept for ever."""
        return list(self._paths)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the last file, or None."""
        return self._paths[-1] if self._paths else None

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: Any = None,
    ) -> str | None:
        """Write a file, and delete those that are too many.

        Args:
            checkpoint_number: The number of the file; None: that of the checkpoint's
                ``save_counter``.
            check_interval: Whether nothing is written before ``checkpoint_interval``
                steps have passed.
            options: Ignored.

        Returns:
            The path; None where nothing was written.
        """
        step = None if self._steps is None else int(self._steps)
        if (
            self._interval is not None
            and check_interval
            and self._last_step is not None
        ):
            assert step is not None
            if step < self._last_step + self._interval:
                return None
        counter = self._checkpoint.save_counter
        counter.assign_add(1)
        number = int(counter if checkpoint_number is None else checkpoint_number)
        path = os.path.join(self._directory, f"{self._name}-{number}")
        self._checkpoint.write(path, options)
        files.note_last(path)
        self._last_step = step
        self._paths = [one for one in self._paths if one != path] + [path]
        self._sweep()
        return path

    def _sweep(self) -> None:
        while self._most is not None and len(self._paths) > self._most:
            oldest = self._paths.pop(0)
            age = files.age(oldest)
            if self._hours is not None and (
                self._last_kept is None or age - self._last_kept >= self._hours * 3600
            ):
                self._last_kept = age
                continue
            files.delete(oldest)

    def restore_or_initialize(self) -> str | None:
        """Restore the last file; where there is none, call ``init_fn``.

        Returns:
            The path, or None.
        """
        if self.latest_checkpoint is not None:
            self._checkpoint.restore(self.latest_checkpoint)
            if self._steps is not None:
                self._last_step = int(self._steps)
            return self.latest_checkpoint
        if self._init is not None:
            self._init()
        return None
