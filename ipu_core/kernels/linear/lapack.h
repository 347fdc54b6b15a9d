/* SPDX-License-Identifier: MIT
 *
 * The routines of LAPACK and BLAS that linear.c and factors.c call, as Fortran has them:
 * matrices by columns, all arguments by address, the length of each string as one more
 * argument at the end. */
#ifndef IPU_KERNELS_LAPACK_H
#define IPU_KERNELS_LAPACK_H

#include <stddef.h>

void dtrsm_(const char *side, const char *uplo, const char *transa, const char *diag,
            const int *m, const int *n, const double *alpha, const double *a,
            const int *lda, double *b, const int *ldb, size_t side_length,
            size_t uplo_length, size_t transa_length, size_t diag_length);
void dsyrk_(const char *uplo, const char *trans, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *beta,
            double *c, const int *ldc, size_t uplo_length, size_t trans_length);
void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc, size_t transa_length, size_t transb_length);
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
