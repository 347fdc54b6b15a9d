# SPDX-License-Identifier: MIT
"""The teeth of the tests: whether they notice a wrong operator, constant or call."""
