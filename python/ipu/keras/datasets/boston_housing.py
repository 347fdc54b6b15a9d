# SPDX-License-Identifier: MIT
"""Prices of 506 houses around Boston with 13 features each, of 1978."""

from __future__ import annotations

import numpy as np

from ipu._text.exports import export
from ipu.keras.datasets import _official

_FILE = _official.Official(
    "Boston housing",
    "boston_housing.npz",
    "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5",
)


def load_data(
    path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113
) -> _official.Splits:
    """Load the houses.

    Args:
        path: Name of the file in the Keras cache, or an absolute path.
        test_split: The part that is for testing, in [0, 1).
        seed: For the order of the houses.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``: float64 features (n, 13), and prices
        (n,) in thousands of dollars.

    Raises:
        ValueError: The file is damaged, or ``test_split`` is out of range.
    """
    if not 0 <= test_split < 1:
        raise ValueError(
            f"`test_split` must be in [0, 1). Received: test_split={test_split}."
        )
    x, y = _official.arrays_of(_FILE, path, ["x", "y"])
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


export(__name__)
