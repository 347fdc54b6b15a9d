# SPDX-License-Identifier: MIT
"""`tf.test.TestCase`, and the modules of test suites under TensorFlow's names."""

import collections
import json
import subprocess
import sys
import textwrap
import unittest

import numpy as np
import pytest

from ipu import config, drop_in, tf
from ipu.ops import internal_ops
from ipu.tf import errors

Pair = collections.namedtuple("Pair", "a b")


@pytest.fixture
def case():
    made = tf.test.TestCase()
    made.setUp()
    yield made
    made.doCleanups()


@pytest.fixture
def served():
    drop_in.install()
    yield
    drop_in.uninstall()


def fails(assertion, *args, **kwargs):
    with pytest.raises(AssertionError) as caught:
        assertion(*args, **kwargs)
    return str(caught.value)


def test_all_close(case):
    close = case.assertAllClose
    close(tf.constant([1.0, 2.0]), [1.0, 2.0 + 1e-7])
    close({"a": [tf.zeros(2), tf.ones(3)]}, {"a": [np.zeros(2), np.ones(3)]})
    close(Pair(1, tf.Variable([2.0])), {"a": 1, "b": [2.0]})
    close((1.0, [2.0, 3.0]), (1.0, (2.0, 3.0)))
    close([float("nan")], [float("nan")])
    text = fails(close, [[1.0, 2.0]], [[1.0, 3.0]], msg="words")
    assert "words" in text and "(0, 1): 2.0 and 3.0" in text and "1 of 2" in text
    assert "['x'][1]" in fails(close, {"x": [1.0, [2]]}, {"x": [1.0, [3]]})
    assert "Shape mismatch" in fails(close, [1.0, 2.0], [1.0])
    assert "Shape mismatch" in fails(close, tf.ones([2, 1]), tf.ones([2]))
    assert "mismatched keys" in fails(close, {"a": 1}, {"b": 1})
    assert "mapping" in fails(close, {"a": 1}, [1])
    assert "mismatched length" in fails(close, [[1], [1, 2]], [[1]])
    fails(close, [1.0], [1.0 + 1e-4])
    close([1.0], [1.0 + 1e-4], rtol=1e-3)


def test_tolerances_follow_the_narrower_dtype(case):
    wide = np.float32([1.0])
    fails(case.assertAllClose, np.float16([1.0 + 1e-3]), wide)
    case.assertAllCloseAccordingToType(np.float16([1.0 + 1e-3]), wide)
    fails(case.assertAllCloseAccordingToType, wide + np.float32(1e-3), wide)
    case.assertNotAllClose([1.0], [2.0])
    fails(case.assertNotAllClose, [1.0], [1.0])


def test_all_equal(case):
    case.assertAllEqual(tf.constant([1, 2]), np.array([1, 2]))
    case.assertAllEqual(["a", b"b"], ["a", b"b"])
    case.assertAllEqual([float("nan")], [float("nan")])
    case.assertAllEqual({"a": tf.constant(True)}, {"a": True})
    fails(case.assertAllEqual, [1, 2], [1, 3])
    case.assertNotAllEqual([1, 2], [1, 3])
    fails(case.assertNotAllEqual, [1, 2], [1, 2])


def test_near(case):
    case.assertNear(1.0, 1.1, 0.2)
    fails(case.assertNear, 1.0, 1.3, 0.2)
    case.assertArrayNear([1.0, 2.0], [1.1, 2.1], 0.2)
    fails(case.assertArrayNear, [1.0], [1.0, 2.0], 0.2)
    case.assertNDArrayNear(np.ones(3), np.ones(3) + 0.01, 0.1)
    fails(case.assertNDArrayNear, np.ones(3), np.zeros(3), 0.1)


def test_every_element(case):
    values = tf.constant([1.0, 2.0, 3.0])
    case.assertAllGreater(values, 0)
    case.assertAllLess(values, 4)
    case.assertAllGreaterEqual(values, 1)
    case.assertAllLessEqual(values, 3)
    case.assertAllInRange(values, 1, 3)
    case.assertAllInSet(values, {1.0, 2.0, 3.0, 4.0})
    assert "the first is 1.0 at (0,)" in fails(case.assertAllGreater, values, 1)
    fails(case.assertAllLess, values, 3)
    fails(case.assertAllInRange, values, 1, 3, open_upper_bound=True)
    fails(case.assertAllInSet, values, {1.0})
    fails(case.assertAllGreaterEqual, [float("nan")], 0)


