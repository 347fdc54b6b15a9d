# SPDX-License-Identifier: MIT
"""``tf.test.TestCase``."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import tempfile
import threading
import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np

from ipu._device import devices
from ipu._text.errors import OpError
from ipu.tf import random as tf_random
from ipu.tf._graph import mode
from ipu.tf._testing.compare import as_array, compare, evaluated, mismatch

# unittest leaves frames of such modules out of tracebacks
__unittest = True

_SEED = 87654321
_Tolerances = dict[str, tuple[float, float]]


class EagerSession:
    """What ``with self.session() as sess`` gives where ops run at once."""

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the values of tensors that exist; a callable is called first.

        Args:
            fetches: A nest of tensors, variables and None.
            *args: Nothing: a feed belongs to graphs.
            **kwargs: As ``args``.

        Raises:
            NotImplementedError: Something is to be fed.
        """
        if any(args) or any(kwargs.values()):
            raise NotImplementedError(
                "Feeding a session needs a graph of TensorFlow 1: decorate the test "
                "with test_util.deprecated_graph_mode_only."
            )
        return evaluated(fetches() if callable(fetches) else fetches)


class _Written:
    """The text that was written to a stream while it was captured."""

    def __init__(self, path: str, stream: Any) -> None:
        self._path, self._stream = path, stream

    def contents(self) -> str:
        """Return the text up to now."""
        self._stream.flush()
        with open(self._path, encoding="utf-8") as file:
            return file.read()


