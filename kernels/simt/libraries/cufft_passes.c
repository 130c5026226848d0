/* cufft_passes.c -- Fourier transforms along one axis; see cufft_passes.h.
 *
 * Stockham's algorithm (Van Loan, Computational Frameworks for the Fast Fourier
 * Transform, 1992, section 1.7): each pass removes a factor r of the length and
 * moves its index behind the others, so no pass reverses digits. A pass reads r
 * numbers that are m * s apart and writes r that are s apart. `s` is the
 * product of the factors so far and of the inner axis, which is the innermost
 * loop.
 *
 * Bluestein's method writes the transform as a convolution with a chirp, which
 * transforms of a larger length compute. Source: Bluestein, "A linear filtering
 * approach to the computation of discrete Fourier transform" (1970). */
#include "cufft_passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PASSES = 64,
    LARGEST = 61,       /* factor that a pass removes */
    PARALLEL = 1 << 15, /* with fewer numbers, a pass uses one core */
    PIECE = 1 << 12,    /* numbers of s that one core takes */
};

struct weft_fft {
    long n;
    int is_double, count;
    int factors[PASSES];
    void *twiddles[PASSES]; /* each pass's exp(-2 pi i p j / left), r - 1
                             * numbers for each p */
    void *roots[PASSES];    /* exp(-2 pi i j / r), r numbers */
    /* Bluestein's method, which has no passes of its own */
    struct weft_fft *larger;
    double *chirp;  /* exp(-pi i j^2 / n), n numbers */
    double *filter; /* transform of its conjugate, divided by the length */
};

/* Compute exp(-2 pi i top / bottom) with an error of about 2^-53. The angle is
 * first reduced to an eighth of a turn. */
static void unit_root(long top, long bottom, double *re, double *im) {
    const double pi = 3.14159265358979323846;
    const long eighth = 8 * top / bottom;
    const long rest = 8 * top - eighth * bottom; /* in eighths of a turn */
    const double angle = pi / 4 * (double)rest / (double)bottom;
    const double h = sqrt(0.5), c = cos(angle), s = sin(angle);
    static const int turn[8][2] = {{1, 0},  {1, 1},   {0, 1},  {-1, 1},
                                   {-1, 0}, {-1, -1}, {0, -1}, {1, -1}};
    const double scale = eighth % 2 ? h : 1;
    const double x = turn[eighth][0] * scale, y = turn[eighth][1] * scale;
    *re = x * c - y * s;
    *im = -(x * s + y * c);
}

#define REAL float
#define NAME(f) f##_float
#include "cufft_passes_core.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(f) f##_double
#include "cufft_passes_core.h"

/* ---- plans --------------------------------------------------------------- */

/* Split n into factors; return the factor that remains, 1 if the passes
 * suffice. */
static long factor(struct weft_fft *plan, long n) {
    for (int r = 4; r <= LARGEST; r = r == 4 ? 2 : r == 2 ? 3 : r + 2)
        while (n % r == 0) {
            plan->factors[plan->count++] = r;
            n /= r;
        }
    return n;
}

static int create_twiddles(struct weft_fft *plan) {
    const size_t size =
        plan->is_double ? 2 * sizeof(double) : 2 * sizeof(float);
    long left = plan->n;
    for (int pass = 0; pass < plan->count; pass++) {
        const int r = plan->factors[pass];
        const long m = left / r;
        plan->twiddles[pass] = malloc((size_t)m * (size_t)(r - 1) * size);
        plan->roots[pass] = malloc((size_t)r * size);
        if (!plan->twiddles[pass] || !plan->roots[pass]) return -1;
        if (plan->is_double) {
            fill_double(plan->twiddles[pass], m, r, left);
            fill_roots_double(plan->roots[pass], r);
        } else {
            fill_float(plan->twiddles[pass], m, r, left);
            fill_roots_float(plan->roots[pass], r);
        }
        left = m;
    }
    return 0;
}

static int create_chirp(struct weft_fft *plan) {
    const long n = plan->n;
    long size = 1;
    while (size < 2 * n - 1) size *= 2;
    plan->larger = weft_fft_create(size, 1);
    plan->chirp = malloc(2 * (size_t)n * sizeof(double));
    double *x = calloc(2 * (size_t)size, sizeof *x);
    double *work = malloc(2 * (size_t)size * sizeof *work);
    double *filter = 0;
    if (plan->larger && plan->chirp && x && work) {
        for (long j = 0; j < n; j++) {
            const long square = (long)((unsigned __int128)j * j % (2 * n));
            double *c = plan->chirp + 2 * j;
            unit_root(square, 2 * n, &c[0], &c[1]);
            const long back = j ? size - j : 0;
            x[2 * j] = x[2 * back] = c[0] / (double)size;
            x[2 * j + 1] = x[2 * back + 1] = -c[1] / (double)size;
        }
        filter = weft_fft_run(plan->larger, x, work, 1, 1, 1);
    }
    plan->filter = filter;
    if (filter != x) free(x);
    if (filter != work) free(work);
    return filter ? 0 : -1;
}

