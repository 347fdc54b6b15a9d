# SPDX-License-Identifier: MIT
"""Tensors of strings, and what the host computes of them."""
