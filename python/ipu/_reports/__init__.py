# SPDX-License-Identifier: MIT
"""Reports of runs, in tables and pictures: profiles, timetables, comparisons."""
