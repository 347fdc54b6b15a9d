# SPDX-License-Identifier: MIT
"""Layers of several inputs, and their functional forms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export, like
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions


class _Merge(Layer):
    """Combines a list of tensors element by element, from the first to the last.

    Shapes broadcast; where the numbers of axes differ, axes of size 1 come after the
    batch.
    """

    _at_most: int | None = None
    _combine: Callable[[Tensor, Tensor], Tensor]

    def __init__(self, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Check that there are two inputs or more, which broadcast.

        Raises:
            ValueError: There are fewer, or two sizes do not go together.
        """
        shapes = _need_list(self, input_shape, at_least=2, at_most=self._at_most)
        for shape in shapes[1:]:
            for one, other in zip(
                reversed(shapes[0][1:]), reversed(shape[1:]), strict=False
            ):
                if None not in (one, other) and one != other and 1 not in (one, other):
                    raise ValueError(
                        "Operands could not be broadcast together with shapes "
                        f"{tuple(shapes[0])} {tuple(shape)}."
                    )

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Tensor:
        tensors = [_as_rank(x, max(len(t.shape) for t in inputs)) for x in inputs]
        return functools.reduce(self._combine, tensors)

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return true where every masked input counts."""
        return _all_masks(mask)


class Add(_Merge):
    """The sum of a list of tensors.

    Example:
        >>> Add()([tf.constant([1.0]), tf.constant([2.0])]).numpy().tolist()
        [3.0]
    """

    _combine = staticmethod(tf.add)


class Subtract(_Merge):
    """The first of two tensors less the second.

    Example:
        >>> Subtract()([tf.constant([1.0]), tf.constant([2.0])]).numpy().tolist()
        [-1.0]
    """

    _at_most = 2

    _combine = staticmethod(tf.subtract)


class Multiply(_Merge):
    """The product of a list of tensors, element by element.

    Example:
        >>> Multiply()([tf.constant([3.0]), tf.constant([2.0])]).numpy().tolist()
        [6.0]
    """

    _combine = staticmethod(tf.multiply)


class Average(Add):
    """The mean of a list of tensors, element by element.

    Example:
        >>> Average()([tf.constant([1.0]), tf.constant([2.0])]).numpy().tolist()
        [1.5]
    """

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Tensor:
        return super().call(inputs) / float(len(inputs))


class Maximum(_Merge):
    """The largest of a list of tensors, element by element.

    Example:
        >>> Maximum()([tf.constant([1.0]), tf.constant([2.0])]).numpy().tolist()
        [2.0]
    """

    _combine = staticmethod(tf.maximum)


class Minimum(_Merge):
    """The smallest of a list of tensors, element by element.

    Example:
        >>> Minimum()([tf.constant([1.0]), tf.constant([2.0])]).numpy().tolist()
        [1.0]
    """

    _combine = staticmethod(tf.minimum)


class Concatenate(Layer):
    """Puts tensors one after another along an axis.

    Args:
        axis: The axis; the last by default.

    Example:
        >>> Concatenate()([tf.ones((2, 3)), tf.ones((2, 4))]).shape
        (2, 7)
    """

    def __init__(self, axis: int = -1, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        self.axis = axis
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Check that the shapes agree except along the axis.

        Raises:
            ValueError: They do not, or there is no list of inputs.
        """
        shapes = _need_list(self, input_shape, at_least=1)
        rank = len(shapes[0])
        for shape in shapes:
            rest = [
                (one, other)
                for i, (one, other) in enumerate(zip(shapes[0], shape, strict=False))
                if i != self.axis % rank
            ]
            if len(shape) != rank or any(
                None not in pair and pair[0] != pair[1] for pair in rest
            ):
                raise ValueError(
                    "A `Concatenate` layer requires inputs with matching shapes except "
                    f"for the concatenation axis {self.axis}. Received: "
                    f"input_shape={[tuple(shape) for shape in shapes]}."
                )

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Tensor:
        return tf.concat(list(inputs), self.axis)

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return the masks of the inputs one after another, where time is the axis."""
        if mask is None:
            return None
        rank = len(inputs[0].shape)
        if self.axis % rank != 1:
            return _all_masks(mask)
        parts = [
            tf.ones(tuple(x.shape)[:2], "bool") if part is None else part
            for x, part in zip(inputs, mask, strict=True)
        ]
        return tf.concat(parts, 1)


class Dot(Layer):
    """The product of two tensors, sample by sample.

    Args:
        axes: The axis to sum over, or a pair of them, one of each tensor; with the
            batch counted, so at least 1.
        normalize: Whether samples are divided by their length first, which gives the
            cosine.

    Raises:
        TypeError: ``axes`` is not an integer and no pair of integers.

    Example:
        >>> x = tf.constant([[1.0, 2.0]])
        >>> Dot(axes=1)([x, x]).numpy().tolist()
        [[5.0]]
    """

    def __init__(
        self,
        axes: int | Sequence[int],
        normalize: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        is_pair = isinstance(axes, (list, tuple)) and len(axes) == 2
        if not isinstance(axes, int) and not (
            is_pair and all(isinstance(axis, int) for axis in axes)
        ):
            raise TypeError(
                "`axes` of Dot must be an integer or a pair of integers. "
                f"Received: axes={axes!r}."
            )
        self.axes = axes if isinstance(axes, int) else list(axes)
        self.normalize = normalize
        self.supports_masking = True

    def _axes_for(self, shapes: Sequence[Any]) -> list[int]:
        given = [self.axes] * 2 if isinstance(self.axes, int) else self.axes
        return [axis % len(shape) for axis, shape in zip(given, shapes, strict=True)]

    def build(self, input_shape: Any) -> None:
        """Check that there are two inputs whose summed axes agree.

        Raises:
            ValueError: They do not.
        """
        shapes = _need_list(self, input_shape, at_least=2, at_most=2)
        axes = self._axes_for(shapes)
        one, other = (s[axis] for s, axis in zip(shapes, axes, strict=True))
        if None not in (one, other) and one != other:
            raise ValueError(
                f"Dimension incompatibility {one} != {other}: Dot sums over axis "
                f"{axes[0]} of the first and {axes[1]} of the second input. Received: "
                f"input_shape={[tuple(shape) for shape in shapes]}."
            )

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Tensor:
        x, y = inputs
        a, b = self._axes_for((x.shape, y.shape))
        if self.normalize:
            x = tf.math.l2_normalize(x, axis=a)
            y = tf.math.l2_normalize(y, axis=b)
        # the summed axis last in x and second in y, everything else as one axis
        x = tf.transpose(x, [i for i in range(len(x.shape)) if i != a] + [a])
        y = tf.transpose(y, [0, b] + [i for i in range(1, len(y.shape)) if i != b])
        batch, size = x.shape[0], x.shape[-1]
        rest = (*tuple(x.shape)[1:-1], *tuple(y.shape)[2:])
        product = tf.matmul(
            tf.reshape(x, (batch, -1, size)), tf.reshape(y, (batch, size, -1))
        )
        return tf.reshape(product, (batch, *(rest or (1,))))

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return None: the steps are gone."""
        return None


