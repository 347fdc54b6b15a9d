/* SPDX-License-Identifier: MIT
 *
 * The routines of LAPACK that linear.c calls, as Fortran has them: matrices by columns,
 * all arguments by address, the length of each string as one more argument at the end. */
#ifndef IPU_KERNELS_LAPACK_H
#define IPU_KERNELS_LAPACK_H

#include <stddef.h>

void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau,
             double *work, const int *lwork, int *info);
void dorgqr_(const int *m, const int *n, const int *k, double *a, const int *lda,
             const double *tau, double *work, const int *lwork, int *info);
void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a,
             const int *lda, double *w, double *work, const int *lwork, int *iwork,
             const int *liwork, int *info, size_t jobz_length, size_t uplo_length);
void dgesdd_(const char *jobz, const int *m, const int *n, double *a, const int *lda,
             double *s, double *u, const int *ldu, double *vt, const int *ldvt,
             double *work, const int *lwork, int *iwork, int *info, size_t jobz_length);

#endif
