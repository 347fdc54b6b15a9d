# SPDX-License-Identifier: MIT
"""Assertions about plain Python values that tests for TensorFlow use."""

from __future__ import annotations

import itertools
import unittest
from collections import Counter
from collections.abc import Iterable, Sized
from typing import Any

# unittest leaves frames of such modules out of tracebacks
__unittest = True


class ExtraAssertions(unittest.TestCase):
    """The assertions of ``absl.testing`` that test files take for granted."""

    def assertLen(self, container: Sized, expected_len: int, msg: Any = None) -> None:
        """A container has so many entries."""
        if len(container) != expected_len:
            standard = (
                f"{container!r} has length of {len(container)}, "
                f"expected {expected_len}."
            )
            self.fail(self._formatMessage(msg, standard))

    def assertEmpty(self, container: Sized, msg: Any = None) -> None:
        """A container has no entries."""
        if len(container):
            standard = f"{container!r} has length of {len(container)}."
            self.fail(self._formatMessage(msg, standard))

    def assertNotEmpty(self, container: Sized, msg: Any = None) -> None:
        """A container has entries."""
        if not len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of 0."))

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: Any = None) -> None:
        """A value is in a closed range."""
        if not minv <= value <= maxv:
            standard = f"{value!r} unexpectedly not between {minv!r} and {maxv!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertStartsWith(
        self, actual: Any, expected_start: Any, msg: Any = None
    ) -> None:
        """A text starts with another."""
        if not actual.startswith(expected_start):
            standard = f"{actual!r} does not start with {expected_start!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertNotStartsWith(
        self, actual: Any, unexpected_start: Any, msg: Any = None
    ) -> None:
        """A text does not start with another."""
        if actual.startswith(unexpected_start):
            standard = f"{actual!r} does start with {unexpected_start!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertEndsWith(self, actual: Any, expected_end: Any, msg: Any = None) -> None:
        """A text ends with another."""
        if not actual.endswith(expected_end):
            standard = f"{actual!r} does not end with {expected_end!r}."
            self.fail(self._formatMessage(msg, standard))

    def assertContainsSubset(
        self, expected_subset: Iterable[Any], actual_set: Iterable[Any], msg: Any = None
    ) -> None:
        """All of the first are in the second."""
        missing = set(expected_subset) - set(actual_set)
        if missing:
            standard = f"Missing elements: {sorted(missing, key=repr)}."
            self.fail(self._formatMessage(msg, standard))

    def assertNoCommonElements(
        self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None
    ) -> None:
        """None of the first is in the second."""
        common = set(expected_seq) & set(actual_seq)
        if common:
            standard = f"Common elements: {sorted(common, key=repr)}."
            self.fail(self._formatMessage(msg, standard))

    def assertSameElements(
        self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None
    ) -> None:
        """The same set of elements, in any order and number."""
        self.assertEqual(set(expected_seq), set(actual_seq), msg)

    def assertItemsEqual(
        self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None
    ) -> None:
        """The same elements as often, in any order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertUniqueElements(self, values: Iterable[Any], msg: Any = None) -> None:
        """No element comes twice."""
        twice = [value for value, n in Counter(values).items() if n > 1]
        if twice:
            self.fail(self._formatMessage(msg, f"Duplicate elements: {twice}."))

    def assertSequenceStartsWith(
        self, prefix: Iterable[Any], whole: Iterable[Any], msg: Any = None
    ) -> None:
        """A sequence starts with another."""
        wanted = list(prefix)
        self.assertEqual(wanted, list(itertools.islice(whole, len(wanted))), msg)

    def assertTotallyOrdered(self, *groups: Iterable[Any]) -> None:
        """Each element is less than all of later groups, and equal inside its own."""
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
        """The code inside raises an exception of exactly this text."""
        import re

        pattern = f"^{re.escape(expected_exception_message)}$"
        return self.assertRaisesRegex(expected_exception, pattern)

    def assertDictContainsSubset(
        self, subset: Any, dictionary: Any, msg: Any = None
    ) -> None:
        """All items of the first are in the second."""
        self.assertEqual(dictionary, {**dictionary, **subset}, msg)
