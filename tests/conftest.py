# SPDX-License-Identifier: MIT
"""What tests of several files share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import Programs
from hypothesis import HealthCheck, settings
from simulated_ipus import attach

import ipu
from ipu import drop_in, keras
from ipu._device import seed
from ipu.tf.compat import v1

# no test asserts a time, that of drawing examples neither
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# what takes longest begins first, so that no process waits for another at the end
LONGEST = """
test_ops test_c_units test_c_threads test_distributed test_editors test_machine_fuzz
test_machine_networks test_packaging test_lint test_drop_in test_data_limits
test_examples test_data_fork test_long_sums test_machine test_keras_training
""".split()


def pytest_configure(config: pytest.Config) -> None:
    """Where Python is to leave no bytecode in the tree, processes share it elsewhere.

    Else each of the hundreds that tests start compiles the package anew.
    """
    config.option.loadscopereorder = False  # xdist's own order is by number of tests
    if sys.dont_write_bytecode and hasattr(config, "cache"):
        folder = str(config.cache.mkdir("bytecode"))
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_collection_finish() -> None:
    """A garbage collection need not walk over tens of thousands of cases."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where wheels are tested there is no compiler."""
    compiler = os.environ.get("CC", "cc").split()[0]
    if item.get_closest_marker("compiles") and shutil.which(compiler) is None:
        pytest.skip(f"the C compiler {compiler} is not installed")


ROOT = Path(__file__).resolve().parent.parent


def entries() -> set[Path]:
    """Return what lies in the root and among the tests, builds apart."""
    found = {*ROOT.iterdir(), *(ROOT / "tests").iterdir()}
    builds = ("build", "dist", "__pycache__")
    return {
        path
        for path in found
        if not path.name.startswith(".")
        and path.suffix != ".egg-info"
        and path.name not in builds
    }


@pytest.fixture(scope="module", autouse=True)
def default_devices() -> Iterator[None]:
    """Leave no configured device, policy, hook or file to the files that follow."""
    before = entries()
    yield
    ipu.config.reset_ipu_configuration()
    keras.mixed_precision.set_global_policy(None)
    was_installed = drop_in.installed()
    drop_in.uninstall()
    assert not was_installed, "a test has left the import hook behind"
    assert entries() <= before, "tests write under their temporary folder only"


@pytest.fixture
def main() -> Iterator[Any]:
    """The commands, whose import hook stays until a process ends."""
    from ipu.__main__ import main

    yield main
    drop_in.uninstall()


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Programs in processes of their own, without the time of an import."""
    made = Programs()
    yield made
    made.close()


@pytest.fixture
def no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test before has set a global seed."""
    monkeypatch.setattr(seed, "_state", seed._State())


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt here, and in processes that the test starts.

    Jobs that a shell runs in the background ignore it, and so do all their children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread to begin with; afterwards as many as before."""
    before = ipu.num_threads()
    ipu.set_num_threads(1)
    yield
    ipu.set_num_threads(before)


@pytest.fixture
def one_ipu() -> Iterator[None]:
    """One IPU, and afterwards again, whatever the test attaches."""
    attach(1)
    yield
    attach(1)


@pytest.fixture
def two_ipus() -> Iterator[None]:
    """Two IPUs; afterwards one."""
    attach(2)
    yield
    attach(1)


@pytest.fixture
def small_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures like those of Fashion-MNIST, few of them and easy to tell apart."""

    def load_data() -> Any:
        rng = np.random.default_rng(0)
        labels = np.arange(6400, dtype=np.uint8) % 10
        images = rng.integers(0, 128, (6400, 28, 28), dtype=np.uint8)
        images[np.arange(6400), labels * 2] += 127  # a bright row for each class
        return (images, labels), (images[:64], labels[:64])

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", load_data)
    yield
    ipu.config.reset_ipu_configuration()


@pytest.fixture
def graph() -> Iterator[v1.Graph]:
    """A graph that is the default one, and no configured device."""
    ipu.config.reset_ipu_configuration()
    with v1.Graph().as_default() as made:
        yield made
    ipu.config.reset_ipu_configuration()
