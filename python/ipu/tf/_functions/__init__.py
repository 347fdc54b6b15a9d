# SPDX-License-Identifier: MIT
"""``tf.function``: how Python functions become programs."""
