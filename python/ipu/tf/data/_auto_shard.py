# SPDX-License-Identifier: MIT
"""The share of a process of a data set that all processes have: ``AutoShardPolicy``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ipu._device import processes
from ipu.tf import nest
from ipu.tf.data._dataset import Dataset
from ipu.tf.data._made_by import RECORD
from ipu.tf.data._options import AutoShardPolicy, Options
from ipu.tf.dtypes import string
from ipu.tf.tensor_spec import TensorSpec

SHARD_HINT = -1  # both numbers of `shard`, where AutoShardPolicy.HINT puts others
_FILES = {"filenames", "file_pattern"}  # arguments that name files


def auto_shard(dataset: Any, replicas: int) -> Any:
    """Return what the replicas of this process take of a data set.

    Args:
        dataset: A data set of batches; one that is sharded already stays as it is.
        replicas: How many there are in all processes.
    """
    part = own_part(dataset)
    shared = processes.shared()
    if part is not None or shared is None:
        return dataset if part is None else part
    own = dataset._impl.shard(shared.count, shared.index, replicas // shared.count)
    return dataset._then(own)


def own_part(dataset: Any) -> Any:
    """Return the part of a data set that its policy, or the program, has given to this
    process; None where replicas deal out its batches."""
    shared = processes.shared()
    if shared is None:
        return None
    if dataset._is_sharded(shared.count):
        return dataset
    policy = _policy(dataset)
    if policy in (AutoShardPolicy.AUTO, AutoShardPolicy.DATA):
        return None
    if policy is AutoShardPolicy.OFF:
        return dataset
    cut = _hinted if policy is AutoShardPolicy.HINT else _of_files
    return cut(dataset, shared.count, shared.index)


def _policy(dataset: Any) -> AutoShardPolicy:
    options = dataset.options()
    for group in (options.distribute, options.experimental_distribute):
        if group.auto_shard_policy is not None:
            return AutoShardPolicy(group.auto_shard_policy)
    return AutoShardPolicy.AUTO


def _recorded(dataset: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the call that has made a data set; None in its place for a source."""
    made_by = vars(dataset).get(RECORD)
    if made_by is None or isinstance(made_by[0], str):
        return None, (), {}
    function, args, kwargs = made_by
    return function, args, kwargs


def inputs_of(dataset: Any) -> list[Any]:
    """Return the data sets that a data set is made of."""
    _, args, kwargs = _recorded(dataset)
    return [one for one in nest.flatten((args, kwargs)) if isinstance(one, Dataset)]


def options_of(dataset: Any) -> Options:
    """Return the options of a data set, and of those that it is made of."""
    found = Options()
    for one in inputs_of(dataset):
        found = found.merge(options_of(one))
    return found.merge(vars(dataset).get("_attached_options", Options()))


def _made_of(dataset: Any, change: Callable[[Any], Any]) -> Any:
    """Make a data set once more, of what a function makes of its inputs."""
    function, args, kwargs = _recorded(dataset)
    args, kwargs = nest.map_structure(
        lambda one: change(one) if isinstance(one, Dataset) else one, (args, kwargs)
    )
    return function(*args, **kwargs)


def _hinted(dataset: Any, count: int, index: int) -> Any:
    """Put numbers where a program has written SHARD_HINT."""
    function, args, kwargs = _recorded(dataset)
    if getattr(function, "__name__", "") == "shard":
        source, *numbers = (*args, *kwargs.values())
        if numbers[:2] == [SHARD_HINT, SHARD_HINT]:
            return source.shard(count, index)
    if not inputs_of(dataset):
        raise ValueError(
            "AutoShardPolicy.HINT needs a data set with shard(SHARD_HINT, SHARD_HINT), "
            "and there is none in this one. Write it where the data set is to be cut, "
            "or leave out the policy."
        )
    return _made_of(dataset, lambda one: _hinted(one, count, index))


def _of_files(dataset: Any, count: int, index: int) -> Any:
    """Make a data set of each count-th file, from the index-th on."""
    function, args, kwargs = _recorded(dataset)
    if function is not None:
        if inputs_of(dataset):
            return _made_of(dataset, lambda one: _of_files(one, count, index))
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        for argument in given.keys() & _FILES:
            names = _names(given[argument])
            _check_enough(len(names), count)
            return function(**{**given, argument: names[index::count]})
    if dataset.element_spec == TensorSpec((), string):  # names of files
        _check_enough(int(dataset.cardinality()), count)
        return dataset.shard(count, index)
    raise ValueError(
        "AutoShardPolicy.FILE cuts data sets of files up, and this one is not made of "
        "files: make it by list_files, TFRecordDataset, TextLineDataset or their kin. "
        "Or leave out the policy: the processes' replicas deal out its batches."
    )


def _names(given: Any) -> list[str]:
    """Return the names that the argument of a data set of files gives."""
    from ipu.tf.io._files import matching_files

    values = [given] if isinstance(given, (str, bytes)) else np.ravel(given).tolist()
    names = [one.decode() if isinstance(one, bytes) else str(one) for one in values]
    if any(set(name) & set("*?[") for name in names):
        return [bytes(name).decode() for name in matching_files(names)]
    return names


def _check_enough(files: int, count: int) -> None:
    if 0 <= files < count:
        raise ValueError(
            "AutoShardPolicy.FILE needs a file for each process. Received: "
            f"{files} files for {count} processes. Write more files, start fewer "
            "processes, or leave out the policy."
        )
