# SPDX-License-Identifier: MIT
"""The parts of a profile: events, sums over them, the table and the trace."""
