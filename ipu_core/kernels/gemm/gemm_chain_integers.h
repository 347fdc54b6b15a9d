/* SPDX-License-Identifier: MIT
 *
 * Tiles and dot products of integers of one class of processor, for gemm_chain.c, which
 * defines CLASS (a word for names), CLASS_TARGET and VECTOR_BYTES. All are unsigned,
 * since sums of signed ones would overflow. */
#define TARGET CLASS_TARGET
#include "kernels/gemm/gemm_chain_bytes_body.h"
#define element uint16_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#define element uint32_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#define element uint64_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#undef TARGET
#undef CLASS
#undef CLASS_TARGET
#undef VECTOR_BYTES
