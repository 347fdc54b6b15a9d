# SPDX-License-Identifier: MIT
"""``tensorflow.python.framework.test_util``: what test files decorate tests with.

Tests of graph mode run in a graph of their own. Tests for both modes run once, eagerly.
"""

from __future__ import annotations

import contextlib
import functools
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from ipu._text.exports import defined
from ipu.tf._graph.graph import Graph
from ipu.tf._testing.case import TestCase
from ipu.tf.test import (
    get_temp_dir as get_temp_dir,
    gpu_device_name as gpu_device_name,
    is_gpu_available as is_gpu_available,
    main as main,
    mock as mock,
    test_src_dir_path as test_src_dir_path,
)

# unittest leaves frames of such modules out of tracebacks
__unittest = True

TensorFlowTestCase = TestCase
GetTempDir = get_temp_dir

_GPU = "there is no GPU"


def _skipping(reason: str) -> Callable[..., Any]:
    """Return a decorator that skips; also as ``@decorator(...)`` with arguments."""

    def decorator(func: Any = None, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        if callable(func):
            return unittest.skip(reason)(func)
        return unittest.skip(reason)

    return decorator


def _unchanged(*arguments: Any, **options: Any) -> Any:
    """Return a decorator that changes nothing; also as ``@decorator(...)``."""
    del options
    if len(arguments) == 1 and callable(arguments[0]):
        return arguments[0]
    return lambda decorated: decorated


def deprecated_graph_mode_only(func: Any = None, *args: Any) -> Any:
    """Run a test, or all tests of a class, in a graph of TensorFlow 1 of its own."""
    del args
    if not callable(func):
        return deprecated_graph_mode_only
    if isinstance(func, type):
        return for_all_test_methods(lambda: deprecated_graph_mode_only)(func)

    @functools.wraps(func)
    def in_graph(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Graph().as_default():
            return func(self, *args, **kwargs)

    return in_graph


run_deprecated_v1 = run_v1_only = deprecated_graph_mode_only
run_all_in_deprecated_graph_mode_only = deprecated_graph_mode_only
run_gpu_only = run_cuda_only = _skipping(_GPU)

run_v2_only = run_in_graph_and_eager_modes = _unchanged
run_all_in_graph_and_eager_modes = _unchanged
run_in_async_and_sync_mode = run_without_tensor_float_32 = _unchanged
run_all_without_tensor_float_32 = _unchanged
disable_xla = no_xla_auto_jit = use_deterministic_cublas = _unchanged
enable_control_flow_v2 = with_control_flow_v2 = _unchanged
enable_output_all_intermediates = enable_eager_op_as_function = _unchanged
with_eager_op_as_function = eager_lazy_remote_copy_on_and_off = _unchanged
assert_no_new_pyobjects_executing_eagerly = assert_no_garbage_created = _unchanged
assert_no_new_tensors = with_forward_compatibility_horizons = _unchanged
build_as_function_and_v1_graph = _unchanged


def also_run_as_tf_function(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test as it is, then once more inside a ``tf.function``."""

    @functools.wraps(test)
    def both(self: Any, *args: Any, **kwargs: Any) -> None:
        from ipu.tf._functions.function import function

        test(self, *args, **kwargs)
        function(lambda: test(self, *args, **kwargs))()

    return both


def skip_if(condition: Any) -> Callable[..., Any]:
    """Skip a test where the condition, or what it gives when called, holds."""

    def decorator(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def maybe(self: Any, *args: Any, **kwargs: Any) -> Any:
            skip = condition() if callable(condition) else condition
            return None if skip else test(self, *args, **kwargs)

        return maybe

    return decorator


def for_all_test_methods(
    decorator: Callable[..., Any], *args: Any, **kwargs: Any
) -> Callable[[Any], Any]:
    """Return a decorator for classes that decorates each of their tests."""

    def decorate(cls: Any) -> Any:
        for name, value in list(vars(cls).items()):
            if callable(value) and name.startswith("test"):
                setattr(cls, name, decorator(*args, **kwargs)(value))
        return cls

    return decorate


def is_xla_enabled() -> bool:
    """Return whether TensorFlow's own compiler is switched on: no."""
    return False


@contextlib.contextmanager
def force_cpu() -> Iterator[None]:
    """Put ops on the host."""
    from ipu._device import placement

    with placement.device("cpu"):
        yield


@contextlib.contextmanager
def force_gpu() -> Iterator[None]:
    """Raise: there are no GPUs."""
    raise unittest.SkipTest(_GPU)
    yield


__all__ = defined(
    __name__,
    """
    GetTempDir TensorFlowTestCase TestCase get_temp_dir gpu_device_name is_gpu_available
    main mock test_src_dir_path
    """.split(),
)