struct weft_fft *weft_fft_create(long n, int is_double) {
    struct weft_fft *plan = calloc(1, sizeof *plan);
    if (!plan) return 0;
    plan->n = n;
    plan->is_double = is_double;
    if (factor(plan, n) > 1) plan->count = -1;
    if (plan->count < 0 ? create_chirp(plan) : create_twiddles(plan)) {
        weft_fft_destroy(plan);
        return 0;
    }
    return plan;
}

void weft_fft_destroy(struct weft_fft *plan) {
    if (!plan) return;
    for (int i = 0; i < PASSES; i++) {
        free(plan->twiddles[i]);
        free(plan->roots[i]);
    }
    weft_fft_destroy(plan->larger);
    free(plan->chirp);
    free(plan->filter);
    free(plan);
}

/* ---- running ------------------------------------------------------------- */

/* Transform one line by Bluestein's method; its numbers are `step` apart. Both
 * buffers have room for the larger length. */
static void chirp_line(const struct weft_fft *plan, void *line, long step,
                       double *a, double *b) {
    const long n = plan->n, size = plan->larger->n;
    float *const f = plan->is_double ? 0 : line;
    double *const d = line;
    memset(a + 2 * n, 0, 2 * (size_t)(size - n) * sizeof *a);
    for (long j = 0; j < n; j++) {
        const double *c = plan->chirp + 2 * j;
        const long at = 2 * j * step;
        const double re = f ? f[at] : d[at], im = f ? f[at + 1] : d[at + 1];
        a[2 * j] = re * c[0] - im * c[1];
        a[2 * j + 1] = re * c[1] + im * c[0];
    }
    double *x = weft_fft_run(plan->larger, a, b, 1, 1, 1);
    /* The inverse transform is the transform with real and imaginary parts
     * swapped, before and after. */
    for (long j = 0; j < size; j++) {
        const double *c = plan->filter + 2 * j;
        const double re = x[2 * j], im = x[2 * j + 1];
        x[2 * j] = re * c[1] + im * c[0];
        x[2 * j + 1] = re * c[0] - im * c[1];
    }
    x = weft_fft_run(plan->larger, x, x == a ? b : a, 1, 1, 1);
    for (long j = 0; j < n; j++) {
        const double *c = plan->chirp + 2 * j;
        const long at = 2 * j * step;
        const double re = x[2 * j + 1], im = x[2 * j];
        const double y = re * c[0] - im * c[1], z = re * c[1] + im * c[0];
        if (f)
            f[at] = (float)y, f[at + 1] = (float)z;
        else
            d[at] = y, d[at + 1] = z;
    }
}

static int chirp_lines(const struct weft_fft *plan, void *x, long outer,
                       long inner, int threads) {
    const size_t number = plan->is_double ? 16 : 8;
    const size_t size = 2 * (size_t)plan->larger->n * sizeof(double);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        double *a = malloc(size), *b = malloc(size);
        failed = !a || !b;
#pragma omp for
        for (long i = 0; i < outer * inner; i++) {
            const long at = i / inner * plan->n * inner + i % inner;
            if (!failed)
                chirp_line(plan, (char *)x + (size_t)at * number, inner, a, b);
        }
        free(a);
        free(b);
    }
    return failed ? -1 : 0;
}

void *weft_fft_run(const struct weft_fft *plan, void *x, void *work, long outer,
                   long inner, int threads) {
    if (plan->count < 0)
        return chirp_lines(plan, x, outer, inner, threads) ? 0 : x;
    const size_t number = plan->is_double ? 16 : 8;
    const size_t block = (size_t)(plan->n * inner) * number;
    const int is_large = outer * plan->n * inner >= PARALLEL;
    const int within = is_large && outer == 1 ? threads : 1; // a transform
    const int across = is_large && outer > 1 ? threads : 1;
#pragma omp parallel for num_threads(across)
    for (long i = 0; i < outer; i++) {
        char *from = (char *)x + (size_t)i * block;
        char *to = (char *)work + (size_t)i * block;
        if (plan->is_double)
            transform_double(plan, (void *)from, (void *)to, inner, within);
        else
            transform_float(plan, (void *)from, (void *)to, inner, within);
    }
    return plan->count % 2 ? work : x;
}
