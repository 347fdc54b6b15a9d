"""tf.function: signatures, methods, variables, errors, explanations, captures."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, keras, tf
from ipu.tf.compat import v1


def test_decorator_with_and_without_arguments() -> None:
    @tf.function
    def plain(x):
        return x + 1

    @tf.function(jit_compile=True, experimental_relax_shapes=True)
    def compiled(x):
        return x + 1

    old = tf.function(lambda x: x + 1, experimental_compile=True)
    for f in (plain, compiled, old):
        assert int(f(tf.constant(1))) == 2
    assert plain.__name__ == "plain"
    assert callable(plain.python_function)
    with pytest.raises(TypeError, match="takes a callable"):
        tf.function(3)


def test_keyword_and_default_arguments_are_one_signature() -> None:
    traces = []

    @tf.function
    def f(a, b=2, *, c=3):
        traces.append(1)
        return a * b + c

    assert int(f(tf.constant(1))) == 5
    assert int(f(a=tf.constant(1), b=2)) == 5
    assert int(f(tf.constant(1), 2, c=3)) == 5
    assert len(traces) == 1
    assert int(f(tf.constant(1), c=4)) == 6
    assert len(traces) == 2
    with pytest.raises(TypeError, match="missing a required argument"):
        f()


def test_what_a_signature_is() -> None:
    traces = []

    @tf.function
    def f(x):
        traces.append(1)
        return tf.constant(1)

    a, b = object(), object()
    once = [
        (tf.ones(2), np.ones(2, np.float32)),
        (3, 3),
        ("a", "a"),
        (None, None),
        ([tf.ones(2), 1], [tf.zeros(2), 1]),
        ({"k": tf.ones(1)}, {"k": tf.zeros(1)}),
        (a, a),
        (b, b),
        (True, True),
        (1.0, 1.0),
        (1, 1),
        (tf.ones(3), tf.zeros(3)),
        (tf.ones(3, tf.float16), tf.zeros(3, tf.float16)),
        ((tf.ones(2), 1), (tf.ones(2), 1)),
    ]
    for i, (first, second) in enumerate(once):
        f(first)
        f(second)
        assert len(traces) == i + 1, first


def test_caches_do_not_keep_objects_alive() -> None:
    class Model:
        def __init__(self):
            self.w = tf.Variable(2.0)

    @tf.function
    def f(model, x):
        return model.w * x

    model = Model()
    assert float(f(model, tf.constant(3.0))) == 6.0
    gone = weakref.ref(model)
    assert len(f._cache) == 1
    del model
    gc.collect()
    assert gone() is None
    assert not f._cache
    assert float(f(Model(), tf.constant(3.0))) == 6.0


def test_each_instance_has_its_own_programs() -> None:
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @tf.function
        def __call__(self, x):
            return x * self.factor

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def declared(self, x):
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    assert float(two(tf.constant(1.0))) == 2.0
    assert float(three(tf.constant(1.0))) == 3.0
    assert two.declared([1.0, 2.0]).numpy().tolist() == [2.0, 4.0]
    gone = weakref.ref(two)
    del two
    gc.collect()
    assert gone() is None


def test_a_method_of_an_object_that_nobody_keeps() -> None:
    class Twice:
        @tf.function
        def of(self, x):
            return x + x

    kept = Twice()
    assert float(kept.of(tf.constant(2.0))) == 4.0
    with pytest.raises(ReferenceError, match=r"'of' is gone.*model.of\(...\)"):
        Twice().of(tf.constant(2.0))


def test_partials_callables_and_nested_functions() -> None:
    assert int(tf.function(functools.partial(lambda a, b: a - b, b=1))(5)) == 4

    class Twice:
        def __call__(self, x):
            return x * 2

    assert int(tf.function(Twice())(tf.constant(4))) == 8
    inner = tf.function(lambda x: x * 2)
    outer = tf.function(lambda x: inner(x) + inner(x + 1))
    assert int(outer(tf.constant(1))) == 6
    assert inner.experimental_get_tracing_count() == 0


def test_recursion_is_an_error_that_says_so() -> None:
    @tf.function
    def f(x):
        if x > 0:
            return f(x - 1)
        return x

    with pytest.raises(RecursionError, match="f calls itself"):
        f(tf.constant(3))

    @tf.function
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert int(power(tf.constant(3), 4)) == 81


def test_input_signature() -> None:
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def f(x):
        traces.append(1)
        return tf.reduce_sum(x)

    assert float(f([[1.0, 2.0]])) == 3.0
    assert float(f([[1, 2], [3, 4]])) == 10.0
    assert len(traces) == 2
    with pytest.raises(ValueError, match="incompatible with input_signature"):
        f([1.0, 2.0])
    with pytest.raises(ValueError, match="incompatible with input_signature"):
        f("text")
    with pytest.raises(TypeError, match="TensorSpec"):
        tf.function(lambda x: x, input_signature=[1])
    pair = {"a": tf.TensorSpec([1], tf.float32), "b": tf.TensorSpec([], tf.int32)}
    g = tf.function(lambda d, xs: d["a"] * xs[0], input_signature=[pair, [pair["a"]]])
    assert float(g({"a": [2.0], "b": 1}, [[3.0]])[0]) == 6.0
    with pytest.raises(ValueError, match="must have the structure"):
        g([1.0], [[3.0]])


def test_concrete_functions() -> None:
    f = tf.function(lambda x, n: {"y": x * n})
    concrete = f.get_concrete_function(tf.TensorSpec([2], tf.float32), 3)
    assert concrete(tf.ones(2))["y"].numpy().tolist() == [3.0, 3.0]
    assert concrete.structured_outputs["y"].shape == (2,)
    assert concrete.output_dtypes["y"] == tf.float32
    assert f.experimental_get_tracing_count() == 1
    f(tf.ones(2), 3)
    assert f.experimental_get_tracing_count() == 1
    with pytest.raises(TypeError, match="takes 1 tensors"):
        concrete(tf.ones(2), tf.ones(2))


# --- variables -----------------------------------------------------------------------


def test_a_variable_made_in_the_first_call_lives_on_its_object() -> None:
    class Dense:
        def __init__(self):
            self.w = None

        @tf.function
        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable(tf.ones((tf.shape(x)[-1], 2)) * 3.0)
            return tf.matmul(x, self.w)

    layer = Dense()
    np.testing.assert_array_equal(layer(tf.ones((1, 4))), [[12.0, 12.0]])
    np.testing.assert_array_equal(layer(tf.ones((2, 4))), [[12.0, 12.0]] * 2)
    layer.w.assign(tf.zeros((4, 2)))
    np.testing.assert_array_equal(layer(tf.ones((1, 4))), [[0.0, 0.0]])


def test_variables_of_later_traces_are_refused() -> None:
    made = []

    @tf.function
    def f(x):
        made.append(tf.Variable(1.0))
        return made[-1] * x

    f(tf.constant(1.0))
    with pytest.raises(ValueError, match="create variables on non-first call"):
        f(tf.ones(2))

    @tf.function
    def lost(x):
        v = tf.Variable(1.0)
        return v * x

    with pytest.raises(ValueError, match="create variables on non-first call"):
        lost(tf.constant(1.0))


def test_first_values_that_are_not_known_are_refused() -> None:
    kept = []

    @tf.function
    def f(x):
        kept.append(tf.Variable(x * 2))
        return x

    with pytest.raises(tf.errors.InvalidArgumentError, match="depends on an argument"):
        f(tf.constant(1.0))


def test_init_scope_is_outside_of_the_trace() -> None:
    seen = []

    @tf.function
    def f(x):
        assert not tf.executing_eagerly() and tf.inside_function()
        with tf.init_scope():
            seen.append((tf.executing_eagerly(), float(tf.constant(2.0) * 3.0)))
        return x

    f(tf.constant(1.0))
    assert seen == [(True, 6.0)]


def test_effects_keep_program_order() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f():
        v.assign_add(1.0)
        before = v.value()
        v.assign(v * 10.0)
        return before, v.value()

    assert [float(x) for x in f()] == [2.0, 20.0]


# --- tensors that leak, tensors that are captured -------------------------------------


def test_a_tensor_outside_of_its_function() -> None:
    kept = []

    @tf.function
    def keeps(x):
        kept.append(x + 1)  # this line
        return x

    keeps(tf.constant(1))
    line = keeps.python_function.__code__.co_firstlineno + 2
    for use in (
        lambda: kept[0] + 1,
        lambda: tf.function(lambda x: x + kept[0])(tf.constant(1)),
    ):
        with pytest.raises(TypeError) as caught:
            use()
        text = str(caught.value)
        assert "keeps" in text and f"{__file__}:{line}" in text and "add" in text
    with pytest.raises(TypeError, match="is used outside of the function"):
        kept[0].numpy()


def test_a_tensor_of_a_loop_outside_of_it() -> None:
    kept = []

    @tf.function
    def f(n):
        for i in tf.range(n):
            kept.append(i * 2)
        return kept[0] + 1

    with pytest.raises(TypeError, match="outside of the function or loop"):
        f(tf.constant(3))


def test_large_captures_are_not_copied() -> None:
    held = [tf.constant(np.arange(100_000, dtype=np.float32))]
    f = tf.function(lambda i: tf.gather(held[0], i))
    assert float(f(tf.constant(70_000))) == 70_000.0
    program = f.traced(tf.constant(1)).program
    assert program.memory_report["constant_bytes"] < 1024
    assert "held[0]" in program.text
    host = tf.data.Dataset.range(3).map(lambda i: tf.gather(held[0], i + 5))
    assert [float(x) for x in host] == [5.0, 6.0, 7.0]
    held.clear()
    gc.collect()
    assert float(f(tf.constant(9))) == 9.0
    g = tf.function(lambda i: tf.gather(np.ones(50_000, np.float32), i))
    assert float(g(tf.constant(3))) == 1.0
    kept = []
    ones = tf.ones(5000)
    tf.function(lambda: kept.append(tf.Variable(tf.negative(ones) * 2.0)))()
    assert float(tf.reduce_sum(kept[0])) == -10_000.0


def test_sizes_computed_from_shapes_are_known() -> None:
    @tf.function
    def f(x):
        n = tf.shape(x)[0]
        rest = tf.size(x) // n
        return tf.reshape(x, (rest, n)), tf.range(n * 2)

    a, b = f(tf.ones((2, 3)))
    assert a.shape == (3, 2) and b.shape == (4,)


# --- explanations ---------------------------------------------------------------------


def test_explain_says_why_it_was_traced() -> None:
    @tf.function
    def f(x, n, options=None):
        return tf.nn.relu(x * 2.0 + 1.0) * n

    assert "has not been called" in f.explain()
    f(tf.ones(2), 1)
    text = f.explain()
    assert text.startswith("f has been traced once.")
    assert "1 chain of element-wise ops" in text
    f(tf.ones(3), 1)
    assert (
        "x changed from a float32 tensor of shape (2,) to a float32 tensor of shape "
        "(3,)" in f.explain()
    )
    f(tf.ones(3), 2)
    assert "n changed from 1 to 2" in f.explain()
    f(tf.ones(3), 2, options=object())
    assert "options changed from None to an object of object" in f.explain()


def test_explain_counts_loops_variables_and_branches() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f(n):
        for i in tf.range(n):
            if i > 2:
                v.assign_add(1.0)
        return v.value()

    f(tf.constant(3))
    text = f.explain()
    assert "1 counted loop" in text and "1 variable" in text


def test_many_traces_are_a_warning_that_names_the_argument() -> None:
    f = tf.function(lambda x, step: x * step)
    with pytest.warns(RuntimeWarning, match="step changed from 4 to 5"):
        for step in range(7):
            f(tf.ones(1), step)


def test_explain_tells_of_the_ipus_of_a_pipeline() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    v, outfeed = tf.Variable(tf.ones((8, 8))), ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        return ipu.pipelining_ops.pipeline(
            [lambda x: x @ v, lambda x: x + 1.0],
            gradient_accumulation_count=4,
            inputs=[x],
            outfeed_queue=outfeed,
        )

    try:
        f(tf.ones((2, 8)))
        text = f.explain()
    finally:
        ipu.config.reset_ipu_configuration()
    assert ", and uses 1 variable." in text
    assert "IPU 0 of the pipeline needs" in text
    assert "IPU 1 of the pipeline needs" in text


def test_python_side_effects_are_explained_once(capsys) -> None:
    import time

    state = {"count": 0}

    class Holder:
        calls = 0

    holder = Holder()

    @tf.function
    def f(x):
        print("tracing")
        holder.calls += 1
        return x + time.time() * 0.0

    with pytest.warns(RuntimeWarning) as told:
        f(tf.constant(1.0))
        f(tf.ones(2))
    texts = [str(w.message) for w in told]
    assert sum("print at" in t for t in texts) == 1
    assert sum("'holder.calls' is changed" in t for t in texts) == 1
    assert sum("time.time() at" in t for t in texts) == 1
    assert all(__file__ in t for t in texts)
    assert state["count"] == 0 and holder.calls == 2


# --- places ---------------------------------------------------------------------------


def test_devices() -> None:
    f = tf.function(lambda x: x * 2)
    with tf.device("/CPU:0"):
        assert f(tf.constant([1.0], tf.float64)).dtype == tf.float64
    with tf.device("/device:IPU:0"), pytest.raises(TypeError, match="float64"):
        f(tf.constant([1.0], tf.float64))
    assert float((tf.constant(1.0) + 1.0).numpy()) == 2.0
    with pytest.raises(ValueError, match="GPU"), tf.device("/device:GPU:0"):
        pass


def test_run_functions_eagerly() -> None:
    seen = []

    @tf.function
    def f(x):
        seen.append(x.is_symbolic)
        return x if x > 0 else -x

    tf.config.run_functions_eagerly(True)
    try:
        assert tf.config.functions_run_eagerly()
        assert float(f(tf.constant(-2.0))) == 2.0
    finally:
        tf.config.run_functions_eagerly(False)
    assert float(f(tf.constant(-2.0))) == 2.0
    assert seen == [False, True]


def test_a_failed_trace_leaves_nothing_open() -> None:
    @tf.function
    def f(x):
        for _ in tf.range(3):
            raise KeyError("mine")
        return x

    with pytest.raises(KeyError, match="mine"):
        f(tf.constant(1))
    assert _core.open_trace() is None
    assert float(tf.function(lambda x: x)(tf.constant(1.0))) == 1.0


def test_small_names() -> None:
    assert tf.is_tensor(tf.ones(1)) and not tf.is_tensor([1])
    assert tf.executing_eagerly()
    assert tf.no_op() is None and tf.group(tf.no_op()) is None
    with tf.name_scope("a") as scope, tf.control_dependencies([tf.no_op()]):
        assert scope == "a/"
    assert [int(t) for t in tf.tuple([1, 2])] == [1, 2]
    assert tf.__version__ == tf.version.VERSION
    assert tf.config.list_physical_devices("CPU")
    assert tf.config.list_physical_devices("GPU") == []
    assert float(tf.py_function(lambda x: x * 2, [2.0], tf.float32)) == 4.0
    assert float(tf.numpy_function(np.sin, [0.0], tf.float32)) == 0.0


def test_modules() -> None:
    class Inner(tf.Module):
        def __init__(self):
            super().__init__(name="inner")
            self.b = tf.Variable([1.0, 2.0], trainable=False)

    class Outer(tf.Module):
        def __init__(self):
            super().__init__()
            self.z = tf.Variable(1.0)
            self.parts = [Inner(), {"x": Inner()}]
            self.same = self.parts[0]

    outer = Outer()
    assert outer.name == "outer"
    assert len(outer.variables) == 3
    assert outer.trainable_variables == (outer.z,)
    assert len(outer.submodules) == 2
    with pytest.raises(ValueError, match="not a valid module name"):
        tf.Module(name="a b")


NAN = float("nan")


@pytest.mark.parametrize(
    "values",
    [
        (0.0, -0.0, 0, False),
        (1, True, 1.0, 1 + 0j),
        (NAN, 1.0),
        (0j, complex(0.0, -0.0), complex(-0.0, 0.0)),
        (1 + 0j, complex(1.0, -0.0), complex(NAN, 1.0)),
        ([0.0], [-0.0], (0.0,), (-0.0,), [NAN]),
        ({"a": (0.0, 1)}, {"a": (-0.0, 1)}, {"a": (NAN, 1)}),
        ({0.0: 1}, {-0.0: 1}, {False: 1}),
        (None, "", b"", "0.0"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("named", [False, True])
def test_a_trace_serves_values_of_the_same_bits(values: Any, named: bool) -> None:
    seen: list[str] = []

    @tf.function
    def f(value: Any, x: Any) -> Any:
        seen.append(repr(value))
        return x

    for _ in range(2):
        for value in values:
            again = (
                float("nan") if isinstance(value, float) and value != value else value
            )
            if named:
                f(x=tf.constant(1.0), value=again)
            else:
                f(again, tf.constant(1.0))
    assert seen == [repr(value) for value in values]


def test_a_division_by_minus_zero_has_its_sign() -> None:
    divide = tf.function(lambda zero: tf.constant(1.0) / zero)
    assert [divide(z).numpy() for z in (0.0, -0.0)] == [np.inf, -np.inf]


@pytest.mark.parametrize("wraps", [False, True])
def test_an_optimizer_without_a_state_may_be_made_in_a_function(wraps):
    w = tf.Variable(2.0)

    def step(x):
        opt = v1.train.GradientDescentOptimizer(0.1)
        if wraps:
            opt = ipu.optimizers.CrossReplicaOptimizer(opt)
        with tf.GradientTape() as tape:
            loss = w * w * x
        opt.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
        return loss

    f = tf.function(step, jit_compile=True)
    want = 2.0
    for x in (1.0, 1.0, [1.0], 1.0):
        np.testing.assert_allclose(f(tf.constant(x)).numpy(), want * want, rtol=1e-5)
        want *= 0.8
    assert float(w) == pytest.approx(want)


def _init_scoped():
    with tf.init_scope():
        return tf.Variable(1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: v1.train.MomentumOptimizer(0.1, 0.9),
        lambda: v1.train.AdamOptimizer(0.1),
        lambda: keras.optimizers.SGD(0.1),
        lambda: keras.optimizers.Adam(0.1),
        _init_scoped,
    ],
)
def test_variables_that_go_with_the_trace(make):
    w = tf.Variable(2.0)

    @tf.function
    def step():
        made = make()
        if isinstance(made, tf.Variable):
            return made + w
        with tf.GradientTape() as tape:
            loss = w * w
        made.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
        return loss

    for _ in range(2):
        with pytest.raises(ValueError, match="variables on non-first call"):
            step()
    assert float(w) == 2.0
    kept = []

    @tf.function
    def keeping(x):
        if not kept:
            kept.append(make())
        if isinstance(kept[0], tf.Variable):
            return kept[0] + w + x
        with tf.GradientTape() as tape:
            loss = w * w + x
        kept[0].apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
        return loss

    keeping(tf.constant(1.0))
    keeping(tf.constant([1.0]))
    unused = tf.function(lambda: (_init_scoped(), tf.constant(1.0))[1])
    assert float(unused()) == 1.0


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_graph_has_the_name_of_the_function(jit_compile: bool) -> None:
    seen: list[str] = []

    @tf.function(jit_compile=jit_compile)
    def some_step(x: Any) -> Any:
        seen.append(tf.compat.v1.get_default_graph().name)
        return x * 2.0

    assert float(some_step(tf.constant(1.0))) == 2.0
    assert seen == ["some_step"]
    assert tf.compat.v1.get_default_graph().name == tf.compat.v1.Graph().name == ""


def test_constants_of_wider_dtypes_are_those_of_the_device() -> None:
    wide = np.array([2**40])

    @tf.function
    def counted(x):
        steps = tf.range(3, dtype=tf.int64) + tf.cast(x, tf.int64)
        halves = tf.constant(np.array([0.5, 1.5])) * 2.0
        return steps, halves, steps * tf.ones_like(steps)

    steps, halves, same = counted(tf.constant(1))
    assert steps.dtype == same.dtype == tf.int32 and halves.dtype == tf.float32
    assert steps.numpy().tolist() == [1, 2, 3] and halves.numpy().tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="int32"):
        tf.function(lambda x: x + tf.constant(wide))(tf.constant(1))
