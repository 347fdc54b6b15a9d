# SPDX-License-Identifier: MIT
"""What happened, in tables and pictures: profiles, timetables, comparisons."""
