/* SPDX-License-Identifier: MIT
 *
 * Entries of this room's two columns that are not functions of their own. prepare.c alone
 * includes it, when it expands the columns; what is not here is ipu_reference_<op> and
 * ipu_choose_<op>.
 *
 * Several ops may share a function, which asks the spec for the op. Where `choose` serves
 * every type and shape there is no reference kernel, and where the reference kernel is
 * the only one nothing is chosen. */

/* --- shared ------------------------------------------------------------------------- */

#define ipu_reference_all_to_all ipu_reference_all_gather
#define ipu_reference_average_pool_grad ipu_reference_max_pool_grad
#define ipu_reference_fused_matmul ipu_reference_matmul
#define ipu_reference_log_softmax ipu_reference_softmax
#define ipu_reference_random_normal ipu_reference_random_uniform
#define ipu_reference_reduce_scatter ipu_reference_all_gather
#define ipu_reference_slogdet ipu_reference_det
#define ipu_reference_truncated_normal ipu_reference_random_uniform

#define ipu_choose_all ipu_choose_sum
#define ipu_choose_any ipu_choose_sum
#define ipu_choose_argmin ipu_choose_argmax
#define ipu_choose_attention_grad ipu_choose_attention
#define ipu_choose_average_pool ipu_choose_max_pool
#define ipu_choose_average_pool_grad ipu_choose_max_pool
#define ipu_choose_conv_grad_filter ipu_choose_conv
#define ipu_choose_conv_grad_input ipu_choose_conv
#define ipu_choose_cross_entropy ipu_choose_softmax
#define ipu_choose_cumprod ipu_choose_cumsum
#define ipu_choose_dynamic_add_slice ipu_choose_dynamic_slice
#define ipu_choose_dynamic_update_slice ipu_choose_dynamic_slice
#define ipu_choose_fused_conv ipu_choose_conv
#define ipu_choose_fused_conv_grad_input ipu_choose_conv
#define ipu_choose_fused_matmul ipu_choose_matmul
#define ipu_choose_gather_grad ipu_choose_scatter_nd
#define ipu_choose_gather_nd ipu_choose_gather
#define ipu_choose_gru_grad ipu_choose_gru
#define ipu_choose_lstm_grad ipu_choose_lstm
#define ipu_choose_log_softmax ipu_choose_softmax
#define ipu_choose_max ipu_choose_sum
#define ipu_choose_max_pool_grad ipu_choose_max_pool
#define ipu_choose_max_pool_pick ipu_choose_max_pool
#define ipu_choose_mean ipu_choose_sum
#define ipu_choose_min ipu_choose_sum
#define ipu_choose_normalize_grad ipu_choose_normalize
#define ipu_choose_prod ipu_choose_sum
#define ipu_choose_reduce_scatter ipu_choose_all_reduce
#define ipu_choose_recurrence ipu_choose_cumsum
#define ipu_choose_slice_grad ipu_choose_slice
#define ipu_choose_sparse_cross_entropy ipu_choose_softmax
#define ipu_choose_tensor_scatter ipu_choose_scatter_nd

/* --- nothing to choose -------------------------------------------------------------- */

#define ipu_choose_adam_rate NULL
#define ipu_choose_adam_update NULL /* the fuse pass makes a fused_update of it */
#define ipu_choose_all_gather NULL
#define ipu_choose_all_to_all NULL
#define ipu_choose_cholesky NULL
#define ipu_choose_det NULL
#define ipu_choose_eigh NULL
#define ipu_choose_lu NULL
#define ipu_choose_qr NULL
#define ipu_choose_random_binomial NULL
#define ipu_choose_random_gamma NULL
#define ipu_choose_random_poisson NULL
#define ipu_choose_replica_index NULL
#define ipu_choose_slogdet NULL
#define ipu_choose_solve NULL
#define ipu_choose_svd NULL
#define ipu_choose_triangular_solve NULL

/* --- no reference kernel ------------------------------------------------------------ */

#define ipu_reference_all NULL
#define ipu_reference_any NULL
#define ipu_reference_argmax NULL
#define ipu_reference_argmin NULL
#define ipu_reference_broadcast NULL
#define ipu_reference_concat NULL
#define ipu_reference_conv NULL
#define ipu_reference_conv_grad_filter NULL
#define ipu_reference_conv_grad_input NULL
#define ipu_reference_cumprod NULL
#define ipu_reference_cumsum NULL
#define ipu_reference_dynamic_add_slice NULL
#define ipu_reference_dynamic_slice NULL
#define ipu_reference_dynamic_update_slice NULL
#define ipu_reference_fused_conv NULL
#define ipu_reference_fused_conv_grad_input NULL
#define ipu_reference_fused_update NULL
#define ipu_reference_gather NULL
#define ipu_reference_gather_grad NULL
#define ipu_reference_gather_nd NULL
#define ipu_reference_gather_sgd_update NULL
#define ipu_reference_matmul_accumulate NULL
#define ipu_reference_matmul_sgd_update NULL
#define ipu_reference_max NULL
#define ipu_reference_mean NULL
#define ipu_reference_min NULL
#define ipu_reference_one_hot NULL
#define ipu_reference_prod NULL
#define ipu_reference_scatter_nd NULL
#define ipu_reference_slice NULL
#define ipu_reference_slice_grad NULL
#define ipu_reference_sum NULL
#define ipu_reference_tensor_scatter NULL
#define ipu_reference_top_k NULL
#define ipu_reference_transpose NULL
