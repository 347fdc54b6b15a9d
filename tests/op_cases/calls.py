# SPDX-License-Identifier: MIT
"""Calls of ``tf.*`` as text, one a line, over a few fixed inputs.

`python tests/op_cases/calls.py` with TensorFlow installed writes what TensorFlow gives
for each into calls.json, which the tests compare with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(20)
INPUTS: dict[str, Any] = {
    "a": _rng.uniform(-2, 2, (3, 4)),
    "b": _rng.uniform(0.3, 2, (3, 4)),
    "c": _rng.uniform(-0.9, 0.9, (3, 4)),
    "v": _rng.uniform(-2, 2, 4),
    "w": _rng.uniform(-2, 2, (4, 2)),
    "x": _rng.uniform(-2, 2, (2, 3, 4)),
    "s": _rng.uniform(-1, 1, (2, 3, 3)) + 3 * np.eye(3),
    "p": (lambda r: r @ r.swapaxes(-1, -2) + 2 * np.eye(3))(
        _rng.uniform(-1, 1, (2, 3, 3))
    ),
    "r": _rng.uniform(-2, 2, (2, 3, 2)),
    "e": np.zeros((0, 4)),
    "g": _rng.uniform(0, 1, (2, 4, 6, 3)),
    "i": _rng.integers(-9, 9, (3, 4)),
    "j": _rng.integers(1, 5, (3, 4)),
    "k": np.array([2, 0, 2]),
    "n": np.array([[[0], [1]], [[1], [0]]]),
    "t": np.array([[True, False, True, True]] * 2 + [[True] * 4]),
    "q": np.array([[0.0, -0.0, 1.0, -1.0], [np.inf, -np.inf, np.nan, 2.0]]),
    "u": _rng.integers(0, 256, (4, 6, 3)).astype(np.uint8),
}
# pictures of 16 by 12 pixels, boxes of two images and their scores, [2, 3, 1, 4]
INPUTS["h"] = np.tile(INPUTS["g"], [1, 4, 2, 1])
INPUTS["z"] = np.concatenate([INPUTS["c"], INPUTS["c"] + 0.1]).reshape(2, 3, 1, 4)
INPUTS["y"] = np.abs(INPUTS["x"][:, :, :3])
FLOATS = [name for name, value in INPUTS.items() if np.asarray(value).dtype.kind == "f"]

# the gradient of each with respect to the float inputs that it names is checked, too
SMOOTH = """
tf.abs(a)
tf.add(a, v)
tf.add(a, 1.5)
tf.add_n([a, b, c])
tf.acos(c)
tf.acosh(b + 1.0)
tf.asin(c)
tf.asinh(a)
tf.atan(a)
tf.atan2(a, b)
tf.atanh(c)
tf.boolean_mask(a, t)
tf.boolean_mask(a, [True, False, True])
tf.broadcast_to(v, (3, 4))
tf.cast(a, tf.float16)
tf.clip_by_value(a, -1.0, 1.0)
tf.clip_by_norm(a, 1.0)
tf.clip_by_norm(a, 1.0, axes=[1])
tf.clip_by_norm(a, 100.0)
tf.clip_by_global_norm([a, b], 1.0)[0][1]
tf.clip_by_global_norm([a, None, b], 50.0)[1]
tf.concat([a, b], axis=0)
tf.concat([a, b], axis=-1)
tf.cos(a)
tf.cosh(a)
tf.cumsum(x, axis=1)
tf.cumsum(x, axis=-1, exclusive=True)
tf.cumsum(x, axis=1, reverse=True)
tf.math.cumprod(b, axis=1)
tf.math.cumprod(b, axis=1, exclusive=True, reverse=True)
tf.divide(a, b)
tf.math.divide_no_nan(a, b)
tf.einsum("ij,jk->ik", a, w)
tf.einsum("ij,jk->ki", a, w)
tf.einsum("ij->", a)
tf.einsum("ij->j", a)
tf.einsum("ij->ji", a)
tf.einsum("ij,ij->ij", a, b)
tf.einsum("ij,ij->i", a, b)
tf.einsum("i,j->ij", v, v)
tf.einsum("ij,jk", a, w)
tf.einsum("bij,jk->bik", x, w)
tf.einsum("...j,jk->...k", x, w)
tf.einsum("bij,bkj->bik", x, x)
tf.einsum("bij,bij->b", x, x)
tf.einsum("bii->b", s)
tf.einsum("bii->bi", s)
tf.einsum("bij,bjk,bkl->bil", s, s, r)
tf.einsum("bij,j,i->b", x, v, tf.ones(3, x.dtype))
tf.ensure_shape(a, (None, 4))
tf.exp(a)
tf.expand_dims(a, 1)
tf.eye(2, 3)
tf.eye(2, batch_shape=[2])
tf.fill([2, 3], 1.5)
tf.gather(a, [2, 0])
tf.gather(a, [3, 0, 3], axis=1)
tf.gather(a, [[0, 1], [2, 2], [3, 0]], axis=1, batch_dims=1)
tf.gather(x, [[0, 1], [2, 2]], batch_dims=1)
tf.gather(x, [[0, 1], [2, 2]], axis=2, batch_dims=1)
tf.gather_nd(x, [[0, 1], [1, 2]])
tf.gather_nd(x, n)
tf.gather_nd(x, [[[1, 2]], [[0, 0]]], batch_dims=1)
tf.identity(a)
tf.linspace(0.0, 5.0, 4)
tf.linspace(a, b, 3, axis=1)
tf.linspace(a, b, 3, axis=-1)
tf.linspace(2.0, 5.0, 1)
tf.math.log(b)
tf.math.log1p(b)
tf.math.log_sigmoid(a)
tf.math.log_softmax(a)
tf.matmul(a, w)
tf.matmul(a, b, transpose_b=True)
tf.matmul(x, x, adjoint_b=True)
tf.matmul(x, w)
tf.math.erf(a)
tf.math.erfc(a)
tf.math.erfinv(c)
tf.math.expm1(a)
tf.math.lgamma(b)
tf.math.l2_normalize(a, axis=1)
tf.math.multiply_no_nan(a, b)
tf.math.polyval([1.0, 2.0, 3.0], a)
tf.math.reciprocal(b)
tf.math.reciprocal_no_nan(b)
tf.math.reduce_euclidean_norm(a, axis=1)
tf.math.reduce_std(a, axis=1)
tf.math.reduce_std(a, axis=1, keepdims=True)
tf.math.reduce_variance(a)
tf.math.rsqrt(b)
tf.math.segment_max(a, [0, 0, 1])
tf.math.segment_mean(a, [0, 0, 2])
tf.math.segment_min(a, [0, 0, 1])
tf.math.segment_sum(a, [0, 0, 2])
tf.math.softplus(a)
tf.math.softsign(a)
tf.math.squared_difference(a, v)
tf.math.top_k(a, 2).values
tf.math.unsorted_segment_max(a, k, 3)
tf.math.unsorted_segment_mean(a, k, 4)
tf.math.unsorted_segment_min(a, k, 3)
tf.math.unsorted_segment_sqrt_n(a, k, 3)
tf.math.unsorted_segment_sum(a, k, 3)
tf.math.unsorted_segment_sum(a, [2, -1, 0], 3)
tf.math.unsorted_segment_sum(v, [0, 1, 0, 5], 6)
tf.math.unsorted_segment_sum(a, [[0, 1, 1, 0]] * 3, 2)
tf.math.xdivy(a, b)
tf.math.xlog1py(a, b)
tf.math.xlogy(a, b)
tf.maximum(a, v)
tf.meshgrid(v, a[:, 0])[0]
tf.meshgrid(v, a[:, 0], indexing="ij")[1]
tf.minimum(a, 0.3)
tf.math.mod(a, 0.7)
tf.multiply(a, 2.0)
tf.negative(a)
tf.norm(a)
tf.norm(a, axis=1)
tf.norm(a, ord=1, axis=1)
tf.norm(a, ord=3, axis=0, keepdims=True)
tf.norm(a, ord=np.inf, axis=1)
tf.norm(x, axis=[1, 2])
tf.norm(x, ord=1, axis=[1, 2])
tf.norm(x, ord=np.inf, axis=[1, 2])
tf.linalg.normalize(a, axis=1)[0]
tf.one_hot([0, 2, -1], 3)
tf.one_hot([0, 2], 3, on_value=5.0, off_value=1.0, axis=0)
tf.one_hot([0, 2], 3, 5, 1)
tf.one_hot([0, 2], 3, dtype=tf.int32)
tf.ones_like(a)
tf.pad(a, [[1, 2], [0, 1]])
tf.pad(a, [[1, 2], [0, 1]], constant_values=3.5)
tf.pad(a, [[1, 2], [0, 3]], "REFLECT")
tf.pad(a, [[3, 2], [0, 1]], "SYMMETRIC")
tf.pow(b, 2.5)
tf.pow(b, a)
tf.realdiv(a, b)
tf.reduce_logsumexp(a)
tf.reduce_logsumexp(a, axis=0, keepdims=True)
tf.reduce_max(a, axis=1)
tf.reduce_mean(x, axis=[0, 2])
tf.reduce_mean(x, axis=-1, keepdims=True)
tf.reduce_min(a, axis=[1])
tf.reduce_prod(a, axis=1)
tf.reduce_prod(x, axis=[0, 2])
tf.reduce_sum(a)
tf.reduce_sum(a, axis=())
tf.repeat(a, 2, axis=0)
tf.repeat(a, [1, 0, 2], axis=0)
tf.repeat(a, 2)
tf.reshape(a, [-1])
tf.reshape(a, (2, -1, 2))
tf.reverse(x, axis=[0, -1])
tf.roll(a, 1, 0)
tf.roll(a, shift=[1, -2], axis=[0, 1])
tf.scalar_mul(2.0, a)
tf.scatter_nd([[0], [2], [0]], a, [4, 4])
tf.scatter_nd([[0, 1], [2, 3]], [1.0, 2.0], [3, 4])
tf.sigmoid(a)
tf.sign(a)
tf.sin(a)
tf.sinh(a)
tf.slice(a, [1, 0], [2, -1])
tf.sort(a)
tf.sort(a, axis=0, direction="DESCENDING")
tf.split(a, 2, axis=1)[1]
tf.split(a, [1, -1], axis=0)[1]
tf.sqrt(b)
tf.square(a)
tf.squeeze(a[None])
tf.squeeze(a[None, :, None], axis=[0])
tf.stack([a, b])
tf.stack([a, b], axis=-1)
tf.stop_gradient(a)
tf.strided_slice(a, [0, 1], [3, 4], [2, 1])
tf.subtract(1.0, a)
tf.tan(c)
tf.tanh(a)
tf.tensor_scatter_nd_add(a, [[0], [2], [0]], b)
tf.tensor_scatter_nd_max(a, [[0], [2]], b[:2])
tf.tensor_scatter_nd_min(a, [[0], [2]], b[:2])
tf.tensor_scatter_nd_sub(a, [[0], [2], [0]], b)
tf.tensor_scatter_nd_update(a, [[0], [2]], b[:2])
tf.tensor_scatter_nd_update(v, [[1], [3]], [9.0, 8.0])
tf.tensordot(a, w, 1)
tf.tensordot(a, b, [[0], [0]])
tf.tensordot(x, a, [[1, 2], [0, 1]])
tf.tensordot(x, a, axes=([2, 1], [1, 0]))
tf.tensordot(v, v, 0)
tf.tile(a, [2, 3])
tf.tile(x, [1, 2, 1])
tf.transpose(a)
tf.transpose(x, [1, 2, 0])
tf.truediv(a, b)
tf.unstack(a)[1]
tf.unstack(a, axis=1)[2]
tf.where(t, a, b)
tf.where(t, a, 0.0)
tf.where([[True], [False], [True]], v, 1.0)
tf.zeros_like(a)
tf.nn.batch_normalization(a, v, b[0], c[0], v, 1e-3)
tf.nn.batch_normalization(a, v, b[0], None, None, 1e-3)
tf.nn.bias_add(a, v)
tf.nn.crelu(a)
tf.nn.depth_to_space(g[..., :1] * tf.ones(4, g.dtype), 2)
tf.nn.elu(a)
tf.nn.embedding_lookup(a, [[2, 0], [1, 1]])
tf.nn.embedding_lookup(a, [2, 0], max_norm=1.0)
tf.nn.gelu(a)
tf.nn.gelu(a, approximate=True)
tf.nn.l2_loss(a)
tf.nn.leaky_relu(a)
tf.nn.leaky_relu(a, alpha=0.1)
tf.nn.log_softmax(a, axis=0)
tf.nn.log_poisson_loss(b, a)
tf.nn.log_poisson_loss(b + 1.0, a, compute_full_loss=True)
tf.nn.moments(a, [0])[0]
tf.nn.moments(a, [0], keepdims=True)[1]
tf.nn.moments(x, [0, 2])[1]
tf.nn.relu(a)
tf.nn.relu6(a * 4.0)
tf.nn.selu(a)
tf.nn.sigmoid_cross_entropy_with_logits(labels=b, logits=a)
tf.nn.silu(a)
tf.nn.softmax(a)
tf.nn.softmax(x, axis=1)
tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(b), logits=a)
tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(b, 0), logits=a, axis=0)
tf.nn.space_to_depth(g, 2)
tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 3, 1], logits=a)
tf.nn.swish(a)
tf.nn.weighted_cross_entropy_with_logits(labels=b, logits=a, pos_weight=2.0)
tf.nn.weighted_moments(a, [1], b)[1]
tf.linalg.adjoint(x)
tf.linalg.band_part(s, 1, 0)
tf.linalg.band_part(s, 0, -1)
tf.linalg.band_part(a, -1, 1)
tf.linalg.cholesky(p)
tf.linalg.cholesky_solve(tf.linalg.cholesky(p), r)
tf.linalg.cross(s[0], s[1])
tf.linalg.det(s)
tf.linalg.diag(a)
tf.linalg.diag(v, k=1)
tf.linalg.diag_part(s)
tf.linalg.diag_part(a)
tf.linalg.diag_part(a, k=1)
tf.linalg.diag_part(a, k=-1)
tf.linalg.global_norm([a, b])
tf.linalg.inv(s)
tf.linalg.logdet(p)
tf.linalg.matvec(a, v)
tf.linalg.matrix_transpose(x)
tf.linalg.set_diag(s, r[..., 0])
tf.linalg.set_diag(a, a[:, 0])
tf.linalg.slogdet(s)[1]
tf.linalg.solve(s, r)
tf.linalg.solve(s, r, adjoint=True)
tf.linalg.trace(s)
tf.linalg.triangular_solve(s, r)
tf.linalg.triangular_solve(s, r, lower=False)
tf.linalg.triangular_solve(s, r, adjoint=True)
tf.image.adjust_brightness(g, 0.1)
tf.image.adjust_contrast(g, 1.5)
tf.image.adjust_gamma(g, 2.0, 0.5)
tf.image.central_crop(g, 0.5)
tf.image.crop_to_bounding_box(g, 1, 2, 2, 3)
tf.image.flip_left_right(g)
tf.image.flip_up_down(g)
tf.image.pad_to_bounding_box(g, 1, 2, 7, 9)
tf.image.per_image_standardization(g)
tf.image.resize(g, (8, 9))
tf.image.resize(g, (3, 2))
tf.image.resize(g, (8, 9), method="nearest")
tf.image.resize(g, (3, 4), method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)
tf.image.resize(g, (8, 8), preserve_aspect_ratio=True)
tf.image.resize_with_crop_or_pad(g, 3, 9)
tf.image.resize_with_crop_or_pad(g, 7, 4)
tf.image.rgb_to_grayscale(g)
tf.image.rot90(g)
tf.image.rot90(g, 3)
tf.image.total_variation(g)
tf.raw_ops.ReluGrad(gradients=b, features=a)
tf.raw_ops.TanhGrad(y=a, dy=b)
tf.image.rgb_to_hsv(g)
tf.image.rgb_to_yiq(g)
tf.image.yiq_to_rgb(g)
tf.image.rgb_to_yuv(g)
tf.image.yuv_to_rgb(g)
tf.image.adjust_hue(g, 0.2)
tf.image.adjust_hue(g - 0.5, -0.7)
tf.image.adjust_saturation(g, 0.7)
tf.image.adjust_saturation(g, 3.0)
tf.image.psnr(g, 0.5 * g, 1.0)
tf.image.ssim(g, g * g, 1.0, filter_size=3)
tf.image.ssim(g[:1], g * g, 1.0, filter_size=4, filter_sigma=0.8)
tf.image.ssim(g, g * g, 1.0, filter_size=3, return_index_map=True)
tf.image.ssim_multiscale(h, h * h, 1.0, (0.3, 0.7), 3)
tf.image.sobel_edges(g)
tf.image.image_gradients(g)[0]
tf.image.image_gradients(g)[1]
tf.image.extract_patches(g, [1, 2, 3, 1], [1, 1, 2, 1], [1, 1, 1, 1], "VALID")
tf.image.extract_patches(g, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], "SAME")
tf.image.crop_and_resize(g, [[0.9, 0.8, 0.2, 0.1]] * 2, [1, 0], (3, 4))
tf.image.crop_and_resize(g, [[-0.3, 0.2, 1.3, 0.7]], [1], (5, 1), "bilinear", 0.5)
tf.image.crop_and_resize(g, [[0.1, 0.2, 0.8, 0.7]], [1], (3, 4), "nearest")
tf.image.resize_with_pad(g, 5, 5)
tf.image.resize_with_pad(g[0], 3, 9, "bicubic")
tf.linalg.eigvalsh(p)
tf.linalg.eigh(p)[0]
tf.abs(tf.linalg.eigh(p)[1])
tf.linalg.svd(x, compute_uv=False)
tf.linalg.svd(s)[0]
tf.abs(tf.linalg.svd(s)[1])
tf.abs(tf.linalg.svd(x)[1])
tf.abs(tf.linalg.svd(x)[2])
tf.abs(tf.linalg.svd(r)[1])
tf.abs(tf.linalg.svd(r)[2])
tf.linalg.qr(r)[0]
tf.linalg.qr(r)[1]
tf.linalg.qr(x)[0]
tf.linalg.qr(x)[1]
tf.linalg.qr(s)[0]
tf.linalg.qr(s)[1]
tf.linalg.pinv(x)
tf.linalg.pinv(r)
tf.linalg.pinv(s)
tf.linalg.lstsq(r, x)
tf.linalg.lstsq(x, r)
tf.linalg.lstsq(s, r)
tf.linalg.lstsq(r, x, 0.5)
tf.linalg.lstsq(x, r, 0.3)
tf.linalg.expm(s)
tf.linalg.expm(s * 0.1)
tf.linalg.expm(s * -2.0)
tf.linalg.expm(tf.zeros([2, 2]))
tf.norm(x, ord=2, axis=[-2, -1])
tf.norm(x, ord=2, axis=[0, 2], keepdims=True)
tf.math.cumulative_logsumexp(a)
tf.math.cumulative_logsumexp(x, axis=1, exclusive=True)[:, 1:]
tf.math.cumulative_logsumexp(x, axis=-1, reverse=True)
tf.math.lbeta(b)
tf.math.erfcinv(b * 0.9)
tf.math.ndtri(g)
tf.math.bessel_i0(a)
tf.math.bessel_i0e(a * 20.0)
tf.math.bessel_i1(a)
tf.math.bessel_i1e(a * 20.0)
tf.math.igamma(b, b[::-1])
tf.math.igamma(b * 5.0, b[::-1] * 5.0)
tf.math.igammac(b * 5.0, b[::-1] * 5.0)
tf.math.zeta(b + 1.0, b[::-1])
tf.math.polygamma(2.0, b)
tf.nn.sufficient_statistics(x, [0, 2])[1]
tf.nn.sufficient_statistics(x, [0, 2], shift=0.5)[2]
tf.nn.batch_norm_with_global_normalization(a, v, b[0], v, b[1], 0.1, True)
tf.nn.dilation2d(g, tf.reshape(x[0], [2, 2, 3]), [1, 1, 2, 1], "VALID", "NHWC", [1] * 4)
tf.nn.dilation2d(g, tf.reshape(x[1], [2, 2, 3]), [1] * 4, "SAME", "NHWC", [1, 2, 1, 1])
tf.nn.erosion2d(g, tf.reshape(x[0], [2, 2, 3]), [1] * 4, "SAME", "NHWC", [1] * 4)
tf.reverse_sequence(x, [1, 3], seq_axis=1, batch_axis=0)
tf.reverse_sequence(x, [4, 2, 0], seq_axis=2, batch_axis=1)
tf.dynamic_stitch([[0, 2], [1, 0]], [v[:2], v[2:]])
tf.math.accumulate_n([a, b, c])
"""

# integers, bools, empty tensors, infinities; and what has no gradient
OTHERS = """
tf.math.digamma(b)
tf.math.segment_prod(a, [0, 0, 1])
tf.abs(i)
tf.argmax(a, 1)
tf.argmax(a)
tf.argmax(i, axis=-1, output_type=tf.int32)
tf.argmin(a, 1)
tf.argsort(a)
tf.argsort(i, axis=0, direction="DESCENDING")
tf.bitcast(tf.constant([1.0, -2.5]), tf.int32)
tf.bitcast(tf.constant([[1, 2, 3, 4]], tf.uint8), tf.int32)
tf.bitwise.bitwise_and(i, 5)
tf.bitwise.bitwise_or(i, j)
tf.bitwise.bitwise_xor(i, j)
tf.bitwise.invert(i)
tf.bitwise.left_shift(i, j)
tf.bitwise.right_shift(i, j)
tf.cast(a, tf.int32)
tf.cast(i, tf.bool)
tf.cast(t, tf.float32)
tf.cast([300, -1], tf.uint8)
tf.math.bincount([1, 1, 3])
tf.math.bincount([1, 1, 3], minlength=6)
tf.math.bincount([1, 1, 3], maxlength=2)
tf.math.bincount([1, 1, 3], weights=[0.5, 1.0, 2.0])
tf.math.ceil(q)
tf.floor(q)
tf.round([0.5, 1.5, 2.5, -0.5, -1.5, 2.4])
tf.math.rint([0.5, 1.5, 2.5, -0.5])
tf.round(i)
tf.math.confusion_matrix([0, 1, 1], [0, 0, 2])
tf.math.confusion_matrix([0, 1], [0, 1], num_classes=4, weights=[2, 3])
tf.math.count_nonzero(i)
tf.math.count_nonzero(i, axis=1, keepdims=True)
tf.math.cumsum(i, axis=1)
tf.math.floordiv(i, j)
tf.math.floormod(i, j)
tf.math.floordiv(a, 0.7)
i // j
i % j
-i
i * j - 3
a // 0.7
tf.divide(i, j)
i / j
tf.truncatediv(i, j)
tf.truncatemod(i, j)
tf.math.in_top_k([0, 3, 1], a, 2)
tf.math.invert_permutation([2, 0, 1])
tf.math.is_finite(q)
tf.math.is_inf(q)
tf.math.is_nan(q)
tf.math.is_non_decreasing([1, 1, 2])
tf.math.is_strictly_increasing([1, 1, 2])
tf.math.sign(q)
tf.math.sign(i)
tf.math.top_k(a, 2).indices
tf.math.top_k(i, 3).values
tf.math.unsorted_segment_max(a, k, 4)
tf.math.unsorted_segment_min(i, k, 4)
tf.math.unsorted_segment_prod(a, k, 4)
tf.math.zero_fraction([0.0, 1.0, 0.0])
tf.math.divide_no_nan(q, [0.0, 1.0, 2.0, 0.0])
tf.math.multiply_no_nan(q, [0.0, 1.0, 2.0, 0.0])
tf.math.xlogy([0.0, 0.0, 2.0], [0.0, -1.0, 3.0])
tf.maximum(q, 1.0)
tf.minimum(q, 1.0)
tf.nn.elu(q)
tf.nn.selu(q)
tf.nn.relu(q)
tf.nn.relu6(q)
tf.nn.softplus(q)
tf.nn.softsign(q)
tf.sigmoid(q)
tf.tanh(q)
tf.exp(q)
tf.math.log(q)
tf.math.log1p(q)
tf.math.expm1(q)
tf.sqrt(q)
tf.math.rsqrt(q)
tf.square(q)
tf.sin(q)
tf.math.erf(q)
tf.math.lgamma(q)
tf.reduce_logsumexp(q[0])
tf.reduce_logsumexp([-np.inf, -np.inf])
tf.reduce_logsumexp([1000.0, 1001.0])
tf.nn.softmax([1000.0, 0.0])
tf.range(5)
tf.range(1, 6, 2)
tf.range(5.0)
tf.range(0, 1, 0.25)
tf.range(5, 0, -2)
tf.range(3, dtype=tf.float32)
tf.range(tf.constant(3))
tf.rank(x)
tf.reduce_all(t)
tf.reduce_all(t, axis=0)
tf.reduce_any(t, axis=1, keepdims=True)
tf.reduce_max(i, axis=1)
tf.reduce_mean(i, axis=1)
tf.reduce_mean([1, 0, 1])
tf.reduce_mean([-1, 0, 0, -2])
tf.reduce_prod(i, axis=0)
tf.reduce_sum(i)
tf.reduce_sum(e)
tf.reduce_sum(e, axis=0)
tf.reduce_prod(e, axis=0)
tf.reduce_mean(e)
tf.concat([e, a], 0)
tf.stack([e, e])
tf.matmul(e, w)
tf.cumsum(e)
tf.nn.softmax(e)
tf.sort(e)
tf.where(t)
tf.where([[False, True]])
tf.saturate_cast([300.0, -5.0, 7.7], tf.uint8)
tf.saturate_cast(i, tf.uint8)
tf.searchsorted([1.0, 3.0, 5.0], [3.0, 4.0, 9.0, -1.0])
tf.searchsorted([1, 3, 3, 5], [3], side="right")
tf.searchsorted(tf.sort(a), tf.sort(b))
tf.sequence_mask([1, 3, 2])
tf.sequence_mask([[1], [3]], 4, dtype=tf.float32)
tf.shape(x)
tf.shape_n([x, a])[1]
tf.size(x)
tf.size(x).dtype.name
tf.sort(i, axis=0)
tf.sort([3.0, 1.0, 2.0], direction="DESCENDING")
tf.unique([5, 7, 5, 1]).y
tf.unique([5, 7, 5, 1]).idx
tf.unique_with_counts([5, 7, 5, 1]).count
tf.zeros([2, 0])
tf.ones([2], tf.bool)
tf.zeros([2], tf.bool)
tf.fill([2], True)
tf.constant(7, shape=(2, 2))
tf.constant([1, 2, 3, 4], shape=(2, 2))
tf.constant(1.5, tf.float16)
tf.eye(3, dtype=tf.int32)
tf.less(a, b)
tf.greater_equal(i, j)
tf.equal(i, 2)
tf.not_equal(t, True)
tf.logical_and(t, [True, False, True, False])
tf.math.logical_xor(t, [True, False, True, False])
tf.logical_not(t)
tf.linalg.eye(2)
tf.linalg.slogdet(s)[0]
tf.transpose(i)
tf.tile(i, [1, 2])
tf.one_hot([[0], [2]], 3, axis=1)
tf.one_hot([0, 2], 3, True, False)
tf.image.convert_image_dtype(u, tf.float32)
tf.image.convert_image_dtype(tf.image.convert_image_dtype(u, tf.float32), tf.uint8)
tf.image.adjust_brightness(u, 0.1)
tf.image.adjust_contrast(u, 2.0)
tf.image.rgb_to_grayscale(u)
tf.image.per_image_standardization(u)
tf.image.resize(u, (2, 3))
tf.image.resize(u, (8, 12), "nearest")
tf.image.grayscale_to_rgb(u[..., :1])
tf.image.flip_left_right(u)
tf.pad(t, [[1, 0], [0, 1]])
tf.pad(i, [[1, 0], [0, 1]], constant_values=-1)
tf.gather(i, [1])
tf.tensor_scatter_nd_update(i, [[0, 0]], [100])
tf.math.segment_max(i, [0, 2, 2])
tf.meshgrid([1, 2], [3, 4, 5], [6, 7])[0]
a[1:, ::2]
a[..., tf.newaxis].shape
a == a
tf.image.hsv_to_rgb(g)
tf.image.adjust_hue(u, 0.2)
tf.image.adjust_saturation(u, 0.5)
tf.image.random_hue(u, 0.2).shape[1]
tf.image.extract_patches(u[None], [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
tf.image.crop_and_resize(u[None], [[0.0, 0.0, 1.0, 0.5]], [0], (2, 2))
tf.image.rgb_to_hsv([[0.0] * 3, [0.5] * 3, [1.0, 0.0, 1.0], [0.0, 0.25, 1.0]])
tf.image.hsv_to_rgb([[[0.0, 1.0, 1.0], [1.0, 0.5, 0.5], [0.3, 0.0, 0.2]]])
tf.image.ssim_multiscale(h[:, :15, :11], h[:, 1:, 1:], 1.0, (0.3, 0.2, 0.5), 3)
tf.image.psnr(u, u[::-1], 255)
tf.image.ssim(u, u[::-1], 255, 3)
tf.image.draw_bounding_boxes(g, z[:, :, 0] + 0.2, [[1.0, 0.5, 0.0]])
tf.image.draw_bounding_boxes(g[..., :1], [[[0.1, 0.2, 0.8, 0.7]]] * 2, None)
tf.image.draw_bounding_boxes(g, [[[0.1, 0.2, 0.8, 0.7]] * 12] * 2, None)
tf.image.combined_non_max_suppression(z, y, 2, 4, 0.3)[0]
tf.image.combined_non_max_suppression(z, y, 2, 4, 0.3)[1]
tf.image.combined_non_max_suppression(z, y, 2, 4, 0.3)[2]
tf.image.combined_non_max_suppression(z, y, 2, 4, 0.3, 1.0)[3]
tf.image.combined_non_max_suppression(z, y, 1, 9, 0.3, 0.5, True, False)[0]
tf.linalg.lu(s)[0]
tf.linalg.lu_solve(*tf.linalg.lu(s), r)
tf.linalg.lu_reconstruct(*tf.linalg.lu(s))
tf.linalg.lu_matrix_inverse(*tf.linalg.lu(s))
tf.linalg.lu(s)[1]
tf.linalg.matrix_rank(s)
tf.linalg.matrix_rank(tf.matmul(r, r, transpose_b=True))
tf.linalg.matrix_rank(x, tol=1.0)
tf.abs(tf.linalg.svd(x, full_matrices=True)[2])
tf.abs(tf.linalg.svd(r, full_matrices=True)[1])
tf.linalg.qr(r, full_matrices=True)[0]
tf.linalg.qr(r, full_matrices=True)[1]
tf.linalg.pinv(tf.matmul(r, r, transpose_b=True))
tf.linalg.lstsq(r, x, fast=False)
tf.linalg.eigvalsh(s)
tf.histogram_fixed_width(a, [-1.0, 1.0], 4)
tf.histogram_fixed_width_bins(a, [-1.0, 1.0], 4)
tf.unravel_index([7, 22], [3, 4, 5])
tf.broadcast_dynamic_shape([2, 1], [3])
tf.dynamic_partition([1, 2, 3, 4], [0, 1, 0, 1], 2)[1]
tf.math.zeta([1.0, 2.0, 3.5, 0.5], [2.0, 0.0, -1.5, 2.0])
tf.math.polygamma([0.0, 1.0, 3.0, 1.5], [2.0, -0.5, 30.0, 2.0])
tf.math.igamma([0.5, 10.0, 10.0, -1.0, 2.0], [0.0, 3.0, 30.0, 1.0, float("inf")])
tf.math.igammac([0.5, 10.0, 10.0, -1.0, 2.0], [0.0, 3.0, 30.0, 1.0, float("inf")])
tf.math.ndtri([0.0, 1.0, 1e-30, 0.5, 2.0])
tf.math.bessel_i0e([0.0, 29.9, 30.1, 1e4, -7.0])
tf.math.bessel_i1e([0.0, 29.9, 30.1, 1e4, -7.0])
tf.math.cumulative_logsumexp(a, exclusive=True)
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def inputs(tf: Any, wide: bool = False) -> dict[str, Any]:
    """The inputs as tensors; floats as float32, or as float64."""
    out = {}
    for name, value in INPUTS.items():
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64 if wide else np.float32)
        elif array.dtype.kind == "i":
            array = array.astype(np.int32)
        out[name] = tf.constant(array)
    return out


def evaluate(tf: Any, text: str, values: dict[str, Any]) -> Any:
    return eval(text, {"tf": tf, "np": np}, values)


def names_in(text: str) -> list[str]:
    """The float inputs that a call names."""
    import re

    return [n for n in FLOATS if re.search(rf"(?<![\w.\"']){n}(?![\w\"'=])", text)]


def plain(value: Any) -> Any:
    """A result as JSON holds it: dtype, shape, numbers; special ones as text."""
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        items = [float(f"{float(v):.7g}") if np.isfinite(v) else str(v) for v in flat]
    else:
        items = flat.tolist()
    return [array.dtype.name, list(array.shape), items]


if __name__ == "__main__":
    import json
    from pathlib import Path

    import tensorflow

    found = {}
    for line in lines(SMOOTH) + lines(OTHERS):
        given = inputs(tensorflow)
        try:
            found[line] = {"value": plain(evaluate(tensorflow, line, given))}
        except Exception as error:
            print(f"{line}: {str(error)[:150]}")
            continue
        if line in lines(SMOOTH):
            names = names_in(line)
            with tensorflow.GradientTape() as tape:
                tape.watch([given[n] for n in names])
                result = evaluate(tensorflow, line, given)
            try:
                slopes = tape.gradient(result, [given[n] for n in names])
            except (LookupError, ValueError, tensorflow.errors.OpError):
                continue
            found[line]["gradients"] = {
                n: None if g is None else plain(tensorflow.convert_to_tensor(g))
                for n, g in zip(names, slopes, strict=True)
            }
    target = Path(__file__).with_name("calls.json")
    rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()]
    target.write_text("{\n" + ",\n".join(rows) + "\n}\n")
