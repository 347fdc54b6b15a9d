# SPDX-License-Identifier: MIT
"""``ipu.ipu_estimator``: trains, evaluates and uses the model of a function.

Each call makes a graph of its own with the function in a loop of the device, and reads
and writes the variables as checkpoints of a folder.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu import config as ipu_config, ipu_compiler, loops, scopes, utils
from ipu._loops.estimator_parts import (
    HostCall,
    HostMetrics,
    Program,
    Workers,
    called,
    check_steps,
    features_and_labels,
    named,
    newest,
    takes,
    write_numbers,
    writes_to,
)
from ipu._text.exports import export
from ipu._text.refusals import refuse_given
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_run_config import IPURunConfig, RunConfig
from ipu.tf import errors
from ipu.tf.compat import v1 as tf
from ipu.tf.compat.v1._monitored import CheckpointSaverHook, run_with_hooks
from ipu.tf.compat.v1._steps import get_global_step
from ipu.tf.compat.v1.summary import FileWriter
from ipu.tf.compat.v1.train import Saver, create_global_step, latest_checkpoint
from ipu.tf.data import Dataset
from ipu.tf.estimator import EstimatorSpec, ModeKeys

__all__ = ["IPUEstimator", "IPUEstimatorSpec"]

_log = logging.getLogger("tensorflow")


@dataclass(frozen=True)
class IPUEstimatorSpec(EstimatorSpec):
    """``tf.estimator.EstimatorSpec`` with what only the IPU's has.

    Attributes:
        eval_metrics: ``(function, tensors)`` in place of ``eval_metric_ops``: the
            function makes the pairs on the host of what the device gives.
        host_call: ``(function, tensors)``, to train with ``iterations_per_loop=1``: the
            function is called on the host with what the tensors, in a list or in a
            dict, are in a batch (of several replicas along a first axis), and returns
            operations that are run after each.

    Source: ``tensorflow.python.ipu.ipu_estimator.IPUEstimatorSpec``.

    Example:
        >>> IPUEstimatorSpec(ModeKeys.EVAL, loss=1.0).eval_metrics is None
        True
    """

    host_call: Any = None
    eval_metrics: Any = None


# of predictions that are one tensor
ONLY = "predictions"


class IPUEstimator:
    """Runs a model function in loops on the device.

    Args:
        model_fn: Called with ``features`` and, where it takes them, ``labels``,
            ``mode``, ``params`` and ``config``; returns an ``EstimatorSpec``.
        model_dir: The folder of checkpoints; None: that of ``config``, else a new
            temporary one.
        config: A ``RunConfig`` of ``ipu.ipu_run_config``.
        params: Handed to the functions.
        warm_start_from: Not there.
        train_batch_size: ``params["batch_size"]`` of ``input_fn`` in training.
        eval_batch_size: The same in evaluation.
        predict_batch_size: The same in prediction.

    Source: ``tensorflow.python.ipu.ipu_estimator.IPUEstimator``.

    Example:
        >>> def model_fn(features, labels, mode):
        ...     w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        ...     loss = v1.reduce_mean(v1.square(features * w - labels))
        ...     train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        ...     return EstimatorSpec(mode, loss=loss, train_op=train)
        >>> def input_fn():
        ...     return v1.data.Dataset.from_tensors(([1.0], [3.0])).repeat()
        >>> config = RunConfig(IPURunConfig(iterations_per_loop=10))
        >>> estimator = IPUEstimator(model_fn, config=config).train(input_fn, steps=40)
        >>> round(float(estimator.get_variable_value("w")), 2)
        3.0
    """

    _is_called_with_features = True

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | None = None,
        config: Any = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: Any = None,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
    ) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise ValueError(
                "`config` must be provided with type "
                "`ipu.ipu_run_config.RunConfig`. Received: "
                f"config={type(config).__name__}."
            )
        refuse_given(f"{__name__}.IPUEstimator", warm_start_from=warm_start_from)
        self._model_fn = model_fn
        self._config = config or RunConfig()
        self._params = dict(params or {})
        self._workers = Workers(self._config.train_distribute)
        self._folder = self._workers.first_text(
            model_dir or self._config.model_dir or tempfile.mkdtemp()
        )
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }

    @property
    def model_dir(self) -> str:
        """The folder of checkpoints."""
        return self._folder

    @property
    def config(self) -> Any:
        """The ``RunConfig``."""
        return self._config

    @property
    def params(self) -> dict[str, Any]:
        """A copy of what the functions get."""
        return dict(self._params)

    @property
    def _device(self) -> IPURunConfig:
        found: IPURunConfig = self._config.ipu_run_config
        return found

    # --- what users call --------------------------------------------------------------

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> IPUEstimator:
        """Train from the newest checkpoint on, and write one at the end.

        Args:
            input_fn: Gives a data set of ``features`` or ``(features, labels)``; may
                take ``mode``, ``params``, ``config`` and ``input_context``, which says
                which of several processes this is: then the data set is taken as it is,
                else each process trains on its share.
            hooks: ``SessionRunHook`` objects; those that the model function gives as
                ``training_hooks`` come after them.
            steps: Batches of a replica; a multiple of ``iterations_per_loop``.
            max_steps: The same, counted from the very first training.
            saving_listeners: ``CheckpointSaverListener`` objects.

        Loss and pace are written as summaries into the folder, for TensorBoard.

        Returns:
            The estimator.

        Raises:
            ValueError: Both numbers are given, or one that the loops do not divide.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        size = self._device.iterations_per_loop
        check_steps(size, steps=steps, max_steps=max_steps)
        with self._graph() as step:
            program = self._training(input_fn)
            with tf.control_dependencies([program.run]):
                count = step.assign_add(tf.constant(size))
            saver = Saver(max_to_keep=self._config.keep_checkpoint_max)
            saving = CheckpointSaverHook(
                self._folder,
                *self._config.save_times,
                saver=saver,
                listeners=saving_listeners,
            )
            every_hook = [*(hooks or ()), *program.hooks]
            if self._workers.is_first:
                every_hook.append(saving)
            for hook in every_hook:
                hook.begin()
            with tf.Session() as session:
                self._start(session, saver, None)
                session.run(program.initializer)
                first = int(session.run(step))
                last = first + steps if steps is not None else max_steps
                for hook in every_hook:
                    hook.after_create_session(session, None)
                self._rounds(session, program, (first, last), count, every_hook)
                for hook in every_hook:
                    hook.end(session)
        self._workers.wait_for_all()
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Compute the loss and metrics with the variables of a checkpoint.

        Args:
            input_fn: As for :meth:`train`.
            steps: Batches of a replica; a multiple of ``iterations_per_loop``.
            hooks: Accepted and not used.
            checkpoint_path: The checkpoint; None: the newest.
            name: Of several evaluations: their summaries are written into the folder
                ``eval_name``, those of one without a name into ``eval``.

        Returns:
            ``"loss"``, the mean over the batches, the metrics, and ``"global_step"``.

        Raises:
            ValueError: ``steps`` is missing or no multiple; there is no checkpoint.
        """
        del hooks
        if steps is None:
            raise ValueError("IPUEstimator.evaluate needs `steps`, how many batches.")
        size = self._device.iterations_per_loop
        check_steps(size, steps=steps)
        path = self._checkpoint(checkpoint_path) if self._workers.is_first else None
        with self._graph() as step:
            program, measure = self._evaluation(input_fn)
            saver = Saver()
            with tf.Session() as session:
                self._start(session, saver, path)
                session.run(program.initializer)
                losses, found = [], {}
                for _ in range(steps // size):
                    session.run(program.run)
                    rows = session.run(program.taken)
                    losses.append(np.mean(rows.pop("loss")))
                    found = measure(session, rows)
                number = int(session.run(step))
        measured = {"loss": np.mean(losses), **found}
        folder = os.path.join(self._folder, f"eval_{name}" if name else "eval")
        if self._workers.is_first:
            with FileWriter(folder) as writer:
                write_numbers(writer, number, measured)
        return {**measured, "global_step": number}

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predict until the data set ends.

        Args:
            input_fn: As for :meth:`train`.
            predict_keys: Which of the predictions; None: all.
            hooks: Accepted and not used.
            checkpoint_path: The checkpoint; None: the newest.
            yield_single_examples: Give one example at a time, and not a batch.

        Yields:
            An array, or a dict of arrays.

        Raises:
            ValueError: There is no checkpoint.
        """
        del hooks
        path = self._checkpoint(checkpoint_path) if self._workers.is_first else None
        with self._graph():
            program = self._prediction(input_fn)
            saver = Saver()
            with tf.Session() as session:
                self._start(session, saver, path)
                session.run(program.initializer)
                while True:
                    try:
                        session.run(program.run)
                    except errors.OutOfRangeError:
                        return
                    given = session.run(program.taken)
                    rows = {name: self._joined(value) for name, value in given.items()}
                    if predict_keys is not None:
                        rows = {name: rows[name] for name in predict_keys}
                    is_dict = list(rows) != [ONLY]
                    shown: Any = rows if is_dict else rows[ONLY]
                    if not yield_single_examples:
                        yield shown
                        continue
                    for i in range(len(next(iter(rows.values())))):
                        one = {name: value[i] for name, value in rows.items()}
                        yield one if is_dict else one[ONLY]

    def latest_checkpoint(self) -> str | None:
        """Return the newest checkpoint's path, or None."""
        found: str | None = latest_checkpoint(self._folder)
        return found

    def get_variable_names(self) -> list[str]:
        """Return the names of the variables in the newest checkpoint."""
        return sorted(self._saved())

    def get_variable_value(self, name: str) -> Any:
        """Return a variable's value in the newest checkpoint.

        Raises:
            KeyError: There is no such variable.
        """
        return self._saved()[name.removesuffix(":0")]

    # --- programs ---------------------------------------------------------------------

    def _training(self, input_fn: Callable[..., Any]) -> Program:
        step = get_global_step()
        call: HostCall | None = None
        hooks: tuple[Any, ...] = ()

        def batch(outfeed: Any, features: Any, labels: Any) -> Any:
            nonlocal call, hooks
            with writes_to(step) as written:
                spec = self._spec(features, labels, ModeKeys.TRAIN)
            if written:
                raise ValueError(
                    "model_fn must not change the global step: the estimator counts "
                    "the iterations of its loops. Call minimize without global_step."
                )
            hooks = tuple(spec.training_hooks or ())
            given = getattr(spec, "host_call", None)
            if given is not None:
                call = HostCall.checked(given, self._device.iterations_per_loop)
            more = {} if call is None else call.named()
            with tf.control_dependencies([spec.train_op]):
                return outfeed.enqueue({"loss": tf.identity(spec.loss), **more})

        program = self._looped(input_fn, ModeKeys.TRAIN, batch)
        self._check_collectives()
        host = () if call is None else call.operations(program.taken)
        return program._replace(host=host, hooks=hooks)

    def _check_collectives(self) -> None:
        """Refuse replicas that are trained each on its own."""
        replicas = self._device.num_replicas * self._workers.count
        if replicas > 1 and not tf.get_default_graph().has_collectives:
            raise ValueError(
                "This is not a valid replicated training graph because no cross-"
                f"replica operations were found, and there are {replicas} replicas. "
                "Wrap the optimizer in ipu.optimizers.CrossReplicaOptimizer."
            )

    def _evaluation(self, input_fn: Callable[..., Any]) -> tuple[Program, Any]:
        """Return the program, and what makes metrics of the rows of a round."""
        box: list[Any] = []

        def batch(outfeed: Any, features: Any, labels: Any) -> Any:
            spec = self._spec(features, labels, ModeKeys.EVAL)
            given = getattr(spec, "eval_metrics", None)
            if given is not None:
                function, tensors = given
                box[:] = [function]
                return outfeed.enqueue({"loss": spec.loss, **named(tensors)})
            updates = {
                name: pair[1] for name, pair in (spec.eval_metric_ops or {}).items()
            }
            return outfeed.enqueue({"loss": spec.loss, **updates})

        program = self._looped(input_fn, ModeKeys.EVAL, batch)
        if box:
            rest = {n: t for n, t in program.taken.items() if n != "loss"}
            return program, HostMetrics(box[0], rest)
        return program, newest

    def _prediction(self, input_fn: Callable[..., Any]) -> Program:
        def batch(outfeed: Any, features: Any, labels: Any) -> Any:
            spec = self._spec(features, labels, ModeKeys.PREDICT)
            given = spec.predictions
            is_dict = isinstance(given, Mapping)
            return outfeed.enqueue(dict(given) if is_dict else {ONLY: given})

        return self._looped(input_fn, ModeKeys.PREDICT, batch)

    def _looped(
        self, input_fn: Callable[..., Any], mode: str, batch: Callable[..., Any]
    ) -> Program:
        """Return a loop over batches."""
        infeed, outfeed = self._queues(input_fn, mode)
        size = 1 if mode == ModeKeys.PREDICT else self._device.iterations_per_loop

        def body(*args: Any, **kwargs: Any) -> Any:
            return batch(outfeed, *features_and_labels(args, kwargs))

        return self._compiled(
            lambda: loops.repeat(size, body, [], infeed), infeed, outfeed
        )

    def _compiled(
        self, program: Callable[[], Any], infeed: Any, outfeed: Any
    ) -> Program:
        with scopes.ipu_scope(f"/device:IPU:{self._device.ordinal}"):
            run = ipu_compiler.compile(program, [])
        return Program(infeed.initializer, run, outfeed.dequeue())

    def _queues(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any]:
        params = dict(self._params)
        if self._batch_sizes[mode] is not None:
            params["batch_size"] = self._batch_sizes[mode]
        offered = {"mode": mode, "params": params, "config": self._config}
        knows = takes(input_fn, "input_context")
        if knows:
            offered["input_context"] = self._workers.context()
        dataset = called(input_fn, offered)
        if not isinstance(dataset, Dataset):
            raise ValueError(
                "input_fn must return a tf.data.Dataset. Received: "
                f"{type(dataset).__name__}."
            )
        if mode == ModeKeys.TRAIN and not knows:
            dataset = self._workers.share_of(dataset)
        ordinal = self._device.ordinal
        options: dict[str, Any] = {"device_ordinal": ordinal}
        if self._device.prefetch_depth is not None:
            options["prefetch_depth"] = self._device.prefetch_depth
        infeed = IPUInfeedQueue(dataset, **options)
        return infeed, IPUOutfeedQueue(device_ordinal=ordinal)

    def _spec(self, features: Any, labels: Any, mode: str) -> Any:
        offered = {"mode": mode, "params": self._params, "config": self._config}
        if takes(self._model_fn, "labels"):
            offered["labels"] = labels
        spec = called(self._model_fn, offered, features)
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(
                "model_fn should return an EstimatorSpec. Received: "
                f"{type(spec).__name__}."
            )
        return spec

    # --- sessions ---------------------------------------------------------------------

    @contextmanager
    def _graph(self) -> Iterator[Any]:
        """Open a new graph with its step, for the device that the options ask for."""
        options = self._device.ipu_options
        if isinstance(options, ipu_config.IPUConfig):
            options.configure_ipu_system()
        elif options is not None:
            utils.configure_ipu_system(options)
        with tf.Graph().as_default(), self._workers.scope():
            if self._config.tf_random_seed is not None:
                tf.set_random_seed(self._config.tf_random_seed)
            yield create_global_step()

    def _start(self, session: Any, saver: Any, path: str | None) -> None:
        session.run([tf.global_variables_initializer()])
        session.run([tf.local_variables_initializer()])
        found = path or self.latest_checkpoint()
        if found is not None and self._workers.is_first:
            _log.info("Restoring parameters from %s", found)
            saver.restore(session, found)
        self._workers.begin_together(session, tf.global_variables())

    def _rounds(
        self,
        session: Any,
        program: Program,
        steps: tuple[int, int | None],
        count: Any,
        hooks: Sequence[Any],
    ) -> None:
        """Run the loop from one step to another, or until the data set ends."""
        step, last = steps
        logged, since = step, time.monotonic()
        written = -1
        writes = FileWriter(self._folder) if self._workers.is_first else nullcontext()
        with writes as writer:
            while last is None or step < last:
                try:
                    step, stops = run_with_hooks(session, hooks, count)
                except errors.OutOfRangeError:
                    return
                found = session.run({"taken": program.taken, "host": program.host})
                loss = float(np.mean(found["taken"]["loss"]))
                loss, stops = self._workers.agree(loss, stops)
                every = self._config.save_summary_steps if writer else None
                if every and (written < 0 or step - written >= every):
                    write_numbers(writer, step, {"loss": loss})
                    written = step
                every = self._config.log_step_count_steps if writer else None
                if every and step - logged >= every:
                    now = time.monotonic()
                    rate = (step - logged) / max(now - since, 1e-9)
                    _log.info("loss = %s, step = %d (%.1f steps/s)", loss, step, rate)
                    write_numbers(writer, step, {"global_step/sec": rate})
                    logged, since = step, now
                if stops:
                    return

    def _joined(self, value: Any) -> Any:
        """Return the examples of a round: of batches and replicas one after the
        other."""
        rows = np.asarray(value)
        axes = 2 if self._device.num_replicas == 1 else 3
        return rows.reshape(-1, *rows.shape[axes:])

    def _checkpoint(self, given: str | None) -> str:
        found = given or self.latest_checkpoint()
        if found is None:
            raise ValueError(
                f"Could not find trained model in model_dir: {self._folder}. Call "
                "train first, or give checkpoint_path."
            )
        return found

    def _saved(self) -> dict[str, Any]:
        from safetensors.numpy import load_file

        return load_file(self._checkpoint(None) + ".safetensors")


export(__name__)
