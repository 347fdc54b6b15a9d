# SPDX-License-Identifier: MIT
"""Matrices of derivatives, by one gradient for each element of the target."""

from __future__ import annotations

import math
from typing import Any

from ipu._core import Tensor
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._gradients.derivatives import (
    UnconnectedGradients,
    as_target,
    unconnected_of,
)
from ipu.tf._ops import creation, shapes


@boundaries("jacobian", "batch_jacobian")
class Jacobians:
    """The methods of ``GradientTape`` that give matrices."""

    def _begin_use(self) -> None:
        raise NotImplementedError

    def _end_use(self) -> None:
        raise NotImplementedError

    def _derivatives(self, ys: Any, weights: Any, xs: Any) -> list[Tensor | None]:
        raise NotImplementedError

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivative of each element of ``target`` by each of ``sources``.

        Args:
            target: A tensor.
            sources: A tensor or variable, or a nest of them.
            unconnected_gradients: As for :meth:`gradient`.
            parallel_iterations, experimental_use_pfor: Accepted and not used.

        Returns:
            A nest like ``sources``, of shape ``target.shape + source.shape``.
        """
        unconnected = unconnected_of(unconnected_gradients)
        self._begin_use()
        tensor = as_target(target)
        xs = nest.flatten(sources)
        count = math.prod(tensor.shape)
        rows: list[list[Tensor | None]] = []
        for i in range(count):
            weight = shapes.reshape(
                creation.one_hot(i, count, dtype=tensor.dtype), list(tensor.shape)
            )
            rows.append(self._derivatives([tensor], [weight], xs))
        found: list[Tensor | None] = []
        for k, x in enumerate(xs):
            column = [row[k] for row in rows]
            if all(g is None for g in column):
                empty = creation.zeros([*tensor.shape, *x.shape], x.dtype)
                zero = unconnected is UnconnectedGradients.ZERO
                found.append(empty if zero else None)
                continue
            filled = [creation.zeros_like(x) if g is None else g for g in column]
            found.append(
                shapes.reshape(shapes.stack(filled), [*tensor.shape, *x.shape])
            )
        self._end_use()
        return nest.pack_sequence_as(sources, found)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """For each row the derivative of the target's row by the source's row.

        Args:
            target: [b, ...]; row i depends on row i of ``source`` alone.
            source: [b, ...].
            unconnected_gradients: As for :meth:`gradient`.
            parallel_iterations, experimental_use_pfor: Accepted and not used.

        Returns:
            [b, *target.shape[1:], *source.shape[1:]].

        Raises:
            ValueError: The first axes differ.
        """
        unconnected = unconnected_of(unconnected_gradients)
        tensor = as_target(target)
        if tensor.ndim < 1 or len(source.shape) < 1:
            raise ValueError(
                "batch_jacobian needs a target and a source of at least one axis."
            )
        if tensor.shape[0] != source.shape[0]:
            raise ValueError(
                "Need first dimension of target shape "
                f"({tensor.shape[0]}) and source shape ({source.shape[0]}) to match."
            )
        self._begin_use()
        count = math.prod(tensor.shape[1:])
        columns: list[Tensor | None] = []
        for i in range(count):
            row = shapes.reshape(
                creation.one_hot(i, count, dtype=tensor.dtype), [1, *tensor.shape[1:]]
            )
            weight = shapes.broadcast_to(row, list(tensor.shape))
            columns += self._derivatives([tensor], [weight], [source])
        self._end_use()
        shape = [*tensor.shape, *source.shape[1:]]
        if all(g is None for g in columns):
            zero = unconnected is UnconnectedGradients.ZERO
            return creation.zeros(shape, source.dtype) if zero else None
        filled = [creation.zeros_like(source) if g is None else g for g in columns]
        return shapes.reshape(shapes.stack(filled, axis=1), shape)