def test_shapes_and_devices(case):
    case.assertShapeEqual(np.zeros([2, 3]), tf.zeros([2, 3]))
    fails(case.assertShapeEqual, np.zeros([2, 3]), tf.zeros([3, 2]))
    full = "/job:localhost/replica:0/task:0/device:IPU:0"
    case.assertDeviceEqual(full, "/device:IPU:0")
    fails(case.assertDeviceEqual, full, "/device:IPU:1")


def test_exceptions(case):
    with case.assertRaisesWithPredicateMatch(ValueError, "b+"):
        raise ValueError("abbc")
    with case.assertRaisesWithPredicateMatch(ValueError, lambda e: e.args == (1,)):
        raise ValueError(1)
    with case.assertRaisesOpError("full"):
        raise errors.ResourceExhaustedError(None, None, "memory is full")
    with (
        pytest.raises(AssertionError, match="unexpected type"),
        case.assertRaisesWithPredicateMatch(ValueError, ""),
    ):
        raise TypeError("x")
    with (
        pytest.raises(AssertionError, match="does not match"),
        case.assertRaisesWithPredicateMatch(ValueError, "z"),
    ):
        raise ValueError("x")
    with (
        pytest.raises(AssertionError, match="not raised"),
        case.assertRaisesWithPredicateMatch(ValueError, ""),
    ):
        pass
    with case.assertRaisesWithLiteralMatch(ValueError, "a.c"):
        raise ValueError("a.c")


def test_plain_assertions(case):
    case.assertLen([1, 2], 2)
    fails(case.assertLen, [1, 2], 1)
    case.assertEmpty({})
    case.assertNotEmpty({1})
    case.assertBetween(2, 1, 3)
    case.assertStartsWith("abc", "ab")
    fails(case.assertStartsWith, "abc", "b")
    case.assertContainsSubset([1], [1, 2])
    fails(case.assertContainsSubset, [3], [1, 2])
    case.assertItemsEqual([1, 2, 2], [2, 1, 2])
    case.assertSameElements([1, 2, 2], [2, 1])
    case.assertTotallyOrdered([1, 1], [2], [3])
    fails(case.assertTotallyOrdered, [2], [1])


def test_values_and_sessions(case):
    value = case.evaluate({"a": tf.constant([1, 2]), "b": (tf.Variable(3.0), None)})
    assert value["a"].tolist() == [1, 2] and float(value["b"][0]) == 3.0
    assert value["b"][1] is None and type(value["b"]) is tuple
    for session in (case.session, case.cached_session, case.test_session):
        with session() as opened:
            assert opened.run(tf.constant(3)) == 3
            assert opened.run([]) == []
    with (
        case.session() as opened,
        pytest.raises(NotImplementedError, match="Feeding"),
    ):
        opened.run(tf.constant(3), feed_dict={"a": 1})


def test_each_test_has_a_folder_and_seeds(case):
    import os
    import random

    folder = case.get_temp_dir()
    assert os.path.isdir(folder) and case.get_temp_dir() == folder
    drawn = random.random(), np.random.rand(), float(tf.random.uniform([]))
    case.setUp()
    assert drawn == (random.random(), np.random.rand(), float(tf.random.uniform([])))


def test_a_test_starts_without_devices(case):
    wanted = config.IPUConfig()
    wanted.auto_select_ipus = 1
    wanted.configure_ipu_system()
    case.setUp()
    with pytest.raises(RuntimeError, match="No IPU devices"):
        config.get_ipu_config()


def test_checked_threads(case):
    fine = case.checkedThread(target=lambda x: x, args=(1,))
    fine.start()
    fine.join()

    def fail():
        raise ValueError("inside")

    thread = case.checkedThread(target=fail)
    thread.start()
    with pytest.raises(AssertionError, match="inside"):
        thread.join()


def test_helpers_are_no_tests():
    names = unittest.TestLoader().getTestCaseNames(tf.test.TestCase)
    assert list(names) == []


# --- whole test files

