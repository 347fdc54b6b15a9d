# SPDX-License-Identifier: MIT
"""How models are trained: data, steps, epochs, and their programs."""
