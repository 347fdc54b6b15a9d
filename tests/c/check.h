/* SPDX-License-Identifier: MIT
 *
 * The C tests' few macros. A test program is one `main` that calls test functions and
 * ends with `return CHECK_DONE();`: 0 where every check held. With CHECK_STOPS it ends
 * at the first one that did not. */
#ifndef IPU_TESTS_CHECK_H
#define IPU_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static int check_failures;
static int check_count;

static inline void
check_failed(void)
{
    check_failures++;
#ifdef CHECK_STOPS
    _Exit(1);
#endif
}

#define CHECK(condition) \
    do { \
        check_count++; \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition); \
            check_failed(); \
        } \
    } while (0)

/* An ipu_status expression that must succeed on `ctx`. */
#define CHECK_OK(ctx, expression) \
    do { \
        check_count++; \
        if ((expression) != IPU_OK) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #expression, \
                    (ctx)->message); \
            check_failed(); \
        } \
    } while (0)

#define CHECK_DONE() \
    (printf("%d checks, %d failed\n", check_count, check_failures), check_failures != 0)

#endif
