# SPDX-License-Identifier: MIT
"""How devices are configured: trees of options, the first SDK, flags, variables."""
