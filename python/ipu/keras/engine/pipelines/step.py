# SPDX-License-Identifier: MIT
"""The step of a model as one function for each stage of a pipeline.

A stage gets what the one before it gives, and nothing else: whatever a later stage
needs travels through all stages in between. These are results of layers with their
masks, the logits under the model's outputs, terms of the loss, targets and weights.
The kind of each tensor is noted while a stage is traced and read by the next.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ipu import tf
from ipu.keras import metrics
from ipu.keras._tensor_notes import logits_of, mask_of, remember_logits, set_mask
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.layer.call_context import call_scope
from ipu.keras.engine.pipelines.calls import (
    FlatModel,
    Key,
    StageCall,
    check_dependencies,
    flatten,
)
from ipu.keras.engine.training.class_weights import with_class_weight
from ipu.keras.engine.training.compile_utils import replicas_in_sync
from ipu.keras.engine.training.data_adapter import expand, unpack
from ipu.tf._tensor.notes import note

_KINDS = ("softmax", "sigmoid")  # of activations whose logits are remembered

_Term = tuple[int, int, int]  # a term of the loss: its layer, 0 or 1, its place


class _State:
    """The values that are known in a stage.

    Attributes:
        values: Results of layers and inputs of the model.
        data: Leaves of targets and sample weights.
        terms: Terms of the loss that layers add, and penalties of weights.
        results: Results of metrics that layers hold, by name.
    """

    def __init__(self) -> None:
        self.values: dict[Key, Tensor] = {}
        self.data: list[Tensor] = []
        self.terms: dict[_Term, Tensor] = {}
        self.results: dict[str, Tensor] = {}


class _Item(NamedTuple):
    """What a tensor is that travels: ``kind`` is value, mask, data, term, result, or
    the kind of an activation whose logits it is."""

    kind: str
    of: Any
    place: int  # among the tensors


class StagedStep:
    """A step of training, evaluation or prediction in stages.

    Args:
        model: A pipelined model that is built, and compiled where the mode needs it.
        element_of: Gives an element of the data for the arguments of stage 0.
        class_weight: A weight for each class, in training.
        parts: The divisor of a step's loss, so that sums of so many are means.

    Attributes:
        functions: A function for each stage. In training the last gives a scalar to
            minimise, the loss of the step and the results; else the results.
    """

    def __init__(
        self,
        model: Any,
        mode: str,
        element_of: Callable[[tuple[Any, ...], dict[str, Any]], Nest],
        class_weight: Any = None,
        parts: int = 1,
    ) -> None:
        self._model = model
        self._mode = mode
        self._element_of = element_of
        self._class_weight = class_weight
        self._parts = parts
        count = model._stage_count()
        flat = flatten(model, model._stage_tree(), mode == "train")
        check_dependencies(flat)
        self._flat: FlatModel = flat
        self._calls: list[list[StageCall]] = [
            [call for call in flat.calls if call.stage == stage]
            for stage in range(count)
        ]
        self._needed = self._needed_after()
        self._last_use = self._last_uses()
        self._penalties = [] if mode == "predict" else self._stages_of_penalties()
        self._metrics = [] if mode == "predict" else self._metrics_of_layers()
        self._handed: list[list[_Item]] = [[] for _ in range(count)]
        self._targets: Nest = None  # the form of targets and weights
        self._names: list[str] = []
        self.functions = [self._function(stage) for stage in range(count)]

    # --- what is settled before ------------------------------------------------------

    def _needed_after(self) -> list[list[Key]]:
        """Return the values of each stage that later ones take, in the order they
        arise."""
        last_use: dict[Key, int] = {}
        for call in self._flat.calls:
            for key in self._flat.origins_of(call):
                last_use[key] = max(call.stage, last_use.get(key, 0))
        for key in self._flat.outputs:
            last_use[self._flat.origin(key)] = len(self._calls) - 1
        made: dict[Key, int] = {key: 0 for key in self._flat.inputs}
        for call in self._flat.calls:
            for symbol in tf.nest.flatten(call.node.outputs):
                made[call.key(symbol)] = call.stage
        return [
            [k for k, at in made.items() if at <= stage < last_use.get(k, 0)]
            for stage in range(len(self._calls))
        ]

    def _last_uses(self) -> dict[int, int]:
        """Return the last stage that calls a layer, by the layer's id. Its variables
        are at hand there, and have been changed by all calls."""
        uses: dict[int, int] = {}
        for call in self._flat.calls:
            for layer in call.node.layer._flatten_layers():
                uses[id(layer)] = max(call.stage, uses.get(id(layer), 0))
        return uses

    def _stages_of_penalties(self) -> list[tuple[_Term, int, Any, Any]]:
        """Return penalties of weights: their place, stage, function and weight."""
        last = len(self._calls) - 1
        return [
            ((place, 1, i), self._last_use.get(id(layer), last), penalty, variable)
            for place, layer in enumerate(self._model._flatten_layers())
            for i, (variable, penalty) in enumerate(layer._regularized)
        ]

    def _metrics_of_layers(self) -> list[tuple[int, Any]]:
        """Return metrics that layers hold and update by themselves, with their
        stage."""
        last = len(self._calls) - 1
        compiled = self._model.compiled_loss.metrics
        compiled = compiled + self._model.compiled_metrics.metrics
        found: dict[int, tuple[int, Any]] = {}
        for layer in self._model._flatten_layers():
            for value in layer.__dict__.values():
                if any(value is metric for metric in compiled):
                    continue
                if isinstance(value, metrics.Metric):
                    at = self._last_use.get(id(layer), last)
                    found.setdefault(id(value), (at, value))
        return list(found.values())

    # --- a stage ----------------------------------------------------------------------

    def _function(self, stage: int) -> Callable[..., list[Tensor]]:
        def run(*args: Any, **kwargs: Any) -> list[Tensor]:
            return self._run(stage, args, kwargs)

        run.__name__ = f"stage_{stage}"
        return run

    def _run(
        self, stage: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Tensor]:
        if stage == 0:
            self._model._clear_losses()
            state = self._with_data(self._element_of(args, kwargs))
        else:
            state = self._received(self._handed[stage - 1], args)
        with call_scope(self._mode == "train"):
            for call in self._calls[stage]:
                self._call(call, state)
            self._collect_terms(stage, state)
            if stage == len(self._calls) - 1:
                return self._finish(state)
        return self._handed_on(stage, state)

    def _with_data(self, element: Nest) -> _State:
        state = _State()
        graph = self._flat.graph
        x, y, weight = unpack(element)
        x = expand(x)
        x = self._model._cast(x) if self._model._autocast else x
        tensors = graph.arrange(x)
        for i, (key, tensor) in enumerate(zip(self._flat.inputs, tensors, strict=True)):
            state.values[key] = graph.fit(i, tensor)
        if self._mode != "predict":
            state.data = [v for v in tf.nest.flatten((y, weight)) if v is not None]
            self._targets = tf.nest.map_structure(
                lambda leaf: None if leaf is None else 0, (y, weight)
            )
        return state

    def _value(self, key: Key, state: _State) -> Tensor:
        value = state.values.get(key)
        if value is None:
            other, fit = self._flat.sources[key]
            value = self._value(other, state)
            value = value if fit is None else fit(value)
            state.values[key] = value
        return value

    def _call(self, call: StageCall, state: _State) -> None:
        symbols = call.node.keras_inputs
        given = {id(s): self._value(call.key(s), state) for s in symbols}
        for symbol, result in call.node.run(given):
            state.values[call.key(symbol)] = result

    def _collect_terms(self, stage: int, state: _State) -> None:
        """Take what layers add to the loss, and what belongs to this stage."""
        for place, layer in enumerate(self._model._flatten_layers()):
            before = sum(1 for p, kind, _ in state.terms if p == place and kind == 0)
            for i, term in enumerate(layer._losses):
                state.terms[place, 0, before + i] = term
            layer._losses.clear()
        for name, at, penalty, variable in self._penalties:
            if at == stage:
                state.terms[name] = penalty(variable)
        for at, metric in self._metrics:
            if at == stage:
                state.results[metric.name] = metric.result()

    # --- between stages ---------------------------------------------------------------

    def _handed_on(self, stage: int, state: _State) -> list[Tensor]:
        """Return the tensors for the next stage; what they are is noted."""
        tensors: list[Tensor] = []
        places: dict[int, int] = {}
        items: list[_Item] = []

        def add(kind: str, of: Any, tensor: Tensor) -> None:
            place = places.get(id(tensor))
            if place is None:
                place = places[id(tensor)] = len(tensors)
                tensors.append(tensor)
            items.append(_Item(kind, of, place))

        outputs = {self._flat.origin(key) for key in self._flat.outputs}
        for key in self._needed[stage]:
            value = state.values[key]
            add("value", key, value)
            mask = mask_of(value)
            if mask is not None:
                add("mask", key, mask)
            for kind in _KINDS if key in outputs else ():
                logits = logits_of(value, kind)  # type: ignore[arg-type]
                if logits is not None:
                    add(kind, key, logits)
        for i, tensor in enumerate(state.data):
            add("data", i, tensor)
        if self._mode != "predict":
            for place_of_term, term in state.terms.items():
                add("term", place_of_term, term)
            for name, result in state.results.items():
                add("result", name, result)
        self._handed[stage] = items
        return tensors

    def _received(self, items: Sequence[_Item], tensors: Sequence[Tensor]) -> _State:
        state = _State()
        for kind, of, place in items:
            tensor = tensors[place]
            if kind == "value":
                state.values[of] = tensor
            elif kind == "data":
                state.data.append(tensor)
            elif kind == "term":
                state.terms[of] = tensor
            elif kind == "result":
                state.results[of] = tensor
            elif kind == "mask":
                set_mask(state.values[of], tensor)
            else:
                remember_logits(state.values[of], tensor, kind)  # type: ignore[arg-type]
        return state

    # --- the end ----------------------------------------------------------------------

    def _finish(self, state: _State) -> list[Tensor]:
        flat = self._flat
        leaves = [self._value(key, state) for key in flat.outputs]
        if self._mode == "predict":
            return leaves
        outputs = tf.nest.pack_sequence_as(flat.graph.outputs, leaves)
        y, weight = self._with_leaves(state.data)
        if self._class_weight is not None:
            _, y, weight = with_class_weight((None, y, weight), self._class_weight)
        y = None if y is None else expand(y)
        weight = None if weight is None else expand(weight)
        model = self._model
        terms = [state.terms[name] for name in sorted(state.terms)]
        loss = model.compiled_loss(y, outputs, weight, terms)
        model.compiled_metrics.update_state(y, outputs, weight)
        logs = {
            metric.name: state.results[metric.name]
            if metric.name in state.results
            else metric.result()
            for metric in model.metrics
        }
        self._names = list(logs)
        results = [tf.identity(result) for result in logs.values()]
        for result in results:  # of all steps of an epoch so far
            note(result, "running", True)
        if self._mode == "test":
            return results
        model._assert_has_loss()
        mean = tf.reduce_mean(loss) if loss.shape else loss
        if (replicas := replicas_in_sync()) > 1:
            mean = mean * float(replicas)  # the loss is a replica's share
        objective = tf.reduce_sum(loss) if loss.shape else loss
        if self._parts > 1:
            mean = tf.cast(mean, "float32") / float(self._parts)
        return [objective, mean, *results]

    def _with_leaves(self, data: list[Tensor]) -> tuple[Nest, Nest]:
        """Return targets and weights, with the tensors of this stage."""
        leaves = iter(data)
        y, weight = tf.nest.map_structure(
            lambda leaf: None if leaf is None else next(leaves), self._targets
        )
        return y, weight

    # --- results ----------------------------------------------------------------------

    def arrangement(self) -> Callable[[Nest], Nest]:
        """Return what arranges what the outfeed gave: all that the last stage gives,
        except what is minimised, as the steps of models that are not pipelined give
        it."""
        if self._mode == "predict":
            form = tf.nest.map_structure(lambda _: 0, self._flat.graph.outputs)
            return functools.partial(_as_outputs, form)
        arrange = _as_logs if self._mode == "test" else _as_loss_and_logs
        return functools.partial(arrange, self._names)


def _as_outputs(form: Nest, results: Nest) -> Nest:
    return tf.nest.pack_sequence_as(form, tf.nest.flatten(results))


def _as_logs(names: list[str], results: Nest) -> Nest:
    return {"logs": dict(zip(names, tf.nest.flatten(results), strict=True))}


def _as_loss_and_logs(names: list[str], results: Nest) -> Nest:
    loss, *logs = tf.nest.flatten(results)
    return {"logs": dict(zip(names, logs, strict=True)), "loss": {"loss": loss}}
