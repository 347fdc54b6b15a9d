/* SPDX-License-Identifier: MIT
 *
 * Windows of 3 x 3 at each place by Winograd's F(2 x 2, 3 x 3): four results, a quad,
 * are made of a patch of 4 x 4 of the source by 16 products in place of 36 (Lavin and
 * Gray, "Fast algorithms for convolutional neural networks", 2015):
 *
 *   Y = A^T [ (G g G^T) * (B^T d B) ] A, element by element of the 4 x 4,
 *
 * and a sum over channels in between: 16 products of matrices, [patch][channel] by
 * [channel][channel of the result], by the tiles of windows.
 *
 * A quad that lies partly beyond the last row or column reads places of the band that
 * nobody wrote; they lead to the results there alone, which nobody stores. Elements
 * depend on their own quad alone, so bits depend on neither bands nor threads. */
#include "kernels/conv/conv_run_impl.h"

enum {
    LEAST_CHANNELS = 16, /* the transforms, by channel, must be paid by the products */
    MATRIX_FLOATS = 128 * 1024, /* of a band's patches and products: in a cache */
    LEAST_PIXELS = 96
};

bool
ipu__winograd_serves(const ipu__conv_geometry *g, int64_t inner, int64_t outer)
{
    int64_t patches = 1;
    int64_t pixels = 1;
    for (int32_t i = 0; i < IPU_LINES; i++) {
        const ipu__line *line = &g->lines[i];
        const bool slides = i > 0;
        if (line->phases != 1 || line->step != 1 || line->starts[1] != (slides ? 3 : 1) ||
            line->most - line->least != (slides ? 2 : 0)) {
            return false;
        }
        patches *= slides ? ipu__ceil_div(line->results, 2) : 1;
        pixels *= slides ? line->results : 1;
    }
    /* and at least a fifth fewer products */
    return inner >= LEAST_CHANNELS && outer >= LEAST_CHANNELS &&
           5 * 16 * patches <= 4 * 9 * pixels;
}

int64_t
ipu__winograd_pixels(int64_t inner, int64_t outer)
{
    return ipu__max(MATRIX_FLOATS / (4 * (inner + outer)), LEAST_PIXELS);
}

ipu_status
ipu__winograd_prepare(const ipu__preparation *p, const ipu__conv_geometry *g,
                      int64_t inner, int64_t outer, ipu__winograd *out)
{
    const ipu__bands *bands = &g->bands;
    const int64_t patches = bands->planes * (bands->rows / 2) * (bands->columns / 2);
    int64_t *places;
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena,
                            (size_t)(2 * patches) * sizeof *places, &places));
    for (int64_t i = 0; i < patches; i++) {
        places[i] = i * inner;
        places[patches + i] = i * outer;
    }
    *out = (ipu__winograd){
        .inner = inner,
        .outer = outer,
        .at = places,
        .to = places + patches,
        .source_step = ipu__whole_lines(patches * inner) + IPU_WINOGRAD_APART,
        .product_step = ipu__whole_lines(patches * outer) + IPU_WINOGRAD_APART,
        .places = ipu__whole_lines(patches),
    };
    out->upper_levels = ipu__max(ipu__sum_levels(ipu__sum_blocks(inner)) - 1, 0);
    return IPU_OK;
}

int64_t
ipu__winograd_floats(const ipu__winograd *w)
{
    return IPU_WINOGRAD_MATRICES * (w->source_step + w->product_step) +
           w->upper_levels * w->product_step + 10 * w->places;
}

int64_t
ipu__winograd_places(const ipu__quad_places *places, int64_t *at, int64_t *to)
{
    const ipu__band *band = places->band;
    const ipu__pitch *pitch = &places->pitch;
    int64_t count = 0;
    for (int64_t p = 0; p < band->planes; p++) {
        for (int64_t r = 0; r < band->rows; r += 2) {
            for (int64_t c = 0; c < band->columns; c += 2) {
                at[count] = p * pitch->plane + r * pitch->line[1] + c * pitch->line[2];
                for (int64_t k = 0; k < 4; k++) {
                    const int64_t row = r + k / 2;
                    const int64_t column = c + k % 2;
                    const int64_t pixel = (p * band->rows + row) * places->line + column;
                    const bool inside = row < band->rows && column < band->columns;
                    to[4 * count + k] = inside ? pixel * places->channels : -1;
                }
                count++;
            }
        }
    }
    return count;
}

void
ipu__winograd_band(const ipu__winograd *w, const ipu__winograd_call *call,
                   float *scratch)
{
    static const int64_t here = 0;
    static const ipu__conv_finish nothing = {.count = 0};
    const ipu__conv_tiles *tiles = call->tiles;
    float *patches = scratch;
    float *products = patches + IPU_WINOGRAD_MATRICES * w->source_step;
    float *upper = products + IPU_WINOGRAD_MATRICES * w->product_step;
    int64_t *at = (void *)(upper + w->upper_levels * w->product_step);
    int64_t *to = at + w->places;
    const int64_t count = ipu__winograd_places(&call->places, at, to);
    tiles->winograd_patches(&(ipu__patches){
        .source = call->source,
        .at = at,
        .count = count,
        .row = call->places.pitch.line[1],
        .column = call->places.pitch.line[2],
        .channels = w->inner,
        .out = patches,
        .step = w->source_step,
    });
    for (int64_t i = 0; i < IPU_WINOGRAD_MATRICES; i++) {
        tiles->windows(&(ipu__windows){
            .source = patches + i * w->source_step,
            .at = w->at,
            .result = products + i * w->product_step,
            .to = w->to,
            .pixels = count,
            .offsets = &here,
            .segments = 1,
            .length = w->inner,
            .panels = call->panels + i * call->panel_step,
            .columns = w->outer,
            .upper = upper,
            .level_floats = w->product_step,
            .finish = &nothing,
        });
    }
    tiles->winograd_quads(&(ipu__quads){
        .products = products,
        .step = w->product_step,
        .count = count,
        .channels = w->outer,
        .result = call->results,
        .to = to,
        .finish = call->finish,
    });
}
