/* SPDX-License-Identifier: MIT
 *
 * Functions of BLAS and LAPACK under their own names, in the place of those of the
 * libraries (lapack_parts_body.h): products, which several threads make here; blocks of
 * reflections, which are products, too, but for a triangle; eigenvalues of small
 * tridiagonal matrices; and norms of vectors, of which BLIS rescales each element. All
 * arguments come by address, and the length of each string as one more at the end,
 * which is not read. */
#include "kernels/linear/lapack_parts.h"

#include <float.h>
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
    LANES = 8,
    SUMS = 8, /* side by side in a long one */
    /* numbers: reflections, up to 128 at a time, of which LAPACK takes 64 at most, by
     * columns */
    BLOCK = 4096
};

#define LEAST_SUM 0x1p-900 /* of squares that have lost no digits */

static bool
is_letter(const char *text, char upper)
{
    return *text == upper || *text == upper - 'A' + 'a';
}

/* The root of the sum of two squares. */
IPU_INLINE float
length_f32(float a, float b)
{
    const float square = a * a + b * b;
    const double wide = (double)a * (double)a + (double)b * (double)b;
    return square > 0x1p-90f && square < 0x1p90f ? sqrtf(square) : (float)sqrt(wide);
}

IPU_INLINE double
length_f64(double a, double b)
{
    const double square = a * a + b * b;
    return square > LEAST_SUM && square < 1.0 / LEAST_SUM ? sqrt(square) : hypot(a, b);
}

#define real float
#define FORM(name) name##_f32
#define LAPACK(name) s##name##_
#define SIZE fabsf
#define ROOT sqrtf
#define EPSILON FLT_EPSILON
#define LEAST FLT_MIN
#define SMALL 0x1p-20f /* squares of digits of such numbers are no subnormal ones */
#include "kernels/linear/lapack_parts_body.h"

#define real double
#define FORM(name) name##_f64
#define LAPACK(name) d##name##_
#define SIZE fabs
#define ROOT sqrt
#define EPSILON DBL_EPSILON
#define LEAST DBL_MIN
#define SMALL 0x1p-300
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
    const double sum = squares_f64(*n, x, *step, 1.0);
    if (sum > LEAST_SUM && sum < 1.0 / LEAST_SUM) {
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
