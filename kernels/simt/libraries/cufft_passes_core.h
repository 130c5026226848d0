/* cufft_passes_core.h -- the passes of one precision; cufft_passes.c includes
 * it for float and for double.
 *
 * REAL: the type; NAME(f): the name of a function for this type */

typedef struct NAME(complex) {
    REAL re, im;
} NAME(complex);
#define COMPLEX NAME(complex)

static void NAME(fill)(COMPLEX *to, long m, int r, long n) {
    for (long p = 0; p < m; p++)
        for (int j = 1; j < r; j++) {
            double re, im;
            unit_root(p * j, n, &re, &im);
            *to++ = (COMPLEX){(REAL)re, (REAL)im};
        }
}

static void NAME(fill_roots)(COMPLEX *to, int r) {
    for (int j = 0; j < r; j++) {
        double re, im;
        unit_root(j, r, &re, &im);
        to[j] = (COMPLEX){(REAL)re, (REAL)im};
    }
}

static inline COMPLEX NAME(add)(COMPLEX a, COMPLEX b) {
    return (COMPLEX){a.re + b.re, a.im + b.im};
}
static inline COMPLEX NAME(subtract)(COMPLEX a, COMPLEX b) {
    return (COMPLEX){a.re - b.re, a.im - b.im};
}
static inline COMPLEX NAME(multiply)(COMPLEX a, COMPLEX b) {
    return (COMPLEX){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* Return a - i b. */
static inline COMPLEX NAME(minus_i)(COMPLEX a, COMPLEX b) {
    return (COMPLEX){a.re + b.im, a.im - b.re};
}
static inline COMPLEX NAME(plus_i)(COMPLEX a, COMPLEX b) {
    return (COMPLEX){a.re - b.im, a.im + b.re};
}

/* Do the part of a pass of radix r that has index p of m, and indices from q to
 * `end` of s. w: the twiddles of p. */
static inline void NAME(two)(const COMPLEX *restrict x, COMPLEX *restrict y,
                             const COMPLEX *w, long m, long s, long p, long q,
                             long end) {
    const COMPLEX w1 = w[0];
    const COMPLEX *a = x + s * p, *b = a + s * m;
    COMPLEX *c = y + s * 2 * p, *d = c + s;
    for (; q < end; q++) {
        const COMPLEX u = a[q], v = b[q];
        c[q] = NAME(add)(u, v);
        d[q] = NAME(multiply)(NAME(subtract)(u, v), w1);
    }
}

static inline void NAME(three)(const COMPLEX *restrict x, COMPLEX *restrict y,
                               const COMPLEX *w, long m, long s, long p, long q,
                               long end) {
    const REAL half = (REAL)0.5, h = (REAL)0.86602540378443864676;
    const COMPLEX w1 = w[0], w2 = w[1];
    const COMPLEX *a = x + s * p, *b = a + s * m, *c = b + s * m;
    COMPLEX *to = y + s * 3 * p;
    for (; q < end; q++) {
        const COMPLEX u = a[q], sum = NAME(add)(b[q], c[q]);
        const COMPLEX d = NAME(subtract)(b[q], c[q]);
        const COMPLEX side = {h * d.re, h * d.im};
        const COMPLEX mean = {u.re - half * sum.re, u.im - half * sum.im};
        to[q] = NAME(add)(u, sum);
        to[q + s] = NAME(multiply)(NAME(minus_i)(mean, side), w1);
        to[q + 2 * s] = NAME(multiply)(NAME(plus_i)(mean, side), w2);
    }
}

static inline void NAME(four)(const COMPLEX *restrict x, COMPLEX *restrict y,
                              const COMPLEX *w, long m, long s, long p, long q,
                              long end) {
    const COMPLEX w1 = w[0], w2 = w[1], w3 = w[2];
    const COMPLEX *a = x + s * p, *b = a + s * m, *c = b + s * m,
                  *d = c + s * m;
    COMPLEX *to = y + s * 4 * p;
    for (; q < end; q++) {
        const COMPLEX even = NAME(add)(a[q], c[q]);
        const COMPLEX odd = NAME(subtract)(a[q], c[q]);
        const COMPLEX sum = NAME(add)(b[q], d[q]);
        const COMPLEX side = NAME(subtract)(b[q], d[q]);
        to[q] = NAME(add)(even, sum);
        to[q + s] = NAME(multiply)(NAME(minus_i)(odd, side), w1);
        to[q + 2 * s] = NAME(multiply)(NAME(subtract)(even, sum), w2);
        to[q + 3 * s] = NAME(multiply)(NAME(plus_i)(odd, side), w3);
    }
}

/* Transform r numbers by the definition. */
static void NAME(any)(const COMPLEX *restrict x, COMPLEX *restrict y,
                      const COMPLEX *w, const COMPLEX *roots, int r, long m,
                      long s, long p, long q, long end) {
    for (; q < end; q++) {
        COMPLEX in[LARGEST];
        for (int k = 0; k < r; k++) in[k] = x[q + s * (p + m * k)];
        for (int j = 0; j < r; j++) {
            COMPLEX sum = in[0];
            for (int k = 1, at = j; k < r; k++) {
                sum = NAME(add)(sum, NAME(multiply)(in[k], roots[at]));
                at += j;
                at -= at >= r ? r : 0;
            }
            y[q + s * (r * p + j)] = j ? NAME(multiply)(sum, w[j - 1]) : sum;
        }
    }
}

static void NAME(part)(const COMPLEX *x, COMPLEX *y, const COMPLEX *w,
                       const COMPLEX *roots, int r, long m, long s, long p,
                       long q, long end) {
    switch (r) {
    case 2: NAME(two)(x, y, w, m, s, p, q, end); break;
    case 3: NAME(three)(x, y, w, m, s, p, q, end); break;
    case 4: NAME(four)(x, y, w, m, s, p, q, end); break;
    default: NAME(any)(x, y, w, roots, r, m, s, p, q, end);
    }
}

/* Do all passes over x (n,s). The result is in x after an even number of
 * passes, otherwise in y. */
static void NAME(transform)(const struct weft_fft *plan, COMPLEX *x, COMPLEX *y,
                            long s, int threads) {
    long left = plan->n;
    for (int pass = 0; pass < plan->count; pass++) {
        const int r = plan->factors[pass];
        const COMPLEX *w = plan->twiddles[pass], *roots = plan->roots[pass];
        const long m = left / r, pieces = (s + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (long i = 0; i < m * pieces; i++) {
            const long p = i / pieces, q = i % pieces * PIECE;
            NAME(part)(x, y, w + p * (r - 1), roots, r, m, s, p, q,
                       q + PIECE < s ? q + PIECE : s);
        }
        COMPLEX *const other = x;
        x = y;
        y = other;
        left = m;
        s *= r;
    }
}
#undef COMPLEX
