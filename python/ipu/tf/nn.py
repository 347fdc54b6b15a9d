# SPDX-License-Identifier: MIT
"""``tf.nn``: activations, losses, convolutions, normalisation, dropout, embeddings."""

from ipu._text.exports import export, offered
from ipu.tf._images.morphology import dilation2d as dilation2d, erosion2d as erosion2d
from ipu.tf._ops.activations import (
    crelu as crelu,
    elu as elu,
    gelu as gelu,
    hard_sigmoid as hard_sigmoid,
    leaky_relu as leaky_relu,
    relu6 as relu6,
    selu as selu,
    silu as silu,
    softsign as softsign,
    swish as swish,
)
from ipu.tf._ops.convolutions import (
    atrous_conv2d as atrous_conv2d,
    atrous_conv2d_transpose as atrous_conv2d_transpose,
    bias_add as bias_add,
    conv1d as conv1d,
    conv1d_transpose as conv1d_transpose,
    conv2d as conv2d,
    conv2d_transpose as conv2d_transpose,
    conv3d as conv3d,
    conv3d_transpose as conv3d_transpose,
    conv_transpose as conv_transpose,
    convolution as convolution,
    depthwise_conv2d as depthwise_conv2d,
    separable_conv2d as separable_conv2d,
)
from ipu.tf._ops.ctc import (
    ctc_beam_search_decoder as ctc_beam_search_decoder,
    ctc_greedy_decoder as ctc_greedy_decoder,
    ctc_loss as ctc_loss,
)
from ipu.tf._ops.elementwise import (
    relu as relu,
    sigmoid as sigmoid,
    softplus as softplus,
    tanh as tanh,
)
from ipu.tf._ops.embeddings import embedding_lookup as embedding_lookup
from ipu.tf._ops.nn_losses import (
    compute_average_loss as compute_average_loss,
    l2_loss as l2_loss,
    log_poisson_loss as log_poisson_loss,
    log_softmax as log_softmax,
    scale_regularization_loss as scale_regularization_loss,
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
    softmax as softmax,
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,  # noqa: E501
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from ipu.tf._ops.normalizations import (
    batch_norm_with_global_normalization as batch_norm_with_global_normalization,
    batch_normalization as batch_normalization,
    fused_batch_norm as fused_batch_norm,
    l2_normalize as l2_normalize,
    moments as moments,
    normalize_moments as normalize_moments,
    sufficient_statistics as sufficient_statistics,
    weighted_moments as weighted_moments,
)
from ipu.tf._ops.pooling import (
    avg_pool as avg_pool,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    max_pool as max_pool,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    max_pool_with_argmax as max_pool_with_argmax,
    pool as pool,
)
from ipu.tf._ops.reductions import zero_fraction as zero_fraction
from ipu.tf._ops.selection import in_top_k as in_top_k, top_k as top_k
from ipu.tf._ops.space import (
    depth_to_space as depth_to_space,
    local_response_normalization as local_response_normalization,
    lrn as lrn,
    space_to_batch as space_to_batch,
    space_to_depth as space_to_depth,
)
from ipu.tf._random.ops import dropout as dropout

export(__name__, offered(__name__))
