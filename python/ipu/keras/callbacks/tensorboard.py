# SPDX-License-Identifier: MIT
"""``TensorBoard``: writes what TensorBoard shows while a model is trained."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ipu._text.refusals import refuse_given
from ipu.keras.callbacks.callback import Callback, Logs, looks
from ipu.keras.optimizers.schedules import LearningRateSchedule
from ipu.tf import summary
from ipu.tf._tensor.extras import extra
from ipu.tf.summary import SummaryWriter, _messages

__all__ = ["TensorBoard"]

_VALIDATION = "val_"


class TensorBoard(Callback):
    """Writes losses, metrics, weights and the graph of the model to event files.

    ``tensorboard --logdir logs`` shows them. The folder ``train`` gets ``epoch_loss``
    and the like of training, ``validation`` those of validation under the same tags,
    and ``evaluation_loss_vs_iterations``.

    Args:
        log_dir: The folder.
        histogram_freq: After how many epochs distributions of weights are written; 0:
            never.
        write_graph: Whether the layers, and which gives to which, are written.
        write_images: Whether weights are written as images too, when their
            distributions are.
        write_steps_per_second: Whether ``epoch_steps_per_second`` is written.
        update_freq: ``"epoch"``, or after how many steps ``batch_loss`` and the like
            are written; ``"batch"`` is 1.
        profile_batch: 0: programs are profiled by ``python -m ipu profile``.
        embeddings_freq: 0: embeddings are not written.
        embeddings_metadata, **kwargs: None.

    Raises:
        ImportError: The extra ``tensorboard`` is not installed.
        NotImplementedError: ``embeddings_freq`` is not 0.
        ValueError: An argument has another value.

    Example:
        >>> import os, tempfile
        >>> model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        >>> model.compile("sgd", "mse")
        >>> folder = tempfile.mkdtemp()
        >>> x, y = np.zeros((4, 2)), np.ones((4, 1))
        >>> board = keras.callbacks.TensorBoard(folder)
        >>> _ = model.fit(x, y, validation_data=(x, y), verbose=0, callbacks=[board])
        >>> sorted(os.listdir(folder))
        ['train', 'validation']
    """

    _is_of_first_process = True  # files are written once

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: int | str = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if kwargs:
            raise TypeError(f"Unrecognized arguments: {sorted(kwargs)}")
        if update_freq not in ("epoch", "batch") and not (
            isinstance(update_freq, int) and update_freq > 0
        ):
            raise ValueError(
                "`update_freq` must be 'epoch', 'batch' or a number of steps. "
                f"Received: update_freq={update_freq!r}."
            )
        refuse_given(f"{__name__}.TensorBoard", embeddings_freq=embeddings_freq)
        extra("google_crc32c", "TensorBoard", "tensorboard", "google-crc32c")
        del profile_batch, embeddings_metadata
        self.log_dir = os.fspath(log_dir)
        self.histogram_freq = histogram_freq
        self.write_graph = write_graph
        self.write_images = write_images
        self.write_steps_per_second = write_steps_per_second
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self._writers: dict[str, SummaryWriter] = {}
        self._last_batch = -1

    def set_model(self, model: Any) -> None:
        """Take the model; another one begins new files."""
        if model is not self.model:
            self._close()
            self._has_graph = False
            self._step = 0  # batches of training, over all epochs
        super().set_model(model)

    def _writer(self, part: str) -> SummaryWriter:
        """Return the writer of "train" or "validation"; its file is made when it is
        needed."""
        if part not in self._writers:
            folder = os.path.join(self.log_dir, part)
            self._writers[part] = summary.create_file_writer(folder)
        return self._writers[part]

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _scalars(self, part: str, values: Mapping[str, Any], step: int) -> None:
        if not values:
            return
        with self._writer(part).as_default(), summary.record_if(True):
            for tag, value in values.items():
                summary.scalar(tag, value, step)

    # --- hooks ------------------------------------------------------------------------

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._write_graph_once()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """End the files; a later run of the same model begins new ones."""
        self._close()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._last_batch = -1
        self._epoch_began = time.perf_counter(), self._step

    def _steps_to_write(self) -> int | None:
        if isinstance(self.update_freq, str):
            return None
        return self.update_freq - self._step % self.update_freq

    @looks(_steps_to_write)
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Write the metrics so far, where it is time for it."""
        before = self._step
        self._step += batch - self._last_batch
        self._last_batch = batch
        if isinstance(self.update_freq, str):
            return
        if self._step // self.update_freq > before // self.update_freq:
            values = {f"batch_{name}": value for name, value in (logs or {}).items()}
            self._scalars("train", values, self._step)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        given = logs or {}
        train = {k: v for k, v in given.items() if not k.startswith(_VALIDATION)}
        rate = self._rate()
        if rate is not None:
            train["learning_rate"] = rate
        if self.write_steps_per_second:
            began, step = self._epoch_began
            seconds = max(time.perf_counter() - began, 1e-9)
            train["steps_per_second"] = (self._step - step) / seconds
        self._scalars("train", {f"epoch_{k}": v for k, v in train.items()}, epoch)
        validation = {
            f"epoch_{k.removeprefix(_VALIDATION)}": v
            for k, v in given.items()
            if k.startswith(_VALIDATION)
        }
        self._scalars("validation", validation, epoch)
        self._write_graph_once()
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._write_weights(epoch)

    def on_test_end(self, logs: Logs | None = None) -> None:
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None:
            step = int(optimizer.iterations.numpy())
            values = {
                f"evaluation_{name}_vs_iterations": value
                for name, value in (logs or {}).items()
            }
            self._scalars("validation", values, step)

    # --- what is written --------------------------------------------------------------

    def _rate(self) -> float | None:
        """Return the rate of this step, where a schedule makes it."""
        optimizer: Any = getattr(self.model, "optimizer", None)
        rate = getattr(optimizer, "learning_rate", None)
        if not isinstance(rate, LearningRateSchedule):
            return None
        return float(rate(optimizer.iterations.numpy().astype(np.float32)))

    def _write_weights(self, epoch: int) -> None:
        with self._writer("train").as_default(), summary.record_if(True):
            for layer in self.model.layers:
                for weight in layer.weights:
                    name = weight.name.replace(":", "_")
                    values = weight.numpy()
                    summary.histogram(name, values, epoch)
                    picture = _picture_of(values) if self.write_images else None
                    if picture is not None:
                        summary.image(f"{name}/image", picture, epoch)

    def _write_graph_once(self) -> None:
        if not self.write_graph or self._has_graph or not self.model.built:
            return
        self._has_graph = True
        writer = self._writer("train")
        writer._add_graph(_messages.graph_of(_nodes_of(self.model)))
        try:
            described = self.model.to_json()
        except (NotImplementedError, TypeError):
            return  # a class of the user's own has no description
        about = _messages.metadata_of("graph_keras_model")
        writer._add(_messages.value_of("keras", described.encode(), about), 0)


