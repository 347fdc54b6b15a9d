/* SPDX-License-Identifier: MIT
 *
 * Pooling of one row of windows, at one of their elements: loops over columns,
 * and over the channels of each, which lie side by side. No state, any thread. */
#include "kernels/pool/pool_impl.h"

#define COLUMNS_NAME(loop) loop##_generic
#define COLUMNS_TARGET
#include "kernels/pool/pool_column_loops.h"

#define COLUMNS_NAME(loop) loop##_avx2
#define COLUMNS_TARGET IPU_TARGET_AVX2
#include "kernels/pool/pool_column_loops.h"

const ipu__pool_columns *
ipu__pool_columns_of(ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? &columns_avx2 : &columns_generic;
}
