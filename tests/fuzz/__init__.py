# SPDX-License-Identifier: MIT
"""Random programs of ops, loops, branches and arrays, and their derivatives.

`generate` writes a program from a seed, `check` compares its derivatives with
differences and its forms with each other, `minimise` makes a failing one small.
`python -m fuzz SEED [COUNT]`, in `tests/`, tries seeds by hand.
"""
