# SPDX-License-Identifier: MIT
"""``ipu.autoshard``: spread a program over the IPUs of a device.

Programs that are sharded over several IPUs come with a later version. The module is
here because programs import it at the top; each of its names says that it is missing.
"""

from __future__ import annotations

from typing import NoReturn

from ipu._missing import MissingNameError

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name)
    raise MissingNameError(f"{__name__}.{name}")
