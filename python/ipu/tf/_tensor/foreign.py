# SPDX-License-Identifier: MIT
"""Arrays of other libraries, taken through DLPack. Called by the core."""

from __future__ import annotations

from typing import Any

import numpy as np

_CPU = 1
# the device types of the DLPack standard that people meet
_DEVICES = {2: "CUDA", 3: "CUDA host", 8: "Metal", 10: "ROCm", 14: "oneAPI"}


def array_of(value: Any) -> np.ndarray[Any, Any]:
    """Return a view of the memory of another library's array.

    Args:
        value: An object with ``__dlpack__`` and ``__dlpack_device__`` whose memory is
            the CPU's, of any shape.

    Returns:
        A NumPy array of the same shape and dtype.

    Raises:
        BufferError: The memory is another device's.
        TypeError: The library does not give it, or its dtype is none of NumPy's.

    Example:
        >>> array_of(np.ones(2)).tolist()
        [1.0, 1.0]
    """
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        kind, number = (int(part) for part in value.__dlpack_device__())
    except Exception as error:
        raise TypeError(_refusal(name, value, error)) from error
    if kind != _CPU:
        raise BufferError(
            "Tensors take arrays that are in the CPU's memory. Received: a "
            f"{name} on {_DEVICES.get(kind, 'DLPack')} device ({kind}, {number}). Copy "
            "it to the CPU first."
        )
    try:
        return np.from_dlpack(value)
    except Exception as error:
        raise TypeError(_refusal(name, value, error)) from error


def _refusal(name: str, value: Any, error: Exception) -> str:
    reason = str(error).rstrip(".")
    dtype = getattr(value, "dtype", None)
    return f"A {name} of dtype {dtype} cannot become a tensor: {reason}."