def _picture_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return a weight as images, laid out as Keras does; None: there is no way to."""
    array = np.squeeze(values)
    if array.ndim == 1:
        array = array.reshape(1, -1, 1, 1)
    elif array.ndim == 2:
        array = array.T if array.shape[0] > array.shape[1] else array
        array = array[np.newaxis, :, :, np.newaxis]
    elif array.ndim == 3:
        array = array.transpose(2, 0, 1)[..., np.newaxis]
    return array if array.ndim == 4 and array.shape[-1] in (1, 3, 4) else None


def _nodes_of(model: Any, scope: str = "") -> Iterator[tuple[str, str, list[str]]]:
    """Yield (name, class, inputs) of each layer; those of a model within are below
    it."""
    graph = getattr(model, "_graph", None)
    sources: dict[str, list[str]] = {}
    for node in graph.nodes if graph is not None else ():
        inputs = sources.setdefault(node.layer.name, [])
        inputs += [f"{scope}{one.name}" for one in node.inbound_layers]
    layers = graph.layers if graph is not None else model.layers
    for layer in layers:
        inputs = list(dict.fromkeys(sources.get(layer.name, [])))
        yield f"{scope}{layer.name}", type(layer).__name__, inputs
        if hasattr(layer, "layers"):
            yield from _nodes_of(layer, f"{scope}{layer.name}/")
