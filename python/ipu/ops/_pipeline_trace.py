# SPDX-License-Identifier: MIT
"""A pipeline as a part of a traced program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ipu import _core, tf
from ipu._core import Tensor
from ipu._loops.accumulation import MicroBatches, accumulator_dtype, at_stage
from ipu._loops.optimizer_state import StatePlaces
from ipu.gradient_accumulation import GradientAccumulationReductionMethod
from ipu.ops._pipeline_arguments import Stage, check_call
from ipu.ops._pipeline_options import OptimizerFunctionOutput, is_optimizer_v2
from ipu.tf import nest
from ipu.tf._functions.tracing import current_build
from ipu.tf._tensor.notes import noted
from ipu.tf._tensor.operation import Operation


class Options(NamedTuple):
    """The arguments of a pipeline; see :func:`ipu.pipelining_ops.pipeline`."""

    inputs: list[Tensor]
    infeed_queue: Any
    outfeed_queue: Any
    optimizer_function: Callable[..., Any] | None
    method: GradientAccumulationReductionMethod
    dtype: Any
    outfeed_loss: bool
    outfeed_mask: Sequence[bool] | None
    accumulate_outfeed: bool
    outfeed_dtype: Any
    accumulate_captured: bool
    places: StatePlaces


class _MicroBatch(NamedTuple):
    """The values that a micro-batch leaves for the update, by their carried numbers.

    Attributes:
        sums: For each variable its accumulated gradient; None: it has none.
    """

    output: OptimizerFunctionOutput | None
    outfed: list[int]
    sums: list[tuple[int | None, Any]]
    captured: tuple[list[int], Any] | None


class TracedPipeline:
    """One pipeline, while it is traced.

    Args:
        count: The number of micro-batches of an execution.
    """

    def __init__(
        self,
        trace: _core.Trace,
        stages: Sequence[Stage],
        count: int,
        options: Options,
        attrs: dict[str, Any],
    ) -> None:
        self._trace = trace
        self._stages = stages
        self._count = count
        self._options = options
        self._attrs = attrs
        self._last = max(stage.position for stage in stages)

    def run(self) -> None:
        """Trace one execution: the micro-batches, then the update."""
        batches = MicroBatches(self._trace, self._count)
        with batches.open():
            micro_batch = self._micro_batch(batches)
        finals = batches.finish(self._attrs)
        if micro_batch.output is not None:
            self._update(micro_batch.output, micro_batch, finals)
        if micro_batch.outfed:
            values = [finals[number] for number in micro_batch.outfed]
            self._options.outfeed_queue.enqueue(
                values[0] if self._options.outfeed_loss else values
            )

    def _micro_batch(self, batches: MicroBatches) -> _MicroBatch:
        """Go forward through the stages, and back."""
        output: OptimizerFunctionOutput | None = None
        with tf.GradientTape() as tape:
            results, structure = self._forward()
            if self._options.optimizer_function is not None:
                with at_stage(self._trace, self._last_stage()):
                    returned = self._options.optimizer_function(*results)
                output = _checked_output(returned)
        self._check_captures(batches.body)
        outfed = self._outfed(results, structure, output)
        numbers: list[int] = []
        if outfed is not None and self._options.accumulate_outfeed:
            numbers = self._accumulated(batches, nest.flatten(outfed))
        elif outfed is not None:
            with at_stage(self._trace, self._last_stage()):
                self._options.outfeed_queue.enqueue(outfed)
        if output is None:
            return _MicroBatch(None, numbers, [], None)
        after = self._trace.last_node()
        sums = self._backward(batches, output, tape.watched_variables())
        captured = self._captured(batches, output)
        self._trace.mark_backward(after)
        return _MicroBatch(output, numbers, sums, captured)

    def _update(
        self,
        output: OptimizerFunctionOutput,
        micro_batch: _MicroBatch,
        finals: Sequence[Tensor],
    ) -> None:
        """Change the variables, with what the micro-batches have carried."""
        # the optimizer's variables live as long as the program
        current_build().notes["pipeline"] = output.opt
        keywords = dict(output.apply_gradients_kwargs)
        if micro_batch.captured is not None:
            numbers, structure = micro_batch.captured
            found = nest.pack_sequence_as(structure, [finals[n] for n in numbers])
            if output.captured_gradient_outfeed is not None:
                output.captured_gradient_outfeed.enqueue(found)
            if getattr(output.opt, "supports_captured_grads", False):
                keywords["captured_grads"] = found
        pairs = [(None if i is None else finals[i], v) for i, v in micro_batch.sums]
        output.opt.apply_gradients(pairs, *output.apply_gradients_args, **keywords)
        weights = [variable for _, variable in micro_batch.sums]
        self._options.places.settle(output.opt, weights)

    def _check_captures(self, body: int) -> None:
        found = self._trace.captures(body, self._options.inputs)
        if found is not None:
            raise ValueError(
                f"Trying to capture the tensor {found} which is not a resource. Stages "
                "and the optimizer function may use variables and what they are called "
                "with: pass the tensor through the `inputs` argument or the infeed, "
                "and make constants inside of the stage."
            )

    def _is_concurrent(self) -> bool:
        """Return whether several stages share the last position."""
        return sum(stage.position == self._last for stage in self._stages) > 1

    def _last_stage(self) -> int:
        """Return the stage where the last results are used: after all stages if several
        make them."""
        return len(self._stages) - (0 if self._is_concurrent() else 1)

    def _forward(self) -> tuple[list[Tensor], Any]:
        """Return the results of the last stage: flat, and as it returned them."""
        args: tuple[Any, ...] = tuple(self._options.inputs)
        keywords: dict[str, Any] = {}
        with at_stage(self._trace, 0):
            if self._options.infeed_queue is not None:
                fed, keywords = self._options.infeed_queue._dequeue_arguments()
                args += fed
        results: list[Tensor] = []
        structure: Any = None
        for position in range(self._last + 1):
            results = []
            for number, stage in enumerate(self._stages):
                if stage.position != position:
                    continue
                check_call(stage, args, keywords)
                with at_stage(self._trace, number):
                    structure = stage.function(*args, **keywords)
                    results.extend(_tensors_of(stage, structure))
            args = tuple(results)
            keywords = {}
        return results, results if self._is_concurrent() else structure

    # --- the outfeed -----------------------------------------------------------------

    def _outfed(
        self,
        results: Sequence[Tensor],
        structure: Any,
        output: OptimizerFunctionOutput | None,
    ) -> Any:
        """Return the values that are enqueued; None for nothing."""
        if self._options.outfeed_loss and output is not None:
            return Tensor(output.loss)
        if not results:
            return None
        kept = list(results)
        if self._options.outfeed_mask is not None:
            if len(self._options.outfeed_mask) != len(results):
                raise ValueError(
                    f"The last computational stage has {len(results)} outputs, but "
                    f"outfeed_mask has {len(self._options.outfeed_mask)} entries: give "
                    "one for each output."
                )
            kept = [
                r
                for r, is_masked in zip(
                    results, self._options.outfeed_mask, strict=True
                )
                if not is_masked
            ]
            if not kept:
                return None
        if self._options.outfeed_queue is None:
            raise ValueError(
                f"The last computational stage has tensor outputs: {kept}, but no "
                "outfeed_queue has been provided. Pass an IPUOutfeedQueue, or return "
                "nothing."
            )
        if (
            self._options.optimizer_function is not None
            or self._options.accumulate_outfeed
        ):
            return kept
        flat = nest.flatten(structure)
        is_plain = len(flat) == len(results) and not isinstance(structure, tuple)
        if not is_plain:
            return kept
        return nest.pack_sequence_as(structure, list(results))

    def _accumulated(
        self, batches: MicroBatches, values: Sequence[Tensor]
    ) -> list[int]:
        """Return sums over the micro-batches; of what is running the last one."""
        total, dtype = (
            GradientAccumulationReductionMethod.SUM,
            self._options.outfeed_dtype,
        )
        return [
            self._carried_last(batches, value)
            if noted(value, "running")
            else batches.add(value, total, accumulator_dtype(dtype, value))
            for value in values
        ]

    def _carried_last(self, batches: MicroBatches, value: Tensor) -> int:
        """Have a value of the last micro-batch at the end."""
        with at_stage(self._trace, self._trace.stage_of(value)):
            kind = (value.dtype.name, tuple(value.shape))
            return batches.carry(kind, _always(tf.identity(value)))

    # --- the way back ----------------------------------------------------------------

    def _backward(
        self,
        batches: MicroBatches,
        output: OptimizerFunctionOutput,
        watched: Sequence[Any],
    ) -> list[tuple[int | None, Any]]:
        """Accumulate the gradients; their numbers among what is carried, or None for a
        variable that the loss does not depend on."""
        pairs = _gradients(output, watched)
        return [
            (
                None
                if gradient is None
                else batches.add(
                    gradient,
                    self._options.method,
                    accumulator_dtype(self._options.dtype, variable),
                ),
                variable,
            )
            for gradient, variable in pairs
        ]

    def _captured(
        self, batches: MicroBatches, output: OptimizerFunctionOutput
    ) -> tuple[list[int], Any] | None:
        """Carry what was captured on the way back; its numbers, and its structure."""
        context = output.gradient_capture_context
        if context is None or not context.captured_gradients:
            return None
        structure = dict(context.captured_gradients)
        context.captured_gradients.clear()  # they are tensors of the micro-batch
        total = GradientAccumulationReductionMethod.SUM
        numbers = []
        for value in nest.flatten(structure):
            if self._options.accumulate_captured:
                numbers.append(batches.add(value, total, value.dtype.name))
                continue
            numbers.append(self._carried_last(batches, value))
        return numbers, structure


def _always(value: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _: value


def _checked_output(value: Any) -> OptimizerFunctionOutput:
    if not isinstance(value, OptimizerFunctionOutput):
        raise TypeError(
            "optimizer_function must return an OptimizerFunctionOutput, such as "
            f"OptimizerFunctionOutput(optimizer, loss). Received: {value!r}."
        )
    return value


def _gradients(
    output: OptimizerFunctionOutput, watched: Sequence[Any]
) -> list[tuple[Any, Any]]:
    """Return pairs of a gradient and a variable."""
    if is_optimizer_v2(output.opt):
        variables = output.variables
        if variables is None and output.tape is not None:
            variables = output.tape.watched_variables()
        if not variables:
            raise RuntimeError(
                "No variables to optimize. With an optimizer of Keras's, say which to "
                "train: OptimizerFunctionOutput(opt, loss, variables=model."
                "trainable_variables), or a tape that has watched them."
            )
        variables = list(nest.flatten(variables))
        gradients = output.opt.get_gradients(output.loss, variables)
        return list(zip(gradients, variables, strict=True))
    keywords = dict(output.compute_gradients_kwargs)
    args = output.compute_gradients_args
    if "var_list" not in keywords and not args:
        keywords["var_list"] = list(watched)
    if not args and not keywords["var_list"]:
        raise ValueError("No variables to optimize.")
    return list(output.opt.compute_gradients(output.loss, *args, **keywords))


def _tensors_of(stage: Stage, returned: Any) -> list[Tensor]:
    """Return the tensors in what a stage returned, flat."""
    result = []
    for leaf in nest.flatten([] if returned is None else returned):
        if leaf is None or isinstance(leaf, Operation):
            continue
        try:
            result.append(Tensor(leaf))
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"Stage {stage.position} of computational_stages must return tensors: "
                f"{error}"
            ) from None
    return result
