# SPDX-License-Identifier: MIT
"""The parts of ``tf.test``."""
