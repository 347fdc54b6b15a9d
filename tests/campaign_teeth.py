# SPDX-License-Identifier: MIT
"""Trials that go wrong, for the test of the campaign."""

from __future__ import annotations

import os
import time


def trial(seed: int) -> int | bool | None:
    """Fail, hang and crash, at seeds of their own; the others say what was tried."""
    if seed == 3:
        raise AssertionError("the third is wrong")
    if seed == 5:
        time.sleep(600)
    if seed == 7:
        os.abort()
    return (None, 5, True, False)[seed % 4]
