# SPDX-License-Identifier: MIT
"""Programs with Python's ifs and loops, and arguments to call each with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import tf

Args = tuple[Any, ...]
CASES: list[tuple[Callable[..., Any], list[Args]]] = []


def case(*arguments: Args) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a program with the arguments of a few calls; numbers become tensors."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((function, list(arguments)))
        return function

    return register


def numbers(value: Any) -> Any:
    return tf.nest.map_structure(
        lambda leaf: np.asarray(leaf).tolist() if tf.is_tensor(leaf) else leaf, value
    )


def as_argument(value: Any) -> Any:
    return tf.constant(value) if isinstance(value, (int, float, list)) else value


# --- conditionals --------------------------------------------------------------------


@case((3.0,), (-3.0,), (0.0,))
def if_else(x):
    if x > 0:
        y = x * 2
    else:
        y = -x
    return y


@case((3.0,), (-3.0,), (-30.0,), (0.0,))
def elif_chain(x):
    if x > 0:
        name, value = 1, x
    elif x < -10:
        name, value = 2, x * x
    elif x < 0:
        name, value = 3, x + 1
    else:
        name, value = 4, x
    return name, value


@case((3.0,), (-3.0,), (-30.0,))
def early_returns(x):
    if x > 0:
        return x * 2
    if x < -10:
        return x / 2
    y = x + 1
    return y * 3


@case((3.0,), (-3.0,), (-30.0,))
def returns_in_an_elif_then_code(x):
    if x > 0:
        y = x * 2
    elif x < -10:
        return x * 100
    else:
        y = -x
    z = y + 1
    return z * y


@case((1.0,), (-1.0,))
def if_without_else_changes_a_variable(x):
    y = x + 10
    if x > 0:
        y = y * 2
    return y


@case((1.0,), (-1.0,))
def number_in_both_branches(x):
    if x > 0:
        k = 1
    else:
        k = 2
    return x * tf.cast(k, tf.float32)


@case((5.0, 2.0), (1.0, 2.0), (-1.0, 7.0))
def nested_ifs(a, b):
    if a > b:
        if a > 4:
            r = a
        else:
            r = b
        r = r + 1
    else:
        r = a * b
        if r < 0:
            r = tf.zeros_like(r)
    return r


@case((3,), (0,))
def ternary(n):
    y = 10 if n > 2 else 20
    return y + n


@case((3,), (-3,), (30,))
def nested_ternary(n):
    return 1 if n > 10 else (2 if n > 0 else 3)


@case((4.0,), (0.5,), (-1.0,))
def chained_comparison(x):
    if 0 < x < 1:
        return x * 10
    return x


@case((2, 5), (9, 5), (2, 50), (9, 50))
def and_or_not(a, b):
    if a > 5 and b > 10:
        return 1
    if a > 5 or b > 10:
        return 2
    if not a > 5:
        return 3
    return 4


@case((1.0,), (-1.0,))
def branch_that_only_reads_the_old_value(x):
    y = x
    if x > 0:
        y = y + 1
        z = y
    else:
        z = y * 5
    return z


@case((2.0,), (-2.0,))
def structures_in_branches(x):
    if x > 0:
        d = {"a": x, "b": [x, 1]}
    else:
        d = {"a": -x, "b": [x * 2, 2]}
    return d


@case((1.0,), (-1.0,))
def python_objects_pass_through(x):
    kind = "sum"
    if x > 0:
        y = x
    else:
        y = -x
    return y if kind == "sum" else x


# --- counted loops -------------------------------------------------------------------


@case((5,), (0,), (1,))
def sum_of_a_range(n):
    total = 0
    for i in tf.range(n):
        total += i
    return total


@case((2, 9), (9, 2), (3, 4))
def range_with_bounds(a, b):
    total = 0
    for i in tf.range(a, b):
        total += i * i
    return total


@case((0, 10, 3), (10, 0, -3), (0, 9, 3), (5, 5, 1))
def range_with_a_step(a, b, s):
    total = 0
    for i in tf.range(a, b, s):
        total = total * 2 + i
    return total


@case(([1.0, 2.0, 3.0],))
def over_a_tensor(xs):
    total = 0.0
    for x in xs:
        total = total + x * x
    return total


@case(([[1.0, 2.0], [3.0, 4.0]],))
def over_rows(rows):
    total = tf.zeros(2)
    for a in rows:
        for b in a:
            total = total + a * b
    return total


@case((4,))
def nested_loops(n):
    total = 0
    for i in tf.range(n):
        for j in tf.range(i):
            total += i * j
    return total


@case((10,), (3,))
def break_out(n):
    total = 0
    for i in tf.range(n):
        if i > 4:
            break
        total += i
    return total


@case((10,))
def continue_on(n):
    total = 0
    for i in tf.range(n):
        if i % 2 == 0:
            continue
        total += i
    return total


@case((20,), (2,))
def break_and_continue(n):
    total, last = 0, -1
    for i in tf.range(n):
        if i % 3 == 0:
            continue
        if i > 10:
            break
        last = i
        total += i
    return total, last


@case((10, 4), (3, 4))
def for_else(n, stop):
    found = 0
    for i in tf.range(n):
        if i == stop:
            found = i
            break
    else:
        found = -1
    return found


@case(([1.0, 2.0, 5.0, 3.0], 2.5), ([1.0, 2.0, 0.0, 1.0], 2.5))
def return_from_a_loop(xs, limit):
    i = 0
    for x in xs:
        if x > limit:
            return i, x
        i += 1
    return -1, 0.0


@case((3, 3, 4), (3, 3, 100))
def return_from_two_loops(n, m, wanted):
    for i in tf.range(n):
        for j in tf.range(m):
            if i * j == wanted:
                return i * 10 + j
    return -1


@case((4,))
def continue_in_both_branches(n):
    total = 0
    for i in tf.range(n):
        if i > 1:
            total += 10
            continue
        else:
            total += 1
        total += 100
    return total


@case(([5, 6, 7],))
def enumerate_a_tensor(xs):
    total = 0
    for i, x in enumerate(xs):
        total += i * x
    return total


@case(([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
def zip_tensors(a, b):
    total = 0.0
    for x, y in zip(a, b, strict=False):
        total += x * y
    return total


@case((6,))
def range_of_a_tensor(n):
    total = 0
    for i in range(n):
        total += i
    return total


@case((3,))
def loop_variable_is_kept(n):
    i = -1
    for i in tf.range(n):
        pass
    return i


@case(([3.0, 1.0],))
def tuples_are_carried(x):
    state = (x, {"n": 0})
    for _ in tf.range(4):
        a, d = state
        state = (a * 2, {"n": d["n"] + 1})
    return state


# --- while ---------------------------------------------------------------------------


@case((6,), (1,), (27,))
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@case((100.0,), (0.5,))
def while_with_and(x):
    n = 0
    while x > 1 and n < 4:
        x = x / 2
        n += 1
    return x, n


@case((10,), (3,))
def while_true(n):
    i = 0
    while True:
        i += 1
        if i * i >= n:
            break
    return i


@case((10,))
def while_with_continue(n):
    i, odd = 0, 0
    while i < n:
        i += 1
        if i % 2 == 0:
            continue
        odd += i
    return odd


@case((7,), (100,))
def while_else(n):
    i, r = 2, 0
    while i * i <= n:
        if n % i == 0:
            r = i
            break
        i += 1
    else:
        r = n
    return r


@case((5,))
def return_in_while(n):
    while n > 0:
        if n == 3:
            return n * 100
        n -= 1
    return n


# --- Python values stay Python --------------------------------------------------------


@case((2.0,))
def python_loop_is_unrolled(x):
    parts = []
    for i in range(3):
        if i == 1:
            continue
        parts.append(x * i)
    return tf.stack(parts)


@case((2.0,), (20.0,))
def break_of_a_python_loop_by_a_tensor(x):
    total = 0.0
    for i in [1.0, 2.0, 3.0]:
        if x > 10.0:
            break
        total = total + x * i
        x = x * 3.0
    return total


@case((2.0,))
def comprehensions(x):
    values = [x * i for i in range(3) if i != 1]
    return sum(values)


@case((1.5,))
def try_and_with(x):
    with tf.name_scope("scope"):
        try:
            if x > 1:
                y = x * 2
            else:
                y = x
        finally:
            pass
    return y


@case((2.0,))
def dictionaries(x):
    d = {}
    d["a"] = x
    for key in list(d):
        d[key] = d[key] * 2
    return d


# --- functions ------------------------------------------------------------------------


def helper(x):
    if x > 0:
        return x * 2
    return x - 1


def deep_helper(n):
    total = 0
    for i in tf.range(n):
        total += helper(i)
    return total


@case((3.0,), (-3.0,))
def calls_a_helper(x):
    return helper(x) + 1


@case((5,))
def calls_a_helper_with_a_loop(n):
    return deep_helper(n)


@case((3.0,), (-3.0,))
def local_function_with_nonlocal(x):
    total = x

    def add(y):
        nonlocal total
        if y > 0:
            total = total + y
        return total

    add(x)
    return add(x + 1)


@case((4,))
def local_function_called_in_a_loop(n):
    total = 0

    def add(y):
        nonlocal total
        total = total + y

    for i in tf.range(n):
        add(i)
    return total


@case((3.0,), (-3.0,))
def lambdas(x):
    f = lambda v: v * 2 if v > 0 else -v  # noqa: E731
    return f(x) + (lambda v: v and True)(1)


class Counter:
    scale = 3

    def __init__(self, start):
        self.count = start
        self.__hidden = 2

    def advance(self, x):
        if x > 0:
            self.count = self.count + x
        else:
            self.count = self.count * self.__hidden
        return self.count * self.scale

    def __call__(self, x):
        total = x
        for _ in range(2):
            total = total + self.advance(total)
        return total


class Doubled(Counter):
    def advance(self, x):
        return super().advance(x) * 2


class Named(Counter):
    def advance(self, x):
        def by(k):
            return super(Named, self).advance(x) * k

        return by(Named.scale)


@case((3.0,), (-3.0,))
def methods_that_name_their_class(x):
    class Inner(Named):
        def advance(self, x):
            if x > 1:
                x = x * Inner.scale
            return super(Inner, self).advance(x)  # noqa: UP008

    return Named(x * 0)(x), Inner(x * 0)(x)


@case((3.0,), (-3.0,))
def methods_and_attributes(x):
    c = Counter(x * 0)
    c.advance(x)
    return c.advance(x + 1), c.count


@case((3.0,), (-3.0,))
def callable_objects_and_super(x):
    return Doubled(x * 0)(x)


@case((3.0,), (-3.0,))
def attributes_in_a_loop(x):
    c = Counter(x * 0)
    for _ in tf.range(3):
        c.count = c.count + x
    return c.count


@case((5,))
def recursion_of_python_values(n):
    def power(x, k):
        if k == 0:
            return 1
        return x * power(x, k - 1)

    return power(n, 3)


@case((3.0,))
def starred_and_keyword_arguments(x):
    def f(a, *rest, scale=1.0, **more):
        if a > 0:
            a = a * scale
        return a + rest[0] + more["bias"]

    return f(*[x, 2.0], scale=4.0, **{"bias": 1.0})


# --- integers and floats --------------------------------------------------------------


@case((7,))
def int_and_float_of_tensors(n):
    return float(n) / 2.0 + float(int(n))


@case(([1.0, 2.0, 3.0],))
def length_of_a_tensor(xs):
    total = 0.0
    for i in tf.range(len(xs)):
        total += xs[i]
    return total / len(xs)


@case((5.0,))
def assertions(x):
    assert x > 0, "positive"
    return x
