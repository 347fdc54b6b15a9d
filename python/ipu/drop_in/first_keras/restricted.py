# SPDX-License-Identifier: MIT
"""The base of the first generation's models: the calls that they refuse.

They train, evaluate and predict in loops on the device, and do nothing else: they
cannot be called, saved whole or given validation data.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterable, Iterator
from typing import Any

from ipu import tf
from ipu._device import strategy_state
from ipu._device.placement import current_device, on_host
from ipu._text.refusals import refuse_call, rows_of
from ipu.drop_in.first_keras import runs
from ipu.drop_in.first_keras.feeds import feed_of
from ipu.drop_in.first_keras.steps import plan_steps
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.keras import _names
from ipu.keras._types import Nest
from ipu.keras.callbacks.history import History
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.files.weights_file import LoadStatus
from ipu.keras.engine.functional import Functional
from ipu.keras.engine.training.device_steps import AccumulatedSteps, PlainSteps, Steps
from ipu.keras.optimizers import Optimizer

__all__ = ["FirstGeneration", "checked_count"]

# the arguments of calls that the loop over steps takes
_OF_RUNS = ("callbacks", "verbose", "prefetch_depth", "epochs", "initial_epoch")


def checked_count(name: str, value: Any) -> int:
    """Return an argument that counts mini-batches.

    Raises:
        ValueError: It is not a positive integer.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")
    return operator.index(value)


