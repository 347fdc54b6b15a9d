# SPDX-License-Identifier: MIT
"""What users read: errors, warnings, tracebacks, logs, names that are missing."""
