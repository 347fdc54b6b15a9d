"""AutoGraph: each program gives in a tf.function what plain Python gives eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("program", "arguments"), CASES, ids=[program.__name__ for program, _ in CASES]
)
def test_program(program: Callable[..., Any], arguments: list[Args]) -> None:
    traced = tf.function(program)
    for args in arguments:
        values = [as_argument(a) for a in args]
        want = numbers(program(*values))
        got = numbers(traced(*values))
        tf.nest.assert_same_structure(want, got)
        for a, b in zip(tf.nest.flatten(want), tf.nest.flatten(got), strict=True):
            np.testing.assert_allclose(a, b)
    assert traced.experimental_get_tracing_count() == 1


def test_a_loop_over_tf_range_is_one_loop_of_the_program() -> None:
    f = tf.function(sum_of_a_range)
    f(tf.constant(1000))
    assert "1 counted loop" in f.explain()
    assert f.traced(tf.constant(1000)).program.text.count("add.") <= 2


def test_the_original_is_not_changed() -> None:
    tf.function(elif_chain)(tf.constant(1.0))
    assert "ag__" not in elif_chain.__code__.co_names
    assert "ag__" in tf.autograph.to_code(elif_chain)
    assert callable(tf.autograph.to_graph(elif_chain))


def test_data_sets_and_iterators() -> None:
    data = tf.data.Dataset.range(6).map(lambda x: tf.cast(x, tf.float32))

    @tf.function
    def total():
        s = 0.0
        for x in data:
            s += x
        return s

    @tf.function
    def first(n):
        s = 0.0
        for i, x in enumerate(data):
            if i == n:
                break
            s += x
        return s

    @tf.function
    def zipped():
        s = 0.0
        for x, k in zip(data.repeat(), tf.range(8), strict=False):
            s += x * tf.cast(k, tf.float32)
        return s

    @tf.function
    def by_next():
        iterator = iter(data)
        s = 0.0
        for _ in tf.range(3):
            s = s + next(iterator)
        return s

    for _ in range(2):  # each run starts at the first element
        assert float(total()) == 15.0
        assert float(first(tf.constant(4))) == 6.0
        assert float(zipped()) == sum((k % 6) * k for k in range(8))
        assert float(by_next()) == 3.0


def test_variables_in_loops_and_branches() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def f(n):
        for i in tf.range(n):
            if i % 2 == 0:
                v.assign_add(1.0)
            else:
                v.assign(v * 10.0)
        return v.read_value()

    assert float(f(tf.constant(4))) == 110.0
    assert float(v) == 110.0


def test_a_tape_in_a_loop() -> None:
    w = tf.Variable(0.0)

    @tf.function
    def train(n):
        loss = 0.0
        for _ in tf.range(n):
            with tf.GradientTape() as tape:
                loss = (w - 3.0) * (w - 3.0)
            w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    value = 0.0
    for _ in range(20):
        last = (value - 3.0) ** 2
        value -= 0.1 * 2 * (value - 3.0)
    np.testing.assert_allclose(float(train(tf.constant(20))), last, rtol=1e-5)
    np.testing.assert_allclose(float(w), value, rtol=1e-5)


def test_maximum_iterations() -> None:
    @tf.function
    def f(x):
        while x > 0:
            tf.autograph.experimental.set_loop_options(maximum_iterations=3)
            x = x - 1
        return x

    assert int(f(tf.constant(10))) == 7


def test_do_not_convert() -> None:
    @tf.autograph.experimental.do_not_convert
    def plain(x):
        return 1 if isinstance(x, tf.Tensor) and x.is_symbolic else 2

    assert int(tf.function(lambda x: plain(x))(tf.constant(1))) == 1

    @tf.autograph.experimental.do_not_convert
    def branches(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(TypeError, match="not known while a function is traced"):
        tf.function(lambda x: branches(x))(tf.constant(1))


def test_without_source_there_is_a_warning_and_plain_tracing() -> None:
    names: dict[str, Any] = {}
    exec("def double(x):\n    return x * 2", names)
    with pytest.warns(RuntimeWarning, match="AutoGraph could not convert double"):
        assert int(tf.function(names["double"])(tf.constant(2))) == 4


def test_errors_in_converted_code_have_the_user_s_lines() -> None:
    def f(x):
        if x > 0:
            y = tf.matmul(x, x)
        else:
            y = x
        return y

    with pytest.raises(Exception, match="matmul") as caught:
        tf.function(f)(tf.constant(1.0))
    lines = [
        entry.lineno + 1
        for entry in caught.traceback
        if str(entry.path) == __file__ and entry.name != "f"
    ]
    assert f.__code__.co_firstlineno + 2 in lines
