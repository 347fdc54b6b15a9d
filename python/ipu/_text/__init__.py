# SPDX-License-Identifier: MIT
"""Texts for users: errors, warnings, tracebacks, logs, names that are missing."""
