# SPDX-License-Identifier: MIT
"""Files of models: our own, those of Keras 2 (HDF5) and those of Keras 3."""

from __future__ import annotations
