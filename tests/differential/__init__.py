# SPDX-License-Identifier: MIT
"""The same programs on `ipu.tf` and on TensorFlow.

A case is one source: an expression, or a function of `(tf, np)`. `run` evaluates all on
one side and writes what came out; `compare` tells what differs.
"""
