# SPDX-License-Identifier: MIT
"""The simulated devices, and where programs and variables are placed on them."""
