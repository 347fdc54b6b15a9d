# SPDX-License-Identifier: MIT
"""``ipu.keras.datasets``: small data sets to try things with.

Example:
    >>> from ipu.keras import datasets
    >>> (x_train, y_train), test = datasets.mnist.load_data()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.keras.datasets import (
    boston_housing,
    cifar10,
    cifar100,
    fashion_mnist,
    imdb,
    mnist,
    reuters,
)

__all__ = [
    "boston_housing",
    "cifar10",
    "cifar100",
    "fashion_mnist",
    "imdb",
    "mnist",
    "reuters",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
