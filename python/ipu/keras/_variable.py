# SPDX-License-Identifier: MIT
"""``keras.Variable``: a variable by the arguments of Keras 3."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras import initializers
from ipu.keras._backend_state import state


class _AnyVariable(type):
    """Counts every variable as an instance: weights of layers are ``tf.Variable``s."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, tf.Variable)


class Variable(tf.Variable, metaclass=_AnyVariable):
    """A tensor that can be assigned to; a ``tf.Variable`` by other arguments.

    Args:
        initializer: Its first value; or an initializer or the name of one, with
            ``shape``.
        shape: The sizes, where there is an initializer.
        dtype: Its element type; None for that of an array or tensor, and for
            ``keras.config.floatx()`` of all else.
        trainable: Whether optimizers and tapes take it by default.
        autocast: Accepted and not used: a layer casts by its policy.
        aggregation: Accepted and not used, and so is ``synchronization``.
        synchronization: Not used.
        name: Its name.
        **more: Options of ``tf.Variable``.

    Raises:
        ValueError: An initializer without ``shape``.

    Source: ``keras.Variable`` of Keras 3.

    Example:
        >>> keras.Variable("ones", shape=(2,)).numpy().tolist()
        [1.0, 1.0]
        >>> isinstance(tf.Variable(1.0), keras.Variable)
        True
    """

    def __init__(
        self,
        initializer: Any,
        shape: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        autocast: bool = True,
        aggregation: Any = None,
        synchronization: Any = None,
        name: str | None = None,
        **more: Any,
    ) -> None:
        del autocast, aggregation, synchronization
        kind = getattr(initializer, "dtype", None) if dtype is None else dtype
        kind = state.floatx if kind is None else tf.as_dtype(kind).name
        if callable(initializer) or isinstance(initializer, str):
            if shape is None:
                raise ValueError(
                    "A variable with an initializer needs its shape. Received: "
                    f"initializer={initializer!r}, shape=None."
                )
            start: Any = initializers.get(initializer)

            def value() -> Any:
                return start(shape, dtype=kind)

            super().__init__(value, trainable, name=name, dtype=kind, **more)
        else:
            kind = {"float64": "float32", "int64": "int32"}.get(kind, kind)
            super().__init__(initializer, trainable, name=name, dtype=kind, **more)
            if shape is not None and tuple(shape) != tuple(self.shape):
                raise ValueError(
                    f"The value has shape {self.shape}, not the given {shape}."
                )

    def assign_add(self, delta: Any, *args: Any, **options: Any) -> Variable:
        """Add ``delta``, which is broadcast to the variable's shape.

        Example:
            >>> keras.Variable([[1.0, 2.0]]).assign_add(1.0).numpy().tolist()
            [[2.0, 3.0]]
        """
        super().assign_add(self._broadcast(delta), *args, **options)
        return self

    def assign_sub(self, delta: Any, *args: Any, **options: Any) -> Variable:
        """Subtract ``delta``, which is broadcast to the variable's shape."""
        super().assign_sub(self._broadcast(delta), *args, **options)
        return self

    def _broadcast(self, delta: Any) -> Any:
        tensor = tf.convert_to_tensor(delta, dtype=self.dtype)
        return tensor if tensor.shape == self.shape else tensor + tf.zeros_like(self)
