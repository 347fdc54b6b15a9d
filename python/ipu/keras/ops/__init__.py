# SPDX-License-Identifier: MIT
"""``ipu.keras.ops``: functions of tensors, by the names of Keras 3.

They take tensors, NumPy arrays, lists and symbolic values of ``keras.Input``, and are
calls of ``ipu.tf`` with the arguments and dtypes of Keras 3: at once, in functions, and
as layers of models, which are saved with them. Names that are not there say what to
use.
"""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.keras.ops import image as image, linalg as linalg, nn as nn, numpy as numpy
from ipu.keras.ops._core import *
from ipu.keras.ops.linalg import *
from ipu.keras.ops.nn import *
from ipu.keras.ops.numpy import *
from ipu.tf import custom_gradient as custom_gradient

export(__name__, offered(__name__, ["image", "linalg", "nn", "numpy"]))
