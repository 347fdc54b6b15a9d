# SPDX-License-Identifier: MIT
"""60,000 photographs of 32 x 32 pixels in 10 classes.

By Alex Krizhevsky, Vinod Nair and Geoffrey Hinton.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu._text.faces import face
from ipu.keras.datasets import _official

__all__ = ["load_data"]

_FILE = _official.Official(
    "CIFAR-10",
    "cifar-10-python.tar.gz",
    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    "https://www.cs.toronto.edu/~kriz/",
)

Split = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def load_data() -> tuple[Split, Split]:
    """Load 50,000 photographs to train on and 10,000 to test with.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``: uint8 images (n, 32, 32, 3), or (n,
        3, 32, 32) where ``backend.image_data_format()`` says so, and uint8 classes
        (n, 1).

    Raises:
        ValueError: The file is damaged.
    """
    names = [f"cifar-10-batches-py/data_batch_{i}" for i in range(1, 6)]
    *train, test = _official.members_of(
        _FILE, [*names, "cifar-10-batches-py/test_batch"]
    )
    x_train = np.concatenate([batch[b"data"] for batch in train])
    y_train = np.concatenate([batch[b"labels"] for batch in train])
    return (
        (_images(x_train), _labels(y_train)),
        (_images(test[b"data"]), _labels(test[b"labels"])),
    )


def _images(data: Any) -> np.ndarray[Any, Any]:
    from ipu.keras.backend import image_data_format

    images = np.asarray(data, np.uint8).reshape(-1, 3, 32, 32)
    is_last = image_data_format() == "channels_last"
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)) if is_last else images


def _labels(labels: Any) -> np.ndarray[Any, Any]:
    return np.asarray(labels, np.uint8).reshape(-1, 1)


face(__name__)
