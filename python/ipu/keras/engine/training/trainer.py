# SPDX-License-Identifier: MIT
"""Compiling, training, evaluating and predicting: the part of ``Model`` that runs."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from ipu import _core
from ipu._device import strategy_state
from ipu._device.placement import current_device, held_device
from ipu._text.tracebacks import boundaries
from ipu.keras import _names, optimizers
from ipu.keras import metrics as metrics_module
from ipu.keras._random_state import Order
from ipu.keras.callbacks.backup import finished_epochs
from ipu.keras.callbacks.history import History
from ipu.keras.engine.pipelines.ipu_options import IPUOptions
from ipu.keras.engine.training import fit_loops
from ipu.keras.engine.training.compile_utils import LossesContainer, MetricsContainer
from ipu.keras.engine.training.data_adapter import (
    Workers,
    as_batches,
    is_batched,
    split_validation,
    unpack,
)
from ipu.keras.engine.training.pace import checked_execution, whole_number
from ipu.keras.engine.training.preparation import Preparation
from ipu.keras.engine.training.step_functions import StepFunctions
from ipu.keras.layers.base_layer import Layer
from ipu.keras.optimizers._wrapping import ScalingOptimizer


@boundaries("compile", "fit", "evaluate", "predict")
class Trainer(Preparation, StepFunctions, IPUOptions, Layer):
    """A layer with an optimizer, losses and metrics, that runs on the device."""

    def _init_trainer(self) -> None:
        self._strategy = strategy_state.get_strategy()
        self._is_compiled = False
        # whether a layer is trained is settled by `compile`
        self._compiled_trainable: weakref.WeakKeyDictionary[Layer, bool] = (
            weakref.WeakKeyDictionary()
        )
        self._steps_per_execution = 1
        self.run_eagerly = False
        self._is_paced = True  # whether nobody said how many steps an execution has
        self.optimizer: Any = None
        self.loss: Any = None
        self.compiled_loss: Any = None
        self.compiled_metrics: Any = None
        self.stop_training = False
        self.history: History | None = None
        self._data_order = Order()
        self._init_steps()
        self._init_ipu_options()

    # --- configuration ---------------------------------------------------------------

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool | None = None,
        steps_per_execution: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        """Settle how the model is trained.

        A layer's ``trainable`` that is set later counts with the next ``compile``.

        Args:
            optimizer: A name or an optimizer.
            loss: A name, a loss or a function; a list or dict of them by output.
            metrics: A list of names, metrics or functions; also by output.
            loss_weights: A factor for each output's loss.
            weighted_metrics: Metrics that take sample weights.
            run_eagerly: Whether steps run op by op, for debugging. Not in the scope of
                a strategy, where they are device programs.
            steps_per_execution: Steps of one device program. In the scope of a strategy
                it is 1 by default, and must divide the steps of an epoch. Outside it is
                ``"auto"`` by default: as many as fit between two looks of callbacks at
                batches, or into a tenth of a second.
            **kwargs: ``jit_compile`` and ``sample_weight_mode``, which are ignored.

        Raises:
            ValueError: An unknown name; the nearest is offered. Or a number of steps
                that is none.
            RuntimeError: ``run_eagerly`` is True in the scope of a strategy.
            TypeError: An unknown keyword.
        """
        for ignored in ("jit_compile", "sample_weight_mode"):
            kwargs.pop(ignored, None)
        if kwargs:
            known = inspect.signature(Trainer.compile).parameters
            near = _names.nearest(next(iter(kwargs)), set(known) - {"self", "kwargs"})
            raise TypeError(
                f"Invalid keyword argument(s) in `compile`: {sorted(kwargs)}.{near}"
            )
        if run_eagerly and self._strategy is not None:
            raise RuntimeError(
                "Keras models cannot run eagerly when using `IPUStrategy`. Set "
                "`run_eagerly=False` when calling `compile`."
            )
        k = checked_execution(steps_per_execution, self._strategy is not None)
        with self._scope():
            chosen = self._scaling(optimizers.get(optimizer))
            compiled_loss = LossesContainer(loss, loss_weights, self._names_of)
            compiled_metrics = MetricsContainer(
                metrics, weighted_metrics, self._names_of
            )
        self.optimizer = chosen
        self.loss = loss
        self.compiled_loss = compiled_loss
        self.compiled_metrics = compiled_metrics
        self._steps_per_execution = self._default_execution() if k is None else k
        self._is_paced = k is None
        self.run_eagerly = bool(run_eagerly)
        self._compile_arguments = {  # for a model's file
            "loss": loss,
            "metrics": metrics,
            "loss_weights": loss_weights,
            "weighted_metrics": weighted_metrics,
            "steps_per_execution": k,
        }
        self._is_compiled = True
        self._compiled_trainable = weakref.WeakKeyDictionary(
            (layer, layer._trainable) for layer in self._flatten_layers()
        )
        self._init_steps()

    def _scaling(self, optimizer: Any) -> Any:
        """The optimizer; float16 needs one that scales the loss, as in Keras."""
        is_mixed = self.dtype_policy.name == "mixed_float16"
        if not is_mixed or isinstance(optimizer, ScalingOptimizer):
            return optimizer
        return optimizers.LossScaleOptimizer(optimizer)

    @contextmanager
    def _trainable_as_compiled(self) -> Iterator[None]:
        """Let layers be trained, or not, as they were when ``compile`` was called."""
        now = [(layer, layer._trainable) for layer in self._flatten_layers()]
        for layer, value in now:
            layer._trainable = self._compiled_trainable.get(layer, value)
        try:
            yield
        finally:
            for layer, value in now:
                layer._trainable = value

    def _scope(self) -> AbstractContextManager[Any]:
        """The scope of the strategy that the model was made in.

        Raises:
            RuntimeError: A function is being traced.
        """
        if _core.open_trace() is not None:
            raise RuntimeError(
                "Detected a call to fit, evaluate, predict or one of their like inside "
                "a `tf.function`. They run programs of their own: call them outside, "
                "or call the model itself here."
            )
        if self._strategy is None or strategy_state.has_strategy():
            return nullcontext()
        return self._strategy.scope()

    def _is_strict(self, mode: str) -> bool:
        """Whether the IPU's rules on steps and batches hold, and not Keras's."""
        return (
            strategy_state.has_strategy()
            or current_device().num_ipus > 1
            or self._has_own_function(mode)
            or self._has_stages()
            or (mode == "train" and (self._accumulation_steps or 1) > 1)
        )

    def _assert_compiled(self) -> None:
        if not self._is_compiled:
            raise RuntimeError(
                "You must compile your model before training/testing. Use "
                "`model.compile(optimizer, loss)`."
            )

    @property
    def metrics(self) -> list[metrics_module.Metric]:
        """The losses' running means and the metrics."""
        found: list[metrics_module.Metric] = []
        if self._is_compiled:
            found += self.compiled_loss.metrics + self.compiled_metrics.metrics
        for layer in self._flatten_layers():
            for value in layer.__dict__.values():
                if isinstance(value, metrics_module.Metric) and value not in found:
                    found.append(value)
        return found

    @property
    def metrics_names(self) -> list[str]:
        """The names of the results of ``evaluate``."""
        return [metric.name for metric in self.metrics]

    def reset_metrics(self) -> None:
        """Start all metrics again."""
        for metric in self.metrics:
            metric.reset_state()

    @property
    def _resets_what_it_lists(self) -> bool:
        """Whether no subclass has metrics, or ways to reset them, of its own."""
        kind = type(self)
        return kind.metrics is Trainer.metrics and (
            kind.reset_metrics is Trainer.reset_metrics
        )

    def reset_states(self) -> None:
        """Set the states of all stateful recurrent layers to zero."""
        for layer in self._flatten_layers():
            if layer is not self and getattr(layer, "stateful", False):
                layer.reset_states()  # type: ignore[attr-defined]

    def _drop_programs(self) -> None:
        """Programs are traced for each run, but for those of single batches."""
        self._init_steps()

    # --- training --------------------------------------------------------------------

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool | str = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> History:
        """Train on data.

        Args:
            x: Arrays or tensors (lists and dicts of them for several inputs); or
                batches ``(x, y)`` of a ``tf.data.Dataset``, and outside of a strategy
                of a generator or a ``keras.utils.Sequence``.
            y: Targets; None with batches.
            batch_size: Samples in a batch of arrays; in the scope of a strategy it must
                divide their number. By default 32, or what ``steps_per_epoch`` asks
                for.
            epochs: The number of the last epoch.
            verbose: 0 for silence, 1 or ``"auto"`` for a bar, 2 for a line an epoch.
            callbacks: A list of callbacks.
            validation_split: The last part of arrays, kept for validation.
            validation_data: ``(x, y)``, ``(x, y, weights)`` or batches.
            shuffle: Whether arrays, or batches of a sequence, are shuffled anew.
            class_weight: Weights of the loss by class number; 1 for the others.
            sample_weight: A weight for each sample of arrays.
            initial_epoch: The number of the first epoch, from 0.
            steps_per_epoch: Batches of an epoch; None for all. The next epoch goes on
                where this one ends.
            validation_steps: Batches of an evaluation; None for all.
            validation_batch_size: As ``batch_size``, for validation.
            validation_freq: After how many epochs there is a validation, or a list of
                their numbers, from 1.
            max_queue_size: Batches of generators and sequences that are made ahead.
            workers: Threads that make them; 0: none but the program's own.
            use_multiprocessing: Ignored: workers are threads.

        Returns:
            The history: results of every epoch and of every step.

        Raises:
            RuntimeError: The model is not compiled.
            ValueError: Data that do not fit, or a number of steps that does not.
        """
        del use_multiprocessing
        reading = Workers(max_queue_size, workers)
        self._assert_compiled()
        verbose = 1 if verbose == "auto" else verbose
        epochs = whole_number(epochs, "epochs")
        initial_epoch = whole_number(initial_epoch, "initial_epoch")
        parts = (self._fed(x), y, sample_weight)
        if validation_split and validation_data is None:
            parts, validation_data = split_validation(parts, validation_split)
        resumed = max(finished_epochs(self, callbacks) - initial_epoch, 0)
        initial_epoch += resumed
        with self._scope(), held_device(), self._trainable_as_compiled():
            epochs_run = max(epochs - initial_epoch, 1)
            batches = as_batches(
                *parts,
                batch_size=batch_size,
                shuffle=shuffle,
                steps=steps_per_epoch,
                call="fit" if self._is_strict("train") else None,
                workers=reading,
                order=self._data_order,
            )
            asked = (steps_per_epoch, epochs_run, "steps_per_epoch")
            train = fit_loops.Run(
                self, "train", batches, *asked, False, class_weight, resumed
            )
            test: fit_loops.Run | None = None
            if validation_data is not None:
                size = validation_batch_size or batch_size
                test = self._validation(
                    validation_data, size, validation_steps, reading
                )

            def validate(epoch: int) -> fit_loops.Run | None:
                return test if fit_loops.is_due(epoch + 1, validation_freq) else None

            listed = fit_loops.make_callbacks(
                self, callbacks, verbose, epochs=epochs, steps=train.plan.steps
            )
            return fit_loops.run_fit(
                self, train, listed, epochs, initial_epoch, validate
            )

    def _validation(
        self, data: Any, size: int | None, steps: int | None, workers: Workers
    ) -> fit_loops.Run:
        call = "validation_data" if self._is_strict("test") else None
        if is_batched(data):
            parts, size = (self._fed(data), None, None), None
        else:
            x, y, weights = unpack(data)
            parts = (self._fed(x), y, weights)
        batches = as_batches(*parts, size, False, steps, call, workers)
        return fit_loops.Run(
            self, "test", batches, steps, argument="validation_steps", again=True
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = 1,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        return_dict: bool = False,
    ) -> Any:
        """Find loss and metrics on data.

        Args:
            x: As for ``fit``.
            y: As for ``fit``.
            batch_size: As for ``fit``.
            verbose: 0 for silence, 1 for a bar, 2 for a line.
            sample_weight: As for ``fit``.
            steps: Batches; None for all.
            callbacks: A list of callbacks.
            max_queue_size: As for ``fit``.
            workers: As for ``fit``.
            use_multiprocessing: As for ``fit``.
            return_dict: Whether the results come by name.

        Returns:
            The loss where there are no metrics, else a list in the order of
            ``metrics_names``, or a dict.

        Raises:
            RuntimeError: The model is not compiled.
            ValueError: Data that do not fit, or a number of steps that does not.
        """
        del use_multiprocessing
        reading = Workers(max_queue_size, workers)
        self._assert_compiled()
        with self._scope(), held_device():
            call = "evaluate" if self._is_strict("test") else None
            x = self._fed(x)
            batches = as_batches(
                x, y, sample_weight, batch_size, False, steps, call, reading
            )
            run = fit_loops.Run(self, "test", batches, steps)
            listed = fit_loops.make_callbacks(
                self, callbacks, verbose, epochs=1, steps=run.plan.steps
            )
            results = fit_loops.run_test(run, listed)
        if return_dict:
            return results
        values = list(results.values())
        return values[0] if len(values) == 1 else values

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = 0,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """Compute outputs.

        Args:
            x: As for ``fit``; the targets of a data set are not used.
            batch_size: As for ``fit``.
            verbose: 0 for silence, 1 for a bar.
            steps: Batches; None for all.
            callbacks: A list of callbacks.
            max_queue_size: As for ``fit``.
            workers: As for ``fit``.
            use_multiprocessing: As for ``fit``.

        Returns:
            An array with one row for each sample; of a model with several outputs a
            list or dict of them, which the annotation does not say.

        Raises:
            ValueError: Data that do not fit, or a number of steps that does not.
        """
        del use_multiprocessing
        reading = Workers(max_queue_size, workers)
        with self._scope(), held_device():
            call = "predict" if self._is_strict("predict") else None
            x = self._fed(x)
            batches = as_batches(
                x, batch_size=batch_size, steps=steps, call=call, workers=reading
            )
            run = fit_loops.Run(self, "predict", batches, steps)
            listed = fit_loops.make_callbacks(
                self, callbacks, verbose, epochs=1, steps=run.plan.steps
            )
            return fit_loops.run_predict(run, listed)
