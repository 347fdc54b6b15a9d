# SPDX-License-Identifier: MIT
"""Losses, their class weights, and metrics of a model with one output or several.

The containers are built once the outputs are known: before the step is traced, or by
their first use in a step of the user's own. They are used inside the traced step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ipu import tf
from ipu._device import strategy_state
from ipu._text.user_warnings import warn_user
from ipu.keras import _names, losses, metrics
from ipu.keras._shape_fitting import fit_weights
from ipu.keras._tensor_notes import mask_of
from ipu.keras._types import Nest, Tensor
from ipu.tf._functions.tracing import init_scope


def _by_output(what: str, given: Any, names: list[str]) -> list[Any]:
    """Return one entry for each output, from a dict, a list or a single value."""
    if isinstance(given, Mapping):
        for key in given:
            if key not in names:
                raise ValueError(
                    f"Found unexpected key {key!r} in `{what}`: the outputs are named "
                    f"{names}.{_names.nearest(str(key), names)}"
                )
        return [given.get(name) for name in names]
    if isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError(
                f"`{what}` must have one entry for each of the {len(names)} outputs "
                f"{names}. Received: {len(given)} entries."
            )
        return list(given)
    return [given for _ in names]


def _targets(nest: Nest, names: list[str], has_loss: Sequence[bool]) -> list[Any]:
    """Return the leaves of targets in the order of the outputs; there may be some for
    those outputs alone that have a loss."""
    if isinstance(nest, Mapping) and any(name in nest for name in names):
        for key in nest:
            if key not in names:
                raise ValueError(
                    f"There are targets for {key!r}, but the outputs are named {names}."
                    f"{_names.nearest(str(key), names)}"
                )
        return [nest.get(name) for name in names]
    if nest is None:
        return [None] * len(names)
    leaves = tf.nest.flatten(nest)
    if len(leaves) == sum(has_loss) < len(names):
        given = iter(leaves)
        return [next(given) if has else None for has in has_loss]
    if len(leaves) != len(names):
        raise ValueError(
            f"The model has {len(names)} outputs {names}, but there are {len(leaves)} "
            "targets. Give one for each output, or one for each that has a loss."
        )
    return leaves


def _weights(nest: Nest, names: list[str]) -> list[Any]:
    """Return the sample weights of each output; one for all where there is one."""
    if isinstance(nest, Mapping):
        return [nest.get(name) for name in names]
    leaves = [None] if nest is None else tf.nest.flatten(nest)
    if len(leaves) not in (1, len(names)):
        raise ValueError(
            f"The model has {len(names)} outputs {names}, but there are {len(leaves)} "
            "sample weights. Give one for each output, or one for all."
        )
    return leaves * len(names) if len(leaves) == 1 else leaves


class LossesContainer:
    """The losses of all outputs, and their running means.

    Args:
        loss: A loss, or a list or dict of them by output.
        loss_weights: A factor, or a list or dict of them.
        names_of: Gives the names of outputs.
    """

    def __init__(
        self,
        loss: Any,
        loss_weights: Any,
        names_of: Callable[[Nest], list[str]],
    ) -> None:
        self._given = loss
        self._names_of = names_of
        self._given_weights = loss_weights
        self._losses: list[losses.Loss | None] = []
        self._weights: list[float] = []
        self._names: list[str] = []
        self._means: list[metrics.Mean | None] = []  # of each of several outputs
        # names of losses are checked at once, not when the first data come
        for one in tf.nest.flatten(loss):
            losses.get(one)
        self._total: metrics.Mean | None = None
        self._is_held = False
        self._rows: int | None = None  # of the last call's batch
        self.built = False

    def build(self, output_names: list[str]) -> None:
        if self.built:
            return
        self._names = output_names
        found = _by_output("loss", self._given, output_names)
        self._losses = [_as_loss(one) for one in found]
        weights = _by_output("loss_weights", self._given_weights, output_names)
        self._weights = [1.0 if w is None else float(w) for w in weights]
        self._total = metrics.Mean("loss")
        one = len(output_names) == 1
        self._means = [
            None if one or loss is None else metrics.Mean(f"{name}_loss")
            for name, loss in zip(output_names, self._losses, strict=True)
        ]
        self.built = True

    @property
    def has_loss(self) -> list[bool]:
        """For each output whether it has one; empty before they are known."""
        return [loss is not None for loss in self._losses]

    @property
    def parts(self) -> list[Any]:
        """The parts that a program of the losses is traced from."""
        return [self._losses, self._weights]

    @property
    def metrics(self) -> list[metrics.Metric]:
        """The running means: the total, then one for each of several outputs.

        None before the first use: a step of the user's own may do without.
        """
        return [mean for mean in (self._total, *self._means) if mean is not None]

    def __call__(
        self,
        y_true: Nest,
        y_pred: Nest,
        sample_weight: Nest = None,
        regularization_losses: list[Tensor] | None = None,
    ) -> Tensor:
        """Take the total loss of a batch into the running means, and return the
        replica's share of it: where a strategy counts replicas, the shares add up to a
        mean."""
        if not self.built:
            with init_scope():
                self.build(self._names_of(y_pred))
        outputs = tf.nest.flatten(y_pred)
        targets = _targets(y_true, self._names, self.has_loss)
        weights = _weights(sample_weight, self._names)
        total: Any = None
        whole: Any = None  # what replicas do not share: losses that are sums
        rows: int | None = None  # of the batch: what its mean counts for
        compiled = zip(
            self._names, self._losses, self._weights, self._means, strict=True
        )
        parts = zip(compiled, targets, outputs, weights, strict=True)
        for (name, loss, factor, mean), target, output, weight in parts:
            if loss is None:
                continue
            if target is None and regularization_losses:
                # data without targets: what add_loss gave is the loss
                continue
            if target is None:
                raise ValueError(
                    f"The loss of output {name!r} needs targets, but the data have "
                    "none for it. Give it targets, or no loss."
                )
            weight = _with_mask(weight, output)
            _warn_of_classes(loss, target, output)
            try:
                value = loss(target, output, sample_weight=weight)
            except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
                _name_loss(error, loss, target, output)
                raise
            if rows is None:
                rows = int(target.shape[0])
            value = tf.cast(value, "float32")
            if mean is not None:
                mean.update_state(value, rows)
            if factor != 1.0:
                value = value * factor
            total = value if total is None else _sum(total, value)
            if loss.reduction == losses.Reduction.SUM:
                whole = value if whole is None else _sum(whole, value)
        for term in regularization_losses or []:
            total = term if total is None else _sum(total, term)
        self.is_missing = total is None  # whether there is no loss to be minimised
        if total is None:  # a model may be evaluated by metrics alone
            total = tf.zeros(())
        self._rows = rows
        if not self._is_held:
            assert self._total is not None
            self._total.update_state(total, rows)
        return _share_of(total, whole)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Leave the mean of the total loss as it is; :meth:`take` changes it."""
        self._is_held, self._rows = True, None
        try:
            yield
        finally:
            self._is_held = False

    def take(self, value: Tensor, y_pred: Nest) -> None:
        """Take the loss that a subclass of ``Model`` computed into the mean."""
        if not self.built:
            with init_scope():
                self.build(self._names_of(y_pred))
        self.is_missing = False
        assert self._total is not None
        rows = self._rows
        if rows is None:
            rows = int((tf.nest.flatten(y_pred)[0].shape or (1,))[0])
        self._total.update_state(value * float(replicas_in_sync()), rows)


