# SPDX-License-Identifier: MIT
"""Functions at TensorFlow 1's top level that others took the place of later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ipu import tf
from ipu.tf._graph.scopes import get_variable, variable_scope
from ipu.tf.compat.v1._graphs import GraphKeys


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Return a tensor with values at some places.

    Args:
        sparse_indices: The places: integers of shape [count, dimensions], [count] for
            a vector, or [] for one element of it.
        output_shape: The sizes of the result.
        sparse_values: A value for each place, or one for all.
        default_value: The value of other places.
        validate_indices: Accepted and not used.

    Example:
        >>> v1.sparse_to_dense([1, 2], [4], 1.0).numpy().tolist()
        [0.0, 1.0, 1.0, 0.0]
    """
    places = tf.convert_to_tensor(sparse_indices)
    if places.shape.rank == 0:
        places = tf.reshape(places, [1, 1])
    elif places.shape.rank == 1:
        places = tf.expand_dims(places, 1)
    values = tf.convert_to_tensor(sparse_values)
    base = tf.fill(output_shape, tf.cast(default_value, values.dtype))
    values = tf.broadcast_to(values, tf.shape(places)[:1])
    return tf.tensor_scatter_nd_update(base, places, values)


def scatter_nd_update(
    ref: Any,
    indices: Any,
    updates: Any,
    use_locking: bool = True,
    name: str | None = None,
) -> Any:
    """Set elements of a variable.

    Args:
        ref: The variable.
        indices: Their places: integers of shape [..., coordinates].
        updates: The values that go there.
        use_locking: Accepted and not used.

    Example:
        >>> v1.scatter_nd_update(tf.Variable([1.0, 2.0]), [[1]], [5.0]).numpy().tolist()
        [1.0, 5.0]
    """
    return ref.scatter_nd_update(indices, updates)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Return elements by their numbers along the last axis of ``indices``.

    Args:
        params: The values; their first sizes are those of ``indices``.
        indices: The numbers.

    Example:
        >>> v1.batch_gather([[1, 2], [3, 4]], [[1], [0]]).numpy().tolist()
        [[2], [3]]
    """
    numbers = tf.convert_to_tensor(indices)
    return tf.gather(params, numbers, batch_dims=len(numbers.shape) - 1)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Any]:
    """Return the same tensors.

    Args:
        input: The tensors.

    Example:
        >>> [float(x) for x in v1.identity_n([1.0, 2.0])]
        [1.0, 2.0]
    """
    return [tf.identity(one) for one in input]


def parallel_stack(values: Any, name: str = "parallel_stack") -> Any:
    """Return tensors of one shape as one, along a new first axis.

    Args:
        values: The tensors.

    Example:
        >>> v1.parallel_stack([[1], [2]]).numpy().tolist()
        [[1], [2]]
    """
    return tf.stack(values)


def verify_tensor_all_finite(
    t: Any = None,
    msg: str | None = None,
    name: str | None = None,
    x: Any = None,
    message: str | None = None,
) -> Any:
    """Return a tensor; running it is an error where a number is infinite or NaN.

    Args:
        t, x: The tensor.
        msg, message: The text of the error.

    Example:
        >>> float(v1.verify_tensor_all_finite(1.0, "not finite"))
        1.0
    """
    return tf.debugging.check_numerics(t if x is None else x, msg or message or "")


def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a variable that is not trained, in the list of local ones.

    Args:
        name: Its name.
        *args, **kwargs: As for :func:`get_variable`.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.get_local_variable("count", []).trainable
        False
    """
    lists = [GraphKeys.LOCAL_VARIABLES]
    told = {"trainable": False, "collections": lists, **kwargs}
    return get_variable(name, *args, **told)


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """Return a function whose calls share their variables.

    Args:
        name_: The scope of the variables; a number is added where it is taken.
        func_: Makes them with :func:`get_variable`.
        create_scope_now_: Whether the scope is made now, and not by the first call.
        unique_name_: The scope as it is, or None.
        custom_getter_: As for :func:`variable_scope`.
        **kwargs: Arguments of every call.

    Example:
        >>> with v1.Graph().as_default():
        ...     same = v1.make_template("same", lambda: v1.get_variable("w", []))
        ...     same() is same()
        True
    """
    made: list[Any] = []  # the scope

    def scope(reuse: bool) -> Any:
        if made:
            return variable_scope(made[0], reuse=reuse)
        place = None if unique_name_ else name_
        return variable_scope(unique_name_, place, custom_getter=custom_getter_)

    def call(*args: Any, **options: Any) -> Any:
        with scope(bool(call.__dict__.get("was_called"))) as opened:
            made[:] = made or [opened]
            result = func_(*args, **{**kwargs, **options})
        call.__dict__["was_called"] = True
        return result

    if create_scope_now_:
        with scope(False) as opened:
            made.append(opened)
    return call


@contextmanager
def colocate_with(op: Any, ignore_existing: bool = False) -> Iterator[None]:
    """Open a context without effect: a placement is that of the device scopes.

    Args:
        op: What the operations are to be near.
        ignore_existing: Accepted and not used.

    Example:
        >>> with v1.colocate_with(tf.constant(1.0)):
        ...     x = tf.constant(2.0)
    """
    yield


@contextmanager
def container(container_name: str) -> Iterator[None]:
    """Open a context without effect: variables are those of their session.

    Args:
        container_name: A name for resources.

    Example:
        >>> with v1.container("mine"):
        ...     x = tf.constant(2.0)
    """
    yield
