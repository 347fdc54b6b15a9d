# SPDX-License-Identifier: MIT
"""``tf.compat``: TensorFlow 1, as far as programs for the IPU write it.

Example:
    >>> from ipu.tf.compat import v1
    >>> with v1.Graph().as_default(), v1.Session() as session:
    ...     print(session.run(v1.constant([1.0, 2.0]) * 2.0))
    [2. 4.]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export

if TYPE_CHECKING:
    from ipu.tf.compat import v1 as v1

__all__ = ["v1"]

export(__name__, None, {"v1": "ipu.tf.compat.v1"})
