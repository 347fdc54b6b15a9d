# SPDX-License-Identifier: MIT
"""``ipu.sharding``: which IPU of a device ops are on.

``ipu.scopes.ipu_shard`` says it; asking comes with a later version. The module is here
because programs import it at the top; each of its names says that it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._faces import face

__all__: list[str] = []


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