def _need_list(
    layer: Layer, shapes: Any, at_least: int, at_most: int | None = None
) -> list[Any]:
    is_list = isinstance(shapes, (list, tuple)) and all(
        isinstance(shape, (list, tuple)) for shape in shapes
    )
    if not is_list or len(shapes) < at_least:
        kind = type(layer).__name__
        raise ValueError(
            f"A `{kind}` layer should be called on a list of at least {at_least} "
            f"input(s). Received: input_shape={shapes}."
        )
    if at_most is not None and len(shapes) > at_most:
        raise ValueError(
            f"A `{type(layer).__name__}` layer should be called on exactly {at_most} "
            f"inputs. Received: {len(shapes)} inputs."
        )
    return list(shapes)


def _as_rank(tensor: Tensor, rank: int) -> Tensor:
    """Put axes of size 1 after the batch."""
    shape = tuple(tensor.shape)
    if len(shape) == rank or not shape:
        return tensor
    return tf.reshape(tensor, (shape[0], *(1,) * (rank - len(shape)), *shape[1:]))


def _all_masks(mask: Nest) -> Any:
    found = [one for one in mask or [] if one is not None]
    return functools.reduce(tf.logical_and, found) if found else None


def _functional(kind: Callable[..., Layer]) -> Callable[..., Any]:
    @like(kind)
    def function(inputs: Sequence[Any], **kwargs: Any) -> Any:
        return kind(**kwargs)(inputs)

    function.__name__ = function.__qualname__ = kind.__name__.lower()
    return function


add = _functional(Add)
average = _functional(Average)
maximum = _functional(Maximum)
minimum = _functional(Minimum)
multiply = _functional(Multiply)
subtract = _functional(Subtract)


@like(Concatenate)
def concatenate(inputs: Sequence[Any], axis: int = -1, **kwargs: Any) -> Any:
    return Concatenate(axis=axis, **kwargs)(inputs)


@like(Dot)
def dot(
    inputs: Sequence[Any],
    axes: int | Sequence[int],
    normalize: bool = False,
    **kwargs: Any,
) -> Any:
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)


export(__name__)