SUITE = """
import tensorflow as tf
from tensorflow.compiler.plugin.poplar.tests import test_utils as poplar
from tensorflow.python.client import session as sl
from tensorflow.python.framework import errors, ops, test_util
from tensorflow.python.ipu import test_utils as tu
from tensorflow.python.ops import array_ops, init_ops, math_ops, variable_scope
from tensorflow.python.ops import variables
from tensorflow.python.platform import googletest, test
from tensorflow.python import ipu


class SumTest(test_util.TensorFlowTestCase):
  @test_util.run_v2_only
  def testSum(self):
    self.assertAllEqual(math_ops.reduce_sum([1, 2]), 3)

  @test_util.run_in_graph_and_eager_modes
  def testBoth(self):
    self.assertAllClose(self.evaluate(math_ops.tanh([0.0])), [0.0])

  @test_util.deprecated_graph_mode_only
  def testGraph(self):
    x = array_ops.placeholder("float32", [2])
    with ops.device("/device:IPU:0"):
      with variable_scope.variable_scope("vs", use_resource=True):
        w = variable_scope.get_variable(
            "w", shape=[2], initializer=init_ops.ones_initializer())
      result = ipu.ipu_compiler.compile(lambda a: a + w, [x])
    with tu.ipu_session() as sess:
      sess.run(variables.global_variables_initializer())
      self.assertAllEqual(sess.run(result, {{x: [1, 2]}}), [[2.0, 3.0]])
    with self.session() as sess, sl.Session() as other:
      self.evaluate(variables.global_variables_initializer())
      self.assertAllEqual(other.run(w), [1.0, 1.0])
      self.assertEqual(ops.get_default_graph(), sess.graph)

  @tu.test_uses_ipus(num_ipus=2)
  def testTwoIpus(self):
    self.fail("two IPUs")

  @tu.test_uses_ipus(num_ipus=1)
  def testOneIpu(self):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    tu.add_hw_ci_connection_options(config)
    config.configure_ipu_system()
    report = poplar.ReportHelper()
    report.set_autoreport_options(config)
    report.assert_num_reports(0)

  @tu.skip_on_hw
  def testWrong(self):
    self.assertAllClose([1.0], [2.0])


if __name__ == "__main__":
  {main}.main()
"""


