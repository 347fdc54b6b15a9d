# SPDX-License-Identifier: MIT
"""Functions with AutoGraph, variables, modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any], Any]
_cases: dict[str, Case] = {}


def case(function: Case) -> Case:
    _cases[f"functions: {function.__name__}"] = function
    return function


#
# Each runs in a `tf.function`, and as it is; both results are compared.

_converted: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def converted(*arguments: Any) -> Callable[[Any], Any]:
    """Takes a function of `tf` and tensors of these values."""

    def take(function: Any) -> Any:
        _converted.append((function, arguments))
        return function

    return take


def functions() -> dict[str, Case]:
    found = dict(_cases)
    for function, arguments in _converted:

        def both(tf: Any, function: Any = function, arguments: Any = arguments) -> Any:
            tensors = [tf.constant(a) for a in arguments]
            inside = tf.function(lambda *xs: function(tf, *xs))
            return {"function": inside(*tensors), "plain": function(tf, *tensors)}

        found[f"autograph: {function.__name__}"] = both
    return found


F = np.float32
VECTOR = np.array([0.5, -1.25, 2.0, 3.0], F)
MATRIX = np.array([[0.5, -1.25, 2.0], [3.0, -0.75, 0.25]], F)


@converted(F(3.0))
def if_else(tf, x):
    if x > 2.0:
        y = x * 2.0
    else:
        y = x - 1.0
    return y


@converted(F(-3.0))
def elif_chain(tf, x):
    if x > 2.0:
        y = 1.0
    elif x > -1.0:
        y = 2.0
    else:
        y = 3.0
    return x + y


@converted(VECTOR)
def nested_ifs(tf, x):
    total = tf.constant(0.0)
    if tf.reduce_sum(x) > 0.0:
        if x[0] > 1.0:
            total += 1.0
        else:
            total -= 1.0
    return total


@converted(np.int32(5))
def for_range(tf, n):
    total = 0
    for k in tf.range(n):
        total += k * k
    return total


@converted(np.int32(10))
def for_break(tf, n):
    total = 0
    for k in tf.range(n):
        if k == 4:
            break
        total += k
    return total


@converted(np.int32(10))
def for_continue(tf, n):
    total = 0
    for k in tf.range(n):
        if k % 3 == 0:
            continue
        total += k
    return total


@converted(np.int32(6))
def for_return(tf, n):
    for k in tf.range(n):
        if k * k > 10:
            return k
    return -1


@converted(np.int32(6))
def for_else(tf, n):
    found = 0
    for k in tf.range(n):
        if k > 10:
            found = 1
            break
    else:
        found = 2
    return found


@converted(MATRIX)
def for_rows(tf, x):
    total = tf.zeros([3])
    for row in x:
        total = total * 0.5 + row
    return total


@converted(np.int32(3), np.int32(4))
def nested_for(tf, n, m):
    total = 0
    for a in tf.range(n):
        for b in tf.range(m):
            if a == b:
                continue
            total += a * b
    return total


@converted(np.int32(27))
def collatz(tf, n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@converted(F(2.0))
def newton(tf, x):
    y = x
    while abs(y * y - x) > 1e-4:
        y = 0.5 * (y + x / y)
    return y


@converted(np.int32(9))
def while_break(tf, n):
    k = 0
    while True:
        k += 1
        if k * k > n:
            break
    return k


@converted(F(1.0), F(2.0))
def boolean_operators(tf, x, y):
    if x > 0.0 and not y < 1.0:
        z = 1.0
    else:
        z = 0.0
    if x > 5.0 or y > 1.5:
        z += 10.0
    return x + z


@converted(F(1.5))
def chained_comparison(tf, x):
    if 1.0 < x < 2.0:
        return x
    return -x


@converted(F(1.5))
def conditional_expression(tf, x):
    return x * 2.0 if x > 1.0 else x


@converted(F(1.5))
def early_return(tf, x):
    if x > 1.0:
        return x * 3.0
    y = x + 1.0
    return y * y


@converted(VECTOR)
def list_of_rows(tf, x):
    rows = []
    for k in range(3):
        rows.append(x * float(k))
    return tf.stack(rows)


@converted(np.int32(4))
def tensor_array(tf, n):
    array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    for k in tf.range(4):
        array = array.write(k, k * k)
    return array.stack()


@converted(np.int32(4))
def array_of_any_size(tf, n):
    array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    for k in tf.range(n):
        array = array.write(k, k * k)
    return array.stack()


@converted(VECTOR)
def array_by_turns(tf, x):
    array = tf.TensorArray(tf.float32, size=4)
    state = 0.0
    for k in tf.range(4):
        state = state * 0.5 + x[k]
        array = array.write(k, state)
    return array.stack()


@converted(F(2.0))
def inner_function(tf, x):
    def square(v):
        if v > 1.0:
            return v * v
        return v

    return square(x) + square(x - 1.5)


@converted(F(2.0))
def lambdas(tf, x):
    double = lambda v: v * 2.0  # noqa: E731
    return double(x) + (lambda v: v + 1.0)(x)


@converted(VECTOR)
def while_loop_call(tf, x):
    def body(k, total):
        return k + 1, total + x[k]

    return tf.while_loop(lambda k, _: k < 3, body, [0, 0.0])


@converted(F(3.0))
def cond_call(tf, x):
    return tf.cond(x > 2.0, lambda: (x, x + 1.0), lambda: (x - 1.0, x))


@converted(np.int32(1))
def switch_case_call(tf, k):
    return tf.switch_case(k, [lambda: 10.0, lambda: 20.0], default=lambda: 30.0)


@converted(np.int32(7))
def switch_case_default(tf, k):
    return tf.switch_case(k, [lambda: 10.0, lambda: 20.0], default=lambda: 30.0)


@converted(F(0.5))
def case_call(tf, x):
    return tf.case(
        [(x > 1.0, lambda: 1.0), (x > 0.0, lambda: 2.0)], default=lambda: 3.0
    )


@converted(MATRIX)
def map_fn_call(tf, x):
    return tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)


@converted(VECTOR)
def scan_call(tf, x):
    return tf.scan(lambda a, b: a * 0.5 + b, x, initializer=1.0)


@converted(VECTOR)
def scan_without_start(tf, x):
    return tf.scan(lambda a, b: a + b, x)


@converted(VECTOR)
def folds(tf, x):
    return tf.foldl(lambda a, b: a - b, x), tf.foldr(lambda a, b: a - b, x)


@converted(VECTOR)
def dictionaries(tf, x):
    parts = {"a": x[:2], "b": (x[2:], [x])}
    return {k: parts[k] for k in sorted(parts)}


@converted(F(1.0))
def assertions(tf, x):
    assert x > 0.0
    tf.debugging.assert_greater(x, 0.5)
    return x


@converted(np.int32(3))
def augmented_in_loop(tf, n):
    a, b = 0, 1
    for _ in tf.range(n):
        a, b = b, a + b
    return a, b


@converted(F(2.0))
def gradient_in_function(tf, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x * x
        for _ in tf.range(2):
            y = y * 0.5
    return tape.gradient(y, x)


@converted(VECTOR)
def slices_by_counter(tf, x):
    total = 0.0
    for k in tf.range(3):
        total += tf.reduce_sum(x[k : k + 2])
    return total


@converted(VECTOR)
def slices_to_the_end(tf, x):
    total = 0.0
    for k in tf.range(3):
        total += tf.reduce_sum(x[k:])
    return total


@converted(np.int32(5))
def python_for(tf, n):
    total = n
    for k in range(3):
        total = total * 2 + k
    return total


@converted(VECTOR)
def zipped(tf, x):
    total = 0.0
    for a, b in zip([1.0, 2.0], [x[0], x[1]], strict=True):
        total += a * b
    return total


@converted(VECTOR)
def enumerated(tf, x):
    total = 0.0
    for k, value in enumerate(x):
        total += tf.cast(k, tf.float32) * value
    return total


@case
def traced_once(tf):
    count = []

    @tf.function
    def f(x):
        count.append(1)
        return x + 1.0

    results = [f(tf.constant(1.0)), f(tf.constant(2.0)), f(tf.constant([1.0]))]
    return results, len(count)


@case
def python_arguments(tf):
    count = []

    @tf.function
    def f(x, k):
        count.append(1)
        return x * k

    x = tf.constant(2.0)
    return [f(x, 2), f(x, 2), f(x, 3), f(x, k=3)], len(count)


@case
def signature(tf):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x):
        return tf.reduce_sum(x)

    return [f(tf.ones([2])), f(tf.ones([5]))]


@case
def variables_in_function(tf):
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def f(x):
        v.assign_add(x)
        y = v * 2.0
        v.assign_sub([0.5, 0.5])
        return y

    return [f(tf.constant([1.0, 1.0])), f(tf.constant([2.0, 0.0])), v]


@case
def variable_made_once(tf):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(3.0)
            return self.v * x

    model = Model()
    return [model(tf.constant(2.0)), model(tf.constant(4.0)), len(model.variables)]


@case
def variable_made_again(tf):
    @tf.function
    def f(x):
        return tf.Variable(1.0) + x

    return f(tf.constant(1.0))


@case
def effects_keep_order(tf):
    v = tf.Variable(1.0)

    @tf.function
    def f():
        a = v.read_value()
        v.assign(5.0)
        b = v.read_value()
        v.assign_add(2.0)
        return a, b, v.read_value()

    return f()


@case
def nested_functions(tf):
    @tf.function
    def inner(x):
        return x * 2.0

    @tf.function
    def outer(x):
        return inner(x) + inner(x + 1.0)

    return outer(tf.constant(3.0))


@case
def returns_structures(tf):
    @tf.function
    def f(x):
        return {"a": x, "b": [x + 1.0, (x,)], "c": None, "d": 7}

    return f(tf.constant(1.0))


@case
def modules(tf):
    class Layer(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([1.0], name="w")
            self.parts = [tf.Variable(2.0, trainable=False), {"k": tf.Variable(3.0)}]

    layer = Layer()
    return (
        [v.numpy() for v in layer.variables],
        [v.numpy() for v in layer.trainable_variables],
    )


@case
def variable_operators(tf):
    v = tf.Variable([1.0, 2.0, 3.0])
    return [v + 1.0, 2.0 * v, v[1], v[1:], -v, v**2, v > 1.5, v / 2.0]


@case
def variable_equality(tf):
    v = tf.Variable([1.0, 2.0])
    return [v == 1.0, v != 1.0, v == tf.constant([1.0, 2.0])]


@case
def variable_face(tf):
    v = tf.Variable([[1.0, 2.0]], name="mine", trainable=False)
    return [v.shape, v.dtype, v.name, v.trainable, v.numpy(), len({v.ref(), v.ref()})]


@case
def scatter_updates(tf):
    v = tf.Variable([1.0, 2.0, 3.0])
    v.scatter_nd_update([[0]], [9.0])
    return v


@case
def scattered_rows(tf):
    delta = tf.IndexedSlices([[1.0, 5.0], [3.0, 4.0]], [2, 0])
    results = []
    for name in ("update", "add", "sub", "max", "min"):
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        getattr(v, f"scatter_{name}")(delta)
        results.append(v.numpy())
    return results


@case
def scattered_twice(tf):
    v = tf.Variable([1, 2, 3])

    @tf.function
    def f():
        v.scatter_nd_add([[1], [1]], [10, 20])
        v.scatter_nd_sub([[0]], [5])
        return v.value()

    return [f(), f(), v]


@case
def indexed_slices(tf):
    rows = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        tf.constant([2, 0, 2]),
        tf.constant([4, 2]),
    )
    return [tf.convert_to_tensor(rows), rows.values, rows.indices, rows.dtype]


@case
def integer_variable(tf):
    v = tf.Variable(3)
    v.assign_add(4)
    return [v, v.dtype, v * 2, v // 2]
