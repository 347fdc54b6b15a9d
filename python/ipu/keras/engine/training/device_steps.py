# SPDX-License-Identifier: MIT
"""Steps of a model in a device program, on the elements of an infeed.

One after another; with gradients that are accumulated over several of them; or in a
pipeline. All three give the outfeed the results of each step, and the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ipu import loops, tf
from ipu._loops import accumulation
from ipu.eager.backprop import GradientCaptureContext, active_context
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.pipelines.step import StagedStep
from ipu.ops import pipelining_ops
from ipu.tf import nest

if TYPE_CHECKING:
    from ipu.keras.engine.training.trainer import Trainer


class Steps:
    """The body of a device program, whose outfeed gets the results as they are.

    Attributes:
        diagnose: Makes the account of a step, for the spec of its elements; None where
            nobody can.
        account: The same for later, with options: it does not hold the model.
    """

    diagnose: Callable[[Nest], Any] | None = None
    account: Callable[..., Any]

    def build(
        self, count: Any, infeed: IPUInfeedQueue, outfeed: IPUOutfeedQueue, rows: int
    ) -> None:
        """Trace ``count`` steps, with the first ``rows`` rows of elements; 0: all."""
        raise NotImplementedError

    def arrangement(self) -> Callable[[Nest], Nest]:
        """Return what arranges results of the outfeed by name, or as the model's
        outputs.

        It is asked for once the steps are traced, and does not hold the model.
        """
        return _as_given

    def steps_of(self, results: int) -> int:
        """Return how many steps so many entries of the outfeed are the results of."""
        return results


def _element(
    infeed: IPUInfeedQueue, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Nest:
    """Return the element of a data set that a body was called with."""
    is_tuple = isinstance(infeed._structure, (tuple, list))
    if kwargs:
        return (kwargs,) if is_tuple else kwargs
    return args if is_tuple else args[0]


def _as_given(results: Nest) -> Nest:
    return results


class PlainSteps(Steps):
    """Steps one after another.

    Args:
        step: Takes an element of the data, gives a nest for the outfeed.
        settle: Called when the steps are traced.
    """

    def __init__(
        self, step: Callable[[Nest], Nest], settle: Callable[[], None] | None = None
    ) -> None:
        self._step = step
        self._settle = settle or (lambda: None)

    def build(
        self, count: Any, infeed: IPUInfeedQueue, outfeed: IPUOutfeedQueue, rows: int
    ) -> None:
        def body(*args: Any, **kwargs: Any) -> None:
            element = _element(infeed, args, kwargs)
            if rows:
                element = tf.nest.map_structure(lambda leaf: leaf[:rows], element)
            outfeed.enqueue(self._step(element))

        loops.repeat(count, body, [], infeed)
        self._settle()


class AccumulatedSteps(PlainSteps):
    """Steps of training with an update of weights after every few of them.

    Args:
        step: As ``PlainSteps``; where the model is ``_minimising``, it updates nothing.
        per_update: Steps of an update.
        reduction_method: How the gradients of an update become one.
        dtype: Of the accumulators; None for the variables'.
        settle: As for ``PlainSteps``.
    """

    def __init__(
        self,
        model: Trainer,
        step: Callable[[Nest], Nest],
        per_update: int,
        reduction_method: Any,
        dtype: Any = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(step, settle)
        self._model = model
        self._per_update = per_update
        self._method = reduction_method
        self._dtype = dtype

    def build(
        self, count: Any, infeed: IPUInfeedQueue, outfeed: IPUOutfeedQueue, rows: int
    ) -> None:
        del rows
        optimizer, variables = self._model.optimizer, self._model.trainable_variables
        missing: list[Any] = []
        structures: list[Any] = []  # of what is captured

        def micro_batch() -> tuple[list[tuple[Any, Any]], list[Any]]:
            args, kwargs = infeed._dequeue_arguments()
            objectives: list[Tensor] = []
            with capturing() as context, self._model._minimising(objectives.append):
                results = self._step(_element(infeed, args, kwargs))
            outfeed.enqueue(results)
            pairs = optimizer._compute_gradients(objectives[0], variables)
            missing.extend(pair for pair in pairs if pair[0] is None)
            structures.append(dict(context.captured_gradients))
            # they are added up as the variables' are
            return [*pairs, *((g, g) for g in nest.flatten(structures[0]))], []

        def update() -> None:
            pairs, _ = accumulation.accumulate(
                self._per_update,
                micro_batch,
                reduction_method=self._method,
                dtype=self._dtype,
            )
            count = len(variables) - len(missing)
            more: dict[str, Any] = {}
            if wants_captured(optimizer):
                found = [gradient for gradient, _ in pairs[count:]]
                more["captured_grads"] = nest.pack_sequence_as(structures[0], found)
            optimizer.apply_gradients([*pairs[:count], *missing], **more)

        loops.repeat(count // self._per_update, update, [])
        self._settle()


class PipelinedSteps(Steps):
    """Steps of a pipelined model.

    Args:
        steps: Of an update, or of an execution where nothing is trained.
        has_sums: Whether the outfeed gets sums over them.
        options: More keyword arguments for ``pipelining_ops.pipeline``.
        class_weight: A weight for each class, in training.
    """

    def __init__(
        self,
        model: Trainer,
        mode: str,
        steps: int,
        has_sums: bool,
        options: dict[str, Any],
        class_weight: Any = None,
    ) -> None:
        self._model = model
        self._mode = mode
        self._steps = steps
        self._has_sums = has_sums
        self._options = options
        self._class_weight = class_weight
        self._step: StagedStep | None = None
        self._capturing: GradientCaptureContext | None = None

    def build(
        self, count: Any, infeed: IPUInfeedQueue, outfeed: IPUOutfeedQueue, rows: int
    ) -> None:
        del rows
        model = self._model
        step = self._step = StagedStep(
            model,
            self._mode,
            lambda args, kwargs: _element(infeed, args, kwargs),
            self._class_weight,
            parts=self.steps_of(1),
        )
        arguments: dict[str, Any] = {
            "device_mapping": model._pipelining_device_mapping,
            "accumulate_outfeed": self._has_sums,
            "batch_serialization_iterations": model._serialized,
            "name": model.name,
            **self._options,
        }
        if self._mode == "train":
            arguments["optimizer_function"] = self._optimizer_function
            arguments.setdefault("reduction_method", model._accumulation_reduction)
            arguments.setdefault("gradient_accumulation_for_captured_grads", False)
            # what is minimised stays; the loss and the metrics' results go out
            shown = 1 + len(model.metrics)
            arguments["outfeed_mask"] = [True] + [False] * shown
        with capturing() as self._capturing:
            pipelining_ops.pipeline(
                step.functions,
                gradient_accumulation_count=self._steps // model._serialized,
                repeat_count=count // self._steps,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                **arguments,
            )

    def _optimizer_function(
        self, objective: Tensor, *results: Tensor
    ) -> pipelining_ops.OptimizerFunctionOutput:
        del results
        return pipelining_ops.OptimizerFunctionOutput(
            self._model.optimizer,
            objective,
            variables=self._model.trainable_variables,
            gradient_capture_context=self._capturing,
        )

    def arrangement(self) -> Callable[[Nest], Nest]:
        assert self._step is not None
        return self._step.arrangement()

    def steps_of(self, results: int) -> int:
        return results * self._steps if self._has_sums else results


@contextmanager
def capturing() -> Iterator[GradientCaptureContext]:
    """Yield the context that captures already, or a new one."""
    known = active_context()
    if known is not None:
        yield known
        return
    with GradientCaptureContext() as context:
        yield context


def wants_captured(optimizer: Any) -> bool:
    """Return whether ``apply_gradients`` takes ``captured_grads``."""
    return bool(getattr(optimizer, "supports_captured_grads", False))
