# SPDX-License-Identifier: MIT
"""``ipu.Timetable``: a pipeline's schedule to look at, in a terminal or a notebook."""

from ipu._reports.timetable.table import Timetable

__all__ = ["Timetable"]
