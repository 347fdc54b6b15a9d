# SPDX-License-Identifier: MIT
"""Layers of the IPU that ``ipu.layers`` and ``ipu.keras.layers`` both offer."""
