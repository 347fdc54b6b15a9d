# SPDX-License-Identifier: MIT
"""``ipu.vertex_edsl``: element-wise expressions for ``custom_ops``.

Example:
    >>> x = PlaceholderVertexExpr("x", "float32")
    >>> str(abs(x - 3.0) * 2)
    '(abs((x - 3.0)) * 2)'
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.ops._expressions import (
    BinaryExpr as BinaryExpr,
    Conditional as Conditional,
    ConstantVertexExpr as ConstantVertexExpr,
    LetVertexExpr as LetVertexExpr,
    PlaceholderVertexExpr as PlaceholderVertexExpr,
    UnaryFunctionExpr as UnaryFunctionExpr,
    VertexExpression as VertexExpression,
    condition as condition,
    constant as constant,
    let as let,
)

__all__ = [
    "BinaryExpr",
    "Conditional",
    "ConstantVertexExpr",
    "LetVertexExpr",
    "PlaceholderVertexExpr",
    "UnaryFunctionExpr",
    "VertexExpression",
    "condition",
    "constant",
    "let",
]

export(__name__)