def replicas_in_sync() -> int:
    """Return how many replicas share a mean, as the strategy counts them."""
    strategy = strategy_state.get_strategy()
    return 1 if strategy is None else strategy.num_replicas_in_sync


def _share_of(total: Tensor, whole: Tensor | None) -> Tensor:
    replicas = float(replicas_in_sync())
    if replicas == 1.0:
        return total
    return total / replicas if whole is None else (total - whole) / replicas + whole


def _sum(one: Tensor, other: Tensor) -> Tensor:
    if one.shape != other.shape:
        raise ValueError(
            "Losses of several outputs, or added ones, cannot be added up when some "
            "have one value for each sample: shapes "
            f"{tuple(one.shape)} and {tuple(other.shape)}. Leave `reduction` of the "
            "losses as it is by default."
        )
    return one + other


def _with_mask(weight: Any, output: Tensor) -> Any:
    """Return sample weights times the mask of an output: masked steps weigh nothing."""
    mask = mask_of(output)
    if mask is None:
        return weight
    factor = tf.cast(mask, output.dtype)
    return factor if weight is None else fit_weights(weight, factor) * factor


_OF_CLASS_NUMBERS = (
    losses.categorical_generalized_cross_entropy,
    losses.circle,
    losses.sparse_categorical_crossentropy,
)


