# SPDX-License-Identifier: MIT
"""The helpers of the IPU port's own tests.

``tensorflow.compiler.plugin.poplar.tests.test_utils`` and
``tensorflow.python.ipu.test_utils``. Reports about programs are JSON files, not those
of PopVision: what reads the contents of one says so.
"""

from __future__ import annotations

import fnmatch
import functools
import glob
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ipu import utils
from ipu._reports import event_trace
from ipu._text.exports import defined
from ipu._text.missing import refuse
from ipu.tf._graph.session import Session

# unittest leaves frames of such modules out of tracebacks
__unittest = True

_HERE = "tensorflow.python.ipu.test_utils"
# How many IPUs a test can use: programs of several come with a later version.
_SIMULATED = 1

move_variable_initialization_to_cpu = utils.move_variable_initialization_to_cpu


def get_ci_num_ipus() -> int:
    """Return how many IPUs of hardware the environment variable TF_IPU_COUNT
    promises."""
    return int(os.getenv("TF_IPU_COUNT", "0"))


def has_ci_ipus() -> bool:
    """Return whether there is hardware."""
    return get_ci_num_ipus() > 0


def _available() -> int:
    return max(get_ci_num_ipus(), _SIMULATED)


def skip_if_not_enough_ipus(self: Any, num_ipus: int) -> None:
    """Skip a test that needs more IPUs than programs can use."""
    if num_ipus > _available():
        self.skipTest(
            f"Requested {num_ipus} IPUs, but only {_available()} are available."
        )


