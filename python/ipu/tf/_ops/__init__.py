# SPDX-License-Identifier: MIT
"""Ops on tensors, by subject."""