def _warn_of_classes(loss: losses.Loss, target: Any, output: Any) -> None:
    """Say where one target stands beside several outputs, as class numbers do."""
    shapes = tuple(target.shape), tuple(output.shape)
    is_one_to_many = len(shapes[0]) == len(shapes[1]) and (
        shapes[0][-1:] == (1,) and shapes[1][-1:] > (1,)
    )
    function = getattr(loss, "fn", loss)
    is_ours = getattr(function, "__module__", "").startswith("ipu.")
    if is_one_to_many and is_ours and function not in _OF_CLASS_NUMBERS:
        warn_user(
            f"Loss {loss.name!r} compares each target with all {shapes[1][-1]} outputs "
            f"of its sample: targets of shape {_open(shapes[0])} beside outputs of "
            f"shape {_open(shapes[1])}. For class numbers use "
            "'sparse_categorical_crossentropy'; else give as many targets as outputs."
        )


def _open(shape: tuple[int, ...]) -> str:
    return f"(None, {', '.join(str(size) for size in shape[1:])})"


def _name_loss(error: Exception, loss: losses.Loss, target: Any, output: Any) -> None:
    """Put the loss and the shapes that met before the text of an error."""
    shapes = [getattr(part, "shape", None) for part in (target, output)]
    if len(error.args) != 1 or None in shapes:
        return
    text = (
        f'Exception encountered when calling loss "{loss.name}": y_true of shape '
        f"{shapes[0]}, y_pred of shape {shapes[1]}.\n\n{error.args[0]}"
    )
    error.args = (text,)


def _as_loss(given: Any) -> losses.Loss | None:
    found = losses.get(given)
    if found is None or isinstance(found, losses.Loss):
        return found
    return losses.LossFunctionWrapper(found)


