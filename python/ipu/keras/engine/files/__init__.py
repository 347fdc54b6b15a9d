# SPDX-License-Identifier: MIT
"""Models and weights in files, and as text."""
