# SPDX-License-Identifier: MIT
"""``tf.random.experimental``: older names of ``tf.random``, a shuffle by a seed."""

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.tf._random.distributions import fold_in as stateless_fold_in
from ipu.tf._random.distributions import split as stateless_split
from ipu.tf._random.distributions import stateless_shuffle
from ipu.tf._random.generator import (
    Generator,
    get_global_generator,
    set_global_generator,
)

__all__ = [
    "Generator",
    "get_global_generator",
    "set_global_generator",
    "stateless_fold_in",
    "stateless_shuffle",
    "stateless_split",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
