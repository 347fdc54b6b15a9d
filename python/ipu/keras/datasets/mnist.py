# SPDX-License-Identifier: MIT
"""The MNIST images of handwritten digits.

By Yann LeCun, Corinna Cortes and Christopher Burges; CC BY-SA 3.0.
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.datasets._cache import Arrays, load


def load_data(path: str = "mnist.npz") -> Arrays:
    """Load MNIST: 60,000 images to train on and 10,000 to test with.

    The file is looked for in the Keras cache, ``$KERAS_HOME/datasets`` or
    ``~/.keras/datasets``, and used as it is; the log warns where it is not the
    official one. If it is not there it is downloaded, which without a network gives
    up within five seconds.

    Args:
        path: Name of the file in the cache, or an absolute path.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``, NumPy arrays of uint8: images
        (n, 28, 28) with grey values 0 to 255, and digits (n,) 0 to 9.

    Raises:
        ValueError: The file is truncated, or is not such a file.

    Source:
        https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz

    Example:
        >>> (x_train, y_train), (x_test, y_test) = load_data()  # doctest: +SKIP
        >>> x_train.shape, y_test.shape  # doctest: +SKIP
        ((60000, 28, 28), (10000,))
    """
    return load("mnist", path=path).arrays


export(__name__)
