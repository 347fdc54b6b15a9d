# SPDX-License-Identifier: MIT
"""The Fashion-MNIST images of clothes.

By Han Xiao, Kashif Rasul and Roland Vollgraf (Zalando SE); MIT licence.
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.datasets._cache import Arrays, load


def load_data() -> Arrays:
    """Load Fashion-MNIST: 60,000 images to train on and 10,000 to test with.

    The files are looked for in the Keras cache,
    ``$KERAS_HOME/datasets/fashion-mnist`` or ``~/.keras/datasets/fashion-mnist``, and
    used as they are; the log warns where they are not the official ones. If they are
    not there they are downloaded, which without a network gives up within five
    seconds; then those of Debian's package dataset-fashion-mnist are taken.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``, NumPy arrays of uint8: images
        (n, 28, 28) with grey values 0 to 255, and labels (n,) 0 to 9: T-shirt,
        trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.

    Raises:
        FileNotFoundError: There are no files and no network; the message names the
            ways out.
        ValueError: A file is truncated, or is not such a file.

    Source:
        https://storage.googleapis.com/tensorflow/tf-keras-datasets/, first published
        at https://github.com/zalandoresearch/fashion-mnist

    Example:
        >>> (x_train, y_train), (x_test, y_test) = load_data()  # doctest: +SKIP
        >>> x_train.shape, y_test.shape  # doctest: +SKIP
        ((60000, 28, 28), (10000,))
    """
    return load("fashion-mnist").arrays


export(__name__)
