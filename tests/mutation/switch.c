/* SPDX-License-Identifier: MIT
 *
 * Says which mutant is on, to all processes that have loaded the core: a file that they
 * share. In: IPU_SWITCH_FILE, which the environment may name anew, and
 * IPU_SWITCH_BYTES, when compiled. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "switch.h"

ipu_switch_page *ipu_switch;

__attribute__((constructor)) static void
open_switch(void)
{
    const char *own = getenv("IPU_SWITCH_FILE");
    int file = open(own != NULL ? own : IPU_SWITCH_FILE, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, IPU_SWITCH_BYTES) != 0) {
        abort();
    }
    void *page =
        mmap(NULL, IPU_SWITCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        abort();
    }
    ipu_switch = page;
    close(file);
}
