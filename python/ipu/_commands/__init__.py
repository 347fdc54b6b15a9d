# SPDX-License-Identifier: MIT
"""The commands of ``python -m ipu``: modules with ``add_arguments`` and ``run``."""
