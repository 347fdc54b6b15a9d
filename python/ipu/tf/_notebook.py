# SPDX-License-Identifier: MIT
"""How tensors show themselves in a notebook. Called by the core."""

from __future__ import annotations

import html

import numpy as np

from ipu import _core

__all__ = ["tensor_html"]

_MOST_VALUES = 200  # of a tensor that is shown whole


def tensor_html(tensor: _core.Tensor) -> str:
    """Give a tensor as HTML: its type, and its values where there are any.

    Args:
        tensor: Of any shape and dtype; of a large one the corners are shown.

    Returns:
        A paragraph, and for an eager tensor the values as preformatted text.

    Example:
        >>> from ipu import tf
        >>> tensor_html(tf.constant([1, 2]))
        '<p><b>tf.Tensor</b> (2,), int32</p><pre>[1 2]</pre>'
    """
    title = f"<p><b>tf.Tensor</b> {tensor.shape}, {tensor.dtype_name}"
    if tensor.is_symbolic:
        return f"{title}, symbolic</p>"
    values = np.array2string(np.asarray(tensor), threshold=_MOST_VALUES)
    return f"{title}</p><pre>{html.escape(values)}</pre>"
