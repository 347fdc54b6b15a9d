# SPDX-License-Identifier: MIT
"""``tf.random``: counter-based random numbers.

A number is a function of (seed, step, replica, op, element), never of time or threads:
a program gives the same numbers on every run. ``set_seed`` seeds eager ops and devices.
The ``stateless_`` functions are functions of the seed that they are given alone; a
``Generator`` counts its own calls.
"""

from ipu._text.exports import export, offered
from ipu.tf._random import experimental as experimental
from ipu.tf._random.distributions import (
    fold_in as fold_in,
    gamma as gamma,
    poisson as poisson,
    split as split,
    stateless_binomial as stateless_binomial,
    stateless_gamma as stateless_gamma,
    stateless_parameterized_truncated_normal as stateless_parameterized_truncated_normal,  # noqa: E501
    stateless_poisson as stateless_poisson,
)
from ipu.tf._random.generator import (
    Generator as Generator,
    get_global_generator as get_global_generator,
    set_global_generator as set_global_generator,
)
from ipu.tf._random.ops import (
    categorical as categorical,
    normal as normal,
    set_seed as set_seed,
    shuffle as shuffle,
    stateless_categorical as stateless_categorical,
    stateless_normal as stateless_normal,
    stateless_truncated_normal as stateless_truncated_normal,
    stateless_uniform as stateless_uniform,
    truncated_normal as truncated_normal,
    uniform as uniform,
)

export(__name__, offered(__name__, ["experimental"]))
