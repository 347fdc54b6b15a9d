# SPDX-License-Identifier: MIT
"""The parts of ``Layer``."""
