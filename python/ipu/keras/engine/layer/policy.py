# SPDX-License-Identifier: MIT
"""Dtype policies: the dtype that a layer computes in, and that of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu import tf
from ipu.keras._backend_state import state

_MIXED = {"mixed_float16": ("float16", "float32")}


class Policy:
    """In which dtype a layer computes, and in which it keeps its weights.

    Args:
        name: ``"mixed_float16"`` (computes in float16, keeps weights in float32), or
            the name of a dtype for both.

    Raises:
        TypeError: The name is not a string.
        ValueError: There is no such policy.

    Source: ``tf.keras.mixed_precision.Policy`` of Keras 2.6.

    Example:
        >>> policy = Policy("mixed_float16")
        >>> policy.compute_dtype, policy.variable_dtype
        ('float16', 'float32')
    """

    def __init__(self, name: str) -> None:
        if isinstance(name, tf.DType):
            raise TypeError(
                "'name' must be a string, not a DType. Instead, pass DType.name. "
                f"Got: {name.name}."
            )
        if not isinstance(name, str):
            raise TypeError(f"'name' must be a string, but got: {name!r}.")
        try:
            self._dtypes = _MIXED.get(name) or (tf.as_dtype(name).name,) * 2
        except (TypeError, ValueError):
            raise ValueError(
                f"Cannot convert value {name} to a mixed precision Policy. Valid "
                "policies are 'mixed_float16' and the name of any dtype such as "
                "'float32'. There is no bfloat16 on an IPU."
            ) from None
        self._name = name

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def compute_dtype(self) -> str:
        """The dtype that layers compute in, as a name."""
        return self._dtypes[0]

    @property
    def variable_dtype(self) -> str:
        """The dtype that weights are kept in, as a name."""
        return self._dtypes[1]

    def __repr__(self) -> str:
        return f'<Policy "{self._name}">'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and other.name == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal policy."""
        return {"name": self._name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Policy:
        """Make a policy from what ``get_config`` gave."""
        return cls(**config)


def global_policy() -> Policy:
    """Return the policy of layers that are given no dtype.

    Example:
        >>> global_policy()
        <Policy "float32">
    """
    return state.policy if state.policy is not None else Policy(state.floatx)


def set_global_policy(policy: Any) -> None:
    """Set the policy of layers that are made from now on without a dtype.

    Args:
        policy: A :class:`Policy` or its name; None for the dtype of
            ``backend.floatx()``.

    Raises:
        TypeError: It is neither.
        ValueError: There is no such policy.

    Source: ``tf.keras.mixed_precision.set_global_policy``.

    Example:
        >>> set_global_policy("mixed_float16")
        >>> global_policy().compute_dtype
        'float16'
        >>> set_global_policy(None)
    """
    is_policy = policy is None or isinstance(policy, Policy)
    state.policy = policy if is_policy else Policy(policy)


def policy_of(dtype: Any) -> Policy:
    """Return the policy that a layer's argument ``dtype`` stands for.

    Args:
        dtype: A policy, its name or its description as plain data; a dtype; None for
            the global policy.
    """
    if dtype is None:
        return global_policy()
    if isinstance(dtype, Policy):
        return dtype
    if isinstance(dtype, Mapping):
        return Policy.from_config(dtype["config"])
    if isinstance(dtype, str) and dtype in _MIXED:
        return Policy(dtype)
    return Policy(tf.as_dtype(dtype).name)
