# SPDX-License-Identifier: MIT
"""The cases of every op in the table, by room."""

from . import (
    attention,
    collectives,
    convolutions,
    elementwise,
    functions,
    fused_updates,
    linear,
    movement,
    normalizations,
    pools,
    products,
    random_ops,
    recurrent,
    reductions,
    resources,
    special,
    windows,
)
from .model import Case

CASES: tuple[Case, ...] = (
    *elementwise.cases(),
    *functions.cases(),
    *products.cases(),
    *convolutions.cases(),
    *reductions.cases(),
    *movement.cases(),
    *windows.window_cases(),
    *pools.cases(),
    *normalizations.cases(),
    *linear.cases(),
    *random_ops.cases(),
    *special.cases(),
    *recurrent.cases(),
    *attention.cases(),
    *collectives.cases(),
    *fused_updates.rates(),
)
SCENARIOS: tuple[resources.Scenario, ...] = (
    *resources.scenarios(),
    *fused_updates.scenarios(),
)
