# SPDX-License-Identifier: MIT
"""60,000 photographs of 32 x 32 pixels in 10 classes.

By Alex Krizhevsky, Vinod Nair and Geoffrey Hinton.
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.datasets._official import Splits, cifar, members_of, photographs

_FILE = cifar(
    "CIFAR-10", "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
)


def load_data() -> Splits:
    """Load 50,000 photographs to train on and 10,000 to test with.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``: uint8 images (n, 32, 32, 3), or (n,
        3, 32, 32) where ``backend.image_data_format()`` says so, and uint8 classes
        (n, 1).

    Raises:
        ValueError: The file is damaged.
    """
    names = [f"cifar-10-batches-py/data_batch_{i}" for i in range(1, 6)]
    *train, test = members_of(_FILE, [*names, "cifar-10-batches-py/test_batch"])
    return photographs(train, b"labels"), photographs([test], b"labels")


export(__name__)
