# SPDX-License-Identifier: MIT
"""Dense, Flatten, Activation, Dropout, Reshape, Lambda."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu.keras import _functions, activations
from ipu.keras._arguments import KernelAttributes, keep, weight_of
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.keras.engine.layer.call_arguments import takes_mask, training_parameter
from ipu.keras.layers._spatial import format_argument

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import LayerOptions, PlainLayerOptions

__all__ = [
    "Activation",
    "Dense",
    "Dropout",
    "Flatten",
    "Identity",
    "Lambda",
    "Reshape",
]


class Dense(Layer, KernelAttributes):
    """A fully connected layer: ``activation(inputs @ kernel + bias)``.

    Args:
        units: The size of the result's last axis, positive.
        activation: A name or a function; None for linear.
        use_bias: Whether there is a bias.
        kernel_initializer: First values of the kernel ``(inputs, units)``.
        bias_initializer: First values of the bias ``(units,)``.
        kernel_regularizer, bias_regularizer: Penalties on kernel and bias.
        activity_regularizer: A penalty on the result, divided by the batch size.
        kernel_constraint: The constraint of the kernel after each update: a name such
            as ``"non_neg"`` or one of ``constraints``.
        bias_constraint: The same for the bias.

    Raises:
        ValueError: ``units`` is not positive, or a name is unknown.

    Example:
        >>> layer = Dense(3, kernel_initializer="ones")
        >>> layer(tf.constant([[1.0, 2.0]])).numpy().tolist()
        [[3.0, 3.0, 3.0]]
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals(), ("units",))
        size: Any = units
        if (
            isinstance(size, bool)
            or not isinstance(size, numbers.Real)
            or size % 1 != 0
            or size <= 0
        ):
            raise ValueError(
                "`units` of Dense must be a positive integer. "
                f"Received: units={units!r}."
            )
        self.units = int(units)
        self.kernel: Any = None
        self.bias: Any = None
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias for inputs of this shape.

        Raises:
            TypeError: The layer's dtype is that of whole numbers.
            ValueError: The last size is open.
        """
        if not tf.as_dtype(self.dtype or "float32").is_floating:
            raise TypeError(
                f"Unable to build `{type(self).__name__}` layer with non-floating "
                f"point dtype {self.dtype}. Use float32 or float16."
            )
        size = input_shape[-1] if len(input_shape) else None
        if size is None:
            raise ValueError(
                "The last dimension of the inputs to `Dense` should be defined. "
                f"Received: input_shape={tuple(input_shape)}."
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = weight_of(self, "kernel", (size, self.units))
        if self.use_bias:
            self.bias = weight_of(self, "bias", (self.units,))

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Compute ``activation(inputs @ kernel + bias)`` over the last axis."""
        if tf.as_dtype(inputs.dtype) != self._compute_kind:
            inputs = tf.cast(inputs, self._compute_kind)
        shape = tuple(inputs.shape)
        if len(shape) > 2:
            inputs = tf.reshape(inputs, (math.prod(shape[:-1]), shape[-1]))
        result = tf.matmul(inputs, self.kernel)
        if self.bias is not None:
            result = tf.nn.bias_add(result, self.bias)
        if len(shape) > 2:
            result = tf.reshape(result, (*shape[:-1], self.units))
        return self.activation(result)


