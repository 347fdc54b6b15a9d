/* SPDX-License-Identifier: MIT
 *
 * The routines of LAPACK that linear_body.h calls, as Fortran has them: matrices by
 * columns, all arguments by address, the length of each string as one more argument at
 * the end. Those of float begin with s, those of double with d. */
#ifndef IPU_KERNELS_LAPACK_H
#define IPU_KERNELS_LAPACK_H

#include <stddef.h>

#define IPU_LAPACK(real, type) \
    void type##geqrf_(const int *m, const int *n, real *a, const int *lda, real *tau, \
                      real *work, const int *lwork, int *info); \
    void type##orgqr_(const int *m, const int *n, const int *k, real *a, \
                      const int *lda, const real *tau, real *work, const int *lwork, \
                      int *info); \
    void type##syevd_(const char *jobz, const char *uplo, const int *n, real *a, \
                      const int *lda, real *w, real *work, const int *lwork, \
                      int *iwork, const int *liwork, int *info, size_t jobz_length, \
                      size_t uplo_length); \
    void type##gesdd_(const char *jobz, const int *m, const int *n, real *a, \
                      const int *lda, real *s, real *u, const int *ldu, real *vt, \
                      const int *ldvt, real *work, const int *lwork, int *iwork, \
                      int *info, size_t jobz_length);
IPU_LAPACK(float, s)
IPU_LAPACK(double, d)
#undef IPU_LAPACK

#endif
