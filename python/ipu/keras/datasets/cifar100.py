# SPDX-License-Identifier: MIT
"""60,000 photographs of 32 x 32 pixels in 100 classes.

By Alex Krizhevsky, Vinod Nair and Geoffrey Hinton.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu._text.faces import face
from ipu.keras.datasets import _official

__all__ = ["load_data"]

_FILE = _official.Official(
    "CIFAR-100",
    "cifar-100-python.tar.gz",
    "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    "https://www.cs.toronto.edu/~kriz/",
)

Split = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def load_data(label_mode: str = "fine") -> tuple[Split, Split]:
    """Load 50,000 photographs to train on and 10,000 to test with.

    Args:
        label_mode: ``"fine"`` for 100 classes, ``"coarse"`` for 20 groups of them.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``: uint8 images (n, 32, 32, 3), or (n,
        3, 32, 32) where ``backend.image_data_format()`` says so, and uint8 classes
        (n, 1).

    Raises:
        ValueError: The file is damaged, or ``label_mode`` is neither.
    """
    if label_mode not in ("fine", "coarse"):
        raise ValueError(
            "`label_mode` must be one of `fine`, `coarse`. "
            f"Received: label_mode={label_mode!r}."
        )
    names = ["cifar-100-python/train", "cifar-100-python/test"]
    key = f"{label_mode}_labels".encode()
    train, test = (
        (_images(part[b"data"]), _labels(part[key]))
        for part in _official.members_of(_FILE, names)
    )
    return train, test


def _images(data: Any) -> np.ndarray[Any, Any]:
    from ipu.keras.backend import image_data_format

    images = np.asarray(data, np.uint8).reshape(-1, 3, 32, 32)
    is_last = image_data_format() == "channels_last"
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)) if is_last else images


def _labels(labels: Any) -> np.ndarray[Any, Any]:
    return np.asarray(labels, np.uint8).reshape(-1, 1)


face(__name__)
