# SPDX-License-Identifier: MIT
"""``tf.compat.v1.nn.rnn_cell``: one step of a recurrent layer, as an object.

A cell makes its variables when it is first called, in the variable scope that is in
force then. Steps over a sequence are taken by ``tf.nn.dynamic_rnn`` and its kin.

Example:
    >>> from ipu.tf.compat import v1
    >>> with v1.Graph().as_default():
    ...     cell = v1.nn.rnn_cell.BasicLSTMCell(4)
    ...     output, state = cell(v1.zeros([2, 3]), cell.zero_state(2, v1.float32))
    ...     print(output.shape, state.c.shape, [v.name for v in cell.variables])
    (2, 4) (2, 4) ['basic_lstm_cell/kernel:0', 'basic_lstm_cell/bias:0']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face, offered
from ipu.ops.rnn_ops import LSTMStateTuple as LSTMStateTuple
from ipu.tf.compat.v1._cell_wrappers import (
    DropoutWrapper as DropoutWrapper,
    MultiRNNCell as MultiRNNCell,
)
from ipu.tf.compat.v1._cells import (
    BasicLSTMCell as BasicLSTMCell,
    BasicRNNCell as BasicRNNCell,
    GRUCell as GRUCell,
    LSTMCell as LSTMCell,
    RNNCell as RNNCell,
)

if not TYPE_CHECKING:
    __all__ = offered(__name__)
    __getattr__, __dir__ = face(__name__, __all__)
