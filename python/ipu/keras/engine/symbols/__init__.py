# SPDX-License-Identifier: MIT
"""Symbolic values of the functional API, and the calls that made them."""
