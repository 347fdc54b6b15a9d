# SPDX-License-Identifier: MIT
"""Loops on the device, and what feeds them: micro-batches, steps, files of data."""
