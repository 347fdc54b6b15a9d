/* SPDX-License-Identifier: MIT
 *
 * The gradient of a gather of rows without its zeros. Indices are sorted, so that those
 * of one row stand together, in the order in which they came; a row's gradient is their
 * sum, as gather_grad adds it. Any thread. */
#include <string.h>

#include "kernels/core/row_groups_impl.h"
#include "kernels/core/sum_tree.h"

bool
ipu__row_groups_fit(const ipu__gather *rows)
{
    return rows->size <= UINT32_MAX && rows->count < UINT32_MAX;
}

size_t
ipu__row_groups_bytes(const ipu__gather *rows)
{
    return (size_t)rows->count * 2 * sizeof(ipu__numbered) +
           ((size_t)rows->count + 1) * sizeof(uint32_t);
}

ipu__row_groups
ipu__row_groups_make(const ipu__gather *rows, const void *indices, void *room)
{
    int64_t count = rows->count;
    ipu__numbered *numbered = room;
    uint32_t *first = (uint32_t *)(void *)(numbered + 2 * count);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ipu__integer_load(rows->dtype, indices, i);
        numbered[i] = (ipu__numbered){(uint32_t)row, (uint32_t)i};
    }
    ipu__row_groups groups = {
        .sorted = ipu__sort_numbered(numbered, numbered + count, count),
        .first = first,
    };
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || groups.sorted[i].key != groups.sorted[i - 1].key) {
            first[groups.count++] = (uint32_t)i;
        }
    }
    first[groups.count] = (uint32_t)count;
    return groups;
}

int64_t
ipu__row_group_from(const ipu__row_groups *groups, int64_t row)
{
    int64_t low = 0;
    int64_t high = groups->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (ipu__row_of_group(groups, middle) < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void
ipu__row_group_add(const ipu__row_groups *groups, int64_t group, const void *updates,
                   bool half, int64_t inner, int64_t column, int64_t n,
                   ipu_cpu_class cpu, float *sums)
{
    const ipu__vector_f32 *vector = ipu__vector_f32_of(cpu);
    const uint32_t first = groups->first[group];
    const uint32_t end = groups->first[group + 1];
    const bool is_long = end - first > IPU_SUM_BLOCK;
    float totals[IPU_SUM_LEVELS * IPU_ROW_STRIP];
    float wide[IPU_ROW_STRIP];
    if (is_long) {
        memset(totals, 0, (size_t)(IPU_SUM_LEVELS * n) * sizeof *totals);
    }
    for (uint32_t i = first; i < end; i++) {
        ipu__sum_before(i - first, sums, totals, n, n);
        int64_t at = groups->sorted[i].place * inner + column;
        if (half) {
            ipu__halves_to_floats(wide, (const uint16_t *)updates + at, n, cpu);
            vector->add(sums, sums, wide, n);
        } else {
            vector->add(sums, sums, (const float *)updates + at, n);
        }
    }
    if (is_long) {
        ipu__sum_end(sums, totals, n, IPU_SUM_LEVELS, n);
    }
}
