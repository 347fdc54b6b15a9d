/* SPDX-License-Identifier: MIT
 *
 * The switch that mutants ask: which one is on, and which ones were reached. */
#ifndef IPU_MUTATION_SWITCH_H
#define IPU_MUTATION_SWITCH_H

typedef struct ipu_switch_page {
    volatile int on;
    volatile unsigned char reached[];
} ipu_switch_page;

extern ipu_switch_page *ipu_switch;

static inline int
ipu_mutant(int number)
{
    if (!ipu_switch->reached[number]) {
        ipu_switch->reached[number] = 1;
    }
    return ipu_switch->on == number;
}

#endif
