# SPDX-License-Identifier: MIT
"""Models as folders that run without their Python code: ``ipu.serving``.

A folder has the program's text (``program.txt``), the values of its variables
(``weights.safetensors``) and what goes in and out (``signature.json``). :func:`load`
makes a function of it; no file of TensorFlow's is written, nor is there a server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu._device.devices import Device
from ipu._device.placement import current_device
from ipu._text.errors import NotFoundError
from ipu._text.exports import export
from ipu.tf import nest
from ipu.tf._functions import folders
from ipu.tf._functions.tracing import Build, _trace
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.data import Dataset
from ipu.tf.dtypes import DEVICE_DTYPES, as_dtype
from ipu.tf.tensor_spec import TensorSpec

__all__ = [
    "Runner",
    "export_keras",
    "export_pipeline",
    "export_single_step",
    "load",
]


class Runner:
    """A program that was exported, with its variables on the device.

    Args:
        folder: The folder.

    Attributes:
        inputs: The ``TensorSpec`` of each input.
        outputs: That of each output.
        signature: What the folder says beside: the iterations of a run, and for a
            pipeline its devices and its schedule.

    Raises:
        NotFoundError: A file is missing.
        ValueError: It was written by another version.

    Example:
        :func:`export_single_step` has one.

        >>> Runner("missing")
        Traceback (most recent call last):
        ...
        ipu._text.errors.NotFoundError: There is no file 'missing/signature.json'.
    """

    def __init__(self, folder: Any) -> None:
        folder = os.fspath(folder)
        self.signature: dict[str, Any] = json.loads(_read(folder, folders.SIGNATURE))
        if self.signature.get("format") != folders.FORMAT:
            raise ValueError(
                f"{folder!r} has the format {self.signature.get('format')!r}, and this "
                f"version reads {folders.FORMAT}. Export the model again."
            )
        text = _read(folder, folders.PROGRAM).decode()
        # how many rows the program takes, where a call may have any number of them
        self._rows: int | None = self.signature.get("rows")
        is_open = self._rows is not None
        self.inputs = [_spec(one, is_open) for one in self.signature["inputs"]]
        self.outputs = [_spec(one, is_open) for one in self.signature["outputs"]]
        self._device: Device = current_device()
        self._program = _core.graph_compile(
            self._placed(text, _weights(folder)), device=self._device.core
        )
        self._program.name = os.path.basename(os.path.abspath(folder))

    def _placed(self, text: str, weights: Mapping[str, Any]) -> str:
        """Return the text, with the ids of variables that were made for it."""
        core = self._device.core

        def place(match: re.Match[str]) -> str:
            sizes = tuple(int(n) for n in match[6].split(",") if n)
            kind = (match[5], sizes)
            number = core.variable_add(*kind)
            core.variable_write(number, kind, Tensor(weights[match[2]]))
            whole = str(match[0])
            return whole.replace(match[1] + match[2], f"{match[1]}{number}", 1)

        return folders.VARIABLE.sub(place, text)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program once.

        Args:
            *args: A tensor for each input.
            **kwargs: Or some of them by name.

        Returns:
            A tensor, or a list or a dict of them, as the exported function gave.

        Raises:
            TypeError: There are other inputs.
            ValueError: One has another shape.
        """
        names = [str(spec.name) for spec in self.inputs]
        if len(args) == 1 and len(names) > 1 and not kwargs:
            if isinstance(args[0], Mapping):
                kwargs, args = dict(args[0]), ()
            elif isinstance(args[0], (list, tuple)):
                args = tuple(args[0])
        given = dict(zip(names, args, strict=False), **kwargs)
        if len(args) > len(names) or set(given) != set(names):
            raise TypeError(
                f"The program takes {', '.join(names)}. Received: {len(args)} tensors"
                f"{' and ' + ', '.join(kwargs) if kwargs else ''}."
            )
        values = [self._value(spec, given[str(spec.name)]) for spec in self.inputs]
        with self._device.running():
            found = self._in_pieces(values) if self._rows else self._program.run(values)
        kind = self.signature["returns"]
        if kind == "dict":
            return {
                str(spec.name): one
                for spec, one in zip(self.outputs, found, strict=True)
            }
        return found[0] if kind == "tensor" else list(found)

    def serve(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program once: the endpoint of what ``Model.export`` wrote.

        Args:
            *args: As of a call.
            **kwargs: Likewise.
        """
        return self(*args, **kwargs)

    def _value(self, spec: TensorSpec, given: Any) -> Tensor:
        value = convert_to_tensor(given, spec.dtype)
        wanted, shape = tuple(spec.shape), tuple(value.shape)
        is_open = self._rows is not None and len(shape) > 0 and shape[0] > 0
        if shape != wanted and not (is_open and shape[1:] == wanted[1:]):
            raise ValueError(
                f"{spec.name!r} must have the shape {wanted}. Received: {shape}."
            )
        return value

    def _in_pieces(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Run the program for as many rows as it takes at a time."""
        arrays = [np.asarray(value) for value in values]
        counts = sorted({len(array) for array in arrays})
        if len(counts) > 1:
            raise ValueError(
                "All inputs must have as many rows. Received: "
                f"{', '.join(map(str, counts))}."
            )
        parts = []
        step = self._rows or 1
        for row in range(0, counts[0], step):
            pieces = [array[row : row + step] for array in arrays]
            lack = step - len(pieces[0])
            if lack:  # the last row again: any value that is made up may be illegal
                pieces = [np.concatenate([p, *[p[-1:]] * lack]) for p in pieces]
            parts.append(self._program.run([convert_to_tensor(p) for p in pieces]))
        return [
            convert_to_tensor(np.concatenate(list(map(np.asarray, part)))[: counts[0]])
            for part in zip(*parts, strict=True)
        ]


def _spec(found: Mapping[str, Any], is_open: bool = False) -> TensorSpec:
    shape = [None, *found["shape"][1:]] if is_open else found["shape"]
    return TensorSpec(shape, found["dtype"], found["name"])


def _read(folder: str, name: str) -> bytes:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path!r}.") from None


