# SPDX-License-Identifier: MIT
"""Layers around a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_int
from ipu.keras import _functions, _serialization, _tensor_notes, initializers
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.layer.call_arguments import copied
from ipu.keras.layers.rnn import RNN

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["Bidirectional", "SpectralNormalization", "TimeDistributed", "Wrapper"]


class Wrapper(Layer):
    """Base class of layers around a layer.

    Args:
        layer: The layer inside.

    Raises:
        ValueError: ``layer`` is not a layer.

    Example:
        >>> from ipu.keras.layers import Dense
        >>> Wrapper(Dense(2)).layer.units
        2
    """

    def __init__(self, layer: Layer, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        if not isinstance(layer, Layer):
            raise ValueError(
                f"Please initialize `{type(self).__name__}` layer with a `Layer` "
                f"instance. Received: layer={layer!r}."
            )
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        make: Any = cls
        inner: dict[str, Any] = {
            key: _functions.make_layer(config[key], custom_objects)
            for key in ("layer", "backward_layer")
            if key in config
        }
        return make(**{**config, **inner})


class SpectralNormalization(Wrapper):
    """Divides the kernel of a layer by its largest singular value before each step.

    The value is estimated by power iterations, which go on from step to step. The
    kernel itself is changed, in training alone, as Keras 3 does.

    Args:
        layer: A layer with a ``kernel`` or with ``embeddings``.
        power_iterations: How many iterations a step makes.

    Raises:
        ValueError: ``layer`` is not a layer, or has neither; ``power_iterations`` is
            not a positive integer.

    Source: ``keras.layers.SpectralNormalization`` of Keras 3, after arXiv:1802.05957.

    Example:
        >>> from ipu.keras.layers import Dense
        >>> layer = SpectralNormalization(Dense(2), power_iterations=20)
        >>> _ = layer(tf.ones((1, 3)), training=True)
        >>> singular_values = np.linalg.svd(layer.layer.kernel.numpy())[1]
        >>> round(float(singular_values[0]), 3)
        1.0
    """

    def __init__(
        self,
        layer: Layer,
        power_iterations: int = 1,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(layer, **kwargs)
        self.power_iterations = checked_int("power_iterations", power_iterations, 1)

    def build(self, input_shape: Any = None) -> None:
        """Build the layer inside, and the vector that the iterations go on from.

        Raises:
            ValueError: The layer has no kernel.
        """
        super().build(input_shape)
        kernel = self.kernel
        self.vector_u = self.add_weight(
            "vector_u",
            (1, int(kernel.shape[-1])),
            initializer=initializers.TruncatedNormal(stddev=0.02),
            trainable=False,
            dtype=kernel.dtype,
        )

    @property
    def kernel(self) -> Any:
        """The weight that is divided: one of the layer inside.

        Raises:
            ValueError: The layer has no kernel.
        """
        for name in ("kernel", "embeddings"):
            kernel = getattr(self.layer, name, None)
            if kernel is not None:
                return kernel
        raise ValueError(
            "SpectralNormalization needs a layer with a kernel or embeddings. "
            f"Received: {type(self.layer).__name__}."
        )

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Nest:
        """Apply the layer; with ``training``, divide its kernel first.

        Args:
            inputs: The inputs of the layer.
            training: Whether this is a step of training.
            *args, **kwargs: Ignored.
        """
        if training:
            self._divide()
        return self.layer(inputs)

    def _divide(self) -> None:
        kernel = self.kernel
        whole = tf.stop_gradient(kernel.value())
        matrix = tf.reshape(whole, (-1, int(kernel.shape[-1])))
        u = self.vector_u.value()
        for _ in range(self.power_iterations):
            v = tf.math.l2_normalize(tf.matmul(u, matrix, transpose_b=True))
            u = tf.math.l2_normalize(tf.matmul(v, matrix))
        largest = tf.reduce_sum(tf.matmul(v, matrix) * u)
        is_zero = tf.reduce_all(tf.equal(whole, 0.0))
        self.vector_u.assign(tf.where(is_zero, self.vector_u.value(), u))
        kernel.assign(whole / tf.where(is_zero, tf.ones_like(largest), largest))


class TimeDistributed(Wrapper):
    """Applies a layer to every time step of ``(batch, steps, ...)``.

    The steps are taken as samples of one large batch, so the layer is called once.

    Args:
        layer: The layer for one step.

    Raises:
        ValueError: ``layer`` is not a layer; in a call, the input has no steps.

    Example:
        >>> from ipu.keras.layers import Dense
        >>> TimeDistributed(Dense(2))(tf.zeros((3, 5, 4))).shape
        (3, 5, 2)
    """

    def __init__(self, layer: Layer, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Build the layer inside for one step.

        Raises:
            ValueError: The input has no steps.
        """
        if len(input_shape) < 3:
            raise ValueError(
                "`TimeDistributed` Layer should be passed an `input_shape` with at "
                f"least 3 dimensions. Received: input_shape={tuple(input_shape)}."
            )
        super().build((input_shape[0], *tuple(input_shape)[2:]))

    def call(
        self,
        inputs: Nest,
        training: Any = None,
        mask: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Nest:
        """Apply the layer to all steps.

        Args:
            inputs: Shape ``(batch, steps, ...)``.
            training: Handed to the layer.
            mask: Shape ``(batch, steps, ...)``. The layer is given what it says beyond
                the steps, and the results are marked with the layer's masks.
            *args, **kwargs: Not used.
        """
        steps = inputs.shape[1]
        flat = _folded(inputs)
        within = self._mask_within(mask)
        if within is not None:
            _tensor_notes.set_mask(flat, within)

        def unfold(tensor: Any) -> Any:
            result = _unfolded(tensor, steps)
            made = self._mask_around(_tensor_notes.mask_of(tensor), mask, steps)
            if made is not None:
                _tensor_notes.set_mask(result, made)
            return result

        return tf.nest.map_structure(unfold, self.layer(flat, training=training))

    def _hand_mask_on(self, *_: Any) -> None:
        """Do nothing: ``call`` has marked the results."""

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return the layer's masks, or where it makes none, which steps have any part
        that counts."""
        made = self.layer.compute_mask(_folded(inputs), self._mask_within(mask))
        return self._mask_around(made, mask, inputs.shape[1])

    @staticmethod
    def _mask_within(mask: Any) -> Any:
        """Return what a mask says of the parts of a step, with the steps as samples."""
        return None if mask is None or len(mask.shape) < 3 else _folded(mask)

    @staticmethod
    def _mask_around(made: Any, mask: Any, steps: Any) -> Any:
        if made is not None:
            return _unfolded(made, steps)
        if mask is None or len(mask.shape) < 3:
            return mask
        return tf.reduce_any(mask, list(range(2, len(mask.shape))))


def _folded(tensor: Any) -> Any:
    """Apply the layer with the steps as samples of one batch."""
    batch, steps, *rest = tensor.shape
    return tf.reshape(tensor, (batch * steps, *rest))


def _unfolded(tensor: Any, steps: int) -> Any:
    samples, *rest = tensor.shape
    return tf.reshape(tensor, (samples // steps if steps else 0, steps, *rest))


_MERGES = ("sum", "mul", "ave", "concat", None)


class Bidirectional(Wrapper):
    """Two recurrent layers, one of which goes backwards.

    Args:
        layer: The layer that goes forwards, an ``RNN``. It is copied, with a name that
            begins with ``forward_``.
        merge_mode: How both outputs are joined: ``"concat"``, ``"sum"``, ``"mul"``,
            ``"ave"``, or None for a list of them. With ``return_sequences`` masked
            steps are 0.
        weights: First values of all weights.
        backward_layer: The layer that goes backwards; None for one like ``layer``.

    Raises:
        ValueError: ``layer`` is not a layer, ``merge_mode`` has another value, or
            ``backward_layer`` does not fit ``layer``.

    Example:
        >>> from ipu.keras.layers import LSTM
        >>> Bidirectional(LSTM(2))(tf.ones((3, 5, 4))).shape
        (3, 4)
    """

    _left_out = ("layer", "weights", "backward_layer")

    def __init__(
        self,
        layer: Layer,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(layer, weights=weights, **kwargs)
        if backward_layer is not None and not isinstance(backward_layer, Layer):
            raise ValueError(
                "`backward_layer` need to be a `Layer` instance. Received: "
                f"{backward_layer!r}."
            )
        for one in (layer, backward_layer):
            if one is not None and not isinstance(one, RNN):
                raise ValueError(
                    "Bidirectional takes layers that go through time steps (LSTM, GRU, "
                    f"SimpleRNN, RNN). Received: {one!r}."
                )
        if merge_mode not in _MERGES:
            raise ValueError(
                f"Invalid merge mode. Received: {merge_mode!r}. Merge mode should be "
                'one of {"sum", "mul", "ave", "concat", None}.'
            )
        assert isinstance(layer, RNN)
        self.merge_mode = merge_mode
        self._own_backward = backward_layer is not None
        self.forward_layer = _copy(layer, "forward_")
        if backward_layer is None:
            backwards = not layer.go_backwards
            self.backward_layer = _copy(layer, "backward_", go_backwards=backwards)
        else:
            self.backward_layer = backward_layer
            self._check_backward()
        del self.layer
        for one in (self.forward_layer, self.backward_layer):
            one.zero_output_for_mask = layer.return_sequences
        self.return_sequences = layer.return_sequences
        self.return_state = layer.return_state
        self.stateful = layer.stateful
        self.supports_masking = True

    def _check_backward(self) -> None:
        one, other = self.forward_layer, self.backward_layer
        if one.go_backwards == other.go_backwards:
            raise ValueError(
                "Forward layer and backward layer should have different "
                f"`go_backwards` value. Received: {one.go_backwards} for both."
            )
        for name in ("stateful", "return_sequences", "return_state"):
            if getattr(one, name) != getattr(other, name):
                raise ValueError(
                    "Forward layer and backward layer are expected to have the same "
                    f"value for attribute {name!r}. Received: {getattr(one, name)!r} "
                    f"and {getattr(other, name)!r}."
                )

    def build(self, input_shape: Any = None) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer._weight_scope = f"{self.path}/"
                layer.build(input_shape)

    def __call__(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> Any:
        """Apply both; ``inputs`` may be a list of the input and the first states."""
        if isinstance(inputs, (list, tuple)):
            states = list(inputs[1:])
            inputs = inputs[0]
            if states and initial_state is None:
                initial_state = states
        if initial_state is not None:
            if len(initial_state) % 2:
                raise ValueError(
                    "When passing `initial_state` to a Bidirectional RNN, the state "
                    "should be a list containing the states of the underlying RNNs. "
                    f"Received: {len(initial_state)} states."
                )
            kwargs["initial_state"] = initial_state
        return super().__call__(inputs, **kwargs)

    def call(
        self,
        inputs: Nest,
        training: Any = None,
        mask: Any = None,
        initial_state: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Nest:
        states: list[Any] = [None, None]
        if initial_state is not None:
            half = len(initial_state) // 2
            states = [list(initial_state[:half]), list(initial_state[half:])]
        results = [
            layer(inputs, initial_state=state, training=training, mask=mask)
            for layer, state in zip(
                (self.forward_layer, self.backward_layer), states, strict=True
            )
        ]
        after: list[Any] = []
        if self.return_state:
            after = [*results[0][1:], *results[1][1:]]
            results = [results[0][0], results[1][0]]
        if self.return_sequences:
            time = 0 if self.forward_layer.time_major else 1
            results[1] = tf.reverse(results[1], [time])
        merged = self._merge(*results)
        if not self.return_state:
            return merged
        return [*(merged if isinstance(merged, list) else [merged]), *after]

    def _merge(self, one: Any, other: Any) -> Any:
        if self.merge_mode == "concat":
            return tf.concat([one, other], -1)
        if self.merge_mode == "sum":
            return one + other
        if self.merge_mode == "ave":
            return (one + other) / 2
        if self.merge_mode == "mul":
            return one * other
        return [one, other]

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        of_output = mask if self.return_sequences else None
        outputs = [of_output] * (2 if self.merge_mode is None else 1)
        if self.return_state:
            outputs += [None] * len(self.forward_layer.states) * 2
        return outputs if len(outputs) > 1 else outputs[0]

    def reset_states(self) -> None:
        """Set the states of both layers to zero."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    def get_config(self) -> dict[str, Any]:
        forward = _serialization.serialize_keras_object(self.forward_layer)
        name = forward["config"]["name"].removeprefix("forward_")
        forward["config"]["name"] = name
        config: dict[str, Any] = {**super().get_config(), "layer": forward}
        if self._own_backward:
            backward = _serialization.serialize_keras_object(self.backward_layer)
            config["backward_layer"] = backward
        return config


def _copy(layer: Any, prefix: str, **changes: Any) -> Any:
    return copied(layer, name=f"{prefix}{layer.name}", **changes)
