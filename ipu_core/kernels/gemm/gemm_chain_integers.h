/* SPDX-License-Identifier: MIT
 *
 * Tiles and dot products of integers of one class of processor, for gemm_chain.c, which
 * defines CLASS (a word for names), CLASS_TARGET and VECTOR_BYTES. An element becomes a
 * lane when it is read: there are no products of bytes, and those of signed elements
 * would overflow. */
#define TARGET CLASS_TARGET
#define JOINED(name, type, class) name##_##type##_##class
#define FORM_OF(name, type, class) JOINED(name, type, class)
#define element uint8_t
#define lane uint16_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#define element uint16_t
#define lane uint16_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#define element uint32_t
#define lane uint32_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#define element uint64_t
#define lane uint64_t
#include "kernels/gemm/gemm_chain_integer_body.h"
#undef TARGET
#undef JOINED
#undef FORM_OF
#undef CLASS
#undef CLASS_TARGET
#undef VECTOR_BYTES