class Flatten(Layer):
    """All axes but the batch as one; ``(batch,)`` becomes ``(batch, 1)``.

    Args:
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``, which
            moves the channels to the end first.

    Raises:
        ValueError: ``data_format`` is neither.

    Example:
        >>> Flatten()(tf.ones((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(
        self, data_format: str | None = None, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.data_format = format_argument(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        shape = tuple(inputs.shape)
        if self.data_format == "channels_first" and len(shape) > 2:
            order = [0, *range(2, len(shape)), 1]
            inputs = tf.transpose(inputs, order)
        return tf.reshape(inputs, (shape[0], math.prod(shape[1:])))


class Activation(Layer):
    """Applies an activation function.

    Args:
        activation: A name such as ``"relu"``, or a function of a tensor.

    Raises:
        ValueError: There is no activation of that name.

    Example:
        >>> Activation("relu")(tf.constant([-1.0, 1.0])).numpy().tolist()
        [0.0, 1.0]
    """

    def __init__(self, activation: Any, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        self.activation = activations.get(activation)
        self.supports_masking = True

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self.activation(inputs)


class Identity(Layer):
    """Gives its inputs as they are, nests of tensors too.

    Source: ``keras.layers.Identity`` of Keras 3.

    Example:
        >>> Identity()(tf.constant([-1.0, 1.0])).numpy().tolist()
        [-1.0, 1.0]
    """

    def __init__(self, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Nest:
        return inputs


class Dropout(Layer):
    """In training, sets a random part of the inputs to 0 and scales up the rest.

    Args:
        rate: The part that is set to 0, in [0, 1). The rest is divided by
            ``1 - rate``, so that the sum stays the same on average.
        noise_shape: The shape in which decisions are drawn, None in it for the input's
            size: ``(None, 1, 8)`` drops whole time steps alike. None for the input's.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: ``rate`` is not in [0, 1).

    Example:
        >>> Dropout(0.5)(tf.ones((2, 2))).numpy().tolist()  # not in training
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Any = None,
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(rate, (int, float)) or not 0 <= rate < 1:
            raise ValueError(
                "`rate` of Dropout must be a number in [0, 1), the part to drop. "
                f"Received: rate={rate!r}."
            )
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed
        self.supports_masking = True

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Drop where ``training`` is true, else give the inputs back."""
        if not training or self.rate == 0:
            return inputs
        shape = self._noise_shape(inputs)
        return tf.nn.dropout(inputs, self.rate, noise_shape=shape, seed=self.seed)

    def _noise_shape(self, inputs: Tensor) -> Any:
        """Return the shape in which decisions are drawn; subclasses have their own."""
        del inputs
        return self.noise_shape


class Reshape(Layer):
    """Gives each sample another shape.

    Args:
        target_shape: The sizes without the batch; one may be -1.

    Example:
        >>> Reshape((2, -1))(tf.ones((5, 6))).shape
        (5, 2, 3)
    """

    def __init__(
        self, target_shape: Sequence[int] | int, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        sizes = (target_shape,) if isinstance(target_shape, int) else target_shape
        self.target_shape = tuple(int(size) for size in sizes)
        if self.target_shape.count(-1) > 1:
            raise ValueError(
                "`target_shape` of Reshape may have one -1 at most. "
                f"Received: target_shape={self.target_shape}."
            )

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Reshape to ``(batch, *target_shape)``.

        Raises:
            ValueError: The number of elements differs.
        """
        shape = tuple(inputs.shape)
        count = math.prod(shape[1:])
        known = math.prod(size for size in self.target_shape if size != -1)
        is_open = -1 in self.target_shape
        if (is_open and (known == 0 or count % known)) or (
            not is_open and count != known
        ):
            raise ValueError(
                "total size of new array must be unchanged. Received: input shape "
                f"{shape[1:]} ({count} elements) and target_shape={self.target_shape}."
            )
        sizes = tuple(count // known if s == -1 else s for s in self.target_shape)
        return tf.reshape(inputs, (shape[0], *sizes))


class Lambda(Layer):
    """Calls a function of the user's as a layer.

    Args:
        function: Takes the inputs, then ``arguments``; ``training`` and ``mask``, the
            inputs' mask, are given where they are parameters of the function.
        output_shape: Ignored: shapes are found by tracing.
        mask: The mask of the result, or a function that makes it of the inputs and
            their mask; None for no mask.
        arguments: Keyword arguments for the function.

    Raises:
        TypeError: ``function`` is not callable.

    Example:
        >>> Lambda(lambda x: x * x)(tf.constant([3.0])).numpy().tolist()
        [9.0]
    """

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        if not callable(function):
            raise TypeError(
                f"`function` of Lambda must be callable. Received: {function!r}."
            )
        del output_shape
        self.function = function
        self.mask = mask
        self.arguments = dict(arguments or {})
        self.supports_masking = True
        self._takes_training = training_parameter(function).exists
        self._function_takes_mask = takes_mask(function)

    def call(
        self,
        inputs: Nest,
        mask: Any = None,
        training: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Nest:
        arguments = dict(self.arguments)
        if self._function_takes_mask:
            arguments["mask"] = mask
        if self._takes_training:
            arguments["training"] = training
        return self.function(inputs, **arguments)

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return the mask that was asked for: that of the inputs goes no further."""
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    _left_out = ("output_shape", "mask")

    def get_config(self) -> dict[str, Any]:
        mask = {} if self.mask is None else {"mask": self.mask}
        return super().get_config() | mask

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make a layer from what ``get_config`` gave, or a file."""
        made = dict(config)
        for key in ("function", "mask"):
            if key in made:
                made[key] = _functions.restored(made[key])
        return cls(**made)
