/* SPDX-License-Identifier: MIT
 *
 * The fast kernels of convolutions, which conv.c chooses. */
#ifndef IPU_KERNELS_CONV_RUN_IMPL_H
#define IPU_KERNELS_CONV_RUN_IMPL_H

#include "kernels/conv/conv_plan_impl.h"

/* conv and conv_grad_input (conv_windows.c), conv_grad_filter (conv_filter.c): fill the
 * spec. */
ipu_status ipu__conv_windows_prepare(const ipu__preparation *p);
ipu_status ipu__conv_filter_prepare(const ipu__preparation *p);
/* All three of float64 (conv_wide.c). */
ipu_status ipu__conv_wide_prepare(const ipu__preparation *p);

/* --- conv_winograd.c --------------------------------------------------------------- */

enum {
    IPU_WINOGRAD_MATRICES = 16,
    IPU_WINOGRAD_APART = 16 /* more floats: they do not meet in the sets of a cache */
};

typedef struct ipu__winograd {
    int64_t inner; /* channels that a sum goes over, and those of the result */
    int64_t outer;
    const int64_t *at; /* rows of the matrices of patches and of products */
    const int64_t *to;
    int64_t source_step; /* floats from matrix to matrix */
    int64_t product_step;
    int64_t upper_levels;
    int64_t places; /* patches of a band, at most */
} ipu__winograd;

/* Where patches and quads of a band are. */
typedef struct ipu__quad_places {
    const ipu__band *band;
    ipu__pitch pitch; /* of its source */
    int64_t line;     /* pixels from row to row of what quads lie in, ... */
    int64_t channels; /* ... and floats from pixel to pixel */
} ipu__quad_places;

/* Where each patch starts in the source, and for each quad its four pixels; -1 for those
 * beyond the band. Gives their number. */
int64_t ipu__winograd_places(const ipu__quad_places *places, int64_t *at, int64_t *to);

typedef struct ipu__winograd_call {
    const ipu__conv_tiles *tiles;
    ipu__quad_places places; /* quads in `results` */
    const float *source;
    const float *panels; /* of the transformed filters, ... */
    int64_t panel_step;  /* ... from matrix to matrix */
    float *results;
    const ipu__conv_finish *finish;
} ipu__winograd_call;

/* Whether it gains: by the geometry of an image and its channels, so that a batch's size
 * changes no bits. */
bool ipu__winograd_serves(const ipu__conv_geometry *g, int64_t inner, int64_t outer);
/* Pixels that a band is to have. */
int64_t ipu__winograd_pixels(int64_t inner, int64_t outer);
ipu_status ipu__winograd_prepare(const ipu__preparation *p, const ipu__conv_geometry *g,
                                 int64_t inner, int64_t outer, ipu__winograd *out);
int64_t ipu__winograd_floats(const ipu__winograd *w); /* of a band's scratch */
void ipu__winograd_band(const ipu__winograd *w, const ipu__winograd_call *call,
                        float *scratch);

/* --- conv_winograd_filter.c -------------------------------------------------------- */

bool ipu__winograd_serves_filter(const ipu__conv_geometry *g);
ipu_status ipu__winograd_filter_prepare(const ipu__preparation *p,
                                        const ipu__conv_geometry *g);

/* Whether each channel has filters of its own. */
static inline bool
ipu__conv_is_depthwise(const ipu_convolution *c)
{
    return c->depth == 1 && c->groups > 1;
}

#endif