def test_uses_ipus(
    num_ipus: int,
    allow_ipu_model: bool = False,
    func: Callable[..., Any] | None = None,
) -> Any:
    """Return a decorator for a test that needs so many IPUs."""
    del allow_ipu_model

    def decorator(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            skip_if_not_enough_ipus(self, num_ipus)
            return test(self, *args, **kwargs)

        return checked

    return decorator if func is None else decorator(func)


def test_may_use_ipus_or_model(
    num_ipus: int, func: Callable[..., Any] | None = None
) -> Any:
    """Work like :func:`test_uses_ipus`."""
    return test_uses_ipus(num_ipus, True, func)


# pytest would take them for tests
test_uses_ipus.__test__ = False  # type: ignore[attr-defined]
test_may_use_ipus_or_model.__test__ = False  # type: ignore[attr-defined]


def skip_on_hw(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator for a test that is not for hardware: it runs here."""

    @functools.wraps(func)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if has_ci_ipus():
            self.skipTest("Skipping test on HW")
        return func(self, *args, **kwargs)

    return checked


def add_hw_ci_connection_options(opts: Any) -> Any:
    """Attach devices when they are first used."""
    config = getattr(opts, "config", opts)
    config.device_connection.type = utils.DeviceConnectionType.ON_DEMAND
    config.device_connection.enable_remote_buffers = True
    return opts


def compute_device_count(
    pipelining: bool = False, sharded: bool = False, replicated: bool = False
) -> int:
    """Return how many IPUs a test of such a program takes; 0 for one that needs no
    more."""
    copies = 2 if replicated else 1
    if sharded:
        return 2 * copies
    if pipelining:
        return 4 * copies
    return 2 if replicated else 0


def ipu_session(*args: Any, **kwargs: Any) -> Session:
    """Return a session on the graph in force."""
    del args, kwargs
    return Session()


# --- names in reports


def items_matching_at_least_one_pattern(
    items: Iterable[str], patterns: Iterable[str]
) -> list[str]:
    """Return the items that start with one of the patterns."""
    starts = [f"{pattern}*" for pattern in patterns]
    return [i for i in items if any(fnmatch.fnmatch(i, start) for start in starts)]


names_in_blacklist = items_matching_at_least_one_pattern


def missing_names_in_whitelist_entries(
    names: Iterable[str], whitelist: Iterable[str]
) -> list[str]:
    """Return the names in which no entry of the list is found."""
    entries = [f"*{entry}*" for entry in whitelist]
    return [
        name
        for name in names
        if name and not any(fnmatch.fnmatch(name, entry) for entry in entries)
    ]


def missing_whitelist_entries_in_names(
    names: Iterable[str], whitelist: Iterable[str]
) -> list[str]:
    """Return the entries of the list, as patterns, that are found in no name."""
    known = list(names)
    entries = [f"*{entry}*" for entry in whitelist]
    return [e for e in entries if not any(fnmatch.fnmatch(name, e) for name in known)]


def count_matches_in_list(input_list: Iterable[str], to_match: str) -> int:
    """Return how many items match a pattern."""
    return sum(fnmatch.fnmatch(item, to_match) for item in input_list)


# --- data


def create_multi_increasing_dataset(
    value: int, shapes: Any = None, dtypes: Any = None, repeat: bool = True
) -> Any:
    """Return a data set whose element n holds tensors that are n everywhere."""
    from ipu import tf

    shapes = shapes or [[1, 32, 32, 4], [1, 8]]
    dtypes = dtypes or [tf.float32] * len(shapes)

    def element(data: Any) -> Any:
        return tuple(
            tf.cast(tf.broadcast_to(data, shape), dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        )

    dataset = tf.data.Dataset.range(value).map(element)
    return dataset.repeat() if repeat else dataset


def create_dual_increasing_dataset(
    value: int,
    data_shape: Any = None,
    label_shape: Any = None,
    dtype: Any = "float32",
    repeat: bool = True,
) -> Any:
    """Work like :func:`create_multi_increasing_dataset`, of two tensors."""
    shapes = [data_shape or [1, 32, 32, 4], label_shape or [1, 8]]
    return create_multi_increasing_dataset(value, shapes, [dtype, dtype], repeat)


def create_single_increasing_dataset(
    value: int, shape: Any = None, dtype: Any = "float32", repeat: bool = True
) -> Any:
    """Work like :func:`create_multi_increasing_dataset`, of one tensor."""
    shapes = [[1, 32, 32, 4] if shape is None else shape]
    return create_multi_increasing_dataset(value, shapes, [dtype], repeat)


# --- reports


def enable_ipu_events(config: Any) -> Any:
    """Ask for events; there are none yet."""
    return config


class ReportHelper:
    """Finds the report files of programs: JSON, in a folder for each."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="tf_report_")

    def set_autoreport_options(
        self,
        config: Any,
        output_graph_profile: bool = True,
        output_execution_profile: bool = False,
        max_executions: int | None = None,
    ) -> None:
        """Ask for reports in a folder of their own."""
        config.compilation_poplar_options.update(
            {
                "autoReport.directory": self._folder,
                "autoReport.outputGraphProfile": str(output_graph_profile).lower(),
                "autoReport.outputExecutionProfile": (
                    str(output_execution_profile).lower()
                ),
            }
        )
        if max_executions is not None:
            config.compilation_poplar_options[
                "autoReport.executionProfileProgramRunCount"
            ] = str(max_executions)

    def find_reports(self) -> list[str]:
        """Return the files, the oldest first."""
        return sorted(glob.glob(f"{self._folder}/tf_report__*/profile.json"))

    def find_report(self) -> str:
        """Return the only file."""
        self.assert_num_reports(1)
        return self.find_reports()[0]

    def assert_num_reports(self, expected: int) -> None:
        """Check how many files there are."""
        found = self.find_reports()
        if len(found) != expected:
            raise AssertionError(
                f"There are {len(found)} reports in {self._folder}, not {expected}: "
                f"{found}."
            )

    def clear_reports(self) -> None:
        """Delete the files."""
        for path in self.find_reports():
            shutil.rmtree(os.path.dirname(path))


class ReportJSON:
    """Reads the event trace."""

    def __init__(
        self,
        test: Any,
        sess: Any = None,
        configure_device: bool = True,
        eager_mode: bool = False,
        **options: Any,
    ) -> None:
        del options
        if sess is not None:
            ipu_session()
        self.test = test
        if eager_mode and configure_device:
            utils.configure_ipu_system(
                utils.auto_select_ipus(utils.create_ipu_config(), 1)
            )

    def reset(self) -> None:
        """Forget the events so far."""
        event_trace.take()

    def parse_log(self, *args: Any, **kwargs: Any) -> dict[int, int]:
        """Return how many events of each type there are."""
        del args, kwargs
        events = event_trace.take()
        return dict(Counter(event_trace.extract_all_types_from_event_trace(events)))

    def assert_no_event(self, msg: str = "") -> None:
        """Check that there are no events."""
        if found := self.parse_log():
            raise AssertionError(msg or f"There are events: {found}.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: refuse(f"{_HERE}.ReportJSON.{name}")


__all__ = defined(__name__, ["move_variable_initialization_to_cpu"])