def run_suite(tmp_path, main, *words):
    path = tmp_path / "sum_test.py"
    path.write_text(SUITE.format(main=main))
    return subprocess.run(
        [sys.executable, "-m", "ipu", "run", str(path), *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )


@pytest.mark.parametrize("main", ["googletest", "test", "tf.test", "test_util"])
def test_a_suite_runs_as_it_is(tmp_path, main):
    done = run_suite(tmp_path, main, "-v")
    assert done.returncode == 1, done.stderr
    assert "Ran 6 tests" in done.stderr
    assert "failures=1, skipped=1" in done.stderr
    assert "Requested 2 IPUs, but only 1 are available." in done.stderr
    assert "_testing/case.py" not in done.stderr  # frames of our own are hidden


def test_main_takes_the_arguments_of_unittest(tmp_path):
    for words in (["SumTest.testSum"], ["-k", "testS"]):
        done = run_suite(tmp_path, "tf.test", *words)
        assert done.returncode == 0, done.stderr
        assert "Ran 1 test" in done.stderr


def test_keras_combinations(served):
    from keras import combinations, testing_utils

    assert combinations.times(
        combinations.combine(a=[1, 2]), combinations.combine(mode=["graph", "eager"])
    )[3] == {"a": 2, "mode": "eager"}
    seen = []

    class Case(tf.test.TestCase):
        @combinations.generate(
            combinations.times(
                combinations.combine(mode=["graph", "eager"], n=[1, 2]),
                combinations.keras_model_type_combinations(),
            )
        )
        def test_it(self, n):
            seen.append((n, testing_utils.get_model_type()))

    Case("test_it").debug()
    kinds = ["sequential", "functional", "subclass"]
    assert seen == [(n, kind) for n in (1, 2) for kind in kinds]
    with pytest.raises(ValueError, match="no current model type"):
        testing_utils.get_model_type()


def test_keras_combinations_of_several_tests(served):
    """Where absl's parameters stand below, there are several tests already."""
    from keras import combinations

    seen = []
    several = (lambda self: seen.append("a"), lambda self: seen.append("b"))
    kinds = combinations.keras_model_type_combinations()
    modes = combinations.keras_mode_combinations()
    made = combinations.generate(kinds)(combinations.generate(modes)(several))
    for one in made:
        one(tf.test.TestCase())
    assert seen == ["a"] * 3 + ["b"] * 3


def test_keras_models_of_two_branches(served):
    from keras import layers, testing_utils

    x = np.ones((4, 3), np.float32)
    for shared in (False, True):
        for kind in ("functional", "subclass"):
            inputs = [layers.Input((3,)) for _ in range(2)]
            a, b = [layers.Dense(2)], [layers.Dense(2), layers.ReLU()]
            first = [inputs[0]] if kind == "functional" else []
            with testing_utils.model_type_scope(kind):
                if shared:
                    model = testing_utils.get_multi_io_model(
                        a, b, [*first, layers.Dense(3)], [layers.Add()]
                    )
                    assert model(x).shape == (4, 2)
                    continue
                if kind == "functional":
                    a, b = [inputs[0], *a], [inputs[1], *b]
                model = testing_utils.get_multi_io_model(a, b)
                assert [y.shape for y in model([x, x])] == [(4, 2), (4, 2)]
    with testing_utils.model_type_scope("sequential"), pytest.raises(ValueError):
        testing_utils.get_multi_io_model([], [])


def test_keras_testing_utils(served):
    from keras import testing_utils

    names = testing_utils.generate_combinations_with_testcase_name(a=[1, 2], b=["x"])
    assert [one["testcase_name"] for one in names] == ["_test_a_1_b_x", "_test_a_2_b_x"]
    (x, y), (_, other) = testing_utils.get_test_data(8, 4, (3,), 2, random_seed=1)
    assert x.shape == (8, 3) and y.shape == (8,) and other.shape == (4,)
    assert testing_utils.should_run_eagerly() is False
    for kind in ("sequential", "functional"):
        with testing_utils.model_type_scope(kind):
            model = testing_utils.get_model_from_layers(
                [testing_utils.Bias()], input_shape=(3,)
            )
        assert model.predict(x, batch_size=8).shape == (8, 3)
    from ipu import keras

    testing_utils.layer_test(
        keras.layers.Dense,
        {"units": 2, "kernel_initializer": "ones"},
        input_shape=(4, 3),
        expected_output_shape=(None, 2),
    )


def test_event_traces_are_empty_where_nobody_asks(served):
    from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
    from tensorflow.python import ipu

    events = gen_ipu_ops.ipu_event_trace()
    assert len(events) == 0 and len(ipu.summary_ops.get_ipu_reports()) == 0
    assert ipu.utils.extract_all_strings_from_event_trace(events) == ""
    assert ipu.utils.extract_all_types_from_event_trace(events) == []
    assert ipu.utils.extract_compile_reports(events) == []
    assert ipu.utils.extract_execute_reports(events) == []
    assert IpuTraceEvent.COMPILE_END == 1
    import tensorflow.compat.v1 as first

    with first.Graph().as_default(), first.Session() as session:
        assert len(session.run(gen_ipu_ops.ipu_event_trace())) == 0


def test_absl_is_the_users_own(tmp_path):
    pytest.importorskip("absl.testing")
    program = textwrap.dedent("""
        import json
        from absl.testing import parameterized
        from keras import keras_parameterized
        import tensorflow as tf

        @keras_parameterized.run_all_keras_modes
        class Case(keras_parameterized.TestCase):
            @parameterized.named_parameters(("one", 1), ("two", 2))
            def test_it(self, n):
                self.assertAllEqual(tf.constant(n), n)

        FLAGS = tf.compat.v1.flags.FLAGS
        tf.compat.v1.flags.DEFINE_integer("size", 1, "a number")
        tf.compat.v1.flags.DEFINE_bool("fast", True, "a switch")
        print(json.dumps(parameterized.__file__))
        try:
            tf.test.main()
        finally:
            print(FLAGS.size, FLAGS.fast)
    """)
    path = tmp_path / "absl_test.py"
    path.write_text(program)
    words = [str(path), "-v", "--size", "3", "--nofast", "-k", "two"]
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "run", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    where, flags = done.stdout.splitlines()
    assert "absl" in json.loads(where) and flags == "3 False"
    assert "test_it_two" in done.stderr and "Ran 1 test" in done.stderr


def test_writes_to_a_stream_are_captured(capfd):
    class Case(tf.test.TestCase):
        def runTest(self):
            with self.captureWritesToStream(sys.stderr) as printed:
                tf.print("one", tf.constant(2))
                internal_ops.print_tensor(tf.constant(3.0), "three")
                self.assertIn("one 2", printed.contents())
            tf.print("after")
            self.assertIn("three", printed.contents())

    Case().debug()
    assert capfd.readouterr().err == "after\n"
