"""Every public function of ``ipu.tf`` has an example in its text, and it runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ipu import tf

MODULES = ("tf", "bitwise", "image", "linalg", "math", "nn", "random", "raw_ops")
# the files of the op families; what else `tf` lists is defined elsewhere
FAMILIES = """_images.boxes _images.changes _images.colors _images.combined_suppression
_images.measures _images.morphology _images.non_max_suppression _images.size
_ops.activations _ops.clip _ops.creation _ops.diagonals _ops.elementwise
_ops.matrix_functions _ops.nn_losses _ops.partitions _ops.products _ops.rearrange
_ops.reductions _ops.segments _ops.selection _ops.shapes _ops.special _ops.spectral
_random.distributions _random.generator _random.ops _tensor.convert bitwise dtypes
image linalg nn raw_ops tensor_spec variable""".split()


def public() -> Iterator[tuple[str, Any]]:
    for name in MODULES:
        module = tf if name == "tf" else getattr(tf, name)
        for item in module.__all__:
            value = getattr(module, item)
            own = getattr(value, "__module__", "").removeprefix("ipu.tf.")
            if callable(value) and own in FAMILIES:
                yield f"{name}.{item}", value


ITEMS = dict(public())
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


class Shortened(doctest.OutputChecker):
    """Texts write numbers with three digits or so."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        if NUMBER.sub("#", want).split() != NUMBER.sub("#", got).split():
            return False
        pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
        return all(abs(float(a) - float(b)) <= 6e-4 for a, b in pairs)


@pytest.mark.parametrize("name", ITEMS)
def test_example(name: str) -> None:
    value = ITEMS[name]
    text = inspect.getdoc(value) or ""
    assert ">>> " in text, f"{name} has no example"
    parsed = doctest.DocTestParser().get_doctest(
        text, {"tf": tf, "np": np}, name, None, 0
    )
    report: list[str] = []
    runner = doctest.DocTestRunner(Shortened(), verbose=False)
    failed = runner.run(parsed, out=report.append).failed
    assert not failed, "".join(report)