def _weights(folder: str) -> dict[str, Any]:
    from safetensors.numpy import load as load_arrays

    found: dict[str, Any] = load_arrays(_read(folder, folders.WEIGHTS))
    return found


def load(export_dir: Any) -> Runner:
    """Load a folder that was exported.

    Args:
        export_dir: The folder.

    Returns:
        A function of the inputs.

    Raises:
        NotFoundError: A file is missing.

    Example:
        >>> load("missing")
        Traceback (most recent call last):
        ...
        ipu._text.errors.NotFoundError: There is no file 'missing/signature.json'.
    """
    return Runner(export_dir)


def _prepare_folder(export_dir: Any, purge: bool) -> str:
    folder: str = os.fspath(export_dir)
    if os.path.isdir(folder) and os.listdir(folder):
        if not purge:
            raise ValueError(
                f"Directory {folder!r} is not empty. Choose another one for "
                "`export_dir`, or set purge_export_dir=True."
            )
        shutil.rmtree(folder)
    os.makedirs(folder, exist_ok=True)
    return folder


def _checked_signature(step: str, signature: Any) -> list[TensorSpec]:
    if not isinstance(signature, (list, tuple)):
        raise TypeError(
            f"`{step}_signature` must be a list or a tuple of tf.TensorSpec objects. "
            f"Received: {signature!r}."
        )
    if not signature:
        raise ValueError(f"`{step}_signature` is empty: say at least one input.")
    for spec in signature:
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"`{step}_signature` must be of tf.TensorSpec objects. Received: "
                f"{spec!r}."
            )
    return list(signature)


def _inputs_of(
    step: str, signature: Any, dataset: Any, given: Sequence[Any] = ()
) -> list[TensorSpec]:
    """Return what a step takes, by its signature or by the data set that it would
    read."""
    if signature is not None and dataset is not None:
        raise ValueError(
            f"Both `input_dataset` and `{step}_signature` were provided. Give one."
        )
    if signature is None and dataset is None:
        raise ValueError(
            f"The inputs of {step} are not known. Give `{step}_signature` or "
            "`input_dataset`."
        )
    if dataset is not None:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"`input_dataset` must be a tf.data.Dataset. Received: {dataset!r}."
            )
        specs = nest.flatten(dataset.element_spec)
    else:
        specs = _checked_signature(step, signature)
    specs = specs[len(given) :]
    named: list[TensorSpec] = []
    for number, spec in enumerate(specs):
        if spec.shape is None or None in spec.shape:
            raise ValueError(
                f"`{step}_signature` must have shapes that are fully known. Received: "
                f"{spec}. If the last batch of a data set is smaller, use "
                "drop_remainder=True."
            )
        name = spec.name or f"input_{number}"
        name = f"{name}_{number}" if name in (s.name for s in named) else name
        named.append(TensorSpec(spec.shape, spec.dtype, name))
    return named


