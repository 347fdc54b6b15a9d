# SPDX-License-Identifier: MIT
"""What tests of several files share."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import drop_in, keras
from ipu._device import seed
from ipu.tf.compat import v1


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
    """Leave no configured device, hook or file to the files that follow."""
    before = entries()
    yield
    ipu.config.reset_ipu_configuration()
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
