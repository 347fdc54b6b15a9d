# SPDX-License-Identifier: MIT
"""``ipu.keras.datasets``: small data sets to try things with.

Where there is neither a file nor a network, they raise FileNotFoundError, whose message
names the ways out.

Example:
    >>> from ipu.keras import datasets
    >>> (x_train, y_train), test = datasets.mnist.load_data()  # doctest: +SKIP
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.datasets import (
    boston_housing as boston_housing,
    cifar10 as cifar10,
    cifar100 as cifar100,
    fashion_mnist as fashion_mnist,
    imdb as imdb,
    mnist as mnist,
    reuters as reuters,
)

export(
    __name__, "boston_housing cifar10 cifar100 fashion_mnist imdb mnist reuters".split()
)
