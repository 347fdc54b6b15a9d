"""AutoGraph's errors: they name the variable, the rule and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ipu import tf


def line_of(function: Callable[..., Any], offset: int) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def changes_shape(n):
    x = tf.zeros(1)
    for _ in tf.range(n):
        x = tf.concat([x, x], 0)
    return x


def changes_dtype(n):
    x = 0
    for _ in tf.range(n):
        x = tf.cast(x, tf.float32)
    return x


def changes_structure(n):
    x = (n, n)
    for _ in tf.range(n):
        x = (n, n, n)
    return x


def is_none_before(n):
    loss = None
    for i in tf.range(n):
        loss = i
    return loss


def exists_only_inside(n):
    for i in tf.range(n):
        loss = i * 2
    return loss


def exists_only_inside_a_while(n):
    while n > 0:
        loss = n * 2
        n -= 1
    return loss + 1


def changes_an_object(n):
    kind = "a"
    for _ in tf.range(n):
        kind = "b"
    return n, kind


def only_in_one_branch(n):
    if n > 0:
        y = n
    return y


def only_in_the_else_branch(n):
    if n > 0:
        pass
    else:
        y = n
    return y


def dtypes_of_branches(n):
    if n > 0:
        y = n
    else:
        y = tf.cast(n, tf.float32)
    return y


def shapes_of_branches(n):
    if n > 0:
        y = tf.zeros(2)
    else:
        y = tf.zeros(3)
    return y


def objects_of_branches(n):
    if n > 0:
        y = "a"
    else:
        y = "b"
    return n, y


def returns_on_some_paths(n):
    if n > 0:
        return n


def returns_in_a_loop_alone(n):
    for i in tf.range(n):
        if i > 3:
            return i


def condition_of_many(n):
    if tf.ones(3) > tf.zeros(3) * tf.cast(n, tf.float32):
        return n
    return n


def endless_data(n):
    for x in tf.data.Dataset.from_tensors(1).repeat():
        n = n + x
    return n


class Stores:
    total = 0

    def add(self, x):
        self.total = self.total + x


def lost_attribute(n):
    s = Stores()
    for i in tf.range(n):
        s.add(i)
    return s.total


CASES = [
    (changes_shape, ValueError, r"'x' has shape \(1,\) before the loop, but shape", 2),
    (changes_dtype, TypeError, "'x' has dtype int32 before the loop, but dtype", 2),
    (changes_structure, TypeError, "'x' does not have the same nested structure", 2),
    (is_none_before, ValueError, "'loss' is not allowed to be None before the", 2),
    (exists_only_inside, UnboundLocalError, "'loss' must be defined before the l", 1),
    (exists_only_inside_a_while, UnboundLocalError, "'loss' must be defined befo", 1),
    (changes_an_object, ValueError, "'kind' is 'a' before the loop and 'b' after", 2),
    (only_in_one_branch, ValueError, "'y' must also be initialized in the else", 1),
    (
        only_in_the_else_branch,
        ValueError,
        "'y' must also be initialized in the main",
        1,
    ),
    (dtypes_of_branches, TypeError, "'y' has dtype int32 in the main branch, but", 1),
    (shapes_of_branches, TypeError, r"'y' has shape \(2,\) in the main branch, but", 1),
    (objects_of_branches, TypeError, "'y' is 'a' in the main branch and 'b' in the", 1),
    (returns_on_some_paths, ValueError, "must be returned on all paths", None),
    (returns_in_a_loop_alone, ValueError, "must be returned on all paths", None),
    (condition_of_many, ValueError, "must be one bool", 1),
    (endless_data, ValueError, "length is not known", 1),
    (lost_attribute, ValueError, "'Stores.total' is changed at", 2),
]


@pytest.mark.parametrize(
    ("program", "kind", "text", "offset"), CASES, ids=[c[0].__name__ for c in CASES]
)
def test_error(
    program: Callable[..., Any], kind: type[Exception], text: str, offset: int | None
) -> None:
    with pytest.raises(kind, match=text) as caught:
        tf.function(program)(tf.constant(5))
    if offset is not None:
        assert line_of(program, offset) in str(caught.value)
    # nothing is left behind
    assert int(tf.function(lambda x: x + 1)(tf.constant(1))) == 2
