# SPDX-License-Identifier: MIT
"""Cases of the ops at which replicas meet, for one that is alone: nothing changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .model import ALL, FLOATS, NUMBERS, Case, In, case, is_float, of_kind, shape_label

SHAPES = ((), (5,), (3, 7), (0,), (70, 301))


def cases() -> Iterator[Case]:
    yield case("replica_index", "alone", [], lambda: np.int32(0), exact=True)
    for dtype in NUMBERS:
        for reduction in (0, 1) if dtype in FLOATS else (0,):
            for shape in SHAPES if dtype == "float32" else SHAPES[:3]:
                yield case(
                    "all_reduce",
                    f"{shape_label(shape)}_{('sum', 'mean')[reduction]}",
                    [In(shape, dtype, of_kind()(dtype))],
                    lambda x: x,
                    attrs=f"reduction={reduction}",
                    exact=True,
                    smooth=is_float(dtype),
                    twice=is_float(dtype),
                )
    for op in ("all_gather", "all_to_all", "reduce_scatter"):
        for dtype in NUMBERS if op == "reduce_scatter" else ALL:
            for shape in SHAPES if dtype == "float32" else SHAPES[:3]:
                yield case(
                    op,
                    shape_label(shape),
                    [
                        In(
                            shape if op == "all_gather" else (1, *shape),
                            dtype,
                            of_kind()(dtype),
                        )
                    ],
                    {
                        "all_gather": lambda x: x[None],
                        "all_to_all": lambda x: x,
                        "reduce_scatter": lambda x: x[0],
                    }[op],
                    attrs="group_size=1",
                    exact=True,
                    smooth=is_float(dtype),
                    twice=is_float(dtype),
                )