def _export(
    function: Callable[..., Any],
    specs: Sequence[TensorSpec],
    export_dir: Any,
    purge: bool,
    output_names: Any,
    notes: Mapping[str, Any],
) -> Runner:
    from ipu.tf.autograph import tf_convert

    device = current_device()
    build = Build("the exported step", runs=False, device=device)
    trace, structure, results, outputs = _trace(
        tf_convert(function), tuple(specs), False, build
    )
    if not outputs or any(result.output < 0 for result in results):
        raise ValueError("An exported step must return tensors, and nothing else.")
    text = folders.clean_text(trace)
    if use := folders.what_stays(text):
        raise ValueError(f"A step that uses {use}, cannot be exported.")
    is_dict = isinstance(structure, Mapping)
    names = [f"output_{number}" for number in range(len(outputs))]
    names = sorted(structure) if is_dict else names
    if output_names is not None:
        names = [output_names] if isinstance(output_names, str) else list(output_names)
        if len(names) != len(outputs):
            raise ValueError(
                f"`output_names` must have a name for each of {len(outputs)} outputs. "
                f"Received: {output_names!r}."
            )
    folder = _prepare_folder(export_dir, purge)
    folders.write(folder, text, device, specs, outputs, names, structure, notes)
    return Runner(folder)


def _joined(steps: Sequence[Callable[..., Any] | None]) -> Callable[..., Any]:
    """Return the steps one after the other; what one gives is what the next one
    takes."""

    def joined(*args: Any) -> Any:
        values: Any = args
        for step in steps:
            if step is None:
                continue
            if isinstance(values, Mapping):
                values = step(**values)
            else:
                parts = values if isinstance(values, (list, tuple)) else (values,)
                values = step(*parts)
        return values

    return joined


def _check_iterations(iterations: Any) -> int:
    if isinstance(iterations, bool) or not isinstance(iterations, int):
        raise TypeError(f"`iterations` must be an integer. Received: {iterations!r}.")
    if iterations < 1:
        raise ValueError(f"`iterations` must be at least 1. Received: {iterations}.")
    return iterations


def _check_postprocessing(step: Any, signature: Any) -> None:
    if signature is not None:
        if step is None:
            raise ValueError(
                "`postprocessing_step_signature` was given without "
                "`postprocessing_step`."
            )
        _checked_signature("postprocessing_step", signature)


