# SPDX-License-Identifier: MIT
"""60,000 photographs of 32 x 32 pixels in 100 classes.

By Alex Krizhevsky, Vinod Nair and Geoffrey Hinton.
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.datasets._official import Splits, cifar, members_of, photographs

_FILE = cifar(
    "CIFAR-100", "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
)


def load_data(label_mode: str = "fine") -> Splits:
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
    train, test = members_of(_FILE, names)
    key = f"{label_mode}_labels".encode()
    return photographs([train], key), photographs([test], key)


export(__name__)
