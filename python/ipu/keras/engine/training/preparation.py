# SPDX-License-Identifier: MIT
"""What is made before a program of a model is traced: weights, losses, slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._device.placement import current_device
from ipu._text.log import logger
from ipu.keras._types import Nest
from ipu.keras.engine.training.data_adapter import expand, unpack
from ipu.tf._functions import function

if TYPE_CHECKING:
    from ipu.keras.layers.base_layer import Layer


class Preparation:
    """The part of ``Trainer`` that creates variables and checks where they are."""

    if TYPE_CHECKING:
        built: bool
        compiled_loss: Any
        compiled_metrics: Any
        loss: Any
        metrics: Any
        name: Any
        optimizer: Any
        trainable_variables: list[tf.Variable]
        _compile_arguments: dict[str, Any]
        _tried_steps: set[str]

        def _device_step(self, mode: str, class_weight: Any = None) -> Any: ...
        def _flatten_layers(self) -> Iterator[Layer]: ...
        def _has_own_step(self, mode: str) -> bool: ...

    def _prepare(self, mode: str, spec: Nest) -> None:
        """Create all variables that the program of a mode needs.

        Args:
            mode: ``"train"``, ``"test"`` or ``"predict"``.
            spec: The elements of the data.
        """
        self._check_device()
        if self._has_own_step(mode):
            if mode not in self._tried_steps:
                # what it uses is known to itself alone: trace it once for its variables
                step = self._device_step(mode)
                function.scratch_trace(step, [spec], may_create=True)
                self._tried_steps.add(mode)
            self.built = True
            return
        x_spec, y_spec, _ = unpack(spec)
        outputs = self._known_outputs()
        if outputs is None:
            model: Any = self
            outputs = function.scratch_trace(
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
        """Something of the form of the outputs; None where a call is to show it, or to
        build layers."""
        if not self.built or any(not la.built for la in self._flatten_layers()):
            return None
        return getattr(self, "_form_of_outputs", None)

    def _made_variables(self) -> list[tf.Variable]:
        """The variables of the layers, the metrics and the optimizer, so far."""
        owned = [v for layer in self._flatten_layers() for v in layer._own_variables()]
        owned += [v for metric in self.metrics for v in metric.variables]
        if self.optimizer is not None:
            owned += self.optimizer._made_variables()
        return owned

    def _check_device(self) -> None:
        """Take the variables along where the devices were configured anew.

        Raises:
            FailedPreconditionError: One is on another device.
        """
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
        """Whether losses, metrics or weights were given for one of these names."""
        given = (one for one in self._compile_arguments.values())
        return any(isinstance(one, Mapping) and names & set(one) for one in given)
