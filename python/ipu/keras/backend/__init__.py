# SPDX-License-Identifier: MIT
"""``ipu.keras.backend``: settings, and the functions that layers and losses call."""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.keras._local_windows import (
    local_conv as local_conv,
    local_conv1d as local_conv1d,
    local_conv2d as local_conv2d,
)
from ipu.keras._recurrence import rnn as rnn
from ipu.keras.backend._arithmetic import *
from ipu.keras.backend._networks import *
from ipu.keras.backend._settings import *
from ipu.keras.backend._shapes import *
from ipu.keras.backend._values import *
from ipu.tf import name_scope as name_scope

export(__name__, offered(__name__))
