/* SPDX-License-Identifier: MIT
 *
 * The bytes of eager tensors: aligned, with slack after them, counted. Small ones are
 * kept for the next tensors. GIL held. */
#include "bind/bind.h"

#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

ipu_py_storage *
ipu_py_storage_new(ipu_py_state *state, size_t bytes)
{
    ipu_py_storage *storage;
    if (bytes <= IPU_PY_SPARE_BYTES && state->spare_count > 0) {
        storage = state->spare[--state->spare_count];
        storage->references = 1;
        storage->bytes = bytes;
        return storage;
    }
    storage = PyMem_Malloc(sizeof(*storage));
    if (storage == NULL) {
        return NULL;
    }
    size_t room = bytes <= IPU_PY_SPARE_BYTES ? IPU_PY_SPARE_BYTES : bytes;
    size_t whole = ipu_buffer_round_up(room + IPU_SLACK_BYTES);
    storage->references = 1;
    storage->bytes = bytes;
    storage->data = aligned_alloc(IPU_BUFFER_ALIGNMENT, whole);
    if (storage->data == NULL) {
        PyMem_Free(storage);
        return NULL;
    }
    ipu_pages_advise_huge(storage->data, whole);
    memset((char *)storage->data + bytes, 0, whole - bytes);
    return storage;
}

static void
storage_free(ipu_py_storage *storage)
{
    free(storage->data);
    PyMem_Free(storage);
}

void
ipu_py_storage_release(ipu_py_state *state, ipu_py_storage *storage)
{
    if (storage == NULL || --storage->references > 0) {
        return;
    }
    if (storage->bytes <= IPU_PY_SPARE_BYTES && state != NULL &&
        state->spare_count < IPU_PY_SPARE_COUNT) {
        state->spare[state->spare_count++] = storage;
        return;
    }
    storage_free(storage);
}

void
ipu_py_storage_free_spare(ipu_py_state *state)
{
    while (state->spare_count > 0) {
        storage_free(state->spare[--state->spare_count]);
    }
}