class _ByShape(metrics.MeanMetricWrapper):
    """ "accuracy" and "crossentropy": the function is chosen by the shapes."""

    def __init__(self, meaning: str, name: str) -> None:
        super().__init__(_undecided, name)
        self._meaning = meaning

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Take a batch in; shapes are looked at before axes are squeezed."""
        self._fn = metrics.resolve(self._meaning, y_true, y_pred)
        super().update_state(y_true, y_pred, sample_weight)


def _undecided(y_true: Tensor, y_pred: Tensor) -> Tensor:
    raise RuntimeError("no shape has been seen")


class MetricsContainer:
    """The metrics of all outputs.

    Args:
        given: A metric, or a list or dict of (lists of) metrics by output.
        weighted: Those that take sample weights.
        names_of: Gives the names of outputs.
        compiled_loss: The losses beside them; they say which outputs have targets.
    """

    def __init__(
        self,
        given: Any,
        weighted: Any,
        names_of: Callable[[Nest], list[str]],
        compiled_loss: LossesContainer,
    ) -> None:
        self._losses = compiled_loss
        self._given = given
        self._names_of = names_of
        self._given_weighted = weighted
        self._entries: list[tuple[int, metrics.Metric, bool]] = []
        self._names: list[str] = []
        for one in tf.nest.flatten([given, weighted]):
            # nothing is made here: it would take a name such as "auc" away
            if isinstance(one, str):
                metrics.find(one)
            elif one is not None and not isinstance(one, type):
                metrics.get(one)
        self.built = False

    def build(self, output_names: list[str]) -> None:
        if self.built:
            return
        self._names = output_names
        plain = _of_outputs(self._given, output_names)
        weighted = _of_outputs(self._given_weighted, output_names)
        taken: set[str] = set()
        for index, output in enumerate(output_names):
            stem = f"{output}_" if len(output_names) > 1 else ""
            for one in plain[index]:
                self._add(index, _as_metric(one, stem), False, taken)
            for one in weighted[index]:
                # Keras's rule: the weighted twin of a metric is told apart by its name
                metric = _as_metric(one, stem)
                if metric.name in taken:
                    metric.name = f"{stem}weighted_{metric.name[len(stem) :]}"
                self._add(index, metric, True, taken)
        self.built = True

    def _add(
        self, index: int, metric: metrics.Metric, is_weighted: bool, taken: set[str]
    ) -> None:
        if metric.name in taken:
            raise ValueError(
                f"Found two metrics with the same name: {metric.name}. Their results "
                "would overwrite each other: give one of them another `name`."
            )
        taken.add(metric.name)
        self._entries.append((index, metric, is_weighted))

    @property
    def parts(self) -> list[Any]:
        return self._entries

    @property
    def metrics(self) -> list[metrics.Metric]:
        return [metric for _, metric, _ in self._entries]

    def update_state(
        self, y_true: Nest, y_pred: Nest, sample_weight: Any = None
    ) -> None:
        if not self.built:
            with init_scope():
                self.build(self._names_of(y_pred))
        if not self._entries:
            return
        outputs = tf.nest.flatten(y_pred)
        targets = _targets(y_true, self._names, self._losses.has_loss)
        weights = _weights(sample_weight, self._names)
        for index, metric, is_weighted in self._entries:
            if targets[index] is None and y_true is not None:
                raise ValueError(
                    f"Metric {metric.name!r} needs targets of output "
                    f"{self._names[index]!r}, but the data have none for it."
                )
            weight = weights[index] if is_weighted else None
            weight = _with_mask(weight, outputs[index])
            metric.update_state(targets[index], outputs[index], weight)


def _of_outputs(given: Any, output_names: list[str]) -> list[list[Any]]:
    """Return the metrics of each output."""
    if not given:
        return [[] for _ in output_names]
    if callable(given):
        given = [given]
    is_flat = not isinstance(given, Mapping) and not any(
        isinstance(one, (list, tuple)) for one in given
    )
    found = []
    # a list of lists, by output; a flat one is for each of them
    given = [given] * len(output_names) if is_flat else given
    for some in _by_output("metrics", given, output_names):
        listed = list(some) if isinstance(some, (list, tuple)) else [some]
        if is_flat and len(output_names) > 1:
            # each output has its own; names and values differ
            listed = [
                type(one).from_config(one.get_config())
                if isinstance(one, metrics.Metric)
                else one
                for one in listed
            ]
        found.append([one for one in listed if one is not None])
    return found


def _as_metric(given: Any, prefix: str) -> metrics.Metric:
    if isinstance(given, str) and given in metrics.BY_SHAPE:
        return _ByShape(given, prefix + given)
    found = metrics.get(given)
    if isinstance(found, metrics.Metric):
        if not found.name.startswith(prefix):
            found.name = prefix + found.name
        return found
    name = given if isinstance(given, str) else _function_name(found)
    return metrics.MeanMetricWrapper(found, prefix + name)


def _function_name(function: Callable[..., Any]) -> str:
    """Return what Keras calls a metric that is none: a loss or a function."""
    for attribute in ("name", "__name__"):
        name = getattr(function, attribute, None)
        if name is not None:
            return str(name)
    return _names.snake_case(type(function).__name__)
