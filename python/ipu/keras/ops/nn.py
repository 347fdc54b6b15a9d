# SPDX-License-Identifier: MIT
"""``ipu.keras.ops.nn``: what layers are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ipu import tf
from ipu._text.exports import export, offered
from ipu.keras import activations as a, backend
from ipu.keras.ops import _bodies as b, _table as t
from ipu.keras.ops._table import floating as _floating, op as _op

_f = t.floats


# fmt: off
# --- activations
celu = _op(lambda x, alpha=1.0: a.celu(_f(x), alpha), "Give x above 0, and alpha "
    "(exp(x / alpha) - 1) below", "celu([-1.0, 1.0]) -> [-0.632, 1.0]")
elu = _op(lambda x, alpha=1.0: a.elu(_f(x), alpha), "Give x above 0, and alpha (exp(x) "
    "- 1) below", "elu([-1.0, 1.0]) -> [-0.632, 1.0]")
gelu = _op(lambda x, approximate=True: tf.nn.gelu(_f(x), approximate),
    "Give x times the normal distribution at x, or about so", "gelu([0.0, 1.0]) -> "
    "[0.0, 0.841]")
glu = _op(lambda x, axis=-1: a.glu(_f(x), axis), "Give the first half times the "
    "sigmoid of the second", "glu([1.0, 0.0]) -> [0.5]")
hard_shrink = _op(lambda x, threshold=0.5: a.hard_shrink(_f(x), threshold),
    "Put what is near 0 to 0", "hard_shrink([0.2, 1.0]) -> [0.0, 1.0]")
hard_sigmoid = _floating(lambda x: tf.nn.relu6(x + 3.0) / 6.0,
    "Give x / 6 + 1 / 2 between 0 and 1", "hard_sigmoid([0.0, 9.0]) -> [0.5, 1.0]")
hard_silu = _floating(a.hard_silu, "Give x times its hard sigmoid",
    "hard_silu([0.0, 9.0]) -> [0.0, 9.0]")
hard_swish = hard_silu
hard_tanh = _floating(a.hard_tanh, "Cut at -1 and 1", "hard_tanh([-3.0, 0.5]) -> "
    "[-1.0, 0.5]")
leaky_relu = _op(lambda x, negative_slope=0.2: tf.nn.leaky_relu(_f(x), negative_slope),
    "Give x above 0, and a part of it below", "leaky_relu([-1.0, 1.0]) -> [-0.2, 1.0]")
log_sigmoid = _floating(tf.math.log_sigmoid, "Give the logarithm of the sigmoid",
    "log_sigmoid([0.0]) -> [-0.693]")
log_softmax = _op(lambda x, axis=-1: tf.nn.log_softmax(_f(x), axis),
    "Give the logarithms of probabilities that logits stand for",
    "log_softmax([0.0, 0.0]) -> [-0.693, -0.693]")
relu = _floating(tf.nn.relu, "Give the larger of 0 and x", "relu([-1.0, 2.0]) -> [0.0, "
    "2.0]")
relu6 = _floating(tf.nn.relu6, "Cut at 0 and 6", "relu6([-1.0, 9.0]) -> [0.0, 6.0]")
selu = _floating(tf.nn.selu, "Give the scaled ELU", "selu([0.0, 1.0]) -> [0.0, 1.051]")
sigmoid = _floating(tf.sigmoid, "Give 1 / (1 + exp(-x))", "sigmoid([0.0]) -> [0.5]")
silu = _floating(tf.nn.silu, "Give x times its sigmoid", "silu([0.0, 1.0]) -> [0.0, "
    "0.731]")
soft_shrink = _op(lambda x, threshold=0.5: a.soft_shrink(_f(x), threshold),
    "Move towards 0", "soft_shrink([0.2, 1.0]) -> [0.0, 0.5]")
softmax = _op(lambda x, axis=-1: tf.nn.softmax(_f(x), axis), "Give the probabilities "
    "that logits stand for", "softmax([0.0, 0.0]) -> [0.5, 0.5]")
softplus = _floating(tf.math.softplus, "Give log(1 + exp(x))",
    "softplus([0.0]) -> [0.693]")
softsign = _floating(tf.nn.softsign, "Give x / (1 + abs(x))", "softsign([1.0]) -> "
    "[0.5]")
sparse_plus = _floating(a.sparse_plus, "Give the integral of the sparse sigmoid",
    "sparse_plus([-2.0, 0.0, 2.0]) -> [0.0, 0.25, 2.0]")
sparse_sigmoid = _floating(a.sparse_sigmoid, "Give (x + 1) / 2 between 0 and 1",
    "sparse_sigmoid([0.0, 3.0]) -> [0.5, 1.0]")
sparsemax = _op(lambda x, axis=-1: a.sparsemax(_f(x), axis), "Give the nearest "
    "probabilities, of which some are 0", "sparsemax([0.0, 3.0]) -> [0.0, 1.0]")
squareplus = _op(lambda x, b=4: a.squareplus(_f(x), b), "Give (x + sqrt(x**2 + b)) / 2",
    "squareplus([0.0]) -> [1.0]")
swish = silu
tanh_shrink = _floating(a.tanh_shrink, "Give x - tanh(x)", "tanh_shrink([0.0]) -> "
    "[0.0]")
threshold = _op(lambda x, threshold, default_value: a.threshold(_f(x), threshold,
    default_value), "Replace what is not above a threshold", "threshold([0.0, 2.0], "
    "1.0, 9.0) -> [9.0, 2.0]")

# --- windows
average_pool = _op(b.pool("AVG"), "Give the means of windows",
    "average_pool([[[1.0], [3.0]]], 2) -> [[[2.0]]]")
conv = _op(b.conv, "Convolve series, images or volumes", "conv([[[1.0], [3.0]]], "
    "[[[2.0]]]) -> [[[2.0], [6.0]]]")
conv_transpose = _op(b.conv_transpose, "Convolve the other way: results are larger",
    "conv_transpose([[[1.0]]], [[[1.0]], [[2.0]]], 2) -> [[[1.0], [2.0]]]")
depthwise_conv = _op(b.depthwise_conv, "Convolve each channel alone",
    "depthwise_conv([[[1.0], [3.0]]], [[[2.0]]]) -> [[[2.0], [6.0]]]")
max_pool = _op(b.pool("MAX"), "Give the largest numbers of windows",
    "max_pool([[[1.0], [3.0]]], 2) -> [[[3.0]]]")
separable_conv = _op(b.separable_conv, "Convolve each channel, then mix the channels",
    "separable_conv([[[1.0]]], [[[2.0]]], [[[3.0]]]) -> [[[6.0]]]")

# --- normalisation and attention
batch_normalization = _op(b.batch_normalization, "Normalise by given means and "
    "variances of channels", "batch_normalization([[3.0]], [1.0], [4.0], -1, "
    "epsilon=0.0) -> [[1.0]]")
dot_product_attention = _op(b.dot_product_attention, "Attend: query, key and value are "
    "[batch, steps, heads, size]", "dot_product_attention(*[[[[[1.0]]]]] * 3) -> "
    "[[[[1.0]]]]")
layer_normalization = _op(b.layer_normalization, "Normalise each sample along axes",
    "layer_normalization([[1.0, 3.0]]) -> [[-1.0, 1.0]]")
moments = _op(lambda x, axes, keepdims=False, synchronized=False: tf.nn.moments(_f(x),
    b.places(_f(x), axes), keepdims=keepdims), "Give means and variances along axes",
    "moments([1.0, 3.0], 0)[1] -> 1.0")
normalize = _op(b.normalize, "Divide by norms along an axis", "normalize([3.0, 4.0]) "
    "-> [0.6, 0.8]")
rms_normalization = _op(lambda x, scale=1, axis=-1, epsilon=None: _f(x) *
    tf.math.rsqrt(tf.reduce_mean(tf.square(_f(x)), b.places(_f(x), axis), True) +
    (backend.epsilon() if epsilon is None else epsilon)) * t.tensor(scale, _f(x).dtype),
    "Divide by the root of the mean square", "rms_normalization([2.0, -2.0]) -> [1.0, "
    "-1.0]")

# --- classes and losses
binary_crossentropy = _op(lambda target, output, from_logits=False:
    t.on_pair(backend.binary_crossentropy, target, output, from_logits,
    kind=t.float_pair), "Compare targets with probabilities, each alone",
    "binary_crossentropy([1.0], " "[0.5]) -> [0.693]")
categorical_crossentropy = _op(lambda target, output, from_logits=False, axis=-1:
    t.on_pair(backend.categorical_crossentropy, target, output, from_logits, axis,
    kind=t.float_pair), "Compare classes, a one in each row, with " "probabilities",
    "categorical_crossentropy([[1.0, 0.0]], [[0.5, 0.5]]) -> [0.693]")
ctc_loss = _op(lambda target, output, target_length, output_length, mask_index=0:
    tf.nn.ctc_loss(t.tensor(target, "int32"), _f(output), t.tensor(target_length,
    "int32"), t.tensor(output_length, "int32"), False, blank_index=mask_index),
    "Compare labels with logits of longer series", "ctc_loss([[1]], [[[0.0, 0.0]]], "
    "[1], [1]) -> [0.693]")
multi_hot = _op(b.multi_hot, "Give a one for each class that is there",
    "multi_hot([0, 2], 3) -> [1.0, 0.0, 1.0]")
one_hot = _op(b.one_hot, "Give a row with a one at the class, for each number",
    "one_hot([0, 2], 3) -> [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]")
psnr = _op(lambda x1, x2, max_val: 20 * np.log10(max_val) - 10 / np.log(10) *
    tf.math.log(tf.reduce_mean(tf.square(tf.subtract(*t.float_pair(x1, x2))))),
    "Give the ratio of the largest signal to the noise, in decibel",
    "psnr([1.0], [0.0], 1.0) -> 0.0")
sparse_categorical_crossentropy = _op(lambda target, output, from_logits=False, axis=-1:
    backend.sparse_categorical_crossentropy(t.tensor(target, "int32"), _f(output),
    from_logits, axis), "Compare class numbers with probabilities",
    "sparse_categorical_crossentropy([0], [[0.5, 0.5]]) -> [0.693]")
# fmt: on

if not TYPE_CHECKING:
    export(__name__, offered(__name__))
