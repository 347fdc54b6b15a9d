# SPDX-License-Identifier: MIT
"""What old programs import and ``ipu`` itself has no use for, one module for each kind.

The table of ``ipu.drop_in`` says which names of TensorFlow's tree lead here.
"""