class TestCase(unittest.TestCase):
    """A test case that compares tensors and nests of them.

    Each test starts with the same seeds and without configured devices.

    Example:
        >>> class Doubling(tf.test.TestCase):
        ...     def test_it(self):
        ...         self.assertAllEqual(tf.constant([1, 2]) * 2, [2, 4])
        >>> Doubling("test_it").debug()
    """

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._temp_dir: str | None = None

    def setUp(self) -> None:
        """Seed the random numbers and let configured devices go."""
        super().setUp()
        random.seed(_SEED)
        np.random.seed(_SEED)
        tf_random.set_seed(_SEED)
        devices.reset()

    # --- values and sessions

    def evaluate(self, tensors: Any) -> Any:
        """Return arrays in place of tensors, in the same nest."""
        if mode.building() is not None:
            from ipu.tf._graph.session import run_in_default

            return run_in_default(tensors() if callable(tensors) else tensors)
        return evaluated(tensors() if callable(tensors) else tensors)

    @contextlib.contextmanager
    def session(
        self,
        graph: Any = None,
        config: Any = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Any]:
        """Open a context with a session, also for code whose ops run at once.

        Args:
            graph: A graph of TensorFlow 1; None: the one in force.
            config, use_gpu, force_gpu: Accepted without effect.
        """
        if graph is None and mode.building() is None:
            yield EagerSession()
            return
        from ipu.tf._graph.session import Session

        with Session(graph=graph) as session:
            yield session

    cached_session = session

    @property
    def test_session(self) -> Callable[..., Any]:
        """As :meth:`session`; a property, so that nobody takes it for a test."""
        return self.session

    def get_temp_dir(self) -> str:
        """Return a folder of this test's own, deleted after it."""
        if self._temp_dir is None:
            self._temp_dir = tempfile.mkdtemp(prefix=f"{self._testMethodName}-")
            self.addCleanup(shutil.rmtree, self._temp_dir, ignore_errors=True)
        return self._temp_dir

    def checkedThread(
        self, target: Callable[..., Any], args: Any = None, kwargs: Any = None
    ) -> _CheckedThread:
        """Return a thread whose exception fails the test, at ``join``.

        Args:
            target: What it runs.
            args: Positional arguments, or None.
            kwargs: Keyword arguments, or None.
        """
        return _CheckedThread(target, args or (), kwargs or {})

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[Any]:
        """Open a context that gives an object whose ``contents()`` was written
        meanwhile.

        Args:
            stream: A stream with a file descriptor; what C writes there counts, too.
        """
        stream.flush()
        number = stream.fileno()
        kept = os.dup(number)
        taking, path = tempfile.mkstemp(dir=self.get_temp_dir())
        os.dup2(taking, number)
        try:
            yield _Written(path, stream)
        finally:
            stream.flush()
            os.dup2(kept, number)
            os.close(kept)
            os.close(taking)

    # --- close and equal

    def assertAllClose(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        msg: str | None = None,
    ) -> None:
        """Check that nests have the same form, with ``|a - b| <= atol + rtol * |b|``
        everywhere.

        Args:
            a: A nest of tensors, arrays, numbers.
            b: Another.
            rtol: Relative tolerance.
            atol: Absolute tolerance.
            msg: Words for the failure.
        """
        self._assert_close(a, b, {"": (rtol, atol)}, msg)

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Work like :meth:`assertAllClose`; tolerances grow where a dtype is narrow."""
        tolerances = {
            "": (rtol, atol),
            "float32": (float_rtol, float_atol),
            "float16": (half_rtol, half_atol),
            "bfloat16": (bfloat16_rtol, bfloat16_atol),
        }
        self._assert_close(a, b, tolerances, msg)

    def _assert_close(
        self, a: Any, b: Any, tolerances: _Tolerances, msg: str | None
    ) -> None:
        def check(left: Any, right: Any, where: str) -> None:
            chosen = [tolerances[""]]
            for array in (left, right):
                chosen += [t for k, t in tolerances.items() if k == array.dtype.name]
            rtol, atol = (max(pair[i] for pair in chosen) for i in (0, 1))
            if left.dtype.kind in "OSU" or right.dtype.kind in "OSU":
                same = np.array_equal(left, right)
            else:
                same = np.allclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
            if not same:
                self.fail(_difference(left, right, where, msg, f"{rtol=}, {atol=}"))

        compare(check, a, b, "", msg or "")

    def assertNotAllClose(
        self, a: Any, b: Any, msg: str | None = None, **kwargs: Any
    ) -> None:
        """Check the opposite of :meth:`assertAllClose`, with its tolerances."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        self.fail(mismatch("The two values are close at all elements", msg))

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Check that nests have the same form and equal elements; NaN equals NaN."""

        def check(left: Any, right: Any, where: str) -> None:
            floats = left.dtype.kind in "fc" and right.dtype.kind in "fc"
            if not np.array_equal(left, right, equal_nan=floats):
                self.fail(_difference(left, right, where, msg, "equality"))

        compare(check, a, b, "", msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Check the opposite of :meth:`assertAllEqual`."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(mismatch("The two values are equal at all elements", msg))

    def assertNear(
        self, f1: float, f2: float, err: float, msg: str | None = None
    ) -> None:
        """Check that two numbers differ by ``err`` at most."""
        if not (f1 == f2 or abs(f1 - f2) <= err):
            self.fail(mismatch(f"{f1!r} != {f2!r} +/- {err!r}", msg))

    def assertArrayNear(
        self, farray1: Any, farray2: Any, err: float, msg: str | None = None
    ) -> None:
        """Check that two sequences have the same length and near numbers."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for one, other in zip(farray1, farray2, strict=True):
            self.assertNear(float(one), float(other), err, msg)

    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None
    ) -> None:
        """Check that the difference of two arrays has a norm of less than ``err``."""
        left, right = as_array(ndarray1), as_array(ndarray2)
        distance = float(np.linalg.norm(left - right))
        if not distance < err:
            self.fail(mismatch(f"the arrays differ by {distance}, not < {err}", msg))

    # --- every element

    def _assert_elements(self, target: Any, ok: Any, what: str) -> None:
        array = as_array(target)
        good = np.asarray(ok(array))
        if not good.all():
            where = np.argwhere(~good)
            first = tuple(int(i) for i in where[0])
            self.fail(
                f"{len(where)} of {array.size} elements are not {what}; the first is "
                f"{array[first]} at {first}."
            )

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Check that all elements are greater than a value."""
        limit = as_array(comparison_target)
        self._assert_elements(a, lambda x: x > limit, f"> {limit}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Check that all elements are less than a value."""
        limit = as_array(comparison_target)
        self._assert_elements(a, lambda x: x < limit, f"< {limit}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Check that all elements are at least a value."""
        limit = as_array(comparison_target)
        self._assert_elements(a, lambda x: x >= limit, f">= {limit}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Check that all elements are at most a value."""
        limit = as_array(comparison_target)
        self._assert_elements(a, lambda x: x <= limit, f"<= {limit}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: float,
        upper_bound: float,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Check that all elements are in a range; its bounds belong to it unless they
        are open."""
        low = np.greater if open_lower_bound else np.greater_equal
        high = np.less if open_upper_bound else np.less_equal
        left, right = "(" if open_lower_bound else "[", ")" if open_upper_bound else "]"
        self._assert_elements(
            target,
            lambda x: low(x, lower_bound) & high(x, upper_bound),
            f"in {left}{lower_bound}, {upper_bound}{right}",
        )

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Check that all elements are in a set."""
        self._assert_elements(
            target, lambda x: np.isin(x, list(expected_set)), f"in {expected_set}"
        )

    # --- shapes and devices

    def assertShapeEqual(
        self, input_a: Any, input_b: Any, msg: str | None = None
    ) -> None:
        """Check that two values have the same shape."""
        left = tuple(getattr(input_a, "shape", None) or as_array(input_a).shape)
        right = tuple(getattr(input_b, "shape", None) or as_array(input_b).shape)
        self.assertEqual(left, right, msg)

    def assertDeviceEqual(
        self, device1: str, device2: str, msg: str | None = None
    ) -> None:
        """Check that two names are of the same device."""
        left = devices.parse_device_name(device1)
        right = devices.parse_device_name(device2)
        if left != right:
            self.fail(mismatch(f"{device1} and {device2} are not the same device", msg))

    # --- exceptions

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """Check that the code inside raises an exception whose text matches.

        Args:
            exception_type: The class, or a tuple of them.
            expected_err_re_or_predicate: A regular expression that is searched for in
                the text, or a function of the exception that gives a bool.
        """
        wanted = expected_err_re_or_predicate
        try:
            yield
        except Exception as error:
            if not isinstance(error, exception_type):
                raise AssertionError(
                    f"Exception of unexpected type {type(error).__name__}: {error}"
                ) from error
            text = getattr(error, "message", str(error))
            good = wanted(error) if callable(wanted) else re.search(wanted, text)
            if not good:
                raise AssertionError(
                    f"Exception does not match {wanted!r}: {text}"
                ) from error
        else:
            self.fail(f"{exception_type} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """Return the code inside raises an ``OpError`` whose text matches."""
        return self.assertRaisesWithPredicateMatch(
            OpError, expected_err_re_or_predicate
        )

    def assertRaisesIncompatibleShapesError(
        self,
        exception_type: Any = (OpError, ValueError),
        *args: Any,
    ) -> Any:
        """Return the code inside raises an error about shapes."""
        return self.assertRaisesWithPredicateMatch(exception_type, r"(?i)shape")

    def assertLen(self, container: Sized, expected_len: int, msg: Any = None) -> None:
        """Check that a container has so many entries."""
        if len(container) != expected_len:
            standard = (
                f"{container!r} has length of {len(container)}, "
                f"expected {expected_len}."
            )
            self.fail(self._formatMessage(msg, standard))

    def assertEmpty(self, container: Sized, msg: Any = None) -> None:
        """Check that a container has no entries."""
        if len(container):
            standard = f"{container!r} has length of {len(container)}."
            self.fail(self._formatMessage(msg, standard))

    def assertNotEmpty(self, container: Sized, msg: Any = None) -> None:
        """Check that a container has entries."""
        if not len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of 0."))

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: Any = None) -> None:
        """Check that a value is in a closed range."""
        if not minv <= value <= maxv:
            standard = f"{value!r} unexpectedly not between {minv!r} and {maxv!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertStartsWith(
        self, actual: Any, expected_start: Any, msg: Any = None
    ) -> None:
        """Check that a text starts with another."""
        if not actual.startswith(expected_start):
            standard = f"{actual!r} does not start with {expected_start!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertNotStartsWith(
        self, actual: Any, unexpected_start: Any, msg: Any = None
    ) -> None:
        """Check that a text does not start with another."""
        if actual.startswith(unexpected_start):
            standard = f"{actual!r} does start with {unexpected_start!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertEndsWith(self, actual: Any, expected_end: Any, msg: Any = None) -> None:
        """Check that a text ends with another."""
        if not actual.endswith(expected_end):
            standard = f"{actual!r} does not end with {expected_end!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertContainsSubset(
        self, expected_subset: Iterable[Any], actual_set: Iterable[Any], msg: Any = None
    ) -> None:
        """Check that all of the first are in the second."""
        missing = set(expected_subset) - set(actual_set)
        if missing:
            standard = f"Missing elements: {sorted(missing, key=repr)}."
            self.fail(self._formatMessage(msg, standard))

    def assertNoCommonElements(
        self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None
    ) -> None:
        """Check that none of the first is in the second."""
        common = set(expected_seq) & set(actual_seq)
        if common:
            standard = f"Common elements: {sorted(common, key=repr)}."
            self.fail(self._formatMessage(msg, standard))

    def assertSameElements(
        self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None
    ) -> None:
        """Check that both have the same set of elements, in any order and number."""
        self.assertEqual(set(expected_seq), set(actual_seq), msg)

    def assertItemsEqual(
        self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None
    ) -> None:
        """Check that both have the same elements as often, in any order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertUniqueElements(self, values: Iterable[Any], msg: Any = None) -> None:
        """Check that no element comes twice."""
        twice = [value for value, n in Counter(values).items() if n > 1]
        if twice:
            self.fail(self._formatMessage(msg, f"Duplicate elements: {twice}."))

    def assertSequenceStartsWith(
        self, prefix: Iterable[Any], whole: Iterable[Any], msg: Any = None
    ) -> None:
        """Check that a sequence starts with another."""
        wanted = list(prefix)
        self.assertEqual(wanted, list(itertools.islice(whole, len(wanted))), msg)

    def assertTotallyOrdered(self, *groups: Iterable[Any]) -> None:
        """Check that each element is less than all of later groups, and equal inside
        its own."""
        for n, group in enumerate(groups):
            members = list(group)
            for one, other in itertools.product(members, members):
                self.assertEqual(one, other)
            for later in groups[n + 1 :]:
                for one, other in itertools.product(members, list(later)):
                    self.assertLess(one, other)

    def assertRaisesWithLiteralMatch(
        self, expected_exception: Any, expected_exception_message: str
    ) -> Any:
        """Return the code inside raises an exception of exactly this text."""
        import re

        pattern = f"^{re.escape(expected_exception_message)}$"
        return self.assertRaisesRegex(expected_exception, pattern)

    def assertDictContainsSubset(
        self, subset: Any, dictionary: Any, msg: Any = None
    ) -> None:
        """Check that all items of the first are in the second."""
        self.assertEqual(dictionary, {**dictionary, **subset}, msg)


def _difference(left: Any, right: Any, where: str, msg: str | None, rule: str) -> str:
    """Return the first places where two arrays of one shape differ."""
    lines = [mismatch(f"The values{where} differ ({rule})", msg)]
    if left.dtype.kind in "biufc" and right.dtype.kind in "biufc":
        wide = np.abs(left.astype(np.float64) - right.astype(np.float64))
        lines.append(f"largest difference: {np.nanmax(wide, initial=0.0)}")
    places = np.argwhere(np.asarray(left != right))
    for place in places[:5]:
        index = tuple(int(i) for i in place)
        lines.append(f"  at {index}: {left[index]} and {right[index]}")
    lines.append(f"{len(places)} of {left.size} elements are not equal")
    return "\n".join(lines)


class _CheckedThread:
    """A thread that keeps the exception of what it runs."""

    def __init__(self, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._target, self._args, self._kwargs = target, args, kwargs
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except BaseException as error:
            self._error = error

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended.

        Raises:
            AssertionError: It ended with an exception.
        """
        self._thread.join()
        if self._error is not None:
            raise AssertionError(f"Error in the thread: {self._error}") from self._error

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._thread.is_alive()