def export_single_step(
    predict_step: Callable[..., Any],
    export_dir: Any,
    iterations: int,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Runner:
    """Write a function with the values of its variables to a folder.

    Args:
        predict_step: The function of a batch.
        export_dir: The folder; it is made where there is none.
        iterations: How many batches a run of the hardware would take; kept in the
            signature.
        predict_step_signature: A list of ``tf.TensorSpec``, one for each argument; or
        input_dataset: a data set whose elements are the arguments.
        output_names: A name for each output; None: ``output_0``, ... or the keys of the
            dict that the function returns.
        preprocessing_step: A function whose results the step takes.
        preprocessing_step_signature: The arguments of that, in place of the step's.
        postprocessing_step: A function of the step's results.
        postprocessing_step_signature: The arguments of that; checked alone.
        purge_export_dir: Whether files that are in the folder are deleted.

    Returns:
        The function that :func:`load` makes of the folder.

    Raises:
        ValueError: The folder is not empty; the inputs are not known, or said twice, or
            a signature is empty; the step does more than to compute tensors.
        TypeError: A signature is of something else than ``tf.TensorSpec``.

    Source: ``ipu.serving.export_single_step`` of SDK 3.0 to 3.4.

    Example:
        >>> import tempfile
        >>> w = tf.Variable([[1.0], [2.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = export_single_step(
        ...         lambda x: tf.matmul(x, w),
        ...         folder,
        ...         iterations=1,
        ...         predict_step_signature=[tf.TensorSpec([1, 2], tf.float32, "x")],
        ...     )
        ...     predict = load(folder)
        >>> predict(x=[[3.0, 4.0]]).numpy().tolist()
        [[11.0]]
    """
    count = _check_iterations(iterations)
    _check_postprocessing(postprocessing_step, postprocessing_step_signature)
    if preprocessing_step_signature is not None:
        if preprocessing_step is None:
            raise ValueError(
                "`preprocessing_step_signature` was given without `preprocessing_step`."
            )
        specs = _inputs_of(
            "preprocessing_step", preprocessing_step_signature, input_dataset
        )
    else:
        specs = _inputs_of("predict_step", predict_step_signature, input_dataset)
    steps = [preprocessing_step, predict_step, postprocessing_step]
    return _export(
        _joined(steps),
        specs,
        export_dir,
        purge_export_dir,
        output_names,
        {"iterations": count},
    )


def export_pipeline(
    computational_stages: Sequence[Callable[..., Any]],
    export_dir: Any,
    iterations: int,
    inputs: Any = None,
    device_mapping: Any = None,
    pipeline_schedule: Any = None,
    poplar_options: Any = None,
    name: str | None = None,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Runner:
    """Write the stages of a pipeline with the values of their variables to a folder.

    A batch goes through all stages, whose numbers are the same on one IPU.

    Args:
        computational_stages: The functions; each takes what the one before gives.
        export_dir: The folder; it is made where there is none.
        iterations: How many batches a run of the hardware would take; kept in the
            signature.
        inputs: The first arguments of the first stage, whose values are kept.
        device_mapping: The IPU of each stage; kept in the signature.
        pipeline_schedule: The schedule; its name is kept in the signature.
        poplar_options: Accepted and not used.
        name: Kept in the signature.
        predict_step_signature: A ``tf.TensorSpec`` for each argument of the first stage
            but ``inputs``; or
        input_dataset: a data set whose elements are those arguments.
        output_names: A name for each output.
        preprocessing_step: A function whose results the first stage takes.
        preprocessing_step_signature: The arguments of that.
        postprocessing_step: A function of the last stage's results.
        postprocessing_step_signature: The arguments of that; checked alone.
        purge_export_dir: Whether files that are in the folder are deleted.

    Returns:
        The function that :func:`load` makes of the folder.

    Raises:
        ValueError: As for :func:`export_single_step`; there are no stages, or as many
            devices as stages are not given.
        TypeError: A signature is of something else than ``tf.TensorSpec``.

    Source: ``ipu.serving.export_pipeline`` of SDK 3.0 to 3.4.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     predict = export_pipeline(
        ...         [lambda x: x + 1.0, lambda x: x * 2.0],
        ...         folder,
        ...         iterations=4,
        ...         device_mapping=[0, 1],
        ...         predict_step_signature=[tf.TensorSpec([2], tf.float32)],
        ...     )
        >>> predict([1.0, 2.0]).numpy().tolist()
        [4.0, 6.0]
    """
    del poplar_options
    stages = list(computational_stages)
    if not stages:
        raise ValueError("`computational_stages` must have at least one stage.")
    if device_mapping is not None and len(device_mapping) != len(stages):
        raise ValueError(
            "`device_mapping` must have an IPU for each stage. Received: "
            f"{len(device_mapping)} for {len(stages)} stages."
        )
    count = _check_iterations(iterations)
    _check_postprocessing(postprocessing_step, postprocessing_step_signature)
    kept = [convert_to_tensor(x) for x in inputs or ()]
    is_before = preprocessing_step_signature is not None
    specs = _inputs_of(
        "preprocessing_step" if is_before else "predict_step",
        preprocessing_step_signature if is_before else predict_step_signature,
        input_dataset,
    )

    def first(*args: Any) -> Any:
        return stages[0](*kept, *args)

    steps = [preprocessing_step, first, *stages[1:], postprocessing_step]
    notes = {
        "iterations": count,
        "name": name,
        "device_mapping": None if device_mapping is None else list(device_mapping),
        "pipeline_schedule": getattr(pipeline_schedule, "name", pipeline_schedule),
    }
    return _export(
        _joined(steps), specs, export_dir, purge_export_dir, output_names, notes
    )


def export_keras(
    model: Any,
    export_dir: Any,
    batch_size: int | None = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Runner:
    """Write a Keras model to a folder.

    Args:
        model: The model, built in the scope of a strategy.
        export_dir: The folder; it is made where there is none.
        batch_size: The size of a batch, where the model's inputs leave it open.
        output_names: A name for each output; None: those of the model.
        preprocessing_step: A function whose results the model takes.
        preprocessing_step_signature: The arguments of that.
        postprocessing_step: A function of the model's outputs.
        postprocessing_step_signature: The arguments of that; checked alone.
        purge_export_dir: Whether files that are in the folder are deleted.

    Returns:
        The function that :func:`load` makes of the folder.

    Raises:
        ValueError: The model was made outside of a strategy, has no inputs yet or no
            size of a batch; as of :func:`export_single_step`.

    Source: ``ipu.serving.export_keras`` of SDK 3.0 to 3.4.

    Example:
        >>> import tempfile
        >>> with ipu.ipu_strategy.IPUStrategy().scope():
        ...     model = keras.Sequential(
        ...         [keras.layers.Dense(1, input_shape=(3,), kernel_initializer="ones")]
        ...     )
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         predict = export_keras(model, folder, batch_size=2)
        >>> predict([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]).numpy().tolist()
        [[6.0], [1.0]]
    """
    if getattr(model, "_strategy", None) is None:
        raise ValueError(
            "export_keras takes a model that was made in the scope of an IPUStrategy."
        )
    if preprocessing_step_signature is None:
        found = nest.flatten(getattr(model, "inputs", None))
        if not found or any(x is None for x in found):
            raise ValueError(
                "The model's inputs are not known: begin it with a keras.Input."
            )
        signature = []
        for x in found:
            shape = tuple(x.shape)
            first = batch_size if batch_size is not None else shape[0]
            if first is None:
                raise ValueError(
                    "The model's inputs leave the size of a batch open. Say "
                    "`batch_size`."
                )
            signature.append(TensorSpec((first, *shape[1:]), x.dtype))
    else:
        signature = preprocessing_step_signature

    def predict(*args: Any) -> Any:
        return model(args[0] if len(args) == 1 else list(args), training=False)

    return export_single_step(
        predict,
        export_dir,
        iterations=1,
        predict_step_signature=(
            signature if preprocessing_step_signature is None else None
        ),
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )


_ROWS = 32


def _export_model(model: Any, filepath: Any, input_signature: Any) -> Runner:
    """Write what ``Model.export`` is to write.

    A batch whose size is open is cut into programs of some rows.
    """
    given = input_signature
    if given is None:
        given = getattr(model, "inputs", None) or getattr(model, "_called_on", None)
    found = nest.flatten(given)
    if not found or any(x is None for x in found):
        raise ValueError(
            "The model's inputs are not known. Call it on data first, or give "
            "`input_signature`, such as [keras.InputSpec(shape=(None, 8))]."
        )
    is_open = all(x.shape[0] is None for x in found)
    specs: list[TensorSpec] = []
    for number, x in enumerate(found):
        shape = ((_ROWS if is_open else x.shape[0]), *x.shape[1:])
        dtype = as_dtype(x.dtype or "float32")
        if None in shape:
            raise ValueError(
                "A program has fixed sizes, except the size of the batch. Received: "
                f"an input of shape {tuple(x.shape)}. Say them with `input_signature`, "
                "such as [keras.InputSpec(shape=(None, 80))]."
            )
        if dtype.name not in DEVICE_DTYPES:
            if not (dtype.is_floating or dtype.is_integer):
                raise ValueError(
                    f"A program takes numbers. Received: an input of {dtype.name}. "
                    "Export the model of what comes after that input, and prepare its "
                    "data on the host."
                )
            dtype = as_dtype("float32" if dtype.is_floating else "int32")
        name = getattr(x, "name", None) or f"input_{number}"
        specs.append(TensorSpec(shape, dtype, name))
    structure = list(found) if isinstance(given, (list, tuple)) else given

    def predict(*args: Any) -> Any:
        packed = nest.pack_sequence_as(structure, args)
        is_one = isinstance(structure, list) and len(args) == 1
        return model(packed[0] if is_one else packed, training=False)

    folder = os.fspath(filepath)
    is_own = os.path.exists(os.path.join(folder, folders.SIGNATURE))
    if not is_own and os.path.isdir(folder) and os.listdir(folder):
        raise ValueError(
            f"Directory {folder!r} has files that were not exported. Choose another "
            "one for `filepath`."
        )
    notes = {"rows": _ROWS} if is_open else {}
    runner = _export(predict, specs, folder, is_own, None, notes)
    if is_open and not _has_free_rows(runner, specs):
        shutil.rmtree(folder)
        raise ValueError(
            "The model's result for a sample depends on the others of the batch, so "
            "it cannot be exported for batches of any size. Give "
            "`input_signature` with the size of a batch, such as "
            "[keras.InputSpec(shape=(16, 8))]."
        )
    return runner


def _has_free_rows(runner: Runner, specs: Sequence[TensorSpec]) -> bool:
    """Return whether each row of the results depends on its row of the inputs alone."""
    random = np.random.default_rng(0)
    batches: list[list[Any]] = [[], []]
    for spec in specs:
        shape, dtype = tuple(spec.shape), spec.dtype.as_numpy_dtype
        first = random.integers(0, 2, shape) + 0.0
        if spec.dtype.is_floating:
            first = random.normal(size=shape)
        other = first[random.permutation(shape[0])]
        other[0] = first[0]
        batches[0].append(first.astype(dtype))
        batches[1].append(other.astype(dtype))
    if any(found["shape"][:1] != [_ROWS] for found in runner.signature["outputs"]):
        return False
    one, two = (nest.flatten(runner(*batch)) for batch in batches)
    return all(
        np.array_equal(np.asarray(a)[0], np.asarray(b)[0], equal_nan=True)
        for a, b in zip(one, two, strict=True)
    )


export(__name__)
