/* SPDX-License-Identifier: MIT
 *
 * Functions that LAPACK needs. Its own handler of wrong arguments ends the process;
 * linear.c gives none, and the routine returns its `info` to its caller. Of
 * Fortran's run time it needs the joining of strings alone, to look up its block sizes.
 */
#include <stddef.h>
#include <string.h>

void xerbla_(const char *name, const int *argument, size_t name_length);
void _gfortran_concat_string(size_t size, char *to, size_t size_a, const char *a,
                             size_t size_b, const char *b);

void
xerbla_(const char *name, const int *argument, size_t name_length)
{
    (void)name;
    (void)argument;
    (void)name_length;
}

/* a and b, cut or filled with blanks to `size`. */
void
_gfortran_concat_string(size_t size, char *to, size_t size_a, const char *a,
                        size_t size_b, const char *b)
{
    size_t of_a = size_a < size ? size_a : size;
    size_t of_b = size_b < size - of_a ? size_b : size - of_a;
    memset(to, ' ', size);
    memcpy(to, a, of_a);
    memcpy(to + of_a, b, of_b);
}
