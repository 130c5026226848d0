/* conv2d.c -- convolution and its gradients in plain C, as matrix products.
 *
 * Let column q represent one output pixel (image, row, col), and row k one
 * position (c, r, s) of the filter. Element (k,q) of the matrix "cols" is the
 * input pixel under filter position k for output pixel q. Then
 *
 *     y (oc,q)        = weight (oc,k) @ cols (k,q)         plus bias
 *     dweight (oc,k)  = dy (oc,q) @ cols (k,q)^T
 *     dx              = the convolution of dy with the filters turned by 180
 *                       degrees, inputs and outputs exchanged
 *
 * cols would be kh * kw times as large as x, so it is never built as a whole.
 * Each thread builds a part of DEPTH x COLS in its L2 cache, where the inner
 * loop (gemm.h) reads it `oc` times. Columns are counted through all images, so
 * that small images waste nothing. Every sum is added in the same order,
 * regardless of the number of threads. */
#include <limits.h>
#include <omp.h>

#include "gemm.h"
#include "reference.h"

enum {
    DEPTH = 252,            // rows of cols built at a time, a multiple of
                            // TILE_ROWS
    COLS = 192,             // columns built at a time: 205 KiB with the slack
    COLS_ROW = COLS + VLEN, // pitch: a row's last vector may run past its end
    CELLS = 32              // minimum number of parts of the weight gradient
};

typedef uint32_t vunsigned
    __attribute__((vector_size(4 * VLEN), aligned(4), may_alias));

struct conv {
    int n, ic, h, w, oc, kh, kw;
    int pad_y, pad_x; // if negative, the input's edge is never read
    int oh, ow;       // output size
    int k;            // ic * kh * kw
    int depth;        // rows of a block of k, at most DEPTH; the last block may
                      // have fewer
    size_t plane;     // oh * ow
    size_t columns;   // n * plane
};

static struct conv conv_shape(int n, int ic, int h, int w, int oc, int kh,
                              int kw, int pad_y, int pad_x) {
    // A 1x1 filter reads single pixels, so treat an image as one long row.
    if (kh == 1 && kw == 1 && !pad_y && !pad_x && (size_t)h * w <= INT_MAX) {
        w *= h;
        h = 1;
    }
    struct conv s = {.n = n,
                     .ic = ic,
                     .h = h,
                     .w = w,
                     .oc = oc,
                     .kh = kh,
                     .kw = kw,
                     .pad_y = pad_y,
                     .pad_x = pad_x,
                     .oh = (int)(h + 2LL * pad_y - kh + 1),
                     .ow = (int)(w + 2LL * pad_x - kw + 1),
                     .k = ic * kh * kw};
    // Divide k into as few blocks as possible, of nearly the same depth. The
    // depth is rounded up to whole tiles, since the rows of the gradient's
    // tiles run along k. So the last block may be smaller.
    const int depth = ceil_div(s.k, ceil_div(s.k, DEPTH));
    s.depth = ceil_div(depth, TILE_ROWS) * TILE_ROWS;
    s.plane = (size_t)s.oh * s.ow;
    s.columns = s.n * s.plane;
    return s;
}

/* ---- columns ------------------------------------------------------------- */

/* Up to VLEN neighbouring columns from one output row: columns `at`, at + 1,
 * ... are pixels (row,col), (row,col+1), ... of an image. */
struct piece {
    ptrdiff_t start; // index in x of these pixels if there were no padding
    int row, col, at;
};

/* Split columns [q,q+count) into pieces and return their number, at most
 * count. */
static int find_pieces(struct piece *pieces, const struct conv *s, size_t q,
                       int count) {
    int found = 0;
    size_t image = q / s->plane;
    int row = (int)(q % s->plane / s->ow), col = (int)(q % s->plane % s->ow);
    for (int at = 0; at < count;) {
        pieces[found++] = (struct piece){
            ((ptrdiff_t)image * s->ic * s->h + row) * s->w + col, row, col, at};
        const int length = min_int(min_int(VLEN, s->ow - col), count - at);
        at += length;
        col += length;
        if (col < s->ow) continue;
        col = 0;
        if (++row < s->oh) continue;
        row = 0;
        image++;
    }
    return found;
}

/* Write a row of cols: `pieces` from filter position (dy,dx), which is `shift`
 * elements further on in x. Each piece is written as a whole vector, and the
 * next piece overwrites the excess, so their order matters. A whole vector is
 * also read, even beyond its row. Therefore x must extend that far, and
 * elements outside the row are masked out. */
