/* SPDX-License-Identifier: MIT
 *
 * A matrix from rows to panels (kernel.h) and back. Bytes are moved, never changed. Any
 * thread. */
#include "kernels/core/kernel_impl.h"

void
ipu_panels_pack(float *panels, const float *rows, int64_t row_count, int64_t columns,
                int64_t panel_columns)
{
    size_t bytes = (size_t)panel_columns * sizeof(float);
    for (int64_t i = 0; i < row_count; i++) {
        for (int64_t j = 0; j < columns; j += panel_columns) {
            memcpy(panels + j * row_count + i * panel_columns, rows + i * columns + j,
                   bytes);
        }
    }
}

void
ipu_panels_unpack(float *rows, const float *panels, int64_t row_count, int64_t columns,
                  int64_t panel_columns)
{
    size_t bytes = (size_t)panel_columns * sizeof(float);
    for (int64_t i = 0; i < row_count; i++) {
        for (int64_t j = 0; j < columns; j += panel_columns) {
            memcpy(rows + i * columns + j, panels + j * row_count + i * panel_columns,
                   bytes);
        }
    }
}
