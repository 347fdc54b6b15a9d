# SPDX-License-Identifier: MIT
"""The examples in all docstrings of the package run, as after these imports::

import numpy as np
import ipu
from ipu import keras, tf
from ipu.tf.compat import v1
"""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.tf.compat import v1

ROOT = Path(ipu.__file__).parent
NEEDS = {"ipu.tf.io._": "google_crc32c", "ipu.tf.data.experimental": "google_crc32c"}
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(("ipu", *parts)).removesuffix(".__init__")


MODULES = sorted(module_of(f) for f in ROOT.rglob("*.py") if ">>> " in f.read_text())


class Rounded(doctest.OutputChecker):
    """Docstrings write numbers with about three digits."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        if NUMBER.sub("#", want).split() != NUMBER.sub("#", got).split():
            return False
        pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
        return all(abs(float(a) - float(b)) <= 6e-4 for a, b in pairs)


@pytest.mark.usefixtures("no_seed")
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix, library in NEEDS.items():
        if name.startswith(prefix):
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    ipu.config.reset_ipu_configuration()
    v1.reset_default_graph()
    module = importlib.import_module(name)
    usual = {"np": np, "ipu": ipu, "keras": keras, "tf": tf, "v1": v1}
    globs = {**usual, **vars(module), "print": print}  # TensorFlow 1 has another
    found = doctest.DocTestFinder(exclude_empty=True).find(module, globs=globs)
    report: list[str] = []
    runner = doctest.DocTestRunner(Rounded(), verbose=False)
    for docstring in found:
        runner.run(docstring, out=report.append)
    assert any(docstring.examples for docstring in found), "none of them is reached"
    assert not runner.failures, "".join(report)