static void gather_row(float *cols, const struct piece *pieces, int count,
                       const struct conv *s, const float *x, ptrdiff_t shift,
                       int dy, int dx) {
    for (int i = 0; i < count; i++) {
        const struct piece *p = &pieces[i];
        const int seen = (unsigned)(p->row + dy) < (unsigned)s->h;
        // Viewed as unsigned numbers, columns left of the row are large.
        const vunsigned col = (vunsigned)(viota() + (p->col + dx));
        const vint inside = (vint)(col < (unsigned)(seen ? s->w : 0));
        vstore(cols + p->at,
               (vfloat)((vint)vload(x + p->start + shift) & inside));
    }
}

/* Do what gather_row() does, one element at a time, near the ends of x. */
static void gather_row_at_end(float *cols, const struct piece *pieces,
                              int count, const struct conv *s, const float *x,
                              ptrdiff_t shift, int dy, int dx) {
    for (int i = 0; i < count; i++) {
        const struct piece *p = &pieces[i];
        const int y = p->row + dy;
        for (int j = 0; j < VLEN; j++) {
            const int col = p->col + j + dx;
            const int inside = y >= 0 && y < s->h && col >= 0 && col < s->w;
            cols[p->at + j] = inside ? x[p->start + shift + j] : 0.0f;
        }
    }
}

/* Write rows [k0,k0+k) of cols, COLS_ROW apart, for the columns in `pieces`. */
static void gather(float *cols, const struct piece *pieces, int count,
                   const struct conv *s, const float *x, int k0, int k) {
    const ptrdiff_t total = (ptrdiff_t)s->n * s->ic * s->h * s->w;
    // Check all pieces, since their starts may decrease. With a padding larger
    // than the image, the end of one image's output is further on in x than the
    // start of the next one's output.
    ptrdiff_t least = pieces[0].start, most = least;
    for (int i = 1; i < count; i++) {
        least = pieces[i].start < least ? pieces[i].start : least;
        most = pieces[i].start > most ? pieces[i].start : most;
    }
    for (int i = 0; i < k; i++, cols += COLS_ROW) {
        const int dx = (k0 + i) % s->kw - s->pad_x;
        const int dy = (k0 + i) / s->kw % s->kh - s->pad_y;
        const int c = (k0 + i) / s->kw / s->kh;
        const ptrdiff_t shift = ((ptrdiff_t)c * s->h + dy) * s->w + dx;
        if (least + shift >= 0 && most + shift + VLEN <= total)
            gather_row(cols, pieces, count, s, x, shift, dy, dx);
        else
            gather_row_at_end(cols, pieces, count, s, x, shift, dy, dx);
    }
}

/* ---- forward ------------------------------------------------------------- */

/* Pack the filters as panels, block after block of k and, within each block,
 * tile after tile. */
static void pack_filters(float *panels, const float *weight,
                         const struct conv *s, int rows) {
    const int tiles = ceil_div(s->oc, rows);
#pragma omp parallel for schedule(static)
    for (int k0 = 0; k0 < s->k; k0 += s->depth)
        for (int i = 0; i < tiles; i++) {
            const size_t panel = (size_t)(k0 / s->depth) * tiles + i;
            pack_panel(panels + panel * panel_size(rows, s->depth), rows,
                       weight + (size_t)i * rows * s->k + k0, s->k, 1,
                       min_int(rows, s->oc - i * rows),
                       min_int(s->depth, s->k - k0));
        }
}

/* Store `cols` columns of a tile in y, starting at column q and filter o.
 * The first block of k includes the bias; later blocks are added. */
static void store_columns(float *y, const float *tile, const float *bias,
                          const struct conv *s, size_t q, int cols, int o,
                          int rows, int first) {
    while (cols > 0) { // process one image after the other
        const size_t image = q / s->plane, at = q % s->plane;
        const int len =
            (int)(s->plane - at < (size_t)cols ? s->plane - at : (size_t)cols);
        for (int i = 0; i < rows; i++) {
            float *restrict to = y + (image * s->oc + o + i) * s->plane + at;
            const float *restrict from = tile + i * TILE_COLS;
            const float start = bias ? bias[o + i] : 0.0f;
            if (first)
                for (int j = 0; j < len; j++) to[j] = start + from[j];
            else
                for (int j = 0; j < len; j++) to[j] += from[j];
        }
        q += len;
        tile += len;
        cols -= len;
    }
}

/* Compute all filters at columns [q,q+count). */
static void forward_columns(float *y, const float *x, const float *panels,
                            const float *bias, const struct conv *s, int rows,
                            float *cols, size_t q, int count) {
    float tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
    struct piece pieces[COLS];
    const int found = find_pieces(pieces, s, q, count);
    for (int k0 = 0; k0 < s->k; k0 += s->depth) {
        const int k = min_int(s->depth, s->k - k0);
        gather(cols, pieces, found, s, x, k0, k);
        // The loop over filters is the outer one, so that their panel stays in
        // L1 for all columns.
        for (int o = 0; o < s->oc;
             o += rows, panels += panel_size(rows, s->depth))
            for (int j = 0; j < count; j += TILE_COLS) {
                tile_product(rows, tile, panels, 0, cols + j, COLS_ROW, k);
                store_columns(y, tile, bias, s, q + j,
                              min_int(TILE_COLS, count - j), o,
                              min_int(rows, s->oc - o), k0 == 0);
            }
    }
}

