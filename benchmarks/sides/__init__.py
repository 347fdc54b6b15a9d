# SPDX-License-Identifier: MIT
"""One module per framework; each runs in a process of its own (see harness.py)."""
