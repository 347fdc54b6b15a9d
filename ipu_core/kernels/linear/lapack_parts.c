/* SPDX-License-Identifier: MIT
 *
 * Functions of BLAS and LAPACK under their own names, in the place of those of the
 * libraries (lapack_parts_body.h): products, which several threads make here; blocks of
 * reflections, which are products, too, but for a triangle; and norms of vectors, of
 * which BLIS rescales each element. All arguments come by address, and the length of
 * each string as one more at the end, which is not read. */
#include "kernels/linear/lapack_parts.h"

#include <math.h>
#include <pthread.h>

#include "kernels/core/blis_impl.h"

/* A key, as the C library takes a _Thread_local of an extension module from a heap. */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void
make_key(void)
{
    (void)pthread_key_create(&key, NULL);
}

void
ipu__lapack_made_by(const ipu__makers *makers)
{
    pthread_once(&key_once, make_key);
    (void)pthread_setspecific(key, makers); /* fails: the thread works alone */
}

static ipu__makers
makers(void)
{
    pthread_once(&key_once, make_key);
    const ipu__makers *known = pthread_getspecific(key);
    return known != NULL ? *known : (ipu__makers){ipu_cpu_class_detect(), NULL};
}

enum {
    TILE = 32, /* columns */
    SUMS = 8, /* side by side in a long one */
    /* numbers: reflections, up to 128 at a time, of which LAPACK takes 64 at most, by
     * columns */
    BLOCK = 4096
};

static bool
is_letter(const char *text, char upper)
{
    return *text == upper || *text == upper - 'A' + 'a';
}

#define real float
#define FORM(name) name##_f32
#define LAPACK(name) s##name##_
#include "kernels/linear/lapack_parts_body.h"

#define real double
#define FORM(name) name##_f64
#define LAPACK(name) d##name##_
#include "kernels/linear/lapack_parts_body.h"

/* In double no square of a float overflows or vanishes. */
float
snrm2_(const int *n, const float *x, const int *step)
{
    return (float)sqrt(squares_f32(*n, x, *step, 1.0));
}

double
dnrm2_(const int *n, const double *x, const int *step)
{
    const double least = 0x1p-900; /* a sum of squares that has lost no digits */
    const double sum = squares_f64(*n, x, *step, 1.0);
    if (sum > least && sum < 1.0 / least) {
        return sqrt(sum);
    }
    double largest = 0.0;
    for (int64_t i = 0; i < *n; i++) {
        largest = fmax(largest, fabs(x[i * *step]));
    }
    if (largest == 0.0 || isinf(largest)) {
        return sum;
    }
    int exponent;
    (void)frexp(largest, &exponent);
    const double up = ldexp(1.0, -exponent / 2); /* twice: it may be more than 2^1023 */
    return sqrt(squares_f64(*n, x, *step, up)) / up / up;
}
