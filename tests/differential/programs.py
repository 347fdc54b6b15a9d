# SPDX-License-Identifier: MIT
"""Cases of several lines: functions of `tf`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import data_programs
import function_programs
import keras_programs
import mask_programs
import tape_programs
import training_programs


def cases() -> dict[str, Callable[[Any], Any]]:
    """All, by name."""
    return {
        **function_programs.functions(),
        **tape_programs.tapes(),
        **data_programs.data(),
        **data_programs.after_errors(),
        **data_programs.kept(),
        **keras_programs.cases(),
        **mask_programs.cases(),
        **training_programs.cases(),
    }
