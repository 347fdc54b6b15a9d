# SPDX-License-Identifier: MIT
"""The steps of ``Model``, which a subclass may override, and single batches.

A step takes an element of the data and gives the results by name. It is traced into the
device's loop by ``fit``, ``evaluate`` and ``predict``, or into a program of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import loops, tf
from ipu._text.tracebacks import boundaries
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.layer.captured_gradients import capturing, wants_captured
from ipu.keras.engine.training.class_weights import bytes_of, with_class_weight
from ipu.keras.engine.training.data_adapter import expand, one_batch, unpack
from ipu.keras.engine.training.program import BatchProgram, ProgramCache
from ipu.tf._functions import function as _function
from ipu.tf.autograph import convert_call

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@boundaries("train_on_batch", "test_on_batch", "predict_on_batch")
class StepFunctions:
    """What is done with a batch; mixed into ``Model``."""

    if TYPE_CHECKING:
        optimizer: Any
        compiled_loss: Any
        compiled_metrics: Any
        losses: list[Tensor]
        metrics: Any

        @property
        def trainable_variables(self) -> list[tf.Variable]: ...

        run_eagerly: bool
        _steps_per_execution: int

        def _prepare(self, mode: str, spec: Nest) -> None: ...
        def _assert_compiled(self) -> None: ...
        def _trainable_as_compiled(self) -> AbstractContextManager[None]: ...
        def _scope(self) -> AbstractContextManager[Any]: ...
        def reset_metrics(self) -> None: ...

        _data_order: Any

    def _init_steps(self) -> None:
        self.train_function: Any = None
        self.test_function: Any = None
        self.predict_function: Any = None
        self._step_loss: Any = None
        # gets what `train_step` would minimise where somebody else does it
        self._sink: Callable[[Tensor], None] | None = None
        self._programs = ProgramCache()
        self._tried_steps: set[str] = set()  # a subclass's, that have made variables

    # --- steps ------------------------------------------------------------------------

    @property
    def _network(self) -> Any:
        """The model, as something to call."""
        return self

    def train_step(self, data: Nest) -> dict[str, Tensor]:
        """One step of training, traced.

        A subclass may override it: use ``self.compiled_loss``, a ``tf.GradientTape``
        and ``self.optimizer.apply_gradients``.

        Args:
            data: An element of the data: ``(x,)``, ``(x, y)`` or
                ``(x, y, sample_weight)``.

        Returns:
            The results by name.
        """
        x, y, weight = unpack(expand(data))
        # op by op, values are gone when the gradient is asked for
        tape = tf.GradientTape() if self.run_eagerly else None
        with capturing() as context, tape or nullcontext():
            y_pred = self._network(x, training=True)
            loss = self.compiled_loss(y, y_pred, weight, self.losses)
        self._assert_has_loss()
        self._step_loss = tf.reduce_mean(loss) if loss.shape else loss
        variables = self.trainable_variables
        if variables and self._sink is not None:
            self._sink(loss)
        elif variables and wants_captured(self.optimizer):
            pairs = self.optimizer.compute_gradients(loss, variables)
            captured = context.captured_gradients
            self.optimizer.apply_gradients(pairs, captured_grads=captured)
        elif variables:
            how = {} if tape is None else {"tape": tape}
            self.optimizer.minimize(loss, variables, **how)
        self.compiled_metrics.update_state(y, y_pred, weight)
        return {metric.name: metric.result() for metric in self.metrics}

    def _assert_has_loss(self) -> None:
        if self.compiled_loss.is_missing:
            raise ValueError(
                "The model cannot be trained because it has no loss to optimize. Give "
                "`compile` a loss, or use `add_loss` in a layer."
            )

    def test_step(self, data: Nest) -> dict[str, Tensor]:
        """One step of evaluation, traced; a subclass may override it.

        Args:
            data: An element of the data.

        Returns:
            The results by name.
        """
        x, y, weight = unpack(expand(data))
        y_pred = self._network(x, training=False)
        self.compiled_loss(y, y_pred, weight, self.losses)
        self.compiled_metrics.update_state(y, y_pred, weight)
        return {metric.name: metric.result() for metric in self.metrics}

    def predict_step(self, data: Nest) -> Nest:
        """One step of prediction, traced; a subclass may override it.

        Args:
            data: An element of the data.

        Returns:
            The model's outputs.
        """
        return self._network(unpack(expand(data))[0], training=False)

    def _has_own_step(self, mode: str) -> bool:
        name = f"{mode}_step"
        return getattr(type(self), name) is not getattr(StepFunctions, name)

    def _device_step(
        self, mode: str, class_weight: Any = None
    ) -> Callable[[Nest], Nest]:
        """What the device's loop runs for each element."""

        def train(element: Nest) -> Nest:
            if class_weight is not None:
                element = with_class_weight(element, class_weight)
            self._step_loss = None
            logs = _checked_logs("train_step", convert_call(self.train_step)(element))
            loss, self._step_loss = self._step_loss, None
            return (
                {"logs": logs}
                if loss is None
                else {"logs": logs, "loss": {"loss": loss}}
            )

        def test(element: Nest) -> Nest:
            return {
                "logs": _checked_logs(
                    "test_step", convert_call(self.test_step)(element)
                )
            }

        def predict(element: Nest) -> Nest:
            return convert_call(self.predict_step)(element)

        return {"train": train, "test": test, "predict": predict}[mode]

    @contextmanager
    def _minimising(self, sink: Callable[[Tensor], None]) -> Iterator[None]:
        """Give what ``train_step`` would minimise to ``sink``; nothing is updated."""
        self._sink = sink
        try:
            yield
        finally:
            self._sink = None

    # --- functions of an iterator -----------------------------------------------------

    def make_train_function(self, force: bool = False) -> Any:
        """Give the function of an iterator that trains for one execution.

        ``fit`` has a loop of its own, and calls this where a subclass overrides it.

        Args:
            force: Whether an existing function is made anew, and the programs of
                ``fit``, ``evaluate`` and ``predict``, too.

        Returns:
            A function that takes an ``IPUIterator`` and gives the results of the last
            of ``steps_per_execution`` steps.
        """
        self._drop_kept(force)
        if self.train_function is None or force:
            self.train_function = self._function_of_iterator("train")
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """As :meth:`make_train_function`, for ``evaluate``."""
        self._drop_kept(force)
        if self.test_function is None or force:
            self.test_function = self._function_of_iterator("test")
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Give the function of an iterator that predicts one batch.

        Args:
            force: As for :meth:`make_train_function`.

        Returns:
            A function that takes an ``IPUIterator`` and gives the model's outputs.
        """
        self._drop_kept(force)
        if self.predict_function is None or force:
            step = self._device_step("predict")
            self.predict_function = _function.DeviceFunction(
                lambda iterator: step(next(iterator))
            )
        return self.predict_function

    def _drop_kept(self, force: bool) -> None:
        if force:
            self._programs = ProgramCache()

    def _function_of_iterator(self, mode: str) -> Any:
        whole = self._device_step(mode)
        count = self._steps_per_execution

        def step(element: Nest) -> Nest:
            return whole(element)["logs"]

        def function(iterator: Any) -> Nest:
            if count == 1:
                return step(next(iterator))
            spec = _function.scratch_trace(
                step, [iterator.element_spec], may_create=True
            )
            start = [tf.zeros(s.shape, s.dtype) for s in tf.nest.flatten(spec)]

            def body(*_: Any) -> list[Any]:
                return tf.nest.flatten(step(next(iterator)))

            ends = loops.repeat(count, body, start)
            ends = ends if isinstance(ends, list) else [ends]
            return tf.nest.pack_sequence_as(spec, ends)

        return _function.DeviceFunction(function)

    def _has_own_function(self, mode: str) -> bool:
        name = f"make_{mode}_function"
        return getattr(type(self), name) is not getattr(StepFunctions, name)

    def _own_function(self, mode: str) -> Any:
        """The function of a subclass that overrides ``make_..._function``, or None."""
        if not self._has_own_function(mode):
            return None
        if mode == "predict":
            raise tf.errors.UnimplementedError(
                "The function `make_predict_function` cannot be overridden: the "
                "device's loop takes its place. Override `predict_step`."
            )
        return getattr(self, f"make_{mode}_function")()

    # --- single batches ---------------------------------------------------------------

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        reset_metrics: bool = True,
        return_dict: bool = False,
    ) -> Any:
        """Train on one batch.

        Args:
            x: Arrays or tensors (lists and dicts of them for several inputs).
            y: Targets.
            sample_weight: A weight for each sample.
            class_weight: As for ``fit``.
            reset_metrics: Whether the results are of this batch alone.
            return_dict: Whether the results come by name.

        Returns:
            The loss where there are no metrics, else a list in the order of
            ``metrics_names``, or a dict.

        Raises:
            RuntimeError: The model is not compiled.
        """
        self._assert_compiled()
        parts = (x, y, sample_weight)
        with self._trainable_as_compiled():
            return self._on_batch(
                "train", parts, reset_metrics, return_dict, class_weight
            )

    def test_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        reset_metrics: bool = True,
        return_dict: bool = False,
    ) -> Any:
        """Find loss and metrics on one batch; arguments as for ``train_on_batch``."""
        self._assert_compiled()
        parts = (x, y, sample_weight)
        return self._on_batch("test", parts, reset_metrics, return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Compute the outputs of one batch.

        Args:
            x: Arrays or tensors.

        Returns:
            Arrays in the form of the model's outputs.
        """
        outputs = self._batch("predict", (x, None, None))
        return tf.nest.map_structure(lambda leaf: leaf.numpy(), outputs)

    def _fed(self, data: Any) -> Any:
        """Data whose inputs have gone through the part that works on the host."""
        return data

    def _on_batch(
        self,
        mode: str,
        parts: tuple[Any, Any, Any],
        reset_metrics: bool,
        return_dict: bool,
        class_weight: Any = None,
    ) -> Any:
        if reset_metrics:
            self.reset_metrics()
        logs = self._batch(mode, parts, class_weight)["logs"]
        results = {name: _number(value) for name, value in logs.items()}
        if return_dict:
            return results
        values = list(results.values())
        return values[0] if len(values) == 1 else values

    def _batch(
        self, mode: str, parts: tuple[Any, Any, Any], class_weight: Any = None
    ) -> Any:
        with self._scope():
            parts = (self._fed(parts[0]), *parts[1:])
            element = one_batch(*parts)
            step = self._device_step(mode, class_weight)
            if mode == "train":
                self._data_order.resume()
            if self.run_eagerly:
                return step(tf.nest.map_structure(tf.convert_to_tensor, element))

            def make() -> BatchProgram:
                spec = tf.nest.map_structure(tf.TensorSpec.from_tensor, element)
                self._prepare(mode, spec)
                return BatchProgram(step.__name__)

            kind = "batch", bytes_of(class_weight)
            program = self._programs.take(self, mode, *kind, make=make)
            program.begin(step)
            results = program(element)
            program.end()
            self._programs.give_back(program)
            return results


def _number(value: Any) -> Any:
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else array


def _checked_logs(name: str, logs: Any) -> dict[str, Any]:
    if not isinstance(logs, Mapping):
        raise TypeError(
            f"`{name}` must return a dict of results by name, such as "
            f"{{'loss': loss}}. Received: {logs!r}."
        )
    if not logs:
        raise ValueError(
            f"`{name}` must return a dict of at least one result, such as "
            "{'loss': loss}. Received: {}."
        )
    return dict(logs)
