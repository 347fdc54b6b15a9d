# SPDX-License-Identifier: MIT
"""``tf.random.experimental``: older names of ``tf.random``, a shuffle by a seed."""

from ipu._text.exports import export, offered
from ipu.tf._random import distributions
from ipu.tf._random.distributions import stateless_shuffle as stateless_shuffle
from ipu.tf._random.generator import (
    Generator as Generator,
    get_global_generator as get_global_generator,
    set_global_generator as set_global_generator,
)

stateless_fold_in = distributions.fold_in
stateless_split = distributions.split

export(__name__, offered(__name__))
