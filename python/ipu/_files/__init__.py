# SPDX-License-Identifier: MIT
"""How files are written."""
