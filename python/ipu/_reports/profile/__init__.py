# SPDX-License-Identifier: MIT
"""What a profile is made of: events, sums over them, the table and the trace."""
