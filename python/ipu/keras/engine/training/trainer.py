# SPDX-License-Identifier: MIT
"""Compiling, training, evaluating and predicting: the part of ``Model`` that runs."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core, loops, tf
from ipu._device import strategy_state
from ipu._device.placement import current_device, held_device
from ipu._text.log import logger
from ipu._text.tracebacks import boundaries
from ipu.keras import _names, metrics as metrics_module, optimizers
from ipu.keras._random_state import Order
from ipu.keras._types import Nest, Tensor
from ipu.keras.callbacks import backup
from ipu.keras.callbacks.history import History
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.pipelines.ipu_options import IPUOptions
from ipu.keras.engine.training import class_weights, fit_loops
from ipu.keras.engine.training.compile_utils import (
    LossesContainer,
    MetricsContainer,
)
from ipu.keras.engine.training.data_adapter import (
    Given,
    Workers,
    expand,
    is_batched,
    one_batch,
    split_validation,
    unpack,
)
from ipu.keras.engine.training.device_steps import capturing, wants_captured
from ipu.keras.engine.training.explained import Asked, explained
from ipu.keras.engine.training.program import BatchProgram, ProgramCache
from ipu.keras.engine.training.step_plan import checked_execution, whole_number
from ipu.keras.optimizers._wrapping import ScalingOptimizer
from ipu.tf._functions.function import DeviceFunction, scratch_trace
from ipu.tf._functions.tracing import init_scope
from ipu.tf.autograph import convert_call

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import CompileOptions


@boundaries(
    *("compile", "fit", "evaluate", "predict"),
    *("train_on_batch", "test_on_batch", "predict_on_batch"),
)
class Trainer(IPUOptions):
    """A layer with an optimizer, losses and metrics, that runs on the device.

    Its steps, which a subclass may override, take an element of the data and give the
    results by name. A step is traced into the device's loop by ``fit``, ``evaluate``
    and ``predict``, or into a program of its own.
    """

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
        self._drop_programs()
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
        **kwargs: Unpack[CompileOptions],
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
            **kwargs: ``jit_compile`` and ``sample_weight_mode``, which are ignored, and
                ``auto_scale_loss``: with False the loss is not scaled for float16.

        Raises:
            ValueError: An unknown name; the nearest is offered. Or an illegal number of
                steps.
            RuntimeError: ``run_eagerly`` is True in the scope of a strategy.
            TypeError: An unknown keyword.
        """
        kwargs.pop("jit_compile", None)
        kwargs.pop("sample_weight_mode", None)
        is_scaled = kwargs.pop("auto_scale_loss", True)
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
            chosen = optimizers.get(optimizer)
            if is_scaled:
                chosen = self._scaling(chosen)
            compiled_loss = LossesContainer(loss, loss_weights, self._names_of)
            compiled_metrics = MetricsContainer(
                metrics, weighted_metrics, self._names_of, compiled_loss
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
        self._drop_programs()

    def _scaling(self, optimizer: Any) -> Any:
        """Return the optimizer; float16 needs one that scales the loss, as in Keras."""
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
        """Return the scope of the strategy that the model was made in."""
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
        """Return whether the IPU's rules on steps and batches hold, and not Keras's."""
        return (
            strategy_state.has_strategy()
            or current_device().num_ipus > 1
            or self._overrides(f"make_{mode}_function")
            or self._has_stages()
            or (mode == "train" and (self._accumulation_steps or 1) > 1)
        )

    @property
    def compiled(self) -> bool:
        """Whether ``compile`` has been called."""
        return self._is_compiled

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
        return not (self._overrides("metrics") or self._overrides("reset_metrics"))

    def reset_states(self) -> None:
        """Set the states of all stateful recurrent layers to zero."""
        for layer in self._flatten_layers():
            if layer is not self and getattr(layer, "stateful", False):
                layer.reset_states()  # type: ignore[attr-defined]

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
            class_weight: Weights of the loss by class number; 1 for the others. Or
                ``"balanced"``: the number of samples, over that of the classes times
                that of the samples of the class (scikit-learn's rule), counted in
                arrays or, once before training, in batches.
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
        class_weight = class_weights.resolved(class_weight, x, parts[1])
        done, callbacks = backup.resumed(self, callbacks)
        resumed = max(done - initial_epoch, 0)
        initial_epoch += resumed
        with ExitStack() as stack:
            stack.enter_context(self._scope())
            stack.enter_context(held_device())
            stack.enter_context(self._trainable_as_compiled())
            epochs_run = max(epochs - initial_epoch, 1)
            given = Given(*parts, batch_size, shuffle, reading)
            validation, own_size = None, validation_batch_size is not None
            if validation_data is not None:
                size = validation_batch_size or batch_size
                validation = Asked(
                    self._validation(validation_data, size, reading), validation_steps
                )
            asked = Asked(given, steps_per_epoch, epochs_run)
            stack.enter_context(explained(self, "train", asked, validation, own_size))
            train = fit_loops.Run(
                self, "train", *asked, "steps_per_epoch", False, class_weight, resumed
            )
            test: fit_loops.Run | None = None
            if validation is not None:
                test = fit_loops.Run(
                    self, "test", *validation, "validation_steps", again=True
                )

            def validate(epoch: int) -> fit_loops.Run | None:
                return test if fit_loops.is_due(epoch + 1, validation_freq) else None

            listed = fit_loops.make_callbacks(
                self, callbacks, verbose, train.plan.steps, epochs
            )
            return fit_loops.run_fit(
                self, train, listed, epochs, initial_epoch, validate
            )

    def _validation(self, data: Any, size: int | None, workers: Workers) -> Given:
        if is_batched(data):
            parts, size = (self._fed(data), None, None), None
        else:
            x, y, weights = unpack(data)
            parts = (self._fed(x), y, weights)
        return Given(*parts, size, workers=workers)

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
            x, y, batch_size: As for ``fit``.
            verbose: 0 for silence, 1 for a bar, 2 for a line.
            sample_weight: As for ``fit``.
            steps: Batches; None for all.
            callbacks: A list of callbacks.
            max_queue_size, workers, use_multiprocessing: As for ``fit``.
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
            x = self._fed(x)
            given = Given(x, y, sample_weight, batch_size, workers=reading)
            with explained(self, "test", Asked(given, steps)):
                run = fit_loops.Run(self, "test", given, steps)
                listed = fit_loops.make_callbacks(
                    self, callbacks, verbose, run.plan.steps
                )
                results = fit_loops.run_test(run, listed)
        return _as_told(results, return_dict)

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
            max_queue_size, workers, use_multiprocessing: As for ``fit``.

        Returns:
            An array with one row for each sample; of a model with several outputs a
            list or dict of them, which the annotation does not say.

        Raises:
            ValueError: Data that do not fit, or a number of steps that does not.
        """
        del use_multiprocessing
        reading = Workers(max_queue_size, workers)
        with self._scope(), held_device():
            given = Given(self._fed(x), batch_size=batch_size, workers=reading)
            with explained(self, "predict", Asked(given, steps)):
                run = fit_loops.Run(self, "predict", given, steps)
                listed = fit_loops.make_callbacks(
                    self, callbacks, verbose, run.plan.steps
                )
                return fit_loops.run_predict(run, listed)

    # --- what is made before a program is traced: weights, losses, slots --------------

    def _prepare(self, mode: str, spec: Nest) -> None:
        """Create all variables that the program of a mode needs.

        Args:
            spec: The elements of the data.
        """
        self._check_device()
        if self._overrides(f"{mode}_step"):
            if mode not in self._tried_steps:
                # what it uses is known to itself alone: trace it once for its variables
                step = self._device_step(mode)
                scratch_trace(step, [spec], may_create=True)
                self._tried_steps.add(mode)
            self.built = True
            return
        x_spec, y_spec, _ = unpack(spec)
        outputs = self._known_outputs()
        if outputs is None:
            model: Any = self
            outputs = scratch_trace(
                lambda x: model(expand(x), training=False), [x_spec], may_create=True
            )
            self._form_of_outputs = tf.nest.map_structure(lambda _: 0, outputs)
        if mode == "predict":
            return
        if y_spec is None and self.loss is not None:
            raise ValueError(
                "The loss needs targets, but the data have inputs only. Give "
                f"{'fit' if mode == 'train' else 'evaluate'} `y`, or a data set of "
                "tuples (x, y)."
            )
        names = self._names_of(outputs)
        self.compiled_loss.build(names)
        self.compiled_metrics.build(names)
        if mode == "train":
            variables = self.trainable_variables
            if variables:
                self.optimizer._create_all_weights(variables)
            else:
                logger.warning(
                    f"Model {self.name!r} has no trainable weights: fit computes its "
                    "loss and metrics, and changes nothing."
                )

    def _known_outputs(self) -> Nest | None:
        """Return something of the form of the outputs; None where a call is to show it,
        or to build layers."""
        if any(not layer.built for layer in self._flatten_layers()):
            return None
        return getattr(self, "_form_of_outputs", None)

    def _made_variables(self) -> list[tf.Variable]:
        """Return the variables of the layers, the metrics and the optimizer, so far."""
        owned = [v for layer in self._flatten_layers() for v in layer._own_variables()]
        owned += [v for metric in self.metrics for v in metric.variables]
        if self.optimizer is not None:
            owned += self.optimizer._made_variables()
        return owned

    def _check_device(self) -> None:
        """Take the variables along where the devices were configured anew."""
        device = current_device()
        for variable in self._made_variables():
            if not variable._follow(device):
                raise tf.errors.FailedPreconditionError(
                    f"Model {self.name!r} is to run on {device.name} and has variables "
                    f"on another device. Received: variable {variable.name!r} on "
                    f"{variable.device}. Make the model again, in the scope of its "
                    "strategy."
                )

    def _names_of(self, outputs: Nest) -> list[str]:
        names: list[str] | None = getattr(self, "output_names", None)
        count = len(tf.nest.flatten(outputs))
        if names is not None and len(names) != count:
            names = None
        if isinstance(outputs, Mapping) and len(outputs) == count:
            keys: list[str] = tf.nest.flatten({key: key for key in outputs})
            if names is None or not self._names_outputs(set(names) - set(keys)):
                return keys
        return names or [f"output_{i + 1}" for i in range(count)]

    def _names_outputs(self, names: set[str]) -> bool:
        """Return whether losses, metrics or weights were given for one of these
        names."""
        given = (one for one in self._compile_arguments.values())
        return any(isinstance(one, Mapping) and names & set(one) for one in given)

    # --- programs ---------------------------------------------------------------------

    def _drop_programs(self) -> None:
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
        """Run one step of training, traced.

        A subclass may override it: use ``self.compute_loss``, a ``tf.GradientTape``,
        ``self.optimizer.apply_gradients`` and ``self.compute_metrics``.

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
            loss = self._loss_of(x, y, y_pred, weight, training=True)
        self._assert_has_loss()
        self._step_loss = tf.reduce_mean(loss) if loss.shape else loss
        variables = self.trainable_variables
        if self._sink is not None:
            self._sink(loss)
        elif variables:
            if wants_captured(self.optimizer):
                pairs = self.optimizer.compute_gradients(loss, variables)
                captured = context.captured_gradients
                self.optimizer.apply_gradients(pairs, captured_grads=captured)
            else:
                how = {} if tape is None else {"tape": tape}
                self.optimizer.minimize(loss, variables, **how)
        return self._results_of(x, y, y_pred, weight)

    def compute_loss(
        self,
        x: Nest = None,
        y: Nest = None,
        y_pred: Nest = None,
        sample_weight: Nest = None,
        training: bool = True,
    ) -> Tensor:
        """Return the loss of a batch: those of ``compile`` and the layers' added ones.

        The default steps call it; call it in a step of your own, or override it.

        Args:
            x: The inputs.
            y: The targets.
            y_pred: The outputs.
            sample_weight: A weight for each sample.
            training: Whether the batch is trained on.

        Returns:
            The value to minimise, a scalar by default.

        Source: ``keras.Model.compute_loss`` of Keras 3.

        Example:
            >>> class WithPenalty(keras.Model):
            ...     def compute_loss(self, *args, **kwargs):
            ...         loss = super().compute_loss(*args, **kwargs)
            ...         return loss + 0.5
            ...
            >>> x = keras.Input((1,))
            >>> model = WithPenalty(x, keras.layers.Lambda(lambda x: 2 * x)(x))
            >>> model.compile(loss="mse")
            >>> model.evaluate(np.ones((4, 1)), np.ones((4, 1)), verbose=0)
            1.5
        """
        del x, training
        if not self.compiled_metrics.built:  # a step of the user's own may list them
            with init_scope():
                self.compiled_metrics.build(self._names_of(y_pred))
        loss: Tensor = self.compiled_loss(y, y_pred, sample_weight, self.losses)
        return loss

    def compute_metrics(
        self, x: Nest, y: Nest, y_pred: Nest, sample_weight: Nest = None
    ) -> dict[str, Any]:
        """Take a batch into the metrics of ``compile``, and give all results.

        The default steps call it; call it in a step of your own, or override it.

        Args:
            x: The inputs.
            y: The targets.
            y_pred: The outputs.
            sample_weight: A weight for each sample.

        Returns:
            The results by name, which the step gives.

        Source: ``keras.Model.compute_metrics`` of Keras 3.

        Example:
            >>> class WithLargest(keras.Sequential):
            ...     def compute_metrics(self, x, y, y_pred, sample_weight=None):
            ...         results = super().compute_metrics(x, y, y_pred, sample_weight)
            ...         return {**results, "largest": tf.reduce_max(y_pred)}
            ...
            >>> model = WithLargest([keras.layers.Lambda(lambda x: 2 * x)])
            >>> model.compile(loss="mse")
            >>> data = np.ones((4, 1), "float32")
            >>> model.evaluate(data, data, verbose=0, return_dict=True)
            {'loss': 1.0, 'largest': 2.0}
        """
        del x
        self.compiled_metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def get_metrics_result(self) -> dict[str, Any]:
        """Return the results of all metrics by name, as the default steps do."""
        return {metric.name: metric.result() for metric in self.metrics}

    def _loss_of(
        self, x: Nest, y: Nest, y_pred: Nest, weight: Nest, training: bool
    ) -> Tensor:
        """Return the loss of a step; the mean that is shown is of what a subclass made
        it."""
        how: dict[str, Any] = {"x": x, "y": y, "y_pred": y_pred}
        how["sample_weight"] = weight
        if not self._overrides("compute_loss"):
            return self.compute_loss(**how, training=training)
        taken = inspect.signature(self.compute_loss).parameters.values()
        if any(p.name == "training" or p.kind is p.VAR_KEYWORD for p in taken):
            how["training"] = training
        with self.compiled_loss.held():
            loss = tf.convert_to_tensor(convert_call(self.compute_loss)(**how))
        self.compiled_loss.take(loss, y_pred)
        return loss

    def _results_of(
        self, x: Nest, y: Nest, y_pred: Nest, weight: Nest
    ) -> dict[str, Tensor]:
        """Return the results of a step after its metrics have taken the batch."""
        call: Any = self.compute_metrics
        if self._overrides("compute_metrics"):
            call = convert_call(call)
        results: dict[str, Tensor] = call(x=x, y=y, y_pred=y_pred, sample_weight=weight)
        return results

    def _assert_has_loss(self) -> None:
        if self.compiled_loss.is_missing:
            raise ValueError(
                "The model cannot be trained because it has no loss to optimize. Give "
                "`compile` a loss, or use `add_loss` in a layer."
            )

    def test_step(self, data: Nest) -> dict[str, Tensor]:
        """Run one step of evaluation, traced; a subclass may override it.

        Args:
            data: An element of the data.

        Returns:
            The results by name.
        """
        x, y, weight = unpack(expand(data))
        y_pred = self._network(x, training=False)
        self._loss_of(x, y, y_pred, weight, training=False)
        return self._results_of(x, y, y_pred, weight)

    def predict_step(self, data: Nest) -> Nest:
        """Run one step of prediction, traced; a subclass may override it.

        Args:
            data: An element of the data.

        Returns:
            The model's outputs.
        """
        return self._network(unpack(expand(data))[0], training=False)

    def account(
        self,
        x: Nest = None,
        y: Nest = None,
        *,
        batch_size: int = 32,
        training: bool = True,
        machine: Any = None,
        **options: Any,
    ) -> Any:
        """Tell what a step of ``fit`` or ``predict`` would cost on IPUs.

        It is the program that ``fit`` runs on the device, with what comes from the host
        and goes there, up to one update of the weights: as many batches as gradients
        are accumulated over, in a pipeline where the model is one. Nothing is run; see
        :func:`ipu.machine.estimate`.

        Args:
            x: A batch of inputs: arrays, tensors or ``tf.TensorSpec``, whose values do
                not count; or a data set of batches; None for the model's own inputs.
            y: A batch of targets; None for what the loss compares with each output:
                class numbers or values of the output's shape.
            batch_size: The first size of inputs where ``x`` is None.
            training: Whether it is a step of ``fit``; else of ``predict``.
            machine: A ``Machine`` or its name; None for that of the configuration.
            **options: Further options of ``ipu.machine.estimate``.

        Returns:
            An ``ipu.machine.Account``.

        Raises:
            ValueError: The model is not built and ``x`` is None, or ``batch_size`` is
                not positive.
            TypeError: ``x`` or ``y`` is not a batch.
            RuntimeError: ``training`` and the model is not compiled.

        Example:
            >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
            >>> model.compile("sgd", "mse")
            >>> account = model.account(batch_size=16)
            >>> account.samples, account.memory.fits
            (16, True)
        """
        from ipu.keras.engine.training.accounting import account_of

        return account_of(self, x, y, batch_size, training, machine, options)

    def _overrides(self, name: str) -> bool:
        """Return whether a subclass has a method of this class of its own."""
        return getattr(type(self), name) is not getattr(Trainer, name)

    def _device_step(
        self, mode: str, class_weight: Any = None
    ) -> Callable[[Nest], Nest]:
        """Return the function that the device's loop runs for each element."""

        def train(element: Nest) -> Nest:
            if class_weight is not None:
                element = class_weights.with_class_weight(element, class_weight)
            logs = _checked_logs("train_step", convert_call(self.train_step)(element))
            loss, self._step_loss = self._step_loss, None
            return {"logs": logs, **({} if loss is None else {"loss": {"loss": loss}})}

        def test(element: Nest) -> Nest:
            logs = convert_call(self.test_step)(element)
            return {"logs": _checked_logs("test_step", logs)}

        def predict(element: Nest) -> Nest:
            return convert_call(self.predict_step)(element)

        return {"train": train, "test": test, "predict": predict}[mode]

    @contextmanager
    def _minimising(self, sink: Callable[[Tensor], None]) -> Iterator[None]:
        """Yield what ``train_step`` would minimise to ``sink``; nothing is updated."""
        self._sink = sink
        try:
            yield
        finally:
            self._sink = None

    # --- functions of an iterator -----------------------------------------------------

    def make_train_function(self, force: bool = False) -> Any:
        """Return the function of an iterator that trains for one execution.

        ``fit`` has a loop of its own, and calls this where a subclass overrides it.

        Args:
            force: Whether an existing function is made anew, and the programs of
                ``fit``, ``evaluate`` and ``predict``, too.

        Returns:
            A function that takes an ``IPUIterator`` and gives the results of the last
            of ``steps_per_execution`` steps.
        """
        return self._function_of_iterator("train", force)

    def make_test_function(self, force: bool = False) -> Any:
        """Work like :meth:`make_train_function`, for ``evaluate``."""
        return self._function_of_iterator("test", force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Return the function of an iterator that predicts one batch.

        Args:
            force: As for :meth:`make_train_function`.

        Returns:
            A function that takes an ``IPUIterator`` and gives the model's outputs.
        """
        return self._function_of_iterator("predict", force)

    def _function_of_iterator(self, mode: str, force: bool) -> Any:
        """Return the function of a mode that is kept, or a new one."""
        name = f"{mode}_function"
        if force:
            self._programs = ProgramCache()
        elif getattr(self, name) is not None:
            return getattr(self, name)
        whole = self._device_step(mode)
        is_predict = mode == "predict"
        count = 1 if is_predict else self._steps_per_execution

        def step(element: Nest) -> Nest:
            return whole(element) if is_predict else whole(element)["logs"]

        def function(iterator: Any) -> Nest:
            if count == 1:
                return step(next(iterator))
            spec = scratch_trace(step, [iterator.element_spec], may_create=True)
            start = [tf.zeros(s.shape, s.dtype) for s in tf.nest.flatten(spec)]

            def body(*_: Any) -> list[Any]:
                return tf.nest.flatten(step(next(iterator)))

            ends = loops.repeat(count, body, start)
            ends = ends if isinstance(ends, list) else [ends]
            return tf.nest.pack_sequence_as(spec, ends)

        made = DeviceFunction(function)
        setattr(self, name, made)
        return made

    def _own_function(self, mode: str) -> Any:
        """Return the function of a subclass that overrides ``make_..._function``, or
        None."""
        name = f"make_{mode}_function"
        if not self._overrides(name):
            return None
        if mode == "predict":
            raise tf.errors.UnimplementedError(
                "The function `make_predict_function` cannot be overridden: the "
                "device's loop takes its place. Override `predict_step`."
            )
        return getattr(self, name)()

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
            class_weight: Weights by class number, as for ``fit``.
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
        """Return data whose inputs have gone through the part that works on the
        host."""
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
        return _as_told(results, return_dict)

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

            kind = "batch", class_weights.bytes_of(class_weight)
            program = self._programs.take(self, mode, *kind, make=make)
            program.begin(step)
            results = program(element)
            program.end()
            self._programs.give_back(program)
            return results


def _as_told(results: dict[str, Any], return_dict: bool) -> Any:
    """Return results by name, as a list, or the only one."""
    values = list(results.values())
    if return_dict:
        return results
    return values[0] if len(values) == 1 else values


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
