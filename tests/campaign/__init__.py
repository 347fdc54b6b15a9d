# SPDX-License-Identifier: MIT
"""Machines that try everything: `python -m tests.campaign --minutes 10`.

Each kind is a function of a seed that raises where something is wrong (kinds.py). A
worker process tries seed after seed; the process here watches it (watch.py), so that a
crash and a hang are found like an exception, and notes how far each kind has come.
"""
