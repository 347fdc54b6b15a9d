# SPDX-License-Identifier: MIT
"""``tf.test``: test cases that compare tensors.

Example:
    >>> from ipu import tf
    >>> tf.test.is_gpu_available()
    False
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from collections.abc import Sequence
from typing import Any
from unittest import mock as mock

from ipu._text.exports import defined, export
from ipu.tf._testing.case import TestCase as TestCase


def main(argv: Sequence[str] | None = None, **options: Any) -> None:
    """Run the tests of the program and end the process.

    Args:
        argv: The command line; None is that of the process. Names of tests and the
            options of ``unittest`` (``-v``, ``-k``, ``-f``, ...) work.
        **options: The arguments of ``unittest.main``.

    Raises:
        SystemExit: With 0 where all tests pass, else 1.

    Example:
        >>> class Sums(tf.test.TestCase):
        ...     def test_sum(self):
        ...         self.assertEqual(int(tf.reduce_sum([1, 2])), 3)
        >>> if __name__ == "__main__":
        ...     tf.test.main()
    """
    words = list(sys.argv if argv is None else argv)
    # A program that defines flags has imported absl; they must be read before use.
    absl_flags = sys.modules.get("absl.flags")
    if absl_flags is not None:
        words = _without_flags(words, absl_flags.FLAGS)
    options.setdefault("module", "__main__")
    unittest.main(argv=words, **options)


def _without_flags(words: list[str], flags: Any) -> list[str]:
    """Return the words that are not flags of the program; absl reads those.

    Short options such as ``-v`` are for unittest, though absl has some as well.
    """
    mine, rest = words[:1], words[:1]
    remaining = iter(words[1:])
    for word in remaining:
        name, equals, _ = word.removeprefix("--").partition("=")
        known = name in flags or name.removeprefix("no") in flags
        if not word.startswith("--") or not known:
            rest.append(word)
            continue
        mine.append(word)
        if not equals and name in flags and not flags[name].boolean:
            mine += [next(remaining, "")]
    flags(mine)
    return rest


_folder: list[str] = []


def get_temp_dir() -> str:
    """Return a folder for the tests of this process.

    Example:
        >>> import os
        >>> os.path.isdir(tf.test.get_temp_dir())
        True
    """
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="tf-test-"))
    return _folder[0]


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: Any = None
) -> bool:
    """Return whether there is a GPU to use: never.

    Example:
        >>> is_gpu_available()
        False
    """
    return False


def is_built_with_cuda() -> bool:
    """Return whether GPUs could be used: never.

    Example:
        >>> tf.test.is_built_with_cuda()
        False
    """
    return False


is_built_with_gpu_support = is_built_with_rocm = is_built_with_cuda


def is_built_with_xla() -> bool:
    """Return whether functions are compiled: always.

    Example:
        >>> tf.test.is_built_with_xla()
        True
    """
    return True


def gpu_device_name() -> str:
    """Return the name of the first GPU: there is none, so it is empty.

    Example:
        >>> tf.test.gpu_device_name()
        ''
    """
    return ""


def test_src_dir_path(relative_path: str) -> str:
    """Return a path below the folder of the running program.

    Args:
        relative_path: What is looked for.

    Example:
        >>> import os
        >>> os.path.basename(tf.test.test_src_dir_path("data"))
        'data'
    """
    import os

    return os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


export(__name__, defined(__name__, ["TestCase", "mock"]))
