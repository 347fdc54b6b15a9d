# SPDX-License-Identifier: MIT
"""``tf.random``: counter-based random numbers.

A number is a function of (seed, step, replica, op, element), never of time or threads:
a program gives the same numbers on every run. ``set_seed`` seeds eager ops and devices.
The ``stateless_`` functions are functions of the seed that they are given alone; a
``Generator`` counts its own calls.
"""

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.tf._random import experimental
from ipu.tf._random.distributions import (
    fold_in,
    gamma,
    poisson,
    split,
    stateless_binomial,
    stateless_gamma,
    stateless_parameterized_truncated_normal,
    stateless_poisson,
)
from ipu.tf._random.generator import (
    Generator,
    get_global_generator,
    set_global_generator,
)
from ipu.tf._random.ops import (
    categorical,
    normal,
    set_seed,
    shuffle,
    stateless_categorical,
    stateless_normal,
    stateless_truncated_normal,
    stateless_uniform,
    truncated_normal,
    uniform,
)

__all__ = [
    "Generator",
    "categorical",
    "experimental",
    "fold_in",
    "gamma",
    "get_global_generator",
    "normal",
    "poisson",
    "set_global_generator",
    "set_seed",
    "shuffle",
    "split",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_normal",
    "stateless_parameterized_truncated_normal",
    "stateless_poisson",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