/* Compute y = x convolved with weight, plus bias, with any padding, even
 * negative. Returns a weft_status. */
static int forward(float *y, const float *x, const float *weight,
                   const float *bias, const struct conv *s) {
    const int rows = tile_rows(s->oc);
    const size_t filters = (size_t)ceil_div(s->k, s->depth) *
                           ceil_div(s->oc, rows) * panel_size(rows, s->depth);
    const size_t own = (size_t)s->depth * COLS_ROW;
    const size_t wanted = filters + omp_get_max_threads() * own;
    float *scratch = alloc_floats(wanted);
    if (!scratch)
        return weft_fail(WEFT_ENOMEM, "conv2d: no %zu bytes for packed filters",
                         wanted * sizeof(float));
    float *panels = scratch + omp_get_max_threads() * own;
    pack_filters(panels, weight, s, rows);
    int interrupted = 0;
#pragma omp parallel for schedule(dynamic) reduction(| : interrupted)
    for (size_t q = 0; q < s->columns; q += COLS) {
        if (interrupted || (interrupted = weft_interrupted())) continue;
        const size_t left = s->columns - q;
        forward_columns(y, x, panels, bias, s, rows,
                        scratch + omp_get_thread_num() * own, q,
                        left < COLS ? (int)left : COLS);
    }
    free(scratch);
    return interrupted ? weft_fail(WEFT_EINTR, "conv2d: Ctrl-C") : WEFT_OK;
}

int conv2d_reference(float *y, const float *x, const float *weight,
                     const float *bias, int n, int ic, int h, int w, int oc,
                     int kh, int kw,
                     const struct weft_conv2d_options *options) {
    const int pad = options ? options->padding : 0;
    const struct conv s = conv_shape(n, ic, h, w, oc, kh, kw, pad, pad);
    return forward(y, x, weight, bias, &s);
}

/* ---- gradients ----------------------------------------------------------- */

/* Compute dx: every input pixel sums the contributions of the outputs whose
 * windows contain it. This is a convolution of dy with the filters turned by
 * 180 degrees, and its padding is kh - 1 - padding. */
static int backward_input(float *dx, const float *dy, const float *weight,
                          const struct conv *s) {
    const size_t area = (size_t)s->kh * s->kw, count = area * s->ic * s->oc;
    float *turned = alloc_floats(count);
    if (!turned)
        return weft_fail(WEFT_ENOMEM, "conv2d: no %zu bytes for turned filters",
                         count * sizeof(float));
#pragma omp parallel for schedule(static)
    for (int c = 0; c < s->ic; c++)
        for (int o = 0; o < s->oc; o++) {
            const float *from = weight + ((size_t)o * s->ic + c) * area;
            float *to = turned + ((size_t)c * s->oc + o) * area;
            for (size_t i = 0; i < area; i++) to[i] = from[area - 1 - i];
        }
    const struct conv back =
        conv_shape(s->n, s->oc, s->oh, s->ow, s->ic, s->kh, s->kw,
                   s->kh - 1 - s->pad_y, s->kw - 1 - s->pad_x);
    const int status = forward(dx, dy, turned, NULL, &back);
    free(turned);
    return status;
}

/* Pack columns [q,q+count) of dy as a panel, for filters o and up. */
static void pack_gradient(float *panel, const float *dy, const struct conv *s,
                          size_t q, int count, int o) {
    for (int done = 0, len; done < count; done += len) {
        const size_t image = (q + done) / s->plane, at = (q + done) % s->plane;
        const size_t left = s->plane - at;
        len = left < (size_t)(count - done) ? (int)left : count - done;
        pack_panel(panel + done * TILE_COLS, TILE_COLS,
                   dy + (image * s->oc + o) * s->plane + at, s->plane, 1,
                   min_int(TILE_COLS, s->oc - o), len);
    }
}

/* Add cols (k,q) @ dy (oc,q)^T to sum (k,width) for k in [k0,k0+k) and columns
 * [q,q+count); `panel` has room for one panel of dy. */
