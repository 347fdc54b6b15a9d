# SPDX-License-Identifier: MIT
"""Drawings of models: boxes of layers, where they lie, and as SVG, DOT and pixels."""
