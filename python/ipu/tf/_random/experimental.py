# SPDX-License-Identifier: MIT
"""``tf.random.experimental``: older names of ``tf.random``, a shuffle by a seed."""

from typing import TYPE_CHECKING

from ipu._text.faces import face, offered
from ipu.tf._random import distributions
from ipu.tf._random.distributions import stateless_shuffle as stateless_shuffle
from ipu.tf._random.generator import (
    Generator as Generator,
    get_global_generator as get_global_generator,
    set_global_generator as set_global_generator,
)

stateless_fold_in = distributions.fold_in
stateless_split = distributions.split

if not TYPE_CHECKING:
    __all__ = offered(__name__)
    __getattr__, __dir__ = face(__name__, __all__)