static void add_products(float *sum, int width, const float *dy, const float *x,
                         const struct conv *s, float *cols, float *panel,
                         int k0, int k, size_t q, int count) {
    float tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
    const int rows = tile_rows(k);
    struct piece pieces[COLS];
    gather(cols, pieces, find_pieces(pieces, s, q, count), s, x, k0, k);
    for (int o = 0; o < s->oc; o += TILE_COLS) {
        pack_gradient(panel, dy, s, q, count, o);
        for (int i = 0; i < k; i += rows) {
            tile_product(rows, tile, cols + (ptrdiff_t)i * COLS_ROW, COLS_ROW,
                         panel, TILE_COLS, count);
            for (int r = 0; r < min_int(rows, k - i); r++) {
                float *to = sum + (size_t)(k0 + i + r) * width + o;
                for (int j = 0; j < TILE_COLS; j += VLEN)
                    vstore(to + j,
                           vload(to + j) + vload(tile + r * TILE_COLS + j));
            }
        }
    }
}

/* Compute dweight. The batch is cut into parts with separate sums, so that all
 * threads have work even with few filters. The number of parts, and so the
 * result, depends on the shape alone. */
static int backward_filters(float *dweight, const float *dy, const float *x,
                            const struct conv *s) {
    const size_t chunks = (s->columns + COLS - 1) / COLS;
    const int blocks = ceil_div(s->k, s->depth);
    const size_t most = CELLS / min_int(blocks, CELLS);
    const int parts = (int)(chunks < most ? chunks : most);
    const int width = ceil_div(s->oc, TILE_COLS) * TILE_COLS;
    const size_t sum = (size_t)s->k * width;
    // Add TILE_ROWS, since the last tile of a block may read past its end.
    const size_t cols = (size_t)(s->depth + TILE_ROWS) * COLS_ROW;
    const size_t own = cols + panel_size(TILE_COLS, COLS);
    const size_t wanted = parts * sum + omp_get_max_threads() * own;
    float *sums = alloc_floats(wanted);
    if (!sums)
        return weft_fail(WEFT_ENOMEM, "conv2d: no %zu bytes for partial sums",
                         wanted * sizeof(float));
    int interrupted = 0;
#pragma omp parallel
    {
        float *scratch = sums + parts * sum + omp_get_thread_num() * own;
        memset(scratch, 0, own * sizeof(float));
#pragma omp for schedule(dynamic) collapse(2) reduction(| : interrupted)
        for (int part = 0; part < parts; part++)
            for (int block = 0; block < blocks; block++) {
                const int k0 = block * s->depth;
                const int k = min_int(s->depth, s->k - k0);
                float *to = sums + part * sum;
                memset(to + (size_t)k0 * width, 0,
                       (size_t)k * width * sizeof(float));
                for (size_t i = chunks * part / parts;
                     i < chunks * (part + 1) / parts; i++) {
                    if (interrupted || (interrupted = weft_interrupted()))
                        break;
                    const size_t left = s->columns - i * COLS;
                    add_products(to, width, dy, x, s, scratch, scratch + cols,
                                 k0, k, i * COLS,
                                 left < COLS ? (int)left : COLS);
                }
            }
#pragma omp for schedule(static)
        for (int o = 0; o < s->oc; o++)
            for (int k = 0; k < s->k; k++) {
                float total = 0.0f;
                for (int part = 0; part < parts; part++)
                    total += sums[part * sum + (size_t)k * width + o];
                dweight[(size_t)o * s->k + k] = total;
            }
    }
    free(sums);
    return interrupted ? weft_fail(WEFT_EINTR, "conv2d: Ctrl-C") : WEFT_OK;
}

/* Compute dbias: the sum of each filter's dy, in double. */
static void backward_bias(float *dbias, const float *dy, const struct conv *s) {
#pragma omp parallel for schedule(static)
    for (int o = 0; o < s->oc; o++) {
        double sum = 0.0;
        for (int image = 0; image < s->n && !weft_interrupted(); image++) {
            const float *row = dy + ((size_t)image * s->oc + o) * s->plane;
#pragma omp simd reduction(+ : sum)
            for (size_t i = 0; i < s->plane; i++) sum += row[i];
        }
        dbias[o] = (float)sum;
    }
}

int conv2d_reference_backward(float *dx, float *dweight, float *dbias,
                              const float *dy, const float *x,
                              const float *weight, int n, int ic, int h, int w,
                              int oc, int kh, int kw,
                              const struct weft_conv2d_options *options) {
    const int pad = options ? options->padding : 0;
    const struct conv s = conv_shape(n, ic, h, w, oc, kh, kw, pad, pad);
    int status = WEFT_OK;
    if (dbias) backward_bias(dbias, dy, &s);
    if (weft_interrupted()) return weft_fail(WEFT_EINTR, "conv2d: Ctrl-C");
    if (dweight) status = backward_filters(dweight, dy, x, &s);
    if (!status && dx) status = backward_input(dx, dy, weight, &s);
    return status;
}