class FirstGeneration(Functional):
    """A model with the restrictions, the counting and the results of SDK 1.

    Attributes:
        _accumulated: Mini-batches of a step.
        _accumulation_dtype: Dtype of the sums of gradients; see :class:`Model`.
        _extra: Keyword arguments of ``fit``, ``evaluate`` and ``predict`` that the
            class takes beside the named ones.
    """

    _accumulated = 1
    _accumulation_dtype: Any = None
    _extra: Iterable[str] = ()
    _is_running = False

    # --- what it is -------------------------------------------------------------------

    @property
    def shard_count(self) -> int:
        """How many IPUs a replica takes."""
        return 1

    @property
    def replication_factor(self) -> int:
        """How many replicas run on the current device.

        Raises:
            ValueError: The current device is not an IPU, or has too few.
        """
        if not strategy_state.has_strategy() or on_host():
            raise ValueError(
                f"{type(self).__name__} can only be used on an IPU device. Make it, "
                "and call it, inside `with strategy.scope():` of an IPUStrategy."
            )
        ipus, needed = current_device().num_ipus, self.shard_count
        if ipus < needed:
            raise ValueError(
                f"Current device has {ipus} IPUs attached, however the current model "
                f"requires a multiple of {needed} IPUs. Select that many in the "
                "configuration, or map several stages to one IPU: device_mapping=..."
            )
        return ipus // needed

    # names of Keras's own that programs look at
    @property
    def _input_layers(self) -> list[Layer]:
        return [symbol._keras_history.layer for symbol in self.inputs]

    @property
    def _output_layers(self) -> list[Layer]:
        return [symbol._keras_history.layer for symbol in self.outputs]

    # --- what it does not do ----------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse calls by users: ``fit``, ``evaluate`` and ``predict`` run the model.

        Raises:
            ValueError: A user calls it.
        """
        self._refuse_call()
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Refuse calls by users, as the model itself does.

        Raises:
            ValueError: A user calls it.
        """
        self._refuse_call()
        return super().call(inputs, *args, **kwargs)

    @property
    def _can_have_stages(self) -> bool:
        return True  # `call` above adds nothing to that of the base class

    def _refuse_call(self) -> None:
        if not self._is_running:
            raise ValueError(
                f"{type(self).__name__} can only be called through the `fit`, "
                "`evaluate` or `predict` interfaces."
            )

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raise: weights alone can be saved.

        Raises:
            NotImplementedError: Always.
        """
        del args, kwargs
        refuse_call(f"{__name__}.FirstGeneration.save")

    def load_weights(
        self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> LoadStatus:
        """Read weights from a file; arguments as for ``Model``.

        Raises:
            NotFoundError: There is no such file.
            ValueError: It is damaged or of another model.
        """
        try:
            return super().load_weights(filepath, *args, **kwargs)
        except FileNotFoundError as error:
            raise tf.errors.NotFoundError(str(error)) from error

    def _refuse_unsupported(
        self, call: str, given: dict[str, Any], allowed: Iterable[str] = ()
    ) -> None:
        rows = rows_of(f"{__name__}.FirstGeneration.{call}")
        bad = sorted({str(row.argument) for row in rows} & set(given))
        if bad:
            raise NotImplementedError(
                "IPU Keras models do not support these parameters to "
                f"{call}(): {', '.join(bad)}"
            )
        for name in given:
            if name not in allowed:
                raise TypeError(
                    f"{type(self).__name__}.{call}() got an unexpected keyword "
                    f"argument {name!r}.{_names.nearest(name, list(allowed))}"
                )

    # --- compiling --------------------------------------------------------------------

    def compile(  # type: ignore[override]
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: list[float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Settle how the model is trained.

        Args:
            optimizer: A name, an optimizer of Keras, or one of ``tf.compat.v1.train``.
            loss: A name, a loss or a function; a list of them by output.
            metrics: A list of names, metrics or functions.
            loss_weights: A list with a factor for each output's loss.
            **kwargs: None that Keras knows is supported.

        Raises:
            NotImplementedError: An argument of Keras that is not supported.
            ValueError: ``optimizer`` is not an optimizer, or ``loss_weights`` not a
                list.
        """
        self._refuse_unsupported("compile", kwargs)
        if not isinstance(optimizer, (str, dict, Optimizer)):
            raise ValueError(
                "Optimizer must be a native Tensorflow optimizer, or a Keras V2 "
                "optimizer of keras.optimizers. Received: "
                f"{optimizer!r} ({type(optimizer).__name__})."
            )
        if loss_weights is not None and not isinstance(loss_weights, list):
            raise ValueError(
                "loss_weights can only be specified as a list. Received: "
                f"{loss_weights!r}."
            )
        super().compile(optimizer, loss, metrics, loss_weights)

    def _names_of(self, outputs: Nest) -> list[str]:
        """Number outputs from 0, except where losses or metrics go by name."""
        given = self._compile_arguments
        by_name = any(isinstance(given[name], dict) for name in ("loss", "metrics"))
        if by_name or len(tf.nest.flatten(outputs)) == 1:
            return super()._names_of(outputs)
        return [f"output_{i}" for i in range(len(tf.nest.flatten(outputs)))]

    # --- running ----------------------------------------------------------------------

    def fit(  # type: ignore[override]
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = 1,
        callbacks: Any = None,
        shuffle: bool = True,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> History:
        """Train on data.

        Args:
            x: A ``tf.data.Dataset`` of batches ``(x, y)``; or arrays or tensors (a list
                of them for several inputs).
            y: Targets beside arrays.
            batch_size: Samples in a batch of arrays; a rest that fills none is left
                out.
            epochs: The number of the last epoch.
            verbose: 0 for silence.
            callbacks: A list of callbacks. Batch hooks are called once for each call
                of the device.
            shuffle: Without effect: arrays are used in their order.
            initial_epoch: The number of the first epoch, from 0.
            steps_per_epoch: Weight updates of an epoch, for all replicas together; None
                for all data.
            steps_per_run: Weight updates of one call of the device; None for an epoch.
            prefetch_depth: How many batches are made ahead.
            **kwargs: Of pipelines, what ``pipelining_ops.pipeline`` takes.

        Returns:
            The history: for each epoch the mean of the mini-batches' losses, and the
            last values of the metrics.

        Raises:
            NotImplementedError: An argument of Keras that is not supported.
            RuntimeError: The model is not compiled.
            ValueError: Data that do not fit, numbers of steps that do not go together,
                or a model without weights to train.
        """
        given = locals()
        self._refuse_unsupported("fit", kwargs, self._extra)
        self._assert_compiled()
        self.stop_training = False
        with self._running(), self._trainable_as_compiled():
            history, _ = self._run("fit", given, steps_per_epoch)
        self.history = history
        return history

    def evaluate(  # type: ignore[override]
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = None,
        verbose: Any = 1,
        steps: int | None = None,
        callbacks: Any = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> list[float]:
        """Find loss and metrics on data; arguments as for ``fit``.

        Returns:
            The loss and the metrics, also where the loss is alone.

        Raises:
            NotImplementedError: An argument of Keras that is not supported.
            RuntimeError: The model is not compiled.
            ValueError: Data that do not fit, or numbers of steps that do not go
                together.
        """
        given = locals()
        self._refuse_unsupported("evaluate", kwargs, self._extra)
        self._assert_compiled()
        with self._running():
            _, results = self._run("evaluate", given, steps)
        return list(results.values())

    def predict(  # type: ignore[override]
        self,
        x: Any,
        *,
        batch_size: int | None = None,
        verbose: Any = 0,
        steps: int | None = None,
        callbacks: Any = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute outputs; arguments as for ``fit``, data without targets.

        Returns:
            For functional models an array, or a tuple with one for each of several
            outputs, without a last axis of size 1; for sequential ones a tuple of one
            array.

        Raises:
            NotImplementedError: An argument of Keras that is not supported.
            ValueError: Data that do not fit, or numbers of steps that do not go
                together.
        """
        given = locals()
        self._refuse_unsupported("predict", kwargs, self._extra)
        with self._running():
            _, outputs = self._run("predict", given, steps)
        arrays = [
            leaf.reshape(-1, *leaf.shape[2:]) for leaf in tf.nest.flatten(outputs)
        ]
        return self._returned(arrays)

    def _returned(self, arrays: list[Any]) -> Any:
        """Return what ``predict`` returns, of the rows of each output."""
        flat = [a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a for a in arrays]
        return flat[0] if len(flat) == 1 else tuple(flat)

    def _run(
        self, call: str, given: dict[str, Any], steps: int | None
    ) -> tuple[History, Nest]:
        """Do what a call of that name does, with the arguments that it was given."""
        owner = type(self).__name__
        mode = {"fit": "train", "evaluate": "test", "predict": "predict"}[call]
        x, y, batch_size = given["x"], given.get("y"), given["batch_size"]
        feed = feed_of(owner, call, x, y, batch_size, steps)
        plan = plan_steps(
            owner,
            feed,
            steps,
            "steps_per_epoch" if call == "fit" else "steps",
            self._accumulated,
            self.replication_factor,
            given["steps_per_run"],
        )
        self._prepare(mode, feed.dataset.element_spec)
        if mode == "train" and not self.trainable_variables:
            kind = "Sequential" if hasattr(self, "_stack") else "Model"
            raise ValueError(f"{kind} must have at least one trainable parameter.")
        options = {name: given[name] for name in _OF_RUNS if name in given}
        of_call = self._steps(mode, given["kwargs"])
        return runs.run(self, mode, feed, plan, of_call, **options)

    def _check_device(self) -> None:
        """Take the variables along where the devices were configured anew.

        The originals kept variables on the host between runs, so programs make a model
        first and configure then.
        """
        device = current_device()
        for variable in self._made_variables():
            if variable._device is not device.core:
                variable._move_to(device)

    def _steps(self, mode: str, extra: dict[str, Any]) -> Steps:
        """Return what a call of the device does with mini-batches."""
        del extra
        step = self._device_step(mode)
        if mode != "train" or self._accumulated == 1:
            return PlainSteps(step)
        dtype = self._accumulation_dtype
        return AccumulatedSteps(self, step, self._accumulated, Method.SUM, dtype)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        with self._scope():
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False
